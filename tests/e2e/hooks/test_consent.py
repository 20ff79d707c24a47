"""Consent as a user gives and withdraws it: real launchers, with a real daemon and without one."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import Home, patch_launcher, wait_until
from tests.git_repositories import Repository, make_repository
from tests.home_settings import prepare_home
from tests.hook_inputs import encode_claude
from tests.memory_commands import INVALID, assert_refused
from tests.search_client import connect

PRIVATE = "zanzibar-4711"
EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse/Bash",
    "PreCompact",
    "Stop",
    "SessionEnd",
)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher with longer deadlines, so that a busy machine is not a failure."""
    folder = tmp_path_factory.mktemp("patient")
    return patch_launcher(folder, "allow(answer_seconds)", "allow(60.0)")


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


@pytest.fixture
def app(home: Home) -> Repository:
    return make_repository(home.work / "app")


class Agent:
    """An agent in a folder, with a session of its own."""

    def __init__(self, home: Home, folder: Path, launcher: Path) -> None:
        self.home, self.folder, self.launcher = home, folder, launcher

    def call(self, event: str, **more: Any) -> Any:
        given = encode_claude(event, session="s1", folder=self.folder, **more)
        answer = self.home.run(
            "memory", "hook", "auto", given=given, cwd=self.folder, launcher=self.launcher
        )
        assert (answer.code, answer.errors) == (0, ""), answer
        silent = event == "PreCompact" and answer.text == "\n"
        return {} if silent else answer.json()

    def say(self, words: str) -> None:
        assert self.call("UserPromptSubmit", prompt=words) == {}

    def work(self) -> None:
        """Make a call of each kind. None of them gets anything."""
        for event in EVENTS:
            more = {"prompt": "[decision] Use PostgreSQL"} if event == "UserPromptSubmit" else {}
            assert self.call(event, **more) == {}, event

    def run(self, *words: str) -> Any:
        answer = self.home.run("memory", *words, "--format", "json", cwd=self.folder)
        assert answer.code == 0, answer
        return answer.json()

    def expect_refusal(self, word: str, said: str) -> None:
        """Run a command as the agent would."""
        answer = self.home.run("memory", word, cwd=self.folder, env={"CLAUDECODE": "1"})
        assert_refused(answer, INVALID, f"{said}, and this is the shell of Claude Code")

    def reason(self) -> str:
        found: str = self.run("status")["recording"]["reason"]
        return found


@pytest.fixture
def agent(home: Home, app: Repository, launcher: Path) -> Agent:
    return Agent(home, app.folder, launcher)


def list_texts(home: Home) -> list[str]:
    with connect(home) as client:
        return [event.text for event in client.all_events() if event.text]


def list_events(home: Home) -> list[pb.Event]:
    with connect(home) as client:
        return list(client.all_events())


def serve_again(home: Home) -> None:
    """Start a daemon after settings with which none could start."""
    wait_until(lambda: not home.processes(), "no daemon is being started")
    home.config_file.unlink()
    home.serve()


def wait_for_spool(home: Home) -> None:
    wait_until(lambda: not list((home.data / "spool").iterdir()), "the spool is empty")


