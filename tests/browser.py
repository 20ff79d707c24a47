"""A real browser, signed in to the page of a daemon."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Literal

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Error,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.command_runner import Home
from tests.http_client import Web, print_page_url

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
MILLIS = 30_000
VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
SHAPES: tuple[tuple[Literal["light", "dark"], ViewportSize], ...] = (
    ("light", VIEWPORT),
    ("dark", {"width": 360, "height": 740}),
)
SIGNED_IN = "main:not([aria-busy]):not(:has(.sign-in)) h1"
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
"""


@contextmanager
def launch_browser() -> Iterator[Browser]:
    """Start Chromium. Without one, the tests are skipped, except in CI."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        reason = (
            "NO BROWSER, so the page is NOT TESTED: install chromium (apt-get install chromium)"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    # Nobody looks at it, and tabs of one daemon may share a process: both save processor time.
    options = ["--disable-gpu", "--process-per-site"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        try:
            yield browser
        finally:
            browser.close()


def print_url(home: Home, *, on_terminal: bool = False) -> str:
    """Return the URL of `memory ui`, with its code."""
    return print_page_url(home, on_terminal=on_terminal)


def open_context(
    browser: Browser, home: Home, *, on_terminal: bool = False, **options: Any
) -> BrowserContext:
    """Open a window that is signed in, by the URL that a person would get.

    Its tab stays open, at a place without a stream: new tabs get the token of the session from it.
    """
    options = {"viewport": VIEWPORT, "locale": "en-GB", **options}
    context = browser.new_context(timezone_id="UTC", **options)
    context.set_default_timeout(MILLIS)
    context.add_init_script(_REPORT_VIOLATIONS)
    page = context.new_page()
    page.goto(print_url(home, on_terminal=on_terminal))
    page.wait_for_selector(SIGNED_IN)
    page.evaluate("location.hash = '#/nowhere'")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    return context


@contextmanager
def watch(page: Page) -> Iterator[Page]:
    """Fail if the page opens a dialog, or reports an error or a violation of its policy."""
    problems: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(message.text)

    def on_dialog(dialog: Dialog) -> None:
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def on_error(error: Error) -> None:
        problems.append(str(error))

    page.on("console", on_console)
    page.on("pageerror", on_error)
    page.on("dialog", on_dialog)
    yield page
    page.remove_listener("console", on_console)
    page.remove_listener("pageerror", on_error)
    page.remove_listener("dialog", on_dialog)
    assert not problems


def clear(tab: Page) -> None:
    """Empty a tab for the next test."""
    tab.unroute_all()
    tab.goto("about:blank")


def go(page: Page, home: Home, place: str = "#/now") -> None:
    """Open a place of the page, and wait until it is complete."""
    page.goto(f"http://localhost:{Web(home).record['http_port']}/{place}")
    expect(page.locator(SIGNED_IN)).to_be_attached()


def fits(page: Page) -> bool:
    """Return whether nothing of the page is beyond the right edge."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


@contextmanager
def lend(tab: Page) -> Iterator[Callable[[], list[str]]]:
    """Provide a check of what the tab shows, wide and light, then narrow and dark. It returns what
    is beyond the right edge, and barriers. Leave the tab as it was."""

    def check() -> list[str]:
        problems = []
        for scheme, size in SHAPES:
            tab.set_viewport_size(size)
            # Without motion: in the middle of a transition, no color is the final one.
            tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            problems += [] if fits(tab) else [f"{tab.url} does not fit"]
            problems += find_barriers(tab)
        return problems

    try:
        yield check
    finally:
        tab.set_viewport_size(VIEWPORT)
        tab.emulate_media(color_scheme="light", reduced_motion="no-preference")


def find_barriers(page: Page) -> list[str]:
    """Return what axe finds: barriers for people who use a screen reader or a keyboard."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
