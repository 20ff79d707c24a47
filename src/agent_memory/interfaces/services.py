"""The services of the daemon that the CLI, HTTP and MCP call."""

from dataclasses import dataclass

from agent_memory.features.access.services.access import Access
from agent_memory.features.access.services.audit import AuditLog
from agent_memory.features.backups.services.archiving import FullExport
from agent_memory.features.backups.services.backups import Backups
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.forgetting.services.review import ReviewInbox
from agent_memory.features.hooks.services.backfill import Backfill
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.hooks.services.installing import Installing
from agent_memory.features.index.model.queries import Search
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.injections.services.provenance import Provenance
from agent_memory.features.jobs.services.jobs import Jobs
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.knowledge.services.knowledge import Knowledge
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.features.maintenance.services.admin import Admin
from agent_memory.features.maintenance.services.verification import Verification
from agent_memory.features.memories.services.bulk_editing import BulkEditor
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.consolidation import Consolidation
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.memories.services.transfer import Transfer
from agent_memory.features.memories.services.undo import ChangeHistory
from agent_memory.features.memories.services.versions import MemoryVersions
from agent_memory.features.monitoring.services.failures import RecentFailures
from agent_memory.features.monitoring.services.metrics import Metrics
from agent_memory.features.projects.services.projects import ProjectOverview
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.memory_stats import MemoryStatistics
from agent_memory.features.recall.services.opening import Opening
from agent_memory.features.recall.services.reasoning import Reasoning
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.runs.services.agent_catalog import AgentCatalog
from agent_memory.features.runs.services.recorder import RunMemory
from agent_memory.features.runs.services.runs import Runs
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.features.toc.services.background_rebuild import BackgroundRebuild
from agent_memory.features.toc.services.contents import Contents
from agent_memory.features.toc.services.journal import WorkJournal
from agent_memory.features.toc.services.rebuild import Rebuild
from agent_memory.features.upstream.services.account import TeamAccount
from agent_memory.features.upstream.services.exchange import TeamExchange
from agent_memory.features.upstream.services.joint_recall import JointRecall
from agent_memory.features.upstream.services.login import TeamLogin
from agent_memory.features.upstream.services.team_search import TeamSearch
from agent_memory.kernel.composition import Composition
from agent_memory.platform.ports import Clock, ModelServer, Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of this daemon. `by_type` has also those of features that may be left out."""

    by_type: Composition
    ingest: Ingest
    timeline: Timeline
    admin: Admin
    backups: Backups
    archiving: FullExport
    access: Access
    audit: AuditLog | None  # of a team server
    contents: Contents
    journal: WorkJournal
    jobs: Jobs
    rebuild: Rebuild
    background_rebuild: BackgroundRebuild
    recall: Recall
    search: Search  # here, and on the server of the team if there is one
    joint_recall: JointRecall
    exchange: TeamExchange
    team_search: TeamSearch
    team_login: TeamLogin
    team_account: TeamAccount
    opening: Opening
    context: ContextBuilder
    indexes: Indexes
    capture: Capture
    editor: MemoryEditor
    resolver: ProjectResolver
    remote_sync: RemoteSync
    memory_stats: MemoryStatistics
    consolidation: Consolidation
    reasoning: Reasoning
    transfer: Transfer
    history: ChangeHistory
    bulk_editor: BulkEditor
    versions: MemoryVersions
    injections: Injections
    provenance: Provenance
    backfill: Backfill
    consent: RecordingConsent
    hook_handling: HookHandling
    forgetting: Forgetting
    memory_forgetting: MemoryForgetting
    review: ReviewInbox
    installing: Installing
    verification: Verification
    worker: Worker
    runs: Runs
    run_memory: RunMemory
    agent_catalog: AgentCatalog
    model: ModelServer
    clock: Clock
    facts: Facts
    knowledge: Knowledge
    changes: ChangeFeed
    metrics: Metrics
    failures: RecentFailures
    projects: ProjectOverview
