"""What makes one candidate a better answer than another. Order and reasons, not numbers."""

from dataclasses import replace

import pytest

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import SearchMode, TermStatistics
from agent_memory.features.recall.model import questions, ranking
from tests.ranking_pools import (
    BEGIN,
    Found,
    build_turn,
    conversation,
    counted,
    list_ranked,
    ranked,
    separate,
    speakers,
)
from tests.recall_parts import DAY, MINUTE, NOW, parse_time


class TestWords:
    def test_what_has_the_words_comes_first(self) -> None:
        pool = separate(
            build_turn("The weather is fine."),
            build_turn("The lantern is in the attic.", BEGIN + 1),
        )
        assert list_ranked("lantern", pool)[0] == "The lantern is in the attic."

    def test_what_meets_more_of_the_question_is_better(self) -> None:
        pool = separate(
            build_turn("lantern lantern lantern", BEGIN + 1),
            build_turn("the lantern, in some attic", BEGIN),
        )
        assert list_ranked("lantern attic", pool)[0] == "the lantern, in some attic"

    def test_a_rare_word_weighs_more_than_a_common_one(self) -> None:
        pool = separate(
            build_turn("an attic here"),
            build_turn("a lantern here", BEGIN - 1),
            *(build_turn(f"attic {number}", BEGIN - number) for number in range(2, 9)),
        )
        assert list_ranked("lantern attic", pool)[0] == "a lantern here"

    def test_a_short_text_with_the_word_is_better_than_a_long_one(self) -> None:
        short, long = "the lantern hangs here", "the lantern " + "and more " * 60
        assert (
            list_ranked("lantern", separate(build_turn(long, BEGIN + 1), build_turn(short)))[0]
            == short
        )

    def test_an_essay_that_has_every_word_does_not_beat_the_sentence_that_answers(self) -> None:
        """Also where all else is long: the usual length is no average of what is stored."""
        essay = "the lantern and the attic and the ladder " + "and so much more of it " * 200
        answer = "The lantern hangs in the attic."
        others = [build_turn("nothing of it " * 500, BEGIN - n, name=f"{n}") for n in range(20)]
        pool = separate(build_turn(essay, BEGIN + 1), build_turn(answer), *others)
        assert list_ranked("Is there a ladder to the lantern in the attic?", pool)[0] == answer

    def test_a_title_is_part_of_what_is_said(self) -> None:
        titled = replace(build_turn("In the attic."), title="Where the lantern is")
        found = ranked("lantern", separate(titled, build_turn("Somewhere else.", BEGIN + 1)))
        assert found["In the attic."].parts["words"] > 0
        assert "words" not in found["Somewhere else."].parts

    @pytest.mark.parametrize(
        ("question", "text"),
        [
            ("city", "We saw many cities."),
            ("cities", "It is a city."),
            ("fly", "Time flies."),
            ("cafe", "We met at the café."),
            ("café", "We met at the Cafe."),
            ("eclair", "An éclair, please."),
            ("bar", "It is in fooBar."),
            ("fooBar", "There is a bar."),
            ("京都", "東京都に行く"),
            ("東京都", "京都に行く"),
        ],
    )
    def test_another_form_of_the_word_counts_like_the_word(self, question: str, text: str) -> None:
        found = ranked(
            question, separate(build_turn(text), build_turn("Nothing of it.", BEGIN + 1))
        )
        assert next(iter(found)) == text
        assert found[text].parts["words"] > 0


