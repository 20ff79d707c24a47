"""Exports of ChatGPT: `conversations.json`, in which each conversation is a tree of messages.

An edited message or another answer is a branch. `current_node` is the end of the branch that the
user has seen last; only that one is read.
"""

import re
from dataclasses import dataclass

from agent_memory.features.hooks.adapters.transcripts.conversations import ConversationBuilder
from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.transcripts import RecordKind, TranscriptEntry
from agent_memory.features.memories.model import memories
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields

AGENT = "chatgpt"
FILES = re.compile(r"conversations(?:[-_]\d+)?\.json")
_KINDS = {"user": RecordKind.PROMPT, "assistant": RecordKind.ANSWER}
_TEXTS = ("text", "multimodal_text")
_MAX_NODES = 100_000


@dataclass(slots=True)
class ChatGptExport:
    """A parser of one export."""

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        if not isinstance(line.value("mapping"), dict):
            raise InvalidInput("this is no conversation of ChatGPT: `mapping` is no object")
        talk = ConversationBuilder(
            session=line.text("conversation_id", "id"),
            number=number,
            about={"agent": AGENT, "project": _find_project(line)},
            began_ms=transcripts.parse_millis(line.value("create_time")),
            title=line.text("title"),
        )
        for node in _list_branch(line):
            message = node.fields("message")
            kind = _KINDS.get(message.fields("author").text("role"))
            if kind is None or not _is_shown(message):
                continue
            model = message.fields("metadata").text("model_slug")
            talk.add(
                kind,
                message.text("id") or node.text("id"),
                transcripts.strip_injected(_join_parts(message.fields("content"))),
                transcripts.parse_millis(message.value("create_time")),
                transcripts.build_metadata(model=model if kind is RecordKind.ANSWER else ""),
            )
        return talk.entries or None


def _find_project(line: Fields) -> str:
    return memories.to_project_name(line.text("project_title", "project_name") or AGENT)


def _list_branch(line: Fields) -> list[Fields]:
    """Return the nodes of the branch that the user has seen last, oldest first."""
    mapping = line.fields("mapping")
    name = line.text("current_node") or _find_last(line)
    branch: list[Fields] = []
    seen: set[str] = set()
    while name and name not in seen and len(branch) < _MAX_NODES:
        seen.add(name)
        node = mapping.fields(name)
        branch.append(node)
        name = node.text("parent")
    return branch[::-1]


def _find_last(line: Fields) -> str:
    """Return the newest node, for an export that does not name the current one."""
    nodes = line.value("mapping")
    last, newest = "", -1
    for name in nodes if isinstance(nodes, dict) else ():
        message = line.fields("mapping").fields(name).fields("message")
        at_ms = transcripts.parse_millis(message.value("create_time"))
        if at_ms is not None and at_ms >= newest:
            last, newest = name, at_ms
    return last


def _is_shown(message: Fields) -> bool:
    """Return whether the user saw the message: not custom instructions, nor calls of tools."""
    if message.fields("metadata").true("is_visually_hidden_from_conversation"):
        return False
    return message.text("recipient") in ("", "all") and message.value("weight") != 0


def _join_parts(content: Fields) -> str:
    """Join the words of a message. Pictures and files are other kinds of parts."""
    if content.text("content_type") not in _TEXTS:
        return ""
    parts = content.value("parts")
    return "\n".join(
        part
        for part in (parts if isinstance(parts, list) else ())
        if isinstance(part, str) and part
    )
