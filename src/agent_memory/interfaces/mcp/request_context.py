"""The context of a request: who sent it, and the services that answer it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agent_memory import config
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import SearchScope
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.interfaces.mcp.dependencies import McpDependencies
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.ids import Domain
from agent_memory.kernel.operations import Operation
from agent_memory.kernel.progress import OnProgress, ignore_progress

A = TypeVar("A")


def memory_scope(domains: Iterable[Domain] | None, namespace: str = "") -> SearchScope:
    """Return the scope of the memories of these domains; None means all."""
    return SearchScope(
        kinds=frozenset({DocumentKind.MEMORY}),
        domains=frozenset(domains or ()),
        namespace=namespace,
    )


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request, with the services that handle it."""

    deps: McpDependencies
    caller: Caller
    on_progress: OnProgress = ignore_progress

    @property
    def services(self) -> Composition:
        return self.deps.services

    def ask(self, operation: Operation[A], request: object) -> A:
        return self.deps.calls.call(operation, self.caller, request, self.on_progress)

    def load_config(self) -> config.LoadedSettings:
        """Load the settings that apply in the client's folder. Raises ConfigError."""
        folder = self.caller.folder
        return config.load(self.caller.environ, project_dir=Path(folder) if folder else None)

    def list_nearby(self) -> list[Domain] | None:
        return self.services[ProjectResolver].list_nearby(self.caller)

    def resolve_domain(self, domain: str) -> Domain:
        return self.services[ProjectResolver].resolve_domain(domain, self.caller)
