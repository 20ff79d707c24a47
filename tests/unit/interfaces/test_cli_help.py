"""The texts of `--help`."""

import re
from collections.abc import Iterator

import click
import pytest

from agent_memory.interfaces.cli.commands import Command, Group
from agent_memory.interfaces.cli.programs import PROGRAMS

WIDTH = 80
WHOLE = 1_000
LINE_CHARS = 64  # what 80 columns leave beside the longest name of `memory`


def list_contexts(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)
    yield context
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from list_contexts(command.commands[below], below, context)


CONTEXTS = [
    context for name, program in PROGRAMS.items() for context in list_contexts(program, name)
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_visible_command_is_in_one_section(name: str) -> None:
    program = PROGRAMS[name]
    assert isinstance(program, Group)
    listed = [command for names in program.sections.values() for command in names]
    visible = [command for command, found in program.commands.items() if not found.hidden]
    assert sorted(listed) == sorted(visible)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_list_of_commands_has_the_first_sentence_of_their_help(name: str) -> None:
    program = PROGRAMS[name]
    assert isinstance(program, Group)
    for places in program.sections.values():
        for command, place in places.items():
            assert place.summary == program.commands[command].get_short_help_str(WHOLE), command


def test_commands_come_before_options_and_under_their_headings() -> None:
    context = click.Context(PROGRAMS["memory"], info_name="memory", terminal_width=WIDTH)
    text = context.get_help()
    order = [text.index(part) for part in ("\nEveryday:\n  recall ", "\nShare:\n", "\nOptions:\n")]
    assert order == sorted(order)
    assert "\nExamples:\n  memory install claude-code\n" in text


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.command_path.strip())
def test_a_line_of_help_is_whole(context: click.Context) -> None:
    command = context.command
    if not command.hidden:
        assert not command.get_short_help_str(LINE_CHARS).endswith("...")


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.command_path.strip())
def test_examples_are_calls_of_commands_that_exist(context: click.Context) -> None:
    command = context.command
    assert isinstance(command, (Command, Group))
    for example in command.examples:
        words = iter(re.split(r'[\s|"$()]+', example))
        program = next((PROGRAMS[word] for word in words if word in PROGRAMS), None)
        assert program is not None, example
        while isinstance(program, click.Group):
            name = next((word for word in words if word in program.commands), None)
            if name is None:  # a prompt of kontekst
                assert program.name == "kontekst", example
                break
            program = program.commands[name]
