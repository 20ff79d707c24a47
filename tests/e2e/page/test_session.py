"""Sessions, moments and the timeline in a real browser: jump, read, explain, forget, zoom."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests import browser as browsers
from tests.browser import fits, go
from tests.command_runner import Home
from tests.e2e.page.test_page import _play_session, _read_demo, _run_jobs
from tests.http_client import Web

START = 1_772_700_000_000  # 5 March 2026, 8:40
LONG = 3_000
SCRIPT = "<script>alert(1)</script>"
CODE = f"""It is this:
```python
# why: {SCRIPT}
def read(path: str) -> int:
    return len("a'b") + 42
```
and `make` passes."""
DIFF = "Edit: src/a.py\n@@ -1 +1 @@\n-old line\n+new line"
LINE = "x" * 1_000_000


@pytest.fixture(scope="module")
def home(chromium: Browser) -> Iterator[Home]:  # noqa: ARG001  # none without a browser
    with Home() as home:
        home.serve()
        web = Web(home)
        long = [_event("long", number, f"step {number:04}") for number in range(LONG)]
        for part in (long[:1_000], long[1_000:2_000], long[2_000:], [*_read_demo(), *_code()]):
            answer = web.ask("POST", "/api/v1/events/batch/", json={"events": part})
            assert all(each["created"] for each in answer.json()["outcomes"]), answer.text
        claim = {"key": "database", "value": "SQLite", "event_id": "demo-015"}
        assert web.ask("POST", "/api/v1/memories/facts/", json=claim).status_code == 201
        claim = {"key": "editor", "value": "vim"}
        assert web.ask("POST", "/api/v1/memories/facts/", json=claim).status_code == 201
        _run_jobs(home)
        _play_session(home)
        _run_jobs(home)
        yield home


def _event(session: str, number: int, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "session_id": session,
        "event_id": f"{session}-{number:04}",
        "timestamp_ms": START + number * 1_000,
        "text": text,
        **fields,
    }


def _code() -> Iterator[dict[str, Any]]:
    answer = {"role": "assistant", "event_type": "assistant_message"}
    tool = {"role": "tool", "event_type": "tool_result", "metadata": {"tool_name": "Edit"}}
    yield _event("code", 1, "How does it read? \u202etxt.exe")
    yield _event("code", 2, CODE, **answer)
    yield _event("code", 3, DIFF, **tool)
    yield _event("code", 4, f"```js\n{LINE[:30_000]}\n// end\n```", **answer)
    yield _event("code", 5, LINE)
    yield _event("slip", 1, "Decision: the door code is kumquat 73, so that all can come in.")
    yield _event("slip", 2, "Fine.", **answer)


def highlighted(page: Page) -> Locator:
    moment = page.locator(".event.highlighted")
    expect(moment).to_be_in_viewport()
    expect(moment).to_be_focused()
    return moment


class TestLongSession:
    def test_a_jump_reads_only_what_is_near(self, page: Page, home: Home) -> None:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        go(page, home, "#/session/long?event=long-2500")
        expect(highlighted(page)).to_contain_text("step 2500")
        assert len([each for each in asked if "/long/events/" in each]) == 2
        shown = page.locator(".event")
        expect(shown).to_have_count(200)
        expect(shown.first).to_contain_text("step 2470")
        page.get_by_role("button", name="Show later").evaluate(
            "each => (each.click(), each.click())"
        )
        expect(shown.last).to_contain_text("step 2869")
        assert len([each for each in asked if "/long/events/" in each]) == 3
        expect(page.locator("[data-event=long-2670]")).to_be_focused()
        later = page.get_by_role("button", name="Show later")
        later.press("Enter")  # what was added above may still move it
        expect(shown.last).to_contain_text("step 2999")
        expect(later).to_be_hidden()
        for first in (2270, 2070, 1870):
            page.get_by_role("button", name="Show earlier").press("Enter")
            expect(shown.first).to_contain_text(f"step {first}")
            assert shown.count() <= 600  # the far end is dropped
        expect(page.locator("[data-event=long-2069]")).to_be_in_viewport()
        expect(shown.last).not_to_contain_text("step 2999")
        later.click()
        expect(shown.last).not_to_contain_text("step 2069")

    def test_both_ends_and_any_time(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/long")
        expect(page.locator("main")).to_contain_text("3,000 events")
        page.get_by_role("link", name="End").click()
        expect(page.locator(".event").last).to_contain_text("step 2999")
        expect(page.locator(".event").last).to_be_in_viewport()
        page.get_by_label("Go to").fill("2026-03-05T09:00:00")
        page.get_by_role("button", name="Go", exact=True).click()
        expect(highlighted(page)).to_contain_text("step 1200")
        page.get_by_role("link", name="Beginning").click()
        expect(page.locator(".event").first).to_contain_text("step 0000")
        page.get_by_role("link", name="Search in it").click()
        page.get_by_role("searchbox").fill("step 1234")
        expect(page.locator(".hit .meta").first).to_contain_text("long")

    def test_a_moment_that_is_gone(self, page: Page, home: Home) -> None:
        page.goto("about:blank")
        errors = page.context.new_page()  # a 404 is an error of the console
        go(errors, home, "#/session/long?event=long-9999")
        expect(errors.locator("main")).to_contain_text("no longer in this session")
        expect(errors.locator(".event").first).to_contain_text("step 0000")
        errors.close()


class TestReading:
    def test_code_has_colours_and_stays_text(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/code")
        code = page.locator("[data-event=code-0002] pre")
        expect(code).to_have_text(CODE.split("```")[1].removeprefix("python\n").rstrip())
        expect(code.locator(".code-comment")).to_have_text(f"# why: {SCRIPT}")
        expect(code.locator(".code-keyword")).to_have_text(["def", "return"])
        expect(code.locator(".code-string")).to_have_text('"a\'b"')
        expect(code.locator(".code-number")).to_have_text("42")
        tool = page.locator("[data-event=code-0003]")
        tool.locator("summary").click()
        expect(tool.locator(".code-added")).to_contain_text("+new line")
        expect(tool.locator(".code-removed")).to_contain_text("-old line")
        expect(page.locator("main script")).to_have_count(0)
        expect(page.locator("[data-event=code-0001]")).to_contain_text("U+202Etxt.exe")

    def test_very_long_lines_are_plain_and_on_demand(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/code")
        for name, size in (("code-0004", 30_000), ("code-0005", 1_000_000)):
            event = page.locator(f"[data-event={name}]")
            assert len(event.inner_text()) < 10_000
            event.get_by_role("button", name=re.compile("^Show all")).click()
            assert event.evaluate("element => element.textContent.length") > size
            expect(event.locator("[class^=code-]")).to_have_count(0)
        assert fits(page)

    def test_the_margin_leads_to_the_timeline(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/lantern-db")
        said = page.locator(".event", has_text="Decision: SQLite with WAL and FTS5.")
        note = said.locator(".notes a")
        expect(note).to_have_text("SQLite with WAL and FTS5.")
        box, beside = said.locator(".said").bounding_box(), note.bounding_box()
        assert box is not None
        assert beside is not None
        assert beside["x"] > box["x"] + box["width"]
        note.click()
        expect(page).to_have_url(re.compile("#/timeline/toc%3Asegment%3A2026-03-04"))
        page.go_back()
        page.locator(".segment-mark a").first.click()
        expect(page).to_have_url(re.compile("#/timeline/toc%3Asegment%3A2026-03-04"))


class TestForgetting:
    def test_a_moment_is_forgotten_when_asked_twice(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/slip?event=slip-0001")
        moment = highlighted(page)
        forget = moment.get_by_role("button", name="Forget it")
        forget.focus()
        page.keyboard.press("Enter")
        expect(moment).to_contain_text("You cannot undo this")
        expect(moment).to_contain_text("1 passage")
        expect(moment.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Escape")
        expect(forget).to_be_focused()
        assert Web(home).ask(path="/api/v1/events/slip-0001").status_code == 200
        page.keyboard.press("Enter")
        moment.get_by_role("button", name="Forget for good").click()
        report = page.get_by_role("group", name="What was done")
        expect(report).to_contain_text("nothing of it is left")
        expect(report).to_be_focused()
        expect(report).to_be_in_viewport(ratio=1)
        assert "kumquat" not in page.locator("main").inner_text()
        assert Web(home).ask(path="/api/v1/events/slip-0001").status_code == 404
        expect(page.locator(".event")).to_have_count(1)


class TestWhy:
    def test_from_an_injected_line(self, page: Page, home: Home) -> None:
        go(page, home)
        given = page.locator(".injection").first
        given.locator("summary").click()
        line = given.locator("li", has_text="growing pause")
        line.locator("[data-entry]").focus()
        page.keyboard.press("w")
        moment = highlighted(page)
        expect(moment).to_contain_text("Uploads fail")
        expect(moment).to_contain_text("Remembered from this")
        moment.get_by_role("link", name="growing pause").first.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("growing pause")
        page.keyboard.press("w")  # and from the memory
        highlighted(page)

    def test_from_a_memory_in_a_list(self, page: Page, home: Home) -> None:
        go(page, home, f"#/search?q={quote('growing pause')}&kind=memory")
        page.locator(".hit").first.get_by_role("button", name="Why?").click()
        expect(highlighted(page)).to_contain_text("Uploads fail")

    def test_from_a_bullet_to_its_words_and_its_day(self, page: Page, home: Home) -> None:
        go(page, home, "#/timeline/toc:month:2026:03")
        go(page, home, "#/timeline/toc:day:2026-03-04")
        page.get_by_role("link", name="SQLite with WAL and FTS5.").focus()
        page.keyboard.press("w")
        moment = highlighted(page)
        expect(moment.locator("mark")).to_have_text("Decision: SQLite with WAL and FTS5.")
        moment.get_by_role("link", name="See its day").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Wednesday, March 4, 2026")

    def test_from_a_fact(self, page: Page, home: Home) -> None:
        go(page, home, "#/knowledge")
        page.locator(".card", has_text="database").locator("[data-why]").click()
        expect(highlighted(page)).to_have_attribute("data-event", "demo-015")
        page.go_back()
        expect(page.locator(".card", has_text="editor")).to_contain_text("source is not known")
        go(page, home, "#/search?q=editor&kind=fact")
        page.locator(".hit", has_text="vim").locator("[data-why]").click()
        expect(page.locator("main")).to_contain_text("without saying where it was said")
        page.get_by_role("link", name="Correct or delete it").click()
        expect(page.locator(".card")).to_contain_text("vim")


class TestTimeline:
    def test_zoom_and_pan_by_keys(self, page: Page, home: Home) -> None:
        heading = page.get_by_role("heading", level=1)
        go(page, home, "#/timeline/toc:day:2026-03-02")
        for key, title in (
            ("-", "Week 10 of 2026"),
            ("+", "Monday, March 2, 2026"),
            ("l", "Wednesday, March 4, 2026"),
            ("-", "Week 10 of 2026"),
            ("-", "March 2026"),
            ("-", "2026"),
            ("+", "March 2026"),
        ):
            page.keyboard.press(key)
            expect(heading).to_have_text(title)
        assert "near=" in page.url

    def test_zoom_and_pan_by_mouse(self, page: Page, home: Home) -> None:
        heading = page.get_by_role("heading", level=1)
        go(page, home, "#/timeline/toc:day:2026-03-02")
        ribbon = page.get_by_role("navigation", name="Nearby")
        ribbon.hover()
        page.mouse.wheel(0, 100)
        expect(heading).to_have_text("Wednesday, March 4, 2026")
        box = ribbon.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 10, box["y"] + 10)
        page.mouse.down()
        page.mouse.move(box["x"] + 90, box["y"] + 10)
        page.mouse.up()
        expect(heading).to_have_text("Monday, March 2, 2026")
        ribbon.get_by_role("link", name="Thursday, March 5").click()
        expect(heading).to_have_text("Thursday, March 5, 2026")
        page.locator("[rel=up]").click()
        expect(heading).to_have_text("Week 10 of 2026")
        page.locator("[rel=down]").click()
        expect(heading).to_have_text("Thursday, March 5, 2026")
        for place, by, title in ((heading, 100, "Week 10 of 2026"), (ribbon, -100, "Thursday")):
            place.hover()
            page.keyboard.down("Control")
            page.mouse.wheel(0, by)
            expect(heading).to_contain_text(title)
            page.keyboard.up("Control")
            turned = page.evaluate("performance.now()")  # the wheel moves one period at a time
            page.wait_for_function("turned => performance.now() > turned + 300", arg=turned)
        columns = page.locator(".columns section")  # sessions side by side
        expect(columns).to_have_count(3)


class TestSearch:
    @pytest.mark.parametrize(
        ("place", "options"),
        [
            ("kind=event&role=assistant", ("--in", "events", "--role", "assistant")),
            (
                "project=lantern&kind=segment&from=2026-03-02&to=2026-03-04",
                ("--in", "segments", "--project", "lantern"),
            ),
        ],
    )
    def test_filters_find_what_recall_finds(
        self, page: Page, home: Home, place: str, options: tuple[str, ...]
    ) -> None:
        go(page, home, f"#/search?q=cache&scores=1&{place}")
        days = ("--since", "2026-03-02", "--until", "2026-03-04") if "from=" in place else ()
        words = ("cache", *options, *days, "--limit", "20", "--format", "json")
        recalled = home.run("memory", "recall", *words).json()["results"]
        assert recalled
        scores = page.locator(".scores div:first-child dd").all_inner_texts()
        assert scores == [f"{each['score']:.3f}" for each in recalled]


class TestEveryone:
    def test_no_barriers_and_no_overflow(self, page: Page, home: Home) -> None:
        with browsers.lend(page) as check:
            for place in (
                "#/session/lantern-db?event=demo-015",
                "#/session/code",
                "#/session/long?at=end",
                "#/timeline/toc:day:2026-03-05",
                "#/now",
            ):
                go(page, home, place)
                for folded in page.locator("main details summary").all()[:3]:
                    folded.click()
                if "event=" in place:
                    page.get_by_role("button", name="Forget it").click()
                    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
                assert check() == [], place
