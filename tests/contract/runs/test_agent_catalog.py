"""The crew in a real folder: what is there, what is wrong with it, and what cannot be reached."""

import os
import re
from pathlib import Path

import pytest

from agent_memory.features.runs.model import profiles
from agent_memory.features.runs.services.agent_catalog import AgentCatalog, CatalogEntry
from agent_memory.features.runs.services.agent_folder import MAX_BYTES, AgentCatalogFolder
from agent_memory.kernel.errors import ConfigError, NotFound


class Written:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.crew = AgentCatalog(AgentCatalogFolder(folder))

    def __call__(self, path: str, text: str | bytes) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return file


@pytest.fixture
def config(tmp_path: Path) -> Written:
    return Written(tmp_path / "config")


SKILL = "---\ndescription: Finds the cause\n---\nFind out why $1 fails."


class TestAgents:
    def test_without_files_there_is_the_default_one(self, config: Written) -> None:
        assert config.crew.load_agent("") == config.crew.load_agent("default") == profiles.BUILT_IN
        (only,) = config.crew.list_agents()
        assert (only.name, only.built_in, only.problem) == ("default", True, "")

    def test_files_act_at_once(self, config: Written) -> None:
        config("agents/reviewer/prompt.md", "You review.")
        assert config.crew.load_agent("reviewer").prompt == "You review."
        config("agents/reviewer/prompt.md", "You read.")
        config("agents/reviewer/agent.toml", "max_turns = 3")
        found = config.crew.load_agent("reviewer")
        assert (found.prompt, found.max_turns) == ("You read.", 3)

    def test_the_default_one_can_be_replaced(self, config: Written) -> None:
        config("agents/default/prompt.md", "You are brief.")
        assert config.crew.load_agent("").prompt == "You are brief."
        assert not config.crew.list_agents()[0].built_in

    def test_an_unknown_one_is_told_with_those_there_are(self, config: Written) -> None:
        config("agents/reviewer/prompt.md", "You review.")
        with pytest.raises(NotFound) as told:
            config.crew.load_agent("zzz")
        assert str(told.value) == (
            "there is no agent 'zzz'; there are default, reviewer;"
            f" to add one, create the folder {config.folder}/agents/<name> with a file prompt.md"
        )
        with pytest.raises(NotFound, match="'reviwer'; did you mean 'reviewer'"):
            config.crew.load_agent("reviwer")

    def test_what_is_wrong_with_one_does_not_hide_the_others(self, config: Written) -> None:
        config("agents/broken/agent.toml", "tool = []")
        config("agents/Loud/prompt.md", "HELLO")
        config("agents/empty/notes.txt", "")
        config("agents/good/prompt.md", "You are good.")
        config("agents/.hidden/prompt.md", "no")
        config("agents/file", "no folder")
        found = {each.name: each.problem for each in config.crew.list_agents()}
        assert list(found) == ["Loud", "broken", "default", "empty", "good"]
        assert found["good"] == found["default"] == ""
        assert "cannot name an agent" in found["Loud"]
        assert "agents/broken/agent.toml:1: unknown key 'tool'" in found["broken"]
        assert found["empty"] == "agents/empty: neither agent.toml nor prompt.md exists"


class TestSkills:
    def test_a_skill_with_its_arguments(self, config: Written) -> None:
        config("skills/why/SKILL.md", SKILL)
        assert config.crew.render("why", "'the build' now") == "Find out why the build fails."
        assert config.crew.list_skills() == [
            CatalogEntry(name="why", description="Finds the cause")
        ]

    def test_an_unknown_one(self, config: Written) -> None:
        assert config.crew.list_skills() == []
        with pytest.raises(NotFound, match="no skill 'why'; there are none yet; to add one"):
            config.crew.load_skill("why")

    def test_one_without_its_file(self, config: Written) -> None:
        config("skills/why/skill.txt", SKILL)
        with pytest.raises(ConfigError, match=r"skills/why: SKILL\.md is missing"):
            config.crew.load_skill("why")
        assert config.crew.list_skills()[0].problem == "skills/why: SKILL.md is missing"


def test_the_examples_of_the_page_are_right(config: Written) -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "agent-files.md").read_text()
    examples = re.findall(r"^`((?:agents|skills)/\S+)`:\n\n```\w+\n(.*?)^```$", page, re.M | re.S)
    for path, text in examples:
        config(path, text)
    assert len(examples) == 3
    assert config.crew.load_agent("reviewer").max_turns == 12
    assert "why tests/a.py fails" in config.crew.render("why", "tests/a.py")
    assert not any(
        each.problem for each in (*config.crew.list_agents(), *config.crew.list_skills())
    )


class TestReach:
    @pytest.mark.parametrize("name", ["..", ".", "../skills/why", "/etc", "a/../why", "", "a\0b"])
    def test_no_name_leads_elsewhere(self, config: Written, name: str) -> None:
        config("skills/why/SKILL.md", SKILL)
        config("SKILL.md", SKILL)
        with pytest.raises(NotFound):
            config.crew.load_skill(name)
        assert AgentCatalogFolder(config.folder).read("skills", name, "SKILL.md") is None

    def test_a_folder_of_the_users_may_be_a_link(self, config: Written, tmp_path: Path) -> None:
        config("skills/other/SKILL.md", SKILL)
        (tmp_path / "dotfiles").mkdir()
        (tmp_path / "dotfiles" / "SKILL.md").write_text(SKILL)
        (config.folder / "skills" / "why").symlink_to(tmp_path / "dotfiles")
        (config.folder / "skills" / "loop").symlink_to("loop")
        assert [each.name for each in config.crew.list_skills()] == ["other", "why"]
        assert config.crew.load_skill("why").description == "Finds the cause"

    def test_no_file_is_too_large(self, config: Written) -> None:
        config("skills/why/SKILL.md", "x" * (MAX_BYTES + 1))
        with pytest.raises(ConfigError, match=r"skills/why/SKILL\.md: the file exceeds 256 KiB"):
            config.crew.load_skill("why")

    def test_what_is_no_text(self, config: Written) -> None:
        config("agents/a/agent.toml", b"max_turns = 1\n\xff\xfe")
        with pytest.raises(ConfigError, match=r"agents/a/agent\.toml:2: not UTF-8 text"):
            config.crew.load_agent("a")

    def test_what_is_no_file(self, config: Written) -> None:
        """Neither does a pipe keep anyone waiting."""
        file = config("agents/a/agent.toml", "")
        os.mkfifo(file.with_name("prompt.md"))
        with pytest.raises(ConfigError, match=r"agents/a/prompt\.md: this is not a file"):
            config.crew.load_agent("a")
        file.with_name("prompt.md").unlink()
        file.with_name("prompt.md").mkdir()
        with pytest.raises(ConfigError, match=r"agents/a/prompt\.md: this is not a file"):
            config.crew.load_agent("a")
