"""The ledger of injections, as users see it: real hooks, a real daemon, `memory injections`,
`memory why`, `memory status` and REST."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agent_memory.launcher import command_client
from tests.command_runner import Home, patch_launcher, wait_until
from tests.git_repositories import make_repository
from tests.hook_inputs import encode_claude
from tests.http_client import Web
from tests.memory_commands import INVALID, MISSING, MemoryCommand, assert_refused

CAPTURING = {"hooks.user_prompt.auto_capture": "true"}
RECALLING = {"hooks.user_prompt.recall": "true"}
_numbers = count()


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent in a repository of its own, and the commands of its user there."""

    memory: MemoryCommand
    launcher: Path
    session: str

    @property
    def folder(self) -> Path:
        return self.memory.folder

    def hook(
        self, event: str, *, session: str = "", env: dict[str, str] | None = None, **more: Any
    ) -> str:
        """Return the context that a hook gives, or an empty text."""
        given = encode_claude(event, session=session or self.session, folder=self.folder, **more)
        answer = self.memory.home.run(
            *("memory", "hook", "auto"),
            given=given,
            env=env,
            cwd=self.folder,
            launcher=self.launcher,
        ).json()
        return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))

    def list(self, *words: str) -> Any:
        options = ("--project", self.folder.name, *words)
        return self.memory.json("injections", *options)["injections"]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher with longer deadlines, so that a busy machine is not a failure."""
    folder = tmp_path_factory.mktemp("patient")
    return patch_launcher(folder, "allow(answer_seconds)", "allow(60.0)")


@pytest.fixture
def agent(home: Home, patient: Path) -> Agent:
    number = next(_numbers)
    folder = make_repository(home.work / f"shop{number}").folder
    return Agent(MemoryCommand(home, folder), patient, f"visit-{number:04}-{os.urandom(4).hex()}")


class TestInjections:
    def test_every_hook_that_gives_something_is_listed(self, agent: Agent) -> None:
        memory, folder = agent.memory, agent.folder
        stored = memory.capture("decisions", "Payment retries are capped at five")
        start = agent.hook("SessionStart")
        prompt = agent.hook(
            "UserPromptSubmit", prompt="[decision] Invoices are sent on Mondays", env=CAPTURING
        )
        later = f"{agent.session}-later"
        file = {"file_path": str(folder / "src" / "payment_retries.py")}
        read = agent.hook("PostToolUse/Read", session=later, tool_input=file)
        asked = agent.hook(
            "UserPromptSubmit", session=later, prompt="When are invoices sent?", env=RECALLING
        )
        assert agent.hook("Stop", session=later) == ""  # gives nothing
        memory.text("recall", "payment")  # asked for, not injected

        found = agent.list()
        assert [(each["hook"], each["session_id"]) for each in found] == [
            ("user-prompt", later),
            ("post-tool", later),
            ("user-prompt", agent.session),
            ("session-start", agent.session),
        ]
        assert {each["agent"] for each in found} == {"claude-code"}
        for given, each in zip((asked, read, prompt, start), found, strict=True):
            assert each["tokens"] == -(-len(given) // 4)
            assert each["items"]
            plain = given is start  # a line for each, with its short name
            for item in each["items"]:
                name = item["uri"].partition("/decisions/")[2].partition(":")[0]
                assert (f"decisions:{name}:0)" if plain else f'uri="{item["uri"]}"') in given
                assert item["title"] in given
            assert given.count("\n- " if plain else "uri=") == len(each["items"])
        assert found[-1]["items"][0]["uri"].endswith(stored.replace("decisions:", "decisions/"))

        assert agent.list("--session", later) == found[:2]
        assert agent.list("-n", "1") == found[:1]
        assert agent.list("--since", "today", "--until", "today") == found
        assert agent.list("--until", "yesterday") == []

    def test_as_text_in_a_pipe(self, agent: Agent) -> None:
        project = agent.folder.name
        stored = agent.memory.capture("decisions", "Payment retries are capped at five")
        agent.hook("SessionStart")
        text = agent.memory.text("injections", "--project", project)
        head, session, item = text.splitlines()
        assert head.split()[2:6] == ["UTC", "session-start", "claude-code", project]
        assert head.endswith(" tokens")
        assert session == f"  session {agent.session}"
        assert item == f"  {stored}  Payment retries are capped at five"
        assert "\x1b" not in text

    def test_mistakes_are_explained(self, agent: Agent) -> None:
        memory = agent.memory
        memory.capture("decisions", "Payment retries are capped at five")
        agent.hook("SessionStart")
        assert_refused(memory("injections", "--session", "unknown"), MISSING)
        assert_refused(memory("injections", "--project", "no-such-project"), MISSING)
        backwards = ("--since", "2026-02-02", "--until", "2026-02-01")
        assert_refused(memory("injections", *backwards), INVALID)
        assert "passes these filters" in memory.text("injections", "--until", "2020-01-01")
        assert_refused(memory("why", "unknown"), MISSING)
        assert_refused(memory("why", "abc"), INVALID)

    def test_status_counts_the_day(self, agent: Agent) -> None:
        before = agent.memory.json("status")["injections"]
        agent.memory.capture("decisions", "Payment retries are capped at five")
        given = agent.hook("SessionStart")
        after = agent.memory.json("status")["injections"]
        assert len(after) == 7
        assert [day["date"] for day in after] == sorted((d["date"] for d in after), reverse=True)
        assert sum(day["injections"] for day in after) == 1 + sum(d["injections"] for d in before)
        assert sum(d["tokens"] for d in after) - sum(d["tokens"] for d in before) == -(
            -len(given) // 4
        )
        assert "Injected: today " in agent.memory.text("status")

    def test_over_rest(self, home: Home, agent: Agent) -> None:
        stored = agent.memory.capture("decisions", "Payment retries are capped at five")
        agent.hook("SessionStart")
        agent.hook("SessionStart", session=f"{agent.session}-later")
        shown = agent.list()
        with Web(home).client() as api:

            def ask(**parameters: object) -> Any:
                answer = api.get("/api/v1/injections/", params=parameters)  # type: ignore[arg-type]
                assert answer.status_code == 200, answer.text
                return answer.json()

            project = agent.folder.name
            first = ask(project=project, limit=1)
            second = ask(project=project, limit=1, continuation_token=first["continuation_token"])
            assert first["injections"] + second["injections"] == shown
            assert second["continuation_token"] is None
            assert ask(session_id=agent.session)["injections"] == shown[1:]
            uri = shown[0]["items"][0]["uri"]
            assert stored.split(":")[1] in uri
            assert ask(item=uri)["injections"] == shown
            assert ask(item="memory://grips/none")["injections"] == []
            for wrong in (
                {"continuation_token": "x"},
                {"from_timestamp_ms": 2, "to_timestamp_ms": 1},
            ):
                assert api.get("/api/v1/injections/", params=wrong).status_code == 422

    def test_an_answer_that_comes_too_late_is_not_in_it(self, home: Home, agent: Agent) -> None:
        agent.memory.capture("decisions", "Payment retries are capped at five")
        data = encode_claude("SessionStart", session=agent.session, folder=agent.folder)
        with socket.socket(socket.AF_UNIX) as launcher:
            launcher.connect(str((home.data / "daemon.sock").readlink()))
            launcher.sendall(
                command_client.hello("hook", ["hook", "auto"], os.urandom(16).hex())
                + command_client.frame(
                    command_client.HOOK_INPUT, b"%d\n" % (time.time_ns() // 1_000_000) + data
                )
            )
        wait_until(
            lambda: agent.memory("show", f"memory://sessions/{agent.session}").code == 0,
            "the call is recorded",
        )
        agent.hook("SessionStart", session=f"{agent.session}-later")
        assert [each["session_id"] for each in agent.list()] == [f"{agent.session}-later"]


class TestWhy:
    @pytest.fixture
    def settled(self, home: Home) -> Iterator[None]:
        """What is captured by a signal counts as settled."""
        home.configure("hooks.review = false")
        yield
        home.config_file.unlink()

    @pytest.mark.usefixtures("settled")
    def test_where_it_comes_from_and_where_it_went(self, agent: Agent) -> None:
        memory = agent.memory
        agent.hook("UserPromptSubmit", prompt="[decision] Payment uses a queue", env=CAPTURING)
        (old,) = memory.list_ids()
        agent.hook("SessionStart", session=f"{agent.session}-later")
        uses = memory.json("list", "--domain", "project")["memories"][0]["activation_count"]

        why = memory.json("why", old.split(":")[1][:4])
        assert why["memory"]["captured"] == "automatically"
        assert why["session_id"] == agent.session
        assert [event["text"] for event in why["events"]] == ["[decision] Payment uses a queue"]
        assert [(each["hook"], each["session_id"]) for each in why["given"]["injections"]] == [
            ("session-start", f"{agent.session}-later"),
            ("user-prompt", agent.session),
        ]
        assert why["given"]["count"] == 2
        assert why["given"]["last_ms"] == why["given"]["injections"][0]["timestamp_ms"]
        # asking for the reason is no use of the memory
        assert memory.json("list", "--domain", "project")["memories"][0]["activation_count"] == uses

        new = memory.json("edit", old, "--summary", "Payment uses two queues")["id"]
        assert memory.json("why", new)["memory"]["supersedes"][0]["id"] == old
        assert memory.json("why", old)["memory"]["superseded_by"]["id"] == new
        text = memory.text("why", old)
        assert f"Superseded by: {new}  Payment uses two queues" in text
        assert ">   [decision] Payment uses a queue" in text
        assert "Given: 2 times, last " in text
        assert "\x1b" not in text

    def test_what_was_never_given(self, agent: Agent) -> None:
        stored = agent.memory.capture("decisions", "Payment retries are capped at five")
        text = agent.memory.text("why", stored)
        assert "Given: never" in text
        assert "`memory context`" in text
        assert agent.memory.json("why", stored)["given"] == {
            "count": 0,
            "last_ms": None,
            "injections": [],
        }
        agent.hook("SessionStart")
        event = agent.memory.json("show", f"memory://sessions/{agent.session}")["uri"]
        assert "memory injections --session" in agent.memory.text("why", event)


def test_it_outlives_the_daemon_and_is_forgotten(patient: Path) -> None:
    with Home() as home:
        home.serve()
        folder = make_repository(home.work / "shop").folder
        agent = Agent(MemoryCommand(home, folder), patient, "visit-1")
        memory = agent.memory
        gone = memory.capture("decisions", "Payment retries are capped at five")
        stored = memory.capture("decisions", "Orders are shipped on Mondays")
        agent.hook("SessionStart")
        home.stop()  # at once: what is queued is written
        home.serve()
        agent.hook("SessionStart", session="visit-2")
        before = agent.list()
        assert [each["session_id"] for each in before] == ["visit-2", "visit-1"]

        memory.text("forget", gone, "--yes")
        assert [[item["title"] for item in each["items"]] for each in agent.list()] == [
            ["Orders are shipped on Mondays"]
        ] * 2
        memory.text("forget", "--session", "visit-1", "--yes")
        assert [each["session_id"] for each in agent.list()] == ["visit-2"]
        assert memory.json("why", stored)["given"]["count"] == 1
