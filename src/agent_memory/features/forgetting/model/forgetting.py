"""Forgetting: the selection, the byte strings that would betray it, and the report."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent_memory.features.log.model.events import Event, check_millis
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId, Millis, SessionId

LEAST_BYTES = 6  # of a needle: shorter ones are found by chance in any large file
LINE_BYTES = 12  # of a short line
WINDOW_BYTES = 32  # of a longer one: shorter ones occur by chance where texts are compressed
WORD_CHARS = 32  # of a word without a break
WINDOWS = 6  # of one text

# Words of one sentence, one blank apart: a summary keeps them as they are.
_RUN = re.compile(r"\S+(?:(?<![.!?]) \S+)*")
_CIRCUMSTANCES = frozenset({
    "agent", "branch", "call_id", "cwd", "model", "outcome", "project", "repository", "run_id",
    "tool_name",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Exactly one of: an event, a session, a time range from `since` to `until`, both included."""

    event_id: EventId | None = None
    session_id: SessionId | None = None
    since: Millis | None = None
    until: Millis | None = None

    def __post_init__(self) -> None:
        timed = self.since is not None or self.until is not None
        if (self.event_id is not None) + (self.session_id is not None) + timed != 1:
            raise InvalidInput("name one thing to forget: an event, a session, or a time range")
        if not timed:
            return
        if self.since is None or self.until is None:
            raise InvalidInput("a time range to forget needs both its beginning and its end")
        check_millis("since", self.since)
        check_millis("until", self.until)
        if self.since > self.until:
            raise InvalidInput(f"the time range ends ({self.until}) before it begins: {self.since}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a selection would forget."""

    events: int
    sessions: int = 0
    first_ms: Millis | None = None
    last_ms: Millis | None = None


class NeedleMatch(NamedTuple):
    """A needle, and the family or file that contains it."""

    place: str
    needle: bytes


class FileSearch(NamedTuple):
    files: int
    size_bytes: int
    traces: frozenset[NeedleMatch]
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureProof:
    """What was searched for, and where. `found_in` names what still contains a needle; empty
    means gone. `shared` needles occur in kept records, and prove nothing."""

    needles: int = 0
    shared: int = 0
    files: int = 0
    size_bytes: int = 0
    found_in: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def merge(self, other: "ErasureProof") -> "ErasureProof":
        return replace(
            other,
            needles=self.needles + other.needles,
            shared=self.shared + other.shared,
            found_in=tuple(sorted({*self.found_in, *other.found_in})),
        )


class RefusedForgetting(NamedTuple):
    kind: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingNotice:
    """What a forgetting asked of the team's server: how many of them it has, how many wait because
    it is away, and what it refused to forget."""

    asked: int = 0
    waiting: int = 0
    refused: tuple[RefusedForgetting, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgettingReport:
    """What a forgetting removed and changed."""

    memories: int = 0
    events: int = 0
    segments: int = 0  # cut again, or gone
    nodes: int = 0  # rewritten, or gone
    versions: int = 0  # kept versions that were removed
    grips: int = 0
    proof: ErasureProof = field(default_factory=ErasureProof)
    unreachable: tuple[str, ...] = ()
    waits_until_ms: Millis | None = None  # nothing was erased yet: a machine has asked for it

    def merge(self, other: "ForgettingReport") -> "ForgettingReport":
        """Merge two reports: one run may finish what another left."""
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("memories", "events", "segments", "nodes", "versions", "grips")
        }
        return replace(
            other,
            **sums,
            proof=self.proof.merge(other.proof),
            unreachable=tuple(dict.fromkeys((*self.unreachable, *other.unreachable))),
        )


def name_selection(selection: Selection) -> str:
    """Return the same name for the same selection, without revealing what was selected."""
    chosen = (selection.event_id, selection.session_id, selection.since, selection.until)
    return hashlib.sha256(repr(chosen).encode("utf-8", "surrogatepass")).hexdigest()


def name_events(names: Iterable[EventId]) -> str:
    """Return the same name for the same events, without revealing them."""
    return hashlib.sha256(repr(sorted(names)).encode("utf-8", "surrogatepass")).hexdigest()


def extract_needles(event: Event) -> frozenset[bytes]:
    """Extract byte strings that would reveal an event's text and metadata. The folder and the
    tools are left out: other events have them too."""
    said = (value for name, value in event.metadata.items() if name not in _CIRCUMSTANCES)
    return sample_needles(event.text, *said)


def sample_needles(*texts: str) -> frozenset[bytes]:
    return frozenset(needle for text in texts for needle in _needles(text))


def _needles(text: str) -> list[bytes]:
    """Choose some windows, spread over the text; all of a short text; none if it is too short."""
    windows = [window for run in _RUN.finditer(text) for window in _windows(run.group())]
    if windows:
        step = max(1, -(-len(windows) // WINDOWS))
        return [window.encode() for window in windows[::step]]
    whole = text.strip()
    bare = " ".join(whole.split())  # kept records are searched in this form
    return [whole.encode()] if len(bare.encode()) >= LEAST_BYTES else []


def _windows(run: str) -> Iterator[str]:
    """Yield stretches of whole words, each just long enough; a short line whole."""
    if LINE_BYTES <= len(run.encode()) <= WINDOW_BYTES:
        yield run
        return
    held: list[str] = []
    size = 0
    for word in run.split(" "):
        part = word[:WORD_CHARS]
        held.append(part)
        size += len(part.encode()) + 1
        if size > WINDOW_BYTES or part != word:
            if size > LINE_BYTES:
                yield " ".join(held)
            held, size = [], 0
    if size > LINE_BYTES:
        yield " ".join(held)
