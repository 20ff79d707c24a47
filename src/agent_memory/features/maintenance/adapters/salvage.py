"""Check every table of a store, and save what can be read of a damaged one.

A repair first puts the store as it was into a folder beside it. What can be read is copied into a
new store, which replaces the old one. Rows derived from events are then brought into line with the
events that are left, and the rest is derived again.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_memory.features.log.adapters import event_codec
from agent_memory.kernel.errors import FeatureUnavailable, StorageDamaged, StorageFailed
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.progress import OnCount
from agent_memory.kernel.status import Damage, StoreCheck, StoreRepair
from agent_memory.platform import durable
from agent_memory.platform.removing import remove_tree
from agent_memory.platform.store import codec, damage, families, keys, plans, rocks, write_ahead_log
from agent_memory.platform.store.batches import Append, Delete, DeleteRange, Operation, Put
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import Gap, RocksEngine
from agent_memory.platform.store.rows import iter_pages, write

_PAGE = 1_000
_TIME = re.compile(rb"(?:evt|ses:[^:]*|grip):(\d{13})")
# The table of contents is derived from events: where some is lost, all of it is rebuilt.
_CONTENTS = (
    families.TOC_NODES,
    families.TOC_LATEST,
    families.TOC_STATE,
    families.SEGMENTS,
    families.GRIPS,
)
_NUMBERED = (families.OUTBOX, families.EMBEDDING_QUEUE, families.NOTE_QUEUE, families.JOURNAL)
_DIGITS = 20  # digits of a sequence number at the end of a key
# folders beside a store in repair
_SALVAGED, _REPLACED, _REBUILT = "salvaged", "replaced", "rebuilt"
_AHEAD = 1_000_000_000  # above any number in use, where the last one is unknown


def check(path: Path, on_progress: OnCount) -> StoreCheck:
    """Read every row of a store that does not change meanwhile. Raises StorageFailed."""
    rows, gaps = _read_all(path, on_progress)
    return StoreCheck(rows=rows, damages=describe(gaps))


def describe(gaps: Iterable[Gap]) -> tuple[Damage, ...]:
    """Describe what damaged tables hide, by family."""
    by_family: dict[str, list[Gap]] = {}
    for gap in gaps:
        by_family.setdefault(gap.family, []).append(gap)
    return tuple(_describe_family(family, of_family) for family, of_family in by_family.items())


def repair(path: Path, now: Millis, on_progress: OnCount) -> StoreRepair:
    """Save what can be read of a store that no process has open. Raises StorageFailed."""
    try:
        return _repair(path, now, on_progress)
    except OSError as exc:
        raise StorageFailed(f"cannot repair the store at {path}: {exc}") from exc


def finish(path: Path) -> None:
    """Finish a repair that was cut off while the new store replaced the old one."""
    fresh, old = _sibling_path(path, _SALVAGED), _sibling_path(path, _REPLACED)
    if fresh.exists() and not path.exists():
        fresh.rename(path)
        durable.sync_folder(path.parent)
    for left in (fresh, old, _sibling_path(path, _REBUILT)):
        remove_tree(left, ignore_errors=True)


def _repair(path: Path, now: Millis, on_progress: OnCount) -> StoreRepair:
    finish(path)
    if not any(path.glob("*.sst")) and not (path / "CURRENT").exists():
        raise FeatureUnavailable(f"there is no database at {path}")
    before = damage.read_reports(path)
    work, kept = path, ""
    try:
        rows, gaps = _read_all(path, on_progress)
    except StorageDamaged as exc:
        kept = _put_aside(path, f"a store that could not be opened ({exc.__cause__})", now)
        work = _rebuild(path)
        rows, gaps = _read_all(work, on_progress)
    if gaps and not kept:
        kept = _put_aside(path, _join(gaps), now)
    if not kept or work == path:  # damaged records are taken out of the logs here
        RocksEngine(
            path,
            lambda each: damage.mend_logs(each, now),
            lambda missing: damage.report_missing(path, missing, now),
        ).close()
    if kept:
        fresh = _copy_readable(work, _sibling_path(path, _SALVAGED), on_progress)
        lost = _reconcile(fresh, contents_too=not gaps or _is_in_contents(gaps))
        _swap(path, fresh)
        damage.write_report(Path(kept), _report(kept, gaps, lost, now))
    mended = tuple(each for each in damage.read_reports(path) if each not in before)
    return StoreRepair(rows=rows, damages=mended, kept=kept)


def _put_aside(path: Path, what: str, now: Millis) -> str:
    return damage.put_aside(path, _files(path), Damage(what=what, noticed_ms=now)).kept


def _swap(path: Path, fresh: Path) -> None:
    """Replace a store by a complete one. `finish` continues where this is cut off."""
    durable.sync_tree(fresh)
    path.rename(_sibling_path(path, _REPLACED))
    fresh.rename(path)
    durable.sync_folder(path.parent)
    finish(path)


def _sibling_path(path: Path, name: str) -> Path:
    return path.with_name(f"{path.name}.{name}")


def _describe_family(family: str, gaps: list[Gap]) -> Damage:
    ends = [_TIME.match(key) for gap in gaps for key in (gap.low, gap.high)]
    times = [Millis(int(match[1])) for match in ends if match]
    count = 0
    last = b""
    for gap in sorted(gaps):  # single rows that were read lie in ranges that scans skipped
        count += not count or gap.low > last
        last = max(last, gap.high)
    places = "1 damaged place" if count == 1 else f"{count} damaged places"
    return Damage(
        what=f"{places} in the tables of {family}",
        first_ms=min(times, default=None),
        last_ms=max(times, default=None),
    )


def _rebuild(path: Path) -> Path:
    """Copy a store that cannot be opened, rebuilding it from its sound tables and its logs."""
    copy = _sibling_path(path, _REBUILT)
    remove_tree(copy, ignore_errors=True)
    copy.mkdir(mode=0o700)
    for each in _files(path):
        damage.copy(each, copy / each.name)
    written = list(_read_logs(copy))
    rocks.rebuild_manifest(copy)
    engine = RocksEngine(copy)
    try:
        # The rebuilt store has only families with a sound table, and drops the rest of a log.
        for operations in written:
            engine.write([each for each in operations if each.family in families.ALL])
        engine.flush()
    finally:
        engine.close()
    return copy


def _read_logs(path: Path) -> Iterator[list[Put | Delete | DeleteRange]]:
    """Yield the batches in the logs of a closed store."""
    names = rocks.read_family_numbers(path)
    for log in sorted(path.glob("*.log")):
        for record in write_ahead_log.read(log.read_bytes()).records:
            try:
                yield write_ahead_log.parse_operations(record, names)
            except (IndexError, ValueError):
                continue  # not one of our batches


def _read_all(path: Path, on_progress: OnCount) -> tuple[int, tuple[Gap, ...]]:
    engine = RocksEngine(path, read_only=True)
    try:
        rows = 0
        for family in engine.families:
            for _ in engine.scan_all(family):
                rows += 1
                if rows % _PAGE == 0:
                    on_progress(rows)
        return rows, engine.gaps
    finally:
        engine.close()


def _copy_readable(path: Path, fresh: Path, on_progress: OnCount) -> Path:
    """Build a new store from every row that can be read."""
    remove_tree(fresh, ignore_errors=True)
    source, target = RocksEngine(path, read_only=True), RocksEngine(fresh)
    try:
        rows = 0
        for family in source.families:
            batch: list[Put] = []
            for key, value in source.scan_all(family):
                batch.append(Put(family, key, value))
                if len(batch) == _PAGE:
                    target.write(batch)
                    rows, batch = rows + len(batch), []
                    on_progress(rows)
            target.write(batch)
        target.flush()
    finally:
        source.close()
        target.close()
    return fresh


def _reconcile(path: Path, *, contents_too: bool) -> list[Millis]:
    """Make derived rows follow the events that are left. Return the times of the lost events."""
    with _open_store(path) as store:
        _restore_counters(store)
        lost = _drop_lost_events(store)
        _restore_event_ids(store)
        if contents_too:
            write(store, *(DeleteRange(family, b"", keys.LAST) for family in _CONTENTS))
            for page in iter_pages(store, families.EVENTS, b"", keys.LAST, limit=_PAGE):
                write(store, *(_build_outbox_entry(key) for key, _ in page))
    return lost


def _drop_lost_events(store: CommittedStore) -> list[Millis]:
    """Drop events whose session entry exists and whose record is lost. Their ids are freed, so
    that an import can bring them back. A forgotten event has no session entry."""
    lost: list[Millis] = []
    for page in iter_pages(store, families.SESSION_EVENTS, b"", keys.LAST, limit=_PAGE):
        entries = [(key, keys.parse_position(key)) for key, _ in page]
        events = [keys.event(at.at_ms, at.event_id) for _, at in entries]
        rows = store.get_many(families.EVENTS, events)
        for (entry, at), event, row in zip(entries, events, rows, strict=True):
            if row is None:
                lost.append(at.at_ms)
                write(
                    store,
                    Delete(families.SESSION_EVENTS, entry),
                    Delete(families.EVENT_IDS, keys.event_id(at.event_id)),
                    _build_outbox_entry(event),
                )
    return lost


def _restore_event_ids(store: CommittedStore) -> None:
    """Restore the id and the session entry of every event."""
    for page in iter_pages(store, families.EVENTS, b"", keys.LAST, limit=_PAGE):
        batch: list[Operation] = []
        for key, value in page:
            at = keys.parse_position(key)
            event = event_codec.decode_event(at, value)
            entry = keys.session_event(event.session_id, at.at_ms, at.event_id)
            name = keys.event_id(at.event_id)
            batch.append(Put(families.EVENT_IDS, name, codec.encode_millis(at.at_ms)))
            batch.append(Put(families.SESSION_EVENTS, entry, codec.EMPTY))
        write(store, *batch)


def _restore_counters(store: CommittedStore) -> None:
    """Make sure that no sequence number is used twice, also where the last one is unknown."""
    for family in _NUMBERED:
        last: dict[bytes, int] = {}
        for page in iter_pages(store, family, b"", keys.LAST, limit=_PAGE):
            for key, _ in page:
                if key[-_DIGITS:].isdigit():
                    last[key[:-_DIGITS]] = int(key[-_DIGITS:])
        for prefix in {*last, *((keys.OUTBOX_PREFIX,) if family == families.OUTBOX else ())}:
            known = store.get_sequence(family, prefix)
            number = max(last.get(prefix, 0), known or _AHEAD)
            if number != known:
                write(store, plans.put_counter(family, prefix, number))


def _build_outbox_entry(event_key: bytes) -> Append:
    """Build an outbox entry that has everything derived from this event checked again."""
    return Append(families.OUTBOX, keys.OUTBOX_PREFIX, codec.encode_key(event_key))


def _report(kept: str, gaps: tuple[Gap, ...], lost: list[Millis], now: Millis) -> Damage:
    return Damage(
        what=f"{_join(gaps) or 'a store that could not be opened'}; repaired",
        noticed_ms=now,
        events=len(lost),
        first_ms=min(lost, default=None),
        last_ms=max(lost, default=None),
        kept=kept,
    )


def _join(gaps: tuple[Gap, ...]) -> str:
    return "; ".join(each.what for each in describe(gaps))


def _is_in_contents(gaps: tuple[Gap, ...]) -> bool:
    return any(gap.family in (*_CONTENTS, families.META) for gap in gaps)


def _files(path: Path) -> list[Path]:
    return [each for each in path.iterdir() if each.is_file() and each.name != "LOCK"]


@contextmanager
def _open_store(path: Path) -> Iterator[CommittedStore]:
    store = CommittedStore(RocksEngine(path), lambda _health: None)  # a failed write raises
    try:
        yield store
    finally:
        store.close()
