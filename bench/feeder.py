"""A program that records 20 new events a second: python -m bench.feeder PORT.

It begins with a line on stdin, and answers with one when the first event is recorded.
"""

import sys
import time

from agent_memory.client import Event, MemoryClient
from bench import recall_data

PER_SECOND = 20
MOST = 10_000_000
FIRST = 70_000_000  # number of a turn that no bench stores
SECONDS = 3600.0  # for a call: the daemon may be frozen meanwhile


def main() -> None:
    endpoint = f"http://127.0.0.1:{sys.argv[1]}"
    sys.stdin.readline()
    with MemoryClient.connect(endpoint, timeout_seconds=SECONDS) as memory:
        for number, turn in enumerate(recall_data.turns(MOST, first=FIRST)):
            memory.ingest(
                Event(
                    session_id=turn.session_id,
                    timestamp=time.time_ns() // 1_000_000,
                    event_type=turn.event_type,
                    role=turn.role,
                    text=turn.text,
                    metadata=turn.metadata,
                )
            )
            if not number:
                sys.stdout.write("{}\n")
                sys.stdout.flush()
            time.sleep(1 / PER_SECOND)


if __name__ == "__main__":
    main()
