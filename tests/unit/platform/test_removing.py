"""Removing folders: what is never removed, and that nothing else in the tree removes or moves."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_memory
from agent_memory.launcher.environment import find_home
from agent_memory.platform.removing import NotRemovable, remove_tree

PACKAGE = Path(agent_memory.__file__).parent
TREES = {"rmtree", "move", "removedirs", "renames"}  # of shutil and os: `remove_tree` is for these
SINGLE = {"unlink", "rmdir", "rename", "remove"}
# One name each, which is the module's own: who adds a module says here why it may.
SINGLE_USERS = {
    "daemon/runtime_files.py": "sockets and records in folders of ours, by constant names",
    "daemon/serving.py": "the draft of the first key",
    "daemon/standalone.py": "the mark of a failed start",
    "features/backups/adapters/restore_journal.py": "parts of a backup, checked before the first",
    "features/backups/adapters/snapshots.py": "names of snapshots and their drafts",
    "features/hooks/services/config_files.py": "files with nothing but our entries; empty folders",
    "features/hooks/services/last_contexts.py": "contexts in their folder",
    "features/hooks/adapters/pause_file.py": "the pause in the data folder",
    "features/hooks/adapters/spool.py": "calls in the spool",
    "features/index/adapters/index_folder.py": "a file in place of the folder of indexes",
    "features/index/adapters/lexical.py": "names beside the index",
    "features/index/adapters/vectors.py": "files of a generation of vectors",
    "features/memories/adapters/git/ref_repair.py": "an empty ref that git cannot overwrite",
    "features/memories/adapters/git/own.py": "the draft of our own repository",
    "features/memories/adapters/git/pruning.py": "our refs, their logs and objects",
    "features/memories/adapters/git/refs.py": "our lock on a ref",
    "features/maintenance/adapters/salvage.py": "names beside the store",
    "features/runs/services/workspaces/folders.py": "the draft of a file, by its folder",
    "features/upstream/adapters/key_file.py": "the key of a server",
    "interfaces/cli/completion_scripts.py": "our script of completions",
    "interfaces/cli/service_unit.py": "our unit",
    "interfaces/http/page_sessions.py": "the file of a code",
    "launcher/hook_spool.py": "a temporary file that only its descriptor reaches",
    "launcher/starting.py": "the mark of a failed start",
    "platform/durable.py": "drafts with random names",
    "platform/removing.py": "it is the place",
}


def list_calls(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the owner and the name of each call of a method or a function of a module. A module
    without these packages has no path."""
    tree = ast.parse(path.read_text())
    if not any(
        isinstance(node, ast.Import | ast.ImportFrom) and _has_paths(node)
        for node in ast.walk(tree)
    ):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            # The method of a text has two arguments, and `dataclasses.replace` has keywords.
            if name == "replace" and len(node.args) == 1 and not node.keywords:
                name = "rename"
            yield ast.unparse(node.func.value), name


def _has_paths(node: ast.Import | ast.ImportFrom) -> bool:
    names = [getattr(node, "module", None), *(each.name for each in node.names)]
    return bool({"os", "pathlib", "shutil"} & set(names))


def test_folders_are_removed_in_one_place() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for owner, name in list_calls(path)
        if owner in ("shutil", "os") and name in TREES
    }
    assert found == {
        "platform/removing.py",
        "launcher/terminal.py",  # it imports nothing else, and made the folder itself
        "features/memories/adapters/git/torn_objects.py",  # moves a file, into a folder of ours
    }


def test_who_removes_or_renames_a_file_is_known() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for owner, name in list_calls(path)
        if name in SINGLE and (name != "remove" or owner in ("os", "Path"))
    }
    assert found - SINGLE_USERS.keys() == set()
    assert all(SINGLE_USERS.values())
    assert SINGLE_USERS.keys() == found


@pytest.mark.parametrize("ignore", [False, True])
class TestNeverRemoved:
    def test_a_home_and_what_holds_it(
        self, ignore: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = tmp_path / "home/ada"
        home.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(home))
        link = tmp_path / "link"
        link.symlink_to(tmp_path / "home")
        for path in (home, home.parent, tmp_path, Path("/"), Path(find_home())):
            with pytest.raises(NotRemovable):
                remove_tree(path, ignore_errors=ignore)
        monkeypatch.setenv("HOME", str(link / "ada"))
        with pytest.raises(NotRemovable):
            remove_tree(tmp_path / "home", ignore_errors=ignore)
        assert home.is_dir()

    @pytest.mark.parametrize("path", ["db", "", ".", "/etc/../db", "/etc/x/.."])
    def test_a_path_that_is_not_whole(self, ignore: bool, path: str) -> None:
        with pytest.raises(NotRemovable):
            remove_tree(Path(path), ignore_errors=ignore)

    def test_the_target_of_a_link(self, ignore: bool, tmp_path: Path) -> None:
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious/file").touch()
        (tmp_path / "db").mkdir()
        (tmp_path / "db/link").symlink_to(tmp_path / "precious")
        (tmp_path / "link").symlink_to(tmp_path / "precious")
        for name in ("db", "link"):
            remove_tree(tmp_path / name, ignore_errors=ignore)
            assert not os.path.lexists(tmp_path / name)
        assert (tmp_path / "precious/file").exists()

    @pytest.mark.skipif(os.getuid() != 0, reason="gives a folder away")
    def test_a_folder_of_another_user(self, ignore: bool, tmp_path: Path) -> None:
        (tmp_path / "db").mkdir()
        os.chown(tmp_path / "db", 65534, 65534)
        with pytest.raises(NotRemovable, match="another user"):
            remove_tree(tmp_path / "db", ignore_errors=ignore)

    def test_a_mount_point(self, ignore: bool) -> None:
        with pytest.raises(NotRemovable, match="mount point"):
            remove_tree(Path("/proc"), ignore_errors=ignore)


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing/db")
    (tmp_path / "file").touch()
    remove_tree(tmp_path / "file/db")
    remove_tree(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
