"""Recording: hook calls are stored once, also beside an import, and in their project."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.model.hooks import HookCall
from agent_memory.features.hooks.services.recording import HookRecorder
from agent_memory.features.hooks.services.spooling import Spooling
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.memories.model.projects import NOWHERE, MemoryLocation
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.interfaces.hooks import inputs
from agent_memory.interfaces.hooks.inputs import Delivery
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ContentBlocked, InvalidInput
from agent_memory.platform.store.committer import CommittedStore
from tests import git_repositories
from tests.contract.stores import TIMEOUT, unexpected
from tests.git_repositories import Repository, make_repository
from tests.hook_inputs import SAMPLES, encode_input
from tests.memory_engine import MemoryEngine
from tests.transcript_files import CONTINUED, START_MS, Claude, ImportHarness, rollout, write

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"


class Hooked:
    """Recording and an import, on one store."""

    def __init__(self, importing: ImportHarness, folder: Path) -> None:
        self.importing = importing
        self.folder = folder
        backfill = importing.backfill
        self.recording = HookRecorder(ingest=backfill.ingest, resolver=backfill.resolver)
        self.calls = 0

    def parse_call(
        self, sample: str, *, at_ms: int = START_MS, nonce: str = "", **more: Any
    ) -> HookCall:
        self.calls += 1
        delivery = Delivery(
            name="auto",
            agent="",
            folder=str(self.folder),
            environ={},
            nonce=nonce or f"n{self.calls}",
            at_ms=at_ms,
            data=encode_input(SAMPLES[sample], **more),
        )
        return inputs.parse_delivery(delivery).call

    def place(self, where: Path, **fields: Any) -> MemoryLocation:
        call = replace(self.parse_call("claude-code/Stop", cwd=str(where)), **fields)
        caller = Caller(folder=str(where), environ={"HOME": "/nobody"})
        return self.recording.place(call, caller)

    def record(self, call: HookCall) -> list[bool]:
        """Record a call; return for each of its events whether it is new."""
        place = self.place(self.folder)
        return self.recording.record(call, place).result(TIMEOUT)

    def __call__(self, sample: str, **more: Any) -> list[bool]:
        return self.record(self.parse_call(sample, **more))

    def events(self) -> list[Event]:
        return self.importing.events()

    def texts(self) -> list[str]:
        return [each.text for each in self.events() if each.text]


@pytest.fixture
def hooked(tmp_path: Path) -> Iterator[Hooked]:
    store = CommittedStore(MemoryEngine(), unexpected)
    folder = tmp_path / "lighthouse"
    folder.mkdir()
    yield Hooked(ImportHarness(store, tmp_path / "data"), folder)
    store.close()


class TestOnce:
    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_the_same_delivery_twice(self, hooked: Hooked, sample: str) -> None:
        call = hooked.parse_call(sample)
        first = hooked.record(call)
        before = hooked.events()
        assert all(first)
        assert not any(hooked.record(call))
        assert hooked.events() == before

    def test_a_session_ends_once_until_it_goes_on(self, hooked: Hooked) -> None:
        """Gemini CLI reports the end of a session three times."""
        for at_ms in (START_MS, START_MS + 4, START_MS + 9):
            hooked("gemini/SessionEnd", at_ms=at_ms, timestamp=None)
        hooked("gemini/BeforeAgent", at_ms=START_MS + 60_000, timestamp=None, prompt="Go on")
        hooked("gemini/SessionEnd", at_ms=START_MS + 90_000, timestamp=None)
        ends = [each.at_ms for each in hooked.events() if each.type is EventType.SESSION_END]
        assert ends == [START_MS, START_MS + 90_000]

    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_recorded_and_left_in_the_spool_as_well(
        self, hooked: Hooked, sample: str, tmp_path: Path
    ) -> None:
        """The daemon's answer came too late: the launcher cannot know that it was recorded."""
        words = f"It is {TOKEN} <memory_context>x</memory_context>  \n"
        changed: dict[str, Any] = {
            name: words
            for name in ("prompt", "last_assistant_message", "prompt_response", "text", "error")
            if name in SAMPLES[sample]
        }
        call = hooked.parse_call(sample, **changed)
        hooked.record(call)
        before = hooked.events()
        spool = SpoolFolder(tmp_path / "spool")
        Spooling(spool=spool, secrets=hooked.recording.ingest.secrets).keep(call)
        (name,) = spool.list_pending()
        again = spool.get(name)
        assert again is not None
        assert not any(hooked.record(again))
        assert hooked.events() == before

    def test_a_tools_call_by_its_id(self, hooked: Hooked) -> None:
        assert hooked("claude-code/PostToolUse/Bash") == [True]
        assert hooked("claude-code/PostToolUse/Bash") == [False]
        assert hooked("claude-code/PostToolUse/Bash", tool_use_id="toolu_other") == [True]

    def test_the_same_words_twice_are_two(self, hooked: Hooked) -> None:
        assert hooked("004/UserPromptSubmit") == [True]
        assert hooked("004/UserPromptSubmit") == [True]
        assert len(hooked.events()) == 2

    def test_what_is_said_while_a_turn_goes_on(self, hooked: Hooked) -> None:
        """Codex tells of it with the id of that turn."""
        assert hooked("codex/UserPromptSubmit") == [True]
        assert hooked("codex/UserPromptSubmit", prompt="And gate 8?") == [True]
        assert hooked("codex/UserPromptSubmit", prompt="And gate 8?") == [False]
        assert hooked("codex/UserPromptSubmit") == [False]
        assert sorted(hooked.texts()) == ["And gate 8?", "Which lock gates leak?"]


