"""Outbound ports: what the services need from the world, as small Protocols."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, NewType, Protocol, TypeVar

from agent_memory.features.backups.model.backups import BackupStatus, Snapshot
from agent_memory.features.checkpoints.model.graphs import (
    CheckpointId,
    CheckpointInfo,
    GraphCheckpoint,
    PendingWrite,
    RunId,
    ThreadId,
    WriteKey,
    WritesPage,
)
from agent_memory.features.checkpoints.model.graphs import Place as GraphPlace
from agent_memory.features.checkpoints.model.graphs import Scope as GraphScope
from agent_memory.features.forgetting.model.forgetting import (
    Erasure,
    Place,
    Report,
    Searched,
    Trace,
)
from agent_memory.features.hooks.model.hooks import Told
from agent_memory.features.hooks.model.installations import Change as ConfigChange
from agent_memory.features.hooks.model.installations import ConfigFile, Edited, Ours, Seat, Wanted
from agent_memory.features.hooks.model.transcripts import Chunk, Source
from agent_memory.features.index.model.documents import Document, DocumentKey, Owner
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import Found, Scope, Statistics
from agent_memory.features.log.model.events import Event, EventId, Millis, Page, Position, SessionId
from agent_memory.features.log.model.outbox import Entry
from agent_memory.features.memories.model.consolidations import Run
from agent_memory.features.memories.model.memories import Domain, Draft, Home, Memory, MemoryKey
from agent_memory.features.memories.model.notes import Reading
from agent_memory.features.memories.model.projects import Located, Project, Seen
from agent_memory.features.memories.model.reasoning import Evidence, Reasoned, Written
from agent_memory.features.memories.model.tiers import Tier, Use
from agent_memory.features.runs.model.chats import Request, Said
from agent_memory.features.runs.model.commands import Ran
from agent_memory.features.runs.model.web import Page as WebPage
from agent_memory.features.runs.model.web import Target
from agent_memory.features.runs.model.workspaces import Content, Cut, Excerpt
from agent_memory.features.runs.model.workspaces import Entry as FolderEntry
from agent_memory.features.toc.model.periods import Level, NodeId
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.summaries import Child, Dialogue, Digest, Summary
from agent_memory.features.toc.model.toc import Change, Grip, TocNode
from agent_memory.kernel.access import AccessKey, Address, SocketOwner
from agent_memory.kernel.cancellation import Halt
from agent_memory.kernel.ids import KnowledgeId
from agent_memory.kernel.jobs import JobState, JobStatus
from agent_memory.kernel.status import IndexStats, ModelStatus, StoreStats
from agent_memory.kernel.tracing import Span
from agent_memory.platform.store.batches import Batch, Outcome, Row


class OrderedStore(Protocol):
    """Named families of byte keys in byte order, with atomic and durable batches.

    Nothing is visible to a reader before it is durable. Every batch of a `submit` stands alone:
    each is applied whole or, if an expectation fails, not at all. Batches take effect in the order
    submitted, and each sees those before it.
    """

    def get(self, family: str, key: bytes, /) -> bytes | None: ...

    def get_many(self, family: str, keys: Sequence[bytes], /) -> list[bytes | None]: ...

    def scan(
        self, family: str, start: bytes, end: bytes, /, *, limit: int, reverse: bool = False
    ) -> list[Row]:
        """Rows with start <= key < end, at most `limit`, from one consistent view."""
        ...

    def around(self, family: str, keys: Sequence[bytes], /, *, reach: int) -> list[list[Row]]:
        """For each key, in order: at most `reach` rows before it, its own, `reach` after it."""
        ...

    def submit(self, batches: Sequence[Batch], /) -> "Future[list[Outcome]]":
        """Queue the batches; the future gives their outcomes once they are durable."""
        ...

    def sequence(self, family: str, prefix: bytes, /) -> int:
        """The last number that an Append under this prefix was given; 0 if none."""
        ...

    def close(self) -> None:
        """Finish what was submitted, then release the store."""
        ...


class EventLog(Protocol):
    """The conversation events, by time, by id and by session."""

    def append(self, events: Sequence[Event], /) -> "Future[list[bool]]":
        """For each event, once durable: True if it is new, False if its id was there already."""
        ...

    def get(self, event_id: EventId, /) -> Event | None: ...

    def also_known(self, names: Sequence[tuple[EventId, Millis]], /) -> "Future[None]":
        """These ids, too, stand for events that are there, at about that time: `append` takes none
        of them, also not when the events were forgotten."""
        ...

    def at(self, positions: Sequence[Position], /) -> list[Event]:
        """The events at these places, in their order; those that are gone are left out."""
        ...

    def between(self, start: Millis, end: Millis, /, *, after: Position | None, limit: int) -> Page:
        """Events of start <= time <= end. A page may hold fewer than `limit` where texts are long:
        only `next` tells whether there are more."""
        ...

    def of_session(
        self,
        session_id: SessionId,
        /,
        *,
        after: Position | None,
        limit: int,
        reverse: bool = False,
    ) -> Page:
        """A session's events after this place; reversed, those before it, nearest first."""
        ...

    def around(
        self, places: Sequence[tuple[SessionId, Position]], /, *, reach: int
    ) -> list[list[Position]]:
        """For each place in a session: at most `reach` events before it, its own, `reach` after."""
        ...

    def watermark(self) -> int:
        """The outbox sequence up to which everything is durable."""
        ...


