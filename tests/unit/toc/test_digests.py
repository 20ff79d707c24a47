"""Digests: the forms of days, weeks, months and years, and their limits."""

from dataclasses import replace
from itertools import pairwise

import pytest

from agent_memory.features.toc.model import digests
from agent_memory.features.toc.model.highlights import NO_WORK, Highlight, HighlightKind, Work
from agent_memory.features.toc.model.periods import Level
from agent_memory.features.toc.model.summaries import ChildSummary, Digest, PeriodSummary
from agent_memory.kernel.ids import Millis

ASKED, PLANNED, FINISHED = HighlightKind.ASKED, HighlightKind.PLANNED, HighlightKind.FINISHED
DONE, DECIDED, FOUND = HighlightKind.DONE, HighlightKind.DECIDED, HighlightKind.FOUND
BROKEN, OPEN = HighlightKind.BROKEN, HighlightKind.OPEN
STATE, NOTE = HighlightKind.STATE, HighlightKind.NOTE

NOON = 1_772_539_200_000  # 3 March 2026
DAY_MS = 86_400_000
LONGER = [Level.WEEK, Level.MONTH, Level.YEAR]


def highlight(
    at: int, kind: HighlightKind, text: str, session: str = "one", project: str = "shop"
) -> Highlight:
    return Highlight(
        text=text,
        grip_ids=(f"{session}-{at}",),
        weight=1.0,
        kind=kind,
        at_ms=Millis(NOON + at),
        session=session,
        project=project,
    )


def child(*highlights: Highlight, work: Work = NO_WORK, session: str = "") -> ChildSummary:
    return ChildSummary(
        title="",
        text="",
        highlights=highlights,
        keywords=("cart",),
        session=session,
        start_ms=Millis(NOON),
        end_ms=Millis(NOON + 600_000),
        work=work,
    )


def digest(level: Level, *children: ChildSummary) -> Digest:
    return digests.digest(PeriodSummary(level=level, children=children))


def rise(highest: Level, *children: ChildSummary) -> list[Digest]:
    """Digest a day, and then every level above it, each with the one below as its only child."""
    created = [digest(Level.DAY, *children)]
    for level in (Level.WEEK, Level.MONTH, Level.YEAR):
        if level >= highest:
            below = created[-1]
            created.append(digest(level, child(*below.highlights, work=below.work)))
    return created


def texts(created: Digest) -> list[str]:
    return [f"{bullet.kind.word}: {bullet.text}" for bullet in created.bullets]


CART = (
    highlight(1, ASKED, "Asked: Rewrite the cart as a server action (PAY-7)"),
    highlight(2, FOUND, "The coupon lives in the query string"),
    highlight(3, DONE, "Moved the totals to the server"),
    highlight(4, DONE, "Added gift cards with a limit (five per customer and day)"),
    highlight(5, DECIDED, "Prices are integers in cents instead of floats"),
    highlight(6, STATE, "All 128 tests pass"),
    highlight(7, OPEN, "Migrate the saved baskets"),
    highlight(8, FINISHED, "PAY-7 is complete and pushed"),
    highlight(9, PLANNED, "Planned: a loyalty program"),
)
LINE = (
    "Rewrite the cart as a server action (PAY-7), complete:"
    " Moved the totals to the server; Added gift cards with a limit"
)
WORK = Work(sessions=1, begun=1, commits=3, seconds=600, files=("a.ts", "b.ts"))


class TestForms:
    def test_a_day_shows_each_highlight_by_kind(self) -> None:
        created = digest(Level.DAY, child(*CART, work=WORK, session="one"))
        assert texts(created) == [
            "finished: Rewrite the cart as a server action (PAY-7), complete",
            "done: Moved the totals to the server",
            "done: Added gift cards with a limit (five per customer and day)",
            "decided: Prices are integers in cents instead of floats",
            "found: The coupon lives in the query string",
            "open: Migrate the saved baskets",
            "state: All 128 tests pass",
        ]
        assert created.text == (
            "Rewrite the cart as a server action (PAY-7), complete."
            " 1 session, 3 commits, 2 files changed, 10 min."
        )

    def test_a_week_shows_a_line_for_each_session_and_then_the_other_kinds(self) -> None:
        _, week = rise(Level.WEEK, child(*CART, work=WORK, session="one"))
        assert texts(week) == [
            f"finished: {LINE}",
            "decided: Prices are integers in cents instead of floats",
            "found: The coupon lives in the query string",
            "open: Migrate the saved baskets",
            "state: All 128 tests pass",
        ]

    def test_a_month_names_the_project_and_joins_the_other_kinds(self) -> None:
        *_, month = rise(Level.MONTH, child(*CART, work=WORK, session="one"))
        assert texts(month) == [
            f"finished: shop: {LINE}",
            "decided: Decided: Prices are integers in cents instead of floats",
            "found: Found: The coupon lives in the query string",
            "open: Open: Migrate the saved baskets",
            "state: State: All 128 tests pass",
        ]

    def test_a_year_names_the_month(self) -> None:
        *_, year = rise(Level.YEAR, child(*CART, work=WORK, session="one"))
        assert texts(year)[0].startswith("finished: March, shop: Rewrite the cart")

    def test_an_only_child_is_never_repeated_in_the_same_bullets(self) -> None:
        created = rise(Level.YEAR, child(*CART, work=WORK, session="one"))
        shown = [texts(each) for each in created]
        assert len(created) == 4
        assert all(above != below for below, above in pairwise(shown))

    @pytest.mark.parametrize("level", [Level.DAY, *LONGER])
    def test_several_projects_are_named(self, level: Level) -> None:
        created = digest(
            level,
            child(highlight(1, DONE, "Moved the totals to the server")),
            child(highlight(2, DECIDED, "Tiles are cached on disk", "two", "maps")),
        )
        shown = " ".join(texts(created))
        assert "shop: Moved the totals" in shown
        assert "maps: Tiles are cached" in shown


