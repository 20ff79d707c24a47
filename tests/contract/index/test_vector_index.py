"""The VectorIndex port: nearness, filters, compaction, crashes and disk failures."""

import json
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from agent_memory.features.index.adapters.vectors import EXACT, FlatVectors
from agent_memory.features.index.model.documents import (
    Document,
    DocumentKey,
    DocumentKind,
    Owner,
    build_key,
)
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.index.model.queries import IndexHit, SearchScope
from agent_memory.kernel.errors import IndexFailed
from agent_memory.kernel.ids import Millis
from tests.contract.documents import (
    ANYTHING,
    SEGMENT,
    document,
    documents_and_scope,
    limit_file_size,
    scratch,
    unit,
)

MODEL = "model/1"
MANY = 100_000
HALF = 2e-3  # more than the loss of a cosine in 16 bits
TIMEOUT = 20.0
EAST, NORTH = unit(1, 0, 0), unit(0, 1, 0)
Made = tuple[Document, Sequence[Vector]]


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as found:
        yield found / "vectors"


@pytest.fixture
def index(folder: Path) -> FlatVectors:
    return FlatVectors(folder, MODEL)


def by_owner(created: Sequence[Made]) -> dict[Owner, list[Made]]:
    found: dict[Owner, list[Made]] = {}
    for each, vectors in created:
        found.setdefault(each.owner, []).append((each, vectors))
    return found


def put(index: FlatVectors, *created: Made) -> None:
    index.replace(by_owner(created))


def nearest(index: FlatVectors, query: Vector = EAST, scope: SearchScope = ANYTHING) -> list[str]:
    return [hit.id for hit in index.find_nearest(query, scope, limit=MANY)]


def holdings(index: FlatVectors, created: Sequence[Made]) -> dict[DocumentKey, list[Vector]]:
    """Return the vectors of these documents, and check that it finds no others."""
    known = index.get_vectors([each for each, _ in created])
    found = {
        each.key: vectors for (each, _), vectors in zip(created, known, strict=True) if vectors
    }
    keys = [hit.key for hit in index.find_nearest(EAST, ANYTHING, limit=MANY)] if found else []
    assert sorted(keys) == sorted(found)
    assert index.stats().documents == len(found)
    return found


def floats(vector: Vector) -> NDArray[np.float32]:
    return np.frombuffer(vector, "<f4")


def same(one: Sequence[Vector], other: Sequence[Vector]) -> bool:
    return len(one) == len(other) and all(
        np.allclose(floats(a), floats(b), atol=HALF) for a, b in zip(one, other, strict=True)
    )


