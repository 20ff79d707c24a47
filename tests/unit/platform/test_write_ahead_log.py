"""The write-ahead log of RocksDB: damage loses the records it hits, and no other."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.platform.store import crc32c, families, rocks, write_ahead_log
from agent_memory.platform.store.batches import Delete, DeleteRange, Put
from agent_memory.platform.store.rocks import RocksEngine

RECORDS = st.lists(st.binary(min_size=1, max_size=80_000), max_size=8)
# Like ours: a hole of zeros means a power cut, and the last byte is a digit.
BATCHES = st.builds(
    lambda seed, size: Random(seed).randbytes(size).replace(b"\0", b"0") + b"7",
    st.integers(0, 1000),
    st.integers(40, 12_000),  # a few fill a block of the log, which has 32 KiB
)


def test_the_checksum_is_the_one_that_its_standard_gives() -> None:
    assert crc32c.compute([b"123456789", b"", bytes(32)]) == [0xE3069283, 0, 0x8A9136AA]


@given(RECORDS)
def test_records_round_trip(records: list[bytes]) -> None:
    found = write_ahead_log.read(write_ahead_log.write(records))
    assert found.records == tuple(records)
    assert found.damaged == ()


@given(st.lists(BATCHES, min_size=1, max_size=6), st.data())
def test_a_changed_bit_costs_one_record_and_is_noticed(
    records: list[bytes], data: st.DataObject
) -> None:
    log = bytearray(write_ahead_log.write(records))
    place = data.draw(st.integers(0, len(log) - 1))
    log[place] ^= 1 << data.draw(st.integers(0, 7))
    found = write_ahead_log.read(bytes(log))
    assert len(found.records) >= len(records) - 1
    assert set(found.records) <= set(records)
    if len(found.records) < len(records):
        assert any(start <= place < end for start, end in found.damaged)


@given(st.lists(BATCHES, min_size=2, max_size=6), st.data())
def test_a_log_that_was_cut_off_is_not_damaged(records: list[bytes], data: st.DataObject) -> None:
    whole = write_ahead_log.write(records)
    last = len(write_ahead_log.write(records[:-1]))
    found = write_ahead_log.read(whole[: data.draw(st.integers(last, len(whole) - 1))])
    assert found.records == tuple(records[:-1])
    assert found.damaged == ()


@given(st.lists(BATCHES, min_size=2, max_size=6), st.data())
def test_a_last_record_with_a_hole_is_not_damaged(
    records: list[bytes], data: st.DataObject
) -> None:
    """Some of its sectors never reached the disk, but later ones did."""
    log = bytearray(write_ahead_log.write(records))
    last = len(write_ahead_log.write(records[:-1]))
    start = data.draw(st.integers(last, len(log) - 1))
    end = min(len(log), start + data.draw(st.integers(64, 4096)))
    log[start:end] = bytes(end - start)
    found = write_ahead_log.read(bytes(log))
    assert found.records[: len(records) - 1] == tuple(records[:-1])
    assert found.damaged == ()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RocksEngine]:
    engine = RocksEngine(tmp_path / "db")
    yield engine
    engine.close()


def test_it_reads_what_rocksdb_writes(real: RocksEngine, tmp_path: Path) -> None:
    random_bytes = Random(7).randbytes
    batches: list[list[Put | Delete | DeleteRange]] = [
        [Put(families.EVENTS, b"a", random_bytes(100_000)), Delete(families.MEMORIES, b"b")],
        [DeleteRange(families.OUTBOX, b"a", b"z"), Put(families.META, b"k", b"")],
    ]
    for batch in batches:
        real.write(batch)
    real.flush()
    (log,) = [each for each in (tmp_path / "db").glob("*.log") if each.stat().st_size]
    content = log.read_bytes()
    found = write_ahead_log.read(content)
    names = rocks.read_family_numbers(tmp_path / "db")
    assert [write_ahead_log.parse_operations(each, names) for each in found.records] == batches
    assert write_ahead_log.write(found.records) == content
