"""The side of a team's server: take records from people's machines, and list what changed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.metadata import PERSON
from agent_memory.features.log.model.outbox import FactChanged, MemoryChanged
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.features.log.services import paging
from agent_memory.features.log.services.ingest import Clean, Ingest, Refusal
from agent_memory.features.memories.model.memories import Memory, MemoryStatus, get_family
from agent_memory.features.memories.ports import Memories
from agent_memory.features.upstream.model import clocks, merging, names, scopes
from agent_memory.features.upstream.model.erasures import AskedErasure, PendingErasure
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.features.upstream.model.records import (
    MACHINE,
    MAX_CHANGES,
    ChangePage,
    ForgottenEvent,
    LoweredRecord,
    People,
    RecordBatch,
    RecordRefused,
    SendOutcome,
    TeamChange,
)
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.ports import (
    ChangedRecord,
    ChangeList,
    Origin,
    PendingErasures,
    TakenRecords,
    Tombstones,
)
from agent_memory.features.upstream.services.merging import FactMerger, MemoryMerger
from agent_memory.kernel import access
from agent_memory.kernel.access import Role
from agent_memory.kernel.errors import InvalidInput, Overloaded
from agent_memory.kernel.ids import ORG, USER, Domain, EventId, KnowledgeId, MemoryKey, Millis
from agent_memory.platform.ports import Clock

_PAGE = 500
_SERVER = Origin("", "")  # of what was recorded on the server itself
_SCANNED = 2_000  # entries read for one page of changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """Who sends or asks, and the client by which receipts are counted; without one, none are.
    `projects` are the only ones that they may see; None is every project."""

    person: str
    projects: frozenset[str] | None = None
    client: str = ""

    def may_see(self, project: str) -> bool:
        return bool(project) and (self.projects is None or project in self.projects)

    def narrow(self, scope: SharedScope) -> SharedScope:
        return scope.limit_to(self.projects)


@dataclass(slots=True)
class _BatchTally:
    taken: int = 0
    known: int = 0
    refused: list[RecordRefused] = field(default_factory=list)
    lowered: list[LoweredRecord] = field(default_factory=list)

    def add(self, is_taken: bool) -> None:
        self.taken += is_taken
        self.known += not is_taken

    def refuse(self, kind: str, name: str, reason: str) -> None:
        self.refused.append(RecordRefused(kind=kind, name=name, reason=reason))


@dataclass(frozen=True, slots=True)
class Receiving:
    ingest: Ingest
    log: EventLog
    outbox: Outbox
    memories: Memories
    knowledge: KnowledgeStore
    memory_merger: MemoryMerger
    fact_merger: FactMerger
    taken: TakenRecords
    changes: ChangeList
    tombstones: Tombstones
    erasures: PendingErasures
    clock: Clock
    on_erasure_due: Callable[[], None]  # called when something is to be erased
    check: Callable[[RecordBatch, Sender], tuple[RecordBatch, list[RecordRefused]]]
    """Take out the records whose project is that of another repository here."""

    def take(self, batch: RecordBatch, sender: Sender) -> SendOutcome:
        """Take a batch. All that was taken is durable when this returns; taking it again changes
        nothing. Secrets are removed here too."""
        self.catch_up(lambda: None)
        batch, refused = self.check(batch, sender)
        tally, origin = _BatchTally(refused=refused), Origin(sender.person, batch.machine)
        asked = AskedErasure(sender.person, self.clock.now())
        self._take_events(batch.events, sender, origin, tally)
        self._take_memories(batch.memories, sender, origin, asked, tally)
        self._take_facts(batch.facts, sender, origin, tally)
        for tombstone in batch.removed_facts:
            if not sender.may_see(scopes.get_project(tombstone.scope)):
                tally.refuse("fact", tombstone.id, "it is of no project that you may write to")
            else:
                lowered = self._lower_tombstone(tombstone, asked.at_ms)
                tally.add(self.fact_merger.forget(lowered, asked))
                if lowered != tombstone:
                    tally.lowered.append(lowered)
        self._forget_events(batch.forgotten, sender, asked, tally)
        if batch.asks_to_erase:
            self.on_erasure_due()
        return SendOutcome(
            taken=tally.taken,
            known=tally.known,
            refused=tuple(tally.refused),
            receipt=self._advance_receipt(sender),
            lowered=tuple(tally.lowered),
        )

    def list_changes(
        self, after: str, scope: SharedScope, sender: Sender, *, limit: int
    ) -> ChangePage:
        """Return memories, facts and forgettings that changed and that the caller may see."""
        self.catch_up(lambda: None)
        start = int(after) if after.isdecimal() and len(after) < 20 else 0
        last = self.changes.get_last()
        if start > last:  # an older copy of the database was restored
            start = 0
        visible = sender.narrow(scope)
        found: list[TeamChange] = []
        entries = self.changes.read(start, limit=_SCANNED)
        place = start
        for number, record in entries:
            place = number
            change = self._read_change(record, visible, sender)
            if change is not None:
                found.append(change)
            if len(found) >= min(limit, MAX_CHANGES):
                break
        more = bool(entries) and place < self.changes.get_last()
        receipt = self._advance_receipt(sender) if found else self.get_receipt(sender)
        return ChangePage(
            changes=tuple(found),
            next=str(place),
            people=self._find_people(found),
            more=more,
            receipt=receipt,
        )

    def _find_people(self, changes: Sequence[TeamChange]) -> People:
        """Return whom memories and facts of projects come from. Private ones are the caller's."""
        memories = [each for each in changes if isinstance(each, Memory) and each.domain != USER]
        facts = [each.id for each in changes if isinstance(each, Fact)]
        people: dict[MemoryKey | KnowledgeId, str] = {
            memory.key: person
            for memory, person in zip(memories, self.taken.find_people(memories), strict=True)
        }
        for name, origin in zip(facts, self.taken.get_fact_origins(facts), strict=True):
            people[name] = "" if origin is None else origin.person
        return people

    def get_receipt(self, sender: Sender) -> int:
        """Return the last receipt that the sender's client was given."""
        return self.taken.get_receipt(sender.person, sender.client) if sender.client else 0

    def _advance_receipt(self, sender: Sender) -> int:
        if not sender.client:
            return 0
        return self.taken.advance_receipt(sender.person, sender.client, self.clock.now())

    def get_cursor(self) -> int | None:
        """Return how far the list of changes has got; None if this is no server."""
        return self.changes.get_cursor()

    def catch_up(self, check: Callable[[], None]) -> None:
        """List the changes of the outbox. If the outbox was trimmed meanwhile, list every record
        again."""
        with access.lift_restrictions():  # what the caller does not see is not gone
            self._catch_up(check)

    def _catch_up(self, check: Callable[[], None]) -> None:
        while True:
            check()
            before = self.changes.get_cursor()
            watermark = self.log.watermark()
            if before is not None and before == watermark:
                return
            if (
                before is None
                or before > watermark
                or not paging.has_all_after(self.outbox, before, watermark)
            ):
                if not self._list_all(before, watermark, check):
                    continue
                before = watermark
            entries = self.outbox.read(before, limit=_PAGE)
            if not entries:
                return
            records = [
                ChangedRecord(memory=entry.key)
                if isinstance(entry, MemoryChanged)
                else ChangedRecord(fact=entry.id)
                for _, entry in entries
                if isinstance(entry, MemoryChanged | FactChanged)
            ]
            self._note_facts([record.fact for record in records if record.fact is not None])
            self.changes.append(records, before=before, cursor=entries[-1][0])

    def _list_all(self, before: int | None, watermark: int, check: Callable[[], None]) -> bool:
        """List every memory, fact and forgetting, from the present entry of the outbox on."""
        if before is None:  # only the first of two that begin may go on
            if not self.changes.append([], before=None, cursor=0):
                return False
            before = 0
        for page in self._iter_records():
            check()
            if not self.changes.append(page, before=before, cursor=before):
                return False
        return self.changes.append([], before=before, cursor=watermark)

    def _iter_records(self) -> Iterator[list[ChangedRecord]]:
        for domain in self.memories.list_domains():
            last = None
            while found := self.memories.list_domain(domain, after=last, limit=_PAGE):
                yield [ChangedRecord(memory=memory.key) for memory in found]
                last = found[-1].key
        name = ""
        while taken := self.taken.list_taken_facts(name, limit=_PAGE):
            name = taken[-1]
            self._note_facts(taken)  # some may be gone
        name = ""
        while facts := self.knowledge.list_after(Fact, name, limit=_PAGE):
            self._note_facts([fact.id for fact in facts])
            yield [ChangedRecord(fact=fact.id) for fact in facts]
            name = facts[-1].id
        name = ""
        while tombstones := self.tombstones.list_fact_tombstones(name, limit=_PAGE):
            yield [ChangedRecord(fact=tombstone.id) for tombstone in tombstones]
            name = tombstones[-1].id
        name = ""
        while events := self.tombstones.list_event_tombstones(name, limit=_PAGE):
            yield [ChangedRecord(event=event_id) for event_id in events]
            name = events[-1]

    def _note_facts(self, changed: Sequence[KnowledgeId]) -> None:
        """Note the facts of projects that were given on this server itself, and set a tombstone for
        those that are gone."""
        stored = self.knowledge.get(Fact, changed)
        present = (fact for fact in stored if fact is not None and scopes.get_project(fact.scope))
        self.taken.note_taken(
            _SERVER, [], [], {fact.id: merging.note_fact(fact) for fact in present}
        )
        gone = [name for name, fact in zip(changed, stored, strict=True) if fact is None]
        for name, note in self.taken.find_taken_facts(gone).items():
            self.tombstones.put_fact_tombstone(note.build_tombstone(name, self.clock.now()))
            self.taken.drop_taken_facts([name])

    def _read_change(
        self, record: ChangedRecord, scope: SharedScope, sender: Sender
    ) -> TeamChange | None:
        if record.memory is not None:
            memory = self.memories.get(record.memory)
            if memory is None:
                return None
            local = names.to_local_memory(memory, sender.person)
            return local if _is_shown(memory, local, scope) else None
        if record.fact is not None:
            (fact,) = self.knowledge.get(Fact, [record.fact])
            (tombstones,) = self.tombstones.get_fact_tombstones([record.fact])
            if fact is not None:
                return fact if scope.admits_fact(fact) else None
            shown = (each for each in tombstones if scope.admits_scope(each.scope))
            return max(shown, key=lambda each: each.at_ms, default=None)
        event_id, person = names.split_event(record.event or "")
        return ForgottenEvent(event_id=event_id) if person == sender.person else None

    def _lower_tombstone(self, tombstone: FactTombstone, now: Millis) -> FactTombstone:
        (fact,) = self.knowledge.get(Fact, [tombstone.id])
        (known,) = self.tombstones.get_fact_tombstones([tombstone.id])
        stored = next((each for each in known if each.scope == tombstone.scope), None)
        return clocks.lower_tombstone(tombstone, None if fact is not None else stored, now)

    def _take_events(
        self, events: Sequence[Event], sender: Sender, origin: Origin, tally: _BatchTally
    ) -> None:
        coming: list[Clean] = []

        def select(clean: list[Clean]) -> list[Clean]:
            coming.extend(self._leave_out_forgotten(clean))
            tally.known += len(clean) - len(coming)
            if coming:
                self.taken.note_taken(origin, [event.session_id for event in coming], [], {})
            return coming

        recording = self.ingest.record_each(
            events, lambda event: self._admit_event(event, sender, origin), select
        )
        for event, outcome in zip(events, recording.outcomes, strict=True):
            if isinstance(outcome, Refusal):
                tally.refuse("event", event.event_id, str(outcome))
        for created in recording.stored.result():
            tally.add(created)
        if coming:
            self._leave_out_forgotten(coming)  # one may have been forgotten as it came

    def _admit_event(self, event: Event, sender: Sender, origin: Origin) -> Event:
        if not sender.may_see(event.metadata.get("project", "")):
            raise InvalidInput("it is of no project that you may write to")
        return clocks.lower_event(_stamp(event, origin), self.clock.now())

    def _leave_out_forgotten(self, events: Sequence[Clean]) -> list[Clean]:
        """Return the events whose forgetting did not come first. The others show their project
        now, so the machines that have them can be told."""
        forgotten = self.tombstones.find_forgotten(events)
        asked = AskedErasure("", Millis(0))  # it was not here yet, so nothing waits for anybody
        self.erasures.add(PendingErasure(asked=asked, event=name) for name in forgotten)
        self.tombstones.put_event_tombstones(list(forgotten))
        return [event for event in events if event.event_id not in forgotten]

    def _take_memories(
        self,
        memories: Sequence[Memory],
        sender: Sender,
        origin: Origin,
        asked: AskedErasure,
        tally: _BatchTally,
    ) -> None:
        for memory in memories:
            try:
                self._check_memory(memory, sender)
                copy = names.to_server_memory(memory, sender.person)
                stored = self.memories.get(copy.key)
                copy = clocks.lower_memory(copy, stored, asked.at_ms)
                if memory.status is MemoryStatus.TOMBSTONE and not self._check_may_forget(
                    stored, sender
                ):
                    tally.add(False)
                    continue
                # One that was captured on this server stays that of its author.
                first = origin if stored is None else Origin(stored.author, "")
                self.taken.note_taken(first, [], [copy.key], {})
                owner = None
                if stored is not None and copy.status is MemoryStatus.TOMBSTONE:
                    (owner,) = self.taken.find_people([stored])
                tally.add(self.memory_merger.merge(copy, asked, owner))
                local = names.to_local_memory(copy, sender.person)
                if local != replace(memory, index=0):
                    tally.lowered.append(local)
            except (InvalidInput, Overloaded) as exc:
                tally.refuse("memory", memory.id, str(exc))

    def _check_memory(self, memory: Memory, sender: Sender) -> None:
        if memory.is_pending:
            raise InvalidInput("it awaits review on its machine")
        family = get_family(memory.domain)
        if memory.domain == USER:
            return
        if family in (ORG, USER) or not sender.may_see(scopes.get_project(memory.domain)):
            raise InvalidInput("it is of no project that you may write to")

    def _check_may_forget(self, stored: Memory | None, sender: Sender) -> bool:
        """Return whether there is something to forget.

        On a team server, raises InvalidInput for a memory that came from another person, unless the
        sender is an admin.
        """
        caller = access.get_caller()
        if caller is None or caller.role is Role.ADMIN:
            return True
        if stored is None:
            return False
        is_gone = stored.status is MemoryStatus.TOMBSTONE
        if is_gone or stored.domain == names.build_private_domain(sender.person):
            return True
        (person,) = self.taken.find_people([stored])
        if person != sender.person:
            raise InvalidInput(
                f"{person or 'someone else'} captured it: only they or an admin of your team can"
                " forget it there"
            )
        return True

    def _take_facts(
        self, facts: Sequence[Fact], sender: Sender, origin: Origin, tally: _BatchTally
    ) -> None:
        for fact in facts:
            if not sender.may_see(scopes.get_project(fact.scope)):
                tally.refuse("fact", fact.id, "it is of no project that you may write to")
                continue
            try:
                self.fact_merger.check(fact)
                (stored,) = self.knowledge.get(Fact, [fact.id])
                copy = clocks.lower_fact(fact, stored, self.clock.now())
                self.taken.note_taken(origin, [], [], {fact.id: merging.note_fact(copy)})
                tally.add(self.fact_merger.merge(copy))
                if copy != fact:
                    tally.lowered.append(copy)
            except (InvalidInput, Overloaded) as exc:
                tally.refuse("fact", fact.id, str(exc))

    def _forget_events(
        self,
        forgotten: Sequence[EventId],
        sender: Sender,
        asked: AskedErasure,
        tally: _BatchTally,
    ) -> None:
        """Erase the sender's events, of the projects that they may write to. One that is not here
        has no project yet: its forgetting waits for it."""
        present: list[EventId] = []
        absent: list[EventId] = []
        owned_names = {name: names.qualify_event(name, sender.person) for name in forgotten}
        # First: another machine may be sending one of them just now.
        self.tombstones.note_forgotten(list(owned_names.values()), sender.projects)
        for event_id, owned in owned_names.items():
            with access.lift_restrictions():  # what the sender may not see is not absent
                event = self.log.get(owned)
            if event is None:
                absent.append(owned)
            elif sender.projects is None or sender.may_see(event.metadata.get("project", "")):
                present.append(owned)
            else:
                tally.refuse("event", event_id, "it is of no project that you may write to")
        if sender.projects is None:
            self.tombstones.put_event_tombstones(absent)  # each machine sees to its own projects
        tally.taken += len(present)
        tally.known += len(absent)
        # Those that are here wait, and may be kept: then they may also be sent again.
        self.erasures.add(
            PendingErasure(asked=asked, owner=sender.person, event=name) for name in present
        )
        gone = set(absent)
        here = [name for name in owned_names.values() if name not in gone]
        self.tombstones.drop_forgotten_notes(here)


def _stamp(event: Event, origin: Origin) -> Event:
    """Return a person's event as the server stores it. What the sender says about the person
    does not count."""
    machine = {MACHINE: origin.machine} if origin.machine else {}
    rest = {key: value for key, value in event.metadata.items() if key != MACHINE}
    return replace(
        event,
        event_id=names.qualify_event(event.event_id, origin.person),
        session_id=names.qualify_session(event.session_id, origin.person),
        metadata={**rest, PERSON: origin.person, **machine},
    )


def _is_shown(stored: Memory, local: Memory, scope: SharedScope) -> bool:
    if stored.domain == Domain(USER):  # the server's own user has it, not the caller
        return False
    return scope.admits_memory(local)
