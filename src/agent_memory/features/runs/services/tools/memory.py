"""Tools for the memory itself: to find in it, and to hold something for true."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from agent_memory.features.index.model.documents import DocumentKey
from agent_memory.features.index.model.queries import MAX_QUERY_CHARS, Hit, Query, SearchScope
from agent_memory.features.knowledge.model.facts import Claim
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.runs.model import arguments, chats
from agent_memory.features.runs.model.arguments import Arguments
from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.features.runs.model.workspaces import escape_hidden
from agent_memory.kernel import limits
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.ids import Millis

DEFAULT_LIMIT = 5
MAX_LIMIT = 20
_OWN = 1.2  # how much more a hit of the own project counts
_NOTHING = "(nothing is known of it)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMemory:
    """What this run has said itself is left out: its model has that before it."""

    recall: Recall
    project: str
    session: str
    since: Millis
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "recall",
        "Search the memory of earlier conversations, decisions and facts.",
        ["query"],
        query=arguments.define_text("What to look for.", least=1, most=MAX_QUERY_CHARS),
        limit=arguments.define_number("How many at most.", least=1, most=MAX_LIMIT),
    )

    def preview(self, call: ToolCall, given: Arguments, /) -> str:  # noqa: ARG002
        return ""

    def run(self, call: ToolCall, given: Arguments, halt: CancelToken, /) -> str:  # noqa: ARG002
        limit = given.number("limit", DEFAULT_LIMIT)
        found: dict[DocumentKey, Hit] = {}
        for scope in self._scopes():
            halt.check()
            query = Query(text=given.text("query"), scope=scope, limit=2 * limit)
            for hit in self.recall.search(query).hits:
                if not self._own_words(hit):
                    found.setdefault(hit.document.key, hit)
        best = sorted(found.values(), key=self._rank)[:limit]
        return contexts.render_recalled(best, self.most) or _NOTHING

    def _scopes(self) -> Iterator[SearchScope]:
        """What was there before the run is looked for by itself: there may be so many words of the
        run's own that nothing else would be found."""
        before = Millis(max(0, self.since - 1))
        yield SearchScope(until=before)
        if self.project:
            yield SearchScope(project=self.project, until=before)
        yield SearchScope(since=self.since)

    def _own_words(self, hit: Hit) -> bool:
        return hit.document.session == self.session and hit.document.at_ms >= self.since

    def _rank(self, hit: Hit) -> float:
        own = self.project and hit.document.project == self.project
        return -hit.score * (_OWN if own else 1.0)


@dataclass(frozen=True, slots=True)
class Remember:
    facts: Facts
    agent: str
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "remember",
        "Keep a fact for later conversations. The same key with another value replaces it.",
        ["key", "value"],
        key=arguments.define_text("Short name of it.", least=1, most=limits.NAME_CHARS),
        value=arguments.define_text("What is true.", least=1, most=limits.VALUE_CHARS),
        type=arguments.define_text("Kind of fact, such as preference.", most=limits.NAME_CHARS),
    )

    def preview(self, call: ToolCall, given: Arguments, /) -> str:  # noqa: ARG002
        kind = given.text("type")
        lead = f"{kind}: " if kind else ""
        return escape_hidden(f"{lead}{given.text('key')} = {given.text('value')}")

    def run(self, call: ToolCall, given: Arguments, halt: CancelToken, /) -> str:  # noqa: ARG002
        halt.check()
        fact = self.facts.claim(
            Claim(
                agent_id=self.agent,
                key=given.text("key").strip(),
                value=given.text("value"),
                fact_type=given.text("type").strip() or None,
            )
        )
        if fact.times_confirmed > 1:
            return f"confirmed: {fact.key} = {fact.value}, {fact.times_confirmed} times by now"
        replaced = ", in place of another value" if fact.contradictions else ""
        return f"remembered: {fact.key} = {fact.value}{replaced}"
