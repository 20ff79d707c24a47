"""The gRPC listeners: loopback on IPv4 and IPv6, and a Unix socket, with reflection and health."""

from collections.abc import Sequence
from pathlib import Path

import grpc
import grpc.aio
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from agent_memory.interfaces.grpc.handlers import Handler

log = structlog.get_logger()

MAX_MESSAGE_BYTES = 16 << 20  # above every limit of ours, so that it is we who say what is too big
MAX_CONCURRENT_CALLS = 4096
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"


class GrpcServer:
    """One grpc.aio server for all services. `port` is the one it got."""

    def __init__(self, services: dict[str, Handler]) -> None:
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                # Otherwise a second daemon would share the port in silence.
                ("grpc.so_reuseport", 0),
            ],
            maximum_concurrent_rpcs=MAX_CONCURRENT_CALLS,
        )
        self._server.add_generic_rpc_handlers(tuple(services.values()))
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]  # not in the stubs
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._reflect([*services, health.SERVICE_NAME, reflection.SERVICE_NAME, REFLECTION_V1])
        self._names = ["", *services]
        self.port = 0

    def listen(self, hosts: Sequence[str], port: int, socket: Path) -> None:
        """Bind all addresses; port 0 takes a free one, the same for every host."""
        self._server.add_insecure_port(f"unix:{socket}")
        for host in hosts:
            address = f"[{host}]" if ":" in host else host
            try:
                port = self._server.add_insecure_port(f"{address}:{port}")
            except RuntimeError as exc:
                if self.port and host == "::1":
                    log.warning("grpc.no_ipv6", error=str(exc))
                    continue
                raise
            self.port = port

    async def start(self) -> None:
        await self._server.start()
        for name in self._names:
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace_seconds: float) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_seconds)

    def _reflect(self, names: Sequence[str]) -> None:
        """Reflection under both of its names: v1 is v1alpha renamed, message for message."""
        reflection.enable_server_reflection(names, self._server)
        info = grpc.stream_stream_rpc_method_handler(
            reflection.aio.ReflectionServicer(names).ServerReflectionInfo,  # type: ignore[attr-defined]
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(REFLECTION_V1, {"ServerReflectionInfo": info}),)
        )