class TestNeighbours:
    def test_a_turn_has_words_from_those_before_it_and_none_from_those_after(self) -> None:
        pool = conversation("Zero.", "One.", "The lantern.", "Three.", "Four.")
        found = ranked("lantern", pool)
        assert next(iter(found)) == "The lantern."
        for text in ("Three.", "Four."):
            assert 0 < found[text].parts["words"] < found["The lantern."].parts["words"]
        for text in ("Zero.", "One."):
            assert "words" not in found[text].parts

    def test_the_nearer_the_more(self) -> None:
        reach = range(ranking.REACH)
        pool = conversation("The lantern.", *(f"And {number}." for number in reach))
        found = ranked("lantern", pool)
        flowed = [found[f"And {number}."].parts.get("words", 0.0) for number in reach]
        assert flowed == sorted(flowed, reverse=True)

    def test_beyond_its_reach_nothing_flows(self) -> None:
        between = [f"And {number}." for number in range(ranking.REACH)]
        found = ranked("lantern", conversation("The lantern.", *between, "Far."))
        assert found["Far."].parts == {}

    def test_a_turn_after_a_question_has_more_of_its_words(self) -> None:
        asks = ranked("lantern", conversation("Where is the lantern?", "In the attic."))
        tells = ranked("lantern", conversation("There is the lantern.", "In the attic."))
        asked, plain = asks["In the attic."].parts, tells["In the attic."].parts
        assert asked["words"] > plain["words"] > 0

    def test_only_the_turn_right_after_a_question_does(self) -> None:
        rest = ("Hm.", "Well.", "In the attic.")
        asks = ranked("lantern", conversation("Where is the lantern?", *rest))
        tells = ranked("lantern", conversation("There is the lantern.", *rest))
        asked, plain = asks["In the attic."].parts, tells["In the attic."].parts
        assert asked["words"] == pytest.approx(plain["words"])

    def test_a_long_turn_takes_little_from_those_around_it(self) -> None:
        long = "so it goes on " * 5 * ranking.LONG_TURN_WORDS
        found = ranked("lantern", conversation("Yes, there.", "The lantern.", long))
        short = ranked("lantern", conversation(long, "The lantern.", "Yes, there."))
        assert 0 < found[long].parts["words"] < short["Yes, there."].parts["words"] / 3

    def test_its_own_words_count_in_full_however_long_the_turns_around_are(self) -> None:
        pool = conversation("so it goes on " * 200, "The lantern.", "and on " * 200)
        alone = separate(*(each.document for each in pool))
        together, apart_ = ranked("lantern", pool), ranked("lantern", alone)
        assert together["The lantern."].evidence == pytest.approx(apart_["The lantern."].evidence)

    def test_meaning_is_evened_out_over_the_turns_around(self) -> None:
        pool = conversation("Zero.", "One.", "Two.", "Three.", "Four.", "Five.", "Six.")
        for candidate in pool:
            candidate.meaning = 0.0
        pool[3].meaning = 1.0
        found = ranked("?", pool, SearchMode.VECTOR)
        assert next(iter(found)) == "Three."
        assert {"Two.", "Four."} <= {text for text, each in found.items() if each.evidence > 0}
        assert found["Zero."].evidence == 0.0


class TestSpeakers:
    QUESTION = "What did Caroline say about pottery?"

    def test_the_turns_of_the_one_who_is_named_are_better(self) -> None:
        pool = separate(
            build_turn("I love pottery, truly.", BEGIN + 1, name="a", speaker="Melanie"),
            build_turn("I like pottery, truly.", BEGIN, name="b", speaker="Caroline"),
        )
        question = questions.parse_question(self.QUESTION, NOW)
        assert list_ranked(question, pool)[0] == "I love pottery, truly."
        named = questions.resolve_speakers(question, speakers("Caroline"))
        found = ranked(named, pool)
        assert next(iter(found)) == "I like pottery, truly."
        assert found["I like pottery, truly."].parts["speaker"] > 0
        assert "speaker" not in found["I love pottery, truly."].parts

    def test_only_turns_have_a_speaker(self) -> None:
        grip = build_turn("pottery", name="g", speaker="Caroline", kind=DocumentKind.GRIP)
        named = questions.resolve_speakers(
            questions.parse_question(self.QUESTION, NOW), speakers("Caroline")
        )
        assert "speaker" not in ranked(named, separate(grip))["pottery"].parts


class TestFirstPerson:
    POOL = ("I keep the lantern in the attic.", "You keep the lantern in the attic.")

    def pool(self) -> list[Found]:
        mine, yours = self.POOL
        return separate(build_turn(mine), build_turn(yours, BEGIN + 1, role="assistant"))

    @pytest.mark.parametrize(
        "question", ["Where do I keep the lantern?", "my lantern", "Tell me about the lantern"]
    )
    def test_who_asks_about_themselves_gets_their_own_words_first(self, question: str) -> None:
        found = ranked(question, self.pool())
        assert list(found) == list(self.POOL)
        assert found[self.POOL[0]].parts["speaker"] > 0
        assert "speaker" not in found[self.POOL[1]].parts

    @pytest.mark.parametrize("question", ["Where is the lantern?", "Where do we keep our lantern?"])
    def test_other_questions_prefer_nobody(self, question: str) -> None:
        found = ranked(question, self.pool())
        assert not any("speaker" in each.parts for each in found.values())

    def test_a_name_comes_before_the_first_person(self) -> None:
        """ "What did Ada tell me" asks for the words of Ada."""
        ada = build_turn("The lantern is up here.", BEGIN, speaker="Ada", role="user")
        mine = build_turn("The lantern is up there.", BEGIN + 1)
        question = questions.resolve_speakers(
            questions.parse_question("What did Ada tell me about the lantern?", NOW),
            speakers("Ada"),
        )
        found = ranked(question, separate(ada, mine))
        assert next(iter(found)) == ada.text
        assert "speaker" not in found[mine.text].parts


