"""Hook calls: what an agent reports while a session runs, and the events that are recorded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from agent_memory.features.hooks.model import descriptions, tool_use, transcripts
from agent_memory.features.hooks.model.tool_use import ToolUse
from agent_memory.features.hooks.model.transcripts import RecordKind
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import SUMMARIZES, TITLES
from agent_memory.features.secrets.model.secrets import WITHHELD
from agent_memory.kernel.ids import EventId, Millis, SessionId

MAX_ABOUT_CHARS = 1_500  # per value: all of them together fit into an event
NO_METADATA: Mapping[str, str] = MappingProxyType({})


class HookKind(StrEnum):
    """The occasion of a hook call. The values are the names of `memory hook` where it has one."""

    SESSION_START = "session-start"
    PROMPT = "user-prompt"
    BEFORE_TOOL = "pre-tool"
    TOOL = "post-tool"
    TOOL_FAILURE = "post-tool-failure"
    COMPACTION = "pre-compact"
    SUMMARY = "post-compact"  # of what was compacted
    ANSWER = "answer"
    STOP = "stop"  # of a turn; the session goes on
    SUBAGENT_START = "subagent-start"
    SUBAGENT_STOP = "subagent-stop"
    SESSION_END = "session-end"
    OTHER = "other"  # not recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """A hook call of an agent.

    `call_id` is the agent's own id of it; if the agent has none, the nonce of the delivery tells
    calls apart. `text` is the prompt, the answer, a tool's result or the summary of a conversation,
    `title` the title that the user has given the session. `about` becomes metadata. `plugin` says
    that a plugin made the call: hooks that are installed as well make it a second time.
    """

    kind: HookKind
    session: str
    at_ms: int
    nonce: str
    call_id: str = ""
    text: str = ""
    title: str = ""
    use: ToolUse = tool_use.UNKNOWN
    folder: str = ""
    branch: str = ""  # as the agent reports it; most do not
    decisions: tuple[str, ...] = ()
    plugin: bool = False
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def prompt_event(self) -> EventId:
        """The id of the event that a prompt is recorded as."""
        return transcripts.build_event_id(
            self.session, RecordKind.PROMPT, self.call_id or self.nonce
        )

    @property
    def event_id(self) -> EventId:
        """The id of the event that a call with a context is recorded as; empty: there is none.

        A call before a tool names the event that the tool's result will be.
        """
        match self.kind:
            case HookKind.PROMPT:
                return self.prompt_event
            case HookKind.SESSION_START:
                kind, record_id = RecordKind.SESSION_START, self.nonce
            case HookKind.TOOL | HookKind.TOOL_FAILURE:
                kind, record_id = RecordKind.TOOL, self.call_id or self.nonce
            case HookKind.BEFORE_TOOL if self.call_id:
                kind, record_id = RecordKind.TOOL, self.call_id
            case _:
                return EventId("")
        return transcripts.build_event_id(self.session, kind, record_id)

    @property
    def own_text(self) -> str:
        """The text without the context that we injected."""
        return transcripts.strip_injected(self.text)


def clean_ids(call: HookCall, clean: Callable[[str], str]) -> HookCall:
    """Return the call with clean ids.

    Event ids are computed from them, so every path of a hook call must start with this.
    """
    return replace(call, session=clean(call.session), call_id=clean(call.call_id))


def withhold_call(call: HookCall) -> HookCall:
    """Return the call without its content, which may not be stored; its occurrence may."""
    return replace(call, text=WITHHELD, title="", use=ToolUse(name=call.use.name), decisions=())


def build_events(call: HookCall, *, project: str, branch: str, repository: str = "") -> list[Event]:
    """Build the events that record a call. Raises InvalidInput."""
    build = _EventBuilder(call, project, branch, repository)
    match call.kind:
        case HookKind.SESSION_START:
            return [build.mark(RecordKind.SESSION_START, call.nonce), *build.title()]
        case HookKind.SUBAGENT_START:
            # A subagent with its own session starts once in it.
            own = event_metadata.get_main_session(call.session) != call.session
            record_id = "" if own else call.nonce
            return [build.mark(RecordKind.SUBAGENT_START, record_id)]
        case HookKind.PROMPT:
            return [*build.words(RecordKind.PROMPT, call.own_text), *build.title()]
        case HookKind.TOOL | HookKind.TOOL_FAILURE:
            return build.words(RecordKind.TOOL, call.use.render_text(call.text))
        case HookKind.ANSWER:
            return build.answer()
        case HookKind.SUMMARY:
            return build.summary()
        case HookKind.STOP:
            return [*build.answer(), build.end("stop", EventType.ASSISTANT_STOP)]
        case HookKind.SUBAGENT_STOP:
            return [*build.answer(), build.end("subagent-stop", EventType.SUBAGENT_STOP)]
        case HookKind.SESSION_END:
            return [*build.answer(), build.end("session-end", EventType.SESSION_END)]
        case _:
            return []


class _EventBuilder:
    """Builds the events of one call."""

    def __init__(self, call: HookCall, project: str, branch: str, repository: str) -> None:
        self._call = call
        self._metadata = {
            name: transcripts.fit_text(value)[:MAX_ABOUT_CHARS]
            for name, value in {
                **call.about,
                **call.use.metadata(),
                "cwd": call.folder,
                "branch": branch,
                "project": project,
            }.items()
            if value
        }
        if repository:
            self._metadata[event_metadata.REPOSITORY] = transcripts.fit_text(repository)
        self._call_id = call.call_id or call.nonce
        if call.kind is HookKind.TOOL_FAILURE:
            self._metadata["error"] = "true"

    def words(self, kind: RecordKind, text: str) -> list[Event]:
        return [self.mark(kind, self._call_id, transcripts.fit_text(text))] if text else []

    def mark(
        self,
        kind: RecordKind,
        record_id: str,
        text: str = "",
        about: Mapping[str, str] = NO_METADATA,
    ) -> Event:
        event_type, role = transcripts.RECORDED[kind]
        return self._event(kind, record_id, event_type, role, text, about)

    def title(self) -> list[Event]:
        if not self._call.title:
            return []
        giver = descriptions.USER
        record_id = descriptions.build_title_id(giver, self._call.title)
        return [self.mark(RecordKind.TITLE, record_id, self._call.title, {TITLES: giver})]

    def summary(self) -> list[Event]:
        if not self._call.text:
            return []
        about = {SUMMARIZES: descriptions.COMPACTION}
        text = transcripts.fit_text(self._call.text)
        return [self.mark(RecordKind.SUMMARY, self._call_id, text, about)]

    def answer(self) -> list[Event]:
        return self.words(RecordKind.ANSWER, self._call.own_text)

    def end(self, word: str, type_: EventType) -> Event:
        return self._event(RecordKind.OTHER, f"{word}:{self._call_id}", type_, EventRole.SYSTEM)

    def _event(
        self,
        kind: RecordKind,
        record_id: str,
        type_: EventType,
        role: EventRole,
        text: str = "",
        about: Mapping[str, str] = NO_METADATA,
    ) -> Event:
        call = self._call
        return Event(
            event_id=EventId(transcripts.build_event_id(call.session, kind, record_id)),
            session_id=SessionId(call.session),
            at_ms=Millis(call.at_ms),
            type=type_,
            role=role,
            text=text,
            metadata={**self._metadata, **about},
        )
