"""Answers to hooks, each in the shape that belongs to its question."""

import json
from collections.abc import Mapping
from typing import Any

from agent_memory.features.hooks.model.hooks import Moment
from agent_memory.interfaces.hooks.inputs import CHECK, Contract, Question

MAX_CONTEXT_CHARS = 10_000  # what is longer, an agent puts into a file
# A context anywhere else would make the agent go on, or be shown as an error.
_TAKES_CONTEXT = frozenset({Moment.SESSION_START, Moment.PROMPT, Moment.TOOL})


def answer(question: Question, context: str) -> bytes:
    if question.contract is Contract.SIMPLE:
        return simple(context, ended=question.told.moment is Moment.SESSION_END)
    if (
        question.contract is Contract.SILENT
        or question.told.moment not in _TAKES_CONTEXT
        or not 0 < len(context) <= MAX_CONTEXT_CHARS
    ):
        return _encoded({})
    return _encoded(_context(question.event, context))


def checked(version: str) -> bytes:
    return _encoded(_context(CHECK, f"Agent Memory {version}"))


def nothing(contract: Contract) -> bytes:
    return failure(contract, "")


def failure(contract: Contract, reason: str) -> bytes:
    if contract is not Contract.SIMPLE:
        return _encoded({})
    told = reason.replace("--", "- -").replace("\n", " ")
    return simple(f"<!-- hook error: {told} -->" if reason else "", ended=False)


def simple(context: str, *, ended: bool) -> bytes:
    return _encoded({"additionalContext": context, "suppressSystemPrompt": ended})


def _context(event: str, text: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _encoded(value: Mapping[str, Any]) -> bytes:
    """As ASCII: a lone surrogate in it would be no UTF-8."""
    return json.dumps(value).encode() + b"\n"