class SecretsFilter(Protocol):
    """Removes secrets before anything is stored, indexed or logged."""

    def clean(self, text: str, /, *, where: str = "") -> str:
        """The text without its secrets; `where` it stands is told to who keeps account. Raises
        ContentBlocked where it may not be kept at all."""
        ...

    def clean_name(self, name: str, /, *, limit: int, where: str = "") -> str:
        """Return a name without its secrets, in at most `limit` characters: the same for the same
        name, another for another. A name never blocks what is named by it."""
        ...

    def passes(self, texts: Sequence[str], /) -> bool:
        """Whether a glance at all of them together tells that `clean` finds nothing in any one.
        Where it does not, only `clean` knows. Raises ContentBlocked as `clean` does."""
        ...


class CrewFiles(Protocol):
    """The folders of the user's agents and skills, as they are at this moment."""

    @property
    def place(self) -> str:
        """Where they are, to be told."""
        ...

    def names(self, kind: str, /) -> list[str]:
        """Of the folders below `agents` or `skills`, in order; any name may be among them."""
        ...

    def has(self, kind: str, name: str, /) -> bool:
        """Whether there is this folder. Names that are not safe have none."""
        ...

    def read(self, kind: str, name: str, file: str, /) -> str | None:
        """None where there is no such file. Raises ConfigError where it cannot be read."""
        ...


class Spool(Protocol):
    """What hooks were told while no daemon answered."""

    def put(self, told: Told, /) -> None:
        """Durable once it returns; the same delivery twice is there once. Raises Overloaded where
        there is no room, and StorageFailed."""
        ...

    def waiting(self) -> list[str]:
        """The names of what is there, the oldest first."""
        ...

    def get(self, name: str, /) -> Told | None:
        """None where it is gone. Raises ValueError where it cannot be understood."""
        ...

    def set_aside(self, name: str, /) -> None:
        """Keep it for whoever wants to look at it; it waits no longer."""
        ...

    def remove(self, name: str, /) -> None: ...


class Outbox(Protocol):
    """What was changed, in the order of commit, for everything that is derived from it."""

    def read(self, after: int, /, *, limit: int) -> list[tuple[int, Entry]]:
        """The entries after this number, each with its own."""
        ...

    def trim(self, up_to: int, /) -> None:
        """Remove what every consumer has behind it."""
        ...


Ticket = NewType("Ticket", bytes)


class Waiting(NamedTuple):
    """Something in the embedding queue."""

    ticket: Ticket
    entry: Entry


