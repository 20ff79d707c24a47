"""Reliability: whether hits with a score of 0.9 are right nine times of ten.

A curve turns evidence and lead into a score, as ranking does. Each conversation gets its scores
from a curve that was fitted on the others. Each data set weighs the same, whatever the number of
its hits.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp

import numpy as np

BUCKETS = 10
STEPS = 50
RIDGE = 1e-6  # holds the slope where a threshold separates right from wrong without an error


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A hit that was shown, and whether it was right."""

    dev_set: str
    conversation: str
    score: float
    evidence: float  # a share of the most that a hit could have
    lead: float  # over the evidence of the best other hit
    right: bool


@dataclass(frozen=True, slots=True)
class Curve:
    """score = 1 / (1 + exp(-(evidence x its weight + lead x its weight + offset)))."""

    evidence: float
    lead: float
    offset: float

    def score(self, evidence: float, lead: float) -> float:
        return 1.0 / (1.0 + exp(-(self.evidence * evidence + self.lead * lead + self.offset)))


@dataclass(frozen=True, slots=True)
class Bucket:
    count: int
    weight: float  # share of all hits
    score: float  # the mean
    right: float  # the share


def fit_curve(shown: Sequence[Shown]) -> Curve:
    """Find the most likely curve, by Newton's method."""
    features = np.array([[each.evidence, each.lead, 1.0] for each in shown])
    right = np.array([float(each.right) for each in shown])
    weights = np.array(_weigh(shown))
    found = np.zeros(3)
    for _ in range(STEPS):
        scores = 1.0 / (1.0 + np.exp(-features @ found))
        gradient = features.T @ (weights * (right - scores)) - RIDGE * found
        spread = weights * scores * (1.0 - scores)
        step = np.linalg.solve((features.T * spread) @ features + RIDGE * np.eye(3), gradient)
        found += step
        if np.abs(step).max() < 1e-9:
            break
    return Curve(*map(float, found))


def cross_validate(shown: Sequence[Shown]) -> list[Shown]:
    """Score the hits of each conversation by a curve that was fitted on all other conversations."""
    scored = []
    for name in dict.fromkeys(each.conversation for each in shown):
        curve = fit_curve([each for each in shown if each.conversation != name])
        scored += [
            replace(each, score=curve.score(each.evidence, each.lead))
            for each in shown
            if each.conversation == name
        ]
    return scored


def sort_into_buckets(shown: Sequence[Shown]) -> list[Bucket | None]:
    """Return a bucket for each tenth of the score; None where there is no hit."""
    held: list[list[tuple[Shown, float]]] = [[] for _ in range(BUCKETS)]
    for each, weight in zip(shown, _weigh(shown), strict=True):
        held[min(BUCKETS - 1, int(each.score * BUCKETS))].append((each, weight))
    return [_average(some) if some else None for some in held]


def measure_error(shown: Sequence[Shown]) -> float:
    """Return how far the score is from the share that is right, on average over the hits."""
    buckets = (each for each in sort_into_buckets(shown) if each is not None)
    return sum(each.weight * abs(each.score - each.right) for each in buckets)


def render_table(shown: Sequence[Shown]) -> str:
    """Render the buckets of each data set and of all together in Markdown."""
    sets = list(dict.fromkeys(each.dev_set for each in shown))
    groups = {name: [each for each in shown if each.dev_set == name] for name in sets}
    groups["all, each set alike"] = list(shown)
    columns = [sort_into_buckets(some) for some in groups.values()]
    lines = [_join(["score", *groups]), _join(["---"] * (len(groups) + 1))]
    for place in range(BUCKETS):
        name = f"{place / BUCKETS:.1f} to {(place + 1) / BUCKETS:.1f}"
        lines.append(_join([name, *(_render(column[place]) for column in columns)]))
    lines.append(_join(["error", *(f"{measure_error(some):.3f}" for some in groups.values())]))
    return "\n".join([*lines, ""])


def _weigh(shown: Sequence[Shown]) -> list[float]:
    counts = Counter(each.dev_set for each in shown)
    return [1.0 / (len(counts) * counts[each.dev_set]) for each in shown]


def _average(some: Sequence[tuple[Shown, float]]) -> Bucket:
    total = sum(weight for _, weight in some)
    return Bucket(
        count=len(some),
        weight=total,
        score=sum(weight * each.score for each, weight in some) / total,
        right=sum(weight * each.right for each, weight in some) / total,
    )


def _render(bucket: Bucket | None) -> str:
    return "" if bucket is None else f"{bucket.count}: {bucket.score:.2f} / {bucket.right:.2f}"


def _join(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
