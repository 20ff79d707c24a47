"""What forgetting needs: a plan that survives a crash, and a search of every byte."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from agent_memory.features.forgetting.model.forgetting import Report, Searched, Trace
from agent_memory.features.log.model.events import Place


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
