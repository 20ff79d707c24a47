"""The catalog of agents and skills. Their files are read again for each request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_memory.features.runs.model import profiles, skills
from agent_memory.features.runs.model.profiles import AGENT_FILE, DEFAULT, PROMPT_FILE, Profile
from agent_memory.features.runs.model.skills import SKILL_FILE, Skill
from agent_memory.features.runs.services.agent_folder import AgentCatalogFolder
from agent_memory.kernel import spelling
from agent_memory.kernel.errors import ConfigError, NotFound

AGENTS, SKILLS = "agents", "skills"
_SINGULARS = {AGENTS: "an agent", SKILLS: "a skill"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """An agent or a skill in a list. `problem` says what is wrong with its files, line by line."""

    name: str
    description: str = ""
    problem: str = ""
    built_in: bool = False


@dataclass(frozen=True, slots=True)
class AgentCatalog:
    files: AgentCatalogFolder

    def load_agent(self, name: str) -> Profile:
        """Load an agent. Raises NotFound, and ConfigError if its files are invalid."""
        name = name or DEFAULT
        if not self.files.has(AGENTS, name):
            if name == DEFAULT:
                return profiles.BUILT_IN
            raise self._missing(AGENTS, name, self._agent_names(), f"a file {PROMPT_FILE}")
        text = self.files.read(AGENTS, name, AGENT_FILE)
        prompt = self.files.read(AGENTS, name, PROMPT_FILE)
        if text is None and prompt is None:
            raise ConfigError(f"agents/{name}: neither {AGENT_FILE} nor {PROMPT_FILE} exists")
        return profiles.parse_profile(name, text, prompt)

    def list_agents(self) -> list[CatalogEntry]:
        return [self._build_entry(AGENTS, name, self.load_agent) for name in self._agent_names()]

    def load_skill(self, name: str) -> Skill:
        """Load a skill. Raises NotFound, and ConfigError if its file is invalid."""
        if not self.files.has(SKILLS, name):
            raise self._missing(SKILLS, name, self.files.list_names(SKILLS), f"a file {SKILL_FILE}")
        text = self.files.read(SKILLS, name, SKILL_FILE)
        if text is None:
            raise ConfigError(f"skills/{name}: {SKILL_FILE} is missing")
        return skills.parse_skill(name, text)

    def list_skills(self) -> list[CatalogEntry]:
        names = self.files.list_names(SKILLS)
        return [self._build_entry(SKILLS, name, self.load_skill) for name in names]

    def render(self, name: str, arguments: str) -> str:
        """Render a skill as a prompt. Raises InvalidInput if the arguments are too long, and what
        `load_skill` raises."""
        return skills.render_skill(self.load_skill(name), arguments)

    def _agent_names(self) -> list[str]:
        return sorted({DEFAULT, *self.files.list_names(AGENTS)})

    def _build_entry(
        self, kind: str, name: str, load: Callable[[str], Profile | Skill]
    ) -> CatalogEntry:
        if wrong := profiles.check_name(name, _SINGULARS[kind]):
            return CatalogEntry(name=name, problem=f"{kind}/{name[:80]!r}: {wrong}")
        try:
            loaded = load(name)
        except (ConfigError, NotFound) as exc:
            return CatalogEntry(name=name, problem=str(exc))
        return CatalogEntry(
            name=name, description=loaded.description, built_in=loaded is profiles.BUILT_IN
        )

    def _missing(self, kind: str, name: str, names: Sequence[str], needs: str) -> NotFound:
        what = kind.removesuffix("s")
        if wrong := profiles.check_name(name, _SINGULARS[kind]):
            return NotFound(wrong)
        near = spelling.suggest_nearest(name, names)
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        known = f"there are {shown}" if names else "there are none yet"
        return NotFound(
            f"there is no {what} {name[:80]!r}{near or '; ' + known};"
            f" to add one, create the folder {self.files.location}/{kind}/<name> with {needs}"
        )
