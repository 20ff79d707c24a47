"""The gRPC listeners: loopback on IPv4 and IPv6, and a Unix socket, with reflection and health."""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from agent_memory.interfaces import listening
from agent_memory.interfaces.grpc import health, reflection
from agent_memory.interfaces.grpc.calls import Methods
from agent_memory.interfaces.grpc.connection import HANDSHAKE_SECONDS, Connection, ServedCalls


class GrpcServer:
    """One server for all services. `port` is the port it listens on."""

    def __init__(self, methods: Methods) -> None:
        services = list(dict.fromkeys(path.decode().split("/")[1] for path in methods))
        self._health = health.HealthService(services)
        names = [*services, health.SERVICE, reflection.SERVICE]
        self.calls = ServedCalls(
            {
                **methods,
                **self._health.build_methods(),
                **reflection.ReflectionService(names).build_methods(),
            }
        )
        self._listeners: list[tuple[socket.socket, ssl.SSLContext | None]] = []
        self._servers: list[asyncio.Server] = []
        self.port = 0
        self.addresses: list[str] = []

    def listen_on_socket(self, path: Path) -> None:
        self._listeners.append((listening.bind_path(path), None))

    def listen(self, hosts: Sequence[str], port: int, tls: ssl.SSLContext | None = None) -> None:
        """Bind all addresses; port 0 takes a free one, the same for every host."""
        for listener in listening.bind(hosts, port):
            host, self.port = listener.getsockname()[:2]
            self.addresses.append(listening.format_address(host, self.port))
            self._listeners.append((listener, tls))

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for listener, tls in self._listeners:
            serve = (
                loop.create_unix_server if listener.family == socket.AF_UNIX else loop.create_server
            )
            server = await serve(
                lambda: Connection(self.calls),
                sock=listener,
                backlog=listening.BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
            )
            self._servers.append(server)
        self.report_health(True)

    def report_health(self, serving: bool) -> None:
        """Report to health checks whether the store accepts writes."""
        self._health.report(serving)

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more calls, and wait for those under way; end them after the grace."""
        self._health.end()
        for server in self._servers:
            server.close()
        connections = list(self.calls.connections)
        for connection in connections:
            connection.drain()
        if connections:
            await asyncio.wait([each.closed for each in connections], timeout=grace_seconds)
        await asyncio.gather(*(connection.cut() for connection in list(self.calls.connections)))
