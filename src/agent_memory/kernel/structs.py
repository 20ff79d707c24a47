"""Structs of operations: pages, ids, and what they have in common with the records behind them."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct

from agent_memory.kernel import limits

MAX_LIMIT = 500
MAX_OFFSET = 1_000_000
MAX_IDS = 1_000

Limit = Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="The most items to return.")]
Offset = Annotated[int, Meta(ge=0, le=MAX_OFFSET, description="Items to skip.")]
Filter = Annotated[str, Meta(max_length=limits.NAME_CHARS)] | None
Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS)]
OptionalName = Annotated[str, Meta(max_length=limits.NAME_CHARS)] | None

R = TypeVar("R")
S = TypeVar("S", bound=Struct)
T = TypeVar("T")


class PageRequest(Struct, frozen=True, kw_only=True):
    limit: Limit = 50
    offset: Offset = 0


class Items(Struct, Generic[T], frozen=True, kw_only=True):
    items: list[T]
    total: int

    @classmethod
    def from_page(cls, page: tuple[Sequence[R], int], convert: Callable[[R], T]) -> "Items[T]":
        return cls(items=[convert(each) for each in page[0]], total=page[1])


class Ids(Struct, frozen=True, kw_only=True):
    ids: Annotated[list[Annotated[str, Meta(max_length=128)]], Meta(max_length=MAX_IDS)]


def copy_fields(kind: type[S], record: object, **values: Any) -> S:
    """Build an answer from the fields of a record that have the same name, and these values."""
    names = [name for name in kind.__struct_fields__ if name not in values]
    return kind(**{name: getattr(record, name) for name in names}, **values)


def list_changes(request: Struct, *, but: str) -> dict[str, Any]:
    """Return the fields that a request contains, those that are not UNSET, `but` the id of what
    is to be changed."""
    values = msgspec.structs.asdict(request)
    return {name: each for name, each in values.items() if each is not UNSET and name != but}
