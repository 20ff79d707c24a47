"""Digests: a period in short, from what its children say."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from agent_memory.features.toc.model.summaries import ChildBullet, ChildSummary, Digest
from agent_memory.kernel.text import phrases

MAX_BULLETS = 5
MAX_BULLETS_OF_MANY = 7  # where there are more children than bullets
MAX_KEYWORDS = 12
MAX_TEXT = 320  # characters of the sentence or two that sum up
MAX_MORE = 20  # key phrases in the second sentence
ALIKE = 0.6  # share of terms in common that makes two bullets one
MAX_COMPARED = 50  # bullets compared for each term: a term in more of them tells nothing

_KNOWN = 0.3  # what a bullet is worth that adds no term


@dataclass(slots=True)
class _MergedBullet:
    bullet: ChildBullet
    stems: frozenset[str]
    child: int
    order: int


def digest(children: Sequence[ChildSummary]) -> Digest:
    """A period in short: its children's heaviest bullets, each adding something, from many."""
    rest = _merge_bullets(children)
    limit = MAX_BULLETS if len(children) <= MAX_BULLETS else MAX_BULLETS_OF_MANY
    taken: Counter[int] = Counter()
    seen: set[str] = set()
    chosen: list[_MergedBullet] = []
    while rest and len(chosen) < limit:
        best = max(rest, key=lambda one: _appeal(one, seen, taken[one.child]))
        rest.remove(best)
        chosen.append(best)
        taken[best.child] += 1
        seen |= best.stems
    bullets = tuple(one.bullet for one in sorted(chosen, key=lambda one: one.order))
    keywords = _keywords(children)
    lead = max(bullets, key=lambda one: one.weight).text if bullets else ""
    text = brief(lead, keywords, [one.text for one in bullets])
    return Digest(text=text, bullets=bullets, keywords=keywords)


def brief(lead: str, keys: Iterable[str], shown: Iterable[str]) -> str:
    """The lead, and in a second sentence the key phrases that what is shown leaves out."""
    text = lead if not lead or lead[-1] in ".!?…。\uff01\uff1f" else lead + "."
    said = " ".join([text, *shown]).casefold()
    room = MAX_TEXT - len(text) - len(" Also: .")
    more: list[str] = []
    for key in keys:
        if key.casefold() in said:
            continue
        room -= len(key) + 2
        if room < 0 or len(more) == MAX_MORE:
            break
        more.append(key)
    return f"{text} Also: {', '.join(more)}.".lstrip() if more else text


def _merge_bullets(children: Sequence[ChildSummary]) -> list[_MergedBullet]:
    """The children's bullets; those that say the same are one, with the grips of all."""
    found: list[_MergedBullet] = []
    having: dict[str, list[int]] = {}
    for number, child in enumerate(children):
        for bullet in child.bullets:
            if not bullet.grip_ids:
                continue  # nothing to rest on
            stems = _stems(bullet.text)
            same = _same(stems, found, having)
            if same is None:
                for stem in stems:
                    having.setdefault(stem, []).append(len(found))
                own = replace(bullet, grip_ids=tuple(dict.fromkeys(bullet.grip_ids)))
                found.append(_MergedBullet(own, stems, number, len(found)))
            else:
                same.bullet = _unite_bullets(same.bullet, bullet)
    return found


def _same(
    stems: frozenset[str], found: Sequence[_MergedBullet], having: dict[str, list[int]]
) -> _MergedBullet | None:
    shared: Counter[int] = Counter()
    for stem in stems:
        shared.update(having.get(stem, ())[:MAX_COMPARED])
    alike = [
        number
        for number, common in shared.items()
        if common >= ALIKE * (len(stems) + len(found[number].stems) - common)
    ]
    return found[min(alike)] if alike else None


def _unite_bullets(known: ChildBullet, other: ChildBullet) -> ChildBullet:
    """What is said twice stands in the words of the heavier one."""
    heavier = other if other.weight > known.weight else known
    return replace(heavier, grip_ids=tuple(dict.fromkeys(known.grip_ids + other.grip_ids)))


def _appeal(one: _MergedBullet, seen: set[str], taken: int) -> tuple[float, int]:
    fresh = len(one.stems - seen) / len(one.stems)
    return one.bullet.weight * (_KNOWN + (1 - _KNOWN) * fresh) / (1 + 0.5 * taken), -one.order


def _keywords(children: Sequence[ChildSummary]) -> tuple[str, ...]:
    """Keywords by how many children have them, and how far to the front."""
    score: dict[frozenset[str], float] = {}
    shown: dict[frozenset[str], str] = {}
    for child in children:
        for rank, keyword in enumerate(dict.fromkeys(child.keywords)):
            stems = _stems(keyword)
            score[stems] = score.get(stems, 0.0) + 1.0 / (1.0 + 0.25 * rank)
            shown.setdefault(stems, keyword)
    ordered = sorted(score, key=lambda stems: -score[stems])
    return tuple(shown[stems] for stems in ordered[:MAX_KEYWORDS])


@lru_cache(maxsize=1 << 13)  # a day is summed up again with each of its segments
def _stems(text: str) -> frozenset[str]:
    return frozenset(phrases.split_words(text).stems) or frozenset({text})
