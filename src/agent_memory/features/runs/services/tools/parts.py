"""What every tool is: what a model is told of it, what it would do, and doing it."""

from typing import ClassVar, Protocol

from agent_memory.features.runs.model import chats
from agent_memory.features.runs.model.arguments import Arguments
from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.kernel.cancellation import CancelToken


class AgentTool(Protocol):
    """Raises AgentMemoryError, whose message is for the model too."""

    spec: ClassVar[chats.ToolSpec]

    def preview(self, call: ToolCall, given: Arguments, /) -> str:
        """What it would do; empty where the arguments tell it all."""
        ...

    def run(self, call: ToolCall, given: Arguments, halt: CancelToken, /) -> str: ...
