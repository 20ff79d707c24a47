"""Failures: a command that failed with an error, and what was done until the same one passed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent_memory.features.lessons.model import commands, errors
from agent_memory.features.lessons.model.talk import Talk, ToolRun, Turn

_REACH = 60  # places between the failure and the run that passed
_LOOKS = frozenset(
    [
        "grep",
        "rg",
        "find",
        "ls",
        "cat",
        "head",
        "tail",
        "diff",
        "sed",
        "awk",
        "which",
        "git-diff",
        "git-status",
        "git-log",
        "git-show",
        "git-grep",
        "test",
        "curl",
        "wc",
        "stat",
        "file",
        "jq",
        "git-blame",
        "issues",
        "ps",
        "pgrep",
        "kill",
        "pkill",
    ]
)
_SETTINGS = re.compile(
    r"(?:\.(?:toml|ya?ml|json|cfg|ini|env|lock|properties|gradle|conf|config|rc)|Dockerfile"
    r"|Makefile|\.env.*"
    r"|conftest\.py|\.\w+rc|Gemfile|go\.mod|requirements.*\.txt|\.config\.[jt]s)$"
)
_OF_TESTS = re.compile(r"^(?:assertionerror|assert|expected|failures?:|\d+ (?:tests? )?failed)")


@dataclass(slots=True, eq=False)
class Failure:
    """A command that failed. Not `mended`: nothing says that it passed later."""

    run: ToolRun
    signatures: tuple[str, ...]
    line: str
    passed: ToolRun | None
    by: tuple[str, ...]  # commands and files that mended it
    told: Turn | None  # who said why


def find_failures(talk: Talk) -> Iterator[Failure]:
    seen: set[str] = set()
    for at, run in enumerate(talk.runs):
        if not run.command or not run.failed:
            continue
        keys = commands.read_commands(run.command)
        if not keys or all(key.partition(" ")[0] in _LOOKS or key in _LOOKS for key in keys):
            continue
        signatures = errors.find_signatures(run.output)
        if not signatures or signatures[0] in seen or _OF_TESTS.match(signatures[0]):
            continue
        failure = _follow(talk, at, keys, signatures)
        if failure is not None:
            seen.update(signatures[:1])
            yield failure


def _follow(
    talk: Talk, at: int, keys: tuple[str, ...], signatures: tuple[str, ...]
) -> Failure | None:
    """Follow a failure to the run that passed."""
    failed = talk.runs[at]
    edited: list[str] = []
    ran: list[str] = []
    passed: ToolRun | None = None
    for run in talk.runs[at + 1 :]:
        if run.place - failed.place > _REACH:
            break
        if run.command:
            same = _is_like(keys, commands.read_commands(run.command))
            if same and not run.failed and not _repeats(signatures, run):
                passed = run
                break
            if not run.failed and not same and _acts(run.command):
                ran.append(run.command)
        elif run.file and run.tool not in ("Read", "read", "Grep", "Glob") and not run.failed:
            edited.append(run.file)
    line = errors.find_error_line(failed.output)
    until = passed.place if passed else failed.place
    told = _find_reason(talk, failed, until)
    if passed is None:
        return Failure(failed, signatures, line, None, (), told)
    by: list[str] = []
    changed = _normalize(passed.command) != _normalize(failed.command)
    settings = [name for name in edited if _SETTINGS.search(name)]
    if ran:
        by += ran[-2:]
    if settings:
        by += settings[-2:]
    if changed:
        by.append(passed.command)
    if not by and edited and told is not None:
        by += edited[-1:]
    return Failure(failed, signatures, line, passed, tuple(by), told) if by else None


def _is_like(keys: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return whether two commands run the same program in the same way."""
    mine = {key for key in keys if key.count(" ") == 1} or set(keys[-1:])
    others_set = set(others)
    return bool(mine & others_set) or (
        not mine & others_set
        and bool({key.partition(" ")[0] for key in mine} & {k for k in others if " " not in k})
        and not any(key.startswith("git ") for key in mine)
    )


def _repeats(signatures: tuple[str, ...], run: ToolRun) -> bool:
    return signatures[0] in errors.find_signatures(run.output)


def _acts(command: str) -> bool:
    """Return whether a command changes something: it is more than a look."""
    keys = commands.read_commands(command)
    return any(
        " " not in key and key not in _LOOKS and key not in ("git", "python", "python3", "node")
        for key in keys
    )


def _normalize(command: str) -> str:
    return " ".join(command.partition("|")[0].split())


def _find_reason(talk: Talk, failed: ToolRun, until: int) -> Turn | None:
    """Return what the agent said after the run that passed, else before it."""
    after = [turn for turn in talk.turns if not turn.is_user and turn.place > until]
    between = [
        turn for turn in talk.turns if not turn.is_user and failed.place < turn.place < until
    ]
    if after and after[0].place - until <= 2:
        return after[0]
    return between[-1] if between else None
