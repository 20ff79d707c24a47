"""Build what the interfaces are given: the services of commands, HTTP, MCP and gRPC."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent_memory import __version__
from agent_memory.config import HttpSettings, Settings
from agent_memory.features import import_modules
from agent_memory.features.access.adapters import socket_owners
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.interfaces import catalog
from agent_memory.interfaces.auditing import Auditor
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.cli.backend import ServeOptions
from agent_memory.interfaces.event_recording import EventRecording
from agent_memory.interfaces.grpc import operations
from agent_memory.interfaces.grpc.admission import Guard, KeyGuard, SameUserGuard, TeamGuard
from agent_memory.interfaces.grpc.memory_service import MemoryService
from agent_memory.interfaces.grpc.server import GrpcServer
from agent_memory.interfaces.guard import BearerGuard
from agent_memory.interfaces.http.asgi import Application
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.gate import Gate, GatePolicy
from agent_memory.interfaces.http.lazy_app import LazyApp
from agent_memory.interfaces.http.metrics_middleware import MetricsMiddleware
from agent_memory.interfaces.http.page_app import PageApp
from agent_memory.interfaces.http.page_sessions import PageSessions
from agent_memory.interfaces.mcp.dependencies import McpDependencies
from agent_memory.interfaces.mcp.lazy_server import LazyMcpServer, TransportServer
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.operations import OperationCalls
from agent_memory.platform.base import Platform
from agent_memory.platform.environment import NON_INTERACTIVE


def build_http_dependencies(
    services: Composition,
    calls: OperationCalls,
    bridge: Bridge,
    observer: Observer,
) -> HttpDependencies:
    return HttpDependencies(
        services=services,
        calls=calls,
        bridge=bridge,
        observer=observer,
        environ=_build_environment(),
    )


def build_mcp_dependencies(
    settings: Settings,
    services: Composition,
    calls: OperationCalls,
    bridge: Bridge,
    observer: Observer,
    auditor: Auditor | None,
) -> McpDependencies:
    return McpDependencies(
        services=services,
        calls=calls,
        bridge=bridge,
        observer=observer,
        settings=settings.mcp,
        version=__version__,
        environ=_build_environment(),
        auditor=auditor,
    )


def build_mcp_server(
    dependencies: McpDependencies, settings: Settings, used: Path
) -> LazyMcpServer:
    """Build the MCP server. Its SDK takes over a second to load, so it comes with the first client;
    the file `used` tells later daemons to load it at their start."""

    def load() -> Callable[[], TransportServer]:
        from agent_memory.interfaces.mcp.handlers import McpServerFactory
        from agent_memory.interfaces.mcp.transports import McpTransportServer

        return lambda: McpTransportServer(
            McpServerFactory(dependencies),
            max_body_bytes=settings.http.max_body_bytes,
            most_streams=settings.streaming.max_connections,
        )

    return LazyMcpServer(load, used)


class GrpcInterface:
    """The gRPC services and who may call them."""

    def __init__(
        self,
        context: Composition,
        calls: OperationCalls,
        bridge: Bridge,
        observer: Observer,
        bearer: BearerGuard,
        auditor: Auditor | None,
    ) -> None:
        self._context, self._calls = context, calls
        self._bridge, self._observer = bridge, observer
        self._bearer = bearer
        self._auditor = auditor
        uid = os.geteuid()
        owners = socket_owners.choose(uid)
        if owners is not None:
            context[Platform].closing.callback(owners.close)
        self._same_user = SameUserGuard(self._bearer, owners, uid)

    def build(self) -> GrpcServer:
        """Build the server. An agent that can reach loopback must not approve its own tools, so
        running agents and ending the daemon need a key even of the same user."""
        context, bridge, observer = self._context, self._bridge, self._observer
        guard: Guard | None = None
        key_guard: Guard = KeyGuard(self._bearer)
        if self._auditor is not None:
            guard = key_guard = TeamGuard(self._bearer, self._auditor)
        elif context[Settings].grpc.require_key:
            guard = self._same_user
        memory = MemoryService(
            recording=EventRecording(context[Ingest], bridge),
            bridge=bridge,
            guard=guard,
            observer=observer,
        )
        derived = operations.build_methods(
            catalog.list_all(),
            self._calls,
            bridge,
            lambda service: guard if service.startswith("memory.") else key_guard,
            observer,
        )
        methods = {**derived, **memory.build_methods()}
        for module in import_modules("interfaces.rpc"):
            methods |= module.build_methods(context, key_guard, observer)
        return GrpcServer(methods)


@dataclass(frozen=True, slots=True)
class HttpInterface:
    """What answers over HTTP, behind the gate."""

    platform: Platform
    dependencies: HttpDependencies
    mcp: LazyMcpServer
    bearer: BearerGuard
    pages: PageSessions
    auditor: Auditor | None  # of a team server

    def build(self, settings: HttpSettings) -> Gate:
        """Build what answers on the daemon's own port."""

        def load() -> Application:
            from agent_memory.interfaces.http.application import build_app

            return build_app(self.dependencies)

        mounts = {"/mcp": self.mcp.serve_streamable}
        # The page is for the owner of a memory: it shows and changes everything.
        pages = self.pages if self.auditor is None else None
        return self._build_gate(load, _build_policy(settings), mounts, pages)

    def build_extra(self, settings: HttpSettings, options: ServeOptions) -> Gate:
        """Build what answers on a port that `memory serve` opens, behind the same rules."""

        def load() -> Application:
            from agent_memory.interfaces.http.application import build_transport_app

            return build_transport_app(self.dependencies, options.transport)

        policy = _build_policy(settings)
        policy = replace(policy, hosts=(*policy.hosts, options.host), any_origin=options.cors)
        mounts: dict[str, Application] = {}
        if options.transport == "sse":
            mounts = {"/mcp": self.mcp.serve_streamable}
            mounts |= dict.fromkeys(("/sse", "/messages", "/messages/"), self.mcp.serve_legacy)
        return self._build_gate(load, policy, mounts)

    def _build_gate(
        self,
        load: Callable[[], Application],
        policy: GatePolicy,
        mounts: Mapping[str, Application],
        pages: PageSessions | None = None,
    ) -> Gate:
        app: Application = LazyApp(load, mounts, lambda: self.platform.store.health)
        if pages is not None:
            app = PageApp(app, pages)
        measured = MetricsMiddleware(app, self.dependencies.observer)
        return Gate(
            measured, self.bearer, policy, time.monotonic, pages=pages, auditor=self.auditor
        )


def _build_environment() -> dict[str, str]:
    return {**os.environ, **NON_INTERACTIVE}


def _build_policy(settings: HttpSettings) -> GatePolicy:
    return GatePolicy(
        hosts=(settings.host, *settings.allowed_hosts),
        origins=tuple(settings.allowed_origins),
        rate=settings.rate,
        burst=settings.burst,
        max_body_bytes=settings.max_body_bytes,
    )
