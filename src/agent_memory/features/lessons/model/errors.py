"""Error signatures: what an error says, without what differs from one time to the next.

Numbers, addresses, times and paths are left out, so that the same error of another run, file or
machine has the same signature. Output is untrusted: every pattern runs in time linear in a line,
and only the start and the end of an output are read.
"""

import re

MAX_SIGNATURES = 6
MAX_READ = 20_000  # characters of an output: its start and its end
MAX_SIGNATURE = 160
_MAX_LINE = 500
_MAX_LINES = 200  # that may tell an error
# A line that tells an error has one of these. To look for each is faster than one expression.
_SIGNS = (
    "error", "exception", "fatal", "panic", "fail", "cannot", "can't", "could not", "couldn't",
    "unable", "denied", "refused", "rejected", "not found", "no such", "not permitted", "invalid",
    "undefined", "unresolved", "unrecognized", "unknown", "unsupported", "unexpected", "missing",
    "not exist", "already", "ignored", "timed out", "timeout", "expired", "killed", "core dumped",
    "out of", "overflow", "exceeded", "forbidden", "unauthorized", "conflict", "mismatch",
    "not allowed", "not installed", "not supported", "no space", "too many", "too large",
    "too long", "incompatible", "segmentation fault", "deadlock", "violates", "violation",
    "npm err!", "unused", "would reformat",
)  # fmt: skip
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*+[a-zA-Z]|\x1b\][^\x07\x1b]*+\x07?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_NAMED = re.compile(r"(?:[\w.]{0,80}\.)?(?!error\b|fatalerror\b)\w{2,60}(?:error|exception)\b(?!s)")
_LABELLED = re.compile(
    r"(?:[\w./ -]{1,40}: )?(?:fatal error|fatal|error|err!|panic|npm err!)"
    r"(?:\[\w{1,20}\]| \w{1,3}\d{1,6})?(?:!|:| -)"
)
_TELLING = re.compile(
    r"denied|refused|not found|no such|cannot|can't|could not|couldn't|unable|not permitted"
    r"|rejected|unresolved|undefined|not exist|already|ignored|not allowed|not installed"
    r"|no space|out of memory|killed|segmentation|unrecognized|unsupported|violat|forbidden"
    r"|unauthorized|mismatch"
)
_NOT_AN_ERROR = re.compile(
    r"(?:0|no) (?:errors?|failures?|failed)\b|\b0 failed\b|\d+ passed\b|traceback \(most recent"
    r"|(?:file \"|at [\w$.<>/]+ ?\()|warnings? summary|error: aborting due to|\d+ failed\b"
    r"|make(?:\[\d+\])?: \*\*\*"
    r"|(?:error|process|command).{0,40} exit(?:ed)?(?: with)? (?:code|status)"
    r"|npm err! (?:a complete log|code|errno|path)|=+ [a-z ]+ =+$|hint: |.{0,20}\[warn|warning: "
    r"|\+|\d+ +\|"
    r"|except |raise |throw |if |catch\b|# |//|[\w.]{1,60} ?[=(]"
)
_LEAD = re.compile(  # the second: of a service, as Docker Compose shows it
    r"(?:[>$%|*!=e-](?:\s+)|[a-z][\w.-]{0,60}\s*\|\s+|[^\w\s'\"`(\[{<./~#+-]{1,3}\s+"
    r"|caused by: |exception in thread \S{1,60} "
    r"|\[?\d{4}-\d\d-\d\d[t ][\d:.,]+(?:z|[+-][\d:]{4,5})?\]?\s*"
    r"|\[?\d\d:\d\d:\d\d[\d.,]*\]?\s*"
    r"|[\w.~/\\@-]{1,200}:\d+(?::\d+)?:\s*"
    r"|[\w.~/\\@-]{1,200}\(\d+(?:,\d+)?\):\s*)"
)
_URL = re.compile(r"\b[a-z][a-z0-9+]{1,15}://[^\s'\"<>)\]]+")
_PATH = re.compile(
    r"(?<![\w@.-])(?:[a-z]:[\\/]|~/|\.{1,2}/|/)[\w.@+\\/*-]*[\w*]"
    r"|(?<![\w@./-])[\w.-]{1,100}/[\w./-]*\.[a-z]\w{0,7}(?!\w)"
)
_NAMES_FILE = ("no such", "not found", "cannot find", "can't open", "not exist", "can't resolve")
_HASH = re.compile(r"\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)[0-9a-f-]{7,64}\b")
_NUMBER = re.compile(
    r"(?<!http )(?<!status )(?<!code )(?<![a-z0-9_])\d+(?:[.,:_]\d+)*(?:[a-z]{1,3}(?![a-z]))?"
)
_WORD = re.compile(r"[^\W\d_]{3,}")
_GENERAL_NAMES = """
error errors failed failure failures exception assert assertionerror exit exited code status
command test tests fatal warning line the with and for was are not file path url err npm internal
unknown unexpected occurred while during from
"""
_GENERAL = frozenset(_GENERAL_NAMES.split())


