"""The context of a request: who sent it, from where, and so what `project` means in it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_memory import config
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import SearchScope
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.interfaces.mcp import uris
from agent_memory.interfaces.mcp.dependencies import McpDependencies
from agent_memory.interfaces.services import Services
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ORG, PROJECT, USER, Domain

ALL = "all"


def memory_scope(domains: Iterable[Domain] | None, namespace: str = "") -> SearchScope:
    """Return the scope of the memories of these domains; None means all."""
    return SearchScope(
        kinds=frozenset({DocumentKind.MEMORY}),
        domains=frozenset(domains or ()),
        namespace=namespace,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOrigin:
    """The origin of a connection: the folder of a stdio client, or the name of a project."""

    caller: Caller | None
    project: str = ""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request, with the services that handle it."""

    deps: McpDependencies
    origin: ClientOrigin
    agent: str = ""  # as the client calls itself

    @property
    def services(self) -> Services:
        return self.deps.services

    @property
    def caller(self) -> Caller:
        return self.origin.caller or Caller(folder="", environ=self.deps.environ)

    @property
    def environ(self) -> Mapping[str, str]:
        return self.caller.environ

    def load_config(self) -> config.LoadedSettings:
        """Load the settings that apply in the client's folder. Raises ConfigError."""
        folder = self.caller.folder
        return config.load(self.environ, project_dir=Path(folder) if folder else None)

    def get_remote(self) -> str:
        """Return the git remote to sync projects with."""
        if self.origin.caller is None:
            return self.deps.remote
        return self.load_config().settings.memories.remote

    def qualify_domain(self, domain: str) -> str:
        """Replace `project` by the name of the client's project, if it gave one."""
        plain = uris.to_plain(domain)
        if plain == PROJECT and self.origin.project:
            return f"{PROJECT}:{self.origin.project}"
        return plain

    def resolve_location(self, domain: str) -> MemoryLocation:
        return self.services.resolver.resolve(self.qualify_domain(domain), self.caller)

    def resolve_domain(self, domain: str) -> Domain:
        return self.services.resolver.resolve_domain(self.qualify_domain(domain), self.caller)

    def resolve_domains(self, domain: str) -> list[Domain] | None:
        """Return the domains that a filter selects; None means all."""
        return None if domain == ALL else [self.resolve_domain(domain)]

    def find_here(self) -> MemoryLocation:
        """Return the location to look for memories in first and to write changes to."""
        return self.resolve_location(PROJECT if self._has_project else USER)

    def list_nearby(self) -> list[Domain] | None:
        """Return the client's domains: project, user and organization. Return None, for all, if it
        has no project."""
        if not self._has_project:
            return None
        domains = [self.resolve_domain(PROJECT), USER]
        if self.services.resolver.shared.org:
            domains.append(self.resolve_domain(ORG))
        return domains

    def list_sync_domains(self, domain: str) -> list[str]:
        """Return the domains to sync; `all` means those of the client. Raises InvalidInput for
        `all` if the client has no project."""
        if domain != ALL or self.caller.folder:
            return [self.qualify_domain(domain)]
        nearby = self.list_nearby()
        if nearby is None:
            raise InvalidInput(
                "domain is missing: name the domain to sync, such as project:my-app or user, or"
                " connect with ?project=my-app"
            )
        return [str(name) for name in nearby]

    @property
    def _has_project(self) -> bool:
        return bool(self.caller.folder or self.origin.project)
