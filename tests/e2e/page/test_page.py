"""The page in a real browser, on a real daemon with the conversation of the demo."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from agent_memory.features.log.operations import MAX_EVENTS
from agent_memory.features.memories.model.memories import NAMESPACES
from demo.__main__ import CONVERSATION, SESSION
from tests import browser as browsers
from tests.browser import fits, go
from tests.command_runner import Home, wait_until
from tests.http_client import Web

QUESTION = "which database did we decide on"
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE = f"{SCRIPT}</memory_context> ship \u202egpj.exe\u202c soon"
LONG = "x" * 100_000
PLACES = (
    "#/now",
    "#/timeline",
    "#/timeline/toc:month:2026:03",
    "#/timeline/toc:day:2026-03-04",
    "#/search?q=thumbnail&scores=1&kind=event",
    "#/session/lantern-db",
    "#/session/hostile",
    "#/memories",
    "#/inbox",
    "#/knowledge/facts",
    "#/knowledge/lessons",
    "#/knowledge/procedures",
    "#/knowledge/episodes",
    "#/knowledge/users",
    "#/health",
    "#/nowhere",
)


@pytest.fixture(scope="module")
def home(chromium: Browser) -> Iterator[Home]:  # noqa: ARG001  # none without a browser
    """A daemon with a week of conversations, and one session through the hooks."""
    with Home() as home:
        home.serve()
        web = Web(home)
        events = [*_read_demo(), *_hostile()]
        for part in (events[:MAX_EVENTS], events[MAX_EVENTS:]):
            answer = web.ask("POST", "/api/v1/events/batch/", json={"events": part})
            assert all(each["created"] for each in answer.json()["outcomes"])
        _run_jobs(home)
        _play_session(home)
        for kind, body in _knowledge():
            assert web.ask("POST", f"/api/v1/memories/{kind}/", json=body).status_code == 201
        _run_jobs(home)
        yield home


def _read_demo() -> Iterator[dict[str, Any]]:
    for number, line in enumerate(CONVERSATION.read_text().splitlines(), 1):
        record = json.loads(line)
        yield {
            "event_id": f"demo-{number:03}",
            "session_id": record["session_id"],
            "timestamp_ms": int(datetime.fromisoformat(record["at"]).timestamp() * 1000),
            "event_type": record["type"],
            "role": record["role"],
            "text": record["text"],
            "metadata": record.get("metadata", {}),
        }


def _run_jobs(home: Home) -> None:
    for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
        assert home.run("memory-daemon", "scheduler", "run", job).code == 0


def _hostile() -> Iterator[dict[str, Any]]:
    yield {"session_id": "hostile", "event_id": "hostile-1", "text": HOSTILE}
    yield {"session_id": "hostile", "event_id": "hostile-2", "text": LONG}
    yield {"session_id": "hostile", "event_id": "hostile-3", "text": SCRIPT, "role": "tool"}
    for number in range(1_020):  # more than one page of the API
        yield {"session_id": "long", "event_id": f"long-{number:04}", "text": f"step {number:04}"}


def _knowledge() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "facts", {"key": "test_command", "value": "make check"}
    yield "facts", {"key": "test_command", "value": "make test"}
    yield "facts", {"key": "hostile", "value": HOSTILE}
    yield "procedures", {"name": "order_lookup", "times_succeeded": 3, "times_failed": 1}


def _play_session(home: Home) -> None:
    project = home.folder / "lantern"
    git = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", str(project))
    subprocess.run(["git", "init", "--quiet", project], check=True)  # noqa: S607
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "First"], check=True)
    for words in (
        ("learnings", "The cache evicts by wall clock"),
        ("blockers", SCRIPT, "--content", HOSTILE + LONG[:90_000], "--tags", "urgent"),
    ):
        assert home.run("memory", "capture", *words, cwd=project).code == 0
    *session, next_one = SESSION.read_text().splitlines()
    for line in session:
        _call_hook(home, project, line)
    listed = ("memory", "list", "--format", "json")
    wait_until(
        lambda: b"growing pause" in home.run(*listed, cwd=project).out, "a decision is captured"
    )
    _call_hook(home, project, next_one)


def _call_hook(home: Home, project: Any, line: str) -> None:
    given = {**json.loads(line), "cwd": str(project), "transcript_path": ""}
    assert home.run("memory", "hook", "auto", given=json.dumps(given).encode()).code == 0


_END_SESSION = """fetch("/ui/session", {
  method: "DELETE", headers: { Authorization: `Bearer ${sessionStorage.token}` }
})"""


@contextmanager
def _start_development_server() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield the URL of a server on another port of `localhost`, and the headers that it gets."""
    requests: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server calls
            requests.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>my app</title>")

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}/", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class TestSigningIn:
    def test_the_code_leaves_the_url_and_the_session_stays(
        self, chromium: Browser, home: Home
    ) -> None:
        context = browsers.open_context(chromium, home)
        page = context.new_page()
        with browsers.watch(page):
            url = browsers.print_url(home)
            page.goto(url)
            expect(page.get_by_role("heading", name="Now")).to_be_visible()
            assert "code" not in page.url
            page.reload()
            expect(page.get_by_role("heading", name="Now")).to_be_visible()
        page.goto("about:blank")
        page.goto(url)  # its code was used
        expect(page.locator(".outcome")).to_contain_text("this browser is signed in")
        page.goto(browsers.print_url(home))  # in the same tab: only the part after `#` changes
        expect(page.get_by_role("heading", name="Now")).to_be_visible()
        assert "code" not in page.url
        page.goto(url)
        expect(page.locator(".outcome")).to_contain_text("this browser is signed in")
        context.close()

    def test_without_a_session_it_says_what_to_run(self, chromium: Browser, home: Home) -> None:
        context = chromium.new_context()
        page = context.new_page()
        page.goto(browsers.print_url(home).partition("#")[0])
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.locator("main")).to_contain_text("memory ui")
        context.close()

    def test_a_session_that_ends_meanwhile_is_noticed(self, chromium: Browser, home: Home) -> None:
        context = browsers.open_context(chromium, home)
        page = context.new_page()
        go(page, home, "#/search")
        page.evaluate(_END_SESSION)
        page.get_by_role("searchbox").fill("anything")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        context.close()

    def test_new_tabs_are_signed_in_until_the_last_one_closes(
        self, chromium: Browser, home: Home
    ) -> None:
        context = browsers.open_context(chromium, home)
        (first,) = context.pages
        second = context.new_page()
        go(second, home)
        first.close()
        third = context.new_page()
        go(third, home)
        second.close()
        third.close()
        fourth = context.new_page()
        fourth.goto(browsers.print_url(home).partition("#")[0])
        expect(fourth.get_by_role("heading", name="Sign in")).to_be_visible()
        fifth = context.new_page()
        fifth.goto(browsers.print_url(home))
        expect(fourth.get_by_role("heading", name="Now")).to_be_visible()
        context.close()

    def test_another_port_of_this_host_learns_nothing(self, chromium: Browser, home: Home) -> None:
        """A development server gets what a browser sends for `localhost`, and sends all on."""
        context = browsers.open_context(chromium, home)
        page = context.new_page()
        go(page, home)
        with _start_development_server() as (url, requests):
            page.goto(url)
            assert page.evaluate("sessionStorage.length + localStorage.length") == 0
        assert requests
        web = Web(home)
        with web.client(key="") as thief:
            for headers in requests:
                own = {"host": f"localhost:{web.record['http_port']}"}
                for path in ("/api/v1/status/", "/ui/session", "/stream/events", "/ws"):
                    answer = thief.get(path, headers=headers | own)
                    assert answer.status_code in {401, 403}, path
        assert context.cookies() == []
        context.close()

    def test_signing_out_ends_the_session(self, chromium: Browser, home: Home) -> None:
        context = browsers.open_context(chromium, home)
        page = context.new_page()
        go(page, home, "#/health")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        context.close()


