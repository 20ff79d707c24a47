"""What forgetting needs: a plan that survives a crash, and a search of every byte."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from agent_memory.features.forgetting.model.forgetting import (
    FileSearch,
    ForgettingReport,
    NeedleMatch,
)
from agent_memory.features.log.model.events import SessionPosition


class ForgettingPlan(Protocol):
    """What is being forgotten: written down before it begins, so that it can be finished."""

    family: str  # of the store, in which it is written down

    def add(self, events: Sequence[SessionPosition], /) -> None: ...

    def decide(self, name: str, /) -> None:
        """All events are listed: from here on it will be done. The name is that of the selection,
        as `forgetting.name_of` tells it."""
        ...

    def get_decision(self) -> str | None:
        """The name, once it is decided."""
        ...

    def list_events(self) -> list[SessionPosition]:
        """By session, and by time."""
        ...

    def add_segments(self, segments: Sequence[SessionPosition], /) -> None:
        """Note the segments that were made from these events, by their first ones."""
        ...

    def list_segments(self) -> list[SessionPosition]: ...

    def add_needles(self, needles: AbstractSet[bytes], /) -> None:
        """Note what is to be searched for at the end, before the events that have it are gone.
        Written so that the search for it does not find this note."""
        ...

    def list_needles(self) -> set[bytes]: ...

    def clear(self) -> None: ...


class ForgettingReports(Protocol):
    """Reports of what was forgotten, by the name of the selection; the newest stay."""

    def save(self, name: str, report: ForgettingReport, /) -> None: ...

    def find(self, name: str, /) -> ForgettingReport | None: ...


class NeedleSearch(Protocol):
    """Looks for byte strings in all that is kept. `done` is told how far it is, and may raise."""

    def search_kept(self, needles: AbstractSet[bytes], /) -> frozenset[bytes]:
        """Those that stand in events, in memories and in what other programs keep here."""
        ...

    def search_rows(
        self, needles: AbstractSet[bytes], done: Callable[[int], None], /
    ) -> frozenset[NeedleMatch]:
        """Those that stand in keys and values of all else in the store."""
        ...

    def search_files(
        self, needles: AbstractSet[bytes], done: Callable[[int], None], /
    ) -> FileSearch:
        """Those that stand in files, as bytes."""
        ...
