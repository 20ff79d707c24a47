"""The rows of a tenant in PostgreSQL, the only module that uses the driver.

All tenants share the tables of `tables.py` in a schema of our own. `kv` has the rows, by tenant,
family and key. `head` has one row for each tenant, which every writing transaction locks.

- An entry of a B-tree has at most 2,704 bytes. A key of LONG_KEY bytes or more is stored as its
  first KEPT_BYTES and a digest, with the whole key beside it. Such keys are in order up to there;
  those that begin alike are put in order when they are read, so a scan is exact.
- A client that stops inside a transaction would keep the lock for good: the server ends its
  session. It does so only between messages, and not inside a pipeline of them. A group therefore is
  two messages of several statements each, lock and read, then write and commit, with all values
  written out in hexadecimal: such messages have no parameters.
- A statement sees what was committed before it began (READ COMMITTED). What a group expects is
  therefore read in a statement of its own, after the one that waits for the lock.
- Policies show and accept only rows of the tenant that `agent_memory.tenant` names, so a statement
  of ours that forgets the tenant finds and writes nothing of others. A connection is that of one
  tenant and says so when it connects: nothing resets such a setting, not even DISCARD ALL, and a
  read needs no transaction for it. A writing transaction says it again, with SET LOCAL.
- COMMIT answers "ROLLBACK" without an error if the transaction had failed: we check the answer.
- The planner knows nothing of a table that has just been filled: we allow only index scans, and
  look up keys one by one (LATERAL with a LIMIT), where a join could read the whole family.
"""

import hashlib
import logging
import os
import re
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo, errors, sql

from agent_memory.kernel import deadlines
from agent_memory.kernel.deadlines import Limit, Watchdog
from agent_memory.kernel.errors import (
    ConfigError,
    FeatureUnavailable,
    StorageClosed,
    StorageFailed,
    StorageTooNew,
)
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.status import FamilyStats, StoreStats
from agent_memory.platform.store import families, server_refusals, tables
from agent_memory.platform.store.batches import Delete, DeleteRange, Put, Row
from agent_memory.platform.store.database import DatabaseLost, Head, TransactionRefused
from agent_memory.platform.store.plans import Place, Write
from agent_memory.platform.store.submissions import UnknownFamily
from agent_memory.platform.store.tables import TableSteps

LONG_KEY = 2048
KEPT_BYTES = LONG_KEY - hashlib.sha256().digest_size
PAGE = 1_000
READERS = 8
_LEAST_TIMEOUT = 2  # seconds to connect; libpq takes no less
SAMPLE = 5_000  # rows of a family that are counted; more are estimated

# How long a change of a table waits for its lock, and the pauses between two attempts.
LOCK_MS = 300
LOCK_PAUSES = (0.2, 0.5, 1.0, 1.0, 2.0, 2.0, 5.0, 5.0, 5.0)
# How long a daemon waits for another one that changes the tables, and between two looks.
UPGRADE_SECONDS = 3600.0
UPGRADE_PAUSE = 0.5

