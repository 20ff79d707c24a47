"""How far this machine has got with its team's server."""

from dataclasses import dataclass, field
from enum import IntEnum

from agent_memory.features.upstream.model.erasures import DEFAULT_HOURS
from agent_memory.features.upstream.model.records import RecordRefused
from agent_memory.features.upstream.model.scopes import SharedProject, SharedScope
from agent_memory.kernel.ids import Millis

MAX_ERROR_CHARS = 300
MAX_REFUSED = 10  # that are kept
READER = "reader"
NEVER = Millis(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings:
    """The server of a team, as the user has set it up. Without `url` there is none.

    `projects` are the identities of repositories that are shared, or `user`; of `conversations`
    the events too, `delay_ms` after their session ended. `scope` is what of it may leave now:
    projects that this machine knows, and whose name on the server is agreed. `agreed` are all that
    ever had one.
    """

    url: str = ""
    name: str = "team"
    projects: tuple[str, ...] = ()
    conversations: tuple[str, ...] = ()
    delay_ms: int = 0
    scope: SharedScope = field(default_factory=SharedScope)
    agreed: tuple[SharedProject, ...] = ()
    recall: bool = True
    review: bool = False  # memories of others before agents are given them
    certificates: str = ""
    erase_hours: int = DEFAULT_HOURS  # for which an erasure waits that another machine asks for
    key: str = field(default="", repr=False)

    @property
    def is_complete(self) -> bool:
        return bool(self.url and self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncProgress:
    """What was sent and received. All of it belongs to the server at `url`.

    `cursor` is the last entry of the outbox that was sent; None before the first. `pulled` is the
    place in the server's changes, for the projects `pulled_for`. `receipt` is the last one that the
    server gave to this machine, which it knows as `client`. `rights` are those of the key at that
    time, and `last_refused` some of what the server refused, the newest last. `keys` are those of
    the person there, `new_keys` the ones that came since they last looked, and `erasures` how many
    of their records the server is asked to erase. `conversations` are the repositories whose past
    events were looked for.
    """

    url: str = ""
    person: str = ""
    cursor: int | None = None
    pulled: str = ""
    pulled_for: tuple[str, ...] = ()
    sent: int = 0
    refused: int = 0
    last_success_ms: Millis = NEVER
    last_error: str = ""
    last_error_ms: Millis = NEVER
    client: str = ""
    receipt: int = 0
    rights: str = ""
    last_refused: tuple[RecordRefused, ...] = ()
    keys: tuple[str, ...] = ()
    new_keys: tuple[str, ...] = ()
    erasures: int = 0
    conversations: tuple[str, ...] = ()

    @property
    def only_receives(self) -> bool:
        """Whether the key may only read: then nothing is sent."""
        return self.rights.split(" ")[0] == READER


class BackfillPhase(IntEnum):
    """What a backfill sends, in this order."""

    EVENTS = 0
    MEMORIES = 1
    FACTS = 2
    REMOVED_FACTS = 3  # that were sent, and whose removal was not
    TOMBSTONES = 4
    DONE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectBackfill:
    """The past of a project on its way to the server: which records come next, and after which."""

    name: str  # of the project, or `user`
    phase: BackfillPhase = BackfillPhase.EVENTS
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStatus:
    """What `memory remote status` shows."""

    settings: RemoteSettings
    progress: SyncProgress
    changes_waiting: int = 0  # entries of the outbox that are shared
    conversations_held: int = 0  # until they have ended, and what was noted in them is reviewed
    more_waiting: bool = False  # than were counted
    forgettings_waiting: int = 0
    backfilling: tuple[str, ...] = ()
    retry_seconds: int = 0
