"""Find the project of a folder, and the repository that stores a domain's memories."""

import hashlib
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from agent_memory.features.memories.model import memories, projects
from agent_memory.features.memories.model.memories import Home
from agent_memory.features.memories.model.projects import (
    GIT,
    NOWHERE,
    MemoryLocation,
    Project,
    RepositoryInfo,
)
from agent_memory.features.memories.ports import Projects, Repositories
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel import access
from agent_memory.kernel.access import OWNER
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ConfigError, GitFailed, InvalidInput, NotConfigured
from agent_memory.kernel.ids import ALL, ORG, PROJECT, USER, Domain

# What `resolve` takes, for those who ask.
ONE_DOMAIN = (
    "`project` (the current one), `user` (personal, in all projects), `org` (shared), or another"
    " project by its name: `project:my-app`."
)
SOME_DOMAIN = f"`all`, {ONE_DOMAIN}"

USER_REPOSITORY = "user.git"
PROJECT_REPOSITORIES, ORG_REPOSITORIES = "projects", "org"  # folders of them
OWN_REPOSITORIES = (USER_REPOSITORY, PROJECT_REPOSITORIES, ORG_REPOSITORIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgRepository:
    """The configured organisation. `repository` is a path, or the address of a remote."""

    org: str = ""
    repository: str = ""


@dataclass(frozen=True, slots=True)
class ProjectResolver:
    repositories: Repositories
    projects: Projects
    shared: OrgRepository
    secrets: SecretsFilter
    registering: threading.Lock = field(default_factory=threading.Lock)
    team: bool = False  # a team server: its memories need no repository

    def resolve(self, domain: str, caller: Caller) -> MemoryLocation:
        """Return the location of a domain: `project`, `user`, `org`, or a full domain.

        On a team server, `user` is what is private to the person who asks.
        """
        domain = _name_project(domain, caller)
        if self.team and not caller.folder and domain != ORG:
            return self._resolve_for_team(domain)
        if domain == PROJECT:
            return self.resolve_folder(caller)
        if domain == USER:
            return MemoryLocation(
                domain=USER,
                home=self.repositories.get_private_home(USER_REPOSITORY),
                author=self._find_author(caller),
            )
        family, _, name = domain.partition(":")
        if family == ORG:
            return replace(self._resolve_org(name), author=self._find_author(caller))
        memories.check_domain(domain)
        if not caller.folder:
            return self._add_checkout(self._resolve_by_name(name))
        here = self.resolve_folder(caller)
        if here.domain == domain:
            return here
        return replace(self._resolve_by_name(name), author=here.author)

    def resolve_domain(self, name: str, caller: Caller) -> Domain:
        """Return the domain to search; its repository may be gone."""
        name = _name_project(name, caller)
        if name.startswith(f"{PROJECT}:"):
            return memories.check_domain(name)
        if name == USER and not self.team:
            return USER
        return self.resolve(name, caller).domain

    def resolve_domains(self, name: str, caller: Caller) -> list[Domain] | None:
        """Return the domains that a filter selects; None, for `all`, means every domain."""
        return None if name == ALL else [self.resolve_domain(name, caller)]

    def find_here(self, caller: Caller) -> MemoryLocation:
        """Return the location to look for memories in first and to write changes to."""
        return self.resolve(PROJECT if _has_project(caller) else USER, caller)

    def list_nearby(self, caller: Caller) -> list[Domain] | None:
        """Return the caller's domains: project, user and organization. Return None, for all, if
        the caller has no project."""
        if not _has_project(caller):
            return None
        org = [self.resolve_domain(ORG, caller)] if self.shared.org else []
        return [self.resolve_domain(PROJECT, caller), USER, *org]

    def resolve_folder(self, caller: Caller) -> MemoryLocation:
        """Return the project of the caller's folder. Raises InvalidInput if there is none."""
        if not caller.folder:
            raise InvalidInput(
                f"no project: name it, as in project:my-app; {self.describe_known()}"
            )
        located = self.repositories.locate(caller.folder, caller.environ)
        if located is None:
            return self._resolve_plain_folder(caller)
        project = self._register(located, located.home.removesuffix(GIT))
        place = MemoryLocation(
            domain=project.domain,
            home=located.home,
            commit=located.commit,
            branch=located.branch,
            author=located.author,
            repository=project.repository,
        )
        if located.commit:
            return place
        # A note needs a commit: use our own repository until there is one.
        return replace(place, home=self.repositories.get_private_home(_private_name(located.home)))

    def resolve_or_guess(self, caller: Caller) -> MemoryLocation:
        """Return the project of a folder. If the folder is gone or its repository cannot be read,
        use its name, so that events from it are not lost."""
        try:
            return self.resolve_folder(caller)
        except (GitFailed, InvalidInput, OSError, ValueError):
            return self.guess(caller.folder)

    def guess(self, folder: str) -> MemoryLocation:
        """Return the project that was in this folder, or else one by the folder's name alone. The
        name is that of no project that is elsewhere."""
        try:
            folder.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # no path: what sent it made a mistake
            folder = folder.encode("utf-8", "replace").decode()
        path = PurePath(folder)
        for candidate in (path, *path.parents):
            for home in (f"{candidate}{GIT}", self._private_home(candidate)):
                if (known := self.projects.find_by_home(Home(home))) is not None:
                    return MemoryLocation(domain=known.domain, home=NOWHERE)
        name = memories.to_project_name(path.name)
        taken = {name} if self.projects.get(name) is not None else set()
        guessed = projects.unique_id(name, folder, taken)
        return MemoryLocation(domain=Domain(f"{PROJECT}:{guessed}"), home=NOWHERE)

    def list_locations(self, caller: Caller) -> list[MemoryLocation]:
        """List the project of the caller (without one, all projects on this machine), then the
        user's location and the organisation's."""
        if _has_project(caller):
            locations = [self.resolve(PROJECT, caller)]
        else:
            domains = (project.domain for project in self.projects.list_all())
            locations = [
                self.resolve(domain, caller) for domain in domains if self.list_homes(domain)
            ]
        locations.append(self.resolve(USER, caller))
        if self.shared.org:
            locations.append(self.resolve(ORG, caller))
        return locations

    def find_home(self, domain: Domain) -> Home | None:
        """Return a repository that stores this domain's memories, or None."""
        if domain == USER and not self.team:
            return self.repositories.get_private_home(USER_REPOSITORY)
        family, _, name = domain.partition(":")
        if family == USER:
            return NOWHERE if self.team else None
        if family == ORG:
            try:
                return self._resolve_org(name).home
            except (ConfigError, InvalidInput, GitFailed):
                return None
        homes = self.list_homes(domain)
        return homes[0] if homes else NOWHERE if self.team else None

    def list_homes(self, domain: Domain) -> list[Home]:
        """List all repositories on this machine that may hold this domain's memories."""
        family, _, name = domain.partition(":")
        if family != PROJECT:
            home = self.find_home(domain)
            return [home] if home else []
        project = self.projects.get(name)
        known = () if project is None else project.homes
        return [home for home in known if self.repositories.exists(home)]

    def _resolve_for_team(self, domain: str) -> MemoryLocation:
        asks = access.get_caller() or OWNER
        if domain == PROJECT:
            raise InvalidInput("no project: name it, as in project:my-app")
        if domain == USER:
            return MemoryLocation(domain=asks.own_domain, home=NOWHERE, author=asks.person)
        checked = memories.check_domain(domain)
        home = self.find_home(checked) or NOWHERE
        return MemoryLocation(domain=checked, home=home, author=asks.person)

    def _resolve_org(self, name: str) -> MemoryLocation:
        shared = self.shared
        if not shared.org or not shared.repository:
            raise NotConfigured(
                "no organisation is configured: set memories.org to its name and"
                " memories.org_repository to a repository's path or address"
            )
        if name and name != shared.org:
            raise InvalidInput(f"the configured organisation is {shared.org!r}, not {name!r}")
        domain = memories.check_domain(f"{ORG}:{shared.org}")
        if self.remote_of_org():
            return MemoryLocation(
                domain=domain,
                home=self.repositories.get_private_home(f"{ORG_REPOSITORIES}/{shared.org}.git"),
            )
        environ = {"GIT_DIR": shared.repository}  # ignore any repository around it
        located = self.repositories.locate(shared.repository, environ)
        if located is None:
            raise ConfigError(f"memories.org_repository: no git repository at {shared.repository}")
        return MemoryLocation(domain=domain, home=located.home, commit=located.commit)

    def remote_of_org(self) -> str:
        """Return the address of the organisation's remote; empty if it is a local path."""
        repository = self.shared.repository
        return "" if PurePath(repository).is_absolute() else repository

    def _resolve_by_name(self, name: str) -> MemoryLocation:
        homes = self.list_homes(Domain(f"{PROJECT}:{name}"))
        if not homes:
            raise InvalidInput(f"no project {name!r} on this machine; {self.describe_known()}")
        return MemoryLocation(domain=Domain(f"{PROJECT}:{name}"), home=homes[0])

    def _add_checkout(self, location: MemoryLocation) -> MemoryLocation:
        """Add the commit that is checked out there; our own repositories have none."""
        if not location.home.endswith(GIT):
            return location
        located = self.repositories.locate(location.home, {})
        if located is None or located.home != location.home:
            return location
        return replace(
            location, commit=located.commit, branch=located.branch, author=located.author
        )

    def list_names(self) -> list[str]:
        """Return the names of the projects on this machine."""
        return sorted(project.id for project in self.projects.list_all())

    def describe_known(self) -> str:
        """Return a phrase that lists the projects on this machine, at most 20."""
        known = self.list_names()
        return f"known projects: {', '.join(known[:20])}" if known else "no project is known yet"

    def _resolve_plain_folder(self, caller: Caller) -> MemoryLocation:
        """Resolve a folder without git: a repository of our own stores its memories."""
        folder = PurePath(caller.folder)
        user_home = PurePath(caller.environ.get("HOME") or "/")
        for candidate in (folder, *folder.parents):
            if candidate == user_home or candidate in user_home.parents:
                break  # the home folder and those above it are not projects
            if self.projects.find_by_home(self._private_home(candidate)) is not None:
                folder = candidate
                break
        located = RepositoryInfo(
            home=self._private_home(folder),
            name=folder.name,
            origin="",
            commit="",
            branch="",
            mark=self.repositories.read_mark(str(folder)),
        )
        project = self._register(located, str(folder))
        return MemoryLocation(
            domain=project.domain,
            home=located.home,
            author=self.repositories.read_author(caller.environ),
            repository=project.repository if located.mark else "",
        )

    def _private_home(self, folder: PurePath) -> Home:
        """Return our own repository for a folder without git."""
        return self.repositories.get_private_home(_private_name(str(folder)))

    def _find_author(self, caller: Caller) -> str:
        """Return the identity of the user in the caller's folder, or outside of repositories."""
        with suppress(GitFailed, OSError, ValueError):
            located = (
                self.repositories.locate(caller.folder, caller.environ) if caller.folder else None
            )
            if located is not None:
                return located.author
        return self.repositories.read_author(caller.environ)

    def _register(self, located: RepositoryInfo, folder: str) -> Project:
        with self.registering:
            before = self.projects.find_by_home(located.home)
            if before is None or self._is_another(before, located):
                known = self._match_project(located, folder)
            else:
                known = before
            waiting = self.repositories.get_private_home(_private_name(located.home))
            is_remote = bool(located.origin) and not located.origin.startswith("/")
            homes = dict.fromkeys((*known.homes, located.home))
            if not located.commit and located.home != waiting:
                homes[waiting] = None
            updated = replace(
                known,
                origin=located.origin,
                homes=tuple(homes),
                folder="" if located.origin else folder,
                commit=known.commit or located.commit,
                mark=known.mark if is_remote else known.remark(located.mark),
            )
            if before is not None and before.id != updated.id:
                left = tuple(home for home in before.homes if home not in homes)
                self.projects.save(replace(before, homes=left))
            if updated != self.projects.get(updated.id):
                self._check_names(updated)
                self.projects.save(updated)
            return updated

    def _is_another(self, known: Project, located: RepositoryInfo) -> bool:
        """Return whether another repository has come into the place of a project's: what was
        recorded of the one would be shared as the other's. A new remote alone makes no other."""
        if known.origin == located.origin:
            moved = (
                not located.origin and known.mark != "" and known.remark(located.mark) != known.mark
            )
            return moved and self._lacks_commit(known, located)
        if located.origin and self._find_by_origin(located.origin) is not None:
            return True
        if not known.origin:
            return False
        others = (home for home in known.homes if home.endswith(GIT) and home != located.home)
        if any(map(self.repositories.exists, others)):  # they keep the project
            return True
        return not known.commit or self._lacks_commit(known, located)

    def _lacks_commit(self, known: Project, located: RepositoryInfo) -> bool:
        """Return whether a repository does not have the commit that a project had at first."""
        if not known.commit:
            return False
        return not located.commit or not self.repositories.has_commit(located.home, known.commit)

    def _check_names(self, project: Project) -> None:
        """Reject a path or remote with a secret: redacted, it would be useless."""
        for name in (project.id, project.origin, project.folder, *project.homes):
            if name and self.secrets.clean_name(name, limit=len(name), where="project") != name:
                raise InvalidInput(
                    "the path or remote of this project holds a secret: rename the folder, or"
                    " remove the password from the address"
                )

    def _match_project(self, located: RepositoryInfo, folder: str) -> Project:
        """Return the project of a repository that is not registered yet, or a new project."""
        if located.origin and (known := self._find_by_origin(located.origin)) is not None:
            return known
        if not located.origin and (known := self._find_by_folder(folder, located.mark)) is not None:
            return known  # it is back in its place
        if located.home.endswith(GIT):
            # A folder with memories in our own repository may have become a repository.
            before = self.repositories.get_private_home(
                _private_name(located.home.removesuffix(GIT))
            )
            if (known := self.projects.find_by_home(before)) is not None:
                return known
        name = projects.derive_name(located)
        known = self.projects.get(name)
        if known is not None and self._has_moved(known, located):
            return known
        taken = {project.id for project in self.projects.list_all()}
        identity = located.origin or located.home
        project_id = projects.unique_id(name, identity, taken)
        return Project(id=project_id, origin=located.origin, homes=())

    def _has_moved(self, known: Project, located: RepositoryInfo) -> bool:
        """Return whether this may be the project's repository, moved. Our own never move."""
        theirs = [home for home in known.homes if home.endswith(GIT)]
        gone = not any(self.repositories.exists(home) for home in theirs)
        if not theirs or not gone or located.origin or known.origin:
            return False
        return not self._lacks_commit(known, located)

    def _find_by_origin(self, origin: str) -> Project | None:
        return next((p for p in self.projects.list_all() if p.origin == origin), None)

    def _find_by_folder(self, folder: str, mark: str) -> Project | None:
        same = (p for p in self.projects.list_all() if (p.origin, p.folder) == ("", folder))
        return next((p for p in same if p.mark and p.remark(mark) == p.mark and mark), None)


def _has_project(caller: Caller) -> bool:
    return bool(caller.folder or caller.project)


def _name_project(domain: str, caller: Caller) -> str:
    """Replace `project` by the name of the caller's project if the caller gave one."""
    return f"{PROJECT}:{caller.project}" if domain == PROJECT and caller.project else domain


def _private_name(identity: str) -> str:
    digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{PROJECT_REPOSITORIES}/{digest[:20]}.git"
