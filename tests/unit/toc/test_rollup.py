"""The rollup calls its summarizers as seldom as possible."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model import extracting
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.model.summaries import Dialogue, Digest, PeriodSummary, Summary
from agent_memory.features.toc.model.toc import TocChange
from agent_memory.features.toc.services.rollup import Rollup
from tests.contract.stores import memory
from tests.toc_harness import SetClock


class Counting:
    """The extractive summarizer in this process, which counts its calls."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[int] = []

    def summarize(self, conversations: Sequence[Dialogue], /) -> list[Summary]:
        return [extracting.summarize(each.utterances, each.overlap) for each in conversations]

    def digest(self, periods: Sequence[PeriodSummary], /) -> list[Digest]:
        self.asked.append(len(periods))
        return [extracting.digest(period) for period in periods]


NOON = SetClock(1_772_539_200_000)  # 3 March 2026


def test_periods_of_a_level_are_digested_together_and_those_that_run_apart(tmp_path: Path) -> None:
    with closing(memory(tmp_path)) as store:
        toc = StoredToc(store)
        draft, final = Counting("draft"), Counting("final")
        days = [f"toc:day:2026-03-{day:02}" for day in (1, 2, 3)]
        toc.commit(TocChange(dirty=frozenset(NodeId(day) for day in days)))

        done = Rollup(reader=toc, writer=toc, drafter=draft, summarizer=final, clock=NOON).run(
            lambda _: None
        )

    assert done == 3
    assert (draft.asked, final.asked) == ([1], [2])
