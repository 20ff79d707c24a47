"""`kontekst "prompt"`: the answer as it comes, what the agent wants to do, and who decides."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import click

from agent_memory.features.log.model.metadata import Outcome
from agent_memory.features.runs.model import machine
from agent_memory.features.runs.model.chats import ReasoningDelta, TextDelta, ToolCall
from agent_memory.features.runs.model.machine import (
    Approve,
    Completed,
    ContextUsed,
    Deny,
    Failed,
    Proposal,
    RunCancelled,
    RunEvent,
    SkillInvocation,
    Start,
    Started,
    ToolCallCompleted,
    ToolCallFailed,
    ToolsCompleted,
    ToolsProposed,
    TurnCompleted,
)
from agent_memory.features.runs.model.workspaces import escape_hidden, replace_surrogates
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.backend import AgentRunner, RunningAgent
from agent_memory.interfaces.cli.commands import Command, F, Invocation, invocation
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.interfaces.wire.errors import ERRORS
from agent_memory.kernel.errors import AgentMemoryError, Cancelled, InvalidInput

MAX_INPUT_BYTES = 1 << 20
MAX_UNREAD = 1_000  # events that a caller has yet to take
PATIENCE_SECONDS = 1.0  # before it is said that the model is waited for
STDIN = "-"
WAITING = "waiting for the model ..."
NOBODY = "nobody could be asked"
_VALUE_CHARS = 100
_RESULT_CHARS = 160
_SKILL = re.compile(r"/([A-Za-z0-9_-]+)(?:\s+(.*))?", re.DOTALL)
_ANSWERS = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "a": "always", "always": "always"}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def run_options(function: F) -> F:
    """Options of `kontekst`, and so of a prompt, which may have them anywhere."""

    def keep(ctx: click.Context, option: click.Parameter, value: int) -> None:
        current = ctx.find_object(Invocation)
        if current is not None and value:
            setattr(current, option.name or "", value)

    for made in (
        click.option(
            "-q",
            "--quiet",
            is_flag=True,
            expose_value=False,
            callback=keep,
            help="Say nothing but the answer, at its end.",
        ),
        click.option(
            "-v",
            "--verbose",
            count=True,
            expose_value=False,
            callback=keep,
            help="With an error, also say what caused it.",
        ),
    ):
        function = made(function)
    return function


class _Prompt(Command):
    """It has no name: any word may begin a prompt."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path.strip(), " ".join(self.collect_usage_pieces(ctx)))


@click.command(
    "",
    cls=_Prompt,
    hidden=True,
    examples=(
        'kontekst "why does the release fail?"',
        'kontekst "mend the failing test" --agent reviewer',
        "kontekst /review src/app.py",
        "git diff | kontekst - what is wrong here?",
        'kontekst --session run-01J... "and now?"',
    ),
)
@click.argument("words", nargs=-1, metavar="PROMPT...")
@click.option("--session", "-s", default="", metavar="ID", help="Go on with this session.")
@click.option("--agent", "-a", default="", metavar="NAME", help="Who works on it.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder that it works in; without it, this one.",
)
@click.option("--auto-approve", is_flag=True, help="Let it use every tool without asking.")
@click.option(
    "-e",
    "--endpoint",
    help="Run it on this daemon over gRPC, e.g. http://[::1]:50051. MEMORY_KEY holds its key.",
)
@run_options
@invocation
def prompt(
    run: Invocation,
    words: tuple[str, ...],
    session: str,
    agent: str,
    folder: Path | None,
    auto_approve: bool,
    endpoint: str | None,
) -> int:
    """Have an agent work on a prompt, in this folder.

    The answer comes as it is written. What the agent wants to do is shown first, changes of files
    as a diff; answer y, n (with a reason if you like) or a for all further uses of that tool.
    Ctrl-C ends the run, and what was done so far stays in its session.

    A prompt that begins with /NAME invokes a skill. The word - stands for standard input.
    """
    if folder is None and endpoint is None:
        folder = Path()
    asked = _read_prompt(words, run.terminal)
    skill = _parse_skill(asked, words)
    start = Start(
        prompt="" if skill else asked,
        skill=skill,
        session_id=session,
        agent_name=agent,
        working_dir="" if folder is None else _folder(run, folder),
    )
    with _open_agents(run, endpoint) as agents:
        return _Conversation(run, auto_approve=auto_approve).hold(agents, start)


