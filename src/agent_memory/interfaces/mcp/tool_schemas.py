"""Requests and answers of tools: their JSON schemas, and arguments as models send them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from agent_memory.interfaces import requests
from agent_memory.interfaces.mcp import uris

T = TypeVar("T")
Schema = dict[str, Any]

# Fields that take what a client has read as a URI.
_SPELLED = frozenset({"domain", "node_id", "grip_id", "memory_ids", "relates_to"})
_NULL = {"type": "null"}


def parse_arguments(kind: type[T], arguments: Mapping[str, Any]) -> T:
    """Parse the arguments of a tool. Raises InvalidRequest."""
    cleaned = {name: _clean(name, value) for name, value in arguments.items()}
    return requests.parse_object(kind, cleaned)


def _clean(name: str, value: Any) -> Any:
    match value:
        case str():
            return uris.to_plain(value) if name in _SPELLED else value.strip()
        case list():
            return [_clean(name, each) for each in value]
        case _:
            return value


def describe_request(kind: type[Any]) -> Schema:
    """Return the schema of arguments. Some clients refuse a choice of types, so a field has the one
    that models send."""
    return {**_describe(kind, _choose_type, "title"), "additionalProperties": False}


def describe_answer(kind: type[Any]) -> Schema:
    """Return the schema of structured content."""
    return _describe(kind, _join_types, "title", "default")


def _choose_type(options: Sequence[Schema]) -> Schema:
    return next((each for each in options if each.get("type") == "string"), options[0])


def _join_types(options: Sequence[Schema]) -> Schema:
    """Join a type and null, the only choice of answers."""
    found = next(each for each in options if each != _NULL)
    return {**found, "type": [found["type"], "null"]} if _NULL in options else found


def _describe(
    kind: type[Any], choose: Callable[[Sequence[Schema]], Schema], *left_out: str
) -> Schema:
    _, components = msgspec.json.schema_components([kind], ref_template="{name}")
    return _Describer(components, choose, left_out).resolve({"$ref": kind.__name__})


@dataclass(frozen=True, slots=True)
class _Describer:
    """Writes a schema without references, some keys, and what is said of structs to people."""

    components: Mapping[str, Schema]
    choose: Callable[[Sequence[Schema]], Schema]
    left_out: Sequence[str]

    def resolve(self, schema: Schema, outer: tuple[str, ...] = ()) -> Schema:
        """Resolve a schema inside these structs. One that contains itself is any object."""
        if (name := schema.get("$ref")) is not None:
            if name in outer:
                return {"type": "object"}
            own = {key: each for key, each in schema.items() if key != "$ref"}
            schema, outer = {**self.components[name], "description": None, **own}, (*outer, name)
        if (options := schema.get("anyOf")) is not None:
            chosen = self.choose([self.resolve(each, outer) for each in options])
            schema = {**chosen, **{key: each for key, each in schema.items() if key != "anyOf"}}
        resolved = {
            key: each
            for key, each in schema.items()
            if key not in self.left_out and each is not None and (each or key != "required")
        }
        if pair := resolved.pop("prefixItems", None):
            # Both are of one type. Clients that validate by an older JSON Schema do not know the
            # word, and would allow no item at all.
            resolved["items"] = pair[0]
        if "enum" in resolved:
            resolved.setdefault("type", "string")
        for key in ("items", "additionalProperties"):
            if isinstance(inner := resolved.get(key), dict):
                resolved[key] = self.resolve(inner, outer)
        if "properties" in resolved:
            properties = resolved["properties"].items()
            resolved["properties"] = {name: self.resolve(each, outer) for name, each in properties}
        return resolved
