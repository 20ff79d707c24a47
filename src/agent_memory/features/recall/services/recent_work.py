"""Recent work: where the last sessions of a project left off, from their highlights."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent_memory.features.index.model.documents import Document, DocumentKind, segment_owner
from agent_memory.features.index.model.queries import Hit, Query, SearchScope
from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.features.recall.model import contexts, ranking, standing
from agent_memory.features.recall.model.contexts import ContextItem
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.toc.model import last_words, toc
from agent_memory.features.toc.model.highlights import Highlight, HighlightKind
from agent_memory.features.toc.model.last_words import SessionHighlights
from agent_memory.features.toc.model.periods import NodeId
from agent_memory.features.toc.ports import TocReader
from agent_memory.kernel.ids import Millis

SEGMENTS = 40  # that are read at once
PAGES = 5
LEFT_OFF = 5  # highlights of the last session
OPEN = 4
DECIDED = 3
EARLIER = 3  # sessions
LEAST_WEIGHT = 0.3  # a weaker highlight is not worth an agent's tokens

_ORDER = (
    HighlightKind.FINISHED,
    HighlightKind.ASKED,
    HighlightKind.BROKEN,
    HighlightKind.OPEN,
    HighlightKind.STATE,
    HighlightKind.DONE,
    HighlightKind.DECIDED,
    HighlightKind.FOUND,
    HighlightKind.NOTE,
)
_UNSOLVED = frozenset({HighlightKind.OPEN, HighlightKind.BROKEN})
_ENDS = frozenset(
    each.word for each in (HighlightKind.FINISHED, HighlightKind.BROKEN, HighlightKind.STATE)
)
_BRIEF = frozenset({HighlightKind.OPEN.word, HighlightKind.NOTE.word})  # left out, briefly
LEFT_OFF_BRIEFLY, DECIDED_BRIEFLY, EARLIER_BRIEFLY = 3, 2, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectWork:
    """What an agent should know of earlier sessions, the most important first in each list."""

    left_off: list[ContextItem] = field(default_factory=list)
    unsolved: list[ContextItem] = field(default_factory=list)
    decided: list[ContextItem] = field(default_factory=list)
    earlier: list[ContextItem] = field(default_factory=list)

    def shorten(self) -> "ProjectWork":
        """Return what is worth an agent's tokens beside the lessons, which have what is open: the
        work that was finished rather than its parts, and little of what came before."""
        ends = [item for item in self.left_off if item.label in _ENDS]
        finished = any(item.label == HighlightKind.FINISHED.word for item in ends)
        parts = [] if finished else [item for item in self.left_off if item.label not in _BRIEF]
        return ProjectWork(
            left_off=[*ends, *(item for item in parts if item not in ends)][:LEFT_OFF_BRIEFLY],
            decided=self.decided[:DECIDED_BRIEFLY],
            earlier=self.earlier[:EARLIER_BRIEFLY],
        )


@dataclass(frozen=True, slots=True)
class RecentWork:
    recall: Recall
    toc: TocReader

    def read(self, project: str, without: str = "") -> ProjectWork:
        """Read the last sessions of a project, or of all, `without` one that needs no reminder."""
        stories = list(
            standing.keep_standing(self._read_sessions(project, get_main_session(without)))
        )
        stories.sort(key=lambda story: -_get_end(story))
        if not stories:
            return ProjectWork()
        last, *before = stories
        now = self.recall.clock.now()
        left = _choose(last)
        kept = {each.text for each in left}
        rest = [each for story in stories for each in story.rest if each.text not in kept]
        unsolved = [each for each in rest if each.kind in _UNSOLVED][:OPEN]
        decided = [each for each in rest if each.kind is HighlightKind.DECIDED]
        decided.sort(key=lambda each: -each.at_ms)
        leads = [story.lead for story in before if story.lead is not None][:EARLIER]
        return ProjectWork(
            left_off=[replace(_to_item(each, now, 0.6), is_last=True) for each in left],
            unsolved=[_to_item(each, now, 0.5) for each in unsolved],
            decided=[_to_item(each, now, 0.4) for each in decided[:DECIDED]],
            earlier=[_to_item(each, now, 0.2) for each in leads],
        )

    def _read_sessions(self, project: str, without: str) -> list[SessionHighlights]:
        """Read the newest segments; of a long session that needs none, those before it."""
        scope = SearchScope(kinds=frozenset({DocumentKind.SEGMENT}), project=project)
        for page in range(PAGES):
            query = Query(text="", scope=scope, limit=SEGMENTS, offset=page * SEGMENTS)
            hits = self.recall.search(query).hits
            nodes = self.toc.get_nodes([NodeId(hit.document.id) for hit in hits])
            highlights = [
                highlight
                for node in nodes
                if node is not None and _is_main(node.session) and node.session != without
                for highlight in toc.to_child(node).highlights
            ]
            if highlights or len(hits) < SEGMENTS:
                return last_words.summarize_sessions(highlights)
        return []


def _is_main(session: str) -> bool:
    """Return whether a session is the user's own. Its subagents report to it."""
    return get_main_session(session) == session


def _get_end(story: SessionHighlights) -> Millis:
    return max(each.at_ms for each in _list_all(story))


def _list_all(story: SessionHighlights) -> Sequence[Highlight]:
    return [*([] if story.lead is None else [story.lead]), *story.rest]


def _choose(story: SessionHighlights) -> list[Highlight]:
    """Choose what to say of the last session: how it ended before what it did."""
    strong = [each for each in _list_all(story) if each.weight >= LEAST_WEIGHT]
    heaviest = sorted(strong, key=lambda each: (each is not story.lead, -each.weight))[:LEFT_OFF]
    return sorted(heaviest, key=lambda each: (_ORDER.index(each.kind), each.at_ms, -each.weight))


def _to_item(highlight: Highlight, now: Millis, least: float) -> ContextItem:
    """Return a highlight as a hit, opened by its grip: shown because it is the last work of the
    project, which counts at `least` so much however long ago it was."""
    grip_id = highlight.grip_ids[0]
    recent = max(ranking.score_recency(highlight.at_ms, now), least)
    document = Document(
        kind=DocumentKind.GRIP,
        id=grip_id,
        owner=segment_owner(NodeId("")),
        at_ms=highlight.at_ms,
        text=highlight.text,
        session=highlight.session,
        project=highlight.project,
    )
    return ContextItem(
        hit=Hit(document=document, score=recent, parts={contexts.RECENCY: recent}, grip_id=grip_id),
        label=highlight.kind.word,
    )
