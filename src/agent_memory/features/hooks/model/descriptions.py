"""Titles and summaries that agents write of their own sessions, without the words around them."""

import re

from agent_memory.features.hooks.model.transcripts import (
    cut,
    fingerprint,
    strip_injected,
)
from agent_memory.kernel.text import prose

USER, AGENT = "user", "agent"  # who gave a title
COMPACTION, SESSION = "compaction", "session"  # what a summary sums up
MAX_TITLE_CHARS = 1_000
# The first line of the message that takes the place of what was compacted.
PREFACES = (
    "This session is being continued from a previous conversation",  # Claude Code
    "Another language model started to solve this problem",  # Codex
)
_OPENED, _CLOSED = "<summary>", "</summary>"
_HEADING = re.compile(r"^Summary:[ \t]*\n", re.MULTILINE)
_INSTRUCTIONS = re.compile(
    r"^(?:If you need specific details from before compaction"
    r"|Recent messages are preserved verbatim"
    r"|Please continue the conversation from where"
    r"|Continue the conversation from where)",
    re.MULTILINE,
)
_HINT = "(disable recaps in /config)"


def clean_title(text: str) -> str:
    """Return a title as one line of limited length."""
    return cut(" ".join(strip_injected(text).split()), MAX_TITLE_CHARS)


def build_title_id(giver: str, title: str) -> str:
    """Build the id of a title. Agents repeat a title, and hooks and transcripts both have it."""
    return fingerprint(giver, title)


def is_continuation(text: str) -> bool:
    """Return whether a message is the summary that a compacted conversation continues with."""
    return text.lstrip().startswith(PREFACES)


def extract_summary(text: str) -> str:
    """Return the summary of a compaction without the model's notes and the agent's instructions.

    A hook gets what the model wrote, and a transcript what the agent made of it: both must give
    the same text, so that it is stored once.
    """
    text = prose.strip_tags(strip_injected(text, ("system-reminder",)), ("analysis",)).strip()
    opened = text.find(_OPENED)
    if opened >= 0:
        closed = text.rfind(_CLOSED)
        return text[opened + len(_OPENED) : closed if closed > opened else None].strip()
    if not is_continuation(text):
        return text
    text = text.partition("\n")[2]
    if heading := _HEADING.search(text):
        text = text[heading.end() :]
    if instructions := _INSTRUCTIONS.search(text):
        text = text[: instructions.start()]
    return text.strip()


def extract_recap(text: str) -> str:
    """Return the recap of a session that Claude Code shows to a user who was away."""
    return strip_injected(text).removesuffix(_HINT).strip()
