"""The tool that runs allowed programs."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agent_memory.features.runs.model import arguments, chats, commands
from agent_memory.features.runs.model.arguments import Arguments
from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.features.runs.model.workspaces import escape_hidden
from agent_memory.features.runs.ports import Programs
from agent_memory.features.runs.services.workspaces.folders import GuardedFolder
from agent_memory.kernel.cancellation import CancelToken

_NOTE_CHARS = 200


@dataclass(frozen=True, slots=True)
class RunCommand:
    folder: GuardedFolder
    programs: Programs
    allowed: Sequence[str]
    seconds: float
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "run_command",
        "Run a program in the working folder, without a shell: no pipes, no &&.",
        ["command"],
        command=arguments.define_text(
            "The program and its arguments.", least=1, most=commands.MAX_CHARS
        ),
    )

    def preview(self, call: ToolCall, args: Arguments, /) -> str:  # noqa: ARG002
        words = commands.split_command(args.text("command"), self.allowed)
        return f"$ {escape_hidden(shlex.join(words))}"

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str:  # noqa: ARG002
        words = commands.split_command(args.text("command"), self.allowed)
        most = self.most - _NOTE_CHARS
        with self.folder.hold_descriptor() as folder:
            ran = self.programs.run(words, folder, seconds=self.seconds, most=most, cancel=cancel)
        return commands.format_result(ran, self.seconds)
