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
        "killall",
        "fuser",
        "lsof",
        "netstat",
        "ss",
        "top",
        "df",
        "du",
        "env",
        "printenv",
        "tree",
        "uname",
        "ping",
        "dig",
    ]
)
_SETTINGS = re.compile(
    r"(?:\.(?:toml|ya?ml|json|cfg|ini|env|lock|properties|gradle|kts|conf|config|rc|csproj|tf)"
    r"|Dockerfile"
    r"|Makefile|\.env.*|conftest\.py|\.\w+rc|Gemfile|go\.mod|mix\.exs|pom\.xml|CMakeLists\.txt"
    r"|setup\.py"
    r"|requirements.*\.txt|\.config\.[cm]?[jt]s|config/[\w./-]+|\.gitignore|\.npmrc)$"
)
_SETS_UP = re.compile(
    r"(?:install|add|up|migrate|generate|build|deps|sync|login|start|restart|config|export|chmod"
    r"|create|init|format|fmt|fetch|pull|clean|download|enable|setup|bootstrap|upgrade|update"
    r"|unset|compile|link|seed|reset|prune|cp|ln|mkdir|touch|rm|mv|kill|source)"
)
_ENDS = re.compile(
    r"\s*(?:sudo )?(?:kill|pkill|killall|fuser -k)\b"
)  # a process, which comes again
_ENDS_OR_WAITS = re.compile(rf"{_ENDS.pattern}|\s*sleep\b")
_JOINED = re.compile(r"[ \t]*(?:&&|\|\||;|\n)[ \t]*")
_INSTALLS = re.compile(r"(?:install|add|deps|sync|migrate|login|up|pull|fetch|setup)")
_TESTS = re.compile(
    r"\b(?:tests?|pytest|jest|vitest|mocha|rspec|phpunit|unittest|tox|nox|specs?|fuzz|bench)\b"
)
_WORDS = re.compile(r"[^\s'\"`;&|()<>]+")
_SUBCOMMAND = re.compile(r"[a-z]{2,20}")
_MOST_WORDS = 60
_MOST_FILES = 2
_LIKE = 0.6  # share of the words of the failed command
_INLINE = re.compile(r"(?:python[\d.]*|node|ruby|perl|php|bash|sh) (?:-[ce]\b|- ?<<|<<)")
_OF_TESTS = re.compile(
    r"^(?:assertionerror|assert|expected|failures?:|\d+ (?:tests? )?failed|left: |right: "
    r"|<?tool_use_error|sibling tool call)"
)


@dataclass(slots=True, eq=False)
class Failure:
    """A command that failed. Not `mended`: nothing says that it passed later."""

    run: ToolRun
    signatures: tuple[str, ...]
    line: str
    passed: ToolRun | None
    by: tuple[str, ...]  # commands that mended it
    files: tuple[str, ...]  # settings that were edited, or the one file that was
    told: Turn | None  # who said why


def find_failures(talk: Talk) -> Iterator[Failure]:
    seen: set[str] = set()
    for at, run in enumerate(talk.runs):
        if not run.command or not run.failed or _INLINE.search(run.command):
            continue
        keys = commands.read_commands(run.command)
        if not keys or all(key.partition(" ")[0] in _LOOKS or key in _LOOKS for key in keys):
            continue
        signatures = errors.find_signatures(run.output)
        if not signatures or signatures[0] in seen or _OF_TESTS.match(signatures[0]):
            continue
        failure = _follow(talk, at, signatures)
        if failure is not None:
            seen.update(signatures[:1])
            yield failure


