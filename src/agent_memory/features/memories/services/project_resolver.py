"""Workplaces: which project a folder belongs to, and where the memories of a domain are kept."""

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from agent_memory.features.memories.model import memories, projects
from agent_memory.features.memories.model.memories import Home
from agent_memory.features.memories.model.projects import (
    NOWHERE,
    MemoryLocation,
    Project,
    RepositoryInfo,
)
from agent_memory.features.memories.ports import Projects, Repositories
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ConfigError, GitFailed, InvalidInput
from agent_memory.kernel.ids import ORG, PROJECT, USER, Domain

USER_REPOSITORY = "user.git"
_GIT = "/.git"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whoever asks: the folder that they work in, and their environment. A program that asks over a
    network works in none: its folder is empty, and it names the project that it means."""

    folder: str
    environ: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgRepository:
    """What of an organisation is configured. `repository` is a path, or the address of a remote."""

    org: str = ""
    repository: str = ""


@dataclass(frozen=True, slots=True)
class ProjectResolver:
    repositories: Repositories
    projects: Projects
    shared: OrgRepository
    secrets: SecretsFilter
    registering: threading.Lock = field(default_factory=threading.Lock)

    def resolve(self, domain: str, caller: Caller) -> MemoryLocation:
        """Where memories of this domain go: `project`, `user`, `org`, or one by its name."""
        if domain == PROJECT:
            return self.resolve_folder(caller)
        if domain == USER:
            return MemoryLocation(
                domain=USER, home=self.repositories.get_private_home(USER_REPOSITORY)
            )
        family, _, name = domain.partition(":")
        if family == ORG:
            return self._org(name)
        memories.check_domain(domain)
        if not caller.folder:
            return self._add_checkout(self._elsewhere(name))
        here = self.resolve_folder(caller)
        return here if here.domain == domain else self._elsewhere(name)

    def resolve_domain(self, name: str, caller: Caller) -> Domain:
        """The domain that someone wants to look into; its repository may be gone."""
        if name.startswith(f"{PROJECT}:"):
            return memories.check_domain(name)
        return self.resolve(name, caller).domain

    def resolve_folder(self, caller: Caller) -> MemoryLocation:
        """The project of the caller's folder. Raises InvalidInput where there is none."""
        if not caller.folder:
            raise InvalidInput(
                f"which project? Name it, as project:my-app; {self._describe_known()}"
            )
        located = self.repositories.locate(caller.folder, caller.environ)
        if located is None:
            return self._folder(caller)
        project = self._register(located)
        if not located.commit:  # nothing to put a note on: they wait until there is
            waiting = self.repositories.get_private_home(_private_name(located.home))
            return MemoryLocation(domain=project.domain, home=waiting, branch=located.branch)
        return MemoryLocation(
            domain=project.domain,
            home=located.home,
            commit=located.commit,
            branch=located.branch,
        )

    def resolve_or_guess(self, caller: Caller) -> MemoryLocation:
        """The project of a folder. Where it is gone, or its repository cannot be read, its name is
        known: no reason to lose what was said in it."""
        try:
            return self.resolve_folder(caller)
        except (GitFailed, InvalidInput, OSError, ValueError):
            return self.guess(caller.folder)

    def guess(self, folder: str) -> MemoryLocation:
        """By its name alone."""
        name = memories.to_project_name(PurePath(folder).name)
        return MemoryLocation(domain=Domain(f"{PROJECT}:{name}"), home=NOWHERE)

    def list_locations(self, caller: Caller) -> list[MemoryLocation]:
        """The project of the caller's folder, or all that are on this machine where there is none;
        what is the user's own; and what is the organisation's."""
        if caller.folder:
            places = [self.resolve_folder(caller)]
        else:
            named = (project.domain for project in self.projects.list_all())
            places = [self.resolve(each, caller) for each in named if self.list_homes(each)]
        places.append(self.resolve(USER, caller))
        if self.shared.org:
            places.append(self.resolve(ORG, caller))
        return places

    def find_home(self, domain: Domain) -> Home | None:
        """A repository that keeps this domain's memories; None where there is none any more."""
        if domain == USER:
            return self.repositories.get_private_home(USER_REPOSITORY)
        family, _, name = domain.partition(":")
        if family == ORG:
            try:
                return self._org(name).home
            except (ConfigError, InvalidInput, GitFailed):
                return None
        homes = self.list_homes(domain)
        return homes[0] if homes else None

    def list_homes(self, domain: Domain) -> list[Home]:
        """All repositories on this machine that may hold this domain's memories."""
        family, _, name = domain.partition(":")
        if family != PROJECT:
            home = self.find_home(domain)
            return [] if home is None else [home]
        project = self.projects.get(name)
        known = () if project is None else project.homes
        return [home for home in known if self.repositories.exists(home)]

    def _org(self, name: str) -> MemoryLocation:
        shared = self.shared
        if not shared.org or not shared.repository:
            raise ConfigError(
                "no organisation is configured: set memories.org to its name and"
                " memories.org_repository to a repository's path or address"
            )
        if name and name != shared.org:
            raise InvalidInput(f"the configured organisation is {shared.org!r}, not {name!r}")
        domain = memories.check_domain(f"{ORG}:{shared.org}")
        if self.remote_of_org():
            return MemoryLocation(
                domain=domain, home=self.repositories.get_private_home(f"org/{shared.org}.git")
            )
        named = {"GIT_DIR": shared.repository}  # whatever repository may be around it
        located = self.repositories.locate(shared.repository, named)
        if located is None:
            raise ConfigError(f"memories.org_repository: no git repository at {shared.repository}")
        return MemoryLocation(domain=domain, home=located.home, commit=located.commit)

    def remote_of_org(self) -> str:
        """The address of the organisation's remote; empty where its repository is on this
        machine."""
        given = self.shared.repository
        return "" if PurePath(given).is_absolute() else given

    def _elsewhere(self, name: str) -> MemoryLocation:
        homes = self.list_homes(Domain(f"{PROJECT}:{name}"))
        if not homes:
            raise InvalidInput(f"no project {name!r} on this machine; {self._describe_known()}")
        return MemoryLocation(domain=Domain(f"{PROJECT}:{name}"), home=homes[0])

    def _add_checkout(self, place: MemoryLocation) -> MemoryLocation:
        """With the commit that is checked out there; our own repositories have none."""
        if not place.home.endswith(_GIT):
            return place
        located = self.repositories.locate(place.home, {})
        if located is None or located.home != place.home:
            return place
        return replace(place, commit=located.commit, branch=located.branch)

    def _describe_known(self) -> str:
        known = sorted(project.id for project in self.projects.list_all())
        return f"known are: {', '.join(known[:20])}" if known else "none is known yet"

    def _folder(self, caller: Caller) -> MemoryLocation:
        """A folder without git: its memories are kept in a repository of ours."""
        folder = PurePath(caller.folder)
        above = PurePath(caller.environ.get("HOME") or "/")
        for each in (folder, *folder.parents):
            if each == above or each in above.parents:
                break  # what is there is not one project
            home = self.repositories.get_private_home(_private_name(str(each)))
            known = self.projects.find_by_home(home)
            if known is not None:
                return MemoryLocation(domain=known.domain, home=home)
        located = RepositoryInfo(
            home=self.repositories.get_private_home(_private_name(str(folder))),
            name=folder.name,
            origin="",
            commit="",
            branch="",
        )
        return MemoryLocation(domain=self._register(located).domain, home=located.home)

    def _register(self, located: RepositoryInfo) -> Project:
        with self.registering:
            known = self.projects.find_by_home(located.home)
            if known is None:
                known = self._match_project(located)
            if located.origin and self._of_origin(located.origin) is None:
                known = replace(known, origin=located.origin)
            waiting = self.repositories.get_private_home(_private_name(located.home))
            homes = dict.fromkeys((*known.homes, located.home))
            if not located.commit and located.home != waiting:
                homes[waiting] = None
            updated = replace(known, homes=tuple(homes))
            if updated != self.projects.get(updated.id):
                self._check_names(updated)
                self.projects.save(updated)
            return updated

    def _check_names(self, project: Project) -> None:
        """A path is of use only as it is, so one with a secret in it is not kept at all."""
        for name in (project.id, project.origin, *project.homes):
            if name and self.secrets.clean_name(name, limit=len(name), where="project") != name:
                raise InvalidInput(
                    "the path or remote of this project holds a secret: rename the folder, or take"
                    " the password out of the address"
                )

    def _match_project(self, located: RepositoryInfo) -> Project:
        """The project that a repository we have not met belongs to, or a new one."""
        if located.origin and (known := self._of_origin(located.origin)) is not None:
            return known
        if located.home.endswith(
            "/.git"
        ):  # a folder whose memories we kept has become a repository
            before = self.repositories.get_private_home(
                _private_name(located.home.removesuffix(_GIT))
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
        """Whether it may be the same repository in another place. Our own ones do not move."""
        theirs = [home for home in known.homes if home.endswith(_GIT)]
        gone = not any(self.repositories.exists(home) for home in theirs)
        return bool(theirs) and gone and not (located.origin or known.origin)

    def _of_origin(self, origin: str) -> Project | None:
        return next((each for each in self.projects.list_all() if each.origin == origin), None)


def _private_name(identity: str) -> str:
    digest = hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
    return f"projects/{digest[:20]}.git"
