"""Naming: the title of a segment, as a person would write it: a short phrase, never a list."""

import re
from collections.abc import Mapping, Sequence

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import evidence, speech_acts
from agent_memory.features.toc.model.commands import Issue
from agent_memory.features.toc.model.evidence import WorkEvidence
from agent_memory.features.toc.model.highlights import PLANNED, HighlightKind
from agent_memory.features.toc.model.statements import Statement
from agent_memory.features.toc.model.summaries import Utterance

MAX_TITLE = 90
_LEAST_WORDS = 3
_LEAST_CHARS = 6
_LONGEST_ITEM = 3  # words of an item of a list; what is longer is a clause
_LATER = 0.5  # penalty for each sentence before it: a prompt opens with what is wanted
_POLITE = re.compile(
    r"(?:(?:please|ok(?:ay)?|so|now|hey|hi|and|also|well|great|yes),?\s+)*"
    r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?"
    r"|(?:i['\u2019]d\s+like|i\s+want|i\s+need)\s+(?:you\s+)?to\s+"
    r"|let['\u2019]s\s+|please\s+|help\s+me\s+(?:to\s+)?)?",
    re.IGNORECASE,
)
_MARKS = (": ", ", ", "; ", " - ", " \u2014 ", " (", " so that ", " because ", " and ", " with ")
_MAX_READ = 20_000
_GIVERS = ("user", "agent")


def name_work(
    spoken: Sequence[Utterance],
    found: Sequence[WorkEvidence],
    statements: Sequence[Statement],
    issues: Mapping[str, Issue],
) -> str | None:
    """Return the title of a stretch of work, or None if nothing in it can be named."""
    return (
        find_given_title(spoken)
        or _name_request(spoken, statements, issues)
        or _name_outcome(found)
        or _name_task(issues)
        or _name_files(spoken)
        or _name_statement(statements)
        or name_prompt(spoken)
    )


def find_given_title(spoken: Sequence[Utterance]) -> str | None:
    """Return the last title that the user or, if there is none, the agent gave the session."""
    for giver in _GIVERS:
        for utterance in reversed(spoken):
            if utterance.titles == giver:
                return shorten(" ".join(utterance.text.split()))
    return None


def name_chat(
    statements: Sequence[Statement], keys: Sequence[str], people: Sequence[str]
) -> str | None:
    """Return the user's request in their words or, between people, who talked about what."""
    if len(people) < 2:
        asked = [each for each in statements if each.source.role is EventRole.USER][:12]
        ranked = (_rank_request(statement, at) for at, statement in enumerate(asked))
        value, request = max(ranked, default=(0.0, ""))
        if value > 0:
            return request
    if not keys or len(people) < 2:
        return name_prompt([each.source for each in statements]) or _name_statement(statements)
    topics = join_words(keys[:3])
    return shorten(f"{join_words(people[:3])} on {topics}")


