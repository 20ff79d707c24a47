"""Operations on knowledge: facts, episodes, procedures and users. Times are UTC, without an
offset."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from agent_memory.features.knowledge.model import facts as fact_model
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.facts import Claim, Fact, Former
from agent_memory.features.knowledge.model.procedures import TOOL_CHAIN, Procedure
from agent_memory.features.knowledge.model.sessions import CHAT
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.knowledge.services.knowledge import Knowledge
from agent_memory.kernel import limits
from agent_memory.kernel.access import Role
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.operations import operation
from agent_memory.kernel.structs import (
    Filter,
    Ids,
    Items,
    Limit,
    Name,
    Offset,
    OptionalName,
    PageRequest,
    copy_fields,
    list_changes,
)

PATH = "/api/v1/memories"
EXAMPLE_IDS = {"ids": ["6f1c1f6e-6c0e-5f0f-9b0e-0d2a9a1f5a11"]}

Agent = Annotated[str, Meta(max_length=limits.NAME_CHARS)]
Text = Annotated[str, Meta(max_length=limits.TEXT_CHARS)]
Value = Annotated[str, Meta(max_length=limits.VALUE_CHARS)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=limits.MAX_COUNT)]
Time = Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})]


class RecordName(Struct, frozen=True, kw_only=True):
    name: str


class AgentFilter(Struct, frozen=True, kw_only=True):
    agent_id: Filter = None
    limit: Limit = 50
    offset: Offset = 0


class FactFilter(Struct, frozen=True, kw_only=True):
    scope: Filter = None
    fact_type: Filter = None
    limit: Limit = 50
    offset: Offset = 0


class FactCreate(Struct, frozen=True, kw_only=True):
    """A fact to store. The same value confirms the fact; another value replaces it, and the old one
    becomes history."""

    scope: Name = fact_model.DEFAULT_SCOPE
    agent_id: OptionalName = None
    user_id: OptionalName = None
    key: Name
    value: Value
    fact_type: Annotated[
        Name | None, Meta(description="The default is the type it has; `fact` for a new one.")
    ] = None
    confidence: Share | None = None
    session_id: Annotated[OptionalName, Meta(description="Where it was said.")] = None
    event_id: Annotated[OptionalName, Meta(description="The event that says it.")] = None


class FactChange(RecordName, frozen=True, kw_only=True):
    value: Value | UnsetType = UNSET
    fact_type: Name | UnsetType = UNSET
    confidence: Share | UnsetType = UNSET


class HistoryRequest(Struct, frozen=True, kw_only=True):
    name: str
    limit: Limit = 50
    offset: Offset = 0


class FactAnswer(Struct, frozen=True, kw_only=True):
    id: str
    scope: str
    agent_id: str | None
    user_id: str | None
    key: str
    value: str
    fact_type: str
    confidence: float
    times_confirmed: int
    access_count: int
    created_at: str
    updated_at: str
    session_id: str | None
    event_id: str | None

    @classmethod
    def from_fact(cls, fact: Fact) -> "FactAnswer":
        return copy_fields(
            cls,
            fact,
            confidence=round(fact.confidence, 4),
            created_at=format_time(fact.created_ms),
            updated_at=format_time(fact.updated_ms),
        )


class FormerAnswer(Struct, frozen=True, kw_only=True):
    """An earlier value of a fact."""

    value: str
    fact_type: str
    confidence: float
    times_confirmed: int
    held_from: str
    held_until: str
    session_id: str | None
    event_id: str | None

    @classmethod
    def from_former(cls, former: Former) -> "FormerAnswer":
        return copy_fields(
            cls,
            former,
            confidence=round(former.confidence, 4),
            held_from=format_time(former.since_ms),
            held_until=format_time(former.until_ms),
        )


@operation(
    "facts.list",
    role=Role.READER,
    scoped=True,
    http=f"GET {PATH}/facts/",
    version=lambda facts: facts.version(),
)
def list_facts(facts: Facts, request: FactFilter) -> Items[FactAnswer]:
    """List facts, the newest first."""
    page = facts.page(**structs.asdict(request))
    return Items.from_page(page, FactAnswer.from_fact)


@operation(
    "facts.claim",
    role=Role.WRITER,
    scoped=True,
    http=f"POST {PATH}/facts/",
    status=201,
    example={"key": "test_command", "value": "make test", "fact_type": "preference"},
)
def claim_fact(facts: Facts, request: FactCreate) -> FactAnswer:
    """Claim a fact."""
    return FactAnswer.from_fact(facts.claim(Claim(**structs.asdict(request))))


@operation("facts.read", role=Role.READER, scoped=True, http=f"GET {PATH}/facts/{{name}}/")
def read_fact(facts: Facts, request: RecordName) -> FactAnswer:
    """Read a fact."""
    return FactAnswer.from_fact(facts.read(request.name))


@operation(
    "facts.correct",
    role=Role.WRITER,
    scoped=True,
    http=f"PATCH {PATH}/facts/{{name}}/",
    example={"value": "make check test"},
)
def correct_fact(facts: Facts, request: FactChange) -> FactAnswer:
    """Correct a fact."""
    changes = list_changes(request, but="name")
    return FactAnswer.from_fact(facts.correct(request.name, **changes))


@operation(
    "facts.history", role=Role.READER, scoped=True, http=f"GET {PATH}/facts/{{name}}/history/"
)
def list_former(facts: Facts, request: HistoryRequest) -> Items[FormerAnswer]:
    """List the earlier values of a fact, the latest first."""
    page = facts.history(request.name, limit=request.limit, offset=request.offset)
    return Items.from_page(page, FormerAnswer.from_former)


@operation("facts.delete", http=f"POST {PATH}/facts/batch-delete/", status=204, example=EXAMPLE_IDS)
def delete_facts(facts: Facts, request: Ids) -> None:
    """Delete facts."""
    facts.remove(request.ids)


class EpisodeCreate(Struct, frozen=True, kw_only=True):
    agent_id: Agent = ""
    user_id: OptionalName = None
    session_id: OptionalName = None
    trigger_type: Name = CHAT
    success: bool = True
    error_code: OptionalName = None
    summary: Text = ""
    started_at: Time
    ended_at: Time


class EpisodeChange(RecordName, frozen=True, kw_only=True):
    success: bool | UnsetType = UNSET
    error_code: OptionalName | UnsetType = UNSET
    summary: Text | UnsetType = UNSET


class EpisodeAnswer(Struct, frozen=True, kw_only=True):
    id: str
    agent_id: str | None
    user_id: str | None
    trigger_type: str
    success: bool
    error_code: str | None
    summary: str
    started_at: str
    ended_at: str
    duration_ms: int
    created_at: str
    session_id: str | None

    @classmethod
    def from_episode(cls, episode: Episode) -> "EpisodeAnswer":
        return copy_fields(
            cls,
            episode,
            agent_id=episode.agent_id or None,
            started_at=format_time(episode.started_ms),
            ended_at=format_time(episode.ended_ms),
            created_at=format_time(episode.created_ms),
        )


@operation(
    "episodes.list",
    role=Role.READER,
    http=f"GET {PATH}/episodes/",
    version=lambda knowledge: knowledge.episodes.version(),
)
def list_episodes(knowledge: Knowledge, request: AgentFilter) -> Items[EpisodeAnswer]:
    """List episodes, the newest first."""
    page = knowledge.episodes.page(**structs.asdict(request))
    return Items.from_page(page, EpisodeAnswer.from_episode)


@operation(
    "episodes.add",
    role=Role.WRITER,
    http=f"POST {PATH}/episodes/",
    status=201,
    example={
        "agent_id": "support-bot",
        "trigger_type": "chat",
        "summary": "Found the parcel of order 4711",
        "started_at": "2026-01-15T10:30:00",
        "ended_at": "2026-01-15T10:35:00",
    },
)
def add_episode(knowledge: Knowledge, request: EpisodeCreate) -> EpisodeAnswer:
    """Add an episode."""
    fields = structs.asdict(request)
    fields["started_ms"] = parse_millis("started_at", fields.pop("started_at"))
    fields["ended_ms"] = parse_millis("ended_at", fields.pop("ended_at"))
    return EpisodeAnswer.from_episode(knowledge.add_episode(fields))


@operation("episodes.read", role=Role.READER, http=f"GET {PATH}/episodes/{{name}}/")
def read_episode(knowledge: Knowledge, request: RecordName) -> EpisodeAnswer:
    """Read an episode."""
    return EpisodeAnswer.from_episode(knowledge.episodes.read(request.name))


@operation(
    "episodes.change",
    role=Role.WRITER,
    http=f"PATCH {PATH}/episodes/{{name}}/",
    example={"success": False, "error_code": "timeout"},
)
def change_episode(knowledge: Knowledge, request: EpisodeChange) -> EpisodeAnswer:
    """Change an episode."""
    changes = list_changes(request, but="name")
    return EpisodeAnswer.from_episode(knowledge.change_episode(request.name, changes))


@operation(
    "episodes.delete", http=f"POST {PATH}/episodes/batch-delete/", status=204, example=EXAMPLE_IDS
)
def delete_episodes(knowledge: Knowledge, request: Ids) -> None:
    """Delete episodes."""
    knowledge.episodes.remove(request.ids)


class ProcedureName(Struct, frozen=True, kw_only=True):
    procedure_id: str


class ProcedureCreate(Struct, frozen=True, kw_only=True):
    agent_id: Agent = ""
    name: Name
    description: Text = ""
    procedure_type: Name = TOOL_CHAIN
    steps: Annotated[tuple[Name, ...], Meta(max_length=100)] = ()
    is_active: bool = True
    times_succeeded: Count = 0
    times_failed: Count = 0


class ProcedureChange(ProcedureName, frozen=True, kw_only=True):
    """The fields to change. Set `times_succeeded` and `times_failed` only if you keep count."""

    name: Name | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    times_succeeded: Count | UnsetType = UNSET
    times_failed: Count | UnsetType = UNSET


class ProcedureUse(ProcedureName, frozen=True, kw_only=True):
    """One use of a procedure, and how it ended."""

    success: bool


class ProcedureAnswer(Struct, frozen=True, kw_only=True):
    id: str
    agent_id: str | None
    name: str
    description: str
    procedure_type: str
    times_used: int
    times_succeeded: int
    times_failed: int
    success_rate: float
    is_active: bool
    created_at: str
    steps: tuple[str, ...]

    @classmethod
    def from_procedure(cls, procedure: Procedure) -> "ProcedureAnswer":
        return copy_fields(
            cls,
            procedure,
            agent_id=procedure.agent_id or None,
            success_rate=round(procedure.success_rate, 3),
            created_at=format_time(procedure.created_ms),
        )


@operation(
    "procedures.list",
    role=Role.READER,
    http=f"GET {PATH}/procedures/",
    version=lambda knowledge: knowledge.procedures.version(),
)
def list_procedures(knowledge: Knowledge, request: AgentFilter) -> Items[ProcedureAnswer]:
    """List procedures, the newest first."""
    page = knowledge.procedures.page(**structs.asdict(request))
    return Items.from_page(page, ProcedureAnswer.from_procedure)


@operation(
    "procedures.add",
    role=Role.WRITER,
    http=f"POST {PATH}/procedures/",
    status=201,
    example={
        "agent_id": "support-bot",
        "name": "order_lookup",
        "description": "Look up the state of an order by its number",
        "steps": ["find_order", "track_parcel"],
    },
)
def add_procedure(knowledge: Knowledge, request: ProcedureCreate) -> ProcedureAnswer:
    """Add a procedure."""
    return ProcedureAnswer.from_procedure(knowledge.add_procedure(structs.asdict(request)))


@operation("procedures.read", role=Role.READER, http=f"GET {PATH}/procedures/{{procedure_id}}/")
def read_procedure(knowledge: Knowledge, request: ProcedureName) -> ProcedureAnswer:
    """Read a procedure."""
    return ProcedureAnswer.from_procedure(knowledge.procedures.read(request.procedure_id))


@operation(
    "procedures.change",
    role=Role.WRITER,
    http=f"PATCH {PATH}/procedures/{{procedure_id}}/",
    example={"is_active": False},
)
def change_procedure(knowledge: Knowledge, request: ProcedureChange) -> ProcedureAnswer:
    """Change a procedure."""
    changes = list_changes(request, but="procedure_id")
    changed = knowledge.change_procedure(request.procedure_id, changes)
    return ProcedureAnswer.from_procedure(changed)


@operation(
    "procedures.use",
    role=Role.WRITER,
    http=f"POST {PATH}/procedures/{{procedure_id}}/uses/",
    status=201,
    example={"success": True},
)
def count_use(knowledge: Knowledge, request: ProcedureUse) -> ProcedureAnswer:
    """Count a use of a procedure."""
    counted = knowledge.count_use(request.procedure_id, succeeded=request.success)
    return ProcedureAnswer.from_procedure(counted)


@operation(
    "procedures.delete",
    http=f"POST {PATH}/procedures/batch-delete/",
    status=204,
    example=EXAMPLE_IDS,
)
def delete_procedures(knowledge: Knowledge, request: Ids) -> None:
    """Delete procedures."""
    knowledge.procedures.remove(request.ids)


class UserFields(Struct, frozen=True, kw_only=True):
    display_name: OptionalName | UnsetType = UNSET
    telegram_id: OptionalName | UnsetType = UNSET
    email: OptionalName | UnsetType = UNSET


class UserCreate(UserFields, frozen=True, kw_only=True):
    canonical_id: Name


class UserChange(UserFields, frozen=True, kw_only=True):
    name: str


class UserAnswer(Struct, frozen=True, kw_only=True):
    id: str
    canonical_id: str
    display_name: str | None
    telegram_id: str | None
    email: str | None
    total_conversations: int
    last_seen_at: str | None
    created_at: str

    @classmethod
    def from_user(cls, user: User) -> "UserAnswer":
        seen = user.last_seen_ms
        return copy_fields(
            cls,
            user,
            last_seen_at=None if seen is None else format_time(seen),
            created_at=format_time(user.created_ms),
        )


@operation(
    "users.list",
    role=Role.ADMIN,
    http=f"GET {PATH}/users/",
    version=lambda knowledge: knowledge.users.version(),
)
def list_users(knowledge: Knowledge, request: PageRequest) -> Items[UserAnswer]:
    """List users, the newest first."""
    page = knowledge.users.page(**structs.asdict(request))
    return Items.from_page(page, UserAnswer.from_user)


@operation(
    "users.add",
    role=Role.ADMIN,
    http=f"POST {PATH}/users/",
    status=201,
    example={"canonical_id": "telegram:123456789", "display_name": "Ann"},
)
def add_user(knowledge: Knowledge, request: UserCreate) -> UserAnswer:
    """Add a user, or update one."""
    fields = list_changes(request, but="canonical_id")
    return UserAnswer.from_user(knowledge.add_user(request.canonical_id, fields))


@operation("users.read", role=Role.ADMIN, http=f"GET {PATH}/users/{{name}}/")
def read_user(knowledge: Knowledge, request: RecordName) -> UserAnswer:
    """Read a user."""
    return UserAnswer.from_user(knowledge.users.read(request.name))


@operation(
    "users.change",
    role=Role.ADMIN,
    http=f"PATCH {PATH}/users/{{name}}/",
    example={"email": "ann@example.org"},
)
def change_user(knowledge: Knowledge, request: UserChange) -> UserAnswer:
    """Change a user."""
    changes = list_changes(request, but="name")
    return UserAnswer.from_user(knowledge.users.change(request.name, changes))


@operation("users.delete", http=f"POST {PATH}/users/batch-delete/", status=204, example=EXAMPLE_IDS)
def delete_users(knowledge: Knowledge, request: Ids) -> None:
    """Delete users."""
    knowledge.users.remove(request.ids)


def format_time(at_ms: Millis) -> str:
    seconds, millis = divmod(at_ms, 1000)
    at = datetime.fromtimestamp(seconds, UTC).replace(microsecond=millis * 1000, tzinfo=None)
    return at.isoformat(timespec="milliseconds" if millis else "seconds")


def parse_millis(name: str, at: datetime) -> Millis:
    """Convert a time to milliseconds. A time without an offset is UTC."""
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    millis = round(aware.timestamp() * 1000)
    if not 0 <= millis <= MAX_MILLIS:
        raise InvalidInput(f"{name} is {at.isoformat()}; it must be from 1970 to 2286")
    return Millis(millis)
