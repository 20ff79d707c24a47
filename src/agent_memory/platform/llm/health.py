"""Health checks of a model server, with the HTTP client of the standard library."""

import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

SECONDS = 2.0
KEPT_SECONDS = 1.0
OK = 200


class HealthCache:
    """Caches a result for KEPT_SECONDS, to limit the requests to the server."""

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self._timer = timer
        self._lock = threading.Lock()
        self._known: tuple[object, float, bool] | None = None

    def check(self, server: object, ask: Callable[[], bool]) -> bool:
        with self._lock:
            known = self._known
            if known is None or known[0] != server or self._timer() - known[1] > KEPT_SECONDS:
                healthy = ask()
                known = self._known = (server, self._timer(), healthy)
            return known[2]


def fetch_status(
    url: str, headers: Mapping[str, str] | None = None, seconds: float = SECONDS
) -> int:
    """Return the status of a GET, or 0 if there is no answer."""
    # Late: it takes 10 ms to load, and few daemons have a server to ask.
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return 0
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname, parts.port, timeout=seconds)
    except (ValueError, HTTPException):
        return 0
    try:
        connection.request("GET", parts.path or "/", headers=dict(headers or {}))
        return connection.getresponse().status
    except (OSError, HTTPException, ValueError):
        return 0
    finally:
        connection.close()
