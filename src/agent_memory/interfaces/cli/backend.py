"""What commands are given to work with: services of this daemon, or of one far away."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent_memory.domain.errors import FeatureUnavailable
from agent_memory.domain.events import Page, Position
from agent_memory.domain.status import DaemonStatus
from agent_memory.services.access import Access
from agent_memory.services.admin import Admin


class Events(Protocol):
    """Reading events: `services.Timeline`, or the same over gRPC."""

    def events(
        self, start: int, end: int, *, limit: int = 0, after: Position | None = None
    ) -> Page: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    foreground: bool
    grpc_port: int | None
    http_port: int | None
    db_path: Path | None
    log_level: str | None
    config: Path | None
    ready_fd: int | None
    auto: bool
    replace: bool


class Control(Protocol):
    """Starting and stopping a daemon, from outside it."""

    def start(self, options: StartOptions, say: Callable[[str], None], /) -> int: ...

    def stop(self, say: Callable[[str], None], /) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of the daemon that runs the command."""

    timeline: Events
    admin: Admin
    access: Access
    status: Callable[[], DaemonStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """`services` is None in a process without a daemon; `control` is None inside one."""

    services: Services | None
    control: Control | None
    offline: Callable[[Path], AbstractContextManager[Admin]]
    remote: Callable[[str, str | None], AbstractContextManager[Events]]  # endpoint, bearer key
    own_db: Path | None = field(default=None)

    def here(self) -> Services:
        if self.services is None:
            raise FeatureUnavailable("this command needs a daemon, and none is running here")
        return self.services
