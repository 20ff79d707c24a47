"""Composition root: the only file that names concrete classes."""

import asyncio
import getpass
import os
import secrets
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from agent_memory import __version__
from agent_memory.config import (
    BackupSettings,
    HttpSettings,
    SecuritySettings,
    Settings,
    TocSettings,
)
from agent_memory.features.backups.adapters import restoring
from agent_memory.features.backups.adapters.record import BackupRecord
from agent_memory.features.backups.adapters.snapshots import DataSnapshots
from agent_memory.features.backups.model import backups as domain_backups
from agent_memory.features.backups.model.backups import Retention
from agent_memory.features.backups.services.archiving import Archiving, Stores
from agent_memory.features.backups.services.backups import UPGRADES_KEPT, BackupPlan, Backups
from agent_memory.features.checkpoints.adapters import graph_layout
from agent_memory.features.checkpoints.adapters.graph_store import StoredGraphs
from agent_memory.features.checkpoints.adapters.graph_tally import GraphTally
from agent_memory.features.checkpoints.adapters.graph_threads import StoredGraphThreads
from agent_memory.features.checkpoints.services.graphs import Graphs
from agent_memory.features.forgetting.adapters.forgetting_plan import (
    StoredForgettingPlan,
    StoredForgettingReports,
)
from agent_memory.features.forgetting.adapters.traces import KeySpan, StoredTraces
from agent_memory.features.forgetting.model.forgetting import ForgettingReport
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.forgetting.services.purging import Purging
from agent_memory.features.hooks.adapters.agents.claude_code import (
    ClaudeCodeInstaller as ClaudeCodeSetup,
)
from agent_memory.features.hooks.adapters.agents.codex import CodexInstaller as CodexSetup
from agent_memory.features.hooks.adapters.agents.cursor import CursorInstaller as CursorSetup
from agent_memory.features.hooks.adapters.agents.files import DiskFiles
from agent_memory.features.hooks.adapters.agents.gemini import GeminiInstaller as GeminiSetup
from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.adapters.transcripts.claude_code import ClaudeCodeTranscript
from agent_memory.features.hooks.adapters.transcripts.codex import CodexTranscript
from agent_memory.features.hooks.adapters.transcripts.files import TranscriptFiles
from agent_memory.features.hooks.adapters.transcripts.plain import PlainTranscript
from agent_memory.features.hooks.model import installations
from agent_memory.features.hooks.services.auto_capture import AutoCapture
from agent_memory.features.hooks.services.backfill import Backfill
from agent_memory.features.hooks.services.context_injection import ContextInjection
from agent_memory.features.hooks.services.installing import Installing
from agent_memory.features.hooks.services.recording import Recording
from agent_memory.features.hooks.services.spooling import Spooling
from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.knowledge.adapters.knowledge_store import StoredKnowledge
from agent_memory.features.knowledge.model.episodes import Episode
from agent_memory.features.knowledge.model.procedures import Procedure
from agent_memory.features.knowledge.model.users import User
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.knowledge.services.knowledge import Knowledge, RecordService
from agent_memory.features.knowledge.services.learning import Learning
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.adapters.outbox import StoredOutbox
from agent_memory.features.log.ports import EventLog
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.features.memories.adapters.git import programs as git_programs
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.adapters.journal import StoredJournal
from agent_memory.features.memories.adapters.memory_store import (
    StoredMemories,
    StoredNoteQueue,
    StoredUses,
)
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.model.memories import Home
from agent_memory.features.memories.ports import Reasoner
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.consolidation import Consolidation
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.memories.services.project_resolver import (
    Caller,
    OrgRepository,
    ProjectResolver,
)
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.memories.services.sync import Sync
from agent_memory.features.memories.services.transfer import Transfer
from agent_memory.features.operations.adapters import cron, salvage, socket_owners
from agent_memory.features.operations.adapters.cron import CronScheduler, ScheduledJob
from agent_memory.features.operations.adapters.job_store import StoredJobs
from agent_memory.features.operations.adapters.key_ring import StoredKeyRing
from agent_memory.features.operations.ports import SpanExporter
from agent_memory.features.operations.services import jobs as job_names
from agent_memory.features.operations.services.access import Access
from agent_memory.features.operations.services.admin import Admin
from agent_memory.features.operations.services.jobs import Jobs
from agent_memory.features.operations.services.metrics import Metrics
from agent_memory.features.operations.services.verification import VECTORS, WORDS, Verification
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.document_reader import DocumentReader
from agent_memory.features.recall.services.embedding import Embedding
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.indexing import Indexing
from agent_memory.features.recall.services.memory_stats import MemoryStatistics
from agent_memory.features.recall.services.reasoning import Reasoning
from agent_memory.features.recall.services.recall import Recall, VectorSearch
from agent_memory.features.recall.services.unindexed import UnindexedDocuments
from agent_memory.features.runs.adapters.agent_folder import AgentCatalogFolder
from agent_memory.features.runs.adapters.programs import SupervisedPrograms
from agent_memory.features.runs.adapters.workspaces.folders import GuardedFolders
from agent_memory.features.runs.adapters.workspaces.patterns import Re2Patterns
from agent_memory.features.runs.services.agent_catalog import AgentCatalog
from agent_memory.features.runs.services.recorder import RunMemory
from agent_memory.features.runs.services.runs import RunDependencies as RunParts
from agent_memory.features.runs.services.runs import RunEnvironment, RunRules, Runs
from agent_memory.features.runs.services.toolset import ToolsetBuilder
from agent_memory.features.secrets.adapters import factory
from agent_memory.features.secrets.model.secrets import WITHHELD, Incident
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.adapters.token_budget import StoredTokenBudget
from agent_memory.features.toc.model.segments import SegmentRules
from agent_memory.features.toc.ports import Summarizer
from agent_memory.features.toc.services.contents import Contents
from agent_memory.features.toc.services.rebuild import Rebuild
from agent_memory.features.toc.services.rollup import Rollup
from agent_memory.features.toc.services.segmenting import Segmenting
from agent_memory.interfaces import wire
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.cli.backend import Backend, Serve, ServeOptions, Services
from agent_memory.interfaces.cli.frames import CommandCall
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.interfaces.cli.runner import Runner
from agent_memory.interfaces.grpc.admission import KeyGuard, SameUserGuard
from agent_memory.interfaces.grpc.agent_service import DESCRIPTOR as AGENT_SERVICE
from agent_memory.interfaces.grpc.agent_service import AgentService
from agent_memory.interfaces.grpc.checkpoint_service import DESCRIPTOR as CHECKPOINT_SERVICE
from agent_memory.interfaces.grpc.checkpoint_service import CheckpointService
from agent_memory.interfaces.grpc.daemon_service import DESCRIPTOR as DAEMON_SERVICE
from agent_memory.interfaces.grpc.daemon_service import DaemonControl, DaemonService
from agent_memory.interfaces.grpc.handlers import Handler
from agent_memory.interfaces.grpc.memory_service import DESCRIPTOR as MEMORY_SERVICE
from agent_memory.interfaces.grpc.memory_service import MemoryService
from agent_memory.interfaces.grpc.server import GrpcServer
from agent_memory.interfaces.guard import BearerGuard
from agent_memory.interfaces.hooks.handler import HookHandler
from agent_memory.interfaces.hooks.inputs import Delivery
from agent_memory.interfaces.http.asgi import Application
from agent_memory.interfaces.http.connection_limit import ConnectionLimit
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.gate import Gate, GatePolicy
from agent_memory.interfaces.http.lazy_app import LazyApp
from agent_memory.interfaces.http.metrics_middleware import MetricsMiddleware
from agent_memory.interfaces.mcp.dependencies import McpDependencies as McpParts
from agent_memory.interfaces.mcp.lazy_server import LazyMcpServer, TransportServer
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel import futures, ulids
from agent_memory.kernel.errors import (
    AgentMemoryError,
    ConfigError,
    ContentBlocked,
    FeatureUnavailable,
    GitFailed,
    InvalidInput,
)
from agent_memory.kernel.ids import KnowledgeId
from agent_memory.kernel.status import DaemonStatus, Damage, StoreCheck, StoreHealth, StoreRepair
from agent_memory.launcher import command_client
from agent_memory.platform import durable, priority
from agent_memory.platform.clock import SystemClock
from agent_memory.platform.llm.external import ExternalServer
from agent_memory.platform.llm.llama import LlamaOptions, LlamaServer
from agent_memory.platform.ports import Clock, OrderedStore, StoreMaintenance
from agent_memory.platform.store import damage, families, schema
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.maintenance import GuardedMaintenance
from agent_memory.platform.store.rocks import Get, RocksEngine
from agent_memory.platform.worker.process import ProcessWorker

