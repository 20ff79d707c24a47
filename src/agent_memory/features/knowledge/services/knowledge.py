"""Knowledge: read and write episodes, procedures and users."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from agent_memory.features.knowledge.model import procedures, users
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.procedures import Chain, Procedure
from agent_memory.features.knowledge.model.sessions import Session, derive_id
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.ports import KnowledgeChange, KnowledgeStore
from agent_memory.features.log.model.events import MAX_EVENT_ID_CHARS, MAX_SESSION_ID_CHARS
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel import limits
from agent_memory.kernel.errors import InvalidInput, NotFound, Overloaded
from agent_memory.kernel.ids import KnowledgeId, SessionId
from agent_memory.platform.ports import Clock

TRIES = 100  # if others write the same record at the same time
MAX_ITEMS = 1_000  # of a list in a record; records made here have far fewer

_NAMES = {  # fields that reference records, with their maximum length
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
    """Service for the records of one kind."""

    kind: type[K]
    store: KnowledgeStore
    secrets: SecretsFilter

    def page(self, *, limit: int, offset: int, **filters: str | None) -> tuple[list[K], int]:
        return self.store.list_page(self.kind, limit=limit, offset=offset, **filters)

    def version(self) -> int:
        """Return a number that changes whenever a page may."""
        return self.store.version(self.kind)

    def read(self, name: str) -> K:
        (record,) = self.store.get(self.kind, [name])
        if record is None:
            raise NotFound(f"no {self.kind.__name__.lower()} {name}")
        return record

    def add(self, record: K) -> K:
        cleaned = clean(record, self.secrets)
        if not self.store.commit([KnowledgeChange(None, cleaned)]):
            raise InvalidInput(f"this {self.kind.__name__.lower()} exists already: {cleaned.id}")
        return cleaned

    def change(self, name: str, fields: Mapping[str, Any] | Callable[[K], Mapping[str, Any]]) -> K:
        """Set these fields. Learning leaves them alone from then on."""
        for _ in range(TRIES):
            known = self.read(name)
            values = fields(known) if callable(fields) else fields
            changed = replace(known, **values, fixed=known.fixed | values.keys())
            changed = clean(changed, self.secrets)
            if self.store.commit([KnowledgeChange(known, changed)]):
                return changed
        raise Overloaded(f"{name} is being changed by others: try again")

    def remove(self, names: Sequence[str]) -> None:
        """Remove records; skip those that do not exist."""
        for name in dict.fromkeys(names):
            if not any(self._try_remove(name) for _ in range(TRIES)):
                raise Overloaded(f"{name} is being changed by others: try again")

    def _try_remove(self, name: str) -> bool:
        (record,) = self.store.get(self.kind, [name])
        changes = [] if record is None else [KnowledgeChange(record, None)]
        if self.kind is Procedure:  # else it would come back with the next use
            (chain,) = self.store.get(Chain, [name])
            if chain is not None:
                changes.append(KnowledgeChange(chain, procedures.dismiss_chain(chain)))
        return self.store.commit(changes)


def clean(record: R, secrets: SecretsFilter) -> R:
    """Remove secrets from all text of a record. Raises ContentBlocked and InvalidInput (limits)."""
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
            return type(value)(clean_value(field, item) for item in value)
        if isinstance(value, Mapping):
            return {
                clean_name(field, name): clean_value(field, item) for name, item in value.items()
            }
        return clean(value, secrets) if dataclasses.is_dataclass(value) else value

    source: Any = record  # any dataclass
    cleaned: R = replace(
        source,
        **{
            field.name: clean_value(field.name, getattr(source, field.name))
            for field in dataclasses.fields(source)
        },
    )
    return cleaned


@dataclass(frozen=True, slots=True)
class Knowledge:
    episodes: RecordService[Episode]
    procedures: RecordService[Procedure]
    users: RecordService[User]
    store: KnowledgeStore
    clock: Clock
    new_id: Callable[[], KnowledgeId]

    def sessions(self, *, limit: int, offset: int) -> tuple[list[Session], int]:
        """Return the recorded conversations, newest first."""
        return self.store.list_page(Session, limit=limit, offset=offset)

    def find_session(self, session_id: str) -> Session | None:
        """Return what is known of a conversation; None before any of it is learned."""
        return self.store.get(Session, [derive_id(SessionId(session_id))])[0]

    def add_episode(self, fields: Mapping[str, Any]) -> Episode:
        now = self.clock.now()
        return self.episodes.add(Episode(id=self.new_id(), created_ms=now, **fields))

    def change_episode(self, name: str, fields: Mapping[str, Any]) -> Episode:
        """Change an episode. Success clears the error, and an error means failure."""
        if fields.get("success"):
            fields = {"error_code": None, **fields}
        elif fields.get("error_code") and "success" not in fields:
            fields = {"success": False, **fields}
        return self.episodes.change(name, fields)

    def add_procedure(self, fields: Mapping[str, Any]) -> Procedure:
        """Add a procedure. `times_used` is the sum of successes and failures."""
        used = fields.get("times_succeeded", 0) + fields.get("times_failed", 0)
        return self.procedures.add(
            Procedure(id=self.new_id(), created_ms=self.clock.now(), **fields, times_used=used)
        )

    def count_use(self, name: str, *, succeeded: bool) -> Procedure:
        """Count one use of a procedure. Raises NotFound."""
        field = "times_succeeded" if succeeded else "times_failed"
        return self.procedures.change(
            name,
            lambda known: {
                field: getattr(known, field) + 1,
                "times_used": known.times_used + 1,
            },
        )

    def change_procedure(self, name: str, fields: Mapping[str, Any]) -> Procedure:
        """Change a procedure. `times_used` is the sum of successes and failures."""
        counts = ("times_succeeded", "times_failed")
        if not fields.keys() & set(counts):
            return self.procedures.change(name, fields)

        def add_counts(known: Procedure) -> Mapping[str, Any]:
            values = {field: fields.get(field, getattr(known, field)) for field in counts}
            return {**fields, **values, "times_used": sum(values.values())}

        return self.procedures.change(name, add_counts)

    def add_user(self, canonical_id: str, fields: Mapping[str, Any]) -> User:
        """Add a user, or change one who is known already."""
        user = replace(
            users.create_user(canonical_id, self.clock.now()), fixed=frozenset({"canonical_id"})
        )
        (known,) = self.store.get(User, [user.id])
        if known is None:
            with suppress(InvalidInput):  # learning added it meanwhile
                return self.users.add(replace(user, **fields))
        return self.users.change(user.id, {**fields, "canonical_id": canonical_id})
