"""A browser for the tests of the page, signed in to the daemon of their file."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests import browser as browsers
from tests.command_runner import Home

expect.set_options(timeout=browsers.MILLIS)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Share one browser among the files of this folder that a worker runs in a row.

    It ends with them: while it runs, this thread has an event loop, and other tests start theirs.
    """
    with browsers.launch_browser() as started:
        yield started


@pytest.fixture(scope="module")
def context(chromium: Browser, home: Home) -> Iterator[BrowserContext]:
    """Yield a window that is signed in to `home`, which each file defines."""
    context = browsers.open_context(chromium, home)
    yield context
    context.close()


@pytest.fixture(scope="module")
def tab(context: BrowserContext) -> Iterator[Page]:
    """Yield the tab of a file: to open one takes as long as to load the page twice."""
    tab = context.new_page()
    yield tab
    tab.close()


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """Yield an empty tab that fails the test if it reports an error."""
    try:
        with browsers.watch(tab):
            yield tab
    finally:
        browsers.clear(tab)
