"""The candidates of a question: what was found, and the turns around it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent_memory.features.index.adapters.vectors import FlatVectors
from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import DocumentKind, build_key
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import IndexHit, SearchMode, SearchScope
from agent_memory.features.log.model.events import Event
from agent_memory.features.recall.model import ranking
from agent_memory.features.recall.model.ranking import Candidate
from agent_memory.features.recall.services import candidate_pool
from agent_memory.features.recall.services.candidate_pool import CandidatePool, NearDocuments
from tests.contract.documents import document, unit
from tests.recall_parts import (
    DAY,
    NOW,
    RecallHarness,
    list_ids,
    list_texts,
    make_dialogue,
    make_event,
    open_recall,
)

EVENTS = SearchScope(kinds=frozenset({DocumentKind.EVENT}))
TALK = make_dialogue(
    *("Zero.", "One.", "Two.", "Three.", "The lantern hangs here.", "Five.", "Six.", "Seven."),
    *("Eight.", "Nine."),
)
HALF = 2e-3  # more than the loss of a cosine in 16 bits


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[RecallHarness]:
    with open_recall(tmp_path) as created:
        yield created


def hit(event: Event) -> IndexHit:
    return IndexHit(DocumentKind.EVENT, event.event_id, event.at_ms, event.session_id, 1.0)


def make_pool(parts: RecallHarness, *answers: Sequence[Event]) -> CandidatePool:
    pool = CandidatePool(parts.log, parts.library, parts.terms, parts.tail)
    pool.add([[hit(event) for event in answer] for answer in answers])
    return pool


def by_text(parts: RecallHarness, pool: Sequence[Candidate]) -> dict[str, Candidate]:
    read = parts.library.read([each.hit for each in pool])
    return {read[each.hit.key].text: each for each in pool}


def texts_of(parts: RecallHarness, pool: Sequence[Candidate], places: Sequence[int]) -> list[str]:
    read = parts.library.read([each.hit for each in pool])
    return [read[pool[place].hit.key].text for place in places]


class TestTurns:
    def test_the_turns_around_a_hit_are_linked_nearest_first(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        pool = make_pool(parts, [TALK[4]]).build(None)
        found = by_text(parts, pool)
        assert set(found) == {event.text for event in TALK[1:8]}
        middle = found[TALK[4].text]
        assert texts_of(parts, pool, middle.before) == ["Three.", "Two.", "One."]
        assert texts_of(parts, pool, middle.after) == ["Five.", "Six.", "Seven."]
        assert found["One."].before == ()
        assert len(found["One."].after) == ranking.REACH

    def test_only_what_an_index_found_is_found(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        created = make_pool(parts, [TALK[4]])
        found = {
            text: created.is_found(each.key)
            for text, each in by_text(parts, created.build(None)).items()
        }
        assert [text for text, is_found in found.items() if is_found] == [TALK[4].text]

    def test_found_twice_it_is_one_candidate(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        created = make_pool(parts, [TALK[4], TALK[5]], [TALK[5]])
        created.add([[hit(TALK[5])]])
        pool = created.build(None)
        keys = [each.hit.key for each in pool]
        assert len(keys) == len(set(keys)) == 8
        assert created.is_found(hit(TALK[5]).key)

    def test_only_the_top_hits_bring_the_turns_around_them(self, parts: RecallHarness) -> None:
        most = candidate_pool.TOP_HITS
        talks = [
            make_dialogue("Before.", f"Hit {n}.", begin=NOW - (n + 1) * DAY, session=f"s{n}")
            for n in range(most + 2)
        ]
        parts.take_in(*(event for talk in talks for event in talk))
        pool = make_pool(parts, [talk[1] for talk in talks]).build(None)
        sessions = [each.hit.session for each in pool]
        assert [sessions.count(f"s{n}") for n in range(most + 2)] == [2] * most + [1] * 2

    def test_sessions_are_not_linked(self, parts: RecallHarness) -> None:
        other = make_dialogue("Elsewhere.", "The other lantern.", session="other")
        parts.take_in(*TALK[:2], *other)
        pool = make_pool(parts, [TALK[1], other[1]]).build(None)
        for each in pool:
            for place in (*each.before, *each.after):
                assert pool[place].hit.session == each.hit.session

    def test_a_turn_without_text_is_no_candidate_and_is_stepped_over(
        self, parts: RecallHarness
    ) -> None:
        silent = make_event(" ", TALK[4].at_ms + 1, role="tool")
        parts.take_in(*TALK, silent)
        pool = make_pool(parts, [TALK[4]]).build(None)
        assert build_key(DocumentKind.EVENT, silent.event_id) not in {each.hit.key for each in pool}
        middle = by_text(parts, pool)[TALK[4].text]
        assert texts_of(parts, pool, middle.after) == ["Five.", "Six."]

    def test_what_is_not_indexed_yet_is_counted_from_its_text(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        fresh = make_pool(parts, [TALK[4]]).build(None)
        parts.keep_up()
        stored = make_pool(parts, [TALK[4]]).build(None)
        for one, other in zip(fresh, stored, strict=True):
            assert one.hit == other.hit
            assert one.vector.hashes.tolist() == other.vector.hashes.tolist()
            assert one.vector[2:] == other.vector[2:]

    def test_nothing_found_is_an_empty_pool(self, parts: RecallHarness) -> None:
        assert make_pool(parts, []).build(None) == []


class TestEndOfSession:
    def ending(self, parts: RecallHarness, *found: Event) -> list[str]:
        pool = make_pool(parts, found).build(None)
        return [text for text, each in by_text(parts, pool).items() if each.ends_session]

    @pytest.mark.parametrize("number", [9, 8, 7])
    def test_the_last_turn_ends_it_if_the_hit_is_near(
        self, parts: RecallHarness, number: int
    ) -> None:
        parts.take_in(*TALK)
        assert self.ending(parts, TALK[number]) == ["Nine."]

    @pytest.mark.parametrize("number", [0, 3, 6])
    def test_the_last_turn_that_was_read_does_not_end_it(
        self, parts: RecallHarness, number: int
    ) -> None:
        parts.take_in(*TALK)
        assert self.ending(parts, TALK[number]) == []

    def test_events_without_text_may_follow(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK, make_event("", TALK[-1].at_ms + 1, role="system"))
        assert self.ending(parts, TALK[-1]) == ["Nine."]

    def test_the_next_turn_is_the_end(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        parts.keep(make_event("Ten.", NOW))
        assert self.ending(parts, TALK[-1]) == ["Ten."]


class TestGone:
    """An index has what was removed until its next step."""

    def test_a_hit_that_was_removed_is_no_neighbor_and_is_not_read(
        self, parts: RecallHarness
    ) -> None:
        parts.take_in(*TALK)
        parts.forget(TALK[4])
        created = make_pool(parts, [TALK[4]])
        pool = created.build(None)
        key = build_key(DocumentKind.EVENT, TALK[4].event_id)
        assert key not in created.read([each.hit for each in pool])
        gone = [place for place, each in enumerate(pool) if each.hit.key == key]
        assert not any({*gone} & {*each.before, *each.after} for each in pool)
        three = next(each for each in pool if each.hit.id == TALK[3].event_id)
        assert pool[three.after[0]].hit.id == TALK[5].event_id

    @pytest.mark.parametrize("mode", SearchMode)
    def test_a_question_passes_over_it(self, parts: RecallHarness, mode: SearchMode) -> None:
        """Also where a grip of it is still found."""
        talk = make_dialogue(
            "Which database shall we take for the event log?",
            "I decided to take RocksDB, because its writes are fast and batches are atomic.",
        )
        parts.take_in(*talk)
        grips = SearchScope(kinds=frozenset({DocumentKind.GRIP}))
        assert any(each.event_id == talk[1].event_id for each in parts.ask("RocksDB", grips).hits)
        parts.forget(talk[1])
        assert f"event:{talk[1].event_id}" not in list_ids(parts.ask("RocksDB writes", mode=mode))

    def test_another_that_says_the_same_is_found_in_its_place(self, parts: RecallHarness) -> None:
        text = "The nightly deploy of the staging cluster has failed once more."
        old, new = (make_event(text, NOW - n * DAY, session=f"s{n}") for n in (2, 1))
        parts.take_in(old, new)
        assert list_ids(parts.ask("staging cluster", EVENTS)) == [f"event:{new.event_id}"]
        parts.forget(new)
        found = parts.ask("staging cluster", EVENTS)
        assert list_ids(found) == [f"event:{old.event_id}"]
        assert found.total == 1


class TestScope:
    LINES = ("Where is the lantern?", "In the attic.", "And the lamp?", "In the cellar.")

    @pytest.mark.parametrize(
        ("scope", "shown"),
        [
            (EVENTS, {0, 1, 3}),  # a question leads to answers, not to the next prompt
            (SearchScope(kinds=EVENTS.kinds, role="user"), {0}),
            (SearchScope(kinds=EVENTS.kinds, session="talk"), {0, 1, 3}),
            (SearchScope(kinds=EVENTS.kinds, until=make_dialogue("", "")[1].at_ms), {0, 1}),
            (SearchScope(kinds=EVENTS.kinds, project="other"), set()),
        ],
    )
    def test_a_turn_beside_a_hit_is_shown_only_in_scope(
        self, parts: RecallHarness, scope: SearchScope, shown: set[int]
    ) -> None:
        parts.take_in(*make_dialogue(*self.LINES))
        found = list_texts(parts.ask("lantern", scope, mode=SearchMode.BM25))
        assert set(found) == {self.LINES[number] for number in shown}

    def test_a_turn_that_is_out_of_scope_still_carries_words(self, parts: RecallHarness) -> None:
        """A user asks for the lantern; only answers are wanted, and one names no lantern."""
        parts.take_in(
            *make_dialogue("The lantern?", "The lantern is gone.", "Which one?", "That of brass."),
            make_event("Some brass.", NOW - DAY, session="other", role="assistant"),
        )
        scope = SearchScope(kinds=EVENTS.kinds, role="assistant")
        found = list_texts(parts.ask("brass lantern", scope, mode=SearchMode.BM25))
        assert found.index("That of brass.") < found.index("Some brass.")


class TestMeaning:
    EAST, WEST, NORTH = unit(1, 0, 0), unit(-1, 0, 0), unit(0, 1, 0)

    def measure(
        self, folder: Path, unrelated: float = 0.0, **vectors: Sequence[Vector]
    ) -> dict[str, tuple[float | None, int]]:
        index = FlatVectors(folder, "model")
        index.replace(
            {
                documents.event_owner(name): [(document(name), created)]
                for name, created in vectors.items()
            }
        )
        near = NearDocuments(vector=self.EAST, index=index, unrelated=unrelated, found=[])
        keys = [build_key(DocumentKind.EVENT, name) for name in (*vectors, "missing")]
        return dict(zip((*vectors, "missing"), near.measure(keys), strict=True))

    def test_a_short_text_is_as_near_as_its_vector(self, tmp_path: Path) -> None:
        found = self.measure(tmp_path, same=[self.EAST], other=[self.NORTH], half=[unit(3, 4, 0)])
        assert found["same"] == pytest.approx((1, 0), abs=HALF)
        assert found["other"] == pytest.approx((0, 0), abs=HALF)
        assert found["half"] == pytest.approx((0.6, 0), abs=HALF)
        assert found["missing"] == (None, 0)

    def test_a_long_text_is_between_its_nearest_part_and_its_average(self, tmp_path: Path) -> None:
        found = self.measure(
            tmp_path,
            one=[self.NORTH, self.NORTH, self.EAST, self.NORTH],
            all=[self.EAST, self.EAST],
            short=[unit(4, 3, 0)],
        )
        assert found["one"] == pytest.approx(((1 + 0.25) / 2, 2), abs=HALF)
        assert found["all"] == pytest.approx((1, 0), abs=HALF)
        assert (found["short"][0] or 0) > (found["one"][0] or 0), "a long text has more chances"

    def test_what_is_unrelated_counts_nothing(self, tmp_path: Path) -> None:
        found = self.measure(
            tmp_path,
            0.2,
            same=[self.EAST],
            west=[self.WEST],
            far=[unit(1, 4, 0)],
            half=[unit(3, 4, 0)],
        )
        assert found["same"][0] == pytest.approx(1, abs=HALF)
        assert found["half"][0] == pytest.approx(0.5, abs=HALF)
        assert found["far"][0] == pytest.approx((17**-0.5 - 0.2) / 0.8, abs=HALF)
        assert found["west"][0] == 0

    def test_the_pool_has_the_meaning_and_the_part(
        self, parts: RecallHarness, tmp_path: Path
    ) -> None:
        parts.take_in(*TALK[:2])
        index = FlatVectors(tmp_path / "v", "model")
        (said,) = documents.from_event(TALK[1])
        index.replace({said.owner: [(said, [self.NORTH, self.EAST])]})
        near = NearDocuments(vector=self.EAST, index=index, unrelated=0.0, found=[])
        found = by_text(parts, make_pool(parts, [TALK[1]]).build(near))
        assert found["One."].meaning == pytest.approx(0.75, abs=HALF)
        assert found["One."].part == 1
        assert (found["Zero."].meaning, found["Zero."].part) == (None, 0)