class TestReplacing:
    def test_new_documents_are_found_on_return_nearest_first(self, index: FlatVectors) -> None:
        put(index, (document("north"), [NORTH]), (document("between"), [unit(1, 1, 0)]))
        put(index, (document("east"), [EAST]))
        assert nearest(index, EAST) == ["east", "between", "north"]
        assert nearest(index, NORTH) == ["north", "between", "east"]
        assert [hit.id for hit in index.find_nearest(EAST, SearchScope(), limit=1)] == ["east"]
        assert index.find_nearest(EAST, SearchScope(), limit=0) == []

    def test_a_hit_has_the_fields_of_its_document(self, index: FlatVectors) -> None:
        put(
            index,
            (document("a:b", kind=DocumentKind.GRIP, session="s:1", at_ms=Millis(77)), [EAST]),
        )
        (hit,) = index.find_nearest(unit(1, 1, 0), SearchScope(), limit=9)
        assert hit[:4] == (DocumentKind.GRIP, "a:b", 77, "s:1")
        assert hit.score == pytest.approx(0.5**0.5, abs=HALF)

    def test_of_several_parts_the_nearest_counts_and_the_document_comes_once(
        self, index: FlatVectors
    ) -> None:
        put(index, (document("two"), [NORTH, EAST]), (document("one"), [unit(2, 1, 0)]))
        assert nearest(index, EAST) == ["two", "one"]
        assert nearest(index, NORTH) == ["two", "one"]
        assert index.stats().documents == 2

    def test_the_same_again_writes_nothing(self, index: FlatVectors) -> None:
        created = (document("a", tags=frozenset("xy")), [EAST, NORTH]), (document("b"), [NORTH])
        put(index, *created)
        size = index.stats().size_bytes
        put(index, *created)
        assert index.stats().size_bytes == size
        assert nearest(index) == ["a", "b"]

    def test_an_owner_has_only_its_last_documents(self, index: FlatVectors) -> None:
        grips = [(document(name, kind=DocumentKind.GRIP, owner=SEGMENT), [EAST]) for name in "abc"]
        put(index, (document("mine"), [NORTH]), *grips)
        index.replace({SEGMENT: grips[:1]})
        assert nearest(index) == ["a", "mine"]
        index.replace({SEGMENT: [(document("d", kind=DocumentKind.GRIP, owner=SEGMENT), [EAST])]})
        assert nearest(index) == ["d", "mine"]
        index.replace({SEGMENT: []})
        assert nearest(index) == ["mine"]

    def test_fewer_parts_take_the_place_of_more(self, index: FlatVectors) -> None:
        put(index, (document("a", "long"), [EAST, NORTH, EAST]))
        put(index, (document("a", "short"), [NORTH]))
        (cosines,) = index.compute_cosines(EAST, [build_key(DocumentKind.EVENT, "a")])
        assert cosines == pytest.approx((0, 0, 0), abs=HALF)

    def test_another_place_of_the_same_text_is_taken_over(self, index: FlatVectors) -> None:
        put(index, (document("a", project="p"), [EAST]))
        put(index, (document("a", project="q"), [EAST]))
        assert nearest(index, EAST, SearchScope(project="p")) == []
        assert nearest(index, EAST, SearchScope(project="q")) == ["a"]

    def test_a_document_without_vectors_is_not_there(self, index: FlatVectors) -> None:
        put(index, (document("a"), []), (document("b"), [EAST]))
        assert nearest(index) == ["b"]
        put(index, (document("b"), []))
        assert nearest(index) == []

    def test_vectors_of_another_dimension_are_refused(self, index: FlatVectors) -> None:
        put(index, (document("a"), [EAST]))
        with pytest.raises(IndexFailed):
            put(index, (document("b"), [EAST]), (document("c"), [unit(1, 0)]))
        with pytest.raises(IndexFailed):
            index.find_nearest(unit(1, 0, 0, 0), SearchScope(), limit=9)
        assert nearest(index) == ["a"]

    def test_an_empty_index_finds_nothing(self, index: FlatVectors) -> None:
        assert index.find_nearest(EAST, SearchScope(), limit=9) == []
        assert index.compute_cosines(EAST, [build_key(DocumentKind.EVENT, "a")]) == [None]
        assert index.get_vectors([document("a")]) == [[]]
        assert index.stats().documents == 0


class TestKnowing:
    def test_the_vectors_come_back_in_the_order_of_the_parts(self, index: FlatVectors) -> None:
        parts = [unit(1, 2, 3), unit(3, 2, 1), unit(1, 0, 1)]
        put(index, (document("a"), parts))
        (known,) = index.get_vectors([document("a")])
        assert same(known, parts)

    def test_only_of_the_same_text(self, index: FlatVectors) -> None:
        put(index, (document("a", "one"), [EAST]))
        assert index.get_vectors([document("a", "two"), document("b", "one")]) == [[], []]
        assert [len(each) for each in index.get_vectors([document("a", "one", project="p")])] == [1]

    def test_known_documents_can_be_put_again_unchanged(self, index: FlatVectors) -> None:
        parts = [unit(0.1, 0.7, 0.2), unit(0.3, 0.3, 0.9)]
        put(index, (document("a"), parts))
        (known,) = index.get_vectors([document("a")])
        put(index, (document("a", project="p"), known))
        assert index.get_vectors([document("a")]) == [known]

    def test_cosines_of_those_that_are_there(self, index: FlatVectors) -> None:
        put(index, (document("a"), [EAST]), (document("b"), [NORTH, unit(1, 1, 0)]))
        asked = [build_key(DocumentKind.EVENT, name) for name in ("b", "x", "a", "b")]
        found = index.compute_cosines(EAST, asked)
        assert found[1] is None
        assert found[0] == found[3] == pytest.approx((0.5**0.5, 0.5**0.5 / 2, 1), abs=HALF)
        assert found[2] == pytest.approx((1, 1, 0), abs=HALF)
        assert index.compute_cosines(EAST, []) == []

    def test_cosines_of_a_long_text_tell_its_nearest_part_and_the_average(
        self, index: FlatVectors, folder: Path
    ) -> None:
        put(
            index, (document("long"), [NORTH, unit(-1, 0, 0), EAST, NORTH]), (document("b"), [EAST])
        )
        keys = [build_key(DocumentKind.EVENT, "long")]
        for each in (index, FlatVectors(folder, MODEL)):
            (cosines,) = each.compute_cosines(unit(3, 4, 0), keys)
            assert cosines == pytest.approx((0.8, (0.8 - 0.6 + 0.6 + 0.8) / 4, 0), abs=HALF)
            (cosines,) = each.compute_cosines(EAST, keys)
            assert cosines == pytest.approx((1, 0, 2), abs=HALF)


