"""Forgetting against a model: events of two sessions in any order, forgotten in any order.

Afterwards the table of contents is what a new store gives for the events that stay, nothing of the
others is anywhere, and what belongs to other sessions is as it was.
"""

from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agent_memory.features.forgetting.model.forgetting import Selection
from agent_memory.features.forgetting.services.forgetting import PHASES
from agent_memory.features.log.model.events import Event
from agent_memory.features.toc.model import segments
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.toc import TocNode
from agent_memory.kernel.errors import Cancelled
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.store import families
from tests.contract.documents import scratch
from tests.contract.stores import TIMEOUT, everything, memory
from tests.forgetting_parts import ManualClock, open_harness
from tests.property.toc import test_toc_model as toc_model
from tests.property.toc.test_toc_model import (
    ALL,
    BEGINNING,
    ORIGINS,
    ROLES,
    RULES,
    SESSIONS,
    Saying,
    bare,
    sayings,
)
from tests.toc_harness import SetClock


class ForgettingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.open = ExitStack()
        folder = self.open.enter_context(scratch())
        self.clock = ManualClock(ORIGINS[0] + 1_000_000)
        self.keeping = self.open.enter_context(open_harness(folder, rules=RULES, clock=self.clock))
        self.numbers = count()
        self.events: dict[EventId, Event] = {}
        self.gone: dict[EventId, Event] = {}
        self.unfinished: set[EventId] = set()

    @initialize(given=st.lists(sayings, min_size=6, max_size=16))
    def begin(self, given: list[Saying]) -> None:
        self.ingest(given)
        self.take_in()

    @rule(given=st.lists(sayings, min_size=1, max_size=5))
    def ingest(self, given: list[Saying]) -> None:
        created = []
        for number, (session, at_ms, kind, text) in zip(self.numbers, given, strict=False):
            event = Event(
                event_id=EventId(f"{number * 7 % 10}-{number}"),
                session_id=session,
                at_ms=Millis(at_ms),
                type=kind,
                role=ROLES[kind],
                # No two say the same, so what is found can be told to be of one of them.
                text=f"{text} Ask about {_mark(number)} again." if text else "",
                metadata={"speaker": f"{_mark(number)}s", "tool_name": f"{_mark(number)}t"},
            )
            created.append(event)
            self.events[event.event_id] = event
        assert all(self.keeping.parts.log.append(created).result(TIMEOUT))

    @rule()
    def take_in(self) -> None:
        while self.keeping.segmenting.step():
            pass
        self.keeping.segmenting.seal()

    @rule(by_ms=st.sampled_from([60_000, 3_600_000]))
    def pass_time_and_roll_up(self, by_ms: int) -> None:
        self.clock.at_ms += by_ms
        self.keeping.segmenting.seal()
        self.keeping.rollup.run(lambda _: None)

    @precondition(lambda self: self.events)
    @rule(data=st.data())
    def forget_an_event(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.events)))
        self._forget(Selection(event_id=chosen), {chosen})

    @rule(session=st.sampled_from(SESSIONS))
    def forget_a_session(self, session: SessionId) -> None:
        held = {name for name, event in self.events.items() if event.session_id == session}
        self._forget(Selection(session_id=session), held)

    @precondition(lambda self: self.events)
    @rule(data=st.data(), length=st.sampled_from([0, 20_000, 90_000, 10**8]))
    def forget_a_time(self, data: st.DataObject, length: int) -> None:
        since = self.events[data.draw(st.sampled_from(sorted(self.events)))].at_ms
        until = Millis(since + length)
        held = {name for name, event in self.events.items() if since <= event.at_ms <= until}
        self._forget(Selection(since=since, until=until), held)

    @precondition(lambda self: self.events and not self.unfinished)
    @rule(data=st.data(), at=st.sampled_from(PHASES))
    def forget_an_event_but_break_off(self, data: st.DataObject, at: str) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.events)))

        def done(phase: str, _: int) -> None:
            if phase == at:
                raise Cancelled

        with pytest.raises(Cancelled):
            self.keeping.forgetting.forget_events(Selection(event_id=chosen), done)
        if at != PHASES[0]:  # before that nothing was decided
            self.unfinished = {chosen}
            self.gone[chosen] = self.events.pop(chosen)

    @rule()
    def finish(self) -> None:
        self.keeping.forgetting.finish(lambda: None)
        self.unfinished.clear()
        self._check_gone()

    @rule()
    def settle(self) -> None:
        self.finish()
        everyone = [*self.events.values(), *self.gone.values()]
        self.clock.at_ms = max([self.clock.at_ms, *(event.at_ms for event in everyone)])
        self.clock.at_ms += RULES.time_gap_ms
        self.keeping.work()
        self._check_gone()
        self._check_against_a_new_store()
        self._check_marks()

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            self.open.close()

    def _forget(self, selection: Selection, held: set[EventId]) -> None:
        preview = self.keeping.forgetting.preview(selection)
        assert preview.events == len(held)
        others = self._kept_elsewhere({self.events[name].session_id for name in held})
        report = self.keeping.forgetting.forget_events(selection, lambda _phase, _count: None)
        assert report.events == len(held | self.unfinished)
        assert report.proof.found_in == ()
        if not self.unfinished:
            assert self._kept_elsewhere({self.events[n].session_id for n in held}) == others
        self.unfinished.clear()
        for name in held:
            self.gone[name] = self.events.pop(name)
        self._check_gone()

    def _kept_elsewhere(self, besides: set[SessionId]) -> dict[NodeId, list[TocNode]]:
        """The segments of the other sessions, with their histories."""
        toc = self.keeping.parts.toc
        names = [
            segments.build_node_id(event.session_id, event.position)
            for event in self.events.values()
            if event.session_id not in besides
        ]
        present = zip(names, toc.get_nodes(names), strict=True)
        return {
            name: [*toc.list_versions(name, limit=ALL), *([] if node is None else [node])]
            for name, node in present
        }

    def _check_gone(self) -> None:
        """No word of what was forgotten is left in the store; its ids are taken for ever."""
        parts = self.keeping.parts
        if self.gone:
            assert not any(parts.log.append(list(self.gone.values())).result(TIMEOUT))
        for name in self.gone:
            assert parts.log.get(name) is None
        marks = [_mark_of(name).encode() for name in self.gone]
        for family in families.ALL:
            rows = everything(parts.store, family)
            whole = b"\0".join(part for row in rows for part in row)
            assert not [mark for mark in marks if mark in whole], family
        assert everything(parts.store, families.PROGRESS) == [
            row
            for row in everything(parts.store, families.PROGRESS)
            if not row[0].startswith(b"forgetting:")
        ]
        for event in self.events.values():
            assert parts.log.get(event.event_id) == event

    def _check_against_a_new_store(self) -> None:
        fresh = toc_model.over(memory(Path()), SetClock(self.clock.at_ms))
        try:
            if self.events:
                ordered = sorted(self.events.values(), key=lambda event: event.position.order)
                fresh.append(ordered)
            fresh.finish()
            assert bare(self._present()) == bare(fresh.present())
            for session in SESSIONS:
                stored = self.keeping.parts.toc.list_segments(session, BEGINNING, limit=ALL)
                assert stored == fresh.toc.list_segments(session, BEGINNING, limit=ALL)
        finally:
            fresh.store.close()

    def _present(self) -> dict[NodeId, TocNode]:
        toc = self.keeping.parts.toc
        names = toc.list_ids("toc:", after=None, limit=ALL)
        return {
            name: node
            for name, node in zip(names, toc.get_nodes(names), strict=True)
            if node is not None
        }

    def _check_marks(self) -> None:
        """Every grip is held by some version of a node, and each of those leads to its grips."""
        store, toc = self.keeping.parts.store, self.keeping.parts.toc
        present = self._present()
        names = {key.decode().split(":v")[0] for key, _ in everything(store, families.TOC_NODES)}
        versions = [
            *present.values(),
            *(node for name in names for node in toc.list_versions(NodeId(name), limit=ALL)),
        ]
        held = {grip.encode() for node in versions for grip in node.grip_ids()}
        assert {key for key, _ in everything(store, families.GRIPS)} == held
        pins = {
            grip.encode()
            for name in names
            for node in toc.list_versions(NodeId(name), limit=ALL)
            if node.level is not Level.SEGMENT
            for grip in node.grip_ids()
        }
        marks = [key for key, _ in everything(store, families.TOC_STATE)]
        assert {key.removeprefix(b"pinned:") for key in marks if key.startswith(b"pinned:")} == pins
        assert [key for key in marks if not key.startswith(b"pinned:")] == []


def _mark(number: int) -> str:
    return f"Zq{number:05}x"


def _mark_of(event_id: EventId) -> str:
    return _mark(int(event_id.split("-")[1]))


ForgettingMachine.TestCase.settings = settings(
    max_examples=settings().max_examples // 5,
    stateful_step_count=12,  # 10, more in a soak
)
TestForgetting = ForgettingMachine.TestCase
