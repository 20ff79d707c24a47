"""The model of a disk: what is synced survives every power cut, all else as real disks have it."""

import random
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.disk import ANY, ROOT, Disk, Entry, Recording, Temper, Write, image_of, temper_of

FILE = stat.S_IFREG | 0o600
FOLDER = stat.S_IFDIR | 0o700
SEEDS = range(60)

Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("create", "mkdir", "write", "cut", "sync", "rename", "remove")),
        st.integers(0, 5),
        st.integers(0, 1500),
    ),
    max_size=25,
)


def recording(disk: Disk) -> Recording:
    return Recording(disk.base, disk.log)


def images(disk: Disk) -> list[dict[str, Entry]]:
    return [dict(recording(disk).crash_image(len(disk.log), seed)) for seed in SEEDS]


def play(steps: list[Step]) -> Disk:
    """Any sequence of calls that succeed, in the root and in one folder."""
    disk = Disk()
    folders = [ROOT]
    for what, where, number in steps:
        folder = folders[where % len(folders)]
        entries = disk.nodes[folder].entries
        names = sorted(entries)
        name = names[number % len(names)] if names else ""
        inode = entries.get(name, 0)
        is_file = bool(inode) and not disk.nodes[inode].is_folder
        match what:
            case "create":
                if (new := f"f{number % 7}") not in entries:
                    disk.create(folder, new, FILE)
            case "mkdir":
                if folder == ROOT and (new := f"d{number % 3}") not in entries:
                    folders.append(disk.create(folder, new, FOLDER))
            case "write" if is_file:
                data = random.Random(number).randbytes(number)
                disk.write(inode, where * 300, data)
            case "cut" if is_file:
                disk.resize(inode, number)
            case "sync":
                disk.sync(inode if is_file else folder)
            case "rename" if is_file:
                disk.rename(folder, name, folders[number % len(folders)], f"r{number % 4}")
            case "remove" if is_file:
                disk.remove(folder, name)
    return disk


class TestEveryCrash:
    @given(STEPS, st.integers(0, 10**6), st.integers(0, 25))
    def test_is_the_same_for_the_same_seed(
        self, steps: list[Step], seed: int, position: int
    ) -> None:
        created = recording(play(steps))
        assert created.crash_image(position, seed) == created.crash_image(position, seed)

    @given(STEPS, st.integers(0, 10**6))
    def test_keeps_what_was_synced(self, steps: list[Step], seed: int) -> None:
        disk = play(steps)
        for inode, node in sorted(disk.nodes.items()):
            if not node.is_folder:
                disk.sync(inode)
        for inode, node in sorted(disk.nodes.items()):
            if node.is_folder:
                disk.sync(inode)
        assert recording(disk).crash_image(len(disk.log), seed) == image_of(disk.nodes)

    @given(STEPS, st.integers(0, 10**6))
    def test_invents_nothing(self, steps: list[Step], seed: int) -> None:
        """No name that was never given, and no byte that was never there or zero."""
        disk = play(steps)
        written: dict[int, set[int]] = {}
        for change in disk.log:
            if isinstance(change, Write):
                written.setdefault(change.inode, {0}).update(change.data)
        known = {0}.union(*written.values())
        given_names = {getattr(c, "new_name", getattr(c, "name", "")) for c in disk.log}
        for path, entry in recording(disk).crash_image(len(disk.log), seed).items():
            assert set(path.split("/")) <= given_names
            assert set(entry.data) <= known


class TestWhatIsNotSynced:
    def test_a_file_without_a_sync_may_be_whole_torn_empty_or_gone(self) -> None:
        disk = Disk()
        inode = disk.create(ROOT, "f", FILE)
        disk.write(inode, 0, b"x" * 2000)
        found = [image["f"].data if "f" in image else None for image in images(disk)]
        assert None in found
        assert b"" in found
        assert b"x" * 2000 in found
        assert any(data and 0 < data.count(b"x") < 2000 for data in found)

    def test_a_sync_that_was_refused_makes_nothing_durable_not_even_the_next_one(self) -> None:
        disk = Disk({"f": Entry(FILE, b"")})
        (inode,) = [number for number, node in disk.nodes.items() if not node.is_folder]
        disk.refuse([(ANY, 1)])
        disk.write(inode, 0, b"x" * 100)
        assert not disk.sync(inode)
        disk.write(inode, 100, b"y" * 100)
        assert disk.sync(inode)
        found = {image["f"].data for image in images(disk)}
        assert bytes(100) + b"y" * 100 in found
        assert b"x" * 100 + b"y" * 100 in found
        assert all(data.endswith(b"y" * 100) for data in found)

    def test_a_synced_file_may_lack_its_name_until_the_folder_is_synced(self) -> None:
        disk = Disk()
        inode = disk.create(ROOT, "f", FILE)
        disk.write(inode, 0, b"x")
        disk.sync(inode)
        assert {"f" in image for image in images(disk)} == {True, False}
        disk.sync(ROOT)
        assert all(image["f"].data == b"x" for image in images(disk))

    def test_a_folder_may_vanish_with_all_that_was_synced_in_it(self) -> None:
        disk = Disk()
        folder = disk.create(ROOT, "d", FOLDER)
        inode = disk.create(folder, "f", FILE)
        disk.sync(inode)
        disk.sync(folder)
        assert {"d/f" in image for image in images(disk)} == {True, False}

    def test_a_rename_is_done_or_not(self) -> None:
        old, new = Entry(FILE, b"old"), Entry(FILE, b"new")
        disk = Disk({"f": old})
        inode = disk.create(ROOT, "f.new", FILE)
        disk.write(inode, 0, b"new")
        disk.sync(inode)
        disk.rename(ROOT, "f.new", ROOT, "f")
        found = images(disk)
        assert {image["f"] for image in found} == {old, new}
        assert all("f.new" not in image for image in found if image["f"] == new)

    def test_a_rename_before_the_data_leaves_an_empty_file(self) -> None:
        disk = Disk({"f": Entry(FILE, b"old")})
        inode = disk.create(ROOT, "f.new", FILE)
        disk.write(inode, 0, b"new")
        disk.rename(ROOT, "f.new", ROOT, "f")
        assert {b"old", b"new", b""} <= {image["f"].data for image in images(disk)}

    def test_a_removed_file_may_come_back(self) -> None:
        disk = Disk({"f": Entry(FILE, b"old")})
        disk.remove(ROOT, "f")
        assert {"f" in image for image in images(disk)} == {True, False}

    def test_a_journal_keeps_the_order_of_names(self) -> None:
        disk = Disk()
        for number in range(9):
            disk.create(ROOT, f"f{number}", FILE)
        created, length = recording(disk), len(disk.log)
        ordered = [seed for seed in range(200) if temper_of(seed) is Temper.JOURNAL]
        for seed in ordered:
            names = sorted(created.crash_image(length, seed))
            assert names == [f"f{number}" for number in range(len(names))]


@pytest.mark.parametrize("temper", list(Temper))
def test_every_temper_comes_up(temper: Temper) -> None:
    assert temper in {temper_of(seed) for seed in SEEDS}
