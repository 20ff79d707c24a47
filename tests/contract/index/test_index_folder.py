"""The folder of the indexes: what is behind a link is never removed."""

from pathlib import Path

import pytest

from agent_memory.features.index.adapters import index_folder

FOREIGN = (
    "CURRENT", "LOCK", "LOG", "MANIFEST-000004", "000008.log", "lexical/meta.json", "vectors/rows",
)  # fmt: skip


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A database of someone else, with folders named like ours."""
    folder = tmp_path / "theirs"
    for name in FOREIGN:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def list_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("mark", [None, "another store"])
def test_what_is_behind_a_link_stays(tmp_path: Path, theirs: Path, mark: str | None) -> None:
    if mark is not None:
        (theirs / "store").write_text(mark)
    before = list_files(theirs)
    index = tmp_path / "index"
    index.symlink_to(theirs)

    index_folder.prepare(index, "ours")

    assert list_files(theirs) == before
    assert not index.is_symlink()
    assert list_files(index) == ["store"]

    index.joinpath("store").unlink()
    index.rmdir()
    index.symlink_to(theirs)
    index_folder.empty(index)
    assert list_files(theirs) == before


@pytest.mark.parametrize("name", ["lexical", "vectors", "lexical.fresh", "anchor"])
def test_what_is_behind_a_link_in_it_stays(tmp_path: Path, theirs: Path, name: str) -> None:
    before = list_files(theirs)
    index = tmp_path / "index"
    for step in (index_folder.prepare, lambda folder, _: index_folder.empty(folder)):
        index_folder.prepare(index, "ours")
        (index / name).symlink_to(theirs)
        step(index, "ours")
        assert not (index / name).is_symlink()
        assert list_files(theirs) == before


def test_one_that_was_moved_to_another_disk_is_used_there(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    index = tmp_path / "index"
    index.symlink_to(disk)
    index_folder.prepare(index, "ours")
    (disk / "lexical").mkdir()
    (disk / "lexical/meta.json").touch()

    index_folder.prepare(index, "ours")

    assert index.readlink() == disk
    assert list_files(disk) == ["lexical/meta.json", "store"]


def test_one_of_another_store_is_emptied(theirs: Path) -> None:
    index_folder.prepare(theirs, "ours")
    assert list_files(theirs) == ["store"]