class EmbeddingQueue(Protocol):
    """What has yet to be embedded. Live entries come before all others, newest first."""

    def add(self, entries: Sequence[Entry], /, *, live: bool) -> None: ...

    def newest(self, *, limit: int) -> list[Waiting]:
        """The next ones; they stay until they are done."""
        ...

    def done(self, tickets: Sequence[Ticket], /) -> None: ...

    def clear(self) -> None: ...

    def size(self) -> int: ...


class Embedder(Protocol):
    """Gives texts a direction: the nearer two are, the more alike is what they mean."""

    model: str  # vectors of different models cannot be compared

    def embed(self, texts: Sequence[str], /) -> list[Vector]:
        """A vector of length one for each. Raises EmbedderFailed."""
        ...


class LexicalIndex(Protocol):
    """Finds documents by their words. It is derived, and can be filled again at any time."""

    def cursor(self) -> int | None:
        """The outbox entry up to which everything is in it. None: it must be filled first."""
        ...

    def replace(
        self, owned: Mapping[Owner, Sequence[Document]], /, *, cursor: int | None = None
    ) -> None:
        """Give these owners just these documents; durable and visible on return."""
        ...

    def find(self, terms: Sequence[str], scope: Scope, /, *, limit: int) -> list[Found]:
        """Documents in scope with any of the terms, best first."""
        ...

    def newest(self, scope: Scope, /, *, limit: int) -> tuple[list[Found], int]:
        """Documents in scope by time, and how many there are."""
        ...

    def statistics(self, terms: Sequence[str], /) -> Statistics: ...

    def begin(self, *, afresh: bool = False) -> None:
        """From here on everything is replaced. Afresh: nothing of what was there before stays in
        the files, not even of what was removed earlier."""
        ...

    def finish(self, *, cursor: int) -> None:
        """Remove what was not replaced since."""
        ...

    def stats(self) -> IndexStats: ...


class VectorIndex(Protocol):
    """Finds documents by what they mean. It is derived, and can be filled again at any time."""

    def damaged_files(self) -> list[str]:
        """Those that differ from their checksums."""
        ...

    @property
    def complete(self) -> bool:
        """Whether all that there is has been queued for it. Not so where it is new."""
        ...

    def mark_complete(self) -> None: ...

    def replace(
        self, owned: Mapping[Owner, Sequence[tuple[Document, Sequence[Vector]]]], /
    ) -> None:
        """Give these owners just these documents, each with the vectors of its parts; durable and
        visible on return."""
        ...

    def known(self, documents: Sequence[Document], /) -> list[list[Vector]]:
        """The vectors of those that are there with this same text."""
        ...

    def nearest(self, query: Vector, scope: Scope, /, *, limit: int) -> list[Found]:
        """Documents in scope, nearest first."""
        ...

    def cosines(self, query: Vector, keys: Sequence[DocumentKey], /) -> list[float | None]:
        """How near these are, where they are known."""
        ...

    def reset(self) -> None: ...

    def purge(self) -> None:
        """Leave nothing of what was removed in the files. Raises IndexFailed."""
        ...

    def stats(self) -> IndexStats: ...


class MemoryChange(NamedTuple):
    """A memory as it was, if it was, and as it is to be; `home` is whose notes must follow."""

    before: Memory | None
    after: Memory
    home: Home | None


class Memories(Protocol):
    """The memories, by domain, namespace and digest."""

    def get(self, key: MemoryKey, /) -> Memory | None: ...

    def named(self, domain: Domain, namespace: str, start: str, /) -> list[Memory]:
        """Those whose digest starts so, tombstones too; at most a hundred."""
        ...

    def of_domain(self, domain: Domain, /, *, after: MemoryKey | None, limit: int) -> list[Memory]:
        """In the order of their keys, tombstones too."""
        ...

    def domains(self) -> list[Domain]: ...

    def write(self, changes: Sequence[MemoryChange], /) -> list[bool]:
        """Durable on return. False for each that was not written because the memory is not, or no
        longer, as it was."""
        ...


