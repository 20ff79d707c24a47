"""Forward the records of chosen projects to a team's server, and pull what others changed.

It follows the outbox with a cursor of its own, which moves only after the server has answered.
After a crash or a lost answer the same records are sent again, and the server takes them once.
"""

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from agent_memory.features.forgetting.model.forgetting import ForgettingNotice, RefusedForgetting
from agent_memory.features.forgetting.ports import SendForgettings
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.knowledge.ports import KnowledgeChange
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.features.log.services import paging
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.ports import Memories, MemoryChange
from agent_memory.features.upstream.model import clocks, merging, scopes
from agent_memory.features.upstream.model.erasures import AskedErasure, PendingErasure
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.features.upstream.model.progress import (
    MAX_ERROR_CHARS,
    MAX_REFUSED,
    BackfillPhase,
    ProjectBackfill,
    RemoteSettings,
    RemoteStatus,
    SyncProgress,
)
from agent_memory.features.upstream.model.records import (
    MAX_BATCH_BYTES,
    MAX_CHANGES,
    ForgottenEvent,
    LoweredRecord,
    People,
    RecordBatch,
    RecordRefused,
    SendOutcome,
    SharedRecord,
    TeamChange,
)
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.ports import (
    ExchangeState,
    Origin,
    PendingErasures,
    SentLedger,
    TakenRecords,
    TeamServer,
)
from agent_memory.features.upstream.services.back_off import BackOff
from agent_memory.features.upstream.services.merging import FactMerger, MemoryMerger
from agent_memory.features.upstream.services.outgoing import OutgoingRecords
from agent_memory.kernel.errors import (
    AgentMemoryError,
    FeatureUnavailable,
    InvalidInput,
    Overloaded,
    RemoteUnavailable,
    Unauthorized,
)
from agent_memory.kernel.ids import EventId
from agent_memory.platform.ports import Clock

BATCH_RECORDS = 200
MAX_BEHIND = 200_000  # entries of the outbox that wait for a server which is away
FORGETTING_SECONDS = 5.0  # for which a forgetting waits for an exchange that is under way
_ENTRIES = 250
_MOST_FORGOTTEN = 10_000  # counted
_MOST_COUNTED = 2_000  # entries of the outbox, for the status
_REVIEWED = "/reviewed"  # among the projects that were pulled; no project has this name
_FAILURES = (RemoteUnavailable, Unauthorized, InvalidInput, Overloaded)

Check = Callable[[], None]


class Agree(Protocol):
    def __call__(
        self, settings: RemoteSettings, server: TeamServer, /, *, is_reader: bool
    ) -> Sequence[RecordRefused]:
        """Agree on the names of shared projects, and return what the server refused."""
        ...


