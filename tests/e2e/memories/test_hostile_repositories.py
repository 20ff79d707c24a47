"""A hostile repository under a real daemon: hooks and commands run nothing of it."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests import hostile_repositories as hostile
from tests.command_runner import Answer, Home, wait_until
from tests.git_repositories import Repository, build_environ, make_repository
from tests.hook_inputs import CLAUDE_CODE, encode_input
from tests.hostile_repositories import Trap
from tests.memory_client import Client
from tests.memory_commands import CONFIG, OK, MemoryCommand, assert_refused
from tests.search_client import connect

SYNCING = {
    "hooks.session_start.fetch_remote": "true",
    "hooks.stop.push_remote": "true",
}
_numbers = count()


@pytest.fixture(scope="module")
def module_trap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trap]:
    with hostile.open_trap(tmp_path_factory.mktemp("hostile") / "trap") as trap:
        yield trap


@pytest.fixture
def trap(module_trap: Trap) -> Trap:
    module_trap.reset()
    return module_trap


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[Client]:
    with connect(home) as found:
        yield found


def hook(home: Home, folder: Path, event: str, session: str, **env: str) -> Answer:
    given = {k: v for k, v in CLAUDE_CODE[event].items() if k not in ("prompt_id", "tool_use_id")}
    data = encode_input(given, session_id=session, cwd=str(folder))
    answer = home.run(
        *("memory", "hook", "auto"),
        given=data,
        cwd=folder,
        env={**build_environ(home.folder), **env},
    )
    assert answer.code == 0, answer
    return answer


def walk(home: Home, folder: Path) -> None:
    """Do all that a user and an agent do in a folder, with every remote feature on."""
    session = f"hostile-{next(_numbers)}"
    memory = MemoryCommand(home, folder)
    ends = ended(home)
    hook(home, folder, "SessionStart", session, **SYNCING)
    wait_until(lambda: ended(home) > ends, "the fetch has ended")
    hook(home, folder, "UserPromptSubmit", session)
    name = memory.capture("decisions", f"Number {next(_numbers)}")
    for words in (
        ("sync", "--remote", "--domain", "project"),
        ("sync", "--fetch", "--domain", "project"),
        ("sync", "--push", "--domain", "project"),
        ("migrate", "--dry-run"),
        ("forget", name, "--rewrite-notes"),
    ):
        answer = memory(*words, env=build_environ(home.folder))
        assert "Traceback" not in answer.errors
    ends = ended(home)
    hook(home, folder, "SessionEnd", session, **SYNCING)
    wait_until(lambda: ended(home) > ends, "the sync has ended")


def ended(home: Home) -> int:
    """Return how many syncs that hooks began have ended."""
    log = home.log()
    return log.count("hook.afterwards") + log.count("hook.synced")


class TestAHostileRepository:
    @pytest.mark.parametrize("address", ["local", "ssh", "git", "http", "ext"])
    def test_nothing_in_its_config_is_run(self, home: Home, trap: Trap, address: str) -> None:
        repository = hostile.make_victim(trap, home.work / f"{address}-{next(_numbers)}")
        hostile.attack_with_all(repository, trap, address)
        walk(home, repository.folder)
        assert trap.list_sprung() == set()

    @pytest.mark.parametrize("name", ["hooks", "signed_push", "promisor"])
    def test_nor_what_cannot_stand_beside_the_others(
        self, home: Home, trap: Trap, name: str
    ) -> None:
        repository = hostile.make_victim(trap, home.work / f"{name}-{next(_numbers)}")
        hostile.ATTACKS[name](repository, trap)
        walk(home, repository.folder)
        assert trap.list_sprung() == set()

    def test_nor_in_a_folder_that_is_a_bare_repository(self, home: Home, trap: Trap) -> None:
        outer = make_repository(home.work / f"outer-{next(_numbers)}")
        outer.git("remote", "add", "origin", str(trap.remote().folder))
        inner = hostile.make_embedded(outer.folder, trap)
        walk(home, inner.folder)
        assert trap.list_sprung() == set()


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2 << 30)


FILES: dict[str, Callable[[Path], object]] = {
    "100,000 brackets": lambda path: path.write_text("a = " + "[" * 100_000),
    "60,000 brackets": lambda path: path.write_text("[" * 60_000),
    "2 GiB": sparse,
    "a FIFO": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
}


class TestAHostileSettingsFile:
    @pytest.fixture
    def repository(self, home: Home) -> Repository:
        return make_repository(home.work / f"app-{next(_numbers)}")

    @pytest.mark.parametrize("kind", FILES)
    def test_it_ends_in_a_message_and_the_hook_is_recorded(
        self, home: Home, client: Client, repository: Repository, kind: str
    ) -> None:
        FILES[kind](repository.folder / "memory.toml")
        session = f"settings-{next(_numbers)}"
        hook(home, repository.folder, "SessionStart", session)
        hook(home, repository.folder, "UserPromptSubmit", session)
        recorded = [each for each in client.all_events() if each.session_id == session]
        assert len(recorded) == 2
        assert_refused(MemoryCommand(home, repository.folder)("status"), CONFIG, "memory.toml")
        assert str(repository.folder / "memory.toml") in home.log()

    def test_it_neither_captures_nor_sends(
        self, home: Home, trap: Trap, repository: Repository
    ) -> None:
        remote = trap.remote()
        before = remote.refs()
        (repository.folder / "memory.toml").write_text(
            f"[memories]\nremote = '{remote.folder}'\n"
            "[hooks.user_prompt]\nauto_capture = true\n[hooks.stop]\npush_remote = true\n"
        )
        memory = MemoryCommand(home, repository.folder)
        session = f"settings-{next(_numbers)}"
        prompt = encode_input(
            CLAUDE_CODE["UserPromptSubmit"],
            session_id=session,
            cwd=str(repository.folder),
            prompt="[decision] Use PostgreSQL",
        )
        told = home.run("memory", "hook", "auto", given=prompt, cwd=repository.folder)
        assert "<auto_captured>" not in told.text
        assert memory.list_ids() == []
        memory.capture("decisions", "Ours")
        answer = memory("sync", "--remote", "--domain", "project")
        assert answer.code != OK
        assert "note: ignored memories.remote" in answer.errors
        assert remote.refs() == before