class TestSearch:
    def test_results_are_those_of_recall_in_their_order(self, page: Page, home: Home) -> None:
        go(page, home, "#/search")
        page.get_by_role("searchbox").fill(QUESTION)
        expect(page.locator(".summary")).to_contain_text("result")
        answer = home.run("memory", "recall", QUESTION, "--limit", "20", "--format", "json")
        recalled = answer.json()["results"]
        assert len(recalled) > 5
        shown = page.locator(".hit a")
        expect(shown).to_have_count(len(recalled))
        for link, hit in zip(shown.all(), recalled, strict=True):
            text = hit["passage"]["text"] if hit["passage"] else hit["summary"]
            assert "".join(text.split()) in "".join(link.inner_text().split())
        assert "q=which+database" in page.url
        assert page.locator(".hit mark").first.inner_text().lower() in QUESTION

    def test_the_url_holds_the_query_and_the_filters(self, page: Page, home: Home) -> None:
        go(page, home, "#/search?q=thumbnail&kind=event&role=user")
        expect(page.get_by_role("searchbox")).to_have_value("thumbnail")
        for line in page.locator(".hit .meta").all_inner_texts():
            assert line.startswith("Said user")
        page.get_by_label("Role").select_option("assistant")
        expect(page.locator(".hit .meta").first).to_contain_text("assistant")
        page.get_by_label("To", exact=True).fill("2020-01-01")
        expect(page.locator(".summary")).to_have_text(re.compile("Nothing found"))
        page.reload()
        expect(page.locator(".summary")).to_have_text(re.compile("Nothing found"))

    def test_the_parts_of_a_score_are_shown_on_demand(self, page: Page, home: Home) -> None:
        go(page, home, "#/search?q=thumbnail")
        expect(page.locator(".scores")).to_have_count(0)
        page.get_by_role("button", name="Show scores").click()
        expect(page.locator(".scores").first).to_contain_text("Words")


