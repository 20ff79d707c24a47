"""Answer a question with a model, from what recall finds, and name the sources."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.queries import Hit, Query, RecallResult
from agent_memory.features.memories.model.reasoning import Evidence
from agent_memory.features.memories.ports import Reasoner
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.services.recall import Recall
from agent_memory.kernel.errors import FeatureUnavailable
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import time_expressions
from agent_memory.platform.ports import Clock

EVIDENCE = 12
_CHARS = 1_500  # characters of one text
_DATES = 5  # dates resolved per text
NOTHING = "Nothing was found that answers it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """An answer in words, the hits it rests on, and the dates that the question means."""

    answer: str
    sources: tuple[Hit, ...]
    dates: tuple[str, ...]
    found: RecallResult


@dataclass(frozen=True, slots=True)
class Reasoning:
    recall: Recall
    reasoner: Reasoner | None
    clock: Clock

    def conclude(self, query: Query) -> Conclusion:
        """Answer a query. Raises FeatureUnavailable without a model, LlmFailed where it gives no
        answer."""
        if self.reasoner is None:
            raise FeatureUnavailable(
                "recall --reason needs an LLM: set summarizer.provider to llama, openai, anthropic"
                " or command, and restart the daemon; or leave --reason out to search"
            )
        found = self.recall.search(replace(query, limit=query.limit or EVIDENCE))
        zone = query.zone or self.recall.zone
        dates = resolve_dates(query.text, self.clock.now(), zone)
        if not found.hits:
            return Conclusion(answer=NOTHING, sources=(), dates=dates, found=found)
        evidence = [_evidence(hit, zone) for hit in found.hits]
        reasoned = self.reasoner.answer(query.text, dates, evidence, self.clock.now())
        by_name = {each.name: hit for each, hit in zip(evidence, found.hits, strict=True)}
        sources = tuple(by_name[name] for name in reasoned.sources if name in by_name)
        return Conclusion(answer=reasoned.answer, sources=sources, dates=dates, found=found)


def resolve_dates(text: str, said_at: Millis, zone: tzinfo = UTC) -> tuple[str, ...]:
    """Resolve the times that a text names to the dates that they meant when it was said."""
    return tuple(
        f"{window.words}: {_day(window.ranges[-1][0], zone)} to {_day(window.ranges[-1][1], zone)}"
        for window in time_expressions.find(text, said_at, zone)[:_DATES]
    )


def _evidence(hit: Hit, zone: tzinfo) -> Evidence:
    document = hit.document
    text = documents.join_text(document)[:_CHARS]
    if hit.passage is not None and hit.passage.text not in text:
        text = f"{hit.passage.text}\n...\n{text}"[:_CHARS]
    if contexts.is_pending(hit):
        text = f"({contexts.UNCONFIRMED}) {text}"
    return Evidence(
        name=hit.uri,
        at_ms=document.at_ms,
        text=text,
        dates=resolve_dates(text, document.at_ms, zone),
    )


def _day(at_ms: Millis, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at_ms / 1000, zone).date().isoformat()