def join_words(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def shorten(text: str, room: int = MAX_TITLE) -> str:
    """Return a text that fits a title, cut where a part of it ends."""
    text = text.strip(" .!:;,\u2026*")
    if len(text) <= room:
        return _capitalize(text)
    head = text.partition(": ")[0]
    if len(head.split()) >= _LEAST_WORDS and len(head) <= room:
        return _capitalize(head)  # a list follows
    ends = [text.rfind(mark, 24, room + 1) for mark in _MARKS]
    whole = [end for end in ends if end > 0 and text.count("(", 0, end) == text.count(")", 0, end)]
    if whole:
        return _capitalize(_join_list(text[: max(whole)].rstrip(" ,;:-\u2014")))
    end = text.rfind(" ", 0, room)
    return _capitalize(text[: end if end > 0 else room]) + "\u2026"


def _join_list(text: str) -> str:
    """Return a list that was cut as a list that ends: "a, b" is "a and b"."""
    head, comma, last = text.rpartition(", ")
    if not comma or " and " in last or last[:1].isdigit() or len(last.split()) > _LONGEST_ITEM:
        return text
    return f"{head} and {last}"


def _name_request(
    spoken: Sequence[Utterance], statements: Sequence[Statement], issues: Mapping[str, Issue]
) -> str | None:
    prompts = {
        utterance.event_id
        for utterance in spoken
        if is_prompt(utterance) and not speech_acts.is_go_on(utterance.text)
    }
    asked = [each for each in statements if each.source.event_id in prompts][:12]
    for statement in asked:
        if task := find_named_task(statement.text, issues):
            return name_issue(task)
    requests = (_rank_request(statement, 0)[1] for statement in asked)
    return next((each for each in requests if _is_phrase(each)), None)


def _is_phrase(text: str) -> bool:
    """Return whether a text has enough words; some scripts do not separate them."""
    return len(text.split()) >= _LEAST_WORDS or (not text.isascii() and len(text) > _LEAST_CHARS)


def name_prompt(spoken: Sequence[Utterance]) -> str | None:
    """Return the first line of a prompt that is short."""
    for utterance in spoken:
        line = " ".join(utterance.text[:_MAX_READ].strip().partition("\n")[0].split())
        if is_prompt(utterance) and 0 < len(line) <= MAX_TITLE:
            return _capitalize(line.strip(" .!:;,")) or None
    return None


def _name_outcome(found: Sequence[WorkEvidence]) -> str | None:
    for kinds in (
        (HighlightKind.FINISHED,),
        (HighlightKind.DONE,),
        (HighlightKind.PLANNED,),
        (HighlightKind.DECIDED, HighlightKind.FOUND),
    ):
        best = max(
            (each for each in found if each.kind in kinds and len(each.text.split()) > 2),
            key=lambda each: (each.source.type is EventType.TOOL_RESULT, each.weight, each.place),
            default=None,
        )
        if best is not None:
            text = best.text.removeprefix(PLANNED)
            if best.ref and text.startswith(f"{best.ref}: "):
                text = text.removeprefix(f"{best.ref}: ")
            return shorten(text)
    return None


def _name_task(issues: Mapping[str, Issue]) -> str | None:
    return name_issue(list(issues.values())[-1]) if issues else None


def _name_files(spoken: Sequence[Utterance]) -> str | None:
    verb, files = evidence.list_files(spoken)
    if not files:
        return None
    names = evidence.join_files(list(files), 2)
    return shorten(f"{'Work on' if verb == 'Changed' else 'Look into'} {names}")


def _name_statement(statements: Sequence[Statement]) -> str | None:
    informative = [
        each
        for each in statements
        if each.kind is not None and each.source.role is EventRole.ASSISTANT and each.telling > 1
    ]
    best = max(informative, key=lambda each: each.central * each.factor, default=None)
    return shorten(speech_acts.tidy_sentence(best.text)) if best is not None else None


def name_issue(task: Issue) -> str:
    """Return the title of an issue with its reference."""
    return f"{shorten(task.title, MAX_TITLE - len(task.ref) - 3)} ({task.ref})"


def find_named_task(text: str, issues: Mapping[str, Issue]) -> Issue | None:
    """Return the issue that a text names, if its title is known."""
    words = {word.strip(".,:;()[]`\"'") for word in text[:_MAX_READ].split()}
    return next((issues[ref] for ref in issues if ref in words), None)


def is_prompt(utterance: Utterance) -> bool:
    return utterance.type is EventType.USER_MESSAGE and utterance.role is EventRole.USER


def _rank_request(statement: Statement, at: int) -> tuple[float, str]:
    polite = _POLITE.match(statement.text)
    text = statement.text[polite.end() if polite else 0 :].rstrip(" .!:;,…")
    if len(text) > MAX_TITLE:
        text = shorten(text)
        if text.endswith("\u2026"):
            return 0.0, ""
    if len(text) < 10 or statement.telling < 2:
        return 0.0, ""
    return statement.central / (1 + _LATER * at), _capitalize(text)


def _capitalize(text: str) -> str:
    word = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text
