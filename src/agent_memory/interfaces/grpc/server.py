"""The gRPC listeners: loopback on IPv4 and IPv6, and a Unix socket, with reflection and health."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from agent_memory.interfaces import listening
from agent_memory.interfaces.grpc.handlers import Handler
from agent_memory.kernel.errors import ListenFailed

MAX_MESSAGE_BYTES = 16 << 20  # above our own limits, so that our error messages apply
MAX_CONCURRENT_CALLS = 4096
HANDSHAKE_MILLIS = 20_000
SETTLE_SECONDS = 0.15
SETTLE_ROUNDS = 10
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"


class _Arrivals(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # not generic at run time
    """A handler that counts incoming calls and leaves them to the handlers after it."""

    def __init__(self) -> None:
        self.count = 0

    def service(self, _details: Any) -> None:
        self.count += 1


class GrpcServer:
    """One grpc.aio server for all services. `port` is the port it listens on.

    `on_listening` is called with each host and port. Reflection and health need no key: they
    show nothing that is stored, and tools call them first.
    """

    def __init__(
        self,
        services: dict[str, Handler],
        on_listening: Callable[[str, int], object] | None = None,
    ) -> None:
        self._on_listening = on_listening
        self._arrivals = _Arrivals()
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                # Otherwise a second daemon would silently share the port.
                ("grpc.so_reuseport", 0),
                # Close connections that never start HTTP/2 after seconds, not minutes.
                ("grpc.server_handshake_timeout_ms", HANDSHAKE_MILLIS),
            ],
            maximum_concurrent_rpcs=MAX_CONCURRENT_CALLS,
        )
        self._server.add_generic_rpc_handlers((self._arrivals, *services.values()))
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]  # not in the stubs
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._reflect([*services, health.SERVICE_NAME, reflection.SERVICE_NAME])
        self._names = ["", *services]
        self.port = 0
        self.addresses: list[str] = []

    def listen_on_socket(self, socket: Path) -> None:
        self._server.add_insecure_port(f"unix:{quote(str(socket))}")  # gRPC reads it as a URI

    def listen(
        self, hosts: Sequence[str], port: int, certificate: tuple[bytes, bytes] | None = None
    ) -> None:
        """Bind all addresses; port 0 takes a free one, the same for every host. With a certificate
        and its private key (PEM), serve TLS."""
        # gRPC does not report why it fails, so try with plain sockets first.
        probes = listening.bind(hosts, port)
        port = probes[0].getsockname()[1]
        hosts = [probe.getsockname()[0] for probe in probes]
        for probe in probes:
            probe.close()
        for host in hosts:
            address = listening.format_address(host, port)
            try:
                if certificate is None:
                    self._server.add_insecure_port(address)
                else:
                    chain, key = certificate
                    credentials = grpc.ssl_server_credentials([(key, chain)])
                    self._server.add_secure_port(address, credentials)
            except RuntimeError as exc:
                raise ListenFailed(
                    f"cannot listen on {address}: another program may have the port"
                ) from exc
            if self._on_listening is not None:
                self._on_listening(host, port)
            self.port = port
            self.addresses.append(address)

    async def start(self) -> None:
        await self._server.start()
        await self.report_health(True)

    async def report_health(self, serving: bool) -> None:
        """Report to health checks whether the store accepts writes."""
        states = health_pb2.HealthCheckResponse
        for name in self._names:
            await self._health.set(name, states.SERVING if serving else states.NOT_SERVING)

    async def stop(self, grace_seconds: float) -> None:
        await self._health.enter_graceful_shutdown()
        await self._settle()
        await self._server.stop(grace_seconds)

    async def _settle(self) -> None:
        """Wait until received calls reach their handlers: gRPC cancels the others."""
        for _ in range(SETTLE_ROUNDS):
            seen = self._arrivals.count
            await asyncio.sleep(SETTLE_SECONDS)
            if self._arrivals.count == seen:
                return

    def _reflect(self, names: Sequence[str]) -> None:
        """Serve reflection under both names: v1 is v1alpha renamed, message for message."""
        reflection.enable_server_reflection(names, self._server)
        info = grpc.stream_stream_rpc_method_handler(
            reflection.aio.ReflectionServicer(names).ServerReflectionInfo,  # type: ignore[attr-defined]
            request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
            response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(REFLECTION_V1, {"ServerReflectionInfo": info}),)
        )
