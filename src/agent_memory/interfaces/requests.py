"""Requests from texts and JSON: the fields of a struct, and what is wrong with a value.

A message names the field and what is expected, never the value: it may hold a secret.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import NODEFAULT, ValidationError
from msgspec.structs import FieldInfo

from agent_memory.kernel.errors import InvalidInput

T = TypeVar("T")

_LISTS = (
    msgspec.inspect.ListType,
    msgspec.inspect.SetType,
    msgspec.inspect.FrozenSetType,
    msgspec.inspect.VarTupleType,
)

_PLACE = re.compile(r" - at (?:`key` in )?`\$?\.?(?P<path>[^`]*)`$")
_SHOWN = 5  # problems in a message: a caller may send thousands of fields
_NAMED = re.compile(r"(?:missing required|contains unknown) field `(?P<name>[^`]*)`")


class FieldProblem(NamedTuple):
    """What is wrong with a request, and the field that it is in, from the outside in."""

    field: tuple[str, ...]
    message: str
    kind: str = "value_error"

    def __str__(self) -> str:
        return f"{'.'.join(self.field)}: {self.message}" if self.field else self.message


class InvalidRequest(InvalidInput):
    """A field of a request is missing, unknown or invalid."""

    def __init__(self, *problems: FieldProblem) -> None:
        super().__init__("; ".join(map(str, problems[:_SHOWN])))
        self.problems = problems


def list_fields(kind: Any) -> Mapping[str, FieldInfo]:
    """Return the fields of a struct by the names that callers use; of None, none."""
    if kind is None:
        return {}
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def is_list(kind: Any) -> bool:
    """Tell whether a field takes several values."""
    described = msgspec.inspect.type_info(kind)
    if isinstance(described, msgspec.inspect.Metadata):
        described = described.type
    kinds = described.types if isinstance(described, msgspec.inspect.UnionType) else (described,)
    return any(isinstance(each, _LISTS) for each in kinds)


def parse_value(field: FieldInfo, value: object) -> Any:
    """Parse the text of a field, or its texts if it is a list. Raises InvalidRequest."""
    try:
        return msgspec.convert(value, field.type, strict=False)
    except ValidationError as exc:
        raise InvalidRequest(describe(exc, field.encode_name)) from None


def parse(kind: type[T], content: object) -> T:
    """Parse a request from JSON that is decoded. Raises InvalidRequest."""
    try:
        return msgspec.convert(content, kind)
    except ValidationError as exc:
        raise InvalidRequest(describe(exc)) from None


def parse_object(kind: type[T], content: Mapping[str, Any]) -> T:
    """Parse a request that has no other fields than its own. Raises InvalidRequest."""
    if unknown := content.keys() - list_fields(kind):
        raise InvalidRequest(*map(refuse_unknown, sorted(unknown)))
    return parse(kind, content)


def build(kind: type[T], values: Mapping[str, Any]) -> T:
    """Build a request from parsed values, by the names that callers use. Raises InvalidRequest."""
    known = list_fields(kind)
    missing = [
        name
        for name, field in known.items()
        if name not in values and field.default is NODEFAULT and field.default_factory is NODEFAULT
    ]
    if missing:
        raise InvalidRequest(*map(_require, missing))
    try:
        return kind(**{known[name].name: value for name, value in values.items()})
    except (TypeError, ValueError) as exc:
        raise InvalidRequest(FieldProblem((), str(exc))) from None


def describe(error: ValidationError, *outer: str) -> FieldProblem:
    """Say which field is wrong, without its value."""
    text = str(error)
    place = _PLACE.search(text)
    inner = [] if place is None else re.findall(r"[^.\[\]]+", place["path"])
    message = text if place is None else text[: place.start()]
    if (named := _NAMED.search(message)) is not None:
        name = (*outer, *inner, named["name"])
        return _require(*name) if "missing" in named[0] else refuse_unknown(*name)
    if message.startswith("Invalid enum value"):  # it quotes the value
        message = "Not one of the allowed values"
    return FieldProblem((*outer, *inner), message)


def _require(*field: str) -> FieldProblem:
    return FieldProblem(field, "Field required", "missing")


def refuse_unknown(*field: str) -> FieldProblem:
    return FieldProblem(field, "Extra inputs are not permitted", "extra_forbidden")
