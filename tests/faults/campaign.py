"""A campaign of faults, and its table: `python -m tests.faults.campaign --faults 1000`.

Half of the faults are power cuts on a forgetful disk, which also refuses some syncs; the others are
errors and kills that strace injects at the n-th call. Each is followed by a start and an
examination. Whatever is wrong is printed with its seed; `--keep FOLDER` saves the recording of a
power cut, and `--replay FILE` examines it again; `--first` ends at the first fault that did harm.

The exit code is 0 only if nothing is wrong and the campaign can tell: both halves ran to their end,
and the kills and power cuts examined enough acknowledged writes.
"""

import argparse
import multiprocessing
import pickle
import random
import statistics
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.command_runner import Home
from tests.faults import mounting
from tests.faults.aiming import aim
from tests.faults.disk import ANY, Image, Recording, temper_of
from tests.faults.injecting import INSTALL, STRACE, Fault
from tests.faults.ledger import Key, Ledger, Version
from tests.faults.scene import Examination, Scene, staged

STORE_LOG = ".log"  # no other file of this suffix is synced
EFFECTS = ("EIO", "ENOSPC", "KILL")
CUTS = 20  # power cuts of each recording
ROUNDS = 3  # recordings, each from a state that the one before was cut in
STEPS = 48
BULK = 100
DERIVED = 4  # of so many examinations one looks at indexes and the table of contents too
INJECTED_STEPS = 12
INJECTED_BULK = 100
# Syncs of every second recording that fail: few of all are of the store's log.
REFUSED = {STORE_LOG: 3, ANY: 3}
REFUSED_AMONG = {STORE_LOG: 40, ANY: 300}
LEAST_EXAMINED = 50  # acknowledged writes for each kill or power cut, on average


@dataclass(frozen=True, slots=True)
class Result:
    """One fault."""

    kind: str  # a temper of the disk, or the call at which it was injected
    effect: str
    number: int  # the position in the log, or the n of the call
    seed: int
    acknowledged: int  # writes by then
    new: int  # of these, the writes that no result before this one has counted
    lost: tuple[str, ...]
    problems: tuple[str, ...]
    complaints: tuple[str, ...]
    seconds: float  # to recover

    @property
    def is_wrong(self) -> bool:
        return bool(self.lost or self.problems)


@dataclass(frozen=True, slots=True)
class Kept:
    """A power cut that can be examined again."""

    recording: Recording
    position: int
    seed: int
    versions: dict[Key, list[Version]]
    folder: Path


