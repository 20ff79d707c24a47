"""Commands: what the shell commands in tool events did, from their words and their output.

Commands and output are untrusted input: every pattern here runs in time linear in the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from agent_memory.features.log.model.events import EventType
from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.highlights import HighlightKind
from agent_memory.features.toc.model.summaries import Utterance

MAX_SUBJECT = 160
MAX_SENTENCES = 4
MAX_LINE = 400  # characters of a line with a title
MAX_ANSWER = 2000  # characters of output that may name the issue that a command filed
_QUOTED = r"""(?:"(?P<{0}d>(?:[^"\\]|\\.){{1,4000}})"|'(?P<{0}s>[^']{{1,4000}})')"""
_MESSAGE = re.compile(
    r"""\bgit\b(?:\s+-[cC]\s+[^\s-]\S*+|\s+--?[\w=./-]++)*\s+commit\b[^\n]{0,400}?\s
    (?:-\w{0,8}m|--message)[=\s]?\s{0,8}
    (?:"\$\(cat\s+<<-?\s*['"\\]?(\w{1,40})['"]?\n(?P<here>.{0,4000}?)\n[ \t]{0,40}\1
      |"(?P<double>(?:[^"\\]|\\.){1,4000})"|'(?P<single>[^']{1,4000})')""",
    re.VERBOSE | re.DOTALL,
)
_COMMITTED = re.compile(r"^\[[^\]\n]{1,120} (?:\(root-commit\) )?[0-9a-f]{7,40}\] (.+)$", re.M)
_TYPE = re.compile(
    r"(?:feat|fix|docs?|chore|refactor|perf|tests?|style|build|ci|revert)(?:\([^)\n]{1,40}\))?!?:\s+",
    re.I,
)
# Where a command begins: a line, after the name of the tool, or behind another command.
_START = r"(?:^(?:\w{1,30}: )?|[;&|]\s{0,8})[ \t]{0,8}"
_OPTION = r"[^\n]{0,400}?\s(?:--reason|--comment|--message|--resolution|-[crm])[=\s]\s{0,8}"
_CLOSED = re.compile(
    _START
    + r"[\w-]{1,30}(?:\s+(?:issue|pr|mr|task|ticket|bug))?\s+(?:close|resolve|complete|finish)\s+"
    r"(?P<id>#?\w[\w./-]{0,80}+)" + _OPTION + _QUOTED.format("why"),
    re.DOTALL | re.MULTILINE,
)
_FILED = re.compile(
    _START
    + r"(?:[\w-]{1,30}\s+)?(?P<what>issue|pr|mr|bd|jira|ticket|task)\s+(?:new|create|add|open)"
    r"(?:\s|\b[^\n]{0,400}?\s(?:--title|-t|--summary|-s)[=\s]\s{0,8})" + _QUOTED.format("title"),
    re.DOTALL | re.MULTILINE,
)
_CREATED = re.compile(r"\b[Cc]reated (?:issue|task|ticket)?:? ?(#?[\w][\w.-]*\w)|/issues/(\d+)")
_RELEASED = re.compile(
    _START + r"(?:gh\s+release\s+create\s+(?P<tag>v?\d[\w.+-]*)"
    r"|git\s+tag\s+(?:-(?!d|l)\w+\s+)*(?P<tagged>v\d[\w.+-]*))",
    re.MULTILINE,
)
_MERGED = re.compile(_START + r"gh\s+pr\s+merge\s+(?P<pr>#?\d+)", re.MULTILINE)
_SHOWN = re.compile(r"\b(?:show|view|get|describe)\s+(?P<id>#?[\w][\w./-]*)")
# An issue: #12, ABC-12, or as in trackers beside the code, app-x1y and app-x1y.2.
_REF = re.compile(
    r"(?<![\w/.-])(?:#\d{1,6}|(?!UTF-|SHA-|ISO-|AES-|RFC-|GPT-|MD-)[A-Z][A-Z0-9]{1,9}-\d{1,6}"
    r"|(?!sha-|utf-|iso-|aes-|gpt-|base-|python-|node-|claude-|gemini-|llama-|qwen-|arm-|amd-|x86-)"
    r"[a-z][a-z0-9_]{1,20}-(?:(?=[a-z]*\d)[a-z0-9]{2,6}(?:\.\d+)*|[a-z0-9]{2,5}(?:\.\d+)+))(?![\w/-]|\.\w*[a-z])"
)
_TITLED = re.compile(r"^title:[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_TAGS = re.compile(r"\s*\[[^\]\n]{0,40}\]\s*")
_PASSED = re.compile(
    r"^(?:=+ )?[ \t]*(?:Tests:?[ \t]+)?(?:\d+ failed(?:, | \| ))?(\d[\d,]*) passed\b.*$"
    r"|^(?:\d+ doctests?, )?(\d[\d,]*) (?:tests?|examples?|specs?), 0 failures.*$"
    r"|^test result: ok\. (\d+) passed.*$|^[ \t]*(\d+) passing\b.*$"
    r"|^(?:\[INFO\] )?Tests run: (\d+), Failures: 0, Errors: 0.*$|^OK \((\d+) tests?.*\)$",
    re.MULTILINE,
)
_FAILED = re.compile(
    r"^(?:=+ )?[ \t]*(?:Tests:?[ \t]+)?(\d[\d,]*) failed\b.*$"
    r"|^(?:\d+ doctests?, )?\d+ (?:tests?|examples?|specs?), ([1-9]\d*) failures?.*$"
    r"|^test result: FAILED\.[^\n\d]{0,80}\d{1,9} passed; (\d{1,9}) failed.*$"
    r"|^[ \t]*([1-9]\d*) failing\b.*$"
    r"|^(?:\[\w+\] )?Tests run: \d+, Failures: ([1-9]\d*).*$",
    re.MULTILINE,
)
_GO_PASSED = re.compile(r"^ok[ \t]+\S+[ \t]+(?:[\d.]+s|\(cached\)).*$", re.MULTILINE)
_GO_FAILED = re.compile(r"^--- FAIL: \S+.*$", re.MULTILINE)
_TODO = re.compile(r"^[ \t]{0,8}(?:\w{1,30}: )?\[([ xX~-])\] (.+)$", re.MULTILINE)
_NUMBERED = re.compile(r"#\d+")
_LISTS = frozenset({"TodoWrite", "update_plan", "write_todos", "todowrite", "todo_write"})
_TASKS = frozenset({"TaskCreate", "TaskUpdate"})
_SHELLS = frozenset(
    {
        "Bash",
        "bash",
        "shell",
        "local_shell",
        "run_shell_command",
        "exec_command",
        "shell_command",
        "exec",
    }
)
_EXIT = re.compile(r"^(?:Exit code:? |Process exited with code )([1-9]\d*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEffect:
    """Something that a command did or showed. `start` and `end` are the slice that says it."""

    text: str
    kind: HighlightKind
    start: int
    end: int
    ref: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue of a tracker."""

    ref: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit. `start` and `end` are the slice of the text with its subject."""

    subject: str
    start: int
    end: int


def find_commits(utterance: Utterance) -> list[Commit]:
    """Return the commits that a tool's event shows. A command that failed has none."""
    text = utterance.text
    if not _is_shell(utterance) or "commit" not in text:
        return []
    made = [
        Commit(subject=match[1][:MAX_SUBJECT], start=match.start(1), end=match.end(1))
        for match in _COMMITTED.finditer(text)
    ]
    if made or has_failed(utterance):
        return made
    commits = []
    for match in _MESSAGE.finditer(text):
        name = next(name for name in ("here", "double", "single") if match[name] is not None)
        message = match[name]
        begin = match.start(name) + len(message) - len(message.lstrip())
        subject = message.lstrip().partition("\n")[0].rstrip()
        if subject:
            commits.append(
                Commit(subject=subject[:MAX_SUBJECT], start=begin, end=begin + len(subject))
            )
    return commits


def find_effects(utterance: Utterance) -> Iterator[CommandEffect]:
    """Yield what a shell command committed, closed, filed, merged and released."""
    if not _is_shell(utterance):
        return
    text = utterance.text
    for commit in find_commits(utterance):
        yield CommandEffect(
            text=clean_subject(commit.subject),
            kind=HighlightKind.DONE,
            start=commit.start,
            end=commit.end,
            ref=find_ref(commit.subject),
        )
    if has_failed(utterance):
        return
    for match in _CLOSED.finditer(text):
        yield from _read_closing(text, match)
    for match in _FILED.finditer(text):
        start, end = _span(match, "title")
        title = text[start:end].strip()
        if match["what"] in ("pr", "mr"):
            shown, kind = f"Opened pull request: {title}", HighlightKind.DONE
        else:
            made = _CREATED.search(text, match.end(), match.end() + MAX_ANSWER)
            ref = (made[1] or f"#{made[2]}") if made else ""
            shown, kind = f"Filed {ref}: {title}" if ref else f"Filed: {title}", HighlightKind.OPEN
        yield CommandEffect(
            text=shown[:MAX_SUBJECT], kind=kind, start=start, end=end, ref=find_ref(shown)
        )
    for match in _RELEASED.finditer(text):
        name = match["tag"] or match["tagged"]
        yield CommandEffect(
            text=f"Released {name}",
            kind=HighlightKind.FINISHED,
            start=match.start(),
            end=match.end(),
        )
    for match in _MERGED.finditer(text):
        yield CommandEffect(
            text=f"Merged pull request {match['pr']}",
            kind=HighlightKind.DONE,
            start=match.start(),
            end=match.end(),
        )


def find_test_state(utterance: Utterance) -> CommandEffect | None:
    """Return what a test run showed last, as a sentence of our own."""
    if utterance.file or not _is_shell(utterance):
        return None
    text = utterance.text
    last: CommandEffect | None = None
    for pattern, words in ((_PASSED, ("passes", "pass")), (_FAILED, ("fails", "fail"))):
        for match in pattern.finditer(text):
            count = next(group for group in match.groups() if group)
            noun = "test" if count == "1" else "tests"
            if last is None or match.start() >= last.start:
                last = CommandEffect(
                    text=f"{count} {noun} {words[count != '1']}",
                    kind=HighlightKind.STATE,
                    start=match.start(),
                    end=match.end(),
                )
    return last or _read_go_tests(text)


def _read_go_tests(text: str) -> CommandEffect | None:
    """Return what `go test` showed: it names the tests that fail and counts no others."""
    failed = list(_GO_FAILED.finditer(text))
    lines = failed or list(_GO_PASSED.finditer(text))
    if not lines:
        return None
    count, several = len(lines), len(lines) > 1
    if failed:
        words = f"{count} tests fail" if several else "1 test fails"
    else:
        words = f"Tests of {count} packages pass" if several else "Tests of 1 package pass"
    last = lines[-1]
    return CommandEffect(text=words, kind=HighlightKind.STATE, start=last.start(), end=last.end())


def read_todos(utterances: Sequence[Utterance]) -> list[tuple[int, CommandEffect]]:
    """Return the todo list as it stands at the end, with the place of the event of each item.

    Some tools write the whole list each time; others create and update one task after the other.
    """
    items: dict[str, tuple[int, CommandEffect]] = {}
    for place, utterance in enumerate(utterances):
        if utterance.type is not EventType.TOOL_RESULT:
            continue
        if utterance.tool_name in _LISTS and (found := list(_TODO.finditer(utterance.text))):
            items = {match[2].strip(): (place, _read_todo(match)) for match in found}
        elif utterance.tool_name in _TASKS and (match := _TODO.search(utterance.text)):
            number = _NUMBERED.search(utterance.text)
            name = number[0] if number else f"#{len(items) + 1}"
            item = (place, _read_todo(match))
            known = items.get(name)
            if known is not None and not item[1].text.strip("#0123456789 "):
                item = (known[0], replace(known[1], kind=item[1].kind))
            items[name] = item
    return list(items.values())


def _read_todo(match: re.Match[str]) -> CommandEffect:
    done = match[1] in "xX-"
    return CommandEffect(
        text=match[2].strip()[:MAX_SUBJECT],
        kind=HighlightKind.DONE if done else HighlightKind.OPEN,
        start=match.start(2),
        end=match.end(2),
    )


def find_issues(utterances: Sequence[Utterance]) -> dict[str, Issue]:
    """Return the issues that commands showed, by their reference."""
    issues: dict[str, Issue] = {}
    for utterance in utterances:
        head, _, output = utterance.text.partition("\n") if _is_shell(utterance) else ("", "", "")
        shown = _SHOWN.search(head)
        if shown is None or not output:
            continue
        number, title = shown["id"].rstrip("."), _TITLED.search(output, 0, MAX_LINE)
        ref, line = _name_ref(number), output[:MAX_LINE].partition("\n")[0]
        if title is not None:
            words = title[1].strip()
        elif number in line:
            rest = line[line.find(number) + len(number) :]
            words = _TAGS.sub(" ", rest).strip(" \t:\u00b7|\u2014\u2013-")
        else:
            continue
        if len(words.split()) >= 2:
            issues[ref] = Issue(ref=ref, title=words[:MAX_SUBJECT])
    return issues


@lru_cache(maxsize=1 << 13)  # a highlight is compared at every level
def find_ref(text: str) -> str:
    """Return the reference to an issue in a text, such as #12, ABC-12 or app-x1.2, or nothing."""
    match = _REF.search(text)
    return match[0] if match else ""


def _name_ref(issue: str) -> str:
    """Return an issue as people refer to it: GitHub's commands take 12 for #12."""
    return f"#{issue}" if issue.isdecimal() else issue


@lru_cache(maxsize=1 << 13)
def find_refs(text: str) -> frozenset[str]:
    return frozenset(_REF.findall(text))


def clean_subject(subject: str) -> str:
    """Return the subject of a commit without its type."""
    subject_type = _TYPE.match(subject)
    rest = subject[subject_type.end() if subject_type else 0 :].strip()
    return rest[:1].upper() + rest[1:] if rest.partition(" ")[0].isalpha() else rest


def has_failed(utterance: Utterance) -> bool:
    return utterance.failed or bool(_EXIT.search(utterance.text))


def read_command(utterance: Utterance) -> str:
    """Return the first line of a shell command, or nothing."""
    if not _is_shell(utterance):
        return ""
    return utterance.text.partition("\n")[0].partition(": ")[2]


def _is_shell(utterance: Utterance) -> bool:
    return utterance.type is EventType.TOOL_RESULT and utterance.tool_name in _SHELLS


def _read_closing(text: str, match: re.Match[str]) -> Iterator[CommandEffect]:
    """Yield the sentences of the reason with which an issue was closed."""
    start, end = _span(match, "why")
    ref = _name_ref(match["id"])
    for number, part in enumerate(_split_sentences(text, start, end)[:MAX_SENTENCES]):
        said = " ".join(text[slice(*part)].split())
        kind = speech_acts.classify(said, report=True).kind
        if number == 0:
            yield CommandEffect(
                text=f"{ref}: {said}",
                kind=HighlightKind.DONE if kind is not HighlightKind.FINISHED else kind,
                start=part[0],
                end=part[1],
                ref=ref,
            )
        elif kind is not None:
            yield CommandEffect(
                text=said,
                kind=HighlightKind.DONE if kind is HighlightKind.NOTE else kind,
                start=part[0],
                end=part[1],
                ref=ref,
            )


_STOP = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


def _split_sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    parts, at = [], start
    for stop in _STOP.finditer(text, start, end):
        parts.append((at, stop.start()))
        at = stop.end()
    return [*parts, (at, end)]


def _span(match: re.Match[str], name: str) -> tuple[int, int]:
    return match.span(f"{name}d") if match[f"{name}d"] is not None else match.span(f"{name}s")
