"""Forgets in a process of its own, and stops at a phase to be killed there.

Arguments: the data folder, the session, the phase.
"""

import sys
from pathlib import Path

from agent_memory.features.forgetting.model.forgetting import Selection
from agent_memory.kernel.ids import SessionId
from tests.forgetting_parts import open_harness


def main(folder: str, session: str, at: str) -> None:
    def done(phase: str, _: int) -> None:
        if phase == at:
            sys.stdout.write(f"{phase}\n")
            sys.stdout.flush()
            sys.stdin.read()  # until the end

    with open_harness(Path(folder), rocks=True) as keeping:
        keeping.forgetting.forget_events(Selection(session_id=SessionId(session)), done)


if __name__ == "__main__":
    main(*sys.argv[1:])