log = structlog.get_logger()

BACKUP_SECONDS = 6 * 3600.0

LeasedServer = ExternalServer | LlamaServer


@dataclass(frozen=True, slots=True)
class App:
    """The parts that have a life of their own. Build it on the event loop that will serve it."""

    store: CommittedStore
    damages: Callable[[], Sequence[Damage]]
    watchers: list[Callable[[StoreHealth], None]]  # of the store's health, called on any thread
    clock: Clock
    worker: ProcessWorker
    bridge: Bridge
    scheduler: CronScheduler
    lexical: TantivyIndex
    repositories: GitRepositories
    notes: NoteWriter
    hooks: HookHandler
    parts: HttpDependencies
    mcp: LazyMcpServer
    offered: McpParts
    observer: Observer
    spans: SpanExporter | None
    services: Services
    recorded: Mapping[str, Handler]  # over gRPC: what programs record and read
    same_user: SameUserGuard
    closing: ExitStack  # what was loaded late

    def runner(
        self, db_path: Path, status: Callable[[], DaemonStatus], serve: Serve | None
    ) -> Runner:
        """What runs the commands of launchers."""
        backend = Backend(
            services=self.services,
            control=None,
            open_offline=offline_admin,
            own_db=db_path.resolve(),
            status=status,
            serve=serve,
        )
        return Runner(PROGRAMS, backend, __version__, self.observer)

    def grpc(self, host: DaemonControl) -> GrpcServer:
        """What answers over gRPC. An agent that can reach loopback must not approve its own tools:
        what runs agents, or ends the daemon, asks for a key, of the same user too."""
        guard = KeyGuard(BearerGuard(self.services.access))
        agents = AgentService(runs=self.services.runs, guard=guard, observer=self.observer)
        daemon = DaemonService(
            host=host,
            model=self.services.model,
            bridge=self.bridge,
            guard=guard,
            observer=self.observer,
        )
        return GrpcServer(
            {
                **self.recorded,
                AGENT_SERVICE.full_name: agents.build_handler(),
                DAEMON_SERVICE.full_name: daemon.build_handler(),
            },
            self.same_user.serve_at,
        )

    def web(self, chosen: HttpSettings, status: Callable[[], DaemonStatus]) -> Gate:
        """What answers over HTTP."""

        def load() -> Application:
            from agent_memory.interfaces.http.application import build_app

            return build_app(self.parts, status)

        self.services.access.list()  # read once, here, where waiting for the store harms nobody
        return self._guarded(load, _admission(chosen), {"/mcp": self.mcp.serve_streamable})

    def stand(self, chosen: HttpSettings, options: ServeOptions) -> Gate:
        """What answers on a port that `memory serve` opens, behind the same rules."""

        def load() -> Application:
            from agent_memory.interfaces.http.application import build_transport_app

            return build_transport_app(self.parts, options.transport)

        admission = _admission(chosen)
        hosts = (*admission.hosts, options.host)
        mounts: dict[str, Application] = {}
        if options.transport == "sse":
            mounts = {"/mcp": self.mcp.serve_streamable}
            mounts |= dict.fromkeys(("/sse", "/messages", "/messages/"), self.mcp.serve_legacy)
        return self._guarded(load, replace(admission, hosts=hosts, any_origin=options.cors), mounts)

    def _guarded(
        self,
        load: Callable[[], Application],
        admission: GatePolicy,
        mounts: Mapping[str, Application],
    ) -> Gate:
        watched = MetricsMiddleware(LazyApp(load, mounts, lambda: self.store.health), self.observer)
        return Gate(watched, BearerGuard(self.services.access), admission, time.monotonic)

    async def pipe(
        self,
        call: CommandCall,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ending: asyncio.Event,
    ) -> None:
        """An MCP client that came through the launcher."""
        caller = Caller(folder=str(call.cwd), environ=call.environ)
        await self.mcp.serve_pipe(caller, reader, writer, ending)

    def answer_hook(self, call: CommandCall, given: bytes) -> tuple[bytes, str]:
        arguments = list(call.arguments)
        at_ms, _, data = given.partition(b"\n")
        return self.hooks.answer(
            Delivery(
                name=command_client.hook_name(arguments),
                agent=command_client.option(arguments, "--agent") or "",
                folder=str(call.cwd),
                environ=call.environ,
                nonce=call.nonce,
                at_ms=int(at_ms) if at_ms.isdigit() else self.clock.now(),
                data=data,
            )
        )

    def close(self) -> None:
        try:
            self.parts.changes.close()
            self.scheduler.close()
            self.repositories.close()
            self.hooks.close()
            self.closing.close()
            self.services.model.close()
            self.notes.flush()
            self.bridge.close()
            self.worker.close()
            self.lexical.close()
        finally:
            self.store.close()
        if self.spans is not None:
            self.spans.close()  # last: a collector may take its time


