"""The names of projects on a team's server. Each belongs to the repository that had it first, so
that two repositories of one name do not become one project."""

from dataclasses import dataclass, replace

from agent_memory.features.memories.model.memories import MemoryStatus, check_domain
from agent_memory.features.upstream.model import scopes
from agent_memory.features.upstream.model.records import RecordBatch, RecordRefused, ServerProject
from agent_memory.features.upstream.ports import NamedProjects
from agent_memory.features.upstream.services.receiving import Sender
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import USER

MAX_REPOSITORY_CHARS = 500
_UNSEEN = "it is of no project that you may write to"


@dataclass(frozen=True, slots=True)
class ProjectNames:
    named: NamedProjects

    def find(self, repository: str, name: str, sender: Sender) -> ServerProject:
        """Return what the repository's project is called, and who has the name otherwise."""
        known = self.named.get_project_name(_qualify(repository, sender))
        if known:
            return ServerProject(name=known if sender.may_see(known) else "")
        taken_by = self.named.get_repository(name) if sender.may_see(name) else ""
        return ServerProject(taken_by=taken_by)

    def claim(self, repository: str, name: str, sender: Sender, *, join: bool = False) -> str:
        """Return the name of a repository's project. One that has none gets this name. Raises
        InvalidInput if another repository has it, unless `join` makes them one project."""
        identity = _qualify(repository, sender)
        check_domain(scopes.build_domain(name))
        if name == USER or not sender.may_see(name):
            raise InvalidInput(_UNSEEN)
        if not self.named.get_project_name(identity):
            is_joined = join and bool(self.named.get_repository(name))
            self.named.name_project(identity, name, join=is_joined)
        known = self.named.get_project_name(identity)
        if known and sender.may_see(known):
            return known
        if known:
            raise InvalidInput(_UNSEEN)
        raise InvalidInput(
            f"the name {name!r} is that of {self.named.get_repository(name)} there: choose another"
            " one with --as NAME, or add --join if both are one project"
        )

    def check(self, batch: RecordBatch, sender: Sender) -> tuple[RecordBatch, list[RecordRefused]]:
        """Return the batch without records whose project is not that of their repository here, and
        those. What is forgotten needs none: it was sent before."""
        refused: list[RecordRefused] = []
        problems: dict[str, str] = {}

        def is_kept(kind: str, record: str, project: str) -> bool:
            if project not in problems:
                problems[project] = self._find_problem(project, batch, sender)
            if problems[project]:
                refused.append(RecordRefused(kind, record, problems[project]))
            return not problems[project]

        kept = replace(
            batch,
            events=tuple(
                event
                for event in batch.events
                if is_kept("event", event.event_id, event.metadata.get("project", ""))
            ),
            memories=tuple(
                memory
                for memory in batch.memories
                if memory.status is MemoryStatus.TOMBSTONE
                or is_kept("memory", memory.id, scopes.get_project(memory.domain))
            ),
            facts=tuple(
                fact
                for fact in batch.facts
                if is_kept("fact", fact.id, scopes.get_project(fact.scope))
            ),
        )
        return kept, refused

    def _find_problem(self, project: str, batch: RecordBatch, sender: Sender) -> str:
        if not project or not sender.may_see(project):
            return ""  # no project, or refused for that
        repository = batch.projects.get(project, "")
        if not repository:
            if not self.named.get_repository(project):
                return ""  # a machine of an earlier version
            return "it names no repository: upgrade Agent Memory on the machine that sends it"
        try:
            # It has a name, unless the server was restored from an older copy.
            name = self.claim(repository, project, sender)
        except InvalidInput as exc:
            return str(exc)
        return "" if name == project else f"its repository is the project {name!r} here"


def _qualify(repository: str, sender: Sender) -> str:
    """Return the identity of a repository on the server: a folder is one of its person."""
    if not repository.isprintable() or not 0 < len(repository) <= MAX_REPOSITORY_CHARS:
        raise InvalidInput(f"a repository has 1 to {MAX_REPOSITORY_CHARS} printable characters")
    return f"{sender.person}:{repository}" if repository.startswith("/") else repository
