"""A question is not its own answer: turns that only ask come after those that answer."""

import pytest

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import SearchMode
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
from tests.recall_parts import DAY, NOW

QUESTION = "Where did we put the brass lantern?"
ANSWER = "Up in the attic, behind the trunk."
TOLD = "Someone saw a lantern once, made of brass, and put it away."


def join(*pools: list[Found]) -> list[Found]:
    """The pools as one, with the links of each."""
    joined: list[Found] = []
    for pool in pools:
        start = len(joined)
        for each in pool:
            each.before = tuple(start + place for place in each.before)
            each.after = tuple(start + place for place in each.after)
        joined += pool
    return joined


def asked_alone(text: str, *, role: str = "user", speaker: str = "") -> list[Found]:
    """A session that ends with this turn."""
    pool = separate(build_turn(text, BEGIN + DAY, role=role, speaker=speaker))
    pool[0].ends_session = True
    return pool


def is_echo(question: str, pool: list[Found], text: str) -> bool:
    """Whether a turn has a small part of the score that its words would give."""
    found = ranked(question, pool)[text]
    assert found.words > 0
    return found.evidence < found.words / 2


class TestSameQuestion:
    def test_asked_and_never_answered(self) -> None:
        pool = join(asked_alone(QUESTION), separate(build_turn(TOLD)))
        assert is_echo(QUESTION, pool, QUESTION)
        assert list_ranked(QUESTION, pool) == [TOLD, QUESTION]

    @pytest.mark.parametrize("mode", SearchMode)
    def test_asked_before_it_leads_to_its_answer(self, mode: SearchMode) -> None:
        pool = join(
            conversation(QUESTION, ANSWER), separate(build_turn("Brass is put to use.", BEGIN - 1))
        )
        for each, meaning in zip(pool, (1.0, 0.4, 0.3), strict=True):
            each.meaning = meaning
        found = list_ranked(QUESTION, pool, mode)
        assert found[0] == ANSWER
        assert found[-1] == QUESTION

    def test_asked_often_the_answer_still_comes_first(self) -> None:
        again = [separate(build_turn(QUESTION, BEGIN + n * DAY, name=f"{n}")) for n in range(1, 20)]
        for (each,) in again:
            each.ends_session = True
        pool = join(*again, conversation(QUESTION, ANSWER))
        assert list_ranked(QUESTION, pool)[0] == ANSWER

    @pytest.mark.parametrize(
        "again",
        [
            "where did we put the brass lantern",
            "So where did we put that brass lantern?",
            "Brass lantern: where did we put it?",
        ],
    )
    def test_in_other_words_that_only_ask(self, again: str) -> None:
        assert is_echo(again, asked_alone(QUESTION), QUESTION)
        assert is_echo(again, conversation(QUESTION, ANSWER), QUESTION)

    def test_a_prompt_without_a_question_mark_that_was_never_answered(self) -> None:
        prompt = "fatal: pathspec is beyond a symbolic link"
        assert is_echo(prompt, asked_alone(prompt), prompt)


class TestExcerpts:
    """Grips and segments repeat what was asked."""

    def echoes(self, pool: list[Found]) -> set[DocumentKind]:
        wanted = questions.parse_question(QUESTION, NOW)
        found = ranking.rank(wanted, pool, counted(pool, wanted), SearchMode.BM25)
        return {pool[each.place].hit.kind for each in found if each.evidence < each.words / 2}

    def test_of_a_prompt_alone_in_its_session(self) -> None:
        pool = asked_alone(QUESTION)
        at = pool[0].hit.at_ms
        for kind in (DocumentKind.GRIP, DocumentKind.SEGMENT, DocumentKind.MEMORY):
            pool += separate(build_turn(QUESTION, at, name=kind, role="", kind=kind))
        assert self.echoes(pool) == {DocumentKind.EVENT, DocumentKind.GRIP, DocumentKind.SEGMENT}

    def test_the_segment_of_a_question_and_its_answer_stays(self) -> None:
        pool = conversation(QUESTION, ANSWER)
        at = pool[0].hit.at_ms
        for kind in (DocumentKind.GRIP, DocumentKind.SEGMENT):
            pool += separate(build_turn(f"{QUESTION} {ANSWER}", at, name=kind, role="", kind=kind))
        pool += separate(
            build_turn(QUESTION, at + 1, name="later", role="", kind=DocumentKind.FACT)
        )
        assert self.echoes(pool) == {DocumentKind.EVENT, DocumentKind.GRIP}


class TestOtherTurns:
    def test_another_question_that_was_answered_stays(self) -> None:
        other = "Which brass polish does the lantern of the harbour master need in winter?"
        assert not is_echo(QUESTION, conversation(other, ANSWER), other)

    @pytest.mark.parametrize("follower", ["", "Never mind, let us eat."])
    def test_another_question_that_nobody_answered_is_one(self, follower: str) -> None:
        other = "Which brass polish does the lantern of the harbour master need in winter?"
        pool = asked_alone(other)
        if follower:
            pool = conversation(other, "", follower)
            pool = separate(*(each.document for each in pool if each.document.text))
            pool[0].after, pool[1].before = (1,), (0,)
        assert is_echo(QUESTION, pool, other)

    def test_a_statement_that_was_answered_is_none_even_if_it_equals_the_query(self) -> None:
        told = "The brass lantern is in the attic."
        assert not is_echo(told, conversation(told, "Noted."), told)
        assert not is_echo("brass lantern attic", conversation(told, "Noted."), told)

    def test_a_statement_in_the_middle_of_an_unknown_session_is_none(self) -> None:
        told = "The brass lantern is in the attic."
        assert not is_echo(told, separate(build_turn(told)), told)

    def test_a_note_that_nobody_answered_is_found_by_its_words(self) -> None:
        """Only the same text again is a repeated prompt."""
        told = "The brass lantern is in the attic."
        pool = asked_alone(told)
        assert not is_echo("brass lantern attic", pool, told)
        assert not is_echo("Where in the attic is the brass lantern?", pool, told)
        followed = separate(build_turn(told), build_turn("Let us eat.", BEGIN + 1))
        followed[0].after, followed[1].before = (1,), (0,)
        assert not is_echo("brass lantern attic", followed, told)

    @pytest.mark.parametrize("role", ["assistant", "tool", "system"])
    def test_only_a_user_prompts(self, role: str) -> None:
        assert not is_echo(QUESTION, asked_alone(QUESTION, role=role), QUESTION)

    def test_named_persons_do_not_prompt(self) -> None:
        alone = asked_alone(QUESTION, speaker="Caroline")
        assert not is_echo(QUESTION, alone, QUESTION)
        talk = conversation(QUESTION, ANSWER, speaker="Caroline")
        assert not is_echo(QUESTION, talk, QUESTION)
        named = questions.resolve_speakers(
            questions.parse_question("Where did Caroline put the brass lantern?", NOW),
            speakers("Caroline"),
        )
        found = ranked(named, alone)[QUESTION]
        assert found.evidence >= found.words + ranking.SPEAKER / 2
