"""Responses as JSON bytes, encoded once by msgspec, and a cache of pages."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from fastapi import Response

from agent_memory.interfaces.http.models import Problem
from agent_memory.kernel import access

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_CACHED = 8 << 20  # bytes of pages per cache
MAX_PAGES = 1_000


class ThreadRunner(Protocol):
    """Runs a call in a thread: `Bridge.run`."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


_encode = msgspec.json.Encoder().encode

# The errors of every route; most come from the gate in front of them.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request is malformed"},
    401: {"model": Problem, "description": "The key is missing or unknown"},
    403: {"model": Problem, "description": "The origin is not allowed"},
    413: {"model": Problem, "description": "The body is too large"},
    421: {"model": Problem, "description": "The Host is not allowed"},
    422: {"model": Problem, "description": "A parameter or field is invalid"},
    429: {"model": Problem, "description": "Too many requests"},
    431: {"model": Problem, "description": "The URL or the headers are too large"},
    503: {"model": Problem, "description": "The daemon is overloaded or stopping"},
}
MISSING: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "Not found"}}
UNAVAILABLE: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "This daemon does not have it"}
}


def render_json(value: object, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type="application/json")


def render_page(page: tuple[Sequence[T], int], to_json: Callable[[T], dict[str, Any]]) -> Response:
    return Response(_encode_page(page, to_json), media_type="application/json")


def _encode_page(page: tuple[Sequence[T], int], to_json: Callable[[T], dict[str, Any]]) -> bytes:
    items, total = page
    return _encode({"items": [to_json(item) for item in items], "total": total})


class Records(Protocol[T_co]):
    """The records of one kind: `Facts` or a `RecordService`."""

    @property
    def page(self) -> Callable[..., tuple[Sequence[T_co], int]]: ...

    def version(self) -> int: ...


class RecordRenderer(Generic[T]):
    """Renders the records of one kind. Encoded pages are cached until a record is written: repeated
    requests, as of a dashboard, cost next to nothing."""

    def __init__(
        self,
        run: ThreadRunner,
        records: Records[T],
        to_json: Callable[[T], dict[str, Any]],
    ) -> None:
        self._run = run
        self._records = records
        self._to_json = to_json
        self._pages: dict[Hashable, bytes] = {}
        self._size = 0
        self._cached_version = -1

    async def render(self, read: Callable[[], T], status: int = 200) -> Response:
        """Render the record that `read` returns in a thread."""
        return render_json(self._to_json(await self._run(read)), status)

    async def render_page(self, **filters: str | int | None) -> Response:
        version = self._records.version()
        if version != self._cached_version:
            self._pages, self._size, self._cached_version = {}, 0, version
        key = (access.get_caller(), *filters.values())  # on a team server, each sees their own
        body = self._pages.get(key)
        if body is None:
            body = await self._run(
                lambda: _encode_page(self._records.page(**filters), self._to_json)
            )
            room = len(self._pages) < MAX_PAGES and self._size + len(body) <= MAX_CACHED
            if version == self._cached_version and room:
                self._pages[key] = body
                self._size += len(body)
        return Response(body, media_type="application/json")


def render_empty() -> Response:
    return Response(status_code=204)
