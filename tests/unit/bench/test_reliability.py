"""How far scores can be trusted: buckets, the curve, and its cross-validation."""

import random

import pytest

from bench import reliability
from bench.reliability import Curve, Shown

TRUE = Curve(4.0, 6.0, -3.0)


def shown(
    score: float = 0.5,
    *,
    right: bool,
    evidence: float = 0.0,
    lead: float = 0.0,
    of: str = "one",
) -> Shown:
    return Shown(
        dev_set=of, conversation=of, score=score, evidence=evidence, lead=lead, right=right
    )


def draw(curve: Curve, count: int, of: str) -> list[Shown]:
    """Draw hits that are right as often as the curve says."""
    chance = random.Random(of)
    features = [(chance.uniform(0.0, 1.5), chance.uniform(-0.5, 0.5)) for _ in range(count)]
    return [
        shown(
            right=chance.random() < curve.score(evidence, lead),
            evidence=evidence,
            lead=lead,
            of=of,
        )
        for evidence, lead in features
    ]


class TestBuckets:
    def test_a_bucket_has_its_mean_and_its_share(self) -> None:
        buckets = reliability.sort_into_buckets(
            [shown(0.41, right=True), shown(0.49, right=False), shown(0.5, right=True)]
        )
        assert [place for place, bucket in enumerate(buckets) if bucket] == [4, 5]
        assert buckets[4] is not None
        assert buckets[4].count == 2
        assert buckets[4].score == pytest.approx(0.45)
        assert buckets[4].right == pytest.approx(0.5)

    def test_the_highest_score_is_in_the_last_bucket(self) -> None:
        assert reliability.sort_into_buckets([shown(1.0, right=True)])[-1] is not None

    def test_each_set_weighs_the_same(self) -> None:
        large = [shown(0.55, right=False, of="large") for _ in range(99)]
        bucket = reliability.sort_into_buckets([*large, shown(0.55, right=True, of="small")])[5]
        assert bucket is not None
        assert bucket.count == 100
        assert bucket.right == pytest.approx(0.5)


class TestError:
    def test_none_where_the_shares_are_the_scores(self) -> None:
        hits = [shown(0.75, right=number < 3) for number in range(4)]
        assert reliability.measure_error(hits) == pytest.approx(0.0)

    def test_it_is_the_distance_averaged_over_the_hits(self) -> None:
        hits = [*(shown(0.9, right=False) for _ in range(3)), shown(0.1, right=False)]
        assert reliability.measure_error(hits) == pytest.approx((3 * 0.9 + 0.1) / 4)


class TestCurve:
    def test_the_fit_finds_the_curve_that_hits_were_drawn_from(self) -> None:
        found = reliability.fit_curve(draw(TRUE, 20_000, "one"))
        assert found.evidence == pytest.approx(TRUE.evidence, rel=0.05)
        assert found.lead == pytest.approx(TRUE.lead, rel=0.05)
        assert found.offset == pytest.approx(TRUE.offset, rel=0.05)

    def test_a_clean_threshold_has_a_curve_too(self) -> None:
        hits = [shown(right=number > 50, evidence=number / 100) for number in range(100)]
        curve = reliability.fit_curve(hits)
        assert curve.score(0.2, 0.0) < 0.01
        assert curve.score(0.8, 0.0) > 0.99

    def test_a_large_set_does_not_decide_alone(self) -> None:
        often, seldom = Curve(0.0, 0.0, 2.0), Curve(0.0, 0.0, -2.0)
        hits = [*draw(often, 10_000, "large"), *draw(seldom, 1_000, "small")]
        assert reliability.fit_curve(hits).score(0.7, 0.0) == pytest.approx(0.5, abs=0.05)


class TestCrossValidation:
    def test_a_conversation_does_not_score_itself(self) -> None:
        often, seldom = Curve(0.0, 0.0, 3.0), Curve(0.0, 0.0, -3.0)
        hits = [*draw(often, 500, "often"), *draw(seldom, 500, "seldom")]
        scored = reliability.cross_validate(hits)
        assert max(each.score for each in scored if each.conversation == "often") < 0.2
        assert min(each.score for each in scored if each.conversation == "seldom") > 0.8

    def test_scores_of_similar_conversations_are_reliable(self) -> None:
        hits = [hit for name in "abcd" for hit in draw(TRUE, 3_000, name)]
        scored = reliability.cross_validate(hits)
        assert len(scored) == len(hits)
        assert reliability.measure_error(scored) < 0.02


def test_the_table_has_a_column_for_each_set_and_for_all() -> None:
    hits = [shown(0.96, right=True, of="one"), shown(0.92, right=False, of="two")]
    lines = reliability.render_table(hits).splitlines()
    assert lines[0] == "| score | one | two | all, each set alike |"
    assert lines[-2] == "| 0.9 to 1.0 | 1: 0.96 / 1.00 | 1: 0.92 / 0.00 | 2: 0.94 / 0.50 |"
    assert lines[-1] == "| error | 0.040 | 0.920 | 0.440 |"
