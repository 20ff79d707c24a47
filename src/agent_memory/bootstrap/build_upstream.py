"""Build the exchange with a team's server: of a machine that forwards, and of the server."""

import random
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from agent_memory.bootstrap.build_forgetting import ForgettingFeature
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.bootstrap.wake_ups import WakeUps
from agent_memory.config import Settings
from agent_memory.features.forgetting.ports import ErasureQueue
from agent_memory.features.index.model.queries import Query, RecallResult, Search
from agent_memory.features.memories.model.memories import to_origin_name
from agent_memory.features.upstream.adapters.key_file import RemoteKeyFile
from agent_memory.features.upstream.adapters.oidc_login import start_login
from agent_memory.features.upstream.adapters.upstream_store import (
    StoredErasures,
    StoredUpstream,
)
from agent_memory.features.upstream.model.erasures import MAX_HOURS
from agent_memory.features.upstream.model.progress import RemoteSettings
from agent_memory.features.upstream.model.records import MAX_MACHINE_CHARS, RecordRefused
from agent_memory.features.upstream.ports import RemoteKeys, TeamServer
from agent_memory.features.upstream.services.account import TeamAccount
from agent_memory.features.upstream.services.back_off import BackOff
from agent_memory.features.upstream.services.conversations import Conversations
from agent_memory.features.upstream.services.erasing import (
    Erasing,
    ForgettingEraser,
    MachineErasures,
)
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
from agent_memory.kernel.errors import ConfigError, StorageFailed

if TYPE_CHECKING:
    from agent_memory.features.upstream.adapters.http_server import HttpTeamServer

_log = structlog.get_logger()

KEY_FILE = "remote-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsSource:
    """The settings as they are now, and the file whose change makes it worth reading them."""

    load: Callable[[], Settings]
    file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamFeature:
    exchange: TeamExchange
    recall: JointRecall
    search_all: Search
    search: TeamSearch
    login: TeamLogin
    account: TeamAccount


def build_remote_settings(platform: Platform, source: SettingsSource | None) -> "RemoteReader":
    """Build the reader of the settings of the team's server."""
    key_file = platform.folders.data / KEY_FILE
    keys = RemoteKeyFile(key_file)
    if source is None:
        return RemoteReader(lambda: platform.settings, keys, [key_file])
    return RemoteReader(source.load, keys, [key_file, source.file])


def build_erasure_queue(
    platform: Platform, settings: "RemoteReader", log: LogFeature
) -> ErasureQueue:
    return MachineErasures(
        erasures=StoredErasures(platform.store),
        log=log.events,
        taken=StoredUpstream(platform.store),
        read_hours=lambda: settings.read().erase_hours,
        clock=platform.clock,
    )


