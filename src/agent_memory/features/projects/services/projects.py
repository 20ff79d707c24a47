"""Projects: what is recorded of each, whether hooks record there, and how memories are shared."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_memory.features.hooks.model.consent import Consent, ConsentReason
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.knowledge.model.sessions import Session
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.model.metadata import REPOSITORY
from agent_memory.features.log.ports import EventLog
from agent_memory.features.memories.model.memories import Home, MemoryStatus
from agent_memory.features.memories.model.projects import CloneInfo, Project
from agent_memory.features.memories.ports import NoteQueue, Outlines, Projects
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.kernel.errors import GitFailed, InvalidInput, NotFound
from agent_memory.kernel.ids import ORG, PROJECT, USER, Domain, EventId, Millis

MAX_PENDING = 1_000  # a longer queue of notes is reported as this
_PAGE = 500
_FOLDER = "cwd"  # in the metadata of an event
_UNLISTED = (MemoryStatus.ARCHIVED, MemoryStatus.TOMBSTONE)  # lists leave them out


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSummary:
    """A project, or the memories of the user or the organisation.

    `folders` are its roots on this machine. `recording` is None if none is known: then only
    programs record it, and no consent applies. `is_shared` tells that its memories are in git notes
    of a clone, not in a repository of our own; `remote` is what they are synced with.
    """

    name: str
    domain: Domain
    folders: tuple[str, ...] = ()
    recording: Consent | None = None
    origin: str = ""
    is_shared: bool = False
    remote: str = ""
    last_sync_ms: Millis | None = None
    pending: int = 0  # changes that are not in the notes yet
    sessions: int = 0
    events: int = 0
    memories: int = 0
    to_review: int = 0
    last_ms: Millis | None = None


@dataclass(frozen=True, slots=True)
class _Activity:
    """The sessions of a project, added up."""

    sessions: int = 0
    events: int = 0
    last: Session | None = None

    @property
    def last_ms(self) -> Millis | None:
        return None if self.last is None else self.last.last_ms

    def add(self, session: Session) -> "_Activity":
        is_later = self.last is None or session.last_ms > self.last.last_ms
        return _Activity(
            sessions=self.sessions + 1,
            events=self.events + session.events,
            last=session if is_later else self.last,
        )


_NO_ACTIVITY = _Activity()


@dataclass(slots=True)
class _ActivityCache:
    version: int = -1
    by_project: Mapping[str, _Activity] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectOverview:
    projects: Projects
    resolver: ProjectResolver
    outlines: Outlines
    notes: NoteQueue
    knowledge: KnowledgeStore
    log: EventLog
    consent: RecordingConsent
    remote: str  # of projects; these three are without a password, as they are shown
    user_remote: str
    org_remote: str
    cache: _ActivityCache = field(default_factory=_ActivityCache)

    def list_page(
        self, environ: Mapping[str, str], *, limit: int, offset: int
    ) -> tuple[Sequence[ProjectSummary], int]:
        """Return the projects, the last active first, and how many there are."""
        activities = self._count_sessions()
        known = {project.id: project for project in self.projects.list_all()}
        names = sorted(
            known.keys() | activities.keys(),
            key=lambda name: (-(activities.get(name, _NO_ACTIVITY).last_ms or 0), name),
        )
        page = [
            self._summarize(name, known.get(name), activities.get(name, _NO_ACTIVITY), environ)
            for name in names[offset : offset + limit]
        ]
        return self._count_memories(page), len(names)

    def list_names(self) -> frozenset[str]:
        """Return the names of all projects."""
        known = frozenset(project.id for project in self.projects.list_all())
        return known | self._count_sessions().keys()

    def list_others(self) -> Sequence[ProjectSummary]:
        """Return the memories that belong to no project: the user's and the organisation's."""
        own = [ProjectSummary(name=USER, domain=USER, remote=self.user_remote)]
        if org := self.resolver.shared.org:
            domain = Domain(f"{ORG}:{org}")
            own.append(
                ProjectSummary(name=org, domain=domain, remote=self.org_remote, is_shared=True)
            )
        return self._count_memories(
            [self._add_sync(each, self.resolver.list_homes(each.domain)) for each in own]
        )

    def read(self, name: str, environ: Mapping[str, str]) -> ProjectSummary:
        """Return one project. Raises NotFound."""
        project, activity = self._find(name)
        (summary,) = self._count_memories([self._summarize(name, project, activity, environ)])
        return summary

    def find_folders(self, name: str) -> tuple[str, ...]:
        """Return the roots of a project, to switch its recording on or off.

        Raises NotFound, and InvalidInput if no folder of it is known.
        """
        project, activity = self._find(name)
        homes = [] if project is None else self.resolver.list_homes(project.domain)
        folders = self._list_folders(project, self._find_clones(homes), activity)
        if not folders:
            raise InvalidInput(
                f"no folder of {name!r} is known on this machine: its events come from programs,"
                " which decide themselves what they send"
            )
        return folders

    def _find(self, name: str) -> tuple[Project | None, _Activity]:
        project, activity = self.projects.get(name), self._count_sessions().get(name, _NO_ACTIVITY)
        if project is None and activity.last is None:
            raise NotFound(f"no project {name!r}; {self.resolver.describe_known()}")
        return project, activity

    def _summarize(
        self,
        name: str,
        project: Project | None,
        activity: _Activity,
        environ: Mapping[str, str],
    ) -> ProjectSummary:
        domain = Domain(f"{PROJECT}:{name}")
        homes = self.resolver.list_homes(domain) if project is not None else []
        clones = self._find_clones(homes)
        folders = self._list_folders(project, clones, activity)
        has_remote = any(clone.has_remote for clone in clones)
        summary = ProjectSummary(
            name=name,
            domain=domain,
            folders=folders,
            recording=self._check_folders(folders, environ),
            origin="" if project is None else project.origin,
            is_shared=bool(clones),
            remote=self.remote if has_remote else "",
            sessions=activity.sessions,
            events=activity.events,
            last_ms=activity.last_ms,
        )
        return self._add_sync(summary, homes)

    def _add_sync(self, summary: ProjectSummary, homes: Sequence[Home]) -> ProjectSummary:
        synced = max((self.projects.get_sync_state(home).at_ms for home in homes), default=0)
        pending = sum(len(self.notes.list_pending(home, limit=MAX_PENDING)) for home in homes)
        return replace(summary, last_sync_ms=Millis(synced) if synced else None, pending=pending)

    def _check_folders(self, folders: Sequence[str], environ: Mapping[str, str]) -> Consent | None:
        """Return the decision for a project: that of a clone which is recorded, if there is one."""
        decisions = [self._check_folder(folder, environ) for folder in folders]
        given = (decision for decision in decisions if decision.is_given)
        return next(given, decisions[0] if decisions else None)

    def _check_folder(self, folder: str, environ: Mapping[str, str]) -> Consent:
        """Return the decision for a folder. One that is off says so, also during a pause."""
        decision = self.consent.check_folder(folder, environ)
        if decision.reason is not ConsentReason.PAUSED:
            return decision
        place = self.consent.check_place(folder, self.consent.load_rules(folder, environ))
        return decision if place.is_given else place

    def _find_clones(self, homes: Iterable[Home]) -> list[CloneInfo]:
        """Return those homes that are repositories of the user, not of our own."""
        return [clone for home in homes if (clone := self._find_clone(home)) is not None]

    def _find_clone(self, home: Home) -> CloneInfo | None:
        try:
            return self.resolver.repositories.find_clone(home, self.remote)
        except GitFailed:  # a sync says why; it must not hide the other projects
            return CloneInfo()

    def _list_folders(
        self, project: Project | None, clones: Iterable[CloneInfo], activity: _Activity
    ) -> tuple[str, ...]:
        """Return the folders of a project, and of no other one that has its name."""
        folders = tuple(clone.folder for clone in clones if clone.folder)
        identity = "" if project is None else project.repository
        if not folders and project is not None and project.folder:
            folders = (self.consent.folders.find_root(project.folder),)
        if folders or activity.last is None:
            return folders
        event = self.log.get(EventId(activity.last.last_event_id))
        if event is not None and event.metadata.get(REPOSITORY, "") != identity:
            return ()
        folder = "" if event is None else event.metadata.get(_FOLDER, "")
        return (self.consent.folders.find_root(folder),) if folder.startswith("/") else ()

    def _count_memories(self, page: Sequence[ProjectSummary]) -> list[ProjectSummary]:
        totals: Counter[Domain] = Counter()
        pending: Counter[Domain] = Counter()
        for group, count in self.outlines.count_groups().items():
            if group.status not in _UNLISTED:
                totals[group.key.domain] += count
            if group.status is MemoryStatus.PENDING:
                pending[group.key.domain] += count
        return [
            replace(each, memories=totals[each.domain], to_review=pending[each.domain])
            for each in page
        ]

    def _count_sessions(self) -> Mapping[str, _Activity]:
        """Add up all sessions by project, once until one changes."""
        with self.cache.lock:
            version = self.knowledge.version(Session)
            if version != self.cache.version:
                counted: dict[str, _Activity] = {}
                for session in self._iter_sessions():
                    if session.project:
                        before = counted.get(session.project, _NO_ACTIVITY)
                        counted[session.project] = before.add(session)
                self.cache.by_project, self.cache.version = counted, version
            return self.cache.by_project

    def _iter_sessions(self) -> Iterator[Session]:
        last = ""
        while page := self.knowledge.list_after(Session, last, limit=_PAGE):
            yield from page
            last = page[-1].id
