"""Run a command line, in the daemon or in a process without one."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click
import yaml
from click.shell_completion import get_completion_class, split_arg_string

from agent_memory.interfaces.cli import near_misses
from agent_memory.interfaces.cli.backend import Backend
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.interfaces.command_socket.calls import Channel, CommandCall
from agent_memory.interfaces.observing import FAILED, OK, Observer
from agent_memory.interfaces.wire.errors import ERRORS, command_error_json, get_codes, usage_json
from agent_memory.kernel import tracing
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import AgentMemoryError, Cancelled
from agent_memory.kernel.tracing import Interface

USAGE = 2
_ONE_LINE = 1 << 20  # characters of a line of YAML


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
            message = self._describe_usage(exc)
            if (form := _find_error_format(invocation)) is not None:
                terminal.warn(_dump_error(form, usage_json(message, exc.exit_code)))
            else:
                terminal.warn(_usage(exc, message))
            return exc.exit_code
        except click.Abort:
            return ERRORS[Cancelled].exit
        except AgentMemoryError as exc:
            code = get_codes(exc).exit
            if (form := _find_error_format(invocation)) is not None:
                causes = _list_causes(exc, invocation.verbose > 0)
                terminal.warn(_dump_error(form, command_error_json(exc, code, causes)))
            elif not isinstance(exc, Cancelled):  # the user knows
                terminal.warn(_error(exc, causes=invocation.verbose > 0))
            return code

    def _describe_usage(self, exc: click.ClickException) -> str:
        """Return the message of a usage error, with the name that a mistyped one may mean."""
        context = exc.ctx if isinstance(exc, click.UsageError) else None
        if isinstance(exc, click.exceptions.NoSuchCommand) and context is not None:
            hint = near_misses.suggest_command(exc.command_name, context, self.programs)
            return f"No such command {exc.command_name!r}{hint}"
        if isinstance(exc, click.exceptions.NoSuchOption) and context is not None:
            return exc.message.removesuffix(".") + near_misses.suggest_option(
                exc.option_name, context
            )
        # click lists the choices of a missing argument one below the other.
        message = exc.format_message().replace(":\n\t", ": ").replace(",\n\t", ", ")
        return message + near_misses.advise_on_words(message)


def _find_error_format(invocation: Invocation) -> str | None:
    """Return json or yaml if the caller asked for that, even where the options are wrong."""
    chosen = invocation.format
    arguments = iter(invocation.terminal.call.arguments)
    for argument in arguments:
        if argument == "--":
            break
        if argument == "--format":
            chosen = next(arguments, None)
        elif argument.startswith("--format="):
            chosen = argument.partition("=")[2]
    chosen = chosen or invocation.chosen_format
    return {"json": "json", "jsonl": "json", "yaml": "yaml"}.get(chosen)


def _dump_error(form: str, error: dict[str, Any]) -> str:
    """Write an error as one line of JSON, or as a YAML document."""
    if form == "json":
        return json.dumps(error, ensure_ascii=False) + "\n"
    return yaml.dump(
        error, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=_ONE_LINE
    )


def _error(exc: BaseException, *, causes: bool) -> str:
    """Format an error, and its causes with one line each."""
    lines = [f"error: {str(exc) or type(exc).__doc__}"]
    lines += [f"  because of {cause}" for cause in _list_causes(exc, causes)]
    return "\n".join(lines) + "\n"


def _list_causes(exc: BaseException, wanted: bool) -> list[str]:
    causes = []
    while wanted and (cause := _cause(exc)) is not None:
        causes.append(f"{type(cause).__name__}: {cause}")
        exc = cause
    return causes


def _cause(exc: BaseException) -> BaseException | None:
    return exc.__cause__ or (None if exc.__suppress_context__ else exc.__context__)


def _usage(exc: click.ClickException, message: str) -> str:
    lines = []
    if isinstance(exc, click.UsageError) and exc.ctx is not None:
        path = exc.ctx.command_path.strip()
        lines += [exc.ctx.get_usage(), f"Try '{path} --help' for help.", ""]
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
