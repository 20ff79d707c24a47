"""Answers as bytes: encoded once, by the fastest encoder at hand."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import Response

from agent_memory.interfaces.http.models import Problem

T = TypeVar("T")

_encode = msgspec.json.Encoder().encode

# What every route may answer, whoever asks: see the gate in front of them.
PROBLEMS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problem, "description": "No key, or one that is not known"},
    403: {"model": Problem, "description": "A foreign origin"},
    413: {"model": Problem, "description": "The body is too large"},
    421: {"model": Problem, "description": "A foreign host"},
    422: {"model": Problem, "description": "Something that was asked for cannot be"},
    429: {"model": Problem, "description": "Too many requests"},
    503: {"model": Problem, "description": "Too much unfinished work, or stopping"},
}
MISSING: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "Not there"}}


def json(value: object, status: int = 200) -> Response:
    return Response(_encode(value), status, media_type="application/json")


def page(found: tuple[Sequence[T], int], shown: Callable[[T], dict[str, Any]]) -> Response:
    items, total = found
    return json({"items": [shown(item) for item in items], "total": total})


def nothing() -> Response:
    return Response(status_code=204)
