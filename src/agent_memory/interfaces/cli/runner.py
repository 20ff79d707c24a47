"""Run a command line, in the daemon or in a process without one."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

import click
from click.shell_completion import get_completion_class, split_arg_string

from agent_memory.interfaces.cli.backend import Backend
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.interfaces.cli.frames import Channel, CommandCall
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.interfaces.observing import FAILED, OK, Observer
from agent_memory.interfaces.wire.errors import ERRORS, get_codes
from agent_memory.kernel import tracing
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import AgentMemoryError, Cancelled
from agent_memory.kernel.tracing import Interface

USAGE = 2


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs programs by their name."""

    programs: Mapping[str, click.Command]
    backend: Backend
    version: str
    observer: Observer

    def run(self, call: CommandCall, channel: Channel, cancelled: CancelToken) -> int:
        """Run a command, record it in the metrics, and return its exit code."""
        started, outcome = self.observer.begin(), FAILED
        terminal = Terminal(call, channel, cancelled)
        try:
            code = self._run(call, terminal)
            outcome = f"exit_{code}" if code else OK
            return code
        finally:
            with contextlib.suppress(Cancelled):  # the caller has disconnected
                terminal.end_waiting()
            self.observer.end(
                started,
                Interface.CLI,
                self._find_command(call),
                outcome,
                tracing.parse_traceparent(call.environ.get("TRACEPARENT", "")),
            )

    def _find_command(self, call: CommandCall) -> str:
        """Return the names of the program and its commands, without arguments."""
        command = self.programs.get(call.program)
        names = [] if command is None else [call.program]
        for word in call.arguments:
            if isinstance(command, click.Group) and word in command.commands:
                command = command.commands[word]
                names.append(word)
        return " ".join(names) or "unknown"

    def _run(self, call: CommandCall, terminal: Terminal) -> int:
        program = self.programs.get(call.program)
        if program is None:
            terminal.warn(f"error: unknown program {call.program!r}\n")
            return USAGE
        invocation = Invocation(
            program=call.program, version=self.version, terminal=terminal, backend=self.backend
        )
        if _completion_variable(call.program) in call.environ:
            terminal.write(_completions(program, call, invocation))
            return 0
        try:
            code = program.main(
                list(call.arguments),
                prog_name=call.program,
                standalone_mode=False,
                obj=invocation,
                terminal_width=terminal.columns,
                color=terminal.color,
            )
            return code if isinstance(code, int) else 0
        except click.exceptions.NoArgsIsHelpError as exc:
            terminal.write(exc.format_message() + "\n")
            return USAGE
        except click.ClickException as exc:
            terminal.warn(_usage(exc))
            return exc.exit_code
        except click.Abort:
            return ERRORS[Cancelled].exit
        except AgentMemoryError as exc:
            if not isinstance(exc, Cancelled):  # the user knows
                terminal.warn(_error(exc, causes=invocation.verbose > 0))
            return get_codes(exc).exit


def _error(exc: BaseException, *, causes: bool) -> str:
    """Format an error, and its causes with one line each."""
    lines = [f"error: {str(exc) or type(exc).__doc__}"]
    while causes and (cause := _cause(exc)) is not None:
        lines.append(f"  because of {type(cause).__name__}: {cause}")
        exc = cause
    return "\n".join(lines) + "\n"


def _cause(exc: BaseException) -> BaseException | None:
    return exc.__cause__ or (None if exc.__suppress_context__ else exc.__context__)


def _usage(exc: click.ClickException) -> str:
    lines = []
    if isinstance(exc, click.UsageError) and exc.ctx is not None:
        path = exc.ctx.command_path.strip()
        lines += [exc.ctx.get_usage(), f"Try '{path} --help' for help.", ""]
    # click lists the choices of a missing argument one below the other.
    message = exc.format_message().replace(":\n\t", ": ").replace(",\n\t", ", ")
    return "\n".join([*lines, f"error: {message}"]) + "\n"


def _completion_variable(program: str) -> str:
    return f"_{program.upper().replace('-', '_')}_COMPLETE"


def _completions(program: click.Command, call: CommandCall, invocation: Invocation) -> str:
    shell = call.environ[_completion_variable(call.program)].partition("_")[0]
    completion_class = get_completion_class(shell)
    if completion_class is None:
        return ""
    words = split_arg_string(call.environ.get("COMP_WORDS", ""))
    if shell == "fish":
        arguments, incomplete = words[1:], call.environ.get("COMP_CWORD", "")
        if incomplete and arguments and arguments[-1] == incomplete:
            arguments.pop()
    elif "COMP_CWORD" not in call.environ:  # of bash: the line up to the cursor
        line = call.environ.get("COMP_WORDS", "")
        incomplete = "" if not line or line[-1].isspace() else words.pop() if words else ""
        arguments = words[1:]
    else:
        number = call.environ.get("COMP_CWORD", "")
        position = int(number) if number.isdecimal() else 0
        arguments = words[1:position]
        incomplete = words[position] if position < len(words) else ""
    variable = _completion_variable(call.program)
    complete = completion_class(program, {"obj": invocation}, call.program, variable)
    items = complete.get_completions(arguments, incomplete)
    option, equals, _ = incomplete.partition("=")
    if shell == "fish" and equals and option.startswith("-"):  # it replaces the whole word
        for item in items:
            item.value = f"{option}={item.value}"
    return "".join(f"{complete.format_completion(item)}\n" for item in items)
