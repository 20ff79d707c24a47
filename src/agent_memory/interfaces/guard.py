"""The check of bearer keys, for gRPC and HTTP."""

from agent_memory.features.operations.services.access import Access
from agent_memory.kernel.access import AccessKey
from agent_memory.kernel.errors import Unauthorized


class BearerGuard:
    def __init__(self, access: Access) -> None:
        self._access = access

    def has_key(self, name: str) -> bool:
        """Return whether a key of this name exists and is not revoked."""
        return self._access.knows(name)

    def __call__(self, authorization: str | None) -> AccessKey:
        """Return the key of an authorization header. Raises Unauthorized if it is not valid."""
        scheme, _, secret = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Unauthorized(
                "a bearer key is needed (authorization: Bearer ...);"
                " create one with `memory-daemon token create NAME`"
            )
        key = self._access.check(secret.strip())
        if key is None:
            raise Unauthorized("the key is unknown or revoked")
        return key
