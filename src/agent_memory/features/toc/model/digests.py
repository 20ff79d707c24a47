"""Digests: extractive summaries of a period from those of its children."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from agent_memory.features.toc.model.highlights import Highlight
from agent_memory.features.toc.model.summaries import (
    ChildSummary,
    Digest,
    DigestBullet,
    PeriodSummary,
)
from agent_memory.kernel.text import phrases

MAX_BULLETS = 5
MAX_BULLETS_OF_MANY = 7  # if there are more children than bullets
MAX_KEYWORDS = 12
MAX_TEXT = 320  # characters of the summary, one or two sentences
MAX_MORE = 20  # key phrases in the second sentence
ALIKE = 0.6  # share of common terms at which two bullets are merged
MAX_COMPARED = 50  # bullets compared for each term: a more frequent term means little

_KNOWN = 0.3  # value of a bullet that adds no term


@dataclass(slots=True)
class _MergedBullet:
    bullet: Highlight
    stems: frozenset[str]
    child: int
    order: int


def digest(period: PeriodSummary) -> Digest:
    """Summarize a period: the heaviest bullets of its children, each new, from many children."""
    children = period.children
    rest = _merge_bullets(children)
    limit = MAX_BULLETS if len(children) <= MAX_BULLETS else MAX_BULLETS_OF_MANY
    taken: Counter[int] = Counter()
    seen: set[str] = set()
    selected: list[_MergedBullet] = []
    while rest and len(selected) < limit:
        best = max(rest, key=lambda merged: _appeal(merged, seen, taken[merged.child]))
        rest.remove(best)
        selected.append(best)
        taken[best.child] += 1
        seen |= best.stems
    highlights = tuple(
        merged.bullet for merged in sorted(selected, key=lambda merged: merged.order)
    )
    bullets = tuple(
        DigestBullet(
            text=highlight.text,
            grip_ids=highlight.grip_ids,
            weight=highlight.weight,
            kind=highlight.kind,
        )
        for highlight in highlights
    )
    keywords = _keywords(children)
    lead = max(bullets, key=lambda bullet: bullet.weight).text if bullets else ""
    text = write_brief(lead, keywords, [bullet.text for bullet in bullets])
    return Digest(text=text, bullets=bullets, highlights=highlights, keywords=keywords)


def write_brief(lead: str, keys: Iterable[str], bullets: Iterable[str]) -> str:
    """Return the lead, and a second sentence with the key phrases that the bullets lack."""
    text = lead if not lead or lead[-1] in ".!?…。\uff01\uff1f" else lead + "."
    shown = " ".join([text, *bullets]).casefold()
    room = MAX_TEXT - len(text) - len(" Also: .")
    more: list[str] = []
    for key in keys:
        if key.casefold() in shown:
            continue
        room -= len(key) + 2
        if room < 0 or len(more) == MAX_MORE:
            break
        more.append(key)
    return f"{text} Also: {', '.join(more)}.".lstrip() if more else text


def _merge_bullets(children: Sequence[ChildSummary]) -> list[_MergedBullet]:
    """Return the children's bullets; similar ones are merged, with the grips of all."""
    merged: list[_MergedBullet] = []
    having: dict[str, list[int]] = {}
    for number, child in enumerate(children):
        for bullet in child.highlights:
            if not bullet.grip_ids:
                continue  # nothing supports it
            stems = _stems(bullet.text)
            same = _find_similar(stems, merged, having)
            if same is None:
                for stem in stems:
                    having.setdefault(stem, []).append(len(merged))
                own = replace(bullet, grip_ids=tuple(dict.fromkeys(bullet.grip_ids)))
                merged.append(_MergedBullet(own, stems, number, len(merged)))
            else:
                same.bullet = _unite_bullets(same.bullet, bullet)
    return merged


def _find_similar(
    stems: frozenset[str], merged: Sequence[_MergedBullet], having: dict[str, list[int]]
) -> _MergedBullet | None:
    shared: Counter[int] = Counter()
    for stem in stems:
        shared.update(having.get(stem, ())[:MAX_COMPARED])
    alike = [
        number
        for number, common in shared.items()
        if common >= ALIKE * (len(stems) + len(merged[number].stems) - common)
    ]
    return merged[min(alike)] if alike else None


def _unite_bullets(known: Highlight, other: Highlight) -> Highlight:
    """Merge two bullets into the heavier one, with the grips of both."""
    heavier = other if other.weight > known.weight else known
    return replace(heavier, grip_ids=tuple(dict.fromkeys(known.grip_ids + other.grip_ids)))


def _appeal(merged: _MergedBullet, seen: set[str], taken: int) -> tuple[float, int]:
    fresh = len(merged.stems - seen) / len(merged.stems)
    return merged.bullet.weight * (_KNOWN + (1 - _KNOWN) * fresh) / (1 + 0.5 * taken), -merged.order


def _keywords(children: Sequence[ChildSummary]) -> tuple[str, ...]:
    """Return the keywords, ranked by how many children have them and how early."""
    score: dict[frozenset[str], float] = {}
    shown: dict[frozenset[str], str] = {}
    for child in children:
        for rank, keyword in enumerate(dict.fromkeys(child.keywords)):
            stems = _stems(keyword)
            score[stems] = score.get(stems, 0.0) + 1.0 / (1.0 + 0.25 * rank)
            shown.setdefault(stems, keyword)
    ordered = sorted(score, key=lambda stems: -score[stems])
    return tuple(shown[stems] for stems in ordered[:MAX_KEYWORDS])


@lru_cache(maxsize=1 << 13)  # a day is summarized again with each of its segments
def _stems(text: str) -> frozenset[str]:
    return frozenset(phrases.split_words(text).stems) or frozenset({text})
