"""Duplicates: memories that say the same in other words, and which of them to keep."""

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
ALIKE_IF_NEAR = 0.4  # the same share, if their embeddings are near too
NEAR = 0.92  # cosine; statements of one form about different things reach 0.90
RICHER = 2.0  # an older memory stays if its content is this many times longer
_AFTER_A_NO = 2  # words
_COMMON = 200  # a word in more memories than this does not suggest pairs
_FIGURE = re.compile(r"\d[\d.,:]*")
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u02bc\uff07\u00b4`", "'"))

# Negations, with don't, can't and the like as written without an apostrophe.
_NO = """
no not never none nor neither nobody nothing nowhere non cannot without unless except hardly off
aint arent cant couldnt didnt doesnt dont hadnt hasnt havent isnt mustnt shouldnt wasnt werent wont
wouldnt
"""
# Verbs that negate even if their opposite is absent: "cache it" and "avoid to cache it".
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
    """Return the inflected forms of an English word, including some that do not exist."""
    stem = word.removesuffix("e")
    ends = {word, f"{word}s", f"{word}es", f"{stem}ed", f"{stem}ing", *_IRREGULAR.get(word, ())}
    if word.endswith("y"):
        ends |= {f"{word[:-1]}ies", f"{word[:-1]}ied"}
    return frozenset(ends | {f"{word}{word[-1]}ed", f"{word}{word[-1]}ing"})


def _sides() -> dict[str, list[tuple[int, str]]]:
    """Map each word to its pairs of opposites and the side on which it stands."""
    sides: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, pair in enumerate(_OPPOSITES):
        for side in pair:
            for form in frozenset[str]().union(*map(_forms, side.split())):
                sides[form].append((number, side))
    return dict(sides)


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
    negated: tuple[tuple[str, ...], ...]  # for each negation, the words that follow it
    refused: int  # number of words like stop or avoid
    order: tuple[str, ...]  # all words, in order
    sides: Mapping[int, frozenset[str]]  # by pair of opposites, the sides that occur


def find_clusters(
    memories: Sequence[Memory],
    seeds: Iterable[MemoryKey],
    near: Iterable[Pair] = (),
) -> list[Cluster]:
    """Group duplicates around the memory that stays. Return only groups that contain one of the
    seeds; `near` are pairs whose embeddings are close."""
    by_key = {memory.key: memory for memory in memories}
    features = {memory.key: _extract_features(memory) for memory in memories}
    seed_keys = set(seeds)
    close = {frozenset(pair) for pair in near}
    alike: dict[MemoryKey, set[MemoryKey]] = defaultdict(set)
    candidates = {frozenset(pair) for pair in _find_pairs(features)} | close
    for pair in candidates:
        one, other = sorted(pair) if len(pair) == 2 else (None, None)
        if one is None or other is None or one[:2] != other[:2]:
            continue  # of two domains or namespaces
        if (
            one in by_key
            and other in by_key
            and _is_duplicate(features[one], features[other], pair in close)
        ):
            alike[one].add(other)
            alike[other].add(one)
    groups: list[Cluster] = []
    taken: set[MemoryKey] = set()
    for memory in sorted(memories, key=_rank, reverse=True):
        key = memory.key
        if key in taken or not alike[key] - taken:
            continue
        group = _select_agreeing(key, sorted(alike[key] - taken, reverse=True), features)
        if not seed_keys & (group | {key}):
            continue
        taken |= group | {key}
        groups.append(_build_cluster([by_key[member] for member in (key, *group)]))
    return groups


def _select_agreeing(
    key: MemoryKey, others: Iterable[MemoryKey], features: Mapping[MemoryKey, _Features]
) -> set[MemoryKey]:
    """Return those that do not contradict each other; `key` itself may take no side."""
    group = {key}
    for candidate in others:
        if not any(_is_opposed(features[candidate], features[one]) for one in group):
            group.add(candidate)
    return group - {key}


def _build_cluster(group: Sequence[Memory]) -> Cluster:
    """Keep the newest, unless an older one says far more."""
    newest = max(group, key=_rank)
    richest = max(group, key=lambda memory: (len(memory.content), _rank(memory)))
    kept = richest if len(richest.content) > RICHER * max(len(newest.content), 40) else newest
    others = sorted((memory for memory in group if memory.key != kept.key), key=_rank)
    return Cluster(kept=kept, others=tuple(others))


def _rank(memory: Memory) -> tuple[int, MemoryKey]:
    return memory.created_ms, memory.key


def _extract_features(memory: Memory) -> _Features:
    text = f"{memory.summary}\n{memory.content}"
    words = _WORD.findall(analysis.fold(text.translate(_APOSTROPHES)))
    sides: dict[int, frozenset[str]] = {}
    for word in set(words):
        for pair, side in _SIDES.get(word, ()):
            sides[pair] = sides.get(pair, frozenset()) | {side}
    return _Features(
        words=frozenset(analysis.extract_terms(text)) - ASKING,
        figures=frozenset(figure.strip(".,:") for figure in _FIGURE.findall(text)),
        negated=tuple(sorted(_find_negations(words))),
        refused=sum(word in _REFUSALS for word in words),
        order=tuple(words),
        sides=sides,
    )


def _find_negations(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield what each negation is about: "not cache pages" differs from "not cache sessions"."""
    for position, word in enumerate(words):
        if word in _NEGATIONS or word.endswith("n't"):
            after = (following for following in words[position + 1 :] if following not in ASKING)
            yield tuple(islice(after, _AFTER_A_NO))


def _is_duplicate(one: _Features, other: _Features, near: bool) -> bool:
    if _is_opposed(one, other) or _is_turned(one.order, other.order):
        return False
    union = len(one.words | other.words)
    shared = len(one.words & other.words) / union if union else 0.0
    return shared >= (ALIKE_IF_NEAR if near else ALIKE)


def _is_opposed(one: _Features, other: _Features) -> bool:
    """Say whether the two differ in figures, in negations or in one of a pair of opposites. Then
    they say different things, however similar the words are."""
    if (one.figures, one.negated, one.refused) != (other.figures, other.negated, other.refused):
        return True
    both = one.sides.keys() & other.sides.keys()
    return any(one.sides[pair] != other.sides[pair] for pair in both)


def _is_turned(one: Sequence[str], other: Sequence[str]) -> bool:
    """Say whether they have the same words in another order: subject and object may be swapped."""
    return one != other and sorted(one) == sorted(other)


def _find_pairs(features: Mapping[MemoryKey, _Features]) -> Iterable[Pair]:
    """Yield pairs with enough words in common to be compared."""
    postings: dict[str, list[MemoryKey]] = defaultdict(list)
    for key, own in features.items():
        for word in own.words:
            postings[word].append(key)
    rare = {word: keys for word, keys in postings.items() if 1 < len(keys) <= _COMMON}
    for key, own in features.items():
        shared = Counter(
            other for word in own.words & rare.keys() for other in rare[word] if other > key
        )
        least = ALIKE * len(own.words & rare.keys()) / 2
        for other, count in shared.items():
            if count >= least:
                yield key, other
