"""Hosts and origins: by which name this daemon may be asked, and by which web pages.

A page of anyone's that the user looks at can send requests to this machine. The name that it asked
for tells on it where the page made its own name lead here, and its origin tells where it is from.
"""

from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": "80", "https": "443"}
SCHEMES = {"ws": "http", "wss": "https"}


def parse_host(header: bytes) -> str | None:
    """The name in a Host header, in lower case and without its port. None: it is none."""
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        name, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            return None
        port = rest[1:]
    else:
        name, _, port = text.partition(":")
    return name if name and (not port or port.isdecimal()) else None


def build_origin(scheme: str, host: bytes) -> str:
    """The origin that a request was sent to."""
    return normalize(f"{SCHEMES.get(scheme, scheme)}://{host.decode('latin-1')}")


def normalize(origin: str) -> str:
    """In lower case, without what goes without saying."""
    found = origin.strip().lower().removesuffix("/")
    scheme, _, rest = found.partition("://")
    return f"{scheme}://{rest.removesuffix(':' + DEFAULT_PORTS.get(scheme, '-'))}"


def is_origin(text: str) -> bool:
    """Whether this is what a browser would call itself by: a scheme and a host, perhaps a port."""
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        return False
    return named and parts.scheme in DEFAULT_PORTS and not parts.path.strip("/") and not parts.query
