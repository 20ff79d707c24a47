"""The folders and files of a daemon: whose they must be, and what they tell."""

import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_memory import config
from agent_memory.config import Folders
from agent_memory.daemon import runtime_files
from agent_memory.kernel.errors import StorageFailed

NOBODY = 65534


def folders(home: Path, runtime: Path | None = None) -> Folders:
    found = config.folders({"HOME": str(home)})
    return found if runtime is None else replace(found, runtime=runtime)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(params=["runtime folder", "shared folder"])
def given(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Folders]:
    """Folders whose sockets go to the runtime folder, or to the one for temporary files."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="am-") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        name = "run" if request.param == "runtime folder" else "long" * 40
        runtime = Path(short) / name
        runtime.mkdir()
        yield folders(tmp_path, runtime / "agent-memory")


class TestSocketFolder:
    def test_it_is_made_for_its_owner_only(self, given: Folders) -> None:
        assert mode(runtime_files.socket_folder(given)) == 0o700

    def test_one_that_others_may_enter_is_closed_to_them(self, given: Folders) -> None:
        folder = runtime_files.socket_folder(given)
        folder.chmod(0o755)
        assert runtime_files.socket_folder(given) == folder
        assert mode(folder) == 0o700

    def test_a_link_in_its_place_is_refused_and_its_target_left_alone(
        self, given: Folders, tmp_path: Path
    ) -> None:
        folder = runtime_files.socket_folder(given)
        folder.rmdir()
        target = tmp_path / "target"
        target.mkdir(mode=0o755)
        folder.symlink_to(target)
        with pytest.raises(StorageFailed, match="not a folder of this user: remove it"):
            runtime_files.socket_folder(given)
        assert mode(target) == 0o755

    def test_a_file_in_its_place_is_refused(self, given: Folders) -> None:
        folder = runtime_files.socket_folder(given)
        folder.rmdir()
        folder.touch()
        with pytest.raises(StorageFailed, match="not a folder of this user"):
            runtime_files.socket_folder(given)

    @pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
    def test_someone_elses_is_refused_and_left_alone(self, given: Folders) -> None:
        folder = runtime_files.socket_folder(given)
        folder.chmod(0o777)
        os.chown(folder, NOBODY, NOBODY)
        with pytest.raises(StorageFailed, match="not a folder of this user"):
            runtime_files.socket_folder(given)
        assert mode(folder) == 0o777


class TestLock:
    def test_its_holder_is_known_while_it_is_held(self, tmp_path: Path) -> None:
        given = folders(tmp_path)
        runtime_files.prepare(given.data)
        lock = runtime_files.lock(given, 0, lambda: False)
        assert runtime_files.find_lock_holder(given) == os.getpid()
        runtime_files.unlock(lock)
        assert runtime_files.find_lock_holder(given) is None

    def test_let_go_of_it_names_nobody(self, tmp_path: Path) -> None:
        """Whoever takes it next is looked at before it has written its own number."""
        given = folders(tmp_path)
        runtime_files.prepare(given.data)
        runtime_files.unlock(runtime_files.lock(given, 0, lambda: False))
        assert runtime_files.lock_file(given).read_bytes() == b""


class TestWriteWhole:
    """Someone who could write to the folder once must not be able to have us write elsewhere."""

    @pytest.mark.parametrize("link", ["symbolic", "hard"])
    @pytest.mark.parametrize("name", ["key", "key.new", ".key.new", ".key.part"])
    def test_nothing_is_written_through_a_link(self, tmp_path: Path, name: str, link: str) -> None:
        victim = tmp_path / "victim"
        victim.write_text("of someone else")
        folder = tmp_path / "data"
        folder.mkdir()
        if link == "symbolic":
            (folder / name).symlink_to(victim)
        else:
            (folder / name).hardlink_to(victim)

        runtime_files.write_whole(folder / "key", "the key")

        assert victim.read_text() == "of someone else"
        assert (folder / "key").read_text() == "the key"
        assert not (folder / "key").is_symlink()
        assert mode(folder / "key") == 0o600

    def test_a_killed_writers_draft_is_removed_by_the_next_one(self, tmp_path: Path) -> None:
        left, recent = tmp_path / ".key.0123.part", tmp_path / ".key.4567.part"
        for draft in (left, recent):
            draft.touch()
        os.utime(left, (1, 1))

        runtime_files.write_whole(tmp_path / "key", "the key")

        assert sorted(each.name for each in tmp_path.iterdir()) == [".key.4567.part", "key"]

    def test_what_cannot_be_written_leaves_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "key").mkdir()
        with pytest.raises(OSError, match="directory"):
            runtime_files.write_whole(tmp_path / "key", "the key")
        assert [each.name for each in tmp_path.iterdir()] == ["key"]

    def test_a_lock_is_not_written_through_a_link(self, tmp_path: Path) -> None:
        given = folders(tmp_path)
        runtime_files.prepare(given.data)
        victim = tmp_path / "victim"
        victim.write_text("of someone else")
        runtime_files.lock_file(given).symlink_to(victim)
        with pytest.raises(StorageFailed):
            runtime_files.lock(given, 0, lambda: False)
        assert victim.read_text() == "of someone else"
