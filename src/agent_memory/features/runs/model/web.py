"""Web pages, and the addresses that may be fetched."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import quote, urlsplit

from agent_memory.kernel.errors import ToolFailed

MAX_URL_CHARS = 2_000
_PORTS = {"http": 80, "https": 443}
_FIRST_PORT = 1024  # lower ports belong to other services
# Services that could take an HTTP request for their own commands.
_OTHER_PORTS = frozenset(
    {1719, 1720, 1723, 2049, 3306, 3659, 4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566}
    | {*range(6665, 6670), 6679, 6697, 10080, 11211}
)
_HOST = re.compile(r"[0-9A-Za-z._-]{1,253}")
_GLOBAL_6 = ip_network("2000::/3")
# Networks that some versions of the standard library call global, and IPv6 addresses that contain
# an IPv4 address to which a gateway would forward: relays, translation and tunnels.
_NOT_GLOBAL = tuple(
    ip_network(block)
    for block in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
        "2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The parts of a URL. `listed` is True for a private host that the settings allow."""

    scheme: str
    host: str
    port: int
    path: str  # with the query
    listed: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """A fetched page. `url` is its address after all redirects, `kind` its media type."""

    url: str
    kind: str
    text: str
    whole: bool = True

    @property
    def is_html(self) -> bool:
        return self.kind in ("text/html", "application/xhtml+xml")


def parse_target(url: str, private: Collection[str] = ()) -> Target:
    """Parse and check a URL. Raises ToolFailed with the reason."""
    url = url.strip()
    if len(url) > MAX_URL_CHARS:
        raise ToolFailed(f"the URL has more than {MAX_URL_CHARS:,} characters")
    if not url.isprintable() or " " in url or "\\" in url:
        raise ToolFailed("the URL contains blanks, backslashes or unprintable characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise ToolFailed(f"the URL is invalid: {exc}") from exc
    if parts.scheme not in _PORTS:
        raise ToolFailed("the URL must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise ToolFailed("the URL must not contain a user or a password")
    host = _host(parts.hostname or "")
    port = _PORTS[parts.scheme] if port is None else port
    names = {name.strip().lower() for name in private}
    bracketed = f"[{host}]" if ":" in host else host
    listed = not names.isdisjoint({host, bracketed, f"{bracketed}:{port}"})
    if not listed and (port < _FIRST_PORT or port in _OTHER_PORTS) and port not in (80, 443):
        raise ToolFailed(f"port {port} is not a port for web pages")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]")
    return Target(
        scheme=parts.scheme,
        host=host,
        port=port,
        path=f"{path}?{query}" if query else path,
        listed=listed,
    )


def is_public(address: str) -> bool:
    """Return whether an address is on the public internet."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return _is_public(parsed.ipv4_mapped)
        return parsed in _GLOBAL_6 and _is_public(parsed)
    return _is_public(parsed)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in net for net in _NOT_GLOBAL if net.version == address.version)
    )


def _host(name: str) -> str:
    host = name.rstrip(".").lower()
    if ":" in host:
        if "%" in host:
            raise ToolFailed("the host of the URL is a link-local address")
        try:
            return str(IPv6Address(host))
        except ValueError as exc:
            raise ToolFailed("the host of the URL is not a valid address") from exc
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as exc:
        raise ToolFailed("the host of the URL is not a valid name") from exc
    if not _HOST.fullmatch(host):
        raise ToolFailed(
            "the URL has no host" if not host else "the host of the URL is not a valid name"
        )
    return host
