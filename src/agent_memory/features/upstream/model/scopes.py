"""What may leave this machine: the projects that the user has chosen, and nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.metadata import REPOSITORY
from agent_memory.features.memories.model.memories import Memory, to_project_name
from agent_memory.features.memories.model.projects import split_mark
from agent_memory.kernel.ids import PROJECT, USER, Domain

_PREFIX = f"{PROJECT}:"


class SharedProject(NamedTuple):
    """A repository that is shared: the project's name on this machine, and that on the server."""

    repository: str
    name: str
    there: str


@dataclass(frozen=True, slots=True)
class SharedScope:
    """The projects that are shared with a server. `user` among them are the user's own memories.
    `conversations` are the repositories whose events are shared too."""

    names: frozenset[str] = frozenset()
    conversations: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, names: Iterable[str]) -> "SharedScope":
        return cls(frozenset(name.strip().removeprefix(_PREFIX) for name in names if name.strip()))

    def __bool__(self) -> bool:
        return bool(self.names)

    @property
    def projects(self) -> frozenset[str]:
        return self.names - {USER}

    def limit_to(self, projects: frozenset[str] | None) -> "SharedScope":
        """Return the part in these projects, with the user's own memories; None is every one."""
        if projects is None:
            return self
        return SharedScope(self.names & (projects | {USER}))

    def admits_domain(self, domain: str) -> bool:
        if domain == USER:
            return USER in self.names
        return domain.startswith(_PREFIX) and domain.removeprefix(_PREFIX) in self.projects

    def admits_event(self, event: Event) -> bool:
        return event.metadata.get("project", "") in self.projects

    def sends_event(self, event: Event) -> bool:
        """Tell whether an event may leave. Its project's name does not count: a program may have
        given it, or an import guessed it."""
        return event.metadata.get(REPOSITORY, "") in self.conversations

    def admits_memory(self, memory: Memory) -> bool:
        return not memory.is_pending and self.admits_domain(memory.domain)

    def admits_fact(self, fact: Fact) -> bool:
        return self.admits_scope(fact.scope)

    def admits_scope(self, scope: str) -> bool:
        """Tell whether facts of a scope are shared: those of a project, `project:NAME`."""
        return scope != USER and self.admits_domain(scope)


def build_domain(name: str) -> Domain:
    """Return the domain of a name in a scope."""
    return Domain(name if name == USER else f"{_PREFIX}{name}")


def get_project(domain: str) -> str:
    """Return the name of a project's domain or scope; empty for any other."""
    name = domain.partition(":")[2]
    return name if domain == f"{_PREFIX}{name}" and name != USER else ""


def derive_name(repository: str) -> str:
    """Return the name that a repository's project gets on the server, if it is free."""
    return to_project_name(split_mark(repository)[0].rpartition("/")[2])
