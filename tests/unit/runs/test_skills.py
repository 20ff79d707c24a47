"""Skills: their files, and where arguments go."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.model import skills
from agent_memory.features.runs.model.skills import Skill
from agent_memory.kernel.errors import ConfigError, InvalidInput


def written(body: str, front: str = "name: fix\ndescription: Fixes things") -> str:
    return f"---\n{front}\n---\n{body}\n"


def rendered(body: str, arguments: str = "") -> str:
    return skills.render_skill(Skill(name="fix", description="", body=body), arguments)


def wrong(text: str, name: str = "fix") -> str:
    with pytest.raises(ConfigError) as told:
        skills.parse_skill(name, text)
    return str(told.value)


class TestFiles:
    def test_a_skill(self) -> None:
        assert skills.parse_skill("fix", written("Fix $1.\n\nThen test.")) == Skill(
            name="fix", description="Fixes things", body="Fix $1.\n\nThen test."
        )

    @pytest.mark.parametrize(
        ("front", "description"),
        [
            ("description: Plain: with a colon", "Plain: with a colon"),
            ("description: 'Quoted'", "Quoted"),
            ('name: "fix"\ndescription: "Quoted too"', "Quoted too"),
            ("description: >-\n  Over\n  two lines\nlicense: MIT", "Over two lines"),
            ("description: begun here\n  and ended here", "begun here and ended here"),
            ("# a note\n\nmetadata:\n  author: me\ndescription: D", "D"),
            ("allowed-tools: Read, Grep\ndescription: D", "D"),
        ],
    )
    def test_fronts_that_are_understood(self, front: str, description: str) -> None:
        assert skills.parse_skill("fix", written("Do it.", front)).description == description

    def test_lines_may_end_as_on_windows(self) -> None:
        found = skills.parse_skill("fix", "\ufeff" + written("One\nTwo").replace("\n", "\r\n"))
        assert (found.description, found.body) == ("Fixes things", "One\nTwo")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("Do it.", "skills/fix/SKILL.md:1: the file must begin with a line ---"),
            ("", "skills/fix/SKILL.md:1: the file must begin"),
            ("---\nname: fix\n", "skills/fix/SKILL.md:1: the second line ---"),
            (written("Do", "name: fix"), "skills/fix/SKILL.md:3: the description is missing"),
            (written("", "description: D"), "skills/fix/SKILL.md:3: the body is empty"),
            (
                written("Do", "name: fix\ndescripton: D"),
                "skills/fix/SKILL.md:3: unknown key 'descripton'; did you mean 'description'?",
            ),
            (written("Do", "description: D\njust words"), ":3: expected `key: value`"),
            (written("Do", "description: D\ndescription: E"), ":3: description occurs twice"),
            (written("Do", "description: D\nname: mend"), ":3: the name 'mend' differs from the"),
            (written("Do", f"description: {'x' * 1025}"), ":2: description has 1,025 characters"),
        ],
    )
    def test_what_is_wrong_is_named_by_its_line(self, text: str, told: str) -> None:
        assert told in wrong(text)

    def test_a_name_that_is_not_safe(self) -> None:
        assert "cannot name a skill" in wrong(written("Do"), name="../fix")

    @given(st.text())
    def test_whatever_stands_in_a_file_is_read_or_refused(self, text: str) -> None:
        for each in (text, written(text), written("Do", text)):
            with suppress(ConfigError):
                assert skills.parse_skill("fix", each).body


class TestArguments:
    @pytest.mark.parametrize(
        ("body", "arguments", "expected"),
        [
            ("Fix $ARGUMENTS now", " a  b ", "Fix a  b now"),
            ("$1, $2 and $3.", 'one \'two words\' "3 \\" x"', 'one, two words and 3 " x.'),
            ("$2-$1", "a b c", "b-a"),
            ("[$1][$9]", "a", "[a][]"),
            ("[$1][$ARGUMENTS]", "", "[][]"),
            ("Fix it", "now", "Fix it\n\nArguments: now"),
            ("Fix it", "  ", "Fix it"),
            ("Costs $$1 and $$ARGUMENTS", "x", "Costs $1 and $ARGUMENTS\n\nArguments: x"),
            (
                "$100, $0, $HOME, $$, ${1}, $ARGUMENTS_X",
                "",
                "$100, $0, $HOME, $$, ${1}, $ARGUMENTS_X",
            ),
            ("$1 $2", "don't stop", "don't stop"),
            ("$1 $ARGUMENTS", "'$ARGUMENTS' $1 $$2", "$ARGUMENTS '$ARGUMENTS' $1 $$2"),
            ("$1", r"a\ b c", "a b"),
            ("$1", "''", ""),
        ],
    )
    def test_where_they_go(self, body: str, arguments: str, expected: str) -> None:
        assert rendered(body, arguments) == expected

    @given(st.text(), st.text())
    def test_what_is_in_them_is_never_a_place(self, before: str, arguments: str) -> None:
        plain = before.replace("$", "")
        assert rendered(f"{plain}|$ARGUMENTS|", arguments) == f"{plain}|{arguments.strip()}|"

    def test_they_have_a_limit(self) -> None:
        with pytest.raises(InvalidInput, match="the arguments have 64,001 characters"):
            rendered("$1", "x" * 64_001)

    def test_so_has_what_becomes_of_them(self) -> None:
        with pytest.raises(InvalidInput, match="more than 512,000 characters: shorten them"):
            rendered("$ARGUMENTS" * 20_000, "x" * 64_000)
