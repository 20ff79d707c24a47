"""Render answers to hooks, each in the format of its contract."""

import json
from collections.abc import Mapping
from typing import Any

from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.hooks.model.installations import Agent
from agent_memory.features.hooks.model.preferences import ReplyFormat
from agent_memory.features.recall.model import contexts
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.interfaces.hooks.inputs import CHECK, Contract, HookRequest

MAX_CONTEXT_CHARS = 10_000  # agents put a longer context into a file
# 200 characters are room for the JSON around the context.
MAX_TOKENS = estimate_tokens("x" * (MAX_CONTEXT_CHARS - 200))
# Claude Code shows the output for these events, and the model gets that of the first.
SHOWN = frozenset({"PreCompact", "PostCompact"})
# The contracts that `launcher/last_context.py` can answer.
KEPT = frozenset({Contract.SIMPLE, Contract.AGENT, Contract.COPILOT})
NOTHING = b"\n"  # not empty: that means that the call must be spooled
# A context for any other kind would make the agent continue, or be shown as an error.
_TAKES_CONTEXT = frozenset({HookKind.SESSION_START, HookKind.PROMPT, HookKind.TOOL})
# What only these agents take. Before a tool, an answer decides about no permission.
_AROUND_TOOLS = frozenset({Agent.CLAUDE_CODE, Agent.CODEX, Agent.COPILOT, Agent.OPENCODE})
_TAKEN_BY = {
    HookKind.BEFORE_TOOL: _AROUND_TOOLS,
    HookKind.TOOL_FAILURE: _AROUND_TOOLS | {Agent.GEMINI},
}


def get_format(contract: Contract) -> ReplyFormat:
    """Return what an answer under this contract has room for."""
    simple = contract is Contract.SIMPLE
    return ReplyFormat(
        max_tokens=contexts.MAX_TOKENS if simple else MAX_TOKENS,
        is_simple=simple,
        is_kept=contract in KEPT,
    )


def takes_context(request: HookRequest, context: str) -> bool:
    """Tell whether the agent takes this context in the answer to this call."""
    if request.contract is Contract.SIMPLE:
        return bool(context)
    return (
        request.contract is not Contract.SILENT
        and _takes_kind(request.call)
        and 0 < len(context) <= MAX_CONTEXT_CHARS
    )


def _takes_kind(call: HookCall) -> bool:
    return call.kind in _TAKES_CONTEXT or call.about["agent"] in _TAKEN_BY.get(call.kind, ())


def render_answer(request: HookRequest, context: str) -> bytes:
    """Render the answer to a call; leave out a context that the agent would not take."""
    if request.contract is Contract.SIMPLE:
        return _render_simple(context, ended=request.call.kind is HookKind.SESSION_END)
    if request.event in SHOWN and request.call.about["agent"] == Agent.CLAUDE_CODE:
        return NOTHING
    if not takes_context(request, context):
        return _encode({})
    return _encode(_build_answer(request, context))


def _build_answer(request: HookRequest, context: str) -> dict[str, Any]:
    match request.contract:
        case Contract.CLINE:
            return {"cancel": False, "contextModification": context}
        case Contract.COPILOT:  # the command line reads the first, VS Code the second
            return {"additionalContext": context, **_build_context(request.event, context)}
        case _:
            return _build_context(request.event, context)


def render_check(version: str) -> bytes:
    """Render the answer to `memory doctor`."""
    return _encode(_build_context(CHECK, f"Agent Memory {version}"))


def render_failure(contract: Contract, reason: str) -> bytes:
    """Render the answer to a refused call. Only the simple contract has room for the reason."""
    if contract is not Contract.SIMPLE:
        return _encode({})
    comment = reason.replace("--", "- -").replace("\n", " ")
    return _render_simple(f"<!-- hook error: {comment} -->" if reason else "", ended=False)


def _render_simple(context: str, *, ended: bool) -> bytes:
    return _encode({"additionalContext": context, "suppressSystemPrompt": ended})


def _build_context(event: str, text: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _encode(value: Mapping[str, Any]) -> bytes:
    """Encode as ASCII: a lone surrogate would not be valid UTF-8."""
    return json.dumps(value).encode() + b"\n"