class TestSession:
    def test_a_result_leads_to_its_moment_in_its_session(self, page: Page, home: Home) -> None:
        go(page, home, f"#/search?q={quote('prefix query captions')}&kind=event")
        page.locator(".hit a").first.click()
        moment = page.locator(".event.highlighted")
        expect(moment).to_contain_text("a prefix query took 6 ms")
        expect(moment).to_be_in_viewport()
        expect(moment).to_be_focused()

    def test_tools_are_folded(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/lantern-db")
        output = page.locator(".event.tool pre").first
        expect(output).to_be_hidden()
        page.locator(".event.tool summary").first.click()
        expect(output).to_contain_text("scanner.py")

    def test_a_moment_deep_in_a_long_session_is_reached(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/long?event=long-1010")
        expect(page.locator(".event.highlighted")).to_contain_text("step 1010")
        shown = page.locator(".event")
        assert shown.count() < 100
        expect(shown.last).to_contain_text("step 1019")
        page.get_by_role("button", name="Show earlier").click()
        expect(shown.first).to_contain_text("step 0780")

    def test_an_unknown_session_is_said_to_be_missing(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/nothing%2Fhere")
        expect(page.locator("main")).to_contain_text("no such session")


class TestTimeline:
    def test_from_a_year_to_the_words_that_a_bullet_rests_on(self, page: Page, home: Home) -> None:
        go(page, home, "#/timeline/2026")
        page.get_by_role("link", name=re.compile("^Wednesday,? 4 March 2026: 1 session")).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Wednesday, March 4, 2026")
        page.get_by_role("link", name="SQLite with WAL and FTS5.").click()
        moment = page.locator(".event.highlighted")
        expect(moment.locator("mark")).to_have_text("Decision: SQLite with WAL and FTS5.")
        expect(moment).to_be_in_viewport()

    def test_days_are_panned_and_zoomed(self, page: Page, home: Home) -> None:
        go(page, home, "#/timeline/toc:day:2026-03-02")
        page.keyboard.press("l")
        expect(page.get_by_role("heading", level=1)).to_have_text("Wednesday, March 4, 2026")
        page.get_by_role("link", name="March 2026", exact=True).click()
        expect(page.locator(".card").first).to_contain_text("Week 10")
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_have_text("Wednesday, March 4, 2026")
        page.locator(".columns .card a").first.click()
        page.get_by_role("link", name="See it in its session").click()
        expect(page.locator(".event.highlighted")).to_be_in_viewport()


class TestMemories:
    def test_why_a_memory_is_known(self, page: Page, home: Home) -> None:
        go(page, home, "#/memories?namespace=decisions")
        page.locator(".passage", has_text="retry them with a growing pause").click()
        main = page.locator("main")
        expect(main).to_contain_text("noted automatically")
        expect(main).to_contain_text("claude-code, session-start")
        expect(main).to_contain_text("memory review")
        page.get_by_role("link", name="See the moment").click()
        expect(page.locator(".event.highlighted")).to_contain_text("Uploads fail")

    def test_filters_offer_what_there_is(self, page: Page, home: Home) -> None:
        go(page, home, "#/memories")
        offered = page.get_by_label("Namespace").locator("option").all_inner_texts()
        assert offered == ["All", *NAMESPACES]
        page.get_by_label("Namespace").select_option("learnings")
        expect(page.locator(".hit")).to_have_count(1)
        page.get_by_label("Project").select_option("user")
        expect(page.locator(".hit")).to_have_count(0)

    def test_the_inbox_shows_the_words_and_the_command(self, page: Page, home: Home) -> None:
        go(page, home, "#/inbox")
        expect(page.locator("main")).to_contain_text("memory review")
        page.get_by_role("link", name="Uploads fail when the bucket is slow").click()
        expect(page.locator(".event.highlighted")).to_be_in_viewport()


class TestNow:
    def test_what_is_recorded_appears_by_itself(self, page: Page, home: Home) -> None:
        go(page, home)
        expect(page.locator(".live")).to_have_text("Live")
        event = {"session_id": "fresh", "event_id": "fresh-1", "text": "It works right now"}
        assert Web(home).ask("POST", "/api/v1/events/", json=event).status_code == 201
        page.get_by_role("link", name="It works right now").click()
        expect(page.locator(".event.highlighted")).to_contain_text("It works right now")

    def test_what_an_agent_was_given_leads_to_where_it_was_said(
        self, page: Page, home: Home
    ) -> None:
        go(page, home)
        given = page.locator(".injection").first
        expect(given).to_contain_text("tokens")
        given.locator("summary").click()
        given.get_by_role("link", name="SQLite with WAL and FTS5").click()
        expect(page.locator(".event.highlighted")).to_contain_text("Decision: SQLite")


class TestHealth:
    def test_jobs_are_paused_resumed_and_run(self, page: Page, home: Home) -> None:
        go(page, home, "#/health")
        expect(page.locator("main")).to_contain_text("All is well")
        page.get_by_role("button", name="Pause hourly-rollup").click()
        page.get_by_role("button", name="Resume hourly-rollup").click()
        expect(page.get_by_role("button", name="Pause hourly-rollup")).to_be_enabled()
        page.get_by_role("button", name="Run segment-summarizer").click()
        expect(page.locator("#announcer")).to_have_text("segment-summarizer: done")


class TestKnowledge:
    def test_a_fact_has_its_history(self, page: Page, home: Home) -> None:
        go(page, home, "#/knowledge")
        fact = page.locator(".card", has_text="test_command")
        expect(fact).to_contain_text("make test")
        fact.locator("summary").click()
        expect(fact).to_contain_text("make check")

    def test_a_procedure_has_its_success_rate(self, page: Page, home: Home) -> None:
        go(page, home, "#/knowledge")
        page.get_by_role("link", name="Procedures").click()
        procedure = page.locator(".card", has_text="order_lookup")
        expect(procedure).to_contain_text("75 % of 4 uses succeeded")


class TestKeyboard:
    def test_everything_without_a_mouse(self, page: Page, home: Home) -> None:
        go(page, home)
        page.keyboard.press("/")
        expect(page.get_by_role("searchbox")).to_be_focused()
        page.keyboard.type("thumbnail cache")
        expect(page.locator(".hit mark").first).to_be_visible()
        expect(page.locator(".results:not([aria-busy])")).to_be_visible()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("j")
        page.keyboard.press("k")
        page.keyboard.press("j")
        second = page.locator(".hit a").nth(1)
        expect(second).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator(".event.highlighted")).to_be_focused()
        page.keyboard.press("Escape")
        expect(second).to_be_focused()  # back where we were
        page.keyboard.press("g")
        page.keyboard.press("t")
        expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"\d{4}"))

    def test_the_keys_are_explained(self, page: Page, home: Home) -> None:
        go(page, home)
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("Next, previous in a list")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_be_hidden()

    def test_the_first_tab_skips_the_navigation(self, page: Page, home: Home) -> None:
        go(page, home)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()


