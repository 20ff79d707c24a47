"""Draw docs/images/page-*.png: the page in Chromium, on a daemon with the data of `make demo`.

Run it as a module: `.venv/bin/python -m tools.screenshots`.

With a folder as argument, it writes every place there instead, dark and light, at 1280 and 360
pixels. Pictures depend on the fonts of a machine, so nothing checks that they are current.
"""

import io
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from agent_memory.client import MemoryClient
from demo.__main__ import Shell, conversation, daemon, play_session

IMAGES = Path(__file__).parent.parent / "docs/images"
PLACES = {
    "now": "#/now",
    "timeline": "#/timeline/2026",
    "month": "#/timeline/toc:month:2026:03",
    "day": "#/timeline/toc:day:2026-03-04",
    "search": "#/search?q=which+database+did+we+decide+on",
    "session": "#/session/lantern-db?event=demo-016",
    "memories": "#/memories",
    "inbox": "#/inbox",
    "knowledge": "#/knowledge/episodes",
    "health": "#/health",
}
SHOWN = {"timeline": "light", "session": "dark", "search": "light"}  # in the documentation
_GO = """place => new Promise((done) => {
  if (location.hash === place) done();
  addEventListener("hashchange", () => done(), { once: true });
  location.hash = place;
})"""
WIDE, NARROW = (1280, 800), (360, 740)


def main() -> int:
    program = shutil.which("chromium")
    if program is None:
        sys.exit("this needs chromium: apt-get install chromium")
    with _fill_daemon() as shell, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        if len(sys.argv) > 1:
            _draw_all(browser, shell, Path(sys.argv[1]))
        else:
            for name, scheme in SHOWN.items():
                page = _open(browser, shell, scheme, (1100, 620))
                _draw(page, name, IMAGES / f"page-{name}.png")
        browser.close()
    return 0


def _draw_all(browser: Browser, shell: Shell, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        for size in (WIDE, NARROW):
            page = _open(browser, shell, scheme, size)
            for name in PLACES:
                _draw(page, name, folder / f"{name}-{scheme}-{size[0]}.png")


def _draw(page: Page, name: str, path: Path) -> None:
    page.evaluate(_GO, PLACES[name])
    page.wait_for_selector("main:not([aria-busy])")
    page.wait_for_selector(".live.on" if name == "now" else "main h1", state="attached")
    page.screenshot(path=path)


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
        yield shell


if __name__ == "__main__":
    sys.exit(main())