class TestDescriptionsBesideAnImport:
    """Titles and summaries have no id of the agent: their text identifies them, at any distance."""

    SESSION = "5e5510a1"
    WRITTEN = f"The lamp flickers; its key is {TOKEN}. Next: lift the limit."

    def hooks(self, hooked: Hooked) -> None:
        hooked("claude-code/SessionStart", session_id=self.SESSION, session_title="The lamp")
        for prompt in ("Why?", "And now?"):
            hooked(
                "claude-code/UserPromptSubmit",
                session_id=self.SESSION,
                prompt_id=prompt,
                prompt=prompt,
                session_title="The lamp",
            )
        hooked(
            "claude-code/PostCompact",
            session_id=self.SESSION,
            compact_summary=f"<analysis>Hm.</analysis>\n<summary>\n{self.WRITTEN}\n</summary>",
            at_ms=START_MS + 900_000,
        )

    @pytest.mark.parametrize("hooks_first", [True, False])
    def test_each_is_stored_once(self, hooked: Hooked, tmp_path: Path, hooks_first: bool) -> None:
        session = Claude()
        title = {"type": "custom-title", "customTitle": "The lamp", "sessionId": session.session}
        after = f"{CONTINUED}\n\nSummary:\n{self.WRITTEN}\nContinue the conversation from where it"
        folder = tmp_path / "transcripts"
        write(
            folder / "a.jsonl",
            [
                title,
                session.prompt("Why?", promptId="Why?"),
                session.prompt("And now?", promptId="And now?"),
                title,
                session.prompt(after, isCompactSummary=True, isVisibleInTranscriptOnly=True),
            ],
        )
        if hooks_first:
            self.hooks(hooked)
        hooked.importing("claude-code", folder)
        if not hooks_first:
            self.hooks(hooked)
        assert hooked.importing("claude-code", folder).created == 0
        marked = [each for each in hooked.events() if event_metadata.is_description(each)]
        assert [each.metadata.get("titles") for each in marked] == ["user", None]
        assert [each.metadata.get("summarizes") for each in marked] == [None, "compaction"]
        assert marked[0].text == "The lamp"
        assert marked[1].text.startswith("The lamp flickers; its key is ")
        assert marked[1].text.endswith("Next: lift the limit.")
        assert TOKEN not in marked[1].text
        assert len(hooked.texts()) == 4