def build_upstream(
    platform: Platform,
    state: StoredUpstream,
    settings: "RemoteReader",
    log: LogFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    recall: RecallFeature,
    forgetting: ForgettingFeature,
    wake_ups: WakeUps,
) -> UpstreamFeature:
    erasures = StoredErasures(platform.store)
    shared = SharedProjects(read=settings.read, projects=memories.projects, names=state)
    connection = _Connection()
    platform.closing.callback(connection.close)
    back_off = BackOff(time.monotonic, random.random)
    memory_merger = MemoryMerger(
        memories=memories.store,
        erasures=erasures,
        secrets=platform.secrets,
        find_home=memories.resolver.find_home,
        on_change=wake_ups.on_memory_changed,
    )
    fact_merger = FactMerger(
        knowledge=knowledge.store,
        facts=knowledge.facts,
        tombstones=state,
        ledger=state,
        taken=state,
        erasures=erasures,
        secrets=platform.secrets,
        on_change=wake_ups.on_fact_changed,
    )
    names = ProjectNames(state)
    receiving = Receiving(
        ingest=log.ingest,
        log=log.events,
        outbox=log.outbox,
        memories=memories.store,
        knowledge=knowledge.store,
        memory_merger=memory_merger,
        fact_merger=fact_merger,
        taken=state,
        changes=state,
        tombstones=state,
        erasures=erasures,
        clock=platform.clock,
        on_erasure_due=wake_ups.on_team_news,
        check=names.check,
    )

    def connect(remote: RemoteSettings) -> TeamServer:
        return NamedServer(connection.open(remote), remote.agreed, state)

    conversations = Conversations(
        held=state,
        log=log.events,
        memories=memories.store,
        outlines=memories.outlines,
        clock=platform.clock,
    )
    machine = to_origin_name(socket.gethostname())[:MAX_MACHINE_CHARS].strip() or "machine"
    forwarding = Forwarding(
        read_settings=shared.read_settings,
        connect=connect,
        machine=machine,
        state=state,
        ledger=state,
        log=log.events,
        outbox=log.outbox,
        memories=memories.store,
        taken=state,
        outgoing=OutgoingRecords(
            log=log.events,
            memories=memories.store,
            knowledge=knowledge.store,
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
        eraser=ForgettingEraser(forgetting.forgetting, forgetting.memory_forgetting),
        log=log.events,
        memories=memories.store,
        merger=memory_merger,
        fact_merger=fact_merger,
        tombstones=state,
        read_hours=lambda: settings.read().erase_hours,
        clock=platform.clock,
    )
    joint = JointRecall(
        local=recall.recall,
        knowledge=knowledge.store,
        read_settings=shared.read_settings,
        connect=connect,
        state=state,
        watch=ServerWatch(),
    )

    def search_all(query: Query) -> RecallResult:
        # Asked for each question: a server may be set up while the daemon runs.
        return (joint if settings.read().url else recall.recall).search(query)

    return UpstreamFeature(
        exchange=TeamExchange(
            forwarding=forwarding,
            receiving=receiving,
            erasing=erasing,
            shared=shared,
            preview=SharingPreview(
                shared=shared,
                log=log.events,
                memories=memories.store,
                knowledge=knowledge.store,
            ),
            names=names,
            connect=connect,
            wake=wake_ups.on_team_news,
        ),
        recall=joint,
        search_all=search_all,
        search=TeamSearch(
            recall=recall.recall,
            log=log.events,
            memories=memories.store,
            knowledge=knowledge.store,
            taken=state,
            waiting=WaitingHits(erasures, log.events),
        ),
        login=TeamLogin(
            connect=lambda remote: closing(_open_server(remote)),
            start=start_login,
            keys=RemoteKeyFile(platform.folders.data / KEY_FILE),
            back_off=back_off,
            machine=machine,
        ),
        account=TeamAccount(settings.read, connection.open, state, forwarding.lock),
    )


class RemoteReader:
    """Reads the settings of the team's server again when one of their files has changed."""

    def __init__(
        self, load: Callable[[], Settings], keys: RemoteKeys, files: Sequence[Path]
    ) -> None:
        self._load_settings = load
        self._keys = keys
        self._files = files
        self._read: tuple[object, RemoteSettings] | None = None
        self._erase_hours = MAX_HOURS  # as they were last read

    def read(self) -> RemoteSettings:
        """Read the settings. While they are wrong, nothing leaves, and nothing is erased early."""
        state = tuple(map(_describe_file, self._files))
        if self._read is None or self._read[0] != state:
            try:
                settings = self._load()
            except (ConfigError, StorageFailed) as exc:
                _log.warning("upstream.no_settings", error=str(exc))
                settings = RemoteSettings(erase_hours=self._erase_hours)
                if isinstance(exc, StorageFailed):
                    return settings  # without a change of the file, the next read may succeed
            self._erase_hours = settings.erase_hours
            self._read = state, settings
        return self._read[1]

    def _load(self) -> RemoteSettings:
        own = self._load_settings().upstream
        return RemoteSettings(
            url=own.url,
            name=own.name,
            projects=tuple(entry.strip() for entry in own.projects),
            conversations=tuple(entry.strip() for entry in own.conversations),
            delay_ms=own.delay_minutes * 60_000,
            recall=own.recall,
            review=own.review,
            certificates=str(Path(own.certificates).expanduser()) if own.certificates else "",
            erase_hours=own.erase_hours,
            key=self._keys.read(own.url) if own.url else "",
        )


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


def _describe_file(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _log_refused(refused: RecordRefused) -> None:
    _log.warning("upstream.refused", kind=refused.kind, record=refused.name, reason=refused.reason)
