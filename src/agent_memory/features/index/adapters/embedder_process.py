"""An embedder in a process of its own.

Loading a model and embedding a backlog would hold up the daemon. Questions, live conversations and
the backlog have a lane each, so that none waits for a less urgent one. A backlog is sent in small
parts and rests between them while someone waits: even at the lowest priority it slows down what
runs on the other cores.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import structlog

from agent_memory.features.index.adapters.bge_model import MODEL, THREADS, UNRELATED
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.kernel.errors import EmbedderFailed, WorkerFailed
from agent_memory.platform.foreground import BACKLOG_REST, HOOK_SECONDS, TICK, Foreground, Pacer
from agent_memory.platform.priority import ThreadPriority
from agent_memory.platform.worker.process import ProcessWorker

if TYPE_CHECKING:
    from agent_memory.features.index.adapters.bge import Bge

LANES = (ThreadPriority.NORMAL, ThreadPriority.LOW, ThreadPriority.LOWEST)
QUESTION_SECONDS = 30.0
LIVE_SECONDS = 300.0
BACKLOG_SECONDS = 3_600.0  # a busy machine may leave it next to nothing
LONGEST_WAIT = 2.0  # for a moment without hooks, to load the model
PART_CHARS = 2_000  # of a backlog at once: some 50 ms

T = TypeVar("T")
log = structlog.get_logger()


class EmbedderProcess:
    """Bge in a process that starts on `load` or first use, and again after a crash."""

    model = MODEL
    unrelated = UNRELATED

    def __init__(self, foreground: Foreground | None = None) -> None:
        self._worker = ProcessWorker(LANES)
        self._loaded_pid: int | None = None
        self._foreground = foreground or Foreground()
        self._closed = threading.Event()

    @property
    def pid(self) -> int | None:
        return self._worker.pid

    def embed(self, texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:
        if not texts:
            return []
        if self._loaded_pid is None or self._worker.pid != self._loaded_pid:
            self._wait_for_quiet()
            self.load()  # in the lane of questions, which would wait for a slower one
        if live:
            return self._call(ThreadPriority.LOW, LIVE_SECONDS, _embed, list(texts), True)
        return self._embed_backlog(texts)

    def embed_question(self, text: str, /) -> Vector:
        return self._call(ThreadPriority.NORMAL, QUESTION_SECONDS, _embed_question, text)

    def load(self) -> None:
        """Load the model unless it is loaded. Raises EmbedderFailed."""
        self._call(ThreadPriority.NORMAL, QUESTION_SECONDS, _load)
        self._loaded_pid = self._worker.pid
        log.info("embedder.loaded", model=self.model)

    def close(self) -> None:
        """End the process. A running call fails."""
        self._closed.set()
        self._worker.close()

    def _wait_for_quiet(self) -> None:
        """Wait until no agent calls hook after hook, but not for long: loading takes all cores for
        half a second. A question meanwhile loads the model at once."""
        end = time.monotonic() + LONGEST_WAIT
        while self._foreground.is_busy(HOOK_SECONDS) and time.monotonic() < end:
            if self._closed.wait(TICK) or self._worker.pid is not None:
                return

    def _embed_backlog(self, texts: Sequence[str]) -> list[Vector]:
        pacer = Pacer(
            self._foreground,
            BACKLOG_REST,
            quiet=HOOK_SECONDS,
            delegated=True,
            sleep=self._closed.wait,
        )
        vectors: dict[int, Vector] = {}
        for part in _split(texts):
            some = [texts[place] for place in part]
            made = self._call(ThreadPriority.LOWEST, BACKLOG_SECONDS, _embed, some, False)
            vectors |= zip(part, made, strict=True)
            pacer.give_way()
        return [vectors[place] for place in range(len(texts))]

    def _call(
        self, lane: ThreadPriority, seconds: float, function: Callable[..., T], *arguments: object
    ) -> T:
        try:
            return self._worker.call(function, *arguments, timeout_seconds=seconds, lane=lane)
        except WorkerFailed as exc:
            raise EmbedderFailed(f"{MODEL}: {exc}") from exc


def _split(texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the places of texts, in parts of about `PART_CHARS`.

    The texts of a part are of about the same length, and as many for each thread: none of them
    waits long for the others at the end of a part.
    """
    part: list[int] = []
    size = 0
    for place in sorted(range(len(texts)), key=lambda place: len(texts[place])):
        part.append(place)
        size += len(texts[place])
        if size >= PART_CHARS and len(part) % THREADS == 0:
            yield part
            part, size = [], 0
    if part:
        yield part


# These run in the process.


_CREATING = threading.Lock()


@cache
def _create_embedder() -> "Bge":
    from agent_memory.features.index.adapters.bge import Bge  # noqa: PLC0415  # not in the daemon

    return Bge()


def _get_embedder() -> "Bge":
    with _CREATING:  # lanes may come at once, and the model is large
        return _create_embedder()


def _load() -> None:
    _get_embedder().load()


def _embed(texts: Sequence[str], live: bool) -> list[Vector]:
    return _get_embedder().embed(texts, live=live)


def _embed_question(text: str) -> Vector:
    return _get_embedder().embed_question(text)
