"""Conversations for tests of the table of contents: prompts, messages, commands and files."""

from itertools import count

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model.summaries import Summary, Utterance
from agent_memory.kernel.ids import EventId, Millis

MINUTE_MS = 60_000


class Talk:
    """A conversation that grows utterance by utterance, one each minute."""

    def __init__(self, start_ms: int = 0) -> None:
        self.said: list[Utterance] = []
        self._times = count(start_ms, MINUTE_MS)

    def ask(self, text: str) -> "Talk":
        return self._add(EventType.USER_MESSAGE, EventRole.USER, text)

    def say(self, text: str) -> "Talk":
        return self._add(EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT, text)

    def run(self, command: str, output: str = "", *, failed: bool = False) -> "Talk":
        text = f"Bash: {command}\n{output}".rstrip("\n")
        return self._tool("Bash", text, failed=failed)

    def edit(self, file: str, text: str = "") -> "Talk":
        return self._tool("Edit", f"Edit: {file}\n{text}".rstrip("\n"), file=file)

    def read(self, file: str, text: str = "") -> "Talk":
        return self._tool("Read", f"Read: {file}\n{text}".rstrip("\n"), file=file)

    def list_todos(self, *items: str) -> "Talk":
        return self._tool("TodoWrite", "\n".join(["TodoWrite:", *items]))

    def name(self, title: str, giver: str = "agent") -> "Talk":
        return self._add(EventType.ASSISTANT_MESSAGE, EventRole.SYSTEM, title, titles=giver)

    def _tool(self, name: str, text: str, *, file: str = "", failed: bool = False) -> "Talk":
        return self._add(
            EventType.TOOL_RESULT, EventRole.TOOL, text, tool_name=name, file=file, failed=failed
        )

    def _add(
        self,
        type_: EventType,
        role: EventRole,
        text: str,
        *,
        tool_name: str = "",
        file: str = "",
        failed: bool = False,
        titles: str = "",
    ) -> "Talk":
        self.said.append(
            Utterance(
                event_id=EventId(f"e{len(self.said):03}"),
                at_ms=Millis(next(self._times)),
                type=type_,
                role=role,
                text=text,
                tool_name=tool_name,
                file=file,
                failed=failed,
                titles=titles,
            )
        )
        return self


def run_command(command: str, output: str = "", *, failed: bool = False) -> Utterance:
    """Return the event of one shell command."""
    return Talk().run(command, output, failed=failed).said[0]


def show_points(summary: Summary) -> list[str]:
    """Return the bullets as "kind: text"."""
    return [f"{point.kind.word}: {point.text}" for point in summary.points]
