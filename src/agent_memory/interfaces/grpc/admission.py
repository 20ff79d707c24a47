"""Decide who may call over TCP: with a bearer key, or as the daemon's own user."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from http import HTTPStatus
from urllib.parse import unquote

from agent_memory.features.operations.ports import SocketOwners
from agent_memory.interfaces import permissions
from agent_memory.interfaces.auditing import Auditor
from agent_memory.interfaces.guard import BearerGuard
from agent_memory.interfaces.permissions import Permission
from agent_memory.kernel.access import NOBODY, OWNER, Address, Principal, SocketOwner
from agent_memory.kernel.errors import Forbidden, Unauthorized

_UNIX = "unix:"
_REMEMBERED = 1024  # connections whose later calls need no confirmation


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcCaller:
    """The `authorization` of a call, and its peer as gRPC names it."""

    authorization: str | None
    peer: str

    @property
    def uses_socket(self) -> bool:
        """Return whether the call came over the Unix socket, which only its owner can open."""
        return self.peer.startswith(_UNIX)


Confirm = Callable[[], None]
Guard = Callable[[GrpcCaller], Confirm | None]
"""Raise Unauthorized unless this caller may make the call.

If it returns a function, the decision is about the connection that is open now, and holds only if
the call came on that connection: call the function once that is proven.
"""


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

    async def admit(self, caller: GrpcCaller, method: str) -> tuple[str, Principal, Permission]:
        """Return the name of the caller's key, who they are, and what the call needs.

        Raises Unauthorized and Forbidden.
        """
        if caller.uses_socket:
            return "socket", OWNER, permissions.MANAGE
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
        return identity.name, identity.principal, needed

    async def _note_refusal(
        self, name: str, principal: Principal, method: str, status: HTTPStatus
    ) -> None:
        await self.auditor.note_refusal(name, principal, "grpc", method, "", status)


class SameUserGuard:
    """A guard that admits programs of the daemon's own user and asks all others for a key.

    The user is looked up for every call: a cached decision could outlive its connection, and the
    next program to get the port would inherit it. Calls of one connection share a lookup only if
    they had all arrived before it: those that the event loop was about to hand over.

    A call can also outlive its connection: another user sends it and resets the connection, and the
    owner's next connection gets that port before the call is checked. So the first call of each
    connection, identified by the inode of its socket, must be confirmed. Later calls need not be:
    calls are checked in the order of arrival, so one that came before this connection would have
    been checked before its first call.
    """

    def __init__(
        self,
        keys: BearerGuard,
        owners: SocketOwners | None,
        uid: int,
        defer: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """`defer` runs a function after the checks of the calls that have arrived by now, and
        before those of later ones. Without it no call shares a lookup."""
        self._keys = keys
        self._owners = owners
        self._uid = uid
        self._defer = defer
        self._shared: dict[str, SocketOwner | None] = {}  # by peer
        self._own: list[Address] = []
        self._confirmed: OrderedDict[str, int] = OrderedDict()  # by peer, the inode

    def serve_at(self, host: str, port: int) -> None:
        """Add an address on which the server listens."""
        self._own.append(Address.parse(host, port))

    def __call__(self, caller: GrpcCaller) -> Confirm | None:
        # Check every key that is sent, even by the same user: a revoked one must not seem to work.
        if caller.authorization is not None:
            self._keys(caller.authorization)
            return None
        owner = self._look_up(caller.peer)
        if owner is None or owner.uid != self._uid:
            raise Unauthorized(
                "a bearer key is needed, because this connection is not known to belong to the"
                " daemon's own user: send `authorization: Bearer KEY` with the key in the file"
                " `key` of the data folder, or with one from `memory-daemon token create NAME`;"
                " the daemon's Unix socket needs none"
            )
        if self._confirmed.get(caller.peer) == owner.inode:
            return None
        return partial(self._remember, caller.peer, owner.inode)

    def _remember(self, peer: str, inode: int) -> None:
        self._confirmed[peer] = inode
        self._confirmed.move_to_end(peer)
        if len(self._confirmed) > _REMEMBERED:
            self._confirmed.popitem(last=False)

    def _look_up(self, peer: str) -> SocketOwner | None:
        if peer in self._shared:
            return self._shared[peer]
        if self._defer is None:
            return self._owner(peer)
        if not self._shared:
            self._defer(self._shared.clear)  # before the lookup: a later call must not share it
        owner = self._shared[peer] = self._owner(peer)
        return owner

    def _owner(self, name: str) -> SocketOwner | None:
        peer = parse_peer(name)
        if self._owners is None or peer is None:
            return None
        for own in self._own:
            if own.host.version == peer.host.version:
                return self._owners.find_owner(peer, own)
        return None


@lru_cache(_REMEMBERED)
def parse_peer(name: str) -> Address | None:
    """Return the address in `ipv4:127.0.0.1:5` or `ipv6:%5B::1%5D:5`, or None."""
    kind, _, rest = name.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not (port.isascii() and port.isdigit()):
        return None
    try:
        return Address.parse(host.removeprefix("[").removesuffix("]"), int(port))
    except ValueError:
        return None
