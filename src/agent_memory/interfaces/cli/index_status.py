"""What the indexes and the table of contents are doing, in words."""

from collections.abc import Iterator, Sequence

from agent_memory.interfaces.cli import rendering
from agent_memory.kernel.status import ContentsStatus, IndexesStatus

_KINDS = {
    "memories": "memories",
    "lessons": "lessons",
    "prompts": "your words",
    "answers": "answers",
    "segments": "segments",
    "tool_results": "tool results",
}


def index_lines(indexes: IndexesStatus) -> Iterator[str]:
    """Describe the search indexes, one line each."""
    yield f"Word index: {_documents(indexes.words.documents, indexes.words_waiting)}"
    yield f"Meaning: {describe_embedding(indexes)}"
    if indexes.doing:
        yield f"Now {indexes.doing}"
    if indexes.trouble:
        yield f"Trouble: {rendering.plain(indexes.trouble)}"


def describe_contents(contents: ContentsStatus) -> str:
    """Say how far the rebuild of the table of contents is."""
    return f"rebuilding, {contents.segments:,} of {rendering.count(contents.total, 'segment')}"


def describe_embedding(indexes: IndexesStatus) -> str:
    """Say how much is embedded, what is done and what is left."""
    if indexes.vectors is None:
        return "nothing is embedded (embedder.provider is none)"
    documents, waiting = indexes.vectors.documents, indexes.vectors_waiting
    if not waiting:
        return f"{rendering.count(documents, 'document')} embedded, nothing waiting"
    left = [name for kind, name in _KINDS.items() if kind in indexes.waiting_by_kind]
    done = [name for name in _KINDS.values() if name not in left]
    state = f"{_join(done)} done, {_join(left)} left" if done else "some of each kind left"
    return f"{documents:,} of {documents + waiting:,} embedded; {state}"


def _join(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _documents(documents: int, waiting: int) -> str:
    return f"{rendering.count(documents, 'document')}, {rendering.count(waiting, 'change')} waiting"
