"""Every command of the how-to pages for people does what its page says."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.markdown_pages import PageGroup, find_pages
from tests.page_reader import check_page


@pytest.mark.parametrize("page", find_pages(PageGroup.PEOPLE), ids=lambda page: page.stem)
def test_a_page_does_what_it_says(
    page: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("not run", check_page(page))
