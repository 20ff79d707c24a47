"""What other features contribute to recall."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agent_memory.features.index.model.queries import RecallResult
from agent_memory.features.knowledge.model.facts import Fact
from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.recall.model.records import OpenedRecord


class AnswerFilter(Protocol):
    """Changes the hits of an answer: marks them, or leaves some out."""

    def __call__(self, answer: RecallResult, /) -> RecallResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamRecord:
    """A record of the server, opened: an event with the turns around it, a memory or a fact."""

    record: Event | Memory | Fact
    person: str = ""
    machine: str = ""
    before: tuple[Event, ...] = ()
    after: tuple[Event, ...] = ()


class RecordSource(Protocol):
    """Reads the records of an area of URIs, such as `memory://lessons`."""

    @property
    def area(self) -> str: ...

    def get(self, name: str, /) -> OpenedRecord | None:
        """Return the record with this id."""
        ...

    def list_beginning(self, prefix: str, /, *, limit: int) -> list[OpenedRecord]:
        """List records whose id begins so."""
        ...


class EmbeddingWork(Protocol):
    """Embeds texts that are in no index, when the jobs embed. `kind` names them in the status."""

    @property
    def kind(self) -> str: ...

    def step(self, *, live: bool) -> bool:
        """Embed the next few texts: only new ones if `live`. Return whether there were any. Raises
        EmbedderFailed."""
        ...

    def count(self) -> int:
        """Return how many records wait."""
        ...


class TeamRecords(Protocol):
    """The records of a team's server."""

    def find(
        self, name: str, /, *, around: int, was_forgotten: Callable[[str], bool]
    ) -> TeamRecord | None:
        """Return a record that is not on this machine, by its URI or an id of a hit; None if there
        is no server, or it has none. Raises NotFound and RemoteUnavailable for a URI, and
        RemoteUnavailable for an id."""
        ...

    def get_server_name(self) -> str: ...
