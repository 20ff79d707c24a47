"""Capture: remove secrets from a draft and store it as a memory."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

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
    compute_digest,
)
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import Memories, MemoryChange
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ContentBlocked, InvalidInput, Overloaded
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
        return replace(draft, **self._clean_fields(draft))

    def clean_memory(self, memory: Memory) -> Memory:
        """Do the same for a memory, which then has the digest of what is left."""
        cleaned = self._clean_fields(memory)
        texts = (cleaned[name] for name in ("summary", "content", "spec"))
        return replace(memory, digest=compute_digest(memory.namespace, *texts), **cleaned)

    def _clean_fields(self, value: Draft | Memory) -> dict[str, Any]:
        return {
            "summary": self._clean_line(value.summary, "summary", MAX_SUMMARY_CHARS),
            "content": self.secrets.clean(strip_private(value.content), where="memory/content"),
            "spec": self._clean_line(value.spec, "spec", memories.MAX_SPEC_CHARS),
            "tags": frozenset(map(self._clean_tag, value.tags)),
            "relates_to": tuple(map(self._clean_name, value.relates_to)),
            "event_id": self._clean_name(value.event_id, MAX_EVENT_ID_CHARS),
            "session_id": self._clean_name(value.session_id, MAX_SESSION_ID_CHARS),
            "agent": self._clean_origin(value.agent),
            "interface": self._clean_origin(value.interface),
            "author": None if value.author is None else self._clean_origin(value.author),
            "superseded_by": self._clean_name(value.superseded_by),
            "tag_changes": tuple(
                change._replace(name=self._clean_tag(change.name)) for change in value.tag_changes
            ),
            "relation_changes": tuple(
                change._replace(name=self._clean_name(change.name))
                for change in value.relation_changes
            ),
        }

    def _clean_name(self, name: str, limit: int = MAX_NAME_CHARS) -> str:
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
        here: dict[str, Any] = {"created_ms": now, "updated_ms": now, "commit": location.commit}
        if draft.author is None:
            here["author"] = self._clean_origin(location.author)
        stated = {field.name: getattr(draft, field.name) for field in fields(draft)}
        stated |= {"digest": draft.digest, "domain": location.domain, "session_id": session_id}
        return Memory(**here | {key: value for key, value in stated.items() if value is not None})

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


def has_secret(memory: Memory, secrets: SecretsFilter, *, where: str) -> bool:
    """Return whether a memory from elsewhere has text that capturing it here would remove."""
    try:
        return any(secrets.clean(text, where=where) != text for text in memory.texts)
    except ContentBlocked:
        return True
