"""Agents from their files: what is right becomes a profile, what is wrong is named by its line."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.model import profiles
from agent_memory.features.runs.model.profiles import Profile
from agent_memory.kernel.errors import ConfigError

WHOLE = """\
description = "Reads changes before they are merged"
tools = ["read_file", "search_files", "recall"]
commands = ["git  diff", "pytest"]
max_turns = 12
temperature = 0.2
answer_tokens = 800
recall = false
"""


def wrong(text: str | None, prompt: str | None = "You review.", name: str = "reviewer") -> str:
    with pytest.raises(ConfigError) as told:
        profiles.parse_profile(name, text, prompt)
    return str(told.value)


class TestRight:
    def test_all_that_can_be_set(self) -> None:
        assert profiles.parse_profile("reviewer", WHOLE, "You review.\n") == Profile(
            name="reviewer",
            description="Reads changes before they are merged",
            prompt="You review.",
            tools=frozenset({"read_file", "search_files", "recall"}),
            commands=("git diff", "pytest"),
            max_turns=12,
            temperature=0.2,
            answer_tokens=800,
            recall=False,
        )

    def test_a_prompt_is_enough(self) -> None:
        assert profiles.parse_profile("a", None, "Hello") == Profile(name="a", prompt="Hello")

    def test_so_is_one_in_the_toml(self) -> None:
        assert profiles.parse_profile("a", 'prompt = """\nHi\n"""', None).prompt == "Hi"

    def test_no_tools_at_all(self) -> None:
        assert profiles.parse_profile("a", "tools = []", "Hello").tools == frozenset()

    def test_the_default_one_keeps_its_prompt_where_none_is_given(self) -> None:
        found = profiles.parse_profile("default", "temperature = 0", None)
        assert (found.prompt, found.temperature) == (profiles.BUILT_IN.prompt, 0)

    def test_the_built_in_one_has_no_limits_and_names_every_tool(self) -> None:
        assert profiles.BUILT_IN.tools is None
        assert all(tool in profiles.BUILT_IN.prompt for tool in profiles.TOOLS)


class TestWrong:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (
                'description = ""\n\ntool = ["read_file"]',
                "agents/reviewer/agent.toml:3: unknown key 'tool'; did you mean 'tools'?",
            ),
            (
                "zzz = 1",
                "agents/reviewer/agent.toml:1: unknown key 'zzz'; known keys: description,",
            ),
            (
                'tools = [\n  "recall",\n  "read_fil",\n]',
                "agents/reviewer/agent.toml:3: unknown tool 'read_fil'; did you mean 'read_file'?",
            ),
            ('tools = "recall"', ":1: tools must be a list of tool names, not 'recall'"),
            ("\nmax_turns = 0", ":2: max_turns must be a whole number from 1 to 1,000, not 0"),
            ("max_turns = 1001", ":1: max_turns must be"),
            ("max_turns = true", ":1: max_turns must be a whole number from 1 to 1,000, not True"),
            ("temperature = 2.1", ":1: temperature must be a number from 0 to 2, not 2.1"),
            ("temperature = nan", ":1: temperature must be a number from 0 to 2, not nan"),
            ("answer_tokens = -1", ":1: answer_tokens must be a whole number from 1 to"),
            ('recall = "yes"', ":1: recall must be true or false, not 'yes'"),
            (
                'commands = ["", "ls"]',
                ":1: commands must be a list of at most 200 non-empty commands",
            ),
            ("description = 7", ":1: description must be a text of at most 1,000 characters"),
            ("recall = true\n\ntools = [\n", ":3: not valid TOML: "),
            ("recall = true\nrecall ? true\n", ":2: not valid TOML: "),
            ("[tools]\nread_file = true", ":1: tools must be a list"),
            ("a = " + "[" * 5_000, ":1: not valid TOML: "),
        ],
    )
    def test_in_the_toml(self, text: str, told: str) -> None:
        found = wrong(text)
        assert told in found
        assert found.startswith("agents/reviewer/agent.toml:")
        assert len(found) < 400

    def test_all_of_it_is_told_at_once(self) -> None:
        found = wrong('tols = []\nmax_turns = "x"\ntools = ["a", "b"]')
        assert [line.split(":")[1] for line in found.splitlines()] == ["1", "2", "3", "3"]

    def test_a_key_is_not_looked_for_in_a_long_text(self) -> None:
        text = 'description = """\nmax_turns = 1\n"""\nmax_turns = 0'
        assert ":4: max_turns must be" in wrong(text)

    @pytest.mark.parametrize("prompt", ["", " \n\t"])
    def test_an_empty_prompt(self, prompt: str) -> None:
        assert wrong(None, prompt).startswith("agents/reviewer/prompt.md:1: the prompt is empty")
        assert "prompt must be a non-empty text" in wrong(f'prompt = "{prompt.strip()}"', None)

    def test_none_at_all(self) -> None:
        assert wrong("", None).startswith("agents/reviewer/agent.toml:1: the prompt is missing")

    def test_two_of_them(self) -> None:
        assert "remove one of them" in wrong('prompt = "Hi"', "Hello")

    def test_one_that_is_too_long(self) -> None:
        assert "the limit is 64,000" in wrong(None, "x" * 64_001)

    @pytest.mark.parametrize("name", ["", "..", "a/b", "Reviewer", "-a", "a" * 65, "é", "a\n"])
    def test_a_name_that_is_not_safe(self, name: str) -> None:
        assert "cannot name an agent: use up to 64 of a-z" in wrong(None, name=name)


@given(st.text(), st.none() | st.text())
def test_whatever_stands_in_the_files_is_read_or_refused(text: str, prompt: str | None) -> None:
    with suppress(ConfigError):
        assert profiles.parse_profile("a", text, prompt).prompt
