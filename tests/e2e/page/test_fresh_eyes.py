"""What a reader meets on a first day: a pause, a restart, a place that is gone."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from agent_memory.interfaces.http.page_app import FOLDER
from tests import browser as browsers
from tests.command_runner import Home
from tests.http_client import Web

NOW = datetime.now(UTC)
PROMPTS = {7: 1, 6: 1, 1: 1, 0: 3}  # by how many days ago
JOBS = ("segment-summarizer", "hourly-rollup", "outbox-processor")


@pytest.fixture(scope="module")
def home(chromium: Browser) -> Iterator[Home]:  # noqa: ARG001  # none without a browser
    with Home() as home:
        home.serve()
        home.settings["http.port"] = str(Web(home).record["http_port"])  # it stays
        events = [
            {
                "session_id": f"day-{days}",
                "timestamp_ms": int((NOW - timedelta(days=days)).timestamp() * 1000) + number,
                "text": f"Check the lamp {number} of day {days}",
            }
            for days, prompts in PROMPTS.items()
            for number in range(prompts)
        ]
        answer = Web(home).ask("POST", "/api/v1/events/batch/", json={"events": events})
        assert all(each["created"] for each in answer.json()["outcomes"])
        assert home.run("memory", "capture", "decisions", "Use SQLite").code == 0
        for job in JOBS:
            assert home.run("memory-daemon", "scheduler", "run", job).code == 0
        yield home


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """Yield a tab that may report a failed request: restarts cause some."""
    yield tab
    browsers.clear(tab)


def go(page: Page, home: Home, place: str) -> None:
    page.goto("about:blank")
    browsers.go(page, home, place)


def restart(home: Home) -> None:
    home.stop()
    home.serve()


def sign_in(page: Page, home: Home) -> None:
    """Sign in from another tab of the same browser."""
    other = page.context.new_page()
    other.goto(browsers.print_url(home))
    expect(other.get_by_role("heading", name="Now")).to_be_visible()
    other.close()


def edit(page: Page, home: Home, details: str) -> None:
    go(page, home, "#/memories")
    page.locator(".hit a.passage").first.focus()
    page.keyboard.press("e")
    page.get_by_label("Details").fill(details)


class TestRecording:
    def test_a_pause_is_said_everywhere(self, page: Page, home: Home) -> None:
        go(page, home, "#/projects")
        notice = page.get_by_role("banner").get_by_role("link", name="Recording is paused")
        page.get_by_role("button", name="Pause", exact=True).click()
        expect(notice).to_be_visible()
        go(page, home, "#/now")
        expect(page.locator(".live")).to_have_text("Recording is paused")
        go(page, home, "#/health")
        expect(page.locator("main")).not_to_contain_text("All is well")
        notice.click()
        page.get_by_role("button", name="Resume").click()
        expect(notice).to_be_hidden()

    def test_without_hooks_not_all_is_well(self, page: Page, home: Home) -> None:
        go(page, home, "#/health")
        expect(page.locator("h1 + p")).to_have_text(
            "No agent is connected memory install claude-code"
        )


class TestHeatMap:
    def test_days_follow_their_dates_and_today_is_marked(self, page: Page, home: Home) -> None:
        go(page, home, "#/timeline")
        days = page.locator(".heat a")
        links = days.evaluate_all("all => all.map((each) => each.getAttribute('href'))")
        assert links == sorted(links)
        today = page.locator(".heat [aria-current=date]")
        expect(today).to_have_attribute("title", re.compile(f"{NOW.day} .*3 prompts"))
        expect(today).to_have_class("level-4")
        name = page.locator(".weekdays span").nth(1 + NOW.weekday())
        expect(name).to_have_text(f"{NOW:%a}")
        beside, cell = name.bounding_box(), today.bounding_box()
        assert beside is not None
        assert cell is not None
        assert abs(beside["y"] - cell["y"]) < cell["height"] / 2  # in one row
        expect(days.first).to_have_class("level-1")
        days.first.focus()
        page.keyboard.press("j")
        expect(days.nth(1)).to_be_focused()
        expect(page.locator(".heat + p")).to_have_text(days.nth(1).get_attribute("title") or "")


class TestMissing:
    @pytest.mark.parametrize(
        ("place", "words", "link"),
        [
            ("#/timeline/toc:day:2020-01-01", "Nothing was recorded on this day", "Timeline"),
            (
                "#/memory/decisions/abc123def456:0?domain=user",
                "This memory was forgotten",
                "Memories",
            ),
        ],
    )
    def test_it_says_what_is_missing(
        self, page: Page, home: Home, place: str, words: str, link: str
    ) -> None:
        go(page, home, place)
        expect(page.get_by_role("alert")).to_contain_text(words)
        page.locator("main").get_by_role("link", name=link).click()
        expect(page.get_by_role("heading", name="Not found")).to_be_hidden()


# The stream of Now never lets the network be idle.
_LOADED = """(all) => performance.getEntriesByType("resource")
  .filter(({ name }) => name.includes("/ui/pages/")).length >= all"""


class TestRestart:
    def test_a_form_outlives_the_session(self, page: Page, home: Home) -> None:
        edit(page, home, "It needs no server.")
        restart(home)
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".failure")).to_contain_text("has no session any more")
        expect(page.get_by_label("Details")).to_have_value("It needs no server.")
        sign_in(page, home)
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".outcome")).to_contain_text("Saved")
        expect(page.locator(".prose")).to_have_text("It needs no server.")

    def test_a_code_in_the_same_tab_keeps_the_form(self, page: Page, home: Home) -> None:
        edit(page, home, "It is one file.")
        restart(home)
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".failure")).to_be_visible()
        code = browsers.print_url(home).partition("#")[2]
        page.evaluate("(code) => { location.hash = code; }", code)
        expect(page.locator(".failure")).to_have_text("You are signed in again.")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".prose")).to_have_text("It is one file.")

    def test_an_old_tab_writes_with_the_new_session(self, page: Page, home: Home) -> None:
        go(page, home, "#/projects")
        restart(home)
        sign_in(page, home)
        page.get_by_role("button", name="Pause", exact=True).click()
        page.get_by_role("button", name="Resume").click()
        restart(home)
        sign_in(page, home)
        page.get_by_role("button", name="Pause", exact=True).click()
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()

    def test_places_open_once_the_daemon_is_back(self, page: Page, home: Home) -> None:
        go(page, home, "#/now")
        expect(page.locator(".live")).to_have_text("Live")
        page.wait_for_function(_LOADED, arg=len(list((FOLDER / "pages").iterdir())))
        home.stop()
        expect(page.locator(".live")).to_contain_text("memory-daemon start")
        page.get_by_role("link", name="Timeline").click()
        expect(page.get_by_role("alert")).to_contain_text("The daemon does not answer")
        home.serve()
        sign_in(page, home)
        page.get_by_role("button", name="Try again").click()
        expect(page.locator(".heat")).to_be_visible()

    def test_now_connects_again(self, page: Page, home: Home) -> None:
        go(page, home, "#/now")
        expect(page.locator(".live")).to_have_text("Live")
        restart(home)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        sign_in(page, home)
        expect(page.locator(".live")).to_have_text("Live")

    def test_a_used_code_does_not_hide_the_page(self, page: Page, home: Home) -> None:
        url = browsers.print_url(home)
        for _ in range(2):
            page.goto("about:blank")
            page.goto(url)
            expect(page.get_by_role("heading", name="Now")).to_be_visible()
        expect(page.locator(".outcome")).to_contain_text("this browser is signed in")
