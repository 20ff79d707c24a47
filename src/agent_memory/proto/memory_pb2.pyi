from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EventType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_TYPE_UNSPECIFIED: _ClassVar[EventType]
    EVENT_TYPE_SESSION_START: _ClassVar[EventType]
    EVENT_TYPE_USER_MESSAGE: _ClassVar[EventType]
    EVENT_TYPE_ASSISTANT_MESSAGE: _ClassVar[EventType]
    EVENT_TYPE_TOOL_RESULT: _ClassVar[EventType]
    EVENT_TYPE_ASSISTANT_STOP: _ClassVar[EventType]
    EVENT_TYPE_SUBAGENT_START: _ClassVar[EventType]
    EVENT_TYPE_SUBAGENT_STOP: _ClassVar[EventType]
    EVENT_TYPE_SESSION_END: _ClassVar[EventType]

class EventRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_ROLE_UNSPECIFIED: _ClassVar[EventRole]
    EVENT_ROLE_USER: _ClassVar[EventRole]
    EVENT_ROLE_ASSISTANT: _ClassVar[EventRole]
    EVENT_ROLE_SYSTEM: _ClassVar[EventRole]
    EVENT_ROLE_TOOL: _ClassVar[EventRole]

class TocLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOC_LEVEL_UNSPECIFIED: _ClassVar[TocLevel]
    TOC_LEVEL_YEAR: _ClassVar[TocLevel]
    TOC_LEVEL_MONTH: _ClassVar[TocLevel]
    TOC_LEVEL_WEEK: _ClassVar[TocLevel]
    TOC_LEVEL_DAY: _ClassVar[TocLevel]
    TOC_LEVEL_SEGMENT: _ClassVar[TocLevel]

class JobResultStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_RESULT_STATUS_UNSPECIFIED: _ClassVar[JobResultStatus]
    JOB_RESULT_STATUS_SUCCESS: _ClassVar[JobResultStatus]
    JOB_RESULT_STATUS_FAILED: _ClassVar[JobResultStatus]
    JOB_RESULT_STATUS_SKIPPED: _ClassVar[JobResultStatus]
EVENT_TYPE_UNSPECIFIED: EventType
EVENT_TYPE_SESSION_START: EventType
EVENT_TYPE_USER_MESSAGE: EventType
EVENT_TYPE_ASSISTANT_MESSAGE: EventType
EVENT_TYPE_TOOL_RESULT: EventType
EVENT_TYPE_ASSISTANT_STOP: EventType
EVENT_TYPE_SUBAGENT_START: EventType
EVENT_TYPE_SUBAGENT_STOP: EventType
EVENT_TYPE_SESSION_END: EventType
EVENT_ROLE_UNSPECIFIED: EventRole
EVENT_ROLE_USER: EventRole
EVENT_ROLE_ASSISTANT: EventRole
EVENT_ROLE_SYSTEM: EventRole
EVENT_ROLE_TOOL: EventRole
TOC_LEVEL_UNSPECIFIED: TocLevel
TOC_LEVEL_YEAR: TocLevel
TOC_LEVEL_MONTH: TocLevel
TOC_LEVEL_WEEK: TocLevel
TOC_LEVEL_DAY: TocLevel
TOC_LEVEL_SEGMENT: TocLevel
JOB_RESULT_STATUS_UNSPECIFIED: JobResultStatus
JOB_RESULT_STATUS_SUCCESS: JobResultStatus
JOB_RESULT_STATUS_FAILED: JobResultStatus
JOB_RESULT_STATUS_SKIPPED: JobResultStatus

class Event(_message.Message):
    __slots__ = ("event_id", "session_id", "timestamp_ms", "event_type", "role", "text", "metadata")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    session_id: str
    timestamp_ms: int
    event_type: EventType
    role: EventRole
    text: str
    metadata: _containers.ScalarMap[str, str]
    def __init__(self, event_id: _Optional[str] = ..., session_id: _Optional[str] = ..., timestamp_ms: _Optional[int] = ..., event_type: _Optional[_Union[EventType, str]] = ..., role: _Optional[_Union[EventRole, str]] = ..., text: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ...) -> None: ...

class IngestEventRequest(_message.Message):
    __slots__ = ("event",)
    EVENT_FIELD_NUMBER: _ClassVar[int]
    event: Event
    def __init__(self, event: _Optional[_Union[Event, _Mapping]] = ...) -> None: ...

class IngestEventResponse(_message.Message):
    __slots__ = ("event_id", "created")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    created: bool
    def __init__(self, event_id: _Optional[str] = ..., created: _Optional[bool] = ...) -> None: ...

