"""The exchange with a team's server on an ordered store.

out:progress            how far this machine has got
out:backfill:{name}     the past of a project on its way
out:session:{session}   a session of which events were sent; out:domain:, out:fact: likewise
out:held:{session}      a conversation that may leave later
out:unreviewed:{key}    a colleague's memory that came to be reviewed
out:name:{repository}   the name of a shared project on the server
out:twin:{fact}         the id on the server of a fact here; out:here:{fact} the other way round
out:gone:{sequence}     a forgetting that waits to be sent
out:forgotten:{event}   an event whose forgetting was sent
in:session:{session}    who sent it to this server; in:memory:, in:fact: likewise
in:name:{project}       the repository of a project; in:repository:{repository} its name
in:receipt:{person}:{client}    how often the server exchanged something with a machine
in:cursor               the last entry of the outbox that is in the list of changes
in:change:{sequence}    a record that changed; in:at:{record} is its newest entry
stone:fact:{id}, stone:event:{id}    what was removed
told:event:{id}         the projects of those who forgot an event; it may not have come yet
doomed:event:{id}, doomed:memory:{key}, doomed:fact:{id}:{scope}    what is to be erased here
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import msgspec

from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.upstream.model.erasures import AskedErasure, PendingErasure
from agent_memory.features.upstream.model.merging import FactNote, FactTombstone
from agent_memory.features.upstream.model.progress import (
    BackfillPhase,
    ProjectBackfill,
    SyncProgress,
)
from agent_memory.features.upstream.model.records import RecordRefused
from agent_memory.features.upstream.ports import (
    ChangedRecord,
    ForgottenItem,
    HeldConversation,
    Origin,
)
from agent_memory.kernel.futures import once
from agent_memory.kernel.ids import PROJECT, EventId, KnowledgeId, MemoryKey, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys
from agent_memory.platform.store.batches import (
    Absent,
    Append,
    Batch,
    Committed,
    Delete,
    DeleteRange,
    Equals,
    Expectation,
    Operation,
    Put,
    Row,
)
from agent_memory.platform.store.rows import commit, expect

_FAMILY = families.UPSTREAM
_OUT, _PROGRESS, _BACKFILL = b"out:", b"out:progress", b"out:backfill:"
_SENT_SESSION, _SENT_DOMAIN, _SENT_FACT = b"out:session:", b"out:domain:", b"out:fact:"
_GONE, _FORGOTTEN = b"out:gone:", b"out:forgotten:"
_HELD, _AGREED, _TWIN, _HERE = b"out:held:", b"out:name:", b"out:twin:", b"out:here:"
_UNREVIEWED = b"out:unreviewed:"
_PROJECT, _REPOSITORY = b"in:name:", b"in:repository:"
_IN_SESSION, _IN_MEMORY, _IN_FACT = b"in:session:", b"in:memory:", b"in:fact:"
_RECEIPT = b"in:receipt:"
_CURSOR, _CHANGE, _AT = b"in:cursor", b"in:change:", b"in:at:"
_FACT_TOMBSTONE, _EVENT_TOMBSTONE = b"stone:fact:", b"stone:event:"
_TOLD = b"told:event:"
_ERASE = b"doomed:"
_ERASE_EVENT, _ERASE_MEMORY, _ERASE_FACT = b"doomed:event:", b"doomed:memory:", b"doomed:fact:"
_MOST_AGREED = 10_000  # names of repositories
_MOST_BACKFILLS = 10_000
_MOST_CLAIMS = 100  # of scopes for one fact
_MOST_CLIENTS = 64  # of a person
_PAGE = 500
_EVENT_MARK = b"evt:"


class _ProgressRecord(msgspec.Struct, array_like=True, frozen=True):
    url: str
    person: str
    cursor: int | None
    pulled: str
    pulled_for: tuple[str, ...]
    sent: int
    refused: int
    last_success_ms: int
    last_error: str
    last_error_ms: int
    client: str = ""
    receipt: int = 0
    rights: str = ""
    last_refused: tuple[tuple[str, str, str], ...] = ()
    keys: tuple[str, ...] = ()
    new_keys: tuple[str, ...] = ()
    erasures: int = 0
    conversations: tuple[str, ...] = ()


class _HeldRecord(msgspec.Struct, array_like=True, frozen=True):
    since_ms: int
    from_ms: int


class _ReceiptRecord(msgspec.Struct, array_like=True, frozen=True):
    number: int
    at_ms: int


class _BackfillRecord(msgspec.Struct, array_like=True, frozen=True):
    phase: int
    after: str


class _OriginRecord(msgspec.Struct, array_like=True, frozen=True):
    person: str
    machine: str


class _FactOriginRecord(_OriginRecord, array_like=True, frozen=True):
    """Begins with the fields of _OriginRecord, so it can also be read as one."""

    scope: str
    valued_ms: int


class _FactNoteRecord(msgspec.Struct, array_like=True, frozen=True):
    scope: str
    valued_ms: int


class _TombstoneRecord(msgspec.Struct, array_like=True, frozen=True):
    scope: str
    at_ms: int
    others: tuple[tuple[str, int], ...] = ()  # which other scopes were claimed, and when


class _ToldRecord(msgspec.Struct, array_like=True, frozen=True):
    projects: list[str] | None  # None: every project


class _ErasedEventRecord(msgspec.Struct, array_like=True, frozen=True):
    asked_ms: int = 0
    person: str = ""
    owner: str | None = None


class _ErasedMemoryRecord(msgspec.Struct, array_like=True, frozen=True):
    created_ms: int
    updated_ms: int
    commit: str
    asked_ms: int = 0
    person: str = ""
    owner: str | None = None


class _ErasedFactRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    asked_ms: int
    person: str
    owner: str | None = None


class StoredUpstream:
    """An ExchangeState, HeldConversations, AgreedNames, SentLedger, TakenRecords, NamedProjects,
    ChangeList, Tombstones and ForgettingListener."""

    def __init__(self, store: OrderedStore) -> None:
        self._store = store
        self._has_taken = False  # since the start
        self._had_taken = once(self._find_taken)

    def load(self) -> SyncProgress:
        value = self._store.get(_FAMILY, _PROGRESS)
        if value is None:
            return SyncProgress()
        fields = msgspec.structs.asdict(codec.unpack(value, _ProgressRecord))
        refused = tuple(RecordRefused(*each) for each in fields.pop("last_refused"))
        return SyncProgress(**fields, last_refused=refused)

    def save(self, progress: SyncProgress, /) -> None:
        record = _ProgressRecord(**asdict(progress))
        self._write(Put(_FAMILY, _PROGRESS, codec.pack(record)))

    def reset(self) -> None:
        self._write(DeleteRange(_FAMILY, _OUT, keys.end_of(_OUT)))

    def list_backfills(self) -> list[ProjectBackfill]:
        rows = self._store.scan(_FAMILY, _BACKFILL, keys.end_of(_BACKFILL), limit=_MOST_BACKFILLS)
        found = []
        for key, value in rows:
            record = codec.unpack(value, _BackfillRecord)
            name = keys.unescape(key[len(_BACKFILL) :])
            phase = BackfillPhase(record.phase)
            found.append(ProjectBackfill(name=name, phase=phase, after=record.after))
        return found

    def save_backfill(self, backfill: ProjectBackfill, /) -> None:
        record = _BackfillRecord(backfill.phase, backfill.after)
        self._write(Put(_FAMILY, _BACKFILL + keys.escape(backfill.name), codec.pack(record)))

    def remove_backfill(self, name: str, /) -> None:
        self._write(Delete(_FAMILY, _BACKFILL + keys.escape(name)))

    def hold(self, sessions: Mapping[SessionId, Millis], now: Millis, /) -> None:
        names = {_HELD + keys.escape(name): from_ms for name, from_ms in sessions.items()}
        known = self._store.get_many(_FAMILY, list(names))
        puts = []
        for (key, from_ms), old in zip(names.items(), known, strict=True):
            first = from_ms if old is None else codec.unpack(old, _HeldRecord).from_ms
            record = _HeldRecord(since_ms=now, from_ms=min(first, from_ms))
            puts.append(Put(_FAMILY, key, codec.pack(record)))
        self._write(*puts)

    def list_held(self, after: str, /, *, limit: int) -> list[HeldConversation]:
        start = keys.after(_HELD + keys.escape(after)) if after else _HELD
        rows = self._store.scan(_FAMILY, start, keys.end_of(_HELD), limit=limit)
        return [
            HeldConversation(
                session_id=SessionId(keys.unescape(key[len(_HELD) :])),
                since_ms=Millis(record.since_ms),
                from_ms=Millis(record.from_ms),
            )
            for key, value in rows
            for record in [codec.unpack(value, _HeldRecord)]
        ]

    def release(self, held: HeldConversation, /) -> None:
        key = _HELD + keys.escape(held.session_id)
        record = codec.pack(_HeldRecord(since_ms=held.since_ms, from_ms=held.from_ms))
        batch = Batch((Delete(_FAMILY, key),), (Equals(_FAMILY, key, record),))
        self._store.submit([batch]).result()

    def release_all(self) -> None:
        self._write(DeleteRange(_FAMILY, _HELD, keys.end_of(_HELD)))

    def list_agreed_names(self) -> dict[str, str]:
        rows = self._store.scan(_FAMILY, _AGREED, keys.end_of(_AGREED), limit=_MOST_AGREED)
        return {
            keys.unescape(key.removeprefix(_AGREED)): codec.decode_key(value).decode()
            for key, value in rows
        }

    def put_agreed_name(self, repository: str, name: str, /) -> None:
        put = Put(_FAMILY, _AGREED + keys.escape(repository), codec.encode_key(name.encode()))
        self._write(put)

    def pair_facts(self, pairs: Mapping[KnowledgeId, KnowledgeId], /) -> None:
        known = self.find_twins(list(pairs))
        self._write(
            *(
                Put(_FAMILY, prefix + one.encode(), codec.encode_key(other.encode()))
                for here, there in pairs.items()
                if known.get(here) != there
                for prefix, one, other in ((_TWIN, here, there), (_HERE, there, here))
            )
        )

    def find_twins(self, names: Sequence[KnowledgeId], /) -> dict[KnowledgeId, KnowledgeId]:
        return self._find_pairs(_TWIN, names)

    def find_facts_here(self, names: Sequence[KnowledgeId], /) -> dict[KnowledgeId, KnowledgeId]:
        return self._find_pairs(_HERE, names)

    def _find_pairs(
        self, prefix: bytes, names: Sequence[KnowledgeId]
    ) -> dict[KnowledgeId, KnowledgeId]:
        rows = self._store.get_many(_FAMILY, [prefix + name.encode() for name in names])
        return {
            name: KnowledgeId(codec.decode_key(row).decode())
            for name, row in zip(names, rows, strict=True)
            if row is not None
        }

    def note_sent(
        self,
        sessions: Sequence[SessionId],
        domains: Sequence[str],
        facts: Mapping[KnowledgeId, FactNote],
        /,
    ) -> None:
        names = [
            *(_SENT_SESSION + keys.escape(name) for name in dict.fromkeys(sessions)),
            *(_SENT_DOMAIN + keys.escape(name) for name in dict.fromkeys(domains)),
        ]
        rows = dict.fromkeys(names, codec.EMPTY) | {
            _SENT_FACT + name.encode(): codec.pack(_FactNoteRecord(note.scope, note.valued_ms))
            for name, note in facts.items()
        }
        known = self._store.get_many(_FAMILY, list(rows))
        self._write(
            *(
                Put(_FAMILY, key, value)
                for (key, value), old in zip(rows.items(), known, strict=True)
                if old != value
            )
        )

    def note_unreviewed(self, key: MemoryKey, /) -> None:
        self._write(Put(_FAMILY, _UNREVIEWED + keys.memory(key), codec.EMPTY))

    def is_unreviewed(self, key: MemoryKey, /) -> bool:
        return self._store.get(_FAMILY, _UNREVIEWED + keys.memory(key)) is not None

    def find_sent_facts(self, names: Sequence[KnowledgeId], /) -> dict[KnowledgeId, FactNote]:
        return self._find_notes(_SENT_FACT, names, _FactNoteRecord)

    def list_sent_facts(self, after: str, /, *, limit: int) -> list[KnowledgeId]:
        return [KnowledgeId(name) for name, _ in self._scan_names(_SENT_FACT, after, limit)]

    def drop_facts(self, names: Sequence[KnowledgeId], /) -> None:
        self._write(*(Delete(_FAMILY, _SENT_FACT + name.encode()) for name in names))

    def is_sent(self, event: Event, /) -> bool:
        places = [
            _SENT_SESSION + keys.escape(event.session_id),
            _SENT_DOMAIN + keys.escape(_get_domain(event)),
        ]
        return None not in self._store.get_many(_FAMILY, places)

    def list_forgotten(self, *, limit: int) -> list[ForgottenItem]:
        rows = self._store.scan(_FAMILY, _GONE, keys.end_of(_GONE), limit=limit)
        return [
            ForgottenItem(int(key[len(_GONE) :]), record.event, record.memory)
            for key, value in rows
            for record in [_decode_record(codec.decode_key(value))]
        ]

    def get_last_forgotten(self) -> int:
        return self._store.get_sequence(_FAMILY, _GONE)

    def drop_forgotten(self, items: Sequence[ForgottenItem], /) -> None:
        sent = (item.event_id for item in items if item.event_id is not None)
        self._write(
            *(Delete(_FAMILY, b"%s%020d" % (_GONE, item.number)) for item in items),
            *(Put(_FAMILY, _FORGOTTEN + name.encode(), codec.EMPTY) for name in sent),
        )

    def repeat_forgotten(self) -> None:
        while rows := list(self._scan_names(_FORGOTTEN, "", _PAGE)):
            self._write(
                *(
                    operation
                    for name, _ in rows
                    for operation in (
                        Delete(_FAMILY, _FORGOTTEN + name.encode()),
                        Append(_FAMILY, _GONE, codec.encode_key(_EVENT_MARK + name.encode())),
                    )
                )
            )

    def note_events(self, events: Sequence[Event], /) -> None:
        """Queue what was sent, or is of a project that is shared. Set a tombstone for what this
        server has taken."""
        sessions = [event.session_id for event in events]
        sent = self._find_names(_SENT_SESSION, sessions)
        taken = self._find_names(_IN_SESSION, sessions)
        shared = self._find_names(_SENT_DOMAIN, map(_get_domain, events))
        self._write(
            *(
                Append(_FAMILY, _GONE, codec.encode_key(_EVENT_MARK + event.event_id.encode()))
                for event in events
                if event.session_id in sent or _get_domain(event) in shared
            )
        )
        self.put_event_tombstones([e.event_id for e in events if e.session_id in taken])

    def note_memories(self, memory_keys: Sequence[MemoryKey], /) -> None:
        sent = self._find_names(_SENT_DOMAIN, (key.domain for key in memory_keys))
        self._write(
            *(
                Append(_FAMILY, _GONE, codec.encode_key(keys.memory(key)))
                for key in memory_keys
                if key.domain in sent
            )
        )

    def note_taken(
        self,
        origin: Origin,
        sessions: Sequence[SessionId],
        memories: Sequence[MemoryKey],
        facts: Mapping[KnowledgeId, FactNote],
        /,
    ) -> None:
        self._has_taken = True
        names = [
            *(_IN_SESSION + keys.escape(name) for name in sessions),
            *(_IN_MEMORY + keys.memory(key) for key in memories),
        ]
        value = codec.pack(_OriginRecord(*origin))
        known = self._store.get_many(_FAMILY, names)
        batches = [
            Batch((Put(_FAMILY, name, value),), (Absent(_FAMILY, name),))
            for name, old in zip(names, known, strict=True)
            if old is None
        ]
        for (name, note), first in zip(
            facts.items(), self.get_fact_origins(list(facts)), strict=True
        ):
            record = _FactOriginRecord(*(first or origin), note.scope, note.valued_ms)
            batches.append(Batch((Put(_FAMILY, _IN_FACT + name.encode(), codec.pack(record)),)))
        if batches:
            self._store.submit(batches).result()

    def has_taken(self) -> bool:
        """Tell whether this process, or one that ended, has taken anything. Most never do."""
        return self._has_taken or self._had_taken()

    def _find_taken(self) -> bool:
        prefixes = (_IN_MEMORY, _IN_FACT)
        return any(self._store.scan(_FAMILY, p, keys.end_of(p), limit=1) for p in prefixes)

    def get_memory_origins(self, memory_keys: Sequence[MemoryKey], /) -> list[Origin | None]:
        return self._get_origins([_IN_MEMORY + keys.memory(key) for key in memory_keys])

    def get_fact_origins(self, names: Sequence[KnowledgeId], /) -> list[Origin | None]:
        return self._get_origins([_IN_FACT + name.encode() for name in names])

    def find_people(self, memories: Sequence[Memory], /) -> list[str]:
        origins = self.get_memory_origins([memory.key for memory in memories])
        return [
            memory.author if origin is None else origin.person
            for memory, origin in zip(memories, origins, strict=True)
        ]

    def find_taken_facts(self, names: Sequence[KnowledgeId], /) -> dict[KnowledgeId, FactNote]:
        return self._find_notes(_IN_FACT, names, _FactOriginRecord)

    def list_taken_facts(self, after: str, /, *, limit: int) -> list[KnowledgeId]:
        return [KnowledgeId(name) for name, _ in self._scan_names(_IN_FACT, after, limit)]

    def drop_taken_facts(self, names: Sequence[KnowledgeId], /) -> None:
        self._write(*(Delete(_FAMILY, _IN_FACT + name.encode()) for name in names))

    def get_project_name(self, repository: str, /) -> str:
        value = self._store.get(_FAMILY, _REPOSITORY + keys.escape(repository))
        return "" if value is None else codec.decode_key(value).decode()

    def get_repository(self, name: str, /) -> str:
        value = self._store.get(_FAMILY, _PROJECT + keys.escape(name))
        return "" if value is None else codec.decode_key(value).decode()

    def name_project(self, repository: str, name: str, /, *, join: bool) -> bool:
        by_name = _PROJECT + keys.escape(name)
        by_repository = _REPOSITORY + keys.escape(repository)
        put = Put(_FAMILY, by_repository, codec.encode_key(name.encode()))
        absent = Absent(_FAMILY, by_repository)
        if not join:
            first = Put(_FAMILY, by_name, codec.encode_key(repository.encode()))
            batch = Batch((put, first), (absent, Absent(_FAMILY, by_name)))
        else:
            batch = Batch((put,), (absent,))
        return commit(self._store, batch)

    def get_receipt(self, person: str, client: str, /) -> int:
        value = self._store.get(_FAMILY, _build_receipt_key(person, client))
        return 0 if value is None else codec.unpack(value, _ReceiptRecord).number

    def advance_receipt(self, person: str, client: str, now: Millis, /) -> int:
        key = _build_receipt_key(person, client)
        while True:
            old = self._store.get(_FAMILY, key)
            number = 1 if old is None else codec.unpack(old, _ReceiptRecord).number + 1
            put = Put(_FAMILY, key, codec.pack(_ReceiptRecord(number, now)))
            removals = self._find_surplus_receipts(person) if old is None else []
            expected = expect(_FAMILY, key, old)
            batch = Batch((*map(partial(Delete, _FAMILY), removals), put), (expected,))
            if commit(self._store, batch):
                return number

    def _find_surplus_receipts(self, person: str) -> list[bytes]:
        """Return the receipts to remove before one is added: the oldest ones."""
        prefix = _build_receipt_key(person, "")
        rows = self._store.scan(_FAMILY, prefix, keys.end_of(prefix), limit=2 * _MOST_CLIENTS)
        oldest_first = sorted(rows, key=lambda row: codec.unpack(row[1], _ReceiptRecord).at_ms)
        return [key for key, _ in oldest_first[: max(0, len(rows) - _MOST_CLIENTS + 1)]]

    def get_cursor(self) -> int | None:
        value = self._store.get(_FAMILY, _CURSOR)
        return None if value is None else int(codec.decode_key(value))

    def append(
        self, records: Sequence[ChangedRecord], /, *, before: int | None, cursor: int
    ) -> bool:
        expected: Expectation = (
            Absent(_FAMILY, _CURSOR)
            if before is None
            else Equals(_FAMILY, _CURSOR, codec.encode_key(b"%d" % before))
        )
        moved = Put(_FAMILY, _CURSOR, codec.encode_key(b"%d" % cursor))
        return self._list_changes(list(dict.fromkeys(records)), (moved,), (expected,))

    def read(self, after: int, /, *, limit: int) -> list[tuple[int, ChangedRecord]]:
        start = b"%s%020d" % (_CHANGE, after + 1)
        rows = self._store.scan(_FAMILY, start, keys.end_of(_CHANGE), limit=limit)
        return [
            (int(key[len(_CHANGE) :]), _decode_record(codec.decode_key(value)))
            for key, value in rows
        ]

    def get_last(self) -> int:
        return self._store.get_sequence(_FAMILY, _CHANGE)

    def get_fact_tombstones(
        self, names: Sequence[KnowledgeId], /
    ) -> list[tuple[FactTombstone, ...]]:
        rows = self._store.get_many(_FAMILY, [_FACT_TOMBSTONE + name.encode() for name in names])
        return [
            () if row is None else tuple(_decode_tombstones(name, row))
            for name, row in zip(names, rows, strict=True)
        ]

    def put_fact_tombstone(self, tombstone: FactTombstone, /) -> bool:
        key = _FACT_TOMBSTONE + tombstone.id.encode()
        while True:
            old = self._store.get(_FAMILY, key)
            known = [] if old is None else _decode_tombstones(tombstone.id, old)
            if any(e.scope == tombstone.scope and e.at_ms >= tombstone.at_ms for e in known):
                return False
            others = [each for each in known if each.scope != tombstone.scope]
            record = _encode_tombstones([tombstone, *others[: _MOST_CLAIMS - 1]])
            expected = expect(_FAMILY, key, old)
            put = Put(_FAMILY, key, codec.pack(record))
            if self._list_changes([ChangedRecord(fact=tombstone.id)], (put,), (expected,)):
                return True

    def find_removal(self, name: KnowledgeId, scope: str, /) -> Millis:
        """Return when a fact of a scope was removed; 0 if it never was."""
        (known,) = self.get_fact_tombstones([name])
        return max((each.at_ms for each in known if each.scope == scope), default=Millis(0))

    def lower_fact_tombstone(self, tombstone: FactTombstone, /) -> None:
        key = _FACT_TOMBSTONE + tombstone.id.encode()
        while (old := self._store.get(_FAMILY, key)) is not None:
            known = _decode_tombstones(tombstone.id, old)
            lowered = [
                tombstone if e.scope == tombstone.scope and e.at_ms > tombstone.at_ms else e
                for e in known
            ]
            put = Put(_FAMILY, key, codec.pack(_encode_tombstones(lowered)))
            batch = Batch((put,), (Equals(_FAMILY, key, old),))
            if commit(self._store, batch):
                return

    def list_fact_tombstones(self, after: str, /, *, limit: int) -> list[FactTombstone]:
        rows = self._scan_names(_FACT_TOMBSTONE, after, limit)
        return [
            tombstone
            for name, value in rows
            for tombstone in _decode_tombstones(KnowledgeId(name), value)
        ]

    def put_event_tombstones(self, names: Sequence[EventId], /) -> None:
        for name in dict.fromkeys(names):
            key = _EVENT_TOMBSTONE + name.encode()
            if self._store.get(_FAMILY, key) is None:
                put = Put(_FAMILY, key, codec.EMPTY)
                self._list_changes([ChangedRecord(event=name)], (put,), (Absent(_FAMILY, key),))

    def list_event_tombstones(self, after: str, /, *, limit: int) -> list[EventId]:
        return [EventId(name) for name, _ in self._scan_names(_EVENT_TOMBSTONE, after, limit)]

    def note_forgotten(self, names: Sequence[EventId], projects: frozenset[str] | None, /) -> None:
        places = [_TOLD + name.encode() for name in dict.fromkeys(names)]
        while places:
            rows = zip(places, self._store.get_many(_FAMILY, places), strict=True)
            outcomes = self._store.submit([_build_told(*row, projects) for row in rows]).result()
            tried = zip(places, outcomes, strict=True)  # others may have noted one meanwhile
            places = [place for place, done in tried if not isinstance(done, Committed)]

    def drop_forgotten_notes(self, names: Sequence[EventId], /) -> None:
        self._write(*(Delete(_FAMILY, _TOLD + name.encode()) for name in names))

    def find_forgotten(self, events: Sequence[Event], /) -> frozenset[EventId]:
        rows = self._store.get_many(_FAMILY, [_TOLD + each.event_id.encode() for each in events])
        return frozenset(
            event.event_id
            for event, row in zip(events, rows, strict=True)
            if row is not None and _covers(codec.unpack(row, _ToldRecord), event)
        )

    def _find_names(self, prefix: bytes, names: Iterable[str]) -> set[str]:
        """Return those of the names that have a row."""
        unique = list(dict.fromkeys(names))
        rows = self._store.get_many(_FAMILY, [prefix + keys.escape(name) for name in unique])
        return {name for name, row in zip(unique, rows, strict=True) if row is not None}

    def _find_notes(
        self,
        prefix: bytes,
        names: Sequence[KnowledgeId],
        kind: type[_FactNoteRecord | _FactOriginRecord],
    ) -> dict[KnowledgeId, FactNote]:
        rows = self._store.get_many(_FAMILY, [prefix + name.encode() for name in names])
        records = (None if row is None else codec.unpack(row, kind) for row in rows)
        return {
            name: FactNote(record.scope, Millis(record.valued_ms))
            for name, record in zip(names, records, strict=True)
            if record is not None
        }

    def _get_origins(self, places: Sequence[bytes]) -> list[Origin | None]:
        """Return the origins that are stored under these keys; None where no person is known."""
        rows = self._store.get_many(_FAMILY, places)
        records = (None if row is None else codec.unpack(row, _OriginRecord) for row in rows)
        return [
            Origin(record.person, record.machine) if record is not None and record.person else None
            for record in records
        ]

    def _scan_names(self, prefix: bytes, after: str, limit: int) -> Iterator[tuple[str, bytes]]:
        start = keys.after(prefix + after.encode()) if after else prefix
        rows = self._store.scan(_FAMILY, start, keys.end_of(prefix), limit=limit)
        return ((key[len(prefix) :].decode(), value) for key, value in rows)

    def _list_changes(
        self,
        records: Sequence[ChangedRecord],
        operations: tuple[Operation, ...],
        expected: tuple[Expectation, ...],
    ) -> bool:
        """Append entries, and remove the older ones of these records. A crash before their new
        numbers are noted leaves an entry too many, which does no harm."""
        names = [_encode_record(record) for record in records]
        older = self._store.get_many(_FAMILY, [_AT + name for name in names])
        removals = (
            Delete(_FAMILY, _CHANGE + codec.decode_key(value))
            for value in older
            if value is not None
        )
        appends = (Append(_FAMILY, _CHANGE, codec.encode_key(name)) for name in names)
        batch = Batch((*operations, *removals, *appends), expected)
        (outcome,) = self._store.submit([batch]).result()
        if not isinstance(outcome, Committed):
            return False
        self._write(
            *(
                Put(_FAMILY, _AT + name, codec.encode_key(b"%020d" % number))
                for name, number in zip(names, outcome.sequences, strict=True)
            )
        )
        return True

    def _write(self, *operations: Operation) -> None:
        if operations:
            self._store.submit([Batch(operations)]).result()


class StoredErasures:
    """A PendingErasures."""

    def __init__(self, store: OrderedStore) -> None:
        self._store = store

    def add(self, pending: Iterable[PendingErasure], /) -> None:
        todo = [(each, *_encode_erasure(each)) for each in pending]
        while todo:
            known = self._store.get_many(_FAMILY, [key for _, key, _ in todo])
            new = [
                (row, old)
                for row, old in zip(todo, known, strict=True)
                if old is None or _is_later(row[0], _decode_erasure((row[1], old)))
            ]
            outcomes = self._store.submit(
                [
                    Batch(
                        (Put(_FAMILY, key, value),),
                        (expect(_FAMILY, key, old),),
                    )
                    for (_, key, value), old in new
                ]
            ).result()
            tried = zip(new, outcomes, strict=True)  # others may have noted one meanwhile
            todo = [row for (row, _), done in tried if not isinstance(done, Committed)]

    def list_pending(
        self,
        *,
        limit: int,
        asked_until: Millis | None = None,
        is_wanted: Callable[[PendingErasure], bool] | None = None,
    ) -> list[PendingErasure]:
        found: list[PendingErasure] = []
        start = _ERASE
        size = min(limit, _PAGE) if asked_until is None and is_wanted is None else _PAGE
        while len(found) < limit:
            rows = self._store.scan(_FAMILY, start, keys.end_of(_ERASE), limit=size)
            found += (
                pending
                for pending in map(_decode_erasure, rows)
                if (asked_until is None or pending.asked.at_ms <= asked_until)
                and (is_wanted is None or is_wanted(pending))
            )
            if len(rows) < size:
                break
            start = keys.after(rows[-1][0])
        return found[:limit]

    def has(self, record: EventId | MemoryKey | FactTombstone, /) -> bool:
        return self._store.get(_FAMILY, _name_erasure(record)) is not None

    def drop(self, pending: Iterable[PendingErasure], /) -> None:
        removals = tuple(Delete(_FAMILY, _encode_erasure(each)[0]) for each in pending)
        if removals:
            self._store.submit([Batch(removals)]).result()


def _is_later(new: PendingErasure, known: PendingErasure) -> bool:
    """Tell whether this removes a later value of the fact: then it is another request, which
    waits anew. Events and memories have one value."""
    if new.fact is None or known.fact is None:
        return False
    return new.fact.at_ms > known.fact.at_ms


def _name_erasure(record: EventId | MemoryKey | FactTombstone) -> bytes:
    if isinstance(record, FactTombstone):
        return _ERASE_FACT + keys.escape(record.id) + b":" + keys.escape(record.scope)
    if isinstance(record, MemoryKey):
        return _ERASE_MEMORY + keys.memory(record)
    return _ERASE_EVENT + record.encode()


def _encode_erasure(pending: PendingErasure) -> tuple[bytes, bytes]:
    (person, asked_ms), owner = pending.asked, pending.owner
    if pending.memory is not None:
        stone = pending.memory
        times = stone.created_ms, stone.updated_ms, stone.commit
        record = codec.pack(_ErasedMemoryRecord(*times, asked_ms, person, owner))
        return _name_erasure(stone.key), record
    if pending.fact is not None:
        at_ms = pending.fact.at_ms
        return _name_erasure(pending.fact), codec.pack(
            _ErasedFactRecord(at_ms, asked_ms, person, owner)
        )
    name = _name_erasure(pending.event or EventId(""))
    return name, codec.pack(_ErasedEventRecord(asked_ms, person, owner))


def _decode_erasure(row: Row) -> PendingErasure:
    key, value = row
    if key.startswith(_ERASE_EVENT):
        name = EventId(key[len(_ERASE_EVENT) :].decode())
        # Earlier versions stored no more than the name: it was erased at once.
        event = _ErasedEventRecord() if value == codec.EMPTY else None
        event = event or codec.unpack(value, _ErasedEventRecord)
        asked = AskedErasure(event.person, Millis(event.asked_ms))
        return PendingErasure(asked=asked, owner=event.owner, event=name)
    if key.startswith(_ERASE_FACT):
        fact = codec.unpack(value, _ErasedFactRecord)
        fact_id, _, scope = key[len(_ERASE_FACT) :].partition(b":")
        stone = FactTombstone(
            id=KnowledgeId(keys.unescape(fact_id)),
            scope=keys.unescape(scope),
            at_ms=Millis(fact.at_ms),
        )
        asked = AskedErasure(fact.person, Millis(fact.asked_ms))
        return PendingErasure(asked=asked, owner=fact.owner, fact=stone)
    record = codec.unpack(value, _ErasedMemoryRecord)
    memory = Memory(
        **keys.parse_memory(key[len(_ERASE_MEMORY) :])._asdict(),
        summary="",
        created_ms=Millis(record.created_ms),
        updated_ms=Millis(record.updated_ms),
        commit=record.commit,
        status=MemoryStatus.TOMBSTONE,
    )
    asked = AskedErasure(record.person, Millis(record.asked_ms))
    return PendingErasure(asked=asked, owner=record.owner, memory=memory)


def _build_receipt_key(person: str, client: str) -> bytes:
    return _RECEIPT + keys.escape(person) + b":" + keys.escape(client)


def _get_domain(event: Event) -> str:
    return f"{PROJECT}:{event.metadata.get('project', '')}"


def _encode_record(record: ChangedRecord) -> bytes:
    if record.memory is not None:
        return keys.memory(record.memory)
    if record.fact is not None:
        return keys.FACT_PREFIX + record.fact.encode()
    return _EVENT_MARK + (record.event or "").encode()


def _decode_record(name: bytes) -> ChangedRecord:
    if name.startswith(keys.MEMORY_PREFIX):
        return ChangedRecord(memory=keys.parse_memory(name))
    if name.startswith(keys.FACT_PREFIX):
        return ChangedRecord(fact=KnowledgeId(name[len(keys.FACT_PREFIX) :].decode()))
    return ChangedRecord(event=EventId(name[len(_EVENT_MARK) :].decode()))


def _build_told(key: bytes, old: bytes | None, projects: frozenset[str] | None) -> Batch:
    """Return the change that adds projects to a row."""
    known = [] if old is None else codec.unpack(old, _ToldRecord).projects
    every = None if known is None or projects is None else sorted({*known, *projects})
    expected = expect(_FAMILY, key, old)
    return Batch((Put(_FAMILY, key, codec.pack(_ToldRecord(every))),), (expected,))


def _covers(told: _ToldRecord, event: Event) -> bool:
    return told.projects is None or event.metadata.get("project", "") in told.projects


def _encode_tombstones(tombstones: Sequence[FactTombstone]) -> _TombstoneRecord:
    (scope, at_ms), *others = ((each.scope, each.at_ms) for each in tombstones)
    return _TombstoneRecord(scope, at_ms, tuple(others))


def _decode_tombstones(name: KnowledgeId, value: bytes) -> list[FactTombstone]:
    """Return the tombstones of a fact, the last that came first."""
    record = codec.unpack(value, _TombstoneRecord)
    return [
        FactTombstone(id=name, scope=scope, at_ms=Millis(at_ms))
        for scope, at_ms in ((record.scope, record.at_ms), *record.others)
    ]
