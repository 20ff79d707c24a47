"""`kontekst "prompt"`: stream the answer of an agent, and ask the user to approve its tools."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

import click

from agent_memory.features.log.model.metadata import Outcome
from agent_memory.features.recall.services.opening import Opening
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
from agent_memory.features.runs.services.runs import ActiveRun, Runs
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import (
    QUIET_PROMPT,
    Command,
    Invocation,
    PathType,
    endpoint_option,
    invocation,
    verbosity_options,
)
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.interfaces.wire.errors import ERRORS
from agent_memory.kernel.errors import AgentMemoryError, Cancelled, InvalidInput

if TYPE_CHECKING:
    from agent_memory.features.runs.interfaces.remote_agents import RemoteAgents, RemoteRun

MAX_INPUT_BYTES = 1 << 20
MAX_UNREAD = 1_000  # events queued for a slow caller
PATIENCE_SECONDS = 1.0  # before WAITING is shown
STDIN = "-"
WAITING = "waiting for the model ..."
NO_TERMINAL = "there is no terminal to ask for approval"
_VALUE_CHARS = 100
_RESULT_CHARS = 160
_SKILL = re.compile(r"/([A-Za-z0-9_-]+)(?:\s+(.*))?", re.DOTALL)
_ANSWERS = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "a": "always", "always": "always"}
_COLORS = {"+": "green", "-": "red", "@": "cyan"}


class _Prompt(Command):
    """The command without a name: any word may begin a prompt."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path.strip(), " ".join(self.collect_usage_pieces(ctx)))


@click.command(
    "",
    cls=_Prompt,
    hidden=True,
    examples=(
        'kontekst "why does the release fail?"',
        'kontekst "fix the failing test" --agent reviewer',
        "kontekst /review src/app.py",
        "git diff | kontekst - what is wrong here?",
    ),
)
@click.argument("words", nargs=-1, metavar="PROMPT...")
@click.option(
    "--session",
    "-s",
    default="",
    metavar="ID",
    help="Continue this session; the beginning of its id is enough.",
)
@click.option("--agent", "-a", default="", metavar="NAME", help="Agent to run.")
@click.option("--dir", "folder", type=PathType(), help="Folder to work in. Default: this one.")
@click.option("--auto-approve", is_flag=True, help="Allow all tools without asking.")
@endpoint_option
@verbosity_options(QUIET_PROMPT)
@invocation
def prompt(
    run: Invocation,
    words: tuple[str, ...],
    session: str,
    agent: str,
    folder: Path | None,
    auto_approve: bool,
) -> int:
    """Run an agent on a prompt, in this folder.

    Before it uses a tool, the agent shows what it will do, changes of files as a diff. Answer y, n
    (and a reason if you like) or a to allow that tool for the rest of the run. Ctrl-C cancels the
    run; its session keeps what was done so far.

    A prompt that begins with /NAME invokes a skill. The word - stands for standard input.
    """
    if folder is None and run.endpoint is None:
        folder = Path()
    text = _read_prompt(words, run.terminal)
    skill = _parse_skill(text, words)
    start = Start(
        prompt="" if skill else text,
        skill=skill,
        # Another daemon resolves no beginning: an id of its client may begin like another.
        session_id=run.services[Opening].resolve_session(session)
        if session and run.endpoint is None
        else session,
        agent_name=agent,
        working_dir="" if folder is None else _folder(run, folder),
    )
    with _open_agents(run) as agents:
        return _Conversation(run, auto_approve=auto_approve).run(agents, start)


@contextmanager
def _open_agents(run: Invocation) -> Iterator["Runs | RemoteAgents"]:
    if run.endpoint is None:
        yield run.services[Runs]
    else:
        # Late: loading gRPC takes longer than most commands run.
        from agent_memory.features.runs.interfaces import remote_agents  # noqa: PLC0415

        with remote_agents.connect(run.endpoint, run.key) as remote:
            yield remote


def _folder(run: Invocation, folder: Path) -> str:
    if not run.path(folder).is_absolute():
        raise InvalidInput("the current folder no longer exists")
    return str(run.path(folder))


