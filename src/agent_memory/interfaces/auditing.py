"""Enter into the audit log of a team what callers did: never what it said."""

import asyncio
from dataclasses import dataclass

from agent_memory.features.access.model.audit import AuditEntry
from agent_memory.features.access.services.audit import AuditLog
from agent_memory.interfaces.permissions import MANAGE, Permission
from agent_memory.kernel.access import Principal

MAX_TARGET = 512  # characters
FORBIDDEN = 403


@dataclass(frozen=True, slots=True)
class Auditor:
    """Enters requests. Reads are left out, unless `reads`."""

    log: AuditLog
    reads: bool = False

    async def note(
        self,
        key: str,
        caller: Principal,
        interface: str,
        method: str,
        target: str,
        status: int,
        *,
        needed: Permission,
        writes: bool,
    ) -> None:
        """Enter an answered request. What an admin did, or what was refused, is never dropped: wait
        until it is stored."""
        must = needed == MANAGE or status == FORBIDDEN
        if must or writes or self.reads:
            await self._enter(key, caller, interface, method, target, status, must=must)

    async def note_refusal(
        self, key: str, caller: Principal, interface: str, method: str, target: str, status: int
    ) -> None:
        """Enter a request that was not answered. Those without a known key are entered together:
        there may be many."""
        await self._enter(key, caller, interface, method, target, status, must=bool(key))

    async def _enter(
        self,
        key: str,
        caller: Principal,
        interface: str,
        method: str,
        target: str,
        status: int,
        *,
        must: bool,
    ) -> None:
        entry = AuditEntry(
            at_ms=self.log.clock.now(),
            person=caller.person,
            key=key,
            interface=interface,
            method=method,
            target=target[:MAX_TARGET],
            status=status,
        )
        stored = self.log.enter(entry, must=must)
        if stored is not None:
            await asyncio.shield(asyncio.wrap_future(stored))
