"""Copy a memory from one store to another, page by page, and verify the copy.

A page and the mark that counts it are one batch, so a copy that was cut off at any moment goes on
after its last page. The mark is removed only when both sides, read again from the beginning, have
the same rows: daemons refuse a store with a mark.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from agent_memory.kernel.errors import InvalidInput, StorageDamaged, StorageFailed
from agent_memory.kernel.progress import OnProgress
from agent_memory.platform.ports import Clock, OrderedStore
from agent_memory.platform.store import families, keys, migration_mark, schema
from agent_memory.platform.store.batches import (
    Absent,
    Batch,
    CommitOutcome,
    Conflict,
    DeleteRange,
    Equals,
    Expectation,
    Operation,
    Put,
    Row,
    SetCounter,
)
from agent_memory.platform.store.migration_mark import EndedMigration, MigrationMark
from agent_memory.platform.store.plans import counter_key

COPYING, COMPARING = "Copying", "Comparing"
PAGE_ROWS = 1_000
PAGE_BYTES = 4 << 20
FIRST_PAGE = 64
GROWTH = 4  # of a page, compared with the one before

OUTBOX = families.OUTBOX, keys.OUTBOX_PREFIX
# What daemons derive for their indexes is made again where it is needed.
FAMILIES = tuple(name for name in families.ALL if name not in families.LOCAL)
# Rows about the store itself, not about the memory. The number of the outbox is compared apart: it
# is no row in databases that processes share.
OWN_ROWS = frozenset(
    (migration_mark.UNDER_WAY, migration_mark.ENDED, b"probe", counter_key(*OUTBOX))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationSide:
    """A store that nobody else uses. `rows` is about how many it has, `list_damages` returns what
    could not be read so far."""

    location: str  # for people, without a password
    store: OrderedStore
    rows: int = 0
    list_damages: Callable[[], Sequence[str]] = lambda: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyDigest:
    """The rows of a family: how many, and a hash of all keys and values in order."""

    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyComparison:
    """A family on both sides."""

    name: str
    source: FamilyDigest
    target: FamilyDigest

    @property
    def same(self) -> bool:
        return self.source == self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationReport:
    """The outcome of a migration. `copied` counts the rows of this run; `resumed` says that an
    earlier one had begun, `ended` that one had ended already, so that this run only compared."""

    source: str
    target: str
    copied: int
    resumed: bool
    ended: bool
    source_outbox: int
    target_outbox: int
    families: tuple[FamilyComparison, ...]

    @property
    def same(self) -> bool:
        return self.source_outbox == self.target_outbox and all(it.same for it in self.families)

    @property
    def different(self) -> tuple[str, ...]:
        return tuple(it.name for it in self.families if not it.same)


class StoreMigration:
    """Copies one store into another."""

    def __init__(
        self,
        source: MigrationSide,
        target: MigrationSide,
        *,
        clock: Clock,
        on_progress: OnProgress = lambda _phase, _done, _total: None,
    ) -> None:
        self._source = source
        self._target = target
        self._clock = clock
        self._on_progress = on_progress

    def run(self) -> MigrationReport:
        """Copy what is missing, compare both sides, and let daemons use the target if they agree.

        Raises InvalidInput if the target is not empty and this migration did not fill it.
        """
        schema.check(self._source.store)
        identity = schema.ensure_identity(self._source.store)
        if self._has_ended(identity):
            return self._compare(copied=0, resumed=True, ended=True)
        mark, resumed = self._begin(identity)
        mark, copied = self._copy(mark)
        self._refuse_damage()
        report = self._compare(copied=copied, resumed=resumed, ended=False)
        self._refuse_damage()
        if report.same:
            ended = EndedMigration(
                source=mark.source, location=mark.location, at_ms=self._clock.now()
            )
            self._write([*ended.put()], expected=mark)
        else:  # the next run copies these again
            again = tuple(name for name in mark.copied if name not in report.different)
            self._write(
                [replace(mark, copied=again, family="", after=b"", clearing=True).put()],
                expected=mark,
            )
        return report

    def _has_ended(self, identity: str) -> bool:
        ended = migration_mark.read_ended(self._target.store.get)
        if ended is None or migration_mark.read_mark(self._target.store.get) is not None:
            return False
        return ended.source == identity

    def _begin(self, identity: str) -> tuple[MigrationMark, bool]:
        """Mark the target, or take up the mark that an earlier run left there."""
        target = self._target
        fresh = MigrationMark(
            source=identity,
            location=self._source.location,
            outbox=self._source.store.get_sequence(*OUTBOX),
        )
        found = migration_mark.read_mark(target.store.get)
        if found is None:
            self._require_empty()
            self._write([fresh.put(), _set_outbox(fresh)], expected=None)
            return fresh, False
        if found.source != identity:
            raise InvalidInput(
                f"{target.location} holds a part of another memory: the migration from"
                f" {found.location} is not finished. Choose another target"
            )
        mark = replace(found, location=fresh.location)
        if found.outbox != fresh.outbox:  # the source was used in between
            mark = replace(fresh, clearing=True)
        self._write([mark.put(), _set_outbox(mark)], expected=found)
        return mark, True

    def _require_empty(self) -> None:
        for family in families.ALL:
            if self._target.store.scan(family, b"", keys.LAST, limit=1):
                raise InvalidInput(
                    f"{self._target.location} is not empty: a memory can only be moved to a place"
                    " that has none. Choose another one, such as another --tenant or a new folder"
                )

    def _copy(self, mark: MigrationMark) -> tuple[MigrationMark, int]:
        """Copy the families that the mark does not count. Return the last mark, and the number of
        rows."""
        count = 0
        pending: Future[list[CommitOutcome]] | None = None
        for family in FAMILIES:
            if family in mark.copied:
                continue
            start = keys.after(mark.after) if mark.family == family and mark.after else b""
            cleared: list[Operation] = []
            if mark.clearing and not start:
                cleared.append(DeleteRange(family, b"", keys.LAST))
                if family == families.META:  # which may hold this number as a row
                    cleared.append(_set_outbox(mark))
            for page in iterate_pages(self._source.store, family, start):
                next_mark = replace(mark, family=family, after=page[-1][0])
                rows = [Put(family, *row) for row in page if is_of_memory(family, row[0])]
                future = self._submit([*cleared, *rows, next_mark.put()], expected=mark)
                # One page is written while the next is read.
                _finish(pending)
                pending, mark, cleared = future, next_mark, []
                count += len(rows)
                self._on_progress(COPYING, count, self._source.rows)
            next_mark = replace(mark, copied=(*mark.copied, family), family="", after=b"")
            future = self._submit([*cleared, next_mark.put()], expected=mark)
            _finish(pending)
            pending, mark = future, next_mark
        _finish(pending)
        return mark, count

    def _compare(self, *, copied: int, resumed: bool, ended: bool) -> MigrationReport:
        done = 0
        total = self._source.rows + self._target.rows if ended else 2 * self._source.rows

        def count(rows: int) -> None:
            nonlocal done
            done += rows
            self._on_progress(COMPARING, done, total)

        return MigrationReport(
            source=self._source.location,
            target=self._target.location,
            copied=copied,
            resumed=resumed,
            ended=ended,
            source_outbox=self._source.store.get_sequence(*OUTBOX),
            target_outbox=self._target.store.get_sequence(*OUTBOX),
            families=tuple(
                FamilyComparison(
                    name=name,
                    source=digest_family(self._source.store, name, count),
                    target=digest_family(self._target.store, name, count),
                )
                for name in FAMILIES
            ),
        )

    def _refuse_damage(self) -> None:
        for side in (self._source, self._target):
            damages = side.list_damages()
            if damages:
                raise StorageDamaged(
                    f"{side.location} is damaged, so the copy would be incomplete: {damages[0]}."
                    " `memory-daemon admin verify --repair` saves what can be read; then migrate"
                    " again"
                )

    def _write(self, operations: Sequence[Operation], *, expected: MigrationMark | None) -> None:
        _finish(self._submit(operations, expected=expected))

    def _submit(
        self, operations: Sequence[Operation], *, expected: MigrationMark | None
    ) -> "Future[list[CommitOutcome]]":
        """Submit a batch that expects the mark as it was written last."""
        place = families.META, migration_mark.UNDER_WAY
        expectation: Expectation = (
            Absent(*place) if expected is None else Equals(*place, expected.encode())
        )
        return self._target.store.submit([Batch(tuple(operations), (expectation,))])


def _set_outbox(mark: MigrationMark) -> SetCounter:
    return SetCounter(*OUTBOX, b"%d" % mark.outbox)


def _finish(future: "Future[list[CommitOutcome]] | None") -> None:
    """Wait for a batch, and raise an error if it was not written."""
    if future is not None and any(isinstance(each, Conflict) for each in future.result()):
        raise StorageFailed("another process writes to the target: migrate again when it has ended")


def is_of_memory(family: str, key: bytes) -> bool:
    """Tell whether a row belongs to the memory, and not to the store that it is in."""
    return family != families.META or key not in OWN_ROWS


def iterate_pages(store: OrderedStore, family: str, start: bytes = b"") -> Iterator[list[Row]]:
    """Yield the rows of a family in pages that fit into little memory: a page has at most PAGE_ROWS
    rows and, as long as its rows are about as large as those before, PAGE_BYTES bytes."""
    limit = FIRST_PAGE
    while rows := store.scan(family, start, keys.LAST, limit=limit):
        yield rows
        if len(rows) < limit:
            return
        start = keys.after(rows[-1][0])
        size = sum(len(key) + len(value) for key, value in rows) or 1
        limit = max(1, min(PAGE_ROWS, GROWTH * limit, limit * PAGE_BYTES // size))


def digest_family(
    store: OrderedStore, family: str, on_rows: Callable[[int], None] = lambda _: None
) -> FamilyDigest:
    """Read all rows of a family that belong to the memory, and hash them."""
    count, digest = 0, hashlib.sha256()
    for page in iterate_pages(store, family):
        for key, value in page:
            if is_of_memory(family, key):
                count += 1
                # With their lengths: no other rows have the same bytes one after the other.
                digest.update(b"%d:%d:" % (len(key), len(value)))
                digest.update(key)
                digest.update(value)
        on_rows(len(page))
    return FamilyDigest(rows=count, sha256=digest.hexdigest())