def main() -> int:
    options = _options()
    if options.replay:
        return _replay(options.replay)
    began = time.monotonic()
    shards = [
        Shard(
            seed=options.seed * 1000 + number,
            count=count,
            only=options.only,
            keep=options.keep,
            until=began + options.minutes * 60,
            first=options.first,
        )
        for number, count in enumerate(_shares(options.faults, options.jobs))
    ]
    if options.jobs == 1:
        runs = [_run(shards[0])]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
            runs = list(pool.map(_run, shards))
    results = [result for run in runs for result in run.results]
    _say(_table(results, time.monotonic() - began))
    doubts = [*dict.fromkeys(doubt for run in runs for doubt in run.doubts), *find_doubts(results)]
    for doubt in doubts:
        _say(f"the campaign proves nothing: {doubt}")
    return 1 if doubts or any(each.is_wrong for each in results) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The share of one process. `until` is when it ends at the latest, `first`: at the first fault
    that did harm."""

    seed: int
    count: int
    only: str | None
    keep: Path | None
    until: float
    first: bool


@dataclass(frozen=True, slots=True)
class Run:
    """What a shard found, and why that may say too little."""

    results: list[Result]
    doubts: list[str]


def find_doubts(results: Sequence[Result]) -> list[str]:
    """Return why results without a loss would say too little."""
    kills = [each for each in results if each.effect in ("KILL", "power cut")]
    examined = sum(each.acknowledged for each in kills)
    if not kills:
        return ["nothing was killed and no power was cut"]
    if examined < LEAST_EXAMINED * len(kills):
        return [f"{len(kills)} kills and power cuts examined {examined} acknowledged writes"]
    return []


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end it after so long")
    parser.add_argument("--only", choices=("power", "inject"))
    parser.add_argument("--first", action="store_true", help="end it at the first harm")
    parser.add_argument("--keep", type=Path, help="where to save what went wrong")
    parser.add_argument("--replay", type=Path, help="a file that was saved")
    return parser.parse_args()


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (number < total % parts) for number in range(parts)]


def _run(shard: Shard) -> Run:
    run = Run([], [])
    streams = []
    if shard.only != "inject":
        if mounting.obstacle():
            run.doubts.append(f"no power cuts: {mounting.obstacle()}")
        else:
            cuts = shard.count if shard.only else shard.count // 2
            streams.append(cut_power(shard.seed, cuts, shard.keep))
    if shard.only != "power":
        if STRACE is None:
            run.doubts.append(f"nothing injected: {INSTALL}")
        else:
            faults = shard.count if shard.only else shard.count - shard.count // 2
            streams.append(inject(shard.seed, faults))
    for result in interleave(shard.until, run.doubts, streams):
        run.results.append(result)
        if shard.first and result.is_wrong:
            break
    for stream in streams:
        stream.close()
    return run


def interleave(
    until: float, doubts: list[str], streams: Sequence[Generator[Result]]
) -> Iterator[Result]:
    """Take from each in turn, so that a campaign that ends early has some of everything."""
    waiting = list(streams)
    while waiting and time.monotonic() < until:
        for stream in list(waiting):
            try:
                result = next(stream, None)
            except Exception as exc:
                traceback.print_exc()  # what was seen so far still counts
                doubts.append(f"a half of it crashed: {exc!r}")
                result = None
            if result is None:
                waiting.remove(stream)
            else:
                _report(result)
                yield result


def cut_power(seed: int, count: int, keep: Path | None = None) -> Generator[Result]:
    """Power cuts: recordings that go on from one another, each cut at many moments."""
    dice = random.Random(seed)
    while count > 0:
        with staged() as scene:
            for round_number in range(ROUNDS):
                share = min(CUTS, count)
                if share <= 0:
                    return
                count -= share
                recorded = dice.randrange(1 << 30)
                refused = [] if round_number % 2 else _choose_refused(dice)
                recording = scene.record(recorded, steps=STEPS, bulk=BULK, refused=refused)
                new = scene.ledger.acknowledged()
                aims = aim(recording, scene.ledger.versions(), dice)
                cut = _Cut({}, Examination([], [], {}, 0.0), 0)
                for _ in range(share):
                    position, cut_seed = next(aims)
                    cut = _cut(scene, recording, position, cut_seed)
                    yield _result(
                        cut.examination,
                        kind=temper_of(cut.seed).value,
                        effect="power cut",
                        number=position,
                        seed=cut.seed,
                        acknowledged=scene.ledger.acknowledged(position + 1),
                        new=new,
                    )
                    new = 0
                    if cut.examination.faults and keep:
                        _keep(keep, scene, recording, position, cut.seed)
                if cut.examination.faults:
                    break
                # Not the state that the daemon has recovered: the next one recovers it once more.
                scene.base = cut.image
                scene.settle(cut.examination.records)


def _choose_refused(dice: random.Random) -> list[tuple[str, int]]:
    return [
        (kind, number)
        for kind, count in REFUSED.items()
        for number in dice.sample(range(1, REFUSED_AMONG[kind]), count)
    ]


@dataclass(frozen=True, slots=True)
class _Cut:
    image: Image
    examination: Examination
    seed: int


def _cut(scene: Scene, recording: Recording, position: int, seed: int) -> _Cut:
    image = recording.crash_image(position, seed)
    scene.restore(image)
    try:
        # What was acknowledged when the log was as long as this has the next moment.
        return _Cut(image, scene.examine(position + 1, derived=not seed % DERIVED), seed)
    finally:
        scene.kill()


def inject(seed: int, count: int) -> Generator[Result]:
    """Errors and kills at calls, each call in turn and each n once, in an order of the seed's."""
    if count <= 0:
        return
    dice = random.Random(seed)
    with staged() as scene:
        scene.prepare(dice.randrange(1 << 30), steps=12, bulk=20)
        ledger = scene.ledger
        calls = scene.count_calls(seed, steps=INJECTED_STEPS, bulk=INJECTED_BULK)
        for fault in _chosen(calls, dice):
            if not count:
                return
            derived = not dice.randrange(DERIVED)
            scene.ledger = ledger.copied()
            injected = scene.suffer(fault, seed, steps=INJECTED_STEPS, bulk=INJECTED_BULK)
            acknowledged = scene.ledger.acknowledged()
            try:
                examination = scene.examine(1, derived=derived)
            finally:
                scene.kill()
            if not injected and not examination.faults:
                continue  # no thread has made so many calls this time
            count -= 1
            yield _result(
                examination,
                kind=fault.call,
                effect=fault.effect,
                number=fault.number,
                seed=seed,
                acknowledged=acknowledged,
                new=acknowledged,
            )


