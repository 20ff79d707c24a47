"""Engines that fail on purpose, each around a real one."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from agent_memory.kernel.errors import StorageFailed
from agent_memory.platform.store.batches import Delete, DeleteRange, Put, Row
from agent_memory.platform.store.committer import Engine
from tests.contract.stores import TIMEOUT


class Wrapped:
    """An engine that passes every call on."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner

    def get(self, family: str, key: bytes, /) -> bytes | None:
        return self.inner.get(family, key)

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]:
        return self.inner.get_many(family, keys)

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool
    ) -> Iterator[Row]:
        return self.inner.scan(family, start, end, limit=limit, reverse=reverse)

    def get_neighbors(
        self, family: str, keys: Sequence[bytes], /, *, reach: int
    ) -> list[list[Row]]:
        return self.inner.get_neighbors(family, keys, reach=reach)

    def write(self, operations: Sequence[Put | Delete | DeleteRange], /) -> None:
        self.inner.write(operations)

    def flush(self) -> None:
        self.inner.flush()

    def interrupt(self) -> None:
        self.inner.interrupt()

    def reopen(self, *, read_only: bool) -> None:
        self.inner.reopen(read_only=read_only)

    def close(self) -> None:
        self.inner.close()


class HeldEngine(Wrapped):
    """Stops in `flush`, after the write, until released; then flushes, or raises a failure."""

    def __init__(self, inner: Engine, *, failures: Iterable[BaseException] = ()) -> None:
        super().__init__(inner)
        self.flushes = 0
        self.failures = deque(failures)
        self._entered = threading.Event()
        self._released = threading.Event()

    def flush(self) -> None:
        self.flushes += 1
        self._entered.set()
        wait_for(self._released)
        if self.failures:
            raise self.failures.popleft()
        self.inner.flush()

    def wait_until_held(self) -> None:
        wait_for(self._entered)

    def release(self) -> None:
        self._released.set()


class ReopenedEngine(Wrapped):
    """Cannot reopen its files before `allow`."""

    def __init__(self, held: HeldEngine) -> None:
        super().__init__(held)
        self.held = held
        self._reads = self._writes = False
        self.surprises: deque[Exception] = deque()

    def allow(self, *, reads: bool = False, writes: bool = False) -> None:
        self._reads, self._writes = reads, writes

    def reopen(self, *, read_only: bool) -> None:
        if self.surprises:
            raise self.surprises.popleft()
        if not (self._reads if read_only else self._writes):
            raise StorageFailed("still broken")


class UnreadableEngine(Wrapped):
    """Has one row in a damaged block."""

    def __init__(self, held: HeldEngine, key: bytes) -> None:
        super().__init__(held)
        self.held = held
        self._key = key

    def get(self, family: str, key: bytes, /) -> bytes | None:
        if key == self._key:
            raise StorageFailed("Corruption: block checksum mismatch")
        return super().get(family, key)


class RefusingEngine(Wrapped):
    """Raises these errors in its first writes, and writes nothing."""

    def __init__(self, inner: Engine, errors: Iterable[Exception]) -> None:
        super().__init__(inner)
        self.errors = deque(errors)
        self.flushes = 0

    def write(self, operations: Sequence[Put | Delete | DeleteRange], /) -> None:
        if self.errors:
            raise self.errors.popleft()
        self.inner.write(operations)

    def flush(self) -> None:
        self.flushes += 1
        self.inner.flush()


class StallingEngine(Wrapped):
    """Stalls every write until relieved."""

    def __init__(self, inner: Engine, stalled: Exception) -> None:
        super().__init__(inner)
        self._stalled = stalled
        self._entered = threading.Event()
        self._relieved = threading.Event()

    def write(self, operations: Sequence[Put | Delete | DeleteRange], /) -> None:
        self._entered.set()
        if not self._relieved.is_set():
            raise self._stalled
        self.inner.write(operations)

    def wait_until_stalled(self) -> None:
        wait_for(self._entered)

    def relieve(self) -> None:
        self._relieved.set()


class SlowScanEngine(Wrapped):
    """Opens a scan's view at once, but returns no row until released."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self._entered = threading.Event()
        self._released = threading.Event()

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool
    ) -> Iterator[Row]:
        return self._slowly(self.inner.scan(family, start, end, limit=limit, reverse=reverse))

    def wait_until_scanning(self) -> None:
        wait_for(self._entered)

    def release(self) -> None:
        self._released.set()

    def _slowly(self, rows: Iterator[Row]) -> Iterator[Row]:
        self._entered.set()
        wait_for(self._released)
        yield from rows


def wait_for(event: threading.Event) -> None:
    if not event.wait(TIMEOUT):
        raise AssertionError("the expected event did not happen in time")