def _read_prompt(words: Sequence[str], terminal: Terminal) -> str:
    """Join the words, and add standard input if there are none or one of them is `-`."""
    typed = " ".join(word for word in words if word != STDIN)
    if replace_surrogates(typed) != typed:
        raise InvalidInput("the prompt is not valid UTF-8")
    if words and STDIN not in words:
        return typed
    if not words and terminal.call.input_is_terminal:
        raise click.UsageError("give a prompt")
    try:
        piped = terminal.read(limit=MAX_INPUT_BYTES).decode()
    except UnicodeDecodeError as exc:
        raise InvalidInput("standard input is not valid UTF-8") from exc
    return "\n\n".join(filter(None, (typed, piped.strip("\n"))))


def _parse_skill(prompt: str, words: Sequence[str]) -> SkillInvocation | None:
    """Parse `/name arguments`. Arguments that the shell has separated stay separate."""
    match = _SKILL.fullmatch(prompt.strip())
    if match is None:
        return None
    if len(words) > 1 and STDIN not in words and words[0] == f"/{match[1]}":
        return SkillInvocation(match[1], shlex.join(words[1:]))
    return SkillInvocation(match[1], match[2] or "")


class _RunEvents:
    """A queue from the thread of a run to the thread of the command."""

    def __init__(self) -> None:
        self._events: Queue[RunEvent | None] = Queue(MAX_UNREAD)
        self._ended = False

    def on_event(self, event: RunEvent) -> None:
        self._events.put(event)

    def on_end(self) -> None:
        self._events.put(None)

    def next(self, seconds: float | None) -> RunEvent | None:
        """Return the next event, or None at the end of the run. Raises Empty."""
        event = self._events.get(timeout=seconds)
        self._ended = event is None
        return event

    def drain(self) -> None:
        """Discard all events up to the end: a full queue would block the run."""
        while not self._ended:
            self.next(None)


@dataclass(slots=True)
class _ToolUse:
    call: ToolCall
    outcome: str = ""
    text: str = ""


