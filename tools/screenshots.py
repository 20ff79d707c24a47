"""Draw the page in Chromium, on a daemon with the data of `make demo`.

Run it as a module: `.venv/bin/python -m tools.screenshots [FOLDER]`. It writes every place, dark
and light, at 1280 and 360 pixels, to the folder (default: build/screenshots), and those of README
and docs to docs/images. Pictures depend on the fonts of a machine, so nothing checks that they are
current.
"""

import io
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TypedDict

import httpx
from langgraph.graph import START, StateGraph
from playwright.sync_api import Browser, Page, sync_playwright

from agent_memory.client import MemoryClient
from agent_memory.client.langgraph import AgentMemorySaver
from demo.__main__ import Shell, conversation, daemon, play_session

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs/images"
FOLDER = ROOT / "build/screenshots"
PLACES = {
    "now": "#/now",
    "timeline": "#/timeline/2026",
    "month": "#/timeline/toc:month:2026:03",
    "day": "#/timeline/toc:day:2026-03-04",
    "search": "#/search?q=which+database+did+we+decide+on",
    "session": "#/session/lantern-db?event=demo-016",
    "memories": "#/memories",
    "inbox": "#/inbox",
    "memory": "#/memories",  # then the first of them
    "duplicates": "#/duplicates",
    "facts": "#/knowledge/facts",
    "episodes": "#/knowledge/episodes",
    "procedures": "#/knowledge/procedures",
    "users": "#/knowledge/users",
    "threads": "#/knowledge/threads",
    "projects": "#/projects",
    "health": "#/health",
    "nowhere": "#/nowhere",
}
KNOWLEDGE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("facts", {"key": "test_command", "value": "make check"}),
    (
        "facts",
        {
            "key": "test_command",
            "value": "make test",
            "fact_type": "preference",
            "session_id": "lantern-db",
            "event_id": "demo-016",
        },
    ),
    ("facts", {"key": "editor", "value": "vim", "agent_id": "claude-code"}),
    (
        "procedures",
        {
            "name": "release",
            "description": "Publish a version",
            "steps": ["make test", "git tag", "make publish"],
            "times_succeeded": 9,
            "times_failed": 1,
        },
    ),
)
SHOWN = {"timeline": "light", "session": "dark", "search": "light"}  # in the documentation
_OPEN = """place => new Promise((done) => {
  if (location.hash === place) done();
  addEventListener("hashchange", () => done(), { once: true });
  location.hash = place;
})"""
WIDE, NARROW = (1280, 800), (360, 740)


class Ticket(TypedDict):
    """The state of the graph whose thread is shown."""

    question: str
    answer: str


def main() -> int:
    program = shutil.which("chromium")
    if program is None:
        sys.exit("this needs chromium: apt-get install chromium")
    with _fill_daemon() as shell, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        _draw_all(browser, shell, Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
        for name, scheme in SHOWN.items():
            page = _open(browser, shell, scheme, (1100, 620))
            _go(page, name)
            page.screenshot(path=IMAGES / f"page-{name}.png")
        browser.close()
    return 0


def _draw_all(browser: Browser, shell: Shell, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        for size in (WIDE, NARROW):
            page = _open(browser, shell, scheme, size)
            for name in PLACES:
                _go(page, name)
                path = folder / f"{name}-{scheme}-{size[0]}.png"
                page.screenshot(path=path, full_page=name != "session")


def _go(page: Page, name: str) -> None:
    page.evaluate(_OPEN, PLACES[name])
    page.wait_for_selector("main:not([aria-busy])")
    page.wait_for_selector(".live.on" if name == "now" else "main h1", state="attached")
    if name == "memory":
        page.locator(".hit a").first.click()
        page.wait_for_selector("main:not([aria-busy]) .prose")


def _open(browser: Browser, shell: Shell, scheme: str, size: tuple[int, int]) -> Page:
    page = browser.new_page(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if scheme == "dark" else "light",
        locale="en-GB",
        timezone_id="UTC",
    )
    page.goto(json.loads(shell.quietly("memory", "ui", "--print", "--format", "json"))["url"])
    page.wait_for_selector("h1")
    return page


@contextmanager
def _fill_daemon() -> Iterator[Shell]:
    with daemon() as shell:
        with MemoryClient.connect_default() as memory:
            memory.ingest_batch(conversation())
        for job in ("segment-summarizer", "hourly-rollup", "outbox-processor"):
            shell.quietly("memory-daemon", "scheduler", "run", job)
        with redirect_stdout(io.StringIO()):
            play_session(shell)
        _add_knowledge(shell)
        yield shell


def _add_knowledge(shell: Shell) -> None:
    """Add what the demo does not have: a fact with an earlier value, a procedure, a thread."""
    web = json.loads(shell.quietly("memory-daemon", "status", "--format", "json"))
    transport = httpx.HTTPTransport(uds=web["http_socket"])
    with httpx.Client(transport=transport, base_url="http://memory/api/v1/memories/") as client:
        for kind, record in KNOWLEDGE:
            client.post(f"{kind}/", json=record).raise_for_status()
    graph = StateGraph(Ticket)
    graph.add_node("answer", lambda _state: {"answer": "It comes tomorrow"})
    graph.add_edge(START, "answer")
    with AgentMemorySaver.connect_default() as saver:
        config: Any = {"configurable": {"thread_id": "ticket 4711"}}
        graph.compile(checkpointer=saver).invoke(
            {"question": "Where is my parcel?", "answer": ""}, config
        )


if __name__ == "__main__":
    sys.exit(main())
