"""The tests of the pages notice what is wrong with a page."""

from pathlib import Path

import pytest

from tests.markdown_pages import Mark, PageGroup, find_pages, read_steps
from tests.page_reader import PageFailed, Reader, find_missing

MOST_NOT_RUN = 32


def write_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text)
    return page


def test_few_blocks_are_not_run() -> None:
    """Raise the limit only for a block that really needs something a test cannot have."""
    pages = [page for group in PageGroup for page in find_pages(group)]
    assert len(pages) == len(set(pages))
    marked = [
        step.place for page in pages for step in read_steps(page) if step.mark is Mark.NOT_RUN
    ]
    assert len(marked) <= MOST_NOT_RUN, marked


def test_commands_are_split_where_they_end(tmp_path: Path) -> None:
    page = write_page(
        tmp_path, "# A\n\n```sh\none \\\n  two\ncat <<END\n$ x\nEND\nthree  # 3\n```\n"
    )
    found = [(step.line, step.code) for step in read_steps(page)]
    assert found == [(4, "one \\\n  two\n"), (6, "cat <<END\n$ x\nEND\n"), (9, "three  # 3\n")]


def test_output_belongs_to_the_command_above_it(tmp_path: Path) -> None:
    page = write_page(tmp_path, "```console\n$ one\n$ two\nfine\n```\n")
    assert [(step.code, step.shown) for step in read_steps(page)] == [
        ("one\n", ""),
        ("two\n", "fine\n"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- not run -->\n```sh\none\n```\n", "say why it is not run"),
        ("<!-- not run: slow -->\n\nWords.\n\n```sh\none\n```\n", "right above a block"),
        ("- a\n  ```sh\n  one\n  ```\n", "indented"),
        ("```sh\necho 'one\n```\n", "does not end"),
        ("```console\nfine\n```\n", "begins with"),
    ],
)
def test_a_page_that_cannot_be_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_steps(write_page(tmp_path, text))


def test_output_is_compared_by_its_words(tmp_path: Path) -> None:
    page = write_page(
        tmp_path, "```console\n$ one\n✓ Captured memory: decisions:98e3:0\n...\n```\n"
    )
    (step,) = read_steps(page)
    assert not find_missing(step, "✓ Captured a memory: learnings:1234:0\nmore")
    assert find_missing(step, "Stored memory: decisions:98e3:0") == step.shown.splitlines()[0]


def test_a_failure_names_page_line_command_and_output(tmp_path: Path) -> None:
    code = "```sh\nX=5\n```\n\n```sh\ntrue\necho port 8000; test $X = 6\n```\n"
    page = write_page(tmp_path, f"{code}\n```python\n\nassert 1 == 2\n```\n")
    *good, bad, program = read_steps(page)
    with Reader(page) as reader:
        for step in good:
            reader.run(step)
        with pytest.raises(PageFailed) as failed:
            reader.run(bad)
        assert f"{page}:7: fails with exit code 1" in str(failed.value)
        assert "test $X = 6" in str(failed.value)
        assert "port 8000" not in str(failed.value).partition("output:")[2]
        with pytest.raises(PageFailed, match="line 12"):
            reader.run(program)
