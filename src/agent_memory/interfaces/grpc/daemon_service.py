"""kontekst.DaemonService: status and shutdown of the daemon."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.grpc import handlers
from agent_memory.interfaces.grpc.admission import Guard
from agent_memory.interfaces.grpc.calls import Methods
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel.status import DaemonStatus
from agent_memory.platform.ports import ModelServer
from agent_memory.proto import kontekst_pb2 as pb

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["DaemonService"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonControl:
    """The status of the daemon process, and how to stop it."""

    get_status: Callable[[], DaemonStatus]
    stop: Callable[[], None]


@dataclass(frozen=True, slots=True)
class DaemonService:
    host: DaemonControl
    model: ModelServer
    bridge: Bridge
    guard: Guard
    observer: Observer

    def build_methods(self) -> Methods:
        return handlers.build_service(
            DESCRIPTOR,
            unary={"GetStatus": self.get_status, "Shutdown": self.shutdown},
            stream={},
            guard=self.guard,
            observer=self.observer,
        )

    async def get_status(self, _request: pb.GetStatusRequest) -> pb.GetStatusResponse:
        return await self.bridge.run(self._status)

    async def shutdown(self, _request: pb.ShutdownRequest) -> pb.ShutdownResponse:
        self.host.stop()  # it answers open calls first, this one too
        return pb.ShutdownResponse(message="the daemon is stopping")

    def _status(self) -> pb.GetStatusResponse:
        daemon, model = self.host.get_status(), self.model.status()
        started = datetime.fromtimestamp(daemon.started_ms / 1000, UTC)
        return pb.GetStatusResponse(
            bind=next(iter(daemon.grpc_addresses), f"unix:{daemon.grpc_socket}"),
            endpoint=model.endpoint,
            model_dir=model.model_dir,
            llama_server_healthy=model.healthy,
            llama_server_running=model.running,
            llama_server_pid=model.pid,
            uptime_seconds=int(daemon.uptime_seconds),
            started_at_rfc3339=started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            data_dir=daemon.data_dir,
        )
