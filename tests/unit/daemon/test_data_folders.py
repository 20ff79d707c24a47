"""The folders of a user's data: which there are, and that all of them are deleted."""

from pathlib import Path

import pytest

from agent_memory import config
from agent_memory.daemon import data_folders


@pytest.mark.parametrize("runtime", ["", "run"])
def test_all_are_deleted_and_nothing_beside_them(
    tmp_path: Path, runtime: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"HOME": str(tmp_path)}
    if runtime:  # as where the system has a folder for sockets
        monkeypatch.setattr(config, "find_runtime", lambda _home: str(tmp_path / runtime))
    sockets = (
        tmp_path / runtime / "agent-memory" if runtime else (tmp_path / ".cache/agent-memory/run")
    )
    ours = [
        tmp_path / ".local/share/agent-memory",
        tmp_path / ".config/agent-memory",
        tmp_path / ".cache/agent-memory",
        sockets,
    ]
    for folder in ours:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "file").write_text("12345")
    beside = tmp_path / ".config/other/file"
    beside.parent.mkdir()
    beside.touch()

    assert data_folders.measure(data_folders.list_folders(environ)) == 20
    deleted = data_folders.delete(environ)

    assert not any(folder.exists() for folder in ours)
    assert set(deleted) >= set(ours[:3])
    assert beside.exists()
    assert data_folders.list_folders(environ) == []
