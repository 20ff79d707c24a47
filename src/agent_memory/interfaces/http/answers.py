"""Responses as JSON bytes, encoded once by msgspec, and a cache of pages."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from fastapi import Response

from agent_memory.interfaces.http.models import Problem

T = TypeVar("T")

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


def render_json(value: object, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type="application/json")


def render_page(page: tuple[Sequence[T], int], to_json: Callable[[T], dict[str, Any]]) -> Response:
    return Response(_encode_page(page, to_json), media_type="application/json")


def _encode_page(page: tuple[Sequence[T], int], to_json: Callable[[T], dict[str, Any]]) -> bytes:
    items, total = page
    return _encode({"items": [to_json(item) for item in items], "total": total})


class PageCache:
    """The encoded pages of one kind of record, until a record is written: repeated requests, as of
    a dashboard, cost next to nothing."""

    def __init__(self, version: Callable[[], int], run: ThreadRunner) -> None:
        self._version = version
        self._run = run
        self._pages: dict[Hashable, bytes] = {}
        self._size = 0
        self._cached_version = -1

    async def render(
        self,
        key: Hashable,
        read: Callable[[], tuple[Sequence[T], int]],
        to_json: Callable[[T], dict[str, Any]],
    ) -> Response:
        version = self._version()
        if version != self._cached_version:
            self._pages, self._size, self._cached_version = {}, 0, version
        body = self._pages.get(key)
        if body is None:
            body = await self._run(lambda: _encode_page(read(), to_json))
            room = len(self._pages) < MAX_PAGES and self._size + len(body) <= MAX_CACHED
            if version == self._cached_version and room:
                self._pages[key] = body
                self._size += len(body)
        return Response(body, media_type="application/json")


def render_empty() -> Response:
    return Response(status_code=204)