class IngestEventsRequest(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class IngestOutcome(_message.Message):
    __slots__ = ("event_id", "created", "error")
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    event_id: str
    created: bool
    error: str
    def __init__(self, event_id: _Optional[str] = ..., created: _Optional[bool] = ..., error: _Optional[str] = ...) -> None: ...

class IngestEventsResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[IngestOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[IngestOutcome, _Mapping]]] = ...) -> None: ...

class TocBullet(_message.Message):
    __slots__ = ("text", "grip_ids", "kind")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    GRIP_IDS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    text: str
    grip_ids: _containers.RepeatedScalarFieldContainer[str]
    kind: str
    def __init__(self, text: _Optional[str] = ..., grip_ids: _Optional[_Iterable[str]] = ..., kind: _Optional[str] = ...) -> None: ...

class WorkFigures(_message.Message):
    __slots__ = ("sessions", "prompts", "commits", "seconds", "files")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    prompts: int
    commits: int
    seconds: int
    files: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sessions: _Optional[int] = ..., prompts: _Optional[int] = ..., commits: _Optional[int] = ..., seconds: _Optional[int] = ..., files: _Optional[_Iterable[str]] = ...) -> None: ...

class TocNode(_message.Message):
    __slots__ = ("node_id", "level", "title", "summary", "bullets", "keywords", "child_node_ids", "start_time_ms", "end_time_ms", "version", "session_id", "project", "work")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    BULLETS_FIELD_NUMBER: _ClassVar[int]
    KEYWORDS_FIELD_NUMBER: _ClassVar[int]
    CHILD_NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    END_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    WORK_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    level: TocLevel
    title: str
    summary: str
    bullets: _containers.RepeatedCompositeFieldContainer[TocBullet]
    keywords: _containers.RepeatedScalarFieldContainer[str]
    child_node_ids: _containers.RepeatedScalarFieldContainer[str]
    start_time_ms: int
    end_time_ms: int
    version: int
    session_id: str
    project: str
    work: WorkFigures
    def __init__(self, node_id: _Optional[str] = ..., level: _Optional[_Union[TocLevel, str]] = ..., title: _Optional[str] = ..., summary: _Optional[str] = ..., bullets: _Optional[_Iterable[_Union[TocBullet, _Mapping]]] = ..., keywords: _Optional[_Iterable[str]] = ..., child_node_ids: _Optional[_Iterable[str]] = ..., start_time_ms: _Optional[int] = ..., end_time_ms: _Optional[int] = ..., version: _Optional[int] = ..., session_id: _Optional[str] = ..., project: _Optional[str] = ..., work: _Optional[_Union[WorkFigures, _Mapping]] = ...) -> None: ...

class GetTocRootRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTocRootResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[TocNode]
    def __init__(self, nodes: _Optional[_Iterable[_Union[TocNode, _Mapping]]] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class GetNodeResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: TocNode
    def __init__(self, node: _Optional[_Union[TocNode, _Mapping]] = ...) -> None: ...

class BrowseTocRequest(_message.Message):
    __slots__ = ("parent_id", "limit", "continuation_token")
    PARENT_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    parent_id: str
    limit: int
    continuation_token: str
    def __init__(self, parent_id: _Optional[str] = ..., limit: _Optional[int] = ..., continuation_token: _Optional[str] = ...) -> None: ...

class BrowseTocResponse(_message.Message):
    __slots__ = ("children", "continuation_token", "has_more")
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    children: _containers.RepeatedCompositeFieldContainer[TocNode]
    continuation_token: str
    has_more: bool
    def __init__(self, children: _Optional[_Iterable[_Union[TocNode, _Mapping]]] = ..., continuation_token: _Optional[str] = ..., has_more: _Optional[bool] = ...) -> None: ...

class GetEventsRequest(_message.Message):
    __slots__ = ("from_timestamp_ms", "to_timestamp_ms", "limit", "continuation_token")
    FROM_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    TO_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    from_timestamp_ms: int
    to_timestamp_ms: int
    limit: int
    continuation_token: str
    def __init__(self, from_timestamp_ms: _Optional[int] = ..., to_timestamp_ms: _Optional[int] = ..., limit: _Optional[int] = ..., continuation_token: _Optional[str] = ...) -> None: ...

class GetEventsResponse(_message.Message):
    __slots__ = ("events", "has_more", "continuation_token")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    has_more: bool
    continuation_token: str
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., has_more: _Optional[bool] = ..., continuation_token: _Optional[str] = ...) -> None: ...

