"""What a stopped store weighs once everything is compacted, in all and by family."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import rocksdict


class Weight(NamedTuple):
    folder: int
    tables: Mapping[str, int]  # live table bytes of each family
    keys: Mapping[str, int]


def compacted(db: Path) -> Weight:
    """Compact with the options the store was written with, then weigh the folder."""
    options, families = rocksdict.Options.load_latest(str(db))
    opened = rocksdict.Rdict(str(db), options=options, column_families=families)
    everything = rocksdict.CompactOptions()
    everything.set_bottommost_level_compaction(rocksdict.BottommostLevelCompaction.force())
    tables: dict[str, int] = {}
    keys: dict[str, int] = {}
    for name in families:
        family = opened.get_column_family(name)
        family.flush(True)
        family.compact_range(None, None, everything)
        tables[name] = family.property_int_value("rocksdb.total-sst-files-size") or 0
        keys[name] = family.property_int_value("rocksdb.estimate-num-keys") or 0
        del family
    opened.close()
    folder = sum(path.stat().st_size for path in db.rglob("*") if path.is_file())
    return Weight(folder, tables, keys)
