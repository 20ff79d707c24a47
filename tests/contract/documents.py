"""Documents and scopes for tests of indexes: builders, strategies, a writer to kill."""

import math
import resource
import struct
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner, build_key
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import HIDDEN, SearchScope
from agent_memory.kernel.ids import MAX_MILLIS, Millis
from agent_memory.kernel.text import analysis

ANYTHING = SearchScope(statuses=frozenset({"", "active", "draft", *HIDDEN}))  # the hidden ones too
COMMON = "everywhere"  # a word that every generated text has
(COMMON_TERM,) = analysis.extract_terms(COMMON)
LONG = "n" * 1_500
SEGMENT = Owner("segment:the-one")
_MEMORY_DISK = Path("/dev/shm")  # noqa: S108


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder, on a disk in memory if there is one, where frequent syncs are fast."""
    parent = _MEMORY_DISK if _MEMORY_DISK.is_dir() else None
    # An index may still write while its folder is removed.
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def document(
    name: str, text: str = COMMON, *, kind: DocumentKind = DocumentKind.EVENT, **fields: Any
) -> Document:
    """Build a document that owns itself, unless `owner` names another."""
    fields = {"owner": Owner(build_key(kind, name)), "at_ms": Millis(1), **fields}
    return Document(kind=kind, id=name, text=text, **fields)


def by_owner(documents: Iterable[Document]) -> dict[Owner, list[Document]]:
    owned: dict[Owner, list[Document]] = {}
    for document in documents:
        owned.setdefault(document.owner, []).append(document)
    return owned


def unit(*values: float) -> Vector:
    size = math.sqrt(sum(value * value for value in values))
    return Vector(struct.pack(f"<{len(values)}f", *(value / size for value in values)))


# Few values, so that filters match; some differ only where an index could cut them off.
_NAMES = ("", "a", "b", "A", "a b", "ä", "a:b", LONG, LONG + "x", "sha256:0")
_DOMAINS = ("", "project", "project:x", "project:y", "org:x", "org", "projectile", ":x")
_STATUSES = ("", "active", "draft", *sorted(HIDDEN))
_TAGS = ("t", "T", "t u", "ü", LONG)
_TIMES = (0, 1, 2, 1_700_000_000_000, MAX_MILLIS - 1, MAX_MILLIS)

_names = st.sampled_from(_NAMES)
_times = st.sampled_from(_TIMES).map(Millis)
_tags = st.frozensets(st.sampled_from(_TAGS), max_size=3)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def _mostly(value: Any, other: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw mostly `value`, so that several filters together still admit something."""
    return st.one_of(st.just(value), st.just(value), st.just(value), other)


@st.composite
def _document(draw: st.DrawFn, number: int) -> Document:
    kind = draw(st.sampled_from(DocumentKind))
    own = Owner(build_key(kind, f"d{number}"))
    return document(
        f"d{number}",
        f"{draw(_texts)} {COMMON} {draw(_texts)}",
        kind=kind,
        owner=SEGMENT if kind is DocumentKind.GRIP else own,
        at_ms=draw(_times),
        title=draw(_texts),
        session=draw(_names),
        project=draw(_names),
        agent=draw(_names),
        role=draw(_names),
        namespace=draw(_names),
        domain=draw(st.sampled_from(_DOMAINS)),
        spec=draw(_names),
        status=draw(st.sampled_from(_STATUSES)),
        tags=draw(_tags),
    )


@st.composite
def documents(draw: st.DrawFn, most: int = 12) -> list[Document]:
    """Draw documents of every kind, all with the common word and with different keys."""
    return [draw(_document(number)) for number in range(draw(st.integers(0, most)))]


@st.composite
def scopes(draw: st.DrawFn) -> SearchScope:
    since, until = sorted((draw(_mostly(0, _times)), draw(_mostly(MAX_MILLIS, _times))))
    nothing: frozenset[Any] = frozenset()
    return SearchScope(
        kinds=draw(_mostly(nothing, st.frozensets(st.sampled_from(DocumentKind), max_size=3))),
        project=draw(_mostly("", _names)),
        session=draw(_mostly("", _names)),
        agent=draw(_mostly("", _names)),
        role=draw(_mostly("", _names)),
        namespace=draw(_mostly("", _names)),
        domains=draw(_mostly(nothing, st.frozensets(st.sampled_from(_DOMAINS), max_size=2))),
        spec=draw(_mostly("", _names)),
        statuses=draw(_mostly(nothing, st.frozensets(st.sampled_from(_STATUSES), max_size=3))),
        tags=draw(_mostly(nothing, _tags)),
        since=Millis(since),
        until=Millis(until),
    )


@st.composite
def documents_and_scope(draw: st.DrawFn) -> tuple[list[Document], SearchScope]:
    """Draw documents with any scope, or with one that admits one of them."""
    drawn = draw(documents())
    scope = draw(scopes())
    if not drawn or draw(st.booleans()):
        return drawn, scope
    like = draw(st.sampled_from(drawn))
    names = ("project", "session", "agent", "role", "namespace", "spec")
    fields: dict[str, Any] = {name: getattr(like, name) for name in names if draw(st.booleans())}
    if like.domain and draw(st.booleans()):
        fields |= {"domains": frozenset({like.domain})}
    if draw(st.booleans()):
        fields |= {"tags": like.tags, "kinds": frozenset({like.kind})}
    if draw(st.booleans()):
        fields |= {"since": like.at_ms, "until": like.at_ms}
    return drawn, SearchScope(
        statuses=frozenset({like.status}) if like.status else frozenset(), **fields
    )


def batch_of(number: int) -> dict[Owner, Sequence[Document]]:
    """Build the batch of this cursor: a document that stays, and some that change every time."""
    stays = document(f"stays-{number}")
    grips = [
        document(f"changes-{number}-{part}", kind=DocumentKind.GRIP, owner=SEGMENT)
        for part in range(number % 4)
    ]
    return {stays.owner: [stays], SEGMENT: grips}


def after_batches(number: int) -> set[str]:
    """Return the ids in an index with this cursor."""
    stays = {f"stays-{batch}" for batch in range(1, number + 1)}
    return stays | {f"changes-{number}-{part}" for part in range(number % 4)}


def write_until_killed(folder: str) -> None:
    """Commit batch after batch, and print the number of each."""
    index = TantivyIndex(Path(folder))
    for number in count((index.cursor() or 0) + 1):
        index.replace(batch_of(number), cursor=number)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
