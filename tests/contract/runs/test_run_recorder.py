"""The memory of runs over every store: kept by a diary, read as history, learned from."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest

from agent_memory.features.knowledge.model import run_sessions, sessions
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.run_sessions import Run, RunSession
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.services.knowledge import RecordService
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.model.metadata import Outcome
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.runs.model import history
from agent_memory.features.runs.model.chats import Message, MessageRole
from agent_memory.features.runs.model.machine import (
    Answered,
    Prompted,
    Recorded,
    RunFinished,
    ToolUsed,
)
from agent_memory.features.runs.services.recorder import RunInfo, RunMemory
from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.secrets.model.secrets import WITHHELD
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.kernel.ids import Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.engines import HeldEngine
from tests.contract.knowledge.test_learning import LearningHarness, learner
from tests.contract.stores import commit, memory, unexpected
from tests.conversation_samples import START, THUMBNAILS, build_session
from tests.memory_engine import MemoryEngine
from tests.run_samples import (
    AGENT,
    READ,
    RESIZED,
    TEST,
    build_chat,
    build_events,
    call,
    check_chat,
    make_about,
)

TOKEN = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"
HOUR = 3_600_000


class Ticking:
    """Goes back now and then, as clocks that are set do."""

    def __init__(self, *steps: int) -> None:
        self.at = START
        self.steps = list(steps)

    def now(self) -> Millis:
        self.at += self.steps.pop(0) if self.steps else 1000
        return Millis(self.at)


class Office:
    def __init__(self, store: OrderedStore, secrets: SecretsFilter | None = None) -> None:
        self.learner: LearningHarness = learner(store)
        self.log = StoredEventLog(store)
        self.clock = Ticking()
        self.memory = RunMemory(
            ingest=Ingest(log=self.log, secrets=secrets or PassThrough(), on_record=lambda: None),
            log=self.log,
            knowledge=self.learner.knowledge,
            clock=self.clock,
        )

    def keeps(self, saved: Iterable[Recorded], whose: RunInfo | None = None) -> None:
        diary = self.memory.open_recorder(whose or make_about())
        for each in saved:
            diary.record(each)
        diary.flush()

    def learns(self) -> None:
        self.learner.learning.keep_up(lambda: None)

    def events(self, session: str = "s") -> list[Event]:
        page = self.log.list_session(SessionId(session), after=None, limit=1000)
        return list(page.events)

    def chat(self, session: str = "s") -> list[Message]:
        return [each for some in self.memory.history(SessionId(session)) for each in some]

    def episodes(self) -> dict[str, tuple[str, bool, str | None]]:
        return {
            each.summary: (each.trigger_type, each.success, each.error_code)
            for each in self.learner.episodes()
        }


@pytest.fixture
def office(store: OrderedStore) -> Office:
    return Office(store)


class TestDiary:
    def test_a_run_is_a_conversation(self, office: Office) -> None:
        office.keeps(RESIZED)
        found = [(each.type, each.text) for each in office.events()]
        assert found == [
            (
                EventType.USER_MESSAGE,
                "Why does the thumbnail of a rotated picture lie on its side?\nPlease fix it.",
            ),
            (EventType.ASSISTANT_MESSAGE, "Let me look."),
            (EventType.TOOL_RESULT, "read_file: src/resize.py\ndef resize(a): ...\n"),
            (EventType.TOOL_RESULT, "edit_file: src/resize.py\nupright(a)\nb\nedited"),
            (EventType.TOOL_RESULT, "run_command: pytest -q tests/test_resize.py\n12 passed"),
            (EventType.ASSISTANT_MESSAGE, "It was turned too late. Fixed."),
            (EventType.ASSISTANT_STOP, ""),
        ]
        for each in office.events():
            told = {name: each.metadata[name] for name in ("run_id", "agent", "project", "branch")}
            assert list(told.values()) == ["r1", AGENT, "pictures", "main"]
        first, *_, last = office.events()
        assert (first.metadata["trigger"], last.metadata["outcome"]) == ("run", "completed")
        assert office.events()[4].metadata["turn"] == "2"

    def test_times_never_go_back(self, office: Office) -> None:
        office.clock.steps = [5000, -3000, 0, 0, -60_000, 10]
        office.keeps(RESIZED)
        events = office.events()
        assert [each.event_id for each in events] == sorted(each.event_id for each in events)
        assert office.chat() == build_chat(RESIZED)

    def test_what_was_denied_or_failed_says_so(self, office: Office) -> None:
        saved = (
            Prompted("Go"),
            Answered(content="", calls=(READ, TEST)),
            ToolUsed(call=READ, outcome=Outcome.FAILED, text="no such file"),
            ToolUsed(call=TEST, outcome=Outcome.DENIED, text="denied: not now"),
            RunFinished(outcome=Outcome.DENIED),
        )
        office.keeps(saved)
        _, read, test, _ = office.events()
        assert (read.metadata["error"], read.metadata["outcome"]) == ("true", "failed")
        assert (test.metadata["error"], test.metadata["outcome"]) == ("true", "denied")

    def test_what_memory_told_is_not_kept_again(self, office: Office) -> None:
        asked = call("c", "recall", '{"query": "lamp"}')
        again = call("d", "run_command", '{"command": "memory recall lamp"}')
        failed = call("e", "recall", '{"query": "x"}')
        office.keeps(
            (
                Prompted("Why? <memory_context>\n  <a>told</a>\n</memory_context>"),
                Answered(content="", calls=(asked, again, failed)),
                ToolUsed(call=asked, outcome=Outcome.COMPLETED, text="the lamp was told"),
                ToolUsed(call=again, outcome=Outcome.COMPLETED, text="the lamp was told"),
                ToolUsed(call=failed, outcome=Outcome.FAILED, text="the index is gone"),
            )
        )
        assert [each.text for each in office.events()] == [
            "Why?",
            "recall: lamp",
            "run_command: memory recall lamp",
            "recall: x\nthe index is gone",
        ]
        assert [each.content for each in office.chat()] == [
            "Why?",
            "",
            history.NOT_REPEATED,
            history.NOT_REPEATED,
            "the index is gone",
            history.INTERRUPTED,
        ]

    def test_long_arguments_stay_json_and_within_limits(self, office: Office) -> None:
        content = "word " * 200_000
        written = call("c", "write_file", json.dumps({"path": "a", "content": content, "n": [1]}))
        many = call("d", "x", json.dumps({"all": list(range(100_000))}))
        broken = call("e", "y", "{" * 100_000)
        office.keeps(
            [
                Prompted("Go"),
                *(
                    ToolUsed(call=each, outcome=Outcome.COMPLETED, text="done")
                    for each in (written, many, broken)
                ),
            ]
        )
        first, second, third = (json.loads(each.arguments) for each in office.chat()[1].calls)
        assert (first["path"], first["n"]) == ("a", [1])
        assert first["content"].endswith(" [...]")
        assert second == third == {}

    @pytest.mark.parametrize("text", ["x" * 3_000_000, "\ud800 half", "a\0b\r\n\x1b[0m"])
    def test_whatever_is_said_can_be_kept(self, office: Office, text: str) -> None:
        odd = call(text[:5000], text, text)
        office.keeps(
            (
                Prompted(text),
                Answered(content=text, calls=(odd,), whole=False),
                ToolUsed(call=odd, outcome=Outcome.FAILED, text=text),
                RunFinished(outcome=Outcome.FAILED, error=text),
            )
        )
        assert [each.role for each in office.chat()] == [
            MessageRole.USER,
            MessageRole.ASSISTANT,
            MessageRole.TOOL,
            MessageRole.ASSISTANT,
        ]

    def test_names_that_cannot_be_kept_are_refused_at_once(self) -> None:
        for wrong in ({"session_id": ""}, {"session_id": "x" * 257}, {"run_id": "x" * 65}):
            with pytest.raises(InvalidInput):
                replace(make_about(), **wrong)  # type: ignore[arg-type]

    def test_nobody_waits_until_it_settles(self) -> None:
        engine = HeldEngine(MemoryEngine())
        store = CommittedStore(engine, unexpected)
        office = Office(store)
        diary = office.memory.open_recorder(make_about())
        for each in RESIZED:
            diary.record(each)
        engine.wait_until_held()
        engine.release()
        diary.flush()
        assert office.chat() == build_chat(RESIZED)
        store.close()

    def test_a_store_that_is_gone_is_told_when_it_settles(self) -> None:
        store = memory(Path())
        diary = Office(store).memory.open_recorder(make_about())
        diary.record(Prompted("Hello"))
        diary.flush()
        store.close()
        diary.record(Answered(content="Hi"))
        with pytest.raises(StorageFailed):
            diary.flush()


class TestSecrets:
    ASKED = call("c1", "read_file", json.dumps({"path": TOKEN}))
    KEPT = (
        Prompted(f"Use {TOKEN}"),
        Answered(content="Yes", calls=(READ, TEST)),
        ToolUsed(call=ASKED, outcome=Outcome.FAILED, text="no"),
        ToolUsed(call=TEST, outcome=Outcome.COMPLETED, text=f"export TOKEN={TOKEN}\nok"),
        Answered(content="Done"),
        RunFinished(outcome=Outcome.FAILED, error=f"bad {TOKEN}"),
    )

    @pytest.mark.parametrize("mode", ["redact", "block"])
    def test_none_is_stored_and_the_run_goes_on(self, store: OrderedStore, mode: str) -> None:
        office = Office(store, Re2Filter(mode=mode))  # type: ignore[arg-type]
        office.keeps(self.KEPT)
        assert TOKEN not in str(office.events())
        office.learns()
        assert TOKEN not in str(office.learner.knows())
        chat = office.chat()
        assert [each.role.value for each in chat] == [
            "user", "assistant", "tool", "tool", "assistant",
        ]  # fmt: skip
        assert [each.name for each in chat[1].calls] == ["read_file", "run_command"]
        assert all(isinstance(json.loads(each.arguments), dict) for each in chat[1].calls)
        assert office.events()[2].metadata["error"] == "true"
        if mode == "block":
            assert [chat[0].content, chat[3].content] == [WITHHELD, WITHHELD]
        else:
            assert chat[3].content.endswith("]\nok")

    def test_where_even_a_name_is_one_the_event_is_there(self, store: OrderedStore) -> None:
        office = Office(store, Re2Filter(mode="block"))
        odd = call(TOKEN, TOKEN, "{}")
        office.keeps((Prompted("Go"), ToolUsed(call=odd, outcome=Outcome.FAILED, text="no tool")))
        assert TOKEN not in str(office.events())
        assert [each.role.value for each in office.chat()] == [
            "user", "assistant", "tool", "assistant",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "run_id", ["01JD0V3Q9N8X7W6Y5Z4A3B2C1D", "6f1c2a0e-6d0b-4c4b-9d7a-0f5e3b2a1c9d", "ab" * 16]
    )
    def test_a_runs_own_id_is_none(self, store: OrderedStore, run_id: str) -> None:
        office = Office(store, Re2Filter(mode="redact"))
        office.keeps(RESIZED, make_about(run=run_id))
        assert office.chat() == build_chat(RESIZED)


class TestHistory:
    def test_it_is_what_the_run_had(self, office: Office) -> None:
        office.keeps(RESIZED)
        assert office.chat() == build_chat(RESIZED)

    def test_runs_follow_each_other(self, office: Office) -> None:
        office.keeps(RESIZED, make_about(run="r1"))
        office.keeps((Prompted("Thanks"), Answered(content="Welcome")), make_about(run="r2"))
        first, second = office.memory.history(SessionId("s"))
        assert list(first) == build_chat(RESIZED)
        assert [each.content for each in second] == ["Thanks", "Welcome"]
        assert office.memory.history(SessionId("other")) == []

    def test_runs_beside_each_other_do_not_mix(self, office: Office) -> None:
        one, two = (office.memory.open_recorder(make_about(run=name)) for name in ("r1", "r2"))
        for each in RESIZED:
            one.record(each)
            two.record(each)
        one.flush()
        two.flush()
        assert office.chat() == build_chat(RESIZED) * 2

    @pytest.mark.parametrize(
        ("end", "told"),
        [
            (RunFinished(outcome=Outcome.CANCELLED), "[cancelled]"),
            (RunFinished(outcome=Outcome.DENIED), "[denied]"),
            (RunFinished(outcome=Outcome.FAILED, error="no model"), "[failed: no model]"),
            (RunFinished(outcome=Outcome.COMPLETED), "[no answer]"),
            (None, "[interrupted]"),
        ],
    )
    def test_a_run_without_an_answer_has_one(
        self, office: Office, end: RunFinished | None, told: str
    ) -> None:
        office.keeps([Prompted("Go"), *([end] if end else [])])
        office.keeps((Prompted("And now?"), Answered(content="Yes")), make_about(run="r2"))
        assert [each.content for each in office.chat()] == ["Go", told, "And now?", "Yes"]

    def test_of_other_agents_it_is_what_was_said(self, office: Office) -> None:
        lines = (
            ("assistant", "nobody asked"),
            ("user", "Hello"),
            ("user", "Are you there? <memory_context>x</memory_context>"),
            ("Bash", "Bash: ls\na"),
            ("assistant", "Yes."),
            ("assistant", "What is it?"),
            ("stop", ""),
            ("user", "Fix it"),
        )
        events = build_session("s", lines)
        office.log.append(events).result()
        office.clock.at = events[-1].at_ms
        office.keeps((Prompted("Go on"), Answered(content="Done")))
        assert [each.content for each in office.chat()] == [
            "Hello\n\nAre you there?",
            "Yes.\n\nWhat is it?",
            "Fix it",
            history.NO_ANSWER,
            "Go on",
            "Done",
        ]

    def test_what_was_forgotten_leaves_it_valid(self, office: Office) -> None:
        for gone in range(len(build_events("s", "r", RESIZED))):
            whose = make_about(f"s{gone}", run=f"r{gone}")
            office.keeps(RESIZED, whose)
            office.learner.forgets(office.events(whose.session_id)[gone])
            check_chat(office.chat(whose.session_id))
        assert office.chat("s0") == []  # nobody knows what was asked
        assert [each.content for each in office.chat("s1")][:2] == [RESIZED[0].text, ""]  # type: ignore[union-attr]

    def test_of_a_long_session_its_end_is_read(self, office: Office) -> None:
        for number in range(5):
            office.keeps(RESIZED, make_about(run=f"r{number}"))
        found = replace(office.memory, max_events=10).history(SessionId("s"))
        assert list(found[-1]) == build_chat(RESIZED)
        assert len(found) == 2
        assert found[0][0].content == build_chat(RESIZED)[0].content
        check_chat([each for some in found for each in some])

    def test_of_a_long_run_its_prompt_and_its_end(self, office: Office) -> None:
        page = "x" * 30_000
        turns = [
            each
            for number in range(20)
            for each in (
                Answered(content=f"turn {number}", calls=(READ,)),
                ToolUsed(call=READ, outcome=Outcome.COMPLETED, text=page),
            )
        ]
        office.keeps([Prompted("Read all"), *turns, Answered(content="Read.")])
        (exchange,) = replace(office.memory, max_chars=200_000).history(SessionId("s"))
        check_chat(list(exchange))
        assert (exchange[0].content, exchange[-1].content) == ("Read all", "Read.")
        assert sum(each.role is MessageRole.TOOL for each in exchange) == 6


class TestEpisodes:
    @pytest.mark.parametrize(
        ("outcome", "success", "code"),
        [
            (Outcome.COMPLETED, True, None),
            (Outcome.FAILED, False, "run_failed"),
            (Outcome.CANCELLED, False, "cancelled"),
            (Outcome.DENIED, False, "denied"),
            (None, False, "no_answer"),
        ],
    )
    def test_a_run_is_one(
        self, office: Office, outcome: Outcome | None, success: bool, code: str | None
    ) -> None:
        end = [] if outcome is None else [RunFinished(outcome=outcome)]
        office.keeps([Prompted("Fix the lamp\nof the house"), *end])
        office.learns()
        (found,) = office.learner.episodes()
        assert (found.trigger_type, found.success, found.error_code) == ("run", success, code)
        assert (found.summary, found.agent_id, found.session_id) == ("Fix the lamp", AGENT, "s")
        assert found.id == run_sessions.derive_id(SessionId("s"), "r1")

    def test_each_run_of_a_session_is_one_and_the_session_none(self, office: Office) -> None:
        for number in range(3):
            office.keeps([Prompted(f"Do {number}")], make_about(run=f"r{number}"))
            office.learns()
        assert sorted(office.episodes()) == ["Do 0", "Do 1", "Do 2"]
        assert office.learner.users() == {"local:ann": 1}
        (session,) = office.learner.knowledge.list_page(Session, limit=9, offset=0)[0]
        assert (session.episode_id, session.summary, session.events) == (None, "Do 0", 3)

    @pytest.mark.parametrize("first", ["talk", "run"])
    def test_what_was_said_beside_them_is_one_too(self, office: Office, first: str) -> None:
        at = START + HOUR if first == "run" else START
        run_at = START if first == "run" else START + HOUR
        heard = build_session("s", THUMBNAILS, start=at)
        ran = build_events("s", "r1", RESIZED[:2], start=run_at)
        for events in (ran, heard) if first == "run" else (heard, ran):
            office.learner.hears(events)
        alone = Office(memory(Path()))
        alone.learner.hears(heard)
        saved = {each.id: each for each in office.learner.episodes()}
        (expected,) = alone.learner.episodes()
        assert saved[sessions.derive_id(SessionId("s"))] == expected
        assert len(saved) == 2

    @pytest.mark.parametrize("seed", range(4))
    def test_the_order_in_which_events_come_changes_nothing(
        self, office: Office, seed: int
    ) -> None:
        everything = [
            event
            for day in range(3)
            for event in (
                *build_session("a", THUMBNAILS[:9], start=START + day * HOUR)[day:],
                *build_events("a", f"r{day}", RESIZED, start=START + day * HOUR + 7_500),
                *build_events("b", f"q{day}", RESIZED, start=START + day * HOUR),
            )
        ]
        everything = list({each.event_id: each for each in everything}.values())
        in_order = Office(memory(Path()))
        in_order.learner.hears(everything)
        random = Random(seed)
        random.shuffle(everything)
        size = random.choice([1, 7, 20])
        for first in range(0, len(everything), size):
            office.learner.hears(everything[first : first + size])
        assert office.learner.knows() == in_order.learner.knows()
        for kind in (Run, RunSession):
            found = office.learner.knowledge.list_after(kind, "", limit=100)
            assert found == in_order.learner.knowledge.list_after(kind, "", limit=100)

    def test_with_a_forgotten_run_goes_its_episode(self, office: Office) -> None:
        for number in range(3):
            office.keeps(RESIZED, make_about(run=f"r{number}"))
        office.learns()
        office.learner.forgets(*(e for e in office.events() if e.metadata["run_id"] == "r1"))
        left = [each.id for each in office.learner.episodes()]
        assert left == [run_sessions.derive_id(SessionId("s"), name) for name in ("r2", "r0")]
        (whole,) = office.memory.sessions(9)
        assert whole.runs == 2
        office.learner.forgets(*office.events())
        assert not any(office.learner.knows().values())
        assert office.memory.sessions(9) == []
        assert office.learner.knowledge.list_after(Run, "", limit=9) == []

    def test_what_was_set_by_hand_stays(self, office: Office) -> None:
        office.learner.hears(build_events("s", "r1", RESIZED[:3]))
        (found,) = office.learner.episodes()
        RecordService(Episode, office.learner.knowledge, PassThrough()).change(
            found.id, {"summary": "Pic"}
        )
        office.learner.hears(build_events("s", "r1", RESIZED)[3:])
        assert office.episodes() == {"Pic": ("run", True, None)}

    def test_a_session_from_before_there_were_runs_goes_on(
        self, store: OrderedStore, office: Office
    ) -> None:
        heard = build_session("s", THUMBNAILS)
        office.learner.hears(heard)
        key = b"session:" + sessions.derive_id(SessionId("s")).encode()
        stored = store.get(families.KNOWLEDGE, key)
        assert stored is not None
        fields = msgspec.msgpack.decode(stored[1:])
        del fields["has_runs"], fields["beside"]
        older = stored[:1] + msgspec.msgpack.encode(fields)
        commit(store, Batch((Put(families.KNOWLEDGE, key, older),)))
        (before,) = office.learner.episodes()
        office.learner.hears(build_events("s", "r1", RESIZED, start=heard[-1].at_ms + 1))
        run, talk = office.learner.episodes()
        assert (talk, run.trigger_type) == (before, "run")
        assert office.learner.users() == {"local:ann": 1}

    def test_what_others_call_a_run_is_their_own(self, office: Office) -> None:
        office.learner.hears(build_session("s", THUMBNAILS, run_id="trace-7"))
        (found,) = office.learner.episodes()
        assert (found.trigger_type, found.id) == ("chat", sessions.derive_id(SessionId("s")))


def test_what_runs_do_again_and_again_is_a_procedure(office: Office) -> None:
    for number in range(3):
        office.keeps(RESIZED, make_about("s", run=f"r{number}"))
    office.keeps(RESIZED, make_about("s", run="other", agent="kontekst:reviewer"))
    office.learns()
    habit = ("read_file", "edit_file", "run_command pytest")
    assert office.learner.procedures() == {habit: (3, 3)}


class TestSessions:
    def test_those_that_had_runs_the_last_one_first(self, office: Office) -> None:
        office.learner.hears(build_session("talk", THUMBNAILS))
        office.keeps(RESIZED, make_about("one", run="r1"))
        office.keeps(RESIZED, make_about("two", run="r2"))
        office.keeps(
            (Prompted("More"), RunFinished(outcome=Outcome.CANCELLED)),
            make_about("one", run="r3", agent="kontekst:reviewer"),
        )
        office.learns()
        one, two = office.memory.sessions(10)
        assert (one.session_id, one.agent, one.runs, one.outcome) == (
            "one", "kontekst:reviewer", 2, "cancelled",
        )  # fmt: skip
        assert one.summary == "Why does the thumbnail of a rotated picture lie on its side?"
        assert one.first_ms < two.first_ms < two.last_ms < one.last_ms
        assert (two.runs, two.outcome) == (1, "completed")
        assert office.memory.sessions(1) == [one]

    def test_one_that_runs_has_no_outcome_yet(self, office: Office) -> None:
        office.keeps(RESIZED, make_about(run="r1"))
        office.keeps(RESIZED[:3], make_about(run="r2"))
        office.learns()
        (found,) = office.memory.sessions(10)
        assert (found.runs, found.outcome) == (2, "")


def test_a_session_whose_name_holds_a_secret_goes_on(store: OrderedStore) -> None:
    secret = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vX3yZ5"
    office = Office(store, Re2Filter(mode="redact"))
    office.keeps([Prompted("Hello")], replace(make_about(), session_id=SessionId(secret)))
    assert office.chat(secret)[0].content == "Hello"
    assert office.events(secret) == []
