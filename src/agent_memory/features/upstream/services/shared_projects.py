"""Find the projects behind the repositories that are shared, and agree on their names with the
server. A repository is known by its remote or its folder: two may have one name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.memories.model.memories import check_domain
from agent_memory.features.memories.model.projects import Project, split_mark
from agent_memory.features.memories.ports import Projects
from agent_memory.features.upstream.model import scopes
from agent_memory.features.upstream.model.progress import RemoteSettings
from agent_memory.features.upstream.model.records import RecordRefused
from agent_memory.features.upstream.model.scopes import SharedProject, SharedScope
from agent_memory.features.upstream.ports import AgreedNames, TeamServer
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import USER


@dataclass(frozen=True, slots=True)
class SharedProjects:
    read: Callable[[], RemoteSettings]  # as the user has written them
    projects: Projects
    names: AgreedNames

    def read_settings(self) -> RemoteSettings:
        """Return the settings, with what may leave now."""
        settings = self.read()
        if not settings.url:
            return settings
        agreed = tuple(self._list_agreed())
        chosen = [each for each in agreed if each.repository in settings.projects]
        own = {USER} & set(settings.projects)
        scope = SharedScope(
            names=frozenset(own | {each.name for each in chosen}),
            conversations=frozenset(each.repository for each in chosen)
            & frozenset(settings.conversations),
        )
        return replace(settings, scope=scope, agreed=agreed)

    def find(self, repository: str) -> Project | None:
        """Return the project of a repository; None if this machine does not know it."""
        known = (each for each in self.projects.list_all() if each.repository == repository)
        return next(known, None)

    def agree(
        self, settings: RemoteSettings, server: TeamServer, *, is_reader: bool
    ) -> Sequence[RecordRefused]:
        """Agree on the names of those that have none yet. Return what the server refused."""
        refused, agreed = [], self.names.list_agreed_names()
        for repository in list_repositories(settings.projects):
            if repository in agreed or self.find(repository) is None:
                continue
            name = scopes.derive_name(repository)
            try:
                # Who may only read may not give a project its name, but gets what it has.
                if known := server.find_project(repository, name).name:
                    self._note_name(repository, known)
                elif not is_reader:
                    self.claim(repository, name, server)
            except InvalidInput as exc:
                refused.append(RecordRefused(kind="project", name=repository, reason=str(exc)))
        return refused

    def claim(self, repository: str, name: str, server: TeamServer, *, join: bool = False) -> str:
        """Agree on a name. Raises InvalidInput if another repository has it."""
        agreed = server.claim_project(repository, name, join=join)
        self._note_name(repository, agreed)
        return agreed

    def _note_name(self, repository: str, name: str) -> None:
        if scopes.get_project(check_domain(scopes.build_domain(name))) != name:
            raise InvalidInput(f"the server calls it {name!r}, which is no name of a project")
        self.names.put_agreed_name(repository, name)

    def _list_agreed(self) -> Sequence[SharedProject]:
        agreed = self.names.list_agreed_names()
        if not agreed:
            return []
        return [
            SharedProject(project.repository, project.id, agreed[project.repository])
            for project in self.projects.list_all()
            if project.id != USER  # which stands for the user's own memories
            and project.repository in agreed
        ]


def list_repositories(entries: Sequence[str]) -> list[str]:
    """Return the entries of the setting that are identities of repositories."""
    return [entry for entry in entries if "/" in entry and not split_mark(entry)[1]]


def list_unconfirmed(entries: Sequence[str]) -> list[str]:
    """Return the entries that are only names or paths, as earlier versions had them: they share
    nothing."""
    return [entry for entry in entries if entry not in (USER, *list_repositories(entries))]
