"""Recall on this machine and on the team's server at once."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    Hit,
    Query,
    RecallResult,
)
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.memories.model import memories
from agent_memory.features.recall.ports import TeamRecord
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.upstream.model import names, scopes
from agent_memory.features.upstream.model.progress import RemoteSettings
from agent_memory.features.upstream.ports import ExchangeState, TeamServer
from agent_memory.features.upstream.services.team_search import SEARCHED_KINDS
from agent_memory.kernel.errors import (
    AgentMemoryError,
    FeatureUnavailable,
    InvalidInput,
    NotFound,
    RemoteUnavailable,
)
from agent_memory.kernel.ids import USER, EventId

BUDGET_SECONDS = 0.15  # from the beginning of the question
AWAY_SECONDS = 10.0  # for which a server that was slow or away is not asked
THREADS = 4  # questions to the server at the same time


@dataclass(slots=True)
class ServerWatch:
    """Remembers that the server was away, and counts the questions that it has not answered."""

    monotonic: Callable[[], float] = time.monotonic
    threads: Executor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "ask-team"))
    away_until: float = 0.0
    _asked: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_away(self) -> None:
        self.away_until = self.monotonic() + AWAY_SECONDS

    def ask(self, question: Callable[[], RecallResult]) -> "Future[RecallResult] | None":
        """Ask in a thread; None if the server is away, or too many questions wait."""
        if self.monotonic() < self.away_until:
            return None
        with self._lock:
            if self._asked >= THREADS:
                return None
            self._asked += 1
        future = self.threads.submit(question)
        future.add_done_callback(self._note_answer)
        return future

    def _note_answer(self, future: "Future[RecallResult]") -> None:
        """Note that it answers: late, but the next question may be in time."""
        with self._lock:
            self._asked -= 1
        if not future.cancelled() and future.exception() is None:
            self.away_until = 0.0


@dataclass(frozen=True, slots=True)
class JointRecall:
    """Recall that also asks the team's server, within a budget."""

    local: Recall
    knowledge: KnowledgeStore
    read_settings: Callable[[], RemoteSettings]
    connect: Callable[[RemoteSettings], TeamServer]
    state: ExchangeState
    watch: ServerWatch

    def search(self, query: Query) -> RecallResult:
        """Return the hits of both, best first. What this machine has is not shown twice."""
        settings = self.read_settings()
        end = query.offset + min(query.limit or DEFAULT_LIMIT, MAX_LIMIT)
        if not _is_shared(settings, query) or end > MAX_LIMIT:
            return self.local.search(query)
        began = self.watch.monotonic()
        wide = replace(query, offset=0, limit=end)
        future = self.watch.ask(lambda: self.connect(settings).search(wide, settings.scope))
        own = self.local.search(wide)
        if future is None:
            team, warning = None, f"{settings.name} is away: only this machine was searched"
        else:
            team, warning = self._await(future, began, settings.name)
        if team is not None and settings.review:  # those that were accepted are here
            person = self.state.load().person
            hits = (hit for hit in team.hits if not _is_unreviewed(hit, person))
            team = replace(team, hits=tuple(hits))
        return self._merge(query, end, own, team, warning)

    def find(
        self, name: str, /, *, around: int, was_forgotten: Callable[[str], bool]
    ) -> TeamRecord | None:
        settings = self.read_settings()
        if not settings.is_complete or not settings.scope or _is_own_event(name):
            return None
        if name.startswith((documents.SCHEME, memories.SCHEME)):
            return self.open(name, around=around)
        if was_forgotten(name):  # here, though the server may keep it
            return None
        return self.open_named(name, around=around)

    def get_server_name(self) -> str:
        return self.read_settings().name

    def open(self, uri: str, *, around: int) -> TeamRecord:
        """Return a record of the server. Raises NotFound, RemoteUnavailable and
        FeatureUnavailable."""
        settings = self.read_settings()
        if not settings.is_complete or not settings.scope:
            raise FeatureUnavailable("there is no team's server to ask: see `memory remote status`")
        return self.connect(settings).open(uri, settings.scope, around=around)

    def open_named(self, name: str, *, around: int) -> TeamRecord | None:
        """Return a record by an id of a hit; None if there is no such record or no server. Raises
        RemoteUnavailable."""
        settings = self.read_settings()
        if not settings.is_complete or not settings.scope:
            return None
        server = self.connect(settings)
        for uri in _list_uris(name, settings):
            try:
                return server.open(uri, settings.scope, around=around)
            except (NotFound, InvalidInput):
                continue
        return None

    def _await(
        self, future: "Future[RecallResult]", began: float, name: str
    ) -> tuple[RecallResult | None, str]:
        left = max(0.0, began + BUDGET_SECONDS - self.watch.monotonic())
        try:
            return future.result(left), ""
        except TimeoutError:
            self.watch.note_away()
            return None, f"{name} did not answer in time: only this machine was searched"
        except RemoteUnavailable:
            self.watch.note_away()
            return None, f"{name} is away: only this machine was searched"
        except AgentMemoryError as exc:
            self.watch.note_away()
            return None, f"{name} was not searched: {exc}"

    def _merge(
        self, query: Query, end: int, own: RecallResult, team: RecallResult | None, warning: str
    ) -> RecallResult:
        person = self.state.load().person
        known = {hit.document.key for hit in own.hits}
        theirs = [
            hit
            for hit in (() if team is None else team.hits)
            if hit.document.key not in known and not self._is_here(hit, person)
        ]
        total = own.total + len(theirs)
        # Sorting is stable: of hits that score the same, this machine's come first.
        both = [*own.hits, *theirs]
        hits = sorted(both, key=lambda hit: -hit.score)[query.offset : end]
        warnings = [own.warning, warning]
        return replace(
            own,
            hits=tuple(hits),
            total=total,
            next=end if end < total else None,
            warning="; ".join(filter(None, warnings)) or None,
            certain=own.certain or (team is not None and team.certain and bool(theirs)),
        )

    def _is_here(self, hit: Hit, person: str) -> bool:
        """Tell whether this machine has the record of a hit, under its own name."""
        document = hit.document
        match document.kind:
            case DocumentKind.EVENT:
                name, owner = names.split_event(document.id)
                return owner == person and self.local.log.get(EventId(name)) is not None
            case DocumentKind.MEMORY:
                return self.local.documents.get_memory(hit.uri) is not None
            case DocumentKind.FACT:
                (fact,) = self.knowledge.get(Fact, [document.id])
                return fact is not None
            case _:
                return False


