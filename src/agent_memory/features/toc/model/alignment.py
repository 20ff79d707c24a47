"""Alignment: the words of a conversation on which a bullet rests that someone else has written.

A quote that stands in the conversation is enough, if it says something of what the bullet says.
Else up to three sentences that together hold most of the bullet's telling words. Who speaks and
that something was said ("the user asked") is told by every bullet and supports none.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_memory.features.log.model.events import EventType
from agent_memory.features.toc.model.summaries import Support, Utterance
from agent_memory.kernel.text import phrases, sentences, terms

MAX_SUPPORT = 3
MAX_EXCERPT = 300  # characters
ENOUGH = 0.4  # of the weight of a bullet's words, held by all its sentences together
LEAD = 0.25  # by the first of them
LEAST = 2  # of its words, unless it has fewer: one word in common is chance
ADDED = 0.2  # by each of the others beyond those before it
SURE = 0.8  # from here on no further sentence is looked for

_MARKERS = frozenset({EventType.SESSION_START, EventType.SESSION_END})
_FAULTS = 20  # lines of one message that a program printed when something went wrong
_QUOTED_CHARS = 8  # fewer stand in any conversation
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
    """What was said, made ready to look bullets up in."""

    spoken: tuple[Utterance, ...]
    sentences: tuple[_Sentence, ...]
    speakers: frozenset[str]

    def support(self, bullet: str, quote: str = "") -> tuple[Support, ...]:
        """The words on which the bullet rests, the strongest first; none if nothing supports it."""
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
            _support(one.source, one.start, one.end) for one in self._find_sentences(stems, telling)
        )

    def _find_quote(self, quote: str, telling: Mapping[str, float]) -> Support | None:
        parts = quote.strip(_AROUND).split()
        if len("".join(parts)) < _QUOTED_CHARS:
            return None
        if not telling.keys() & phrases.split_words(quote).stems.keys():
            return None  # said, but not about this
        pattern = re.compile(r"\s+".join(map(re.escape, parts)), re.IGNORECASE)
        for one in self.spoken:
            if found := pattern.search(one.text):
                return _support(one, found.start(), found.end())
        return None

    def _find_sentences(
        self, stems: Mapping[str, float], telling: Mapping[str, float]
    ) -> list[_Sentence]:
        """Sentences by how much each adds to those before it."""
        total = sum(telling.values())
        open_stems = dict(telling)
        chosen: list[_Sentence] = []
        held = 0.0
        while len(chosen) < MAX_SUPPORT and held < SURE:
            best = max(self.sentences, key=lambda one: _gain(one, open_stems, stems), default=None)
            if best is None:
                break
            gained = (
                sum(open_stems.pop(stem) for stem in _intersect(open_stems, best.stems)) / total
            )
            if gained < (ADDED if chosen else LEAD):
                break
            chosen.append(best)
            held += gained
        words = len(telling) - len(open_stems)
        return chosen if held >= ENOUGH and words >= min(LEAST, len(telling)) else []


def read(conversation: Iterable[Utterance]) -> Conversation:
    """The conversation without the marks of its start and end."""
    spoken = filter_spoken(conversation)
    names = {one.speaker: frozenset(phrases.split_words(one.speaker).stems) for one in spoken}
    return Conversation(
        spoken=spoken,
        sentences=tuple(
            _Sentence(one, start, end, frozenset(words.stems), words.size, names[one.speaker])
            for one in spoken
            for start, end in _spans(one.text)
            if (words := phrases.split_words(one.text[start:end])).stems
        ),
        speakers=frozenset(stem for stems in names.values() for stem in stems),
    )


def filter_spoken(conversation: Iterable[Utterance]) -> tuple[Utterance, ...]:
    """What is said, without the marks of start and end and without what is blank."""
    return tuple(one for one in conversation if one.type not in _MARKERS and one.text.strip())


def _spans(text: str) -> Sequence[tuple[int, int]]:
    """Prose and faults, each place once; a message without any is its first line."""
    found = {(span.start, span.end) for span in sentences.find_sentences(text)}
    found |= {(span.start, span.end) for span in sentences.find_faults(text, _FAULTS)}
    if not found and (line := sentences.find_first_line(text)):
        found = {(line.start, line.end)}
    return sorted(found)


def _gain(
    one: _Sentence, wanted: Mapping[str, float], stems: Mapping[str, float]
) -> tuple[float, int, int]:
    """What it holds of the words still wanted; then whether its speaker is named, then brevity."""
    held = sum([wanted[stem] for stem in _intersect(wanted, one.stems)])
    named = len([stem for stem in one.speaker if stem in stems])
    return round(held, 6), named, -one.size


def _intersect(wanted: Mapping[str, float], stems: frozenset[str]) -> list[str]:
    return [stem for stem in wanted if stem in stems]


def _support(source: Utterance, start: int, end: int) -> Support:
    if end - start > MAX_EXCERPT:
        blank = source.text.rfind(" ", start + 1, start + MAX_EXCERPT)
        end = blank if blank > 0 else start + MAX_EXCERPT
    return Support(
        event_id=source.event_id, at_ms=source.at_ms, excerpt=source.text[start:end].rstrip()
    )
