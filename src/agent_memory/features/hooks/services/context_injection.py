"""Context injection: the memories that an agent gets without asking for them.

They come at the start of a session, with a prompt or with a file. Only those for prompts wait for
an embedding model.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import (
    MAX_QUERY_CHARS,
    Hit,
    Query,
    SearchMode,
    SearchScope,
)
from agent_memory.features.injections.model.injections import NOTHING, Injection
from agent_memory.features.lessons.services.moments import LessonMoments
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.recall.model import contexts, ranking
from agent_memory.features.recall.model.contexts import ContextRequest
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.recall import Recall
from agent_memory.kernel.ids import USER

RELATED = 3
LESSONS_SHARE = 0.6  # of the tokens of a session's start
CANDIDATES = 10  # the agent waits
MAX_SESSIONS = 500
MAX_INJECTED = 200  # memories remembered per session; older ones may be injected again
_WRITING = frozenset({"Edit", "Write"})
# Names of many files and folders, which say nothing about the content.
_COMMON = frozenset({
    "app", "cmd", "config", "core", "dist", "doc", "docs", "home", "index", "init", "internal",
    "lib", "main", "mod", "package", "pkg", "readme", "setup", "src", "test", "tests", "tmp",
    "types", "user", "users", "util", "utils",
})  # fmt: skip
# Words that are short in file names and written in full in sentences.
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
    """The memories that each session already has: none is injected twice."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, session: str, hits: Sequence[Hit], most: int) -> list[Hit]:
        """Return the first hits that are new to a session, and remember them."""
        with self._lock:
            known = self._of(session)
            new = [hit for hit in hits if hit.uri not in known][:most]
            known.update((hit.uri, None) for hit in new)
            while len(known) > MAX_INJECTED:
                known.popitem(last=False)
            return new

    def forget(self, session: str) -> None:
        """Forget a session that has lost its context: every memory may be injected again."""
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
    moments: LessonMoments
    history: InjectionHistory = field(default_factory=InjectionHistory)

    def build_for_start(
        self, session: str, place: MemoryLocation, request: ContextRequest
    ) -> Injection:
        """Build the project's context for a session that starts or has lost its context."""
        self.history.forget(session)
        request = replace(
            request,
            project=place.name,
            branch=place.branch,
            zone=self.moments.zone,
            without=self.moments.list_retired(place.name),
        )
        lessons = Injection()
        if request.plain:
            lessons = self.moments.build_for_start(
                session, place.name, int(request.tokens * LESSONS_SHARE)
            )
            request = replace(
                request,
                lead=tuple(lessons.text.splitlines()),
                rules_to_review=self.moments.count_to_review(place.name),
            )
        context = self.context.build(request, SearchMode.BM25, counted=False)
        memories = [hit for hit in context.hits if hit.document.kind is DocumentKind.MEMORY]
        self.history.take(session, memories, len(memories))
        return Injection(text=context.text, items=(*lessons.items, *context.uris))

    def build_before_tool(self, call: HookCall, place: MemoryLocation, folder: str) -> Injection:
        """Find what is known of what a tool is about to do."""
        use, project, name = call.use, place.name, call.call_id
        if use.is_own:
            return NOTHING
        moments = self.moments
        if use.is_shell:
            return moments.build_before_command(call.session, project, use.asked, name, folder)
        files = use.list_files()
        if not use.names.isdisjoint(_WRITING):
            return moments.build_before_edit(
                call.session, project, files, use.written, folder, name
            )
        return moments.build_before_read(call.session, project, files, folder)

    def note_result(self, call: HookCall) -> None:
        """Learn from the result of a tool what came of what was given before."""
        use = call.use
        if use.is_shell:
            failed = call.kind is HookKind.TOOL_FAILURE
            self.moments.note_command(
                call.session, use.asked, call.text, call.call_id, failed=failed
            )
        elif not use.names.isdisjoint(_WRITING):
            self.moments.note_edit(call.session, use.list_files(), use.written, call.call_id)

    def build_for_file(self, session: str, place: MemoryLocation, path: str) -> Injection:
        """Find memories about a file. One matching word of its name is enough.

        A minimum score would drop good hits because of the words that no memory has.
        """
        return self._find_related(session, place, _extract_words(path), SearchMode.BM25, 0.0)

    def build_for_prompt(self, session: str, place: MemoryLocation, prompt: str) -> Injection:
        """Find memories about a prompt."""
        words = prompt[:MAX_QUERY_CHARS]
        least = ranking.INJECTED_SCORE
        return self._find_related(session, place, words, SearchMode.HYBRID, least)

    def _find_related(
        self, session: str, place: MemoryLocation, words: str, mode: SearchMode, least_score: float
    ) -> Injection:
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
            return NOTHING
        hits = self.recall.search(query, counted=False).hits
        new = self.history.take(session, hits, RELATED)
        return Injection(text=contexts.render_related(new), items=tuple(hit.uri for hit in new))


def _extract_words(path: str) -> str:
    """Return the telling words in the names of a file and its folder."""
    file = PurePath(path)
    names = [file.name.partition(".")[0] or file.name, file.parent.name]
    parts = [part.lower() for name in names for part in _PART.findall(name)]
    parts += [_SHORT[part] for part in parts if part in _SHORT]
    return " ".join(part for part in dict.fromkeys(parts) if part not in _COMMON)
