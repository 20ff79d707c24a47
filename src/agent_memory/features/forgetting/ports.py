"""What forgetting needs: a plan that survives a crash, and a search of every byte."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from agent_memory.features.forgetting.model.forgetting import (
    FileSearch,
    ForgettingNotice,
    ForgettingReport,
    NeedleMatch,
)
from agent_memory.features.log.model.events import Event, SessionPosition
from agent_memory.features.memories.model.memories import Memory
from agent_memory.kernel.ids import MemoryKey, Millis, Position


class ForgettingPlan(Protocol):
    """What is being forgotten, written before it starts so that it can be finished, and the
    reports that stay."""

    family: str  # of the store that holds the plan

    def add(self, events: Sequence[SessionPosition], /) -> None: ...

    def decide(self, name: str, /) -> None:
        """Mark the plan as complete: all events are listed, and from here on it is carried out.
        `name` is that of `name_selection`."""
        ...

    def get_decision(self) -> str | None:
        """Return the name of the selection once `decide` was called."""
        ...

    def list_events(self) -> list[SessionPosition]:
        """List the events by session and time."""
        ...

    def add_segments(self, segments: Sequence[SessionPosition], /) -> None:
        """Add the segments made from these events, by their first events."""
        ...

    def list_segments(self) -> list[SessionPosition]: ...

    def add_needles(self, needles: AbstractSet[bytes], /) -> None:
        """Add the needles to search for at the end, before their events are gone. They are
        stored so that the search does not find them here."""
        ...

    def list_needles(self) -> set[bytes]: ...

    def clear(self) -> None: ...

    def save_report(self, name: str, report: ForgettingReport, /) -> None:
        """Keep the report of a selection; only the newest are kept."""
        ...

    def find_report(self, name: str, /) -> ForgettingReport | None: ...


class ForgettingListener(Protocol):
    """Learns what is forgotten here, before it is gone, so that other machines forget it too."""

    def note_events(self, events: Sequence[Event], /) -> None: ...

    def note_memories(self, keys: Sequence[MemoryKey], /) -> None: ...


SendForgettings = Callable[[], ForgettingNotice | None]


class ForgettingWatch(Protocol):
    """Notes what is forgotten already. The result asks the team's server to forget what is
    forgotten later; it returns None if there is no server."""

    def __call__(self) -> SendForgettings: ...


class ErasureQueue(Protocol):
    """Where erasures wait that a machine asks for, with the key of a person. Each method returns
    until when they wait; None: the caller may erase at once."""

    def hold_events(self, places: Sequence[Position], /) -> Millis | None: ...

    def hold_memories(self, memories: Sequence[Memory], /) -> Millis | None: ...


class PersonFinder(Protocol):
    """Finds the person who captured a memory, on a team server; empty if there is none."""

    def __call__(self, memory: Memory, /) -> str: ...


class NeedleSearch(Protocol):
    """Searches everything that is stored for byte strings. `on_progress` gets the progress, and may
    raise to stop."""

    def search_kept(self, needles: AbstractSet[bytes], /) -> frozenset[bytes]:
        """Return the needles in events, memories and records of other programs."""
        ...

    def search_rows(
        self, needles: AbstractSet[bytes], on_progress: Callable[[int], None], /
    ) -> frozenset[NeedleMatch]:
        """Return the needles in all other keys and values of the store."""
        ...

    def search_files(
        self, needles: AbstractSet[bytes], on_progress: Callable[[int], None], /
    ) -> FileSearch:
        """Return the needles in the bytes of files."""
        ...
