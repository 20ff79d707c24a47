"""Briefing: what an agent is given by itself, when a session starts and while it works.

Nobody waits for a model here, except where related memories are wanted for every prompt.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    MAX_QUERY_CHARS,
    Hit,
    Query,
    SearchMode,
    SearchScope,
)
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.model.contexts import ContextRequest
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.recall import Recall
from agent_memory.kernel.ids import USER

RELATED = 3
LEAST_SCORE = 0.2  # below it, a memory shares a word with a prompt by chance
CANDIDATES = 10  # the agent waits
MAX_SESSIONS = 500
MAX_GIVEN = 200  # memories that one session was given; older ones may be given again
# Names that many files and folders have: they tell nothing of what is in them.
_COMMON = frozenset({
    "app", "cmd", "config", "core", "dist", "doc", "docs", "home", "index", "init", "internal",
    "lib", "main", "mod", "package", "pkg", "readme", "setup", "src", "test", "tests", "tmp",
    "types", "user", "users", "util", "utils",
})  # fmt: skip
# What people write in full in a sentence, and not in the name of a file.
_SHORT = {
    "auth": "authentication authorization",
    "conf": "configuration",
    "config": "configuration",
    "db": "database",
    "deps": "dependencies",
    "env": "environment",
    "infra": "infrastructure",
    "perf": "performance",
    "repo": "repository",
    "spec": "specification",
}
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")


class InjectionHistory:
    """Which memories each session has been given: none is worth being told twice."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, session: str, hits: Sequence[Hit], most: int) -> list[Hit]:
        """The first of those that it has not been given, which it now has."""
        with self._lock:
            known = self._of(session)
            new = [hit for hit in hits if hit.uri not in known][:most]
            known.update((hit.uri, None) for hit in new)
            while len(known) > MAX_GIVEN:
                known.popitem(last=False)
            return new

    def forget(self, session: str) -> None:
        """Its context is lost: all may be told again."""
        with self._lock:
            self._sessions.pop(session, None)

    def _of(self, session: str) -> OrderedDict[str, None]:
        known = self._sessions.setdefault(session, OrderedDict())
        self._sessions.move_to_end(session)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return known


@dataclass(frozen=True, slots=True)
class ContextInjection:
    context: ContextBuilder
    recall: Recall
    history: InjectionHistory = field(default_factory=InjectionHistory)

    def build_for_start(self, session: str, place: MemoryLocation, wanted: ContextRequest) -> str:
        """What is known of the project, for a session that starts, or that has lost its context."""
        self.history.forget(session)
        found = self.context.build(
            replace(wanted, project=place.name, branch=place.branch), SearchMode.BM25, counted=False
        )
        named = [hit for hit in found.hits if hit.uri]
        self.history.take(session, named, len(named))
        return found.text

    def build_for_file(self, session: str, place: MemoryLocation, path: str) -> str:
        """Memories that have to do with a file. A single word of its name is enough: another one,
        that no memory has, would make all of them look far off."""
        return self._find_related(session, place, _file_words(path), SearchMode.BM25, 0.0)

    def build_for_prompt(self, session: str, place: MemoryLocation, prompt: str) -> str:
        """Memories that have to do with a prompt."""
        return self._find_related(
            session, place, prompt[:MAX_QUERY_CHARS], SearchMode.HYBRID, LEAST_SCORE
        )

    def _find_related(
        self, session: str, place: MemoryLocation, words: str, mode: SearchMode, least_score: float
    ) -> str:
        query = Query(
            text=words,
            scope=SearchScope(
                kinds=frozenset({DocumentKind.MEMORY}), domains=frozenset({place.domain, USER})
            ),
            mode=mode,
            limit=CANDIDATES,
            min_score=least_score,
            candidates=CANDIDATES,
        )
        if query.is_listing:
            return ""
        found = self.recall.search(query, counted=False).hits
        return contexts.render_related(self.history.take(session, found, RELATED))


def _file_words(path: str) -> str:
    """What the names of a file and its folder tell; nothing where they are everyone's."""
    file = PurePath(path)
    names = [file.name.partition(".")[0] or file.name, file.parent.name]
    parts = [part.lower() for name in names for part in _PART.findall(name)]
    parts += [_SHORT[part] for part in parts if part in _SHORT]
    return " ".join(part for part in dict.fromkeys(parts) if part not in _COMMON)
