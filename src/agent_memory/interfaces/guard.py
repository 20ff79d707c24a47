"""Bearer keys at the edge: one check for gRPC and HTTP."""

from agent_memory.features.operations.services.access import Access
from agent_memory.kernel.access import AccessKey
from agent_memory.kernel.errors import Unauthorized


class BearerGuard:
    def __init__(self, access: Access) -> None:
        self._access = access

    def has_key(self, name: str) -> bool:
        """Whether there is a key of this name, still."""
        return self._access.knows(name)

    def __call__(self, authorization: str | None) -> AccessKey:
        """The key that is shown. Raises Unauthorized unless this is `Bearer` and a known one."""
        scheme, _, secret = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Unauthorized(
                "a bearer key is needed (authorization: Bearer ...);"
                " `memory-daemon token create NAME` makes one"
            )
        key = self._access.check(secret.strip())
        if key is None:
            raise Unauthorized("this key is not known, or was revoked")
        return key
