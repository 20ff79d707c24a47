"""Decide who may call over TCP: with a bearer key, or as the daemon's own user."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from urllib.parse import unquote

from agent_memory.features.operations.ports import SocketOwners
from agent_memory.interfaces.guard import BearerGuard
from agent_memory.kernel.access import Address, SocketOwner
from agent_memory.kernel.errors import Unauthorized

_UNIX = "unix:"
_REMEMBERED = 1024  # connections, whose further calls need less


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcCaller:
    """What a call says of itself (`authorization`), and what gRPC says of its connection."""

    authorization: str | None
    peer: str

    @property
    def uses_socket(self) -> bool:
        """Whether it came over the Unix socket, which only its owner can open."""
        return self.peer.startswith(_UNIX)


Confirm = Callable[[], None]
Guard = Callable[[GrpcCaller], Confirm | None]
"""Raise Unauthorized unless this caller may make the call.

Where it gives something to call, the verdict is about the connection that is open now, and stands
only if that is still the one on which the call came: call it once that is shown.
"""


class KeyGuard:
    """Ask every caller for a key."""

    def __init__(self, keys: BearerGuard) -> None:
        self._keys = keys

    def __call__(self, caller: GrpcCaller) -> None:
        self._keys(caller.authorization)


class SameUserGuard:
    """Admit programs of the daemon's own user; ask all others for a key.

    The user is looked up for every call: a verdict that was kept could outlive its connection, and
    the next program to get the port would inherit it.

    The other way round, a call can outlive its connection: sent, received and then reset by another
    user, whose port the owner's next connection gets before the call is looked at. So the first
    call of each connection, which its socket's inode tells, is to be confirmed. Later ones need not
    be: calls are looked at in the order in which they came, and one that came before this
    connection would have been looked at before its first.
    """

    def __init__(self, keys: BearerGuard, owners: SocketOwners | None, uid: int) -> None:
        self._keys = keys
        self._owners = owners
        self._uid = uid
        self._own: list[Address] = []
        self._confirmed: OrderedDict[str, int] = OrderedDict()  # by peer, the inode

    def serve_at(self, host: str, port: int) -> None:
        """Learn where the server listens."""
        self._own.append(Address.parse(host, port))

    def __call__(self, caller: GrpcCaller) -> Confirm | None:
        # A key that is shown is checked, whoever shows it: a revoked one must not seem to work.
        if caller.authorization is not None:
            self._keys(caller.authorization)
            return None
        owner = self._owner(caller.peer)
        if owner is None or owner.uid != self._uid:
            raise Unauthorized(
                "a bearer key is needed, because this connection cannot be shown to be of the"
                " daemon's own user: send `authorization: Bearer KEY` with the key in the file"
                " `key` of the data folder, or with one that `memory-daemon token create NAME`"
                " makes; the daemon's Unix socket needs none"
            )
        if self._confirmed.get(caller.peer) == owner.inode:
            return None
        return partial(self._remember, caller.peer, owner.inode)

    def _remember(self, peer: str, inode: int) -> None:
        self._confirmed[peer] = inode
        self._confirmed.move_to_end(peer)
        if len(self._confirmed) > _REMEMBERED:
            self._confirmed.popitem(last=False)

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
    """The address in `ipv4:127.0.0.1:5` or `ipv6:%5B::1%5D:5`; None where there is none."""
    kind, _, rest = name.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not (port.isascii() and port.isdigit()):
        return None
    try:
        return Address.parse(host.removeprefix("[").removesuffix("]"), int(port))
    except ValueError:
        return None
