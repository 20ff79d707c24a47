"""The tools of a run. Each call has a preview that is shown before it runs."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Protocol

from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.runs.model import arguments, edits
from agent_memory.features.runs.model.arguments import Arguments
from agent_memory.features.runs.model.chats import ToolCall, ToolSpec
from agent_memory.features.runs.model.workspaces import (
    escape_hidden,
    is_binary,
    quote_path,
    replace_surrogates,
)
from agent_memory.features.runs.ports import CompilePattern, Programs, WebPages
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
from agent_memory.features.runs.services.tools.skills import RenderSkill, SkillTool
from agent_memory.features.runs.services.tools.web import WebFetch
from agent_memory.features.runs.services.workspaces.folders import GuardedFolder, GuardedFolders
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import AgentMemoryError, Cancelled, ToolFailed
from agent_memory.kernel.ids import SessionId
from agent_memory.platform.ports import Clock, Worker

INSTRUCTIONS = "AGENTS.md"
MAX_INSTRUCTIONS = 16 << 10  # bytes
PREVIEW_CHARS = 20_000
LEAST_CHARS = 1_000  # of a result: a shorter one would be useless


class AgentTool(Protocol):
    """A tool. Raises AgentMemoryError, whose message the model reads."""

    spec: ClassVar[ToolSpec]

    def preview(self, call: ToolCall, args: Arguments, /) -> str:
        """Say what the call would do. Empty if its arguments say enough."""
        ...

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The agent of a run, its folder and its limits."""

    session_id: SessionId
    agent: str  # its name in events
    folder: str = ""  # absolute; without it, there are no tools for files and programs
    project: str = ""  # preferred by recall
    tools: frozenset[str] | None = None  # allowed for the agent; None allows all
    commands: tuple[str, ...] = ()  # allowed, by their first words
    output_chars: int = 20_000  # at most, of one result

    @property
    def most(self) -> int:
        return max(LEAST_CHARS, self.output_chars)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsetBuilder:
    workspaces: GuardedFolders
    compile_pattern: CompilePattern
    pages: WebPages
    programs: Programs
    worker: Worker
    recall: Recall
    facts: Facts
    clock: Clock
    skills: RenderSkill | None = None
    seconds: float = 120.0  # limit of one call

    def build(self, context: ToolContext) -> "Toolset":
        """Build the tools of a run. Raises InvalidInput if the folder is invalid."""
        folder = self.workspaces.open(context.folder) if context.folder else None
        tools = [*self._file_tools(context, folder), *self._other_tools(context)]
        allowed = {
            tool.spec.name: tool
            for tool in tools
            if context.tools is None or tool.spec.name in context.tools
        }
        return Toolset(folder, allowed, context.most)

    def _file_tools(self, context: ToolContext, folder: GuardedFolder | None) -> list[AgentTool]:
        if folder is None:
            return []
        changes = FileChanges(folder)
        tools: list[AgentTool] = [
            ReadFile(folder, context.most),
            WriteFile(changes, PREVIEW_CHARS),
            EditFile(changes, PREVIEW_CHARS),
            ListFiles(folder, self.seconds),
            SearchFiles(folder, self.compile_pattern, self.seconds, context.most),
        ]
        if context.commands:
            tools.append(
                RunCommand(folder, self.programs, context.commands, self.seconds, context.most)
            )
        return tools

    def _other_tools(self, context: ToolContext) -> list[AgentTool]:
        tools: list[AgentTool] = [
            WebFetch(self.pages, self.worker, self.seconds, context.most),
            RecallMemory(
                recall=self.recall,
                project=context.project,
                session=context.session_id,
                since=self.clock.now(),
                most=context.most,
            ),
            Remember(self.facts, context.agent, context.session_id),
        ]
        if self.skills is not None:
            tools.append(SkillTool(self.skills))
        return tools


class Toolset:
    """The tools of one run."""

    def __init__(
        self, folder: GuardedFolder | None, tools: Mapping[str, AgentTool], most: int
    ) -> None:
        self._folder = folder
        self._tools = tools
        self._most = most
        self.specs = tuple(arguments.strip_limits(tool.spec) for tool in tools.values())

    def preview(self, call: ToolCall) -> str:
        """Say what the call would do, or why it cannot run. Empty if its arguments say enough."""
        try:
            tool = self._tool(call)
            preview = tool.preview(call, arguments.parse_arguments(tool.spec, call.arguments))
        except AgentMemoryError as exc:
            # The message may quote the model or a file: escape codes must not reach a terminal.
            return edits.truncate_text(escape_hidden(f"cannot run: {exc}"), PREVIEW_CHARS)
        return edits.truncate_text(preview, PREVIEW_CHARS)

    def run(self, call: ToolCall, cancel: CancelToken) -> str:
        """Run the call and return its result. Raises ToolFailed and Cancelled."""
        cancel.check()
        tool = self._tool(call)
        try:
            result = tool.run(call, arguments.parse_arguments(tool.spec, call.arguments), cancel)
        except (Cancelled, ToolFailed):
            raise
        except AgentMemoryError as exc:
            raise ToolFailed(str(exc)) from exc
        return edits.truncate_text(replace_surrogates(result), self._most)

    def instructions(self) -> str:
        """Return the text of AGENTS.md in the folder, or an empty string if it is not readable."""
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
