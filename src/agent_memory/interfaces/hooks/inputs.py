"""What agents send to hooks: their own contracts, and the simpler one of `memory hook`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.hooks.model.installations import Agent
from agent_memory.features.hooks.model.tool_use import ToolUse
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields

AGENTS = tuple(agent.value for agent in Agent)
AUTO = "auto"
DRAIN = "drain"  # in place of a hook's name: someone has left something in the spool
CHECK = "MemoryCheck"  # an event of no agent: `memory doctor` asks whether we answer
NAMES = (
    *(each.value for each in HookKind if each not in (HookKind.ANSWER, HookKind.OTHER)),
    AUTO,
)  # of the subcommands
MAX_DECISIONS = 50

_KINDS = {
    # Claude Code and Codex
    "SessionStart": HookKind.SESSION_START,
    "UserPromptSubmit": HookKind.PROMPT,
    "PreToolUse": HookKind.BEFORE_TOOL,
    "PostToolUse": HookKind.TOOL,
    "PostToolUseFailure": HookKind.TOOL_FAILURE,
    "PreCompact": HookKind.COMPACTION,
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
_OF_GEMINI = frozenset({"BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool", "PreCompress"})
_OF_CURSOR = {"afterShellExecution": "Shell", "afterFileEdit": "Edit"}  # tools without a name
# In the simpler contract a stop ends the session.
_SIMPLE_KINDS = {**_KINDS, "Stop": HookKind.SESSION_END}
_ENDINGS = frozenset({HookKind.STOP, HookKind.SUBAGENT_STOP, HookKind.SESSION_END, HookKind.ANSWER})


class Contract(Enum):
    """How an answer must look."""

    SIMPLE = "simple"  # with `hook`: additionalContext and suppressSystemPrompt
    AGENT = "agent"  # with `hook_event_name`: hookSpecificOutput
    SILENT = "silent"  # takes no context at all


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRequest:
    contract: Contract
    event: str  # as the agent calls it
    call: HookCall


def parse_delivery(delivery: Delivery) -> HookRequest:
    """Raises InvalidInput where it is no JSON object, or asks for a hook that there is not."""
    if delivery.name not in NAMES:
        raise InvalidInput(f"there is no hook {delivery.name!r}; hooks are {', '.join(NAMES)}")
    try:
        found = json.loads(delivery.data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"the input is not JSON: {exc}") from exc
    if not isinstance(found, dict):
        raise InvalidInput("the input is no JSON object")
    given = Fields(found)
    event = given.text("hook_event_name")
    if event:
        contract = Contract.SILENT if "conversation_id" in given else Contract.AGENT
        moment = _KINDS.get(event, HookKind.OTHER)
        if event == "AfterTool" and given.fields("tool_response").value("error"):
            moment = HookKind.TOOL_FAILURE
    else:
        contract = Contract.SIMPLE
        event = given.text("hook")
        named = HookKind.OTHER if delivery.name == AUTO else HookKind(delivery.name)
        if named is HookKind.STOP:
            named = HookKind.SESSION_END
        moment = _SIMPLE_KINDS.get(event, named)
    return HookRequest(
        contract=contract, event=event, call=_build_call(moment, event, given, delivery)
    )


def contract_of(data: bytes) -> Contract:
    """The contract of an input that cannot be read."""
    simple = b'"hook"' in data and b'"hook_event_name"' not in data
    return Contract.SIMPLE if simple else Contract.AGENT


def _build_call(moment: HookKind, event: str, given: Fields, delivery: Delivery) -> HookCall:
    agent = _agent(event, given, delivery.agent)
    return HookCall(
        moment=moment,
        session=transcripts.build_session_id(
            given.text("session_id", "conversation_id"), given.text("agent_id")
        ),
        at_ms=transcripts.parse_millis(given.value("timestamp")) or delivery.at_ms,
        nonce=delivery.nonce,
        given=_id(moment, given),
        text=_text(moment, given),
        use=_use(moment, event, given),
        folder=_folder(given) or delivery.folder,
        branch=given.text("git_branch"),
        decisions=_decisions(given),
        about={
            "agent": agent,
            **{
                name: given.text(name)
                for name in ("model", "source", "reason", "agent_type")
                if given.text(name)
            },
        },
    )


def _agent(event: str, given: Fields, named: str) -> str:
    """Who it is. Without its name, by what only this one sends."""
    if named in AGENTS:  # another is a typing error, and no reason to lose what was said
        return named
    transcript = given.text("transcript_path")
    if "conversation_id" in given:
        return Agent.CURSOR
    if event in _OF_GEMINI or "/.gemini/" in transcript:
        return Agent.GEMINI
    if "turn_id" in given or "/.codex/" in transcript:
        return Agent.CODEX
    return Agent.CLAUDE_CODE if given.text("hook_event_name") else ""


def _id(moment: HookKind, given: Fields) -> str:
    if moment in (HookKind.TOOL, HookKind.TOOL_FAILURE):
        return given.text("tool_use_id")
    if moment is not HookKind.PROMPT and moment not in _ENDINGS:
        return ""
    if moment is HookKind.PROMPT and (own := given.text("prompt_id")):
        return own
    turn = given.text("prompt_id", "turn_id", "generation_id")
    # In one turn there may be several prompts, typed while it goes on, and several ends, where
    # another hook sends the agent on. The words as they came: the spool cleans them, and it is one
    # event all the same.
    return f"{turn}:{transcripts.fingerprint(_text(moment, given))}" if turn else ""


def _text(moment: HookKind, given: Fields) -> str:
    match moment:
        case HookKind.PROMPT:
            return given.text("prompt")
        case HookKind.TOOL | HookKind.TOOL_FAILURE:
            failure = ("error",) if moment is HookKind.TOOL_FAILURE else ()
            for name in (*failure, "tool_response", "tool_output", "output"):
                if found := tool_use.render_result(given.value(name)):
                    return found
            return tool_use.render_result(_object(given.value("result_json")))
        case HookKind.COMPACTION:
            return given.text("conversation_summary")
        case _ if moment in _ENDINGS:
            return given.text("last_assistant_message", "prompt_response", "text")
        case _:
            return ""


def _use(moment: HookKind, event: str, given: Fields) -> ToolUse:
    if moment not in (HookKind.TOOL, HookKind.TOOL_FAILURE):
        return tool_use.UNKNOWN
    if event in _OF_CURSOR:
        return tool_use.parse_use(_OF_CURSOR[event], given)
    return tool_use.parse_use(given.text("tool_name"), Fields(_object(given.value("tool_input"))))


def _object(value: object) -> dict[str, Any]:
    """An object, also where Cursor writes it as a text; empty where it is none."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _folder(given: Fields) -> str:
    roots = given.value("workspace_roots")
    first = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    found = given.text("cwd", "project_path") or first
    return found if found.startswith("/") and "\0" not in found else ""


def _decisions(given: Fields) -> tuple[str, ...]:
    found = given.value("key_decisions")
    if not isinstance(found, list):
        return ()
    return tuple(each for each in found[:MAX_DECISIONS] if isinstance(each, str) and each.strip())
