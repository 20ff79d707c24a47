"""Every id that a record may have survives its URI."""

from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import CONTENTS, EVENTS, FACTS, GRIPS, SESSIONS

AREAS = (EVENTS, SESSIONS, FACTS, CONTENTS, GRIPS)
NAMES = st.text(min_size=1, max_size=256).filter(str.isprintable)


@given(st.sampled_from(AREAS), NAMES)
def test_a_uri_gives_its_id_back(area: str, name: str) -> None:
    uri = documents.format_uri(area, name)
    assert documents.parse_uri(uri) == (area, name)
    assert uri.isascii()
    assert len(uri) < 4_000
    assert not set(uri) & set(" \"'`$&|;<>()*?!#\\{}[]")  # safe in a shell as it is


@given(st.sampled_from(AREAS), NAMES, NAMES)
def test_two_ids_never_have_one_uri(area: str, one: str, other: str) -> None:
    same = documents.format_uri(area, one) == documents.format_uri(area, other)
    assert same == (one == other)


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    area, _ = documents.parse_uri(text)
    assert area.startswith(documents.SCHEME)
