"""Searches over streams: the request, and the messages of the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from agent_memory.features.recall.search_operations import SearchRequest, search
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.tracing import Interface


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedRecall:
    """An answer: one message for each result, and one that completes it."""

    results: list[dict[str, Any]]
    summary: dict[str, Any]


def run_recall(request: SearchRequest, dependencies: HttpDependencies) -> StreamedRecall:
    caller = Caller(folder="", environ=dependencies.environ, interface=Interface.HTTP)
    page = dependencies.calls.call(search, caller, request)
    result: dict[str, Any] = msgspec.to_builtins(page)
    hits: list[Mapping[str, Any]] = result.pop("results")
    count = len(hits)
    return StreamedRecall(
        results=[{"memory": hit, "score": hit["score"]} for hit in hits],
        summary={
            "success": True,
            "summary": f"Found {count}" + (f" of {page.total}" if page.total > count else ""),
            "result": result,
        },
    )
