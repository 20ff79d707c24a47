"""Laptops and their team's server under seeds: all sides agree, and planted faults are found.

A seed that has found a fault stays in `FOUND`.
"""

from collections.abc import Sequence

import pytest

from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.features.upstream.adapters.upstream_store import StoredUpstream
from agent_memory.features.upstream.model.erasures import AskedErasure
from agent_memory.features.upstream.model.merging import FactTombstone
from agent_memory.features.upstream.model.records import LoweredRecord, RecordBatch, SharedRecord
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.ports import Origin, TeamServer
from agent_memory.features.upstream.services.forwarding import Check, Forwarding
from agent_memory.features.upstream.services.merging import MemoryMerger
from agent_memory.features.upstream.services.outgoing import OutgoingRecords
from agent_memory.features.upstream.services.receiving import Receiving, Sender
from agent_memory.kernel.ids import EventId, MemoryKey, Millis
from tests.simulation.laptops import HOUR_MS, TeamParts, simulate
from tests.simulation.seeds import assert_found, assert_replays, run_new_seeds, run_seeds

SEEDS = (*range(8), 25)  # the last one notices that the server was restored
MOST_SEEDS = 100  # within which a planted fault must be found
# A removal that was not sent; tombstones from slow clocks; two removals that waited as one.
FOUND: Sequence[int] = (12, 29, 55, 1053)


def test_all_sides_agree() -> None:
    met = run_seeds(simulate, (*FOUND, *SEEDS))
    # A simulation in which nothing happens would prove nothing.
    faults = {"lost request", "lost answer", "repeated", "crash", "offline", "gap"}
    faults |= {"restored", "restoration noticed"}
    acts = {"forgotten event", "forgotten memory", "removed fact", "scope changed"}
    assert not (faults | acts) - met.keys()


@pytest.mark.parametrize("ahead_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_an_hour_off_does_not_divide_them(ahead_ms: int) -> None:
    # A removal on a clock that is ahead, before a new value on one that is behind: 42.
    run_seeds(lambda seed: simulate(seed, TeamParts(ahead_ms=ahead_ms)), (42, *range(3)))


def test_a_seed_replays_exactly() -> None:
    assert_replays(simulate)


@pytest.mark.soak
def test_all_sides_agree_for_as_long_as_one_likes() -> None:
    run_new_seeds(simulate)


class EagerCursor(Forwarding):
    """Moves its cursor before the server has answered."""

    def _follow_outbox(self, server: TeamServer, check: Check) -> None:
        cursor = self.state.load().cursor or 0
        while entries := self.outbox.read(cursor, limit=3):
            cursor = entries[-1][0]
            self._save(cursor=cursor)
            scope = self.read_settings().scope
            found = self.outgoing.collect([entry for _, entry in entries], scope)
            self._send(server, found, check)


class EagerPull(Forwarding):
    """Notes that it has pulled a page before it has applied it."""

    def _pull(self, server: TeamServer, _check: Check) -> None:
        settings = self.read_settings()
        while settings.scope:
            before = self.state.load().pulled
            page = server.list_changes(before, settings.scope, limit=5)
            self._save(pulled=page.next)
            for change in page.changes:
                for _ in range(8):
                    self._save(last_error="")  # it may end here
                self._apply(change, settings, page.people)
            if not page.more or page.next == before:
                return


class KeepsItsTimes(Forwarding):
    """Does not take over the times that the server gave its records."""

    def _adopt_times(self, _lowered: LoweredRecord, _sent: RecordBatch) -> None:
        pass


class NoAlias(Receiving):
    """Does not remember forgotten events that have not come yet."""

    def _forget_events(
        self, forgotten: Sequence[EventId], sender: Sender, asked: AskedErasure, tally: "object"
    ) -> None:
        present = [name for name in forgotten if self.log.get(_own(name, sender)) is not None]
        super()._forget_events(present, sender, asked, tally)  # type: ignore[arg-type]


def _own(name: EventId, sender: Sender) -> EventId:
    return EventId(f"{name}@{sender.person}")


class Overwriting(MemoryMerger):
    """Writes copies as they come instead of merging them."""

    def write(self, copy: Memory) -> bool:
        stored = self.memories.get(copy.key)
        return stored != copy and self.memories.write([MemoryChange(stored, copy, None)])[0]


class SilentForgetting(StoredUpstream):
    """Does not tell the server what was forgotten."""

    def note_events(self, _events: Sequence[Event], /) -> None:
        pass

    def note_memories(self, _keys: Sequence[MemoryKey], /) -> None:
        pass


class NoTombstones(StoredUpstream):
    """Does not remember that facts were removed."""

    def put_fact_tombstone(self, _tombstone: FactTombstone, /) -> bool:
        return False


class SharedIds(Receiving):
    """Stores every event under the id that its sender gave it."""

    def _take_events(
        self, events: Sequence[Event], sender: Sender, _origin: Origin, tally: "object"
    ) -> None:
        same = Origin("ada", "")
        super()._take_events(events, sender, same, tally)  # type: ignore[arg-type]


class Leaking(OutgoingRecords):
    """Sends events of every project."""

    def collect(self, entries: Sequence[OutboxEntry], scope: SharedScope) -> list[SharedRecord]:
        return super().collect(entries, SharedScope(scope.names | {"home"}))


class NoReceipts(StoredUpstream):
    """Does not count what was exchanged: a server that was restored looks as before."""

    def get_receipt(self, _person: str, _client: str, /) -> int:
        return 1

    def advance_receipt(self, _person: str, _client: str, _now: Millis, /) -> int:
        return 1


class ForgetfulLedger(StoredUpstream):
    """Does not repeat forgettings to a server that was restored."""

    def repeat_forgotten(self) -> None:
        pass


@pytest.mark.parametrize(
    ("parts", "first"),  # rare faults begin at a seed that comes near them
    [
        (TeamParts(forwarding=EagerCursor), 0),
        (TeamParts(forwarding=EagerPull), 0),
        (TeamParts(outgoing=Leaking), 0),
        (TeamParts(forwarding=KeepsItsTimes, ahead_ms=HOUR_MS), 0),
        (TeamParts(receiving=NoAlias), 0),
        (TeamParts(receiving=SharedIds), 0),
        (TeamParts(merger=Overwriting), 0),
        (TeamParts(state=SilentForgetting), 0),
        (TeamParts(state=NoTombstones), 0),
        (TeamParts(state=NoReceipts), 8),
        (TeamParts(state=ForgetfulLedger), 23),
    ],
    ids=[
        *("cursor", "pull", "leak", "clock", "alias", "ids", "merge", "forgetting", "tombstones"),
        *("receipts", "repeated forgettings"),
    ],
)
def test_a_planted_fault_is_found(parts: TeamParts, first: int) -> None:
    assert_found(lambda seed: simulate(seed, parts), range(first, first + MOST_SEEDS))
