"""Operations on memories: read, change, merge, sync, and undo."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from msgspec import UNSET, Meta, Struct, UnsetType, field

from agent_memory.features.index.model import documents
from agent_memory.features.memories.model import differences, memory_fields
from agent_memory.features.memories.model.changes import ChangeAction, ChangeEntry
from agent_memory.features.memories.model.consolidations import (
    ConsolidationPlan,
    ConsolidationRun,
    Merge,
)
from agent_memory.features.memories.model.differences import Comparison, Mark
from agent_memory.features.memories.model.duplicates import Cluster
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.model.notes import NoteProblem
from agent_memory.features.memories.services.bulk_editing import (
    BulkChange,
    BulkEditor,
    BulkRefusal,
)
from agent_memory.features.memories.services.consolidation import Consolidation
from agent_memory.features.memories.services.editing import (
    MemoryDetails,
    MemoryEdit,
    MemoryEditor,
)
from agent_memory.features.memories.services.project_resolver import SOME_DOMAIN
from agent_memory.features.memories.services.remote_sync import DomainSyncOutcome, RemoteSync
from agent_memory.features.memories.services.sync import SyncOptions, SyncResult
from agent_memory.features.memories.services.undo import ChangeHistory, UndoPlan
from agent_memory.features.memories.services.versions import MemoryVersion, MemoryVersions
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ALL, Domain
from agent_memory.kernel.operations import operation
from agent_memory.kernel.progress import OnProgress
from agent_memory.kernel.structs import MAX_IDS, copy_fields
from agent_memory.kernel.tracing import Interface

PATH = "/api/v1/memories"
ONE = f"{PATH}/{{namespace}}/{{name}}"
PAGE = "page"  # the interface of memories that were written in the page
MAX_SHOWN = 100  # groups of duplicates
EXAMPLE_ID = "decisions:abc123def456:0"

Reference = Annotated[str, Meta(max_length=300)]
References = Annotated[
    list[Reference], Meta(min_length=1, max_length=MAX_IDS, description="Ids or URIs.")
]
Names = Annotated[tuple[str, ...], Meta(max_length=100)]
StatusName = Literal["active", "resolved", "archived"]
DomainName = Annotated[str, Meta(max_length=300)]
SomeDomain = Annotated[
    str, Meta(max_length=300, description=SOME_DOMAIN, examples=["project:my-app"])
]
Marks = dict[str, list[Mark]]
_TEXTS = ("summary", "content")  # null if there is none: every other field


class MemoryName(Struct, frozen=True, kw_only=True):
    """The name of a memory: of its id, the namespace and the rest."""

    namespace: str
    name: str
    domain: Annotated[
        str, Meta(max_length=300, examples=["project:my-app"], extra={"in": "query"})
    ] = ""

    @classmethod
    def of(cls, memory: Memory, **values: Any) -> Self:
        namespace, _, name = memory.id.partition(":")
        return cls(namespace=namespace, name=name, domain=memory.domain, **values)

    @property
    def reference(self) -> str:
        """The name by which the editor finds the memory."""
        if self.domain:
            return f"subcog://{self.domain}/{self.namespace}/{self.name}"
        return f"{self.namespace}:{self.name}"


class MemoryAnswer(Struct, frozen=True, kw_only=True):
    """A memory. Lists leave its content out."""

    id: str
    uri: str
    namespace: str
    domain: str
    summary: str
    content: str | UnsetType = UNSET
    timestamp: str
    timestamp_ms: int
    updated_at: str
    spec: str | None
    tags: list[str]
    relates_to: list[str]
    status: str
    commit: str | None
    superseded_by: str | None
    event_id: str | None
    session_id: str | None
    author: str | None
    agent: str | None
    interface: str | None

    @classmethod
    def from_memory(cls, memory: Memory, **values: Any) -> Self:
        fields = memory_fields.to_fields(memory, documents.format_iso)
        shown: dict[str, Any] = {
            name: fields[name] if fields[name] != "" or name in _TEXTS else None
            for name in MemoryAnswer.__struct_fields__
        }
        return cls(**shown | values)


class MemoryDetailsAnswer(MemoryAnswer, frozen=True, kw_only=True):
    """A memory with its tier and its use, which only this machine has."""

    tier: str
    activation_count: int
    last_accessed: str | None

    @classmethod
    def from_details(cls, details: MemoryDetails, **values: Any) -> Self:
        use = details.use
        return cls.from_memory(
            details.memory,
            tier=details.tier.value,
            activation_count=use.count,
            last_accessed=documents.format_iso(use.last_ms) if use.count else None,
            **values,
        )


@operation("memories.read", role=Role.READER, scoped=True, http=f"GET {ONE}/")
def read_memory(editor: MemoryEditor, caller: Caller, request: MemoryName) -> MemoryDetailsAnswer:
    """Read one memory.

    With a key, it counts as a use, which keeps a memory from fading. To look at it in the page
    does not.
    """
    here = editor.resolver.find_here(caller)
    details = editor.show(request.reference, here, counted=not caller.is_person)
    return MemoryDetailsAnswer.from_details(details)


class MemoryPatch(MemoryName, frozen=True, kw_only=True):
    """The fields to change. New text makes a new memory, which supersedes this one."""

    summary: str | None = None
    content: str | None = None
    spec: str | None = None
    add_tags: Names = ()
    remove_tags: Names = ()
    relates_to: Names | None = None
    remove_relations: Names = ()
    status: StatusName | None = None
    updated_at: (
        Annotated[
            str,
            Meta(max_length=40, description="As you read it: refuse if it was changed since."),
        ]
        | None
    ) = None

    def build_edit(self, caller: Caller) -> MemoryEdit:
        return MemoryEdit(
            summary=self.summary,
            content=self.content,
            spec=self.spec,
            tags=frozenset(self.add_tags),
            removed_tags=frozenset(self.remove_tags),
            relates_to=self.relates_to,
            removed_relations=self.remove_relations,
            agent=caller.agent,
            interface=name_interface(caller),
        )


class ChangedMemoryAnswer(MemoryAnswer, frozen=True, kw_only=True):
    """`change` names what undo takes back; null if nothing was recorded for it."""

    warning: str | None
    change: str | None


@operation(
    "memories.change",
    role=Role.WRITER,
    scoped=True,
    http=f"PATCH {ONE}/",
    example={"status": "resolved"},
)
def change_memory(
    history: ChangeHistory, caller: Caller, request: MemoryPatch
) -> ChangedMemoryAnswer:
    """Edit a memory, resolve it or archive it."""
    here = history.editor.resolver.find_here(caller)
    memory = history.editor.find(request.reference, here)
    if request.updated_at not in (None, documents.format_iso(memory.updated_ms)):
        raise InvalidInput(
            f"{memory.id} was changed since you opened it: look at it again before you edit it"
        )
    edit, status = request.build_edit(caller), _parse_status(request.status)
    if edit.empty and status is None:
        raise InvalidInput("nothing to change: give a text, tags, relations or a status")
    action = ChangeAction.EDIT
    if edit.empty:
        action = BulkChange(status=status).name_action([memory])
    warning = None
    with history.recording(action, by_user=caller.is_person) as changing:
        if not edit.empty:
            edited = changing.editor.edit(memory, edit, here, by_user=caller.may_accept)
            memory, warning = edited.memory, edited.warning
        if status is not None:
            memory = changing.editor.set_status(memory, status, here)
    return ChangedMemoryAnswer.from_memory(
        memory, warning=warning, change=name_change(changing.entry)
    )


class RefusalAnswer(Struct, frozen=True, kw_only=True):
    id: str
    reason: str

    @classmethod
    def from_refusal(cls, refusal: BulkRefusal) -> "RefusalAnswer":
        return cls(id=refusal.name, reason=str(refusal.error))


class BatchChange(Struct, frozen=True, kw_only=True):
    """One change for many memories. A tag that a memory has already, or has not, is no error."""

    ids: References
    status: StatusName | None = None
    add_tags: Names = ()
    remove_tags: Names = ()


class BatchChangeAnswer(Struct, frozen=True, kw_only=True):
    changed: list[MemoryAnswer]
    refused: list[RefusalAnswer]
    change: str | None


@operation(
    "memories.change_many",
    role=Role.WRITER,
    scoped=True,
    http=f"POST {PATH}/batch-change/",
    example={"ids": [EXAMPLE_ID], "status": "archived"},
)
def change_memories(
    bulk_editor: BulkEditor, caller: Caller, request: BatchChange
) -> BatchChangeAnswer:
    """Change the status or the tags of many memories at once."""
    here = bulk_editor.history.editor.resolver.find_here(caller)
    found, unknown = bulk_editor.find(request.ids, here)
    done = bulk_editor.change(
        found,
        BulkChange(
            status=_parse_status(request.status),
            added_tags=frozenset(request.add_tags),
            removed_tags=frozenset(request.remove_tags),
        ),
        here,
        by_user=caller.is_person,
    )
    return BatchChangeAnswer(
        changed=[MemoryAnswer.from_memory(each, content=UNSET) for each in done.changed],
        refused=list(map(RefusalAnswer.from_refusal, (*unknown, *done.refused))),
        change=name_change(done.entry),
    )


class ComparedMemoryAnswer(MemoryAnswer, frozen=True, kw_only=True):
    """A memory with as much of its content as is compared.

    `marks` are the places of the words that differ from another memory, by the name of the part;
    `kept_marks` those of the other. What was compared with no other has none.
    """

    marks: Marks | UnsetType = UNSET
    kept_marks: Marks | UnsetType = UNSET

    @classmethod
    def from_comparison(cls, memory: Memory, comparison: Comparison | None, **values: Any) -> Self:
        if comparison is not None:
            values |= {"marks": comparison.old, "kept_marks": comparison.new}
        content = memory.content[: differences.COMPARED_CHARS]
        return cls.from_memory(memory, content=content, **values)


class TagChangeAnswer(Struct, frozen=True, kw_only=True):
    name: str
    at_ms: int
    present: bool


class VersionAnswer(ComparedMemoryAnswer, frozen=True, kw_only=True):
    """A version, compared with the one that superseded it; the newest has no marks."""

    changed: list[str]
    tag_changes: list[TagChangeAnswer]

    @classmethod
    def from_version(cls, version: MemoryVersion) -> Self:
        memory = version.memory
        return cls.from_comparison(
            memory,
            version.comparison,
            changed=list(version.changed),
            tag_changes=[
                TagChangeAnswer(name=name, at_ms=at_ms, present=name in memory.tags)
                for name, at_ms in memory.tag_changes
            ],
        )


class VersionsAnswer(Struct, frozen=True, kw_only=True):
    versions: list[VersionAnswer]


@operation("memories.list_versions", role=Role.READER, scoped=True, http=f"GET {ONE}/versions/")
def list_versions(versions: MemoryVersions, caller: Caller, request: MemoryName) -> VersionsAnswer:
    """List the versions of a memory, newest first, with what changed."""
    here = versions.editor.resolver.find_here(caller)
    memory = versions.editor.find(request.reference, here)
    return VersionsAnswer(
        versions=[VersionAnswer.from_version(each) for each in versions.list_all(memory)]
    )


class DuplicatesRequest(Struct, frozen=True, kw_only=True):
    domain: DomainName = ""
    full: Annotated[bool, Meta(description="Compare all memories, not only the new ones.")] = False
    limit: Annotated[int, Meta(ge=1, le=MAX_SHOWN)] = 20


class DuplicateGroupAnswer(Struct, frozen=True, kw_only=True):
    kept: MemoryAnswer
    superseded: list[ComparedMemoryAnswer]

    @classmethod
    def from_merge(cls, merge: Merge) -> "DuplicateGroupAnswer":
        return cls(
            kept=ComparedMemoryAnswer.from_comparison(merge.cluster.kept, None),
            superseded=[ComparedMemoryAnswer.from_comparison(*pair) for pair in merge.compare()],
        )


class DuplicatesAnswer(Struct, frozen=True, kw_only=True):
    """`considered` memories were compared; of all groups, `merges` has the first."""

    considered: int
    total: int
    merges: list[DuplicateGroupAnswer]
    skipped: list[str]


@operation("memories.list_duplicates", http=f"GET {PATH}/duplicates/")
def list_duplicates(
    consolidation: Consolidation, request: DuplicatesRequest, on_progress: OnProgress
) -> DuplicatesAnswer:
    """List memories that say the same, in groups with the one to keep."""
    plan = consolidation.plan(
        [Domain(request.domain)] if request.domain else None,
        full=request.full,
        rewrite=False,
        on_progress=on_progress,
    )
    return DuplicatesAnswer(
        considered=plan.considered,
        total=len(plan.merges),
        merges=list(map(DuplicateGroupAnswer.from_merge, plan.merges[: request.limit])),
        skipped=list(plan.skipped),
    )


class MergeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Memories of one domain that become one: `kept` stays and gets the tags of all."""

    kept: Reference
    superseded: Annotated[list[Reference], Meta(min_length=1, max_length=100)]