class MemoryUses(Protocol):
    """How often memories were recalled on this machine."""

    def add(self, keys: Sequence[MemoryKey], at: Millis, /) -> None: ...

    def of(self, keys: Sequence[MemoryKey], /) -> list[Use]: ...

    def settle(self, tiers: Mapping[MemoryKey, Tier], /) -> None:
        """Remember which tier each was found in."""
        ...

    def put(self, uses: Sequence[tuple[MemoryKey, Use]], /) -> None:
        """These take the place of what is known of them."""
        ...

    def forget(self, key: MemoryKey, /) -> None: ...


class NoteQueue(Protocol):
    """The changes of memories that the notes of a repository have yet to follow. Whoever writes a
    memory adds to it in the same batch."""

    def homes(self) -> list[Home]: ...

    def waiting(self, home: Home, /, *, limit: int) -> list[tuple[Ticket, MemoryKey]]:
        """The oldest; they stay until they are done."""
        ...

    def done(self, tickets: Sequence[Ticket], /) -> None: ...


class Projects(Protocol):
    """The projects that are known, and what was last seen in their repositories."""

    def get(self, project_id: str, /) -> Project | None: ...

    def of_home(self, home: Home, /) -> Project | None: ...

    def all(self) -> list[Project]: ...

    def save(self, project: Project, /) -> None: ...

    def seen(self, home: Home, /) -> Seen:
        """What was last seen in its notes."""
        ...

    def saw(self, home: Home, seen: Seen, /) -> None: ...


class Repositories(Protocol):
    """Git repositories: which one a folder belongs to, and the notes in each."""

    def locate(self, folder: str, environ: Mapping[str, str], /) -> Located | None:
        """None where the folder is in no repository. Raises GitFailed."""
        ...

    def private(self, name: str, /) -> Home:
        """Our own repository of this name. It is made with its first notebook."""
        ...

    def exists(self, home: Home, /) -> bool: ...

    def notebook(self, home: Home, domain: Domain, /) -> "SharedNotebook":
        """Raises GitFailed where there is no repository any more."""
        ...


class Notebook(Protocol):
    """The memories of one domain as git notes of one repository. Everything here merges memory by
    memory; what is no memory stays as it is. Raises GitFailed."""

    def state(self) -> str:
        """It changes whenever the notes do."""
        ...

    def read(self) -> Reading: ...

    def keep(self, memories: Sequence[Memory], /) -> None:
        """Each on the commit it was captured at, or on the present one where that is not there."""
        ...

    def rehome(self) -> int:
        """Move what is on commits that no branch or tag leads to onto the present one. How many."""
        ...

    def mend(self) -> int:
        """Take notes that a crash has damaged back to the last state that can be read whole; how
        many. What the store has is written again by the next sync."""
        ...

    def earlier(self) -> list[Draft]:
        """What was written into the notes in layouts of earlier tools."""
        ...

    def erase(self, keys: Sequence[MemoryKey], /) -> int:
        """Remove these from the notes and from all their history here; how many refs changed."""
        ...


class SharedNotebook(Notebook, Protocol):
    """One with a remote, which is reached with the user's own git and credentials. Raises
    RemoteUnavailable."""

    def fetch(self, remote: str, environ: Mapping[str, str], /) -> bool:
        """Get the remote's notes and merge them into ours. Whether ours changed."""
        ...

    def push(self, remote: str, environ: Mapping[str, str], /) -> bool | None:
        """Whether there was anything to push. None: it was refused, because the remote has what we
        have yet to fetch."""
        ...


class Record(Protocol):
    """Something that is known: a fact, an episode, ... It is listed by when it was made."""

    @property
    def id(self) -> KnowledgeId: ...

    @property
    def made_ms(self) -> Millis: ...


R = TypeVar("R", bound=Record)


class KnowledgeChange(NamedTuple):
    """A record as it was, if it was, and as it is to be, if it is."""

    before: Record | None
    after: Record | None


