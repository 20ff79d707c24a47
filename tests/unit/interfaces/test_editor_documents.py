"""Documents for an editor: what is written is read again, and mistakes are named by line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.memories.operations import MemoryPatch
from agent_memory.interfaces import editor_documents
from agent_memory.interfaces.cli import editing
from agent_memory.interfaces.editor_documents import EditorDocument
from agent_memory.kernel.errors import InvalidInput
from tests.memory_values import records

BEFORE = EditorDocument(summary="Use PostgreSQL", content="It has JSONB.", tags=frozenset({"db"}))
REQUEST = MemoryPatch(namespace="decisions", name="abc123def456:0")


def refuse(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as refused:
        editor_documents.parse(text, BEFORE)
    return str(refused.value).splitlines()


@given(records())
def test_any_memory_comes_back_as_it_was(memory: Memory) -> None:
    if memory.status is MemoryStatus.TOMBSTONE:
        return
    document = editing.to_document(memory)
    assert editor_documents.parse(editor_documents.render(document), document) == document
    assert editing.add_changes(REQUEST, document, document) == REQUEST


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused_by_line(text: str) -> None:
    problems, found = "", None
    try:
        found = editor_documents.parse(text, BEFORE)
    except InvalidInput as exc:
        problems = str(exc)
    assert found is None or found.summary
    assert all(line.startswith("line ") for line in problems.splitlines())


def test_fields_may_be_written_loosely() -> None:
    text = (
        "\n---\r\n# a note\n\nSummary:  Use: 'x' # y \r\nTAGS: b ,, a,\n"
        "relates to: decisions:abc1234:0\n---\n\n\n# Heading\n\ntext\n\n"
    )
    assert editor_documents.parse(text, BEFORE) == EditorDocument(
        summary="Use: 'x' # y",
        tags=frozenset({"a", "b"}),
        relates_to=("decisions:abc1234:0",),
        content="# Heading\n\ntext",
    )


def test_an_empty_text_means_no() -> None:
    assert editor_documents.parse(" \n\n", BEFORE) is None


def test_blank_lines_that_an_editor_adds_change_nothing() -> None:
    text = editor_documents.render(BEFORE)
    assert editor_documents.parse(text + "\n\n", BEFORE) == BEFORE
    assert editor_documents.parse(text.rstrip("\n"), BEFORE) == BEFORE


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("summary: a\n---\n", ["line 1: the text must begin with a line ---"]),
        ("---\nsummary: a\n", ["line 3: the line --- that ends the fields is missing"]),
        ("---\nsumary: a\n---\n", ["line 1: the summary is empty", "line 2: there is no field"]),
        ("---\nsummary: a\nsummary: b\n---\n", ["line 3: summary is given twice"]),
        ("---\nsummary: a\njust words\n---\n", ["line 3: 'just words' is no field"]),
        (
            f"---\nsummary: {'x' * 101}\ntags: {'y' * 65}\nrelates_to: me\n---\n{'z' * 102_401}",
            [
                *("line 2: the summary has 101", "line 3: a tag has 1 to 64"),
                *("line 4: relates_to has", "line 6: the content has 102,401 bytes"),
            ],
        ),
    ],
)
def test_what_is_wrong_is_told_by_its_line(text: str, problems: list[str]) -> None:
    refused = refuse(text)
    assert len(refused) == len(problems)
    for line, problem in zip(refused, problems, strict=True):
        assert line.startswith(problem)


def test_a_misspelled_field_gets_a_suggestion() -> None:
    assert "did you mean 'summary'?" in refuse("---\nsumary: a\n---\n")[1]
    assert "the fields are summary, tags, spec, relates_to" in refuse("---\nqqq: a\n---\n")[1]


def test_only_differences_are_edited() -> None:
    after = EditorDocument(
        summary="Use PostgreSQL", content="It has JSONB.", tags=frozenset({"sql"}), spec="api"
    )
    assert editing.add_changes(REQUEST, BEFORE, after) == structs.replace(
        REQUEST, spec="api", add_tags=("sql",), remove_tags=("db",)
    )
