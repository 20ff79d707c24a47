"""What wakes which background job, and in which order."""

from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.jobs.ports import Scheduler
from agent_memory.features.streaming.services.change_feed import ChangeFeed
from agent_memory.kernel.jobs import CRONS, EMBEDDING, OUTBOX, REBUILD, ROLLUP, SEGMENTS, TEAM
from agent_memory.kernel.status import StoreHealth


class WakeUps:
    """Connects changes with the jobs that follow them.

    | what happens              | what is woken, in this order              |
    |---------------------------|-------------------------------------------|
    | an event is recorded      | change feed, segment cutting, outbox      |
    | a memory changes          | change feed, outbox                       |
    | a fact changes            | outbox                                    |
    | another machine forgets,  | team sync                                 |
    | or the server is changed  |                                           |
    | segments are cut          | rollup, outbox                            |
    | the outbox has more       | outbox                                    |
    | nodes are rebuilt         | outbox, contents rebuild                  |
    | the outbox job begins     | team sync, if there is a server           |
    | the outbox is processed   | contents rebuild, if one is due; backlog  |
    |                           | embedding, if there is any                |
    | another daemon writes     | change feed, segment cutting, outbox      |
    | the daemon starts         | every job: a stop may have left work      |
    | the store is mended       | spooled hooks, every job                  |

    Services are built before the scheduler that runs them, so they get these methods first and
    `connect` comes last. What hooks change in between is not lost: `connect` wakes every job.

    What is called for each event does as little as possible: the committer's thread waits for it.
    """

    def __init__(self) -> None:
        self._scheduler: Scheduler | None = None
        self._changes: ChangeFeed | None = None
        self._hooks: HookHandling | None = None

    def connect(self, scheduler: Scheduler, changes: ChangeFeed, hooks: HookHandling) -> None:
        self._scheduler, self._changes, self._hooks = scheduler, changes, hooks
        self._wake(*CRONS)

    def on_event_recorded(self) -> None:
        self._wake_followers()
        self._wake(SEGMENTS, OUTBOX)

    def on_memory_changed(self) -> None:
        self._wake_followers()
        self._wake(OUTBOX)

    def on_fact_changed(self) -> None:
        self._wake(OUTBOX)

    def on_team_news(self) -> None:
        self._wake(TEAM)

    def on_segments_cut(self) -> None:
        self._wake(ROLLUP, OUTBOX)

    def on_outbox_left(self) -> None:
        self._wake(OUTBOX)

    def on_foreign_change(self, has_events: bool) -> None:
        self._wake_followers()
        self._wake(*([SEGMENTS] if has_events else []), OUTBOX)

    def on_contents_rebuilt(self) -> None:
        self._wake(OUTBOX, REBUILD)

    def on_backlog_left(self) -> None:
        self._wake(EMBEDDING)

    def on_rebuild_due(self) -> None:
        self._wake(REBUILD)

    def on_store_health(self, health: StoreHealth) -> None:
        if health.writable and self._hooks is not None:
            self._hooks.drain_soon()
            self._wake(*CRONS)

    def _wake(self, *jobs: str) -> None:
        if self._scheduler is not None:
            for name in jobs:
                self._scheduler.wake(name)

    def _wake_followers(self) -> None:
        if self._changes is not None:
            self._changes.wake()
