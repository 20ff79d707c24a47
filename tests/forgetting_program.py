"""Forgets in a process of its own, and stops at a phase to be killed there.

Arguments: the session, the phase. The environment is that of the daemon that has ended.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from agent_memory import config
from agent_memory.bootstrap import root
from agent_memory.bootstrap.core import build_core
from agent_memory.features.forgetting.model.forgetting import Selection
from agent_memory.features.forgetting.services.forgetting import Forgetting
from agent_memory.kernel.ids import SessionId


@contextmanager
def open_forgetting(environ: Mapping[str, str]) -> Iterator[Forgetting]:
    """Build forgetting as a daemon does, over the store that one has left. No job runs."""
    folders, settings = config.folders(environ), config.load(environ).settings
    app = root.build(build_core(settings, folders.data / "db", folders.data, folders.config))
    try:
        yield app.services[Forgetting]
    finally:
        app.close()


def main(session: str, at: str) -> None:
    def done(phase: str, _: int) -> None:
        if phase == at:
            sys.stdout.write(f"{phase}\n")
            sys.stdout.flush()
            sys.stdin.read()  # until the end

    with open_forgetting(os.environ) as forgetting:
        forgetting.forget_events(Selection(session_id=SessionId(session)), done)


if __name__ == "__main__":
    main(*sys.argv[1:])
