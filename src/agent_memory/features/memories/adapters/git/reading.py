"""Reading the texts of notes: in the worker process where there is much."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from agent_memory.features.memories.adapters.git import legacy_formats, records, refs
from agent_memory.features.memories.adapters.git.records import Foreign, NoteContents, Outline, Part
from agent_memory.features.memories.model.memories import Draft, Home
from agent_memory.kernel.errors import GitFailed, WorkerClosed, WorkerFailed
from agent_memory.kernel.ids import Domain
from agent_memory.platform.ports import Worker

INLINE_BYTES = 64 << 10  # some hundred records: 15 ms of Python
CHUNK_BYTES = 1 << 20
MIN_SECONDS = 60.0
BYTES_PER_SECOND = 256 << 10  # a tenth of what is usual

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class NoteReader:
    """Of one domain's texts in one repository."""

    home: Home
    domain: Domain
    worker: Worker | None

    def contents(self, texts: Iterable[bytes], namespace: str) -> list[NoteContents]:
        return self._read(records.contents, texts, namespace)

    def outlines(self, texts: Iterable[bytes], namespace: str) -> list[Outline]:
        return self._read(records.outlines, texts, namespace)

    def parts(self, texts: Iterable[bytes], namespace: str) -> list[list[Part]]:
        return self._read(_parts, texts, namespace)

    def parts_of(self, text: bytes, namespace: str) -> list[Part]:
        if len(text) <= CHUNK_BYTES:  # as every page is: not worth waiting for others' work
            return records.parse(text, self.domain, namespace)
        return self.parts([text], namespace)[0]

    def drafts(self, texts: Iterable[bytes], namespace: str) -> list[list[Draft]]:
        return self._read(_drafts, texts, namespace)

    def _read(
        self,
        function: Callable[[Sequence[bytes], Domain, str], list[R]],
        texts: Iterable[bytes],
        namespace: str,
    ) -> list[R]:
        """What a pure function gives for each: where there is much, in the worker."""
        results: list[R] = []
        for chunk in _chunks(texts):
            size = sum(map(len, chunk))
            if self.worker is not None and size > INLINE_BYTES:
                results += self._read_there(self.worker, function, chunk, namespace, size)
            else:
                results += function(chunk, self.domain, namespace)
        return results

    def _read_there(
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
        except WorkerFailed as exc:  # not again in this process: it may be the text
            ref = refs.name_of(namespace)
            raise GitFailed(
                f"{ref} of {self.home} cannot be read: {exc}; git notes --ref={ref} list names its"
                " notes, and one that is not yours to keep can be removed"
            ) from exc


def _drafts(texts: Sequence[bytes], domain: Domain, namespace: str) -> list[list[Draft]]:
    """Of what is no record: a record's content may quote an entry of an earlier layout."""
    return [
        [
            draft
            for part in records.parse(each, domain, namespace)
            if isinstance(part, Foreign)
            for draft in legacy_formats.drafts(part.data)
        ]
        for each in texts
    ]


def _parts(texts: Sequence[bytes], domain: Domain, namespace: str) -> list[list[Part]]:
    return [records.parse(each, domain, namespace) for each in texts]


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