@contextmanager
def _open_agents(run: Invocation, endpoint: str | None) -> Iterator[AgentRunner]:
    if endpoint is None:
        yield run.backend.require_services().runs
    else:
        key = run.terminal.call.environ.get("MEMORY_KEY")
        with run.backend.connect_agents(endpoint, key) as remote:
            yield remote


def _folder(run: Invocation, given: Path) -> str:
    if not run.path(given).is_absolute():
        raise InvalidInput("the folder that this was called in is gone")
    return str(run.path(given))


def _read_prompt(words: Sequence[str], terminal: Terminal) -> str:
    """What was typed, and what comes over standard input where that is asked for."""
    typed = " ".join(word for word in words if word != STDIN)
    if replace_surrogates(typed) != typed:
        raise InvalidInput("the prompt is not UTF-8 text")
    if words and STDIN not in words:
        return typed
    if not words and terminal.call.input_is_terminal:
        raise click.UsageError("there is nothing to do: give a prompt")
    try:
        given = terminal.read(limit=MAX_INPUT_BYTES).decode()
    except UnicodeDecodeError as exc:
        raise InvalidInput("standard input is not UTF-8 text") from exc
    return "\n\n".join(filter(None, (typed, given.strip("\n"))))


def _parse_skill(prompt: str, words: Sequence[str]) -> SkillInvocation | None:
    """What `/name arguments` invokes; words that a shell has told apart stay apart."""
    found = _SKILL.fullmatch(prompt.strip())
    if found is None:
        return None
    if len(words) > 1 and STDIN not in words and words[0] == f"/{found[1]}":
        return SkillInvocation(found[1], shlex.join(words[1:]))
    return SkillInvocation(found[1], found[2] or "")


class _RunEvents:
    """What a run tells, from its thread to that of the command."""

    def __init__(self) -> None:
        self._events: Queue[RunEvent | None] = Queue(MAX_UNREAD)
        self._over = False

    def on_event(self, event: RunEvent) -> None:
        self._events.put(event)

    def on_end(self) -> None:
        self._events.put(None)

    def next(self, seconds: float | None) -> RunEvent | None:
        """None at its end. Raises Empty."""
        event = self._events.get(timeout=seconds)
        self._over = event is None
        return event

    def drain(self) -> None:
        """Up to its end: it waits for who listens."""
        while not self._over:
            self.next(None)


@dataclass(slots=True)
class _ToolUse:
    call: ToolCall
    outcome: str = ""
    text: str = ""


@dataclass(slots=True)
class _RunResult:
    """All that is known of a run at its end."""

    run_id: str = ""
    session_id: str = ""
    agent: str = ""
    outcome: str = ""
    content: str = ""
    reasoning: str = ""
    uses: dict[str, _ToolUse] = field(default_factory=dict)
    snapshot: machine.ContextSnapshot | None = None

    def json(self) -> dict[str, Any]:
        snapshot = self.snapshot
        return {
            "run_id": self.run_id,
            "session_id": self.session_id,
            "agent": self.agent,
            "outcome": self.outcome,
            "content": self.content,
            "reasoning": self.reasoning,
            "tools": [
                {
                    "call_id": call_id,
                    "name": use.call.name,
                    "arguments": use.call.arguments
                    if use.call.parsed_arguments is None
                    else use.call.parsed_arguments,
                    "outcome": use.outcome,
                    "result": use.text,
                }
                for call_id, use in self.uses.items()
            ],
            "context": None
            if snapshot is None
            else {
                "size": snapshot.context_size,
                "used": snapshot.total_tokens,
                "remaining": snapshot.remaining_tokens,
            },
        }


