"""Structs as protobuf messages and back, by the names of their fields.

Names of enums are lower-case without the prefix of their type, as in JSON.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from msgspec import inspect

from agent_memory.interfaces import requests

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def to_message(kind: type[M], value: Any) -> M:
    """Build a message from a struct, or from None. Fields that only one of them has are left
    out."""
    if value is None:
        return kind()
    return _fill(kind, msgspec.to_builtins(value, builtin_types=(bytes,)))


def _fill(kind: type[M], values: Mapping[str, Any]) -> M:
    filled: dict[str, Any] = {}
    for field in kind.DESCRIPTOR.fields:
        value = values.get(field.name)
        if value is not None:
            filled[field.name] = _to_field(field, value)
    return kind(**filled)


def _to_field(field: Any, value: Any) -> Any:
    if _is_map(field):
        return value
    if field.is_repeated:
        return [_to_single(field, each) for each in value]
    return _to_single(field, value)


def _to_single(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _fill(GetMessageClass(field.message_type), value)
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[_prefix(field.enum_type) + value.upper()].number
    return value


def from_message(kind: type[T], message: Message) -> T:
    """Build a struct from a message. A field that is not set has the struct's default. Raises
    InvalidInput."""
    return requests.parse(kind, _read(message, kind))


class _FieldReader(NamedTuple):
    """How a field of a struct is read from a message."""

    name: str
    has_presence: bool
    is_required: bool
    is_nullable: bool
    read: Callable[[Any], Any]


def _read(message: Message, kind: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in _build_readers(message.DESCRIPTOR, kind):
        if field.has_presence and not message.HasField(field.name):
            if field.is_required and field.is_nullable:
                values[field.name] = None
            continue
        value = field.read(getattr(message, field.name))
        # A field without presence is sent as empty also when its sender has set nothing.
        if value or field.has_presence or field.is_required:
            values[field.name] = value
    return values


@cache
def _build_readers(message: Any, kind: Any) -> tuple[_FieldReader, ...]:
    """Build the readers of the fields that a message and a struct or dataclass both have."""
    described: Any = inspect.type_info(kind)
    return tuple(
        _FieldReader(
            name=each.encode_name,
            has_presence=field.has_presence,
            is_required=each.required,
            is_nullable=isinstance(each.type, inspect.UnionType) and each.type.includes_none,
            read=_build_reader(field, _find_object(each.type)),
        )
        for each in described.fields
        if (field := message.fields_by_name.get(each.encode_name)) is not None
    )


def _build_reader(field: Any, kind: type[Any] | None) -> Callable[[Any], Any]:
    if _is_map(field):
        return dict
    if field.is_repeated:
        return lambda values: [_read_single(field, each, kind) for each in values]
    return lambda value: _read_single(field, value, kind)


def _read_single(field: Any, value: Any, kind: type[Any] | None) -> Any:
    if field.message_type is not None:
        return {} if kind is None else _read(value, kind)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name.removeprefix(_prefix(field.enum_type)).lower()
    return value


def _find_object(described: Any) -> type[Any] | None:
    """Return the struct or dataclass that a type is, may be, or is a list of."""
    match described:
        case inspect.StructType(cls=kind) | inspect.DataclassType(cls=kind):
            return kind
        case inspect.UnionType(types=types):
            return next(filter(None, map(_find_object, types)), None)
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            return _find_object(inner)
        case inspect.Metadata(type=inner):
            return _find_object(inner)
    return None


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _prefix(enum: Any) -> str:
    """Return what the names of an enum begin with: that of its unspecified value."""
    first: str = enum.values_by_number[0].name
    return first.removesuffix("UNSPECIFIED")
