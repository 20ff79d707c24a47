"""The check of bearer keys and tokens, for gRPC and HTTP."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_memory.features.access.services.access import Access
from agent_memory.kernel.access import OWNER, AccessKey, Principal
from agent_memory.kernel.errors import Unauthorized

MAX_BEARER_CHARS = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who sent a request: the name of their key or token, and what they may do.

    `key` is the key that counts as long as it exists, and `until` when a token ends, in Unix
    seconds.
    """

    name: str
    principal: Principal = OWNER
    key: AccessKey | None = None
    until: float | None = None


VerifyToken = Callable[[str], Awaitable[Identity]]
"""Returns whose token it is that another server has issued. Raises Unauthorized."""


def read_bearer(authorization: str | None) -> str:
    """Return the secret of an authorization header; empty if it is no bearer's."""
    scheme, _, secret = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or len(secret) > MAX_BEARER_CHARS:
        return ""
    return secret.strip()


class BearerGuard:
    """Checks keys. On a team server they belong to people, as do the tokens of an issuer."""

    def __init__(self, access: Access, verify_token: VerifyToken | None = None) -> None:
        self._access = access
        self._verify_token = verify_token

    def find_key(self, name: str) -> AccessKey | None:
        return next((key for key in self._access.list() if key.name == name), None)

    def is_valid(self, identity: Identity) -> bool:
        """Tell whether the key of an open connection still exists, and its token has not ended."""
        if identity.key is not None:
            return self._access.knows(identity.key)
        return identity.until is None or time.time() <= identity.until

    def check_valid(self, identity: Identity) -> None:
        """Raise Unauthorized unless `is_valid`."""
        if not self.is_valid(identity):
            raise Unauthorized("the key was revoked, or the token has ended")

    async def identify(self, authorization: str | None) -> Identity:
        """Return who sends an authorization header. Raises Unauthorized."""
        secret = self._require_bearer(authorization)
        is_token = secret.count(".") == 2 and not secret.startswith("am_")
        if self._verify_token is not None and is_token:
            return await self._verify_token(secret)
        key = self(authorization)
        return Identity(name=key.name, principal=key.principal, key=key)

    def __call__(self, authorization: str | None) -> AccessKey:
        """Return the key of an authorization header. Raises Unauthorized if it is not valid."""
        key = self._access.check(self._require_bearer(authorization))
        if key is None:
            raise Unauthorized("the key is unknown or revoked")
        if self._access.team and not key.person:
            raise Unauthorized(
                "this key belongs to no person, and on a team server each does: create one with"
                " `memory-daemon token create NAME --person NAME --role ROLE`"
            )
        if key.person and not self._access.team:
            # It may be limited to a role and to projects, which only a team server enforces.
            raise Unauthorized(
                "this key belongs to a person of a team, and this daemon serves none: set"
                " team.enabled, and restart it"
            )
        return key

    def _require_bearer(self, authorization: str | None) -> str:
        if secret := read_bearer(authorization):
            return secret
        advice = "create one with `memory-daemon token create NAME`"
        if self._access.team:
            advice = "ask an admin of your team for one, or use `memory remote login`"
        raise Unauthorized(f"a bearer key is needed (authorization: Bearer ...); {advice}")
