"""Extracting lessons: reads the events of a session and returns what it teaches.

No model is asked: sentences are weighed by what they say, failures followed to the run that passed.
The same events give the same lessons, with the same ids.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agent_memory.features.lessons.model import (
    commands,
    conclusions,
    errors,
    failures,
    findings,
    names,
    rules,
)
from agent_memory.features.lessons.model.lessons import (
    MAX_NAMES,
    MAX_SITUATION,
    MAX_TEXT,
    Lesson,
    LessonKind,
    Trust,
    derive_lesson_id,
)
from agent_memory.features.lessons.model.talk import Talk, ToolRun, Turn, read_talk
from agent_memory.features.log.model.events import Event
from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.act_cues import Act
from agent_memory.kernel.text.analysis import extract_terms
from agent_memory.kernel.text.vocabulary import COMMON, GRAMMAR

MAX_LESSONS = 60  # of a stretch
_PER_TURN, _FEW = 0.3, 3  # beside rules, about as many by turn as this, and a few more
_PARTS = 4  # of a conclusion that is longer than a lesson
_MOST_RULE = 3.0  # weight: what is settled later says it better
_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069]+")
_PLUMBING = re.compile(  # where the output of a command goes
    r"[ \t]{0,4}(?:\b[12]|&)?>{1,2} ?(?:&[12]|/dev/null)"
    r"|[ \t]{0,4}\|&? {0,4}(?:tail|head|cat|less)\b[^|;&\n]*(?=\Z|[;&\n|])"
)
_PARTS_OF = re.compile(r" && | ; |\n")
_STATED = 4.0  # weight of a conclusion that a turn states whole
_NAME = re.compile(r"[a-z][a-z0-9]{2,}(?![\w])")
_TRIED_BEFORE = 8  # places
_SHOWN_COMMAND = 100
_SHOWN_ERROR = 120
_SHARED_WORDS = 2
_COMPLAINED = 1.6  # more weight of what explains something that is wrong
_DIAGNOSIS, _LEAST_DIAGNOSIS, _FIX_REACH = 1.6, 20, 3  # weight, words, places
_LEAST_REQUEST = 8  # words of a question that asks for something new
_SHOWN_PARTS = 2  # of a path
_LONGEST_WHY = 40  # words of a sentence
_SHORT = 14  # terms
_ALIKE = 0.7  # share of terms from which one lesson says what another one says
_CLAUSES = (". ", "; ", " \u2014 ", ": ", ", ", " ")
_DOUBTS = re.compile(r"\b(?:are you sure|don't think so|that's wrong|not (?:right|true)|really\?)")
_POSTPONED = 3.6  # weight
_LAST_TURNS = 4  # of the agent: what they leave open is open at the end


@dataclass(slots=True, eq=False)
class _Draft:
    kind: LessonKind
    text: str
    trust: Trust
    event: Event
    place: int  # in the text of the event
    at: int  # among the events
    weight: float
    situation: str
    also: tuple[Event, ...] = ()
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    terms: frozenset[str] = field(default=frozenset())


def extract(events: Sequence[Event]) -> list[Lesson]:
    """Return the lessons of the events of one session, in the order of what tells them."""
    talk = read_talk(events)
    drafts = [
        *_draft_conclusions(talk),
        *_draft_rules(talk),
        *_draft_failures(talk),
        *_draft_dead_ends(talk),
        *_draft_facts(talk),
        *_draft_gotchas(talk),
        *_draft_open_ends(talk),
    ]
    limit = _FEW + round(len(talk.turns) * _PER_TURN)
    chosen = _choose(drafts, limit)
    return [_build(each) for each in sorted(chosen, key=lambda each: (each.at, each.place))]


def _choose(drafts: Sequence[_Draft], limit: int) -> list[_Draft]:
    """Choose the weightiest, without those that say what another one says."""
    chosen: list[_Draft] = []
    taken: set[tuple[str, str, int]] = set()
    beside = 0  # what is not a rule of the user
    for draft in sorted(drafts, key=lambda each: (-each.weight, each.at, each.place)):
        draft.terms = frozenset(extract_terms(draft.text))
        key = (draft.kind.value, draft.event.event_id, draft.place)
        if len(draft.terms) < 3 or key in taken:
            continue
        if (draft.kind is not LessonKind.RULE and beside >= limit) or any(
            _says_same(draft, other) for other in chosen
        ):
            continue
        taken.add(key)
        chosen.append(draft)
        beside += draft.kind is not LessonKind.RULE
        if len(chosen) >= MAX_LESSONS:
            break
    return chosen


def _says_same(draft: _Draft, other: _Draft) -> bool:
    size = max(len(draft.terms), len(other.terms))
    if draft.kind is other.kind and (draft.kind is LessonKind.RULE or size <= _SHORT):
        # of another object it is another lesson
        if rules.gives_back(draft.text) is not rules.gives_back(other.text):
            return False
        one, two = names.find_terms(draft.text), names.find_terms(other.text)
        return one <= two or two <= one
    shared = len(draft.terms & other.terms)
    return (
        shared >= _ALIKE * min(len(draft.terms), len(other.terms)) and abs(draft.at - other.at) < 40
    )


def _build(draft: _Draft) -> Lesson:
    event = draft.event
    about = event.metadata
    return Lesson(
        id=derive_lesson_id(draft.kind, event.session_id, event.event_id, draft.place),
        kind=draft.kind,
        text=_clean(draft.text),
        situation=_clean(draft.situation),
        trust=draft.trust,
        project=about.get("project", ""),
        session_id=event.session_id,
        agent=about.get("agent", ""),
        at_ms=event.at_ms,
        events=tuple(dict.fromkeys(each.event_id for each in (event, *draft.also))),
        paths=draft.paths[:MAX_NAMES],
        commands=draft.commands[:MAX_NAMES],
        errors=draft.errors[:MAX_NAMES],
        avoids=draft.avoids[:MAX_NAMES],
        weight=round(draft.weight, 2),
    )


# Words


def _clean(text: str) -> str:
    """Return a text on one line, without what a reader would not see."""
    return " ".join(_HIDDEN.sub(" ", text).split())


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """Cut a text where a sentence, a clause or a word ends."""
    if len(text) <= limit:
        return text
    for number, mark in enumerate(_CLAUSES):
        end = text.rfind(mark, limit * min(6 + number, 8) // 10, limit)
        if end > 0:
            return text[: end + (mark == ". ")].rstrip(" ,;:\u2014")
    return text[:limit]


def _split(text: str, most: int) -> list[tuple[int, str]]:
    """Split a text into parts that fit, with the place where each begins."""
    parts: list[tuple[int, str]] = []
    at = 0
    while at < len(text) and len(parts) < most:
        part = cut(text[at : at + MAX_TEXT + 1])
        parts.append((at, part))
        at += max(1, len(part))
        while at < len(text) and text[at] in " .;,:\u2014":
            at += 1
    return parts


def _quote(turn: Turn, first: int, last: int) -> str:
    while first > 0 and turn.sentences[first - 1].text.endswith(";"):
        first -= 1  # a clause of the same sentence
    return " ".join(each.text for each in turn.sentences[max(0, first) : last + 1]).rstrip(";")


def _describe(turn: Turn | None, told: str) -> str:
    """Return the request that led to a lesson, with the names of what it is about."""
    if turn is None:
        return ""
    text = cut(turn.text, MAX_SITUATION - 100)
    extra = [
        name
        for name in dict.fromkeys((*names.find_code(told), *names.find_paths(told)))
        if name not in text
    ]
    return cut(f"{text} [{', '.join(extra)}]" if extra else text, MAX_SITUATION)


def _find_request(talk: Talk, place: int) -> Turn | None:
    """Return the request that the work at a place is about: the last one with words of its own."""
    users = [turn for turn in talk.turns if turn.is_user and turn.place < place]
    if not talk.runs:  # a talk about one thing
        return users[0] if users else None
    for turn in reversed(users):
        if turn.size >= 5 and not speech_acts.is_go_on(turn.text):
            return turn
    return users[0] if users else None


def _find_files(talk: Talk, place: int, reach: int = 4) -> list[str]:
    """Return the files that the agent wrote just before a place."""
    near = [run for run in talk.runs if 0 < place - run.place <= reach and run.file]
    return [run.file for run in near if run.changes][-2:]


def _find_run(talk: Talk, place: int, reach: int = 3) -> ToolRun | None:
    """Return the last command before a place."""
    near = [run for run in talk.runs if 0 < place - run.place <= reach and run.command]
    return near[-1] if near else None


# Kinds


def _draft_rules(talk: Talk) -> Iterable[_Draft]:
    worked = {run.place for run in talk.runs}
    for turn in talk.turns:
        if not turn.is_user:
            continue
        before = talk.find_turn(turn.place, -1)
        after_work = turn.place - 1 in worked or turn.place - 2 in worked
        answers = before is not None and not before.is_user and before.asks
        for first, last, weight in rules.find_rules(turn, after_work=after_work, answers=answers):
            text = cut(_quote(turn, first, last))
            is_choice = turn.sentences[first].has(Act.CHOICE) and weight < 2.6
            files = _find_files(talk, turn.place) if _points(text) else []
            keys = names.find_commands(text)
            run = _find_run(talk, turn.place)
            if run is not None and (run.failed or turn.has(Act.OBJECTION)):
                ran = commands.read_commands(run.command)
                programs = {key.partition(" ")[0] for key in keys}
                keys = (*keys, *(key for key in ran if key.partition(" ")[0] in programs))
            yield _Draft(
                kind=LessonKind.DECISION if is_choice else LessonKind.RULE,
                text=text,
                trust=Trust.USER,
                event=turn.event,
                place=first,
                at=turn.place,
                weight=2.0 + min(weight, _MOST_RULE),
                situation=_describe(_find_request(talk, turn.place) or turn, text),
                paths=names.find_paths(text, files),
                commands=tuple(dict.fromkeys(keys)),
                avoids=names.find_forbidden(text),
            )


def _points(text: str) -> bool:
    return bool(
        re.search(r"\b(?:that|this|the) (?:file|folder|directory|module|class|test)\b", text, re.I)
    )


def _draft_conclusions(talk: Talk) -> Iterable[_Draft]:
    for each in conclusions.find_conclusions(talk):
        opening = each.opening.text
        most = _PARTS if each.weight >= _STATED else 1
        for place, part in _split(each.text, most):
            yield _Draft(
                kind=LessonKind.DECISION,
                text=part,
                trust=each.trust,
                event=each.turn.event,
                place=each.first * 1000 + place,
                at=each.turn.place,
                weight=2.0 + each.weight,
                situation=_describe(each.opening, each.text),
                also=tuple(t.event for t in (*each.also, each.opening)),
                paths=names.find_paths(f"{opening} {each.text}"),
                commands=names.find_commands(part),
                avoids=names.find_forbidden(part),
            )


def _draft_failures(talk: Talk) -> Iterable[_Draft]:
    for each in failures.find_failures(talk):
        run = each.run
        shown = _show(run.command)
        text = f"`{shown}` failed: {cut(each.line, _SHOWN_ERROR)}"
        weight = 4.2
        if each.passed is not None:
            by = [f"`{_show_change(run.command, command)}`" for command in each.by]
            by += [f"an edit of {_shorten(file, run)}" for file in each.files]
            text = f"{text} - mended by {', '.join(dict.fromkeys(by))}."
        elif _is_unresolved(talk, run.place):
            text = f"{text} - not resolved in that session."
            weight = 3.0
        else:
            continue
        told = each.told
        why = _find_why(told, text) if told is not None else ""
        text = f"{text} {why}" if why else text
        keys = commands.read_commands(run.command)
        yield _Draft(
            kind=LessonKind.FAILURE,
            text=cut(text),
            trust=Trust.OUTPUT,
            event=run.event,
            place=0,
            at=run.place,
            weight=weight,
            situation=_describe(_find_request(talk, run.place), shown),
            also=tuple(e for e in (each.passed and each.passed.event, told and told.event) if e),
            paths=names.find_paths(" ".join(each.by), (_shorten(f, run) for f in each.files)),
            # What an edit mended stays mended: only the same error says more, not the command.
            commands=(tuple(key for key in keys if " " in key) or keys)
            if each.by or not each.files
            else (),
            errors=each.signatures,
        )


def _is_unresolved(talk: Talk, place: int) -> bool:
    """Return whether the session ended soon after a failure, or somebody says that it stays."""
    later = [turn for turn in talk.turns if turn.place > place]
    return len(later) <= 3 and bool(later) and not any(t.has(Act.PROGRESS) for t in later)


def _find_why(told: Turn, text: str) -> str:
    """Return what the agent said of a failure: its explanation, or what shares words with it."""
    terms = {term for term in extract_terms(text) if len(term) > 3}
    if (said := findings.find_explanation(told)) is not None:
        why = _quote(told, said[0], said[1])
        if max(each.size for each in told.sentences[said[0] : said[1] + 1]) > _LONGEST_WHY:
            return ""
        return why if len(terms & set(extract_terms(why))) >= _SHARED_WORDS else ""
    said_shortly = [each for each in told.sentences if each.size <= _LONGEST_WHY]
    near = [s for s in said_shortly if len(terms & set(extract_terms(s.text))) >= _SHARED_WORDS]
    telling = [each for each in near if findings.weigh_finding(each) > 0]
    return " ".join(each.text for each in telling[:2] if not findings.promises(each))


def _shorten(file: str, run: ToolRun) -> str:
    """Return a path as it is from the folder of the agent, or its last parts."""
    folder = run.event.metadata.get("cwd", "").rstrip("/") + "/"
    if len(folder) > 1 and file.startswith(folder):
        return file[len(folder) :]
    return "/".join(file.split("/")[-_SHOWN_PARTS:]) if file.startswith("/") else file


def _show_change(failed: str, command: str) -> str:
    """Return what of a command was not in the one that failed: its other parts, or words."""
    failed, command = _PLUMBING.sub("", failed), _PLUMBING.sub("", command)
    parts = [part.strip() for part in _PARTS_OF.split(command)]
    new = [part for part in parts if part not in failed and not part.startswith("cd ")]
    if len(parts) > 1 and new:
        return _show(" && ".join(new))
    if len(command) <= _SHOWN_COMMAND:
        return _show(command)
    words = command.split()
    added = [word for word in words[1:] if word not in failed]
    return _show(" ".join((words[0], *added))) if len(added) < len(words) - 1 else _show(command)


def _show(command: str) -> str:
    whole = _clean(_PLUMBING.sub("", command))
    shown = cut(whole, _SHOWN_COMMAND)
    return shown if shown == whole else f"{shown} ..."


def _draft_dead_ends(talk: Talk) -> Iterable[_Draft]:
    for at, turn in enumerate(talk.turns):
        if turn.is_user:
            before = [t for t in talk.turns[max(0, at - 2) : at] if t.size > 3]
            if at < 2 or not findings.is_verdict(turn, before):
                continue
            said = cut(turn.text, 110)
            reason = before[-1] if before else turn
            room = MAX_TEXT - len(said) - 4
            text = cut(reason.text, room if len(before) < 2 else room * 2 // 3)
            if len(before) > 1 and room - len(text) > 60:
                text = f"{cut(before[0].text, room - len(text) - 2)} {text}"
            yield _Draft(
                kind=LessonKind.DEAD_END,
                text=f"{said} ({text})",
                trust=Trust.USER,
                event=turn.event,
                place=0,
                at=turn.place,
                weight=5.2,
                situation=_describe(
                    _find_request(talk, before[0].place if before else turn.place), text
                ),
                also=tuple(t.event for t in before),
                paths=names.find_paths(text),
                commands=_list_tried(talk, turn.place, f"{said} {text}"),
            )
        elif (found := findings.find_dead_end(turn)) is not None:
            text = cut(_quote(turn, *found))
            yield _Draft(
                kind=LessonKind.DEAD_END,
                text=text,
                trust=Trust.AGENT,
                event=turn.event,
                place=found[0],
                at=turn.place,
                weight=4.0,
                situation=_describe(_find_request(talk, turn.place), text),
                paths=names.find_paths(text),
                commands=_list_tried(talk, turn.place, text),
            )


def _list_tried(talk: Talk, place: int, text: str) -> tuple[str, ...]:
    """Return the commands that a text names: of those that were run, by one of their words. What
    ran beside them may be about anything."""
    found: dict[str, None] = dict.fromkeys(names.find_commands(text))
    said = set(_NAME.findall(text.lower())) - COMMON - GRAMMAR
    for run in talk.runs:
        if not 0 < place - run.place <= _TRIED_BEFORE or not run.command:
            continue
        if run.failed or said & set(_NAME.findall(run.command.lower())):
            keys = commands.read_commands(run.command)
            found.update((key, None) for key in keys if key.count(" ") == 1)
    return tuple(found)[:MAX_NAMES]


def _draft_facts(talk: Talk) -> Iterable[_Draft]:
    for turn in talk.turns:
        if not turn.is_user:
            continue
        run = _find_run(talk, turn.place, 2)
        failed = run if run is not None and run.failed else None
        before = talk.find_turn(turn.place, -1)
        corrects = failed is not None or turn.sentences[0].has(Act.OBJECTION)
        corrects = corrects or (before is not None and not before.is_user and before.asks)
        for first, last in findings.find_facts(turn, corrects=corrects):
            text = cut(_quote(turn, first, last))
            yield _Draft(
                kind=LessonKind.FACT,
                text=text,
                trust=Trust.USER,
                event=turn.event,
                place=first,
                at=turn.place,
                weight=3.0 + (1.0 if failed or turn.has(Act.OBJECTION) else 0.0),
                situation=_describe(_find_request(talk, turn.place) or before, text),
                paths=names.find_paths(text),
                commands=tuple(
                    dict.fromkeys(
                        (
                            *names.find_commands(text),
                            *(commands.read_commands(failed.command) if failed else ()),
                        )
                    )
                ),
                errors=errors.find_signatures(failed.output) if failed else (),
            )


def _draft_gotchas(talk: Talk) -> Iterable[_Draft]:
    """Yield, of the work for each request, what was explained best, if something was found out."""
    best: dict[int, _Draft] = {}
    if talk.is_inner:  # its answer is a report to another agent
        return ()
    request: Turn | None = None
    complained = False
    for turn in talk.turns:
        if turn.is_user:
            asks_back = turn.asks and turn.size < _LEAST_REQUEST and request is not None
            if turn.size >= 5 and not asks_back and not speech_acts.is_go_on(turn.text):
                request = turn
                complained = _complains(turn)
            continue
        admits = _admits(talk, turn)
        worked = any(
            run.place < turn.place and (request is None or run.place > request.place)
            for run in talk.runs
        )
        if not worked and not admits and not (complained and talk.runs):
            continue
        found = findings.find_explanation(turn)
        if found is None or admits:
            found = (0, len(turn.sentences) - 1, 3.0) if admits else found
        if complained and _precedes_fix(talk, turn):  # it says what was wrong
            found = found or (0, len(turn.sentences) - 1, 0.0)
            found = (*found[:2], max(found[2], _DIAGNOSIS))
        if found is None:
            continue
        first, last, weight = found
        weight = min(weight, 5.0) + (_COMPLAINED if complained else 0.0) + (1.5 if admits else 0.0)
        if weight <= findings.LEAST_GOTCHA:
            continue
        text = cut(_quote(turn, first, last))
        key = request.place if request else -1
        known = best.get(key)
        if known is not None and known.weight >= weight * 0.5 + 1.0:
            continue
        run = _find_run(talk, turn.place, 2)
        best[key] = _Draft(
            kind=LessonKind.GOTCHA,
            text=text,
            trust=Trust.AGENT,
            event=turn.event,
            place=first,
            at=turn.place,
            weight=weight * 0.5 + 1.0,
            situation=_describe(request, text),
            paths=names.find_paths(text),
            commands=tuple(
                dict.fromkeys(
                    (
                        *names.find_commands(text),
                        *(commands.read_commands(run.command) if run and run.failed else ()),
                    )
                )
            ),
        )
    return best.values()


def _precedes_fix(talk: Talk, turn: Turn) -> bool:
    """Return whether the agent changes a file right after it said what it found."""
    after = next((run for run in talk.runs if run.place > turn.place), None)
    if after is None or after.place - turn.place > _FIX_REACH or not after.changes:
        return False
    return turn.size >= _LEAST_DIAGNOSIS and not findings.promises(turn.sentences[0])


def _admits(talk: Talk, turn: Turn) -> bool:
    """Return whether the agent takes back what it said."""
    before = talk.find_turn(turn.place, -1)
    if before is None or not before.is_user:
        return False
    opens = turn.sentences[:3]
    if any(each.has(Act.ADMISSION) and "right" not in each.view for each in opens):
        return True
    return any(each.has(Act.ADMISSION) for each in opens) and any(
        each.has(Act.OBJECTION) or _DOUBTS.search(each.view) for each in before.sentences
    )


def _complains(turn: Turn) -> bool:
    return (
        turn.has(Act.FAILURE)
        or turn.has(Act.COMPLAINT)
        or bool(
            re.search(
                r"\b(?:wrong|late|too (?:late|early|high|low|many)|rejected|stuck|pending|why"
                r"|error|bug|slow|crash|doesn't|does not|not show|miss(?:es|ing)"
                r"|off\b|funny|weird|hangs?)",
                turn.view,
            )
        )
    )


def _draft_open_ends(talk: Talk) -> Iterable[_Draft]:
    yield from _draft_postponed(talk)
    said = [] if talk.is_inner else [turn for turn in talk.turns if not turn.is_user]
    for turn in said[-_LAST_TURNS:]:
        if not talk.runs and not turn.has(Act.PROGRESS):
            continue  # a talk about how things are
        later = [each for each in talk.turns if each.place > turn.place]
        for first, last in findings.find_open_ends(turn):
            text = cut(_quote(turn, first, last))
            if findings.is_done_later(text, later):
                continue
            yield _Draft(
                kind=LessonKind.OPEN,
                text=text,
                trust=Trust.AGENT,
                event=turn.event,
                place=first,
                at=turn.place,
                weight=3.4,
                situation=_describe(_find_request(talk, turn.place), text),
                paths=names.find_paths(text),
            )


def _draft_postponed(talk: Talk) -> Iterable[_Draft]:
    """Yield what the user leaves to do for another time."""
    for turn in [turn for turn in talk.turns if turn.is_user][-_LAST_TURNS:]:
        later = [each for each in talk.turns if each.place > turn.place]
        for first, last in findings.find_postponed(turn):
            text = cut(_quote(turn, first, last))
            if not findings.is_done_later(text, later):
                yield _Draft(
                    kind=LessonKind.OPEN,
                    text=text,
                    trust=Trust.USER,
                    event=turn.event,
                    place=first,
                    at=turn.place,
                    weight=_POSTPONED,
                    situation=_describe(_find_request(talk, turn.place) or turn, text),
                    paths=names.find_paths(text),
                )
