"""A team's server that sends a machine whatever a test wants."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Change = dict[str, Any]


class HostileServer:
    """Lists `changes`, in order, to everyone who asks, and takes every record."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.changes: list[Change] = []

    def add(self, kind: str, **record: Any) -> None:
        self.changes.append({"kind": kind, "record": record})

    def answer(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        if path.endswith("/changes/"):
            after = int(query.get("after", ["0"])[0] or 0)
            page = {"changes": self.changes[after:], "next": str(len(self.changes))}
            return page | {"more": False, "receipt": 0}
        if path.endswith("/projects/"):
            return {"name": query.get("name", ["work"])[0], "taken_by": ""}
        if path.endswith("/records/"):
            return {"taken": 1, "known": 0, "refused": [], "receipt": 0}
        return {"person": "ada", "role": "writer", "projects": None, "version": "1", "receipt": 0}


@contextmanager
def open_hostile_server() -> Iterator[HostileServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            body = json.dumps(hostile.answer(parts.path, parse_qs(parts.query))).encode()
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815  the name that the base calls

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hostile = HostileServer(f"http://127.0.0.1:{server.server_address[1]}")
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield hostile
        finally:
            server.shutdown()
            thread.join()