class TestKinds:
    TEXT = "The lantern hangs in the attic."

    def list_ranked(self, *kinds: DocumentKind) -> list[DocumentKind]:
        """The first is the oldest, so that time alone would put it last."""
        pool = separate(
            *(
                build_turn(self.TEXT, BEGIN + n, name=f"{n}", kind=kind)
                for n, kind in enumerate(kinds)
            )
        )
        question = questions.parse_question("lantern attic", NOW)
        found = ranking.rank(question, pool, counted(pool, question), SearchMode.BM25)
        return [pool[each.place].hit.kind for each in found]

    def test_what_was_decided_comes_before_what_was_said_and_that_before_its_summary(self) -> None:
        wanted = [DocumentKind.MEMORY, DocumentKind.EVENT, DocumentKind.SEGMENT]
        assert self.list_ranked(*wanted) == wanted

    def test_a_fact_and_a_grip_are_as_good_as_an_event(self) -> None:
        kinds = [DocumentKind.EVENT, DocumentKind.FACT, DocumentKind.GRIP]
        assert self.list_ranked(*kinds) == kinds[::-1]

    def test_a_memory_that_answers_less_stays_behind(self) -> None:
        said = build_turn("The lantern hangs in the attic.")
        decided = build_turn("Mind the attic.", BEGIN + 1, kind=DocumentKind.MEMORY)
        assert list_ranked("lantern attic", separate(decided, said))[0] == said.text


class TestTime:
    @pytest.mark.parametrize(
        ("expression", "within", "outside"),
        [
            ("last week", "2026-06-03 10:00", "2026-05-20 10:00"),
            ("yesterday", "2026-06-09 10:00", "2026-06-05 10:00"),
            ("in May", "2026-05-14 10:00", "2026-03-14 10:00"),
            ("before the release on 3 June", "2026-06-02 10:00", "2026-06-09 10:00"),
            ("since Monday", "2026-06-09 10:00", "2026-06-01 10:00"),
            ("on 8 May 2023", "2023-05-08 10:00", "2023-05-02 10:00"),
        ],
    )
    def test_what_happened_then_is_better(self, expression: str, within: str, outside: str) -> None:
        pool = separate(
            build_turn("we changed the deploy script", parse_time(within), name="within"),
            build_turn("we changed a deploy script", parse_time(outside), name="outside"),
        )
        question = questions.parse_question(f"the deploy script {expression}", NOW)
        statistics = counted(pool, question)
        for mode in SearchMode:
            best, rest = ranking.rank(question, pool, statistics, mode)
            assert pool[best.place].document.id == "within"
            assert best.parts["time"] > rest.parts.get("time", 0.0)

    def test_things_are_told_some_days_after_they_happened(self) -> None:
        days = {"soon": "2026-05-12", "late": "2026-06-07", "before": "2026-04-25"}
        pool = separate(
            *(build_turn(name, parse_time(day), name=name) for name, day in days.items())
        )
        found = ranked("the deploy on 10 May 2026", pool)
        times = {text: each.parts.get("time", 0.0) for text, each in found.items()}
        assert times["soon"] > times["late"] >= times["before"] == 0.0

    def test_a_question_without_a_time_prefers_none(self) -> None:
        pool = separate(
            build_turn("deploy", NOW - 400 * DAY, name="a"), build_turn("deploy", NOW, name="b")
        )
        question = questions.parse_question("deploy", NOW)
        for each in ranking.rank(question, pool, counted(pool, question), SearchMode.BM25):
            assert "time" not in each.parts


