"""Learning: from the events of sessions to episodes, procedures and users, by itself."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agent_memory.domain import procedures, sessions, users
from agent_memory.domain.episodes import Episode
from agent_memory.domain.errors import Overloaded
from agent_memory.domain.events import MAX_MILLIS, Event, Millis, Position, SessionId
from agent_memory.domain.outbox import EventChanged
from agent_memory.domain.ports import (
    Clock,
    EventLog,
    KnowledgeChange,
    KnowledgeStore,
    Outbox,
)
from agent_memory.domain.procedures import Chain, Procedure
from agent_memory.domain.sessions import Session
from agent_memory.domain.users import User

BATCH = 1_000  # entries of the outbox
TRIES = 20  # where a program changes the same records meanwhile
_PAGE = 500

Check = Callable[[], None]
Pair = tuple[Session | None, Session | None]  # before and after


@dataclass(frozen=True, slots=True)
class Learning:
    """`owner` is who talks with the agents of this machine, unless an event says otherwise."""

    log: EventLog
    outbox: Outbox
    knowledge: KnowledgeStore
    clock: Clock
    owner: str
    turn: threading.Lock = field(default_factory=threading.Lock)

    def cursor(self) -> int:
        return self.knowledge.cursor() or 0

    def keep_up(self, check: Check) -> None:
        """Learn from all that is new."""
        with self.turn:
            cursor = self.knowledge.cursor()
            if cursor is None:
                cursor = self._begin(check)
            while entries := self.outbox.read(cursor, limit=BATCH):
                check()
                cursor = entries[-1][0]
                places = [entry.at for _, entry in entries if isinstance(entry, EventChanged)]
                self._follow(self.log.at(places), cursor)

    def relearn(self, session_ids: Iterable[SessionId]) -> None:
        """What these sessions tell now, also where nothing is left of them."""
        with self.turn:
            for name in session_ids:
                self._commit([name], lambda name, _: self._whole(name), None)

    def _begin(self, check: Check) -> int:
        """A store from before there was learning: all that it holds."""
        cursor = self.log.watermark()
        after: Position | None = None
        while True:
            check()
            page = self.log.between(Millis(0), Millis(MAX_MILLIS), after=after, limit=_PAGE)
            self._follow(page.events, None)
            if page.next is None:
                break
            after = page.next
        self.knowledge.commit([], cursor=cursor)
        return cursor

    def _follow(self, events: Sequence[Event], cursor: int | None) -> None:
        by_session: defaultdict[SessionId, list[Event]] = defaultdict(list)
        for event in sorted(events, key=lambda each: each.position.order):
            by_session[event.session_id].append(event)

        def after(name: SessionId, known: Session | None) -> Session | None:
            new = by_session[name]
            if not sessions.follows(known, new[0]):
                return self._whole(name)
            return self._continued(known, new)

        self._commit(list(by_session), after, cursor)

    def _whole(self, name: SessionId) -> Session | None:
        found: Session | None = None
        for events in self._pages(name):
            found = self._continued(found, events)
        return found

    def _pages(self, name: SessionId) -> Iterator[Sequence[Event]]:
        after: Position | None = None
        while True:
            page = self.log.of_session(name, after=after, limit=_PAGE)
            yield page.events
            if page.next is None:
                return
            after = page.next

    def _continued(self, known: Session | None, events: Sequence[Event]) -> Session | None:
        for event in events:
            known = sessions.continued(known, event, self.owner)
        return known

    def _commit(
        self,
        names: Sequence[SessionId],
        after: Callable[[SessionId, Session | None], Session | None],
        cursor: int | None,
    ) -> None:
        for _ in range(TRIES):
            known = self.knowledge.get(Session, [sessions.id_of(name) for name in names])
            pairs = [(each, after(name, each)) for name, each in zip(names, known, strict=True)]
            changes = [
                *(KnowledgeChange(*pair) for pair in pairs),
                *self._episodes(pairs),
                *self._procedures(pairs),
                *self._users(pairs),
            ]
            if self.knowledge.commit(changes, cursor=cursor):
                return
        raise Overloaded("what was learned is being changed by many: tried again later")

    def _episodes(self, pairs: Sequence[Pair]) -> Iterator[KnowledgeChange]:
        ids = [each.id for _, each in _signed(pairs)]
        known = dict(zip(ids, self.knowledge.get(Episode, ids), strict=True))
        now = self.clock.now()
        for before, after in pairs:
            if after is not None:
                episode = known[after.id]
                yield KnowledgeChange(episode, sessions.episode(after, episode, now))
            elif before is not None:
                yield KnowledgeChange(known[before.id], None)

    def _procedures(self, pairs: Sequence[Pair]) -> Iterator[KnowledgeChange]:
        more: defaultdict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(lambda: [0, 0])
        for sign, session in _signed(pairs):
            for tally in session.chains.values():
                counts = more[session.agent, tally.steps]
                counts[0] += sign * tally.used
                counts[1] += sign * tally.succeeded
        changed = {
            procedures.chain_id(*chain): (chain, counts)
            for chain, counts in more.items()
            if any(counts)
        }
        ids = list(changed)
        chains = self.knowledge.get(Chain, ids)
        learned = self.knowledge.get(Procedure, ids)
        now = self.clock.now()
        for name, known, procedure in zip(ids, chains, learned, strict=True):
            (agent, steps), (used, succeeded) = changed[name]
            chain = known or Chain(
                id=name, agent_id=agent, steps=steps, used=0, succeeded=0, created_ms=now
            )
            counted = procedures.counted(chain, used=used, succeeded=succeeded)
            yield KnowledgeChange(known, counted)
            yield KnowledgeChange(
                procedure, None if counted is None else procedures.learned(counted, procedure)
            )

    def _users(self, pairs: Sequence[Pair]) -> Iterator[KnowledgeChange]:
        more: defaultdict[str, int] = defaultdict(int)
        latest: dict[str, Session] = {}
        for sign, session in _signed(pairs):
            if session.user:
                more[session.user] += sign
                if sign > 0:
                    latest[session.user] = max(
                        session, latest.get(session.user, session), key=lambda each: each.last_ms
                    )
        names = list(more)
        known = self.knowledge.get(User, [users.id_of(name) for name in names])
        for name, user in zip(names, known, strict=True):
            last = latest.get(name)
            if user is None and last is None:
                continue
            met = users.seen(
                user or users.met(name, self.clock.now()),
                conversations=more[name],
                at=None if last is None else last.last_ms,
                name="" if last is None else last.speaker,
            )
            forgotten = not met.total_conversations and not met.fixed
            yield KnowledgeChange(user, None if forgotten else met)


def _signed(pairs: Sequence[Pair]) -> Iterator[tuple[int, Session]]:
    """What is no longer so, and what is."""
    for before, after in pairs:
        if before is not None:
            yield -1, before
        if after is not None:
            yield 1, after
