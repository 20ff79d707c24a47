"""Backfill: every event is stored once and in its project, also if hooks recorded it first."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.consent import ConsentReason
from agent_memory.features.hooks.model.transcripts import RecordKind
from agent_memory.features.hooks.services.backfill import BATCH
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import (
    Event,
    EventPage,
    EventRole,
    EventType,
    SessionPosition,
)
from agent_memory.kernel.errors import Cancelled, ConfigError, InvalidInput, WorkerFailed
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId
from agent_memory.platform.store.committer import CommittedStore
from tests import git_repositories
from tests.contract.stores import TIMEOUT, unexpected
from tests.inline_worker import InlineWorker
from tests.memory_engine import MemoryEngine
from tests.transcript_files import (
    SAMPLES,
    START_MS,
    Claude,
    ImportHarness,
    Line,
    iso,
    rollout,
    text,
    tool_use,
    write,
)

T = TypeVar("T")
TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"


@pytest.fixture
def importing(tmp_path: Path) -> Iterator[ImportHarness]:
    store = CommittedStore(MemoryEngine(), unexpected)
    yield ImportHarness(store, tmp_path / "data")
    store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "transcripts"
    found.mkdir()
    return found


def hooked(
    words: str, at_ms: int, *, name: str, session: str = "5e5510a1", role: str = "user"
) -> Event:
    """Return an event that a hook has recorded."""
    types = {"user": EventType.USER_MESSAGE, "assistant": EventType.ASSISTANT_MESSAGE}
    return Event(
        event_id=EventId(name),
        session_id=SessionId(session),
        at_ms=Millis(at_ms),
        type=types.get(role, EventType.SESSION_START),
        role=EventRole[role.upper()],
        text=words,
    )


def record(importing: ImportHarness, *events: Event) -> None:
    importing.log.append(events).result(TIMEOUT)


class TestOwnAgents:
    """Agents write transcripts of what they do for the daemon too, such as summaries."""

    @pytest.mark.parametrize("agent", ["claude-code", "codex"])
    def test_their_transcripts_are_left_out(
        self, importing: ImportHarness, tmp_path: Path, folder: Path, agent: str
    ) -> None:
        own = str(tmp_path / "data" / "summarizer" / "toc")
        lines = Claude().lamp() if agent == "claude-code" else rollout()
        work = "/home/ada/projects/" + ("lighthouse" if agent == "claude-code" else "canal")
        write(folder / "own.jsonl", [json.dumps(line).replace(work, own) for line in lines])
        found = importing(agent, folder)
        assert (found.created, found.known, found.refused, found.sessions) == (0, 0, 0, 0)
        assert found.noise > 0
        assert importing.events() == []
        write(folder / "own.jsonl", lines)
        assert importing(agent, folder).created > 0


class CountingWorker(InlineWorker):
    calls = 0

    def call(self, function: Callable[..., T], /, *arguments: object, timeout_seconds: float) -> T:
        self.calls += 1
        return super().call(function, *arguments, timeout_seconds=timeout_seconds)


class CountingLog(StoredEventLog):
    """A log that counts the events it has read of sessions."""

    read = 0

    def list_session(
        self,
        session_id: SessionId,
        /,
        *,
        after: Position | None,
        limit: int,
        reverse: bool = False,
        admits: Callable[[Event], bool] | None = None,
    ) -> EventPage:
        page = super().list_session(
            session_id, after=after, limit=limit, reverse=reverse, admits=admits
        )
        self.read += len(page.events)
        return page


class TestWork:
    """The work of an import grows with what it reads, and no faster."""

    def test_small_files_share_calls_and_writes(self, tmp_path: Path, folder: Path) -> None:
        store, worker = CommittedStore(MemoryEngine(), unexpected), CountingWorker()
        importing = ImportHarness(store, tmp_path / "data", worker)
        for number in range(300):
            (folder / f"{number:03}.md").write_text(f"# Note {number}\n\nIt holds.\n")
        (folder / "100.md").write_bytes(b"\0")  # what cannot be read concerns no other
        found = importing("obsidian", folder)
        events = importing.events()
        store.close()
        assert (found.created, found.described, found.refused) == (598, 299, 1)
        assert len(events) == 897
        assert worker.calls <= 6
        assert importing.record_count <= len(events) / BATCH + 2

    def test_a_file_that_fails_in_the_worker_concerns_no_other(
        self, tmp_path: Path, folder: Path
    ) -> None:
        class FailingWorker(InlineWorker):
            def call(
                self, function: Callable[..., T], /, *arguments: object, timeout_seconds: float
            ) -> T:
                if "bad.md" in repr(arguments):
                    raise WorkerFailed("the worker ended")
                return super().call(function, *arguments, timeout_seconds=timeout_seconds)

        store = CommittedStore(MemoryEngine(), unexpected)
        importing = ImportHarness(store, tmp_path / "data", FailingWorker())
        for name in ("a", "bad", "c"):
            (folder / f"{name}.md").write_text(f"Words of {name}.\n")
        found = importing("obsidian", folder)
        texts = [words for _, words in importing.list_texts()]
        store.close()
        assert found.refused == 1
        assert "bad.md, record 0: cannot read: the worker ended" in found.reasons[0]
        assert {"Words of a.", "Words of c."} <= set(texts)

    def test_a_session_of_one_moment_is_not_read_again_and_again(
        self, tmp_path: Path, folder: Path
    ) -> None:
        store = CommittedStore(MemoryEngine(), unexpected)
        importing = ImportHarness(store, tmp_path / "data")
        log = CountingLog(store)
        ingest = replace(importing.backfill.ingest, log=log)
        importing.backfill = replace(importing.backfill, ingest=ingest)
        lines: list[Line | str | bytes] = [
            {"session_id": "s", "timestamp_ms": START_MS, "role": "user", "text": f"Step {number}."}
            for number in range(2_000)
        ]
        write(folder / "a.jsonl", lines)
        created = importing("jsonl", folder).created
        store.close()
        assert created == 2_000
        assert log.read < 5 * 2_000


class TestOnce:
    @pytest.mark.parametrize("agent", sorted(SAMPLES))
    def test_the_second_time_adds_nothing(
        self, importing: ImportHarness, folder: Path, agent: str
    ) -> None:
        write(folder / "a.jsonl", SAMPLES[agent]())
        first = importing(agent, folder)
        before = importing.events()
        second = importing(agent, folder)
        assert (first.created, first.known, first.refused) == (len(before), 0, 0)
        assert (second.created, second.known) == (0, len(before))
        assert importing.events() == before
        assert (first.files, first.sessions) == (1, 1)

    def test_what_a_file_has_gained_is_added(self, importing: ImportHarness, folder: Path) -> None:
        session = Claude()
        lines = session.lamp()
        write(folder / "a.jsonl", lines[:12])
        importing("claude-code", folder)
        write(folder / "a.jsonl", [*lines, session.prompt("And the fog horn?")])
        assert importing("claude-code", folder).created == 3
        assert importing.list_texts()[-1] == ("user", "And the fog horn?")

    def test_a_dry_run_changes_nothing(self, importing: ImportHarness, folder: Path) -> None:
        write(folder / "a.jsonl", Claude().lamp())
        assert importing("claude-code", folder, dry_run=True).created == 5
        assert (importing.events(), importing.record_count) == ([], 0)

    def test_what_was_stored_before_a_stop_stays(
        self, importing: ImportHarness, folder: Path
    ) -> None:
        session = Claude()
        write(folder / "a.jsonl", [session.prompt(f"Step {number}.") for number in range(350)])
        sources = importing.backfill.list_sources("claude-code", str(folder))
        told: list[int] = []

        def stop(read: int) -> None:
            told.append(read)
            if len(told) == 3:
                raise Cancelled

        with pytest.raises(Cancelled):
            importing.backfill.import_sources(
                "claude-code", sources, environ={}, dry_run=False, on_progress=stop
            )
        assert len(importing.events()) == 2 * BATCH
        assert importing("claude-code", folder).created == 351 - 2 * BATCH

    def test_progress_ends_at_the_whole(self, importing: ImportHarness, folder: Path) -> None:
        for name in "ab":
            write(folder / f"{name}.jsonl", Claude(session=name).lamp())
        sources = importing.backfill.list_sources("claude-code", str(folder))
        told: list[int] = []
        importing.backfill.import_sources(
            "claude-code", sources, environ={}, dry_run=False, on_progress=told.append
        )
        assert told == sorted(told)
        assert told[-1] == sum(source.size for source in sources)

    def test_what_was_forgotten_stays_so(self, importing: ImportHarness, folder: Path) -> None:
        write(folder / "a.jsonl", Claude().lamp())
        importing("claude-code", folder)
        event = importing.events()[1]
        importing.log.remove([SessionPosition(at=event.position, session_id=event.session_id)])
        assert importing("claude-code", folder).created == 0


class TestAfterHooks:
    def test_what_has_the_same_id_is_known(self, importing: ImportHarness, folder: Path) -> None:
        session = Claude()
        name = transcripts.build_event_id(session.session, RecordKind.PROMPT, "p1")
        record(importing, hooked("in the hook's words", START_MS, name=name))
        write(folder / "a.jsonl", session.lamp())
        found = importing("claude-code", folder)
        assert (found.created, found.known) == (4, 1)

    def test_the_same_words_near_in_time_are_known(
        self, importing: ImportHarness, folder: Path
    ) -> None:
        session = Claude()
        answer = session.says("m1", text("It flickers at dusk."))
        record(
            importing, hooked("It flickers at dusk.", START_MS + 9_000, name="h", role="assistant")
        )
        write(folder / "a.jsonl", [answer])
        for _ in range(2):
            found = importing("claude-code", folder)
            assert found.known >= 1
            assert importing.list_texts() == [("assistant", "It flickers at dusk.")]

    @pytest.mark.parametrize(
        "other",
        [
            hooked("Go on.", START_MS + 11_000, name="late"),
            hooked("Go on.", START_MS, name="role", role="assistant"),
            hooked("Go on.", START_MS, name="session", session="other"),
            hooked("Go on!", START_MS, name="words"),
        ],
        ids=lambda event: str(event.event_id),
    )
    def test_anything_else_is_another_event(
        self, importing: ImportHarness, folder: Path, other: Event
    ) -> None:
        record(importing, other)
        write(folder / "a.jsonl", [Claude().prompt("Go on.")])
        assert importing("claude-code", folder).created == 2

    def test_the_same_words_twice_are_two(self, importing: ImportHarness, folder: Path) -> None:
        record(importing, hooked("Go on.", START_MS + 500, name="h"))
        session = Claude()
        write(folder / "a.jsonl", [session.prompt("Go on."), session.prompt("Go on.")])
        importing("claude-code", folder)
        assert importing.list_texts() == [("user", "Go on.")] * 2
        assert importing("claude-code", folder).created == 0

    def test_one_that_is_known_by_its_id_is_no_other_ones_twin(
        self, importing: ImportHarness, folder: Path
    ) -> None:
        session = Claude()
        name = transcripts.build_event_id(session.session, RecordKind.PROMPT, "p")
        record(importing, hooked("Go on.", START_MS, name=name))
        lines = [session.prompt("Go on.", promptId="p"), session.prompt("Go on.", promptId="q")]
        write(folder / "a.jsonl", lines)
        importing("claude-code", folder)
        assert importing.list_texts() == [("user", "Go on.")] * 2

    def test_a_session_starts_once(self, importing: ImportHarness, folder: Path) -> None:
        record(importing, hooked("", START_MS - 600_000, name="h", role="system"))
        write(folder / "a.jsonl", Claude().lamp())
        assert importing("claude-code", folder).created == 4

    def test_secrets_are_compared_as_they_are_stored(
        self, importing: ImportHarness, folder: Path
    ) -> None:
        clean = importing.backfill.ingest.clean(hooked(f"use {TOKEN}", START_MS, name="h"))
        record(importing, clean)
        write(folder / "a.jsonl", [Claude().prompt(f"use {TOKEN}")])
        importing("claude-code", folder)
        assert len(importing.list_texts()) == 1


class TestWhatIsStored:
    def test_secrets_are_not(self, importing: ImportHarness, folder: Path) -> None:
        write(folder / "a.jsonl", [Claude().prompt(f"the key is {TOKEN}, use it")])
        importing("claude-code", folder)
        ((_, words),) = importing.list_texts()
        assert TOKEN not in words
        assert words.startswith("the key is ")

    def test_what_an_event_cannot_hold_is_refused_and_told(
        self, importing: ImportHarness, folder: Path
    ) -> None:
        good: Line = {"session_id": "s", "timestamp": START_MS, "role": "user", "text": "hello"}
        path = write(folder / "a.jsonl", [good, good | {"session_id": "s" * 300}, "{"])
        found = importing("jsonl", folder)
        assert (found.created, found.refused, found.lines) == (1, 2, 3)
        assert sorted(found.reasons) == [
            f"{path}, line 2: session_id has 300 characters; the limit is 256",
            f"{path}, line 3: not a JSON object",
        ]

    def test_lone_surrogates_do_no_harm(self, importing: ImportHarness, folder: Path) -> None:
        session = Claude(cwd="/home/\ud800/x")
        write(folder / "a.jsonl", [session.prompt("half \ud83d of a smile", gitBranch="\udfff")])
        assert importing("claude-code", folder).refused == 0
        assert importing.list_texts() == [("user", "half ? of a smile")]

    def test_a_folder_without_transcripts(self, importing: ImportHarness, folder: Path) -> None:
        with pytest.raises(InvalidInput, match="no transcripts"):
            importing("claude-code", folder)


class TestProjects:
    def projects(self, importing: ImportHarness) -> set[str]:
        return {event.metadata["project"] for event in importing.events()}

    def test_a_subfolder_is_of_its_repository(
        self, importing: ImportHarness, folder: Path, tmp_path: Path
    ) -> None:
        repository = git_repositories.make_repository(tmp_path / "lighthouse")
        (repository.folder / "src").mkdir()
        session = Claude(cwd=str(repository.folder))
        inner = replace(session, cwd=str(repository.folder / "src"))
        write(folder / "a.jsonl", [session.prompt("a"), inner.prompt("b")])
        importing("claude-code", folder)
        assert self.projects(importing) == {"lighthouse"}

    def test_two_repositories_of_one_name_are_two(
        self, importing: ImportHarness, folder: Path, tmp_path: Path
    ) -> None:
        for where in ("x", "y"):
            repository = git_repositories.make_repository(tmp_path / where / "app")
            session = Claude(session=where, cwd=str(repository.folder))
            write(folder / f"{where}.jsonl", [session.prompt("a")])
        importing("claude-code", folder)
        assert len(self.projects(importing)) == 2

    def test_a_folder_that_is_gone_gives_its_name_to_the_whole_session(
        self, importing: ImportHarness, folder: Path
    ) -> None:
        session = Claude(cwd="/gone/lighthouse")
        inner = replace(session, cwd="/gone/lighthouse/src")
        helper = replace(inner, agent="a1")
        write(folder / "a.jsonl", [session.prompt("a"), inner.prompt("b")])
        write(folder / "a" / "subagents" / "agent-a1.jsonl", [helper.prompt("c")])
        importing("claude-code", folder)
        assert self.projects(importing) == {"lighthouse"}
        assert len({event.session_id for event in importing.events()}) == 2


class TestNamesOfThreads:
    SESSION = "0199aaaa-0000-7000-8000-00000000beef"

    def write_index(self, folder: Path) -> None:
        """Write the index of Codex, in which a thread was named a day later, and named again."""
        later = iso(START_MS + 86_400_000)
        write(
            folder.parent / "session_index.jsonl",
            [
                {"id": self.SESSION, "thread_name": "Leaking gates", "updated_at": later},
                {"id": "not-imported", "thread_name": "Boats", "updated_at": later},
                {"id": self.SESSION, "thread_name": "Leaking gates", "updated_at": later},
                {"id": self.SESSION, "thread_name": "Gate 7", "updated_at": later},
            ],
        )

    def test_they_belong_to_sessions_that_are_known(
        self, importing: ImportHarness, folder: Path
    ) -> None:
        self.write_index(folder)
        write(folder / "a.jsonl", rollout(self.SESSION))
        rehearsed = importing("codex", folder, dry_run=True)
        ended = replace(
            hooked("", START_MS + 60_000, name="end", session=self.SESSION, role="system"),
            type=EventType.SESSION_END,
        )
        record(importing, ended)
        first = importing("codex", folder)
        # A dry run counts the repeated name twice: it stores nothing to compare it with.
        assert (rehearsed.described, first.described) == (3, 2)
        assert (rehearsed.created, first.created, first.sessions) == (5, 5, 1)
        again = importing("codex", folder)
        assert (again.created, again.described) == (0, 0)
        titles = [each for each in importing.events() if "titles" in each.metadata]
        assert {each.text for each in titles} == {"Leaking gates", "Gate 7"}
        assert {each.session_id for each in titles} == {self.SESSION}
        others = [each for each in importing.events() if each not in titles]
        assert others.pop().type is EventType.SESSION_END
        last = others[-1].at_ms
        assert all(last < each.at_ms < last + 10 for each in titles)
        assert titles[-1].text == "Gate 7"
        assert {each.metadata["project"] for each in titles} == {"canal"}

    def test_an_index_alone_is_no_transcript(self, importing: ImportHarness, folder: Path) -> None:
        self.write_index(folder)
        with pytest.raises(InvalidInput):
            importing("codex", folder)


class TestConsent:
    """What hooks leave out because of its folder or file is not imported either."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        found = tmp_path / "acme"
        found.mkdir()
        return found

    @pytest.fixture
    def settings(self, tmp_path: Path, importing: ImportHarness) -> Path:
        """The file of the user who imports: the daemon may have another one."""
        importing.environ["HOME"] = str(tmp_path)
        file = tmp_path / ".config/agent-memory/config.toml"
        file.parent.mkdir(parents=True)
        return file

    def write_two(self, folder: Path, project: Path) -> None:
        off, other = Claude(session="off", cwd=str(project)), Claude(session="other")
        away = Claude(session="off", cwd="/elsewhere", at_ms=START_MS + 60_000)
        write(folder / "off.jsonl", [*off.lamp(), away.prompt("Gone elsewhere.", promptId="p9")])
        inner = Claude(session="off", cwd="/elsewhere", agent="a1")
        write(folder / "off/subagents/agent-a1.jsonl", [inner.prompt("A subagent.")])
        write(folder / "other.jsonl", other.lamp())

    @pytest.mark.parametrize("way", ["exclude", "opt-in", "memoryignore"])
    def test_a_session_that_began_where_recording_is_off_is_skipped(
        self, importing: ImportHarness, folder: Path, project: Path, settings: Path, way: str
    ) -> None:
        if way == "exclude":
            settings.write_text(f'hooks.exclude = ["{project.parent}/*"]')
        elif way == "opt-in":
            settings.write_text('hooks.mode = "opt-in"\nhooks.projects = ["/home/ada/**"]')
        else:
            (project / ".memoryignore").write_text("*\n")
        self.write_two(folder, project)
        result = importing("claude-code", folder)
        assert (result.sessions, result.skipped) == (1, 1)
        assert {event.session_id for event in importing.events()} == {"other"}
        again = importing.backfill.import_sources(
            "claude-code",
            importing.backfill.list_sources("claude-code", str(folder)),
            environ=importing.environ,
            include_excluded=True,
            dry_run=False,
            on_progress=lambda _: None,
        )
        assert (again.skipped, again.known > 0) == (0, True)
        assert {event.session_id for event in importing.events()} == {"other", "off", "off/a1"}

    def test_a_pause_and_hooks_that_are_off_do_not_count(
        self, importing: ImportHarness, folder: Path, project: Path, settings: Path
    ) -> None:
        settings.write_text("hooks.enabled = false")
        importing.backfill.consent.pause(None)
        self.write_two(folder, project)
        result = importing("claude-code", folder)
        assert (result.sessions, result.skipped) == (3, 0)
        settings.write_text(f'hooks.exclude = ["{project}"]')
        assert importing("claude-code", folder).skipped == 1

    def test_the_callers_variables_count(
        self, importing: ImportHarness, folder: Path, project: Path
    ) -> None:
        importing.environ["MEMORY_HOOKS__EXCLUDE"] = str(project)
        self.write_two(folder, project)
        assert importing("claude-code", folder).skipped == 1

    def test_settings_that_cannot_be_read_stop_it(
        self, importing: ImportHarness, folder: Path, project: Path, settings: Path
    ) -> None:
        settings.write_text(f'hooks.exclude = ["{project}"]\nnonsense = [')
        self.write_two(folder, project)
        with pytest.raises(ConfigError, match=r"config\.toml has an error.*--include-excluded"):
            importing("claude-code", folder)
        assert importing.events() == []
        rules = importing.backfill.consent.load_rules(str(project), importing.environ)
        found = importing.backfill.consent.check_place(str(project), rules)
        assert found.reason is ConsentReason.UNREADABLE

    def test_the_use_of_tools_on_ignored_files_is_left_out(
        self, importing: ImportHarness, folder: Path, project: Path
    ) -> None:
        (project / ".memoryignore").write_text(".env\n")
        lines = Claude(cwd=str(project))
        write(
            folder / "one.jsonl",
            [
                lines.prompt("Look."),
                lines.says("m1", tool_use("t1", "Read", file_path=f"{project}/.env")),
                lines.result("t1", "KEY=hidden"),
                lines.says("m2", tool_use("t2", "Bash", command="cat .env")),
                lines.result("t2", "KEY=hidden"),
                lines.says("m3", tool_use("t3", "Read", file_path=f"{project}/main.py")),
                lines.result("t3", "print()"),
            ],
        )
        assert importing("claude-code", folder).skipped == 0
        assert [role for role, _ in importing.list_texts()] == ["user", "tool"]
        assert "hidden" not in str(importing.events())
