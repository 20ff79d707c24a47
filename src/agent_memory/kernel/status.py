"""The status of the daemon, its store, its indexes and its model server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from agent_memory.kernel.ids import Millis
from agent_memory.kernel.jobs import NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyStats:
    name: str
    entries: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    path: str
    size_bytes: int
    families: tuple[FamilyStats, ...]
    pending_compactions: int
    wal_bytes: int

    def entries(self, family: str) -> int:
        return sum(stats.entries for stats in self.families if stats.name == family)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """Whether the store takes writes and answers reads; if not, `reason` says why."""

    writable: bool = True
    readable: bool = True
    reason: str = ""
    final: bool = False  # only a new start of the daemon can help
    lost: bool = False  # the database server does not answer: reads fail too, until it does


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Stored data that can no longer be read.

    `events` counts the lost events and the times bound them, as far as they can be determined.
    `kept` is the folder with the damaged files. `final`: no repair brings it back, only an import
    or a backup.
    """

    what: str
    noticed_ms: Millis | None = None
    events: int | None = None
    first_ms: Millis | None = None
    last_ms: Millis | None = None
    kept: str = ""
    final: bool = False

    @property
    def description(self) -> str:
        """What is damaged, and the time, in UTC, of the events that are lost."""
        text = self.what
        if self.noticed_ms is not None:
            text += f", noticed {_format_utc(self.noticed_ms)}"
        if self.first_ms is not None and self.last_ms is not None:
            count = "" if self.events is None else f"{self.events:,} "
            first, last = _format_utc(self.first_ms), _format_utc(self.last_ms)
            text += f"; {count}events from {first} to {last} cannot be read"
        elif self.events == 0:
            text += "; no lost events are known"
        if self.kept:
            text += f"; the damaged files are in {self.kept} (remove it to dismiss this)"
        return text


def _format_utc(at_ms: Millis) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """The result of reading every row of a store. `lost` are earlier reports of what is gone."""

    rows: int
    damages: tuple[Damage, ...]
    lost: tuple[Damage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRepair:
    """The result of a repair. `kept` is the folder with the store as it was before."""

    rows: int
    damages: tuple[Damage, ...]
    kept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats:
    documents: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexesStatus:
    """The size, backlog and current activity of both indexes."""

    words: IndexStats
    words_waiting: int
    vectors: IndexStats | None  # None: embedding is off
    vectors_waiting: int
    waiting_by_kind: Mapping[str, int]  # the parts of `vectors_waiting`, by name; none is 0
    model: str
    doing: str
    trouble: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentsStatus:
    """A rebuild of the table of contents under way: segments done, and how many there are."""

    segments: int
    total: int


class Health(StrEnum):
    FINE = "fine"
    WARNING = "warning"  # works, but not as well as it could
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """A finding of `doctor`. `advice` says what to do about it."""

    subject: str
    health: Health
    said: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """The model server that runs depend on. `running` and `pid` are of a server we started."""

    endpoint: str  # empty: no server
    model_dir: str
    healthy: bool
    running: bool = False
    pid: int = 0
    trouble: str = ""  # why the last start failed


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupStatus:
    """The last good backup, the last scheduled one and the last one before an upgrade.

    An empty path means that there is none.
    """

    path: str = ""
    made_ms: Millis = NEVER
    scheduled: str = ""
    scheduled_ms: Millis = NEVER
    before_upgrade: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """What the status of the daemon shows of backups."""

    read: Callable[[], BackupStatus] = BackupStatus
    list_warnings: Callable[[], list[str]] = list


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
    running: bool = True  # for programs: without a daemon, a command says false
    pid: int
    version: str
    started_ms: Millis
    uptime_seconds: float
    grpc_addresses: tuple[str, ...]
    http_addresses: tuple[str, ...]
    grpc_port: int
    http_port: int
    http_scheme: str
    socket: str
    grpc_socket: str
    http_socket: str
    data_dir: str
    db_path: str
    log_path: str
    events: int
    db_bytes: int
    store: StoreHealth
    damages: tuple[Damage, ...]
    indexes: IndexesStatus | None  # None while the store cannot be read
    contents: ContentsStatus | None = None  # None: no rebuild is due
    to_review: int = 0  # memories that await the user's review
    summarizer: str = ""  # the provider, and the program if it is one
    warnings: tuple[str, ...] = ()
    backup: BackupStatus = field(default_factory=BackupStatus)
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonControl:
    """The status of the daemon process, and how to stop it, from any thread."""

    get_status: Callable[[], DaemonStatus]
    stop: Callable[[], object]
