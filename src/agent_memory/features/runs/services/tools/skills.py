"""The tool that returns the text of a skill."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from agent_memory.features.runs.model import arguments, chats
from agent_memory.features.runs.model.arguments import Arguments
from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.kernel.cancellation import CancelToken

RenderSkill = Callable[[str, str], str]
"""Render a skill by its name and arguments. Raises NotFound."""


@dataclass(frozen=True, slots=True)
class SkillTool:
    skills: RenderSkill
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "skill",
        "Get the instructions of a skill by its name.",
        ["name"],
        name=arguments.define_text("Name of the skill.", least=1, most=200),
        arguments=arguments.define_text("Arguments of the skill.", most=20_000),
    )

    def preview(self, call: ToolCall, args: Arguments, /) -> str:  # noqa: ARG002
        self.skills(args.text("name"), args.text("arguments"))  # raises if it does not exist
        return ""

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str:  # noqa: ARG002
        return self.skills(args.text("name"), args.text("arguments"))