class TestRestart:
    def test_all_of_it_is_there_again(self, index: FlatVectors, folder: Path) -> None:
        created = [
            (document("a", project="p", tags=frozenset({"t", "ü"})), [EAST, NORTH]),
            (
                document("g", kind=DocumentKind.GRIP, owner=SEGMENT, at_ms=Millis(9)),
                [unit(1, 1, 1)],
            ),
        ]
        put(index, *created, (document("gone"), [EAST]))
        put(index, (document("gone"), []))
        index.mark_complete()
        before = holdings(index, created)
        again = FlatVectors(folder, MODEL)
        assert again.is_complete
        assert holdings(again, created) == before
        assert nearest(again, EAST, SearchScope(project="p", tags=frozenset({"ü"}))) == ["a"]
        again.replace({SEGMENT: []})
        assert nearest(again) == ["a"]

    def test_another_model_starts_an_empty_index(self, index: FlatVectors, folder: Path) -> None:
        put(index, (document("a"), [EAST]))
        index.mark_complete()
        other = FlatVectors(folder, "model/2")
        assert not other.is_complete
        assert nearest(other) == []
        put(other, (document("a"), [unit(1, 2, 3, 4, 5)]))
        assert nearest(other, unit(1, 2, 3, 4, 5)) == ["a"]
        assert [each.name for each in folder.iterdir() if each.suffix == ".new"] == []

    def test_another_dimension_is_refused_after_it_too(
        self, index: FlatVectors, folder: Path
    ) -> None:
        put(index, (document("a"), [EAST]))
        with pytest.raises(IndexFailed):
            put(FlatVectors(folder, MODEL), (document("b"), [unit(1, 0)]))


class TestComplete:
    def test_an_index_is_not_complete_until_marked(self, index: FlatVectors, folder: Path) -> None:
        assert FlatVectors(folder, MODEL).is_complete is False
        put(index, (document("a"), [EAST]))
        assert not FlatVectors(folder, MODEL).is_complete
        index.mark_complete()
        put(index, (document("b"), [EAST]))
        assert index.is_complete
        assert FlatVectors(folder, MODEL).is_complete

    def test_it_is_empty_until_the_first_document_and_after_the_last_is_purged(
        self, index: FlatVectors, folder: Path
    ) -> None:
        states = [index.is_empty, FlatVectors(folder, MODEL).is_empty]
        put(index, (document("a"), [EAST]))
        states += [index.is_empty, FlatVectors(folder, MODEL).is_empty]
        index.replace({document("a").owner: []})
        index.purge()
        states += [index.is_empty, FlatVectors(folder, MODEL).is_empty]

        assert states == [True, True, False, False, True, True]
        assert nearest(index) == []
        put(index, (document("b"), [NORTH]))
        assert nearest(FlatVectors(folder, MODEL)) == ["b"]

    def test_a_reset_removes_everything(self, index: FlatVectors, folder: Path) -> None:
        put(index, (document("a"), [EAST]))
        index.mark_complete()
        index.reset()
        assert not index.is_complete
        assert nearest(index) == []
        assert not FlatVectors(folder, MODEL).is_complete
        put(index, (document("a"), [unit(1, 2)]))
        assert nearest(index, unit(1, 2)) == ["a"]

    def test_an_outdated_index_keeps_its_vectors_but_is_not_complete(
        self, index: FlatVectors, folder: Path
    ) -> None:
        put(index, (document("a"), [EAST]))
        index.mark_complete()
        FlatVectors.outdate(folder)
        again = FlatVectors(folder, MODEL)
        assert not again.is_complete
        assert nearest(again) == ["a"]

    def test_a_missing_index_cannot_be_outdated(self, tmp_path: Path) -> None:
        FlatVectors.outdate(tmp_path / "nowhere")
        assert not (tmp_path / "nowhere").exists()


