"""A campaign of faults on daemons that share one memory, and its table:
`python -m tests.faults.team_campaign --faults 200`.

1, 4 and 8 real daemons on one real PostgreSQL server are under load while daemons are killed,
paused beyond their lease and cut off from the server, and while the server crashes; two faults at a
time. Then everything is mended, and must agree:

- every acknowledged event is there, once, as it was sent;
- every reader of the outbox has seen the numbers 1 to n without a gap, and every event once;
- every daemon's feed has shown the same events in the same order;
- every daemon's index finds all events, and the table of contents has each in one segment;
- calls on one record were linearizable.
"""

import argparse
import random
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

import grpc

from agent_memory.platform.store import codec, families
from agent_memory.platform.store.postgres import PostgresDatabase
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import wait_until
from tests.faults import networks
from tests.faults.ledger import Unacknowledged
from tests.faults.linearizability import EVENT, FACT, UndecidedHistory, find_violation
from tests.faults.team import TENANT, Member, Team, keep_logs, open_team
from tests.faults.team_load import FeedReader, Lines, Load, OutboxReader
from tests.faults.work import shown
from tests.memory_client import Client
from tests.search_client import Search, count_waiting
from tests.toc_conversations import Toc

SIZES = (1, 4, 8)
AT_ONCE = 2
RECOVERY_SECONDS = 120.0
SETTLE_SECONDS = 300.0
LONG_CUT = 22.0  # seconds: longer than a connection without answers lasts
KILL, PAUSE, CRASH, CUT = "kill", "pause", "server crash", "network cut"


@dataclass(frozen=True, slots=True)
class PlannedFault:
    kind: str
    member: int
    pause: float  # before it
    hold: float
    expired: bool  # a cut that is longer than the lease

    def __str__(self) -> str:
        return f"{self.kind} of {self.member} for {self.hold:.1f} s"


@dataclass
class CampaignResult:
    """What came of the faults on a team of one size."""

    size: int
    seed: int
    recoveries: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)
    acknowledged: int = 0
    tries: int = 0
    silence: float = 0.0
    outbox: int = 0
    calls: int = 0
    unknown: int = 0
    keys: int = 0
    starts: int = 0
    gone: int = 0
    logged: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def faults(self) -> int:
        return sum(map(len, self.recoveries.values()))


def plan_faults(seed: int, size: int, count: int, kinds: Sequence[str]) -> list[PlannedFault]:
    """Choose faults by a seed, each kind as often as the others."""
    dice = random.Random(f"{seed} {size}")
    planned = []
    for kind in (kind for kind, _ in zip(cycle(kinds), range(count), strict=False)):
        hold = dice.uniform(0.2, 5.0)
        if kind == CUT and dice.random() < 0.1:
            hold = LONG_CUT
        planned.append(
            PlannedFault(
                kind, dice.randrange(size), dice.uniform(0.0, 2.0), hold, dice.random() < 0.5
            )
        )
    dice.shuffle(planned)
    return planned


def run_campaign(
    size: int,
    count: int,
    seed: int,
    *,
    until: float = float("inf"),
    keep: Path | None = None,
    spoil: Callable[[Team, Load], None] = lambda _team, _load: None,
) -> CampaignResult:
    """Let a team suffer faults, and examine it. A test may spoil what is examined."""
    result = CampaignResult(size, seed)
    began = time.monotonic()
    kinds = (KILL, PAUSE, CRASH, *(() if networks.find_obstacle() else (CUT,)))
    with open_team(size) as team:
        load = Load(team, seed)
        try:
            suffer(team, load, plan_faults(seed, size, count, kinds), result, until)
        finally:
            load.stop_writing()
        spoil(team, load)
        try:
            examine(team, load, result)
        except (AssertionError, Unacknowledged, grpc.RpcError) as exc:
            result.problems.append(f"it does not settle: {str(exc)[:2000]}")
        finally:
            load.stop_reading()
        check_seen(load, result)
        for member in team.members:
            result.logged += member.count_errors()
            result.starts += member.starts
            result.gone += member.count_as_gone()
        if keep is not None and result.problems:
            keep_logs(team, keep / f"{size}-{seed}")
    result.seconds = time.monotonic() - began
    return result


