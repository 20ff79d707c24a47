"""Undo: record what a person changes, and take the last change back."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from agent_memory.features.index.model import documents
from agent_memory.features.memories.model import changes
from agent_memory.features.memories.model.changes import (
    MAX_CHANGES,
    ChangeAction,
    ChangeEntry,
    MadeChange,
)
from agent_memory.features.memories.model.consolidations import ConsolidationRun
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import ChangeLog, Memories, MemoryChange
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.consolidation import Consolidation
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.transfer import Transfer
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.platform.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangingServices:
    """The services that change memories."""

    capture: Capture
    editor: MemoryEditor
    transfer: Transfer
    recorder: "_RecordingMemories | None" = None

    @property
    def entry(self) -> ChangeEntry | None:
        """What was recorded, once the changes are done; None if there was nothing to change."""
        return None if self.recorder is None else self.recorder.entry


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """What undo does: memories that get their earlier state back, those that are archived because
    the action made them, and those that stay because they were changed since."""

    action: ChangeAction
    source: ChangeEntry | ConsolidationRun
    restored: tuple[Memory, ...] = ()
    archived: tuple[Memory, ...] = ()
    left: tuple[Memory, ...] = ()

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def at_ms(self) -> Millis:
        return self.source.at_ms

    @property
    def is_empty(self) -> bool:
        return not (self.restored or self.archived or self.left)


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """The changes of persons. Agents' changes are not recorded here: undo is for what you did."""

    log: ChangeLog
    capture: Capture
    editor: MemoryEditor
    transfer: Transfer
    consolidation: Consolidation
    clock: Clock

    @contextmanager
    def recording(self, action: ChangeAction, *, by_user: bool) -> Iterator[ChangingServices]:
        """Provide services whose changes are recorded as one action, if a person calls them. The
        entry is written after the changes: a crash in between costs the undo, never the change."""
        if not by_user:
            yield ChangingServices(capture=self.capture, editor=self.editor, transfer=self.transfer)
            return
        recorder = _RecordingMemories(self.editor.memories)
        capture = replace(self.capture, memories=recorder)
        try:
            yield ChangingServices(
                capture=capture,
                editor=replace(self.editor, memories=recorder, capture=capture),
                transfer=replace(self.transfer, memories=recorder, capture=capture),
                recorder=recorder,
            )
        finally:
            if recorder.count:
                recorder.entry = self.log.add(
                    ChangeEntry(
                        at_ms=self.clock.now(),
                        action=action,
                        changes=recorder.list_changes(),
                        count=recorder.count,
                    )
                )

    def plan(self, *, dry_run: bool) -> UndoPlan:
        """Plan to undo the last action. Raises NotFound if there is none, and InvalidInput if it
        cannot be undone; the next call then plans the one before, unless this is a dry run."""
        entry, run = self.log.get_last(), self._find_run()
        if entry is not None and entry.is_final and (run is None or run.at_ms < entry.at_ms):
            if not dry_run:
                self.log.remove(entry)
            raise InvalidInput(_explain_final(entry, skipped=not dry_run))
        return self.find_last()

    def find_last(self) -> UndoPlan:
        """Return the plan for the last action that can be undone. Raises NotFound."""
        run, entry = self._find_run(), self.log.get_last()
        while entry is not None and entry.is_final:
            entry = self.log.get_last(before=entry)
        if run is not None and (entry is None or run.at_ms >= entry.at_ms):
            return run
        if entry is None:
            raise NotFound("there is nothing to undo: no change of yours is recorded")
        return self._plan_entry(
            entry, [(change, self.editor.memories.get(change.key)) for change in entry.changes]
        )

    def undo(self, name: str, here: MemoryLocation) -> UndoPlan:
        """Undo the action of this name, and return what was done. Raises InvalidInput if it is not
        the last one that can be undone: another was made since, or it is undone already."""
        with self.consolidation.turn:
            journal = self.consolidation.journal
            # Runs that changed nothing were interrupted: the turn is ours, so none goes on.
            while (run := journal.get_last()) is not None and self._plan_run(run).is_empty:
                journal.remove(run)
            plan = self.find_last()
            if plan.name != name:
                raise InvalidInput("another change was made since: look again at what undo does")
            if isinstance(plan.source, ChangeEntry):
                return self._undo_entry(plan.source, here)
            self._undo_run(plan.source, here)
            return plan

    def _undo_entry(self, entry: ChangeEntry, here: MemoryLocation) -> UndoPlan:
        done: list[tuple[MadeChange, Memory | None]] = []
        undone: dict[tuple[MemoryKey, Millis], Millis] = {}
        for change in reversed(entry.changes):
            stored = self.editor.memories.get(change.key)
            done.append((change, stored))
            if stored is not None and stored.status is not MemoryStatus.TOMBSTONE:
                reverted = self._revert(change, here)
                if reverted != stored:
                    undone[change.key, change.before_ms] = reverted.updated_ms
        self.log.remove(entry)
        self._retime(undone)
        return self._plan_entry(entry, done[::-1])

    def _undo_run(self, run: ConsolidationRun, here: MemoryLocation) -> None:
        self.consolidation.undo_run(run, here)
        undone: dict[tuple[MemoryKey, Millis], Millis] = {}
        for change in run.changes:
            memory = self.editor.memories.get(change.key)
            before = (change.status, change.superseded_by, change.tags)
            if memory is not None and before == (
                memory.status,
                memory.superseded_by,
                memory.tags,
            ):
                undone[change.key, change.before_ms] = memory.updated_ms
        self._retime(undone)

    def _retime(self, undone: Mapping[tuple[MemoryKey, Millis], Millis]) -> None:
        """Let earlier actions on the same memories be undone too."""
        if undone:
            self.log.retime(undone)
            self.consolidation.journal.retime(undone)

    def _revert(self, change: MadeChange, here: MemoryLocation) -> Memory:
        return self.editor.apply(
            change.key, here, lambda stored: changes.revert(change, stored, self.clock.now())
        )

    def _plan_entry(
        self, entry: ChangeEntry, found: Sequence[tuple[MadeChange, Memory | None]]
    ) -> UndoPlan:
        there = [
            (change, memory)
            for change, memory in found
            if memory is not None and memory.status is not MemoryStatus.TOMBSTONE
        ]
        as_made = [pair for pair in there if pair[1].updated_ms == pair[0].changed_ms]
        return UndoPlan(
            action=entry.action,
            source=entry,
            restored=tuple(memory for change, memory in as_made if change.before is not None),
            archived=tuple(memory for change, memory in as_made if change.before is None),
            left=tuple(memory for pair in there if pair not in as_made for memory in pair[1:]),
        )

    def _find_run(self) -> UndoPlan | None:
        """Return the plan for the last consolidation that changed something. One that did not may
        have just begun, so it stays in the journal."""
        journal = self.consolidation.journal
        run = journal.get_last()
        while run is not None and (plan := self._plan_run(run)).is_empty:
            run = journal.get_last(before=run)
        return None if run is None else plan

    def _plan_run(self, run: ConsolidationRun) -> UndoPlan:
        restored, left = [], []
        for change in run.changes:
            memory = self.editor.memories.get(change.key)
            if memory is None or memory.status is MemoryStatus.TOMBSTONE:
                continue
            if memory.updated_ms == change.changed_ms:
                restored.append(memory)
            elif memory.updated_ms > change.changed_ms:
                left.append(memory)
        made = [self.editor.memories.get(key) for key in run.made]
        return UndoPlan(
            action=ChangeAction.CONSOLIDATE,
            source=run,
            restored=tuple(restored),
            archived=tuple(
                each
                for each in made
                if each is not None and each.status in (MemoryStatus.ACTIVE, MemoryStatus.RESOLVED)
            ),
            left=tuple(left),
        )


