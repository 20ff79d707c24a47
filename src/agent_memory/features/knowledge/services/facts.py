"""Facts: claim, confirm, correct, read and remove."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from agent_memory.features.knowledge.model import facts
from agent_memory.features.knowledge.model.facts import Claim, Fact, Former
from agent_memory.features.knowledge.ports import KnowledgeChange, KnowledgeStore
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import NotFound, Overloaded
from agent_memory.kernel.ids import KnowledgeId, Millis
from agent_memory.kernel.limits import NAME_CHARS
from agent_memory.platform.ports import Clock

TRIES = 100  # if others write the same record at the same time
_FORMER = 500
_PAGE = 1_000
_WHERE = "fact"

S = TypeVar("S", Claim, Fact)


@dataclass(slots=True)
class _Reads:
    """Reads of facts that are not yet written to the store."""

    counts: Counter[str] = field(default_factory=Counter)
    due: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    writer: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "fact-reads"))


@dataclass(frozen=True, slots=True)
class Facts:
    knowledge: KnowledgeStore
    secrets: SecretsFilter
    clock: Clock
    on_change: Callable[[], None]
    # When a fact was removed, of a scope: it may have been on a clock that is ahead of this one.
    find_removal: Callable[[KnowledgeId, str], int] = lambda _name, _scope: 0
    reads: _Reads = field(default_factory=_Reads)

    def claim(self, claim: Claim) -> Fact:
        """Record the claim as true. Raises ContentBlocked and InvalidInput."""
        claim = clean(claim, self.secrets)
        for _ in range(TRIES):
            (known,) = self.knowledge.get(Fact, [claim.fact_id])
            now = self.clock.now()
            if known is None:
                now = Millis(max(now, self.find_removal(claim.fact_id, claim.scope) + 1))
            fact, former = facts.apply_claim(known, claim, now)
            if self._try_write(known, fact, former):
                return fact
        raise Overloaded(f"the fact {claim.key!r} is being changed by others: try again")

    def correct(
        self,
        name: str,
        *,
        value: str | None = None,
        fact_type: str | None = None,
        confidence: float | None = None,
    ) -> Fact:
        """Change these fields; None leaves a field alone."""
        for _ in range(TRIES):
            known = self._get_fact(name)
            now = self.clock.now()
            kind = self.secrets.clean(fact_type or known.fact_type, where=_WHERE)
            clean = known.value if value is None else clean_value(known.key, value, self.secrets)
            former: Former | None = None
            if clean != known.value:
                later = facts.find_later(known, now)
                fact, former = facts.replace_value(known, clean, later, kind, confidence)
            else:
                sure = known.confidence if confidence is None else confidence
                fact = replace(known, fact_type=kind, confidence=sure, updated_ms=now)
            if self._try_write(known, fact, former):
                return fact
        raise Overloaded(f"the fact {name} is being changed by others: try again")

    def read(self, name: str) -> Fact:
        """Return a fact and count the read. Raises NotFound."""
        with self.reads.lock:
            fact = self._get_fact(name)
            self._count([fact.id])
            return self._with_reads(fact)

    def page(
        self, *, scope: str | None, fact_type: str | None, limit: int, offset: int
    ) -> tuple[list[Fact], int]:
        return self.knowledge.list_page(
            Fact, limit=limit, offset=offset, scope=scope, fact_type=fact_type
        )

    def version(self) -> int:
        """Return a number that changes whenever a page may."""
        return self.knowledge.version(Fact)

    def history(self, name: str, *, limit: int, offset: int) -> tuple[list[Former], int]:
        """Return the earlier values, latest first."""
        fact = self._get_fact(name)
        return self.knowledge.list_page(Former, limit=limit, offset=offset, fact_id=fact.id)

    def list_of_event(self, event_id: str) -> list[Fact]:
        """List the facts whose value comes from these words."""
        found: list[Fact] = []
        last = ""
        while page := self.knowledge.list_after(Fact, last, limit=_PAGE):
            found += (fact for fact in page if fact.event_id == event_id)
            last = page[-1].id
        return found

    def mark_used(self, names: Sequence[str]) -> None:
        """Count these as used by an agent."""
        if names:
            with self.reads.lock:
                self._count(names)

    def remove(self, names: Sequence[str]) -> None:
        """Remove facts with their earlier values; skip those that do not exist."""
        for name in dict.fromkeys(names):
            if not any(self._try_remove(name) for _ in range(TRIES)):
                raise Overloaded(f"the fact {name} is being changed by others: try again")
        self.on_change()

    def _try_remove(self, name: str) -> bool:
        (fact,) = self.knowledge.get(Fact, [name])
        if fact is None:
            return True
        while True:
            formers, _ = self.knowledge.list_page(Former, limit=_FORMER, offset=0, fact_id=fact.id)
            if not formers:
                return self.knowledge.commit([KnowledgeChange(fact, None)])
            if not self.knowledge.commit([KnowledgeChange(former, None) for former in formers]):
                return False

    def _count(self, names: Iterable[str]) -> None:
        """Count reads and write them a little later, all at once, so that no caller waits."""
        self.reads.counts.update(names)
        if not self.reads.due:
            self.reads.due = True
            self.reads.writer.submit(self._write_counts)

    def _write_counts(self) -> None:
        with self.reads.lock:
            self.reads.due = False
            names = list(self.reads.counts)
            for _ in range(TRIES):
                known = [fact for fact in self.knowledge.get(Fact, names) if fact is not None]
                if self.knowledge.commit(
                    [KnowledgeChange(fact, self._with_reads(fact)) for fact in known]
                ):
                    break
            self.reads.counts.clear()

    def _with_reads(self, fact: Fact) -> Fact:
        return replace(fact, access_count=fact.access_count + self.reads.counts[fact.id])

    def _try_write(self, before: Fact | None, after: Fact, former: Former | None) -> bool:
        changes = [KnowledgeChange(before, after)]
        if former is not None:
            changes.append(KnowledgeChange(None, former))
        written = self.knowledge.commit(changes)
        if written:
            self.on_change()
        return written

    def _get_fact(self, name: str) -> Fact:
        (fact,) = self.knowledge.get(Fact, [name])
        if fact is None:
            raise NotFound(f"no fact {name}")
        return fact


def clean(statement: S, secrets: SecretsFilter) -> S:
    """Return a claim or a fact without its secrets. Raises ContentBlocked."""
    names: dict[str, Any] = {
        field: secrets.clean_name(value, limit=NAME_CHARS, where=_WHERE)
        for field in ("scope", "agent_id", "user_id", "key", "fact_type", "session_id", "event_id")
        if (value := getattr(statement, field))
    }
    return replace(statement, **names, value=clean_value(statement.key, statement.value, secrets))


def clean_value(key: str, value: str, secrets: SecretsFilter) -> str:
    """Remove secrets from a value; the key is given too, as it may mark the value as a secret."""
    lead = f"{key}="
    cleaned = secrets.clean(lead + value, where=_WHERE)
    return cleaned[len(lead) :] if cleaned.startswith(lead) else secrets.clean(value, where=_WHERE)