class MergeRequests(Struct, frozen=True, kw_only=True):
    merges: Annotated[list[MergeRequest], Meta(min_length=1, max_length=MAX_SHOWN)]


class MergedAnswer(Struct, frozen=True, kw_only=True):
    superseded: list[str]
    skipped: list[str]
    change: str | None


@operation(
    "memories.merge",
    http=f"POST {PATH}/merges/",
    example={"merges": [{"kept": EXAMPLE_ID, "superseded": ["decisions:98e3d5759073:0"]}]},
)
def merge_memories(
    consolidation: Consolidation,
    caller: Caller,
    request: MergeRequests,
    on_progress: OnProgress,
) -> MergedAnswer:
    """Merge memories into ones that stay."""
    editor = consolidation.editor
    here = editor.resolver.find_here(caller)
    chosen = [
        Cluster(
            kept=editor.find(each.kept, here),
            others=tuple(editor.find(name, here) for name in each.superseded),
        )
        for each in request.merges
    ]
    merged = consolidation.merge(chosen, here, on_progress)
    return MergedAnswer(
        superseded=_list_ids(merged.superseded),
        skipped=list(merged.skipped),
        change=name_change(merged.run),
    )


class PlannedMergeAnswer(Struct, frozen=True, kw_only=True):
    """A group of memories that become one. `kept` is null if its text is new."""

    kept: str | None
    summary: str
    superseded: list[str]

    @classmethod
    def from_merge(cls, merge: Merge) -> "PlannedMergeAnswer":
        return cls(
            kept=None if merge.written else merge.cluster.kept.id,
            summary=(merge.written or merge.cluster.kept).summary,
            superseded=_list_ids(merge.superseded),
        )


