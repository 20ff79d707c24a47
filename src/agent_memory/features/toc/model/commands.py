"""Commands: what a shell command in a tool's event did, read from its words and its output."""

import re
from dataclasses import dataclass

from agent_memory.features.log.model.events import EventType
from agent_memory.features.toc.model.summaries import Utterance

MAX_SUBJECT = 160
_MESSAGE = re.compile(
    r"""\bgit\b(?:\s+-[cC]\s+\S+|\s+--?[\w=./-]+)*\s+commit\b[^\n]*?\s
    (?:-\w*m|--message)[=\s]?\s*
    (?:"\$\(cat\s+<<-?\s*['"\\]?(\w+)['"]?\n(?P<here>.*?)\n\s*\1
      |"(?P<double>(?:[^"\\]|\\.){1,4000})"|'(?P<single>[^']{1,4000})')""",
    re.VERBOSE | re.DOTALL,
)
_COMMITTED = re.compile(r"^\[[^\]\n]{1,120} (?:\(root-commit\) )?([0-9a-f]{7,40})\] (.+)$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit. `start` and `end` are the slice of the text with its subject."""

    subject: str
    start: int
    end: int
    hash: str = ""


def find_commits(utterance: Utterance) -> list[Commit]:
    """Return the commits that a tool's event shows. A command that failed has none."""
    if utterance.type is not EventType.TOOL_RESULT or "commit" not in utterance.text:
        return []
    text = utterance.text
    made = [
        Commit(
            subject=match[2][:MAX_SUBJECT], start=match.start(2), end=match.end(2), hash=match[1]
        )
        for match in _COMMITTED.finditer(text)
    ]
    if made or utterance.failed:
        return made
    commits = []
    for match in _MESSAGE.finditer(text):
        name = next(name for name in ("here", "double", "single") if match[name] is not None)
        start = match.start(name)
        lead = len(match[name]) - len(match[name].lstrip())
        subject = match[name].lstrip().partition("\n")[0].rstrip()
        if subject:
            begin = start + lead
            commits.append(
                Commit(subject=subject[:MAX_SUBJECT], start=begin, end=begin + len(subject))
            )
    return commits
