"""What there is to say about the daemon and its store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
        return sum(each.entries for each in self.families if each.name == family)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """Whether the store takes writes and answers reads; if not, `reason` says why."""

    writable: bool = True
    readable: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Stored data that cannot be read any more. Times and counts are those of the events it held,
    as far as they can be made out; `kept` is the folder where the damaged files lie."""

    what: str
    noticed_ms: Millis | None = None
    events: int | None = None
    first_ms: Millis | None = None
    last_ms: Millis | None = None
    kept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCheck:
    """What reading every row of a store has shown."""

    rows: int
    damages: tuple[Damage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRepair:
    """What a repair has found and done; `kept` is where the store as it was lies."""

    rows: int
    damages: tuple[Damage, ...]
    kept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStats:
    documents: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexesStatus:
    """Both indexes: what is in them, what waits, and what goes on."""

    words: IndexStats
    words_waiting: int
    vectors: IndexStats | None  # None: nothing is embedded
    vectors_waiting: int
    model: str
    doing: str
    trouble: str


class Health(StrEnum):
    FINE = "fine"
    WARNING = "warning"  # it works, but not as it could
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What a check-up has found. `advice` is what to do about it."""

    subject: str
    health: Health
    said: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """What runs depend on. `running` and `pid` are those of a server of our own."""

    endpoint: str  # empty while there is none
    model_dir: str
    healthy: bool
    running: bool = False
    pid: int = 0
    trouble: str = ""  # why it did not start, if that was tried last


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupStatus:
    """The last good backup, the last one in the folder of the schedule, and the last one that an
    upgrade made. Empty paths: none."""

    path: str = ""
    made_ms: Millis = NEVER
    scheduled: str = ""
    scheduled_ms: Millis = NEVER
    before_upgrade: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonStatus:
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
    warnings: tuple[str, ...] = ()
    backup: BackupStatus = field(default_factory=BackupStatus)
    sources: Mapping[str, str] = field(default_factory=dict)
