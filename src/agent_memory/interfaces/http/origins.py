"""Hosts and origins: the names of this daemon, and the web pages that may call it.

Any page the user visits can send requests to this machine. Its Origin says where it comes from. Its
Host gives it away if the page made its own name resolve to this machine (DNS rebinding).
"""

from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": "80", "https": "443"}
SCHEMES = {"ws": "http", "wss": "https"}


def parse_host(header: bytes) -> str | None:
    """Return the name in a Host header, lower-case and without port, or None if it is invalid."""
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
    """Return the origin that a request was sent to."""
    return normalize(f"{SCHEMES.get(scheme, scheme)}://{host.decode('latin-1')}")


def normalize(origin: str) -> str:
    """Return an origin in lower case, without a final slash or a default port."""
    scheme, _, rest = origin.strip().lower().removesuffix("/").partition("://")
    return f"{scheme}://{rest.removesuffix(':' + DEFAULT_PORTS.get(scheme, '-'))}"


def is_origin(text: str) -> bool:
    """Return whether the text is an origin as browsers write it: scheme, host, perhaps a port."""
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        return False
    return named and parts.scheme in DEFAULT_PORTS and not parts.path.strip("/") and not parts.query
