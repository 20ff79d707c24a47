"""Made-up conversation events with the entropy of real ones, and a file of them ready to send.

Every record of the file is a serialized IngestEventRequest. An IngestEventsRequest of n events is
the same bytes, n of them joined: both messages hold their events in field 1.
"""

import mmap
import random
import uuid
from array import array
from collections.abc import Iterator
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path

from agent_memory.proto import memory_pb2 as pb
from bench import vocabulary

TEXT_BYTES = 500
EVENTS_PER_SESSION = 200
OPEN_SESSIONS = 4  # of one machine at the same time
FIRST_MS = 1_700_000_000_000
DAY_MS = 86_400_000
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PROJECTS = ("/home/sam/shop-api", "/home/sam/notes", "/home/sam/infra", "/srv/billing")
_TOOLS = ("Bash", "Read", "Edit", "Grep", "Write", "WebFetch", "Task")
_PART = 50_000


class Writer:
    """Texts of 500 bytes: prose, code and tool output, mixed like in a coding session."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # seeded: every run sends the same
        function, content, verbs, qualifiers = (
            words.split()
            for words in (
                vocabulary.FUNCTION,
                vocabulary.CONTENT,
                vocabulary.VERBS,
                vocabulary.QUALIFIERS,
            )
        )
        words = _interleaved(
            (function, 3), (content, 4), (verbs, 2), (_inflected(verbs), 2), (qualifiers, 2),
            ([f"{word}s" for word in content], 2),
        )  # fmt: skip
        self._words = words
        self._weights = list(accumulate(1 / (rank + 6) for rank in range(len(words))))

    def text(self) -> str:
        parts: list[str] = []
        size = 0
        while size < TEXT_BYTES:
            draw = self._random.random()
            part = self._prose() if draw < 0.8 else self._code() if draw < 0.9 else self._output()
            parts.append(part)
            size += len(part)
        return "".join(parts)[:TEXT_BYTES]

    def _some(self, count: int) -> list[str]:
        return self._random.choices(self._words, cum_weights=self._weights, k=count)

    def _prose(self) -> str:
        pick = self._random.random
        words = self._some(4 + int(pick() * 14))
        if len(words) > 9:
            words[5] += ","
        if pick() < 0.15:
            words[-2] = f"`{self._name()}`"
        if pick() < 0.1:
            words[2] = str(int(10 ** (pick() * 4)))
        line = " ".join(words)
        if pick() < 0.15:
            return f"{self._random.choice(vocabulary.OPENINGS)}: {line}. "
        stop = "? " if pick() < 0.1 else ". " if pick() < 0.8 else ".\n"
        return f"{line[0].upper()}{line[1:]}{stop}"

    def _code(self) -> str:
        name, other, third, number = self._name(), self._name(), self._some(1)[0], self._number()
        return self._random.choice((
            f"\n```python\ndef {name}({third}: str) -> int:\n    return {other}({third})\n```\n",
            f"\n    if {name} is None:\n        raise ValueError(f\"no {third} in {{{other}}}\")\n",
            f"\n    for {third} in self._{name}:\n        {other}.append({third})\n",
            f"\n-    {name} = {other}({third})\n+    {name} = await {other}({third}, {number})\n",
            f"\n    assert {name}({third}) == {number}\n",
        ))  # fmt: skip

    def _output(self) -> str:
        path, number, other = self._path(), self._number(), self._number()
        return self._random.choice((
            f"\n{path}:{number}: error: {' '.join(self._some(5))}\n",
            f"\nFAILED {path}::test_{self._name()} - assert {number} == {other}\n",
            f"\n$ git show {self._random.getrandbits(28):07x} -- {path}\n",
            f"\n{number} passed, {other % 7} failed in {other / 100:.2f}s\n",
            f"\n-rw-r--r-- 1 sam sam {number * 7} {path}\n",
        ))  # fmt: skip

    def _name(self) -> str:
        return "_".join(self._some(1 + int(self._random.random() * 3))).lower()

    def _path(self) -> str:
        choose = self._random.choice
        return f"{choose(vocabulary.FOLDERS)}/{self._name()}.{choose(vocabulary.ENDINGS)}"

    def _number(self) -> int:
        return int(10 ** (self._random.random() * 4))


def events(
    seed: int, count: int, first_ms: int, events_per_day: int | None = None
) -> Iterator[pb.Event]:
    """Events by time, of a few sessions that run side by side: without a pause, or so many each
    day, from the same hour on."""
    chance = random.Random(seed)
    writer = Writer(seed)
    sessions: list[tuple[str, str]] = []
    at_ms = first_ms
    for number in range(count):
        if number % EVENTS_PER_SESSION == 0 or not sessions:
            session = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            sessions = [*sessions, (session, chance.choice(_PROJECTS))][-OPEN_SESSIONS:]
        if events_per_day and number % events_per_day == 0:
            at_ms = first_ms + number // events_per_day * DAY_MS
        at_ms += int(chance.expovariate(1 / 4_000))
        kind = chance.choices((2, 3, 4), (2, 3, 5))[0]
        session, project = chance.choice(sessions)
        metadata = {"project": project}
        if kind == pb.EVENT_TYPE_TOOL_RESULT:
            metadata["tool_name"] = chance.choice(_TOOLS)
        yield pb.Event(
            event_id=_ulid(at_ms, chance.getrandbits(80)),
            session_id=session,
            timestamp_ms=at_ms,
            event_type=kind,  # type: ignore[arg-type]  # enums are plain numbers on the wire
            role={2: 1, 3: 2, 4: 4}[kind],  # type: ignore[arg-type]
            text=writer.text(),
            metadata=metadata,
        )


def write(
    path: Path,
    count: int,
    *,
    seed: int = 0,
    first_ms: int = FIRST_MS,
    events_per_day: int | None = None,
) -> None:
    """Write a file of `count` records and one of their offsets, on all cores, the same each
    time."""
    # Some 4 s lie between events: this step leaves the parts in order, one after the other.
    step = _PART * 4_200 if events_per_day is None else -(-_PART // events_per_day) * DAY_MS
    parts = [
        (
            path.with_suffix(f".{first}"),
            (seed + number, min(_PART, count - first), first_ms + number * step, events_per_day),
        )
        for number, first in enumerate(range(0, count, _PART))
    ]
    with get_context("spawn").Pool() as pool:
        sizes = pool.starmap(_write_part, parts)
    offsets = array("Q", accumulate((size for part in sizes for size in part), initial=0))
    with path.open("wb") as whole:
        for part, _ in parts:
            whole.write(part.read_bytes())
            part.unlink()
    path.with_suffix(".offsets").write_bytes(offsets.tobytes())


class Corpus:
    """The records of a written file."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        self._offsets = array("Q")
        self._offsets.frombytes(path.with_suffix(".offsets").read_bytes())

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def joined(self, first: int, count: int) -> bytes:
        """Return the records from `first` on as one message."""
        end = min(first + count, len(self))
        if end <= first:
            raise IndexError("the corpus is used up: make a larger one")
        return self._bytes[self._offsets[first] : self._offsets[end]]

    def event(self, number: int) -> pb.Event:
        return pb.IngestEventRequest.FromString(self.joined(number, 1)).event


def _write_part(path: Path, which: tuple[int, int, int, int | None]) -> list[int]:
    records = [pb.IngestEventRequest(event=event).SerializeToString() for event in events(*which)]
    path.write_bytes(b"".join(records))
    return [len(record) for record in records]


def _ulid(at_ms: int, entropy: int) -> str:
    number = at_ms << 80 | entropy
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def _inflected(verbs: list[str]) -> list[str]:
    return [
        form
        for verb in verbs
        for form in (
            f"{verb.removesuffix('e')}ing",
            f"{verb}d" if verb.endswith("e") else f"{verb}ed",
        )
    ]


def _interleaved(*lists: tuple[list[str], int]) -> list[str]:
    """One ranking out of several: from each list in turn as many words as its share says."""
    queues = [(iter(words), share) for words, share in lists]
    ranked: dict[str, None] = {}
    while queues:
        still = []
        for words, share in queues:
            taken = [word for _, word in zip(range(share), words, strict=False)]
            ranked.update(dict.fromkeys(taken))
            if len(taken) == share:
                still.append((words, share))
        queues = still
    return list(ranked)
