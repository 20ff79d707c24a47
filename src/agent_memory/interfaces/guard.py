"""Bearer keys at the edge: one check for gRPC and HTTP."""

from agent_memory.domain.errors import Unauthorized
from agent_memory.interfaces.bridge import Bridge
from agent_memory.services.access import Access


class BearerGuard:
    def __init__(self, access: Access, bridge: Bridge) -> None:
        self._access = access
        self._bridge = bridge

    async def __call__(self, authorization: str | None) -> None:
        """Raises Unauthorized unless this is `Bearer` and a key that is known."""
        scheme, _, secret = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Unauthorized(
                "a bearer key is needed (authorization: Bearer ...);"
                " `memory-daemon token create NAME` makes one"
            )
        # In a thread: reading the store may wait for a flush.
        if await self._bridge.run(lambda: self._access.check(secret.strip())) is None:
            raise Unauthorized("this key is not known, or was revoked")