class _RecordingMemories:
    """Memories that remember what is written to them."""

    def __init__(self, memories: Memories) -> None:
        self.entry: ChangeEntry | None = None  # what the log has of it
        self._memories = memories
        self._written: dict[MemoryKey, tuple[Memory | None, Memory]] = {}

    @property
    def count(self) -> int:
        return len(self._written)

    def list_changes(self) -> tuple[MadeChange, ...]:
        """Return the changes; none if there are too many to keep."""
        if self.count > MAX_CHANGES:
            return ()
        return tuple(changes.build_change(*pair) for pair in self._written.values())

    def get(self, key: MemoryKey, /) -> Memory | None:
        return self._memories.get(key)

    def find_by_digest(self, domain: Domain, namespace: str, start: str, /) -> list[Memory]:
        return self._memories.find_by_digest(domain, namespace, start)

    def list_domain(
        self, domain: Domain, /, *, after: MemoryKey | None, limit: int
    ) -> list[Memory]:
        return self._memories.list_domain(domain, after=after, limit=limit)

    def list_domains(self) -> list[Domain]:
        return self._memories.list_domains()

    def write(self, batch: Sequence[MemoryChange], /) -> list[bool]:
        written = self._memories.write(batch)
        for change, done in zip(batch, written, strict=True):
            if done:
                key = change.after.key
                first = self._written[key][0] if key in self._written else change.before
                self._written[key] = (first, change.after)
        return written


def _explain_final(entry: ChangeEntry, *, skipped: bool) -> str:
    at = documents.format_iso(entry.at_ms)
    again = "; run `memory undo` again to take back the change before it" if skipped else ""
    if entry.action is ChangeAction.FORGET:
        number = "1 memory" if entry.count == 1 else f"{entry.count:,} memories"
        return f"the last change forgot {number} ({at}), and forgetting cannot be undone{again}"
    return (
        f"the last change ({entry.action.value}, {at}) changed {entry.count:,} memories, and at"
        f" most {MAX_CHANGES:,} can be undone{again}"
    )
