"""The TermVectors port, over every store."""

from pathlib import Path

import pytest

from agent_memory.features.index.adapters.stored_term_vectors import StoredTermVectors
from agent_memory.features.index.model import term_vectors
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.ports import TermVectors
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.text import analysis
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families
from agent_memory.platform.store.batches import Batch, Put
from tests.contract.stores import OpenStore, commit, everything

TERMS = analysis.extract_terms("harbour crane mill")
LONG = Owner("memory:" + "ü" * 300)


@pytest.fixture
def terms(store: OrderedStore) -> TermVectors:
    return StoredTermVectors(store)


def document(text: str, owner: str = "event:a") -> Document:
    return Document(kind=DocumentKind.EVENT, id="a", owner=Owner(owner), at_ms=Millis(5), text=text)


def counts(terms: TermVectors, *owners: str) -> list[list[float] | None]:
    """How often each owner's vector has each of the terms."""
    found = terms.get([Owner(owner) for owner in owners])
    return [
        None if each is None else term_vectors.count([each], TERMS)[0].tolist() for each in found
    ]


class TestReplacing:
    def test_each_owner_has_its_own_in_the_order_asked(self, terms: TermVectors) -> None:
        terms.replace(
            {
                Owner("event:a"): [document("harbour harbour")],
                Owner("event:b"): [document("mill", "event:b")],
            }
        )
        assert counts(terms, "event:b", "event:none", "event:a") == [[0, 0, 1], None, [2, 0, 0]]

    def test_only_the_first_document_of_an_owner_counts(self, terms: TermVectors) -> None:
        terms.replace({Owner("segment:s"): [document("crane"), document("mill")]})
        assert counts(terms, "segment:s") == [[0, 1, 0]]

    def test_another_text_takes_the_place_of_the_first(self, terms: TermVectors) -> None:
        terms.replace({Owner("event:a"): [document("harbour")]})
        terms.replace({Owner("event:a"): [document("mill")]})
        assert counts(terms, "event:a") == [[0, 0, 1]]

    def test_an_owner_without_documents_loses_its_vector(
        self, terms: TermVectors, store: OrderedStore
    ) -> None:
        owners = [Owner("event:a"), LONG]
        terms.replace({owner: [document("harbour")] for owner in owners})
        terms.replace({owner: [] for owner in (*owners, Owner("event:never"))})
        assert counts(terms, *owners) == [None, None]
        assert everything(store, families.TERM_VECTORS) == []

    def test_nothing_asked_and_nothing_given(self, terms: TermVectors) -> None:
        terms.replace({})
        assert terms.get([]) == []

    def test_long_owners_have_short_keys_of_their_own(
        self, terms: TermVectors, store: OrderedStore
    ) -> None:
        other = Owner(LONG + "x")
        terms.replace({LONG: [document("harbour")], other: [document("mill")]})
        assert counts(terms, LONG, other) == [[1, 0, 0], [0, 0, 1]]
        assert all(len(key) <= 200 for key, _ in everything(store, families.TERM_VECTORS))

    def test_clearing_removes_all_and_new_ones_can_follow(
        self, terms: TermVectors, store: OrderedStore
    ) -> None:
        terms.replace({Owner("event:a"): [document("harbour")], LONG: [document("mill")]})
        terms.clear()
        assert everything(store, families.TERM_VECTORS) == []
        terms.replace({Owner("event:a"): [document("crane")]})
        assert counts(terms, "event:a") == [[0, 1, 0]]


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02" * 40, b"\x01garbage" * 9], ids=ascii)
def test_a_damaged_vector_is_missing(terms: TermVectors, store: OrderedStore, value: bytes) -> None:
    terms.replace({Owner("event:b"): [document("mill")]})
    commit(store, Batch((Put(families.TERM_VECTORS, b"event:a", value),)))
    assert counts(terms, "event:a", "event:b") == [None, [0, 0, 1]]


def test_they_are_there_after_a_restart(open_durable: OpenStore, tmp_path: Path) -> None:
    first = open_durable(tmp_path)
    StoredTermVectors(first).replace({Owner("event:a"): [document("mill")]})
    first.close()
    second = open_durable(tmp_path)
    try:
        assert counts(StoredTermVectors(second), "event:a") == [[0, 0, 1]]
    finally:
        second.close()
