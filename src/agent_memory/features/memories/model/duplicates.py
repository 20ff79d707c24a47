"""Duplicates: memories that say the same in other words, and which of them stays."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from agent_memory.features.memories.model.memories import Memory
from agent_memory.kernel.ids import MemoryKey
from agent_memory.kernel.text import analysis
from agent_memory.kernel.text.vocabulary import ASKING

ALIKE = 0.7  # share of their words that two memories have in common
ALIKE_IF_NEAR = 0.4  # likewise, where what they mean is near too
NEAR = 0.9  # cosine
RICHER = 2.0  # times the content: then the longer one stays, though it is older
_AFTER_A_NO = 2  # words
_COMMON = 200  # memories with a word from which on it does not lead to pairs
_FIGURE = re.compile(r"\d[\d.,:]*")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\uff07\u00b4`", "'"))

# What says no for itself; and how don't, can't and the like are written in a hurry.
_NO = """
no not never none nor neither nobody nothing nowhere non cannot without unless except hardly off
aint arent cant couldnt didnt doesnt dont hadnt hasnt havent isnt mustnt shouldnt wasnt werent wont
wouldnt
"""
# What also says no where its opposite is not said: "cache it" and "avoid to cache it".
_NO_VERBS = "avoid ban deny disable disallow forbid prohibit refuse reject stop"
_OPPOSITES = (
    ("allow permit", "ban block deny disallow forbid prohibit refuse"),
    ("enable activate", "disable deactivate"),
    ("add include insert create", "remove exclude delete drop"),
    ("accept approve", "reject decline refuse"),
    ("use adopt prefer", "avoid"),
    ("start continue", "stop pause"),
    ("open", "close"),
    ("show", "hide"),
    ("lock", "unlock"),
    ("pass succeed", "fail"),
    ("increase raise", "decrease reduce lower"),
    ("import", "export"),
    ("upgrade", "downgrade"),
    ("encrypt", "decrypt"),
    ("always", "never"),
    ("before", "after"),
    ("more", "less fewer"),
    ("true", "false"),
    ("required mandatory", "optional"),
    ("public", "private"),
    ("synchronous synchronously sync", "asynchronous asynchronously async"),
)
_IRREGULAR = {"forbid": ("forbade", "forbidden"), "hide": ("hidden", "hid")}

Pair = tuple[MemoryKey, MemoryKey]


def _forms(word: str) -> frozenset[str]:
    """The word as it is spoken of anyone and any time, and some that nobody says."""
    stem = word.removesuffix("e")
    ends = {word, f"{word}s", f"{word}es", f"{stem}ed", f"{stem}ing", *_IRREGULAR.get(word, ())}
    if word.endswith("y"):
        ends |= {f"{word[:-1]}ies", f"{word[:-1]}ied"}
    return frozenset(ends | {f"{word}{word[-1]}ed", f"{word}{word[-1]}ing"})


def _sides() -> dict[str, list[tuple[int, str]]]:
    """Each word's pairs of opposites, and which side of them it is."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, pair in enumerate(_OPPOSITES):
        for side in pair:
            for form in frozenset[str]().union(*map(_forms, side.split())):
                found[form].append((number, side))
    return dict(found)


