"""The checker accepts histories that can be put in order, and finds planted faults in others."""

import random
from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import count

import pytest

from tests.faults import linearizability
from tests.faults.linearizability import (
    ABSENT,
    EVENT,
    FACT,
    NEVER,
    CallRecord,
    FactState,
    Specification,
    find_violation,
)

VALUES = ("red", "green", "blue")
KEYS = 60


def test_calls_one_after_the_other_are_fine() -> None:
    calls = [
        CallRecord("create", "a", True, 0, 1),
        CallRecord("create", "b", False, 2, 3),
        CallRecord("read", "", "a", 4, 5),
    ]
    assert find_violation(calls, EVENT) is None


def test_calls_at_the_same_time_may_take_effect_in_any_order() -> None:
    for winner in ("a", "b"):
        calls = [
            CallRecord("create", "a", winner == "a", 0, 5),
            CallRecord("create", "b", winner == "b", 1, 4),
            CallRecord("read", "", winner, 6, 7),
        ]
        assert find_violation(calls, EVENT) is None


def test_a_call_without_an_answer_may_have_happened_or_not() -> None:
    lost = CallRecord("create", "a", None, 0)
    for text, created in (("a", False), ("b", True)):
        calls = [
            lost,
            CallRecord("create", "b", created, 2, 3),
            CallRecord("read", "", text, 4, 5),
        ]
        assert find_violation(calls, EVENT) is None
    late = [lost, CallRecord("read", "", ABSENT, 4, 5), CallRecord("read", "", "a", 6, 7)]
    assert find_violation(late, EVENT) is None


@pytest.mark.parametrize(
    ("calls", "specification"),
    [
        (  # a lost update: both have counted from one
            [
                CallRecord("claim", "red", ("red", 1), 0, 1),
                CallRecord("claim", "red", ("red", 2), 2, 5),
                CallRecord("claim", "red", ("red", 2), 3, 6),
            ],
            FACT,
        ),
        (  # a stale read: it began after the answer to the write
            [
                CallRecord("claim", "red", ("red", 1), 0, 1),
                CallRecord("claim", "blue", ("blue", 1), 2, 3),
                CallRecord("read", "", ("red", 1), 4, 5),
            ],
            FACT,
        ),
        (  # a doubled create
            [CallRecord("create", "a", True, 0, 3), CallRecord("create", "b", True, 1, 4)],
            EVENT,
        ),
        (  # an acknowledged write is lost
            [CallRecord("create", "a", True, 0, 1), CallRecord("read", "", ABSENT, 2, 3)],
            EVENT,
        ),
        (  # what was read is gone again
            [
                CallRecord("create", "a", None, 0),
                CallRecord("read", "", "a", 1, 2),
                CallRecord("read", "", ABSENT, 3, 4),
            ],
            EVENT,
        ),
        (  # a write without an answer that happens twice
            [
                CallRecord("claim", "red", ("red", 1), 0, 1),
                CallRecord("claim", "red", None, 2),
                CallRecord("read", "", ("red", 3), 3, 4),
            ],
            FACT,
        ),
        (  # a former value is missing
            [
                CallRecord("claim", "red", ("red", 1), 0, 1),
                CallRecord("claim", "blue", ("blue", 1), 2, 3),
                CallRecord("list", "", (), 4, 5),
            ],
            FACT,
        ),
    ],
    ids=["lost update", "stale read", "doubled create", "lost write", "undone", "twice", "former"],
)
def test_a_planted_fault_is_found(
    calls: list[CallRecord], specification: Specification[Hashable]
) -> None:
    assert find_violation(calls, specification) is not None


def make_history(
    dice: random.Random, apply: Callable[[FactState, CallRecord], tuple[FactState, Hashable]]
) -> list[CallRecord]:
    """Let four callers use a fact whose calls take effect at a random moment before their end."""
    clock, state = count(), FACT.first
    calls: list[CallRecord] = []
    active: list[tuple[str, str, int]] = []
    for _ in range(40):
        if len(active) < 4 and dice.random() < 0.6:
            name = dice.choice(("claim", "claim", "read"))
            argument = dice.choice(VALUES) if name == "claim" else ""
            active.append((name, argument, next(clock)))
        elif active:
            name, argument, begin = active.pop(dice.randrange(len(active)))
            state, answer = apply(state, CallRecord(name, argument, None, begin))
            has_answer = dice.random() < 0.9
            end = next(clock) if has_answer else NEVER
            calls.append(CallRecord(name, argument, answer if has_answer else None, begin, end))
    for name in ("read", "list"):
        call = CallRecord(name, "", None, next(clock))
        calls.append(replace(call, answer=apply(state, call)[1], end=next(clock)))
    return calls


def test_every_history_of_a_right_store_is_accepted() -> None:
    for seed in range(KEYS):
        calls = make_history(random.Random(seed), linearizability.apply_to_fact)
        assert find_violation(calls, FACT) is None, seed


def test_a_store_that_loses_updates_now_and_then_is_found() -> None:
    found = 0
    for seed in range(KEYS):
        dice = random.Random(seed)
        fate = random.Random(-seed)

        def apply(
            state: FactState, call: CallRecord, fate: random.Random = fate
        ) -> tuple[FactState, Hashable]:
            after, answer = linearizability.apply_to_fact(state, call)
            is_lost = call.name == "claim" and fate.random() < 0.1
            return (state if is_lost else after), answer

        found += find_violation(make_history(dice, apply), FACT) is not None
    assert found > KEYS // 2
