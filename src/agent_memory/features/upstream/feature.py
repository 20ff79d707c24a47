"""The exchange with a team's server: of a machine that forwards, and of the server."""

import random
import socket
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import structlog

from agent_memory.config import Settings, SettingsSource
from agent_memory.features.forgetting.ports import ForgettingWatch
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.features.forgetting.services.memory_forgetting import MemoryForgetting
from agent_memory.features.index.model.queries import Query, RecallResult, Search
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.log.ports import Events, Outbox, OutboxNeed
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.memories.adapters.memory_store import MemoryOutlines
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.model.memories import to_origin_name
from agent_memory.features.memories.ports import Memories
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.recall.ports import TeamRecords
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.features.upstream.adapters.key_file import RemoteKeyFile
from agent_memory.features.upstream.adapters.oidc_login import start_login
from agent_memory.features.upstream.adapters.upstream_store import StoredErasures, StoredUpstream
from agent_memory.features.upstream.model.progress import RemoteSettings
from agent_memory.features.upstream.model.records import MAX_MACHINE_CHARS, RecordRefused
from agent_memory.features.upstream.ports import TeamServer
from agent_memory.features.upstream.remote_reader import RemoteReader
from agent_memory.features.upstream.services.account import TeamAccount
from agent_memory.features.upstream.services.back_off import BackOff
from agent_memory.features.upstream.services.conversations import Conversations
from agent_memory.features.upstream.services.erasing import Erasing, ForgettingEraser
from agent_memory.features.upstream.services.exchange import TeamExchange
from agent_memory.features.upstream.services.forwarding import Forwarding
from agent_memory.features.upstream.services.joint_recall import JointRecall, ServerWatch
from agent_memory.features.upstream.services.login import TeamLogin
from agent_memory.features.upstream.services.merging import FactMerger, MemoryMerger
from agent_memory.features.upstream.services.named_server import NamedServer
from agent_memory.features.upstream.services.outgoing import OutgoingRecords
from agent_memory.features.upstream.services.preview import SharingPreview
from agent_memory.features.upstream.services.project_names import ProjectNames
from agent_memory.features.upstream.services.receiving import Receiving
from agent_memory.features.upstream.services.shared_projects import SharedProjects
from agent_memory.features.upstream.services.team_search import TeamSearch
from agent_memory.features.upstream.services.waiting_hits import WaitingHits
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.jobs import TEAM, ScheduledJob
from agent_memory.kernel.signals import DaemonSignal
from agent_memory.platform.base import Platform

if TYPE_CHECKING:
    from agent_memory.features.upstream.adapters.http_server import HttpTeamServer

_log = structlog.get_logger()

KEY_FILE = "remote-key"


