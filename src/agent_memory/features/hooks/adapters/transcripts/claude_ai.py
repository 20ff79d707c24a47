"""Exports of claude.ai: `conversations.json` with the messages of each conversation in order."""

import re
from dataclasses import dataclass

from agent_memory.features.hooks.adapters.transcripts.conversations import ConversationBuilder
from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.transcripts import RecordKind, TranscriptEntry
from agent_memory.features.memories.model import memories
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields

AGENT = "claude-ai"
FILES = re.compile(r"conversations(?:[-_]\d+)?\.json")
_KINDS = {"human": RecordKind.PROMPT, "assistant": RecordKind.ANSWER}


@dataclass(slots=True)
class ClaudeAiExport:
    """A parser of one export."""

    def parse_line(self, line: Fields, number: int, /) -> list[TranscriptEntry] | None:
        if not isinstance(line.value("chat_messages"), list):
            raise InvalidInput("this is no conversation of claude.ai: `chat_messages` is no list")
        project = line.fields("project").text("name") or AGENT
        talk = ConversationBuilder(
            session=line.text("uuid"),
            number=number,
            about={"agent": AGENT, "project": memories.to_project_name(project)},
            began_ms=transcripts.parse_millis(line.value("created_at")),
            title=line.text("name"),
        )
        uses = tool_use.PendingToolUses()
        for message in line.blocks("chat_messages"):
            kind = _KINDS.get(message.text("sender"))
            if kind is not None:
                _add_message(talk, uses, kind, message)
        return talk.entries or None


def _add_message(
    talk: ConversationBuilder, uses: tool_use.PendingToolUses, kind: RecordKind, message: Fields
) -> None:
    """Add what a message says, before and after the tools that it uses."""
    at_ms = transcripts.parse_millis(message.value("created_at"))
    uuid = message.text("uuid")
    blocks = message.blocks("content")
    if not any(block.text("type") == "text" and block.text("text") for block in blocks):
        blocks = [*message.blocks("text"), *blocks]  # an older export has no blocks
    said: list[str] = []

    def flush() -> None:
        talk.add(kind, uuid, transcripts.strip_injected("\n".join(said)), at_ms)
        said.clear()

    for block in blocks:
        match block.text("type"):
            case "text":
                said.append(block.text("text"))
            case "tool_use":
                flush()
                use = tool_use.parse_use(block.text("name"), block.fields("input"))
                uses.begin(block.text("id") or block.text("name"), use)
            case "tool_result":
                flush()
                call_id = block.text("tool_use_id") or block.text("name")
                result = tool_use.render_result(block.value("content"))
                failed = block.true("is_error")
                record_id = block.text("tool_use_id") or f"{uuid}:{call_id}"
                talk.add_tool(record_id, uses.end(call_id), result, at_ms, failed=failed)
    said += _list_attachments(message)
    flush()


def _list_attachments(message: Fields) -> list[str]:
    """Return the texts of attached files, which the export has unpacked."""
    return [
        f"[{file.text('file_name') or 'attachment'}]\n{text}"
        for file in message.blocks("attachments")
        if (text := file.text("extracted_content"))
    ]