def build(
    settings: Settings, db_path: Path, data: Path, own_files: Path, private: Sequence[Path] = ()
) -> App:
    """`data` is the folder in which repositories of our own are kept, `own_files` that of files
    which users write; `private` is what else agents must keep out of."""
    if settings.storage.url:
        raise FeatureUnavailable("storage.url: no server database is supported yet; unset it")
    if restoring.finish(data):
        log.warning("restore.finished", data=str(data))
    secrets_filter = factory.build_filter(
        settings.security.secrets, settings.security.allow, _account
    )
    clock = SystemClock()

    watchers: list[Callable[[StoreHealth], None]] = [_log_health]

    def watch(health: StoreHealth) -> None:
        for each in watchers:
            each(health)

    store, engine, maintenance = _open(db_path, watch, clock, BackupRecord(data))
    events = StoredEventLog(store)
    bridge = Bridge()
    spans = _spans(settings)
    observer = Observer(spans)
    access = Access(keys=StoredKeyRing(store), clock=clock, new_secret=_new_secret)
    timeline = Timeline(log=events)
    worker = ProcessWorker()
    model = _model_server(settings)
    toc, outbox = StoredToc(store), StoredOutbox(store)
    memories, uses = StoredMemories(store), StoredUses(store)
    known = StoredKnowledge(store)
    library = DocumentReader(log=events, toc=toc, memories=memories, knowledge=known)
    facts = Facts(
        knowledge=known,
        secrets=secrets_filter,
        clock=clock,
        on_change=lambda: scheduler.wake(job_names.OUTBOX),
    )
    learning = Learning(
        log=events, outbox=outbox, knowledge=known, clock=clock, owner=f"local:{_account_name()}"
    )
    index_folder = _index_folder(store, db_path)
    lexical = TantivyIndex(index_folder / "lexical")
    embedding = _embedding(settings, store, library, index_folder / "vectors")
    indexes = Indexes(
        indexing=Indexing(
            library=library,
            log=events,
            outbox=outbox,
            lexical=lexical,
            queue=None if embedding is None else embedding.queue,
            clock=clock,
        ),
        embedding=embedding,
    )
    recall = Recall(
        library=library,
        log=events,
        lexical=lexical,
        tail=UnindexedDocuments(library, events, outbox, lexical),
        vectors=None
        if embedding is None
        else VectorSearch(
            index=embedding.vectors, embedder=embedding.embedder, count_pending=embedding.queue.size
        ),
        uses=uses,
        on_facts_used=facts.mark_used,
        clock=clock,
    )
    repositories = GitRepositories(data, worker)
    repositories.tidy()
    note_queue = StoredNoteQueue(store)
    notes = NoteWriter(
        memories=memories,
        queue=note_queue,
        repositories=repositories,
        on_failure=_notes_failed,
    )
    segmenting, rollup = _cutting(settings, store, events, clock, worker, toc, outbox, model)
    turn = threading.Lock()  # of those who write the nodes of the table of contents
    purging = Purging(
        indexes=indexes,
        recall=recall,
        store=maintenance,
        traces=StoredTraces(
            store,
            lambda: [
                db_path,
                index_folder,
                data / "logs",
                data / "spool",
                *damage.folders(db_path),
            ],
            {families.GRAPH_CHECKPOINTS: [KeySpan(*each) for each in graph_layout.SPANS]},
        ),
        discard_vectors=lambda: shutil.rmtree(index_folder / "vectors", ignore_errors=True),
    )
    forgetting = Forgetting(
        log=events,
        remover=events,
        plan=StoredForgettingPlan(store),
        reports=StoredForgettingReports(store, clock),
        segmenting=segmenting,
        rollup=rollup,
        eraser=toc,
        learning=learning,
        purging=purging,
        toc_lock=turn,
    )
    changes = ChangeFeed(events, outbox, memories, wire.record_text)
    scheduler = _scheduler(
        settings,
        store,
        clock,
        job_names.JobTasks(
            segmenting=segmenting,
            rollup=rollup,
            outbox=outbox,
            writer=toc,
            indexes=indexes,
            learning=learning,
            on_learning_failure=_not_learned,
            notes=notes,
            forgetting=forgetting,
            on_forgetting_finished=_forgotten,
            toc_lock=turn,
            changes=changes,
        ),
    )

    for left in db_path.parent.glob(f"{_copy_name(db_path)}*"):  # an export was killed
        shutil.rmtree(left, ignore_errors=True)
    backups = _backups(settings.backup, maintenance, scheduler, notes, clock, data, db_path)

    def recorded() -> None:
        changes.wake()
        scheduler.wake(job_names.SEGMENTS)
        scheduler.wake(job_names.OUTBOX)

    def remembered() -> None:
        changes.wake()
        scheduler.wake(job_names.OUTBOX)

    projects = StoredProjects(store)
    workplaces = ProjectResolver(
        repositories=repositories,
        projects=projects,
        shared=OrgRepository(
            org=settings.memories.org, repository=settings.memories.org_repository
        ),
        secrets=secrets_filter,
    )
    capture = Capture(
        memories=memories, log=events, secrets=secrets_filter, clock=clock, on_capture=remembered
    )
    curation = MemoryEditor(
        memories=memories,
        uses=uses,
        workplaces=workplaces,
        capture=capture,
        clock=clock,
        on_change=remembered,
    )
    journal = StoredJournal(store)
    reasoner = _reasoner(settings, model, StoredTokenBudget(store), clock)
    sync = Sync(
        memories=memories,
        projects=projects,
        repositories=repositories,
        notes=notes,
        secrets=secrets_filter,
        clock=clock,
        on_import=remembered,
    )
    sharing = RemoteSync(
        sync=sync, workplaces=workplaces, user_remote=settings.memories.user_remote
    )
    contents = Contents(log=events, toc=toc)
    jobs = Jobs(scheduler=scheduler)
    ingest = Ingest(log=events, secrets=secrets_filter, on_record=recorded)
    backfill = Backfill(
        transcripts={
            "claude-code": TranscriptFiles(worker, ClaudeCodeTranscript),
            "codex": TranscriptFiles(worker, CodexTranscript),
            "jsonl": TranscriptFiles(worker, PlainTranscript),
        },
        ingest=ingest,
        workplaces=workplaces,
        lower_priority=priority.lower,
    )
    context = ContextBuilder(recall=recall)
    spool = SpoolFolder(data / "spool")
    hooks = HookHandler(
        recording=Recording(ingest=ingest, workplaces=workplaces),
        briefing=ContextInjection(context=context, recall=recall),
        reflection=AutoCapture(log=events, capture=capture, recall=recall),
        sharing=sharing,
        spooling=Spooling(spool=spool, secrets=secrets_filter),
        version=__version__,
        observer=observer,
    )

    def resume(health: StoreHealth) -> None:
        """Take up what was left while the store was failing."""
        if health.writable:
            hooks.drain_soon()
            for name in job_names.CRONS:
                scheduler.wake(name)

    watchers.append(resume)
    tally = GraphTally(store)
    graphs = Graphs(
        checkpoints=StoredGraphs(store, tally),
        threads=StoredGraphThreads(store, tally),
        secrets=secrets_filter,
    )
    closing = ExitStack()
    uid = os.geteuid()
    owners = socket_owners.choose(uid)
    if owners is not None:
        closing.callback(owners.close)
    same_user = SameUserGuard(BearerGuard(access), owners, uid)
    guard = same_user if settings.grpc.require_key else None
    memory = MemoryService(
        ingest=ingest,
        timeline=timeline,
        contents=contents,
        recall=recall,
        jobs=jobs,
        bridge=bridge,
        guard=guard,
        observer=observer,
    )
    checkpoints = CheckpointService(graphs=graphs, bridge=bridge, guard=guard, observer=observer)
    environ = {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}  # nobody could be asked
    crew = AgentCatalog(AgentCatalogFolder(own_files))
    run_memory = RunMemory(ingest=ingest, log=events, knowledge=known, clock=clock)

    def run_parts() -> RunParts:
        from agent_memory.bootstrap import llm

        spoken = llm.build_chat_model(settings, model)
        closing.callback(spoken.close)
        return RunParts(
            model=spoken,
            crew=crew,
            tooling=ToolsetBuilder(
                workspaces=GuardedFolders(
                    tuple(str(each) for each in (data, own_files, db_path, *private))
                ),
                patterns=Re2Patterns(),
                pages=llm.build_web_pages(settings),
                programs=SupervisedPrograms(os.environ),
                worker=worker,
                recall=recall,
                facts=facts,
                clock=clock,
                skills=crew.render,
                seconds=settings.runs.tool_seconds,
            ),
            memory=run_memory,
            context=context,
            workplaces=workplaces,
            clock=clock,
            rules=RunRules(
                max_turns=settings.runs.max_turns,
                context_size=settings.llama.context_size,
                commands=tuple(settings.runs.commands),
            ),
            environ=environ,
        )

    runs = Runs(
        RunEnvironment(
            load=futures.once(run_parts),
            new_id=lambda: ulids.derive_ulid(clock.now(), secrets.token_hex()),
            on_crash=_run_crashed,
            max_runs=settings.runs.max_runs,
        )
    )
    rebuild = Rebuild(log=events, segmenting=segmenting, rollup=rollup, writer=toc, toc_lock=turn)
    survey = MemoryStatistics(
        curation=curation,
        notes=notes,
        projects=projects,
        workplaces=workplaces,
        recall=recall,
        indexes=indexes,
        llm=reasoner is not None,
    )
    verification = Verification(
        check_store=partial(_check_store, maintenance, db_path),
        index_checks={WORDS: lexical.list_damaged_files}
        | ({} if embedding is None else {VECTORS: embedding.vectors.list_damaged_files}),
        survey=survey,
        indexes=indexes,
        rebuild=rebuild,
    )
    services = Services(
        timeline=timeline,
        admin=Admin(store=maintenance),
        backups=backups,
        archiving=Archiving(
            open_view=lambda: _copied(maintenance, db_path),
            stores=replace(
                _stores(store),
                log=events,
                uses=uses,
                knowledge=known,
                checkpoints=graphs.checkpoints,
            ),
            ingest=ingest,
            capture=capture,
            graphs=graphs,
            secrets=secrets_filter,
            find_home=workplaces.find_home,
            on_change=remembered,
            open_whole=durable.open_atomic,
        ),
        access=access,
        contents=contents,
        jobs=jobs,
        rebuild=rebuild,
        recall=recall,
        context=context,
        indexes=indexes,
        capture=capture,
        curation=curation,
        workplaces=workplaces,
        sharing=sharing,
        survey=survey,
        consolidation=Consolidation(
            curation=curation,
            capture=capture,
            uses=uses,
            journal=journal,
            vectors=None if embedding is None else embedding.vectors,
            reasoner=reasoner,
            worker=worker,
            clock=clock,
        ),
        reasoning=Reasoning(recall=recall, reasoner=reasoner, clock=clock),
        transfer=Transfer(memories=memories, repositories=repositories, capture=capture),
        backfill=backfill,
        forgetting=forgetting,
        memory_forgetting=MemoryForgetting(
            curation=curation,
            uses=uses,
            journal=journal,
            notes=notes,
            purging=purging,
            clock=clock,
        ),
        installing=installing(),
        verification=verification,
        worker=worker,
        runs=runs,
        run_memory=run_memory,
        crew=crew,
        model=model,
        clock=clock,
    )
    offered = McpParts(
        bridge=bridge,
        capture=capture,
        recall=recall,
        curation=curation,
        project_resolver=workplaces,
        contents=contents,
        memory_stats=services.survey,
        sharing=sharing,
        consolidation=services.consolidation,
        memory_forgetting=services.memory_forgetting,
        indexes=indexes,
        changes=changes,
        settings=settings.mcp,
        observer=observer,
        version=__version__,
        remote=settings.memories.remote,
        environ=environ,
    )
    return App(
        store=store,
        damages=lambda: [*damage.reports(db_path), *salvage.describe(engine.gaps)],
        watchers=watchers,
        clock=clock,
        worker=worker,
        bridge=bridge,
        scheduler=scheduler,
        lexical=lexical,
        repositories=repositories,
        notes=notes,
        hooks=hooks,
        parts=HttpDependencies(
            bridge=bridge,
            timeline=timeline,
            contents=contents,
            recall=recall,
            curation=curation,
            project_resolver=workplaces,
            sharing=sharing,
            consolidation=services.consolidation,
            observer=observer,
            metrics=Metrics(
                log=events,
                indexes=indexes,
                learning=learning,
                notes=note_queue,
                spool=spool,
                store=maintenance,
                get_health=lambda: store.health,
                jobs=jobs,
            ),
            facts=facts,
            graphs=graphs,
            knowledge=Knowledge(
                episodes=RecordService(Episode, known, secrets_filter),
                procedures=RecordService(Procedure, known, secrets_filter),
                users=RecordService(User, known, secrets_filter),
                kept=known,
                clock=clock,
                new_id=lambda: KnowledgeId(str(uuid.uuid4())),
            ),
            changes=changes,
            streaming=settings.streaming,
            sse_limit=ConnectionLimit("SSE", settings.streaming.max_connections),
            websocket_limit=ConnectionLimit("WebSocket", settings.streaming.max_connections),
            remote=settings.memories.remote,
            environ=environ,
        ),
        offered=offered,
        mcp=_mcp(offered, settings, data / "mcp-used"),
        observer=observer,
        spans=spans,
        services=services,
        closing=closing,
        same_user=same_user,
        recorded={
            MEMORY_SERVICE.full_name: memory.build_handler(),
            CHECKPOINT_SERVICE.full_name: checkpoints.build_handler(),
        },
    )


