"""Sessions as the table of contents has them, with chosen bullets, written to any store."""

from collections.abc import Sequence
from datetime import UTC, datetime

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.toc.adapters.toc_store import StoredToc
from agent_memory.features.toc.model import toc
from agent_memory.features.toc.model.highlights import HighlightKind, Work
from agent_memory.features.toc.model.segments import Segment
from agent_memory.features.toc.model.summaries import Point, Summary, Support
from agent_memory.features.toc.model.toc import NodeWrite, TocChange, TocNode
from agent_memory.kernel.ids import EventId, Millis, SessionId
from agent_memory.platform.ports import OrderedStore
from tests.contract.stores import TIMEOUT

MINUTE = 60_000
Said = tuple[HighlightKind, str, int]  # a bullet, and the minute of the segment that says it


def millis(when: str) -> Millis:
    """Return the Unix milliseconds of a time in UTC, such as `2026-01-30 10:00`."""
    return Millis(int(datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp() * 1000))


def write_segment(
    store: OrderedStore,
    session: str,
    begin: str,
    said: Sequence[Said],
    *,
    title: str = "A title",
    minutes: int = 10,
    project: str = "lantern",
    agent: str = "claude-code",
    last: EventType = EventType.ASSISTANT_MESSAGE,
    work: Work | None = None,
) -> TocNode:
    """Write a segment of one event a minute, with these bullets."""
    start = millis(begin)
    events = [
        Event(
            event_id=EventId(f"event-{session}@{begin}-{number}"),
            session_id=SessionId(session),
            at_ms=Millis(start + number * MINUTE),
            type=last if number == minutes else EventType.ASSISTANT_MESSAGE,
            role=EventRole.ASSISTANT,
            text="words",
            metadata={"project": project, "agent": agent},
        )
        for number in range(minutes + 1)
    ]
    StoredEventLog(store).append(events).result(TIMEOUT)
    segment = Segment(
        session_id=SessionId(session),
        first=events[0].position,
        last=events[-1].position,
        tokens=10,
        count=len(events),
        ended=False,
    )
    points = tuple(
        Point(
            text=text,
            weight=1.0,
            support=(Support(event_id=events[at].event_id, at_ms=events[at].at_ms, excerpt=text),),
            kind=kind,
        )
        for kind, text, at in said
    )
    node, grips = toc.build_segment_node(
        segment,
        Summary(title=title, text="", points=points, keywords=()),
        project=project,
        work=work or Work(sessions=1, prompts=1, commits=1, files=(f"{session}.py",)),
    )
    StoredToc(store).commit(
        TocChange(nodes=(NodeWrite(node=node, kept=True),), grips=tuple(grips), segments=(segment,))
    )
    return node
