"""A copy of a folder that consists of links, to read files where nothing may be written.

RocksDB and Tantivy write small files of their own next to the files that they only read.
"""

import os
import shutil
from pathlib import Path

MAX_COPIED_BYTES = 64 << 10
_COPIED = frozenset({"CURRENT", "meta.json", "rocksdict-config.json"})  # they are written anew


def link_files(source: Path, target: Path) -> None:
    """Fill a new folder with links to the files of another, and with copies of small ones.

    Files that are removed meanwhile are left out.
    """
    target.mkdir(mode=0o700, parents=True)
    for entry in os.scandir(source):
        if not entry.is_file(follow_symlinks=False):
            continue
        copy = entry.name in _COPIED and entry.stat().st_size <= MAX_COPIED_BYTES
        if copy:
            shutil.copyfile(entry.path, target / entry.name, follow_symlinks=False)
        elif not entry.name.startswith("LOCK") and not entry.name.endswith(".lock"):
            (target / entry.name).symlink_to(entry.path)