class Grip(_message.Message):
    __slots__ = ("grip_id", "excerpt", "event_id_start", "event_id_end", "timestamp_ms", "source", "toc_node_id")
    GRIP_ID_FIELD_NUMBER: _ClassVar[int]
    EXCERPT_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_START_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_END_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TOC_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    grip_id: str
    excerpt: str
    event_id_start: str
    event_id_end: str
    timestamp_ms: int
    source: str
    toc_node_id: str
    def __init__(self, grip_id: _Optional[str] = ..., excerpt: _Optional[str] = ..., event_id_start: _Optional[str] = ..., event_id_end: _Optional[str] = ..., timestamp_ms: _Optional[int] = ..., source: _Optional[str] = ..., toc_node_id: _Optional[str] = ...) -> None: ...

class ExpandGripRequest(_message.Message):
    __slots__ = ("grip_id", "events_before", "events_after")
    GRIP_ID_FIELD_NUMBER: _ClassVar[int]
    EVENTS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    EVENTS_AFTER_FIELD_NUMBER: _ClassVar[int]
    grip_id: str
    events_before: int
    events_after: int
    def __init__(self, grip_id: _Optional[str] = ..., events_before: _Optional[int] = ..., events_after: _Optional[int] = ...) -> None: ...

class ExpandGripResponse(_message.Message):
    __slots__ = ("grip", "events_before", "excerpt_events", "events_after")
    GRIP_FIELD_NUMBER: _ClassVar[int]
    EVENTS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    EXCERPT_EVENTS_FIELD_NUMBER: _ClassVar[int]
    EVENTS_AFTER_FIELD_NUMBER: _ClassVar[int]
    grip: Grip
    events_before: _containers.RepeatedCompositeFieldContainer[Event]
    excerpt_events: _containers.RepeatedCompositeFieldContainer[Event]
    events_after: _containers.RepeatedCompositeFieldContainer[Event]
    def __init__(self, grip: _Optional[_Union[Grip, _Mapping]] = ..., events_before: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., excerpt_events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., events_after: _Optional[_Iterable[_Union[Event, _Mapping]]] = ...) -> None: ...

class JobStatusProto(_message.Message):
    __slots__ = ("job_name", "cron_expr", "last_run_ms", "last_duration_ms", "last_result", "last_error", "next_run_ms", "run_count", "error_count", "is_running", "is_paused")
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    CRON_EXPR_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_RESULT_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    NEXT_RUN_MS_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ERROR_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    IS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    job_name: str
    cron_expr: str
    last_run_ms: int
    last_duration_ms: int
    last_result: JobResultStatus
    last_error: str
    next_run_ms: int
    run_count: int
    error_count: int
    is_running: bool
    is_paused: bool
    def __init__(self, job_name: _Optional[str] = ..., cron_expr: _Optional[str] = ..., last_run_ms: _Optional[int] = ..., last_duration_ms: _Optional[int] = ..., last_result: _Optional[_Union[JobResultStatus, str]] = ..., last_error: _Optional[str] = ..., next_run_ms: _Optional[int] = ..., run_count: _Optional[int] = ..., error_count: _Optional[int] = ..., is_running: _Optional[bool] = ..., is_paused: _Optional[bool] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("query", "kinds", "mode", "limit", "project", "session_id", "namespace", "domain", "tags", "from_timestamp_ms", "to_timestamp_ms", "min_score", "continuation_token", "agent", "role", "spec", "statuses", "include_archived")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    FROM_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    TO_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    MIN_SCORE_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ARCHIVED_FIELD_NUMBER: _ClassVar[int]
    query: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    mode: str
    limit: int
    project: str
    session_id: str
    namespace: str
    domain: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    from_timestamp_ms: int
    to_timestamp_ms: int
    min_score: float
    continuation_token: str
    agent: str
    role: str
    spec: str
    statuses: _containers.RepeatedScalarFieldContainer[str]
    include_archived: bool
    def __init__(self, query: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., mode: _Optional[str] = ..., limit: _Optional[int] = ..., project: _Optional[str] = ..., session_id: _Optional[str] = ..., namespace: _Optional[str] = ..., domain: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., from_timestamp_ms: _Optional[int] = ..., to_timestamp_ms: _Optional[int] = ..., min_score: _Optional[float] = ..., continuation_token: _Optional[str] = ..., agent: _Optional[str] = ..., role: _Optional[str] = ..., spec: _Optional[str] = ..., statuses: _Optional[_Iterable[str]] = ..., include_archived: _Optional[bool] = ...) -> None: ...

class SearchHit(_message.Message):
    __slots__ = ("kind", "id", "uri", "score", "title", "text", "event_id", "session_id", "timestamp_ms", "grip_id", "node_id", "score_parts", "last_event_id", "role", "speaker", "project", "namespace", "domain", "tags", "spec", "status", "truncated", "agent", "tool_name", "relates_to", "passage", "origin", "person")
    class ScorePartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    GRIP_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    SCORE_PARTS_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    SPEAKER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    RELATES_TO_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    PERSON_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    uri: str
    score: float
    title: str
    text: str
    event_id: str
    session_id: str
    timestamp_ms: int
    grip_id: str
    node_id: str
    score_parts: _containers.ScalarMap[str, float]
    last_event_id: str
    role: str
    speaker: str
    project: str
    namespace: str
    domain: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    spec: str
    status: str
    truncated: bool
    agent: str
    tool_name: str
    relates_to: _containers.RepeatedScalarFieldContainer[str]
    passage: Passage
    origin: str
    person: str
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ..., uri: _Optional[str] = ..., score: _Optional[float] = ..., title: _Optional[str] = ..., text: _Optional[str] = ..., event_id: _Optional[str] = ..., session_id: _Optional[str] = ..., timestamp_ms: _Optional[int] = ..., grip_id: _Optional[str] = ..., node_id: _Optional[str] = ..., score_parts: _Optional[_Mapping[str, float]] = ..., last_event_id: _Optional[str] = ..., role: _Optional[str] = ..., speaker: _Optional[str] = ..., project: _Optional[str] = ..., namespace: _Optional[str] = ..., domain: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., spec: _Optional[str] = ..., status: _Optional[str] = ..., truncated: _Optional[bool] = ..., agent: _Optional[str] = ..., tool_name: _Optional[str] = ..., relates_to: _Optional[_Iterable[str]] = ..., passage: _Optional[_Union[Passage, _Mapping]] = ..., origin: _Optional[str] = ..., person: _Optional[str] = ...) -> None: ...

