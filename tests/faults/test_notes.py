"""Notes on a forgetful disk: once written or fetched, they are whole after every power cut."""

import shutil
from pathlib import Path

import pytest

from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from tests.faults import mounting
from tests.faults.disk import Temper, read_folder, temper_of, write_folder
from tests.faults.mounting import Mounted
from tests.git_repositories import (
    DOMAIN,
    Repository,
    clone_repository,
    make_repository,
    memory,
)
from tests.inline_worker import InlineWorker

REF = "refs/notes/mem/decisions"
SEEDS = [
    next(seed for seed in range(100) if temper_of(seed) is Temper.SYNCED),
    *(seed for seed in range(30) if temper_of(seed) is Temper.FOLDERS),
]


@pytest.mark.skipif(bool(mounting.obstacle()), reason=mounting.obstacle())
@pytest.mark.parametrize("fetched", [False, True], ids=["written", "fetched"])
def test_notes_are_whole_after_every_power_cut(tmp_path: Path, fetched: bool) -> None:
    disk, data = tmp_path / "disk", tmp_path / "data"
    origin = make_repository(tmp_path / "origin")
    project = clone_repository(origin, disk / "project")
    base = read_folder(disk)
    shutil.rmtree(disk / "project")

    with Mounted(disk, base) as mounted:
        repositories = GitRepositories(data, InlineWorker())
        if fetched:
            repositories.open_notebook(origin.home, DOMAIN).write([memory("berth 1 is free")])
            notebook = repositories.open_notebook(project.home, DOMAIN)
            assert notebook.fetch("origin", project.environ)
        else:
            repositories.open_notebook(project.home, DOMAIN).write([memory("berth 1 is free")])
        recording = mounted.recording()

    for seed in SEEDS:
        place = tmp_path / f"cut-{seed}"
        place.mkdir()
        write_folder(recording.crash_image(len(recording.log), seed), place)
        restored = Repository(place / "project", project.environ)
        assert restored.succeeds("rev-list", "--objects", REF), seed
