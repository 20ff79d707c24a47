"""Responses as JSON bytes, encoded by msgspec, and a cache of them."""

from collections.abc import Hashable
from typing import Any

import msgspec
from pydantic import BaseModel
from starlette.responses import Response

MAX_CACHED = 8 << 20  # bytes of answers per cache
MAX_ANSWERS = 1_000


class Problem(BaseModel):
    detail: Any


_encode = msgspec.json.Encoder().encode

# The errors of every route; most come from the gate in front of them.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request is malformed"},
    401: {"model": Problem, "description": "The key is missing or unknown"},
    403: {"model": Problem, "description": "The origin is not allowed"},
    409: {"model": Problem, "description": "This daemon does not have it"},
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


class AnswerCache:
    """Encoded answers, until the version of what they show changes: repeated requests, as of a
    dashboard, cost next to nothing."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, bytes] = {}
        self._size = 0
        self._version = -1

    def find(self, version: int, key: Hashable) -> bytes | None:
        if version != self._version:
            self._answers, self._size, self._version = {}, 0, version
        return self._answers.get(key)

    def keep(self, version: int, key: Hashable, body: bytes) -> None:
        """Keep an answer that was read after its version, unless that has changed."""
        room = len(self._answers) < MAX_ANSWERS and self._size + len(body) <= MAX_CACHED
        if version == self._version and room:
            self._answers[key] = body
            self._size += len(body)


def render_empty() -> Response:
    return Response(status_code=204)
