"""The answer to a hook, from what handles the call to what sends it."""

from collections.abc import Callable
from typing import NamedTuple


def _ignore() -> None: ...


class HookAnswer(NamedTuple):
    """What to send to the agent, and the problem or an empty text. `on_delivered` is called once it
    was sent; it does not wait."""

    output: bytes
    problem: str = ""
    on_delivered: Callable[[], None] = _ignore
