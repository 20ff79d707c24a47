"""Records of features above recall, as `memory show` and the ledger of injections read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.features.log.model.events import Event
from agent_memory.kernel.ids import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRecord:
    """A record by its URI. `details` are its other fields, for people and for programs, and `words`
    the events that it was made from."""

    uri: str
    kind: str
    title: str
    at_ms: Millis
    session_id: str = ""
    project: str = ""
    details: Mapping[str, str | int] = field(default_factory=dict)
    words: tuple[Event, ...] = ()