class KnowledgeStore(Protocol):
    """Facts, episodes, procedures, users, and the sessions they were learned from."""

    def get(self, kind: type[R], names: Sequence[str], /) -> list[R | None]: ...

    def page(
        self, kind: type[R], /, *, limit: int, offset: int, **wanted: str | None
    ) -> tuple[list[R], int]:
        """Records with these values, the newest first, and how many there are in all."""
        ...

    def after(self, kind: type[R], name: str, /, *, limit: int) -> list[R]:
        """In the order of their ids, from the one after this."""
        ...

    def commit(
        self, changes: Sequence[KnowledgeChange], /, *, cursor: int | None = None, wait: bool = True
    ) -> bool:
        """All of it or nothing: False where a record is not, or no longer, as it was. Durable on
        return, unless nobody waits."""
        ...

    def version(self, kind: type[Record], /) -> int:
        """It changes with whatever is written of this kind: what was read before may be out of date
        where it is another one."""
        ...

    def cursor(self) -> int | None:
        """The outbox entry up to which everything was learned from. None: nothing was."""
        ...


class Journal(Protocol):
    """The consolidations that can be undone, and up to when each domain was looked at."""

    def add(self, run: Run, /) -> None: ...

    def last(self) -> Run | None:
        """The newest one that was not removed."""
        ...

    def remove(self, run: Run, /) -> None: ...

    def looked(self) -> dict[Domain, Millis]: ...

    def look(self, domains: Sequence[Domain], at: Millis, /) -> None:
        """These were looked at, up to then."""
        ...

    def forget(self, keys: AbstractSet[MemoryKey], /) -> None:
        """Nothing of these memories is to be undone."""
        ...


class GraphCheckpoints(Protocol):
    """The checkpoints of graphs, and what was written after each."""

    def put(self, checkpoint: GraphCheckpoint, /) -> "Future[None]":
        """Settled once durable. One that is there already is replaced."""
        ...

    def put_writes(self, place: GraphPlace, writes: Sequence[PendingWrite], /) -> "Future[None]":
        """Settled once durable, all of them or none. The checkpoint may be yet to come."""
        ...

    def get(
        self, thread_id: ThreadId, checkpoint_ns: str, checkpoint_id: CheckpointId | None, /
    ) -> GraphCheckpoint | None:
        """This one, or the latest of its thread and namespace."""
        ...

    def writes(
        self, place: GraphPlace, /, *, after: WriteKey | None, max_bytes: int, at_least_one: bool
    ) -> WritesPage:
        """By task and index, values of this many bytes at most together."""
        ...

    def infos(
        self,
        scope: GraphScope,
        /,
        *,
        after: GraphPlace | None,
        before: CheckpointId | None,
        limit: int,
        offset: int = 0,
    ) -> list[CheckpointInfo]:
        """Newest first: those that follow `after`, and have ids less than `before`."""
        ...

    def count(self, thread_id: ThreadId | None, /) -> int: ...


class GraphThreads(Protocol):
    """What happens to whole threads of graphs, and to many checkpoints at once. What is a few
    thousand checkpoints or a few MiB happens at once, more than that in several steps."""

    def remove_thread(self, thread_id: ThreadId, /) -> None: ...

    def remove(self, places: Sequence[GraphPlace], /) -> None:
        """With what was written after them. Those that are gone are passed by."""
        ...

    def named(self, checkpoint_id: CheckpointId, /) -> list[GraphPlace]:
        """Wherever there is a checkpoint of this id: copies have the same."""
        ...

    def of_run(self, run_id: RunId, /) -> list[GraphPlace]: ...

    def copy(self, source: ThreadId, target: ThreadId, /) -> None:
        """The oldest first; what the target has already stays."""
        ...


class Reasoner(Protocol):
    """A model that reads and writes. Raises LlmFailed."""

    def answer(
        self, question: str, dates: Sequence[str], evidence: Sequence[Evidence], now: Millis, /
    ) -> Reasoned:
        """An answer from the evidence, and only from it."""
        ...

    def merge(self, memories: Sequence[Memory], /) -> Written:
        """What these say, as one."""
        ...


