"""Conversations with a known table of contents, and the calls that read it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from agent_memory.proto import memory_pb2 as pb
from tests.command_runner import wait_until
from tests.memory_client import SERVICE, Client

MINUTE = 60_000
SECONDS = 20.0  # far more than new events take to reach the table of contents

SEGMENTS, ROLLUP, OUTBOX = "segment-summarizer", "hourly-rollup", "outbox-processor"
REBUILD = "contents-rebuild"
EMBEDDING = "backlog-embedder"
TEAM = "team-sync"
JOBS = (ROLLUP, SEGMENTS, OUTBOX, REBUILD, EMBEDDING, TEAM)

_KINDS = {
    "user": (pb.EVENT_TYPE_USER_MESSAGE, pb.EVENT_ROLE_USER),
    "assistant": (pb.EVENT_TYPE_ASSISTANT_MESSAGE, pb.EVENT_ROLE_ASSISTANT),
    "tool": (pb.EVENT_TYPE_TOOL_RESULT, pb.EVENT_ROLE_TOOL),
    "start": (pb.EVENT_TYPE_SESSION_START, pb.EVENT_ROLE_SYSTEM),
    "end": (pb.EVENT_TYPE_SESSION_END, pb.EVENT_ROLE_SYSTEM),
}


def millis(when: str) -> int:
    """Return the Unix milliseconds of a time in UTC, such as `2026-01-30 10:00`."""
    return int(datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp() * 1000)


def make_event(session: str, number: int, at_ms: int, who: str, text: str = "") -> pb.Event:
    kind, role = _KINDS[who]
    return pb.Event(
        event_id=f"{session}-{number:04}",
        session_id=session,
        timestamp_ms=at_ms,
        event_type=kind,
        role=role,
        text=text,
    )


def conversation(
    session: str, begin: str | int, lines: Sequence[tuple[str, str]], *, first: int = 0
) -> list[pb.Event]:
    """Build a conversation of alternating speakers, one line a minute."""
    start = millis(begin) if isinstance(begin, str) else begin
    return [
        make_event(session, first + number, start + number * MINUTE, who, text)
        for number, (who, text) in enumerate(lines)
    ]


# 2024-07-03: a Wednesday of week 27.
ORCHARD = conversation(
    "orchard",
    "2024-07-03 08:00",
    [
        ("start", ""),
        ("user", "The soil sensor in the north orchard reports 104 percent moisture again."),
        ("assistant", "A reading above 100 percent means the dry reference was never calibrated."),
        ("tool", "calibration.toml:12: dry_reference = 0\ncalibration.toml:13: wet_reference = 3"),
        ("user", "We decided to store one reference pair per probe instead of one per field."),
        ("assistant", "Done: each probe now keeps its own pair and readings stay below 100."),
        ("end", ""),
    ],
)

# 2025-12-29: a Monday whose Thursday is 2026-01-01, so it belongs to 2026.
FERRY_WINTER = conversation(
    "ferry",
    "2025-12-29 10:00",
    [
        ("user", "Why does the ferry timetable import drop every sailing after 22:00?"),
        ("assistant", "The parser reads 24:15 as an invalid hour and silently skips the row."),
        ("user", "Accept hours up to 27 and roll them over to the next service day."),
        ("assistant", "The import now keeps all 318 sailings of the winter timetable."),
    ],
)

# 2026-01-30, a Friday: two sittings of one session, with another session in between the lines.
FERRY_MORNING = conversation(
    "ferry",
    "2026-01-30 09:00",
    [
        ("user", "Passengers see the Larkhaven pier twice in the stop list."),
        ("assistant", "Two exports spell the pier differently, with and without the accent."),
        ("user", "Should the merge compare names or coordinates?"),
        ("assistant", "Coordinates: names differ in 41 stops, positions never by over 8 metres."),
        ("user", "Agreed, merge stops that lie within ten metres of each other."),
        ("assistant", "Merged. The stop list went from 655 to 614 entries and no pier repeats."),
    ],
    first=4,
)
FERRY_NOON = conversation(
    "ferry",
    "2026-01-30 12:00",
    [
        ("user", "The fare table for bicycles is missing on the summer page."),
        ("assistant", "The page template filters fares by class and bicycles have none."),
        ("user", "Give bicycles a class of their own called cargo."),
        ("assistant", "Bicycles are cargo now, and their fare of 4.50 shows on all pages."),
    ],
    first=10,
)
MILL = conversation(
    "mill",
    millis("2026-01-30 09:00") + MINUTE // 2,
    [
        ("user", "The water mill controller opens the sluice at full speed after a reboot."),
        ("assistant", "The ramp limiter starts from zero because its last position is not kept."),
        ("user", "Persist the gate position every second and load it at boot."),
        ("assistant", "Gate position is persisted; a reboot test moved the sluice by 2 percent."),
        ("user", "Write down that the limiter must never be bypassed by the service menu."),
        ("assistant", "Added that rule to the safety notes and a test that guards it."),
    ],
)

# 2026-03-31, a Tuesday whose Thursday is in April; the talk goes on past midnight.
NIGHT = conversation(
    "night",
    "2026-03-31 23:57",
    [
        ("user", "The backup of the museum catalogue fails at the stroke of midnight."),
        ("assistant", "The folder name changes with the date while the copy is still running."),
        ("user", "Take the date once at the start and use it until the backup ends."),
        ("assistant", "The name is fixed at the start now; a run across midnight completed."),
        ("user", "Thanks, schedule the same change for the photo archive."),
        ("assistant", "The photo archive job uses the fixed folder name as well."),
    ],
)

EVERYTHING = [*ORCHARD, *FERRY_WINTER, *FERRY_MORNING, *MILL, *FERRY_NOON, *NIGHT]

# The tree of EVERYTHING down to the days, and how the segments of each day begin and end.
SHAPE: dict[str, list[str]] = {
    "toc:year:2026": ["toc:month:2026:01", "toc:month:2026:04"],
    "toc:month:2026:01": ["toc:week:2026:W01", "toc:week:2026:W05"],
    "toc:week:2026:W01": ["toc:day:2025-12-29"],
    "toc:week:2026:W05": ["toc:day:2026-01-30"],
    "toc:month:2026:04": ["toc:week:2026:W14"],
    "toc:week:2026:W14": ["toc:day:2026-03-31"],
    "toc:year:2024": ["toc:month:2024:07"],
    "toc:month:2024:07": ["toc:week:2024:W27"],
    "toc:week:2024:W27": ["toc:day:2024-07-03"],
}
DAYS: dict[str, list[list[pb.Event]]] = {
    "toc:day:2024-07-03": [ORCHARD],
    "toc:day:2025-12-29": [FERRY_WINTER],
    "toc:day:2026-01-30": [FERRY_MORNING, MILL, FERRY_NOON],
    "toc:day:2026-03-31": [NIGHT],
}


class Toc:
    """The calls of the table of contents and its jobs, over a client's connection."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list_years(self) -> list[pb.TocNode]:
        answer: pb.GetTocRootResponse = self._client.unary(
            f"/{SERVICE}/GetTocRoot", pb.GetTocRootRequest(), pb.GetTocRootResponse
        )
        return list(answer.nodes)

    def find(self, node_id: str) -> pb.TocNode | None:
        answer: pb.GetNodeResponse = self._client.unary(
            f"/{SERVICE}/GetNode", pb.GetNodeRequest(node_id=node_id), pb.GetNodeResponse
        )
        return answer.node if answer.HasField("node") else None

    def get_node(self, node_id: str) -> pb.TocNode:
        found = self.find(node_id)
        assert found is not None, node_id
        return found

    def browse(
        self, parent_id: str, limit: int = 0, token: str | None = None
    ) -> pb.BrowseTocResponse:
        request = pb.BrowseTocRequest(parent_id=parent_id, limit=limit, continuation_token=token)
        answer: pb.BrowseTocResponse = self._client.unary(
            f"/{SERVICE}/BrowseToc", request, pb.BrowseTocResponse
        )
        return answer

    def list_children(self, parent_id: str) -> list[pb.TocNode]:
        """Return all children, page by page."""
        found: list[pb.TocNode] = []
        token: str | None = None
        while True:
            page = self.browse(parent_id, 100, token)
            found += page.children
            assert page.has_more == page.HasField("continuation_token")
            if not page.has_more:
                return found
            token = page.continuation_token

    def expand(
        self, grip_id: str, before: int | None = None, after: int | None = None
    ) -> pb.ExpandGripResponse:
        request = pb.ExpandGripRequest(grip_id=grip_id, events_before=before, events_after=after)
        answer: pb.ExpandGripResponse = self._client.unary(
            f"/{SERVICE}/ExpandGrip", request, pb.ExpandGripResponse
        )
        return answer

    def walk(self) -> Iterator[pb.TocNode]:
        """Yield every node below the years, each before its children."""

        def below(node: pb.TocNode) -> Iterator[pb.TocNode]:
            yield node
            if node.child_node_ids:
                children = self.list_children(node.node_id)
                for child in children:
                    yield from below(child)

        for root in self.list_years():
            yield from below(root)

    def segments(self) -> list[pb.TocNode]:
        return [node for node in self.walk() if node.level == pb.TOC_LEVEL_SEGMENT]

    def bounds(self) -> list[tuple[int, int]]:
        """Return the first and last time of each segment, in order."""
        return sorted((node.start_time_ms, node.end_time_ms) for node in self.segments())

    def wait_for(self, stretches: Iterable[Sequence[pb.Event]]) -> None:
        """Wait until the segments are these stretches of conversation."""
        wanted = sorted((each[0].timestamp_ms, each[-1].timestamp_ms) for each in stretches)
        wait_until(lambda: self.bounds() == wanted, f"the segments are {wanted}", SECONDS)

    def tree(self) -> list[pb.TocNode]:
        """Return the whole tree without versions."""
        found = list(self.walk())
        for node in found:
            node.ClearField("version")
        return found

    def settle(self) -> None:
        """Run the jobs until nothing is left to do."""
        for name in (SEGMENTS, ROLLUP):
            done = self.run(name)
            assert done.success, done

    def status(self) -> pb.GetSchedulerStatusResponse:
        answer: pb.GetSchedulerStatusResponse = self._client.unary(
            f"/{SERVICE}/GetSchedulerStatus",
            pb.GetSchedulerStatusRequest(),
            pb.GetSchedulerStatusResponse,
        )
        return answer

    def job(self, name: str) -> pb.JobStatusProto:
        (found,) = (job for job in self.status().jobs if job.job_name == name)
        return found

    def pause(self, name: str) -> pb.PauseJobResponse:
        answer: pb.PauseJobResponse = self._client.unary(
            f"/{SERVICE}/PauseJob", pb.PauseJobRequest(job_name=name), pb.PauseJobResponse
        )
        return answer

    def resume(self, name: str) -> pb.ResumeJobResponse:
        answer: pb.ResumeJobResponse = self._client.unary(
            f"/{SERVICE}/ResumeJob", pb.ResumeJobRequest(job_name=name), pb.ResumeJobResponse
        )
        return answer

    def run(self, name: str) -> pb.RunJobResponse:
        answer: pb.RunJobResponse = self._client.unary(
            f"/{SERVICE}/RunJob", pb.RunJobRequest(job_name=name), pb.RunJobResponse
        )
        return answer


