"""Tooling: what an agent may do on this machine, each call shown before it is done."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.runs.model import arguments, edits
from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.features.runs.model.workspaces import (
    escape_hidden,
    is_binary,
    quote_path,
    replace_surrogates,
)
from agent_memory.features.runs.ports import LinePatterns, Programs, WebPages, Workspace, Workspaces
from agent_memory.features.runs.services.tools.changes import FileChanges
from agent_memory.features.runs.services.tools.commands import RunCommand
from agent_memory.features.runs.services.tools.files import (
    EditFile,
    ListFiles,
    ReadFile,
    SearchFiles,
    WriteFile,
)
from agent_memory.features.runs.services.tools.memory import RecallMemory, Remember
from agent_memory.features.runs.services.tools.parts import AgentTool
from agent_memory.features.runs.services.tools.skills import RenderSkill, SkillTool
from agent_memory.features.runs.services.tools.web import WebFetch
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import AgentMemoryError, Cancelled, ToolFailed
from agent_memory.kernel.ids import SessionId
from agent_memory.platform.ports import Clock, Worker

INSTRUCTIONS = "AGENTS.md"
MAX_INSTRUCTIONS = 16 << 10  # bytes
PREVIEW_CHARS = 20_000
LEAST_CHARS = 1_000  # of a result: with less none tells anything


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Who works, and where."""

    session_id: SessionId
    agent: str  # as events tell it
    folder: str = ""  # absolute; without one there are no tools for files and programs
    project: str = ""  # recall prefers it
    tools: frozenset[str] | None = None  # that the agent may use; None is all
    commands: tuple[str, ...] = ()  # by the words that they begin with
    output_chars: int = 20_000  # of one result

    @property
    def most(self) -> int:
        return max(LEAST_CHARS, self.output_chars)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetBuilder:
    workspaces: Workspaces
    patterns: LinePatterns
    pages: WebPages
    programs: Programs
    worker: Worker
    recall: Recall
    facts: Facts
    clock: Clock
    skills: RenderSkill | None = None
    seconds: float = 120.0  # that a tool may take

    def build(self, seat: ToolContext) -> "Toolset":
        """Raises InvalidInput where the folder is none."""
        folder = self.workspaces.open(seat.folder) if seat.folder else None
        tools = [*self._of_files(seat, folder), *self._of_memory(seat)]
        wanted = [each for each in tools if seat.tools is None or each.spec.name in seat.tools]
        return Toolset(folder, {each.spec.name: each for each in wanted}, seat.most)

    def _of_files(self, seat: ToolContext, folder: Workspace | None) -> list[AgentTool]:
        if folder is None:
            return []
        changes = FileChanges(folder)
        found: list[AgentTool] = [
            ReadFile(folder, seat.most),
            WriteFile(changes, PREVIEW_CHARS),
            EditFile(changes, PREVIEW_CHARS),
            ListFiles(folder, self.seconds),
            SearchFiles(folder, self.patterns, self.seconds, seat.most),
        ]
        if seat.commands:
            found.append(RunCommand(folder, self.programs, seat.commands, self.seconds, seat.most))
        return found

    def _of_memory(self, seat: ToolContext) -> list[AgentTool]:
        found: list[AgentTool] = [
            WebFetch(self.pages, self.worker, self.seconds, seat.most),
            RecallMemory(
                recall=self.recall,
                project=seat.project,
                session=seat.session_id,
                since=self.clock.now(),
                most=seat.most,
            ),
            Remember(self.facts, seat.agent),
        ]
        if self.skills is not None:
            found.append(SkillTool(self.skills))
        return found


class Toolset:
    """The tools of one run."""

    def __init__(self, folder: Workspace | None, tools: Mapping[str, AgentTool], most: int) -> None:
        self._folder = folder
        self._tools = tools
        self._most = most
        self.specs = tuple(arguments.strip_limits(each.spec) for each in tools.values())

    def preview(self, call: ToolCall) -> str:
        """What it would do, or why it cannot; empty where the arguments tell it all."""
        try:
            tool = self._tool(call)
            told = tool.preview(call, arguments.parse_arguments(tool.spec, call.arguments))
        except AgentMemoryError as exc:
            # It may quote the model, or a file: nothing of that is for a terminal to obey.
            return edits.truncate_text(escape_hidden(f"cannot run: {exc}"), PREVIEW_CHARS)
        return edits.truncate_text(told, PREVIEW_CHARS)

    def run(self, call: ToolCall, halt: CancelToken) -> str:
        """What came of it. Raises ToolFailed and Cancelled."""
        halt.check()
        tool = self._tool(call)
        try:
            told = tool.run(call, arguments.parse_arguments(tool.spec, call.arguments), halt)
        except (Cancelled, ToolFailed):
            raise
        except AgentMemoryError as exc:
            raise ToolFailed(str(exc)) from exc
        return edits.truncate_text(replace_surrogates(told), self._most)

    def instructions(self) -> str:
        """What the folder's AGENTS.md tells; empty where there is none that can be read."""
        if self._folder is None:
            return ""
        with suppress(ToolFailed):
            content = self._folder.read(INSTRUCTIONS, most=MAX_INSTRUCTIONS)
            if content.data is None or is_binary(content.data):
                return ""
            if content.whole:
                return content.data.decode("utf-8", "replace")
            text = content.data.decode("utf-8", "ignore")
            return f"{text}\n[cut: {INSTRUCTIONS} is longer]"
        return ""

    def close(self) -> None:
        if self._folder is not None:
            self._folder.close()

    def _tool(self, call: ToolCall) -> AgentTool:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise ToolFailed(f"there is no tool {quote_path(call.name)[:80]}; there are: {known}")
        return tool