class ChatModel(Protocol):
    """A model that one talks with; it is started by whoever needs it first. Raises LlmFailed,
    FeatureUnavailable where there is none, and Cancelled once it is told to halt."""

    def window(self, halt: Halt, /) -> int:
        """The tokens of its context."""
        ...

    def count(self, texts: Sequence[str], halt: Halt, /) -> list[int]:
        """The tokens of each, or about as many."""
        ...

    def stream(self, request: Request, halt: Halt, /) -> Iterator[Said]:
        """What it says, piece by piece as it comes; the last is Ended. Raises ContextTooLong."""
        ...


class ModelServer(Protocol):
    """What a model runs on."""

    def status(self) -> ModelStatus:
        """As it is now: it is asked."""
        ...

    def close(self) -> None:
        """End it, if it is ours."""
        ...


class Workspace(Protocol):
    """One folder and what is in it: nothing else is read or changed, whatever leads out and whoever
    changes it meanwhile. Paths are from the folder, or absolute and inside. Raises ToolFailed."""

    def place(self, path: str, /) -> str:
        """Where this leads once links are followed, from the folder; it need not be there."""
        ...

    def content(self, path: str, /, *, most: int) -> Content:
        """The beginning of a file, so many bytes at most."""
        ...

    def excerpt(self, path: str, /, *, first: int, lines: int, chars: int, halt: Halt) -> Excerpt:
        """Lines of a text file, so many characters at most."""
        ...

    def replace(self, path: str, data: bytes, before: str, /) -> None:
        """Whole or not at all, durable, and only where the file's digest is `before`. The path is
        as `content` told it: a link on the way has come since."""
        ...

    def walk(
        self, path: str, /, *, deep: bool, most: int, seconds: float, halt: Halt
    ) -> Iterator[FolderEntry | Cut]:
        """What is in a folder, by name; deep, also what is in the folders there, except what git
        ignores. Links are not followed. After so many entries, and so long, it is cut."""
        ...

    def held(self) -> AbstractContextManager[int]:
        """The folder's descriptor, good until the end of it."""
        ...

    def close(self) -> None:
        """Once nobody uses it any more."""
        ...


class Workspaces(Protocol):
    def open(self, folder: str, /) -> Workspace:
        """Raises InvalidInput where it is no folder, or none that may be worked in."""
        ...


class LinePattern(Protocol):
    def lines(self, data: bytes, /) -> Iterator[tuple[int, str]]:
        """Those in which it is found, each once, with their numbers; of a long one the piece
        around what was found."""
        ...


class LinePatterns(Protocol):
    """Patterns that take time in proportion to the text, whatever both are."""

    def compiled(self, pattern: str, /) -> LinePattern:
        """Raises ToolFailed, with what is wrong."""
        ...


class WebPages(Protocol):
    """The web, without what is only reached from here. Raises ToolFailed."""

    def target(self, url: str, /) -> Target:
        """What would be asked for."""
        ...

    def fetch(self, target: Target, /, *, seconds: float, halt: Halt) -> WebPage:
        """Its text as it is, bounded."""
        ...


class Programs(Protocol):
    def run(
        self, words: Sequence[str], folder: Workspace, /, *, seconds: float, most: int, halt: Halt
    ) -> Ran:
        """Run a program there, and keep so many bytes of what it prints. Raises ToolFailed where it
        cannot be run, and Cancelled once it is told to halt: nothing of it runs on."""
        ...


class TocReader(Protocol):
    """The table of contents as it is, and as it was."""

    def nodes(self, node_ids: Sequence[NodeId], /) -> list[TocNode | None]: ...

    def below(self, prefix: str, /, *, after: NodeId | None, limit: int) -> list[NodeId]:
        """The ids of present nodes that start so, in order: years, or the segments of a day."""
        ...

    def version(self, node_id: NodeId, version: int, /) -> TocNode | None: ...

    def history(self, node_id: NodeId, /, *, limit: int) -> list[TocNode]:
        """The kept versions, newest first."""
        ...

    def grips(self, grip_ids: Sequence[str], /) -> list[Grip | None]: ...

    def segments(
        self, session_id: SessionId, start: Position, /, *, limit: int, reverse: bool = False
    ) -> list[Segment]:
        """Those that begin at `start` or later; reversed, at `start` or earlier."""
        ...


