"""Go on reading a hook's input that comes later than its agent can be kept waiting."""

import os

from .command_client import POLL_SECONDS, HookDeadline, HookInput

SECONDS = 300.0  # after that, the writer is given up


def is_whole(data: bytes) -> bool:
    """Tell whether the input is complete: not every agent closes its end."""
    import json

    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def store_later(arguments: list[str], nonce: str, at_ms: int, data: bytes, rest: int) -> None:
    """Read the rest of the input in a process of its own, and put all of it into the spool.

    The process shares no output with us, and no group: nobody waits for it, and an agent that ends
    its hooks does not end it.
    """
    if os.fork():
        return
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        _store(arguments, nonce, at_ms, data, rest)
    finally:
        os._exit(0)


def _store(arguments: list[str], nonce: str, at_ms: int, data: bytes, rest: int) -> None:
    import _signal  # type: ignore[import-not-found]  # `signal` without enum

    from . import hook_spool

    source = HookInput(rest)
    _signal.signal(_signal.SIGALRM, source.alarm)
    _signal.setitimer(_signal.ITIMER_REAL, SECONDS, POLL_SECONDS)
    data += source.read_all()
    _signal.setitimer(_signal.ITIMER_REAL, 0)
    if data:
        hook_spool.store(arguments, nonce, at_ms, data, HookDeadline())
