"""Term vectors: the terms of a document with their counts, so that ranking needs no texts."""

from __future__ import annotations

import string
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import Document, DocumentKind
from agent_memory.features.log.model.events import EventRole
from agent_memory.kernel.late_package import LatePackage
from agent_memory.kernel.text import analysis, answering

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = LatePackage("numpy")

MOST_TERMS = 16_384  # distinct terms that are kept of one document, the most frequent
MOST_COUNTED = 255  # occurrences of one term that are counted
_MOST_SPEAKER_TERMS = 255
_ENDING = 20  # characters
_COMPARED = 2_000  # characters that the digest covers
_DISTINCT = 30  # letters that a text needs to have a digest
_MARKS = (string.punctuation + string.whitespace).encode()
_ROLES = ("", *(role.name.lower() for role in EventRole))  # the code on disk is the place here

_ASSISTANT = EventRole.ASSISTANT.name.lower()

_FORMAT = 1
_WHOLE = 255  # a share of 1 on disk
_ASKS, _ENDS_ASKING = 1, 2  # flags
# format, flags, role, speaker terms, non_answer share, terms, words, digest
_HEADER = struct.Struct("<BBBBBIIQ")
_REMEMBERED = 1 << 17  # terms whose hash is kept in memory
_LOW = 0xFFFF  # the part of a hash that is compared first


class TermVector(NamedTuple):  # a question reads 300, and a dataclass takes four times as long
    """What ranking needs to know of a document.

    `digest` is equal for texts that differ only in case, blanks and punctuation; 0 means that
    the text is too short to be compared.
    """

    hashes: NDArray[np.uint32]  # of the terms, sorted
    counts: NDArray[np.uint8]  # of each term, at most MOST_COUNTED
    words: int  # the estimated length of the text
    asks: bool
    ends_asking: bool
    non_answer: float  # share of an answer or a summary that only asks or announces
    speaker: tuple[int, ...]  # hashes of the terms of the speaker's name or role
    digest: int
    role: str


class _Hashes(dict[str, int]):
    """A bounded cache of the hash of each term."""

    def __missing__(self, term: str) -> int:
        if len(self) >= _REMEMBERED:
            self.clear()
        self[term] = hashed = zlib.crc32(term.encode())
        return hashed


_hashes = _Hashes()


def hash_term(term: str) -> int:
    return _hashes[term]


def build(document: Document) -> TermVector:
    """Count the terms of a document.

    Every word is counted, also in a long text: a sample would miss the rare words by which it is
    found.
    """
    text = documents.join_text(document)
    terms = Counter(analysis.extract_terms(text))
    if len(terms) > MOST_TERMS:
        terms = Counter(dict(terms.most_common(MOST_TERMS)))
    hashes = np.fromiter(map(_hashes.__getitem__, terms), np.uint32, len(terms))
    counts = np.fromiter(terms.values(), np.uint32, len(terms))
    order = np.argsort(hashes)
    who = analysis.extract_terms(document.speaker or document.role)
    return TermVector(
        hashes=hashes[order],
        counts=np.minimum(counts[order], MOST_COUNTED).astype(np.uint8),
        words=analysis.estimate_length(text),
        asks=answering.asks(document.text),
        ends_asking=document.text[-_ENDING:].rstrip().endswith("?"),
        non_answer=_measure_non_answer(document),
        speaker=tuple(map(hash_term, who[:_MOST_SPEAKER_TERMS])),
        digest=_digest(document.text),
        role=document.role if document.role in _ROLES else "",
    )


def encode(vector: TermVector) -> bytes:
    flags = _ASKS * vector.asks | _ENDS_ASKING * vector.ends_asking
    header = _HEADER.pack(
        _FORMAT,
        flags,
        _ROLES.index(vector.role),
        len(vector.speaker),
        round(vector.non_answer * _WHOLE),
        len(vector.hashes),
        vector.words,
        vector.digest,
    )
    speaker = struct.pack(f"<{len(vector.speaker)}I", *vector.speaker)
    hashes = vector.hashes.astype("<u4", copy=False)
    return b"".join((header, hashes.tobytes(), speaker, vector.counts.tobytes()))


def decode(value: bytes) -> TermVector:
    """Decode a vector; its arrays are views of `value`.

    Raises ValueError if the value is damaged or has another format.
    """
    try:
        form, flags, role, names, non_answer, terms, words, digest = _HEADER.unpack_from(value)
    except struct.error as exc:
        raise ValueError("a term vector is too short") from exc
    after_hashes = _HEADER.size + 4 * terms
    after_speaker = after_hashes + 4 * names
    if form != _FORMAT or role >= len(_ROLES) or len(value) != after_speaker + terms:
        raise ValueError("a term vector is damaged or has another format")
    return TermVector(
        hashes=np.frombuffer(value, "<u4", terms, _HEADER.size),
        counts=np.frombuffer(value, np.uint8, terms, after_speaker),
        words=words,
        asks=bool(flags & _ASKS),
        ends_asking=bool(flags & _ENDS_ASKING),
        non_answer=non_answer / _WHOLE,
        speaker=struct.unpack_from(f"<{names}I", value, after_hashes),
        digest=digest,
        role=_ROLES[role],
    )


def count(vectors: Sequence[TermVector], terms: Sequence[str]) -> NDArray[np.float32]:
    """Return how often each vector (row) has each term (column)."""
    found = np.zeros((len(vectors), len(terms)), np.float32)
    if not found.size:
        return found
    wanted = np.array([hash_term(term) for term in terms], np.uint32)
    hashes = np.concatenate([vector.hashes for vector in vectors])
    counts = np.concatenate([vector.counts for vector in vectors])
    ends = np.cumsum([len(vector.hashes) for vector in vectors])
    # One lookup per hash leaves few to compare, however many terms there are.
    possible = np.zeros(_LOW + 1, np.bool_)
    possible[wanted & _LOW] = True
    near = np.flatnonzero(possible.take(hashes & _LOW))
    equal, columns = np.nonzero(hashes[near, None] == wanted)
    places = near[equal]
    rows = np.searchsorted(ends, places, side="right")
    np.add.at(found, (rows, columns), counts[places])
    return found


def _measure_non_answer(document: Document) -> float:
    """Return a share in whole steps, as it is stored."""
    if document.role != _ASSISTANT and document.kind is not DocumentKind.SEGMENT:
        return 0.0
    return round(answering.measure_non_answer(document.text) * _WHOLE) / _WHOLE


def _digest(text: str) -> int:
    bare = text[:_COMPARED].lower().encode().translate(None, _MARKS)
    if len(bare) < _DISTINCT:
        return 0
    return int.from_bytes(blake2b(bare, digest_size=8).digest(), "little") or 1
