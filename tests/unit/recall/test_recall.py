"""A question in, the moments that answer it out: over real indexes, in every state of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    MAX_LIMIT,
    MAX_QUERY_CHARS,
    RecallResult,
    SearchMode,
    SearchScope,
)
from agent_memory.features.recall.model.ranking import CERTAIN_SCORE
from agent_memory.features.recall.services import unindexed
from agent_memory.kernel.errors import InvalidInput
from tests.embedders import HashingEmbedder
from tests.recall_parts import (
    DAY,
    MINUTE,
    NOW,
    FlakyEmbedder,
    RecallHarness,
    TruncatingEmbedder,
    list_ids,
    list_texts,
    make_dialogue,
    make_event,
    open_recall,
    parse_time,
)

TALK = make_dialogue(
    "Which database shall we take for the event log?",
    "I decided to take RocksDB, because its writes are fast and batches are atomic.",
    "Good. And what do we do about full text search?",
    "Tantivy is the best choice for full text search: it needs no server.",
    begin=NOW - 2 * DAY,
)
EVENTS = SearchScope(kinds=frozenset({DocumentKind.EVENT}))


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[RecallHarness]:
    with open_recall(tmp_path, FlakyEmbedder(HashingEmbedder())) as created:
        yield created


@pytest.fixture
def wordy(tmp_path: Path) -> Iterator[RecallHarness]:
    """Without an embedder."""
    with open_recall(tmp_path) as created:
        yield created


def embedder(parts: RecallHarness) -> FlakyEmbedder:
    assert isinstance(parts.embedder, FlakyEmbedder)
    return parts.embedder


def pages(
    parts: RecallHarness, question: str, limit: int, scope: SearchScope | None = None
) -> list[RecallResult]:
    found = [parts.ask(question, scope, limit=limit)]
    while (offset := found[-1].next) is not None:
        assert len(found) < 1_000, "the pages have no end"
        found.append(parts.ask(question, scope, limit=limit, offset=offset))
    return found


class TestFreshness:
    @pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.BM25])
    def test_what_was_stored_is_found_by_the_next_question(
        self, parts: RecallHarness, mode: SearchMode
    ) -> None:
        parts.take_in(*TALK)
        for number in range(3):
            parts.keep(make_event(f"The lantern {number} is in the attic.", NOW - 3 + number))
            answer = parts.ask("Where is the lantern?", mode=mode)
            assert list_texts(answer)[0] == f"The lantern {number} is in the attic."

    def test_before_any_job_has_run_words_find_it(self, parts: RecallHarness) -> None:
        parts.keep(*TALK)
        assert "RocksDB" in list_texts(parts.ask("RocksDB writes"))[0]

    @pytest.mark.parametrize(
        ("question", "text"),
        [
            ("city", "We saw many cities."),
            ("cafe", "We met at the café."),
            ("header", "It fails in parseHeader."),
            ("京都", "東京都に行く"),
        ],
    )
    def test_another_form_of_the_word_is_found_at_once(
        self, wordy: RecallHarness, question: str, text: str
    ) -> None:
        wordy.keep(make_event(text))
        assert list_texts(wordy.ask(question)) == [text]
        wordy.keep_up()
        assert list_texts(wordy.ask(question)) == [text]

    @pytest.mark.parametrize("question", ["fooBar", "東京都", "lantern"])
    def test_what_has_none_of_the_words_is_not_found(
        self, wordy: RecallHarness, question: str
    ) -> None:
        wordy.keep(make_event("Nothing of it."))
        assert list_texts(wordy.ask(question)) == []
        wordy.keep_up()
        assert list_texts(wordy.ask(question)) == []

    def test_the_time_that_a_question_names_finds_it_at_once(self, wordy: RecallHarness) -> None:
        wordy.keep(make_event("The roof was repaired.", NOW - DAY))
        before = list_texts(wordy.ask("what happened yesterday"))
        wordy.keep_up()
        after = list_texts(wordy.ask("what happened yesterday"))
        assert before == after == ["The roof was repaired."]

    def test_what_was_removed_is_not_found_by_the_next_question(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        parts.forget(TALK[1])
        for mode in SearchMode:
            assert TALK[1].text not in list_texts(parts.ask("RocksDB writes", EVENTS, mode=mode))

    def test_by_meaning_it_is_found_when_it_is_embedded(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        assert (
            "RocksDB" in list_texts(parts.ask("RocksDB writes are fast", mode=SearchMode.VECTOR))[0]
        )


class TestDeterminism:
    @pytest.mark.parametrize("mode", SearchMode)
    def test_the_same_question_has_the_same_answer(
        self, parts: RecallHarness, mode: SearchMode
    ) -> None:
        parts.take_in(*TALK, *make_dialogue("RocksDB again.", "Why?", session="other"))
        first = parts.ask("RocksDB full text search", mode=mode)
        assert first.hits
        assert parts.ask("RocksDB full text search", mode=mode) == first
        again = parts.reopen()
        assert again.ask("RocksDB full text search", mode=mode) == first
        again.indexes.rebuild_words(lambda _: None)
        assert again.ask("RocksDB full text search", mode=mode) == first
        again.close()

    def test_the_answer_does_not_depend_on_whether_the_index_has_it_yet(
        self, wordy: RecallHarness
    ) -> None:
        wordy.keep(*TALK, *make_dialogue("RocksDB again.", "Why? It is fast.", session="other"))
        wordy.cut()
        before = wordy.ask("Is RocksDB fast for full text search?")
        wordy.keep_up()
        after = wordy.ask("Is RocksDB fast for full text search?")
        assert list_ids(before) == list_ids(after)
        scores = [hit.score for hit in after.hits]
        assert [hit.score for hit in before.hits] == pytest.approx(scores, abs=0.02)


class TestReasons:
    def test_a_hit_says_why_and_where(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        hit = parts.ask("RocksDB writes", EVENTS).hits[0]
        assert 0 < hit.score <= 1
        assert {"words", "meaning"} <= hit.parts.keys()
        assert hit.event_id == TALK[1].event_id
        assert hit.node_id.startswith("toc:segment:")

    def test_the_turns_around_carry_an_answer(self, parts: RecallHarness) -> None:
        parts.take_in(*make_dialogue("Where did you put the lantern?", "Up in the attic.", "Fine."))
        found = list_texts(parts.ask("lantern", EVENTS, mode=SearchMode.BM25))
        assert set(found[:2]) == {"Where did you put the lantern?", "Up in the attic."}

    def test_who_is_named_is_preferred(self, wordy: RecallHarness) -> None:
        wordy.take_in(
            make_event("I like pottery, truly.", NOW - 5 * DAY, session="a", speaker="Caroline"),
            make_event("I love pottery, truly.", NOW - 4 * DAY, session="b", speaker="Melanie"),
        )
        found = wordy.ask("What does Caroline like about pottery?", EVENTS)
        assert found.hits[0].document.speaker == "Caroline"
        assert "speaker" in found.hits[0].parts

    @pytest.mark.parametrize(
        ("expression", "wanted"),
        [
            ("last week", "2026-06-03"),
            ("in May", "2026-05-14"),
            ("before the release on 1 May", "2026-03-02"),
        ],
    )
    def test_what_happened_at_the_time_named_is_preferred(
        self, parts: RecallHarness, expression: str, wanted: str
    ) -> None:
        days = ("2026-03-02", "2026-05-14", "2026-06-03", "2026-06-10")
        parts.take_in(
            *(
                make_event("We changed the deploy script.", parse_time(day), session=day)
                for day in days
            )
        )
        for mode in SearchMode:
            best = parts.ask(f"the deploy script {expression}", EVENTS, mode=mode).hits[0]
            assert best.document.session == wanted
            assert best.parts["time"] > 0


class TestEchoes:
    QUESTION = "Which database shall we take for the event log?"

    @pytest.mark.parametrize("mode", SearchMode)
    @pytest.mark.parametrize("indexed", [True, False])
    def test_a_question_that_was_recorded_is_not_its_own_answer(
        self, parts: RecallHarness, mode: SearchMode, indexed: bool
    ) -> None:
        parts.take_in(*TALK)
        before = list_texts(parts.ask(self.QUESTION, EVENTS, mode=mode))
        assert before[0] == TALK[1].text
        for number in range(3):
            at = NOW - 9 * MINUTE + number * MINUTE
            asked = make_event(self.QUESTION, at, session=f"ask{number}")
            end = make_event("", at + 1, session=f"ask{number}", role="system")
            parts.keep(asked, end)
        if indexed:
            parts.keep_up()
        after = list_texts(parts.ask(self.QUESTION, EVENTS, mode=mode))
        assert after[0] == TALK[1].text
        assert after.count(self.QUESTION) <= 1

    def test_nor_are_its_grip_and_its_segment(self, wordy: RecallHarness) -> None:
        question = "event log database"
        wordy.take_in(*TALK, make_event(question, NOW - MINUTE, session="ask"))
        (best, *_) = wordy.ask(question, limit=100).hits
        assert best.document.session == TALK[0].session_id

    def test_what_the_assistant_asked_may_be_found(self, wordy: RecallHarness) -> None:
        wordy.take_in(*make_dialogue("Hello.", self.QUESTION))
        assert list_texts(wordy.ask(self.QUESTION, EVENTS))[0] == self.QUESTION


class TestFolding:
    def test_what_says_the_same_is_told_once_and_as_the_newest(self, parts: RecallHarness) -> None:
        text = "The nightly deploy of the staging cluster has failed once more."
        parts.take_in(*(make_event(text, NOW - n * DAY, session=f"s{n}") for n in range(1, 6)))
        found = parts.ask("deploy of the staging cluster", EVENTS)
        assert list_texts(found) == [text]
        assert found.hits[0].document.session == "s1"
        assert found.total == 1

    def test_case_and_blanks_make_no_difference(self, parts: RecallHarness) -> None:
        text = "The nightly deploy of the staging cluster has failed once more."
        parts.take_in(
            make_event(text, NOW - 1, session="a"),
            make_event(f"  {text.upper()}\n", NOW - 2, session="b"),
        )
        assert len(parts.ask("staging cluster", EVENTS).hits) == 1

    def test_a_few_words_are_not_folded(self, parts: RecallHarness) -> None:
        parts.take_in(*(make_event("Deploy failed.", NOW - n, session=f"s{n}") for n in range(3)))
        assert len(parts.ask("deploy", EVENTS).hits) == 3

    def test_a_grip_and_its_event_are_one_hit(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        grips = SearchScope(kinds=frozenset({DocumentKind.GRIP}))
        (grip, *_) = parts.ask("RocksDB", grips).hits
        found = parts.ask("RocksDB writes fast batches atomic", limit=100)
        about = [hit for hit in found.hits if hit.event_id == grip.event_id]
        standing = [hit for hit in about if hit.document.kind is not DocumentKind.SEGMENT]
        assert len(standing) == 1
        assert standing[0].grip_id == grip.document.id


class TestPages:
    @pytest.mark.parametrize("question", ["remark", "", "all"])
    @pytest.mark.parametrize("fresh", [0, 5])
    def test_together_they_are_one_big_page(
        self, wordy: RecallHarness, question: str, fresh: int
    ) -> None:
        events = [
            make_event(
                f"remark number {n}", NOW - DAY + n * MINUTE, session=f"s{n % 3}", name=f"{n:02}"
            )
            for n in range(25)
        ]
        wordy.take_in(*events[fresh:])
        wordy.keep(*events[:fresh])
        whole = complete(wordy.ask(question, EVENTS, limit=100))
        for limit in (1, 7, 25):
            found = pages(wordy, question, limit, EVENTS)
            assert [key for page in found for key in list_ids(page)] == whole
            assert {page.total for page in found} == {25}
            assert all(len(page.hits) == limit for page in found[:-1])
            assert found[-1].hits

    def test_a_listing_of_one_moment_is_paged_without_gaps(self, wordy: RecallHarness) -> None:
        wordy.take_in(
            *(make_event(f"remark {n}", NOW - DAY, name=f"{n * 7 % 20:02}") for n in range(20))
        )
        whole = list_ids(wordy.ask("", limit=100))
        found = [key for page in pages(wordy, "", 3) for key in list_ids(page)]
        assert found == whole
        assert len(set(found)) == len(found)

    def test_beyond_the_end_there_is_nothing(self, wordy: RecallHarness) -> None:
        wordy.take_in(*TALK)
        for question in ("RocksDB", ""):
            answer = wordy.ask(question, offset=1_000)
            assert (answer.hits, answer.next) == ((), None)

    def test_a_page_has_a_limit(self, wordy: RecallHarness) -> None:
        wordy.keep(
            *(make_event(f"remark {n}", NOW - n, session=f"s{n}") for n in range(MAX_LIMIT + 9))
        )
        wordy.keep_up()
        for question in ("", "remark"):
            assert len(wordy.ask(question, limit=0).hits) == 10
            assert len(wordy.ask(question, limit=10_000).hits) <= MAX_LIMIT
        assert wordy.ask("", limit=10_000).next == MAX_LIMIT

    def test_the_least_score_cuts_off_the_rest(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        whole = parts.ask("RocksDB search", limit=100)
        middle = whole.hits[len(whole.hits) // 2].score
        cut = parts.ask("RocksDB search", limit=100, min_score=middle)
        assert list(cut.hits) == [hit for hit in whole.hits if hit.score >= middle]
        assert 0 < cut.total < whole.total
        assert parts.ask("nothing of the kind", min_score=1.0).hits == ()


def complete(answer: RecallResult) -> list[str]:
    assert answer.next is None
    return list_ids(answer)


class TestListing:
    @pytest.mark.parametrize("question", ["", "  ", "all", "ALL "])
    def test_everything_is_listed_newest_first(self, parts: RecallHarness, question: str) -> None:
        parts.take_in(*TALK)
        found = parts.ask(question, EVENTS)
        assert list_texts(found) == [event.text for event in reversed(TALK)]
        assert found.total == len(TALK)

    def test_what_is_fresh_is_listed_among_the_others(self, parts: RecallHarness) -> None:
        parts.take_in(TALK[0], TALK[2])
        parts.keep(TALK[1], TALK[3])
        assert list_texts(parts.ask("", EVENTS)) == [event.text for event in reversed(TALK)]

    def test_what_changed_is_counted_once(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK[:2])
        parts.keep(*TALK[2:])
        parts.cut()
        fresh = parts.ask("", limit=100)
        assert fresh.total == len(fresh.hits)
        assert fresh.next is None
        parts.keep_up()
        assert sorted(list_ids(parts.ask("", limit=100))) == sorted(list_ids(fresh))

    def test_nothing_is_listed_of_nothing(self, parts: RecallHarness) -> None:
        assert parts.ask("") == RecallResult(hits=(), total=0)
        parts.keep_up()
        assert parts.ask("") == RecallResult(hits=(), total=0)


class TestWarnings:
    def test_where_all_is_well_there_is_none(self, parts: RecallHarness) -> None:
        parts.take_in(*TALK)
        for mode in SearchMode:
            assert parts.ask("RocksDB", mode=mode).warning is None
        assert parts.ask("").warning is None

    @pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.VECTOR])
    def test_without_an_embedder_words_answer(self, wordy: RecallHarness, mode: SearchMode) -> None:
        wordy.take_in(*TALK)
        answer = wordy.ask("RocksDB", mode=mode)
        assert answer.warning is not None
        assert "embedder.provider is none" in answer.warning
        assert answer.hits == wordy.ask("RocksDB", mode=SearchMode.BM25).hits != ()

    def test_a_backlog_of_the_embedder_is_no_warning(self, parts: RecallHarness) -> None:
        """Nobody can do anything about it, and words answer."""
        parts.take_in(*TALK)
        parts.keep(*(make_event(f"remark {n}", n, name=f"{n}") for n in range(500)))
        while parts.indexing.step():
            pass
        assert parts.queue.size() == 500
        assert parts.ask("RocksDB").warning is None

    def test_who_asks_for_words_alone_misses_no_embedder(self, wordy: RecallHarness) -> None:
        wordy.take_in(*TALK)
        assert wordy.ask("RocksDB", mode=SearchMode.BM25).warning is None

    @pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.VECTOR])
    def test_where_the_embedder_fails_words_answer(
        self, parts: RecallHarness, mode: SearchMode
    ) -> None:
        parts.take_in(*TALK)
        embedder(parts).reason = "the model is not there"
        answer = parts.ask("RocksDB", mode=mode)
        assert answer.warning is not None
        assert "the model is not there" in answer.warning
        assert answer.hits == parts.ask("RocksDB", mode=SearchMode.BM25).hits != ()

    @pytest.mark.parametrize("mode", [SearchMode.HYBRID, SearchMode.VECTOR])
    def test_vectors_that_do_not_fit_are_no_error(
        self, parts: RecallHarness, mode: SearchMode
    ) -> None:
        parts.take_in(*TALK)
        again = parts.reopen(TruncatingEmbedder(HashingEmbedder()))
        answer = again.ask("RocksDB", mode=mode)
        assert answer.warning is not None
        assert any("RocksDB" in text for text in list_texts(answer))
        again.close()

    @pytest.mark.parametrize("question", ["RocksDB", ""])
    def test_what_is_not_in_the_index_yet_is_told(
        self, wordy: RecallHarness, question: str
    ) -> None:
        wordy.take_in(*TALK)
        wordy.keep(*(make_event("remark", n, name=f"{n}") for n in range(unindexed.MOST + 5)))
        answer = wordy.ask(question, mode=SearchMode.BM25)
        assert answer.warning == "5 changes are not in the index yet"
        assert answer.hits
        wordy.keep_up()
        assert wordy.ask(question, mode=SearchMode.BM25).warning is None

    @pytest.mark.parametrize("question", ["RocksDB", ""])
    def test_an_index_that_was_lost_is_told(self, wordy: RecallHarness, question: str) -> None:
        wordy.take_in(*TALK)
        wordy.outbox.trim(wordy.log.watermark())
        wordy.close()
        (wordy.folder / "lexical").rename(wordy.folder / "lost")
        again = wordy.reopen()
        assert again.ask(question, mode=SearchMode.BM25).warning is not None
        again.keep_up()
        assert again.ask(question, mode=SearchMode.BM25).warning is None
        assert again.ask(question).hits
        again.close()

    @pytest.mark.parametrize("suffix", ["idx", "term", "store", "fast", "fieldnorm"])
    @pytest.mark.parametrize("damage", ["cut", "zeroed"])
    def test_a_damaged_index_is_no_error(
        self, parts: RecallHarness, suffix: str, damage: str
    ) -> None:
        parts.take_in(*TALK)
        parts.close()
        for each in (parts.folder / "lexical").glob(f"*.{suffix}"):
            content = each.read_bytes()
            half = len(content) // 2
            stored = content[:half]
            each.write_bytes(stored if damage == "cut" else stored + bytes(len(content) - half))
        again = parts.reopen()
        for mode in SearchMode:
            for question in ("RocksDB", "", "the deploy last week"):
                again.ask(question, mode=mode)
        by_meaning = again.ask("RocksDB writes are fast", mode=SearchMode.VECTOR)
        assert any("RocksDB" in text for text in list_texts(by_meaning))
        again.keep_up()
        assert any("RocksDB" in text for text in list_texts(again.ask("RocksDB")))
        assert again.ask("RocksDB").warning is None
        again.close()


class TestQuestions:
    @pytest.fixture
    def talk(self, parts: RecallHarness) -> RecallHarness:
        parts.take_in(*TALK, make_event("東京都の天気はいいです", NOW - DAY, session="ja"))
        return parts

    @pytest.mark.parametrize("mode", SearchMode)
    @pytest.mark.parametrize(
        "question", ["the of it", "?!", "xyzzy", "\0", "a" * 500, "🙂", "AND OR NOT (", 'text:"x']
    )
    def test_no_question_is_an_error(
        self, talk: RecallHarness, question: str, mode: SearchMode
    ) -> None:
        answer = talk.ask(question, mode=mode)
        assert answer.warning is None
        assert all(0.0 <= hit.score <= 1.0 for hit in answer.hits)

    def test_it_is_certain_if_the_best_hit_is_likely_to_be_right(self, talk: RecallHarness) -> None:
        right = talk.ask(list_texts(talk.ask("RocksDB", EVENTS, limit=1))[0], EVENTS)
        doubtful = talk.ask("purple zeppelin, seven tigers, one RocksDB", mode=SearchMode.BM25)
        for answer, certain in ((right, True), (doubtful, False)):
            assert answer.certain is certain
            assert (max(hit.score for hit in answer.hits) >= CERTAIN_SCORE) is certain
        assert talk.ask("").certain

    def test_every_page_of_an_answer_is_as_certain(self, talk: RecallHarness) -> None:
        (text,) = list_texts(talk.ask("RocksDB", EVENTS, limit=1))
        pages = [talk.ask(text, EVENTS, limit=1, offset=offset) for offset in range(3)]
        assert [page.certain for page in pages] == [True] * 3
        assert pages[-1].hits[0].score < CERTAIN_SCORE

    def test_unknown_words_find_nothing(self, talk: RecallHarness) -> None:
        answer = talk.ask("xyzzy plugh", mode=SearchMode.BM25)
        assert answer == RecallResult(hits=(), total=0, certain=False)

    def test_words_that_only_ask_are_looked_for_when_there_are_no_others(
        self, talk: RecallHarness
    ) -> None:
        found = list_texts(talk.ask("what do we do", EVENTS, mode=SearchMode.BM25))
        assert any("what do we do" in text for text in found)

    @pytest.mark.parametrize("mode", SearchMode)
    def test_a_question_may_be_long(self, talk: RecallHarness, mode: SearchMode) -> None:
        words = " ".join(f"word{n}" for n in range(2_000))
        question = f"RocksDB {words}"[:MAX_QUERY_CHARS]
        assert len(question) == MAX_QUERY_CHARS
        answer = talk.ask(question, mode=mode)
        assert mode is SearchMode.VECTOR or any("RocksDB" in text for text in list_texts(answer))

    def test_but_not_longer(self, talk: RecallHarness) -> None:
        with pytest.raises(InvalidInput, match="10,001 characters"):
            talk.ask("x" * (MAX_QUERY_CHARS + 1))

    @pytest.mark.parametrize("question", ["東京都", "天気", "東京都の天気はいいですか"])
    def test_text_without_blanks_is_found(self, talk: RecallHarness, question: str) -> None:
        answer = talk.ask(question, EVENTS, mode=SearchMode.BM25)
        assert list_texts(answer)[0] == "東京都の天気はいいです"

    def test_words_for_a_time_are_moments(self, talk: RecallHarness) -> None:
        first, last = talk.recall.resolve_time("yesterday")
        assert first == parse_time("2026-06-09")
        assert first < last < parse_time("2026-06-10")

    def test_a_time_range_holds(self, talk: RecallHarness) -> None:
        scope = SearchScope(since=TALK[1].at_ms, until=TALK[2].at_ms)
        for mode in SearchMode:
            found = talk.ask("RocksDB full text search", scope, mode=mode, limit=100)
            assert {hit.document.at_ms for hit in found.hits} <= {TALK[1].at_ms, TALK[2].at_ms}
            assert found.hits

    def test_a_turn_beside_a_hit_is_no_hit_where_it_is_out_of_scope(
        self, talk: RecallHarness
    ) -> None:
        found = talk.ask("Tantivy", SearchScope(role="assistant"), mode=SearchMode.BM25, limit=100)
        assert {hit.document.role for hit in found.hits} == {"assistant"}
