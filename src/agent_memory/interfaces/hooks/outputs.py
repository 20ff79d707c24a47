"""Answers to hooks, each in the shape that belongs to its question."""

import json
from collections.abc import Mapping
from typing import Any

from agent_memory.features.hooks.model.hooks import HookKind
from agent_memory.interfaces.hooks.inputs import CHECK, Contract, HookRequest

MAX_CONTEXT_CHARS = 10_000  # what is longer, an agent puts into a file
# A context anywhere else would make the agent go on, or be shown as an error.
_TAKES_CONTEXT = frozenset({HookKind.SESSION_START, HookKind.PROMPT, HookKind.TOOL})


def render_answer(question: HookRequest, context: str) -> bytes:
    if question.contract is Contract.SIMPLE:
        return render_simple(context, ended=question.call.moment is HookKind.SESSION_END)
    if (
        question.contract is Contract.SILENT
        or question.call.moment not in _TAKES_CONTEXT
        or not 0 < len(context) <= MAX_CONTEXT_CHARS
    ):
        return _encode({})
    return _encode(_build_context(question.event, context))


def render_check(version: str) -> bytes:
    return _encode(_build_context(CHECK, f"Agent Memory {version}"))


def render_empty(contract: Contract) -> bytes:
    return render_failure(contract, "")


def render_failure(contract: Contract, reason: str) -> bytes:
    if contract is not Contract.SIMPLE:
        return _encode({})
    told = reason.replace("--", "- -").replace("\n", " ")
    return render_simple(f"<!-- hook error: {told} -->" if reason else "", ended=False)


def render_simple(context: str, *, ended: bool) -> bytes:
    return _encode({"additionalContext": context, "suppressSystemPrompt": ended})


def _build_context(event: str, text: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _encode(value: Mapping[str, Any]) -> bytes:
    """As ASCII: a lone surrogate in it would be no UTF-8."""
    return json.dumps(value).encode() + b"\n"
