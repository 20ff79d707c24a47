"""`memory hook` as agents call it: real launchers, a real daemon, real repositories."""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from stat import S_IMODE
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from agent_memory.features.hooks.model import transcripts
from agent_memory.features.recall.model.contexts import GUIDANCE
from agent_memory.features.secrets.model.secrets import WITHHELD
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.interfaces.hooks.outputs import MAX_CONTEXT_CHARS
from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import LAUNCHER, Answer, Home, patch_launcher, wait_until
from tests.git_repositories import build_environ, clone_repository, make_repository
from tests.hook_inputs import CLAUDE_CODE, CURSOR, GEMINI, SAMPLES, SIMPLE, encode_input
from tests.memory_client import Client
from tests.memory_commands import MemoryCommand
from tests.search_client import Search, connect

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"
EMPTY = {"additionalContext": "", "suppressSystemPrompt": False}

_numbers = count()


@dataclass(frozen=True, slots=True)
class Session:
    """An agent's session in a folder."""

    home: Home
    folder: Path
    name: str
    launcher: Path = LAUNCHER

    @property
    def memory(self) -> MemoryCommand:
        return MemoryCommand(self.home, self.folder)

    def run(self, given: bytes, *words: str, env: dict[str, str] | None = None) -> Answer:
        """Run a hook. For any input, the agent continues: exit code 0 and one JSON object."""
        answer = self.home.run(
            "memory",
            "hook",
            *(words or ("auto",)),
            given=given,
            env=env,
            cwd=self.folder,
            launcher=self.launcher,
        )
        assert answer.code == 0, answer
        assert "Traceback" not in answer.errors
        if "--output" not in words:
            silent = b'Compact"' in given and answer.text == "\n"
            assert silent or isinstance(answer.json(), dict)
        return answer

    def claude(self, event: str, *, env: dict[str, str] | None = None, **more: Any) -> Any:
        """Return the context that Claude Code gets, or None."""
        given = {
            k: v for k, v in CLAUDE_CODE[event].items() if k not in ("prompt_id", "tool_use_id")
        }
        data = encode_input(given, **{"session_id": self.name, "cwd": str(self.folder), **more})
        answer = self.run(data, env=env)
        assert answer.errors == "", answer
        found = answer.json() if answer.text.strip() else {}
        if not found:
            return None
        told = found["hookSpecificOutput"]
        assert found == {"hookSpecificOutput": told}
        assert told["hookEventName"] == event.partition("/")[0]
        return told["additionalContext"]

    def simple(self, event: str, *, env: dict[str, str] | None = None, **more: Any) -> Any:
        given = {"session_id": self.name, "project_path": str(self.folder), **more}
        return self.run(encode_input(SIMPLE[event], **given), env=env).json()


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The launcher with longer deadlines, so that a busy machine is not a failure."""
    return patch_launcher(
        tmp_path_factory.mktemp("patient"),
        "allow(answer_seconds)",
        "allow(60.0)",
    )


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[Client]:
    with connect(home) as found:
        yield found


@pytest.fixture
def session(home: Home, patient: Path) -> Session:
    """Return a session in its own repository."""
    number = next(_numbers)
    repository = make_repository(home.work / f"app{number}")
    return Session(home, repository.folder, f"session-{number}", patient)


def list_events(client: Client, session: str) -> list[pb.Event]:
    return [each for each in client.all_events() if each.session_id == session]


def texts(client: Client, session: str) -> list[str]:
    return [each.text for each in list_events(client, session) if each.text]


def configured(session: Session, text: str) -> None:
    (session.folder / "memory.toml").write_text(text)


def summaries(session: Session, *words: str) -> list[str]:
    found = session.memory.json("list", "--domain", "project", *words)
    return [each["summary"] for each in found["memories"]]


class TestASession:
    def test_everything_is_recorded_where_it_happened(
        self, session: Session, client: Client
    ) -> None:
        before = session.folder / "src"
        before.mkdir()
        assert "<memory_context>" in session.claude("SessionStart")
        assert session.claude("UserPromptSubmit", prompt="Is it dark?", cwd=str(before)) is None
        assert session.claude("PreToolUse") is None
        assert session.claude("PostToolUse/Bash") is None
        assert session.claude("PostToolUseFailure") is None
        assert session.claude("Stop") is None
        assert session.claude("SubagentStart") is None
        assert session.claude("SubagentStop") is None
        assert session.claude("PostCompact") is None
        assert session.claude("SessionEnd") is None
        events = list_events(client, session.name)
        inner = list_events(client, f"{session.name}/{CLAUDE_CODE['SubagentStop']['agent_id']}")
        names = [pb.EventType.Name(each.event_type).removeprefix("EVENT_TYPE_") for each in events]
        assert names == [
            "SESSION_START",
            "USER_MESSAGE",
            "TOOL_RESULT",
            "TOOL_RESULT",
            "ASSISTANT_MESSAGE",
            "ASSISTANT_STOP",
            "SESSION_END",
        ]
        assert len(inner) == 3
        for each in (*events, *inner):
            assert each.metadata["project"] == session.folder.name
            assert each.metadata["branch"] == "main"
            assert each.metadata["agent"] == "claude-code"
        assert events[2].metadata["tool_name"] == "Bash"
        assert events[3].metadata["error"] == "true"

    def test_every_agents_every_event_is_answered(self, session: Session) -> None:
        for sample, given in SAMPLES.items():
            answer = session.run(encode_input(given, session_id=f"{session.name}-{sample}"))
            assert answer.errors == "", (sample, answer)
            if sample.startswith("004/"):
                assert set(answer.json()) == set(EMPTY)
                assert answer.json()["suppressSystemPrompt"] is (sample == "004/Stop")
            elif sample.startswith("cursor/"):
                assert answer.json() == {}
            elif sample in ("claude-code/PreCompact", "claude-code/PostCompact"):
                assert answer.text == "\n"
            else:
                assert set(answer.json()) <= {"hookSpecificOutput"}

    def test_the_same_again_is_once(self, session: Session, client: Client) -> None:
        for _ in range(2):
            session.claude("UserPromptSubmit", prompt="Once.", prompt_id="p1")
            session.claude("PostToolUse/Bash", tool_use_id="t1")
            session.claude("UserPromptSubmit", prompt="Twice.")
        assert sorted(texts(client, session.name)) == [
            "Bash: make test\n4 passed in 0.31s",
            "Once.",
            "Twice.",
            "Twice.",
        ]

    def test_a_plugin_beside_installed_hooks_adds_nothing(
        self, session: Session, client: Client
    ) -> None:
        """Gemini CLI has no ids, and the same time for both hooks."""
        start, prompt = (
            encode_input(GEMINI[event], session_id=session.name, cwd=str(session.folder))
            for event in ("SessionStart", "BeforeAgent")
        )
        words = ("auto", "--agent", "gemini")
        first, second = (session.run(start, *words, *more) for more in ((), ("--plugin",)))
        assert "additionalContext" in first.json()["hookSpecificOutput"]
        assert second.json() == {}
        for more in (("--plugin",), ()):
            session.run(prompt, *words, *more)
        types = [event.event_type for event in list_events(client, session.name)]
        assert sorted(types) == sorted((pb.EVENT_TYPE_SESSION_START, pb.EVENT_TYPE_USER_MESSAGE))

    def test_the_simpler_stop_ends_the_session(self, session: Session, client: Client) -> None:
        assert session.simple("Stop") == {"additionalContext": "", "suppressSystemPrompt": True}
        (event,) = list_events(client, session.name)
        assert event.event_type == pb.EVENT_TYPE_SESSION_END
        assert event.metadata["reason"] == "user_initiated"

    def test_secrets_and_long_texts(self, session: Session, client: Client) -> None:
        session.claude("UserPromptSubmit", prompt=f"The key is {TOKEN}, use it.")
        session.claude("Stop", last_assistant_message="word " * (1 << 19))
        words, answer = texts(client, session.name)
        assert TOKEN not in words
        assert words.endswith("use it.")
        assert answer.endswith(transcripts.CUT)

    def test_by_files(self, session: Session, client: Client, tmp_path: Path) -> None:
        source, target = tmp_path / "in.json", tmp_path / "out.json"
        source.write_bytes(encode_input(SIMPLE["UserPromptSubmit"], session_id=session.name))
        words = ("user-prompt", "--input", str(source), "--output", str(target))
        assert session.run(b"", *words).text == ""
        assert "<capture_detected>" in json.loads(target.read_text())["additionalContext"]
        assert S_IMODE(target.stat().st_mode) == 0o600
        assert len(list_events(client, session.name)) == 1


class TestFailures:
    def test_what_cannot_be_read(self, session: Session) -> None:
        answer = session.run(b'{"hook": "Stop", bro', "stop")
        assert answer.json()["additionalContext"].startswith("<!-- hook error: ")
        assert answer.errors.startswith("error: ")
        for given in (b"", b"\xff\0", b"[]", b'{"hook_event_name": "Stop"'):
            assert session.run(given).json() == {}

    def test_an_unknown_hook(self, session: Session) -> None:
        answer = session.run(encode_input(CLAUDE_CODE["Stop"]), "nonsense")
        assert answer.json() == {}
        assert "there is no hook 'nonsense'; hooks are session-start" in answer.errors
        told = session.run(encode_input(SIMPLE["Stop"]), "nonsense").json()["additionalContext"]
        assert "there is no hook" in told

    def test_no_session(self, session: Session) -> None:
        answer = session.run(encode_input(CLAUDE_CODE["UserPromptSubmit"], session_id=""))
        assert answer.json() == {}
        assert "session" in answer.errors
        told = session.run(encode_input(SIMPLE["UserPromptSubmit"], session_id=None)).json()
        assert told["additionalContext"].startswith("<!-- hook error: ")

    def test_files_that_are_not_there(self, session: Session, tmp_path: Path) -> None:
        answer = session.run(b"", "stop", "--input", str(tmp_path / "gone"))
        assert answer.json() == {}
        assert "gone" in answer.errors or "No such file" in answer.errors
        given = encode_input(CLAUDE_CODE["Stop"])
        written = session.run(given, "auto", "--output", str(tmp_path / "no" / "folder"))
        assert "was not written" in written.errors

    def test_nobody_listens(self, session: Session) -> None:
        given = encode_input(CLAUDE_CODE["Stop"], session_id=session.name)
        deaf = session.home.run_shell(
            "$RUN_memory hook auto --input /nowhere 2>/dev/full; echo $?;"
            " $RUN_memory hook auto >/dev/full; echo $?",
            given=given,
        )
        assert deaf.text == "{}\n0\n0\n"

    def test_a_folder_that_is_gone(self, session: Session, client: Client) -> None:
        session.claude("UserPromptSubmit", prompt="Where am I?", cwd="/nowhere/at/all")
        (event,) = list_events(client, session.name)
        assert event.metadata["cwd"] == "/nowhere/at/all"


class TestSwitchedOff:
    def expect_no_answer(self, session: Session, env: dict[str, str] | None = None) -> None:
        prompt = "[decision] Use PostgreSQL"
        assert session.claude("UserPromptSubmit", prompt=prompt, env=env) is None
        assert session.simple("UserPromptSubmit", prompt=prompt, env=env) == EMPTY

    def test_by_the_project(self, session: Session, client: Client) -> None:
        configured(session, "[hooks]\nenabled = false\n")
        self.expect_no_answer(session)
        assert session.claude("SessionStart") is None
        assert list_events(client, session.name) == []

    def test_by_the_environment(self, session: Session, client: Client) -> None:
        self.expect_no_answer(session, {"MEMORY_HOOKS__ENABLED": "false"})
        assert list_events(client, session.name) == []

    def test_one_of_them(self, session: Session, client: Client) -> None:
        configured(session, "[hooks.user_prompt]\nenabled = false\n")
        self.expect_no_answer(session)
        assert list_events(client, session.name) == []
        session.claude("Stop")
        assert len(list_events(client, session.name)) == 2

    def test_a_broken_file_stops_nobody(self, session: Session, client: Client) -> None:
        configured(session, "[hooks\nenabled = ")
        session.claude("UserPromptSubmit", prompt="Still here.")
        session.home.configure("nonsense = [")
        try:
            session.claude("UserPromptSubmit", prompt="And here.")
        finally:
            session.home.config_file.unlink()
        assert texts(client, session.name) == ["Still here.", "And here."]


class TestStarting:
    def test_what_is_known_within_its_budget(self, session: Session) -> None:
        session.memory.capture("decisions", "Use PostgreSQL for orders")
        session.memory.capture("blockers", "The payment sandbox is down")
        context = session.claude("SessionStart")
        assert estimate_tokens(context) <= 700
        found = ET.fromstring(context)  # noqa: S314
        assert found.tag == "memory_context"
        assert not list(found)  # plain lines
        head, *lines = context.splitlines()[1:-1]
        assert session.folder.name in head
        assert any("Use PostgreSQL for orders" in line for line in lines)
        assert tuple(lines[-2:]) == GUIDANCE["standard"]
        again = session.claude("SessionStart/compact")
        assert "Use PostgreSQL for orders" in again
        told = session.simple("SessionStart", git_branch="feature/auth")["additionalContext"]
        assert "<branch>feature/auth</branch>" in told

    def test_as_it_is_configured(self, session: Session) -> None:
        session.memory.capture("decisions", "Use PostgreSQL for orders")
        configured(
            session,
            "[hooks.session_start]\ncontext_token_budget = 150\nguidance_detail = 'minimal'\n",
        )
        context = session.claude("SessionStart")
        assert 0 < estimate_tokens(context) <= 150
        (guidance,) = GUIDANCE["minimal"]
        assert context.count(guidance) == 1
        configured(session, "[hooks.session_start]\ninclude_guidance = false\n")
        assert guidance not in session.claude("SessionStart")
        configured(session, "[hooks.session_start]\ncontext_token_budget = 0\n")
        assert session.claude("SessionStart") is None

    def test_never_more_than_an_agent_takes(self, session: Session, tmp_path: Path) -> None:
        lines = [
            json.dumps(
                {
                    "session_id": f"{session.name}-{number}",
                    "timestamp_ms": 1_767_261_600_000 + number * 86_400_000,
                    "role": "user",
                    "text": "The harbour wall was built of granite. " * 40,
                    "metadata": {"project": session.folder.name},
                }
            )
            for number in range(10)
        ]
        (tmp_path / "talk.jsonl").write_text("\n".join(lines))
        session.memory.text("import", "--from", "jsonl", str(tmp_path / "talk.jsonl"))
        for number in range(10):
            namespace = ("decisions", "blockers")[number % 2]
            session.memory.capture(namespace, f"Number {number} {'and more words ' * 5}".strip())
        much = {"hooks.session_start.context_token_budget": "100000"}
        assert 0 < len(session.claude("SessionStart", env=much)) <= MAX_CONTEXT_CHARS

    def test_the_teams_memories_are_fetched(
        self, home: Home, patient: Path, tmp_path: Path
    ) -> None:
        team = clone_repository(
            make_repository(tmp_path / "source"), tmp_path / "team.git", "--bare"
        )
        bob = clone_repository(team, home.work / f"bob{next(_numbers)}")
        with Home() as other:
            other.configure("hooks.review = false")
            ada = clone_repository(team, other.work / "ada")
            theirs = Session(other, ada.folder, "theirs", patient)
            theirs.memory.capture("decisions", "Use PostgreSQL for orders")
            theirs.claude("UserPromptSubmit", prompt="[blocker] The payment sandbox is down")
            push = {"hooks.stop.push_remote": "true"}
            theirs.claude("SessionEnd", env={**build_environ(other.folder), **push})
            pushed = {"refs/notes/mem/decisions", "refs/notes/mem/blockers"}
            wait_until(lambda: pushed <= team.refs().keys(), "the notes are pushed")
        mine = Session(home, bob.folder, f"session-{next(_numbers)}", patient)
        assert "PostgreSQL" not in (mine.claude("SessionStart") or "")
        fetch = {"hooks.session_start.fetch_remote": "true"}
        mine.claude("SessionStart", env={**build_environ(home.folder), **fetch})
        expected = {"Use PostgreSQL for orders", "The payment sandbox is down"}
        wait_until(lambda: set(summaries(mine)) == expected, "they are fetched")
        context = mine.claude("SessionStart")
        assert all(each in context for each in expected)


class TestPrompts:
    PROMPT = "Let's use PostgreSQL for the database [decision] because of JSONB support"

    def test_what_is_marked_is_suggested(self, session: Session) -> None:
        told = session.simple("UserPromptSubmit", prompt=self.PROMPT)["additionalContext"]
        assert told.splitlines() == [
            "<capture_detected>",
            '  <signal type="decision">',
            "    <summary>Use PostgreSQL for the database</summary>",
            "    <reason>JSONB support</reason>",
            "    <action>Confirm to capture this decision</action>",
            "  </signal>",
            "</capture_detected>",
        ]
        assert session.claude("UserPromptSubmit", prompt=self.PROMPT) == told
        assert summaries(session) == []

    def test_markers_as_they_are_configured(self, session: Session) -> None:
        env = {"hooks.user_prompt.signal_patterns": "#keep"}
        prompt = "#keep The index is rebuilt at night"
        told = session.claude("UserPromptSubmit", prompt=prompt, env=env)
        assert "The index is rebuilt at night" in told
        prompt = "[progress] The roof is on"
        assert session.claude("UserPromptSubmit", prompt=prompt, env=env) is None

    def test_captured_where_that_is_wanted(self, session: Session, client: Client) -> None:
        env = {"hooks.user_prompt.auto_capture": "true"}
        told = session.claude("UserPromptSubmit", prompt=self.PROMPT, env=env)
        assert told.startswith("<auto_captured>")
        assert summaries(session) == ["Use PostgreSQL for the database"]
        (uri,) = [each.attrib["uri"] for each in ET.fromstring(told).iter("memory")]  # noqa: S314
        (event,) = list_events(client, session.name)
        assert session.memory.show(uri)["event_id"] == event.event_id
        assert session.claude("UserPromptSubmit", prompt=self.PROMPT, env=env) is None

    def test_related_memories_where_they_are_wanted(self, session: Session) -> None:
        for number in range(5):
            session.memory.capture("decisions", f"Payment rule number {number}")
        assert session.claude("UserPromptSubmit", prompt="Which payment rule?") is None
        env = {"hooks.user_prompt.recall": "true"}
        told = session.claude("UserPromptSubmit", prompt="Which payment rule?", env=env)
        assert told.count("<memory ") == 3


class TestTools:
    def test_related_memories_once_in_a_session(self, session: Session) -> None:
        uri = session.memory.capture("decisions", "Payment retries are capped at five")
        file = {"file_path": str(session.folder / "src" / "payment_retries.py")}
        assert session.claude("PostToolUse/Bash", tool_input=file) is None
        assert session.claude("PostToolUse/Grep", tool_input=file) is None
        told = session.claude("PostToolUse/Read", tool_input=file)
        (found,) = ET.fromstring(told)  # noqa: S314
        assert found.findtext("summary") == "Payment retries are capped at five"
        assert uri.split(":")[1] in found.attrib["uri"]
        assert session.claude("PostToolUse/Edit", tool_input=file) is None
        other = replace(session, name=f"{session.name}-b")
        assert (
            uri.split(":")[1] in other.simple("PostToolUse", tool_input=file)["additionalContext"]
        )

    @pytest.mark.parametrize(
        "name", ["payment.lock", "node_modules/payment/payment.js", "web/node_modules/payment.js"]
    )
    def test_not_for_files_that_are_excluded(self, session: Session, name: str) -> None:
        session.memory.capture("decisions", "Payment retries are capped at five")
        file = {"file_path": str(session.folder / name)}
        assert session.claude("PostToolUse/Read", tool_input=file) is None

    def test_as_it_is_configured(self, session: Session) -> None:
        session.memory.capture("decisions", "Payment retries are capped at five")
        section = "hooks.post_tool_use."
        env = {f"{section}trigger_tools": "Bash", f"{section}exclude_patterns": "vendor/*"}
        file = {"file_path": str(session.folder / "src" / "payment.lock")}
        assert session.claude("PostToolUse/Read", tool_input=file, env=env) is None
        told = session.claude("PostToolUse/Bash", tool_input=file, env=env)
        assert "<related_memories>" in told


class TestBeforeCompaction:
    def test_what_was_decided_is_kept_with_where_it_was_said(
        self, session: Session, client: Client
    ) -> None:
        session.claude("UserPromptSubmit", prompt="[decision] Use PostgreSQL for orders")
        session.claude("UserPromptSubmit", prompt="What about the harbour?")
        assert session.claude("PreCompact") is None
        wait_until(lambda: summaries(session) == ["Use PostgreSQL for orders"], "it is captured")
        (found,) = session.memory.json("list", "--domain", "project")["memories"]
        first = list_events(client, session.name)[0]
        shown = session.memory.show(found["id"])
        assert (shown["event_id"], shown["session_id"]) == (first.event_id, session.name)

    def test_the_simpler_contract_is_told_at_once(self, session: Session) -> None:
        session.simple("UserPromptSubmit", prompt="[learned] The index is rebuilt at night")
        told = session.simple("PreCompact")["additionalContext"]
        found = [each.text for each in ET.fromstring(told).iter("summary")]  # noqa: S314
        assert sorted(found, key=str) == [
            "Store tokens in httpOnly cookies",
            "The index is rebuilt at night",
            "Use JWT",
            "User implemented authentication using JWT...",
        ]
        assert sorted(summaries(session)) == sorted(found, key=str)
        assert session.simple("PreCompact") == EMPTY

    def test_what_is_discarded_stays_so(self, session: Session) -> None:
        session.simple("UserPromptSubmit", prompt="[decision] Use PostgreSQL for orders")
        session.simple("PreCompact", key_decisions=[], conversation_summary="")
        (found,) = session.memory.json("list", "--domain", "project")["memories"]
        assert found["status"] == "pending"
        assert session.memory("review", "--discard", found["id"]).code == 0
        again = session.simple("PreCompact", key_decisions=[], conversation_summary="")
        assert again == EMPTY
        assert summaries(session) == []

    def test_a_session_that_ends_is_looked_at(self, session: Session) -> None:
        session.claude("UserPromptSubmit", prompt="[blocker] The payment sandbox is down")
        session.claude("Stop")
        session.claude("SessionEnd")
        wait_until(lambda: summaries(session) == ["The payment sandbox is down"], "it is captured")

    def test_unless_nobody_wants_it(self, session: Session) -> None:
        configured(session, "[hooks.stop]\nsession_analysis = false\n")
        session.simple("UserPromptSubmit", prompt="[blocker] The payment sandbox is down")
        session.simple("Stop")
        session.simple("PreCompact", session_id="another", conversation_summary="Done so far")
        assert "The payment sandbox is down" not in summaries(session)


class TestProjects:
    def test_worktrees_are_one_and_namesakes_are_two(
        self, home: Home, patient: Path, client: Client, tmp_path: Path
    ) -> None:
        number = next(_numbers)
        one = make_repository(home.work / f"one{number}" / f"shop{number}")
        two = make_repository(home.work / f"two{number}" / f"shop{number}")
        one.git("worktree", "add", "--quiet", "-b", "feature", str(tmp_path / "tree"))
        (one.folder / "src").mkdir()
        name = f"session-{number}"
        for folder in (one.folder, one.folder / "src", tmp_path / "tree", two.folder):
            Session(home, folder, name, patient).claude("UserPromptSubmit", prompt=f"In {folder}")
        found = [
            (each.metadata["project"], each.metadata["branch"])
            for each in list_events(client, name)
        ]
        projects = [project for project, _ in found]
        assert projects[0] == projects[1] == projects[2] != projects[3]
        assert [branch for _, branch in found] == ["main", "main", "feature", "main"]


class TestLoop:
    def test_what_we_said_comes_back_ten_times(self, session: Session, client: Client) -> None:
        session.memory.capture("decisions", "Payment retries are capped at five")
        prompt = "[decision] Use PostgreSQL because of JSONB support"
        file = {"file_path": str(session.folder / "src" / "payment.py")}
        said = [
            session.claude("SessionStart"),
            session.claude("UserPromptSubmit", prompt=prompt),
            session.claude("PostToolUse/Read", tool_input=file, session_id=f"{session.name}-b"),
            session.simple("PreCompact")["additionalContext"],
        ]
        assert [each.partition(">")[0][1:] for each in said] == [
            "memory_context",
            "capture_detected",
            "related_memories",
            "auto_captured",
        ]
        before = texts(client, session.name)
        memories = sorted(summaries(session))
        everything = "\n".join(said)
        for _ in range(10):
            assert session.claude("UserPromptSubmit", prompt=everything) is None
        assert texts(client, session.name) == before
        for number in range(10):
            session.claude("UserPromptSubmit", prompt=f"{said[0]}\nGo on.", prompt_id="again")
            session.claude(
                "PostToolUse/Bash",
                tool_use_id="again",
                tool_response={"stdout": f"{number}\n{everything}\n", "stderr": ""},
            )
            session.claude("Stop", last_assistant_message=f"Done.\n{everything}", prompt_id="again")
        assert texts(client, session.name)[len(before) :] == [
            "Go on.",
            "Bash: make test\n0",
            "Done.",
        ]
        session.simple("PreCompact", key_decisions=[everything], conversation_summary=everything)
        assert sorted(summaries(session)) == memories

    def test_a_question_to_our_own_memory_is_recorded_and_not_found(
        self, session: Session, client: Client
    ) -> None:
        word = f"quokka{session.name}".replace("-", "")
        command = f"memory recall where is the {word}"
        session.claude("UserPromptSubmit", prompt=f"Feed the {word} at noon.")
        session.claude(
            "PostToolUse/Bash",
            tool_input={"command": command},
            tool_response={"stdout": f"[1] Feed the {word}."},
        )
        assert texts(client, session.name) == [f"Feed the {word} at noon.", f"Bash: {command}"]
        hits = Search(client)(word, mode="bm25", kinds=["event"]).hits
        assert [hit.text for hit in hits] == [f"Feed the {word} at noon."]


class TestImport:
    def test_a_session_of_hooks_is_imported_once(
        self, session: Session, client: Client, tmp_path: Path
    ) -> None:
        def line(kind: str, role: str, words: str, at_ms: int, **more: Any) -> str:
            return json.dumps(
                {
                    "type": kind,
                    "uuid": f"{session.name}-{at_ms}",
                    "sessionId": session.name,
                    "timestamp": at_ms,
                    "cwd": str(session.folder),
                    "message": {"id": f"m-{at_ms}", "role": role, "content": words},
                    **more,
                }
            )

        session.claude("UserPromptSubmit", prompt="Is it dark?")
        session.claude("Stop", last_assistant_message="It is.")
        before = list_events(client, session.name)
        times = {each.text: each.timestamp_ms for each in before}
        lines = [
            line("user", "user", "Is it dark?", times["Is it dark?"] + 5),
            line("assistant", "assistant", "It is.", times["It is."] - 40),
            line("user", "user", "And now?", times["It is."] + 2_000),
            line("assistant", "assistant", "Light again.", times["It is."] + 2_500),
        ]
        file = tmp_path / "t" / f"{session.name}.jsonl"
        file.parent.mkdir()
        file.write_text("\n".join(lines) + "\n")
        session.memory.text("import", "--from", "claude-code", str(file.parent))
        session.claude("Stop", last_assistant_message="Light again.")
        assert texts(client, session.name) == ["Is it dark?", "It is.", "And now?", "Light again."]
        session.memory.text("forget", "--session", session.name, "--yes")
        session.memory.text("import", "--from", "claude-code", str(file.parent))
        assert texts(client, session.name) == []


class TestWhatMayNotBeKept:
    def test_is_withheld_and_that_it_happened_is_recorded(
        self, session: Session, client: Client
    ) -> None:
        key = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAABG5v\n" * 9
        whole = f"{key}-----END OPENSSH PRIVATE KEY-----"
        session.claude("PostToolUse/Read", tool_response={"file": {"content": whole}})
        (event,) = list_events(client, session.name)
        assert event.text == f"Read\n{WITHHELD}"


class TestWithoutADaemon:
    def test_it_is_left_in_the_spool_clean_and_private(self) -> None:
        with Home() as home:
            home.configure("nonsense = [")  # so that no daemon can start
            session = Session(home, home.work, "alone")
            assert session.claude("UserPromptSubmit", prompt=f"The key is {TOKEN}.") is None
            assert session.simple("UserPromptSubmit", prompt="[decision] Use JWT") == EMPTY
            assert session.claude("PreToolUse") is None
            off = {"MEMORY_HOOKS__ENABLED": "false"}
            assert session.claude("UserPromptSubmit", prompt="Not this.", env=off) is None
            spool = home.data / "spool"
            wait_until(lambda: not home.processes(), "nobody is at it any more")
            assert S_IMODE(spool.stat().st_mode) == 0o700
            files = sorted(spool.iterdir())
            assert [S_IMODE(each.stat().st_mode) for each in files] == [0o600] * 2
            stored = b"".join(each.read_bytes() for each in files)
            assert b"The key is " in stored
            assert TOKEN.encode() not in stored
            with (spool / "large").open("wb") as file:
                file.truncate(256 << 20)
            full = session.run(encode_input(SIMPLE["UserPromptSubmit"], prompt="No room."))
            assert full.json() == EMPTY
            assert "is full" in full.errors
            (spool / "large").unlink()
            (spool / "0000000000000-damaged.json").write_text('{"moment": ')
            wait_until(lambda: not home.processes(), "no daemon is being started")
            home.config_file.unlink()
            home.serve()
            wait_until(lambda: not list(spool.glob("*.json")), "the spool is drained")
            with connect(home) as client:
                found = client.all_events()
            assert [each.text.split()[0] for each in found] == ["The", "[decision]"]
            assert [each.timestamp_ms for each in found] == [int(each.name[:13]) for each in files]
            assert (spool / "0000000000000-damaged.json.damaged").exists()

    @pytest.mark.parametrize("settings", ["", '[hooks]\nexclude = ["/elsewhere"]\n'])
    def test_the_start_of_a_session_starts_one_and_has_its_context(
        self, patient: Path, settings: str
    ) -> None:
        with Home() as home:
            home.configure(settings)
            repository = make_repository(home.work / "lantern")
            session = Session(home, repository.folder, "first", patient)
            home.serve()
            session.memory.capture("decisions", "Burn oil in the lamp")
            home.stop(signal.SIGKILL)
            for _ in range(2):
                context = session.claude("SessionStart")
                assert "Burn oil in the lamp" in context
                assert "as_of" not in context
                wait_until((home.data / "daemon.json").exists, "the daemon is ready")
            assert home.ready_count() == 2
            assert not (home.data / "spool").exists()
            with connect(home) as client:
                assert len(client.all_events()) == 2

    @pytest.mark.parametrize("agents", [True, False])
    def test_if_none_can_start_it_has_the_last_known_context(
        self, patient: Path, agents: bool
    ) -> None:
        with Home() as home:
            repository = make_repository(home.work / "lantern")
            other = make_repository(home.work / "other")
            session = Session(home, repository.folder, "first", patient)

            def begin(**more: Any) -> Any:
                if agents:
                    return session.claude("SessionStart", **more)
                return session.simple("SessionStart", **more)["additionalContext"] or None

            home.serve()
            session.memory.capture("decisions", "Burn oil in the lamp")
            assert "Burn oil" in begin()
            stored = home.data / "last-contexts"
            wait_until(lambda: stored.exists() and any(stored.glob("*.json")), "it is kept")
            home.stop(signal.SIGKILL)
            (home.data / "start-failed").write_text("5 4\nerror: the last start has failed\n")

            context = begin()
            assert "Burn oil in the lamp" in context
            assert "<as_of>less than a minute ago: memory did not answer in time</as_of>" in context
            assert begin(cwd=str(other.folder), project_path=str(other.folder)) is None
            assert begin(env={"MEMORY_HOOKS__ENABLED": "false"}) is None
            wait_until(lambda: not home.processes(), "the calls are in the spool")
            assert len(list((home.data / "spool").glob("*.json"))) == 2

            (home.data / "start-failed").unlink()
            home.serve()
            wait_until(lambda: not list((home.data / "spool").glob("*")), "the spool is drained")
            with connect(home) as client:
                assert len(client.all_events()) == 3

    def test_ten_at_once_start_one_daemon_and_are_all_recorded(self) -> None:
        with Home() as home:
            session = Session(home, home.work, "storm")
            with ThreadPoolExecutor(10) as pool:
                prompts = [f"Prompt {number}" for number in range(10)]
                list(
                    pool.map(lambda each: session.claude("UserPromptSubmit", prompt=each), prompts)
                )
            wait_until(lambda: home.ready_count() == 1, "a daemon was started")
            wait_until(lambda: not list((home.data / "spool").glob("*")), "the spool is drained")
            with connect(home) as client:
                found = client.all_events()
            assert sorted(each.text for each in found) == sorted(prompts)
            pid = home.pid()
            wait_until(
                lambda: all(_is_of(each, pid) for each in home.processes()), "only the daemon"
            )
            assert home.ready_count() == 1
            assert session.claude("UserPromptSubmit", prompt="Now at once.") is None
            assert not list((home.data / "spool").glob("*"))


def _is_of(pid: int, daemon: int | None) -> bool:
    """Return whether a process is the daemon or one that it started."""
    while pid > 1:
        if pid == daemon:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return True  # it has just ended
    return False


def test_cursor_is_given_nothing(session: Session, client: Client) -> None:
    name = f"{session.name}-cursor"
    for given in CURSOR.values():
        answer = session.run(
            encode_input(given, conversation_id=name, workspace_roots=[str(session.folder)])
        )
        assert answer.json() == {}
    assert [each.metadata["project"] for each in list_events(client, name)] == [
        session.folder.name
    ] * 6
