"""Working: figures of segments, days and longer periods."""

import pytest

from agent_memory.features.toc.model import work_figures
from agent_memory.features.toc.model.highlights import MAX_FILES, Work
from agent_memory.features.toc.model.summaries import ChildSummary
from agent_memory.kernel.ids import Millis
from tests.toc_talk import Talk

MINUTE = 60_000
HOUR = 60 * MINUTE


def segment(
    start: int, end: int, session: str = "one", *, begun: int = 0, sessions: int = 1
) -> ChildSummary:
    return ChildSummary(
        title="",
        text="",
        highlights=(),
        keywords=(),
        session=session,
        start_ms=Millis(start),
        end_ms=Millis(end),
        work=Work(sessions=sessions, begun=begun, prompts=2, commits=1, files=(f"{session}.py",)),
    )


class TestSegments:
    def test_prompts_commits_files_and_time_are_counted(self) -> None:
        talk = (
            Talk(start_ms=HOUR)
            .ask("Add a map to the store finder")
            .edit("web/map.ts")
            .edit("web/map.ts")
            .edit("web/finder.ts")
            .read("web/tiles.ts")
            .edit("/home/dev/.claude/plans/map.md")
            .run('git commit -m "Add a map"')
            .run('git commit -m "Cache tiles" && git commit -m "Add a pin"')
            .run('git commit -m "Sign it"', "error: gpg failed", failed=True)
        )
        assert work_figures.measure_segment(talk.said, is_first=True) == Work(
            sessions=1,
            begun=1,
            prompts=1,
            commits=3,
            seconds=8 * 60,
            files=("web/finder.ts", "web/map.ts"),
        )
        assert work_figures.measure_segment(talk.said, is_first=False).begun == 0

    def test_nothing_is_no_work(self) -> None:
        assert work_figures.measure_segment([], is_first=True) == Work()


class TestDays:
    @pytest.mark.parametrize(
        ("spans", "minutes"),
        [
            ([], 0),
            ([(60, 90)], 30),
            ([(60, 90), (60, 90)], 30),  # side by side
            ([(60, 90), (75, 100)], 40),
            ([(60, 120), (70, 80), (75, 125)], 65),
            ([(60, 90), (94, 100)], 40),  # a pause of four minutes is bridged
            ([(60, 90), (95, 100)], 35),  # one of five is not
            ([(94, 100), (60, 90)], 40),  # in any order
        ],
    )
    def test_time_side_by_side_counts_once(
        self, spans: list[tuple[int, int]], minutes: int
    ) -> None:
        parts = [segment(start * MINUTE, end * MINUTE) for start, end in spans]
        assert work_figures.measure_day(parts).seconds == 60 * minutes

    def test_a_session_of_many_segments_counts_once(self) -> None:
        parts = [segment(0, 1, "one", begun=1), segment(2, 3, "one"), segment(4, 5, "two")]
        work = work_figures.measure_day(parts)
        assert (work.sessions, work.begun, work.prompts, work.commits) == (2, 1, 6, 3)
        assert work.files == ("one.py", "two.py")

    def test_a_segment_without_a_session_of_its_own_adds_only_its_work(self) -> None:
        work = work_figures.measure_day([segment(0, 1, begun=1), segment(0, 1, "sub", sessions=0)])
        assert (work.sessions, work.commits) == (1, 2)


class TestLongerPeriods:
    def test_a_session_over_days_counts_where_it_began(self) -> None:
        days = [Work(sessions=2, begun=2, seconds=60), Work(sessions=2, begun=1, seconds=60)]
        assert work_figures.add_days(days) == Work(sessions=3, begun=3, seconds=120)

    def test_a_week_that_only_continues_sessions_has_them(self) -> None:
        assert work_figures.add_days([Work(sessions=2), Work(sessions=1)]).sessions == 2

    def test_no_days(self) -> None:
        assert work_figures.add_days([]) == Work()

    def test_files_are_united_and_capped(self) -> None:
        days = [Work(files=tuple(f"{day}/{n:03}.py" for n in range(150))) for day in "ab"]
        work = work_figures.add_days([*days, days[0]])
        assert len(work.files) == MAX_FILES
        assert len(set(work.files)) == MAX_FILES


class TestWords:
    @pytest.mark.parametrize(
        ("work", "words"),
        [
            (Work(), ""),
            (Work(sessions=1), "1 session"),
            (
                Work(sessions=2, commits=1, files=("a.py",), seconds=7500),
                "2 sessions, 1 commit, 1 file changed, 2 h 5 min",
            ),
            (Work(sessions=1, prompts=9, seconds=29), "1 session"),
            (Work(files=tuple(map(str, range(MAX_FILES)))), f"{MAX_FILES}+ files changed"),
        ],
    )
    def test_figures_are_described_without_zeros(self, work: Work, words: str) -> None:
        assert work_figures.describe(work) == words

    @pytest.mark.parametrize(
        ("seconds", "words"),
        [(0, ""), (29, ""), (30, "1 min"), (3570, "1 h"), (3600, "1 h"), (90_000, "25 h")],
    )
    def test_durations(self, seconds: int, words: str) -> None:
        assert work_figures.format_duration(seconds) == words