@dataclass(slots=True)
class _RunResult:
    """The result of a run."""

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
    """One run and its user.

    Text and markdown answers are streamed to standard output. Other formats are written at the end.
    Everything else goes to standard error.
    """

    def __init__(self, run: Invocation, *, auto_approve: bool) -> None:
        self._run = run
        self._terminal = run.terminal
        self._streams = run.chosen_format in ("text", "markdown")
        self._approves_all = auto_approve
        self._always: set[str] = set()
        self._result = _RunResult()
        self._answer_open = False  # the last line of the answer has no newline yet
        self._reasoning_open = False  # likewise
        self._notice_shown = False  # WAITING is on the screen
        self._awaiting_model = False
        self._unapproved = ""  # the tool that could not be approved without a terminal

    def run(self, agents: "Runs | RemoteAgents", start: Start) -> int:
        """Run the agent to its end, and return the exit code."""
        events = _RunEvents()
        running = agents.open(events)
        cancelled = self._terminal.cancelled
        failure: Failed | None = None
        try:
            with cancelled.on_cancel(running.leave):
                running.command(start)
                while (event := self._next(events)) is not None:
                    if isinstance(event, Failed):
                        failure = event
                    self._show(event, running)
        except (Cancelled, KeyboardInterrupt):  # the latter without a daemon
            cancelled.set()
            self._result.outcome = Outcome.CANCELLED.value
        finally:
            running.leave()
            events.drain()
        return self._end(failure)

    def _next(self, events: _RunEvents) -> RunEvent | None:
        if self._awaiting_model and self._terminal.progress_bars:
            try:
                return events.next(PATIENCE_SECONDS)
            except Empty:
                self._notice_shown, self._awaiting_model = True, False
                self._terminal.warn(self._style(WAITING, dim=True))
        return events.next(None)

    def _show(self, event: RunEvent, running: "ActiveRun | RemoteRun") -> None:
        result = self._result
        match event:
            case Started():
                result.run_id, result.session_id = event.run_id, event.session_id
                result.agent = event.agent_name
                self._awaiting_model = True
            case TextDelta(text):
                self._write(text)
            case ReasoningDelta(text):
                self._write_reasoning(text)
            case TurnCompleted():
                self._end_line()
            case ContextUsed(snapshot):
                result.snapshot = snapshot
            case ToolsProposed(proposals):
                for proposal in proposals:
                    self._decide(proposal, running)
            case ToolsCompleted():
                self._awaiting_model = True
            case ToolCallCompleted(call_id, output):
                self._show_use(call_id, Outcome.COMPLETED, output)
            case ToolCallFailed(call_id, error):
                self._show_use(call_id, Outcome.FAILED, error)
            case Completed():
                result.outcome = Outcome.COMPLETED.value
                result.content, result.reasoning = event.content, event.reasoning
            case RunCancelled():
                result.outcome = Outcome.CANCELLED.value
            case _:
                pass

    def _end(self, failure: Failed | None) -> int:
        self._end_line()
        result = self._result
        if failure is not None:
            self._show_session()
            raise failure.kind(rendering.plain(failure.error))
        if result.outcome == Outcome.COMPLETED.value:
            if not self._streams:
                self._run.show(result.json(), lambda: result.content, essential=result.content)
            self._show_session()
            return 0
        if self._unapproved:
            raise AgentMemoryError(
                f"{self._unapproved} was denied, because {NO_TERMINAL}: use a terminal, or"
                " --auto-approve"
            )
        self._note("cancelled")
        self._show_session()
        return ERRORS[Cancelled].exit

    # Approval.

    def _decide(self, proposal: Proposal, running: "ActiveRun | RemoteRun") -> None:
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
        """Return yes, no or always, and the reason for a no."""
        shown = rendering.excerpt(escape_hidden(name), _VALUE_CHARS)
        while not self._unapproved:
            try:
                line = self._terminal.ask(f"Use {shown}? [y]es, [n]o, [a]lways {shown}: ")
            except Cancelled:
                self._terminal.check_cancelled()
                if self._terminal.call.input_is_terminal:
                    raise  # Ctrl-D
                self._unapproved = shown
                break
            word, _, rest = line.strip().partition(" ")
            if answer := _ANSWERS.get(word.lower().rstrip(",:")):
                return answer, rest.strip()
        return "no", NO_TERMINAL

    # Output.

    def _propose(self, proposal: Proposal) -> None:
        call, preview = proposal.call, proposal.preview
        arguments = call.parsed_arguments
        if arguments is None:
            arguments = {"arguments": call.arguments}
        values = {escape_hidden(name): escape_hidden(_value(arguments[name])) for name in arguments}
        short = {name: rendering.excerpt(value, _VALUE_CHARS) for name, value in values.items()}
        words = [
            self._style(rendering.excerpt(escape_hidden(call.name), _VALUE_CHARS), bold=True),
            *(f"{name}={value}" for name, value in short.items()),
        ]
        if not preview:  # the user must see all of it before deciding
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
        more = f" (and {rendering.count(len(lines) - 1, 'more line')})" if len(lines) > 1 else ""
        if outcome is Outcome.COMPLETED:
            self._note(self._style(f"  {first}{more}", dim=True))
        else:
            self._note(self._style(f"  failed: {first}{more}", fg="red"))

    def _write(self, text: str) -> None:
        self._begin()
        if self._streams:
            self._end_reasoning()
            terminal = self._terminal
            # A model may write control characters.
            terminal.write(rendering.plain(text) if terminal.call.output_is_terminal else text)
            self._answer_open = not text.endswith("\n")

    def _write_reasoning(self, text: str) -> None:
        """Show reasoning while it is written, on a terminal only."""
        self._begin()
        if self._streams and self._terminal.progress_bars:
            self._terminal.warn(self._style(rendering.plain(text), dim=True))
            self._reasoning_open = not text.endswith("\n")

    def _begin(self) -> None:
        self._awaiting_model = False
        if self._notice_shown:
            self._notice_shown = False
            self._terminal.warn("\r\x1b[K")

    def _end_line(self) -> None:
        """End an open line, so that the next output begins a new one."""
        self._begin()
        self._end_reasoning()
        if self._answer_open:
            self._answer_open = False
            # `write` raises Cancelled after Ctrl-C.
            cancelled = self._terminal.cancelled.is_set()
            (self._terminal.warn if cancelled else self._terminal.write)("\n")

    def _end_reasoning(self) -> None:
        if self._reasoning_open:
            self._reasoning_open = False
            self._terminal.warn("\n")

    def _note(self, text: str) -> None:
        self._end_line()
        if not self._run.quiet:
            self._terminal.warn(f"{text}\n")

    def _show_session(self) -> None:
        if self._result.session_id and self._terminal.call.errors_are_terminal:
            self._note(self._style(f"session {rendering.plain(self._result.session_id)}", dim=True))

    def _color_line(self, line: str) -> str:
        color = _COLORS.get(line[:1])
        return line if color is None else self._style(line, fg=color)

    def _style(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if self._terminal.error_color else text


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