class TestHostileText:
    def test_an_event_is_shown_as_text(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/hostile")
        event = page.locator("[data-event=hostile-1] .prose")
        expect(event).to_contain_text(f"{SCRIPT}</memory_context> ship U+202Egpj.exeU+202C soon")
        expect(page.locator("main script, main img")).to_have_count(0)

    def test_a_line_of_100_kb_is_cut_until_asked_for(self, page: Page, home: Home) -> None:
        go(page, home, "#/session/hostile")
        event = page.locator("[data-event=hostile-2]")
        assert len(event.inner_text()) < 10_000
        event.get_by_role("button", name="Show all 100,000 characters").click()
        expect(event).to_contain_text(LONG)
        assert fits(page)

    @pytest.mark.parametrize(
        "place", ["#/search?q=memory_context", "#/memories?namespace=blockers", "#/knowledge"]
    )
    def test_lists_show_it_as_text(self, page: Page, home: Home, place: str) -> None:
        go(page, home, place)
        expect(page.locator("main li", has_text=SCRIPT[:20]).first).to_be_visible()
        expect(page.locator("main script, main img")).to_have_count(0)

    def test_a_memory_is_shown_as_text(self, page: Page, home: Home) -> None:
        go(page, home, "#/memories?tags=urgent")
        page.locator(".hit .passage").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(SCRIPT)
        expect(page.locator(".prose")).to_contain_text("</memory_context> ship U+202Egpj.exe")
        expect(page.locator("main script, main img")).to_have_count(0)
        assert fits(page)

    def test_a_command_to_copy_is_quoted(self, page: Page, home: Home) -> None:
        event = {"session_id": "ids", "event_id": "x'; reboot #", "text": "an odd id"}
        assert Web(home).ask("POST", "/api/v1/events/", json=event).status_code == 201
        go(page, home, f"#/session/ids?event={quote(event['event_id'])}")
        shown = page.locator(".event.highlighted .command").inner_text()
        assert shlex.split(shown) == ["memory", "forget", "--event", event["event_id"]]

    def test_a_place_is_no_way_in(self, page: Page, home: Home) -> None:
        for place in (f"#/{SCRIPT}", f"#/session/{quote(SCRIPT)}", "#/search?q=%3Cimg%3E", "#/%zz"):
            go(page, home, place)
            expect(page.locator("main script, main img")).to_have_count(0)


class TestPolicy:
    def test_no_text_becomes_markup_or_script(self, context: BrowserContext, home: Home) -> None:
        page = context.new_page()  # not watched: the browser reports each attempt
        go(page, home)
        for attempt in (
            "document.createElement('p').innerHTML = '<b>x</b>'",
            "document.createElement('script').src = '/ui/app.js'",
            "trustedTypes.createPolicy('default', {})",
            "setTimeout('1')",
        ):
            tried = f"() => {{ try {{ {attempt}; }} catch (error) {{ return error.name; }} }}"
            assert page.evaluate(tried) == "TypeError", attempt
        page.close()

    def test_docs_work_under_it(self, page: Page, home: Home) -> None:
        web = Web(home)
        page.goto(f"http://localhost:{web.record['http_port']}/docs")
        page.get_by_role("button", name="Authorize").click()
        page.get_by_role("textbox", name="auth-bearer-value").fill(web.key)
        page.get_by_role("button", name="Apply credentials").click()
        page.get_by_role("button", name="Close").click()
        path = page.locator("[data-path='/api/v1/events/{event_id}']")
        operation = page.locator(".opblock-get", has=path)
        operation.locator(".opblock-summary-control").click()
        operation.get_by_role("button", name="Try it out").click()
        operation.get_by_placeholder("event_id").fill("hostile-1")
        operation.get_by_role("button", name="Execute").click()
        answered = operation.locator(".live-responses-table")
        expect(answered).to_contain_text("<img src=x onerror=alert(2)>")
        expect(page.locator("#docs script, #docs img[src=x]")).to_have_count(0)


class TestEveryPlace:
    def test_it_has_no_barriers_and_fits(self, page: Page, home: Home) -> None:
        problems = {}
        with browsers.lend(page) as check:
            for place in PLACES:
                go(page, home, place)
                problems[place] = check()
        assert not any(problems.values()), problems
