"""What only the start of a daemon needs is given back."""

import subprocess
import sys

import pytest

from agent_memory.daemon.settling import Mapping, list_library_mappings

ENTRY = "{} 00000000 fe:00 247278    {}\nSize:    8 kB\nAnonymous:    {} kB\nVmFlags: rd mr me\n"
SETTLE = """
import numpy, pygit2, sqlite3, tantivy
from pathlib import Path
from agent_memory.daemon.settling import release_memory

def resident():
    status = Path("/proc/self/status").read_text()
    return {line.split()[0]: int(line.split()[1]) for line in status.splitlines() if "kB" in line}

before = resident()
release_memory()
after = resident()
# What they have loaded still works, relocated tables and all.
assert (numpy.eye(3) @ numpy.ones(3)).sum() == 3
assert sqlite3.connect(":memory:").execute("SELECT 1").fetchone() == (1,)
assert pygit2.discover_repository("/nowhere") is None
assert tantivy.SchemaBuilder().build() is not None
print(before["RssFile:"], after["RssFile:"], before["RssAnon:"], after["RssAnon:"])
"""


def entries(*lines: tuple[str, str, int]) -> str:
    return "".join(ENTRY.format(*line) for line in lines)


def test_only_clean_pages_of_programs_and_libraries_are_unmapped() -> None:
    listed = list_library_mappings(
        entries(
            ("1000-3000 r--p", "/lib/own lib.so", 0),
            ("3000-5000 r-xp", "/lib/own lib.so", 0),
            ("5000-6000 r--p", "/lib/own lib.so", 4),  # relocated
            ("6000-7000 rw-p", "/lib/own lib.so", 0),
            ("7000-8000 r--p", "/index/data.fast", 0),  # no library
            ("8000-9000 r-xp", "/lib/old.so (deleted)", 0),
            ("9000-a000 r-xs", "/lib/shared.so", 0),
            ("a000-b000 r-xp", "[vdso]", 0),
            ("b000-c000 rw-p", "", 4),
        )
    )

    assert listed == [
        Mapping(0x1000, 0x2000, "/lib/own lib.so", executable=False, clean=True),
        Mapping(0x3000, 0x2000, "/lib/own lib.so", executable=True, clean=True),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
def test_a_process_goes_on_with_fewer_pages() -> None:
    done = subprocess.run(
        (sys.executable, "-I", "-c", SETTLE), check=True, capture_output=True, text=True
    )
    file_before, file_after, own_before, own_after = map(int, done.stdout.split())

    assert file_after < file_before / 2
    assert own_after < own_before + 1_024
