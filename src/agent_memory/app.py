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
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from agent_memory import __version__, relay
from agent_memory.adapters import priority
from agent_memory.adapters.agents.claude_code import ClaudeCode as ClaudeCodeSetup
from agent_memory.adapters.agents.codex import Codex as CodexSetup
from agent_memory.adapters.agents.cursor import Cursor as CursorSetup
from agent_memory.adapters.agents.files import DiskFiles
from agent_memory.adapters.agents.gemini import Gemini as GeminiSetup
from agent_memory.adapters.children.programs import WardedPrograms
from agent_memory.adapters.clock import SystemClock
from agent_memory.adapters.crew.folder import CrewFolder
from agent_memory.adapters.durable import make_folder
from agent_memory.adapters.git.repositories import GitRepositories
from agent_memory.adapters.index.lexical import TantivyIndex
from agent_memory.adapters.models.external import ExternalServer
from agent_memory.adapters.models.llama import LlamaServer, Setup
from agent_memory.adapters.scheduler.cron import CronScheduler, Job
from agent_memory.adapters.secrets import choice
from agent_memory.adapters.spool.folder import SpoolFolder
from agent_memory.adapters.storage import schema
from agent_memory.adapters.storage.committer import CommittedStore
from agent_memory.adapters.storage.event_log import StoredEventLog
from agent_memory.adapters.storage.forgetting_plan import StoredForgettingPlan
from agent_memory.adapters.storage.graph_store import StoredGraphs
from agent_memory.adapters.storage.graph_tally import GraphTally
from agent_memory.adapters.storage.graph_threads import StoredGraphThreads
from agent_memory.adapters.storage.job_store import StoredJobs
from agent_memory.adapters.storage.journal import StoredJournal
from agent_memory.adapters.storage.key_ring import StoredKeyRing
from agent_memory.adapters.storage.knowledge_store import StoredKnowledge
from agent_memory.adapters.storage.maintenance import GuardedMaintenance
from agent_memory.adapters.storage.memory_store import (
    StoredMemories,
    StoredNoteQueue,
    StoredUses,
)
from agent_memory.adapters.storage.outbox import StoredOutbox
from agent_memory.adapters.storage.project_store import StoredProjects
from agent_memory.adapters.storage.rocks import RocksEngine
from agent_memory.adapters.storage.toc_store import StoredToc
from agent_memory.adapters.storage.token_budget import StoredTokenBudget
from agent_memory.adapters.storage.traces import StoredTraces
from agent_memory.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.adapters.transcripts.claude_code import ClaudeCode
from agent_memory.adapters.transcripts.codex import Codex
from agent_memory.adapters.transcripts.files import TranscriptFiles
from agent_memory.adapters.transcripts.plain import Plain
from agent_memory.adapters.worker.process import ProcessWorker
from agent_memory.adapters.workspaces.folders import GuardedFolders
from agent_memory.adapters.workspaces.patterns import Re2Patterns
from agent_memory.config import Http, Settings, Toc
from agent_memory.domain import agents, promises, ulids
from agent_memory.domain.episodes import Episode
from agent_memory.domain.errors import (
    AgentMemoryError,
    ConfigError,
    FeatureUnavailable,
    GitFailed,
    StorageFailed,
)
from agent_memory.domain.forgetting import Report
from agent_memory.domain.identities import KnowledgeId
from agent_memory.domain.memories import Home
from agent_memory.domain.ports import (
    Clock,
    EventLog,
    OrderedStore,
    Reasoner,
    Spans,
    StoreMaintenance,
    Summarizer,
)
from agent_memory.domain.procedures import Procedure
from agent_memory.domain.secrets import Incident
from agent_memory.domain.segments import Rules
from agent_memory.domain.status import DaemonStatus
from agent_memory.domain.users import User
from agent_memory.interfaces import wire
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.cli.backend import Backend, Serve, ServeOptions, Services
from agent_memory.interfaces.cli.frames import Call
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.interfaces.cli.runner import Runner
from agent_memory.interfaces.grpc.agent_service import DESCRIPTOR as AGENT_SERVICE
from agent_memory.interfaces.grpc.agent_service import AgentService
from agent_memory.interfaces.grpc.checkpoint_service import DESCRIPTOR as CHECKPOINT_SERVICE
from agent_memory.interfaces.grpc.checkpoint_service import CheckpointService
from agent_memory.interfaces.grpc.daemon_service import DESCRIPTOR as DAEMON_SERVICE
from agent_memory.interfaces.grpc.daemon_service import DaemonService, Host
from agent_memory.interfaces.grpc.handlers import Handler
from agent_memory.interfaces.grpc.memory_service import DESCRIPTOR as MEMORY_SERVICE
from agent_memory.interfaces.grpc.memory_service import MemoryService
from agent_memory.interfaces.grpc.server import GrpcServer
from agent_memory.interfaces.guard import BearerGuard
from agent_memory.interfaces.hooks.handler import HookHandler
from agent_memory.interfaces.hooks.inputs import Delivery
from agent_memory.interfaces.http.asgi import Application
from agent_memory.interfaces.http.deferred import Deferred
from agent_memory.interfaces.http.gate import Admission, Gate
from agent_memory.interfaces.http.parts import Parts
from agent_memory.interfaces.http.seats import Seats
from agent_memory.interfaces.http.watched import Watched
from agent_memory.interfaces.mcp.entrance import Entrance, Serving
from agent_memory.interfaces.mcp.parts import Parts as McpParts
from agent_memory.interfaces.observing import Observer
from agent_memory.services import jobs as job_names
from agent_memory.services.access import Access
from agent_memory.services.admin import Admin
from agent_memory.services.backfill import Backfill
from agent_memory.services.briefing import Briefing
from agent_memory.services.capture import Capture
from agent_memory.services.changes import Changes
from agent_memory.services.consolidation import Consolidation
from agent_memory.services.contents import Contents
from agent_memory.services.context import ContextBuilder
from agent_memory.services.crew import Crew
from agent_memory.services.curation import Curation
from agent_memory.services.embedding import Embedding
from agent_memory.services.facts import Facts
from agent_memory.services.forgetting import Forgetting
from agent_memory.services.graphs import Graphs
from agent_memory.services.indexes import Indexes
from agent_memory.services.indexing import Indexing
from agent_memory.services.ingest import Ingest
from agent_memory.services.installing import Installing
from agent_memory.services.jobs import Jobs
from agent_memory.services.knowledge import Knowledge, Shelf
from agent_memory.services.learning import Learning
from agent_memory.services.library import Library
from agent_memory.services.memory_forgetting import MemoryForgetting
from agent_memory.services.notes import NoteWriting
from agent_memory.services.purging import Purging
from agent_memory.services.reasoning import Reasoning
from agent_memory.services.rebuild import Rebuild
from agent_memory.services.recall import Recall, Vectors
from agent_memory.services.recording import Recording
from agent_memory.services.reflection import Reflection
from agent_memory.services.rollup import Rollup
from agent_memory.services.run_memory import RunMemory
from agent_memory.services.runs import Parts as RunParts
from agent_memory.services.runs import Rules as RunRules
from agent_memory.services.runs import Runs, Surroundings
from agent_memory.services.segmenting import Segmenting
from agent_memory.services.sharing import Sharing
from agent_memory.services.spooling import Spooling
from agent_memory.services.survey import Survey
from agent_memory.services.sync import Sync
from agent_memory.services.tail import Tail
from agent_memory.services.timeline import Timeline
from agent_memory.services.tooling import Tooling
from agent_memory.services.transfer import Transfer
from agent_memory.services.vitals import Vitals
from agent_memory.services.workplaces import Caller, Shared, Workplaces