class TestModes:
    def pool(self) -> list[Found]:
        pool = separate(build_turn("the lantern", BEGIN), build_turn("the old lamp", BEGIN + 1))
        pool[0].meaning, pool[1].meaning = 0.2, 0.7
        return pool

    def test_by_words_alone_meaning_does_not_count(self) -> None:
        found = ranked("lantern", self.pool(), SearchMode.BM25)
        assert list(found) == ["the lantern", "the old lamp"]
        assert all("meaning" not in each.parts for each in found.values())

    def test_by_meaning_alone_words_do_not_count(self) -> None:
        found = ranked("lantern", self.pool(), SearchMode.VECTOR)
        assert list(found) == ["the old lamp", "the lantern"]
        assert all("words" not in each.parts for each in found.values())

    def test_together_both_count(self) -> None:
        found = ranked("lantern", self.pool(), SearchMode.HYBRID)
        assert set(found["the lantern"].parts) == {"words", "meaning"}

    def test_what_is_not_embedded_yet_is_taken_to_be_as_near_as_most(self) -> None:
        pool = separate(build_turn("near"), build_turn("far"), build_turn("unknown"))
        pool[0].meaning, pool[1].meaning = 0.9, 0.1
        assert list_ranked("?", pool, SearchMode.VECTOR) == ["near", "unknown", "far"]

    @pytest.mark.parametrize("mode", SearchMode)
    def test_the_parts_add_up_to_the_score(self, mode: SearchMode) -> None:
        pool = conversation("Where is the lantern?", "In the attic.", "Fine.", speaker="Ada")
        for candidate, meaning in zip(pool, (0.5, 0.3, 0.0), strict=True):
            candidate.meaning = meaning
        question = questions.resolve_speakers(
            questions.parse_question("Ada's lantern yesterday or today", NOW), speakers("Ada")
        )
        weight = {"words": 1.0, "meaning": 1.0, "speaker": 1.0, "time": 1.0}
        total = 1.0
        if mode is SearchMode.HYBRID:
            weight["meaning"] = ranking.MEANING
            total += ranking.MEANING
        for each in ranked(question, pool, mode).values():
            explained = sum(weight[part] * share for part, share in each.parts.items()) / total
            assert each.evidence == pytest.approx(min(1.0, max(0.0, explained)))

    @pytest.mark.parametrize("mode", SearchMode)
    def test_of_nothing_nothing_is_ranked(self, mode: SearchMode) -> None:
        statistics = TermStatistics(documents=0, frequencies={})
        assert ranking.rank(questions.parse_question("lantern", NOW), [], statistics, mode) == []


class TestTies:
    @pytest.mark.parametrize("mode", SearchMode)
    def test_of_equals_the_newer_comes_first(self, mode: SearchMode) -> None:
        pool = separate(
            *(build_turn("the lantern", BEGIN + n * DAY, name=f"{n}") for n in (1, 3, 0, 2))
        )
        question = questions.parse_question("lantern", NOW)
        found = ranking.rank(question, pool, counted(pool, question), mode)
        assert [pool[each.place].document.id for each in found] == ["3", "2", "1", "0"]

    def test_of_the_same_moment_the_order_is_that_of_kind_and_id(self) -> None:
        pool = separate(
            build_turn("the lantern", name="b"),
            build_turn("the lantern", name="a", kind=DocumentKind.GRIP),
            build_turn("the lantern", name="a"),
        )
        question = questions.parse_question("lantern", NOW)
        found = ranking.rank(question, pool, counted(pool, question), SearchMode.BM25)
        assert [pool[each.place].document.key for each in found] == ["event:a", "event:b", "grip:a"]


class TestScores:
    def test_a_hit_with_a_lead_is_more_certain(self) -> None:
        question, right = "where is the brass lantern", "The brass lantern is in the attic."
        alone = ranked(
            question, separate(build_turn(right), build_turn("Good morning.", BEGIN + MINUTE))
        )
        among = ranked(
            question,
            separate(build_turn(right), build_turn("The brass lantern broke.", BEGIN + MINUTE)),
        )
        assert alone[right].score > among[right].score

    def test_a_lone_hit_with_little_evidence_is_not_certain(self) -> None:
        question = "where is the brass lantern of the old harbour master"
        (found,) = ranked(
            question, separate(build_turn("The harbour is closed.")), SearchMode.HYBRID
        ).values()
        assert found.score < ranking.CERTAIN_SCORE

    @pytest.mark.parametrize("mode", SearchMode)
    def test_scores_have_the_order_of_the_evidence(self, mode: SearchMode) -> None:
        texts = ("A brass lantern.", "The lantern.", "It is brass.", "Good morning.")
        pool = separate(*(build_turn(text, BEGIN + n * MINUTE) for n, text in enumerate(texts)))
        for candidate, meaning in zip(pool, (0.9, 0.6, 0.5, 0.1), strict=True):
            candidate.meaning = meaning
        found = list(ranked("brass lantern", pool, mode).values())
        assert [each.score for each in found] == sorted((e.score for e in found), reverse=True)
        assert all(0.0 < each.score < 1.0 for each in found)
