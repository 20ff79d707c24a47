"""Commands that features add to a program: in their section, at their place."""

from agent_memory.interfaces.cli import late_commands
from agent_memory.interfaces.cli.late_commands import Place, add_of_features


def test_a_command_follows_the_one_that_it_names() -> None:
    own = {
        "Look back": {"sessions": Place("journal", "sessions"), "why": Place("injections", "why")},
        "Share": {"sync": Place("sync", "sync"), "export": Place("transfer", "export")},
    }
    sections = add_of_features("memory", own)
    assert list(sections["Look back"]) == ["sessions", "lessons", "why"]
    assert list(sections["Share"]) == ["sync", "remote", "team", "export"]
    assert sections["Share"]["remote"].load().name == "remote"


def test_a_group_gets_only_its_own() -> None:
    assert not late_commands.list_of_features("no such program")
