"""Evidence: what came of a stretch of work, from reports, commands, todo lists and titles.

It ranks before the sentences in between. Each piece has the words that it stands for.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import commands, reports, speech_acts
from agent_memory.features.toc.model.commands import CommandEffect
from agent_memory.features.toc.model.highlights import PLANNED, HighlightKind
from agent_memory.features.toc.model.reports import ReportItem
from agent_memory.features.toc.model.summaries import Utterance
from agent_memory.features.toc.model.work_figures import WRITERS, is_kept_file
from agent_memory.kernel.text import phrases

MAX_FILES = 3  # names in a sentence
MAX_COMMAND = 60
MAX_DEEDS = 40  # of a command
MAX_REASON = 100
WEIGHTS = {
    HighlightKind.FINISHED: 3.0,
    HighlightKind.DONE: 1.8,
    HighlightKind.DECIDED: 1.7,
    HighlightKind.FOUND: 1.3,
    HighlightKind.OPEN: 1.4,
    HighlightKind.STATE: 1.2,
    HighlightKind.BROKEN: 0.9,
    HighlightKind.ASKED: 1.1,
    HighlightKind.PLANNED: 0.5,
    HighlightKind.NOTE: 0.4,
}
_READERS = frozenset({"Read", "read_file"})
REPORTED = 1.25  # the words of a final report count more
_CLOSING = 1.1
_OUTPUT = 0.6  # a sentence of our own about a tool's output
_TODO = 0.7
_NESTED = 0.6
_REMEMBERED = 0.8  # in the summary of a compaction
_EXPLAINED = 0.5  # an explanation, where nothing was changed
_PLAN = re.compile(
    r"^#+\s*(?:(?:implementation\s+)?plan\s*[:\u2014-]\s*)?(.{8,120})$",
    re.IGNORECASE | re.MULTILINE,
)


_LOOK = re.compile(
    r"(?:cd\s+\S+\s*&&\s*)?(?:ls|cat|head|tail|grep|rg|find|tree|wc|stat|file|which|echo|pwd|sed\s+-n|less"
    r"|git\s+(?:log|show|diff|status|branch|blame|ls-files|grep)|\w+\s+(?:show|list|ready|view|get))\b"
)
_LEAST_TERMS = 2
_MANY_WORDS = 8  # a text with as many names something
_ANSWERS = 2  # plain sentences of an answer
_HASH = re.compile(r"\b(?=[a-f]*\d)[0-9a-f]{7,40}\b")
_FAULT_MARK = re.compile(r"^(?:\W*(?:fatal|error|Error|ERROR|E|FAILED|FATAL)\b[\s:]*)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEvidence:
    """A candidate for a bullet."""

    text: str
    kind: HighlightKind
    weight: float
    source: Utterance
    start: int
    end: int
    place: int  # the number of its utterance
    reported: bool = False
    ref: str = ""


def is_work(spoken: Sequence[Utterance], context: Sequence[Utterance]) -> bool:
    """Return whether an agent works with tools here, and does not only talk."""
    return any(
        utterance.type is EventType.TOOL_RESULT or utterance.role is EventRole.TOOL
        for utterance in (*spoken, *context)
    )


def gather(
    spoken: Sequence[Utterance], context: Sequence[Utterance], *, is_cut: bool = False
) -> list[WorkEvidence]:
    """Return the evidence of a stretch of work, in order. `is_cut`: the agent goes on after it."""
    worked = any(_changes(utterance) for utterance in (*context, *spoken))
    found: list[WorkEvidence] = []
    for place, utterance in enumerate(spoken):
        if place + 1 < len(spoken):
            ends_turn = spoken[place + 1].type is EventType.USER_MESSAGE
        else:
            ends_turn = not is_cut
        found += _read(utterance, place, worked, ends_turn=ends_turn)
    reported = any(each.reported and each.kind is HighlightKind.DONE for each in found)
    found += [
        todo for todo in _read_todos(spoken) if todo.kind is not HighlightKind.DONE or not reported
    ]
    found += _find_recoveries(spoken)
    return found


def _read(
    utterance: Utterance, place: int, worked: bool, *, ends_turn: bool
) -> Iterator[WorkEvidence]:
    if utterance.titles:
        title = " ".join(utterance.text.split())
        yield WorkEvidence(
            text=title[: reports.MAX_CHARS],
            kind=HighlightKind.ASKED,
            weight=2 * WEIGHTS[HighlightKind.ASKED],
            source=utterance,
            start=0,
            end=len(utterance.text.rstrip()),
            place=place,
            reported=True,
        )
    elif utterance.summarizes or utterance.role is EventRole.ASSISTANT:
        if utterance.summarizes or ends_turn or reports.has_structure(utterance.text):
            yield from _read_report(utterance, place, worked, ends_turn=ends_turn)
    elif utterance.type is EventType.TOOL_RESULT:
        yield from _read_output(utterance, place)


def _read_report(
    utterance: Utterance, place: int, worked: bool, *, ends_turn: bool
) -> Iterator[WorkEvidence]:
    if utterance.summarizes == "compaction":
        for item in reports.read_compaction(utterance.text):
            yield _from_item(item, utterance, place, _REMEMBERED)
        return
    items = reports.read_report(utterance.text, worked=worked)
    if ends_turn:
        items = _read_answer(items)
    elif not any(item.kind in _REPORTING for item in items):
        return
    for order, item in enumerate(items):
        if item.kind is HighlightKind.OPEN or (item.kind not in _IDLE and not is_vague(item.text)):
            factor = (REPORTED if worked else _EXPLAINED) * (_NESTED if item.nested else 1.0)
            found = _from_item(item, utterance, place, factor)
            yield replace(found, weight=found.weight - 0.01 * order, reported=worked)


def _read_answer(items: Sequence[ReportItem]) -> list[ReportItem]:
    """Take the first plain sentences of an answer that ends a turn for what was found out."""
    plain = [
        item
        for item in items
        if item.kind is HighlightKind.NOTE
        and not item.nested
        and not is_vague(item.text)
        and not speech_acts.lacks_subject(item.text)
        and not speech_acts.is_hedged(item.text)
    ][:_ANSWERS]
    return [replace(item, kind=HighlightKind.FOUND) if item in plain else item for item in items]


_REPORTING = frozenset({HighlightKind.FINISHED, HighlightKind.DONE, HighlightKind.STATE})
_IDLE = frozenset({HighlightKind.NOTE, HighlightKind.PLANNED})


def _from_item(item: ReportItem, source: Utterance, place: int, factor: float) -> WorkEvidence:
    return WorkEvidence(
        text=item.text,
        kind=item.kind,
        weight=WEIGHTS[item.kind] * factor,
        source=source,
        start=item.start,
        end=item.end,
        place=place,
        ref=commands.find_ref(item.text),
    )


@lru_cache(maxsize=1 << 12)  # of a text that becomes evidence they are asked for twice
def weigh_terms(text: str) -> Mapping[str, float]:
    """Return the stems of a text with their weights."""
    return phrases.split_words(text).stems


def is_vague(text: str) -> bool:
    """Return whether a text names nothing, such as "All done" or "Committed as 9f3c2ab"."""
    if text.count(" ") >= _MANY_WORDS:
        return False
    terms = weigh_terms(_HASH.sub("", text))
    return sum(weight >= phrases.TELLING for weight in terms.values()) < _LEAST_TERMS and not (
        commands.find_ref(text) or any(letter.isdigit() for letter in _HASH.sub("", text))
    )


def _read_output(utterance: Utterance, place: int) -> Iterator[WorkEvidence]:
    for deed in islice(commands.find_effects(utterance), MAX_DEEDS):
        yield _from_effect(
            deed, utterance, place, _CLOSING if deed.ref and deed.text.startswith(deed.ref) else 1.0
        )
    state = commands.find_test_state(utterance)
    if state is not None:
        yield _from_effect(state, utterance, place, _OUTPUT)
    if utterance.tool_name in ("ExitPlanMode", "Write", "exit_plan_mode") and (
        plan := _PLAN.search(utterance.text[:4000])
    ):
        if utterance.tool_name == "Write" and "/plans/" not in utterance.file:
            return
        yield WorkEvidence(
            text=f"{PLANNED}{plan[1].strip()}",
            kind=HighlightKind.PLANNED,
            weight=WEIGHTS[HighlightKind.PLANNED],
            source=utterance,
            start=plan.start(1),
            end=plan.end(1),
            place=place,
            ref=commands.find_ref(plan[1]),
        )


def _from_effect(deed: CommandEffect, source: Utterance, place: int, factor: float) -> WorkEvidence:
    return WorkEvidence(
        text=reports.tidy(deed.text),
        kind=deed.kind,
        weight=WEIGHTS[deed.kind] * factor,
        source=source,
        start=deed.start,
        end=deed.end,
        place=place,
        ref=deed.ref,
    )


def _read_todos(spoken: Sequence[Utterance]) -> list[WorkEvidence]:
    return [
        _from_effect(todo, spoken[place], place, _TODO)
        for place, todo in commands.read_todos(spoken)
        if todo.kind is HighlightKind.OPEN or len(todo.text.split()) > 2
    ]


def _find_recoveries(spoken: Sequence[Utterance]) -> Iterator[WorkEvidence]:
    """Yield the commands that failed and worked when they were written differently."""
    failed: dict[str, tuple[int, str]] = {}
    for place, utterance in enumerate(spoken):
        command = commands.read_command(utterance)
        name = " ".join(command.split()[:2])
        if not name or len(command) > 2 * MAX_COMMAND:
            continue
        if commands.has_failed(utterance):
            failed[name] = (place, command)
        elif name in failed:
            at, before = failed.pop(name)
            if before != command:
                reason = _find_reason(spoken[at])
                first = before[:MAX_COMMAND]
                start = spoken[at].text.find(before)
                yield WorkEvidence(
                    text=f"`{first}` failed{reason}; `{command[:MAX_COMMAND]}` worked",
                    kind=HighlightKind.FOUND,
                    weight=WEIGHTS[HighlightKind.FOUND] * _OUTPUT,
                    source=spoken[at],
                    start=start,
                    end=start + len(before),
                    place=place,
                )


def _find_reason(utterance: Utterance) -> str:
    _, _, output = utterance.text.partition("\n")
    match = re.search(
        r"^(?:fatal|error|Error|ERROR)\b[^\n:]{0,30}:\s*([^\n]{5,200})$", output, re.M
    )
    return f" ({match[1].strip(' .')[:MAX_REASON]})" if match else ""


def describe_fault(utterance: Utterance, line: str) -> str:
    """Return an error line of a program as a sentence: which command failed, and why."""
    command = commands.read_command(utterance)[:MAX_COMMAND]
    reason = _FAULT_MARK.sub("", line).strip()
    return f"`{command}` failed: {reason}" if command else f"Failed: {reason}"


def list_files(spoken: Sequence[Utterance]) -> tuple[str, dict[str, Utterance]]:
    """Return the files that were changed or, if none was, read: the most used first."""
    for verb, tools in (("Changed", WRITERS), ("Read", _READERS)):
        files: dict[str, Utterance] = {}
        uses: Counter[str] = Counter()
        for utterance in spoken:
            if utterance.tool_name in tools and is_kept_file(utterance):
                files.setdefault(utterance.file, utterance)
                uses[utterance.file] += 1
        if files:
            return verb, {name: files[name] for name, _ in uses.most_common()}
    return "", {}


def join_files(paths: Sequence[str], most: int = MAX_FILES) -> str:
    """Return the names of files as words: "a.py, b.py and 3 more files"."""
    names = list(dict.fromkeys(path.rpartition("/")[2] or path for path in paths))
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more files"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _changes(utterance: Utterance) -> bool:
    """Return whether a tool may have changed something: it writes, or runs more than a look."""
    if utterance.tool_name in WRITERS:
        return True
    command = commands.read_command(utterance)
    return bool(command) and not _LOOK.match(command)