def _admission(chosen: HttpSettings) -> GatePolicy:
    return GatePolicy(
        hosts=(chosen.host, *chosen.allowed_hosts),
        origins=tuple(chosen.allowed_origins),
        rate=chosen.rate,
        burst=chosen.burst,
        max_body_bytes=chosen.max_body_bytes,
    )


def git_version(environ: Mapping[str, str], seconds: float) -> str:
    """Say which git the caller has. Raises GitFailed where there is none that runs."""
    return git_programs.version(environ, seconds=seconds)


def installing() -> Installing:
    setups = (ClaudeCodeSetup(), CodexSetup(), GeminiSetup(), CursorSetup())
    return Installing(
        agents={setup.agent: setup for setup in setups},
        files=DiskFiles(),
        launcher=installations.Launcher(
            python=sys.executable,
            script=str(Path(__file__).resolve().parent.with_name(installations.SCRIPT)),
        ),
    )


def _cutting(
    settings: Settings,
    store: OrderedStore,
    events: EventLog,
    clock: Clock,
    worker: ProcessWorker,
    toc: StoredToc,
    outbox: StoredOutbox,
    model: LeasedServer,
) -> tuple[Segmenting, Rollup]:
    """What makes the table of contents."""
    extractive = ExtractiveSummarizer(worker)
    summarizer = _summarizer(settings, model, extractive, StoredTokenBudget(store), clock)
    segmenting = Segmenting(
        log=events,
        outbox=outbox,
        reader=toc,
        writer=toc,
        drafter=extractive,
        summarizer=summarizer,
        clock=clock,
        rules=_rules(settings.toc),
    )
    return segmenting, Rollup(
        reader=toc, writer=toc, drafter=extractive, summarizer=summarizer, clock=clock
    )


