"""The names that the projects of an archive have here. A name in it may be that of another
repository on this machine, whose memories are shared with others."""

from dataclasses import dataclass, field, replace

from agent_memory.features.knowledge.model.facts import Claim, Fact, Former
from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.model import projects
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.model.projects import Project
from agent_memory.features.memories.ports import Projects
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel import ids
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import PROJECT, Domain, KnowledgeId

_PREFIX = f"{PROJECT}:"


@dataclass(slots=True)
class ImportedNames:
    """Renames records of one archive. Projects come first in it."""

    projects: Projects
    secrets: SecretsFilter
    _names: dict[str, str] = field(default_factory=dict)
    _facts: dict[KnowledgeId, KnowledgeId] = field(default_factory=dict)

    def add(self, project: Project) -> None:
        """Find the project of the same repository here, or keep a name for this one. Raises
        InvalidInput."""
        known = self.projects.list_all()
        same = next((each for each in known if _is_same(each, project)), None)
        if same is not None:
            self._note(project.id, same.id)
            return
        self._check_clean(project)
        taken = {each.id for each in known}
        name = projects.unique_id(project.id, project.repository or project.id, taken)
        self.projects.save(replace(project, id=name))
        self._note(project.id, name)

    def rename_memory(self, memory: Memory) -> Memory:
        return replace(memory, domain=Domain(self._rename(memory.domain)))

    def rename_event(self, event: Event) -> Event:
        name = event.metadata.get("project", "")
        if name not in self._names:
            return event
        return replace(event, metadata={**event.metadata, "project": self._names[name]})

    def rename_fact(self, fact: Fact) -> Fact:
        """Return a fact in the scope that its project has here. Its id depends on that."""
        scope = self._rename(fact.scope)
        if scope == fact.scope:
            return fact
        named = Claim(
            scope=scope,
            agent_id=fact.agent_id,
            user_id=fact.user_id,
            key=fact.key,
            value=fact.value,
        )
        self._facts[fact.id] = named.fact_id
        return replace(fact, scope=scope, id=named.fact_id)

    def rename_former(self, former: Former) -> Former:
        if former.fact_id not in self._facts:
            return former
        fact_id = self._facts[former.fact_id]
        name = ids.derive_id("former", fact_id, str(former.number))
        return replace(former, fact_id=fact_id, id=name)

    def _note(self, name: str, here: str) -> None:
        if name != here:
            self._names[name] = here

    def _rename(self, domain: str) -> str:
        name = domain.removeprefix(_PREFIX)
        is_renamed = domain != name and name in self._names
        return f"{_PREFIX}{self._names[name]}" if is_renamed else domain

    def _check_clean(self, project: Project) -> None:
        for name in (project.id, project.origin, project.folder, *project.homes):
            if name and self.secrets.clean_name(name, limit=len(name), where="import") != name:
                raise InvalidInput("the path or remote of this project holds a secret")


def _is_same(one: Project, other: Project) -> bool:
    if one.repository or other.repository:
        return one.repository == other.repository
    return one.homes == other.homes and one.id == other.id
