"""Capture: remove secrets from a draft and store it as a memory."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_memory.features.index.model import documents
from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS, MAX_SESSION_ID_CHARS
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import (
    MAX_NAME_CHARS,
    MAX_ORIGIN_CHARS,
    MAX_SUMMARY_CHARS,
    MAX_TAG_CHARS,
    Draft,
    Memory,
    MemoryStatus,
)
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import Memories, MemoryChange
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import InvalidInput, Overloaded
from agent_memory.kernel.ids import EventId
from agent_memory.kernel.text.private import strip_private
from agent_memory.platform.ports import Clock

TRIES = 8  # if others change the same memory at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureResult:
    """`created` is False if the memory existed already."""

    memory: Memory
    created: bool
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    memories: Memories
    log: EventLog
    secrets: SecretsFilter
    clock: Clock
    on_capture: Callable[[], None]  # called after a write

    def capture(
        self, draft: Draft, location: MemoryLocation, *, by_user: bool = True
    ) -> CaptureResult:
        """Store the draft. Words that await review are accepted if the user captures them.

        Raises ContentBlocked if it holds a secret that may not even be redacted, and InvalidInput
        if the memory was forgotten before.
        """
        cleaned = self.clean(draft)
        memory = self.build_memory(cleaned, location)
        for _ in range(TRIES):
            stored = self.memories.get(memory.key)
            result = self._decide(stored, memory, by_user=by_user)
            if result.memory == stored:
                return result
            change = MemoryChange(stored, result.memory, location.home)
            if self.memories.write([change]) == [True]:
                self.on_capture()
                return self._add_warnings(result, cleaned != draft, location)
        raise Overloaded("the memory is being changed by others; try again")

    def was_captured(self, draft: Draft, location: MemoryLocation) -> bool:
        """Return whether these words were captured before, whatever their status is now."""
        return self.memories.get(self.build_memory(self.clean(draft), location).key) is not None

    def clean(self, draft: Draft) -> Draft:
        """Remove the secrets and the private parts of a draft."""
        return replace(
            draft,
            summary=self._clean_line(draft.summary, "summary", MAX_SUMMARY_CHARS),
            content=self.secrets.clean(strip_private(draft.content), where="memory/content"),
            spec=self._clean_line(draft.spec, "spec", memories.MAX_SPEC_CHARS),
            tags=frozenset(map(self._clean_tag, draft.tags)),
            relates_to=tuple(self.clean_name(name, MAX_NAME_CHARS) for name in draft.relates_to),
            event_id=self.clean_name(draft.event_id, MAX_EVENT_ID_CHARS),
            session_id=self.clean_name(draft.session_id, MAX_SESSION_ID_CHARS),
            agent=self._clean_origin(draft.agent),
            interface=self._clean_origin(draft.interface),
            author=None if draft.author is None else self._clean_origin(draft.author),
            superseded_by=self.clean_name(draft.superseded_by, MAX_NAME_CHARS),
            tag_changes=tuple(
                change._replace(name=self._clean_tag(change.name)) for change in draft.tag_changes
            ),
            relation_changes=tuple(
                change._replace(name=self.clean_name(change.name, MAX_NAME_CHARS))
                for change in draft.relation_changes
            ),
        )

    def clean_name(self, name: str, limit: int) -> str:
        return self.secrets.clean_name(name, limit=limit, where="memory/ids") if name else name

    def _clean_tag(self, tag: str) -> str:
        return self._clean_line(tag, "tags", MAX_TAG_CHARS).replace(",", " ")

    def _clean_origin(self, name: str) -> str:
        return self._clean_line(name, "origin", MAX_ORIGIN_CHARS)

    def _clean_line(self, text: str, where: str, limit: int) -> str:
        """Clean a line and cut it: the mark for a secret may be longer than the secret."""
        return self.secrets.clean(strip_private(text), where=f"memory/{where}")[:limit].strip()

    def build_memory(self, draft: Draft, location: MemoryLocation) -> Memory:
        """Build the memory of a clean draft."""
        now = self.clock.now()
        session_id = draft.session_id
        if draft.event_id and not session_id and draft.updated_ms is None:
            event = self.log.get(EventId(draft.event_id))
            if event is None:
                raise InvalidInput(
                    f"no event {draft.event_id!r}: the memory cannot be linked to it"
                )
            session_id = event.session_id
        return Memory(
            digest=draft.digest,
            namespace=draft.namespace,
            domain=location.domain,
            summary=draft.summary,
            content=draft.content,
            created_ms=now if draft.created_ms is None else draft.created_ms,
            updated_ms=now if draft.updated_ms is None else draft.updated_ms,
            spec=draft.spec,
            tags=draft.tags,
            relates_to=draft.relates_to,
            status=draft.status,
            commit=location.commit if draft.commit is None else draft.commit,
            superseded_by=draft.superseded_by,
            event_id=draft.event_id,
            session_id=session_id,
            author=self._clean_origin(location.author) if draft.author is None else draft.author,
            agent=draft.agent,
            interface=draft.interface,
            tag_changes=draft.tag_changes,
            relation_changes=draft.relation_changes,
        )

    def _decide(self, stored: Memory | None, new: Memory, *, by_user: bool) -> CaptureResult:
        if stored is None:
            return CaptureResult(memory=new, created=True)
        if stored.status is MemoryStatus.TOMBSTONE:
            raise InvalidInput(
                f"{stored.id} was forgotten: to store it again, say it in other words"
            )
        if new.is_pending:  # a signal changes nothing that is known
            return CaptureResult(memory=stored, created=False)
        tags = stored.tags | new.tags
        memories.check_tags(tags)
        when = documents.format_iso(stored.created_ms)
        if stored.status is MemoryStatus.ARCHIVED:
            revived = memories.update_fields(
                stored, self.clock.now(), status=MemoryStatus.ACTIVE, superseded_by="", tags=tags
            )
            note = f"already captured at {when} and archived since; it is active again"
            return CaptureResult(memory=revived, created=False, warning=note)
        if stored.is_pending and not by_user:
            note = f"noted automatically at {when}; it awaits the user's review (`memory review`)"
            return CaptureResult(memory=stored, created=False, warning=note)
        if stored.is_pending:
            accepted = memories.accept(stored, self.clock.now(), tags=tags)
            note = f"noted automatically at {when}; it awaited review and is accepted now"
            return CaptureResult(memory=accepted, created=False, warning=note)
        note = f"already captured at {when}"
        if tags == stored.tags:
            return CaptureResult(memory=stored, created=False, warning=note)
        tagged = memories.update_fields(stored, self.clock.now(), tags=tags)
        return CaptureResult(
            memory=tagged, created=False, warning=f"{note}; the new tags were added"
        )

    def _add_warnings(
        self, result: CaptureResult, redacted: bool, location: MemoryLocation
    ) -> CaptureResult:
        """Add what the user should know, and the id that the store assigned."""
        stored = self.memories.get(result.memory.key) or result.memory
        notes = [result.warning] if result.warning else []
        if redacted:
            notes.append("a secret was removed")
        missing = [name for name in stored.relates_to if not self._exists(name, location)]
        if result.created and missing:
            notes.append(f"related memories not found: {', '.join(missing)}")
        return replace(result, memory=stored, warning="; ".join(notes) or None)

    def _exists(self, name: str, location: MemoryLocation) -> bool:
        try:
            reference = memories.parse_reference(name)
        except InvalidInput:
            return False  # an id of another tool
        if reference.namespace is None:
            return False
        candidates = self.memories.find_by_digest(
            reference.domain or location.domain, reference.namespace, reference.hex
        )
        return any(memory.index == reference.index for memory in candidates)
