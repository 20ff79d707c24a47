"""Lessons on an ordered store.

    lesson:{place}                          -> the lesson; place is {project}:{ms:013}:{id}
    vectors:{place}                         -> their model and the vectors
    outcomes:{place}                        -> how often it was given, and what came of it
    place:{id}                              -> its place
    at:{session}:{ms:013}:{event}:{id}      -> its place, by its telling event
    unembedded:{9999999999999 - ms}:{id}    -> its place
    verdict:{fingerprint}                   -> what a person says of it
    day:{days since 1970:06}                -> how often any was given, and what came of it
    model                                   -> the model that `unembedded` rows wait for

What is learned again from the same events gets the same id: so vectors and outcomes, which have
rows of their own, stay with it.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import TypeVar

import msgspec
from msgspec.structs import asdict

from agent_memory.features.lessons.model.lessons import (
    Fingerprint,
    KnownLesson,
    Lesson,
    LessonId,
    LessonKind,
    LessonVerdict,
    Outcomes,
    Trust,
    VerdictState,
)
from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import codec, families, keys, rows
from agent_memory.platform.store.batches import Batch, Delete, Operation, Put

_FAMILY = families.LESSONS
_LESSON, _VECTORS, _OUTCOMES = b"lesson:", b"vectors:", b"outcomes:"
_PLACE, _AT, _UNEMBEDDED, _VERDICT = b"place:", b"at:", b"unembedded:", b"verdict:"
_DAY = b"day:"
_MODEL = b"model"
_CURSOR, _HISTORY = b"checkpoint:lessons", b"checkpoint:past-lessons"
_EDITION = b"checkpoint:lesson-edition"
_PAGE = 1_000

S = TypeVar("S", bound=msgspec.Struct)
Place = bytes


class _LessonRecord(msgspec.Struct, array_like=True, frozen=True):
    id: LessonId
    kind: LessonKind
    text: str
    situation: str
    trust: Trust
    project: str
    session_id: SessionId
    agent: str
    at_ms: Millis
    events: tuple[EventId, ...]
    paths: tuple[str, ...]
    commands: tuple[str, ...]
    errors: tuple[str, ...]
    avoids: tuple[str, ...]
    weight: float


class _VectorsRecord(msgspec.Struct, array_like=True, frozen=True):
    model: str
    vectors: tuple[bytes, ...]


class _OutcomesRecord(msgspec.Struct, array_like=True, frozen=True):
    given: int
    heeded: int
    repeated: int
    last_given_ms: Millis


class _VerdictRecord(msgspec.Struct, array_like=True, frozen=True):
    state: VerdictState
    at_ms: Millis
    text: str
    reason: str
    confirmed: bool


class _PositionRecord(msgspec.Struct, array_like=True, frozen=True):
    at_ms: Millis
    event_id: EventId


class StoredLessons:
    """A LessonStore. `model` names the embedder, whose vectors alone are read."""

    def __init__(self, store: OrderedStore, model: str = "") -> None:
        self._store = store
        self._model = model
        self._changing = threading.Lock()  # what is read to be changed must not change meanwhile
        self._changes: Counter[str] = Counter()  # by project
        self._all_changes = 0  # that may concern any project

    def cursor(self) -> int | None:
        value = self._store.get(families.PROGRESS, _CURSOR)
        return None if value is None else int(codec.decode_key(value))

    def advance(self, cursor: int, /) -> None:
        rows.write(self._store, Put(families.PROGRESS, _CURSOR, codec.encode_key(b"%d" % cursor)))

    def history(self) -> Position | None:
        value = self._store.get(families.PROGRESS, _HISTORY)
        return None if value is None else Position(**asdict(codec.unpack(value, _PositionRecord)))

    def set_history(self, at: Position | None, /) -> None:
        if at is None:
            rows.write(self._store, Delete(families.PROGRESS, _HISTORY))
        else:
            record = _PositionRecord(at.at_ms, at.event_id)
            rows.write(self._store, Put(families.PROGRESS, _HISTORY, codec.pack(record)))

    def edition(self) -> int:
        value = self._store.get(families.PROGRESS, _EDITION)
        return 0 if value is None else int(codec.decode_key(value))

    def set_edition(self, edition: int, /) -> None:
        value = codec.encode_key(b"%d" % edition)
        rows.write(self._store, Put(families.PROGRESS, _EDITION, value))

    def replace(
        self,
        session: SessionId,
        since: Position | None,
        until: Position | None,
        lessons: Sequence[Lesson],
        /,
    ) -> None:
        with self._changing:
            old = {each.id: each for each in self._read_session(session, since, until)}
            new = {each.id: each for each in lessons}
            gone = [each for name, each in old.items() if new.get(name) != each]
            come = [each for name, each in new.items() if old.get(name) != each]
            operations: list[Operation] = []
            for lesson in gone:
                operations += _remove(lesson, kept=new.get(lesson.id))
            for lesson in come:
                operations += _add(lesson, before=old.get(lesson.id))
            self._commit({each.project for each in (*gone, *come)}, operations)

    def list_all(self, project: str | None = None, /) -> list[KnownLesson]:
        within = b"" if project is None else _prefix(project)
        return self._know(
            self._scan(_LESSON + within, _LessonRecord),
            self._scan(_VECTORS + within, _VectorsRecord),
            self._scan(_OUTCOMES + within, _OutcomesRecord),
        )

    def list_session(self, session: SessionId, /) -> list[Lesson]:
        return self._read_session(session, None, None)

    def get(self, ids: Sequence[LessonId], /) -> list[KnownLesson | None]:
        found = self._store.get_many(_FAMILY, [_PLACE + name.encode() for name in ids])
        places = [codec.decode_key(place) for place in found if place is not None]
        known = self._know(
            self._get(_LESSON, places, _LessonRecord),
            self._get(_VECTORS, places, _VectorsRecord),
            self._get(_OUTCOMES, places, _OutcomesRecord),
        )
        by_id = {each.lesson.id: each for each in known}
        return [by_id.get(name) for name in ids]

    def find(self, prefix: str, /, *, limit: int) -> list[LessonId]:
        start = _PLACE + prefix.encode()
        found = self._store.scan(_FAMILY, start, keys.end_of(start), limit=limit)
        return [LessonId(key.removeprefix(_PLACE).decode()) for key, _ in found]

    def list_unembedded(self, *, limit: int) -> list[Lesson]:
        self._queue_for_model()
        waiting = self._store.scan(_FAMILY, _UNEMBEDDED, keys.end_of(_UNEMBEDDED), limit=limit)
        return self._read_lessons([codec.decode_key(place) for _, place in waiting])

    def count_unembedded(self) -> int:
        return rows.count(self._store, _FAMILY, _UNEMBEDDED, limit=_PAGE)

    def set_vectors(self, vectors: Mapping[LessonId, tuple[bytes, ...]], /) -> None:
        with self._changing:
            operations: list[Operation] = []
            changed: set[str] = set()
            for known in self.get(list(vectors)):
                if known is not None:
                    lesson = known.lesson
                    record = _VectorsRecord(self._model, vectors[lesson.id])
                    operations.append(Put(_FAMILY, _VECTORS + _place(lesson), codec.pack(record)))
                    operations.append(Delete(_FAMILY, _waiting_key(lesson)))
                    changed.add(lesson.project)
            self._commit(changed, operations)

    def set_verdict(self, verdict: LessonVerdict, /) -> None:
        record = msgspec.convert(verdict, _VerdictRecord, from_attributes=True)
        self._change_verdict(Put(_FAMILY, _verdict_key(verdict.fingerprint), codec.pack(record)))

    def remove_verdict(self, fingerprint: Fingerprint, /) -> None:
        self._change_verdict(Delete(_FAMILY, _verdict_key(fingerprint)))

    def set_outcomes(
        self, outcomes: Mapping[LessonId, Outcomes], days: Mapping[int, Outcomes], /
    ) -> None:
        operations = [
            Put(_FAMILY, _day_key(day), _pack_outcomes(each)) for day, each in days.items()
        ]
        operations += (
            Put(
                _FAMILY, _OUTCOMES + _place(known.lesson), _pack_outcomes(outcomes[known.lesson.id])
            )
            for known in self.get(list(outcomes))
            if known is not None
        )
        if operations:
            self._store.submit([Batch(tuple(operations))])

    def list_days(self, since: int, /) -> dict[int, Outcomes]:
        found = rows.iter_pages(
            self._store, _FAMILY, _day_key(since), keys.end_of(_DAY), limit=_PAGE
        )
        return {
            int(key.removeprefix(_DAY)): Outcomes(**asdict(codec.unpack(value, _OutcomesRecord)))
            for page in found
            for key, value in page
        }

    def version(self, project: str, /) -> int:
        return self._all_changes + self._changes[project]

    def note_foreign_changes(self) -> None:
        """Note that another daemon may have changed the lessons of any project."""
        self._all_changes += 1

    def _commit(self, projects: Iterable[str], operations: Sequence[Operation]) -> None:
        rows.write(self._store, *operations)
        self._changes.update(projects)

    def _change_verdict(self, operation: Operation) -> None:
        """Write a verdict. It holds for all lessons that say the same, whatever their project."""
        rows.write(self._store, operation)
        self._all_changes += 1

    def _queue_for_model(self) -> None:
        """Queue every lesson that has no vectors of this model, once for each model."""
        model = codec.encode_key(self._model.encode())
        if self._store.get(_FAMILY, _MODEL) == model:
            return
        with self._changing:
            vectors = self._scan(_VECTORS, _VectorsRecord)
            made = {place for place, record in vectors.items() if record.model == self._model}
            for place, record in self._scan(_LESSON, _LessonRecord).items():
                if place not in made:
                    key = _waiting_key(_decode(record))
                    rows.write(self._store, Put(_FAMILY, key, codec.encode_key(place)))
            rows.write(self._store, Put(_FAMILY, _MODEL, model))

    def _know(
        self,
        lessons: Mapping[Place, _LessonRecord],
        vectors: Mapping[Place, _VectorsRecord],
        outcomes: Mapping[Place, _OutcomesRecord],
    ) -> list[KnownLesson]:
        verdicts = self.list_verdicts() if lessons else {}
        decoded = ((place, _decode(record)) for place, record in lessons.items())
        known = [
            KnownLesson(
                lesson=lesson,
                verdict=verdicts.get(lesson.fingerprint) if verdicts else None,
                outcomes=Outcomes(**asdict(outcomes[place])) if place in outcomes else Outcomes(),
                vectors=self._choose_vectors(vectors.get(place)),
            )
            for place, lesson in decoded
        ]
        return sorted(known, key=lambda each: each.lesson.position.order)

    def _choose_vectors(self, record: _VectorsRecord | None) -> tuple[bytes, ...]:
        return () if record is None or record.model != self._model else record.vectors

    def list_verdicts(self) -> dict[Fingerprint, LessonVerdict]:
        names = (
            (Fingerprint(name.decode()), v)
            for name, v in self._scan(_VERDICT, _VerdictRecord).items()
        )
        return {name: LessonVerdict(fingerprint=name, **asdict(v)) for name, v in names}

    def _read_session(
        self, session: SessionId, since: Position | None, until: Position | None
    ) -> list[Lesson]:
        prefix = _session_prefix(session)
        start = prefix if since is None else prefix + b"%013d:" % since.at_ms
        end = keys.end_of(prefix if until is None else prefix + b"%013d:" % until.at_ms)
        pages = rows.iter_pages(self._store, _FAMILY, start, end, limit=_PAGE)
        lessons = self._read_lessons([codec.decode_key(v) for page in pages for _, v in page])
        return [
            each
            for each in lessons
            if (since is None or each.position.order >= since.order)
            and (until is None or each.position.order < until.order)
        ]

    def _read_lessons(self, places: Sequence[Place]) -> list[Lesson]:
        return [_decode(record) for record in self._get(_LESSON, places, _LessonRecord).values()]

    def _get(self, prefix: bytes, places: Sequence[Place], kind: type[S]) -> dict[Place, S]:
        values = self._store.get_many(_FAMILY, [prefix + place for place in places])
        found = zip(places, values, strict=True)
        return _unpack_all(((place, value) for place, value in found if value is not None), kind)

    def _scan(self, prefix: bytes, kind: type[S]) -> dict[Place, S]:
        """Return the records under the beginning of a key, by their places."""
        skipped = prefix.index(b":") + 1
        pages = rows.iter_pages(self._store, _FAMILY, prefix, keys.end_of(prefix), limit=_PAGE)
        return _unpack_all(((key[skipped:], value) for page in pages for key, value in page), kind)


def _unpack_all(found: Iterable[tuple[Place, bytes]], kind: type[S]) -> dict[Place, S]:
    """Decode records. A damaged one that is derived counts as missing, as it is learned again."""
    decoded: dict[Place, S] = {}
    for place, value in found:
        with nullcontext() if kind is _VerdictRecord else suppress(StorageFailed):
            decoded[place] = codec.unpack(value, kind)
    return decoded


def _add(lesson: Lesson, before: Lesson | None) -> list[Operation]:
    """List what stores a lesson. It is embedded again only if it says something else."""
    place = _place(lesson)
    record = msgspec.convert(lesson, _LessonRecord, from_attributes=True)
    found_by = _list_index_keys(lesson)
    if not _is_embedded_alike(lesson, before):
        found_by.append(_waiting_key(lesson))
    return [
        Put(_FAMILY, _LESSON + place, codec.pack(record)),
        *(Put(_FAMILY, key, codec.encode_key(place)) for key in found_by),
    ]


def _remove(lesson: Lesson, kept: Lesson | None) -> list[Operation]:
    """List what removes a lesson that is gone, or becomes another one."""
    place = _place(lesson)
    removed = [_LESSON + place, *_list_index_keys(lesson)]
    if kept is None or _place(kept) != place:
        removed.append(_OUTCOMES + place)
    if not _is_embedded_alike(lesson, kept):
        removed += (_VECTORS + place, _waiting_key(lesson))
    return [Delete(_FAMILY, key) for key in removed]


def _is_embedded_alike(one: Lesson, other: Lesson | None) -> bool:
    return other is not None and (one.text, one.situation, _place(one)) == (
        other.text,
        other.situation,
        _place(other),
    )


def _list_index_keys(lesson: Lesson) -> list[bytes]:
    at = b"%013d:%s:%s" % (lesson.at_ms, lesson.events[0].encode(), lesson.id.encode())
    return [_PLACE + lesson.id.encode(), _session_prefix(lesson.session_id) + at]


def _place(lesson: Lesson) -> Place:
    return _prefix(lesson.project) + b"%013d:%s" % (lesson.at_ms, lesson.id.encode())


def _prefix(project: str) -> bytes:
    return keys.escape(project) + b":"


def _session_prefix(session: SessionId) -> bytes:
    return b"%s%s:" % (_AT, keys.escape(session))


def _waiting_key(lesson: Lesson) -> bytes:
    return _UNEMBEDDED + b"%013d:%s" % (MAX_MILLIS - lesson.at_ms, lesson.id.encode())


def _verdict_key(fingerprint: Fingerprint) -> bytes:
    return _VERDICT + fingerprint.encode()


def _day_key(day: int) -> bytes:
    return _DAY + b"%06d" % day


def _pack_outcomes(outcomes: Outcomes) -> bytes:
    return codec.pack(msgspec.convert(outcomes, _OutcomesRecord, from_attributes=True))


def _decode(record: _LessonRecord) -> Lesson:
    return Lesson(**asdict(record))
