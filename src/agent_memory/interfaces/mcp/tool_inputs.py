"""The inputs of tools, with the limits of each field."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
)

from agent_memory.features.index.model.queries import MAX_LIMIT, MAX_QUERY_CHARS
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import (
    MAX_CONTENT_BYTES,
    MAX_NAME_CHARS,
    MAX_RELATED,
    MAX_SPEC_CHARS,
    MAX_SUMMARY_CHARS,
    MAX_TAG_CHARS,
    MAX_TAGS,
    NAMESPACES,
)
from agent_memory.interfaces.search_request import KIND_WORDS
from agent_memory.interfaces.wire.search import Detail

MAX_FORGOTTEN = 50
MAX_AROUND = 20
_VALUE_CHARS = 4_096
_TOKEN_CHARS = 20
_TIME_CHARS = 100

Namespace = Annotated[
    str,
    AfterValidator(memories.resolve_namespace),
    Field(json_schema_extra={"enum": [*NAMESPACES]}),
]
AnyNamespace = Annotated[
    str,
    AfterValidator(lambda name: name and memories.resolve_namespace(name)),
    Field(json_schema_extra={"enum": ["", *NAMESPACES]}),
]
Kind = Annotated[str, Field(json_schema_extra={"enum": [*KIND_WORDS]})]
Status = Literal["pending", "active", "resolved", "archived", "tombstone"]
Role = Literal["", "user", "assistant", "system", "tool"]
Tag = Annotated[str, Field(max_length=MAX_TAG_CHARS)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
Domain = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Filter = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Token = Annotated[
    str,
    Field(
        max_length=_TOKEN_CHARS,
        description="continuation_token of the previous answer, to get the next page.",
    ),
]

ONE_DOMAIN = (
    "`project` (the current one), `user` (personal, in all projects), `org` (shared), or another"
    " project by its name: `project:my-app`."
)
SOME_DOMAIN = f"`all`, {ONE_DOMAIN}"


def _as_text(value: Any) -> Any:
    """Write a value as a user would type it: models send numbers and lists as such."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value) if isinstance(value, int | float) else value


