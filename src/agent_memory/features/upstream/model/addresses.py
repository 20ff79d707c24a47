"""The address of a team's server."""

import re
from urllib.parse import urlsplit

from agent_memory.kernel.errors import ConfigError
from agent_memory.kernel.hosts import is_loopback

MAX_CHARS = 500
_FORM = "use a form like https://memory.example or https://memory.example:8443"
_HOST = re.compile(r"[A-Za-z0-9._:-]+(?:%[A-Za-z0-9._-]+)?")  # a name or an address, with a zone


def check_address(url: str) -> str:
    """Return the address in its usual form. Raises ConfigError, which never quotes a password."""
    address = url.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError as exc:
        raise ConfigError(f"that is not an address: {_FORM}") from exc
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"the address of a server begins with https://: {_FORM}")
    if not _HOST.fullmatch(host) or not address.isascii():
        raise ConfigError(f"that address has no valid host: {_FORM}")
    if "@" in parts.netloc:
        raise ConfigError("an address has no name or password: use `memory remote login`")
    if parts.path or parts.query or parts.fragment or len(address) > MAX_CHARS or port == 0:
        raise ConfigError(f"the address of a server ends with its host or port: {_FORM}")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(
            f"{host} is another machine: its address must begin with https://, or everyone on the"
            " way can read what you send"
        )
    return address
