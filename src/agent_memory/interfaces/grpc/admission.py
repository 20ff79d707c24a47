"""Decide who may call over TCP: with a bearer key, or as the daemon's own user."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from agent_memory.domain.access import Address
from agent_memory.domain.errors import Unauthorized
from agent_memory.domain.ports import SocketOwners
from agent_memory.interfaces.guard import BearerGuard

_UNIX = "unix:"
_REMEMBERED = 1024  # peers as gRPC writes them: a call after the first need not be parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What a call says of itself (`authorization`), and what gRPC says of its connection."""

    authorization: str | None
    peer: str

    @property
    def uses_socket(self) -> bool:
        """Whether it came over the Unix socket, which only its owner can open."""
        return self.peer.startswith(_UNIX)


Guard = Callable[[Caller], object]
"""Raise Unauthorized unless this caller may make the call."""


class KeyGuard:
    """Ask every caller for a key."""

    def __init__(self, keys: BearerGuard) -> None:
        self._keys = keys

    def __call__(self, caller: Caller) -> None:
        self._keys(caller.authorization)


class SameUserGuard:
    """Admit programs of the daemon's own user; ask all others for a key.

    The user is looked up for every call. A verdict that was kept could outlive its connection, and
    the next program to get the port would inherit it.
    """

    def __init__(self, keys: BearerGuard, owners: SocketOwners | None, uid: int) -> None:
        self._keys = keys
        self._owners = owners
        self._uid = uid
        self._own: list[Address] = []

    def serve_at(self, host: str, port: int) -> None:
        """Learn where the server listens."""
        self._own.append(Address.parse(host, port))

    def __call__(self, caller: Caller) -> None:
        # A key that is shown is checked, whoever shows it: a revoked one must not seem to work.
        if caller.authorization is not None:
            self._keys(caller.authorization)
        elif not self._is_same_user(caller.peer):
            raise Unauthorized(
                "a bearer key is needed, because this connection cannot be shown to be of the"
                " daemon's own user: send `authorization: Bearer KEY` with the key in the file"
                " `key` of the data folder, or with one that `memory-daemon token create NAME`"
                " makes; the daemon's Unix socket needs none"
            )

    def _is_same_user(self, name: str) -> bool:
        peer = parse_peer(name)
        if self._owners is None or peer is None:
            return False
        return any(
            self._owners.uid_of(peer, own) == self._uid
            for own in self._own
            if own.host.version == peer.host.version
        )


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
