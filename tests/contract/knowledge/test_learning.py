"""Learner over every store: what sessions become, in any order of events."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.knowledge.model import procedures, sessions
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.procedures import Chain, Procedure
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.services.knowledge import RecordService
from agent_memory.features.knowledge.services.learning import Learner
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.model.events import Event, SessionPosition
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.kernel.ids import Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import memory
from tests.conversation_samples import START, THUMBNAILS, build_session

DAY = 86_400_000
HABIT = ("Read", "Edit", "Bash pytest")


class Stopped:
    def now(self) -> Millis:
        return Millis(START + 30 * DAY)


@dataclass(frozen=True)
class LearningHarness:
    log: StoredEventLog
    knowledge: StoredKnowledge
    learning: Learner

    def hears(self, events: Sequence[Event]) -> None:
        self.log.append(events).result()
        self.learning.keep_up(lambda: None)

    def forgets(self, *events: Event) -> None:
        self.log.remove([SessionPosition(event.session_id, event.position) for event in events])
        self.learning.relearn({event.session_id for event in events})

    def knows(self) -> dict[type, list[object]]:
        kinds = (Session, Episode, Chain, Procedure, User)
        return {kind: list(self.knowledge.list_after(kind, "", limit=1_000)) for kind in kinds}

    def procedures(self) -> dict[tuple[str, ...], tuple[int, int]]:
        found = self.knowledge.list_page(Procedure, limit=100, offset=0)[0]
        return {each.steps: (each.times_used, each.times_succeeded) for each in found}

    def users(self) -> dict[str, int]:
        found = self.knowledge.list_page(User, limit=100, offset=0)[0]
        return {each.canonical_id: each.total_conversations for each in found}

    def episodes(self) -> list[Episode]:
        return self.knowledge.list_page(Episode, limit=100, offset=0)[0]


def learner(store: OrderedStore) -> LearningHarness:
    log, knowledge = StoredEventLog(store), StoredKnowledge(store)
    learning = Learner(
        log=log,
        outbox=StoredOutbox(store),
        knowledge=knowledge,
        clock=Stopped(),
        owner="local:ann",
    )
    return LearningHarness(log, knowledge, learning)


@pytest.fixture
def ann(store: OrderedStore) -> LearningHarness:
    return learner(store)


def mornings(count: int) -> list[list[Event]]:
    return [build_session(f"morning-{n}", THUMBNAILS, start=START + n * DAY) for n in range(count)]


class TestLearning:
    def test_a_session_is_an_episode_from_its_first_event_on(self, ann: LearningHarness) -> None:
        (events,) = mornings(1)
        ann.hears(events[:2])
        (open_one,) = ann.episodes()
        assert (open_one.success, open_one.error_code) == (False, "no_answer")
        ann.hears(events[2:])
        (done,) = ann.episodes()
        assert done.id == open_one.id
        assert (done.success, done.session_id) == (True, "morning-0")
        assert done.duration_ms == events[-1].at_ms - events[0].at_ms

    def test_what_is_done_on_three_mornings_is_a_procedure(self, ann: LearningHarness) -> None:
        for events in mornings(2):
            ann.hears(events)
        assert ann.procedures() == {}
        ann.hears(mornings(3)[2])
        assert ann.procedures() == {
            HABIT: (3, 3),
            ("Grep", *HABIT): (3, 0),
        }

    def test_users_are_counted_by_their_conversations(self, ann: LearningHarness) -> None:
        for events in mornings(2):
            ann.hears(events)
        ann.hears(
            build_session("bot", [("user", "Hi")], agent="", user_id="telegram:7", speaker="Bo")
        )
        ann.hears(build_session("nobody", [("user", "Hi")], agent=""))
        assert ann.users() == {"local:ann": 2, "telegram:7": 1}
        found = ann.knowledge.list_page(User, limit=9, offset=0)[0]
        assert {each.display_name for each in found} == {None, "Bo"}

    def test_agents_have_procedures_of_their_own(self, ann: LearningHarness) -> None:
        for n in range(3):
            ann.hears(build_session(f"c{n}", THUMBNAILS, agent="codex"))
            ann.hears(build_session(f"g{n}", THUMBNAILS, agent="gemini"))
        assert len(ann.knowledge.list_page(Procedure, limit=9, offset=0)[0]) == 4
        assert ann.knowledge.list_page(Procedure, limit=9, offset=0, agent_id="codex")[1] == 2

    @pytest.mark.parametrize("seed", range(6))
    def test_the_order_in_which_events_come_changes_nothing(
        self, ann: LearningHarness, seed: int
    ) -> None:
        random = Random(seed)
        events = [event for each in mornings(4) for event in each]
        random.shuffle(events)
        size = random.choice([1, 5, 17])
        for first in range(0, len(events), size):
            ann.hears(events[first : first + size])
        in_order = learner(memory(Path()))
        for each in mornings(4):
            in_order.hears(each)
        assert ann.knows() == in_order.knows()

    def test_a_store_from_before_is_learned_from_whole(
        self, store: OrderedStore, ann: LearningHarness
    ) -> None:
        for events in mornings(3):
            ann.log.append(events).result()
        outbox = StoredOutbox(store)
        outbox.trim(ann.log.watermark())
        ann.learning.keep_up(lambda: None)
        assert ann.procedures() == {HABIT: (3, 3), ("Grep", *HABIT): (3, 0)}
        assert ann.learning.cursor() == ann.log.watermark()

    def test_what_was_cut_off_is_not_counted_twice(self, ann: LearningHarness) -> None:
        for events in mornings(3):
            ann.log.append(events).result()

        def give_up() -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ann.learning.keep_up(give_up)
        ann.learning.keep_up(lambda: None)
        ann.learning.keep_up(lambda: None)
        assert ann.users() == {"local:ann": 3}
        assert ann.procedures()[HABIT] == (3, 3)


class TestForgetting:
    def test_a_forgotten_session_leaves_nothing_behind(self, ann: LearningHarness) -> None:
        for events in mornings(3):
            ann.hears(events)
        ann.forgets(*mornings(3)[1])
        assert [each.session_id for each in ann.episodes()] == ["morning-2", "morning-0"]
        assert ann.users() == {"local:ann": 2}
        assert ann.procedures() == {HABIT: (2, 2), ("Grep", *HABIT): (2, 0)}

    def test_with_a_forgotten_prompt_its_words_are_gone(self, ann: LearningHarness) -> None:
        (events,) = mornings(1)
        ann.hears(events)
        ann.forgets(events[1])
        (left,) = ann.episodes()
        assert left.summary == "Good. Commit it."
        (session,) = ann.knowledge.get(Session, [sessions.derive_id(SessionId("morning-0"))])
        assert session is not None
        assert "thumbnail" not in str(session)

    def test_when_all_is_forgotten_nothing_is_known(self, ann: LearningHarness) -> None:
        events = [event for each in mornings(3) for event in each]
        ann.hears(events)
        ann.forgets(*events)
        assert {kind: found for kind, found in ann.knows().items() if found} == {}


class TestDeleting:
    def test_a_deleted_procedure_is_back_only_when_it_is_a_habit_again(
        self, ann: LearningHarness
    ) -> None:
        for events in mornings(3):
            ann.hears(events)
        records = RecordService(Procedure, ann.knowledge, PassThrough())
        records.remove([procedures.derive_chain_id("claude-code", HABIT), "unknown"])
        assert list(ann.procedures()) == [("Grep", *HABIT)]
        for events in mornings(5)[3:]:
            ann.hears(events)
        assert HABIT not in ann.procedures()
        ann.hears(mornings(6)[5])
        assert ann.procedures()[HABIT] == (3, 3)

    def test_what_was_deleted_and_then_forgotten_is_not_subtracted_twice(
        self, ann: LearningHarness
    ) -> None:
        for events in mornings(3):
            ann.hears(events)
        habit = procedures.derive_chain_id("claude-code", HABIT)
        RecordService(Procedure, ann.knowledge, PassThrough()).remove([habit])
        for events in mornings(6)[3:]:
            ann.hears(events)
        assert ann.procedures()[HABIT] == (3, 3)
        ann.forgets(*(event for events in mornings(3) for event in events))
        assert ann.procedures()[HABIT] == (3, 3)

    def test_what_was_set_by_hand_stays(self, ann: LearningHarness) -> None:
        for events in mornings(3):
            ann.hears(events)
        records = RecordService(Procedure, ann.knowledge, PassThrough())
        records.change(procedures.derive_chain_id("claude-code", HABIT), {"name": "edit_and_test"})
        ann.hears(mornings(4)[3])
        found = records.read(procedures.derive_chain_id("claude-code", HABIT))
        assert (found.name, found.times_used) == ("edit_and_test", 4)
