"""The interface of a tool."""

from typing import ClassVar, Protocol

from agent_memory.features.runs.model import chats
from agent_memory.features.runs.model.arguments import Arguments
from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.kernel.cancellation import CancelToken


class AgentTool(Protocol):
    """A tool. Raises AgentMemoryError, whose message the model reads."""

    spec: ClassVar[chats.ToolSpec]

    def preview(self, call: ToolCall, args: Arguments, /) -> str:
        """Say what the call would do. Empty if its arguments say enough."""
        ...

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str: ...