def _chosen(calls: dict[str, int], dice: random.Random) -> Iterator[Fault]:
    waiting = {}
    for call, most in sorted(calls.items()):
        faults = [Fault(call, n, effect) for n in range(1, most + 1) for effect in EFFECTS]
        dice.shuffle(faults)
        waiting[call] = faults
    while any(waiting.values()):
        for faults in waiting.values():
            if faults:
                yield faults.pop()


def _result(examination: Examination, **fields: object) -> Result:
    lost = [each for each in examination.faults if " is absent, not " in each]
    others = [each for each in examination.faults if each not in lost]
    return Result(
        lost=tuple(lost),
        problems=tuple(others),
        complaints=tuple(examination.complaints),
        seconds=examination.recovered_seconds,
        **fields,  # type: ignore[arg-type]
    )


def _report(result: Result) -> None:
    wrong = [*result.lost, *result.problems]
    _say(
        f"{result.effect} {result.kind} {result.number} (seed {result.seed}):"
        f" {result.acknowledged} acknowledged, {len(result.lost)} lost,"
        f" served after {result.seconds:.2f} s"
        + "".join(f"\n  {each}" for each in wrong[:5])
        + "".join(f"\n  logged: {each[:300]}" for each in result.complaints[:3])
    )


def _table(results: Sequence[Result], seconds: float) -> str:
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for each in results:
        groups[each.effect, each.kind].append(each)
    rows = [_row(f"{kind}: {effect}", group) for (effect, kind), group in sorted(groups.items())]
    head = (
        "| fault | faults | n | acknowledged writes examined | lost | no start or other fault"
        " | served again after, s: median | most |\n|---|---|---|---|---|---|---|---|"
    )
    kills = sum(each.effect in ("KILL", "power cut") for each in results)
    summary = (
        f"{len(results)} faults, {kills} of them kills, in {seconds:.0f} s;"
        f" {sum(each.new for each in results):,} writes acknowledged"
    )
    complaints = Counter(each.partition(":")[0] for it in results for each in it.complaints)
    logged = ", ".join(f"{name} {number}" for name, number in complaints.most_common())
    told = f"errors logged after the restart: {logged or 'none'}"
    return "\n".join([summary, "", head, *rows, _row("all", results), "", told])


def _row(name: str, group: Sequence[Result]) -> str:
    times = [each.seconds for each in group if each.seconds] or [0.0]
    numbers = [each.number for each in group]
    cells: Iterable[object] = (
        name,
        len(group),
        f"{min(numbers, default=0)} to {max(numbers, default=0)}",
        f"{sum(each.acknowledged for each in group):,}",
        sum(len(each.lost) for each in group),
        sum(bool(each.problems) for each in group),
        f"{statistics.median(times):.2f}",
        f"{max(times):.2f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _keep(folder: Path, scene: Scene, recording: Recording, position: int, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stored = Kept(recording, position, seed, scene.ledger.versions(), scene.home.folder)
    path = folder / f"power-{seed}-{position}.pickle"
    path.write_bytes(pickle.dumps(stored))
    _say(f"  saved: {path}")


def _replay(path: Path) -> int:
    """Where it was recorded: the store knows its repositories by their paths."""
    stored: Kept = pickle.loads(path.read_bytes())  # noqa: S301  our own
    with Home(folder=stored.folder) as home:
        scene = Scene(home)
        scene.ledger = Ledger.of(stored.versions)
        found = _cut(scene, stored.recording, stored.position, stored.seed).examination
    _say("\n".join([*found.faults, *found.complaints]) or "nothing is wrong")
    return 1 if found.faults else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
