"""What every tool is: what a model is told of it, what it would do, and doing it."""

from typing import ClassVar, Protocol

from agent_memory.features.runs.model import chats
from agent_memory.features.runs.model.arguments import Arguments
from agent_memory.features.runs.model.chats import Call
from agent_memory.kernel.cancellation import Halt


class Tool(Protocol):
    """Raises AgentMemoryError, whose message is for the model too."""

    spec: ClassVar[chats.Tool]

    def preview(self, call: Call, given: Arguments, /) -> str:
        """What it would do; empty where the arguments tell it all."""
        ...

    def run(self, call: Call, given: Arguments, halt: Halt, /) -> str: ...
