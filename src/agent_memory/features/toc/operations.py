"""Operations on the table of contents."""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from agent_memory.features.log.model.tokens import format_offset, parse_offset
from agent_memory.features.log.operations import LoggedEvent
from agent_memory.features.toc.model.highlights import Work
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.model.toc import Grip, TocNode
from agent_memory.features.toc.services.contents import (
    DEFAULT_CHILDREN,
    MAX_CHILDREN,
    MAX_CONTEXT,
    Contents,
    Expansion,
    TocBranch,
)
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import InvalidInput, NotFound
from agent_memory.kernel.operations import operation
from agent_memory.kernel.structs import Offset, copy_fields
from agent_memory.kernel.tracing import Interface

LevelName = Literal["year", "month", "week", "day", "segment"]
_LEVELS: Mapping[Level, LevelName] = {
    Level.YEAR: "year",
    Level.MONTH: "month",
    Level.WEEK: "week",
    Level.DAY: "day",
    Level.SEGMENT: "segment",
}
SEGMENT_DAYS = 92  # of one answer over HTTP
NodeId = Annotated[str, Meta(description="For example `toc:day:2026-01-30`.")]
Around = Annotated[
    int,
    Meta(description=f"Events; {MAX_CONTEXT} at most come.", extra_json_schema={"minimum": 0}),
]


class NodeBullet(Struct, frozen=True, kw_only=True):
    """`kind` is note, asked, planned, finished, done, decided, found, broken, open or state."""

    text: str
    grip_ids: list[str]
    kind: str


class WorkDone(Struct, frozen=True, kw_only=True):
    """How much was done in the time of a node."""

    sessions: int
    prompts: int
    commits: int
    seconds: int
    files: list[str]

    @classmethod
    def from_work(cls, work: Work) -> "WorkDone":
        return copy_fields(cls, work, files=list(work.files))


class GripExcerpt(Struct, frozen=True, kw_only=True):
    """The words that a bullet is about, and the events that have them."""

    grip_id: str
    excerpt: str
    event_id_start: str
    event_id_end: str
    timestamp_ms: int
    source: str
    toc_node_id: str

    @classmethod
    def from_grip(cls, grip: Grip) -> "GripExcerpt":
        return copy_fields(cls, grip, timestamp_ms=grip.at_ms, toc_node_id=grip.node_id)


class ContentsNode(Struct, frozen=True, kw_only=True):
    """A year, month, week, day or segment. A segment has a session and a project.

    A version has `created_at_ms`, a node of a tree `children`, and a segment of a session `grips`.
    """

    node_id: str
    level: LevelName
    title: str
    summary: str = ""
    bullets: list[NodeBullet]
    keywords: list[str]
    child_node_ids: list[str]
    start_time_ms: int
    end_time_ms: int
    version: int
    session_id: str
    project: str
    work: WorkDone
    created_at_ms: int | UnsetType = UNSET
    children: "list[ContentsNode] | UnsetType" = UNSET
    grips: list[GripExcerpt] | UnsetType = UNSET


def describe_node(
    node: TocNode,
    *,
    created_at_ms: int | UnsetType = UNSET,
    children: list[ContentsNode] | UnsetType = UNSET,
    grips: list[GripExcerpt] | UnsetType = UNSET,
) -> ContentsNode:
    return ContentsNode(
        node_id=node.node_id,
        level=_LEVELS[node.level],
        title=node.title,
        summary=node.summary,
        bullets=[
            NodeBullet(text=each.text, grip_ids=list(each.grip_ids), kind=each.kind.word)
            for each in node.bullets
        ],
        keywords=list(node.keywords),
        child_node_ids=list(node.child_ids),
        start_time_ms=node.start_ms,
        end_time_ms=node.end_ms,
        version=node.version,
        session_id=node.session,
        project=node.project,
        work=WorkDone.from_work(node.work),
        created_at_ms=created_at_ms,
        children=children,
        grips=grips,
    )


class ContentsNodes(Struct, frozen=True, kw_only=True):
    nodes: list[ContentsNode]


class NodeRequest(Struct, frozen=True, kw_only=True):
    node_id: NodeId
    version: (
        Annotated[int, Meta(ge=1, le=10**6, description="An earlier version of it.")] | None
    ) = None


class ChildrenRequest(Struct, frozen=True, kw_only=True):
    parent_id: NodeId
    limit: Annotated[
        int,
        Meta(
            description=f"0 is the default, {DEFAULT_CHILDREN}; {MAX_CHILDREN} at most come.",
            extra_json_schema={"minimum": 0},
        ),
    ] = 0
    offset: Offset = 0
    continuation_token: (
        Annotated[str, Meta(description="That of the page before, or `offset`.")] | None
    ) = None


class NodeChildren(Struct, frozen=True, kw_only=True):
    """The children of a node, by time."""

    children: list[ContentsNode]
    next_offset: int | None = None
    continuation_token: str | None = None
    has_more: bool = False