_DEFAULTS: dict[str, Any] = {
    "application_name": "agent-memory",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
_SESSION = (
    "SET enable_seqscan = off",
    "SET enable_bitmapscan = off",
    "SET jit = off",
    "SET standard_conforming_strings = on",
    # A process that stops inside a transaction loses its lock before others give up waiting.
    "SET idle_in_transaction_session_timeout = '5s'",
    "SET lock_timeout = '10s'",
)
_READ_HEAD = """
    SELECT outbox, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM agent_memory.head WHERE tenant = %s
"""
_BEGIN = """
    BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL agent_memory.tenant = {tenant};
    {head} FOR UPDATE;
    SELECT place.number, kv.value
    FROM unnest({families}, {keys}) WITH ORDINALITY AS place(family, key, number)
    CROSS JOIN LATERAL (
        SELECT value FROM agent_memory.kv
        WHERE tenant = {tenant} AND kv.family = place.family AND kv.key = place.key LIMIT 1
    ) AS kv
"""
_READ_KEYS = """
    SELECT place.number, kv.value
    FROM unnest(%b::bytea[]) WITH ORDINALITY AS place(key, number)
    CROSS JOIN LATERAL (
        SELECT value FROM agent_memory.kv
        WHERE tenant = %s AND family = %s AND kv.key = place.key LIMIT 1
    ) AS kv
"""
_LOOK = """
    SELECT head.outbox, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, kv.key, kv.value
    FROM agent_memory.head LEFT JOIN agent_memory.kv
    ON kv.tenant = head.tenant AND kv.family = %s AND kv.key = ANY(%b)
    WHERE head.tenant = %s
"""
_SCAN = """
    SELECT coalesce(whole_key, key), value FROM agent_memory.kv
    WHERE tenant = %s AND family = %s AND key >= %b AND key < %b
    ORDER BY key
"""
_NEIGHBORS = """
    SELECT place.number, near.key, near.value
    FROM unnest(%b::bytea[]) WITH ORDINALITY AS place(key, number)
    CROSS JOIN LATERAL (
        (SELECT coalesce(whole_key, kv.key) AS key, kv.value FROM agent_memory.kv
         WHERE tenant = %s AND family = %s AND kv.key < place.key
         ORDER BY kv.key DESC LIMIT %s)
        UNION ALL
        (SELECT coalesce(whole_key, kv.key) AS key, kv.value FROM agent_memory.kv
         WHERE tenant = %s AND family = %s AND kv.key >= place.key
         ORDER BY kv.key LIMIT %s)
    ) AS near
"""
_DELETE_RANGE = """
    DELETE FROM agent_memory.kv
    WHERE tenant = {tenant} AND family = {family} AND key >= {low} AND key < {high}
    AND coalesce(whole_key, key) >= {start} AND coalesce(whole_key, key) < {end};
"""
_WRITE = """
    WITH removed AS (
        DELETE FROM agent_memory.kv
        USING unnest({removed_families}, {removed}) AS place(family, key)
        WHERE kv.tenant = {tenant} AND kv.family = place.family AND kv.key = place.key
    ), put AS (
        INSERT INTO agent_memory.kv (tenant, family, key, value, whole_key)
        SELECT {tenant}, row.* FROM unnest({families}, {keys}, {values}, {whole_keys}) AS row
        ON CONFLICT (tenant, family, key) DO UPDATE SET value = excluded.value
    )
    UPDATE agent_memory.head SET outbox = {outbox} WHERE tenant = {tenant};
    COMMIT
"""
_SAMPLE = """
    SELECT name, sample.rows, sample.bytes
    FROM unnest(%s::text[]) AS name
    CROSS JOIN LATERAL (
        SELECT count(*) AS rows, coalesce(sum(octet_length(key) + octet_length(value)), 0) AS bytes
        FROM (
            SELECT key, value FROM agent_memory.kv WHERE tenant = %s AND family = name LIMIT %s
        ) AS sampled
    ) AS sample
"""
_ESTIMATE = "EXPLAIN (FORMAT JSON) SELECT FROM agent_memory.kv WHERE tenant = %s AND family = %s"

_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_USER_INFO = re.compile(r"^(\w+://[^/@:]*):[^/@]*@")

_Connection = psycopg.Connection[tuple[Any, ...]]
# The server undoes a transaction with one of these, and the same may succeed later.
_REPEATABLE = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)
# Classes of error codes after which the connection is gone: 08 connection, 57P shutdown, 25P03 idle
_LOST_CODES = ("08", "57P", "25P03")


