"""Answers as bytes: encoded once, by the fastest encoder at hand."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from fastapi import Response

from agent_memory.interfaces.http.models import Problem

T = TypeVar("T")

MAX_KEPT = 8 << 20  # bytes of pages of one kind
MAX_PAGES = 1_000


class ThreadRunner(Protocol):
    """Runs a service in a thread: `Bridge.run`."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


_encode = msgspec.json.Encoder().encode

# What every route may answer, whoever asks: see the gate in front of them.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "A request that cannot be read"},
    401: {"model": Problem, "description": "No key, or one that is not known"},
    403: {"model": Problem, "description": "A foreign origin"},
    413: {"model": Problem, "description": "The body is too large"},
    421: {"model": Problem, "description": "A foreign host"},
    422: {"model": Problem, "description": "Something that was asked for cannot be"},
    429: {"model": Problem, "description": "Too many requests"},
    431: {"model": Problem, "description": "The address or the headers are too large"},
    503: {"model": Problem, "description": "Too much unfinished work, or stopping"},
}
MISSING: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "Not there"}}


def render_json(value: object, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type="application/json")


def render_page(found: tuple[Sequence[T], int], shown: Callable[[T], dict[str, Any]]) -> Response:
    return Response(_encode_page(found, shown), media_type="application/json")


def _encode_page(found: tuple[Sequence[T], int], shown: Callable[[T], dict[str, Any]]) -> bytes:
    items, total = found
    return _encode({"items": [shown(item) for item in items], "total": total})


class PageCache:
    """The pages of one kind of record, kept as bytes for as long as nothing is written: who asks
    again, as a dashboard does, costs next to nothing."""

    def __init__(self, version: Callable[[], int], run: ThreadRunner) -> None:
        self._version = version
        self._run = run
        self._kept: dict[Hashable, bytes] = {}
        self._size = 0
        self._of = -1  # the version that they are of

    async def render(
        self,
        wanted: Hashable,
        read: Callable[[], tuple[Sequence[T], int]],
        shown: Callable[[T], dict[str, Any]],
    ) -> Response:
        version = self._version()
        if version != self._of:
            self._kept, self._size, self._of = {}, 0, version
        body = self._kept.get(wanted)
        if body is None:
            body = await self._run(lambda: _encode_page(read(), shown))
            room = len(self._kept) < MAX_PAGES and self._size + len(body) <= MAX_KEPT
            if version == self._of and room:
                self._kept[wanted] = body
                self._size += len(body)
        return Response(body, media_type="application/json")


def render_empty() -> Response:
    return Response(status_code=204)
