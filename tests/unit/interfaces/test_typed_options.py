"""The options of all commands: the same name takes the same words, and means the same."""

from collections.abc import Iterator

import click
import pytest

from agent_memory.features.recall.model.search_filters import KIND_WORDS
from agent_memory.features.recall.search_operations import SearchRequest
from agent_memory.interfaces.cli import filters, help_topics, near_misses
from agent_memory.interfaces.cli.commands import FORMATS, Choice
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.interfaces.http import rest
from agent_memory.interfaces.mcp import tool_schemas

# Options that have a name of a filter, and another meaning.
MIGRATE = "memory-daemon admin migrate"  # --from and --to are stores
OTHER_FROM = {"memory import", MIGRATE}  # the agent whose conversations are imported
OTHER_TO = {"memory-daemon admin restore", MIGRATE}  # the folder to restore to
LOG_LEVEL = {"memory-daemon", "memory-daemon start"}  # -l of these is --log-level
EXPORT = "memory export"  # its --format has the formats of the file that it writes
ABOUT_ONE_TIME = {"memory-daemon admin rebuild-toc"}  # --since without --until
OWN_HELP = {"memory forget", *ABOUT_ONE_TIME}  # say what happens to the events of the time


def walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from walk(below, f"{path} {name}".strip())


COMMANDS = [pair for name, program in PROGRAMS.items() for pair in walk(program, name)]
OPTIONS = [
    (path, option)
    for path, command in COMMANDS
    for option in command.params
    if isinstance(option, click.Option) and not option.hidden
]


def find(name: str) -> dict[str, click.Option]:
    """Return the options of this name, by the path of their command."""
    return {path: option for path, option in OPTIONS if name in option.opts}


def test_limit_is_the_same_in_every_command() -> None:
    found = find("--limit")
    assert {"memory recall", "memory list", "memory-daemon query events"} <= found.keys()
    assert {"kontekst sessions", "memory log", "memory why"} <= found.keys()
    for path, option in found.items():
        assert tuple(option.opts) == filters.LIMIT, path
        assert isinstance(option.type, click.IntRange), path
        assert (option.type.min, option.type.max) == (1, None), path
    short = find("-n") | {path: it for path, it in find("-l").items() if path not in LOG_LEVEL}
    assert short == found


def test_times_are_the_same_in_every_command() -> None:
    since, until = find("--since"), find("--until")
    assert {"memory recall", "memory log", "memory list", "memory forget"} <= until.keys()
    assert {"memory-daemon query events", "memory-daemon query tree"} <= until.keys()
    assert since.keys() - ABOUT_ONE_TIME == until.keys()
    for names, found, about in (
        (filters.SINCE, since, filters.SINCE_HELP),
        (filters.UNTIL, until, filters.UNTIL_HELP),
    ):
        for path, option in found.items():
            assert tuple(option.opts[: len(names)]) == names, path
            assert option.metavar == "TIME", path
            assert isinstance(option.type, filters.TimeWords), path
            assert path in OWN_HELP or option.help == about, path
    assert find("--from").keys() - OTHER_FROM == since.keys()
    assert find("--to").keys() - OTHER_TO == until.keys()


def test_no_option_parses_times_by_itself() -> None:
    assert not [path for path, option in OPTIONS if isinstance(option.type, click.DateTime)]


@pytest.mark.parametrize(
    ("name", "metavar", "about"),
    [
        ("--project", "NAME", filters.PROJECT_HELP),
        ("--session", "ID", "the beginning of its id is enough"),
        ("--in", None, "Where to look: "),
    ],
)
def test_filters_are_the_same_in_every_command(name: str, metavar: str | None, about: str) -> None:
    # One that is repeated grants something: it is no filter.
    found = {path: option for path, option in find(name).items() if not option.multiple}
    assert len(found) > 1
    for path, option in found.items():
        assert (option.metavar, option.is_flag) == (metavar, False), path
        assert about in (option.help or ""), path


def test_format_is_that_of_the_output_in_every_command() -> None:
    found = find("--format")
    assert found.keys() == {path for path, _ in COMMANDS if path in found}
    runnable = {path for path, command in COMMANDS if not isinstance(command, click.Group)}
    assert runnable <= found.keys()
    for path, option in found.items():
        assert isinstance(option.type, Choice)
        if path == EXPORT:
            assert "json" in option.type.choices
        else:
            assert set(FORMATS) <= set(option.type.choices), path
            assert (option.help or "").startswith("Output format."), path


def test_every_choice_suggests_the_nearest_word() -> None:
    for path, command in COMMANDS:
        for param in command.params:
            assert not isinstance(param.type, click.Choice) or isinstance(param.type, Choice), path


def test_kinds_have_the_same_words_in_schemas() -> None:
    for schema in (
        rest.describe_body(SearchRequest)["requestBody"]["content"]["application/json"]["schema"],
        tool_schemas.describe_request(SearchRequest),
    ):
        assert schema["properties"]["kinds"]["items"]["enum"] == [*KIND_WORDS]


def test_near_misses_lead_to_what_exists() -> None:
    paths = {path for path, _ in COMMANDS}
    assert set(near_misses.MEANT_COMMANDS.values()) <= paths
    assert paths.isdisjoint(f"memory {name}" for name in near_misses.MEANT_COMMANDS)
    options = {name for _, option in OPTIONS for name in option.opts}
    assert {meant.split()[0] for meant in near_misses.MEANT_OPTIONS.values()} <= options


@pytest.mark.parametrize("topic", help_topics.TOPICS, ids=lambda topic: topic.name)
def test_a_topic_is_one_screen(topic: help_topics.HelpTopic) -> None:
    lines = topic.page.rstrip("\n").split("\n")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert topic.commands


def test_the_names_of_topics_are_no_commands() -> None:
    names = [name for topic in help_topics.TOPICS for name in (topic.name, *topic.aliases)]
    program = PROGRAMS["memory"]
    assert isinstance(program, click.Group)
    assert len(set(names)) == len(names)
    assert program.commands.keys().isdisjoint(names)