def suffer(
    team: Team,
    load: Load,
    planned: list[PlannedFault],
    result: CampaignResult,
    until: float,
) -> None:
    """Inject the faults, a few at a time. Each ends when its daemon has acknowledged a write."""
    waiting = iter(planned)
    lock = threading.Lock()

    def work() -> None:
        while time.monotonic() < until:
            with lock:
                fault = next(waiting, None)
            if fault is None:
                return
            time.sleep(fault.pause)
            try:
                seconds = _inject(team, load, fault)
            except Exception as exc:
                result.problems.append(f"{fault}: {exc!r}")
                raise
            if seconds is None:
                result.problems.append(f"{fault}: no write within {RECOVERY_SECONDS:g} s")
                seconds = RECOVERY_SECONDS
            result.recoveries[fault.kind].append(seconds)
            _say(f"{team.members[fault.member].number}: {fault}, back in {seconds:.1f} s")

    threads = [threading.Thread(target=work) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _inject(team: Team, load: Load, fault: PlannedFault) -> float | None:
    """Return the seconds from the end of the fault to a write through the daemon that had it."""
    member = team.members[fault.member]
    with member.turn:
        match fault.kind:
            case "kill":
                team.kill(member)
            case "pause":
                team.pause(member, fault.hold)
            case "server crash":
                team.crash(fault.hold / 2)
            case _:
                team.cut(member, fault.hold, expired=fault.expired)
        began = time.monotonic()
        if not load.probe(member, RECOVERY_SECONDS):
            return None
        return time.monotonic() - began


def examine(team: Team, load: Load, result: CampaignResult) -> None:
    """Compare all that the daemons have with what was acknowledged, once they have settled."""
    for member in team.members:  # one whose lease was ended by hand may still be removed
        wait_until(partial(_has_lease, team, member), f"{member.number} has its lease")
        wait_until(member.is_serving, f"{member.number} serves")
    _read_races(team, load)
    with team.members[0].connect() as client:
        events = client.all_events()
        result.problems += _check_events(events, load)
        wait_until(partial(_run_jobs, team), "the table of contents is written", SETTLE_SECONDS)
        result.problems += _check_contents(Toc(client), events)
    for member in team.members:
        wait_until(partial(_has_indexed, member), f"{member.number} has indexed", SETTLE_SECONDS)
        with member.connect() as client:
            if client.all_events() != events:
                result.problems.append(f"daemon {member.number} has other events")
            result.problems += _check_index(member.number, client, events)
    result.outbox = _read_outbox_number(team)
    for outbox in load.outboxes:
        wait_until(partial(_has_reached, outbox, result.outbox), "a reader has read all")
    for feed in load.feeds:
        wait_until(partial(_has_reached, feed, result.outbox), "a feed has shown all")


def _read_races(team: Team, load: Load) -> None:
    """Read every record that was raced for, from the first and from the last daemon."""
    lines = Lines(team)
    try:
        for key in sorted(load.seen.calls):
            for member in {0: team.members[0], 1: team.members[-1]}.values():
                if key.startswith("race-"):
                    load.record(key, "read", "", partial(load.read_event, lines, member, key))
                else:
                    load.record(key, "read", "", partial(load.read_fact, lines, member, key))
                    load.record(key, "list", "", partial(load.list_former, lines, member, key))
    finally:
        lines.close()


def _has_lease(team: Team, member: Member) -> bool:
    database = PostgresDatabase(team.server.url, TENANT)
    try:
        (end,) = database.get_many(families.LEASES, [member.get_lease()])
        return end is not None and codec.decode_millis(end) > database.read_head().now_ms
    finally:
        database.close()


def _read_outbox_number(team: Team) -> int:
    database = PostgresDatabase(team.server.url, TENANT)
    try:
        return database.read_head().outbox
    finally:
        database.close()


def _run_jobs(team: Team) -> bool:
    """Run the jobs of the table of contents on all daemons: only the one that leads does them."""
    try:
        for member in team.members:
            with member.connect() as client:
                Toc(client).settle()
    except (AssertionError, Unacknowledged, grpc.RpcError):
        return False
    return True


def _has_indexed(member: Member) -> bool:
    with suppress(AssertionError, ValueError):
        return count_waiting(member.home) == 0
    return False


def _has_reached(reader: OutboxReader | FeedReader, number: int) -> bool:
    return reader.reached >= number


def _check_events(events: Sequence[pb.Event], load: Load) -> list[str]:
    """Compare with what was sent; of events that were raced for, the histories tell."""
    digests = {event.event_id: shown(event) for event in events}
    problems = [f"event {name} is there twice" for name in _list_repeated(_list_ids(events))]
    problems += [f"event {name} is LOST" for name in load.seen.acknowledged - digests.keys()]
    return problems + [
        f"event {name} was not sent like that"
        for name, found in digests.items()
        if name.startswith("e-") and load.seen.sent.get(name) != found
    ]


def _check_contents(toc: Toc, events: Sequence[pb.Event]) -> list[str]:
    """Check that each event is in one segment of its session."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for node in toc.segments():
        spans[node.session_id].append((node.start_time_ms, node.end_time_ms))
    problems = []
    for event in events:
        times = sum(low <= event.timestamp_ms <= high for low, high in spans[event.session_id])
        if times != 1:
            problems.append(f"event {event.event_id} is in {times} segments")
    return problems


def _check_index(number: int, client: Client, events: Sequence[pb.Event]) -> list[str]:
    found = [hit.id for hit in Search(client).all(kinds=["event"], mode="bm25")]
    missing = sorted({*_list_ids(events)} - {*found})
    more = sorted({*found} - {*_list_ids(events)}) + _list_repeated(found)
    problems = [f"the index of {number} does not find {name}" for name in missing]
    return problems + [f"the index of {number} has {name} once too often" for name in more]


def _list_ids(events: Sequence[pb.Event]) -> list[str]:
    return [event.event_id for event in events]


def _list_repeated(names: Sequence[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def check_seen(load: Load, result: CampaignResult) -> None:
    """Check what callers and readers have seen."""
    seen = load.seen
    result.problems += seen.problems
    result.acknowledged = len(seen.acknowledged)
    result.tries = seen.tries
    result.silence = seen.longest_silence
    order = load.outboxes[0].events
    result.problems += [f"event {name} is twice in the outbox" for name in _list_repeated(order)]
    for number, outbox in enumerate(load.outboxes):
        if outbox.reached != result.outbox or outbox.events != order:
            result.problems.append(f"reader {number} has reached {outbox.reached}, or other events")
    for number, feed in enumerate(load.feeds):
        if feed.events != order:
            shown_difference = _show_difference(feed.events, order)
            result.problems.append(f"the feed of {number} differs: {shown_difference}")
    for key, calls in seen.calls.items():
        result.keys += 1
        result.calls += len(calls)
        result.unknown += sum(call.answer is None for call in calls)
        try:
            wrong = (
                find_violation(calls, EVENT)
                if key.startswith("race-")
                else find_violation(calls, FACT)
            )
        except UndecidedHistory as exc:
            wrong = str(exc)
        if wrong is not None:
            result.problems.append(f"{key} is not linearizable: {wrong}")


def _show_difference(found: list[str], order: list[str]) -> str:
    missing, more = Counter(order) - Counter(found), Counter(found) - Counter(order)
    return f"{len(missing)} missing {list(missing)[:3]}, {len(more)} more {list(more)[:3]}"


def main() -> int:
    options = _parse_options()
    until = time.monotonic() + options.minutes * 60
    if networks.find_obstacle():
        _say(f"no network is cut: {networks.find_obstacle()}")
    results = []
    sizes = options.daemons
    for number, size in enumerate(sizes):
        count = options.faults // len(sizes) + (number < options.faults % len(sizes))
        share = (until - time.monotonic()) / (len(sizes) - number)
        _say(f"{size} daemons, {count} faults, seed {options.seed}")
        results.append(
            run_campaign(
                size, count, options.seed, until=time.monotonic() + share, keep=options.keep
            )
        )
        _say(describe(results[-1]))
    return 1 if any(result.problems for result in results) else 0


def describe(result: CampaignResult) -> str:
    lines = [
        f"{result.size} daemons, seed {result.seed}: {result.faults} faults",
        f"  {result.seconds:.0f} s with the examination",
        f"  {result.acknowledged} events acknowledged in {result.tries} calls",
        f"  {result.outbox} entries of the outbox, at most {result.silence:.1f} s without a write",
        f"  {result.starts} starts of daemons, {result.gone} of them after one counted as gone",
        f"  {result.calls} calls on {result.keys} records, {result.unknown} without an answer",
    ]
    for kind, seconds in sorted(result.recoveries.items()):
        lines.append(
            f"  {kind}: {len(seconds)}, back after {statistics.median(seconds):.1f} s"
            f" (median), {max(seconds):.1f} s (longest)"
        )
    lines += [f"  logged: {count} times {what}" for what, count in result.logged.most_common(8)]
    lines += [f"  WRONG: {problem}" for problem in result.problems[:40]]
    lines.append(f"  wrong: {len(result.problems)}")
    return "\n".join(lines)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.team_campaign", description=__doc__.partition("\n\n")[0]
    )
    parser.add_argument("--faults", type=int, default=30, help="over all sizes")
    parser.add_argument("--daemons", type=_parse_sizes, default=SIZES, help="such as 1,4,8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0, help="end it after so long")
    parser.add_argument("--keep", type=Path, help="where to save the logs if something is wrong")
    return parser.parse_args()


def _parse_sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
