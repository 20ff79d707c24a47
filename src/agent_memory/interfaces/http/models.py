"""The models of REST, for the OpenAPI document and the validation of requests."""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from agent_memory.features.knowledge.model import facts
from agent_memory.kernel import limits

MAX_LIMIT = 500
MAX_OFFSET = 1_000_000
MAX_IDS = 1_000

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="The most items to return.")]
Offset = Annotated[int, Query(ge=0, le=MAX_OFFSET, description="Items to skip.")]
Filter = Annotated[str | None, Query(max_length=limits.NAME_CHARS)]

Name = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]
OptionalName = Annotated[str | None, Field(max_length=limits.NAME_CHARS)]
Text = Annotated[str, Field(max_length=limits.TEXT_CHARS)]
Value = Annotated[str, Field(max_length=limits.VALUE_CHARS)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=limits.MAX_COUNT)]

T = TypeVar("T")


class ResponseModel(BaseModel):
    """A response body."""


class RequestModel(BaseModel):
    """A request body. Unknown fields are refused, so that a typo does not go unnoticed."""

    model_config = ConfigDict(extra="forbid")

    def dump_set_fields(self) -> dict[str, Any]:
        """Return only the fields that the request contains."""
        return {name: getattr(self, name) for name in self.model_fields_set}


def show_example(example: dict[str, Any], *, omit_defaults: bool = False) -> ConfigDict:
    """Show an example in the OpenAPI document. Omit the defaults of a change: a field that is left
    out keeps its value."""

    def edit_schema(schema: dict[str, Any]) -> None:
        schema["examples"] = [example]
        for field in schema["properties"].values() if omit_defaults else ():
            field.pop("default", None)

    return ConfigDict(json_schema_extra=edit_schema)


class Items(ResponseModel, Generic[T]):
    items: list[T]
    total: int


class Ids(RequestModel):
    ids: Annotated[list[Annotated[str, Field(max_length=128)]], Field(max_length=MAX_IDS)]

    model_config = show_example({"ids": ["6f1c1f6e-6c0e-5f0f-9b0e-0d2a9a1f5a11"]})


class FactAnswer(ResponseModel):
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

    model_config = show_example(
        {
            "id": "6f1c1f6e-6c0e-5f0f-9b0e-0d2a9a1f5a11",
            "scope": "global",
            "agent_id": "claude-code",
            "user_id": None,
            "key": "test_command",
            "value": "make test",
            "fact_type": "preference",
            "confidence": 0.91,
            "times_confirmed": 3,
            "access_count": 12,
            "created_at": "2026-01-15T10:30:00",
            "updated_at": "2026-01-15T12:00:00",
            "session_id": "support-2026-01-15",
            "event_id": None,
        }
    )


class FactCreate(RequestModel):
    """A fact to store. The same value confirms the fact; another value replaces it, and the old one
    becomes history."""

    scope: Name = facts.DEFAULT_SCOPE
    agent_id: OptionalName = None
    user_id: OptionalName = None
    key: Name
    value: Value
    fact_type: Annotated[
        Name | None, Field(description="The default is the type it has; `fact` for a new one.")
    ] = None
    confidence: Share | None = None
    session_id: Annotated[OptionalName, Field(description="Where it was said.")] = None
    event_id: Annotated[OptionalName, Field(description="The event that says it.")] = None

    model_config = show_example(
        {"key": "test_command", "value": "make test", "fact_type": "preference"}
    )


class FactChange(RequestModel):
    value: Value = ""
    fact_type: Name = ""
    confidence: Share = 0.0

    model_config = show_example({"value": "make check test"}, omit_defaults=True)


class FormerAnswer(ResponseModel):
    value: str
    fact_type: str
    confidence: float
    times_confirmed: int
    held_from: str
    held_until: str
    session_id: str | None
    event_id: str | None


class EpisodeAnswer(ResponseModel):
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


class EpisodeCreate(RequestModel):
    agent_id: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    user_id: OptionalName = None
    session_id: OptionalName = None
    trigger_type: Name = "chat"
    success: bool = True
    error_code: OptionalName = None
    summary: Text = ""
    started_at: datetime
    ended_at: datetime

    model_config = show_example(
        {
            "agent_id": "support-bot",
            "trigger_type": "chat",
            "summary": "Found the parcel of order 4711",
            "started_at": "2026-01-15T10:30:00",
            "ended_at": "2026-01-15T10:35:00",
        }
    )


class EpisodeChange(RequestModel):
    success: bool = True
    error_code: OptionalName = None
    summary: Text = ""

    model_config = show_example({"success": False, "error_code": "timeout"}, omit_defaults=True)


class ProcedureAnswer(ResponseModel):
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
    steps: list[str]


class ProcedureCreate(RequestModel):
    agent_id: Annotated[str, Field(max_length=limits.NAME_CHARS)] = ""
    name: Name
    description: Text = ""
    procedure_type: Name = "tool_chain"
    steps: Annotated[list[Name], Field(max_length=100)] = []
    is_active: bool = True
    times_succeeded: Count = 0
    times_failed: Count = 0

    model_config = show_example(
        {
            "agent_id": "support-bot",
            "name": "order_lookup",
            "description": "Look up the state of an order by its number",
            "steps": ["find_order", "track_parcel"],
        }
    )


class ProcedureChange(RequestModel):
    """The fields to change. Set `times_succeeded` and `times_failed` only if you keep count."""

    name: Name = ""
    description: Text = ""
    is_active: bool = True
    times_succeeded: Count = 0
    times_failed: Count = 0

    model_config = show_example({"is_active": False}, omit_defaults=True)


class ProcedureUse(RequestModel):
    """One use of a procedure, and how it ended."""

    success: bool

    model_config = show_example({"success": True})


class UserAnswer(ResponseModel):
    id: str
    canonical_id: str
    display_name: str | None
    telegram_id: str | None
    email: str | None
    total_conversations: int
    last_seen_at: str | None
    created_at: str


class UserCreate(RequestModel):
    canonical_id: Name
    display_name: OptionalName = None
    telegram_id: OptionalName = None
    email: OptionalName = None

    model_config = show_example({"canonical_id": "telegram:123456789", "display_name": "Ann"})


class UserChange(RequestModel):
    display_name: OptionalName = None
    telegram_id: OptionalName = None
    email: OptionalName = None

    model_config = show_example({"email": "ann@example.org"}, omit_defaults=True)


class CheckpointAnswer(ResponseModel):
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    step: int | None
    source: str | None
    blob_size: int
    timestamp_ms: Annotated[int | None, Field(description="If its id tells the time.")]


class ThreadAnswer(ResponseModel):
    thread_id: str
    checkpoints: int
    latest: CheckpointAnswer


class CheckpointIds(RequestModel):
    """The checkpoints to delete, by thread or by id; at least one of the two."""

    thread_ids: Annotated[list[Name] | None, Field(max_length=MAX_IDS)] = None
    checkpoint_ids: Annotated[list[Name] | None, Field(max_length=MAX_IDS)] = None

    model_config = show_example({"thread_ids": ["1:5", "1:6"]})


class SessionAnswer(ResponseModel):
    """A session. `running` is one that has not ended, and was active within a day."""

    session_id: str
    episode_id: str | None
    agent: str | None
    user: str | None
    project: str | None
    summary: str
    events: int
    started_at: str
    last_event_at: str
    ended: bool
    running: bool


class Problem(ResponseModel):
    detail: Any
