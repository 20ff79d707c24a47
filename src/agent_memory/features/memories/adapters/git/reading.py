"""Read the texts of notes; large ones in the worker process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agent_memory.features.memories.adapters.git import legacy_formats, records, refs
from agent_memory.features.memories.adapters.git.records import ForeignText, Part
from agent_memory.features.memories.model.memories import Draft, Home
from agent_memory.kernel.errors import GitFailed, WorkerClosed, WorkerFailed
from agent_memory.kernel.ids import Domain
from agent_memory.platform.ports import Worker

INLINE_BYTES = 64 << 10  # about a hundred records: 15 ms of Python
CHUNK_BYTES = 1 << 20
MIN_SECONDS = 60.0
BYTES_PER_SECOND = 256 << 10  # a tenth of the usual speed

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class NoteReader:
    """Reader of one domain's texts in one repository."""

    home: Home
    domain: Domain
    worker: Worker | None

    def parse_text(self, text: bytes, namespace: str) -> list[Part]:
        if len(text) <= CHUNK_BYTES:  # true of every page: do not queue for the worker
            return records.parse(text, self.domain, namespace)
        return self.read(parse_parts, [text], namespace)[0]

    def read(
        self,
        function: Callable[[Sequence[bytes], Domain, str], list[R]],
        texts: Iterable[bytes],
        namespace: str,
    ) -> list[R]:
        """Apply a pure function to each text, in the worker if there is much."""
        results: list[R] = []
        for chunk in _chunks(texts):
            size = sum(map(len, chunk))
            if self.worker is not None and size > INLINE_BYTES:
                results += self._read_in_worker(self.worker, function, chunk, namespace, size)
            else:
                results += function(chunk, self.domain, namespace)
        return results

    def _read_in_worker(
        self,
        worker: Worker,
        function: Callable[[Sequence[bytes], Domain, str], list[R]],
        chunk: Sequence[bytes],
        namespace: str,
        size: int,
    ) -> list[R]:
        seconds = MIN_SECONDS + size / BYTES_PER_SECOND
        try:
            return worker.call(function, chunk, self.domain, namespace, timeout_seconds=seconds)
        except WorkerClosed:
            return function(chunk, self.domain, namespace)
        except WorkerFailed as exc:  # do not retry in this process: the text may be the cause
            ref = refs.name_of(namespace)
            raise GitFailed(
                f"{ref} of {self.home} cannot be read: {exc}; git notes --ref={ref} list shows its"
                " notes: remove the one that you do not need"
            ) from exc


def parse_drafts(texts: Sequence[bytes], domain: Domain, namespace: str) -> list[list[Draft]]:
    """Parse drafts from foreign text only: a record may quote an entry in a legacy format."""
    return [
        [
            draft
            for part in records.parse(text, domain, namespace)
            if isinstance(part, ForeignText)
            for draft in legacy_formats.parse_drafts(part.data)
        ]
        for text in texts
    ]


def parse_parts(texts: Sequence[bytes], domain: Domain, namespace: str) -> list[list[Part]]:
    return [records.parse(text, domain, namespace) for text in texts]


def _chunks(texts: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
