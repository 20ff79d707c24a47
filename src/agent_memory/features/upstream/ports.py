"""Ports of the exchange with a team's server: the server, the state of both sides, erasing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from agent_memory.features.index.model.queries import Query, RecallResult
from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.recall.ports import TeamRecord
from agent_memory.features.upstream.model.erasures import PendingErasure
from agent_memory.features.upstream.model.merging import FactNote, FactTombstone
from agent_memory.features.upstream.model.progress import ProjectBackfill, SyncProgress
from agent_memory.features.upstream.model.records import (
    ChangePage,
    ErasureNotice,
    KeyNotice,
    LoginMethod,
    RecordBatch,
    SendOutcome,
    ServerProject,
    TeamIdentity,
)
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.kernel.ids import EventId, KnowledgeId, MemoryKey, Millis, SessionId


class TeamServer(Protocol):
    """A team's server, as a machine of a person sees it.

    Every method raises RemoteUnavailable if it does not answer in time, Unauthorized if it does
    not accept the key, and InvalidInput if it refuses the request.
    """

    def identify(self, client: str = "", /) -> TeamIdentity:
        """Return who the owner of the key is, with the last receipt of a client."""
        ...

    def send(self, batch: RecordBatch, /) -> SendOutcome:
        """Send records. Sending them again changes nothing."""
        ...

    def list_changes(
        self, after: str, scope: SharedScope, /, *, client: str = "", limit: int
    ) -> ChangePage:
        """Return what changed after a place; an empty one is the beginning."""
        ...

    def search(self, query: Query, scope: SharedScope, /) -> RecallResult:
        """Search the server's memory."""
        ...

    def open(self, uri: str, scope: SharedScope, /, *, around: int) -> TeamRecord:
        """Return the record of a URI. Raises NotFound."""
        ...

    def find_project(self, repository: str, name: str, /) -> ServerProject:
        """Return the project of a repository, and whose the name would be. Nothing changes."""
        ...

    def claim_project(self, repository: str, name: str, /, *, join: bool = False) -> str:
        """Return the name of a repository's project, which it gets if it has none yet. Raises
        InvalidInput if the name is that of another repository, unless it joins that one."""
        ...


class AccountServer(Protocol):
    """A team's server, as a person sees it who looks after what it does in their name. Its methods
    raise as TeamServer's do."""

    def list_keys(self) -> list[KeyNotice]:
        """Return the keys of the caller, whoever made them."""
        ...

    def list_erasures(self) -> list[ErasureNotice]:
        """Return what waits to be erased of the caller, or because the caller asked."""
        ...

    def keep(self, names: Sequence[str], /) -> int:
        """Have these kept; return how many of them waited."""
        ...


class LoginServer(Protocol):
    """A team's server, as someone sees it who logs in. Its methods raise as TeamServer's do."""

    def identify(self) -> TeamIdentity:
        """Return who the owner of the key is."""
        ...

    def find_login_method(self) -> LoginMethod | None:
        """Return how people log in; None if the server gives out keys alone. It needs no key."""
        ...

    def create_key(self, machine: str, /) -> str:
        """Return a new key for a machine. The server must know the caller by a token."""
        ...


class PendingLogin(NamedTuple):
    """A login that a person finishes in a browser: the page, and the code to enter there.

    `wait_for_token` returns the token once they have. It is given a function that waits for some
    seconds, which may raise Cancelled, and raises Unauthorized if they refuse or take too long.
    """

    page: str
    code: str
    wait_for_token: Callable[[Callable[[float], object]], str]


StartLogin = Callable[[LoginMethod], PendingLogin]
"""Begin a login with the issuer of a team. Raises RemoteUnavailable, ConfigError and
FeatureUnavailable."""


class ForgottenItem(NamedTuple):
    """A forgetting that waits to be sent: of an event or of a memory."""

    number: int
    event_id: EventId | None
    memory: MemoryKey | None


class ExchangeState(Protocol):
    """How far this machine has got, and what it has sent."""

    def load(self) -> SyncProgress: ...

    def save(self, progress: SyncProgress, /) -> None: ...

    def reset(self) -> None:
        """Forget the server: its progress, backfills, what was sent and what waits."""
        ...

    def list_backfills(self) -> list[ProjectBackfill]: ...

    def save_backfill(self, backfill: ProjectBackfill, /) -> None: ...

    def remove_backfill(self, name: str, /) -> None: ...


class HeldConversation(NamedTuple):
    """A conversation that may leave later: when its last event was seen, and where to begin."""

    session_id: SessionId
    since_ms: Millis
    from_ms: Millis


