"""Outcomes: the bullets of a stretch of work: what was asked for, finished, decided and found out.

Evidence and sentences compete by kind and weight, and each is taken for what it adds to those
before. What was corrected or measured again is left out.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.log.model.events import EventRole
from agent_memory.features.toc.model import commands, evidence, naming, speech_acts
from agent_memory.features.toc.model.commands import Issue
from agent_memory.features.toc.model.evidence import WEIGHTS, WorkEvidence
from agent_memory.features.toc.model.highlights import ASKED, HighlightKind
from agent_memory.features.toc.model.last_words import ALIKE, LEAST_WEIGHT, is_same_task
from agent_memory.features.toc.model.reports import has_structure, tidy
from agent_memory.features.toc.model.statements import Statement, classify_statements
from agent_memory.features.toc.model.summaries import Point, Support, Utterance
from agent_memory.features.toc.model.work_figures import WRITERS
from agent_memory.kernel.ids import EventId
from agent_memory.kernel.text import phrases
from agent_memory.kernel.text.sentences import SentenceKind

MAX_POINTS = 7
MAX_REPORTED = 10  # with a report
_REACH = 12  # sentences back that a correction reaches
_NEW = 0.7  # part of a bullet's value that depends on its new terms
_LEAST = 0.3  # of a bullet's value
_NOTES = 6  # plain notes that are looked at
_FEW = 2  # bullets; up to here, plain notes are taken too
_MENDED = 0.5
_COMPLAINED = 1.4  # a failure that the user reports
_FOLLOWING = 0.6  # a request after the first
_CHOICES = 2  # decisions of one prompt
_CLEAR_ENOUGH = 0.7  # a decision in few words
_SUBJECTLESS = 0.7  # "It is ..." says little alone
_CORRECTING = 1.2
_VAGUE = (0.1, 0.4, 0.8)  # by the number of distinctive words
_ESTIMATED = 0.9  # a sentence in between counts less than evidence
_REFUTABLE = (
    HighlightKind.FOUND,
    HighlightKind.BROKEN,
    HighlightKind.NOTE,
    HighlightKind.DECIDED,
)


@dataclass(slots=True, eq=False)
class _Candidate:
    text: str
    kind: HighlightKind
    weight: float
    support: tuple[Support, ...]
    order: tuple[int, int]
    stems: frozenset[str]
    reported: bool = False
    ref: str = ""
    corrects: bool = False
    is_raw: bool = False  # the text is not tidy yet: most candidates are never shown


def read_work(
    spoken: Sequence[Utterance],
    before: Sequence[Utterance],
    statements: Sequence[Statement],
    *,
    is_cut: bool = False,
) -> tuple[str | None, tuple[Point, ...]]:
    """Return the title and the bullets of a stretch of work. `is_cut`: the agent goes on."""
    found = evidence.gather(spoken, before, is_cut=is_cut)
    reports = {each.source.event_id for each in found}
    classify_statements(statements, reports)
    issues = commands.find_issues(spoken)
    title = naming.name_work(spoken, found, statements, issues)
    places = {utterance.event_id: number for number, utterance in enumerate(spoken)}
    candidates = [
        *_read_requests(spoken, statements, issues, places, begins=not before),
        *(_from_evidence(each) for each in found),
        *_read_statements(statements, reports, places, spoken),
    ]
    chosen = _choose(_keep_last_word(candidates))
    if len(chosen) < _FEW:
        chosen += _describe_files(spoken, places)
    chosen.sort(key=lambda each: each.order)
    return title, tuple(_to_point(each) for each in chosen)


def _from_evidence(found: WorkEvidence) -> _Candidate:
    text = found.source.text
    return _Candidate(
        text=found.text,
        kind=found.kind,
        weight=found.weight,
        support=(found.source.quote(text[found.start : found.end].strip()),),
        order=(found.place, found.start),
        stems=_stems(found.text),
        reported=found.reported,
        ref=found.ref,
        corrects=speech_acts.is_correction(found.text),
    )


def _read_requests(
    spoken: Sequence[Utterance],
    statements: Sequence[Statement],
    issues: dict[str, Issue],
    places: dict[EventId, int],
    *,
    begins: bool,
) -> Iterator[_Candidate]:
    """Yield what each prompt decides, and the telling sentence of what it asks for or, if it names
    an issue, the title of that.

    If a session `begins` here, its first prompt says what it is about, even if it chooses.
    """
    by_event: dict[EventId, list[Statement]] = {}
    for each in statements:
        by_event.setdefault(each.source.event_id, []).append(each)
    first = True
    for utterance in spoken:
        if not naming.is_prompt(utterance) or speech_acts.is_go_on(utterance.text):
            continue
        own = by_event.get(utterance.event_id, [])
        decided = [each for each in own if speech_acts.is_decision(each.text)][:_CHOICES]
        if begins and first:
            decided = []
        for each in decided:
            weight = WEIGHTS[HighlightKind.DECIDED] * max(_clarity(each), _CLEAR_ENOUGH)
            yield _from_prompt(each, tidy(each.text), HighlightKind.DECIDED, weight, places)
        task = naming.find_named_task(utterance.text, issues)
        rest = [each for each in own if each not in decided]
        asked = next((each for each in rest if task or each.telling > 1), None)
        asked = asked or max(rest, key=lambda each: each.factor * each.central, default=None)
        if asked is None:
            continue
        said = naming.name_issue(task) if task else tidy(asked.text)
        weight = WEIGHTS[HighlightKind.ASKED] * (1.0 if task else _clarity(asked))
        weight *= 1.0 if first else _FOLLOWING
        if not first and speech_acts.is_complaint(utterance.text):
            weight = WEIGHTS[HighlightKind.BROKEN] * _COMPLAINED
            yield _from_prompt(asked, said, HighlightKind.BROKEN, weight, places)
            continue
        request = _from_prompt(asked, f"{ASKED}{said}", HighlightKind.ASKED, weight, places)
        yield replace(request, stems=_stems(said), ref=task.ref if task else "", corrects=False)
        first = False


def _from_prompt(
    statement: Statement,
    text: str,
    kind: HighlightKind,
    weight: float,
    places: dict[EventId, int],
) -> _Candidate:
    source, span = statement.source, statement.span
    return _Candidate(
        text=text,
        kind=kind,
        weight=weight,
        support=(source.quote(source.text[span.start : span.end].strip()),),
        order=(places[source.event_id], span.start),
        stems=frozenset(statement.words.stems),
        corrects=kind is HighlightKind.BROKEN or _is_withdrawal(source.text),
    )


def _is_withdrawal(prompt: str) -> bool:
    """Return whether a prompt takes something back: "Wait, no. ..."."""
    return bool(_NO.match(prompt)) or speech_acts.is_correction(prompt)


_NO = re.compile(r"(?:no|nope|wait|hold on|stop)\b[,.!]", re.IGNORECASE)


def _read_statements(
    statements: Sequence[Statement],
    reports: Collection[EventId],
    places: dict[EventId, int],
    spoken: Sequence[Utterance],
) -> Iterator[_Candidate]:
    """Yield the outcomes among the sentences in between, without those that were corrected.

    `reports` are the events that are evidence themselves.
    """
    informative = [
        each
        for each in statements
        if each.kind is not None
        and each.source.role is not EventRole.USER
        and each.span.kind is not SentenceKind.HEADING
        and each.words.size > 2
        and (each.telling > 2 or not evidence.is_vague(each.text))
        and each.source.event_id not in reports
    ]
    wrong = _find_corrected(informative, statements)
    explaining = _find_explanations(spoken)
    for number, statement in enumerate(informative):
        kind = statement.kind
        if number in wrong or kind is None:
            continue
        if statement.source.event_id in explaining and kind is not HighlightKind.FOUND:
            kind = HighlightKind.NOTE
        source, span = statement.source, statement.span
        is_fault = span.kind is SentenceKind.FAULT
        boost = min(1.3, max(0.6, statement.emphasis))
        weight = WEIGHTS[kind] * _ESTIMATED * boost * (0.5 + 0.5 * statement.central)
        if is_fault:
            weight *= _MENDED
        elif speech_acts.lacks_subject(statement.text):
            weight *= _SUBJECTLESS
        if statement.act.corrects and kind is HighlightKind.FOUND:
            weight *= _CORRECTING
        text = evidence.describe_fault(source, statement.text) if is_fault else statement.text
        yield _Candidate(
            text=text,
            kind=kind,
            weight=weight * _clarity(statement),
            support=(source.quote(source.text[span.start : span.end]),),
            order=(places[source.event_id], span.start),
            stems=frozenset(statement.words.stems),
            ref=commands.find_ref(text),
            corrects=statement.act.corrects,
            is_raw=True,
        )


def _find_explanations(spoken: Sequence[Utterance]) -> set[str]:
    """Return the messages that explain how things are, in a stretch where nothing was changed."""
    if any(utterance.tool_name in WRITERS for utterance in spoken):
        return set()
    return {
        utterance.event_id
        for utterance in spoken
        if utterance.role is EventRole.ASSISTANT and has_structure(utterance.text)
    }


def _clarity(statement: Statement) -> float:
    telling = statement.telling
    value = _VAGUE[telling] if telling < len(_VAGUE) else 1.0
    return value if statement.span.whole else value * 0.8


def _find_corrected(informative: Sequence[Statement], statements: Sequence[Statement]) -> set[int]:
    """Return the numbers of the sentences that a later message contradicts."""
    wrong: set[int] = set()
    for statement in statements:
        if not statement.act.corrects:
            continue
        source = statement.source
        same = (each for each in statements if each.source is source)
        stems = {stem for each in same for stem in _get_telling(each)}
        wrong.update(
            number
            for number, earlier in enumerate(informative)
            if statement.place - _REACH <= earlier.place < statement.place
            and earlier.source is not source
            and earlier.kind in _REFUTABLE
            and stems & _get_telling(earlier)
        )
    return wrong


def _get_telling(statement: Statement) -> set[str]:
    return {stem for stem, weight in statement.words.stems.items() if weight >= phrases.TELLING}


def _keep_last_word(candidates: list[_Candidate]) -> list[_Candidate]:
    """Leave out measurements that were made again, and value failures less that were mended."""
    states = [each for each in candidates if each.kind is HighlightKind.STATE]
    last = max(
        states, key=lambda each: (each.reported, _has_number(each), each.order), default=None
    )
    if last is not None and not speech_acts.is_red(last.text):
        for each in candidates:
            if each.kind is HighlightKind.BROKEN and each.order < last.order:
                each.weight *= _MENDED
    ends = [each for each in candidates if each.kind is HighlightKind.FINISHED]
    best = max(ends, key=lambda each: (bool(each.ref), each.reported, each.weight), default=None)
    others = {HighlightKind.STATE: last, HighlightKind.FINISHED: best}
    return [each for each in candidates if each.kind not in others or each is others[each.kind]]


def _has_number(candidate: _Candidate) -> bool:
    return any(letter.isdigit() for letter in candidate.text)


def _choose(candidates: list[_Candidate]) -> list[_Candidate]:
    """Choose what was asked for, then bullets one by one, each for what it adds."""
    limit = MAX_REPORTED if any(each.reported for each in candidates) else MAX_POINTS
    asked = [each for each in candidates if each.kind is HighlightKind.ASKED]
    first = min(asked, key=lambda each: (not each.reported, each.order), default=None)
    chosen = [] if first is None else [first]  # it says what the session is about
    notes = [each for each in candidates if each.kind is HighlightKind.NOTE]
    notes = sorted(notes, key=lambda each: -each.weight)[:_NOTES]
    rest = [each for each in candidates if each.kind is not HighlightKind.NOTE] + notes
    rest = [each for each in rest if each is not first]
    seen: set[str] = set()
    while rest and len(chosen) < limit:
        best = max(rest, key=lambda each: _value(each, seen))
        rest.remove(best)
        answered = sum(each.kind is not HighlightKind.ASKED for each in chosen)
        if _value(best, seen)[0] < _LEAST and answered:
            break
        if best.kind is HighlightKind.NOTE and answered >= _FEW:
            continue
        same = next((each for each in chosen if _says_same(each, best)), None)
        if same is not None:
            same.support = (*same.support, *best.support)[:3]
            continue
        chosen.append(best)
        seen |= best.stems
    return chosen


def _value(candidate: _Candidate, seen: set[str]) -> tuple[float, tuple[int, int]]:
    fresh = len(candidate.stems - seen) / len(candidate.stems) if candidate.stems else 0.0
    return candidate.weight * (1 - _NEW + _NEW * fresh), candidate.order


def _says_same(one: _Candidate, other: _Candidate) -> bool:
    for kind in (HighlightKind.ASKED, HighlightKind.BROKEN):
        if (one.kind is kind) is not (other.kind is kind):
            return False  # a request is not its result, nor is a failure its mending
    if one.ref and one.ref == other.ref:
        return is_same_task(one.stems, other.stems, _stems(one.ref))
    return len(one.stems & other.stems) / (len(one.stems | other.stems) or 1) >= ALIKE


def _describe_files(spoken: Sequence[Utterance], places: dict[EventId, int]) -> list[_Candidate]:
    """Say which files were changed or read, if little else can be said."""
    verb, files = evidence.list_files(spoken)
    if not files:
        return []
    shown, names = list(files.values())[: evidence.MAX_FILES], evidence.join_files(list(files))
    return [
        _Candidate(
            text=f"{verb} {'the file ' if len(files) == 1 else ''}{names}",
            kind=HighlightKind.NOTE,
            weight=LEAST_WEIGHT,
            support=tuple(each.quote(each.text.partition("\n")[0]) for each in shown),
            order=(places[shown[0].event_id], 0),
            stems=frozenset(),
        )
    ]


def _to_point(candidate: _Candidate) -> Point:
    return Point(
        text=tidy(candidate.text) if candidate.is_raw else candidate.text,
        weight=max(round(candidate.weight, 4), LEAST_WEIGHT),
        support=tuple(each for each in candidate.support if each.excerpt),
        kind=candidate.kind,
        reported=candidate.reported,
        corrects=candidate.corrects,
    )


def _stems(text: str) -> frozenset[str]:
    return frozenset(evidence.weigh_terms(text))
