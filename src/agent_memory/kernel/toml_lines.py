"""Lines of TOML: where something stands in it, for whoever is told that it is wrong."""

import re

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_LONG = re.compile(r"\"\"\"|'''")
_BROKEN_AT = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)\Z")


def find_line(text: str, name: str, value: str = "") -> int:
    """The line on which a key is set, as nearly as can be told without a second parser; with a
    value, that on which this member of its list stands."""
    lines = text.split("\n")
    found = _key_line(lines, name)
    if value:
        for number, line in enumerate(lines[found - 1 :], found):
            if f'"{value}"' in line or f"'{value}'" in line:
                return number
    return found


def parse_error(text: str, told: str) -> tuple[int, str]:
    """What a parser says is wrong: the line that it means, and the rest."""
    found = _BROKEN_AT.search(told)
    if found is None:
        return 1, told
    last = text.rstrip("\n").count("\n") + 1
    return int(found[1] or last), told[: found.start()]


def _key_line(lines: list[str], name: str) -> int:
    section = ""
    inside = ""  # the quotes of a text that goes on over lines: what it holds are no keys
    for number, line in enumerate(lines, 1):
        outside = not inside
        for quotes in _LONG.findall(line):
            inside = "" if quotes == inside else inside or quotes
        if not outside:
            continue
        if header := _HEADER.match(line):
            section = header.group(1) + "."
            if section == name + ".":
                return number
        elif "=" in line:
            key = line.split("=", 1)[0].strip().replace('"', "").replace("'", "")
            if f"{section}{key}" == name or name.startswith(f"{section}{key}."):
                return number
    return 1