class TierMoveAnswer(Struct, frozen=True, kw_only=True):
    id: str
    before: str = field(name="from")
    after: str = field(name="to")


class ConsolidationAnswer(Struct, frozen=True, kw_only=True):
    """What a consolidation did, or would do."""

    applied: bool
    considered: int
    merges: list[PlannedMergeAnswer]
    moves: list[TierMoveAnswer]
    skipped: list[str]

    @classmethod
    def from_plan(cls, plan: ConsolidationPlan, *, applied: bool) -> "ConsolidationAnswer":
        return cls(
            applied=applied,
            considered=plan.considered,
            merges=list(map(PlannedMergeAnswer.from_merge, plan.merges)),
            moves=[
                TierMoveAnswer(id=each.memory.id, before=each.before.value, after=each.after.value)
                for each in plan.moves
            ],
            skipped=list(plan.skipped),
        )


class ConsolidateRequest(Struct, frozen=True, kw_only=True):
    dry_run: Annotated[bool, Meta(description="Only show the plan; false applies it.")] = True
    full: Annotated[bool, Meta(description="Compare all memories, not only the new ones.")] = False
    domain: SomeDomain = ALL


@operation("memories.consolidate", role=Role.ADMIN, tool="memory_consolidate")
def consolidate_memories(
    consolidation: Consolidation,
    caller: Caller,
    request: ConsolidateRequest,
    on_progress: OnProgress,
) -> ConsolidationAnswer:
    """Find memories that say the same, and merge them."""
    resolver = consolidation.editor.resolver
    outcome = consolidation.consolidate(
        resolver.resolve_domains(request.domain, caller),
        resolver.find_here(caller),
        full=request.full,
        confirm=lambda _plan: not request.dry_run,
        on_progress=on_progress,
    )
    return ConsolidationAnswer.from_plan(outcome.plan, applied=outcome.applied)


