"""Forget memories: remove them from the store, notes and indexes, and leave a tombstone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.forgetting.model import forgetting
from agent_memory.features.forgetting.model.forgetting import ForgettingReport
from agent_memory.features.forgetting.ports import ErasureQueue, ForgettingListener
from agent_memory.features.forgetting.services.purging import UNREACHABLE, Purging
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.log.model.outbox import MemoryChanged
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.changes import ChangeAction, ChangeEntry
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.ports import ChangeLog, Journal, MemoryUses
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.kernel import access
from agent_memory.kernel.access import Role
from agent_memory.kernel.counts import format_count
from agent_memory.kernel.errors import Forbidden, GitFailed, NotFound
from agent_memory.kernel.ids import Domain
from agent_memory.kernel.progress import OnPhase
from agent_memory.platform.ports import Clock, Leadership

NOTES = "notes"


@dataclass(frozen=True, slots=True)
class MemoryForgetting:
    """Forgets memories. The tombstone is written first: from then on the memory is gone for
    every reader. Forgetting it again removes what a crash left in files and notes, without a
    proof: its words are then unknown."""

    editor: MemoryEditor
    uses: MemoryUses
    journal: Journal
    changes: ChangeLog
    notes: NoteWriter
    injections: Injections
    purging: Purging
    listener: ForgettingListener
    queue: ErasureQueue
    clock: Clock
    leadership: Leadership
    find_person: Callable[[Memory], str]  # on a team server: who captured it

    def forget(
        self,
        chosen: Sequence[Memory],
        here: MemoryLocation,
        *,
        rewrite_notes: bool,
        by_user: bool,
        on_progress: OnPhase,
    ) -> ForgettingReport:
        """Forget these. If a person asks for it, undo knows that their last change is final.
        Raises InvalidInput if a program chose one that awaits review, and Forbidden."""
        for memory in chosen:
            self._check_may_forget(memory)
        until = self.queue.hold_memories(chosen)
        if until is not None:
            return ForgettingReport(waits_until_ms=until)
        # What has traces of them may be for others.
        with self.leadership.take_over(), access.lift_restrictions():
            return self._forget(
                chosen,
                here,
                rewrite_notes=rewrite_notes,
                by_user=by_user,
                on_progress=on_progress,
            )

    def _check_may_forget(self, memory: Memory) -> None:
        """On a team server, a person may forget what is theirs, and an admin what they see."""
        caller = access.get_caller()
        if caller is None:
            return
        access.check_may_write("memories", memory.domain)
        is_own = memory.domain == caller.own_domain or (
            caller.person and self.find_person(memory) == caller.person
        )
        if not is_own and caller.role is not Role.ADMIN:
            raise Forbidden(
                f"{memory.id} was captured by another: they can forget it, or an admin of your team"
            )

    def _forget(
        self,
        chosen: Sequence[Memory],
        here: MemoryLocation,
        *,
        rewrite_notes: bool,
        by_user: bool,
        on_progress: OnPhase,
    ) -> ForgettingReport:
        found = list({memory.key: memory for memory in chosen}.values())
        for memory in () if by_user else found:
            memories.check_reviewed(memory)
        needles = {needle for memory in found for needle in _needles(memory)}
        # No other machine has those that await review.
        self.listener.note_memories([memory.key for memory in found if not memory.is_pending])
        stones = [self._tombstone(memory, here) for memory in found]
        for memory in found:
            self.uses.forget(memory.key)
        self.journal.forget({memory.key for memory in found})
        self.changes.forget({memory.key for memory in found})
        if by_user:
            self.changes.add(
                ChangeEntry(
                    at_ms=self.clock.now(), action=ChangeAction.FORGET, changes=(), count=len(found)
                )
            )
        out_of_reach = list(UNREACHABLE)
        for number, domain in enumerate(dict.fromkeys(stone.domain for stone in stones)):
            on_progress(NOTES, number)
            of_domain = [
                stone
                for memory, stone in zip(found, stones, strict=True)
                if stone.domain == domain and not memory.is_pending  # no note has those
            ]
            out_of_reach += self._in_notes(domain, of_domain, rewrite_notes)
        self.purging.purge_indexes([MemoryChanged(key=stone.key) for stone in stones], on_progress)
        self.injections.remove_missing()
        self.purging.purge_files(on_progress)
        self.purging.announce()
        proof = self.purging.build_proof(needles, {memory.urn for memory in found}, on_progress)
        if any(self._is_there(memory) for memory in found):
            proof = replace(proof, found_in=(*proof.found_in, "memories"))
        before = sum(memory.status is MemoryStatus.TOMBSTONE for memory in found)
        if before:
            out_of_reach.append(
                f"{format_count(before, 'memory', 'memories')} forgotten before: the words are no"
                " longer known, and could not be searched for"
            )
        return ForgettingReport(memories=len(found), proof=proof, unreachable=tuple(out_of_reach))

    def _tombstone(self, memory: Memory, here: MemoryLocation) -> Memory:
        if memory.status is MemoryStatus.TOMBSTONE:
            return memory
        try:
            return self.editor.apply(
                memory.key, here, lambda stored: memories.build_tombstone(stored, self.clock.now())
            )
        except NotFound:  # someone else forgot it meanwhile
            return memories.build_tombstone(memory, self.clock.now())

    def _is_there(self, memory: Memory) -> bool:
        stored = self.editor.memories.get(memory.key)
        return stored is not None and stored.status is not MemoryStatus.TOMBSTONE

    def _in_notes(self, domain: Domain, stones: Sequence[Memory], rewrite: bool) -> list[str]:
        """Write tombstones into all notes of a domain on this machine; return what cannot be
        reached."""
        missed: list[str] = []
        if not stones:
            return missed
        for home in self.editor.resolver.list_homes(domain):
            try:
                self.notes.write(home, domain, stones)
                if rewrite:
                    notebook = self.notes.repositories.open_notebook(home, domain)
                    notebook.erase([stone.key for stone in stones])
            except GitFailed as exc:
                missed.append(f"the notes of {home}: {exc}")
                continue
            if not rewrite:
                missed.append(f"the history of the notes in {home}: --rewrite-notes removes it")
        missed.append(
            "remotes that the notes were pushed to, and other clones: the next fetch from one that"
            " has the old history brings it back"
        )
        return missed


def _needles(memory: Memory) -> frozenset[bytes]:
    removed = (change.name for change in memory.tag_changes)
    tags = {*memory.tags, *removed}
    return forgetting.sample_needles(memory.summary, memory.content, memory.spec, *tags)
