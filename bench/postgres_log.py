"""What one would write instead: PostgreSQL, one durable INSERT for each event, on connections of
their own.

Asked by lines on stdin: {seconds, threads}.
"""

import json
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from bench import processes
from bench.conversation import Corpus

SCHEMA = """
CREATE TABLE events (
  id text PRIMARY KEY, session text NOT NULL, ts bigint NOT NULL, type int NOT NULL,
  role int NOT NULL, text text NOT NULL, metadata text NOT NULL
);
CREATE INDEX by_session ON events (session, ts);
CREATE INDEX by_time ON events (ts);
"""
INSERT = "INSERT INTO events VALUES (%s, %s, %s, %s, %s, %s, %s)"
MAX_PER_SECOND = 20_000


def main() -> None:
    corpus, url = Corpus(Path(sys.argv[1])), sys.argv[2]
    connections = [psycopg.connect(url, autocommit=True)]
    connections[0].execute(SCHEMA)
    sent = 0  # a repeated event would cost no write

    def measure(asked: dict[str, Any]) -> Mapping[str, object]:
        while len(connections) < asked["threads"]:
            connections.append(psycopg.connect(url, autocommit=True))
        nonlocal sent
        seconds = asked["seconds"]
        last = min(sent + int(seconds * MAX_PER_SECOND), len(corpus))
        rows = iter([_row(corpus, number) for number in range(sent, last)])
        took: list[float] = []
        before, began = time.process_time(), time.monotonic()

        def insert(connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
            for row in rows:
                start = time.monotonic()
                connection.execute(INSERT, row)
                took.append(time.monotonic() - start)
                if time.monotonic() > began + seconds:
                    break

        threads = [
            threading.Thread(target=insert, args=(connection,))
            for connection in connections[: asked["threads"]]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        elapsed = time.monotonic() - began
        sent += len(took)
        took.sort()
        return {
            "events": len(took), "seconds": elapsed, "cpu": time.process_time() - before,
            "p50": took[len(took) // 2] * 1000, "p99": took[len(took) * 99 // 100] * 1000,
        }  # fmt: skip

    processes.serve_lines(measure)


def _row(corpus: Corpus, number: int) -> tuple[str | int, ...]:
    event = corpus.event(number)
    metadata = json.dumps(dict(event.metadata))
    return (
        event.event_id, event.session_id, event.timestamp_ms, int(event.event_type),
        int(event.role), event.text, metadata,
    )  # fmt: skip


if __name__ == "__main__":
    main()
