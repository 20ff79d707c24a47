"""The address of a team's server."""

from urllib.parse import urlsplit

from agent_memory.kernel.errors import ConfigError
from agent_memory.kernel.hosts import is_loopback

MAX_CHARS = 500


def check_address(url: str) -> str:
    """Return the address in its usual form. Raises ConfigError, which never quotes a password."""
    address = url.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError as exc:
        raise ConfigError("that is not an address: use a form like https://memory.example") from exc
    if parts.scheme not in ("http", "https") or not host or not address.isprintable():
        raise ConfigError("the address of a server begins with https://")
    if "@" in parts.netloc:
        raise ConfigError("an address has no name or password: use `memory remote login`")
    if parts.query or parts.fragment or len(address) > MAX_CHARS or port == 0:
        raise ConfigError("the address of a server is its scheme, host, port and path")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(
            f"{host} is another machine: its address must begin with https://, or everyone on the"
            " way can read what you send"
        )
    return address
