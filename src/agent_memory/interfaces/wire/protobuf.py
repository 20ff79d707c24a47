"""Structs as protobuf messages and back, by the names of their fields.

Names of enums are lower-case without the prefix of their type, as in JSON.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from agent_memory.interfaces import requests

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def to_message(kind: type[M], value: Any) -> M:
    """Build a message from a struct. Fields that only one of them has are left out."""
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


def _read(message: Message, kind: Any = None) -> dict[str, Any]:
    needed = {name for name, field in requests.list_fields(kind).items() if field.required}
    values: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = _from_field(field, message)
        # A field without presence is sent as empty also when its sender has set nothing.
        if value is not None and (value or field.has_presence or field.name in needed):
            values[field.name] = value
    return values


def _from_field(field: Any, message: Message) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        return dict(value)
    if field.is_repeated:
        return [_from_single(field, each) for each in value]
    return _from_single(field, value)


def _from_single(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return _read(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name.removeprefix(_prefix(field.enum_type)).lower()
    return value


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _prefix(enum: Any) -> str:
    """Return what the names of an enum begin with: that of its unspecified value."""
    first: str = enum.values_by_number[0].name
    return first.removesuffix("UNSPECIFIED")
