"""REST behaves as its OpenAPI document says."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.command_runner import Home
from tests.http_client import Web

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with Home() as home:
        home.configure("[http]\nburst = 0\n")
        home.serve()
        yield Web(home)


def test_nothing_fails_and_nothing_is_answered_that_the_page_does_not_tell(web: Web) -> None:
    with web.client() as client:
        described = client.get("/openapi.json").json()
    # A stream has no end that could be waited for: test_streams.py reads those.
    schema = schemathesis.openapi.from_dict(described).exclude(path_regex="^/stream/")
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) > 30
    for operation in operations:
        valid = operation.as_strategy()
        wrong = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE)

        @settings(
            max_examples=settings().max_examples // 5,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            deadline=None,
        )
        @given(st.one_of(valid, wrong))
        def conforms(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(
                base_url=f"http://{web.place}",
                headers={"authorization": f"Bearer {web.key}"},
                checks=CHECKS,
            )

        conforms()
