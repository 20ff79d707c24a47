"""Facts: the effects of confirming and contradicting one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.knowledge.model import facts
from agent_memory.features.knowledge.model.facts import Claim, Fact
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import Millis

NOW, LATER = Millis(1_767_600_000_000), Millis(1_767_600_060_000)


def first(value: str = "make test", **fields: object) -> Fact:
    claim = Claim(key="test_command", value=value, **fields)  # type: ignore[arg-type]
    return facts.apply_claim(None, claim, NOW)[0]


def test_what_is_said_once_is_held_with_some_doubt() -> None:
    fact = first()
    assert (fact.confidence, fact.times_confirmed, fact.access_count) == (0.7, 1, 0)
    assert (fact.created_ms, fact.updated_ms) == (NOW, NOW)


def test_the_same_value_again_makes_it_surer_and_is_counted() -> None:
    fact, former = facts.apply_claim(first(), Claim(key="test_command", value="make test"), LATER)
    assert former is None
    assert fact.confidence == pytest.approx(0.79)
    assert (fact.times_confirmed, fact.created_ms, fact.updated_ms) == (2, NOW, LATER)


def test_another_value_is_held_with_doubt_again_and_the_old_one_is_history() -> None:
    sure = facts.apply_claim(first(), Claim(key="test_command", value="make test"), LATER)[0]
    fact, former = facts.apply_claim(sure, Claim(key="test_command", value="make check"), LATER)
    assert (fact.value, fact.confidence, fact.times_confirmed) == ("make check", 0.7, 1)
    assert fact.id == sure.id
    assert former is not None
    assert (former.value, former.times_confirmed) == ("make test", 2)
    assert (former.since_ms, former.until_ms) == (NOW, LATER)


@given(st.lists(st.sampled_from("ab"), max_size=30), st.floats(0, 1))
def test_however_often_it_changes_its_history_is_complete(said: list[str], sure: float) -> None:
    fact = first("a", confidence=sure)
    values, formers = ["a"], []
    for value in said:
        before = fact.confidence
        fact, former = facts.apply_claim(fact, Claim(key="test_command", value=value), LATER)
        assert 0.0 <= fact.confidence <= 1.0
        if former is None:
            assert fact.confidence >= before
        else:
            formers.append(former)
        if value != values[-1]:
            values.append(value)
    assert [former.value for former in formers] == values[:-1]
    assert [former.number for former in formers] == list(range(len(formers)))
    assert len({former.id for former in formers}) == len(formers)


def test_scope_agent_user_and_key_make_it_what_it_is() -> None:
    claims = [
        Claim(key="k", value="v"),
        Claim(key="k", value="v", scope="other"),
        Claim(key="k", value="v", agent_id="a"),
        Claim(key="k", value="v", agent_id=""),
        Claim(key="k", value="v", user_id="a"),
        Claim(key="kk", value="v"),
    ]
    assert len({claim.fact_id for claim in claims}) == len(claims)
    assert Claim(key="k", value="w").fact_id == claims[0].fact_id


@pytest.mark.parametrize(
    "wrong",
    [
        {"scope": ""},
        {"fact_type": "x" * 257},
        {"agent_id": "a\nb"},
        {"confidence": 1.1},
        {"confidence": float("nan")},
        {"value": "x" * 32_769},
        {"value": "\ud800"},
    ],
)
def test_what_no_fact_can_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        facts.apply_claim(None, Claim(**({"key": "k", "value": "v"} | wrong)), NOW)  # type: ignore[arg-type]


def test_where_a_value_was_said_goes_with_it() -> None:
    fact = first(session_id="s1", event_id="e1")
    again = Claim(key="test_command", value="make test", session_id="s2")
    confirmed, _ = facts.apply_claim(fact, again, LATER)
    assert (confirmed.session_id, confirmed.event_id) == ("s1", "e1")
    other = Claim(key="test_command", value="make check")
    replaced, former = facts.apply_claim(confirmed, other, LATER)
    assert (replaced.session_id, replaced.event_id) == (None, None)
    assert former is not None
    assert (former.session_id, former.event_id) == ("s1", "e1")
    known, _ = facts.apply_claim(first(), again, LATER)
    assert known.session_id == "s2"
