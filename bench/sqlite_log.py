"""What one would write instead: SQLite, WAL, one durable commit per event, one writer.

Asked by lines on stdin: {first, seconds}.
"""

import json
import sqlite3
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import processes
from bench.conversation import Corpus

SCHEMA = """
CREATE TABLE events (
  id TEXT PRIMARY KEY, session TEXT NOT NULL, ts INTEGER NOT NULL, type INTEGER NOT NULL,
  role INTEGER NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL
);
CREATE INDEX by_session ON events (session, ts);
CREATE INDEX by_time ON events (ts);
"""
MAX_PER_SECOND = 30_000


def main() -> None:
    corpus = Corpus(Path(sys.argv[1]))
    database = sqlite3.connect(sys.argv[2], isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.executescript(SCHEMA)

    def measure(asked: dict[str, Any]) -> Mapping[str, object]:
        first, seconds = asked["first"], asked["seconds"]
        last = min(first + int(seconds * MAX_PER_SECOND), len(corpus))
        rows = [_row(corpus, number) for number in range(first, last)]
        count = 0
        before, began = time.process_time(), time.monotonic()
        for row in rows:
            database.execute("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            count += 1
            if time.monotonic() > began + seconds:
                break
        elapsed = time.monotonic() - began
        return {"events": count, "seconds": elapsed, "cpu": time.process_time() - before}

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