def take_digest(folder: Path) -> dict[str, str]:
    """Return all files below a folder, each with the hash of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_project_that_is_off(home: Home, agent: Agent, app: Repository, launcher: Path) -> None:
    home.serve()
    agent.say("Before it was off")
    tree = home.work / "tree"
    app.git("worktree", "add", "-q", str(tree), "-b", "side")
    state = Agent(home, tree, launcher).run("off")
    assert state["folder"] == str(app.folder)
    assert state["recording"]["reason"] == "excluded"
    log = home.log()
    agent.work()
    Agent(home, tree, launcher).work()
    assert agent.reason() == "excluded"
    assert home.log() == log
    assert list_texts(home) == ["Before it was off"]
    # What the user does is still done.
    agent.run("capture", "decisions", "Use MariaDB")
    assert agent.run("list")["memories"][0]["summary"] == "Use MariaDB"
    agent.expect_refusal("on", "only you can allow recording")
    assert agent.run("on")["recording"]["reason"] == "on"
    agent.say("After it was on")
    assert list_texts(home) == ["Before it was off", "After it was on"]
    assert "exclude = []" in home.config_file.read_text()


def test_opt_in_and_what_a_project_may_say(home: Home, agent: Agent) -> None:
    home.serve()
    home.configure('# mine\n[hooks]\nmode = "opt-in"\nexclude = ["~/work/clients/*"]\n')
    (agent.folder / "memory.toml").write_text(
        f'[hooks]\nmode = "all"\nprojects = ["{agent.folder}"]\n'
    )
    agent.work()
    assert agent.reason() == "not-in-projects"
    assert list_events(home) == []
    assert agent.run("on")["recording"]["reason"] == "on"
    assert home.config_file.read_text().startswith("# mine\n")
    agent.say("Chosen by the user")
    assert list_texts(home) == ["Chosen by the user"]
    client = home.work / "clients/acme"
    client.mkdir(parents=True)
    wider = home.run("memory", "on", cwd=client)
    assert wider.code != 0
    assert "~/work/clients/* in hooks.exclude covers more" in wider.errors


def test_a_pause_survives_a_restart(home: Home, agent: Agent) -> None:
    home.serve()
    agent.say("Before the pause")
    assert agent.run("pause", "--for", "2d")["until_ms"] > 0
    agent.work()
    home.stop()
    home.serve()
    agent.work()
    assert agent.reason() == "paused"
    doctor = home.run("memory", "doctor", "--format", "json").json()
    (said,) = [each["said"] for each in doctor["findings"] if each["subject"] == "recording"]
    assert said.startswith("paused until ")
    (home.data / "paused").write_text("{")
    agent.work()
    assert "is damaged" in agent.run("status")["recording"]["detail"]
    assert list_texts(home) == ["Before the pause"]
    agent.expect_refusal("resume", "only you can end a pause")
    assert agent.run("resume")["was_paused"]
    agent.say("After the pause")
    assert list_texts(home) == ["Before the pause", "After the pause"]


def test_without_a_daemon_nothing_is_written(home: Home, agent: Agent) -> None:
    def expect_nothing() -> None:
        before = take_digest(home.folder)
        assert agent.call("SessionStart") == {}
        agent.say("Unheard")
        assert take_digest(home.folder) == before
        assert home.pid() is None

    home.configure('hooks.exclude = ["~/work/*"]')
    expect_nothing()
    home.configure('hooks.mode = "opt-in"')
    expect_nothing()
    home.config_file.unlink()
    prepare_home(home.environ, home.settings)
    home.data.mkdir(parents=True, mode=0o700)
    (home.data / "paused").write_text('{"until_ms": null}')
    expect_nothing()


def test_the_spool_keeps_what_it_has(home: Home, agent: Agent) -> None:
    home.configure("nonsense = [")  # so that no daemon can start
    agent.say("Said while no daemon ran")
    spool = sorted((home.data / "spool").iterdir())
    assert len(spool) == 1
    (home.data / "paused").write_text('{"until_ms": null}')
    serve_again(home)
    agent.run("status")
    assert sorted((home.data / "spool").iterdir()) == spool
    home.stop()
    (home.data / "paused").unlink()
    home.serve()
    wait_for_spool(home)
    assert list_texts(home) == ["Said while no daemon ran"]


def test_private_words_and_ignored_files_are_nowhere(home: Home, agent: Agent) -> None:
    (agent.folder / ".memoryignore").write_text(".env\n")
    file = str(agent.folder / ".env")
    home.configure("nonsense = [")  # the first calls go to the spool
    for number in range(2):
        agent.say(f"Deploy {number} with <private>{PRIVATE}</private> tonight")
        agent.say(f"<PRIVATE>{PRIVATE} [decision] Use {PRIVATE}")
        assert (
            agent.call(
                "PostToolUse/Read",
                tool_input={"file_path": file},
                tool_response={"type": "text", "file": {"filePath": file, "content": PRIVATE}},
            )
            == {}
        )
        agent.call(
            "PostToolUse/Bash",
            tool_input={"command": "cat .env"},
            tool_response={"stdout": PRIVATE, "stderr": ""},
        )
        if not number:
            serve_again(home)
            wait_for_spool(home)
    agent.call("PreCompact")
    agent.call("SessionEnd")
    home.hold_still()
    assert [text.split() for text in list_texts(home)] == [
        ["Deploy", str(number), "with", "tonight"] for number in range(2)
    ]
    home.stop()
    for path in home.data.rglob("*"):
        if path.is_file():
            assert PRIVATE.encode() not in path.read_bytes(), path
