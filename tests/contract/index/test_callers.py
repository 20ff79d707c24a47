"""Both indexes: on a team server, each caller finds only what they see, before the limit counts."""

from pathlib import Path

import pytest

from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.index.adapters.vectors import FlatVectors
from agent_memory.features.index.model.documents import SEVERAL, DocumentKind
from agent_memory.features.index.model.queries import SearchScope
from agent_memory.kernel.access import OWNER, Principal, Role
from tests.contract.documents import COMMON_TERM, by_owner, document, unit

EAST = unit(1, 0, 0)
MEMORY = DocumentKind.MEMORY
DOCUMENTS = [
    document("event of shop", project="shop"),
    document("event of web", project="web"),
    document("event of nothing"),
    document("fact of shop", kind=DocumentKind.FACT, project="shop"),
    document("shared", kind=MEMORY, project="shop", domain="project:shop", status="active"),
    document("hers", kind=MEMORY, domain="user:ada", status="active"),
    document("his", kind=MEMORY, domain="user:bob", status="active"),
    document("the owner's", kind=MEMORY, domain="user", status="active"),
    document("his fact", kind=DocumentKind.FACT, domain="user:bob"),
    document("a summary", kind=DocumentKind.SEGMENT, project="shop", domain=SEVERAL),
    document("the organisation's", kind=MEMORY, domain="org:acme", status="active"),
]
ADA = Principal(person="ada", role=Role.WRITER, projects=frozenset({"shop"}))
EVE = Principal(person="eve", role=Role.READER)
SEEN = {
    ADA: {"event of shop", "fact of shop", "shared", "hers"},
    EVE: {each.id for each in DOCUMENTS} - {"hers", "his", "his fact", "the owner's"},
}


@pytest.mark.parametrize("caller", [ADA, EVE])
def test_the_scope_admits_what_they_see(caller: Principal) -> None:
    scope = SearchScope(caller=caller)
    assert {each.id for each in DOCUMENTS if scope.admits(each)} == SEEN[caller]


@pytest.mark.parametrize("caller", [ADA, EVE])
def test_words(tmp_path: Path, caller: Principal) -> None:
    index = TantivyIndex(tmp_path / "lexical", for_team=True)
    try:
        index.replace(by_owner(DOCUMENTS), cursor=1)
        scope = SearchScope(caller=caller)
        assert {hit.id for hit in index.find([COMMON_TERM], scope, limit=99)} == SEEN[caller]
        newest, total = index.find_newest(scope, limit=99)
        assert {hit.id for hit in newest} == SEEN[caller]
        assert total == len(SEEN[caller])
        assert len(index.find([COMMON_TERM], scope, limit=2)) == 2
    finally:
        index.close()


@pytest.mark.parametrize("caller", [ADA, EVE, OWNER])
def test_meanings(tmp_path: Path, caller: Principal) -> None:
    index = FlatVectors(tmp_path / "vectors", "model/1")
    index.replace({each.owner: [(each, [EAST])] for each in DOCUMENTS})
    scope = SearchScope(caller=caller)
    found = {hit.id for hit in index.find_nearest(EAST, scope, limit=99)}
    assert found == {each.id for each in DOCUMENTS if scope.admits(each)}
    assert len(index.find_nearest(EAST, scope, limit=2)) == 2


def test_rows_from_before_there_was_a_team_are_written_again(tmp_path: Path) -> None:
    """They may lack what says who sees them. Their vectors are kept."""
    index = FlatVectors(tmp_path / "vectors", "model/1")
    index.replace({each.owner: [(each, [EAST])] for each in DOCUMENTS})
    index.mark_complete()
    assert FlatVectors(tmp_path / "vectors", "model/1").is_complete
    again = FlatVectors(tmp_path / "vectors", "model/1", for_team=True)
    assert not again.is_complete
    assert again.get_vectors(DOCUMENTS) == [[EAST]] * len(DOCUMENTS)
    again.mark_complete()
    assert FlatVectors(tmp_path / "vectors", "model/1", for_team=True).is_complete


def test_words_from_before_there_was_a_team_are_filled_again(tmp_path: Path) -> None:
    index = TantivyIndex(tmp_path / "lexical")
    index.replace(by_owner(DOCUMENTS), cursor=1)
    index.close()
    again = TantivyIndex(tmp_path / "lexical", for_team=True)
    assert again.cursor() is None
    again.close()
