"""The readers of all sources that `memory import --from` takes."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from agent_memory.features.hooks.adapters.transcripts import (
    chatgpt,
    claude_ai,
    cline,
    gemini,
    obsidian,
)
from agent_memory.features.hooks.adapters.transcripts.aider import AiderTranscript, HistoryFiles
from agent_memory.features.hooks.adapters.transcripts.archives import unpack
from agent_memory.features.hooks.adapters.transcripts.chatgpt import ChatGptExport
from agent_memory.features.hooks.adapters.transcripts.claude_ai import ClaudeAiExport
from agent_memory.features.hooks.adapters.transcripts.claude_code import ClaudeCodeTranscript
from agent_memory.features.hooks.adapters.transcripts.codex import INDEX, CodexTranscript
from agent_memory.features.hooks.adapters.transcripts.files import (
    JsonLines,
    TranscriptFiles,
    TranscriptParser,
)
from agent_memory.features.hooks.adapters.transcripts.json_files import JsonFiles
from agent_memory.features.hooks.adapters.transcripts.opencode import (
    OpenCodeFiles,
    OpenCodeTranscript,
)
from agent_memory.features.hooks.adapters.transcripts.plain import PlainEvents, PlainTranscript
from agent_memory.features.hooks.model.import_sources import ImportSource
from agent_memory.features.hooks.model.transcripts import TranscriptSource
from agent_memory.platform.ports import Worker


def build_readers(worker: Worker) -> dict[str, TranscriptFiles]:
    """Build the reader of each source, by its name."""
    read = partial(TranscriptFiles, worker)
    readers = {
        ImportSource.CLAUDE_CODE: read(_by_name(ClaudeCodeTranscript), JsonLines()),
        ImportSource.CODEX: read(_by_name(CodexTranscript), JsonLines(INDEX)),
        ImportSource.GEMINI: read(gemini.build_parser, gemini.GeminiFiles(), unpack),
        ImportSource.OPENCODE: read(lambda _: OpenCodeTranscript(), OpenCodeFiles()),
        ImportSource.CLINE: read(partial(cline.build_parser, cline.CLINE), cline.TaskFiles()),
        ImportSource.ROO: read(partial(cline.build_parser, cline.ROO), cline.TaskFiles()),
        ImportSource.AIDER: read(lambda source: AiderTranscript(source.folder), HistoryFiles()),
        ImportSource.CHATGPT: read(lambda _: ChatGptExport(), JsonFiles(chatgpt.FILES), unpack),
        ImportSource.CLAUDE_AI: read(
            lambda _: ClaudeAiExport(), JsonFiles(claude_ai.FILES), unpack
        ),
        ImportSource.OBSIDIAN: read(obsidian.build_parser, obsidian.VaultFiles()),
        ImportSource.JSONL: read(_by_name(PlainTranscript), PlainEvents()),
    }
    return {source.value: reader for source, reader in readers.items()}


def _by_name(
    build: Callable[[str], TranscriptParser],
) -> Callable[[TranscriptSource], TranscriptParser]:
    """Build a parser from the name of the file, without its suffix."""
    return lambda source: build(Path(source.path).stem)