class SyncRequest(Struct, frozen=True, kw_only=True):
    domain: SomeDomain = ALL
    remote: Annotated[
        bool, Meta(description="Fetch from the git remote, merge, and push to it.")
    ] = False
    fetch: Annotated[bool, Meta(description="Fetch only.")] = False
    push: Annotated[bool, Meta(description="Push only.")] = False
    force: Annotated[bool, Meta(description="Read all notes, even if none seem new.")] = False


class SyncedDomain(Struct, frozen=True, kw_only=True):
    domain: str
    imported: int
    written: int
    moved: int
    fetched: bool
    pushed: bool
    problems: list[NoteProblem]

    @classmethod
    def from_result(cls, synced: SyncResult) -> Self:
        return copy_fields(cls, synced, domain=synced.place.domain, problems=list(synced.problems))


class FailedDomain(Struct, frozen=True, kw_only=True):
    domain: str
    reason: str


class SyncAnswer(Struct, frozen=True, kw_only=True):
    """What was synced, what failed, and what was synced without a remote."""

    success: bool
    domains: list[SyncedDomain]
    failed: list[FailedDomain]
    warnings: list[str]

    @classmethod
    def from_outcomes(cls, outcomes: Sequence[DomainSyncOutcome]) -> Self:
        failed = [
            FailedDomain(domain=each.place.domain, reason=str(each.failure))
            for each in outcomes
            if each.failure is not None
        ]
        return cls(
            success=not failed,
            domains=[SyncedDomain.from_result(each.synced) for each in outcomes if each.synced],
            failed=failed,
            warnings=[each.alone for each in outcomes if each.alone],
        )


