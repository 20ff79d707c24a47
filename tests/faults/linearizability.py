"""Check that a history of calls could have happened one after the other, each at one moment between
its call and its answer: linearizability, by the search of Wing and Gong with a memory of states.

A history has the calls on one key. A call without an answer may have happened at any later moment,
or never. A Specification says what one call after the other would do.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

MOST_STATES = 2_000_000
NEVER = float("inf")

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call as its caller saw it. `answer` is None if there was none, and `end` is NEVER then."""

    name: str
    argument: str
    answer: Hashable
    begin: float
    end: float = NEVER


@dataclass(frozen=True, slots=True)
class Specification(Generic[S]):
    """The state of a key at first, and what a call makes of it: the next state and an answer."""

    first: S
    apply: Callable[[S, CallRecord], tuple[S, Hashable]]


class UndecidedHistory(Exception):
    """The search has seen too many states."""


def find_violation(calls: Iterable[CallRecord], specification: Specification[S]) -> str | None:
    """Return None if the calls on a key are linearizable, else say how far they are."""
    every = sorted(calls, key=lambda call: call.begin)
    answered = sum(1 << number for number, call in enumerate(every) if call.end < NEVER)
    seen: set[tuple[int, S]] = set()
    waiting: list[tuple[int, S]] = [(0, specification.first)]
    best, stuck = -1, specification.first
    while waiting:
        done, state = waiting.pop()
        if done & answered == answered:
            return None
        count = (done & answered).bit_count()
        if count > best:
            best, stuck = count, state
        for number in _list_next(every, done):
            following, answer = specification.apply(state, every[number])
            if every[number].end < NEVER and answer != every[number].answer:
                continue
            place = done | 1 << number, following
            if place not in seen:
                seen.add(place)
                waiting.append(place)
        if len(seen) > MOST_STATES:
            raise UndecidedHistory(f"{len(every)} calls have more than {MOST_STATES} states")
    shown = "\n".join(f"  {call}" for call in every)
    return f"only {best} of {answered.bit_count()} answers fit; then {stuck!r}:\n{shown}"


def _list_next(calls: Sequence[CallRecord], done: int) -> list[int]:
    """List the calls that may be next: those that began before any other was answered.

    Of calls without an answer that ask for the same, only the earliest is tried: it can take the
    place of any other. They come first, so that the search, which goes on with the last one, tries
    them last: most of the time they are not needed.
    """
    left = [number for number in range(len(calls)) if not done >> number & 1]
    first_end = min(calls[number].end for number in left)
    lost: dict[tuple[str, str], int] = {}
    answered: list[int] = []
    for number in left:
        call = calls[number]
        if call.begin > first_end:
            break
        if call.end == NEVER:
            lost.setdefault((call.name, call.argument), number)
        else:
            answered.append(number)
    return [*lost.values(), *answered]


# An event id: the first text that is sent under it stands.
ABSENT = ""


def apply_to_event(state: str, call: CallRecord) -> tuple[str, Hashable]:
    """`create` answers whether the event is new; `read` answers its text, or ABSENT."""
    if call.name == "read":
        return state, state
    return state or call.argument, state == ABSENT


EVENT = Specification(ABSENT, apply_to_event)


# A fact: its value, how often that was confirmed, and all values that it had before.
FactState = tuple[str, int, tuple[str, ...]]


def apply_to_fact(state: FactState, call: CallRecord) -> tuple[FactState, Hashable]:
    """`claim` and `read` answer the value and its confirmations; `list` answers former values."""
    value, confirmed, former = state
    if call.name == "list":
        return state, former
    if call.name == "claim" and call.argument == value:
        state = (value, confirmed + 1, former)
    elif call.name == "claim":
        state = (call.argument, 1, (*former, value) if value else former)
    return state, state[:2]


FACT: Specification[FactState] = Specification(("", 0, ()), apply_to_fact)
