"""The services that commands use: those of this daemon, or of another one over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent_memory.kernel.errors import FeatureUnavailable
from agent_memory.kernel.operations import OperationCalls

if TYPE_CHECKING:  # loading the services takes longer than a command without a daemon runs
    from agent_memory.features.hooks.services.installing import Installing
    from agent_memory.features.maintenance.services.admin import Admin
    from agent_memory.features.maintenance.services.migration import MigrationReport
    from agent_memory.interfaces.cli.remote import RemoteDaemon
    from agent_memory.kernel.cancellation import CancelToken
    from agent_memory.kernel.composition import Composition
    from agent_memory.kernel.progress import OnProgress
    from agent_memory.kernel.status import CheckResult, StoreRepair


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    foreground: bool = False
    grpc_port: int | None = None
    http_port: int | None = None
    db_path: Path | None = None
    log_level: str | None = None
    config: Path | None = None
    auto: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningDaemon:
    """The daemon of this user's data folder, as a command outside it sees it."""

    pid: int
    config_file: Path  # may not exist
    foreground: bool  # in a terminal, or under systemd or launchd


StorePlace = Path | str  # a folder, or the address of a server


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateOptions:
    source: StorePlace
    target: StorePlace
    tenant: str | None  # None: that of the settings
    config: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateResult:
    report: MigrationReport
    target: StorePlace  # without a password
    tenant: str
    set_tenant: str  # that of the settings


class Control(Protocol):
    """Operations on a daemon and its files from another process."""

    def start(self, options: StartOptions, say: Callable[[str], None], /) -> int: ...

    def stop(self, say: Callable[[str], None], /) -> int: ...

    def restart(self, say: Callable[[str], None], /) -> int:
        """Stop the daemon and start one with the same options. Raises ConfigError before anything
        is stopped if no daemon can start with the settings."""
        ...

    def find_daemon(self) -> RunningDaemon | None: ...

    def wake_team_sync(self) -> None:
        """Let a running daemon look at once which team's server and projects are set."""
        ...

    def build_installing(self) -> Installing:
        """Build the service that edits the configuration of agents, which needs no daemon."""
        ...

    def measure_data(self) -> tuple[list[Path], int]:
        """Return the folders of this user's data and settings, and their size in bytes."""
        ...

    def describe_server_memory(self) -> str:
        """Return where the memory is if it is on a server, which nothing here deletes."""
        ...

    def check_deletable(self) -> None:
        """Raise InvalidInput if backups are in these folders."""
        ...

    def delete_data(self) -> list[Path]:
        """Delete these folders and return them. No daemon may be running."""
        ...

    def state(self) -> str:
        """Describe a daemon that does not serve. Usually empty."""
        ...

    def repair(
        self, config_file: Path | None, on_progress: Callable[[int], None], /
    ) -> StoreRepair:
        """Copy the readable part of the store into a new one. No daemon may be running."""
        ...

    def lock_data(self, data: Path, /) -> AbstractContextManager[None]:
        """Hold a data folder that no daemon uses, to change its files. The next command may start a
        daemon at once, even if earlier starts failed. Raises StorageLocked."""
        ...

    def migrate(self, options: MigrateOptions, on_progress: OnProgress, /) -> MigrateResult:
        """Copy a memory from one store to another. No daemon may use either."""
        ...

    def examine(self, config_file: Path | None, folder: Path, /) -> Iterator[CheckResult]:
        """Check everything between an agent and the store, for a caller in `folder`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    transport: str
    host: str
    port: int
    cors: bool


class Serve(Protocol):
    """Opens a further listener of the daemon."""

    def __call__(
        self, options: ServeOptions, listening: Callable[[list[str]], None], until: CancelToken, /
    ) -> None:
        """Call `listening` with the URLs, and return when `until` is set.

        Raises ListenFailed and ConfigError.
        """
        ...


# Late imports: loading gRPC takes longer than most commands run.


@contextmanager
def _connect_remote(endpoint: str, key: str | None) -> Iterator[RemoteDaemon]:
    from agent_memory.interfaces.cli import remote  # noqa: PLC0415

    with remote.connect(endpoint, key) as daemon:
        yield daemon


@dataclass(frozen=True, slots=True)
class PageLink:
    """A URL that opens the page once. `write_redirect` writes a file that leads to it."""

    url: str
    write_redirect: Callable[[], Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """`services` is None in a process without a daemon; `control` is None inside one."""

    services: Composition | None
    control: Control | None
    calls: OperationCalls | None = None  # None where `services` is
    open_offline: Callable[[Path], AbstractContextManager[Admin]]
    connect_remote: Callable[[str, str | None], AbstractContextManager[RemoteDaemon]] = (
        _connect_remote
    )
    own_db: Path | None = None
    serve: Serve | None = None
    # The session may accept what awaits review, or not.
    open_page: Callable[[bool], PageLink] | None = None

    def require_services(self) -> Composition:
        if self.services is None:
            raise FeatureUnavailable("this command needs a running daemon: `memory-daemon start`")
        return self.services

    def require_calls(self) -> OperationCalls:
        if self.calls is None:
            raise FeatureUnavailable("this command needs a running daemon: `memory-daemon start`")
        return self.calls

    def require_control(self) -> Control:
        if self.control is None:
            raise FeatureUnavailable("this command cannot run inside the daemon")
        return self.control
