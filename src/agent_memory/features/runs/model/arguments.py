"""The arguments of a tool call, checked against the schema of the tool. A value that is clear
beyond doubt is accepted ("3" for 3); any other error tells the model what to change."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_memory.features.runs.model.chats import ToolSpec
from agent_memory.kernel.errors import ToolFailed

Schema = Mapping[str, Any]

MAX_CHARS = 4 << 20
_LIMITS = frozenset({"minLength", "maxLength", "minimum", "maximum", "additionalProperties"})
_FLAGS = {"true": True, "false": False}
_NAMES = {"string": "a string", "integer": "a whole number", "boolean": "true or false"}


@dataclass(frozen=True, slots=True)
class Arguments:
    values: Mapping[str, str | int | bool] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name, default)
        return value if isinstance(value, str) else default

    def number(self, name: str, default: int) -> int:
        value = self.values.get(name, default)
        return value if isinstance(value, int) else default

    def flag(self, name: str) -> bool:
        return self.values.get(name) is True


def define_tool(
    name: str, description: str, required: Sequence[str] = (), /, **properties: Schema
) -> ToolSpec:
    """Define a tool with the schema of its arguments."""
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, parameters=parameters)


def define_text(description: str, *, least: int = 0, most: int = MAX_CHARS) -> Schema:
    return {"type": "string", "description": description, "minLength": least, "maxLength": most}


def define_number(description: str, *, least: int, most: int) -> Schema:
    return {"type": "integer", "description": description, "minimum": least, "maximum": most}


def define_flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def strip_limits(spec: ToolSpec) -> ToolSpec:
    """Return the spec for the model, without limits: they cost tokens and do not help it. Servers
    build grammars from them, and our highest limits are too large for that."""
    properties = {
        name: {key: value for key, value in schema.items() if key not in _LIMITS}
        for name, schema in spec.parameters["properties"].items()
    }
    rest = {key: value for key, value in spec.parameters.items() if key not in _LIMITS}
    return replace(spec, parameters={**rest, "properties": properties})


def parse_arguments(spec: ToolSpec, text: str) -> Arguments:
    """Parse the arguments of a call as its schema says. Raises ToolFailed."""
    properties: Mapping[str, Mapping[str, Any]] = spec.parameters.get("properties", {})
    values: dict[str, str | int | bool] = {}
    for name, value in _parse_object(text).items():
        schema = properties.get(name)
        if schema is None:
            known = ", ".join(properties) or "none"
            raise ToolFailed(f"{spec.name} has no argument {_quote_name(name)}; it takes: {known}")
        if value is not None:  # many models send null for an omitted argument
            values[name] = _check_value(name, value, schema)
    missing = [name for name in spec.parameters.get("required", ()) if name not in values]
    if missing:
        raise ToolFailed(f"{spec.name} needs the argument {', '.join(missing)}")
    return Arguments(values)


def _parse_object(text: str) -> dict[str, Any]:
    if len(text) > MAX_CHARS:
        raise ToolFailed(f"the arguments have more than {MAX_CHARS:,} characters")
    try:
        values = json.loads(text) if text.strip() else {}
    except ValueError as exc:
        raise ToolFailed(f"the arguments are not JSON: {exc}") from exc
    except RecursionError as exc:
        raise ToolFailed("the arguments are not JSON: they are nested too deeply") from exc
    if not isinstance(values, dict):
        raise ToolFailed('the arguments must be a JSON object, such as {"name": "value"}')
    return values


def _check_value(name: str, value: Any, schema: Mapping[str, Any]) -> str | int | bool:
    kind = schema["type"]
    if kind == "string" and isinstance(value, str):
        return _text(name, value, schema)
    if kind == "boolean":
        flag = _FLAGS.get(value.lower()) if isinstance(value, str) else value
        if isinstance(flag, bool):
            return flag
    if kind == "integer" and (number := _number(value)) is not None:
        return _within(name, number, schema)
    raise ToolFailed(f"{name} must be {_NAMES[kind]}, not {_kind(value)}")


def _text(name: str, value: str, schema: Mapping[str, Any]) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise ToolFailed(
            f"{name} is not valid Unicode: it contains half of a surrogate pair"
        ) from exc
    least, most = schema.get("minLength", 0), schema.get("maxLength", MAX_CHARS)
    if len(value) < least:
        raise ToolFailed(f"{name} must not be empty")
    if len(value) > most:
        raise ToolFailed(f"{name} has {len(value):,} characters; the limit is {most:,}")
    return value


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    if isinstance(value, str) and value.isascii() and value.lstrip("-").isdigit():
        return int(value) if len(value) < 16 and value.rfind("-") <= 0 else None
    return value if isinstance(value, int) else None


def _within(name: str, value: int, schema: Mapping[str, Any]) -> int:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and value < least:
        raise ToolFailed(f"{name} must be at least {least:,}")
    if most is not None and value > most:
        raise ToolFailed(f"{name} must be at most {most:,}")
    return value


def _kind(value: Any) -> str:
    """Name the type of a value. The value itself may be too long for a message."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"


def _quote_name(name: str) -> str:
    return json.dumps(name if len(name) <= 80 else name[:80] + "...")