class _Conversation:
    """One run, with the user at the other end. The answer goes to standard output as it comes,
    unless it is wanted in another form; all else goes to standard error."""

    def __init__(self, run: Invocation, *, auto_approve: bool) -> None:
        self._run = run
        self._terminal = run.terminal
        self._streams = run.chosen_format in ("text", "markdown")
        self._approves_all = auto_approve
        self._always: set[str] = set()
        self._result = _RunResult()
        self._said_some = False  # of a line of the answer, and of what it thinks
        self._thought_some = False
        self._waiting = False
        self._silent = False  # the model is asked, and nothing has come yet
        self._unasked = ""  # the tool that nobody could be asked about

    def hold(self, agents: AgentRunner, start: Start) -> int:
        """From its start to its end. The exit code."""
        heard = _RunEvents()
        running = agents.open(heard)
        halt = self._terminal.cancelled
        failure: Failed | None = None
        try:
            with halt.on_cancel(running.leave):
                running.command(start)
                while (event := self._next(heard)) is not None:
                    if isinstance(event, Failed):
                        failure = event
                    self._show(event, running)
        except (Cancelled, KeyboardInterrupt):  # the latter in a process of its own
            halt.set()
            self._result.outcome = Outcome.CANCELLED.value
        finally:
            running.leave()
            heard.drain()
        return self._end(failure)

    def _next(self, heard: _RunEvents) -> RunEvent | None:
        if self._silent and self._terminal.progress_bars:
            try:
                return heard.next(PATIENCE_SECONDS)
            except Empty:
                self._waiting, self._silent = True, False
                self._terminal.warn(self._style(WAITING, dim=True))
        return heard.next(None)

    def _show(self, event: RunEvent, running: RunningAgent) -> None:
        told = self._result
        match event:
            case Started():
                told.run_id, told.session_id = event.run_id, event.session_id
                told.agent = event.agent_name
                self._silent = True
            case TextDelta(text):
                self._write(text)
            case ReasoningDelta(text):
                self._think(text)
            case TurnCompleted():
                self._end_line()
            case ContextUsed(snapshot):
                told.snapshot = snapshot
            case ToolsProposed(proposals):
                for each in proposals:
                    self._decide(each, running)
            case ToolsCompleted():
                self._silent = True
            case ToolCallCompleted(call_id, output):
                self._show_use(call_id, Outcome.COMPLETED, output)
            case ToolCallFailed(call_id, error):
                self._show_use(call_id, Outcome.FAILED, error)
            case Completed():
                told.outcome = Outcome.COMPLETED.value
                told.content, told.reasoning = event.content, event.reasoning
            case RunCancelled():
                told.outcome = Outcome.CANCELLED.value
            case _:
                pass

    def _end(self, failure: Failed | None) -> int:
        self._end_line()
        told = self._result
        if failure is not None:
            self._show_session()
            raise failure.kind(rendering.plain(failure.error))
        if told.outcome == Outcome.COMPLETED.value:
            if not self._streams:
                self._run.show(told.json(), lambda: told.content, essential=told.content)
            self._show_session()
            return 0
        if self._unasked:
            raise AgentMemoryError(
                f"{self._unasked} was denied, because {NOBODY}: run it in a terminal, or with"
                " --auto-approve"
            )
        self._note("cancelled")
        self._show_session()
        return ERRORS[Cancelled].exit

    # What the user decides.

    def _decide(self, proposal: Proposal, running: RunningAgent) -> None:
        call = proposal.call
        self._result.uses[call.call_id] = _ToolUse(call)
        if self._approves_all or call.name in self._always:
            if not self._run.quiet:
                self._propose(proposal)
            running.command(Approve(call.call_id))
            return
        self._propose(proposal)
        answer, reason = self._ask_user(call.name)
        if answer == "no":
            self._result.uses[call.call_id].outcome = Outcome.DENIED.value
            running.command(Deny(call.call_id, reason))
            return
        if answer == "always":
            self._always.add(call.name)
        running.command(Approve(call.call_id))

    def _ask_user(self, name: str) -> tuple[str, str]:
        """Yes, no or always; and why not."""
        shown = rendering.excerpt(escape_hidden(name), _VALUE_CHARS)
        while not self._unasked:
            try:
                said = self._terminal.ask(f"Use {shown}? [y]es, [n]o, [a]lways {shown}: ")
            except Cancelled:
                self._terminal.check_cancelled()
                if self._terminal.call.input_is_terminal:
                    raise  # Ctrl-D
                self._unasked = shown
                break
            word, _, rest = said.strip().partition(" ")
            if answer := _ANSWERS.get(word.lower().rstrip(",:")):
                return answer, rest.strip()
        return "no", NOBODY

    # What is shown.

    def _propose(self, proposal: Proposal) -> None:
        call, preview = proposal.call, proposal.preview
        given = (
            {"arguments": call.arguments}
            if call.parsed_arguments is None
            else call.parsed_arguments
        )
        values = {escape_hidden(name): escape_hidden(_value(each)) for name, each in given.items()}
        short = {name: rendering.excerpt(each, _VALUE_CHARS) for name, each in values.items()}
        words = [
            self._style(rendering.excerpt(escape_hidden(call.name), _VALUE_CHARS), bold=True),
            *(f"{name}={value}" for name, value in short.items()),
        ]
        if not preview:  # whoever decides must have seen all of it
            cut = [name for name, value in short.items() if value != values[name]]
            preview = "\n".join(f"{name}: {values[name]}" for name in cut)
        lines = [self._color_line(rendering.plain(line)) for line in preview.splitlines()]
        self._end_line()
        self._terminal.warn("\n  ".join((" ".join(words), *lines)) + "\n")

    def _show_use(self, call_id: str, outcome: Outcome, text: str) -> None:
        use = self._result.uses[call_id]
        use.outcome, use.text = outcome.value, text
        lines = text.splitlines() or [""]
        first = rendering.excerpt(lines[0], _RESULT_CHARS)
        more = f" (and {len(lines) - 1:,} lines more)" if len(lines) > 1 else ""
        if outcome is Outcome.COMPLETED:
            self._note(self._style(f"  {first}{more}", dim=True))
        else:
            self._note(self._style(f"  failed: {first}{more}", fg="red"))

    def _write(self, text: str) -> None:
        self._begin()
        if self._streams:
            self._end_thought()
            terminal = self._terminal
            # A model may write what a terminal would obey.
            terminal.write(rendering.plain(text) if terminal.call.output_is_terminal else text)
            self._said_some = not text.endswith("\n")

    def _think(self, text: str) -> None:
        """Of interest while it happens, to who looks on."""
        self._begin()
        if self._streams and self._terminal.progress_bars:
            self._terminal.warn(self._style(rendering.plain(text), dim=True))
            self._thought_some = not text.endswith("\n")

    def _begin(self) -> None:
        self._silent = False
        if self._waiting:
            self._waiting = False
            self._terminal.warn("\r\x1b[K")

    def _end_line(self) -> None:
        """What follows begins a new one."""
        self._begin()
        self._end_thought()
        if self._said_some:
            self._said_some = False
            halted = self._terminal.cancelled.is_set()  # then nothing more is written
            (self._terminal.warn if halted else self._terminal.write)("\n")

    def _end_thought(self) -> None:
        if self._thought_some:
            self._thought_some = False
            self._terminal.warn("\n")

    def _note(self, text: str) -> None:
        self._end_line()
        if not self._run.quiet:
            self._terminal.warn(f"{text}\n")

    def _show_session(self) -> None:
        if self._result.session_id and self._terminal.call.errors_are_terminal:
            self._note(self._style(f"session {rendering.plain(self._result.session_id)}", dim=True))

    def _color_line(self, line: str) -> str:
        colour = _COLOURS.get(line[:1])
        return line if colour is None else self._style(line, fg=colour)

    def _style(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if self._terminal.color else text


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