log = structlog.get_logger()

LeasedServer = ExternalServer | LlamaServer


@dataclass(frozen=True, slots=True)
class App:
    """The parts that have a life of their own. Build it on the event loop that will serve it."""

    store: OrderedStore
    clock: Clock
    worker: ProcessWorker
    bridge: Bridge
    scheduler: CronScheduler
    lexical: TantivyIndex
    repositories: GitRepositories
    notes: NoteWriting
    hooks: HookHandler
    parts: Parts
    mcp: Entrance
    offered: McpParts
    observer: Observer
    spans: Spans | None
    services: Services
    open_to_all: Mapping[str, Handler]  # over gRPC, on loopback
    closing: ExitStack  # what was loaded late

    def runner(
        self, db_path: Path, status: Callable[[], DaemonStatus], serve: Serve | None
    ) -> Runner:
        """What runs the commands of launchers."""
        backend = Backend(
            services=self.services,
            control=None,
            offline=offline_admin,
            own_db=db_path.resolve(),
            status=status,
            serve=serve,
        )
        return Runner(PROGRAMS, backend, __version__, self.observer)

    def grpc(self, host: Host) -> GrpcServer:
        """What answers over gRPC. An agent that can reach loopback must not approve its own tools:
        what runs agents, or ends the daemon, asks for a key."""
        guard = BearerGuard(self.services.access)
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
                **self.open_to_all,
                AGENT_SERVICE.full_name: agents.handler(),
                DAEMON_SERVICE.full_name: daemon.handler(),
            }
        )

    def web(self, chosen: Http, status: Callable[[], DaemonStatus]) -> Gate:
        """What answers over HTTP."""

        def load() -> Application:
            from agent_memory.interfaces.http.application import application

            return application(self.parts, status)

        self.services.access.list()  # read once, here, where waiting for the store harms nobody
        return self._guarded(load, _admission(chosen), {"/mcp": self.mcp.streamable})

    def stand(self, chosen: Http, options: ServeOptions) -> Gate:
        """What answers on a port that `memory serve` opens, behind the same rules."""

        def load() -> Application:
            from agent_memory.interfaces.http.application import stand

            return stand(self.parts, options.transport)

        admission = _admission(chosen)
        hosts = (*admission.hosts, options.host)
        mounts: dict[str, Application] = {}
        if options.transport == "sse":
            mounts = {"/mcp": self.mcp.streamable}
            mounts |= dict.fromkeys(("/sse", "/messages", "/messages/"), self.mcp.legacy)
        return self._guarded(load, replace(admission, hosts=hosts, any_origin=options.cors), mounts)

    def _guarded(
        self,
        load: Callable[[], Application],
        admission: Admission,
        mounts: Mapping[str, Application],
    ) -> Gate:
        watched = Watched(Deferred(load, mounts), self.observer)
        return Gate(watched, BearerGuard(self.services.access), admission, time.monotonic)

    async def pipe(
        self,
        call: Call,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ending: asyncio.Event,
    ) -> None:
        """An MCP client that came through the launcher."""
        caller = Caller(folder=str(call.cwd), environ=call.environ)
        await self.mcp.pipe(caller, reader, writer, ending)

    def answer_hook(self, call: Call, given: bytes) -> tuple[bytes, str]:
        arguments = list(call.arguments)
        at_ms, _, data = given.partition(b"\n")
        return self.hooks.answer(
            Delivery(
                name=relay.hook_name(arguments),
                agent=relay.option(arguments, "--agent") or "",
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
    secrets_filter = choice.made(settings.security.secrets, settings.security.allow, _account)
    store, maintenance = _open(db_path, _die)
    events = StoredEventLog(store)
    clock = SystemClock()
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
    library = Library(log=events, toc=toc, memories=memories, knowledge=known)
    facts = Facts(
        knowledge=known,
        secrets=secrets_filter,
        clock=clock,
        changed=lambda: scheduler.wake(job_names.OUTBOX),
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
        tail=Tail(library, events, outbox, lexical),
        vectors=None
        if embedding is None
        else Vectors(
            index=embedding.vectors, embedder=embedding.embedder, waiting=embedding.queue.size
        ),
        uses=uses,
        facts_used=facts.used,
        clock=clock,
    )
    repositories = GitRepositories(data, worker)
    note_queue = StoredNoteQueue(store)
    notes = NoteWriting(
        memories=memories,
        queue=note_queue,
        repositories=repositories,
        trouble=_notes_failed,
    )
    segmenting, rollup = _cutting(settings, store, events, clock, worker, toc, outbox, model)
    turn = threading.Lock()  # of those who write the nodes of the table of contents
    purging = Purging(
        indexes=indexes,
        recall=recall,
        store=maintenance,
        traces=StoredTraces(store, [db_path, index_folder, data / "logs", data / "spool"]),
        discard_vectors=lambda: shutil.rmtree(index_folder / "vectors", ignore_errors=True),
    )
    forgetting = Forgetting(
        log=events,
        remover=events,
        plan=StoredForgettingPlan(store),
        segmenting=segmenting,
        rollup=rollup,
        eraser=toc,
        learning=learning,
        purging=purging,
        turn=turn,
    )
    changes = Changes(events, outbox, memories, wire.record_text)
    scheduler = _scheduler(
        settings,
        store,
        clock,
        job_names.Work(
            segmenting=segmenting,
            rollup=rollup,
            outbox=outbox,
            writer=toc,
            indexes=indexes,
            learning=learning,
            not_learned=_not_learned,
            notes=notes,
            forgetting=forgetting,
            forgotten=_forgotten,
            turn=turn,
            changes=changes,
        ),
    )

    def recorded() -> None:
        changes.wake()
        scheduler.wake(job_names.SEGMENTS)
        scheduler.wake(job_names.OUTBOX)

    def remembered() -> None:
        changes.wake()
        scheduler.wake(job_names.OUTBOX)

    projects = StoredProjects(store)
    workplaces = Workplaces(
        repositories=repositories,
        projects=projects,
        shared=Shared(org=settings.memories.org, repository=settings.memories.org_repository),
    )
    capture = Capture(
        memories=memories, log=events, secrets=secrets_filter, clock=clock, captured=remembered
    )
    curation = Curation(
        memories=memories,
        uses=uses,
        workplaces=workplaces,
        capture=capture,
        clock=clock,
        changed=remembered,
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
        imported=remembered,
    )
    sharing = Sharing(sync=sync, workplaces=workplaces, user_remote=settings.memories.user_remote)
    contents = Contents(log=events, toc=toc)
    jobs = Jobs(scheduler=scheduler)
    ingest = Ingest(log=events, secrets=secrets_filter, recorded=recorded)
    backfill = Backfill(
        transcripts={
            "claude-code": TranscriptFiles(worker, ClaudeCode),
            "codex": TranscriptFiles(worker, Codex),
            "jsonl": TranscriptFiles(worker, Plain),
        },
        ingest=ingest,
        workplaces=workplaces,
        give_way=priority.lower,
    )
    context = ContextBuilder(recall=recall)
    spool = SpoolFolder(data / "spool")
    hooks = HookHandler(
        recording=Recording(ingest=ingest, workplaces=workplaces),
        briefing=Briefing(context=context, recall=recall),
        reflection=Reflection(log=events, capture=capture, recall=recall),
        sharing=sharing,
        spooling=Spooling(spool=spool, secrets=secrets_filter),
        version=__version__,
        observer=observer,
    )
    tally = GraphTally(store)
    graphs = Graphs(
        checkpoints=StoredGraphs(store, tally), threads=StoredGraphThreads(store, tally)
    )
    guard = BearerGuard(access) if settings.grpc.require_key else None
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
    crew = Crew(CrewFolder(own_files))
    run_memory = RunMemory(ingest=ingest, log=events, knowledge=known, clock=clock)

    closing = ExitStack()

    def run_parts() -> RunParts:
        from agent_memory import models

        spoken = models.spoken(settings, model)
        closing.callback(spoken.close)
        return RunParts(
            model=spoken,
            crew=crew,
            tooling=Tooling(
                workspaces=GuardedFolders(
                    tuple(str(each) for each in (data, own_files, db_path, *private))
                ),
                patterns=Re2Patterns(),
                pages=models.pages(settings),
                programs=WardedPrograms(os.environ),
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
        Surroundings(
            load=promises.once(run_parts),
            new_id=lambda: ulids.derived(clock.now(), secrets.token_hex()),
            crashed=_run_crashed,
            max_runs=settings.runs.max_runs,
        )
    )
    services = Services(
        timeline=timeline,
        admin=Admin(store=maintenance),
        access=access,
        contents=contents,
        jobs=jobs,
        rebuild=Rebuild(log=events, segmenting=segmenting, rollup=rollup, writer=toc, turn=turn),
        recall=recall,
        context=context,
        indexes=indexes,
        capture=capture,
        curation=curation,
        workplaces=workplaces,
        sharing=sharing,
        survey=Survey(
            curation=curation,
            notes=notes,
            projects=projects,
            workplaces=workplaces,
            recall=recall,
            indexes=indexes,
            llm=reasoner is not None,
        ),
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
        workplaces=workplaces,
        contents=contents,
        survey=services.survey,
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
        clock=clock,
        worker=worker,
        bridge=bridge,
        scheduler=scheduler,
        lexical=lexical,
        repositories=repositories,
        notes=notes,
        hooks=hooks,
        parts=Parts(
            bridge=bridge,
            timeline=timeline,
            contents=contents,
            recall=recall,
            curation=curation,
            workplaces=workplaces,
            sharing=sharing,
            consolidation=services.consolidation,
            observer=observer,
            vitals=Vitals(
                log=events,
                indexes=indexes,
                learning=learning,
                notes=note_queue,
                spool=spool,
                store=maintenance,
                jobs=jobs,
            ),
            facts=facts,
            graphs=graphs,
            knowledge=Knowledge(
                episodes=Shelf(Episode, known, secrets_filter),
                procedures=Shelf(Procedure, known, secrets_filter),
                users=Shelf(User, known, secrets_filter),
                kept=known,
                clock=clock,
                new_id=lambda: KnowledgeId(str(uuid.uuid4())),
            ),
            changes=changes,
            streaming=settings.streaming,
            sse=Seats("SSE", settings.streaming.max_connections),
            websockets=Seats("WebSocket", settings.streaming.max_connections),
            remote=settings.memories.remote,
            environ=environ,
        ),
        offered=offered,
        mcp=_mcp(offered, settings, data / "mcp-used"),
        observer=observer,
        spans=spans,
        services=services,
        closing=closing,
        open_to_all={
            MEMORY_SERVICE.full_name: memory.handler(),
            CHECKPOINT_SERVICE.full_name: checkpoints.handler(),
        },
    )


def _admission(chosen: Http) -> Admission:
    return Admission(
        hosts=(chosen.host, *chosen.allowed_hosts),
        origins=tuple(chosen.allowed_origins),
        rate=chosen.rate,
        burst=chosen.burst,
        max_body_bytes=chosen.max_body_bytes,
    )


def installing() -> Installing:
    setups = (ClaudeCodeSetup(), CodexSetup(), GeminiSetup(), CursorSetup())
    return Installing(
        agents={setup.agent: setup for setup in setups},
        files=DiskFiles(),
        launcher=agents.Launcher(
            python=sys.executable, script=str(Path(__file__).resolve().with_name(agents.SCRIPT))
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
    settings: Settings, store: OrderedStore, clock: Clock, work: job_names.Work
) -> CronScheduler:
    def segments(check: job_names.Check) -> None:
        work.segments(check)
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
        [Job(name=name, cron=job_names.CRONS[name], work=task) for name, task in tasks.items()],
        StoredJobs(store),
        clock,
        enabled=settings.scheduler.enabled,
    )
    for name in tasks:
        scheduler.wake(name)  # for what a crash or a stop has left undone
    return scheduler


def _forgotten(report: Report) -> None:
    """Nobody else is there to be told how it ended."""
    tell = log.warning if report.proof.found_in else log.info
    tell("forgetting.finished", events=report.events, found_in=report.proof.found_in)


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
    settings: Settings, store: OrderedStore, library: Library, folder: Path
) -> Embedding | None:
    if settings.embedder.provider == "none" and not folder.exists():
        return None
    from agent_memory import models

    return models.embedding(settings, store, library, folder)


def _index_folder(store: OrderedStore, db_path: Path) -> Path:
    """Beside the database that they are made from. Those of another one are removed."""
    folder = db_path.with_name("index" if db_path.name == "db" else f"{db_path.name}-index")
    mark, identity = folder / "store", schema.identity(store)
    if folder.exists() and (not mark.exists() or mark.read_text() != identity):
        log.warning("index.of_another_store", path=str(folder))
        shutil.rmtree(folder)
    if not mark.exists():
        folder.mkdir(mode=0o700, parents=True)
        mark.write_text(identity)
        mark.chmod(0o600)
    return folder


def _model_server(settings: Settings) -> LeasedServer:
    chosen = settings.llama
    if chosen.endpoint:
        return ExternalServer(
            endpoint=chosen.endpoint,
            api_key=os.environ.get(chosen.api_key_env, "") if chosen.api_key_env else "",
            model_dir=str(Path(chosen.model_dir).expanduser()),
        )
    return LlamaServer(
        Setup(
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


def _mcp(parts: McpParts, settings: Settings, used: Path) -> Entrance:
    def load() -> Callable[[], Serving]:
        from agent_memory.interfaces.mcp.desk import Desk
        from agent_memory.interfaces.mcp.serving import McpServing

        return lambda: McpServing(
            Desk(parts),
            max_body_bytes=settings.http.max_body_bytes,
            most_streams=settings.streaming.max_connections,
        )

    return Entrance(load, used, priority.lower)


def _summarizer(
    settings: Settings,
    model: LeasedServer,
    fallback: ExtractiveSummarizer,
    budget: StoredTokenBudget,
    clock: Clock,
) -> Summarizer:
    if settings.summarizer.provider == "extractive":
        return fallback
    from agent_memory import models

    return models.summarizer(settings, model, fallback, budget, clock)


def _reasoner(
    settings: Settings, model: LeasedServer, budget: StoredTokenBudget, clock: Clock
) -> Reasoner | None:
    """The same model that summarizes, if it is one."""
    if settings.summarizer.provider == "extractive":
        return None
    from agent_memory import models

    return models.reasoner(settings, model, budget, clock)


def _spans(settings: Settings) -> Spans | None:
    endpoint = settings.telemetry.otlp_endpoint
    if not endpoint:
        return None
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(
            f"telemetry.otlp_endpoint is {endpoint!r}: give an address as"
            " http://localhost:4318/v1/traces"
        )
    try:
        from agent_memory.adapters.telemetry.otel import OtelSpans
    except ImportError as exc:
        raise FeatureUnavailable(
            "telemetry.otlp_endpoint is set, and OpenTelemetry is not installed:"
            " pip install 'agent-memory[otel]'"
        ) from exc
    return OtelSpans(endpoint, __version__)


def _rules(chosen: Toc) -> Rules:
    return Rules(
        time_gap_ms=chosen.time_gap_ms,
        max_tokens=chosen.max_tokens,
        overlap_ms=chosen.overlap_ms,
        overlap_tokens=chosen.overlap_tokens,
        max_tool_result_chars=chosen.max_tool_result_chars,
    )


@contextmanager
def offline_admin(db_path: Path) -> Iterator[Admin]:
    """Another store, that no daemon uses."""
    if not (db_path / "CURRENT").exists():
        raise FeatureUnavailable(f"there is no database at {db_path}")
    store, maintenance = _open(db_path, _log_failed_flush)
    try:
        yield Admin(store=maintenance)
    finally:
        store.close()


def _open(
    db_path: Path, on_flush_failure: Callable[[BaseException], None]
) -> tuple[OrderedStore, StoreMaintenance]:
    try:
        make_folder(db_path)  # the engine syncs what is in it, not its own name
    except OSError as exc:
        raise StorageFailed(f"cannot open the store at {db_path}: {exc}") from exc
    engine = RocksEngine(db_path)
    store = CommittedStore(engine, on_flush_failure)
    try:
        schema.prepare(store)
    except BaseException:
        store.close()
        raise
    return store, GuardedMaintenance(engine, store)


def _new_secret() -> str:
    return f"am_{secrets.token_urlsafe(32)}"


def _die(exc: BaseException) -> None:
    """After a failed flush the page cache may differ from the disk: only a new process knows."""
    log.critical("store.flush_failed", error=str(exc))
    os._exit(wire.ERRORS[StorageFailed].exit)


def _log_failed_flush(exc: BaseException) -> None:
    """A store that is not the daemon's: it refuses all further work, and the daemon goes on."""
    log.error("other_store.flush_failed", error=str(exc))
