"""Anchors: proof that an index was made from the present history of a store.

A database can be restored to an earlier state, and then go on differently: the numbers of the
outbox are the same, but stand for other changes. An index therefore remembers the last change that
it has taken in, not only its number.
"""

from pathlib import Path

import structlog

from agent_memory.platform import durable
from agent_memory.platform.files import read_regular
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store import families, keys

log = structlog.get_logger()

_MOST_BYTES = 1 << 20


def save_anchor(path: Path, store: OrderedStore, number: int) -> None:
    """Remember a change of the outbox, if it is still there."""
    entry = store.get(families.OUTBOX, _key(number))
    if entry is not None:
        durable.write_atomic(path, b"%d\n%s" % (number, entry))


def holds_anchor(path: Path, store: OrderedStore) -> bool:
    """Tell whether the remembered change is in the outbox; true if none is remembered.

    One that was trimmed is not: a process that was away for so long has missed others.
    """
    try:
        number, _, entry = read_regular(path, _MOST_BYTES).partition(b"\n")
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return number.isdigit() and store.get(families.OUTBOX, _key(int(number))) == entry


def _key(number: int) -> bytes:
    return keys.OUTBOX_PREFIX + b"%020d" % number