class TestBesideAnImport:
    SESSION = Claude()

    def hooks(self, hooked: Hooked, at_ms: int = START_MS) -> None:
        """Record the transcript's conversation through hooks, a little later."""
        session = self.SESSION.session
        hooked("claude-code/SessionStart", session_id=session, at_ms=at_ms)
        hooked(
            "claude-code/UserPromptSubmit",
            session_id=session,
            prompt="Why does the lamp of the lighthouse flicker?",
            prompt_id="p1",
            at_ms=at_ms + 9_400,
        )
        hooked(
            "claude-code/PostToolUse/Read",
            session_id=session,
            tool_use_id="t1",
            tool_input={"file_path": "/lighthouse/dimmer.py"},
            tool_response={
                "type": "text",
                "file": {"content": "def dim(volt): return volt * 0.93"},
            },
            at_ms=at_ms + 12_900,
        )
        hooked(
            "claude-code/Stop",
            session_id=session,
            prompt_id="p1",
            last_assistant_message="The dimmer drops below the lamp's voltage: 0.93 is too low.",
            at_ms=at_ms + 14_700,
        )

    def assert_once(self, hooked: Hooked) -> None:
        texts = hooked.texts()
        assert sorted(texts) == sorted(set(texts))
        assert len(texts) == 4  # the fourth is what the agent said before it used the tool
        stops = [each for each in hooked.events() if each.type is EventType.ASSISTANT_STOP]
        assert len(stops) == 1

    @pytest.fixture
    def transcript(self, tmp_path: Path) -> Path:
        write(tmp_path / "transcripts" / "a.jsonl", Claude().lamp())
        return tmp_path / "transcripts"

    def test_hooks_first(self, hooked: Hooked, transcript: Path) -> None:
        self.hooks(hooked)
        before = len(hooked.events())
        found = hooked.importing("claude-code", transcript)
        assert (found.created, found.known) == (1, 4)
        self.assert_once(hooked)
        assert len(hooked.events()) == before + 1

    def test_import_first(self, hooked: Hooked, transcript: Path) -> None:
        hooked.importing("claude-code", transcript)
        self.hooks(hooked)
        self.assert_once(hooked)
        assert hooked.importing("claude-code", transcript).created == 0

    def test_without_ids(self, hooked: Hooked, tmp_path: Path) -> None:
        """Then its text and time identify it."""
        session = Claude()
        lines = [session.prompt("Is it dark?"), session.prompt("Is it dark?")]
        write(tmp_path / "t" / "a.jsonl", lines)
        for second in (0, 1):
            assert hooked(
                "claude-code/UserPromptSubmit",
                session_id=session.session,
                prompt="Is it dark?",
                prompt_id="",
                at_ms=START_MS + 1000 * second,
            ) == [True]
        assert hooked.importing("claude-code", tmp_path / "t").created == 1  # the session's start
        assert hooked.texts() == ["Is it dark?"] * 2

    def test_the_same_words_an_hour_later_are_new(self, hooked: Hooked, transcript: Path) -> None:
        hooked.importing("claude-code", transcript)
        session, words = self.SESSION.session, "Why does the lamp of the lighthouse flicker?"
        at_ms = START_MS + 3_600_000
        assert hooked(
            "claude-code/UserPromptSubmit",
            session_id=session,
            prompt=words,
            prompt_id="p9",
            at_ms=at_ms,
        ) == [True]

    @pytest.mark.parametrize("hooks_first", [True, False])
    def test_codex(self, hooked: Hooked, tmp_path: Path, hooks_first: bool) -> None:
        session = "0199aaaa-0000-7000-8000-00000000beef"
        write(tmp_path / "t" / "rollout-1.jsonl", rollout(session))

        def hooks() -> None:
            hooked("codex/UserPromptSubmit", session_id=session, at_ms=START_MS + 4_300)
            hooked(
                "codex/PostToolUse",
                session_id=session,
                tool_use_id="c1",
                tool_name="shell",
                at_ms=START_MS + 9_100,
            )
            hooked("codex/Stop", session_id=session, at_ms=START_MS + 10_200)

        if hooks_first:
            hooks()
        hooked.importing("codex", tmp_path / "t")
        if not hooks_first:
            hooks()
        texts = [text.strip() for text in hooked.texts()]
        assert len(texts) == len(set(texts)) == 4


