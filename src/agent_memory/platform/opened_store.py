"""The store of this daemon, opened."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from agent_memory.kernel.status import Damage, StoreCheck
from agent_memory.platform.ports import Leadership, ManagedStore, OrderedStore, StoreMaintenance
from agent_memory.platform.store.change_marks import ChangeMarks
from agent_memory.platform.store.watching import StoreWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStore:
    """The ties of a store to other daemons that use it.

    `daemon` names this one, `report_reached` tells the others how far it reads the outbox, and
    `find_slowest` returns how far all of them have read it.
    """

    daemon: str
    marks: ChangeMarks
    watch: StoreWatch
    report_reached: Callable[[Callable[[], int]], None]
    find_slowest: Callable[[], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStore:
    """A store in use. `location` names it to people, `local` is for what a daemon derives for
    itself, `open_view` shows the store as it is at one moment, `check` reads every row, and
    `list_damages` returns what could not be read so far. `sharing` is None for a daemon that has
    its memory to itself."""

    location: str
    store: ManagedStore
    local: OrderedStore
    leadership: Leadership
    sharing: SharedStore | None
    maintenance: StoreMaintenance
    open_view: Callable[[], AbstractContextManager[OrderedStore]]
    check: Callable[[Callable[[int], None]], StoreCheck]
    list_damages: Callable[[], Sequence[Damage]]
    sees_other_tenants: Callable[[], bool] = lambda: False
