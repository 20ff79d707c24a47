"""Hooks: what an agent tells of its session as it happens, and the events that this becomes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.tool_use import ToolUse
from agent_memory.features.hooks.model.transcripts import RecordKind
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.secrets.model.secrets import WITHHELD
from agent_memory.kernel.ids import EventId, Millis, SessionId

MAX_ABOUT_CHARS = 1_500  # of each: together they stay within what an event may have


class HookKind(StrEnum):
    """When a hook is called. The words are those of `memory hook`, as far as it has them."""

    SESSION_START = "session-start"
    PROMPT = "user-prompt"
    BEFORE_TOOL = "pre-tool"
    TOOL = "post-tool"
    TOOL_FAILURE = "post-tool-failure"
    COMPACTION = "pre-compact"
    ANSWER = "answer"
    STOP = "stop"  # of a turn; the session goes on
    SUBAGENT_START = "subagent-start"
    SUBAGENT_STOP = "subagent-stop"
    SESSION_END = "session-end"
    OTHER = "other"  # nothing that is recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCall:
    """What a hook was told.

    `given` is the id that the agent has for it; where it has none, the nonce of the delivery tells
    one from the next. `text` is what was said: the prompt, the answer, a tool's result, the summary
    of a conversation. `about` becomes metadata.
    """

    moment: HookKind
    session: str
    at_ms: int
    nonce: str
    given: str = ""
    text: str = ""
    use: ToolUse = tool_use.UNKNOWN
    folder: str = ""
    branch: str = ""  # as the agent has it; most do not tell
    decisions: tuple[str, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)

    @property
    def prompt_event(self) -> EventId:
        """What a prompt is recorded as."""
        return transcripts.build_event_id(self.session, RecordKind.PROMPT, self.given or self.nonce)

    @property
    def own_text(self) -> str:
        """The text, without what we put into it ourselves."""
        return transcripts.strip_injected(self.text)


def clean_ids(told: HookCall, clean: Callable[[str], str]) -> HookCall:
    """Return the same with clean ids. Ids of events are made of them: every way that a call of a
    hook may take has to begin with this."""
    return replace(told, session=clean(told.session), given=clean(told.given))


def withhold_call(told: HookCall) -> HookCall:
    """The same without its content, which may not be kept: that it happened is no secret."""
    return replace(told, text=WITHHELD, use=ToolUse(name=told.use.name), decisions=())


def build_events(told: HookCall, *, project: str, branch: str) -> list[Event]:
    """What is recorded of it. Raises InvalidInput."""
    made = _EventBuilder(told, project, branch)
    match told.moment:
        case HookKind.SESSION_START:
            return [made.mark(RecordKind.SESSION_START, EventType.SESSION_START, told.nonce)]
        case HookKind.SUBAGENT_START:
            # It starts once, unless it has no session of its own.
            own = event_metadata.get_main_session(told.session) != told.session
            given = "" if own else told.nonce
            return [made.mark(RecordKind.SUBAGENT_START, EventType.SUBAGENT_START, given)]
        case HookKind.PROMPT:
            return made.words(
                RecordKind.PROMPT, EventType.USER_MESSAGE, EventRole.USER, told.own_text
            )
        case HookKind.TOOL | HookKind.TOOL_FAILURE:
            text = told.use.render_text(told.text)
            return made.words(RecordKind.TOOL, EventType.TOOL_RESULT, EventRole.TOOL, text)
        case HookKind.ANSWER:
            return made.answer()
        case HookKind.STOP:
            return [*made.answer(), made.end("stop", EventType.ASSISTANT_STOP)]
        case HookKind.SUBAGENT_STOP:
            return [*made.answer(), made.end("subagent-stop", EventType.SUBAGENT_STOP)]
        case HookKind.SESSION_END:
            return [*made.answer(), made.end("session-end", EventType.SESSION_END)]
        case _:
            return []


class _EventBuilder:
    """Builds the events of one telling."""

    def __init__(self, told: HookCall, project: str, branch: str) -> None:
        self._told = told
        self._metadata = {
            name: transcripts.fit_text(value)[:MAX_ABOUT_CHARS]
            for name, value in {
                **told.about,
                **told.use.metadata(),
                "cwd": told.folder,
                "branch": branch,
                "project": project,
            }.items()
            if value
        }
        self._given = told.given or told.nonce
        if told.moment is HookKind.TOOL_FAILURE:
            self._metadata["error"] = "true"

    def words(self, kind: RecordKind, what: EventType, role: EventRole, text: str) -> list[Event]:
        if not text:
            return []
        return [self._event(kind, self._given, what, role, transcripts.fit_text(text))]

    def mark(self, kind: RecordKind, what: EventType, given: str) -> Event:
        return self._event(kind, given, what, EventRole.SYSTEM)

    def answer(self) -> list[Event]:
        said = self._told.own_text
        return self.words(RecordKind.ANSWER, EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT, said)

    def end(self, word: str, what: EventType) -> Event:
        return self._event(RecordKind.OTHER, f"{word}:{self._given}", what, EventRole.SYSTEM)

    def _event(
        self, kind: RecordKind, given: str, what: EventType, role: EventRole, text: str = ""
    ) -> Event:
        told = self._told
        return Event(
            event_id=EventId(transcripts.build_event_id(told.session, kind, given)),
            session_id=SessionId(told.session),
            at_ms=Millis(told.at_ms),
            type=what,
            role=role,
            text=text,
            metadata=self._metadata,
        )