def _scheduler(
    settings: Settings, store: OrderedStore, clock: Clock, work: job_names.JobTasks
) -> CronScheduler:
    def segments(check: job_names.Check) -> None:
        work.cut_segments(check)
        scheduler.wake(job_names.ROLLUP)
        scheduler.wake(job_names.OUTBOX)

    def outbox_entries(check: job_names.Check) -> None:
        if work.process_outbox(check):
            scheduler.wake(job_names.OUTBOX)

    tasks = {
        job_names.ROLLUP: work.roll_up,
        job_names.SEGMENTS: segments,
        job_names.OUTBOX: outbox_entries,
    }
    scheduler = CronScheduler(
        [
            ScheduledJob(name=name, cron=job_names.CRONS[name], work=task)
            for name, task in tasks.items()
        ],
        StoredJobs(store),
        clock,
        enabled=settings.scheduler.enabled,
    )
    for name in tasks:
        scheduler.wake(name)  # for what a crash or a stop has left undone
    return scheduler


def _backups(
    chosen: BackupSettings,
    maintenance: StoreMaintenance,
    scheduler: CronScheduler,
    notes: NoteWriter,
    clock: Clock,
    data: Path,
    db_path: Path,
) -> Backups:
    """What takes backups, and the job that does so by schedule."""

    def schedule(expression: str) -> None:
        if expression:
            scheduler.put(
                ScheduledJob(
                    name=job_names.BACKUP,
                    cron=expression,
                    work=made.run,
                    timeout_seconds=BACKUP_SECONDS,
                )
            )
        else:
            scheduler.remove(job_names.BACKUP)

    snapshots = DataSnapshots(
        checkpoint=maintenance.checkpoint,
        db_path=db_path,
        data=data,
        version=__version__,
        now=clock.now,
    )
    snapshots.clean()
    plan = BackupPlan(
        folder=str(Path(chosen.path).expanduser()) if chosen.path else "",
        schedule=chosen.schedule if chosen.path else "",
        retention=Retention(newest=chosen.keep, weekly=chosen.keep_weekly),
    )
    made = Backups(
        snapshots=snapshots,
        notes=notes,
        history=BackupRecord(data),
        clock=clock,
        plan=plan,
        check=cron.check_schedule,
        schedule=schedule,
        passed=cron.count_due,
    )
    try:
        if plan.schedule and not Path(plan.folder).is_absolute():
            raise ConfigError(f"backup.path is {plan.folder!r}: give an absolute path")
        made.follow(plan)
    except InvalidInput as exc:
        raise ConfigError(f"backup.schedule: {exc}") from exc
    return made


