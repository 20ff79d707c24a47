"""Entries of a whole conversation, in order, at its own times."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.features.hooks.model import descriptions, tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import RecordIds, RecordKind, TranscriptEntry
from agent_memory.features.log.model.metadata import TITLES
from agent_memory.kernel.errors import InvalidInput


@dataclass(slots=True)
class ConversationBuilder:
    """Builds the entries of one conversation. Its start and title come before its first words.

    Each entry is later than the one before it: messages of one moment keep their order.
    """

    session: str
    number: int  # of the record
    about: Mapping[str, str]
    began_ms: int | None = None
    title: str = ""
    giver: str = descriptions.AGENT
    start: RecordKind = RecordKind.SESSION_START
    entries: list[TranscriptEntry] = field(default_factory=list)
    ids: RecordIds = field(default_factory=RecordIds)
    _at_ms: int | None = None

    def add(
        self,
        kind: RecordKind,
        record_id: str,
        text: str,
        at_ms: int | None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Add an entry with words. Without a time, it gets that of the entry before it."""
        if not text.strip():
            return
        own = metadata or {}
        if not self.entries:
            self._begin(at_ms)
        unique = self.ids.make_unique(record_id or transcripts.fingerprint(kind.value, text))
        self._append(kind, unique, text, at_ms, own)

    def add_tool(
        self,
        call_id: str,
        use: tool_use.ToolUse,
        result: str,
        at_ms: int | None,
        *,
        failed: bool = False,
    ) -> None:
        """Add a call of a tool with its result. A tool that says nothing is left out."""
        if not result.strip() and not use.written:
            return
        error = {"error": "true"} if failed else {}
        self.add(
            RecordKind.TOOL, call_id, use.render_text(result), at_ms, {**use.metadata(), **error}
        )

    def _begin(self, at_ms: int | None) -> None:
        began = self.began_ms if self.began_ms is not None else at_ms
        if not self.session:
            raise InvalidInput("the conversation has no id")
        if began is None:
            raise InvalidInput("the conversation has no time")
        if at_ms is not None:  # the first words keep their time
            began = max(0, min(began, at_ms - 2))
        self._append(self.start, "", "", began, {})
        if title := descriptions.clean_title(self.title):
            record_id = descriptions.build_title_id(self.giver, title)
            self._append(RecordKind.TITLE, record_id, title, None, {TITLES: self.giver})

    def _append(
        self,
        kind: RecordKind,
        record_id: str,
        text: str,
        at_ms: int | None,
        metadata: Mapping[str, str],
    ) -> None:
        if self._at_ms is not None:
            at_ms = max(at_ms if at_ms is not None else 0, self._at_ms + 1)
        self._at_ms = at_ms
        self.entries.append(
            transcripts.build_entry(
                self.session,
                kind,
                record_id,
                at_ms=at_ms or 0,
                line=self.number,
                metadata={**self.about, **metadata},
                text=text,
            )
        )