class _TenantRows:
    """Reads of one tenant over connections that are borrowed for each."""

    def __init__(
        self, tenant: str, borrow: Callable[[], AbstractContextManager[_Connection]]
    ) -> None:
        self._tenant = tenant
        self._borrow = borrow

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        _check_family(family)
        values: list[bytes | None] = [None] * len(keys)
        parameters = ([_shorten(key) for key in keys], self._tenant, family)
        with self._borrow() as connection:
            if keys:
                for number, value in connection.execute(_READ_KEYS, parameters, binary=True):
                    values[number - 1] = value
        return values

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool
    ) -> list[Row]:
        _check_family(family)
        with self._borrow() as connection:
            if start >= end or limit <= 0:
                return []
            if limit <= PAGE and not _is_long(start, end):
                statement = f"{_SCAN} {'DESC' if reverse else ''} LIMIT %s"
                parameters = (self._tenant, family, start, end, limit)
                rows = connection.execute(statement, parameters, binary=True).fetchall()
                if not _is_long(*(key for key, _ in rows)):
                    return [(key, value) for key, value in rows]
            with _snapshot(connection):
                return self._read(connection, family, start, end, limit=limit, reverse=reverse)

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        _check_family(family)
        with self._borrow() as connection:
            if not keys:
                return []
            near: list[list[Row]] = [[] for _ in keys]
            if not _is_long(*keys):
                side = (self._tenant, family)
                parameters = (list(keys), *side, reach, *side, reach + 1)
                for number, key, value in connection.execute(_NEIGHBORS, parameters, binary=True):
                    near[number - 1].append((key, value))
            if _is_long(*keys, *(key for rows in near for key, _ in rows)):
                with _snapshot(connection):
                    near = [self._read_around(connection, family, key, reach) for key in keys]
            return [_choose(rows, key, reach) for key, rows in zip(keys, near, strict=True)]

    def read_head(self) -> Head:
        with self._borrow() as connection:
            return _to_head(connection.execute(_READ_HEAD, (self._tenant,)).fetchone())

    def look(self, family: str, keys: Sequence[bytes], /) -> tuple[Head, list[bytes | None]]:
        _check_family(family)
        stored = [_shorten(key) for key in keys]
        with self._borrow() as connection:
            parameters = (family, stored, self._tenant)
            rows = connection.execute(_LOOK, parameters, binary=True).fetchall()
        values = {key: value for _, _, key, value in rows}
        return _to_head(rows[0] if rows else None), [values.get(key) for key in stored]

    def _read_around(
        self, connection: _Connection, family: str, key: bytes, reach: int
    ) -> list[Row]:
        last = b"\xff" * (LONG_KEY + 1)
        before = self._read(connection, family, b"", key, limit=reach, reverse=True)
        after = self._read(connection, family, key, last, limit=reach + 1, reverse=False)
        return [*before, *after]

    def _read(
        self,
        connection: _Connection,
        family: str,
        start: bytes,
        end: bytes,
        *,
        limit: int,
        reverse: bool,
    ) -> list[Row]:
        with closing(self._iterate(connection, family, start, end, reverse=reverse)) as rows:
            return list(islice(rows, limit))

    def _iterate(
        self, connection: _Connection, family: str, start: bytes, end: bytes, *, reverse: bool
    ) -> Generator[Row, None, None]:
        """Yield rows in the order of their whole keys, by pages, inside a transaction."""
        statement = f"{_SCAN} {'DESC' if reverse else ''}"
        with closing(connection.cursor("scan", withhold=False)) as cursor:
            cursor.itersize = PAGE
            cursor.execute(statement, (self._tenant, family, *_widen(start, end)), binary=True)
            for _, alike in groupby(cursor, lambda row: row[0][:KEPT_BYTES]):
                rows = sorted(alike, reverse=reverse)
                yield from ((key, value) for key, value in rows if start <= key < end)


