"""Recall as a whole: no filter is ever violated, no answer depends on what is indexed yet."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import SearchMode, SearchScope
from agent_memory.features.log.model.events import Event
from agent_memory.kernel.ids import Millis
from tests.embedders import HashingEmbedder
from tests.recall_parts import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    RecallHarness,
    list_ids,
    make_event,
    open_recall,
)

WORDS = ("lantern", "attic", "city", "cities", "parseHeader", "decided", "RocksDB", "where?")
SESSIONS, PROJECTS, AGENTS = ("one", "two: 2"), ("", "alpha", "beta"), ("", "claude")
ROLES = ("user", "assistant", "tool")
MOMENTS = [NOW - DAY + n * 10 * MINUTE for n in range(12)]

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
questions = st.one_of(
    st.lists(st.sampled_from((*WORDS, "yesterday", "the")), min_size=1, max_size=4).map(" ".join),
    st.just(""),
)
scopes = st.builds(
    lambda since, until, **rest: SearchScope(
        since=Millis(min(since, until)), until=Millis(max(since, until)), **rest
    ),
    since=st.sampled_from([0, *MOMENTS]),
    until=st.sampled_from([*MOMENTS, NOW + HOUR]),
    kinds=st.frozensets(
        st.sampled_from((DocumentKind.EVENT, DocumentKind.SEGMENT, DocumentKind.GRIP)), max_size=2
    ),
    project=st.sampled_from(PROJECTS),
    session=st.sampled_from(("", *SESSIONS)),
    agent=st.sampled_from(AGENTS),
    role=st.sampled_from(("", *ROLES)),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Some events, the first in time first or not."""
    return [
        make_event(
            draw(texts),
            draw(st.sampled_from(MOMENTS)),
            session=draw(st.sampled_from(SESSIONS)),
            name=f"{number:02}",
            role=draw(st.sampled_from(ROLES)),
            project=draw(st.sampled_from(PROJECTS)),
            agent=draw(st.sampled_from(AGENTS)),
        )
        for number in range(draw(st.integers(1, 10)))
    ]


@contextmanager
def temporary(*, embedded: bool) -> Iterator[RecallHarness]:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_recall(Path(folder), HashingEmbedder() if embedded else None) as parts,
    ):
        yield parts


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecallHarness]:
    """Conversations of many kinds: most of them indexed, some stored just now."""
    with open_recall(tmp_path_factory.mktemp("library"), HashingEmbedder()) as parts:
        events = [
            make_event(
                f"{WORDS[n % 8]} {WORDS[n * 3 % 8]} {WORDS[n * 5 % 7]}: we decided on number {n}.",
                MOMENTS[n % 12] + n // 12,
                session=SESSIONS[n % 2],
                name=f"{n:03}",
                role=ROLES[n % 3],
                project=PROJECTS[n // 5 % 3],
                agent=AGENTS[n // 7 % 2],
            )
            for n in range(90)
        ]
        parts.take_in(*events[:70])
        parts.keep(*events[70:80])
        parts.cut()
        parts.keep(*events[80:])
        yield parts


@settings(deadline=None, max_examples=settings().max_examples)
@given(question=questions, scope=scopes, mode=st.sampled_from(SearchMode))
def test_no_hit_is_out_of_scope(
    library: RecallHarness, question: str, scope: SearchScope, mode: SearchMode
) -> None:
    answer = library.ask(question, scope, mode=mode, limit=100)
    for hit in answer.hits:
        assert scope.admits(hit.document), hit
        assert 0.0 <= hit.score <= 1.0
    assert len(set(list_ids(answer))) == len(answer.hits)


@settings(deadline=None, max_examples=settings().max_examples // 2)
@given(question=questions, scope=scopes, mode=st.sampled_from(SearchMode), limit=st.integers(1, 20))
def test_pages_are_the_whole_cut_in_pieces(
    library: RecallHarness, question: str, scope: SearchScope, mode: SearchMode, limit: int
) -> None:
    whole: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = library.ask(question, scope, mode=mode, offset=offset, limit=100)
        whole += list_ids(page)
        offset = page.next
    found: list[str] = []
    offset = 0
    while offset is not None and offset <= 60:
        page = library.ask(question, scope, mode=mode, offset=offset, limit=limit)
        found += list_ids(page)
        offset = page.next
    assert found == whole[: len(found)]
    assert offset is not None or found == whole


@settings(deadline=None, max_examples=20)
@given(history=histories(), scope=scopes, question=questions)
def test_a_filter_hides_nothing_that_it_admits(
    history: list[Event], scope: SearchScope, question: str
) -> None:
    """With so few events all are near enough to be looked at, filtered or not."""
    distinct = [replace(event, text=f"{event.text} {event.event_id}") for event in history]
    events = SearchScope(kinds=frozenset({DocumentKind.EVENT}))
    filtered = replace(scope, kinds=events.kinds)
    with temporary(embedded=True) as parts:
        parts.take_in(*distinct)
        for mode in (SearchMode.HYBRID, SearchMode.VECTOR):
            everything = parts.ask(question, events, mode=mode, limit=100)
            admitted = [hit for hit in everything.hits if filtered.admits(hit.document)]
            found = parts.ask(question, filtered, mode=mode, limit=100)
            assert list_ids(found) == [hit.document.key for hit in admitted]


@settings(deadline=None, max_examples=25)
@given(history=histories(), question=questions, cut=st.booleans())
def test_words_find_the_same_before_and_after_they_are_indexed(
    history: list[Event], question: str, cut: bool
) -> None:
    with temporary(embedded=False) as parts:
        parts.keep(*history)
        if cut:
            parts.cut()
        before = parts.ask(question, mode=SearchMode.BM25, limit=100)
        assert parts.ask(question, mode=SearchMode.BM25, limit=100) == before
        parts.keep_up()
        after = parts.ask(question, mode=SearchMode.BM25, limit=100)
        assert sorted(list_ids(before)) == sorted(list_ids(after))
        assert list_ids(before) == list_ids(after)
