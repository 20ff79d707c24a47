"""The campaign itself: where it cuts, and when it says that its zero proves nothing."""

import random
import stat
import time
from collections.abc import Generator

from tests.faults import campaign
from tests.faults.aiming import aim
from tests.faults.campaign import Result
from tests.faults.disk import ROOT, Disk, Recording, Temper, temper_of
from tests.faults.ledger import Key, Kind, Version

FILE = stat.S_IFREG | 0o600
ENOUGH = 24  # aims: each class has come up four times
TEN_MINUTES = 600.0


def versions(*windows: tuple[int, int]) -> dict[Key, list[Version]]:
    return {
        (Kind.EVENT, str(number)): [Version("x", sent + 1, answered + 1)]
        for number, (sent, answered) in enumerate(windows)
    }


def result(effect: str, acknowledged: int) -> Result:
    return Result("fsync", effect, 1, 1, acknowledged, 0, (), (), (), 0.1)


def crashing() -> Generator[Result]:
    yield result("KILL", 100)
    raise OSError("the scene is gone")


class TestAim:
    def test_an_answer_before_the_sync_of_the_log_is_cut_first(self) -> None:
        disk = Disk()
        log = disk.create(ROOT, "000004.log", FILE)
        windows = []
        for number in range(100):
            sent = len(disk.log)
            disk.write(log, number, b"x")
            if number != 50:
                disk.sync(log)
            windows.append((sent, len(disk.log)))
        hasty = windows[50][1]

        aims = aim(Recording({}, disk.log), versions(*windows), random.Random(1))
        found = [next(aims) for _ in range(ENOUGH)]

        assert sum(position == hasty for position, _ in found) >= ENOUGH // 6
        assert all(
            temper_of(seed) is not Temper.FOLDERS for position, seed in found if position == hasty
        )

    def test_so_is_a_file_that_was_put_in_place_unsynced(self) -> None:
        disk = Disk()
        windows = []
        for number in range(100):
            sent = len(disk.log)
            inode = disk.create(ROOT, "draft", FILE)
            disk.write(inode, 0, b"x")
            if number != 50:
                disk.sync(inode)
            disk.rename(ROOT, "draft", ROOT, f"file-{number}")
            disk.sync(ROOT)
            windows.append((sent, len(disk.log)))

        aims = aim(Recording({}, disk.log), versions(*windows), random.Random(1))
        found = [next(aims)[0] for _ in range(ENOUGH)]

        assert found.count(windows[50][1]) >= ENOUGH // 6


class TestDoubts:
    def test_kills_that_examined_too_little_prove_nothing(self) -> None:
        assert campaign.find_doubts([result("KILL", 2) for _ in range(8)])
        assert not campaign.find_doubts([result("KILL", 200) for _ in range(8)])

    def test_nor_does_a_campaign_without_kills(self) -> None:
        assert campaign.find_doubts([result("EIO", 200)])

    def test_nor_one_of_which_a_half_crashed(self) -> None:
        doubts: list[str] = []
        until = time.monotonic() + TEN_MINUTES
        seen = list(campaign.interleave(until, doubts, [crashing()]))
        assert len(seen) == 1
        assert doubts == ["a half of it crashed: OSError('the scene is gone')"]