def _is_own_event(name: str) -> bool:
    """Tell whether a URI is that of an event of this machine: the server's name their owners. It
    was forgotten here, though the server may keep it for a while."""
    if not name.startswith(documents.SCHEME):
        return False
    kind, event_id = documents.parse_document_uri(name)
    return kind is DocumentKind.EVENT and not names.split_event(event_id)[1]


def _is_unreviewed(hit: Hit, person: str) -> bool:
    return hit.document.kind is not DocumentKind.EVENT and hit.person != person


def _list_uris(name: str, settings: RemoteSettings) -> Iterator[str]:
    """Yield what an id of a hit may stand for: the id of a memory does not name its project."""
    try:
        reference = memories.parse_reference(name)
    except InvalidInput:
        area = documents.EVENTS if "@" in name else documents.FACTS
        yield documents.format_uri(area, name)
        return
    if reference.namespace is not None and reference.index is not None:
        for domain in map(scopes.build_domain, sorted(settings.scope.names)):
            yield memories.build_urn(domain, reference.namespace, reference.hex, reference.index)


def _is_shared(settings: RemoteSettings, query: Query) -> bool:
    """Tell whether the server can have an answer. A listing needs none: memories are pulled."""
    if not settings.is_complete or not settings.recall or query.is_listing:
        return False
    scope, asked = settings.scope, query.scope
    if asked.kinds and not asked.kinds & SEARCHED_KINDS:
        return False
    if asked.project:
        return asked.project in scope.projects
    return bool(scope.projects) or USER in scope.names