def find_signatures(output: str) -> tuple[str, ...]:
    """Return the signatures of the errors in the output of a program, the most telling first."""
    ranked = sorted(
        ((rank, place, text) for place, (rank, text) in enumerate(_read_lines(output)) if text),
        key=lambda each: (-each[0], each[1]),
    )
    return tuple(dict.fromkeys(text for _, _, text in ranked))[:MAX_SIGNATURES]


def find_error_line(output: str) -> str:
    """Return the most telling line of an output as it stands there; nothing if none tells."""
    text = cut_output(output)
    best, most = "", -1
    for at in _find_starts(text.lower(), text):
        end = _end(text, at)
        shown = _clean_line(text[at:end])
        rank, signature = _read_line(shown.lower())
        if signature and rank > most:
            best, most = shown, rank
            if shown.endswith(":"):  # what it is about is in the next line
                best = f"{shown} {_clean_line(text[end + 1 : _end(text, end + 1)])}".strip()
    return best


def _clean_line(line: str) -> str:
    return _CONTROL.sub(" ", _ESCAPE.sub("", line[:_MAX_LINE])).strip()


def cut_output(output: str) -> str:
    """Return the start and the end of an output that is long."""
    if len(output) <= MAX_READ:
        return output
    half = MAX_READ // 2
    return f"{output[:half]}\n{output[-half:]}"


def _read_lines(output: str) -> list[tuple[int, str]]:
    lower = cut_output(output).lower()
    return [
        _read_line(_CONTROL.sub(" ", _ESCAPE.sub("", lower[at : _end(lower, at)][:_MAX_LINE])))
        for at in _find_starts(lower, lower)
    ]


def _find_starts(lower: str, text: str) -> list[int]:
    """Return where the lines that may tell an error begin."""
    if len(lower) != len(text):  # a few letters are longer in lower case
        lower = text
    starts: set[int] = set()
    for sign in _SIGNS:
        at = lower.find(sign)
        while at >= 0:
            starts.add(lower.rfind("\n", 0, at) + 1)
            end = lower.find("\n", at)
            at = lower.find(sign, end) if end >= 0 else -1
    ordered = sorted(starts)
    half = _MAX_LINES // 2
    return ordered if len(ordered) <= _MAX_LINES else ordered[:half] + ordered[-half:]


def _end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _read_line(line: str) -> tuple[int, str]:
    """Return how telling a line in lower case is, and its signature; none if it tells no error."""
    line = line.strip()
    for _ in range(4):
        lead = _LEAD.match(line)
        if lead is None:
            break
        line = line[lead.end() :]
    if _NOT_AN_ERROR.match(line):
        return 0, ""
    named = _NAMED.match(line)
    if named and line.startswith(":", named.end()):
        rank = 4
    elif _LABELLED.match(line):
        rank = 3
    elif named or _TELLING.search(line):
        rank = 2
    else:
        rank = 1
    text = normalize(line)
    words = [word for word in _WORD.findall(text) if word not in _GENERAL]
    if len(words) < 2 and not (named and words):
        return 0, ""
    return rank, text


def normalize(line: str) -> str:
    """Return a line in lower case without what differs from one time to the next."""
    line = _URL.sub("<url>", line)
    named = any(sign in line for sign in _NAMES_FILE)
    line = _PATH.sub(lambda path: _name_path(path[0], named), line)
    line = _NUMBER.sub("#", _HASH.sub("#", line))
    line = " ".join(line.split()).strip(" .,;:!-=")
    if len(line) > MAX_SIGNATURE:
        line = line[: line.rfind(" ", MAX_SIGNATURE // 2, MAX_SIGNATURE)].rstrip(" .,;:")
    return line


def _name_path(path: str, named: bool) -> str:
    """Return what stands for a path: its last part, if the error is about the file itself."""
    if not named:
        return "<path>"
    return f"<path>/{path.replace(chr(92), '/').rpartition('/')[2]}"
