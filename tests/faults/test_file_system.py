"""The forgetful disk, mounted: programs see a file system, and the log what they did to it."""

import mmap
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import mounting
from tests.faults.disk import Rename, Sync, Write, read_folder
from tests.faults.mounting import Mounted
from tests.git_repositories import make_repository

pytestmark = pytest.mark.skipif(bool(mounting.obstacle()), reason=mounting.obstacle())

CALLS = 400


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Mounted]:
    folder = tmp_path / "disk"
    folder.mkdir()
    with Mounted(folder, {}) as mounted:
        yield mounted


def use(folder: Path, dice: random.Random) -> list[str]:
    """Calls that a seed chooses, and how each ended."""
    names = [folder / name for name in ("a", "b", "d", "d/a", "d/b", "e/a")]
    ended = []
    for _ in range(CALLS):
        one, two = dice.choice(names), dice.choice(names)
        data, offset = dice.randbytes(dice.choice((1, 700, 70_000))), dice.randrange(5_000)
        what = dice.randrange(9)
        try:
            match what:
                case 0 | 1:
                    with one.open("r+b" if one.exists() else "wb") as file:
                        file.seek(offset)
                        file.write(data)
                        os.fsync(file.fileno())
                case 2:
                    with one.open("ab") as file:
                        file.write(data)
                case 3:
                    os.truncate(one, offset)
                case 4:
                    one.rename(two)
                case 5:
                    one.unlink()
                case 6:
                    one.mkdir()
                case 7:
                    one.rmdir()
                case 8:
                    one.symlink_to(two.name)
            ended.append("done")
        except OSError as exc:
            ended.append(type(exc).__name__)
    return ended


@pytest.mark.parametrize("seed", range(3))
def test_it_does_what_a_real_one_does(disk: Mounted, tmp_path: Path, seed: int) -> None:
    real = tmp_path / "real"
    real.mkdir()
    assert use(disk.folder, random.Random(seed)) == use(real, random.Random(seed))
    assert read_folder(disk.folder) == read_folder(real)


def test_git_works_on_it(disk: Mounted) -> None:
    repository = make_repository(disk.folder / "app", commits=3)
    assert repository.succeeds("fsck", "--strict")
    shutil.rmtree(repository.folder)
    assert list(disk.folder.iterdir()) == []


def test_a_mapped_file_reaches_it_when_flushed(disk: Mounted) -> None:
    path = disk.folder / "mapped"
    path.write_bytes(bytes(9_000))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 9_000) as mapped:
        mapped[5_000:5_005] = b"there"
        mapped.flush()
    (*_, data) = (each for each in disk.recording().log if isinstance(each, Write))
    assert b"there" in data.data


def test_the_log_has_every_call_in_order_and_can_be_cut_anywhere(disk: Mounted) -> None:
    begun = disk.position()
    (disk.folder / "f.new").write_bytes(b"whole")
    with (disk.folder / "f.new").open("rb") as file:
        os.fsync(file.fileno())
    (disk.folder / "f.new").rename(disk.folder / "f")
    ended = disk.position()
    created = disk.recording()
    kinds = [type(each) for each in created.log[begun:ended]]
    assert kinds[-3:] == [Write, Sync, Rename]
    for seed in range(30):
        assert set(created.crash_image(ended - 1, seed)) <= {"f.new"}
        for entry in created.crash_image(ended, seed).values():
            assert entry.data == b"whole"
