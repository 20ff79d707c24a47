"""Two stores of a team that differ only in what a caller does not see give them equal answers."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import pytest

from agent_memory.features.index.adapters import vectors
from agent_memory.features.index.model.queries import Query, SearchMode, SearchScope
from agent_memory.features.knowledge.model.facts import Claim, Fact
from agent_memory.features.memories.ports import MemoryChange
from agent_memory.features.recall.services import unindexed
from agent_memory.kernel import access
from agent_memory.kernel.access import Principal, Role
from agent_memory.kernel.ids import MAX_MILLIS, Domain, EventId, Millis, Position, SessionId
from tests import memory_values
from tests.contract.stores import DURABLE, OpenStore, rocks
from tests.embedders import HashingEmbedder
from tests.recall_parts import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    RecallHarness,
    build_recall,
    make_event,
    parse_time,
)

ADA = Principal(person="ada", role=Role.WRITER, projects=frozenset({"shop", "lab"}))
EVE = Principal(person="eve", role=Role.READER)
WORDS = [
    "cache",
    "lantern",
    "deploy",
    "harbour",
    "retry",
    "4711",
    "4712",
    "granite",
    "migrate",
    "backup",
    "invoice",
    "tide",
    "copper",
    "database",
    "decided",
    "token",
    "rollback",
    "kettle",
]
SPEAKERS = ("", "", "Melanie", "Orville")
NAMES = ("visible", "other")
Write = Callable[[RecallHarness], None]


@dataclass(frozen=True)
class Step:
    """Something that is recorded. `is_seen` tells whether the caller sees it."""

    is_seen: bool
    write: Write


class Author:
    """Makes records of random words."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.number = 0

    def text(self, *, seen: bool) -> str:
        chosen = self.chance.choices(WORDS, k=self.chance.choice([3, 6, 12, 60]))
        # Words that only others use, some of them a letter away from what everyone asks for.
        extra = () if seen else ("lanterm", "harbor", "9314", "Quentin")
        return " ".join([*chosen, *self.chance.sample(extra, len(extra) // 2)])

    def event(self, project: str, session: str, *, seen: bool) -> Write:
        self.number += 1
        role = self.chance.choice(["user", "assistant", "tool"])
        about = {"project": project} if project else {}
        if speaker := self.chance.choice((*SPEAKERS, *(() if seen else ("Quentin",)))):
            about["speaker"] = speaker
        event = make_event(
            self.text(seen=seen) + self.chance.choice(["", "?", "."]),
            NOW - 3 * DAY + self.chance.randrange(3 * 24) * HOUR,
            session=session,
            name=f"e-{self.number:04}",
            role=role,
            **about,
        )
        return lambda parts: parts.keep(event)

    def memory(self, domain: str, *, seen: bool) -> Write:
        self.number += 1
        memory = memory_values.memory(
            f"{self.number} {self.text(seen=seen)}"[:90].strip(),
            domain=Domain(domain),
            at=NOW - self.number * MINUTE,
        )
        return lambda parts: _check(parts.memories.write([MemoryChange(None, memory, None)]))

    def fact(self, scope: str, *, seen: bool) -> Write:
        self.number += 1
        claim = Claim(scope=scope, key=f"key {self.number}", value=self.text(seen=seen))
        return lambda parts: _check([bool(parts.facts.claim(claim))])

    def step_seen_by(self, caller: Principal) -> Step:
        """Return something that the caller sees."""
        project = self.chance.choice(["shop", "lab"] if caller.is_scoped else ["shop", "web", ""])
        own = f"project:{project}" if project else "global"
        domain = own if project else "org:acme"
        return Step(
            True,
            self.chance.choice(
                [
                    *[self.event(project, f"{project}-{self.chance.randrange(3)}", seen=True)] * 6,
                    self.memory(self.chance.choice([domain, caller.own_domain]), seen=True),
                    self.fact(self.chance.choice([own, caller.own_domain]), seen=True),
                ]
            ),
        )

    def step_hidden_from(self, caller: Principal) -> Step:
        private = [
            self.memory("user:bob", seen=False),
            self.memory("user", seen=False),
            self.fact("user:bob", seen=False),
        ]
        if not caller.is_scoped:
            return Step(False, self.chance.choice(private))
        project = self.chance.choice(["web", "shop2", ""])
        return Step(
            False,
            self.chance.choice(
                [
                    *[self.event(project, f"other-{self.chance.randrange(3)}", seen=False)] * 6,
                    self.memory("project:web", seen=False),
                    self.memory("org:acme", seen=False),
                    self.fact("project:web", seen=False),
                    self.fact("global", seen=False),
                    *private,
                ]
            ),
        )

    def step_within(self) -> Step:
        """Return a turn of a project that the caller does not see, amid a session that they do."""
        session = f"{self.chance.choice(['shop', 'lab'])}-{self.chance.randrange(3)}"
        return Step(False, self.event("web", session, seen=False))


def _check(done: list[bool]) -> None:
    assert all(done)


@contextmanager
def open_pair(folder: Path, store: OpenStore) -> Iterator[tuple[RecallHarness, RecallHarness]]:
    stores = [store(folder / f"{name}-db") for name in NAMES]
    one, other = (
        build_recall(stored, folder / name, HashingEmbedder(), team=True)
        for stored, name in zip(stores, NAMES, strict=True)
    )
    try:
        yield one, other
    finally:
        for parts in (one, other):
            parts.close()
            parts.store.close()


def ask_everything(parts: RecallHarness, caller: Principal) -> Iterator[object]:
    """Yield the answers to questions of every kind, and pages of every list."""
    questions = [
        "lantern",
        "9314",
        "What did we decide about the retry cache?",
        "harbour copper granite",
        "lantren deplyo",
        "harbr 4711",
        "What did Melanie say about the database?",
        "What did Quentin say about the database?",
        "kettle yesterday",
        "what happened last week",
        "all",
    ]
    scopes = [
        SearchScope(),
        SearchScope(project="shop"),
        SearchScope(since=Millis(NOW - DAY)),
        SearchScope(domains=frozenset({"user", "project"})),
    ]
    turns = zip(questions, cycle(scopes), cycle(SearchMode), strict=False)
    for question, scope, mode in turns:
        yield question, mode, parts.ask(question, scope, mode=mode, limit=7)
        yield question, parts.ask(question, limit=5, offset=5, min_score=0.05)
    yield parts.lexical.get_statistics(WORDS, caller)
    yield parts.tail.statistics(WORDS, SearchScope(caller=caller))
    yield from list_events(parts)


def list_events(parts: RecallHarness) -> Iterator[object]:
    after: Position | None = None
    while True:
        page = parts.log.list_between(Millis(0), Millis(MAX_MILLIS), after=after, limit=3)
        yield page
        for event in page.events:
            place = event.session_id, event.position
            yield parts.log.get_neighbors([place], reach=3)
            yield parts.log.list_session(place[0], after=place[1], limit=2, reverse=True)
        if (after := page.next) is None:
            break
    for number in range(0, 60, 7):
        yield parts.log.get(EventId(f"e-{number:04}"))
    for session in ("shop-1", "web-1", "other-1"):
        yield parts.log.list_session(SessionId(session), after=None, limit=100)
        yield parts.log.count_session(SessionId(session))
        yield parts.log.find_sessions("", limit=2)
    yield parts.log.find_events("e-", limit=5)
    yield parts.knowledge.list_after(Fact, "", limit=2)
    for node_id in (nodes := parts.contents.list_ids("toc:segment:", after=None, limit=3)):
        yield node_id, parts.contents.get_nodes([node_id])
    yield nodes, parts.contents.list_grips("grip", limit=3)
    yield parts.knowledge.list_page(Fact, limit=3, offset=2)
    for domain in parts.memories.list_domains():
        yield parts.memories.list_domain(domain, after=None, limit=100)


def compare(one: RecallHarness, other: RecallHarness, caller: Principal) -> None:
    with access.work_for(caller):
        answers = zip(ask_everything(one, caller), ask_everything(other, caller), strict=True)
        for seen, also in answers:
            assert repr(seen) == repr(also)


@pytest.fixture(params=DURABLE)
def store(request: pytest.FixtureRequest) -> OpenStore:
    return DURABLE[request.param]


@pytest.mark.parametrize("caller", [ADA, EVE], ids=lambda caller: caller.person)
@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("rocks", 0),
        ("rocks", 1),
        pytest.param("rocks", 2, marks=pytest.mark.soak),
        pytest.param("postgres", 1, marks=pytest.mark.soak),
    ],
)
def test_answers_are_equal_in_every_state(
    tmp_path: Path, caller: Principal, name: str, seed: int
) -> None:
    """Nothing indexed, a part of it, everything; and after records were removed."""
    author = Author(seed)
    seen = [author.step_seen_by(caller) for _ in range(40)]
    hidden = [author.step_hidden_from(caller) for _ in range(60)]
    hidden += [author.step_within() for _ in range(10 if caller.is_scoped and seed else 0)]
    author.chance.shuffle(hidden)
    with open_pair(tmp_path, DURABLE[name]) as (one, other):
        for number, step in enumerate(seen):
            if number % 20 == 10:
                for parts in (one, other):
                    parts.keep_up()
                compare(one, other, caller)
            step.write(one)
            step.write(other)
            for _ in range(author.chance.randrange(3) if number < len(seen) - 1 else len(hidden)):
                if hidden:
                    hidden.pop().write(other)
        compare(one, other, caller)
        for parts in (one, other):
            if not seed:  # a session of two projects is cut by the turns of both
                parts.cut()
            parts.keep_up()
        compare(one, other, caller)


def test_a_guess_at_a_hidden_number_tells_nothing(tmp_path: Path, store: OpenStore) -> None:
    """The attack that this is about: a thousand guesses, of which one is in a private memory."""
    author = Author(1)
    with open_pair(tmp_path, store) as (one, other):
        for _ in range(20):
            step = author.step_seen_by(EVE)
            for parts in (one, other):
                step.write(parts)
        secret = memory_values.memory("The pin is 314", domain=Domain("user:bob"))
        other.memories.write([MemoryChange(None, secret, None)])
        for parts in (one, other):
            parts.keep_up()
        with access.work_for(EVE):
            for number in range(300, 330):
                question = f"lantern {number}"
                assert repr(one.ask(question)) == repr(other.ask(question))


def test_a_flood_of_hidden_changes_hides_nothing_and_is_not_counted(
    tmp_path: Path, store: OpenStore
) -> None:
    with open_pair(tmp_path, store) as (one, other):
        for parts in (one, other):
            parts.keep(make_event("The lantern is in the attic", project="shop"))
            parts.keep_up()
        other.keep(
            *(
                make_event(f"lantern {n}", NOW - n, session="x", name=f"x-{n}", project="web")
                for n in range(unindexed.MOST + 100)
            )
        )
        with access.work_for(ADA):
            answer = other.ask("lantern")
            assert answer.warning is not None
            assert not any(letter.isdigit() for letter in answer.warning)
            assert replace(answer, warning=None) == replace(one.ask("lantern"), warning=None)


def test_who_sees_all_is_answered_as_before(tmp_path: Path) -> None:
    """A daemon of one's own ranks by the statistics of everything."""
    author = Author(5)
    steps = [author.step_seen_by(access.OWNER) for _ in range(30)]
    own = build_recall(DURABLE["rocks"](tmp_path / "db"), tmp_path / "own", HashingEmbedder())
    try:
        for step in steps:
            step.write(own)
        own.keep_up()
        terms = ["lantern", "copper", "4711"]
        counted = own.lexical.get_statistics(terms)
        assert own.lexical.get_statistics(terms, access.OWNER) == counted
        query = Query(text="lantern copper yesterday")
        with access.work_for(access.OWNER):
            answer = own.recall.search(query)
        assert answer == own.recall.search(query)
        assert answer.hits
    finally:
        own.close()
        own.store.close()


def test_the_newest_come_first_among_equals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of many equal hits are found does not depend on hidden ones between them."""
    monkeypatch.setattr(vectors, "EXACT", 50)
    monkeypatch.setattr(vectors, "SHORTLIST", 50)
    with open_pair(tmp_path, rocks) as (one, other):
        for number in range(1_200):
            event = make_event(
                "copper",
                parse_time("2026-01-01 00:00") + number % 7,
                name=f"c-{number:04}",
                project="shop",
            )
            one.keep(event)
            other.keep(event)
            if number % 3 == 0:
                other.keep(make_event("copper tide", NOW, name=f"h-{number}", project="web"))
            if number % 400 == 0:
                for parts in (one, other):
                    parts.keep_up()
        for parts in (one, other):
            parts.keep_up()
        with access.work_for(ADA):
            for mode in SearchMode:
                found = one.ask("copper", mode=mode, limit=60)
                assert repr(found) == repr(other.ask("copper", mode=mode, limit=60))


def test_a_summary_of_two_projects_has_no_part_in_what_one_of_them_finds(tmp_path: Path) -> None:
    with open_pair(tmp_path, rocks) as (_, parts):
        parts.take_in(
            make_event("We decided to polish the lantern", NOW - DAY, project="shop"),
            make_event("We decided on the periscope", NOW - DAY + 1, project="web"),
        )
        terms = ["lantern", "periscop"]
        assert parts.lexical.get_statistics(terms, EVE).frequencies == {"lantern": 3, "periscop": 3}
        seen = parts.lexical.get_statistics(terms, ADA)
        assert (seen.documents, seen.frequencies) == (1, {"lantern": 1, "periscop": 0})
        for mode in SearchMode:
            with access.work_for(ADA):
                assert [hit.document.text for hit in parts.ask("lantern", mode=mode).hits] == [
                    "We decided to polish the lantern"
                ]
