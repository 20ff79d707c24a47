"""The launcher's tables repeat parts of the command trees: these tests compare the two."""

import inspect
from collections.abc import Iterator

import click
import pytest

from agent_memory import config
from agent_memory.features.hooks.adapters import pause_file
from agent_memory.features.hooks.model import consent, installations
from agent_memory.interfaces.cli import agent_shells, serve
from agent_memory.interfaces.cli.backend import Backend
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.launcher import command_client, last_context

# Options of `memory` and of `memory serve` with which no MCP client is served.
NOT_FOR_STDIO = {"-V", "--version", "-c", "--config", "--home", "--port", "--host", "--cors"}
PROMPT = "PROMPT"  # the command of `kontekst` without a name
UNUSED_SERVE_OPTIONS = {"-l", "--log-level"}


def _walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in (*command.list_commands(context), ""):
            child = command.get_command(context, name)
            if child is not None:
                yield from _walk(child, (*path, name or PROMPT))


COMMANDS = {program: dict(_walk(PROGRAMS[program], ())) for program in PROGRAMS}


def _options(command: click.Command, *, with_value: bool) -> set[str]:
    return {
        name
        for option in command.params
        if isinstance(option, click.Option) and with_value != (option.is_flag or option.count)
        for name in (*option.opts, *option.secondary_opts)
    }


def _is_read_by_launcher(program: str, path: str, command: click.Command) -> bool:
    """Whether the launcher needs a word that may follow this command's options: the name of a
    subcommand or of a hook, or none at all."""
    return isinstance(command, click.Group) or (program, path) in (
        ("memory", "hook"),
        ("memory", "serve"),
        ("kontekst", PROMPT),
    )


def _needs_control(command: click.Command) -> bool:
    callback = command.callback
    return callback is not None and "require_control" in inspect.unwrap(callback).__code__.co_names


def test_programs() -> None:
    assert tuple(PROGRAMS) == command_client.PROGRAMS


def test_words_with_a_meaning_of_their_own() -> None:
    commands = COMMANDS["memory"]
    assert {installations.HOOK, installations.SERVE} == {"hook", "serve"} <= commands.keys()
    assert command_client.STDIO == serve.STDIO


def test_files_and_agents_that_the_launcher_knows() -> None:
    assert last_context.IGNORE_FILE == consent.IGNORE_FILE
    assert last_context.PAUSE_FILE == pause_file.NAME
    assert last_context.PROJECT_FILE == config.PROJECT_FILE
    assert command_client.DEFAULT_AGENT == installations.Agent.CLAUDE_CODE
    assert last_context.COPILOT == installations.Agent.COPILOT


def test_the_marks_of_agents_are_sent() -> None:
    assert agent_shells.AGENT_VARIABLES.keys() == set(command_client.AGENT_MARKS)


def test_options_with_a_value() -> None:
    read = [
        command
        for program, commands in COMMANDS.items()
        for path, command in commands.items()
        if _is_read_by_launcher(program, path, command)
    ]
    table = set(command_client.OPTIONS_WITH_VALUE)

    assert len(table) == len(command_client.OPTIONS_WITH_VALUE)
    assert table == set().union(*(_options(command, with_value=True) for command in read))
    for command in read:
        assert table.isdisjoint(_options(command, with_value=False))


def test_options_of_serve() -> None:
    options = {
        option
        for path in ("", "serve")
        for with_value in (True, False)
        for option in _options(COMMANDS["memory"][path], with_value=with_value)
    }

    assert (options - NOT_FOR_STDIO) | UNUSED_SERVE_OPTIONS == command_client.SERVE_OPTIONS
    assert options.isdisjoint(UNUSED_SERVE_OPTIONS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_path_of_the_tables_is_a_command(program: str) -> None:
    tables = (command_client.ALWAYS_LOCAL, command_client.LOCAL_WITHOUT_DAEMON)
    for table in tables:
        assert table.keys() == PROGRAMS.keys()
        assert COMMANDS[program].keys() >= set(table[program])
    path, option = command_client.REPAIR
    assert option in _options(COMMANDS["memory-daemon"][path], with_value=False)


@pytest.mark.parametrize("program", PROGRAMS)
def test_commands_that_control_the_daemon_run_outside_it(program: str) -> None:
    """`require_control` fails inside a daemon."""
    assert callable(Backend.require_control)
    controlling = {path for path, command in COMMANDS[program].items() if _needs_control(command)}
    local = {
        *command_client.ALWAYS_LOCAL[program],
        *command_client.LOCAL_WITHOUT_DAEMON[program],
        command_client.REPAIR[0],
    }

    assert controlling
    assert controlling <= local
