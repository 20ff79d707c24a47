"""Duplicates: memories that say the same in other words, and which of them stays."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_memory.domain import analysis
from agent_memory.domain.memories import Memory, MemoryKey
from agent_memory.domain.vocabulary import ASKING

ALIKE = 0.7  # share of their words that two memories have in common
ALIKE_IF_NEAR = 0.4  # likewise, where what they mean is near too
NEAR = 0.9  # cosine
RICHER = 2.0  # times the content: then the longer one stays, though it is older
_COMMON = 200  # memories with a word from which on it does not lead to pairs
_NEGATIONS = frozenset(
    {"not", "no", "never", "without", "stop", "avoid", "don", "cannot", "disable"}
)
_FIGURE = re.compile(r"\d[\d.,:]*")

Pair = tuple[MemoryKey, MemoryKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Memories of one domain and namespace that say the same. `kept` is the one that stays."""

    kept: Memory
    others: tuple[Memory, ...]


@dataclass(frozen=True, slots=True)
class _Said:
    words: frozenset[str]
    figures: frozenset[str]
    negated: frozenset[str]


def clusters(
    found: Sequence[Memory],
    seeds: Iterable[MemoryKey],
    near: Iterable[Pair] = (),
) -> list[Cluster]:
    """Groups around one that stays. Only groups with one of the seeds in them; `near` are pairs
    that an embedder holds for close in meaning."""
    by_key = {memory.key: memory for memory in found}
    said = {memory.key: _said(memory) for memory in found}
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
        group = {each for each in alike[key] if each not in taken}
        if not wanted & (group | {key}):
            continue
        taken |= group | {key}
        groups.append(_cluster([by_key[each] for each in (key, *group)]))
    return groups


def _cluster(group: Sequence[Memory]) -> Cluster:
    """The newest stays, unless an older one tells far more."""
    newest = max(group, key=_rank)
    richest = max(group, key=lambda each: (len(each.content), _rank(each)))
    kept = richest if len(richest.content) > RICHER * max(len(newest.content), 40) else newest
    others = sorted((each for each in group if each.key != kept.key), key=_rank)
    return Cluster(kept=kept, others=tuple(others))


def _rank(memory: Memory) -> tuple[int, MemoryKey]:
    return memory.created_ms, memory.key


def _said(memory: Memory) -> _Said:
    text = f"{memory.summary}\n{memory.content}"
    words = frozenset(analysis.terms(text)) - ASKING
    return _Said(
        words=words,
        figures=frozenset(each.strip(".,:") for each in _FIGURE.findall(text)),
        negated=frozenset(analysis.folded(text).replace("'", " ").split()) & _NEGATIONS,
    )


def _same(one: _Said, other: _Said, near: bool) -> bool:
    """Other figures, or a no in one only, say something else, however alike the words are."""
    if one.figures != other.figures or one.negated != other.negated:
        return False
    union = len(one.words | other.words)
    shared = len(one.words & other.words) / union if union else 0.0
    return shared >= (ALIKE_IF_NEAR if near else ALIKE)


def _sharing(said: Mapping[MemoryKey, _Said]) -> Iterable[Pair]:
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
