"""Alignment: finding the words of a conversation that support a bullet written by a model.

A quote from the conversation is enough, if it shares a distinctive word with the bullet. Otherwise
up to three sentences must together have most of its distinctive words. Speakers and reporting
verbs ("the user asked") occur in every bullet and support none.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_memory.features.toc.model.summaries import Support, Utterance, filter_spoken
from agent_memory.kernel.text import phrases, sentences, terms

MAX_SUPPORT = 3
MAX_EXCERPT = 300  # characters
ENOUGH = 0.4  # least share of the weight of a bullet's words in all its sentences together
LEAD = 0.25  # in the first of them
LEAST = 2  # words in common, unless the bullet has fewer: one is chance
ADDED = 0.2  # least share that each further sentence adds
SURE = 0.8  # share from which on no further sentence is needed

_FAULTS = 20  # error lines of one message
_QUOTED_CHARS = 8  # shorter quotes occur in any conversation
_AROUND = " \t\r\n\"'`*.…,;:!?()[]\u2018\u2019\u201c\u201d\u00ab\u00bb"
_SAYING = """
agent assistant conversation discussion message people person session speaker system tool user
acknowledge acknowledged admit admitted advise advised agree agreed ask asked commend commended
comment commented compliment complimented confirm confirmed congratulate congratulated describe
described discuss discussed emphasize emphasized encourage encouraged explain explained express
expressed highlight highlighted inform informed inquire inquired mention mentioned note noted
praise praised reflect reflected remark remarked reply replied report reported request requested
respond responded reveal revealed say said share shared state stated suggest suggested summarize
summarized talk talked tell told thank thanked
"""
_REPORTING = frozenset(terms.stem(word) for word in _SAYING.split())


@dataclass(frozen=True, slots=True)
class _Sentence:
    source: Utterance
    start: int
    end: int
    stems: frozenset[str]
    size: int
    speaker: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation, split into sentences to search for the support of bullets."""

    spoken: tuple[Utterance, ...]
    sentences: tuple[_Sentence, ...]
    speakers: frozenset[str]

    def support(self, bullet: str, quote: str = "") -> tuple[Support, ...]:
        """Return the excerpts that support the bullet, strongest first, or none."""
        stems = phrases.split_words(bullet).stems
        telling = {
            stem: weight
            for stem, weight in stems.items()
            if stem not in _REPORTING and stem not in self.speakers
        }
        if not telling:
            return ()
        quoted = self._find_quote(quote, telling)
        if quoted is not None:
            return (quoted,)
        return tuple(
            _support(sentence.source, sentence.start, sentence.end)
            for sentence in self._find_sentences(stems, telling)
        )

    def _find_quote(self, quote: str, telling: Mapping[str, float]) -> Support | None:
        parts = quote.strip(_AROUND).split()
        if len("".join(parts)) < _QUOTED_CHARS:
            return None
        if not telling.keys() & phrases.split_words(quote).stems.keys():
            return None  # the quote is about something else
        pattern = re.compile(r"\s+".join(map(re.escape, parts)), re.IGNORECASE)
        for utterance in self.spoken:
            if match := pattern.search(utterance.text):
                return _support(utterance, match.start(), match.end())
        return None

    def _find_sentences(
        self, stems: Mapping[str, float], telling: Mapping[str, float]
    ) -> list[_Sentence]:
        """Select sentences by how much each adds to those before it."""
        total = sum(telling.values())
        open_stems = dict(telling)
        selected: list[_Sentence] = []
        held = 0.0
        while len(selected) < MAX_SUPPORT and held < SURE:
            best = max(
                self.sentences,
                key=lambda sentence: _gain(sentence, open_stems, stems),
                default=None,
            )
            if best is None:
                break
            gained = (
                sum(open_stems.pop(stem) for stem in _intersect(open_stems, best.stems)) / total
            )
            if gained < (ADDED if selected else LEAD):
                break
            selected.append(best)
            held += gained
        words = len(telling) - len(open_stems)
        return selected if held >= ENOUGH and words >= min(LEAST, len(telling)) else []


def read(conversation: Iterable[Utterance]) -> Conversation:
    """Split a conversation into sentences."""
    spoken = filter_spoken(conversation)
    names = {
        utterance.speaker: frozenset(phrases.split_words(utterance.speaker).stems)
        for utterance in spoken
    }
    return Conversation(
        spoken=spoken,
        sentences=tuple(
            _Sentence(
                utterance, start, end, frozenset(words.stems), words.size, names[utterance.speaker]
            )
            for utterance in spoken
            for start, end in _spans(utterance.text)
            if (words := phrases.split_words(utterance.text[start:end])).stems
        ),
        speakers=frozenset(stem for stems in names.values() for stem in stems),
    )


def _spans(text: str) -> Sequence[tuple[int, int]]:
    """Return the spans of prose and error lines, each once; else that of the first line."""
    spans = {(span.start, span.end) for span in sentences.find_sentences(text)}
    spans |= {(span.start, span.end) for span in sentences.find_faults(text, _FAULTS)}
    if not spans and (line := sentences.find_first_line(text)):
        spans = {(line.start, line.end)}
    return sorted(spans)


def _gain(
    sentence: _Sentence, missing: Mapping[str, float], stems: Mapping[str, float]
) -> tuple[float, int, int]:
    """Rank a sentence by the missing words it has, then by a named speaker, then by brevity."""
    held = sum([missing[stem] for stem in _intersect(missing, sentence.stems)])
    named = len([stem for stem in sentence.speaker if stem in stems])
    return round(held, 6), named, -sentence.size


def _intersect(missing: Mapping[str, float], stems: frozenset[str]) -> list[str]:
    return [stem for stem in missing if stem in stems]


def _support(source: Utterance, start: int, end: int) -> Support:
    if end - start > MAX_EXCERPT:
        blank = source.text.rfind(" ", start + 1, start + MAX_EXCERPT)
        end = blank if blank > 0 else start + MAX_EXCERPT
    return source.quote(source.text[start:end].rstrip())
