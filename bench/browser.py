"""The page in a real browser, on many events: `python -m bench.browser`.

Each place is opened as a new window by its URL, and from within the open page. It is ready when
its content is shown. Needs Chromium.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, BrowserContext, Page, Response, sync_playwright

from agent_memory.client import Event, EventRole, EventType
from bench import recall_data, results, states, tables
from bench.launch import verdict
from bench.processes import Daemon
from bench.results import Table

LONG = "a-long-session"
GOAL_MS = 1_000
READY = """() => {
  const main = document.querySelector("main");
  const title = main.querySelector("h1")?.textContent ?? "Sign in";
  return title !== "Sign in" && !main.hasAttribute("aria-busy");
}"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
HEAD = ("place", "first paint, ms", "ready, ms", "within, ms", "slowest", "requests", "kB", "goal")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.browser", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--long", type=int, default=10_000, help="events of one more session")
    parser.add_argument("--rounds", type=int, default=5)
    options = results.parse_options(parser, events=2_000, long=1_000, rounds=2)
    with (
        tempfile.TemporaryDirectory(prefix="bench-browser-") as name,
        Daemon(Path(name), states.WORDS_ALONE) as daemon,
    ):
        _say(f"recording and indexing {options.events + options.long:,} events ...")
        _fill(daemon, options.events, options.long)
        with _open_browser() as browser:
            rows = _measure(browser, daemon, options.rounds, options.long)
    title = (
        f"the page on {options.events:,} events and a session of {options.long:,},"
        f" medians of {options.rounds} rounds"
    )
    results.report(options, "browser", [Table(title, HEAD, rows)])


def _fill(daemon: Daemon, count: int, length: int) -> None:
    with daemon.connect() as memory:
        memory.ingest_batch(recall_data.turns(count))
        memory.ingest_batch(_talk(length))
    states.catch_up(daemon, states.JOBS)
    while daemon.index_stats()["words_waiting"]:
        states.catch_up(daemon)


def _talk(length: int) -> Iterator[Event]:
    """Yield the events of one session, one a minute, up to now."""
    now = datetime.now(UTC)
    for number in range(length):
        yield Event(
            event_id=f"{LONG}-{number}",
            session_id=LONG,
            timestamp=now - timedelta(minutes=length - number),
            text=f"Turn {number}: {recall_data.words()[number % 1_000]} is next.",
            event_type=EventType.ASSISTANT_MESSAGE if number % 2 else EventType.USER_MESSAGE,
            role=EventRole.ASSISTANT if number % 2 else EventRole.USER,
        )


@contextmanager
def _open_browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        raise SystemExit("bench.browser needs chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def _measure(browser: Browser, daemon: Daemon, rounds: int, length: int) -> list[tables.Row]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    base = _sign_in(context, daemon)
    question = recall_data.questions(1, 1_000)[0]
    places = {
        "Now": "#/now",
        "Timeline, the year": "#/timeline",
        "Search": f"#/search?q={quote(question)}",
        "Session of 10,000 events": f"#/session/{LONG}",
        "the same, its middle": f"#/session/{LONG}?event={LONG}-{length // 2}",
        "the same, its end": f"#/session/{LONG}?event={LONG}-{length - 1}",
        "Memories": "#/memories",
        "Knowledge": "#/knowledge",
        "Projects": "#/projects",
        "Health": "#/health",
    }
    rows: list[tables.Row] = []
    for name, place in places.items():
        found = [_open(context, base, place) for _ in range(rounds)]
        within = [_walk(context, base, place) for _ in range(rounds)]
        rows.append(_build_row(name, found, within))
    typed = [_type(context, base, question) for _ in range(rounds)]
    slowest = max(typed)
    row = ("Search, from the last key", "", f"{statistics.median(typed):.0f}", "")
    rows.append((*row, f"{slowest:.0f}", "", "", verdict(f"<= {GOAL_MS}", slowest <= GOAL_MS)))
    return rows


def _build_row(
    name: str, found: list[tuple[float, float, int, int]], within: list[float]
) -> tables.Row:
    paint, ready, requests, size = (
        statistics.median(column) for column in zip(*found, strict=True)
    )
    slowest = max(*(each[1] for each in found), *within)
    figures = (f"{paint:.0f}", f"{ready:.0f}", f"{statistics.median(within):.0f}", f"{slowest:.0f}")
    goal = verdict(f"<= {GOAL_MS}", slowest <= GOAL_MS)
    return (name, *figures, f"{requests:.0f}", f"{size / 1e3:.0f}", goal)


def _sign_in(context: BrowserContext, daemon: Daemon) -> str:
    """Sign in as a person does, in a tab that stays: others get its token. Return the URL."""
    page = context.new_page()
    url = daemon.output("memory", "ui", "--print").split()[0]
    page.goto(url)
    page.wait_for_function(READY)
    page.evaluate("location.hash = '#/nowhere'")  # without a stream
    return url.partition("#")[0]


def _open(context: BrowserContext, base: str, place: str) -> tuple[float, float, int, int]:
    """Open a window: the times of the first paint and of the content, requests and bytes."""
    page = context.new_page()
    sizes: list[int] = []

    def count(response: Response) -> None:
        sizes.append(int(response.headers.get("content-length", 0)))

    page.on("response", count)
    began = time.perf_counter()
    page.goto(f"{base}{place}", wait_until="commit")
    page.wait_for_function(READY)
    ready = (time.perf_counter() - began) * 1e3
    paint = float(page.evaluate(FIRST_PAINT))
    page.close()
    return paint, ready, len(sizes), sum(sizes)


def _walk(context: BrowserContext, base: str, place: str) -> float:
    """Go to a place from another one, within the page."""
    page = _open_empty(context, base)
    return _time(
        page,
        lambda: page.evaluate("place => { location.hash = place }", place),
        f"() => document.querySelector('h1')?.textContent !== 'Not found' && ({READY})()",
    )


def _type(context: BrowserContext, base: str, question: str) -> float:
    """Type a question: the time from its last key to its results."""
    page = _open_empty(context, base)
    page.evaluate("location.hash = '#/search'")
    box = page.locator("input[type=search]")
    box.fill(question.split(maxsplit=1)[0])
    page.wait_for_selector(".hit")
    page.evaluate("document.querySelector('.hits').replaceChildren()")
    return _time(page, lambda: box.fill(question), "() => document.querySelector('.hit')")


def _open_empty(context: BrowserContext, base: str) -> Page:
    page = context.new_page()
    page.goto(f"{base}#/nowhere")
    page.wait_for_function(READY)
    return page


def _time(page: Page, act: Callable[[], object], until: str) -> float:
    began = time.perf_counter()
    act()
    page.wait_for_function(until)
    took = (time.perf_counter() - began) * 1e3
    page.close()
    return took


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    main()