class Passage(_message.Message):
    __slots__ = ("text", "start", "end", "marks")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    MARKS_FIELD_NUMBER: _ClassVar[int]
    text: str
    start: int
    end: int
    marks: _containers.RepeatedCompositeFieldContainer[Mark]
    def __init__(self, text: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., marks: _Optional[_Iterable[_Union[Mark, _Mapping]]] = ...) -> None: ...

class Mark(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("hits", "continuation_token", "warning", "total", "certain")
    HITS_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    CERTAIN_FIELD_NUMBER: _ClassVar[int]
    hits: _containers.RepeatedCompositeFieldContainer[SearchHit]
    continuation_token: str
    warning: str
    total: int
    certain: bool
    def __init__(self, hits: _Optional[_Iterable[_Union[SearchHit, _Mapping]]] = ..., continuation_token: _Optional[str] = ..., warning: _Optional[str] = ..., total: _Optional[int] = ..., certain: _Optional[bool] = ...) -> None: ...

class GetSchedulerStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSchedulerStatusResponse(_message.Message):
    __slots__ = ("scheduler_running", "jobs")
    SCHEDULER_RUNNING_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    scheduler_running: bool
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatusProto]
    def __init__(self, scheduler_running: _Optional[bool] = ..., jobs: _Optional[_Iterable[_Union[JobStatusProto, _Mapping]]] = ...) -> None: ...

class PauseJobRequest(_message.Message):
    __slots__ = ("job_name",)
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    job_name: str
    def __init__(self, job_name: _Optional[str] = ...) -> None: ...

class PauseJobResponse(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: bool
    error: str
    def __init__(self, success: _Optional[bool] = ..., error: _Optional[str] = ...) -> None: ...

class ResumeJobRequest(_message.Message):
    __slots__ = ("job_name",)
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    job_name: str
    def __init__(self, job_name: _Optional[str] = ...) -> None: ...

class ResumeJobResponse(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: bool
    error: str
    def __init__(self, success: _Optional[bool] = ..., error: _Optional[str] = ...) -> None: ...

class RunJobRequest(_message.Message):
    __slots__ = ("job_name",)
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    job_name: str
    def __init__(self, job_name: _Optional[str] = ...) -> None: ...

class RunJobResponse(_message.Message):
    __slots__ = ("success", "error", "job")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    success: bool
    error: str
    job: JobStatusProto
    def __init__(self, success: _Optional[bool] = ..., error: _Optional[str] = ..., job: _Optional[_Union[JobStatusProto, _Mapping]] = ...) -> None: ...
