"""Sessions of the page: a browser gets one for a code that `memory ui` issues.

The code is in the URL that a browser opens, so it is good for one use within a minute. The cookie
it is exchanged for is another value, and so is the token that writes must repeat in a header. Of
the code and the cookie only hashes are kept; the token is kept as it is, for pages that ask again.
All end with the daemon, or when the key `page` is revoked.

A session stands for the person who opened it. It may accept what awaits review only if its code was
issued on a terminal, as `memory review --accept` demands.
"""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from agent_memory.features.operations.services.access import Access
from agent_memory.kernel.access import hash_secret
from agent_memory.kernel.errors import InvalidInput

KEY_NAME = "page"
CODE_SECONDS = 60.0
SESSION_SECONDS = 12 * 3600.0  # since its last use
MAX_CODES = 16
MAX_SESSIONS = 64


@dataclass(slots=True)
class PageSession:
    """A browser that may use the page. `token` must be in the header of every write."""

    token: str
    may_accept: bool
    key_created_ms: int
    last_used: float

    def allows_write(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())


class PageSessions:
    """The codes and sessions of this daemon. Used on the event loop and by commands: each method
    changes one dictionary in single steps."""

    def __init__(self, access: Access, clock: Callable[[], float]) -> None:
        self._access = access
        self._clock = clock
        self._codes: OrderedDict[bytes, tuple[float, bool]] = OrderedDict()
        self._sessions: OrderedDict[bytes, PageSession] = OrderedDict()

    def issue_code(self, *, may_accept: bool) -> str:
        """Return a code for one new session, which may accept what awaits review or not. The first
        one creates the key `page`."""
        if self._find_key() is None:
            with suppress(InvalidInput):  # another command was quicker
                self._access.create(KEY_NAME)  # its secret is not used
        code = secrets.token_urlsafe(32)
        self._codes[hash_secret(code)] = self._clock() + CODE_SECONDS, may_accept
        while len(self._codes) > MAX_CODES:
            self._codes.popitem(last=False)
        return code

    def exchange(self, code: str) -> tuple[str, PageSession] | None:
        """Return the cookie of a new session, or None if the code is unknown, used or too old."""
        issued = self._codes.pop(hash_secret(code), None)
        key = self._find_key()
        if issued is None or key is None:
            return None
        deadline, may_accept = issued
        if self._clock() > deadline:
            return None
        cookie = secrets.token_urlsafe(32)
        session = PageSession(
            token=secrets.token_urlsafe(32),
            may_accept=may_accept,
            key_created_ms=key,
            last_used=self._clock(),
        )
        self._sessions[hash_secret(cookie)] = session
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie, session

    def find(self, cookie: str) -> PageSession | None:
        """Return the session of a cookie, unless it has ended."""
        name = hash_secret(cookie)
        session = self._sessions.get(name)
        if session is None:
            return None
        now = self._clock()
        if now - session.last_used > SESSION_SECONDS or session.key_created_ms != self._find_key():
            self._sessions.pop(name, None)
            return None
        session.last_used = now
        return session

    def end(self, cookie: str) -> None:
        self._sessions.pop(hash_secret(cookie), None)

    def _find_key(self) -> int | None:
        """Return when the key of the page was created. A key created again ends old sessions."""
        return next((key.created_ms for key in self._access.list() if key.name == KEY_NAME), None)
