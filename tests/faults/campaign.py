"""A campaign of faults, and its table: `python -m tests.faults.campaign --faults 1000`.

Half of the faults are power cuts on a forgetful disk, half are errors and kills that strace injects
at the n-th call. Each is followed by a start and an examination. Whatever is wrong is printed with
its seed; `--keep FOLDER` saves the recording of a power cut, and `--replay FILE` examines it again.
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
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.command_runner import Home
from tests.faults import mounting
from tests.faults.disk import Image, Recording, temper_of
from tests.faults.injecting import INSTALL, STRACE, Fault
from tests.faults.ledger import Key, Ledger, Version
from tests.faults.scene import Examination, Scene, staged

EFFECTS = ("EIO", "ENOSPC", "KILL")
CUTS = 20  # power cuts of each recording
ROUNDS = 3  # recordings, each from a state that the one before was cut in
STEPS = 48
BULK = 100
DERIVED = 4  # of so many examinations one looks at indexes and the table of contents too
INJECTED_STEPS = 12
INJECTED_BULK = 100


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
        (options.seed * 1000 + number, count, options.only, options.keep, options.minutes)
        for number, count in enumerate(_shares(options.faults, options.jobs))
    ]
    if options.jobs == 1:
        results = _run(*shards[0])
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
            results = [each for shard in pool.map(_run_shard, shards) for each in shard]
    _say(_table(results, time.monotonic() - began))
    return 1 if any(each.is_wrong for each in results) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end it after so long")
    parser.add_argument("--only", choices=("power", "inject"))
    parser.add_argument("--keep", type=Path, help="where to save what went wrong")
    parser.add_argument("--replay", type=Path, help="a file that was saved")
    return parser.parse_args()


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (number < total % parts) for number in range(parts)]


def _run_shard(shard: tuple[int, int, str | None, Path | None, float]) -> list[Result]:
    return _run(*shard)


def _run(
    seed: int, count: int, only: str | None, keep: Path | None, minutes: float
) -> list[Result]:
    cuts = {"power": count, "inject": 0}.get(only or "", count // 2)
    if mounting.obstacle():
        _say(f"no power cuts: {mounting.obstacle()}")
        cuts = 0
    faults = 0 if only == "power" else count - cuts
    if STRACE is None:
        _say(f"nothing injected: {INSTALL}")
        faults = 0
    until = time.monotonic() + minutes * 60
    return list(_interleaved(until, cut_power(seed, cuts, keep), inject(seed, faults)))


def _interleaved(until: float, *streams: Iterator[Result]) -> Iterator[Result]:
    """In turn, so that a campaign that ends early has some of everything."""
    waiting = list(streams)
    while waiting and time.monotonic() < until:
        for stream in list(waiting):
            try:
                result = next(stream, None)
            except Exception:
                traceback.print_exc()  # what was seen so far still counts
                result = None
            if result is None:
                waiting.remove(stream)
            else:
                _report(result)
                yield result


def cut_power(seed: int, count: int, keep: Path | None = None) -> Iterator[Result]:
    """Power cuts: recordings that go on from one another, each cut at many moments."""
    dice = random.Random(seed)
    while count > 0:
        with staged() as scene:
            for _ in range(ROUNDS):
                share = min(CUTS, count)
                if share <= 0:
                    return
                count -= share
                recorded = dice.randrange(1 << 30)
                recording = scene.record(recorded, steps=STEPS, bulk=BULK)
                new = scene.ledger.acknowledged()
                cut = _Cut({}, Examination([], [], {}, 0.0), 0)
                for _ in range(share):
                    position = dice.randint(1, len(recording.log))
                    cut = _cut(scene, recording, position, dice.randrange(1 << 30))
                    yield _result(
                        cut.examination,
                        kind=temper_of(cut.seed).value,
                        effect="power cut",
                        number=position,
                        seed=cut.seed,
                        acknowledged=scene.ledger.acknowledged(position),
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


@dataclass(frozen=True, slots=True)
class _Cut:
    image: Image
    examination: Examination
    seed: int


def _cut(scene: Scene, recording: Recording, position: int, seed: int) -> _Cut:
    image = recording.crash_image(position, seed)
    scene.restore(image)
    try:
        return _Cut(image, scene.examine(position, derived=not seed % DERIVED), seed)
    finally:
        scene.kill()


def inject(seed: int, count: int) -> Iterator[Result]:
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
    kept = Kept(recording, position, seed, scene.ledger.versions(), scene.home.folder)
    path = folder / f"power-{seed}-{position}.pickle"
    path.write_bytes(pickle.dumps(kept))
    _say(f"  saved: {path}")


def _replay(path: Path) -> int:
    """Where it was recorded: the store knows its repositories by their paths."""
    kept: Kept = pickle.loads(path.read_bytes())  # noqa: S301  our own
    with Home(folder=kept.folder) as home:
        scene = Scene(home)
        scene.ledger = Ledger.of(kept.versions)
        found = _cut(scene, kept.recording, kept.position, kept.seed).examination
    _say("\n".join([*found.faults, *found.complaints]) or "nothing is wrong")
    return 1 if found.faults else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
