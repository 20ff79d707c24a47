"""Learning: derive episodes, procedures and users from the events of sessions."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from agent_memory.features.knowledge.model import procedures, run_sessions, sessions, users
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.procedures import Chain, Procedure
from agent_memory.features.knowledge.model.run_sessions import Run, RunSession, SessionKnowledge
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.ports import KnowledgeChange, KnowledgeStore
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.outbox import EventChanged
from agent_memory.features.log.ports import EventLog, Outbox
from agent_memory.features.log.services import paging
from agent_memory.kernel.errors import Overloaded
from agent_memory.kernel.ids import SessionId
from agent_memory.kernel.jobs import Check
from agent_memory.platform.ports import Clock

BATCH = 250
TRIES = 20  # if a program changes the same records at the same time
_PAGE = 500

Pair = tuple[SessionKnowledge, SessionKnowledge]  # before and after


@dataclass(frozen=True, slots=True)
class Learner:
    """`owner` is the user of this machine's agents, unless an event names another."""

    log: EventLog
    outbox: Outbox
    knowledge: KnowledgeStore
    clock: Clock
    owner: str
    lock: threading.Lock = field(default_factory=threading.Lock)

    def cursor(self) -> int:
        return self.knowledge.cursor() or 0

    def keep_up(self, check: Check) -> bool:
        """Learn from all new events, and in a store that predates learning from all others."""
        while True:
            check()  # it may rest: not with the lock, which forgetting waits for
            with self.lock:
                cursor = self.knowledge.cursor()
                if cursor is None:
                    cursor = self._learn_all(check)
                entries = self.outbox.read(cursor, limit=BATCH)
                if not entries:
                    return False
                positions = [entry.at for _, entry in entries if isinstance(entry, EventChanged)]
                self._learn_events(self.log.get_at(positions), entries[-1][0])

    def relearn(self, session_ids: Iterable[SessionId]) -> None:
        """Learn these sessions again from their events, even if none are left."""
        with self.lock:
            for name in session_ids:
                self._commit([name], self._relearn_session, None)

    def _learn_all(self, check: Check) -> int:
        """Learn from all events of a store that predates learning."""
        cursor = self.log.watermark()
        for page in paging.iter_between(self.log):
            check()
            self._learn_events(page.events, None)
        self.knowledge.commit([], cursor=cursor)
        return cursor

    def _learn_events(self, events: Sequence[Event], cursor: int | None) -> None:
        by_session: defaultdict[SessionId, list[Event]] = defaultdict(list)
        for event in sorted(events, key=lambda event: event.position.order):
            by_session[event.session_id].append(event)

        def pair(name: SessionId, known: Session | None) -> Pair:
            new = by_session[name]
            if not sessions.follows(known, new[0]):
                return self._relearn_session(name, known)
            runs = dict.fromkeys(run for event in new if (run := event_metadata.get_run_id(event)))
            before = self._load_known(name, known, list(runs))
            return before, run_sessions.add_events(before, new, self.owner)

        self._commit(list(by_session), pair, cursor)

    def _relearn_session(self, name: SessionId, known: Session | None) -> Pair:
        """Read the session from its start."""
        events = paging.iter_session(self.log, name)
        after = run_sessions.add_events(SessionKnowledge(), events, self.owner)
        return self._load_known(name, known, None), after

    def _load_known(
        self, name: SessionId, session: Session | None, run_ids: Sequence[str] | None
    ) -> SessionKnowledge:
        """Load what is known of a session and these of its runs; None loads all runs."""
        if run_ids is None:
            runs = self._load_runs(name)
        elif run_ids:
            names = [run_sessions.derive_id(name, run_id) for run_id in run_ids]
            runs = [run for run in self.knowledge.get(Run, names) if run is not None]
        else:
            return SessionKnowledge(session=session)
        (whole,) = self.knowledge.get(RunSession, [sessions.derive_id(name)])
        return SessionKnowledge(
            session=session, whole=whole, runs={run.run_id: run for run in runs}
        )

    def _load_runs(self, name: SessionId) -> list[Run]:
        loaded: list[Run] = []
        offset, total = 0, 1
        while offset < total:
            runs, total = self.knowledge.list_page(Run, limit=_PAGE, offset=offset, session_id=name)
            loaded += runs
            offset += _PAGE
        return loaded

    def _commit(
        self,
        names: Sequence[SessionId],
        pair: Callable[[SessionId, Session | None], Pair],
        cursor: int | None,
    ) -> None:
        for _ in range(TRIES):
            known = self.knowledge.get(Session, [sessions.derive_id(name) for name in names])
            pairs = [pair(name, session) for name, session in zip(names, known, strict=True)]
            changes = [
                *(KnowledgeChange(before.session, after.session) for before, after in pairs),
                *(KnowledgeChange(before.whole, after.whole) for before, after in pairs),
                *(KnowledgeChange(*runs) for both in pairs for runs in _pair_runs(both)),
                *self._episodes(pairs),
                *self._procedures(pairs),
                *self._users(pairs),
            ]
            if self.knowledge.commit(changes, cursor=cursor):
                return
        raise Overloaded("learned records are being changed by others: learning is retried later")

    def _episodes(self, pairs: Sequence[Pair]) -> Iterator[KnowledgeChange]:
        changed = _pair_sessions(pairs)
        ids = [session.id for _, session in _sign_pairs(changed)]
        known = dict(zip(ids, self.knowledge.get(Episode, ids), strict=True))
        now = self.clock.now()
        for before, after in changed:
            if after is not None:
                episode = sessions.build_episode(after, known[after.id], now)
                yield KnowledgeChange(known[after.id], episode)
            elif before is not None:
                yield KnowledgeChange(known[before.id], None)

    def _procedures(self, pairs: Sequence[Pair]) -> Iterator[KnowledgeChange]:
        more: defaultdict[tuple[str, tuple[str, ...]], list[int]] = defaultdict(lambda: [0, 0])
        for sign, session in _sign_pairs(_pair_sessions(pairs)):
            for tally in session.chains.values():
                counts = more[session.agent, tally.steps]
                counts[0] += sign * tally.used
                counts[1] += sign * tally.succeeded
        changed = {
            procedures.derive_chain_id(*chain): (chain, counts)
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
            counted = procedures.update_counts(chain, used=used, succeeded=succeeded)
            yield KnowledgeChange(known, counted)
            yield KnowledgeChange(
                procedure,
                None if counted is None else procedures.derive_procedure(counted, procedure),
            )

    def _users(self, pairs: Sequence[Pair]) -> Iterator[KnowledgeChange]:
        more: defaultdict[str, int] = defaultdict(int)
        latest: dict[str, Session] = {}
        for sign, session in _sign_pairs(
            (before.session, after.session) for before, after in pairs
        ):
            if session.user:
                more[session.user] += sign
                if sign > 0:
                    latest[session.user] = max(
                        session, latest.get(session.user, session), key=lambda known: known.last_ms
                    )
        names = list(more)
        known = self.knowledge.get(User, [users.derive_id(name) for name in names])
        for name, user in zip(names, known, strict=True):
            last = latest.get(name)
            if user is None and last is None:
                continue
            updated = users.update_seen(
                user or users.create_user(name, self.clock.now()),
                conversations=more[name],
                at=None if last is None else last.last_ms,
                name="" if last is None else last.speaker,
            )
            forgotten = not updated.total_conversations and not updated.fixed
            yield KnowledgeChange(user, None if forgotten else updated)


def _pair_sessions(pairs: Sequence[Pair]) -> list[tuple[Session | None, Session | None]]:
    """Return all sessions, then all runs, each before and after."""
    sessions_and_runs: list[tuple[Session | None, Session | None]] = [
        (before.session, after.session) for before, after in pairs
    ]
    for pair in pairs:
        sessions_and_runs += _pair_runs(pair)
    return sessions_and_runs


def _pair_runs(pair: Pair) -> Iterator[tuple[Session | None, Session | None]]:
    before, after = (known.runs for known in pair)
    for run_id in dict.fromkeys((*before, *after)):
        yield before.get(run_id), after.get(run_id)


def _sign_pairs(
    pairs: Iterable[tuple[Session | None, Session | None]],
) -> Iterator[tuple[int, Session]]:
    """Yield -1 with each old state and 1 with each new one."""
    for before, after in pairs:
        if before is not None:
            yield -1, before
        if after is not None:
            yield 1, after