class PostgresDatabase(_TenantRows):
    """A TenantDatabase in PostgreSQL."""

    def __init__(
        self,
        url: str,
        tenant: str,
        *,
        create: bool = True,
        steps: TableSteps = tables.OURS,
    ) -> None:
        """Connect, and create what is missing unless `create` is False.

        Raises ConfigError if the address is not one, StorageTooNew if the tables are those of a
        later version, DatabaseLost and StorageFailed.
        """
        given = _parse(url)
        # The driver logs what it also raises.
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)
        named = re.sub(r"([\\\s])", r"\\\1", tenant)  # a blank would begin another option
        options = f"{given.get('options') or ''} -c agent_memory.tenant={named}".strip()
        self._parameters = {**_DEFAULTS, **given, "client_encoding": "utf8", "options": options}
        self.path = _describe(given, tenant)
        self._quoted_tenant = sql.Literal(tenant).as_string()
        self._steps = steps
        self._closed = False
        self._pool = _Pool(self._connect, READERS)
        self._watchdog = Watchdog("postgres-watchdog")
        self._writing: _Connection | None = None
        super().__init__(tenant, self._lend)
        try:
            if create:
                self._create()
            else:
                self._require_tenant()
        except BaseException:
            self.close()
            raise

    def begin(self, places: Sequence[Place], /) -> "_PostgresTransaction":
        for family, _ in places:
            _check_family(family)
        connection = self._get_writer()
        try:
            with self._translating(connection):
                statement = _BEGIN.format(
                    head=_READ_HEAD.replace("%s", self._quoted_tenant),
                    tenant=self._quoted_tenant,
                    families=_quote_names([family for family, _ in places]),
                    keys=_quote_all([_shorten(key) for _, key in places]),
                )
                begun = connection.execute(statement.encode(), prepare=False)
                begun.nextset()
                begun.nextset()
                head = _to_head(begun.fetchone())
                begun.nextset()
                values: dict[Place, bytes | None] = dict.fromkeys(places)
                for number, value in begun:
                    values[places[number - 1]] = value
                return _PostgresTransaction(self, connection, head, values)
        except BaseException:
            self.end(connection)
            raise

    def write(self, connection: _Connection, operations: Sequence[Write], outbox: int) -> None:
        """Send the operations of a transaction and its COMMIT."""
        for operation in operations:
            _check_family(operation.family)
        puts, removed, ranges = condense(operations)
        statement = "".join(self._delete_range(each) for each in ranges) + _WRITE.format(
            tenant=self._quoted_tenant,
            removed_families=_quote_names([family for family, _ in removed]),
            removed=_quote_all([_shorten(key) for _, key in removed]),
            families=_quote_names([family for family, _ in puts]),
            keys=_quote_all([_shorten(key) for _, key in puts]),
            values=_quote_all(list(puts.values())),
            whole_keys=_quote_all([key if len(key) >= LONG_KEY else None for _, key in puts]),
            outbox=int(outbox),
        )
        with self._translating(connection):
            done = connection.execute(statement.encode(), prepare=False)
            while done.nextset():
                pass
            if done.statusmessage != "COMMIT":
                raise TransactionRefused(f"{self.path} has rolled back a transaction")

    def end(self, connection: _Connection) -> None:
        """Roll back what is open on the writing connection, or close it."""
        status = connection.info.transaction_status
        idle = psycopg.pq.TransactionStatus.IDLE
        if status != idle and not connection.closed:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        if connection.closed or connection.info.transaction_status != idle:
            connection.close()
            self._writing = None

    @contextmanager
    def view(self) -> Iterator[_TenantRows]:
        """Show the rows as they are now for the length of a `with` block."""
        with self._translating(None):
            connection = self._connect()
        try:
            with self._translating(connection):
                connection.execute("SET idle_in_transaction_session_timeout = 0")
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

            @contextmanager
            def borrow() -> Iterator[_Connection]:
                with self._translating(connection):
                    yield connection

            yield _TenantRows(self._tenant, borrow)
        finally:
            connection.close()

    def stats(self) -> StoreStats:
        """Return the sizes of the tenant. Families of many rows are estimated."""
        with self._borrow() as connection:
            rows = connection.execute(_SAMPLE, (list(families.ALL), self._tenant, SAMPLE))
            sampled = {name: (count, int(size)) for name, count, size in rows}
            found = []
            for name in families.ALL:
                count, size = sampled[name]
                if count == SAMPLE:
                    plan = connection.execute(_ESTIMATE, (self._tenant, name)).fetchone()
                    expected = max(count, int(plan[0][0]["Plan"]["Plan Rows"]) if plan else 0)
                    count, size = expected, size * expected // count
                found.append(FamilyStats(name=name, entries=count, size_bytes=size))
        return StoreStats(
            path=self.path,
            size_bytes=sum(family.size_bytes for family in found),
            families=tuple(found),
            pending_compactions=0,
            wal_bytes=0,
        )

    def compact(self, family: str, /) -> None:
        """Let the server remove deleted rows from its pages. It does so for all families at once,
        so only one of them asks for it."""
        _check_family(family)
        if family == families.ALL[0]:
            with self._borrow() as connection:
                connection.execute("VACUUM agent_memory.kv")

    def copy_to(self, _path: Path, /) -> None:
        raise FeatureUnavailable(
            "the database is on a server (storage.url): back it up there, with"
            " `pg_dump --schema=agent_memory`"
        )

    def close(self) -> None:
        self._closed = True
        self._watchdog.close()
        self._pool.close()
        if self._writing is not None:
            self._writing.close()

    def _delete_range(self, operation: DeleteRange) -> str:
        family, start, end = operation
        low, high = _widen(start, end)
        return _DELETE_RANGE.format(
            tenant=self._quoted_tenant,
            family=sql.Literal(family).as_string(),
            low=_quote(low),
            high=_quote(high),
            start=_quote(start),
            end=_quote(end),
        )

    def _create(self) -> None:
        """Create the tables and the tenant's head row, unless they exist: a role may be allowed to
        use them but not to create any. Bring older tables to our version."""
        connection = self._get_writer()
        with self._translating(connection):
            if not _is_table(connection, "version"):
                for statement in tables.CREATE:
                    # Another daemon may create it at the same moment.
                    with suppress(errors.UniqueViolation, errors.DuplicateTable):
                        connection.execute(statement)
            self._upgrade(connection)
            self._protect(connection)
            connection.execute(
                "INSERT INTO agent_memory.head (tenant) VALUES (%s) ON CONFLICT DO NOTHING",
                (self._tenant,),
            )

    def _require_tenant(self) -> None:
        connection = self._get_writer()
        with self._translating(connection):
            if _is_table(connection, "version"):
                self._upgrade(connection)
                if connection.execute(_READ_HEAD, (self._tenant,)).fetchone() is not None:
                    return
        raise StorageFailed(f"there is no memory in {self.path}")

    def _upgrade(self, connection: _Connection) -> None:
        """Take the steps from the version of the tables to ours, or raise StorageTooNew."""
        deadline = time.monotonic() + UPGRADE_SECONDS
        while (
            present := self._read_version(connection, tables.READ_VERSION)
        ) < self._steps.version:
            try:
                self._take_step(connection, present + 1)
            except errors.LockNotAvailable:  # another daemon takes it
                if time.monotonic() > deadline:
                    raise
                time.sleep(UPGRADE_PAUSE)
            except errors.InsufficientPrivilege as exc:
                raise StorageFailed(
                    f"{self.path} has tables of version {present}, and this role may not change"
                    f" them to {self._steps.version}: start the daemon once with the role that owns"
                    " them"
                ) from exc

    def _take_step(self, connection: _Connection, number: int) -> None:
        """Bring the tables to the next version, unless another daemon has done so.

        The lock of the version is on a connection of its own, because statements that build an
        index refuse a transaction. Nobody waits for this lock inside a statement: the building of
        an index waits for the end of all older statements.
        """
        with closing(self._connect()) as guard:
            guard.execute("SET idle_in_transaction_session_timeout = 0")
            guard.execute("BEGIN")
            if self._read_version(guard, tables.LOCK_VERSION) == number - 1:
                for statement in self._steps.get_step(number):
                    _execute_patiently(connection, statement)
                guard.execute(tables.SET_VERSION, (number,))
            guard.execute("COMMIT")

    def _read_version(self, connection: _Connection, statement: str) -> int:
        row = connection.execute(statement).fetchone()
        if row is None:
            raise StorageFailed(f"{self.path}: the row in agent_memory.version is missing")
        number = int(row[0])
        if number > self._steps.version:
            raise StorageTooNew(
                f"{self.path} has tables of version {number}, but this version of Agent Memory"
                f" supports {self._steps.version}: upgrade it"
            )
        return number

    def _protect(self, connection: _Connection) -> None:
        """Add the policies, if tables of an earlier version have none.

        Raises StorageFailed if this role may not add them.
        """
        if connection.execute(tables.IS_PROTECTED).fetchone() == (True,):
            return
        for statement in tables.PROTECT:
            try:
                with suppress(errors.DuplicateObject, errors.UniqueViolation):
                    _execute_patiently(connection, statement)
            except errors.InsufficientPrivilege as exc:
                raise StorageFailed(
                    f"{self.path}: the tables have no row-level security yet, and this role does"
                    " not own them: start the daemon once with the role that does"
                ) from exc

    def bypasses_policies(self) -> bool:
        """Tell whether this role sees the rows of all tenants."""
        with self._borrow() as connection:
            return connection.execute(tables.BYPASSES).fetchone() != (False,)

    def _get_writer(self) -> _Connection:
        if self._closed:
            raise StorageClosed("the store is closed")
        if self._writing is None or not _is_alive(self._writing):
            with self._translating(None):
                self._writing = self._connect()
        return self._writing

    def _connect(self, limit: Limit | None = None) -> _Connection:
        hurry = {} if limit is None else {"connect_timeout": _LEAST_TIMEOUT}
        connection = psycopg.connect(**{**self._parameters, **hurry}, autocommit=True)
        try:
            connection.execute("; ".join(_SESSION))
            # Otherwise a crash of the server would lose what was acknowledged.
            if connection.execute("SHOW synchronous_commit").fetchone() == ("off",):
                connection.execute("SET synchronous_commit = on")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _lend(self) -> Iterator[_Connection]:
        """Borrow a connection. One that the server has closed meanwhile is replaced first."""
        if self._closed:
            raise StorageClosed("the store is closed")
        limit = deadlines.find_limit()
        with self._translating(None):
            connection = self._pool.take(limit)
        try:
            with self._translating(connection), self._ending(connection, limit):
                yield connection
        finally:
            self._pool.give_back(connection)

    @contextmanager
    def _ending(self, connection: _Connection, limit: Limit | None) -> Iterator[None]:
        """End a connection that a caller waits for no longer: a server that is stopped keeps it
        open and says nothing."""
        if limit is None:
            yield
            return
        using, is_done = threading.Lock(), False

        def end() -> None:
            with using:
                if not is_done and not connection.closed:
                    with socket.socket(fileno=os.dup(connection.fileno())) as wire:
                        wire.shutdown(socket.SHUT_RDWR)

        self._watchdog.watch(limit, lambda: is_done, end)
        try:
            yield
        finally:
            with using:
                is_done = True

    @contextmanager
    def _translating(self, connection: _Connection | None) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as exc:
            code, reason = exc.sqlstate, " ".join(str(exc).split())
            if isinstance(exc, _REPEATABLE):
                raise TransactionRefused(
                    f"{self.path} has rolled back a transaction: {reason}"
                ) from exc
            is_open = connection is not None and not connection.closed
            advice = server_refusals.find_advice(code, reason)
            if is_open and code is not None and not code.startswith(_LOST_CODES):
                raise StorageFailed(f"{self.path}: {reason}{advice}") from exc
            if connection is not None:
                connection.close()
            if server_refusals.is_answer(reason):
                raise DatabaseLost(f"{self.path} refuses us: {reason}{advice}") from exc
            raise DatabaseLost(f"{self.path} does not answer: {reason}") from exc