def build(context: Composition) -> None:
    platform, signals, recall = context[Platform], context.signals, context[Recall]
    events, outbox, memories = context[Events], context[Outbox], context[Memories]
    knowledge, state = context[KnowledgeStore], context[StoredUpstream]
    on_news = signals.build_sender(DaemonSignal.TEAM_NEWS)
    settings = _build_reader(context)
    context.add(settings)
    erasures = StoredErasures(platform.store)
    shared = SharedProjects(read=settings.read, projects=context[StoredProjects], names=state)
    connection = _Connection()
    platform.closing.callback(connection.close)
    back_off = BackOff(time.monotonic, random.random)
    memory_merger = MemoryMerger(
        memories=memories,
        erasures=erasures,
        secrets=context[SecretsFilter],
        find_home=context[ProjectResolver].find_home,
        on_change=signals.build_sender(DaemonSignal.MEMORY_CHANGED),
    )
    fact_merger = FactMerger(
        knowledge=knowledge,
        facts=context[Facts],
        tombstones=state,
        ledger=state,
        taken=state,
        erasures=erasures,
        secrets=context[SecretsFilter],
        on_change=signals.build_sender(DaemonSignal.FACT_CHANGED),
    )
    names = ProjectNames(state)
    receiving = Receiving(
        ingest=context[Ingest],
        log=events,
        outbox=outbox,
        memories=memories,
        knowledge=knowledge,
        memory_merger=memory_merger,
        fact_merger=fact_merger,
        taken=state,
        changes=state,
        tombstones=state,
        erasures=erasures,
        clock=platform.clock,
        on_erasure_due=on_news,
        check=names.check,
    )

    def connect(remote: RemoteSettings) -> TeamServer:
        return NamedServer(connection.open(remote), remote.agreed, state)

    conversations = Conversations(
        held=state,
        log=events,
        memories=memories,
        outlines=context[MemoryOutlines],
        clock=platform.clock,
    )
    machine = to_origin_name(socket.gethostname())[:MAX_MACHINE_CHARS].strip() or "machine"
    forwarding = Forwarding(
        read_settings=shared.read_settings,
        connect=connect,
        machine=machine,
        state=state,
        ledger=state,
        log=events,
        outbox=outbox,
        memories=memories,
        taken=state,
        outgoing=OutgoingRecords(
            log=events,
            memories=memories,
            knowledge=knowledge,
            ledger=state,
            tombstones=state,
            clock=platform.clock,
            conversations=conversations,
        ),
        memory_merger=memory_merger,
        fact_merger=fact_merger,
        erasures=erasures,
        clock=platform.clock,
        back_off=back_off,
        on_refused=_log_refused,
        on_server_restored=lambda: _log.warning("upstream.server_restored"),
        agree=shared.agree,
    )
    erasing = Erasing(
        erasures=erasures,
        eraser=ForgettingEraser(context[Forgetting], context[MemoryForgetting]),
        log=events,
        memories=memories,
        merger=memory_merger,
        fact_merger=fact_merger,
        tombstones=state,
        read_hours=lambda: settings.read().erase_hours,
        clock=platform.clock,
    )
    exchange = TeamExchange(
        forwarding=forwarding,
        receiving=receiving,
        erasing=erasing,
        shared=shared,
        preview=SharingPreview(
            shared=shared,
            log=events,
            memories=memories,
            knowledge=knowledge,
        ),
        names=names,
        connect=connect,
        wake=on_news,
    )
    joint = JointRecall(
        local=recall,
        knowledge=knowledge,
        read_settings=shared.read_settings,
        connect=connect,
        state=state,
        watch=ServerWatch(),
    )

    def search_all(query: Query) -> RecallResult:
        # Asked for each question: a server may be set up while the daemon runs.
        return (joint if settings.read().url else recall).search(query)

    context.provide(Search, search_all)
    context.provide(TeamRecords, joint)
    context.provide(ForgettingWatch, forwarding.watch_forgetting)
    context.add(
        exchange,
        TeamSearch(
            recall=recall,
            log=events,
            memories=memories,
            knowledge=knowledge,
            taken=state,
            waiting=WaitingHits(erasures, events),
        ),
        TeamLogin(
            connect=lambda remote: closing(_open_server(remote)),
            start=start_login,
            keys=RemoteKeyFile(platform.folders.data / KEY_FILE),
            back_off=back_off,
            machine=machine,
        ),
        TeamAccount(settings.read, connection.open, state, forwarding.lock),
    )
    context.contributions(OutboxNeed).append(exchange.get_needed)
    context.schedule(
        ScheduledJob(
            name=TEAM, cron="0 * * * * *", work=exchange.run, woken_by=(DaemonSignal.TEAM_NEWS,)
        )
    )

    def begin() -> None:
        if forwarding.is_active():
            on_news()

    signals.listen(begin, DaemonSignal.OUTBOX_BEGINS)


def _build_reader(context: Composition) -> RemoteReader:
    """Build the reader of the settings of the team's server."""
    key_file = context[Platform].folders.data / KEY_FILE
    source, started = context.find(SettingsSource), context[Settings]
    if source is None:
        return RemoteReader(lambda: started, RemoteKeyFile(key_file), [key_file])
    files = [key_file, source.file]
    return RemoteReader(lambda: source.load().settings, RemoteKeyFile(key_file), files)


class _Connection:
    """The connection with the team's server, opened when it is needed first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: HttpTeamServer | None = None
        self._settings: tuple[str, str, str] | None = None

    def open(self, settings: RemoteSettings) -> "HttpTeamServer":
        """Return the connection; replace it if the settings have changed."""
        wanted = settings.url, settings.key, settings.certificates
        with self._lock:
            if self._server is None or self._settings != wanted:
                self.close()
                self._server, self._settings = _open_server(settings), wanted
            return self._server

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()


def _open_server(settings: RemoteSettings) -> "HttpTeamServer":
    # Late: the HTTP client takes time to load, and most daemons have no server.
    from agent_memory.features.upstream.adapters.http_server import HttpTeamServer

    return HttpTeamServer(settings.url, settings.key, settings.certificates)


def _log_refused(refused: RecordRefused) -> None:
    _log.warning("upstream.refused", kind=refused.kind, record=refused.name, reason=refused.reason)
