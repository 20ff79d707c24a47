"""Signals: what happens in a daemon, and what it sets in motion.

| signal           | what happened                            | what follows                    |
|------------------|------------------------------------------|---------------------------------|
| EVENT_RECORDED   | an event was recorded                    | change feed, segments, outbox   |
| MEMORY_CHANGED   | a memory changed                         | change feed, outbox             |
| FACT_CHANGED     | a fact changed                           | outbox                          |
| LESSON_JUDGED    | a person or an agent judged a lesson     | kept contexts are cleared       |
| FOREIGN_EVENTS   | another daemon has recorded events       | segments                        |
| FOREIGN_CHANGE   | another daemon has written               | change feed, outbox             |
| SEGMENTS_CUT     | segments were cut                        | rollup, outbox                  |
| OUTBOX_BEGINS    | the outbox is about to be processed      | team sync, if there is a server |
| OUTBOX_LEFT      | the outbox has more                      | outbox                          |
| BACKLOG_LEFT     | records of the past wait to be embedded  | backlog embedding               |
| REBUILD_DUE      | nodes of an older edition can be rebuilt | contents rebuild                |
| CONTENTS_REBUILT | nodes were rebuilt                       | outbox, contents rebuild        |
| TEAM_NEWS        | another machine forgets                  | team sync                       |
| STARTED          | the daemon has started                   | every job                       |
| STORE_MENDED     | the store can be written again           | spooled hooks, every job        |

A job says in its feature what wakes it. A start wakes every job, because a stop may have left work,
except for backups, which keep to their times.
"""

from collections import defaultdict
from collections.abc import Callable
from enum import Enum, auto
from functools import partial


class DaemonSignal(Enum):
    EVENT_RECORDED = auto()
    MEMORY_CHANGED = auto()
    FACT_CHANGED = auto()
    LESSON_JUDGED = auto()
    FOREIGN_EVENTS = auto()
    FOREIGN_CHANGE = auto()
    SEGMENTS_CUT = auto()
    OUTBOX_BEGINS = auto()
    OUTBOX_LEFT = auto()
    BACKLOG_LEFT = auto()
    REBUILD_DUE = auto()
    CONTENTS_REBUILT = auto()
    TEAM_NEWS = auto()
    STARTED = auto()
    STORE_MENDED = auto()


class Signals:
    """Calls listeners in the order in which they were added, on the thread of the sender.

    A listener does as little as possible: the committer's thread waits for those of each event.
    """

    def __init__(self) -> None:
        self._listeners: dict[DaemonSignal, list[Callable[[], object]]] = defaultdict(list)

    def listen(self, listener: Callable[[], object], *signals: DaemonSignal) -> None:
        for signal in signals:
            self._listeners[signal].append(listener)

    def send(self, signal: DaemonSignal) -> None:
        for listener in self._listeners[signal]:
            listener()

    def build_sender(self, signal: DaemonSignal) -> Callable[[], None]:
        return partial(self.send, signal)
