"""Key phrases: runs of distinctive words that characterize a conversation."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_memory.kernel.text import terms

LONGEST = 3  # words of a phrase
TELLING = 0.8  # least weight of a word that is no stop word, no common word and no number
_LENGTH = 0.45  # penalty exponent for the number of words
_AGAIN = 0.15  # gain for each repetition
_VERB = 0.5

# No parser: the words before and after a run tell nouns from verbs well enough.
_NOUNS_FOLLOW = """
the a an my your our his her its their this that these those some any no another each every of in
for with at from on about by into new own
"""
_VERBS_FOLLOW = """
to i we you they he she it who not don't doesn't didn't can can't could will won't would should
must may might never i'll we'll you'll let's please and
"""
_VERBS_PRECEDE = """
the a an my your our his her its it them this that these those all every some any
"""
_BEFORE_NOUNS = frozenset(_NOUNS_FOLLOW.split())
_BEFORE_VERBS = frozenset(_VERBS_FOLLOW.split())
_AFTER_VERBS = frozenset(_VERBS_PRECEDE.split())
_STOPS = frozenset(".!?:")
_PLAIN = re.compile(r"[a-z]+")


Word = tuple[str, str, bool]  # the word as shown, its stem, whether it opens a sentence


@dataclass(slots=True)
class SentenceWords:
    """The words of a sentence."""

    runs: list[tuple[float, list[Word]]]  # how nominal a run looks, and its adjacent words
    stems: dict[str, float]
    named: set[str]  # stems written like a name inside a sentence
    size: int
    plain: list[str]  # all words in lower case, letters only


def split_words(text: str) -> SentenceWords:
    """Split a sentence into words, weighted stems and runs of distinctive words."""
    runs: list[tuple[float, list[Word]]] = []
    run: list[Word] = []
    stems: dict[str, float] = {}
    named: set[str] = set()
    size = 0
    opening = True
    before, nominal = "", 1.0
    to_terms, longest = terms.to_terms, terms.MAX_WORD
    for token in terms.tokenize(text):
        words = to_terms(token if len(token) <= longest else terms.shorten_path(token))
        count = len(words)
        for stem, weight, name in words:
            if weight >= TELLING:
                if not run:
                    nominal = _nominal(before)
                if name:
                    shown = terms.shorten_path(token)
                    if not opening or weight > 1:
                        named.add(stem)
                else:
                    shown = token if count == 1 else stem
                if count > 1 and run:  # pairs of characters overlap: each is its own run
                    runs.append((nominal, run))
                    run = []
                run.append((shown, stem, opening))
            elif run:
                if len(run) > 1 and token in _AFTER_VERBS:
                    run.pop()
                runs.append((nominal, run))
                run = []
            if weight:
                stems[stem] = weight
            opening = False
        size += count
        if count != 1:
            if run:
                runs.append((nominal, run))
                run = []
            if token in _STOPS:
                opening = True
        before = token
    if run:
        runs.append((nominal, run))
    return SentenceWords(runs, stems, named, size, _PLAIN.findall(text.lower()))


def _nominal(before: str) -> float:
    before = before.lower()
    return 1.3 if before in _BEFORE_NOUNS else 0.6 if before in _BEFORE_VERBS else 1.0


@dataclass(slots=True)
class _PhraseCount:
    count: int
    nominal: float
    whole: int  # times it stood alone, not as part of a longer run
    words: list[Word]
    order: int


def extract_key_phrases(
    sentences: Sequence[SentenceWords], worth: Mapping[str, float], limit: int
) -> list[str]:
    """Return the most valuable phrases, best first, without those that mostly repeat others."""
    named = {stem for sentence in sentences for stem in sentence.named}
    phrases = _count_phrases(sentences)
    scored: list[tuple[float, int, tuple[str, ...]]] = []
    for stems, phrase in phrases.items():
        total = sum([worth.get(stem, 0.0) for stem in stems])
        if len(stems) == 1 and phrase.words[0][0].endswith("ed"):
            total *= _VERB  # usually a verb
        total *= phrase.nominal / phrase.count
        gain = total / len(stems) ** _LENGTH * (1.0 + _AGAIN * min(phrase.count - 1, 4))
        scored.append((-gain, phrase.order, stems))
    scored.sort()
    best: list[str] = []
    seen: set[str] = set()
    for _, _, stems in scored:
        fresh = [stem for stem in stems if stem not in seen]
        if 2 * len(fresh) > len(stems):
            seen.update(stems)
            best.append(_render_phrase(phrases[stems].words, named))
            if len(best) == limit:
                break
    return best


def _count_phrases(sentences: Sequence[SentenceWords]) -> dict[tuple[str, ...], _PhraseCount]:
    phrases: dict[tuple[str, ...], _PhraseCount] = {}
    for sentence in sentences:
        for looks, whole in sentence.runs:
            nominal, run = looks, whole
            if looks < 1 and len(run) > 1 and run[0][1] not in sentence.named:
                nominal, run = 1.0, run[1:]  # without its verb
            size = len(run)
            all_stems = tuple([stem for _, stem, _ in run])
            for length in range(1, min(size, LONGEST) + 1):
                for at in range(size - length + 1):
                    stems = all_stems[at : at + length]
                    known = phrases.get(stems)
                    if known is None:
                        known = _PhraseCount(0, 0.0, 0, run[at : at + length], len(phrases))
                        phrases[stems] = known
                    known.count += 1
                    known.nominal += nominal
                    known.whole += length == size or (length == LONGEST and at == size - length)
    # Part of a run that never repeats is a fragment: "studio open" of "dance studio open house".
    return {stems: phrase for stems, phrase in phrases.items() if phrase.whole or phrase.count > 1}


def _render_phrase(part: Sequence[Word], named: set[str]) -> str:
    return " ".join(
        token.lower() if opening and stem not in named and token[1:].islower() else token
        for token, stem, opening in part
    )
