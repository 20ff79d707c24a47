"""The journal of a restore: it may be stale, damaged or planted, and can at most fail."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.backups.adapters import restore_journal
from agent_memory.features.backups.adapters.restore_journal import RestorePlace
from agent_memory.kernel.errors import StorageFailed

MARK, ASIDE = "0123abcd", "replaced-20260102T030405Z"
OURS = {"mark": MARK, "aside": ASIDE, "staged": ["db", "spool/1.json"], "cleared": ["index"]}


@pytest.fixture
def place(tmp_path: Path) -> RestorePlace:
    """A data folder in the middle of a restore, beside a folder of the user's own."""
    data = tmp_path / "data"
    for name, text in (
        ("data/db/CURRENT", "old"),
        ("data/index/store", "old"),
        ("data/spool/0.json", "old"),
        (f"data/.restore-{MARK}/db/CURRENT", "new"),
        (f"data/.restore-{MARK}/spool/1.json", "new"),
        ("precious/deep/file", "mine"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return RestorePlace(data=data, db_path=data / "db", index=data / "index")


def plant(place: RestorePlace, content: Any) -> None:
    (place.data / restore_journal.JOURNAL).write_text(json.dumps(content))


def read_all(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
        if not path.is_symlink()
    }


def expect_done(place: RestorePlace) -> None:
    assert restore_journal.finish(place)
    assert (place.db_path / "CURRENT").read_text() == "new"
    assert (place.data / "spool/1.json").read_text() == "new"
    assert (place.data / "spool/0.json").read_text() == "old"
    assert (place.data / ASIDE / "db/CURRENT").read_text() == "old"
    assert (place.data / ASIDE / "index/store").read_text() == "old"
    assert not place.index.exists()
    assert not (place.data / f".restore-{MARK}").exists()
    assert not restore_journal.finish(place)


def expect_refused(place: RestorePlace) -> None:
    before = read_all(place.data.parent)
    with pytest.raises(StorageFailed, match=r"restor"):
        restore_journal.finish(place)
    assert read_all(place.data.parent) == before


def build_old(data: Path, **changes: str) -> list[dict[str, str]]:
    """Return a journal of an earlier version, with whole paths."""
    staged, aside = f"{data}/.restore-{MARK}", f"{data}/{ASIDE}"
    moves = [
        {"staged": f"{staged}/db", "target": f"{data}/db", "aside": f"{aside}/db"},
        {
            "staged": f"{staged}/spool/1.json",
            "target": f"{data}/spool/1.json",
            "aside": f"{aside}/spool/1.json",
        },
        {"staged": "", "target": f"{data}/index", "aside": f"{aside}/index"},
    ]
    moves[0] |= changes
    return moves


def test_a_restore_is_finished(place: RestorePlace) -> None:
    plant(place, OURS)
    expect_done(place)


def test_in_a_folder_that_was_copied_meanwhile_too(place: RestorePlace, tmp_path: Path) -> None:
    plant(place, OURS)
    shutil.copytree(place.data, tmp_path / "copy")
    before = read_all(place.data)
    copy = tmp_path / "copy"
    expect_done(RestorePlace(data=copy, db_path=copy / "db", index=copy / "index"))
    assert read_all(place.data) == before


def test_one_of_an_earlier_version_is_finished(place: RestorePlace) -> None:
    plant(place, build_old(place.data))
    expect_done(place)


@pytest.mark.parametrize("field", ["staged", "target", "aside"])
@pytest.mark.parametrize(
    "path", ["{user}", "{user}/deep", "/etc", "{data}/../precious", "precious", "{data}/key", ""]
)
def test_one_of_an_earlier_version_that_names_another_place_moves_nothing(
    place: RestorePlace, tmp_path: Path, field: str, path: str
) -> None:
    named = path.format(user=tmp_path / "precious", data=place.data)
    plant(place, build_old(place.data, **{field: named}))
    if (field, path) != ("staged", ""):  # which only makes room
        expect_refused(place)


def test_one_of_another_machine_moves_nothing(place: RestorePlace, tmp_path: Path) -> None:
    plant(place, build_old(tmp_path / "elsewhere"))
    expect_refused(place)


PARTS = ["../precious", "/etc", "precious", "", ".", "..", "spool/../../x.json", "spool/.json/x"]


@pytest.mark.parametrize("key", ["staged", "cleared"])
@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_no_backup_has_moves_nothing(place: RestorePlace, key: str, part: str) -> None:
    plant(place, OURS | {key: ["db", part]})
    expect_refused(place)


@pytest.mark.parametrize(
    "change",
    [
        {"mark": "../../precious"}, {"mark": "0123abc"}, {"mark": ""}, {"mark": "ffffffff"},
        {"aside": "../precious"}, {"aside": "/etc"}, {"aside": "db"}, {"aside": ASIDE + "/.."},
        {"staged": None}, {"cleared": 7},
    ],
)  # fmt: skip
def test_a_folder_that_no_restore_makes_moves_nothing(
    place: RestorePlace, change: dict[str, Any]
) -> None:
    plant(place, OURS | change)
    expect_refused(place)


@pytest.mark.parametrize("name", [f".restore-{MARK}", f".restore-{MARK}/spool", "spool", ASIDE])
def test_no_link_leads_it_elsewhere(place: RestorePlace, tmp_path: Path, name: str) -> None:
    plant(place, OURS)
    folder = place.data / name
    if folder.exists():
        shutil.rmtree(folder)
    folder.symlink_to(tmp_path / "precious")
    expect_refused(place)


def link_folder(path: Path, user: Path) -> None:
    path.symlink_to(user)


def link_file(path: Path, user: Path) -> None:
    path.symlink_to(user / "deep/file")


def link_nowhere(path: Path, user: Path) -> None:
    path.symlink_to(user / "nothing")


def make_pipe(path: Path, _user: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [link_folder, link_file, link_nowhere, make_pipe])
@pytest.mark.parametrize("part", ["db", "spool", "key", "user.git", "org", "spool/2.json"])
def test_a_staged_part_that_is_no_file_or_folder_moves_nothing(
    place: RestorePlace, tmp_path: Path, part: str, make: Callable[[Path, Path], None]
) -> None:
    plant(place, OURS | {"staged": ["spool/1.json", part]})
    staged = place.data / f".restore-{MARK}" / part
    if staged.exists():
        staged.rename(tmp_path / "away")
    make(staged, tmp_path / "precious")
    before = read_all(tmp_path)
    with pytest.raises(StorageFailed, match="nothing was restored"):
        restore_journal.finish(place)
    assert read_all(tmp_path) == before


@pytest.mark.parametrize("part", ["key", "org"])
def test_a_file_for_a_folder_and_a_folder_for_a_file_move_nothing(
    place: RestorePlace, part: str
) -> None:
    plant(place, OURS | {"staged": ["spool/1.json", part]})
    staged = place.data / f".restore-{MARK}" / part
    if part == "key":
        staged.mkdir()
    else:
        staged.touch()
    expect_refused(place)


def test_no_index_is_restored(place: RestorePlace) -> None:
    plant(place, OURS | {"staged": ["db", "index"], "cleared": []})
    (place.data / f".restore-{MARK}/index").mkdir()
    expect_refused(place)


def test_with_another_place_of_the_database_it_says_so(place: RestorePlace, tmp_path: Path) -> None:
    plant(place, OURS)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(StorageFailed, match=r"storage\.path of then"):
        restore_journal.finish(RestorePlace(data=place.data, db_path=other / "db", index=other))


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b"\xff{"),
        lambda path: path.write_text("7"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("[7]"),
        lambda path: path.write_text('{"mark": 1}'),
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: path.symlink_to("/etc/passwd"),
    ],
)
def test_what_is_no_journal_moves_nothing(
    place: RestorePlace, make: Callable[[Path], None]
) -> None:
    make(place.data / restore_journal.JOURNAL)
    if (place.data / restore_journal.JOURNAL).is_fifo():
        with pytest.raises(StorageFailed):
            restore_journal.finish(place)
        return
    expect_refused(place)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12) | st.sampled_from(PARTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(OURS)), inner),
    max_leaves=8,
)


@given(content=values)
def test_any_content_can_at_most_fail(
    content: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "data").mkdir()
    (folder / "precious").mkdir()
    place = RestorePlace(
        data=folder / "data", db_path=folder / "data/db", index=folder / "data/index"
    )
    plant(place, content)
    with pytest.raises(StorageFailed):
        restore_journal.finish(place)
    assert sorted(path.name for path in folder.rglob("*")) == ["data", "precious", "restoring.json"]
