"""The tool that gives a model the text of a skill."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from agent_memory.features.runs.model import arguments, chats
from agent_memory.features.runs.model.arguments import Arguments
from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.kernel.cancellation import CancelToken

RenderSkill = Callable[[str, str], str]
"""The text of a skill, by its name and with these arguments. Raises NotFound."""


@dataclass(frozen=True, slots=True)
class SkillTool:
    skills: RenderSkill
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "skill",
        "Get the instructions of a skill by its name.",
        ["name"],
        name=arguments.define_text("Name of the skill.", least=1, most=200),
        arguments=arguments.define_text("What it is to be applied to.", most=20_000),
    )

    def preview(self, call: ToolCall, given: Arguments, /) -> str:  # noqa: ARG002
        self.skills(given.text("name"), given.text("arguments"))  # or why there is none
        return ""

    def run(self, call: ToolCall, given: Arguments, halt: CancelToken, /) -> str:  # noqa: ARG002
        return self.skills(given.text("name"), given.text("arguments"))
