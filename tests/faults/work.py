"""Mixed work on a daemon, by seed: all that is acknowledged goes into a ledger."""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path

from agent_memory.features.hooks.adapters.spool import SpoolFolder
from agent_memory.features.hooks.services.spooling import Spooling
from agent_memory.features.secrets.adapters.factory import build_filter
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.interfaces.hooks import inputs
from agent_memory.interfaces.hooks.inputs import Delivery
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.proto import memory_pb2 as pb
from tests.faults.callers import Callers, now_ms
from tests.faults.ledger import Key, Kind, Ledger, Unacknowledged, Value
from tests.hook_inputs import encode_claude
from tests.memory_client import message
from tests.toc_conversations import ROLLUP, SEGMENTS

SCOPE = "project:faults"
START_MS = 1_760_000_000_000
FACTS = 12
THREADS = 4
BULK = 40


@dataclass(slots=True)
class Work:
    """Steps that a seed chooses. `bulk` is how many events one message of a stream has."""

    ledger: Ledger
    folder: Path  # of the project
    spool: Path
    backups: Path
    seed: int
    bulk: int = BULK
    _numbers: Iterator[int] = field(default_factory=count)

    def do(self, callers: Callers, steps: int, alive: Callable[[], bool]) -> None:
        """So many steps, each kind of them among any twelve, while the daemon lives."""
        dice = random.Random(self.seed)
        kinds: list[Callable[[Callers, random.Random], None]] = []
        for _ in range(steps):
            if not kinds:
                kinds = [
                    *(self.ingest_one, self.ingest_one, self.ingest_many, self.ingest_many),
                    *(self.hook, self.spooled_hook, self.capture, self.claim, self.checkpoint),
                    *(self.forget, self.sync, self.tend),
                ]
                dice.shuffle(kinds)
            if callers.gave_up or not alive():
                return
            kinds.pop()(callers, dice)

    def ingest_one(self, callers: Callers, dice: random.Random) -> None:
        self._ingest(callers, [self._event(dice)])

    def ingest_many(self, callers: Callers, dice: random.Random) -> None:
        self._ingest(callers, [self._event(dice) for _ in range(self.bulk)])

    def hook(self, callers: Callers, dice: random.Random) -> None:
        """As a launcher does it: into the spool where no daemon answers."""
        self._hook(dice, callers.hook)

    def spooled_hook(self, callers: Callers, dice: random.Random) -> None:
        self._hook(dice, lambda *_: False)
        if dice.random() < 0.7:
            callers.drain()

    def capture(self, callers: Callers, dice: random.Random) -> None:
        number = next(self._numbers)
        summary = f"Berth {self.seed}-{number} is for ship {dice.randrange(1 << 30):x}"
        content = f"Asked for by harbour {number}.\n" * dice.choice((1, 5, 60))
        namespace = dice.choice(("decisions", "learnings"))
        domain = dice.choice(("project", "project", "user"))
        words = ("capture", namespace, summary, "--content", content, "--domain", domain)
        with self.ledger.sending({(Kind.MEMORY, summary): digest(content.strip().encode())}):
            callers.memory(*words)

    def claim(self, callers: Callers, dice: random.Random) -> None:
        key, value = f"key-{dice.randrange(FACTS)}", f"value {self.seed}-{next(self._numbers)}"
        with self.ledger.sending({(Kind.FACT, key): value}):
            callers.claim(SCOPE, key, value)

    def checkpoint(self, callers: Callers, dice: random.Random) -> None:
        thread, number = f"thread-{dice.randrange(THREADS)}", next(self._numbers)
        blob = dice.randbytes(dice.choice((10, 3_000, 100_000)))
        key = Kind.CHECKPOINT, f"{thread}/{self.seed}-{number}"
        with self.ledger.sending({key: digest(blob)}):
            callers.put_checkpoint(thread, f"{self.seed}-{number}", blob)

    def forget(self, callers: Callers, dice: random.Random) -> None:
        kind = dice.choice((Kind.EVENT, Kind.MEMORY))
        there = sorted(self.ledger.present(kind))
        if not there:
            return
        name = dice.choice(there)
        if kind is Kind.EVENT:
            with self.ledger.sending({(kind, name): None}):
                callers.memory("forget", "--event", name, "--yes")
            return
        try:
            listed = callers.memory("list", "--limit", "100000")["memories"]
        except Unacknowledged:
            return
        ids = [each["id"] for each in listed if each["summary"] == name]
        if ids:
            with self.ledger.sending({(kind, name): None}):
                callers.memory("forget", ids[0], "--yes")

    def sync(self, callers: Callers, dice: random.Random) -> None:
        options = ("--remote",) if dice.random() < 0.6 else ()
        with self.ledger.sending({}):
            callers.memory("sync", "--domain", dice.choice(("project", "all")), *options)

    def tend(self, callers: Callers, dice: random.Random) -> None:
        """The table of contents, files rewritten, a backup."""
        what = dice.choice((self._compact, run_toc_jobs, self._back_up))
        with self.ledger.sending({}):
            what(callers)

    def _compact(self, callers: Callers) -> None:
        callers.daemon("admin", "compact")

    def _back_up(self, callers: Callers) -> None:
        """A snapshot is acknowledged by its name, which is known once it is made."""
        taken = callers.daemon("admin", "backup", str(self.backups))
        with self.ledger.sending({(Kind.BACKUP, Path(taken["path"]).name): "whole"}):
            pass

    def _ingest(self, callers: Callers, events: list[pb.Event]) -> None:
        values: dict[Key, Value] = {(Kind.EVENT, each.event_id): shown(each) for each in events}
        with self.ledger.sending(values):
            callers.ingest(events)

    def _hook(self, dice: random.Random, tell: Callable[[bytes, str, int], bool]) -> None:
        text = f"Is quay {self.seed}-{next(self._numbers)} free? {dice.randrange(1 << 40):x}"
        given = encode_claude(
            "UserPromptSubmit", session=f"hooks-{self.seed}", folder=self.folder, prompt=text
        )
        nonce, at_ms = f"{self.seed}-{text}", now_ms()
        with self.ledger.sending({(Kind.HOOK, text): "once"}):
            if not tell(given, nonce, at_ms):
                self._leave_in_spool(given, nonce, at_ms)

    def _leave_in_spool(self, given: bytes, nonce: str, at_ms: int) -> None:
        """As `hook_fallback` does it, in a process of its own."""
        delivery = Delivery(
            name="user-prompt",
            agent="",
            folder=str(self.folder),
            environ={},
            nonce=nonce,
            at_ms=at_ms,
            data=given,
        )
        spooling = Spooling(spool=SpoolFolder(self.spool), secrets=_filter())
        try:
            spooling.keep(inputs.parse_delivery(delivery).call)
        except (AgentMemoryError, OSError) as exc:
            raise Unacknowledged(repr(exc)) from exc

    def _event(self, dice: random.Random) -> pb.Event:
        number = next(self._numbers)
        words = " ".join(dice.choice(WORDS) for _ in range(dice.choice((3, 5, 12))))
        return message(
            f"e-{self.seed}-{number}",
            START_MS + self.seed * 60_000 % 10**9 + number * 1_000,
            f"{words} mark{self.seed}x{number}",
            session_id=f"session-{self.seed}-{number // 50}",
        )


WORDS = ("anchor", "berth", "crane", "dredger", "eddy", "ferry", "gangway", "hawser", "island")


@cache
def _filter() -> SecretsFilter:
    return build_filter("redact", ())


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def shown(event: pb.Event) -> str:
    """All of an event, to be compared."""
    return digest(event.SerializeToString(deterministic=True))


def run_toc_jobs(callers: Callers) -> None:
    for name in (SEGMENTS, ROLLUP):
        callers.daemon("scheduler", "run", name)
