"""The store without a server: threads that each append an event, wait until it is durable, repeat.

Asked by lines on stdin: {first, seconds, threads}.
"""

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.interfaces.wire.events import parse_event
from agent_memory.platform.store import schema
from agent_memory.platform.store.committer import CommittedStore
from agent_memory.platform.store.rocks import RocksEngine
from bench import processes
from bench.conversation import Corpus

MAX_PER_SECOND = 30_000  # events are made before the clock starts


def main() -> None:
    corpus = Corpus(Path(sys.argv[1]))
    store = CommittedStore(RocksEngine(Path(sys.argv[2])), watch=lambda _: os._exit(4))
    schema.prepare(store)
    log = StoredEventLog(store)

    def measure(asked: dict[str, Any]) -> Mapping[str, object]:
        first, seconds = asked["first"], asked["seconds"]
        last = min(first + int(seconds * MAX_PER_SECOND), len(corpus))
        turn = iter([parse_event(corpus.event(number)) for number in range(first, last)])
        done: list[int] = []
        began = time.monotonic()
        deadline = began + seconds

        def append() -> None:
            count = 0
            for event in turn:
                log.append([event]).result()
                count += 1
                if time.monotonic() > deadline:
                    break
            done.append(count)

        before = time.process_time()
        threads = [threading.Thread(target=append) for _ in range(asked["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = time.monotonic() - began
        return {
            "events": sum(done), "seconds": elapsed, "cpu": time.process_time() - before
        }  # fmt: skip

    processes.serve_lines(measure)


if __name__ == "__main__":
    main()