class HeldConversations(Protocol):
    """Conversations of shared projects that have not left yet."""

    def hold(self, sessions: Mapping[SessionId, Millis], now: Millis, /) -> None:
        """Note sessions with the times of their first events to send, durably."""
        ...

    def list_held(self, after: str, /, *, limit: int) -> list[HeldConversation]:
        """Return held conversations in the order of their sessions."""
        ...

    def release(self, held: HeldConversation, /) -> None:
        """Note that it was sent, unless it has gone on since it was read."""
        ...

    def release_all(self) -> None: ...


class AgreedNames(Protocol):
    """What shared projects and their facts are called on the server."""

    def list_agreed_names(self) -> Mapping[str, str]:
        """Return the names that were agreed, by repository."""
        ...

    def put_agreed_name(self, repository: str, name: str, /) -> None: ...

    def pair_facts(self, pairs: Mapping[KnowledgeId, KnowledgeId], /) -> None:
        """Note the ids on the server of facts here, durably: an id depends on the project's name,
        and of a removed fact only the id is left."""
        ...

    def find_twins(self, names: Sequence[KnowledgeId], /) -> dict[KnowledgeId, KnowledgeId]:
        """Return the ids on the server of those facts that have another one there."""
        ...

    def find_facts_here(self, names: Sequence[KnowledgeId], /) -> dict[KnowledgeId, KnowledgeId]:
        """Return the ids here of facts on the server."""
        ...


class NamedProjects(Protocol):
    """The server's projects: each name belongs to the repository that had it first."""

    def get_project_name(self, repository: str, /) -> str: ...

    def get_repository(self, name: str, /) -> str: ...

    def name_project(self, repository: str, name: str, /, *, join: bool) -> bool:
        """Give a repository a name, or let it join the project that has it. False: the repository
        has one already, or the name is taken."""
        ...


class SentLedger(Protocol):
    """What has left this machine, so that forgetting it can follow, and nothing else does."""

    def note_sent(
        self,
        sessions: Sequence[SessionId],
        domains: Sequence[str],
        facts: Mapping[KnowledgeId, FactNote],
        /,
    ) -> None:
        """Note sessions, the domains of memories, and facts, durably. Call it before they are
        sent."""
        ...

    def note_unreviewed(self, key: MemoryKey, /) -> None:
        """Note that a memory came from another person and was not accepted here, durably."""
        ...

    def is_unreviewed(self, key: MemoryKey, /) -> bool: ...

    def find_sent_facts(self, names: Sequence[KnowledgeId], /) -> dict[KnowledgeId, FactNote]:
        """Return the notes of those facts that were sent."""
        ...

    def list_sent_facts(self, after: str, /, *, limit: int) -> list[KnowledgeId]:
        """Return facts that were sent, in the order of their ids."""
        ...

    def drop_facts(self, names: Sequence[KnowledgeId], /) -> None:
        """Note that these facts are gone."""
        ...

    def is_sent(self, event: Event, /) -> bool:
        """Tell whether an event may have been sent: events of its session were, and its project is
        or was shared."""
        ...

    def list_forgotten(self, *, limit: int) -> list[ForgottenItem]:
        """Return forgettings that wait to be sent, the oldest first."""
        ...

    def get_last_forgotten(self) -> int:
        """Return the number of the last forgetting that was ever queued."""
        ...

    def drop_forgotten(self, items: Sequence[ForgottenItem], /) -> None:
        """Note that these were sent."""
        ...

    def repeat_forgotten(self) -> None:
        """Queue the forgettings of events that were ever sent once more."""
        ...


class Origin(NamedTuple):
    """Who sent a record, and from which machine."""

    person: str
    machine: str


class ChangedRecord(NamedTuple):
    """A row of the server's list of changes: exactly one of the fields is set."""

    memory: MemoryKey | None = None
    fact: KnowledgeId | None = None
    event: EventId | None = None


