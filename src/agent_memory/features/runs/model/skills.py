"""Skills: instructions for a task, with placeholders for arguments.

`skills/<name>/SKILL.md` begins with a header between two `---` lines: a name, and a description
that tells an agent when to use the skill. The body follows. In it, `$ARGUMENTS` stands for the text
after the name of the skill, and `$1` to `$9` for its words. Write `$$1` and `$$ARGUMENTS` for these
signs themselves; every other `$` is a `$`.
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
# Keys of the open format of skills that we ignore.
_IGNORED = (
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
    """Parse a `SKILL.md`. Raises ConfigError."""
    where = f"skills/{name}/{SKILL_FILE}"
    if wrong := profiles.check_name(name, "a skill"):
        raise ConfigError(f"skills/{name[:80]}: {wrong}")
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _EDGE:
        raise ConfigError(
            f"{where}:1: the file must begin with a line {_EDGE}, then `name:` and `description:`,"
            f" then {_EDGE} again"
        )
    last = next((at for at, line in enumerate(lines) if at and line.rstrip() == _EDGE), None)
    if last is None:
        raise ConfigError(f"{where}:1: the second line {_EDGE}, which ends the header, is missing")
    problems: list[str] = []
    header = dict(_entries(lines[1:last], where, problems))
    named, description = header.get("name", ""), header.get("description", "")
    if named and named != name:
        problems.append(
            f"{where}:{_line(lines, 'name')}: the name {named[:80]!r} differs from the"
            f" folder {name!r}: make them the same"
        )
    if not description and not problems:
        problems.append(
            f"{where}:{last + 1}: the description is missing: say when to use the skill"
        )
    if len(description) > MAX_DESCRIPTION_CHARS:
        problems.append(
            f"{where}:{_line(lines, 'description')}: description has {len(description):,}"
            f" characters; the limit is {MAX_DESCRIPTION_CHARS:,}"
        )
    body = "\n".join(lines[last + 1 :]).strip()
    if not body:
        problems.append(f"{where}:{last + 1}: the body is empty: write the instructions")
    if problems:
        raise ConfigError("\n".join(problems))
    return Skill(name=name, description=description, body=body)


def render_skill(skill: Skill, arguments: str) -> str:
    """Insert the arguments into the body, or append them if it has no placeholder. Placeholders in
    the arguments themselves stay as they are. Raises InvalidInput if the result is too long."""
    arguments = arguments.strip()
    if len(arguments) > MAX_ARGUMENT_CHARS:
        raise InvalidInput(
            f"the arguments have {len(arguments):,} characters; the limit is {MAX_ARGUMENT_CHARS:,}"
        )
    places = list(_PLACE.finditer(skill.body))
    named = {place[2] for place in places if not place[1]}
    words = _words(arguments) if named - {"ARGUMENTS"} else []
    pieces: list[str] = []
    size = at = 0
    for place in places:
        if place[1]:
            value = place[0][1:]
        elif place[2] == "ARGUMENTS":
            value = arguments
        else:
            number = int(place[2])
            value = words[number - 1] if number <= len(words) else ""
        pieces += [skill.body[at : place.start()], value]
        at = place.end()
        size += len(value)
        if size > MAX_RENDERED_CHARS:
            raise InvalidInput(
                f"the skill {skill.name} with these arguments has more than"
                f" {MAX_RENDERED_CHARS:,} characters: shorten them"
            )
    text = "".join((*pieces, skill.body[at:]))
    return text if named or not arguments else f"{text}\n\nArguments: {arguments}"


def _words(text: str) -> list[str]:
    """Split like a shell. Unmatched quotes are literal, as in "don't"."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _entries(lines: list[str], where: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each `key: value`. A value may continue on indented lines."""
    at = 0
    seen: set[str] = set()
    while at < len(lines):
        line, number = lines[at], at + 2
        at += 1
        if not line.strip() or line.startswith("#"):
            continue
        entry = _ENTRY.match(line)
        more: list[str] = []
        while at < len(lines) and (lines[at][:1] in (" ", "\t") or not lines[at].strip()):
            more.append(lines[at].strip())
            at += 1
        if entry is None:
            problems.append(f"{where}:{number}: expected `key: value`, not {line.strip()[:80]!r}")
            continue
        key, value = entry[1], (entry[2] or "").strip()
        if key in seen:
            problems.append(f"{where}:{number}: {key} occurs twice")
        elif key in _KNOWN:
            yield key, _value(value, more)
        elif key not in _IGNORED:
            near = spelling.suggest_nearest(key, _KNOWN) or f"; known keys: {', '.join(_KNOWN)}"
            problems.append(f"{where}:{number}: unknown key {key[:80]!r}{near}")
        seen.add(key)


def _value(value: str, more: list[str]) -> str:
    if _BLOCK.match(value):
        value = ""
    text = " ".join(filter(None, (value, *more)))
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    return text.strip()


def _line(lines: list[str], key: str) -> int:
    return next(at for at, line in enumerate(lines, 1) if re.match(rf"{key}[ \t]*:", line))
