"""How the search indexes are described in `status`."""

import pytest

from agent_memory.interfaces.cli.index_status import describe_embedding
from agent_memory.kernel.status import IndexesStatus, IndexStats

EMBEDDED = IndexStats(documents=1_204, size_bytes=1)


def status(vectors: IndexStats | None, **waiting: int) -> IndexesStatus:
    return IndexesStatus(
        words=EMBEDDED,
        words_waiting=0,
        vectors=vectors,
        vectors_waiting=sum(waiting.values()),
        waiting_by_kind=waiting,
        model="",
        doing="",
        trouble="",
    )


@pytest.mark.parametrize(
    ("indexes", "said"),
    [
        (status(None), "nothing is embedded (embedder.provider is none)"),
        (status(EMBEDDED), "1,204 documents embedded, nothing waiting"),
        (
            status(EMBEDDED, tool_results=776),
            (
                "1,204 of 1,980 embedded; memories, lessons, your words, answers and segments done,"
                " tool results left"
            ),
        ),
        (
            status(EMBEDDED, answers=1, segments=2, tool_results=3),
            (
                "1,204 of 1,210 embedded; memories, lessons and your words done,"
                " answers, segments and tool results left"
            ),
        ),
        (
            status(
                EMBEDDED, memories=1, prompts=1, answers=1, segments=1, tool_results=1, lessons=1
            ),
            "1,204 of 1,210 embedded; some of each kind left",
        ),
    ],
)
def test_it_says_how_far_embedding_is(indexes: IndexesStatus, said: str) -> None:
    assert describe_embedding(indexes) == said
