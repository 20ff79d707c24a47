"""The files of a stopped store: their size in all and by family, and how many rows there are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import rocksdict


class Weight(NamedTuple):
    folder: int
    tables: Mapping[str, int]  # live table bytes of each family
    keys: Mapping[str, int]  # an estimate, which also counts the rows of a deleted range


def compacted(db: Path) -> Weight:
    """Compact with the options the store was written with, then weigh the folder."""
    everything = rocksdict.CompactOptions()
    everything.set_bottommost_level_compaction(rocksdict.BottommostLevelCompaction.force())
    with _opened(db, rocksdict.AccessType.read_write()) as (opened, families):
        for name in families:
            family = opened.get_column_family(name)
            family.flush(True)
            family.compact_range(None, None, everything)
            del family
    return weigh(db)


def weigh(db: Path) -> Weight:
    """Weigh the folder as it is."""
    tables: dict[str, int] = {}
    keys: dict[str, int] = {}
    with _opened(db, rocksdict.AccessType.read_only(False)) as (opened, families):
        for name in families:
            family = opened.get_column_family(name)
            tables[name] = family.property_int_value("rocksdb.total-sst-files-size") or 0
            keys[name] = family.property_int_value("rocksdb.estimate-num-keys") or 0
            del family
    folder = sum(path.stat().st_size for path in db.rglob("*") if path.is_file())
    return Weight(folder, tables, keys)


def count_rows(db: Path, name: str) -> int:
    """Count the rows of a family by reading them."""
    with _opened(db, rocksdict.AccessType.read_only(False)) as (opened, _):
        rows = opened.get_column_family(name).iter()
        rows.seek_to_first()
        count = 0
        while rows.valid():
            count += 1
            rows.next()
        del rows
    return count


@contextmanager
def _opened(
    db: Path, access: rocksdict.AccessType
) -> Iterator[tuple[rocksdict.Rdict, Mapping[str, rocksdict.Options]]]:
    options, families = rocksdict.Options.load_latest(str(db))
    opened = rocksdict.Rdict(str(db), options=options, column_families=families, access_type=access)
    try:
        yield opened, families
    finally:
        opened.close()
