"""Knowledge: episodes, procedures and users, as programs read and write them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from agent_memory.domain import users
from agent_memory.domain.episodes import Episode
from agent_memory.domain.errors import InvalidInput, NotFound, Overloaded
from agent_memory.domain.identities import KnowledgeId
from agent_memory.domain.ports import Clock, KnowledgeChange, SecretsFilter
from agent_memory.domain.ports import Knowledge as Kept
from agent_memory.domain.procedures import Chain, Procedure
from agent_memory.domain.sessions import Session
from agent_memory.domain.users import User

TRIES = 100  # to write what someone else writes at the same time

K = TypeVar("K", Episode, Procedure, User)


@dataclass(frozen=True, slots=True)
class Shelf(Generic[K]):
    """The records of one kind."""

    kind: type[K]
    kept: Kept
    secrets: SecretsFilter

    def page(self, *, limit: int, offset: int, **wanted: str | None) -> tuple[list[K], int]:
        return self.kept.page(self.kind, limit=limit, offset=offset, **wanted)

    def version(self) -> int:
        """Another one whenever a page may be."""
        return self.kept.version(self.kind)

    def read(self, name: str) -> K:
        (found,) = self.kept.get(self.kind, [name])
        if found is None:
            raise NotFound(f"there is no {self.kind.__name__.lower()} {name}")
        return found

    def add(self, record: K) -> K:
        clean = self._clean(record)
        if not self.kept.commit([KnowledgeChange(None, clean)]):
            raise InvalidInput(f"there is this {self.kind.__name__.lower()} already: {clean.id}")
        return clean

    def change(self, name: str, fields: Mapping[str, Any]) -> K:
        """Set these fields. What is learned later leaves them as they are."""
        for _ in range(TRIES):
            known = self.read(name)
            fixed = getattr(known, "fixed", None)
            also = {} if fixed is None else {"fixed": fixed | fields.keys()}
            changed = self._clean(replace(known, **fields, **also))
            if self.kept.commit([KnowledgeChange(known, changed)]):
                return changed
        raise Overloaded(f"{name} is being changed by many: try again")

    def remove(self, names: Sequence[str]) -> None:
        """Those that are not there are passed by."""
        for name in dict.fromkeys(names):
            for _ in range(TRIES):
                (found,) = self.kept.get(self.kind, [name])
                changes = [] if found is None else [KnowledgeChange(found, None)]
                if self.kind is Procedure:  # else it would be back with the next use
                    (chain,) = self.kept.get(Chain, [name])
                    changes += [] if chain is None else [KnowledgeChange(chain, None)]
                if self.kept.commit(changes):
                    break

    def _clean(self, record: K) -> K:
        words: dict[str, Any] = {
            field: self.secrets.clean(getattr(record, field), where=self.kind.__name__.lower())
            for field in ("summary", "description", "name", "display_name")
            if getattr(record, field, None)
        }
        return replace(record, **words)


@dataclass(frozen=True, slots=True)
class Knowledge:
    episodes: Shelf[Episode]
    procedures: Shelf[Procedure]
    users: Shelf[User]
    kept: Kept
    clock: Clock
    new_id: Callable[[], KnowledgeId]

    def sessions(self, *, limit: int, offset: int) -> tuple[list[Session], int]:
        """The conversations that were recorded, the newest first."""
        return self.kept.page(Session, limit=limit, offset=offset)

    def add_episode(self, fields: Mapping[str, Any]) -> Episode:
        now = self.clock.now()
        return self.episodes.add(Episode(id=self.new_id(), created_ms=now, **fields))

    def add_procedure(self, fields: Mapping[str, Any]) -> Procedure:
        return self.procedures.add(
            Procedure(id=self.new_id(), created_ms=self.clock.now(), **fields)
        )

    def change_procedure(self, name: str, fields: Mapping[str, Any]) -> Procedure:
        """With counts it was used as often as both together."""
        counts = ("times_succeeded", "times_failed")
        if not fields.keys() & set(counts):
            return self.procedures.change(name, fields)
        known = self.procedures.read(name)
        told = {field: fields.get(field, getattr(known, field)) for field in counts}
        return self.procedures.change(name, {**fields, **told, "times_used": sum(told.values())})

    def add_user(self, canonical_id: str, fields: Mapping[str, Any]) -> User:
        """Someone new, or what is now known of someone who was met before."""
        met = users.met(canonical_id, self.clock.now())
        (known,) = self.kept.get(User, [met.id])
        if known is None:
            return self.users.add(replace(met, **fields))
        return self.users.change(known.id, fields)