@dataclass(frozen=True, slots=True)
class EventContext:
    """The place of an event in its session, which an expanded grip must show."""

    before: list[pb.Event]
    itself: pb.Event
    after: list[pb.Event]


def find_context(events: Iterable[pb.Event], event_id: str) -> EventContext:
    every = sorted(events, key=lambda each: (each.timestamp_ms, each.event_id))
    (event,) = (each for each in every if each.event_id == event_id)
    session = [each for each in every if each.session_id == event.session_id]
    place = session.index(event)
    return EventContext(session[:place], event, session[place + 1 :])


def assert_every_bullet_leads_to_its_events(toc: Toc, events: Sequence[pb.Event]) -> None:
    nodes = {node.node_id: node for node in toc.walk()}
    seen: set[str] = set()
    for node in nodes.values():
        if not node.bullets:
            _assert_silent(node, nodes, events)
        for bullet in node.bullets:
            assert bullet.grip_ids, f"a bullet of {node.node_id} has no grip: {bullet.text}"
            for grip_id in set(bullet.grip_ids) - seen:
                seen.add(grip_id)
                found = toc.expand(grip_id)
                assert found.grip.grip_id == grip_id, f"{node.node_id}: no {grip_id}"
                assert found.grip.event_id_start == found.grip.event_id_end
                wanted = find_context(events, found.grip.event_id_start)
                assert list(found.excerpt_events) == [wanted.itself]
                assert found.grip.excerpt
                assert found.grip.excerpt in wanted.itself.text
                assert found.grip.timestamp_ms == wanted.itself.timestamp_ms
                assert list(found.events_before) == wanted.before[-3:]
                assert list(found.events_after) == wanted.after[:3]


def _assert_silent(
    node: pb.TocNode, nodes: dict[str, pb.TocNode], events: Sequence[pb.Event]
) -> None:
    """Check that nothing was said there, as in a session end that is alone."""
    if node.child_node_ids:
        assert not any(nodes[child].bullets for child in node.child_node_ids), node.node_id
    else:
        assert node.start_time_ms == node.end_time_ms, f"{node.node_id} has no bullets"
        at_once = [each.text for each in events if each.timestamp_ms == node.start_time_ms]
        assert "" in at_once, f"{node.node_id} has no bullets"
