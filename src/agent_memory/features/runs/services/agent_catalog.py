"""Crew: the agents and skills that there are, read anew whenever someone asks."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent_memory.features.runs.model import profiles, skills
from agent_memory.features.runs.model.profiles import AGENT_FILE, DEFAULT, PROMPT_FILE, Profile
from agent_memory.features.runs.model.skills import SKILL_FILE, Skill
from agent_memory.features.runs.ports import CatalogFiles
from agent_memory.kernel import spelling
from agent_memory.kernel.errors import ConfigError, NotFound

AGENTS, SKILLS = "agents", "skills"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """An agent or a skill in a list. `problem` is what is wrong with its files, a line for each."""

    name: str
    description: str = ""
    problem: str = ""
    built_in: bool = False


@dataclass(frozen=True, slots=True)
class AgentCatalog:
    files: CatalogFiles

    def load_agent(self, name: str) -> Profile:
        """Raises NotFound, and ConfigError where its files are wrong."""
        name = name or DEFAULT
        if not self.files.has(AGENTS, name):
            if name == DEFAULT:
                return profiles.BUILT_IN
            raise self._missing(AGENTS, name, self._agent_names(), f"a file {PROMPT_FILE}")
        text = self.files.read(AGENTS, name, AGENT_FILE)
        prompt = self.files.read(AGENTS, name, PROMPT_FILE)
        if text is None and prompt is None:
            raise ConfigError(f"agents/{name}: there is neither {AGENT_FILE} nor {PROMPT_FILE}")
        return profiles.parse_profile(name, text, prompt)

    def list_agents(self) -> list[CatalogEntry]:
        return [self._agent_member(name) for name in self._agent_names()]

    def load_skill(self, name: str) -> Skill:
        """Raises NotFound, and ConfigError where its file is wrong."""
        if not self.files.has(SKILLS, name):
            raise self._missing(SKILLS, name, self.files.list_names(SKILLS), f"a file {SKILL_FILE}")
        text = self.files.read(SKILLS, name, SKILL_FILE)
        if text is None:
            raise ConfigError(f"skills/{name}: there is no {SKILL_FILE}")
        return skills.parse_skill(name, text)

    def list_skills(self) -> list[CatalogEntry]:
        return [self._skill_member(name) for name in self.files.list_names(SKILLS)]

    def render(self, name: str, arguments: str) -> str:
        """What a skill asks for with these arguments. Raises InvalidInput where they are too long,
        and as `skill` does."""
        return skills.render_skill(self.load_skill(name), arguments)

    def _agent_names(self) -> list[str]:
        return sorted({DEFAULT, *self.files.list_names(AGENTS)})

    def _agent_member(self, name: str) -> CatalogEntry:
        if wrong := profiles.check_name(name, "an agent"):
            return CatalogEntry(name=name, problem=f"agents/{name[:80]!r}: {wrong}")
        try:
            found = self.load_agent(name)
        except (ConfigError, NotFound) as exc:
            return CatalogEntry(name=name, problem=str(exc))
        return CatalogEntry(
            name=name, description=found.description, built_in=found is profiles.BUILT_IN
        )

    def _skill_member(self, name: str) -> CatalogEntry:
        if wrong := profiles.check_name(name, "a skill"):
            return CatalogEntry(name=name, problem=f"skills/{name[:80]!r}: {wrong}")
        try:
            return CatalogEntry(name=name, description=self.load_skill(name).description)
        except (ConfigError, NotFound) as exc:
            return CatalogEntry(name=name, problem=str(exc))

    def _missing(self, kind: str, name: str, there: Sequence[str], needs: str) -> NotFound:
        what = kind.removesuffix("s")
        if wrong := profiles.check_name(name, f"{'an' if kind == AGENTS else 'a'} {what}"):
            return NotFound(wrong)
        near = spelling.suggest_nearest(name, there)
        shown = ", ".join(there[:20]) + (", ..." if len(there) > 20 else "")
        has = f"there are {shown}" if there else "there are none yet"
        return NotFound(
            f"there is no {what} {name[:80]!r}{near or '; ' + has};"
            f" one is a folder {self.files.location}/{kind}/<name> with {needs}"
        )