@operation("memories.sync", tool="memory_sync")
def sync_memories(
    remote_sync: RemoteSync, caller: Caller, request: SyncRequest, on_progress: OnProgress
) -> SyncAnswer:
    """Sync memories with git notes, and with a remote to share them."""
    options = SyncOptions(
        fetch=request.fetch or request.remote,
        push=request.push or request.remote,
        force=request.force,
    )
    outcomes = remote_sync.sync_domains(request.domain, options, caller, on_progress)
    return SyncAnswer.from_outcomes(outcomes)


class UndoRequest(Struct, frozen=True, kw_only=True):
    """The change to undo, by the name that the answer to it had, so that no other is taken back."""

    change: Annotated[str, Meta(max_length=40, examples=["change-12"])]


class UndoAnswer(Struct, frozen=True, kw_only=True):
    """The memories that are restored, archived, or left because they have changed since."""

    change: str | None
    action: str
    changed_at: str
    changed_at_ms: int
    undone: bool
    restored: list[str]
    archived: list[str]
    left: list[str]

    @classmethod
    def from_plan(cls, plan: UndoPlan, *, undone: bool) -> "UndoAnswer":
        return cls(
            change=plan.name,
            action=plan.action.value,
            changed_at=documents.format_iso(plan.at_ms),
            changed_at_ms=plan.at_ms,
            undone=undone,
            restored=_list_ids(plan.restored),
            archived=_list_ids(plan.archived),
            left=_list_ids(plan.left),
        )


@operation("memories.plan_undo", http=f"GET {PATH}/undo/")
def plan_undo(history: ChangeHistory) -> UndoAnswer:
    """Show what undo would take back: the last change of the user, or the last merge."""
    return UndoAnswer.from_plan(history.find_last(), undone=False)


@operation("memories.undo", http=f"POST {PATH}/undo/")
def undo_change(history: ChangeHistory, caller: Caller, request: UndoRequest) -> UndoAnswer:
    """Take back the last change of the user; only the page may."""
    caller.require_person("undo your changes", "memory undo")
    here = history.editor.resolver.find_here(caller)
    return UndoAnswer.from_plan(history.undo(request.change, here), undone=True)


def name_interface(caller: Caller) -> str:
    """Return the interface by which a caller writes, as a memory names it."""
    if caller.interface is Interface.HTTP and caller.is_person:
        return PAGE
    return "" if caller.interface is None else caller.interface.value


def name_change(change: ChangeEntry | ConsolidationRun | None) -> str | None:
    """Return the name by which a change can be undone; None if nothing was recorded for it."""
    return None if change is None else change.name


def _parse_status(name: str | None) -> MemoryStatus | None:
    return None if name is None else MemoryStatus(name)


def _list_ids(memories: Sequence[Memory]) -> list[str]:
    return [memory.id for memory in memories]