_SIDES = _sides()
_NEGATIONS = frozenset(_NO.split())
_REFUSALS = frozenset[str]().union(*map(_forms, _NO_VERBS.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Memories of one domain and namespace that say the same. `kept` is the one that stays."""

    kept: Memory
    others: tuple[Memory, ...]


@dataclass(frozen=True, slots=True)
class _Features:
    words: frozenset[str]
    figures: frozenset[str]
    negated: tuple[tuple[str, ...], ...]  # for each no, the words that follow it
    refused: int  # how often it says stop, avoid and the like
    order: tuple[str, ...]  # all its words, one after the other
    sides: Mapping[int, frozenset[str]]  # of each pair of opposites that it has a word of


def find_clusters(
    found: Sequence[Memory],
    seeds: Iterable[MemoryKey],
    near: Iterable[Pair] = (),
) -> list[Cluster]:
    """Groups around one that stays. Only groups with one of the seeds in them; `near` are pairs
    that an embedder holds for close in meaning."""
    by_key = {memory.key: memory for memory in found}
    said = {memory.key: _extract_features(memory) for memory in found}
    wanted = set(seeds)
    close = {frozenset(pair) for pair in near}
    alike: dict[MemoryKey, set[MemoryKey]] = defaultdict(set)
    candidates = {frozenset(pair) for pair in _sharing(said)} | close
    for pair in candidates:
        one, other = sorted(pair) if len(pair) == 2 else (None, None)
        if one is None or other is None or one[:2] != other[:2]:
            continue  # of two domains or namespaces
        if one in by_key and other in by_key and _same(said[one], said[other], pair in close):
            alike[one].add(other)
            alike[other].add(one)
    groups: list[Cluster] = []
    taken: set[MemoryKey] = set()
    for memory in sorted(found, key=_rank, reverse=True):
        key = memory.key
        if key in taken or not alike[key] - taken:
            continue
        group = _agreeing(key, sorted(alike[key] - taken, reverse=True), said)
        if not wanted & (group | {key}):
            continue
        taken |= group | {key}
        groups.append(_cluster([by_key[each] for each in (key, *group)]))
    return groups


def _agreeing(
    key: MemoryKey, others: Iterable[MemoryKey], said: Mapping[MemoryKey, _Features]
) -> set[MemoryKey]:
    """Those that do not contradict each other: all are like this one, which may take no side."""
    group = {key}
    for each in others:
        if not any(_is_opposed(said[each], said[one]) for one in group):
            group.add(each)
    return group - {key}


def _cluster(group: Sequence[Memory]) -> Cluster:
    """The newest stays, unless an older one tells far more."""
    newest = max(group, key=_rank)
    richest = max(group, key=lambda each: (len(each.content), _rank(each)))
    kept = richest if len(richest.content) > RICHER * max(len(newest.content), 40) else newest
    others = sorted((each for each in group if each.key != kept.key), key=_rank)
    return Cluster(kept=kept, others=tuple(others))


def _rank(memory: Memory) -> tuple[int, MemoryKey]:
    return memory.created_ms, memory.key


def _extract_features(memory: Memory) -> _Features:
    text = f"{memory.summary}\n{memory.content}"
    spoken = _WORD.findall(analysis.fold(text.translate(_APOSTROPHES)))
    sides: dict[int, frozenset[str]] = {}
    for word in set(spoken):
        for pair, side in _SIDES.get(word, ()):
            sides[pair] = sides.get(pair, frozenset()) | {side}
    return _Features(
        words=frozenset(analysis.extract_terms(text)) - ASKING,
        figures=frozenset(each.strip(".,:") for each in _FIGURE.findall(text)),
        negated=tuple(sorted(_find_negations(spoken))),
        refused=sum(word in _REFUSALS for word in spoken),
        order=tuple(spoken),
        sides=sides,
    )


def _find_negations(spoken: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """What each no is about: "do not cache pages" is another no than "do not cache sessions"."""
    for place, word in enumerate(spoken):
        if word in _NEGATIONS or word.endswith("n't"):
            after = (each for each in spoken[place + 1 :] if each not in ASKING)
            yield tuple(islice(after, _AFTER_A_NO))


def _same(one: _Features, other: _Features, near: bool) -> bool:
    if _is_opposed(one, other) or _is_turned(one.order, other.order):
        return False
    union = len(one.words | other.words)
    shared = len(one.words & other.words) / union if union else 0.0
    return shared >= (ALIKE_IF_NEAR if near else ALIKE)


def _is_opposed(one: _Features, other: _Features) -> bool:
    """Other figures, a no more, or the opposite of a word say something else, however alike the
    words are."""
    if (one.figures, one.negated, one.refused) != (other.figures, other.negated, other.refused):
        return True
    both = one.sides.keys() & other.sides.keys()
    return any(one.sides[pair] != other.sides[pair] for pair in both)


def _is_turned(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether they have just the same words in another order: who does what to whom may differ."""
    return one != other and sorted(one) == sorted(other)


def _sharing(said: Mapping[MemoryKey, _Features]) -> Iterable[Pair]:
    """Pairs that have enough words in common to be looked at."""
    postings: dict[str, list[MemoryKey]] = defaultdict(list)
    for key, each in said.items():
        for word in each.words:
            postings[word].append(key)
    rare = {word: keys for word, keys in postings.items() if 1 < len(keys) <= _COMMON}
    for key, each in said.items():
        shared = Counter(
            other for word in each.words & rare.keys() for other in rare[word] if other > key
        )
        least = ALIKE * len(each.words & rare.keys()) / 2
        for other, count in shared.items():
            if count >= least:
                yield key, other
