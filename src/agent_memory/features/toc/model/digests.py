"""Digests: extractive summaries of a period from those of its children, each level in its form.

A day shows what was finished, decided, found out and left open. A week shows a line for each
session, a month one for each task and kind, a year its months.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heapreplace

from agent_memory.features.toc.model import commands, last_words, naming, work_figures
from agent_memory.features.toc.model.highlights import READING_ORDER, Highlight, HighlightKind, Work
from agent_memory.features.toc.model.last_words import SessionHighlights, stems
from agent_memory.features.toc.model.periods import MONTHS, Level, find_day
from agent_memory.features.toc.model.summaries import (
    ChildSummary,
    Digest,
    DigestBullet,
    PeriodSummary,
)
from agent_memory.kernel.counts import format_count

MAX_KEYWORDS = 12
MAX_TEXT = 320  # characters of the summary, one or two sentences
MAX_MORE = 20  # key phrases in the second sentence
MAX_LEADS = 3  # sessions in the headline
MAX_PROJECTS = 5
DAY_BULLETS = 9  # and two for each session
MAX_DAY_BULLETS = 16
MAX_LINES = {Level.WEEK: 8, Level.MONTH: 8, Level.YEAR: 24}  # sessions that are shown
SINGLE = {Level.WEEK: 4, Level.MONTH: 3, Level.YEAR: 2}  # shown of each other kind
KEPT = {Level.DAY: 24, Level.WEEK: 32, Level.MONTH: 40, Level.YEAR: 48}
ROOM = {Level.WEEK: 420, Level.MONTH: 360, Level.YEAR: 480}  # characters of a line
_PART = 90  # characters of a part of a line
_YEAR_PARTS = 3  # parts of a session in a year
_MINOR = 0.8  # share of the heaviest part's weight, below which a part is left out of a line

_KNOWN = 0.3  # value of a highlight that adds no term
_SAME_SESSION, _SAME_KIND = 0.12, 0.2  # penalties for each one taken before
_BONUS = {  # those that nothing later mended, closed or replaced matter most
    HighlightKind.DECIDED: 0.2,
    HighlightKind.BROKEN: 0.6,
    HighlightKind.OPEN: 0.6,
    HighlightKind.STATE: 0.4,
}
_HEADS = {
    HighlightKind.DECIDED: "Decided",
    HighlightKind.FOUND: "Found",
    HighlightKind.BROKEN: "Broken",
    HighlightKind.OPEN: "Open",
    HighlightKind.STATE: "State",
}
_OUTCOMES = frozenset({HighlightKind.DONE, HighlightKind.DECIDED, HighlightKind.FOUND})
_LEADS = frozenset({HighlightKind.FINISHED, HighlightKind.ASKED})
_ASIDE = re.compile(r"\s{0,4}\([^()]{12,}\)(?=\s{0,4}(?:[.;,:]|$))")


def digest(period: PeriodSummary) -> Digest:
    """Summarize a period: what came of its sessions, in the form of its level."""
    children = period.children
    stories = last_words.summarize_sessions(
        highlight for child in children for highlight in child.highlights
    )
    chosen = _select(stories, KEPT[period.level])
    kept = _arrange(chosen, stories)
    work = _measure(period, stories)
    bullets = _show_day(chosen, stories) if period.level is Level.DAY else _show_lines(period, kept)
    return Digest(
        text=_write_text(period.level, kept, bullets, work),
        bullets=tuple(bullets),
        highlights=tuple(kept),
        keywords=_keywords(children),
        work=work,
    )


def write_brief(lead: str, keys: Iterable[str], bullets: Iterable[str]) -> str:
    """Return the lead, and a second sentence with the key phrases that the bullets lack."""
    text = _end_sentence(lead)
    shown = " ".join([text, *bullets]).casefold()
    room = MAX_TEXT - len(text) - len(" Also: .")
    more: list[str] = []
    for key in keys:
        if key.casefold() in shown:
            continue
        room -= len(key) + 2
        if room < 0 or len(more) == MAX_MORE:
            break
        more.append(key)
    return f"{text} Also: {', '.join(more)}.".lstrip() if more else text


def _measure(period: PeriodSummary, stories: Sequence[SessionHighlights]) -> Work:
    if period.level is not Level.DAY:
        return work_figures.add_days([child.work for child in period.children])
    leads = [story.lead for story in stories if story.lead is not None]
    rest = [each for story in stories for each in story.rest]
    return replace(
        work_figures.measure_day(period.children),
        finished=sum(lead.kind is HighlightKind.FINISHED for lead in leads),
        decided=sum(each.kind is HighlightKind.DECIDED for each in rest),
    )


def _select(stories: Sequence[SessionHighlights], limit: int) -> list[Highlight]:
    """Select the highlights that rise, best first: of every session its lead and, if that is only a
    request, its best outcome; then the heaviest, each new, of many sessions and kinds."""
    ranked = sorted(stories, key=lambda story: -story.weight)
    chosen = [story.lead for story in ranked[:limit] if story.lead is not None]
    rest = last_words.merge([each for story in stories for each in story.rest])
    first = _find_outcomes(ranked, rest)[: max(0, limit - len(chosen))]
    chosen += first
    rest = [each for each in rest if not any(each is taken for taken in first)]
    sessions: Counter[str] = Counter()
    kinds: Counter[HighlightKind] = Counter()
    seen = {stem for lead in chosen for stem in stems(lead.text)}

    def value(number: int) -> tuple[float, int]:
        each = rest[number]
        appeal = _appeal(each, seen, sessions[each.session], kinds[each.kind])
        return -appeal, each.at_ms

    heap = [(value(number), number) for number in range(len(rest))]
    heapify(heap)
    while heap and len(chosen) < limit:
        _, number = heap[0]
        heapreplace(heap, (value(number), number))
        if heap[0][1] != number:
            continue  # values only fall: one that stays on top is the best
        best = rest[heappop(heap)[1]]
        chosen.append(best)
        sessions[best.session] += 1
        kinds[best.kind] += not best.reported
        seen |= stems(best.text)
    return chosen


def _arrange(
    highlights: Sequence[Highlight], stories: Sequence[SessionHighlights]
) -> list[Highlight]:
    """Arrange highlights by session; in a session the lead comes first, then kind by kind."""
    place = {story.session: number for number, story in enumerate(stories)}
    return sorted(
        highlights,
        key=lambda each: (
            place.get(each.session, 0),
            READING_ORDER.index(each.kind),
            each.at_ms,
            -each.weight,
        ),
    )


def _find_outcomes(
    stories: Sequence[SessionHighlights], rest: Sequence[Highlight]
) -> list[Highlight]:
    """Return the heaviest outcome of each session that has no milestone."""
    heaviest: dict[str, Highlight] = {}
    for each in rest:
        known = heaviest.get(each.session)
        if each.kind in _OUTCOMES and (known is None or each.weight > known.weight):
            heaviest[each.session] = each
    return [
        heaviest[story.session]
        for story in stories
        if story.session in heaviest
        and (story.lead is None or story.lead.kind is not HighlightKind.FINISHED)
    ]


def _appeal(highlight: Highlight, seen: set[str], taken: int, alike: int) -> float:
    terms = stems(highlight.text)
    fresh = len(terms - seen) / len(terms)
    value = (highlight.weight + _BONUS.get(highlight.kind, 0.0)) * (_KNOWN + (1 - _KNOWN) * fresh)
    if highlight.reported:
        alike = 0  # the items of a report belong together
    return value / (1 + _SAME_SESSION * taken + _SAME_KIND * alike)


def _show_day(
    chosen: Sequence[Highlight], stories: Sequence[SessionHighlights]
) -> list[DigestBullet]:
    """Show a day: each highlight in a bullet, by session; the project, if there are several.

    What was asked for is in the headline, and a bullet only for a session without another.
    """
    limit = min(DAY_BULLETS + 2 * len(stories), MAX_DAY_BULLETS)
    shown: list[Highlight] = []
    for story in stories:
        own = [each for each in chosen if each.session == story.session]
        telling = [each for each in own if each.kind is not HighlightKind.ASKED]
        outcomes = [each for each in telling if each.kind is not HighlightKind.OPEN]
        shown += (outcomes or telling or own)[:1]
    shown += [each for each in chosen if each.kind is not HighlightKind.ASKED and each not in shown]
    several = len({each.project for each in chosen}) > 1
    return [
        _to_bullet(_prefix(each.project if several else "", each.text), [each])
        for each in _arrange(shown[:limit], stories)
    ]


def _show_lines(period: PeriodSummary, kept: Sequence[Highlight]) -> list[DigestBullet]:
    """Show a longer period: a line for each session with its parts, then the other kinds."""
    level = period.level
    sessions: dict[str, list[Highlight]] = {}
    for each in kept:
        if each.kind not in _HEADS:
            sessions.setdefault(each.session, []).append(each)
    several = len({each.project for each in kept}) > 1
    heaviest = sorted(sessions.values(), key=lambda group: -sum(each.weight for each in group))
    lines = sorted(heaviest[: MAX_LINES[level]], key=lambda group: group[0].at_ms)
    if level is Level.YEAR:
        bullets = _show_months(lines)
    else:
        bullets = [_show_session(group, level, several) for group in lines]
    for kind, head in _HEADS.items():
        found = [each for each in kept if each.kind is kind]
        found = sorted(found, key=lambda each: -each.weight)[: SINGLE[level]]
        found.sort(key=lambda each: each.at_ms)
        if level is Level.WEEK:
            bullets += [
                _to_bullet(_prefix(each.project if several else "", each.text), [each])
                for each in found
            ]
        elif found:
            parts = [
                _prefix(each.project if several else "", _shorten(each.text)) for each in found
            ]
            bullets.append(_to_bullet(f"{head}: {'; '.join(parts)}", found))
    return bullets


def _show_session(group: Sequence[Highlight], level: Level, several: bool) -> DigestBullet:
    """Show a session in one line: what it was about, and as many of its parts as fit."""
    lead = next((each for each in group if each.kind in _LEADS), None)
    parts = sorted((each for each in group if each is not lead), key=lambda each: -each.weight)
    head = group[0].project if several or level is not Level.WEEK else ""
    ref = commands.find_ref(lead.text) if lead is not None else ""
    text = lead.text.rstrip(" .") if lead is not None else ""
    used = [] if lead is None else [lead]
    room = ROOM[level] - len(text)
    chosen: list[Highlight] = []
    for part in parts:
        room -= len(_shorten(part.text, ref)) + 2
        is_minor = part.weight < _MINOR * parts[0].weight
        if (room < 0 or is_minor) and (chosen or lead is not None):
            break
        chosen.append(part)
    chosen.sort(key=lambda each: each.at_ms)
    joined = "; ".join(_shorten(part.text, ref) for part in chosen)
    line = _prefix(head, ": ".join(filter(None, (text, joined))))
    is_asked = lead is not None and lead.kind is HighlightKind.ASKED
    kind = chosen[0].kind if chosen and (lead is None or is_asked) else group[0].kind
    return replace(_to_bullet(line, [*used, *chosen]), kind=kind)


def _show_months(groups: Sequence[Sequence[Highlight]]) -> list[DigestBullet]:
    """Show a year: a line for each month and project, with what its sessions were about and, as far
    as there is room, their heaviest parts."""
    months: dict[tuple[int, str], list[Sequence[Highlight]]] = {}
    for group in groups:
        key = find_day(group[0].at_ms).first.month, group[0].project
        months.setdefault(key, []).append(group)
    return [
        _show_month(", ".join(filter(None, (MONTHS[month - 1], project))), own)
        for (month, project), own in months.items()
    ]


def _show_month(head: str, groups: Sequence[Sequence[Highlight]]) -> DigestBullet:
    leads = [next((each for each in group if each.kind in _LEADS), group[0]) for group in groups]
    room = ROOM[Level.YEAR]
    shown: dict[int, list[Highlight]] = {}
    for number in sorted(range(len(groups)), key=lambda number: -leads[number].weight):
        room -= len(leads[number].text) + 2
        if room >= 0 or not shown:
            shown[number] = []
    rest = {
        number: sorted(
            (each for each in groups[number] if each is not leads[number]),
            key=lambda each: -each.weight,
        )[:_YEAR_PARTS]
        for number in shown
    }
    for turn in range(_YEAR_PARTS):
        for number, parts in rest.items():
            if turn < len(parts) and len(_shorten(parts[turn].text)) + 2 <= room:
                room -= len(_shorten(parts[turn].text)) + 2
                shown[number].append(parts[turn])
    texts = []
    for number in sorted(shown):
        words = "; ".join(_shorten(part.text) for part in shown[number])
        texts.append(leads[number].text.rstrip(" .") + (f" ({words})" if words else ""))
    if len(leads) > len(shown):
        texts.append(f"{len(leads) - len(shown)} more")
    used = [each for number in sorted(shown) for each in (leads[number], *shown[number])]
    return _to_bullet(_prefix(head, "; ".join(texts)), used)


def _shorten(text: str, ref: str = "") -> str:
    """Return a highlight as a part of a line: without asides and the number of its task."""
    number = re.match(r"`?(?P<ref>[\w#][\w.#-]*)`?: ", text)
    if number and commands.find_ref(number["ref"]) and (not ref or number["ref"].startswith(ref)):
        text = text[number.end() :]
    text = _ASIDE.sub("", text).rstrip(" .;:,\u2026")
    if len(text) > _PART:
        clause = max(text.rfind(mark, _PART // 2, _PART) for mark in ("; ", " \u2014 ", ", "))
        end = clause if clause > 0 else text.rfind(" ", 0, _PART)
        text = text[: end if end > 0 else _PART].rstrip(" ,;:") + "\u2026"
    return text


def _prefix(head: str, text: str) -> str:
    return f"{head}: {text}" if head else text


def _to_bullet(text: str, shown: Sequence[Highlight]) -> DigestBullet:
    return DigestBullet(
        text=text,
        grip_ids=tuple(dict.fromkeys(grip for each in shown for grip in each.grip_ids)),
        weight=max((each.weight for each in shown), default=0.0),
        kind=shown[0].kind,
    )


def _write_text(
    level: Level, kept: Sequence[Highlight], bullets: Sequence[DigestBullet], work: Work
) -> str:
    """Write the headline: what the sessions were about, by project, and the figures.

    A month and a year, of which the bullets name the tasks, have the projects and more figures.
    """
    if level in (Level.MONTH, Level.YEAR) and (results := work_figures.describe_results(work)):
        names = sorted({each.project for each in kept if each.project})
        named = f" in {naming.join_words(names[:MAX_PROJECTS])}" if names else ""
        return f"{_end_sentence(results + named)} {_end_sentence(work_figures.describe(work))}"
    leads = sorted((each for each in kept if each.kind in _LEADS), key=lambda each: -each.weight)
    chosen = sorted(leads[:MAX_LEADS], key=lambda each: each.at_ms)
    projects = dict.fromkeys(each.project for each in chosen)
    heads = [
        _prefix(
            project if len(projects) > 1 else "",
            "; ".join(
                dict.fromkeys(each.text.rstrip(" .") for each in chosen if each.project == project)
            ),
        )
        for project in projects
    ]
    if not heads and bullets:
        heads = [max(bullets, key=lambda bullet: bullet.weight).text]
    more = len(leads) - len(chosen)
    if more > 0:
        heads.append(f"And {format_count(more, 'more task')}")
    return " ".join(_end_sentence(part) for part in (*heads, work_figures.describe(work)) if part)


def _end_sentence(text: str) -> str:
    return text if not text or text[-1] in ".!?…。\uff01\uff1f" else text + "."


def _keywords(children: Sequence[ChildSummary]) -> tuple[str, ...]:
    """Return the keywords, ranked by how many children have them and how early."""
    score: dict[frozenset[str], float] = {}
    shown: dict[frozenset[str], str] = {}
    for child in children:
        for rank, keyword in enumerate(dict.fromkeys(child.keywords)):
            terms = stems(keyword)
            score[terms] = score.get(terms, 0.0) + 1.0 / (1.0 + 0.25 * rank)
            shown.setdefault(terms, keyword)
    ordered = sorted(score, key=lambda terms: -score[terms])
    return tuple(shown[terms] for terms in ordered[:MAX_KEYWORDS])
