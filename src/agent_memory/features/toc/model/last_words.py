"""Last words: which highlights still hold at the end of a period.

What was measured again, mended, closed, reported better or said twice does not rise.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from agent_memory.features.toc.model import commands, speech_acts
from agent_memory.features.toc.model.highlights import ASKED, Highlight, HighlightKind
from agent_memory.kernel.text import phrases

ALIKE = 0.6  # share of common terms at which two highlights say the same
SAME_TASK = 0.3  # part of the shorter one, if both name the same issue
CLOSED = 0.5  # part of an open item's terms in something done later
MAX_COMPARED = 50  # highlights compared for each term: a more frequent term means little
LEAST_WEIGHT = 0.001  # of a bullet that only says which files were read, or shows a first line
MAX_REST = 60  # highlights of a session in a period; a day shows far fewer
MAX_GRIPS = 8  # of a highlight that was said often: the latest

_DEMOTED = 0.6
_TELLING = 5  # terms; with fewer, a sentence says only that something is done
_EARLIER_REPORT = 0.7
_FINISHED = frozenset({HighlightKind.FINISHED, HighlightKind.DONE})
_REFUTABLE = frozenset({
    HighlightKind.FOUND, HighlightKind.DECIDED, HighlightKind.DONE, HighlightKind.STATE,
})  # fmt: skip
_REACH = 40  # highlights back that a correction reaches
_LEAST_COMMON = 2  # words of an open item in what closes it
_TO_USER = re.compile(
    r"(?:you(?:['\u2019]ll)?\s+(?:need|have|must|should|can)|please)\b", re.IGNORECASE
)
_NEVER = frozenset({HighlightKind.PLANNED})
_PLAIN = frozenset({HighlightKind.NOTE, HighlightKind.ASKED})
_ABOUT_TASKS = _FINISHED | {HighlightKind.FOUND, HighlightKind.OPEN}
_ENDED = re.compile(
    r"\b(complete|done|finished|shipped|closed|resolved|merged|implemented|delivered|released"
    r"|deployed|landed|completed|pushed)\b",
    re.IGNORECASE,
)
_STATUS = {"completed": "complete", "pushed": "done"}


@dataclass(slots=True)
class SessionHighlights:
    """The highlights of one session, by time, and the one that says what it was about."""

    session: str
    project: str
    lead: Highlight | None = None
    rest: list[Highlight] = field(default_factory=list)

    @property
    def weight(self) -> float:
        return sum(each.weight for each in (self.lead, *self.rest) if each is not None)


def summarize_sessions(highlights: Iterable[Highlight]) -> list[SessionHighlights]:
    """Return what still holds of each session, by the time of its first highlight."""
    rising = [
        replace(each, grip_ids=tuple(dict.fromkeys(each.grip_ids)))
        for each in highlights
        if each.grip_ids and each.kind not in _NEVER
    ]
    held = [each for each in rising if each.weight > LEAST_WEIGHT] or rising
    held.sort(key=lambda each: each.at_ms)
    held = _drop_mended(_drop_closed(_drop_corrected(held)))
    held = _value_last_reports(_drop_states(held))
    by_session: dict[str, list[Highlight]] = {}
    for each in held:
        by_session.setdefault(each.session, []).append(each)
    return [_summarize_session(session, group) for session, group in by_session.items()]


def merge(highlights: Sequence[Highlight]) -> list[Highlight]:
    """Merge highlights that say the same, with the grips of all.

    A merged one has the words of the better and may be like a third one: so merge again.
    """
    merged = _merge_once(highlights)
    while len(merged) < len(highlights):
        highlights, merged = merged, _merge_once(merged)
    return merged


def _merge_once(highlights: Sequence[Highlight]) -> list[Highlight]:
    merged: list[Highlight] = []
    having: dict[str, list[int]] = {}
    for highlight in highlights:
        terms = stems(highlight.text)
        same = _find_same(highlight, terms, merged, having)
        if same is None:
            for term in terms:
                having.setdefault(term, []).append(len(merged))
            own = tuple(dict.fromkeys(highlight.grip_ids))
            merged.append(replace(highlight, grip_ids=own))
        else:
            merged[same] = _unite(merged[same], highlight)
    return merged


def _find_same(
    highlight: Highlight,
    terms: frozenset[str],
    merged: Sequence[Highlight],
    having: Mapping[str, Sequence[int]],
) -> int | None:
    shared: Counter[int] = Counter()
    for term in terms:
        shared.update(having.get(term, ())[:MAX_COMPARED])
    ref = commands.find_ref(highlight.text)
    least = 1 if ref else ALIKE / (1 + ALIKE) * len(terms)
    for number in sorted(number for number, common in shared.items() if common >= least):
        other = merged[number]
        if (highlight.kind is HighlightKind.BROKEN) is not (other.kind is HighlightKind.BROKEN):
            continue  # a failure is not its mending
        common, size = shared[number], len(stems(other.text))
        if common >= ALIKE * (len(terms) + size - common):
            return number
        if (
            ref
            and highlight.session == other.session
            and {highlight.kind, other.kind} <= _ABOUT_TASKS
            and ref == commands.find_ref(other.text)
            and is_same_task(terms, stems(other.text), stems(ref))
        ):
            return number
    return None


def is_same_task(one: frozenset[str], other: frozenset[str], name: frozenset[str]) -> bool:
    """Return whether two texts on an issue say the same, besides its name.

    The name is no common word: "ab-1 is done" does not say how.
    """
    size = min(len(one - name), len(other - name))
    return size > 0 and len((one & other) - name) >= SAME_TASK * size


def _unite(one: Highlight, other: Highlight) -> Highlight:
    """Merge two highlights into the better one, with the grips of both."""
    better = max(one, other, key=lambda each: (each.reported, _is_telling(each), each.weight))
    grips = tuple(dict.fromkeys(one.grip_ids + other.grip_ids))[-MAX_GRIPS:]
    is_open = HighlightKind.OPEN in (one.kind, other.kind)  # what was filed and not closed is open
    kind = HighlightKind.OPEN if is_open else better.kind
    return replace(better, grip_ids=grips, at_ms=max(one.at_ms, other.at_ms), kind=kind)


def _is_telling(highlight: Highlight) -> bool:
    return len(stems(highlight.text)) >= _TELLING


def _drop_corrected(held: list[Highlight]) -> list[Highlight]:
    """Drop what a later highlight of the session contradicts: it shares a word with it, or it is
    the last finding before a sentence such as "That is not it"."""
    wrong: set[int] = set()
    for number, each in enumerate(held):
        if not each.corrects:
            continue
        earlier = [
            back
            for back in range(max(0, number - _REACH), number)
            if held[back].session == each.session and held[back].kind in _REFUTABLE
        ]
        terms = stems(each.text)
        related = [back for back in earlier if _share_words(terms, stems(held[back].text))]
        if speech_acts.lacks_subject(each.text):
            related += [back for back in earlier if held[back].kind is HighlightKind.FOUND][-1:]
        wrong.update(related)
    return [each for number, each in enumerate(held) if number not in wrong]


def _share_words(terms: frozenset[str], others: frozenset[str]) -> bool:
    return any(len(stem) > 2 or stem.isdigit() for stem in terms & others)


def _drop_mended(held: list[Highlight]) -> list[Highlight]:
    """Drop the failures that something later mends: in their session a finished task, a good
    measurement or something done about it; later on, a good measurement of tests that failed."""
    kept: list[Highlight] = []
    finished: set[str] = (
        set()
    )  # sessions with a finished task or a good measurement, read backwards
    measured: set[str] = set()  # projects with a good measurement
    done: dict[str, set[str]] = {}  # the words of what was done, by session
    for each in reversed(held):
        terms = stems(each.text)
        if each.kind is HighlightKind.BROKEN and (
            each.session in finished
            or (each.project in measured and not _TESTED.isdisjoint(terms))
            or not done.get(each.session, set()).isdisjoint(terms)
        ):
            continue
        kept.append(each)
        is_good = each.kind is HighlightKind.STATE and not speech_acts.is_red(each.text)
        if each.kind is HighlightKind.FINISHED or is_good:
            finished.add(each.session)
        if is_good:
            measured.add(each.project)
        if each.kind is HighlightKind.DONE:
            done.setdefault(each.session, set()).update(terms)
    return kept[::-1]


def _value_last_reports(held: list[Highlight]) -> list[Highlight]:
    """Value what an earlier report of a session says less: the last one sums up."""
    last: dict[str, int] = {}
    for each in held:
        if each.reported and each.kind is HighlightKind.FINISHED:
            last[each.session] = each.at_ms
    return [
        replace(each, weight=round(each.weight * _EARLIER_REPORT, 4), reported=False)
        if each.reported and each.kind in _ABOUT_TASKS and each.at_ms < last.get(each.session, 0)
        else each
        for each in held
    ]


def _drop_closed(held: list[Highlight]) -> list[Highlight]:
    """Drop open items that were done later, or that a later report of the session no longer has."""
    reports: dict[str, int] = {}  # the last report that finishes the task or lists what is open
    deeds: dict[str, int] = {}  # the last thing done or reported, by session
    for each in held:
        if each.reported and each.kind in (HighlightKind.FINISHED, HighlightKind.OPEN):
            reports[each.session] = each.at_ms
        if each.kind in _FINISHED or each.reported:
            deeds[each.session] = each.at_ms
    done = _ByWord(held)

    def is_closed(item: Highlight) -> bool:
        if item.reported and item.at_ms < reports.get(item.session, 0):
            return True
        if _TO_USER.match(item.text) and item.at_ms < deeds.get(item.session, 0):
            return True
        return done.closes(item)

    return [each for each in held if each.kind is not HighlightKind.OPEN or not is_closed(each)]


class _ByWord:
    """What was done, by its words and its issue, to find what closes an open item."""

    def __init__(self, held: Sequence[Highlight]) -> None:
        self._having: dict[str, list[Highlight]] = {}
        for each in held:
            if each.kind in _FINISHED:
                for word in {*stems(each.text), *commands.find_refs(each.text)}:
                    self._having.setdefault(word, []).append(each)

    def closes(self, item: Highlight) -> bool:
        """Return whether something later in the project names its issue or most of its words."""
        terms, ref = stems(item.text), commands.find_ref(item.text)
        common: Counter[int] = Counter()
        known: dict[int, Highlight] = {}
        for word in {*terms, ref}:
            for each in self._having.get(word, ())[-MAX_COMPARED:]:
                if each.at_ms > item.at_ms and each.project == item.project:
                    if word == ref:
                        return True
                    common[id(each)] += 1
                    known[id(each)] = each
        return any(
            count >= _LEAST_COMMON
            and count >= CLOSED * min(len(terms), len(stems(known[name].text)))
            for name, count in common.items()
        )


def _drop_states(held: list[Highlight]) -> list[Highlight]:
    """Keep the last measurement of each thing in a project, as reported."""
    kept: list[Highlight] = []
    later: dict[str, list[Highlight]] = {}
    for each in reversed(held):
        if each.kind is HighlightKind.STATE:
            known = later.setdefault(each.project, [])
            same = next((other for other in known if _measure_same(each, other)), None)
            if same is None:
                known.append(each)
            elif same.session == each.session and each.reported and not same.reported:
                known[known.index(same)] = each
                kept[kept.index(same)] = each
                continue
            else:
                continue
        kept.append(each)
    kept.reverse()
    return sorted(kept, key=lambda each: each.at_ms)


def _measure_same(one: Highlight, other: Highlight) -> bool:
    """Return whether a measurement is replaced by a later one. A failure is not if both name
    what they measure, and it is not the same."""
    if not speech_acts.is_red(one.text):
        return True
    names = [
        {stem for stem in stems(each.text) if not stem.isdigit()} - _MEASURING
        for each in (one, other)
    ]
    return not all(names) or not names[0].isdisjoint(names[1])


def _summarize_session(session: str, group: list[Highlight]) -> SessionHighlights:
    story = SessionHighlights(session=session, project=group[0].project)
    if any(each.kind not in _PLAIN for each in group):
        group = [each for each in group if each.kind is not HighlightKind.NOTE]
    clear = [each for each in group if not speech_acts.lacks_subject(each.text)]
    group = clear or group
    asks = [each for each in group if each.kind is HighlightKind.ASKED]
    ends = [each for each in group if each.kind is HighlightKind.FINISHED]
    ask = max(asks, key=lambda each: (each.reported, -each.at_ms), default=None)
    end = max(ends, key=lambda each: (each.reported, each.at_ms), default=None)
    if end is None and ask is not None:
        end = _find_answer(ask, group)
    story.lead = _choose_lead(ask, end)
    rest = [
        each
        for each in group
        if each.kind is not HighlightKind.ASKED and not (end and _ends_same_task(each, end))
    ]
    heaviest = sorted(rest, key=lambda each: -each.weight)[:MAX_REST]
    heaviest.sort(key=lambda each: each.at_ms)
    story.rest = merge([_demote(each) for each in heaviest])
    if story.lead is not None and story.lead.kind is HighlightKind.FINISHED:
        story.rest = [each for each in story.rest if not _repeats(each, story.lead)]
    return story


def _find_answer(ask: Highlight, group: Sequence[Highlight]) -> Highlight | None:
    """Return what a report says was done in nearly the words of the request, as the milestone."""
    terms = stems(ask.text.removeprefix(ASKED))
    for each in reversed(group):
        if (
            each.reported
            and each.kind is HighlightKind.DONE
            and len(terms & stems(each.text)) >= CLOSED * len(terms)
        ):
            return replace(each, kind=HighlightKind.FINISHED)
    return None


def _choose_lead(ask: Highlight | None, end: Highlight | None) -> Highlight | None:
    """Return what a session was about: what was asked for, and whether it is finished."""
    if end is None:
        return None if ask is None else replace(ask, text=ask.text.removeprefix(ASKED))
    if ask is None:
        return end
    task, word = ask.text.removeprefix(ASKED), _ENDED.search(end.text)
    if word is None or len(stems(task) & stems(end.text)) >= ALIKE * len(stems(task)):
        return end
    if not _shares_task(task, end.text):
        return end
    status = _STATUS.get(word[1].lower(), word[1].lower())
    grips = tuple(dict.fromkeys(end.grip_ids + ask.grip_ids))
    return replace(end, text=f"{task.rstrip(' .')}, {status}", grip_ids=grips)


def _shares_task(task: str, text: str) -> bool:
    """Return whether a text names the issue in brackets at the end of a task."""
    match = re.search(r"\(([^()\s]+)\)$", task)
    if match is None:
        terms = phrases.split_words(text).stems
        return all(stem.isdigit() or stem in _EMPTY for stem in terms)
    return re.search(rf"(?<![\w-]){re.escape(match[1])}(?![\w-]|\.\d)", text) is not None


def _ends_same_task(highlight: Highlight, end: Highlight) -> bool:
    """Return whether a highlight is the milestone of the session, or says the same of its task."""
    if highlight is end or highlight.text == end.text:
        return True
    ref = commands.find_ref(end.text)
    return (
        highlight.kind is HighlightKind.FINISHED
        and bool(ref)
        and commands.find_ref(highlight.text) == ref
    )


def _demote(highlight: Highlight) -> Highlight:
    """Return a lesser milestone of a session as something done."""
    if highlight.kind is not HighlightKind.FINISHED:
        return highlight
    return replace(highlight, kind=HighlightKind.DONE, weight=round(highlight.weight * _DEMOTED, 4))


def _repeats(highlight: Highlight, lead: Highlight) -> bool:
    terms = stems(highlight.text)
    if highlight.kind not in _FINISHED:
        return False
    return len(terms & stems(lead.text)) >= ALIKE * len(terms)


_EMPTY_WORDS = """
all done complete completed finished pushed closed task tasks epic feature issue ticket story work
everything merged shipped implemented steps
"""


@lru_cache(maxsize=1 << 13)  # a day is summarized again with each of its segments
def stems(text: str) -> frozenset[str]:
    """Return the stems of a text, or the text itself if it has none."""
    return frozenset(phrases.split_words(text).stems) or frozenset({text})


_EMPTY = stems(_EMPTY_WORDS)
_TESTED = stems("test tests suite build compile spec specs")
_MEASURING = stems(
    "all zero test tests suite spec specs doctest doctests pass passed passing passes fail fails"
    " failed failing green clean total count counts issue issues error errors warning warnings run"
    " ran now lint"
)