class TocWriter(Protocol):
    """What building the table of contents needs to know and to store."""

    def cursor(self) -> int:
        """The outbox entry up to which the segments are cut."""
        ...

    def open_segments(self, *, limit: int) -> list[Segment]: ...

    def unfinished_segments(self, *, limit: int) -> list[Segment]:
        """Closed, but their summarizer failed and another has stepped in."""
        ...

    def dirty(self, level: Level, /, *, limit: int) -> list[NodeId]:
        """Nodes whose children have changed."""
        ...

    def commit(self, change: Change, /) -> None: ...

    def collect(self) -> int:
        """Remove the stale grips; call it when nothing is dirty. How many."""
        ...


class EventRemover(Protocol):
    """Removes events for good."""

    def remove(self, places: Sequence[Place], /) -> None:
        """Their ids stay known, and are never stored again. Those that are gone are passed by."""
        ...


class ForgettingPlan(Protocol):
    """What is being forgotten: written down before it begins, so that it can be finished."""

    family: str  # of the store, in which it is written down

    def add(self, events: Sequence[Place], /) -> None: ...

    def decide(self, name: str, /) -> None:
        """All events are listed: from here on it will be done. The name is that of the selection,
        as `forgetting.name_of` tells it."""
        ...

    def decided(self) -> str | None:
        """The name, once it is decided."""
        ...

    def events(self) -> list[Place]:
        """By session, and by time."""
        ...

    def affect(self, segments: Sequence[Place], /) -> None:
        """Note the segments that were made from these events, by their first ones."""
        ...

    def segments(self) -> list[Place]: ...

    def seek(self, needles: AbstractSet[bytes], /) -> None:
        """Note what is to be searched for at the end, before the events that have it are gone.
        Written so that the search for it does not find this note."""
        ...

    def needles(self) -> set[bytes]: ...

    def clear(self) -> None: ...


class ForgettingReports(Protocol):
    """Reports of what was forgotten, by the name of the selection; the newest stay."""

    def keep(self, name: str, report: Report, /) -> None: ...

    def find(self, name: str, /) -> Report | None: ...


class TocEraser(Protocol):
    """Removes what the table of contents otherwise keeps."""

    def grips_of(self, at: Position, /) -> list[Grip]:
        """All that lead to this event, held by a node or not."""
        ...

    def erase(self, erasure: Erasure, /) -> None: ...


class Traces(Protocol):
    """Looks for byte strings in all that is kept. `done` is told how far it is, and may raise."""

    def in_kept(self, needles: AbstractSet[bytes], /) -> frozenset[bytes]:
        """Those that stand in events, in memories and in what other programs keep here."""
        ...

    def in_rows(
        self, needles: AbstractSet[bytes], done: Callable[[int], None], /
    ) -> frozenset[Trace]:
        """Those that stand in keys and values of all else in the store."""
        ...

    def in_files(self, needles: AbstractSet[bytes], done: Callable[[int], None], /) -> Searched:
        """Those that stand in files, as bytes."""
        ...


class Summarizer(Protocol):
    """Puts conversations and periods in short."""

    name: str

    def summarize(self, conversations: Sequence[Dialogue], /) -> list[Summary]: ...

    def digest(self, periods: Sequence[Sequence[Child]], /) -> list[Digest]: ...


class JobStore(Protocol):
    """What is kept of background jobs."""

    def load(self, name: str, /) -> JobState: ...

    def save(self, name: str, state: JobState, /) -> None: ...


class Scheduler(Protocol):
    """The background jobs."""

    @property
    def running(self) -> bool: ...

    def status(self) -> list[JobStatus]: ...

    def pause(self, name: str, /) -> None: ...

    def resume(self, name: str, /) -> None: ...

    def wake(self, name: str, /) -> None: ...

    def run(self, name: str, /) -> JobStatus: ...


class StoreMaintenance(Protocol):
    """What an administrator asks of a store."""

    def stats(self) -> StoreStats: ...

    def compact(self, family: str, /) -> None:
        """Rewrite a family's files without what was deleted or overwritten."""
        ...

    def checkpoint(self, path: Path, /) -> None:
        """Copy the store as it is now to a path that does not exist, with everything that was
        durable when this was called."""
        ...


