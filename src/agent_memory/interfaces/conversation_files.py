"""Files of conversations: events as JSON lines, and sessions as Markdown to read."""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo

from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import is_description
from agent_memory.features.log.model.outlines import SessionOutline
from agent_memory.interfaces.wire.events import event_json

MARKDOWN, JSONL, OBSIDIAN = "markdown", "jsonl", "obsidian"
FORMATS = (MARKDOWN, JSONL, OBSIDIAN)
# Many readers end a line here, though JSON does not.
_ESCAPES = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
_FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)
_NAMES = {EventRole.USER: "User", EventRole.ASSISTANT: "Assistant", EventRole.TOOL: "Tool"}
_SESSION_KEYS = re.compile(rb'"(?:session_id|event_id)"\s*:\s*"')
_EXPORTS = {
    "chatgpt": re.compile(rb'\APK\x03\x04|"mapping"\s*:\s*\{'),  # most zips are theirs
    "claude-ai": re.compile(rb'"chat_messages"\s*:\s*\['),
    "gemini": re.compile(rb'"header"\s*:\s*"Gemini Apps"'),
}
_MEMORY_KEYS = re.compile(rb'"(?:summary|namespace|memories|results)"\s*:')


def guess_source(head: bytes) -> str:
    """Return the source that a file seems to be an export of, by how it begins; else nothing."""
    for source, pattern in _EXPORTS.items():
        found, memory = pattern.search(head), _MEMORY_KEYS.search(head)
        if found and (memory is None or found.start() < memory.start()):
            return source
    return ""


def is_conversation(name: str, head: bytes) -> bool:
    """Return whether a JSON file holds events and not memories, by how it begins.

    The first record decides: events have a session, memories have a summary.
    """
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start.startswith((b"{", b"[")) or name.lower().endswith((".yaml", ".yml", ".md")):
        return False
    session, memory = _SESSION_KEYS.search(start), _MEMORY_KEYS.search(start)
    return session is not None and (memory is None or session.start() < memory.start())


def dump_line(event: Event) -> str:
    """Write an event as a line that `memory import` takes."""
    return json.dumps(event_json(event), ensure_ascii=False).translate(_ESCAPES) + "\n"


def dump_markdown(outline: SessionOutline, events: Iterable[Event], zone: tzinfo) -> Iterator[str]:
    """Write a session to be read: what was said, and the tools that were used."""
    about = [outline.project, outline.agent, f"session {outline.session_id}"]
    began = format_time(outline.start_ms, zone, "%Y-%m-%d %H:%M")
    yield f"# {began} {outline.title}\n\n{' · '.join(filter(None, about))}\n\n"
    for event in events:
        if is_shown(event):
            yield f"{format_heading(event, zone)}\n\n{format_text(event)}\n\n"


def is_shown(event: Event) -> bool:
    """Return whether an event has words of the conversation itself."""
    return bool(event.text) and not is_description(event)


def format_heading(event: Event, zone: tzinfo) -> str:
    name = _NAMES.get(event.role, "System")
    return f"## {format_time(event.at_ms, zone, '%H:%M')} {name}"


def format_text(event: Event) -> str:
    """Return what was said as it is, and the output of a tool as code."""
    if event.type is not EventType.TOOL_RESULT:
        return event.text
    longest = max((len(fence) for fence in _FENCE.findall(event.text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{event.text}\n{fence}"


def format_time(at_ms: int, zone: tzinfo, form: str) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).strftime(form)