class TakenRecords(Protocol):
    """Who sent what to this server."""

    def note_taken(
        self,
        origin: Origin,
        sessions: Sequence[SessionId],
        memories: Sequence[MemoryKey],
        facts: Mapping[KnowledgeId, FactNote],
        /,
    ) -> None:
        """Note the origin of records, durably. The first origin of a memory or a fact stays."""
        ...

    def get_memory_origins(self, keys: Sequence[MemoryKey], /) -> list[Origin | None]: ...

    def get_fact_origins(self, names: Sequence[KnowledgeId], /) -> list[Origin | None]: ...

    def find_people(self, memories: Sequence[Memory], /) -> list[str]:
        """Return who captured each memory: the person who sent it, or else its author."""
        ...

    def find_taken_facts(self, names: Sequence[KnowledgeId], /) -> dict[KnowledgeId, FactNote]:
        """Return the notes of those facts that were taken."""
        ...

    def list_taken_facts(self, after: str, /, *, limit: int) -> list[KnowledgeId]:
        """Return facts that were taken, in the order of their ids."""
        ...

    def drop_taken_facts(self, names: Sequence[KnowledgeId], /) -> None:
        """Note that these facts are gone."""
        ...

    def get_receipt(self, person: str, client: str, /) -> int:
        """Return the last receipt of a client; 0 if it has none."""
        ...

    def advance_receipt(self, person: str, client: str, now: Millis, /) -> int:
        """Return the next receipt of a client, durably. A person has some clients; the one that was
        away the longest makes room for a new one."""
        ...


class ChangeList(Protocol):
    """The changes of a server in order, one entry for each record, for as long as it exists."""

    def get_cursor(self) -> int | None:
        """Return the last entry of the outbox that is listed; None if the list was never begun."""
        ...

    def append(
        self, records: Sequence[ChangedRecord], /, *, before: int | None, cursor: int
    ) -> bool:
        """List records and move the cursor. False: it was not at `before`, and nothing changed."""
        ...

    def read(self, after: int, /, *, limit: int) -> list[tuple[int, ChangedRecord]]: ...

    def get_last(self) -> int:
        """Return the number of the last entry."""
        ...


class Tombstones(Protocol):
    """What was removed: facts, and events that came from or went to another machine."""

    def get_fact_tombstones(
        self, names: Sequence[KnowledgeId], /
    ) -> list[tuple[FactTombstone, ...]]:
        """Return the tombstones of each fact: one for each scope that was claimed for it."""
        ...

    def put_fact_tombstone(self, tombstone: FactTombstone, /) -> bool:
        """Store a tombstone and list it as a change. False: its scope has one that is as late."""
        ...

    def lower_fact_tombstone(self, tombstone: FactTombstone, /) -> None:
        """Give the tombstone of this scope an earlier time. It is no change for others."""
        ...

    def list_fact_tombstones(self, after: str, /, *, limit: int) -> list[FactTombstone]:
        """Return the tombstones of the next `limit` facts, in the order of their ids."""
        ...

    def put_event_tombstones(self, names: Sequence[EventId], /) -> None:
        """Store tombstones of events, and list those that are new as changes."""
        ...

    def list_event_tombstones(self, after: str, /, *, limit: int) -> list[EventId]: ...

    def note_forgotten(self, names: Sequence[EventId], projects: frozenset[str] | None, /) -> None:
        """Note the forgetting of events which may not be here, by someone who may forget those of
        these projects; None is every project. Only an event that comes shows its own."""
        ...

    def drop_forgotten_notes(self, names: Sequence[EventId], /) -> None:
        """Forget that the forgetting of these was noted."""
        ...

    def find_forgotten(self, events: Sequence[Event], /) -> frozenset[EventId]:
        """Return which of these have come after their forgetting was noted."""
        ...


class PendingErasures(Protocol):
    """What another machine has asked to erase and this one has yet to erase."""

    def add(self, pending: Iterable[PendingErasure], /) -> None:
        """Note these. What was asked before keeps its time, unless a later value of a fact is to
        be removed."""
        ...

    def list_pending(
        self,
        *,
        limit: int,
        asked_until: Millis | None = None,
        is_wanted: Callable[[PendingErasure], bool] | None = None,
    ) -> list[PendingErasure]:
        """Return what waits, or only what was asked until a time and is wanted."""
        ...

    def has(self, record: EventId | MemoryKey | FactTombstone, /) -> bool:
        """Tell whether this waits. A fact is named by the tombstone that it would get."""
        ...

    def drop(self, pending: Iterable[PendingErasure], /) -> None: ...


class Eraser(Protocol):
    """Erases for good. What is already gone is skipped."""

    def erase_events(self, names: Sequence[EventId], /) -> None: ...

    def erase_memories(self, memories: Sequence[Memory], /) -> None: ...


class RemoteKeys(Protocol):
    """The key for the team's server, in a file that only its owner can read."""

    def read(self, url: str, /) -> str:
        """Return the key for this server, or an empty text."""
        ...

    def write(self, url: str, key: str, /) -> None: ...

    def remove(self) -> None: ...
