"""Visits: who asks, where they work, and so what they mean by `project`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_memory import config
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.interfaces.mcp import uris
from agent_memory.interfaces.mcp.dependencies import McpDependencies
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ORG, PROJECT, USER, Domain

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOrigin:
    """Where a connection comes from: the folder of a client on stdio, or a project by its name."""

    caller: Caller | None
    project: str = ""


@dataclass(frozen=True, slots=True)
class RequestContext:
    deps: McpDependencies
    origin: ClientOrigin

    @property
    def caller(self) -> Caller:
        return self.origin.caller or Caller(folder="", environ=self.deps.environ)

    @property
    def environ(self) -> Mapping[str, str]:
        return self.caller.environ

    def load_config(self) -> config.LoadedSettings:
        """The settings that act on this visitor. Raises ConfigError."""
        folder = self.caller.folder
        return config.load(self.environ, project_dir=Path(folder) if folder else None)

    def get_remote(self) -> str:
        """With which projects are synced."""
        if self.origin.caller is None:
            return self.deps.remote
        return self.load_config().settings.memories.remote

    def qualify_domain(self, domain: str) -> str:
        """A domain as it was given, `project` being the visitor's own."""
        given = uris.to_plain(domain)
        if given == PROJECT and self.origin.project:
            return f"{PROJECT}:{self.origin.project}"
        return given

    def resolve_location(self, domain: str) -> MemoryLocation:
        return self.deps.project_resolver.resolve(self.qualify_domain(domain), self.caller)

    def resolve_domain(self, domain: str) -> Domain:
        return self.deps.project_resolver.resolve_domain(self.qualify_domain(domain), self.caller)

    def resolve_domains(self, domain: str) -> list[Domain] | None:
        """Those that a filter means; None for all."""
        return None if domain == ALL else [self.resolve_domain(domain)]

    def find_here(self) -> MemoryLocation:
        """Where a memory is looked for first, and where changes are written to."""
        return self.resolve_location(PROJECT if self._has_project else USER)

    def list_nearby(self) -> list[Domain] | None:
        """What the visitor works with: project, user and organisation; None where no project is
        known: then all."""
        if not self._has_project:
            return None
        found = [self.resolve_domain(PROJECT), USER]
        if self.deps.project_resolver.shared.org:
            found.append(self.resolve_domain(ORG))
        return found

    def list_sync_domains(self, domain: str) -> list[str]:
        """The domains to sync: all are those that the visitor works with, and who works with no
        project has to name one."""
        if domain != ALL or self.caller.folder:
            return [self.qualify_domain(domain)]
        nearby = self.list_nearby()
        if nearby is None:
            raise InvalidInput(
                "domain is missing: name the one to sync, as project:my-app or user; or connect"
                " with ?project=my-app"
            )
        return [str(each) for each in nearby]

    @property
    def _has_project(self) -> bool:
        return bool(self.caller.folder or self.origin.project)
