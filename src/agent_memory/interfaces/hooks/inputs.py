"""Parse hook inputs: those of each agent, and the simple contract of `memory hook`."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from agent_memory.features.hooks.model import descriptions, tool_use, transcripts
from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.hooks.model.installations import PLUGIN_FLAG, Agent
from agent_memory.features.hooks.model.tool_use import ToolUse
from agent_memory.interfaces.command_socket.calls import CommandCall
from agent_memory.interfaces.hooks import dialects
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from agent_memory.kernel.text.private import strip_private
from agent_memory.launcher import command_client

AGENTS = tuple(agent.value for agent in Agent)
AUTO = "auto"
DRAIN = "drain"  # in place of a hook's name: the spool has calls to record
CHECK = "MemoryCheck"  # an event of no agent: `memory doctor` tests whether hooks are answered
NAMES = (
    *(kind.value for kind in HookKind if kind not in (HookKind.ANSWER, HookKind.OTHER)),
    AUTO,
)
MAX_DECISIONS = 50

_KINDS = {
    # Claude Code and Codex
    "SessionStart": HookKind.SESSION_START,
    "UserPromptSubmit": HookKind.PROMPT,
    "PreToolUse": HookKind.BEFORE_TOOL,
    "PostToolUse": HookKind.TOOL,
    "PostToolUseFailure": HookKind.TOOL_FAILURE,
    "PreCompact": HookKind.COMPACTION,
    "PostCompact": HookKind.SUMMARY,
    "Stop": HookKind.STOP,
    "SubagentStart": HookKind.SUBAGENT_START,
    "SubagentStop": HookKind.SUBAGENT_STOP,
    "SessionEnd": HookKind.SESSION_END,
    # Gemini CLI
    "BeforeAgent": HookKind.PROMPT,
    "AfterAgent": HookKind.STOP,
    "BeforeTool": HookKind.BEFORE_TOOL,
    "AfterTool": HookKind.TOOL,
    "PreCompress": HookKind.COMPACTION,
    # Cursor
    "sessionStart": HookKind.SESSION_START,
    "sessionEnd": HookKind.SESSION_END,
    "preCompact": HookKind.COMPACTION,
    "beforeSubmitPrompt": HookKind.PROMPT,
    "afterAgentResponse": HookKind.ANSWER,
    "afterFileEdit": HookKind.TOOL,
    "afterShellExecution": HookKind.TOOL,
    "afterMCPExecution": HookKind.TOOL,
    "stop": HookKind.STOP,
}
_GEMINI_EVENTS = frozenset({"BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool", "PreCompress"})
_CURSOR_TOOLS = {"afterShellExecution": "Shell", "afterFileEdit": "Edit"}  # sent without a name
# In the simple contract, a stop ends the session.
_SIMPLE_KINDS = {**_KINDS, "Stop": HookKind.SESSION_END}
_ENDINGS = frozenset({HookKind.STOP, HookKind.SUBAGENT_STOP, HookKind.SESSION_END, HookKind.ANSWER})
_OF_TOOLS = (HookKind.BEFORE_TOOL, HookKind.TOOL, HookKind.TOOL_FAILURE)


class Contract(Enum):
    """The format of an answer."""

    SIMPLE = "simple"  # with `hook`: additionalContext and suppressSystemPrompt
    AGENT = "agent"  # with `hook_event_name`: hookSpecificOutput
    COPILOT = "copilot"  # takes the context at the top level too
    CLINE = "cline"  # contextModification
    SILENT = "silent"  # takes no context at all


_CONTRACTS = {
    Agent.COPILOT: Contract.COPILOT,
    Agent.CLINE: Contract.CLINE,
    Agent.CURSOR: Contract.SILENT,
    Agent.WINDSURF: Contract.SILENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One call of `memory hook`, as the launcher sends it."""

    name: str
    agent: str
    folder: str
    environ: Mapping[str, str]
    nonce: str
    at_ms: int
    data: bytes
    plugin: bool = False

    @classmethod
    def parse(
        cls,
        arguments: Sequence[str],
        *,
        folder: str,
        environ: Mapping[str, str],
        nonce: str,
        at_ms: int,
        data: bytes,
    ) -> Self:
        """Parse the arguments of `memory hook`."""
        words = list(arguments)
        return cls(
            name=command_client.hook_name(words),
            agent=command_client.option(words, "--agent") or "",
            folder=folder,
            environ=environ,
            nonce=nonce,
            at_ms=at_ms,
            data=data,
            plugin=PLUGIN_FLAG in words,
        )

    @classmethod
    def parse_frame(cls, call: CommandCall, payload: bytes, now: Callable[[], int]) -> Self:
        """Parse the launcher's call and its frame: a line with the time, then the input."""
        millis, _, data = payload.partition(b"\n")
        return cls.parse(
            call.arguments,
            folder=str(call.cwd),
            environ=call.environ,
            nonce=call.nonce,
            at_ms=int(millis) if millis.isdigit() else now(),
            data=data,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRequest:
    """A hook call with the contract of its answer."""

    contract: Contract
    event: str  # the agent's own name for it
    call: HookCall


def parse_delivery(delivery: Delivery) -> HookRequest:
    """Parse the input. Raises InvalidInput if it is not a JSON object or the hook is unknown."""
    if delivery.name not in NAMES:
        raise InvalidInput(f"there is no hook {delivery.name!r}; hooks are {', '.join(NAMES)}")
    try:
        value = json.loads(delivery.data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"the input is not JSON: {exc}") from exc
    if not isinstance(value, dict):
        raise InvalidInput("the input is not a JSON object")
    fields = Fields(dialects.translate(value))
    event = fields.text("hook_event_name")
    if event:
        agent = _get_agent(event, fields, delivery.agent)
        contract = _CONTRACTS.get(Agent(agent), Contract.AGENT) if agent else Contract.AGENT
        kind = _KINDS.get(event, HookKind.OTHER)
        if event == "AfterTool":
            result = fields.fields("tool_response")
            if result.value("error"):
                kind = HookKind.TOOL_FAILURE
                contract = Contract.SILENT  # Gemini CLI tells its model the error alone
            elif tool_use.has_failed(result.text("llmContent")):
                kind = HookKind.TOOL_FAILURE
        if event == "PreCompress" and fields.value("trigger") == "auto":
            kind = HookKind.OTHER  # Gemini CLI sends it before every request
        if event == "SubagentStop" and fields.value("agent_type") == "":
            kind = HookKind.OTHER  # Claude Code itself, which suggests a prompt or compacts
        # Codex has no event of its own for it.
        if (
            kind is HookKind.TOOL
            and agent == Agent.CODEX
            and tool_use.is_failure(fields.value("tool_response"))
        ):
            kind = HookKind.TOOL_FAILURE
    else:
        contract = Contract.SIMPLE
        event = fields.text("hook")
        kind = HookKind.OTHER if delivery.name == AUTO else HookKind(delivery.name)
        if kind is HookKind.STOP:
            kind = HookKind.SESSION_END
        kind = _SIMPLE_KINDS.get(event, kind)
    call = _build_call(kind, event, fields, delivery)
    return HookRequest(contract=contract, event=event, call=call)


def guess_contract(data: bytes) -> Contract:
    """Return the contract of an input that may not be readable."""
    simple = b'"hook"' in data and b'"hook_event_name"' not in data
    return Contract.SIMPLE if simple else Contract.AGENT


def _build_call(kind: HookKind, event: str, fields: Fields, delivery: Delivery) -> HookCall:
    about = {name: fields.text(name) for name in ("model", "source", "reason", "agent_type")}
    return HookCall(
        kind=kind,
        session=transcripts.build_session_id(
            fields.text("session_id", "conversation_id"), fields.text("agent_id")
        ),
        at_ms=transcripts.parse_millis(fields.value("timestamp")) or delivery.at_ms,
        nonce=delivery.nonce,
        call_id=_get_id(kind, fields),
        text=_get_text(kind, fields),
        # Subagents have their own sessions, and no titles.
        title=""
        if "agent_id" in fields
        else descriptions.clean_title(fields.text("session_title")),
        use=_parse_use(kind, event, fields),
        folder=_get_folder(fields) or delivery.folder,
        branch=fields.text("git_branch"),
        decisions=_get_decisions(fields),
        plugin=delivery.plugin,
        about={
            "agent": _get_agent(event, fields, delivery.agent),
            **{name: value for name, value in about.items() if value},
        },
    )


def _get_agent(event: str, fields: Fields, name: str) -> str:
    """Return the agent's name, guessed from what only this agent sends if it is not given."""
    if name in AGENTS:  # a typing error here is no reason to lose the call
        return name
    transcript = fields.text("transcript_path")
    if "conversation_id" in fields:
        return Agent.CURSOR
    if event in _GEMINI_EVENTS or "/.gemini/" in transcript:
        return Agent.GEMINI
    if "turn_id" in fields or "/.codex/" in transcript:
        return Agent.CODEX
    return Agent.CLAUDE_CODE if fields.text("hook_event_name") else ""


def _get_id(kind: HookKind, fields: Fields) -> str:
    if kind in _OF_TOOLS:
        return fields.text("tool_use_id")
    if kind is HookKind.SUMMARY:  # transcripts have the same text, and another id
        return transcripts.fingerprint(_get_text(kind, fields))
    if kind is not HookKind.PROMPT and kind not in _ENDINGS:
        return ""
    if kind is HookKind.PROMPT and (prompt_id := fields.text("prompt_id")):
        return prompt_id
    turn = fields.text("prompt_id", "turn_id", "generation_id")
    # One turn may have several prompts, typed while it runs, and several ends, if another hook
    # makes the agent continue. The fingerprint is of the text before the spool cleans it, so that
    # both ways give the same event, and without private parts, which it would give away.
    text = strip_private(_get_text(kind, fields))
    return f"{turn}:{transcripts.fingerprint(text)}" if turn else ""


def _get_text(kind: HookKind, fields: Fields) -> str:
    match kind:
        case HookKind.PROMPT:
            return fields.text("prompt")
        case HookKind.TOOL | HookKind.TOOL_FAILURE:
            failure = ("error",) if kind is HookKind.TOOL_FAILURE else ()
            for name in (*failure, "tool_response", "tool_output", "output"):
                if text := tool_use.render_result(fields.value(name)):
                    return text
            return tool_use.render_result(_parse_object(fields.value("result_json")))
        case HookKind.COMPACTION:
            return fields.text("conversation_summary")
        case HookKind.SUMMARY:
            return descriptions.extract_summary(fields.text("compact_summary"))
        case _ if kind in _ENDINGS:
            return fields.text("last_assistant_message", "prompt_response", "text")
        case _:
            return ""


def _parse_use(kind: HookKind, event: str, fields: Fields) -> ToolUse:
    if kind not in _OF_TOOLS:
        return tool_use.UNKNOWN
    if event in _CURSOR_TOOLS:
        return tool_use.parse_use(_CURSOR_TOOLS[event], fields)
    arguments = Fields(_parse_object(fields.value("tool_input")))
    return tool_use.parse_use(fields.text("tool_name"), arguments)


def _parse_object(value: object) -> dict[str, Any]:
    """Return a JSON object, which Cursor sends as a text; an empty one for anything else."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _get_folder(fields: Fields) -> str:
    roots = fields.value("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    folder = fields.text("cwd", "project_path") or first
    return folder if folder.startswith("/") and "\0" not in folder else ""


def _get_decisions(fields: Fields) -> tuple[str, ...]:
    items = fields.value("key_decisions")
    if not isinstance(items, list):
        return ()
    return tuple(item for item in items[:MAX_DECISIONS] if isinstance(item, str) and item.strip())
