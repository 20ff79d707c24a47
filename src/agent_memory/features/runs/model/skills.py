"""Skills: instructions for a task, with a place for what the user adds to its name.

`skills/<name>/SKILL.md` begins with lines between two `---`: its name, and a description by which
an agent knows when it helps. What follows is the body. In it, `$ARGUMENTS` stands for all that the
user wrote after the skill's name, and `$1` to `$9` for its words. `$$1` and `$$ARGUMENTS` are how
the body writes these signs themselves; every other `$` is a `$`.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from agent_memory.features.runs.model import profiles
from agent_memory.kernel import spelling
from agent_memory.kernel.errors import ConfigError, InvalidInput

SKILL_FILE = "SKILL.md"
MAX_DESCRIPTION_CHARS = 1_024
MAX_ARGUMENT_CHARS = 64_000
MAX_RENDERED_CHARS = 512_000
_KNOWN = ("name", "description")
# Of the open format of skills: they say nothing to us, and do no harm.
_PASSED_BY = (
    "allowed-tools",
    "argument-hint",
    "compatibility",
    "disable-model-invocation",
    "license",
    "metadata",
    "model",
    "user-invocable",
    "version",
)
_EDGE = "---"
_ENTRY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?[ \t]*\Z")
_BLOCK = re.compile(r"[|>][+-]?\Z")
_PLACE = re.compile(r"\$(\$?)(ARGUMENTS(?![A-Za-z0-9_])|[1-9](?![0-9]))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    body: str


def parse_skill(name: str, text: str) -> Skill:
    """The skill of this `SKILL.md`. Raises ConfigError."""
    where = f"skills/{name}/{SKILL_FILE}"
    if wrong := profiles.check_name(name, "a skill"):
        raise ConfigError(f"skills/{name[:80]}: {wrong}")
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _EDGE:
        raise ConfigError(
            f"{where}:1: it must begin with a line {_EDGE}, then `name:` and `description:`,"
            f" then {_EDGE} again"
        )
    last = next((at for at, line in enumerate(lines) if at and line.rstrip() == _EDGE), None)
    if last is None:
        raise ConfigError(f"{where}:1: there is no second line {_EDGE} to end what this begins")
    problems: list[str] = []
    found = dict(_entries(lines[1:last], where, problems))
    named, description = found.get("name", ""), found.get("description", "")
    if named and named != name:
        problems.append(
            f"{where}:{_line(lines, 'name')}: it is named {named[:80]!r}, and its folder {name!r}:"
            " both must be the same"
        )
    if not description and not problems:
        problems.append(f"{where}:{last + 1}: there is no description: say what the skill is for")
    if len(description) > MAX_DESCRIPTION_CHARS:
        problems.append(
            f"{where}:{_line(lines, 'description')}: description has {len(description):,}"
            f" characters; the limit is {MAX_DESCRIPTION_CHARS:,}"
        )
    body = "\n".join(lines[last + 1 :]).strip()
    if not body:
        problems.append(f"{where}:{last + 1}: nothing follows: write what is to be done")
    if problems:
        raise ConfigError("\n".join(problems))
    return Skill(name=name, description=description, body=body)


def render_skill(skill: Skill, arguments: str) -> str:
    """The body with the arguments in their places; at its end where it has none for them. What
    stands in the arguments is never taken for a place. Raises InvalidInput where it grows too
    long."""
    given = arguments.strip()
    if len(given) > MAX_ARGUMENT_CHARS:
        raise InvalidInput(
            f"the arguments have {len(given):,} characters; the limit is {MAX_ARGUMENT_CHARS:,}"
        )
    places = list(_PLACE.finditer(skill.body))
    named = {found[2] for found in places if not found[1]}
    words = _words(given) if named - {"ARGUMENTS"} else []
    pieces: list[str] = []
    size = at = 0
    for found in places:
        if found[1]:
            value = found[0][1:]
        elif found[2] == "ARGUMENTS":
            value = given
        else:
            number = int(found[2])
            value = words[number - 1] if number <= len(words) else ""
        pieces += [skill.body[at : found.start()], value]
        at = found.end()
        size += len(value)
        if size > MAX_RENDERED_CHARS:
            raise InvalidInput(
                f"the skill {skill.name} with these arguments has more than"
                f" {MAX_RENDERED_CHARS:,} characters: shorten them"
            )
    text = "".join((*pieces, skill.body[at:]))
    return text if named or not given else f"{text}\n\nArguments: {given}"


def _words(given: str) -> list[str]:
    """As a shell would split them. Where quotes do not match they are what was meant: don't."""
    try:
        return shlex.split(given)
    except ValueError:
        return given.split()


def _entries(lines: list[str], where: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    """`key: value`, also where the value goes on in lines that are indented."""
    at = 0
    seen: set[str] = set()
    while at < len(lines):
        line, number = lines[at], at + 2
        at += 1
        if not line.strip() or line.startswith("#"):
            continue
        found = _ENTRY.match(line)
        more: list[str] = []
        while at < len(lines) and (lines[at][:1] in (" ", "\t") or not lines[at].strip()):
            more.append(lines[at].strip())
            at += 1
        if found is None:
            problems.append(f"{where}:{number}: this is no `key: value`: {line.strip()[:80]!r}")
            continue
        key, value = found[1], (found[2] or "").strip()
        if key in seen:
            problems.append(f"{where}:{number}: {key} is there twice")
        elif key in _KNOWN:
            yield key, _value(value, more)
        elif key not in _PASSED_BY:
            near = spelling.suggest_nearest(key, _KNOWN) or f"; known are {', '.join(_KNOWN)}"
            problems.append(f"{where}:{number}: unknown key {key[:80]!r}{near}")
        seen.add(key)


def _value(value: str, more: list[str]) -> str:
    if _BLOCK.match(value):
        value = ""
    told = " ".join(filter(None, (value, *more)))
    if len(told) > 1 and told[0] == told[-1] and told[0] in "\"'":
        told = told[1:-1]
    return told.strip()


def _line(lines: list[str], key: str) -> int:
    return next(at for at, line in enumerate(lines, 1) if re.match(rf"{key}[ \t]*:", line))