class ToolInput(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


class CaptureInput(ToolInput):
    namespace: Namespace = Field(description="The kind of memory.")
    summary: str = Field(
        min_length=1,
        max_length=MAX_SUMMARY_CHARS,
        description="One line that can be understood without the content.",
    )
    content: str = Field(
        "",
        max_length=MAX_CONTENT_BYTES,
        description="Details in markdown: reasons, alternatives, consequences.",
    )
    domain: Domain = Field("project", description=ONE_DOMAIN)
    tags: list[Tag] = Field(default=[], max_length=MAX_TAGS)
    spec: str = Field("", max_length=MAX_SPEC_CHARS, description="The specification it belongs to.")
    relates_to: list[Name] = Field(
        default=[],
        max_length=MAX_RELATED,
        description="Ids or URIs of related memories.",
    )


class RecallInput(ToolInput):
    query: str = Field(
        "",
        max_length=MAX_QUERY_CHARS,
        description="A question or words, as you would ask a colleague. Empty lists the newest.",
    )
    limit: StrictInt = Field(10, ge=1, le=MAX_LIMIT)
    namespace: AnyNamespace = Field("", description="Only this kind of memory; empty: any.")
    domain: Domain = Field("all", description=f"{SOME_DOMAIN} Several with commas.")
    mode: Literal["hybrid", "vector", "bm25"] = Field(
        "hybrid", description="By words and meaning, by meaning, or by words."
    )
    min_similarity: float = Field(0.0, ge=0.0, le=1.0, description="Only with at least this score.")
    detail: Detail = Field("summary", description="`full` includes the content.")
    kinds: list[Kind] = Field(
        default=[],
        max_length=6,
        description="Where to look: memories, facts, events (what was said, verbatim), segments"
        " (summaries of conversations), grips (quotes of events), or all. Empty: all but grips, and"
        " only memories if the query is empty.",
    )
    tags: list[Tag] = Field(default=[], max_length=MAX_TAGS, description="Only with all of these.")
    since: str = Field("", max_length=_TIME_CHARS, description="2026-01-30, or `last week`.")
    until: str = Field("", max_length=_TIME_CHARS, description="Likewise.")
    project: Filter = Field("", description="Only of this project, by its name.")
    session_id: Filter = Field(
        "", description="Only of this session: its id, or a beginning of it."
    )
    agent: Filter = Field("", description="Only of this agent, as `claude-code`.")
    role: Role = Field("", description="Only events of this role; empty: any.")
    spec: Filter = Field("", description="Only memories of this specification.")
    statuses: list[Status] = Field(
        default=[],
        max_length=5,
        description="Only memories with one of these; empty: all but archived and tombstone."
        " `pending` was noted automatically: the user has not confirmed it yet.",
    )
    include_archived: StrictBool = Field(default=False, description="Archived memories too.")
    continuation_token: Token = ""


class StatusInput(ToolInput):
    domain: Domain = Field("all", description=SOME_DOMAIN)


class SyncInput(ToolInput):
    domain: Domain = Field("all", description=SOME_DOMAIN)
    remote: StrictBool = Field(
        default=False, description="Fetch from the git remote, merge, and push to it."
    )
    fetch: StrictBool = Field(default=False, description="Fetch only.")
    push: StrictBool = Field(default=False, description="Push only.")
    force: StrictBool = Field(default=False, description="Read all notes, even if none seem new.")


class ConsolidateInput(ToolInput):
    dry_run: StrictBool = Field(default=True, description="Only show the plan; false applies it.")
    full: StrictBool = Field(
        default=False, description="Compare all memories, not only the new ones."
    )
    domain: Domain = Field("all", description=SOME_DOMAIN)
    undo: StrictBool = Field(default=False, description="Undo the last consolidation instead.")


class ConfigureInput(ToolInput):
    key: str = Field(
        "", max_length=100, description="For example `hooks.enabled`. Empty lists all settings."
    )
    value: Annotated[str, BeforeValidator(_as_text), Field(max_length=_VALUE_CHARS)] | None = Field(
        default=None,
        description="The new value: `true`, `42`, `a,b`. Leave it out to read the setting.",
        json_schema_extra={"anyOf": None, "type": "string", "maxLength": _VALUE_CHARS},
    )


class TimelineInput(ToolInput):
    node_id: str = Field(
        "",
        max_length=MAX_NAME_CHARS,
        description="For example `toc:day:2026-01-30`. Empty lists the years.",
    )
    limit: StrictInt = Field(20, ge=1, le=100, description="Children per page.")
    continuation_token: Token = ""


class ExpandInput(ToolInput):
    grip_id: Name = Field(
        description="The grip_id of a bullet of memory_timeline or a result of memory_recall."
    )
    events_before: StrictInt = Field(3, ge=0, le=MAX_AROUND)
    events_after: StrictInt = Field(3, ge=0, le=MAX_AROUND)


class ForgetInput(ToolInput):
    memory_ids: list[Name] = Field(
        min_length=1, max_length=MAX_FORGOTTEN, description="Ids or URIs of memories."
    )
    confirm: StrictBool = Field(
        default=False, description="true only after the user has agreed to erase these memories."
    )
    rewrite_notes: StrictBool = Field(
        default=False, description="Also remove them from the history of this clone's git notes."
    )


def schema(model: type[ToolInput]) -> dict[str, Any]:
    """Return the JSON Schema without titles, which only repeat the names."""
    shortened: dict[str, Any] = _drop_titles(model.model_json_schema())
    return shortened


def _drop_titles(value: Any) -> Any:
    if isinstance(value, list):
        return [_drop_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: {key: _drop_titles(child) for key, child in item.items()}
        if name == "properties"
        else _drop_titles(item)
        for name, item in value.items()
        if item is not None and not (name == "title" and isinstance(item, str))
    }
