"""Sessions of the page: a browser gets one for a code that `memory ui` issues.

The code is in the URL that a browser opens, so it is good for one use within a minute. The token
that it is exchanged for is another value, which the page sends with every request. Of both only
hashes are kept. All end with the daemon, or when the key `page` is revoked.

A session stands for the person who opened it. It may accept what awaits review only if its code was
issued on a terminal, as `memory review --accept` demands.
"""

import os
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path

from agent_memory.features.access.services.access import Access
from agent_memory.kernel.access import hash_secret
from agent_memory.kernel.errors import InvalidInput

KEY_NAME = "page"
CODE_SECONDS = 60.0
SESSION_SECONDS = 12 * 3600.0  # since its last use
MAX_CODES = 16
MAX_SESSIONS = 64
_REDIRECT = """<!doctype html>
<meta charset="utf-8"><meta name="referrer" content="no-referrer">
<title>Agent Memory</title>
<meta http-equiv="refresh" content="0; url={url}">
<p><a href="{url}">Open the page of Agent Memory</a></p>
"""


@dataclass(slots=True, eq=False)
class PageSession:
    """A browser that may use the page."""

    digest: bytes  # of its token
    may_accept: bool
    key_created_ms: int
    last_used: float


@dataclass(slots=True)
class _Code:
    deadline: float
    may_accept: bool
    file: Path | None = None


class PageSessions:
    """The codes and sessions of this daemon. Used on the event loop and by commands: each method
    changes one dictionary in single steps."""

    def __init__(self, access: Access, clock: Callable[[], float]) -> None:
        self._access = access
        self._clock = clock
        self._codes: OrderedDict[bytes, _Code] = OrderedDict()
        self._sessions: OrderedDict[bytes, PageSession] = OrderedDict()

    def issue_code(self, *, may_accept: bool) -> str:
        """Return a code for one new session, which may accept what awaits review or not. The first
        one creates the key `page`."""
        if self._find_key() is None:
            with suppress(InvalidInput):  # another command was quicker
                self._access.create(KEY_NAME)  # its secret is not used
        code = secrets.token_urlsafe(32)
        self._codes[hash_secret(code)] = _Code(self._clock() + CODE_SECONDS, may_accept)
        while len(self._codes) > MAX_CODES:
            self._take_code(next(iter(self._codes)))
        return code

    def write_redirect(self, path: Path, url: str, code: str) -> None:
        """Write a file that leads a browser to `url`, which has the code: other users can read the
        arguments of a browser, but not this file. It is removed with its code."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(_REDIRECT.format(url=escape(url)))
        self._codes.setdefault(hash_secret(code), _Code(0.0, may_accept=False)).file = path

    def drop_old_codes(self) -> None:
        """Forget the codes whose minute is over, and remove their files."""
        now = self._clock()
        for digest, code in list(self._codes.items()):
            if now >= code.deadline:
                self._take_code(digest)

    def exchange(self, code: str) -> tuple[str, PageSession] | None:
        """Return the token of a new session, or None if the code is unknown, used or too old."""
        issued = self._take_code(hash_secret(code))
        key = self._find_key()
        if issued is None or key is None or self._clock() >= issued.deadline:
            return None
        token = f"am_{secrets.token_urlsafe(32)}"  # as a key, so that it is found as a secret
        session = PageSession(
            digest=hash_secret(token),
            may_accept=issued.may_accept,
            key_created_ms=key,
            last_used=self._clock(),
        )
        self._sessions[session.digest] = session
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return token, session

    def find(self, token: str) -> PageSession | None:
        """Return the session of a token, unless it has ended."""
        session = self._sessions.get(hash_secret(token))
        if session is None or not self.has(session):
            return None
        session.last_used = self._clock()
        return session

    def has(self, session: PageSession) -> bool:
        """Return whether a session has not ended."""
        if self._sessions.get(session.digest) is not session:
            return False
        is_old = self._clock() - session.last_used > SESSION_SECONDS
        if is_old or session.key_created_ms != self._find_key():
            self.end(session)
            return False
        return True

    def end(self, session: PageSession) -> None:
        self._sessions.pop(session.digest, None)

    def _take_code(self, digest: bytes) -> _Code | None:
        code = self._codes.pop(digest, None)
        if code is not None and code.file is not None:
            code.file.unlink(missing_ok=True)
        return code

    def _find_key(self) -> int | None:
        """Return when the key of the page was created. A key created again ends old sessions."""
        return next((key.created_ms for key in self._access.list() if key.name == KEY_NAME), None)
