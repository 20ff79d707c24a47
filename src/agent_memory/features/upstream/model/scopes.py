"""What may leave this machine: the projects that the user has chosen, and nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.model.memories import Memory
from agent_memory.kernel.ids import PROJECT, USER, Domain

_PREFIX = f"{PROJECT}:"


@dataclass(frozen=True, slots=True)
class SharedScope:
    """The projects that are shared with a server. `user` among them are the user's own memories."""

    names: frozenset[str] = frozenset()

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
