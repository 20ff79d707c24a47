"""Statements: the sentences of a conversation, each weighted by speaker and wording."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.emphasis import score_emphasis
from agent_memory.features.toc.model.highlights import HighlightKind
from agent_memory.features.toc.model.speech_acts import NOTE, SpeechAct
from agent_memory.features.toc.model.summaries import Utterance
from agent_memory.kernel.text import phrases, sentences
from agent_memory.kernel.text.phrases import SentenceWords
from agent_memory.kernel.text.sentences import SentenceKind, TextSpan

MAX_CHARS = 40_000  # of a conversation are read; of a longer one, the start and the end
MAX_STATEMENTS = 600
SHORT_OUTPUT = 300  # characters: a tool result as short as this may be a sentence

_ROLES = {
    EventRole.USER: 1.2,
    EventRole.ASSISTANT: 1.0,
    EventRole.SYSTEM: 0.4,
    EventRole.TOOL: 0.12,
}
_KINDS = {SentenceKind.PROSE: 1.0, SentenceKind.HEADING: 0.45, SentenceKind.FAULT: 5.0}
_LEAST_CHARS = 40  # least length that an utterance counts as, so that their number is bounded too
_FAULTS = 3  # lines of a tool's output that count
_QUESTION, _INTRODUCTION, _ASIDE, _PIECE = 0.6, 0.4, 0.6, 0.8
_VAGUE = (0.25, 0.5, 0.8)  # by the number of distinctive words, if fewer than three
_VAGUE_BUT_STRONG = (0.25, 0.8, 1.0)
_STRONG = 1.5
# Terminal titles, links and colors, and the remaining control characters.
_CONTROL = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|(?:\x1b\[|\x9b)[0-9;?]*[A-Za-z]"
    r"|[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]"
)


@dataclass(slots=True)
class Statement:
    source: Utterance
    span: TextSpan
    text: str  # on one line
    words: SentenceWords
    emphasis: float
    factor: float  # emphasis, role and kind together
    telling: int  # distinctive words
    place: int = 0
    central: float = 0.0
    act: SpeechAct = NOTE

    @property
    def kind(self) -> HighlightKind | None:
        return self.act.kind


def read_statements(spoken: Sequence[Utterance]) -> list[Statement]:
    """Return the meaningful sentences, each once; of too many, the first and the last."""
    statements: dict[str, Statement] = {}
    last: Statement | None
    for utterance in _affordable(spoken):
        last = None
        for span in _spans(utterance):
            text = clean_excerpt(utterance.text[span.start : span.end])
            if text and text not in statements:
                words = phrases.split_words(text)
                if words.stems:
                    statements[text] = last = _statement(utterance, span, text, words, last)
    selected = list(statements.values())
    if len(selected) > MAX_STATEMENTS:
        head = MAX_STATEMENTS * 2 // 3
        selected = selected[:head] + selected[head - MAX_STATEMENTS :]
    for place, statement in enumerate(selected):
        statement.place = place
    return selected


def classify_statements(statements: Sequence[Statement], reports: Collection[str]) -> None:
    """Set what each sentence of an agent does. Sentences of a program that fails are failures.

    `reports` are messages that are read item by item: of their sentences only corrections matter.
    """
    before: Statement | None = None
    for statement in statements:
        source, text = statement.source, statement.text
        if source.role is EventRole.TOOL or source.type is EventType.TOOL_RESULT:
            is_fault = statement.span.kind is SentenceKind.FAULT
            statement.act = SpeechAct(HighlightKind.BROKEN if is_fault else None)
        elif source.event_id in reports:
            statement.act = SpeechAct(HighlightKind.NOTE, speech_acts.is_correction(text))
        elif source.role is EventRole.ASSISTANT:
            statement.act = speech_acts.classify(text)
            if (
                statement.kind is HighlightKind.NOTE
                and before is not None
                and before.source is source
                and speech_acts.announces_finding(before.text)
            ):
                statement.act = SpeechAct(HighlightKind.FOUND)
        before = statement


def _affordable(spoken: Sequence[Utterance]) -> Sequence[Utterance]:
    sizes = [
        max(min(len(utterance.text), sentences.MAX_READ), _LEAST_CHARS) for utterance in spoken
    ]
    if sum(sizes) <= MAX_CHARS:
        return spoken
    first, last, used = 0, len(spoken), 0
    while first < last and used + sizes[first] <= MAX_CHARS * 2 // 3:
        used += sizes[first]
        first += 1
    while last > first and used + sizes[last - 1] <= MAX_CHARS:
        used += sizes[last - 1]
        last -= 1
    return [*spoken[:first], *spoken[last:]]


def _spans(utterance: Utterance) -> list[TextSpan]:
    output = utterance.role is EventRole.TOOL or utterance.type is EventType.TOOL_RESULT
    if output and len(utterance.text) > SHORT_OUTPUT:
        return sentences.find_faults(utterance.text, _FAULTS)
    return sentences.find_sentences(utterance.text)


def clean_excerpt(excerpt: str) -> str:
    """Return an excerpt on one line, without emphasis marks and terminal colors."""
    if not excerpt.isprintable() or "  " in excerpt:
        excerpt = " ".join(_CONTROL.sub("", excerpt).split())
    return " ".join(excerpt.replace("**", "").split())


def _statement(
    source: Utterance, span: TextSpan, text: str, words: SentenceWords, before: Statement | None
) -> Statement:
    emphasis = score_emphasis(text, words.plain)
    if before and before.words.size <= 3:  # "Found it." emphasizes the next sentence
        emphasis = max(emphasis, before.emphasis)
    factor = _ROLES[source.role] * _KINDS[span.kind] * emphasis
    if text.endswith(("?", "\uff1f")):
        factor *= _QUESTION
    elif text.endswith((":", "\uff1a")):
        factor *= _INTRODUCTION
    if text.startswith(("[", "(")):
        factor *= _ASIDE
    if not span.whole:
        factor *= _PIECE
    telling = len([weight for weight in words.stems.values() if weight >= phrases.TELLING])
    if telling < len(_VAGUE):
        factor *= (_VAGUE if emphasis < _STRONG else _VAGUE_BUT_STRONG)[telling]
    return Statement(source, span, text, words, emphasis, factor, telling)
