"""Decide who may call over TCP: with a bearer key, or as the daemon's own user."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from agent_memory.features.access.ports import SocketOwners
from agent_memory.interfaces import permissions
from agent_memory.interfaces.auditing import Auditor
from agent_memory.interfaces.guard import BearerGuard, Identity
from agent_memory.interfaces.permissions import Permission
from agent_memory.kernel.access import NOBODY, OWNER, Address, Principal
from agent_memory.kernel.errors import Forbidden, Unauthorized

_TCP_INFO = getattr(socket, "TCP_INFO", None)
_ESTABLISHED = 1


@dataclass(slots=True)
class CallOrigin:
    """Where a connection comes from: the Unix socket, which only its owner can open, or both ends
    over TCP, if they are known.

    `uid` is the user of the program at the other end, once that is proven. It lives as long as the
    connection does, and so does this. It is admitted once one of its calls has been.
    """

    uses_socket: bool = False
    is_admitted: bool = False
    peer: Address | None = None
    own: Address | None = None
    is_established: Callable[[], bool] = lambda: False
    uid: int | None = None

    @classmethod
    def of_transport(cls, transport: asyncio.BaseTransport) -> "CallOrigin":
        connection = transport.get_extra_info("socket")
        if connection.family == socket.AF_UNIX:
            return cls(uses_socket=True, is_admitted=True)
        ends = (transport.get_extra_info(name) for name in ("peername", "sockname"))
        peer, own = (None if end is None else Address.parse(end[0], end[1]) for end in ends)
        return cls(peer=peer, own=own, is_established=partial(_is_established, transport))


def _is_established(transport: asyncio.BaseTransport) -> bool:
    """Ask the kernel for the state of our end: the event loop learns of a reset later."""
    connection: socket.socket = transport.get_extra_info("socket")
    try:
        return (
            _TCP_INFO is not None
            and not transport.is_closing()
            and connection.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0] == _ESTABLISHED
        )
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcCaller:
    """The `authorization` of a call, and where it comes from."""

    authorization: str | None
    origin: CallOrigin


Guard = Callable[[GrpcCaller], object]
"""Raise Unauthorized unless this caller may make the call."""


class KeyGuard:
    """A guard that asks every caller for a key."""

    def __init__(self, keys: BearerGuard) -> None:
        self._keys = keys

    def __call__(self, caller: GrpcCaller) -> None:
        self._keys(caller.authorization)


class TeamGuard:
    """A guard of a team server: every caller has a principal, whose rights are checked.

    Only the Unix socket needs no key: it is the owner's.
    """

    def __init__(self, keys: BearerGuard, auditor: Auditor) -> None:
        self._keys = keys
        self.auditor = auditor

    def __call__(self, _caller: GrpcCaller) -> None:
        raise Unauthorized("a team server admits each method by itself")

    async def admit(self, caller: GrpcCaller, method: str) -> tuple[Identity, Permission]:
        """Return who calls, and what the call needs. Raises Unauthorized and Forbidden."""
        if caller.origin.uses_socket:
            return Identity(name="socket", principal=OWNER), permissions.MANAGE
        try:
            identity = await self._keys.identify(caller.authorization)
        except Unauthorized:
            if caller.authorization is not None:
                await self._note_refusal("", NOBODY, method, HTTPStatus.UNAUTHORIZED)
            raise
        try:
            needed = permissions.check_grpc(identity.principal, method)
        except Forbidden:
            await self._note_refusal(
                identity.name, identity.principal, method, HTTPStatus.FORBIDDEN
            )
            raise
        return identity, needed

    def check_valid(self, identity: Identity) -> None:
        """Raise Unauthorized once the key of a call is revoked, or its token has ended."""
        self._keys.check_valid(identity)

    async def _note_refusal(
        self, name: str, principal: Principal, method: str, status: HTTPStatus
    ) -> None:
        await self.auditor.note_refusal(name, principal, "grpc", method, "", status)


class SameUserGuard:
    """A guard that admits programs of the daemon's own user and asks all others for a key.

    The user is looked up by the addresses of the connection, once. Another user can reset theirs,
    and a program of the owner can get its port before the lookup. So a lookup counts only if our
    end is still established after it: then the other end is the one that was found.
    """

    def __init__(self, keys: BearerGuard, owners: SocketOwners | None, uid: int) -> None:
        self._keys = keys
        self._owners = owners
        self._uid = uid

    def __call__(self, caller: GrpcCaller) -> None:
        # Check every key that is sent, even by the same user: a revoked one must not seem to work.
        if caller.authorization is not None:
            self._keys(caller.authorization)
            return
        origin = caller.origin
        if origin.uid is None:
            origin.uid = self._find_uid(origin)
        if origin.uid != self._uid:
            raise Unauthorized(
                "a bearer key is needed, because this connection is not known to belong to the"
                " daemon's own user: send `authorization: Bearer KEY` with the key in the file"
                " `key` of the data folder, or with one from `memory-daemon token create NAME`;"
                " the daemon's Unix socket needs none"
            )

    def _find_uid(self, origin: CallOrigin) -> int | None:
        if self._owners is None or origin.peer is None or origin.own is None:
            return None
        owner = self._owners.find_owner(origin.peer, origin.own)
        return None if owner is None or not origin.is_established() else owner.uid