@contextmanager
def _copied(maintenance: StoreMaintenance, db_path: Path) -> Iterator[Stores]:
    """The store as it is now, opened beside itself; it is removed at the end."""
    folder = db_path.with_name(f"{_copy_name(db_path)}{secrets.token_hex(4)}")
    try:
        maintenance.checkpoint(folder)
        store = CommittedStore(RocksEngine(folder), _log_failing)
        try:
            yield _stores(store)
        finally:
            store.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_store(
    maintenance: StoreMaintenance, db_path: Path, done: Callable[[int], None]
) -> StoreCheck:
    """Check a copy as of now, made of links: compactions remove the tables of a store in use."""
    folder = db_path.with_name(f"{_copy_name(db_path)}{secrets.token_hex(4)}")
    try:
        maintenance.checkpoint(folder)
        return salvage.check(folder, done)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_name(db_path: Path) -> str:
    return f".{db_path.name}-export-"


def _stores(store: OrderedStore) -> Stores:
    return Stores(
        log=StoredEventLog(store),
        memories=StoredMemories(store),
        uses=StoredUses(store),
        knowledge=StoredKnowledge(store),
        checkpoints=StoredGraphs(store, GraphTally(store)),
        toc=StoredToc(store),
        projects=StoredProjects(store),
    )


