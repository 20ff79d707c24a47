"""Visits: who asks, where they work, and so what they mean by `project`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_memory import config
from agent_memory.features.memories.model.projects import Place
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.interfaces.mcp import uris
from agent_memory.interfaces.mcp.dependencies import Parts
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import ORG, PROJECT, USER, Domain

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Where a connection comes from: the folder of a client on stdio, or a project by its name."""

    caller: Caller | None
    project: str = ""


@dataclass(frozen=True, slots=True)
class Visit:
    parts: Parts
    visitor: Visitor

    @property
    def caller(self) -> Caller:
        return self.visitor.caller or Caller(folder="", environ=self.parts.environ)

    @property
    def environ(self) -> Mapping[str, str]:
        return self.caller.environ

    def loaded(self) -> config.Loaded:
        """The settings that act on this visitor. Raises ConfigError."""
        folder = self.caller.folder
        return config.load(self.environ, project_dir=Path(folder) if folder else None)

    def remote(self) -> str:
        """With which projects are synced."""
        if self.visitor.caller is None:
            return self.parts.remote
        return self.loaded().settings.memories.remote

    def named(self, domain: str) -> str:
        """A domain as it was given, `project` being the visitor's own."""
        given = uris.plain(domain)
        if given == PROJECT and self.visitor.project:
            return f"{PROJECT}:{self.visitor.project}"
        return given

    def place(self, domain: str) -> Place:
        return self.parts.workplaces.place(self.named(domain), self.caller)

    def domain(self, domain: str) -> Domain:
        return self.parts.workplaces.domain(self.named(domain), self.caller)

    def domains(self, domain: str) -> list[Domain] | None:
        """Those that a filter means; None for all."""
        return None if domain == ALL else [self.domain(domain)]

    def here(self) -> Place:
        """Where a memory is looked for first, and where changes are written to."""
        return self.place(PROJECT if self._has_project else USER)

    def nearby(self) -> list[Domain] | None:
        """What the visitor works with: project, user and organisation; None where no project is
        known: then all."""
        if not self._has_project:
            return None
        found = [self.domain(PROJECT), USER]
        if self.parts.workplaces.shared.org:
            found.append(self.domain(ORG))
        return found

    def shared(self, domain: str) -> list[str]:
        """The domains to sync: all are those that the visitor works with, and who works with no
        project has to name one."""
        if domain != ALL or self.caller.folder:
            return [self.named(domain)]
        nearby = self.nearby()
        if nearby is None:
            raise InvalidInput(
                "domain is missing: name the one to sync, as project:my-app or user; or connect"
                " with ?project=my-app"
            )
        return [str(each) for each in nearby]

    @property
    def _has_project(self) -> bool:
        return bool(self.caller.folder or self.visitor.project)
