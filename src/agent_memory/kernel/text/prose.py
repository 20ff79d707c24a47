"""Prose: the sentences that a person or an agent wrote, without code, logs, quotes, patches
and what programs put around them.

Messages are untrusted input: every pattern here runs in time linear in the text.
"""

import re
from collections.abc import Collection, Iterator

COMMAND_MARKER = "memory_command"  # the text of a plugin's command, where it is sent as the prompt
OWN_MARKERS = (
    "memory_context",
    "related_memories",
    "capture_detected",
    "auto_captured",
    COMMAND_MARKER,
)
# Tags that agents put into prompts around text that the user has not typed.
_MACHINE = (
    "system-reminder", "task-notification", "local-command-stdout", "local-command-stderr",
    "local-command-caveat", "command-name", "command-message", "bash-input", "bash-stdout",
    "bash-stderr", "user-prompt-submit-hook", "ide_selection", "ide_opened_file",
    "environment_context", "user_instructions", "tool_use_error", "function_results",
)  # fmt: skip
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*+[A-Za-z]|\x1b\][^\x07\x1b]*+\x07?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,3}[.)])\s+)?(`{3,}(?=[^`]*\Z)|~{3,})")
_BULLET = re.compile(r"\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?|#{1,6}\s+)")
_PATCH = re.compile(r"diff --git |--- \S|\+\+\+ \S|@@ ")
_LOG = re.compile(
    r"""
      E\ {2,}|\$\ |>|%\ |[|│├└]                              # pytest, shells, quotes, tables
    | \+(?![\[\s])|-(?![\[\s-])|--(?!\w)                     # patches, comments
    | [\[(]?\d{4}-\d\d-\d\d[T\ ]\d|[\[(]?\d\d:\d\d:\d\d
    | \[?(?:INFO|DEBUG|WARN|WARNING|ERROR|FATAL|TRACE|CRITICAL|NOTICE)\b(?:\]|:|\ [\[|:-]|\ {2,})
    | (?:FAILED|PASSED|ERROR)\ |Traceback\b|File\ "|at\ [\w$.<>/]+\ ?\(
    | [\w./\\-]{1,120}:\d+:|[\w.]{1,80}(?:Error|Exception|Warning):\s
    | [\w.]{1,80}\.[A-Z]\w{0,60}:\s|(?:error|fatal|panic|warning):\s
    | (?:commit\ )?(?=[a-f]{0,39}\d)[0-9a-f]{7,40}\s
    """,
    re.VERBOSE,
)
_WRAPPED = 60  # a line this long without an end continues on the next one
END = re.compile(r"""(?<![.!?…])[.!?…]++[)"'\]*_]*+(?=\s|\Z)|;(?=\s)""")
_ABBREVIATION = re.compile(r"(?:\A|[\s(])(?:e\.g|i\.e|vs|cf|approx|incl|resp|[MD]rs?|No|St)\Z")
REASON_FIRST = re.compile(
    r"(?:and\ |but\ |so\ )?(?:because(?:\ of)?|since|due\ to|given(?:\ that)?|owing\ to)\ ",
    re.IGNORECASE,
)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")
_BOLD = re.compile(r"(?<!\w)\*\*(?=[^\s/.])|(?<=\S)\*\*(?![\w/])|~~")
_NOTHING_BOLD = re.compile(r"\*\*\s*\*\*")
_UNDERLINED = re.compile(r"(?<!\w)__([^_]+)__(?!\w)")
# Signs left over from a marker; but .env, ~/x, #7, --flag and *.py start with such a sign.
_LEADING = re.compile(
    r"(?:[\s>:,;|)\]\u2013—]|[#.](?!\w)|~(?![\w/])|\*(?![.\w/])|-(?![\w-])|_(?!\w))*+"
)


def clean_text(text: str) -> str:
    """Return the user's own text without control characters."""
    text = strip_tags(text, (*OWN_MARKERS, *_MACHINE))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(" ", _ESCAPE.sub("", text))


def split_blocks(text: str) -> Iterator[list[str]]:
    """Yield blocks of prose lines, with wrapped lines joined."""
    block: list[str] = []
    fence = ""
    patch = listed = wrapped = False
    for line in text.split("\n"):
        words = line.strip()
        if fence:
            if words.startswith(fence) and not words.strip(fence[0]):
                fence = ""
            continue
        opened = _FENCE.match(line)
        patch = bool(_PATCH.match(line)) or (patch and line[:1] in ("+", "-", " ", "\\"))
        bullet = _BULLET.match(line)
        indented = line.startswith(("    ", "\t", "  \t"))
        listed = bool(bullet) or (listed and indented)
        if opened or patch or not words or (indented and not listed) or _LOG.match(words):
            fence = opened[1] if opened else ""
            yield block
            block, wrapped = [], False
            continue
        if bullet:
            words = line[bullet.end() :].strip()
        elif block and ((wrapped and words[0].islower()) or REASON_FIRST.match(words)):
            block[-1] += " " + words
            words = ""
        if words:
            block.append(words)
        wrapped = len(line) >= _WRAPPED and line.rstrip()[-1] not in ".!?:;…"
    yield block


def strip_markdown(text: str) -> str:
    """Return the text without Markdown decoration and extra blanks; line breaks stay."""
    lines = [_LINK.sub(r"\1", _NOTHING_BOLD.sub("", line)) for line in text.split("\n")]
    lines = [_UNDERLINED.sub(_strip_underlines, line) for line in lines]
    whole = "\n".join(" ".join(_BOLD.sub("", line).split()) for line in lines)
    return strip_leading(whole).rstrip(" \n;")


def _strip_underlines(underlined: re.Match[str]) -> str:
    """Remove the underlines of words; a single underlined word is a name like __init__."""
    return underlined[1] if " " in underlined[1] else underlined[0]


def strip_leading(text: str) -> str:
    """Return the text without signs that stood before its first word."""
    leading = _LEADING.match(text)
    return text[leading.end() :] if leading else text


def split_sentences(view: str) -> list[tuple[int, int]]:
    """Return where the sentences of a line begin and end; its quotations are masked."""
    spans = []
    start = 0
    for ending in END.finditer(view):
        at, end = ending.span()
        if view[at] == "." and _ABBREVIATION.search(view, max(start, at - 8), at):
            continue
        spans.append((start, end))
        start = end
    if start < len(view) or not spans:
        spans.append((start, len(view)))
    return spans


def strip_tags(text: str, names: Collection[str]) -> str:
    """Return the text without everything from `<name ...>` to its `</name>`, nested or not.

    A tag that is never closed, or never opened, is left as text.
    """
    if "</" not in text:
        return text
    marker = re.compile(rf"<(/?)({'|'.join(map(re.escape, names))})(?:\s[^<>]*)?>")
    opened: list[tuple[str, int]] = []
    waiting = dict.fromkeys(names, 0)
    removed: list[tuple[int, int]] = []
    for tag in marker.finditer(text):
        name = tag[2]
        if not tag[1]:
            opened.append((name, tag.start()))
            waiting[name] += 1
            continue
        while waiting[name]:
            other, start = opened.pop()
            waiting[other] -= 1
            if other == name:
                while removed and removed[-1][0] >= start:
                    removed.pop()
                removed.append((start, tag.end()))
                break
    parts, at = [], 0
    for start, end in removed:
        parts.append(text[at:start])
        at = end
    return "".join((*parts, text[at:]))