@dataclass(frozen=True, slots=True)
class Forwarding:
    read_settings: Callable[[], RemoteSettings]
    connect: Callable[[RemoteSettings], TeamServer]
    machine: str
    state: ExchangeState
    ledger: SentLedger
    log: EventLog
    outbox: Outbox
    memories: Memories
    outgoing: OutgoingRecords
    taken: TakenRecords
    memory_merger: MemoryMerger
    fact_merger: FactMerger
    erasures: PendingErasures
    clock: Clock
    back_off: BackOff
    on_refused: Callable[[RecordRefused], None]
    on_server_restored: Callable[[], None]  # the server has lost what it had taken
    agree: Agree  # with the server on the names of projects
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_active(self) -> bool:
        """Tell whether there is a server to exchange records with."""
        return self.read_settings().is_complete

    def run(self, check: Check) -> None:
        """Send what waits and pull what changed, unless the server is left alone for a while."""
        if self.back_off.seconds_left() > 0 or not self.is_active():
            return
        with self.lock:
            self._exchange(check)

    def sync_now(self, check: Check) -> None:
        """Send and pull at once. Raises RemoteUnavailable, Unauthorized and InvalidInput."""
        self._require_settings()
        with self.lock:
            self._exchange(check, is_asked=True)

    def watch_forgetting(self) -> SendForgettings:
        """Note what is forgotten already. The result sends what is forgotten later."""
        number, refused = self.ledger.get_last_forgotten(), self.state.load().last_refused
        return lambda: self._send_forgettings(number, refused) if self.read_settings().url else None

    def _send_forgettings(self, number: int, known: Sequence[RecordRefused]) -> ForgettingNotice:
        """Send the forgettings that wait, and tell what became of those after a number. The job may
        have sent some of them."""
        settings, error = self.read_settings(), ""
        if (
            settings.is_complete
            and not self.state.load().only_receives
            and self.ledger.list_forgotten(limit=1)
        ):
            error = self._try_forgettings(settings)
        left = self.ledger.list_forgotten(limit=_MOST_FORGOTTEN)
        waiting = sum(item.number > number for item in left)
        refused = [each for each in self.state.load().last_refused if each not in known]
        asked = self.ledger.get_last_forgotten() - number - waiting - len(refused)
        return ForgettingNotice(
            asked=max(0, asked),
            waiting=waiting,
            refused=tuple(map(RefusedForgetting._make, refused)),
            error=error,
        )

    def _try_forgettings(self, settings: RemoteSettings) -> str:
        """Send them, and return what went wrong. They are sent soon if an exchange is under way."""
        if not self.lock.acquire(timeout=FORGETTING_SECONDS):
            return "records are being exchanged"
        try:
            self._send_forgotten(self.connect(settings), lambda: None)
        except _FAILURES as exc:
            self._note_failure(exc)
            return str(exc)
        finally:
            self.lock.release()
        return ""

    def get_needed(self) -> int | None:
        """Return the last entry of the outbox that may be trimmed; None if all may."""
        progress = self.state.load()
        if not progress.url or progress.cursor is None:
            return None
        return max(progress.cursor, self.log.watermark() - MAX_BEHIND)

    def get_status(self) -> RemoteStatus:
        settings, progress = self.read_settings(), self.state.load()
        if progress.url != settings.url:
            progress = SyncProgress(url=settings.url)
        scope = SharedScope() if progress.only_receives else settings.scope
        changes, more = self._count_changes(progress.cursor, scope)
        return RemoteStatus(
            settings=settings,
            progress=progress,
            changes_waiting=changes,
            conversations_held=self.outgoing.conversations.count(_MOST_COUNTED),
            more_waiting=more,
            forgettings_waiting=len(self.ledger.list_forgotten(limit=_MOST_FORGOTTEN)),
            backfilling=self._list_backfilling(progress, scope),
            retry_seconds=round(self.back_off.seconds_left()),
        )

    def _count_changes(self, cursor: int | None, scope: SharedScope) -> tuple[int, bool]:
        """Return how many entries of the outbox wait that are shared, and whether there may be
        more than were counted."""
        count, read = 0, 0
        if cursor is None or not scope:
            return count, False
        while read < _MOST_COUNTED:
            entries = self.outbox.read(cursor, limit=_ENTRIES)
            if not entries:
                return count, False
            count += self.outgoing.count([entry for _, entry in entries], scope)
            cursor, read = entries[-1][0], read + len(entries)
        return count, bool(self.outbox.read(cursor, limit=1))

    def _list_backfilling(self, progress: SyncProgress, scope: SharedScope) -> tuple[str, ...]:
        """Return the projects whose past is on its way, or begins with the next exchange."""
        phases = {each.name: each.phase for each in self.state.list_backfills()}
        if progress.cursor is None:  # a new server
            return tuple(sorted(scope.names))
        return tuple(
            name
            for name in sorted(scope.names)
            if phases.get(name, BackfillPhase.EVENTS) is not BackfillPhase.DONE
        )

    def forget_server(self) -> None:
        """Forget how far the exchange has got, and what was sent."""
        with self.lock:
            self.state.reset()
        self.back_off.reset()

    def _require_settings(self) -> RemoteSettings:
        settings = self.read_settings()
        if not settings.url:
            raise FeatureUnavailable("there is no server: add one with `memory remote add URL`")
        if not settings.key:
            raise Unauthorized("there is no key for the server: run `memory remote login`")
        return settings

    def _exchange(self, check: Check, *, is_asked: bool = False) -> None:
        settings = self._require_settings()
        try:
            server = self._prepare(settings, self.connect(settings))
            if not self.state.load().only_receives:
                self._send_forgotten(server, check)
                self._follow_outbox(server, check)
                self._send_past(server, check)
                self._send_conversations(server, check)
            self._pull(server, check)
        except _FAILURES as exc:
            if not self.state.load().url:  # of a new server, which has not answered yet
                self._save(url=settings.url)
            self._note_failure(exc)
            if is_asked:
                raise
        else:
            self.back_off.reset()
            self._save(last_error="", last_success_ms=self.clock.now())

    def _note_failure(self, exc: AgentMemoryError) -> None:
        self.back_off.note_failure()
        self._save(last_error=str(exc)[:MAX_ERROR_CHARS], last_error_ms=self.clock.now())

    def _prepare(self, settings: RemoteSettings, server: TeamServer) -> TeamServer:
        """Begin with a server, and with each project that was chosen since. Return the server, as
        it is spoken to from now on."""
        progress = self._recognize(settings, server)
        refused = self.agree(settings, server, is_reader=progress.only_receives)
        progress = self._note_refused(progress, refused)
        settings = self.read_settings()
        if set(settings.scope.conversations) - set(progress.conversations):
            for each in settings.agreed:  # their past conversations are to be found
                if each.repository in settings.scope.conversations:
                    self.state.remove_backfill(each.name)
        if not settings.scope.conversations:
            self.outgoing.conversations.held.release_all()
        watermark = self.log.watermark()
        is_new = progress.cursor is None or self._has_gap(progress.cursor, watermark)
        if is_new:  # what was missed is sent with the past
            progress = replace(progress, cursor=watermark)
        names = tuple(sorted(settings.scope.names))
        was_reviewed = _REVIEWED in progress.pulled_for
        if not settings.scope.names <= set(progress.pulled_for) or (
            was_reviewed and not settings.review  # what was left out may come now
        ):
            progress = replace(progress, pulled="")
        # From here on, what is forgotten in these projects is forgotten on the server too.
        self.ledger.note_sent([], list(map(scopes.build_domain, names)), {})
        known = {each.name for each in self.state.list_backfills()}
        for name in known - settings.scope.names:
            self.state.remove_backfill(name)
        for name in settings.scope.names if is_new else settings.scope.names - known:
            self.state.save_backfill(ProjectBackfill(name=name))
        # Last: after a crash before this, all of it is done again.
        conversations = tuple(sorted(settings.scope.conversations))
        pulled_for = (*names, _REVIEWED) if settings.review else names
        self.state.save(replace(progress, pulled_for=pulled_for, conversations=conversations))
        return self.connect(settings)

    def _recognize(self, settings: RemoteSettings, server: TeamServer) -> SyncProgress:
        """Return how far the exchange has got with this server and this person.

        If the server was restored from an older copy, it begins anew: the server has lost what was
        sent since then.
        """
        progress = self.state.load()
        client = progress.client or secrets.token_hex(16)
        identity = server.identify(client)
        if (progress.url, progress.person) != (settings.url, identity.person):
            if progress.person:  # else the names are those that were agreed with this server
                self.state.reset()
            return SyncProgress(
                url=settings.url,
                person=identity.person,
                rights=identity.rights,
                client=client,
                keys=identity.keys,
                erasures=identity.erasures,
            )
        unseen = {*progress.new_keys, *(set(identity.keys) - set(progress.keys))}
        progress = replace(
            progress,
            keys=identity.keys,
            new_keys=tuple(sorted(unseen & set(identity.keys))) if progress.keys else (),
            erasures=identity.erasures,
        )
        if identity.rights != progress.rights:  # what was refused may be accepted now
            progress = replace(
                progress, cursor=None, rights=identity.rights, refused=0, last_refused=()
            )
        if identity.receipt >= progress.receipt:
            return replace(progress, client=client)
        self.on_server_restored()
        self.ledger.repeat_forgotten()
        return replace(progress, cursor=None, pulled="", receipt=identity.receipt)

    def _has_gap(self, cursor: int, watermark: int) -> bool:
        """Tell whether entries after the cursor were trimmed, or the store was restored."""
        if cursor == watermark:
            return False
        is_whole = paging.has_all_after(self.outbox, cursor, watermark)
        return cursor > watermark or not is_whole

    def _send_forgotten(self, server: TeamServer, check: Check) -> None:
        while items := self.ledger.list_forgotten(limit=BATCH_RECORDS):
            check()
            found = (self.memories.get(item.memory) for item in items if item.memory is not None)
            tombstones = [
                memory
                for memory in found
                if memory is not None and memory.status is MemoryStatus.TOMBSTONE
            ]
            events = tuple(item.event_id for item in items if item.event_id is not None)
            batch = RecordBatch(memories=tuple(tombstones), forgotten=events)
            self._note_outcome(server.send(self._sign(batch)))
            self.ledger.drop_forgotten(items)

    def _follow_outbox(self, server: TeamServer, check: Check) -> None:
        while True:
            check()
            scope = self.read_settings().scope  # it may have changed
            cursor = self.state.load().cursor or 0
            entries = self.outbox.read(cursor, limit=_ENTRIES)
            if not entries:
                return
            records = self.outgoing.collect([entry for _, entry in entries], scope)
            self._send(server, records, check)
            self._save(cursor=entries[-1][0])

    def _send_past(self, server: TeamServer, check: Check) -> None:
        """Send the past of the projects that were chosen, some records at a time."""
        for backfill in self.state.list_backfills():
            step = backfill
            while step.phase is not BackfillPhase.DONE:
                check()
                if step.name not in self.read_settings().scope.names:
                    break
                settings = self.read_settings()
                of_project = {each.repository for each in settings.agreed if each.name == step.name}
                records, step = self.outgoing.read_past(
                    step, settings.scope.conversations & of_project
                )
                self._send(server, records, check)
                self.state.save_backfill(step)
                self._send_forgotten(server, check)  # what is new must not wait for the past
                self._follow_outbox(server, check)

    def _send_conversations(self, server: TeamServer, check: Check) -> None:
        """Send the conversations that may leave by now, with what was said since they last did."""
        conversations = self.outgoing.conversations
        for held in conversations.iter_due(self.read_settings().delay_ms):
            scope = self.read_settings().scope  # it may have changed
            some: list[SharedRecord] = []
            for event in conversations.iter_events(held):
                if scope.sends_event(event):
                    some.append(event)
                if len(some) == BATCH_RECORDS:
                    self._send(server, some, check)
                    scope, some = self.read_settings().scope, []
            self._send(server, some, check)
            conversations.held.release(held)

    def _send(self, server: TeamServer, records: Sequence[SharedRecord], check: Check) -> None:
        for some in _split(self._leave_out_forgotten(records)):
            check()
            batch = RecordBatch.build(some)
            self.ledger.note_sent(
                [event.session_id for event in batch.events],
                [memory.domain for memory in batch.memories],
                {fact.id: merging.note_fact(fact) for fact in batch.facts},
            )
            outcome = self._try_send(server, batch)
            self._note_outcome(outcome)
            for lowered in outcome.lowered:
                self._adopt_times(lowered, batch)

    def _adopt_times(self, lowered: LoweredRecord, sent: RecordBatch) -> None:
        """Take over the times that the server gave a record, unless it has changed since: the clock
        here is ahead, and edits of others would lose against what it says."""
        if isinstance(lowered, Memory):
            memory = self.memories.get(lowered.key)
            was = next((each for each in sent.memories if each.key == lowered.key), None)
            if memory is not None and was is not None and memory == was:
                adopted = clocks.adopt_memory(memory, lowered)
                self.memories.write([MemoryChange(memory, adopted, None)])
            return
        if isinstance(lowered, FactTombstone):
            if lowered.id in {each.id for each in sent.removed_facts}:
                self.outgoing.tombstones.lower_fact_tombstone(lowered)
            return
        (fact,) = self.outgoing.knowledge.get(Fact, [lowered.id])
        known = next((each for each in sent.facts if each.id == lowered.id), None)
        if fact is not None and known is not None and merging.is_same_fact(fact, known):
            change = KnowledgeChange(fact, clocks.adopt_fact(fact, lowered))
            self.outgoing.knowledge.commit([change])

    def _leave_out_forgotten(self, records: Sequence[SharedRecord]) -> list[SharedRecord]:
        """Return the records without the events that were forgotten elsewhere before they came
        here: those are erased."""
        events = [each for each in records if isinstance(each, Event)]
        forgotten = self.outgoing.tombstones.find_forgotten(events)
        asked = self._build_asked(self.read_settings())
        self.erasures.add(PendingErasure(asked=asked, event=name) for name in forgotten)
        return [e for e in records if not isinstance(e, Event) or e.event_id not in forgotten]

    def _try_send(self, server: TeamServer, batch: RecordBatch) -> SendOutcome:
        """Send a batch. One that the server does not accept is sent in halves, so that a single
        record does not stop all others."""
        try:
            return server.send(self._sign(batch))
        except InvalidInput as exc:
            records = batch.records
            if len(records) == 1:
                refused = RecordRefused(
                    kind=type(records[0]).__name__.lower(),
                    name=_name(records[0]),
                    reason=str(exc),
                )
                return SendOutcome(refused=(refused,))
            middle = len(records) // 2
            halves = [
                self._try_send(server, RecordBatch.build(half))
                for half in (records[:middle], records[middle:])
            ]
            return SendOutcome(
                taken=sum(half.taken for half in halves),
                known=sum(half.known for half in halves),
                refused=tuple(each for half in halves for each in half.refused),
                receipt=max(half.receipt for half in halves),
                lowered=tuple(each for half in halves for each in half.lowered),
            )

    def _sign(self, batch: RecordBatch) -> RecordBatch:
        return replace(batch, machine=self.machine, client=self.state.load().client)

    def _note_outcome(self, outcome: SendOutcome) -> None:
        progress = self._note_refused(self.state.load(), outcome.refused)
        self.state.save(
            replace(
                progress,
                sent=progress.sent + outcome.taken,
                # A lower one shows that the server was restored; the next exchange notices.
                receipt=max(progress.receipt, outcome.receipt),
            )
        )

    def _note_refused(
        self, progress: SyncProgress, refused: Sequence[RecordRefused]
    ) -> SyncProgress:
        for each in refused:
            self.on_refused(each)
        new = [each for each in refused if each not in progress.last_refused]
        return replace(
            progress,
            refused=progress.refused + len(new),
            last_refused=tuple(dict.fromkeys((*progress.last_refused, *new)))[-MAX_REFUSED:],
        )

    def _pull(self, server: TeamServer, check: Check) -> None:
        while True:
            check()
            settings, progress = self.read_settings(), self.state.load()
            if not settings.scope:
                return
            page = server.list_changes(
                progress.pulled, settings.scope, client=progress.client, limit=MAX_CHANGES
            )
            others = {key: name for key, name in page.people.items() if name != progress.person}
            for change in page.changes:
                self._apply(change, settings, others)
            self._save(pulled=page.next, receipt=max(progress.receipt, page.receipt))
            if not page.more or page.next == progress.pulled:
                return

    def _apply(self, change: TeamChange, settings: RemoteSettings, others: People) -> None:
        """Apply a change of the server, if it is in a project that is shared. `others` has whom
        records come from that are of another person."""
        scope, asked = settings.scope, self._build_asked(settings)
        try:
            match change:
                case Memory():
                    if scope.admits_memory(change):
                        self._take_memory(change, others.get(change.key, ""), settings)
                case Fact():
                    person = others.get(change.id, "")
                    if person and settings.review:
                        return  # nothing could review it
                    if scope.admits_fact(change):
                        self.fact_merger.check(change)
                        if self.outgoing.knowledge.get(Fact, [change.id]) == [None]:
                            self._note_person(person, fact=change)
                        self.ledger.note_sent([], [], {change.id: merging.note_fact(change)})
                        self.fact_merger.merge(change)
                case FactTombstone():
                    if scope.admits_scope(change.scope):
                        self.fact_merger.forget(change, asked)
                case ForgottenEvent():
                    self._forget(change.event_id, scope, asked)
        except InvalidInput as exc:
            kind = type(change).__name__.lower()
            name = str(getattr(change, "id", ""))
            self.on_refused(RecordRefused(kind=kind, name=name, reason=str(exc)))

    def _take_memory(self, copy: Memory, person: str, settings: RemoteSettings) -> None:
        stored = self.memories.get(copy.key)
        if stored is None:
            self._note_person(person, memory=copy)
        is_known = stored is not None and not stored.is_pending
        is_gone = copy.status is MemoryStatus.TOMBSTONE
        is_new = not is_known and not is_gone and bool(person)
        if is_new and settings.review:
            if copy.status is not MemoryStatus.ACTIVE:
                return  # accepting it would open again what they have settled
            self.ledger.note_unreviewed(copy.key)
            copy = replace(copy, status=MemoryStatus.PENDING)
        self.memory_merger.merge(copy, self._build_asked(settings))
        self.ledger.note_sent([], [copy.domain], {})

    def _note_person(
        self, person: str, *, memory: Memory | None = None, fact: Fact | None = None
    ) -> None:
        """Note that a record which is new here comes from another person: recall says so."""
        if person:
            memories = [] if memory is None else [memory.key]
            facts = {} if fact is None else {fact.id: merging.note_fact(fact)}
            self.taken.note_taken(Origin(person, ""), [], memories, facts)

    def _forget(self, event_id: EventId, scope: SharedScope, asked: AskedErasure) -> None:
        event = self.log.get(event_id)
        if event is None:  # this machine may yet import it
            self.outgoing.tombstones.note_forgotten([event_id], scope.projects)
        elif scope.sends_event(event) or self.ledger.is_sent(event):
            self.erasures.add([PendingErasure(asked=asked, event=event_id)])

    def _build_asked(self, settings: RemoteSettings) -> AskedErasure:
        """Return who asks for what the server lists now. It does not say which person did."""
        return AskedErasure(settings.name, self.clock.now())

    def _save(self, **fields: object) -> None:
        self.state.save(replace(self.state.load(), **fields))  # type: ignore[arg-type]


def _split(records: Iterable[SharedRecord]) -> Iterator[list[SharedRecord]]:
    """Yield records that are few and small enough for one batch, in order."""
    some: list[SharedRecord] = []
    size = 0
    for record in records:
        own = _measure(record)
        if some and (len(some) == BATCH_RECORDS or size + own > MAX_BATCH_BYTES):
            yield some
            some, size = [], 0
        some.append(record)
        size += own
    if some:
        yield some


def _measure(record: SharedRecord) -> int:
    """Return about how many bytes a record has on the way."""
    match record:
        case Event():
            return len(record.text) + 200
        case Memory():
            return len(record.content) + 400
        case Fact():
            return len(record.value) + 300
        case FactTombstone():
            return 100


def _name(record: SharedRecord) -> str:
    return record.event_id if isinstance(record, Event) else record.id