def _follow(talk: Talk, at: int, signatures: tuple[str, ...]) -> Failure | None:
    """Follow a failure to the run that passed."""
    failed = talk.runs[at]
    words = _list_words(failed.command)
    subcommand = _find_subcommand(failed.command)
    edited: list[str] = []
    ran: list[str] = []
    passed: ToolRun | None = None
    for run in talk.runs[at + 1 :]:
        if run.place - failed.place > _REACH:
            break
        if run.command:
            same = subcommand in ("", *run.command.split()) and _is_like(words, run.command)
            if same and not run.failed and not _repeats(signatures, run):
                passed = run
                break
            if not run.failed and not same and not _only_ends(run.command):
                ran.append(run.command)
        elif run.changes and not run.failed:
            edited.append(run.file)
    line = errors.find_error_line(failed.output)
    told = _find_reason(talk, failed, passed.place if passed else failed.place)
    if passed is None:
        return Failure(failed, signatures, line, None, (), (), told)
    files = tuple(dict.fromkeys(name for name in edited if _SETTINGS.search(name)))[-_MOST_FILES:]
    if len(set(edited)) == 1 and not _TESTS.search(failed.command):
        files = (edited[0],)
    by = _find_mending(failed, passed, ran, edited)
    return Failure(failed, signatures, line, passed, by, files, told) if by or files else None


def _find_mending(
    failed: ToolRun, passed: ToolRun, ran: list[str], edited: list[str]
) -> tuple[str, ...]:
    """Return the commands that mended a failure. Source that was changed in between says nothing:
    that is how programs are written."""
    again = _list_words(_drop_endings(passed.command), options=True)
    changed = again != _list_words(failed.command, options=True)
    if all(_SETTINGS.search(name) for name in edited):
        by = [each for each in ran if _sets_up(each)][-2:]
        if changed and again:
            by.append(passed.command)
        if not by and not edited:
            by = [each for each in ran if _acts(each)][-1:]
    else:
        by = [each for each in ran if _sets_up(each, _INSTALLS)][-2:]
        if changed and _adds_option(failed.command, passed.command):
            by.append(passed.command)
    return tuple(dict.fromkeys(each for each in map(_drop_endings, by) if each))


def _drop_endings(command: str) -> str:
    """Return a command without those parts that only end a process, and wait until it ended."""
    parts = _JOINED.split(command)
    if not any(_ENDS.match(part) for part in parts):
        return command
    return " && ".join(part for part in parts if not _ENDS_OR_WAITS.match(part))


def _only_ends(command: str) -> bool:
    """Return whether a command does nothing but end a process."""
    parts = commands.list_parts(command)
    return bool(parts) and all(_ENDS.match(part[0]) or part[0] in _LOOKS for part in parts)


def _sets_up(command: str, cue: re.Pattern[str] = _SETS_UP) -> bool:
    """Return whether a command installs or changes what other commands need."""
    return any(cue.fullmatch(word) for part in commands.list_parts(command) for word in part[:3])


def _list_words(command: str, *, options: bool = False) -> tuple[str, ...]:
    """Return the words of a command; without options, assignments and what its output goes to."""
    plain = command.split(" | ", 1)[0].replace(" 2>&1", "")
    words = _WORDS.findall(plain)[:_MOST_WORDS]
    if options:
        return tuple(words)
    plain_words = (word for word in words if not word.startswith("-") and "=" not in word)
    return tuple(word.rstrip("/").rpartition("/")[2] for word in plain_words)


def _adds_option(failed: str, passed: str) -> bool:
    """Return whether a command has an option or an assignment that the failed one had not."""
    before = set(_list_words(failed, options=True))
    return any(
        (word.startswith("-") or "=" in word) and word not in before
        for word in _list_words(passed, options=True)
    )


def _find_subcommand(command: str) -> str:
    """Return the subcommand of the last part of a command, such as "push" of git."""
    parts = commands.list_parts(command)
    second = parts[-1][1] if parts and len(parts[-1]) > 1 else ""
    return second if _SUBCOMMAND.fullmatch(second) else ""


def _is_like(words: tuple[str, ...], command: str) -> bool:
    """Return whether a command runs what another one with these words ran."""
    others = set(_list_words(command))
    return bool(words) and sum(word in others for word in words) >= _LIKE * len(words)


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
