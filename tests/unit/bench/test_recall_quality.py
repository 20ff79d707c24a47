"""What the benchmark of recall counts as right, and what it makes of it."""

import re
from collections.abc import Mapping

import pytest

from agent_memory.client import SearchHit
from agent_memory.features.recall.model import ranking
from bench import recall_quality
from bench.dev_sets import Question
from bench.recall_quality import ECHO, HYBRID, Answer, Found

QUESTION = Question(
    text="Where is it?", category="one", gold=frozenset({"e1"}), answers=(re.compile("cellar"),)
)


def hit(
    kind: str, *, event_id: str = "", text: str = "", parts: Mapping[str, float], session: str = "s"
) -> SearchHit:
    given = {
        "kind": kind,
        "id": "id",
        "score": 0.5,
        "event_id": event_id,
        "session_id": session,
        "text": text,
        "score_parts": parts,
        "truncated": False,
        "timestamp_ms": 0,
        "relates_to": (),
        "tags": (),
    }
    rest = {name: "" for name in SearchHit.__dataclass_fields__ if name not in given}
    return SearchHit(**{**rest, **given, "passage": None})  # type: ignore[arg-type]


def found(*right: bool) -> list[Found]:
    return [Found(id=str(place), right=each) for place, each in enumerate(right)]


class TestJudge:
    def test_an_event_is_right_by_its_id(self) -> None:
        assert recall_quality.judge(hit("event", event_id="e1", parts={}), QUESTION).right
        other = hit("event", event_id="e2", text="in the cellar", parts={})
        assert not recall_quality.judge(other, QUESTION).right

    def test_another_kind_is_right_by_its_text(self) -> None:
        told = hit("segment", event_id="e2", text="in the cellar", parts={})
        assert recall_quality.judge(told, QUESTION).right
        assert not recall_quality.judge(hit("segment", event_id="e1", parts={}), QUESTION).right

    def test_a_summary_of_the_prompts_is_wrong(self) -> None:
        echoed = hit("segment", text="in the cellar", parts={}, session=ECHO)
        assert not recall_quality.judge(echoed, QUESTION).right


class TestEvidence:
    def test_the_parts_are_added_up(self) -> None:
        parts = {"words": 0.4, "meaning": 0.3, "speaker": 0.15, "time": 0.1}
        total = 0.4 + ranking.MEANING * 0.3 + 0.15 + 0.1
        assert recall_quality.weigh_evidence("event", parts) == pytest.approx(total)

    @pytest.mark.parametrize(
        ("kind", "factor"), [("memory", ranking.DECIDED), ("segment", ranking.SUMMARIZED)]
    )
    def test_a_kind_has_its_factor(self, kind: str, factor: float) -> None:
        assert recall_quality.weigh_evidence(kind, {"words": 0.5}) == pytest.approx(factor * 0.5)

    def test_a_hit_that_is_listed_for_its_time_has_none(self) -> None:
        assert recall_quality.weigh_evidence("event", {"time": 1.0}) is None


class TestMeasures:
    def test_recall_is_the_share_of_the_gold(self) -> None:
        at_5, at_10, ndcg = recall_quality.measure_recall(found(*[False] * 5, True), gold=2)
        assert (at_5, at_10) == (0.0, 0.5)
        assert 0.0 < ndcg < 0.5

    def test_the_best_order_has_a_gain_of_one(self) -> None:
        assert recall_quality.measure_recall(found(True, True, False), gold=2) == (1.0, 1.0, 1.0)

    def test_a_hit_is_counted_once(self) -> None:
        assert recall_quality.measure_hits(found(True, True), 5) == (1.0, 1.0)
        assert recall_quality.measure_hits(found(False, True), 1) == (0.0, 1.0)
        assert recall_quality.measure_hits([], 1) == (0.0, 0.0)


def test_a_column_that_takes_no_part_is_a_dash() -> None:
    answer = Answer(
        dev_set="d",
        conversation="c",
        category="one",
        question="?",
        gold=1,
        found={HYBRID: found(True)},
    )
    assert recall_quality.average([answer], "BM25", recall_quality.measure_hits) == "-"
    assert recall_quality.average([answer], HYBRID, recall_quality.measure_hits) == "100.0 / 100.0"