class TestRising:
    def test_what_was_planned_never_rises(self) -> None:
        created = digest(Level.DAY, child(highlight(1, PLANNED, "Planned: a loyalty program")))
        assert (created.bullets, created.highlights) == ((), ())

    def test_every_session_of_a_day_is_there_within_the_limit(self) -> None:
        big = [highlight(n, DONE, f"Added shelf{n} with crate{n} and label{n}") for n in range(30)]
        small = [
            highlight(100 + n, DONE, f"Fixed lamp{n} in hall{n}", f"small{n}") for n in range(10)
        ]
        created = digest(Level.DAY, child(*big, *small))
        assert len(created.bullets) == digests.MAX_DAY_BULLETS
        for number in range(10):
            assert any(f"lamp{number} " in bullet.text for bullet in created.bullets)

    def test_a_busy_day_shows_what_came_of_each_request(self) -> None:
        told = [
            each
            for n in range(12)
            for each in (
                highlight(10 * n, ASKED, f"Asked: Repair lamp{n} in hall{n}", f"s{n}"),
                highlight(10 * n + 1, DONE, f"Soldered wire{n} to bulb{n}", f"s{n}"),
                replace(
                    highlight(10 * n + 2, OPEN, f"Paint wall{n} beside door{n}", f"s{n}"), weight=2
                ),
            )
        ]
        created = digest(Level.DAY, child(*told))
        for number in range(12):
            assert f"done: Soldered wire{number} to bulb{number}" in texts(created)

    @pytest.mark.parametrize("level", [Level.DAY, *LONGER])
    def test_a_period_keeps_and_shows_a_bounded_number(self, level: Level) -> None:
        kinds = [DONE, DECIDED, FOUND, BROKEN, OPEN, FINISHED, ASKED]
        many = [
            highlight(n, kinds[n % 7], f"Thing{n} of room{n} on floor{n}", f"s{n % 40}")
            for n in range(400)
        ]
        created = digest(level, child(*many))
        assert len(created.highlights) <= digests.KEPT[level]
        longest = digests.MAX_DAY_BULLETS
        if level is Level.WEEK:
            longest = digests.MAX_LINES[level] + 5 * digests.SINGLE[level]
        elif level is not Level.DAY:
            longest = digests.MAX_LINES[level] + 5
        assert len(created.bullets) <= longest

    def test_a_long_line_keeps_to_its_room(self) -> None:
        parts = [
            highlight(n, DONE, f"Added shelf{n} with crate{n}, {'and more ' * 20}")
            for n in range(12)
        ]
        created = digest(Level.WEEK, child(*parts))
        assert len(created.bullets[0].text) <= digests.ROOM[Level.WEEK] + 100

    def test_a_bullet_has_the_grips_of_all_that_it_shows(self) -> None:
        _, week = rise(Level.WEEK, child(*CART))
        assert set(week.bullets[0].grip_ids) == {"one-1", "one-3", "one-4", "one-8"}


class TestText:
    def test_the_heaviest_tasks_and_how_many_more(self) -> None:
        asks = [highlight(n, ASKED, f"Asked: Build room{n} of house{n}", f"s{n}") for n in range(5)]
        created = digest(Level.DAY, child(*asks))
        assert created.text == (
            "Build room0 of house0; Build room1 of house1; Build room2 of house2."
            " And 2 more tasks. 10 min."
        )

    def test_without_a_task_the_heaviest_bullet(self) -> None:
        created = digest(Level.DAY, child(highlight(1, DONE, "Moved the totals to the server")))
        assert created.text == "Moved the totals to the server. 10 min."

    @pytest.mark.parametrize("level", [Level.DAY, *LONGER])
    def test_an_empty_period(self, level: Level) -> None:
        assert digest(level) == Digest(text="", bullets=(), keywords=())

    @pytest.mark.parametrize("level", [Level.DAY, *LONGER])
    def test_figures_alone(self, level: Level) -> None:
        created = digest(level, child(work=WORK, session="one"))
        assert created.text == "1 session, 3 commits, 2 files changed, 10 min."
        assert created.bullets == ()

    def test_keywords_of_many_children_come_first(self) -> None:
        one = ChildSummary(title="", text="", highlights=(), keywords=("lamp", "cart"))
        created = digest(Level.DAY, one, child(), child())
        assert created.keywords == ("cart", "lamp")