class _PostgresTransaction:
    def __init__(
        self,
        database: PostgresDatabase,
        connection: _Connection,
        head: Head,
        values: dict[Place, bytes | None],
    ) -> None:
        self.head = head
        self._database = database
        self._connection = connection
        self._values = values

    def get(self, family: str, key: bytes, /) -> bytes | None:
        return self._values[family, key]

    def commit(self, operations: Sequence[Write], outbox: int, /) -> None:
        self._database.write(self._connection, operations, outbox)

    def roll_back(self) -> None:
        self._database.end(self._connection)


class _Pool:
    """Connections for readers: at most so many, each used by one thread at a time."""

    def __init__(self, connect: Callable[[Limit | None], _Connection], most: int) -> None:
        self._connect = connect
        self._free = threading.Semaphore(most)
        self._idle: deque[_Connection] = deque()

    def take(self, limit: Limit | None = None) -> _Connection:
        """Return a connection. Raises psycopg.OperationalError if all are in use for too long."""
        patience = None if limit is None else max(0.0, limit.until - time.monotonic())
        if not self._free.acquire(timeout=patience):
            raise psycopg.OperationalError("all connections wait for its answers")
        try:
            with suppress(IndexError):
                while True:
                    connection = self._idle.pop()
                    if _is_alive(connection):
                        return connection
            return self._connect(limit)
        except BaseException:
            self._free.release()
            raise

    def give_back(self, connection: _Connection) -> None:
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
        if not connection.closed:
            self._idle.append(connection)
        self._free.release()

    def close(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()


def name_place(url: str, tenant: str) -> str:
    """Name the database of an address and the tenant in it, without a password."""
    return _describe(_parse(url), tenant)


def hide_password(url: str) -> str:
    """Return an address without its passwords. It leads to the same database."""
    given = _parse(url)
    kept = {name: value for name, value in given.items() if name not in _SECRETS}
    if kept == given:
        return url
    shown = _USER_INFO.sub(r"\1@", url, count=1)
    with suppress(psycopg.Error):
        if conninfo.conninfo_to_dict(shown) == kept:
            return shown
    return conninfo.make_conninfo(**kept)


def condense(
    operations: Sequence[Write],
) -> tuple[dict[Place, bytes], list[Place], list[DeleteRange]]:
    """Reduce operations to puts, deletions and ranges that have the same result when the ranges are
    removed first, then the places deleted, then the rows put: one statement writes a row once."""
    final: dict[Place, bytes | None] = {}
    ranges: list[DeleteRange] = []
    for operation in operations:
        if isinstance(operation, Put):
            final[operation.family, operation.key] = operation.value
        elif isinstance(operation, Delete):
            final[operation.family, operation.key] = None
        elif operation.start < operation.end:
            family, start, end = operation
            for place in [p for p in final if p[0] == family and start <= p[1] < end]:
                del final[place]
            ranges.append(operation)
    puts = {place: value for place, value in final.items() if value is not None}
    return puts, [place for place, value in final.items() if value is None], ranges


def _quote(value: bytes) -> str:
    return f"'\\x{value.hex()}'::bytea"


def _quote_all(values: Sequence[bytes | None]) -> str:
    items = ("NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values)
    return f"'{{{','.join(items)}}}'::bytea[]"


def _quote_names(names: Sequence[str]) -> str:
    """Quote families, which are known and plain words."""
    return f"'{{{','.join(names)}}}'::text[]"


def _shorten(key: bytes) -> bytes:
    """Return a key as it is stored: short enough for an index."""
    if len(key) < LONG_KEY:
        return key
    return key[:KEPT_BYTES] + hashlib.sha256(key).digest()


def _is_long(*keys: bytes) -> bool:
    """Tell whether the order of some of these keys may differ from that of the stored ones."""
    return any(len(key) > KEPT_BYTES for key in keys)


def _widen(start: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Return bounds of stored keys that include every key between `start` and `end`."""
    if len(end) > KEPT_BYTES:
        end = end[:KEPT_BYTES] + b"\xff" * (LONG_KEY - KEPT_BYTES + 1)
    return start[:KEPT_BYTES], end


def _choose(rows: list[Row], key: bytes, reach: int) -> list[Row]:
    """Choose the neighbors of a key among rows around it."""
    rows.sort()
    before = [row for row in rows if row[0] < key]
    own = [row for row in rows if row[0] == key]
    after = [row for row in rows if row[0] > key]
    return [*before[max(0, len(before) - reach) :], *own, *after[:reach]]


def _check_family(family: str) -> None:
    if family not in families.SHARED:
        raise UnknownFamily(f"no family {family!r}")


@contextmanager
def _snapshot(connection: _Connection) -> Iterator[None]:
    """Show one moment to all statements of the block, unless a transaction does so already."""
    if connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS:
        yield
        return
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    yield
    connection.execute("COMMIT")


def _is_table(connection: _Connection, name: str) -> bool:
    found = connection.execute("SELECT to_regclass(%s)", (f"agent_memory.{name}",)).fetchone()
    return found is not None and found[0] is not None


def _execute_patiently(connection: _Connection, statement: str) -> None:
    """Execute a statement that locks a table. While it waits, others wait behind it: it gives up
    after a moment, lets them pass, and tries again."""
    connection.execute(f"SET lock_timeout = {LOCK_MS}")
    try:
        for pause in (*LOCK_PAUSES, None):
            try:
                connection.execute(statement)
                return
            except errors.LockNotAvailable:
                if pause is None:
                    raise
                time.sleep(pause)
    finally:
        connection.execute("; ".join(_SESSION))


def _is_alive(connection: _Connection) -> bool:
    """Tell whether the server has kept an idle connection open, and close it if not.

    The server sends nothing unasked but the news of its end.
    """
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if not poll.poll(0):
        return True
    connection.close()
    return False


def _to_head(row: tuple[Any, ...] | None) -> Head:
    if row is None:
        raise StorageFailed("the row of the tenant in agent_memory.head is missing")
    return Head(row[0], Millis(row[1]))


def _parse(url: str) -> dict[str, Any]:
    try:
        return conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        # Without the cause, which repeats the address with its password.
        raise ConfigError(
            "the address of the database is not one of PostgreSQL, such as"
            " postgresql://me@db.example/memory"
        ) from None


def _describe(given: dict[str, Any], tenant: str) -> str:
    """Name the database without the password."""
    host = given.get("host") or "localhost"
    port = f":{given['port']}" if given.get("port") else ""
    return f"postgresql://{host}{port}/{given.get('dbname') or ''} (tenant {tenant})"
