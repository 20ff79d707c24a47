"""Capture: what is to be remembered comes in, is cleaned of secrets, and is kept once durable."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_memory.features.index.model import documents
from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS, MAX_SESSION_ID_CHARS
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import (
    MAX_NAME_CHARS,
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
from agent_memory.platform.ports import Clock

TRIES = 8  # where others change the same memory at once


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureResult:
    """`created` is False where the memory was there already."""

    memory: Memory
    created: bool
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    memories: Memories
    log: EventLog
    secrets: SecretsFilter
    clock: Clock
    on_capture: Callable[[], None]  # told after something was written

    def capture(self, draft: Draft, place: MemoryLocation) -> CaptureResult:
        """Keep it. Raises ContentBlocked where it holds a secret that may not even be redacted, and
        InvalidInput where it was forgotten before."""
        cleaned = self.clean(draft)
        wanted = self.build_memory(cleaned, place)
        for _ in range(TRIES):
            stored = self.memories.get(wanted.key)
            result = self._decide(stored, wanted)
            if result.memory == stored:
                return result
            change = MemoryChange(stored, result.memory, place.home)
            if self.memories.write([change]) == [True]:
                self.on_capture()
                return self._add_warnings(result, cleaned != draft, place)
        raise Overloaded("the memory is being changed by others; try again")

    def knows(self, draft: Draft, place: MemoryLocation) -> bool:
        """Whether these words were captured before, whatever has become of them."""
        return self.memories.get(self.build_memory(self.clean(draft), place).key) is not None

    def clean(self, draft: Draft) -> Draft:
        """Without its secrets."""
        return replace(
            draft,
            summary=self._line(draft.summary, "summary", MAX_SUMMARY_CHARS),
            content=self.secrets.clean(draft.content, where="memory/content"),
            spec=self._line(draft.spec, "spec", memories.MAX_SPEC_CHARS),
            tags=frozenset(
                self._line(tag, "tags", MAX_TAG_CHARS).replace(",", " ") for tag in draft.tags
            ),
            relates_to=tuple(self.clean_name(name, MAX_NAME_CHARS) for name in draft.relates_to),
            event_id=self.clean_name(draft.event_id, MAX_EVENT_ID_CHARS),
            session_id=self.clean_name(draft.session_id, MAX_SESSION_ID_CHARS),
        )

    def clean_name(self, name: str, limit: int) -> str:
        return self.secrets.clean_name(name, limit=limit, where="memory/ids") if name else name

    def _line(self, text: str, where: str, limit: int) -> str:
        """What stands in place of a secret may be longer than it was."""
        return self.secrets.clean(text, where=f"memory/{where}")[:limit].strip()

    def build_memory(self, draft: Draft, place: MemoryLocation) -> Memory:
        """What a clean draft would be kept as."""
        now = self.clock.now()
        session_id = draft.session_id
        if draft.event_id and not session_id:
            event = self.log.get(EventId(draft.event_id))
            if event is None:
                raise InvalidInput(f"there is no event {draft.event_id!r} to link the memory to")
            session_id = event.session_id
        return Memory(
            digest=memories.compute_digest(
                draft.namespace, draft.summary, draft.content, draft.spec
            ),
            namespace=draft.namespace,
            domain=place.domain,
            summary=draft.summary,
            content=draft.content,
            created_ms=now if draft.created_ms is None else draft.created_ms,
            updated_ms=now,
            spec=draft.spec,
            tags=draft.tags,
            relates_to=draft.relates_to,
            status=draft.status,
            commit=place.commit,
            event_id=draft.event_id,
            session_id=session_id,
        )

    def _decide(self, stored: Memory | None, wanted: Memory) -> CaptureResult:
        if stored is None:
            return CaptureResult(memory=wanted, created=True)
        if stored.status is MemoryStatus.TOMBSTONE:
            raise InvalidInput(
                f"{stored.id} was forgotten, and stays so: say it in other words to keep it"
            )
        tags = stored.tags | wanted.tags
        memories.check_tags(tags)
        when = documents.format_iso(stored.created_ms)
        if stored.status is MemoryStatus.ARCHIVED:
            revived = memories.update_fields(
                stored, self.clock.now(), status=MemoryStatus.ACTIVE, superseded_by="", tags=tags
            )
            note = f"it was captured before, at {when}, and archived; it is active again"
            return CaptureResult(memory=revived, created=False, warning=note)
        note = f"it was captured before, at {when}"
        if tags == stored.tags:
            return CaptureResult(memory=stored, created=False, warning=note)
        tagged = memories.update_fields(stored, self.clock.now(), tags=tags)
        return CaptureResult(memory=tagged, created=False, warning=f"{note}; its tags were added")

    def _add_warnings(
        self, result: CaptureResult, redacted: bool, place: MemoryLocation
    ) -> CaptureResult:
        """With the memory as it is named now, and what is worth knowing about it."""
        stored = self.memories.get(result.memory.key) or result.memory
        notes = [result.warning] if result.warning else []
        if redacted:
            notes.append("a secret was removed from it")
        missing = [name for name in stored.relates_to if not self._is_there(name, place)]
        if result.created and missing:
            notes.append(f"it relates to what is not here: {', '.join(missing)}")
        return replace(result, memory=stored, warning="; ".join(notes) or None)

    def _is_there(self, name: str, place: MemoryLocation) -> bool:
        try:
            wanted = memories.parse_reference(name)
        except InvalidInput:
            return False  # an id of another tool
        if wanted.namespace is None:
            return False
        found = self.memories.find_by_digest(
            wanted.domain or place.domain, wanted.namespace, wanted.hex
        )
        return any(each.index == wanted.index for each in found)