class Shelf:
    """One index for many examples: each starts with only its own documents."""

    def __init__(self, folder: Path) -> None:
        self.index = FlatVectors(folder, MODEL)
        self._owners: set[Owner] = set()

    def hold(self, created: Sequence[Made]) -> None:
        given = by_owner(created)
        # First none: a known text would keep its vectors, and here they are invented.
        self.index.replace({owner: [] for owner in self._owners})
        self.index.replace(given)
        self._owners = set(given)


@pytest.fixture(scope="module")
def shelf() -> Iterator[Shelf]:
    with scratch() as folder:
        yield Shelf(folder)


_coordinates = st.integers(-9, 9)
_vectors = st.builds(unit, _coordinates, _coordinates, st.sampled_from((-3, 1, 8)))


class TestFilters:
    @settings(deadline=None, max_examples=settings().max_examples)
    @given(documents_and_scope(), st.data(), _vectors, st.integers(1, 5))
    def test_exactly_the_documents_in_scope_are_found_before_the_limit(
        self,
        shelf: Shelf,
        drawn: tuple[list[Document], SearchScope],
        data: st.DataObject,
        query: Vector,
        few: int,
    ) -> None:
        documents, scope = drawn
        created = [(each, data.draw(st.lists(_vectors, max_size=3))) for each in documents]
        shelf.hold(created)
        expected = {
            each.key: max(float(floats(vector) @ floats(query)) for vector in vectors)
            for each, vectors in created
            if vectors and scope.admits(each)
        }
        hits = shelf.index.find_nearest(query, scope, limit=MANY)
        assert {hit.key: hit.score for hit in hits} == pytest.approx(expected, abs=HALF)
        assert len(hits) == len(expected)
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert shelf.index.find_nearest(query, scope, limit=few) == hits[:few]
        cosines = shelf.index.compute_cosines(query, list(expected))
        assert [each and each.nearest for each in cosines] == pytest.approx(
            list(expected.values()), abs=HALF
        )
        of_parts = {
            each.key: [float(floats(v) @ floats(query)) for v in vs] for each, vs in created
        }
        for key, each in zip(expected, cosines, strict=True):
            own = of_parts[key]
            assert each is not None
            assert each.average == pytest.approx(sum(own) / len(own), abs=HALF)
            assert own[each.part] == pytest.approx(max(own), abs=2 * HALF)

    def test_a_rare_project_is_found_among_more_than_are_compared_exactly(
        self, index: FlatVectors
    ) -> None:
        put(
            index,
            *((document(f"{number}"), [EAST]) for number in range(EXACT + 500)),
            (document("needle", project="p"), [unit(-1, 0, 0)]),
        )
        assert nearest(index, EAST, SearchScope(project="p")) == ["needle"]


def clustered(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    """Return vectors in clusters, like texts on a few topics."""
    centres = np.random.default_rng(1).normal(size=(60, 128))
    found = centres[rng.integers(0, len(centres), count)]
    found = found + 0.7 * rng.normal(size=(count, 128))
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)


class TestRecall:
    def test_the_shortlist_holds_the_true_nearest(self, index: FlatVectors) -> None:
        rng = np.random.default_rng(7)
        rows = clustered(rng, 4 * EXACT)
        queries = clustered(rng, 40)
        put(
            index,
            *(
                (document(f"{number}", project="even" if number % 2 == 0 else "odd"), [_of(row)])
                for number, row in enumerate(rows)
            ),
        )
        for scope, step in ((ANYTHING, 1), (SearchScope(project="even"), 2)):
            assert len(rows) // step > EXACT
            good = 0
            for query in queries:
                true = np.argsort(-(rows[::step] @ query))[:10] * step
                hits = index.find_nearest(_of(query), scope, limit=10)
                good += len({hit.id for hit in hits} & {str(each) for each in true})
            assert good / (10 * len(queries)) >= 0.95


def _of(row: NDArray[np.float32]) -> Vector:
    return Vector(row.astype("<f4").tobytes())


def stored(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())


