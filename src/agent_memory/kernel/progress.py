"""Callbacks that long work reports its progress to. Each may raise to stop the work."""

from collections.abc import Callable

OnCount = Callable[[int], None]  # how many are done
OnPhase = Callable[[str, int], None]  # phase, how many are done
OnProgress = Callable[[str, int, int], None]  # phase, how many are done, of how many


def ignore_progress(_phase: str, _done: int, _total: int) -> None:
    """Do nothing with it."""
