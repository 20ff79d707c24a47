"""Arguments of tools, as models write them."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.runs.model import arguments
from agent_memory.kernel.errors import ToolFailed

SPEC = arguments.define_tool(
    "look",
    "Looks.",
    ["path"],
    path=arguments.define_text("Where.", least=1, most=10),
    limit=arguments.define_number("How many.", least=1, most=100),
    deep=arguments.define_flag("Further."),
)


def test_each_argument_is_taken_as_the_schema_has_it() -> None:
    found = arguments.parse_arguments(SPEC, '{"path": "a", "limit": 3, "deep": true}')
    assert (found.text("path"), found.number("limit", 1), found.flag("deep")) == ("a", 3, True)


@pytest.mark.parametrize("limit", ["3", 3.0, 3])
def test_a_number_is_one_however_it_is_written(limit: object) -> None:
    given = json.dumps({"path": "a", "limit": limit, "deep": "False"})
    found = arguments.parse_arguments(SPEC, given)
    assert found.number("limit", 1) == 3
    assert not found.flag("deep")


def test_what_is_left_out_or_null_is_the_default() -> None:
    found = arguments.parse_arguments(SPEC, '{"path": "a", "limit": null}')
    assert (found.number("limit", 7), found.flag("deep"), found.text("other", "x")) == (
        7,
        False,
        "x",
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "needs the argument path"),
        ("{", "not JSON"),
        ("[1]", "must be a JSON object"),
        ("[" * 100_000, "not JSON"),
        ('{"path": ""}', "must not be empty"),
        ('{"path": "aaaaaaaaaaaaa"}', "the limit is 10"),
        ('{"path": 1}', "path must be a string, not a number"),
        ('{"path": "a", "file": "b"}', "it takes: path, limit, deep"),
        ('{"path": "a", "limit": 0}', "at least 1"),
        ('{"path": "a", "limit": 1000}', "at most 100"),
        ('{"path": "a", "limit": true}', "must be a whole number, not true or false"),
        ('{"path": "a", "limit": 1.5}', "must be a whole number"),
        ('{"path": "a", "limit": "1-2"}', "must be a whole number"),
        ('{"path": "a", "deep": "maybe"}', "must be true or false"),
        ('{"path": "\\ud800"}', "not valid Unicode"),
        ('{"path": "a", "limit": ' + "9" * 5_000 + "}", "not JSON"),
    ],
)
def test_what_does_not_fit_is_told_with_what_would(given: str, said: str) -> None:
    with pytest.raises(ToolFailed, match=said):
        arguments.parse_arguments(SPEC, given)


@given(st.text())
def test_no_text_does_anything_but_fail_in_words(text: str) -> None:
    with suppress(ToolFailed):
        arguments.parse_arguments(SPEC, text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["path", "limit", "deep", "x"]), JSON))
def test_what_is_read_fits_the_schema(values: dict[str, object]) -> None:
    try:
        found = arguments.parse_arguments(SPEC, json.dumps(values))
    except ToolFailed:
        return
    assert 1 <= len(found.text("path")) <= 10
    assert 1 <= found.number("limit", 1) <= 100