def version(number: int, count: int) -> list[Made]:
    """Return the same documents with another text and another vector."""
    return [
        (
            document(
                f"{each}", f"text {number}", kind=DocumentKind.GRIP, owner=Owner(f"segment:{each}")
            ),
            [unit(1, each, number), unit(each, number, 1)],
        )
        for each in range(count)
    ]


class TestCompaction:
    def test_files_shrink_and_nothing_is_lost(self, index: FlatVectors, folder: Path) -> None:
        put(index, (document("stays", project="p"), [unit(3, 2, 1)]))
        index.mark_complete()
        sizes = []
        for number in range(12):
            put(index, *version(number, 300))
            sizes.append(stored(folder))
            assert index.stats().documents == 301
        assert min(sizes[i + 1] - sizes[i] for i in range(11)) < 0, "nothing was ever compacted"
        created = [*version(11, 300), (document("stays"), [unit(3, 2, 1)])]
        before = holdings(index, created)
        assert all(same(before[each.key], vectors) for each, vectors in created)
        again = FlatVectors(folder, MODEL)
        assert again.is_complete
        assert holdings(again, created) == before
        assert nearest(again, EAST, SearchScope(project="p")) == ["stays"]
        again.replace({Owner("segment:7"): []})
        assert again.stats().documents == 300

    def test_a_crash_during_a_compaction_does_no_harm(
        self, index: FlatVectors, folder: Path
    ) -> None:
        put(index, *version(0, 300))
        index.mark_complete()
        for name in ("rows-1.log", "vectors-1.f16", "rows-1.new", "vectors-2.new", "model.new"):
            (folder / name).write_bytes(b"half of it")
        again = FlatVectors(folder, MODEL)
        assert again.is_complete
        assert len(holdings(again, version(0, 300))) == 300
        for number in range(1, 9):
            put(again, *version(number, 300))
        last = FlatVectors(folder, MODEL)
        assert last.is_complete
        assert len(holdings(last, version(8, 300))) == 300
        assert len(list(folder.iterdir())) == 3, "what was left behind is still there"

    def test_a_crash_at_the_end_of_a_compaction_does_no_harm(
        self, index: FlatVectors, folder: Path
    ) -> None:
        old = folder.with_name("old")
        put(index, *version(0, 300))
        shutil.copytree(folder, old)
        number = 0
        while (folder / "rows-0.log").exists():
            number += 1
            put(index, *version(number, 300))
        for each in old.glob("*-0.*"):
            shutil.copy(each, folder)
        again = FlatVectors(folder, MODEL)
        assert len(holdings(again, version(number, 300))) == 300
        assert again.get_vectors([each for each, _ in version(0, 1)]) == [[]]

    @pytest.mark.parametrize("name", ["vectors-1.f16", "rows-1.log"])
    def test_a_failed_compaction_loses_nothing(
        self, index: FlatVectors, folder: Path, name: str
    ) -> None:
        put(index, *version(0, 300))
        index.mark_complete()
        obstacle = folder / name
        obstacle.mkdir()
        for number in range(1, 13):
            with suppress(IndexFailed):
                put(index, *version(number, 300))
            assert len(holdings(index, version(number, 300))) == 300
        obstacle.rmdir()
        put(index, (document("later"), [EAST]))
        again = FlatVectors(folder, MODEL)
        assert again.is_complete
        assert nearest(again)[0] == "later"
        assert again.stats().documents == 301
        assert len(list(folder.iterdir())) == 3, "it was not made up for"


class TestFailedWrites:
    def test_old_documents_stay_and_the_batch_can_be_replayed(
        self, index: FlatVectors, folder: Path
    ) -> None:
        put(index, (document("a"), [EAST]))
        index.mark_complete()
        batch = [(document(f"b{number}"), [NORTH]) for number in range(300)]
        matrix = stored(folder)
        for size in (8, matrix, 2_500):  # in the vectors, and in the log
            with limit_file_size(size), pytest.raises(IndexFailed):
                put(index, *batch)
            assert nearest(index) == ["a"]
            assert nearest(FlatVectors(folder, MODEL)) == ["a"]
        put(index, *batch)
        again = FlatVectors(folder, MODEL)
        assert again.is_complete
        assert nearest(again)[0] == "a"
        assert again.stats().documents == 301


