"""Tools for the memory: search it, and store facts."""

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
from agent_memory.kernel.ids import Millis, SessionId

DEFAULT_LIMIT = 5
MAX_LIMIT = 20
_OWN = 1.2  # factor for hits of the own project
_NOTHING = "(nothing found)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMemory:
    """Searches the memory. Hits from this run are omitted: its model has them in the context."""

    recall: Recall
    project: str
    session: str
    since: Millis
    most: int
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "recall",
        "Search the memory of earlier conversations, decisions and facts.",
        ["query"],
        query=arguments.define_text("Search text.", least=1, most=MAX_QUERY_CHARS),
        limit=arguments.define_number("Maximum number of results.", least=1, most=MAX_LIMIT),
    )

    def preview(self, call: ToolCall, args: Arguments, /) -> str:  # noqa: ARG002
        return ""

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str:  # noqa: ARG002
        limit = args.number("limit", DEFAULT_LIMIT)
        hits: dict[DocumentKey, Hit] = {}
        for scope in self._scopes():
            cancel.check()
            query = Query(text=args.text("query"), scope=scope, limit=2 * limit)
            for hit in self.recall.search(query).hits:
                if not self._own_words(hit):
                    hits.setdefault(hit.document.key, hit)
        best = sorted(hits.values(), key=self._rank)[:limit]
        return contexts.render_recalled(best, self.most) or _NOTHING

    def _scopes(self) -> Iterator[SearchScope]:
        """Search the time before the run separately: the words of the run itself could crowd out
        all other hits."""
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
    session: SessionId
    spec: ClassVar[chats.ToolSpec] = arguments.define_tool(
        "remember",
        "Store a fact for later conversations. A new value for the same key replaces the old one.",
        ["key", "value"],
        key=arguments.define_text("Short name of the fact.", least=1, most=limits.NAME_CHARS),
        value=arguments.define_text("Value of the fact.", least=1, most=limits.VALUE_CHARS),
        type=arguments.define_text("Kind of fact, such as preference.", most=limits.NAME_CHARS),
    )

    def preview(self, call: ToolCall, args: Arguments, /) -> str:  # noqa: ARG002
        kind = args.text("type")
        lead = f"{kind}: " if kind else ""
        return escape_hidden(f"{lead}{args.text('key')} = {args.text('value')}")

    def run(self, call: ToolCall, args: Arguments, cancel: CancelToken, /) -> str:  # noqa: ARG002
        cancel.check()
        fact = self.facts.claim(
            Claim(
                agent_id=self.agent,
                key=args.text("key").strip(),
                value=args.text("value"),
                fact_type=args.text("type").strip() or None,
                session_id=self.session,
            )
        )
        if fact.times_confirmed > 1:
            return f"confirmed: {fact.key} = {fact.value}, {fact.times_confirmed} times in all"
        replaced = ", replacing another value" if fact.contradictions else ""
        return f"remembered: {fact.key} = {fact.value}{replaced}"
