"""`memory help`: topics, the help of commands, and that each command of a topic can be pasted."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory.interfaces.cli.help_topics import TOPICS, HelpTopic
from tests import git_repositories
from tests.command_runner import Home
from tests.memory_commands import USAGE, assert_refused

BASH = shutil.which("bash")
PROGRAMS = Path(sys.executable).parent  # with `memory`, as a user has it on the path


@pytest.fixture(scope="module")
def quiet_home() -> Iterator[Home]:
    """A home in which no daemon is started by these tests."""
    with Home() as found:
        yield found
        assert found.pid() is None
        assert not found.data.exists()


def test_it_lists_the_topics_without_a_daemon(quiet_home: Home) -> None:
    answer = quiet_home.run("memory", "help")
    assert (answer.code, answer.errors) == (0, "")
    for topic in TOPICS:
        assert f"memory help {topic.name}" in answer.text
    listed = quiet_home.run_forked("memory", "help", "--format", "json").json()
    assert [each["topic"] for each in listed] == [topic.name for topic in TOPICS]


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (("setup",), "Set up an agent"),
        (("Finds",), "Find what was said"),
        (("get", "rid", "of"), "Get rid of"),
        (("recall",), "Usage: memory recall [OPTIONS]"),
        (("config", "set"), "Usage: memory config set [OPTIONS]"),
    ],
)
def test_it_shows_a_topic_or_a_command(
    quiet_home: Home, words: tuple[str, ...], title: str
) -> None:
    answer = quiet_home.run_forked("memory", "help", *words)
    assert (answer.code, answer.errors) == (0, "")
    assert answer.text.startswith(title)


def test_the_help_of_a_command_is_that_of_its_option(quiet_home: Home) -> None:
    for program, words in (("memory", ["recall"]), ("memory-daemon", ["query", "events"])):
        helped = quiet_home.run_forked(program, "help", *words)
        assert helped.text == quiet_home.run(program, *words, "--help").text
    assert quiet_home.run("memory-daemon", "help").text.startswith("Usage: memory-daemon")


def test_an_unknown_topic_says_what_there_is(quiet_home: Home) -> None:
    names = ", ".join(topic.name for topic in TOPICS)
    assert_refused(quiet_home.run_forked("memory", "help", "zebra"), USAGE, "'zebra'", names)
    assert_refused(quiet_home.run_forked("memory", "help", "shair"), USAGE, "did you mean 'share'?")
    assert_refused(
        quiet_home.run_forked("memory", "help", "recal"), USAGE, "did you mean 'recall'?"
    )


@pytest.mark.skipif(BASH is None, reason="needs bash")
@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_the_commands_of_a_topic_work_when_pasted(topic: HelpTopic) -> None:
    with Home() as home:
        home.serve()
        server = git_repositories.make_repository(home.folder / "server.git", bare=True)
        clone = git_repositories.make_repository(home.work / "app")
        clone.git("remote", "add", "origin", str(server.folder))
        clone.git("push", "--quiet", "origin", "main")
        environ = {"PATH": f"{PROGRAMS}:{home.environ['PATH']}"}
        for command in topic.commands:
            answer = home.run_words([str(BASH), "-c", command], env=environ, cwd=clone.folder)
            assert answer.code == 0, (command, answer.text, answer.errors)
            assert "Traceback" not in answer.errors