STEPS: list[list[Made]] = [
    [(document("a", "one"), [unit(1, 2, 3)]), (document("b"), [NORTH, EAST])],
    [(document("c", project="p"), [unit(3, 1, 2)])],
    [(document("a", "two"), [unit(2, 2, 1)]), (document("b"), [])],
    [(document(f"d{number}"), [unit(number, 1, 1)]) for number in range(6)],
]
ALL = [each for step in STEPS for each in step]


class Stage:
    """The files and the content of an index after each of some steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.states: list[dict[DocumentKey, list[Vector]]] = [{}]
        self.sizes: list[dict[str, int]] = []
        index = FlatVectors(folder, MODEL)
        index.mark_complete()
        for step in STEPS:
            put(index, *step)
            self.states.append(state(index))
            self.sizes.append({each.name: each.stat().st_size for each in folder.iterdir()})

    @contextmanager
    def copy(self) -> Iterator[Path]:
        with scratch() as place:
            shutil.copytree(self.folder, place / "copy")
            yield place / "copy"


def replay(index: FlatVectors, start: int = 0) -> None:
    for step in STEPS[start:]:
        put(index, *step)


def state(index: FlatVectors) -> dict[DocumentKey, list[Vector]]:
    found: dict[DocumentKey, list[Vector]] = {}
    for (each, _), vectors in zip(ALL, index.get_vectors([each for each, _ in ALL]), strict=True):
        if vectors:
            found[DocumentKey(f"{each.key} {each.text}")] = vectors
    hits = index.find_nearest(EAST, ANYTHING, limit=MANY) if found else []
    assert sorted(hit.key for hit in hits) == sorted(key.split(" ")[0] for key in found)
    return found


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with scratch() as folder:
        yield Stage(folder / "vectors")


LOG, MATRIX, MARKER = "rows-0.log", "vectors-0.f16", "model.json"


class TestTornTails:
    @pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
    def test_a_truncated_log_gives_its_complete_frames(self, stage: Stage, step: int) -> None:
        ends = {each[LOG] + near for each in stage.sizes for near in (-1, 0, 1)}
        anywhere = set(range(0, stage.sizes[-1][LOG], step))
        for size in sorted(each for each in ends | anywhere if each < stage.sizes[-1][LOG]):
            with stage.copy() as folder:
                _cut(folder / LOG, size)
                index = FlatVectors(folder, MODEL)
                whole = sum(each[LOG] <= size for each in stage.sizes)
                assert state(index) == stage.states[whole]
                replay(index, whole)
                assert state(FlatVectors(folder, MODEL)) == stage.states[-1]

    def test_vectors_that_end_anywhere_are_never_wrong(self, stage: Stage) -> None:
        for size in range(stage.sizes[-1][MATRIX]):
            with stage.copy() as folder:
                _cut(folder / MATRIX, size)
                index = FlatVectors(folder, MODEL)
                assert not index.is_complete
                assert state(index) in stage.states
                replay(index)
                assert state(FlatVectors(folder, MODEL)) == stage.states[-1]

    @settings(deadline=None, max_examples=60)
    @given(data=st.data())
    def test_both_cut_and_something_behind(self, stage: Stage, data: st.DataObject) -> None:
        """As after a crash: vectors are written first, then their frame."""
        step = data.draw(st.integers(0, len(STEPS) - 1))
        before = {LOG: 0, MATRIX: 0} if step == 0 else stage.sizes[step - 1]
        after = stage.sizes[step]
        with stage.copy() as folder:
            rows = data.draw(st.integers(before[LOG], max(before[LOG], after[LOG] - 1)))
            vectors = data.draw(st.integers(before[MATRIX], after[MATRIX]))
            _cut(folder / LOG, rows)
            _cut(folder / MATRIX, vectors)
            assert state(FlatVectors(folder, MODEL)) == stage.states[step]
            again = FlatVectors(folder, MODEL)
            replay(again, step)
            assert state(again) == stage.states[-1]

    def test_a_log_with_a_whole_frame_too_few_is_not_complete(self, stage: Stage) -> None:
        """Its vectors exist, so the frame was once written: its rows must be queued again."""
        with stage.copy() as folder:
            _cut(folder / LOG, stage.sizes[0][LOG])
            assert not FlatVectors(folder, MODEL).is_complete


def _cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


class TestDamage:
    @settings(deadline=None, max_examples=2 * settings().max_examples)
    @given(data=st.data())
    def test_a_flipped_bit_is_noticed_or_harmless(self, stage: Stage, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([LOG, MATRIX, MARKER]))
        place = data.draw(st.integers(0, stage.sizes[-1][name] - 1))
        bit = data.draw(st.integers(0, 7))
        with stage.copy() as folder:
            content = bytearray((folder / name).read_bytes())
            content[place] ^= 1 << bit
            (folder / name).write_bytes(content)
            index = FlatVectors(folder, MODEL)
            found = state(index)
            assert found in stage.states
            assert found == stage.states[-1] or not index.is_complete
            replay(index)
            assert state(FlatVectors(folder, MODEL)) == stage.states[-1]

    @pytest.mark.parametrize("name", [LOG, MATRIX, MARKER])
    @pytest.mark.parametrize("content", [None, b"", b"garbage" * 20], ids=ascii)
    def test_of_a_whole_file(self, stage: Stage, name: str, content: bytes | None) -> None:
        with stage.copy() as folder:
            (folder / name).unlink()
            if content is not None:
                (folder / name).write_bytes(content)
            index = FlatVectors(folder, MODEL)
            assert not index.is_complete
            assert state(index) == {}
            replay(index)
            assert state(FlatVectors(folder, MODEL)) == stage.states[-1]

    @pytest.mark.parametrize(
        "marker",
        [
            *([], None, 7, "x", {}),
            {"format": 1, "model": MODEL},
            {"format": 1, "model": MODEL, "dimension": None, "generation": 0, "complete": True},
            {"format": 1, "model": MODEL, "dimension": 3, "generation": 5, "complete": True},
            {"format": 1, "model": MODEL, "dimension": -1, "generation": 0, "complete": True},
            {"format": 1, "model": MODEL, "dimension": 9, "generation": 0, "complete": True},
            {"format": 99, "model": MODEL, "dimension": 3, "generation": 0, "complete": True},
        ],
        ids=repr,
    )
    def test_of_the_marker(self, stage: Stage, marker: Any) -> None:
        with stage.copy() as folder:
            (folder / MARKER).write_text(json.dumps(marker))
            index = FlatVectors(folder, MODEL)
            assert not index.is_complete
            assert state(index) == {}
            replay(index)
            assert state(FlatVectors(folder, MODEL)) == stage.states[-1]

    @pytest.mark.parametrize("content", [b"", b"garbage", b"[]", b"null", b"\xff"], ids=ascii)
    def test_of_a_marker_that_is_to_be_outdated(self, stage: Stage, content: bytes) -> None:
        with stage.copy() as folder:
            (folder / MARKER).write_bytes(content)
            FlatVectors.outdate(folder)
            assert not FlatVectors(folder, MODEL).is_complete


class TestReaders:
    def test_readers_find_documents_while_a_writer_compacts(self, index: FlatVectors) -> None:
        """Some documents stay; others come and go in hundreds. No vector is of another document."""
        stay = [(document(f"stay-{n}", project="p"), [unit(n, 1, -1)]) for n in range(20)]
        exact = {each.id: vectors[0] for each, vectors in stay}
        put(index, *stay)
        done = Flag()

        def write() -> None:
            try:
                for number in range(16):
                    put(index, *version(number, 250))
            finally:
                done.set()

        def read() -> int:
            rounds = 0
            while True:
                ending = done.is_set()
                hits = index.find_nearest(EAST, SearchScope(project="p"), limit=MANY)
                assert sorted(hit.id for hit in hits) == sorted(exact)
                assert all(_close(hit, exact[hit.id]) for hit in hits)
                cosines = index.compute_cosines(EAST, [each.key for each, _ in stay])
                assert None not in cosines
                top = index.find_nearest(NORTH, SearchScope(), limit=5)
                assert [hit.score for hit in top] == sorted((h.score for h in top), reverse=True)
                rounds += 1
                if ending:
                    return rounds

        with ThreadPoolExecutor(4) as pool:
            readers = [pool.submit(read) for _ in range(3)]
            pool.submit(write).result(TIMEOUT)
            assert all(reader.result(TIMEOUT) for reader in readers)
        assert index.stats().documents == 270


def _close(hit: IndexHit, vector: Vector) -> bool:
    return abs(hit.score - float(floats(vector) @ floats(EAST))) < HALF
