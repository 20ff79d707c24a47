"""Line numbers in TOML, for error messages: neither tomllib nor tomlkit reports those of keys."""

import re

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_LONG = re.compile(r"\"\"\"|'''")
_BROKEN_AT = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)\Z")


def find_line(text: str, name: str, value: str = "") -> int:
    """Return the line that sets a key or, with a value, the line of that member of its list. Return
    1 for a key in a form that this scan does not read."""
    lines = text.split("\n")
    key_line = _key_line(lines, name)
    if value:
        for number, line in enumerate(lines[key_line - 1 :], key_line):
            if f'"{value}"' in line or f"'{value}'" in line:
                return number
    return key_line


def parse_error(text: str, message: str) -> tuple[int, str]:
    """Split the message of a parser into the line number and the rest."""
    position = _BROKEN_AT.search(message)
    if position is None:
        return 1, message
    last = text.rstrip("\n").count("\n") + 1
    return int(position[1] or last), message[: position.start()]


def _key_line(lines: list[str], name: str) -> int:
    section = ""
    inside = ""  # the quotes of a multi-line string, which has no keys
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
