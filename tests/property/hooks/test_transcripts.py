"""Properties of transcripts: no line breaks an import, nothing is stored twice, order is free."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.transcripts import OWN_MARKERS
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.stores import unexpected
from tests.memory_engine import MemoryEngine
from tests.transcript_files import SAMPLES, Claude, ImportHarness, Line, write

FORMATS = sorted(SAMPLES)
WEIGHTY = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@contextmanager
def folders() -> Iterator[tuple[ImportHarness, Path]]:
    store = CommittedStore(MemoryEngine(), unexpected)
    with tempfile.TemporaryDirectory() as created:
        (Path(created) / "in").mkdir()
        yield ImportHarness(store, Path(created) / "data"), Path(created) / "in"
    store.close()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return all positions in a JSON value that could hold another value."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@st.composite
def mutated(draw: st.DrawFn, lines: list[Line]) -> list[bytes]:
    """Generate the lines, some of them changed, cut, doubled or broken."""
    found: list[bytes] = []
    for line in lines:
        how = draw(st.sampled_from(["whole"] * 3 + ["other", "cut", "twice", "bytes", "gone"]))
        changed = json.loads(json.dumps(line))
        if how == "other":
            *above, last = draw(st.sampled_from(list(places(changed))))
            inner = changed
            for key in above:
                inner = inner[key]
            inner[last] = draw(_json)
        data = json.dumps(changed).encode()
        if how == "cut":
            data = data[: draw(st.integers(0, len(data)))]
        if how == "bytes":
            data = draw(st.binary(max_size=30)).replace(b"\n", b"")
        found += {"gone": [], "twice": [data, data]}.get(how, [data])
    return found


@pytest.mark.parametrize("agent", FORMATS)
class TestAnyLines:
    @WEIGHTY
    @given(data=st.data())
    def test_they_are_recorded_noise_or_refused_and_once(
        self, agent: str, data: st.DataObject
    ) -> None:
        with folders() as (importing, folder):
            lines = data.draw(mutated(SAMPLES[agent]()))
            write(folder / "a.jsonl", lines)
            first = importing(agent, folder)
            stored = importing.events()
            second = importing(agent, folder)
            assert first.lines in (len(lines), len(lines) + 1, len(lines) - 1)
            assert first.created == len(stored)
            assert (second.created, second.refused) == (0, first.refused)
            assert second.known == first.created + first.known
            assert importing.events() == stored


class TestAnyOrder:
    @WEIGHTY
    @given(order=st.permutations(range(4)), cut=st.integers(0, 17))
    def test_files_come_in_any_and_parts_before_the_whole(self, order: list[int], cut: int) -> None:
        sessions = [Claude(session=f"s{number % 2}", agent="x" * (number // 2)) for number in order]
        wanted = {number: session.lamp() for number, session in zip(order, sessions, strict=True)}
        with folders() as (straight, folder):
            for number in sorted(wanted):
                write(folder / f"{number}.jsonl", wanted[number])
            straight("claude-code", folder)
            names = {event.event_id for event in straight.events()}
            assert len(names) == 4 * 5
        with folders() as (importing, folder):
            for number, lines in wanted.items():
                for part in (lines[:cut], lines):
                    importing("claude-code", write(folder / f"{number}.jsonl", part))
            assert {event.event_id for event in importing.events()} == names


_tags = [
    f"{lead}{name}{end}"
    for name in OWN_MARKERS[:2]
    for lead in ("<", "</")
    for end in (">", ' a="b">')
]
_pieces = st.lists(
    st.sampled_from(["words", " ", "<", ">", "</", "<x>", "\n", *_tags]), max_size=14
).map("".join)


class TestOwnWords:
    @given(text=_pieces)
    def test_what_is_left_has_nothing_more_to_take(self, text: str) -> None:
        left = transcripts.strip_injected(text)
        assert len(left) <= len(text)
        if not any(f"</{name}" in left for name in OWN_MARKERS):
            assert transcripts.strip_injected(left) == left

    @given(before=st.text(alphabet="ab \n"), inner=_pieces, after=st.text(alphabet="ab \n"))
    def test_what_stands_in_a_closed_marker_is_gone(
        self, before: str, inner: str, after: str
    ) -> None:
        whole = f"{before}<auto_captured>{inner}</auto_captured>{after}"
        assert transcripts.strip_injected(whole) == (before + after).strip()
