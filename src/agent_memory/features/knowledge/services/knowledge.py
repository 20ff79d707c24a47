"""Knowledge: episodes, procedures and users, as programs read and write them."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from agent_memory.features.knowledge.model import procedures, users
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.procedures import Chain, Procedure
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.ports import KnowledgeChange, KnowledgeStore
from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS, MAX_SESSION_ID_CHARS
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel import limits
from agent_memory.kernel.errors import InvalidInput, NotFound, Overloaded
from agent_memory.kernel.ids import KnowledgeId
from agent_memory.platform.ports import Clock

TRIES = 100  # to write what someone else writes at the same time
MAX_ITEMS = 1_000  # of a list in a record; what we make ourselves has far fewer

_NAMES = {  # by which records find each other, with their longest
    "id": limits.NAME_CHARS,
    "fact_id": limits.NAME_CHARS,
    "session_id": MAX_SESSION_ID_CHARS,
    "last_event_id": MAX_EVENT_ID_CHARS,
    "run_id": limits.NAME_CHARS,
    "last_run": limits.NAME_CHARS,
}

K = TypeVar("K", Episode, Procedure, User)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RecordService(Generic[K]):
    """The records of one kind."""

    kind: type[K]
    kept: KnowledgeStore
    secrets: SecretsFilter

    def page(self, *, limit: int, offset: int, **wanted: str | None) -> tuple[list[K], int]:
        return self.kept.list_page(self.kind, limit=limit, offset=offset, **wanted)

    def version(self) -> int:
        """Another one whenever a page may be."""
        return self.kept.version(self.kind)

    def read(self, name: str) -> K:
        (found,) = self.kept.get(self.kind, [name])
        if found is None:
            raise NotFound(f"there is no {self.kind.__name__.lower()} {name}")
        return found

    def add(self, record: K) -> K:
        cleaned = clean(record, self.secrets)
        if not self.kept.commit([KnowledgeChange(None, cleaned)]):
            raise InvalidInput(f"there is this {self.kind.__name__.lower()} already: {cleaned.id}")
        return cleaned

    def change(self, name: str, fields: Mapping[str, Any] | Callable[[K], Mapping[str, Any]]) -> K:
        """Set these fields. What is learned later leaves them as they are."""
        for _ in range(TRIES):
            known = self.read(name)
            wanted = fields(known) if callable(fields) else fields
            changed = replace(known, **wanted, fixed=known.fixed | wanted.keys())
            changed = clean(changed, self.secrets)
            if self.kept.commit([KnowledgeChange(known, changed)]):
                return changed
        raise Overloaded(f"{name} is being changed by many: try again")

    def remove(self, names: Sequence[str]) -> None:
        """Those that are not there are passed by."""
        for name in dict.fromkeys(names):
            if not any(self._try_remove(name) for _ in range(TRIES)):
                raise Overloaded(f"{name} is being changed by many: try again")

    def _try_remove(self, name: str) -> bool:
        (found,) = self.kept.get(self.kind, [name])
        changes = [] if found is None else [KnowledgeChange(found, None)]
        if self.kind is Procedure:  # else it would be back with the next use
            (chain,) = self.kept.get(Chain, [name])
            if chain is not None:
                changes.append(KnowledgeChange(chain, procedures.dismiss_chain(chain)))
        return self.kept.commit(changes)


def clean(record: R, secrets: SecretsFilter) -> R:
    """Return a record without its secrets, in whatever of it is text. Raises ContentBlocked, and
    InvalidInput where it is larger than what is ever kept."""
    where = type(record).__name__.lower()

    def clean_name(field: str, name: str) -> str:
        limit = _NAMES.get(field, limits.NAME_CHARS)
        if len(name) > limit or not name.isprintable():
            raise InvalidInput(f"{field} must have at most {limit} printable characters")
        return secrets.clean_name(name, limit=limit, where=where) if name else name

    def clean_value(field: str, value: Any) -> Any:
        if isinstance(value, tuple | frozenset | Mapping) and len(value) > MAX_ITEMS:
            raise InvalidInput(f"{field} has {len(value):,} items; the limit is {MAX_ITEMS:,}")
        if isinstance(value, str):
            if field in _NAMES:
                return clean_name(field, value)
            limits.check_text(field, value, limits.VALUE_CHARS)
            return secrets.clean(value, where=where)
        if isinstance(value, tuple | frozenset):
            return type(value)(clean_value(field, each) for each in value)
        if isinstance(value, Mapping):
            return {
                clean_name(field, name): clean_value(field, each) for name, each in value.items()
            }
        return clean(value, secrets) if dataclasses.is_dataclass(value) else value

    known: Any = record  # of any dataclass
    cleaned: R = replace(
        known,
        **{
            each.name: clean_value(each.name, getattr(known, each.name))
            for each in dataclasses.fields(known)
        },
    )
    return cleaned


@dataclass(frozen=True, slots=True)
class Knowledge:
    episodes: RecordService[Episode]
    procedures: RecordService[Procedure]
    users: RecordService[User]
    kept: KnowledgeStore
    clock: Clock
    new_id: Callable[[], KnowledgeId]

    def sessions(self, *, limit: int, offset: int) -> tuple[list[Session], int]:
        """The conversations that were recorded, the newest first."""
        return self.kept.list_page(Session, limit=limit, offset=offset)

    def add_episode(self, fields: Mapping[str, Any]) -> Episode:
        now = self.clock.now()
        return self.episodes.add(Episode(id=self.new_id(), created_ms=now, **fields))

    def change_episode(self, name: str, fields: Mapping[str, Any]) -> Episode:
        """One that succeeds has no error any more; one with an error has failed."""
        if fields.get("success"):
            fields = {"error_code": None, **fields}
        elif fields.get("error_code") and "success" not in fields:
            fields = {"success": False, **fields}
        return self.episodes.change(name, fields)

    def add_procedure(self, fields: Mapping[str, Any]) -> Procedure:
        return self.procedures.add(
            Procedure(id=self.new_id(), created_ms=self.clock.now(), **fields)
        )

    def change_procedure(self, name: str, fields: Mapping[str, Any]) -> Procedure:
        """With counts it was used as often as both together."""
        counts = ("times_succeeded", "times_failed")
        if not fields.keys() & set(counts):
            return self.procedures.change(name, fields)

        def add_counts(known: Procedure) -> Mapping[str, Any]:
            told = {field: fields.get(field, getattr(known, field)) for field in counts}
            return {**fields, **told, "times_used": sum(told.values())}

        return self.procedures.change(name, add_counts)

    def add_user(self, canonical_id: str, fields: Mapping[str, Any]) -> User:
        """Someone new, or what is now known of someone who was met before."""
        met = replace(
            users.create_user(canonical_id, self.clock.now()), fixed=frozenset({"canonical_id"})
        )
        (known,) = self.kept.get(User, [met.id])
        if known is None:
            with suppress(InvalidInput):  # a session has made it meanwhile
                return self.users.add(replace(met, **fields))
        return self.users.change(met.id, {**fields, "canonical_id": canonical_id})