class TreeRequest(Struct, frozen=True, kw_only=True):
    depth: Annotated[LevelName, Meta(description="The lowest level.")] = "day"
    start: Annotated[date, Meta(description="The first day.")] | None = field(
        default=None, name="from"
    )
    end: Annotated[date, Meta(description="The last day.")] | None = field(default=None, name="to")
    project: Annotated[str, Meta(max_length=256)] = ""


class GripRequest(Struct, frozen=True, kw_only=True):
    grip_id: Annotated[str, Meta(max_length=128)]
    events_before: Around | None = None
    events_after: Around | None = None


class ExpandedGrip(Struct, frozen=True, kw_only=True):
    """A grip with the events of its excerpt, and those around them in the same session."""

    grip: GripExcerpt
    events_before: list[LoggedEvent]
    excerpt_events: list[LoggedEvent]
    events_after: list[LoggedEvent]


@operation(
    "toc.years",
    role=Role.READER,
    http="GET /api/v1/toc/",
    rpc="memory.MemoryService.GetTocRoot",
    tag="contents",
)
def list_years(contents: Contents) -> ContentsNodes:
    """List the years of the table of contents, newest first."""
    return ContentsNodes(nodes=[describe_node(node) for node in contents.list_years()])


@operation("toc.tree", role=Role.READER, http="GET /api/v1/toc/tree/", tag="contents")
def read_tree(contents: Contents, caller: Caller, request: TreeRequest) -> ContentsNodes:
    """Read the table of contents with all levels down to a depth."""
    depth, start, end = Level[request.depth.upper()], request.start, request.end
    is_short = start is not None and end is not None and (end - start).days <= SEGMENT_DAYS
    if caller.interface is Interface.HTTP and depth is Level.SEGMENT and not is_short:
        raise InvalidInput(
            f"depth=segment needs `from` and `to`, at most {SEGMENT_DAYS} days apart: a table of"
            " years has too many segments for one answer"
        )
    branches = contents.tree(start, end, project=request.project, depth=depth)
    return ContentsNodes(nodes=[_describe_branch(branch) for branch in branches])


@operation(
    "toc.read",
    role=Role.READER,
    scoped=True,
    http="GET /api/v1/toc/{node_id}/",
    rpc="memory.MemoryService.GetNode",
    tag="contents",
)
def read_node(contents: Contents, request: NodeRequest) -> ContentsNode:
    """Read a node, or an earlier version of it."""
    if request.version is None:
        node = contents.get_node(request.node_id)
    else:
        node = contents.version(request.node_id, request.version)
    if node is None:
        version = "" if request.version is None else f" version {request.version}"
        raise NotFound(f"no node {request.node_id!r}{version}")
    return describe_node(node, created_at_ms=UNSET if request.version is None else node.created_ms)


@operation("toc.history")
def list_versions(contents: Contents, request: NodeRequest) -> ContentsNodes:
    """List the versions of a node, the newest first."""
    versions = contents.history(request.node_id)
    if not versions:
        raise NotFound(f"no earlier versions of {request.node_id!r}")
    return ContentsNodes(
        nodes=[describe_node(each, created_at_ms=each.created_ms) for each in versions]
    )


@operation(
    "toc.children",
    role=Role.READER,
    http="GET /api/v1/toc/{parent_id}/children/",
    rpc="memory.MemoryService.BrowseToc",
    tool="memory_timeline",
    tag="contents",
)
def list_children(contents: Contents, request: ChildrenRequest) -> NodeChildren:
    """List the children of a node, by time."""
    token = request.continuation_token
    offset = request.offset if token is None else parse_offset(token)
    page = contents.list_children(request.parent_id, limit=request.limit, offset=offset)
    return NodeChildren(
        children=[describe_node(node) for node in page.nodes],
        next_offset=page.next,
        continuation_token=format_offset(page.next),
        has_more=page.next is not None,
    )


@operation(
    "toc.expand",
    role=Role.READER,
    scoped=True,
    http="GET /api/v1/grips/{grip_id}/",
    rpc="memory.MemoryService.ExpandGrip",
    tool="memory_expand",
    tag="contents",
)
def expand_grip(contents: Contents, request: GripRequest) -> ExpandedGrip:
    """Show the conversation around a grip of a bullet."""
    expansion = contents.expand(
        request.grip_id, before=request.events_before, after=request.events_after
    )
    return describe_expansion(expansion, request.grip_id)


def describe_expansion(expansion: Expansion, grip_id: str) -> ExpandedGrip:
    if expansion.grip is None:
        raise NotFound(f"no grip {grip_id!r}")
    return ExpandedGrip(
        grip=GripExcerpt.from_grip(expansion.grip),
        events_before=list(map(LoggedEvent.from_event, expansion.before)),
        excerpt_events=list(map(LoggedEvent.from_event, expansion.excerpt)),
        events_after=list(map(LoggedEvent.from_event, expansion.after)),
    )


def _describe_branch(branch: TocBranch) -> ContentsNode:
    return describe_node(branch.node, children=list(map(_describe_branch, branch.branches)))