def _forgotten(report: ForgettingReport) -> None:
    """Nobody else is there to be told how it ended."""
    tell = log.warning if report.proof.found_in else log.info
    tell("forgetting.finished", events=report.events, found_in=report.proof.found_in)


def log_cleaner(chosen: SecuritySettings) -> Callable[[str], str]:
    """What takes secrets out of a line for the log: it has none, whatever the store may hold."""
    mode = chosen.secrets if chosen.secrets == factory.OFF else "redact"
    secrets_filter = factory.build_filter(mode, chosen.allow)

    def clean(text: str) -> str:
        try:
            return secrets_filter.clean(text)
        except ContentBlocked:
            return WITHHELD

    return clean


def _account(incident: Incident) -> None:
    """What is told of a secret: nothing that would help to find it out."""
    log.warning(
        "secrets.found",
        kind=incident.kind,
        length=incident.length,
        where=incident.where,
        outcome=incident.outcome,
    )


def _account_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as containers have them
        return str(os.getuid())


def _run_crashed(exc: BaseException) -> None:
    log.error("run.crashed", exc_info=exc)


def _not_learned(exc: AgentMemoryError) -> None:
    log.error("knowledge.not_learned", error=str(exc))


def _notes_failed(home: Home, exc: GitFailed) -> None:
    log.warning("notes.not_written", home=home, error=str(exc))


# What the following need takes longer to load than most of a start: it is loaded where it is used.


def _embedding(
    settings: Settings, store: OrderedStore, library: DocumentReader, folder: Path
) -> Embedding | None:
    if settings.embedder.provider == "none" and not folder.exists():
        return None
    from agent_memory.bootstrap import llm

    return llm.build_embedding(settings, store, library, folder)


def _index_folder(store: OrderedStore, db_path: Path) -> Path:
    """Beside the database that they are made from. Those of another one are removed."""
    folder = _beside(db_path, "index")
    mark, identity = folder / "store", schema.ensure_identity(store).encode()
    if _holds(mark, identity):
        return folder
    if os.path.lexists(folder):
        log.warning("index.of_another_store", path=str(folder))
        _empty(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    durable.write_atomic(mark, identity)
    return folder


def _holds(path: Path, content: bytes) -> bool:
    """Whether it is a file, and no link, with exactly this in it."""
    try:
        # A pipe would have us wait for whoever writes to it.
        found = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(found, len(content) + 1) == content
    except OSError:  # a folder, for one
        return False
    finally:
        os.close(found)


def _empty(folder: Path) -> None:
    """Remove what is in a folder, which may be a link to one on another disk; and the path itself
    where it is anything else."""
    if not folder.is_dir():
        folder.unlink()
        return
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink()


def _beside(db_path: Path, name: str) -> Path:
    """A folder that belongs to a database."""
    return db_path.with_name(name if db_path.name == "db" else f"{db_path.name}-{name}")


def _model_server(settings: Settings) -> LeasedServer:
    chosen = settings.llama
    if chosen.endpoint:
        return ExternalServer(
            endpoint=chosen.endpoint,
            api_key=os.environ.get(chosen.api_key_env, "") if chosen.api_key_env else "",
            model_dir=str(Path(chosen.model_dir).expanduser()),
        )
    return LlamaServer(
        LlamaOptions(
            server=chosen.server,
            model_dir=Path(chosen.model_dir).expanduser(),
            model=chosen.model,
            context_size=chosen.context_size,
            parallel=chosen.parallel,
            args=tuple(chosen.args),
            start_seconds=chosen.start_seconds,
            idle_minutes=chosen.idle_minutes,
        ),
        os.environ,
    )


def _mcp(parts: McpParts, settings: Settings, used: Path) -> LazyMcpServer:
    def load() -> Callable[[], TransportServer]:
        from agent_memory.interfaces.mcp.handlers import McpServerFactory
        from agent_memory.interfaces.mcp.serving import McpTransportServer

        return lambda: McpTransportServer(
            McpServerFactory(parts),
            max_body_bytes=settings.http.max_body_bytes,
            most_streams=settings.streaming.max_connections,
        )

    return LazyMcpServer(load, used, priority.lower)


def _summarizer(
    settings: Settings,
    model: LeasedServer,
    fallback: ExtractiveSummarizer,
    budget: StoredTokenBudget,
    clock: Clock,
) -> Summarizer:
    if settings.summarizer.provider == "extractive":
        return fallback
    from agent_memory.bootstrap import llm

    return llm.build_summarizer(settings, model, fallback, budget, clock)


def _reasoner(
    settings: Settings, model: LeasedServer, budget: StoredTokenBudget, clock: Clock
) -> Reasoner | None:
    """The same model that summarizes, if it is one."""
    if settings.summarizer.provider == "extractive":
        return None
    from agent_memory.bootstrap import llm

    return llm.build_reasoner(settings, model, budget, clock)


def _spans(settings: Settings) -> SpanExporter | None:
    endpoint = settings.telemetry.otlp_endpoint
    if not endpoint:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            f"telemetry.otlp_endpoint is {endpoint!r}: give an address as"
            " http://localhost:4318/v1/traces"
        )
    try:
        from agent_memory.features.operations.adapters.otel import OtelSpans
    except ImportError as exc:
        raise FeatureUnavailable(
            "telemetry.otlp_endpoint is set, and OpenTelemetry is not installed:"
            " pip install 'agent-memory[otel]'"
        ) from exc
    return OtelSpans(endpoint, __version__)


