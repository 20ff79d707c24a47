"""Operations as the interfaces derive from them: what is defined twice or nested is noticed."""

from collections.abc import Iterator
from typing import Annotated, Any, get_args

import msgspec
import pytest
from msgspec import Meta, Struct

from agent_memory.interfaces import catalog, requests
from agent_memory.interfaces.http.rest import RestRequest, parse_object
from agent_memory.interfaces.requests import InvalidRequest
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.operations import operation


class Inner(Struct):
    words: dict[str, Annotated[str, Meta(max_length=3)]] = {}


def find_structs(kind: Any, found: set[type[Struct]]) -> None:
    if isinstance(kind, type) and issubclass(kind, Struct) and kind not in found:
        found.add(kind)
        for field in msgspec.structs.fields(kind):
            find_structs(field.type, found)
    for part in get_args(kind):
        find_structs(part, found)


def list_nested() -> Iterator[tuple[str, type[Struct]]]:
    for each in catalog.list_all():
        if each.http and each.request is not None and RestRequest(each).in_body:
            found: set[type[Struct]] = set()
            for field in msgspec.structs.fields(each.request):
                find_structs(field.type, found)
            yield from ((each.name, kind) for kind in found)


def test_no_part_of_a_body_may_have_unknown_fields() -> None:
    nested = list(list_nested())
    assert nested
    for name, kind in nested:
        assert kind.__struct_config__.forbid_unknown_fields, (name, kind)


def test_every_request_and_answer_has_a_schema() -> None:
    for each in catalog.list_all():
        for kind in (each.request, each.answer):
            if kind not in (None, type(None)):
                assert msgspec.json.schema(kind), each.name


@pytest.mark.parametrize("place", ["http", "rpc", "tool"])
def test_an_operation_that_is_defined_twice_is_refused(place: str) -> None:
    def ask(caller: Caller) -> None:
        """Ask."""

    where: dict[str, Any] = {place: "GET /x/"}
    one, other = operation("x.one", **where)(ask), operation("x.other", **where)(ask)
    catalog.check_unique([one])
    with pytest.raises(ValueError, match="GET /x/"):
        catalog.check_unique([one, other])
    with pytest.raises(ValueError, match=r"x\.one"):
        catalog.check_unique([one, operation("x.one")(ask)])


def test_a_body_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="not valid JSON"):
        parse_object(b"[" * 100_000 + b"]" * 100_000)


def test_a_message_names_the_field_and_stays_short() -> None:
    with pytest.raises(InvalidRequest, match="words: Expected") as refused:
        requests.parse(Inner, {"words": {"k": "secret"}})
    assert "secret" not in str(refused.value)
    many = InvalidRequest(*(requests.refuse_unknown(f"field{n}") for n in range(2_000)))
    assert len(str(many)) < 500
    assert len(many.problems) == 2_000