class Snapshots(Protocol):
    """Copies of the data folder, made while it is in use."""

    def make(self, target: str, /, *, done: Callable[[int], None]) -> Snapshot:
        """A snapshot in a folder of snapshots, or one archive where the name is that of one.
        `done` is called with the number of files; it may raise to stop. Raises InvalidInput and
        StorageFailed; nothing that looks complete is left then."""
        ...

    def complete(self, folder: str, /) -> list[Snapshot]:
        """The complete snapshots in a folder, of any store, oldest first."""
        ...

    def remove(self, snapshot: Snapshot, /) -> None: ...


class BackupHistory(Protocol):
    """What is known of the last backups, without asking the disk that they are on."""

    def load(self) -> BackupStatus: ...

    def save(self, status: BackupStatus, /) -> None: ...


class KeyRing(Protocol):
    """The bearer keys, hashed."""

    def add(self, key: AccessKey, /) -> bool:
        """False if a key of this name is there already."""
        ...

    def all(self) -> Sequence[AccessKey]:
        """Once read, out of memory: cheap enough for every request, on any thread."""
        ...

    def remove(self, name: str, /) -> bool:
        """False if there is no such key."""
        ...


class SocketOwners(Protocol):
    """Who holds the other end of a TCP connection within this machine."""

    def owner_of(self, peer: Address, own: Address, /) -> SocketOwner | None:
        """Whose open socket connects `peer` to `own` now; None where that is unproven."""
        ...

    def close(self) -> None: ...


class Transcripts(Protocol):
    """What one kind of agent has written down of its sessions."""

    def sources(self, place: str, /) -> list[Source]:
        """The files below a folder, or the one file and those that belong to it. Raises
        InvalidInput where it is neither."""
        ...

    def chunks(self, source: Source, /) -> Iterator[Chunk]:
        """All that is in it, a bounded piece at a time, from the beginning. What cannot be read is
        told as refused."""
        ...


class AgentSetup(Protocol):
    """How one agent is configured: in which files, and what of ours stands there. No I/O; the text
    of a file that is not there is empty. Raises ConfigError where a text cannot be read."""

    @property
    def title(self) -> str: ...

    def folder(self, seat: Seat, /) -> str:
        """The agent's own folder of this user."""
        ...

    def files(self, seat: Seat, /) -> tuple[ConfigFile, ...]: ...

    def shared(self, seat: Seat, /) -> tuple[ConfigFile, ...]:
        """Files that count too, and are not ours to change."""
        ...

    def edited(self, file: ConfigFile, text: str, wanted: Wanted, /) -> Edited:
        """With what is wanted of ours, and nothing else of ours; the rest as it was."""
        ...

    def ours(self, file: ConfigFile, text: str, /) -> Ours: ...

    def advice(self, seat: Seat, /) -> str:
        """What to do so that a change acts."""
        ...


class ConfigFiles(Protocol):
    """The files in which agents are configured. Raises ConfigError."""

    def read(self, path: str, /) -> str | None:
        """None where there is no such file."""
        ...

    def apply(self, change: ConfigChange, /) -> None:
        """Whole or not at all, and only if the file is what it was."""
        ...

    def is_folder(self, path: str, /) -> bool: ...

    def root(self, folder: str, /) -> str:
        """The repository's folder that this one is in, or the folder itself."""
        ...


class Spans(Protocol):
    """Keeps traces of what was done, elsewhere. Never blocks."""

    def record(self, span: Span, /) -> None: ...

    def close(self) -> None: ...


class Clock(Protocol):
    def now(self) -> Millis: ...


T = TypeVar("T")


class Worker(Protocol):
    """Runs pure functions in a process of their own, so that they cost the daemon no latency."""

    def call(self, function: Callable[..., T], /, *arguments: object, timeout_seconds: float) -> T:
        """The function's result. Raises WorkerFailed where it crashed or took too long; what the
        function itself raises comes out as it is."""
        ...