class TestClean:
    def test_secrets_are_redacted(self, hooked: Hooked) -> None:
        hooked("claude-code/UserPromptSubmit", prompt=f"use {TOKEN} now", model=f"x {TOKEN}")
        hooked("claude-code/PostToolUse/Bash", tool_input={"command": f"curl -H {TOKEN}"})
        hooked("claude-code/Stop", last_assistant_message=f"I used {TOKEN}.")
        found = hooked.events()
        assert len(found) == 4
        assert TOKEN not in str(found)
        assert any("use " in each.text and " now" in each.text for each in found)

    def test_what_may_not_be_stored_is_not(self, hooked: Hooked) -> None:
        ingest = replace(hooked.recording.ingest, secrets=Re2Filter(mode="block"))
        strict = replace(hooked.recording, ingest=ingest)
        with pytest.raises(ContentBlocked):
            strict.record(
                hooked.parse_call("claude-code/UserPromptSubmit", prompt=TOKEN),
                hooked.place(hooked.folder),
            )
        assert hooked.events() == []

    def test_without_a_session_nothing_is_recorded(self, hooked: Hooked) -> None:
        with pytest.raises(InvalidInput, match="session"):
            hooked("claude-code/UserPromptSubmit", session_id="")


class TestPlaces:
    @pytest.fixture
    def repository(self, tmp_path: Path) -> Repository:
        return make_repository(tmp_path / "one" / "app")

    def test_a_repository_is_a_project(self, hooked: Hooked, repository: Repository) -> None:
        found = hooked.place(repository.folder)
        assert (found.name, found.branch, found.commit) == ("app", "main", repository.head)

    def test_its_subfolders_and_worktrees_are_the_same(
        self, hooked: Hooked, repository: Repository, tmp_path: Path
    ) -> None:
        (repository.folder / "src" / "deep").mkdir(parents=True)
        repository.git("worktree", "add", "--quiet", "-b", "feature", str(tmp_path / "feature"))
        (tmp_path / "feature" / "lib").mkdir()
        here = hooked.place(repository.folder)
        assert hooked.place(repository.folder / "src" / "deep").domain == here.domain
        beside = hooked.place(tmp_path / "feature" / "lib")
        assert (beside.domain, beside.branch) == (here.domain, "feature")

    def test_another_of_the_same_name_is_another(
        self, hooked: Hooked, repository: Repository, tmp_path: Path
    ) -> None:
        other = make_repository(tmp_path / "two" / "app")
        names = {hooked.place(each.folder).name for each in (repository, other)}
        assert len(names) == 2
        assert all(name.startswith("app") for name in names)
        plain = tmp_path / "three" / "app"
        plain.mkdir(parents=True)
        assert hooked.place(plain).name not in names

    def test_the_agent_knows_its_branch_best(self, hooked: Hooked, repository: Repository) -> None:
        assert hooked.place(repository.folder, branch="feature/auth").branch == "feature/auth"

    def test_before_the_first_commit(self, hooked: Hooked, tmp_path: Path) -> None:
        empty = git_repositories.make_repository(tmp_path / "new", commits=0)
        assert hooked.place(empty.folder).name == "new"

    @pytest.mark.parametrize("damage", ["HEAD", "config"])
    def test_a_repository_that_cannot_be_read_loses_nothing(
        self, hooked: Hooked, repository: Repository, damage: str
    ) -> None:
        (repository.folder / ".git" / damage).write_bytes(b"\xff[broken")
        assert hooked.place(repository.folder).name.startswith("app")

    def test_a_folder_that_is_gone_is_known_by_its_name(self, hooked: Hooked) -> None:
        """The caller then is somewhere else."""
        found = hooked.place(hooked.folder, folder="/gone/harbour")
        assert (found.name, found.home) == ("harbour", NOWHERE)

    @pytest.mark.parametrize("name", ["gone", "\udc80", "nul\0", "x" * 300])
    def test_nor_is_a_strange_folder_in_the_way(
        self, hooked: Hooked, tmp_path: Path, name: str
    ) -> None:
        assert hooked.place(tmp_path / name).domain.startswith("project:")