def _rules(chosen: TocSettings) -> SegmentRules:
    return SegmentRules(
        time_gap_ms=chosen.time_gap_ms,
        max_tokens=chosen.max_tokens,
        overlap_ms=chosen.overlap_ms,
        overlap_tokens=chosen.overlap_tokens,
        max_tool_result_chars=chosen.max_tool_result_chars,
    )


def restore(
    backup: Path,
    *,
    data: Path,
    db_path: Path,
    force: bool,
    done: Callable[[int], None],
) -> domain_backups.RestoreResult:
    """Bring a backup back, into a data folder that the caller has locked."""
    return restoring.restore(
        backup, data=data, db_path=db_path, index=_beside(db_path, "index"), force=force, done=done
    )


@contextmanager
def offline_admin(db_path: Path) -> Iterator[Admin]:
    """Another store, that no daemon uses."""
    if not (db_path / "CURRENT").exists():
        raise FeatureUnavailable(f"there is no database at {db_path}")
    store, _, maintenance = _open(db_path, _log_failing, SystemClock(), None)
    try:
        yield Admin(store=maintenance)
    finally:
        store.close()


def _open(
    db_path: Path,
    watch: Callable[[StoreHealth], None],
    clock: Clock,
    history: BackupRecord | None,
) -> tuple[CommittedStore, RocksEngine, StoreMaintenance]:
    salvage.finish(db_path)
    engine = RocksEngine(db_path, lambda path: _mend(path, clock))
    store = CommittedStore(engine, watch)
    maintenance = GuardedMaintenance(engine, store)
    try:
        schema.prepare(
            store, before=lambda found: _back_up_before(db_path, found, maintenance, history)
        )
    except BaseException:
        store.close()
        raise
    return store, engine, maintenance


def repair(db_path: Path, done: Callable[[int], None]) -> StoreRepair:
    """Save what can be read of a store that no daemon uses."""
    repaired = salvage.repair(db_path, SystemClock().now(), done)
    index = _beside(db_path, "index")
    if repaired.kept and os.path.lexists(index):
        _empty(index)  # it is of the store as it was
    return repaired


def _mend(db_path: Path, clock: Clock) -> Callable[[Get], None] | None:
    settle = damage.mend_logs(db_path, clock.now())
    if settle is None:
        return None

    def report(get: Get) -> None:
        log.critical("store.damaged", **asdict(settle(get)))

    return report


def _back_up_before(
    db_path: Path, found: int, maintenance: StoreMaintenance, history: BackupRecord | None
) -> None:
    """Keep the store as it is before a migration changes it; the last ones of these stay."""
    snapshots = DataSnapshots(
        checkpoint=maintenance.checkpoint,
        db_path=db_path,
        data=None,
        version=__version__,
        now=SystemClock().now,
    )
    folder = str(_beside(db_path, "upgrades"))
    made = snapshots.create(folder, done=lambda _: None)
    for each in domain_backups.select_outdated(
        snapshots.list_complete(folder), made, Retention(newest=UPGRADES_KEPT)
    ):
        snapshots.remove(each)
    if history is not None:
        history.save(replace(history.load(), before_upgrade=made.path))
    log.info("store.backed_up_before_upgrade", path=made.path, schema=found)


def _new_secret() -> str:
    return f"am_{secrets.token_urlsafe(32)}"


def _log_health(health: StoreHealth) -> None:
    if health.writable:
        log.warning("store.works_again")
    else:
        log.error("store.failing", readable=health.readable, reason=health.reason)


def _log_failing(health: StoreHealth) -> None:
    """A store that is not the daemon's own."""
    log.error("other_store.failing", reason=health.reason)
