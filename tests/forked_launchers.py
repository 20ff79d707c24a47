"""The process that has loaded the launcher only, and forks it."""

import gc
from collections.abc import Sequence

from tests.fork_server import run_launcher, serve


def main() -> None:
    gc.freeze()
    serve(_run_child)


def _run_child(words: Sequence[str], **_others: object) -> int:
    return run_launcher(words)
