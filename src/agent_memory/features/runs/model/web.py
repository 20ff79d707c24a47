"""Pages of the web: which addresses may be asked, and what came of it."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import quote, urlsplit

from agent_memory.kernel.errors import ToolFailed

MAX_URL_CHARS = 2_000
_PORTS = {"http": 80, "https": 443}
_FIRST_PORT = 1024  # below it are services that are no web pages
# Services that take what a browser sends for commands of their own.
_OTHER_PORTS = frozenset(
    {1719, 1720, 1723, 2049, 3306, 3659, 4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566}
    | {*range(6665, 6670), 6679, 6697, 10080, 11211}
)
_HOST = re.compile(r"[0-9A-Za-z._-]{1,253}")
_GLOBAL_6 = ip_network("2000::/3")
# What the standard library of some versions holds for global, and what holds an older address that
# a gateway would pass on to: relays, translated and tunnelled ones.
_NOT_GLOBAL = tuple(
    ip_network(each)
    for each in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a URL asks for, and of whom. `listed`: it is one of the private hosts that may be."""

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
    """`url` is where it was found after all redirects; `kind` its media type."""

    url: str
    kind: str
    text: str
    whole: bool = True

    @property
    def is_html(self) -> bool:
        return self.kind in ("text/html", "application/xhtml+xml")


def parse_target(url: str, private: Collection[str] = ()) -> Target:
    """Raises ToolFailed, with what is wrong."""
    url = url.strip()
    if len(url) > MAX_URL_CHARS:
        raise ToolFailed(f"the URL has more than {MAX_URL_CHARS:,} characters")
    if not url.isprintable() or " " in url or "\\" in url:
        raise ToolFailed("the URL holds blanks, backslashes or signs that cannot be printed")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise ToolFailed(f"the URL cannot be read: {exc}") from exc
    if parts.scheme not in _PORTS:
        raise ToolFailed("the URL must begin with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise ToolFailed("the URL must not hold a user or a password")
    host = _host(parts.hostname or "")
    port = _PORTS[parts.scheme] if port is None else port
    listed = is_listed(host, port, private)
    if not listed and (port < _FIRST_PORT or port in _OTHER_PORTS) and port not in (80, 443):
        raise ToolFailed(f"port {port} is not one of web pages")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?[]")
    return Target(
        scheme=parts.scheme,
        host=host,
        port=port,
        path=f"{path}?{query}" if query else path,
        listed=listed,
    )


def is_listed(host: str, port: int, private: Collection[str]) -> bool:
    """Whether someone has allowed it, by its name alone or with its port."""
    names = {each.strip().lower() for each in private}
    bracketed = f"[{host}]" if ":" in host else host
    return not names.isdisjoint({host, bracketed, f"{bracketed}:{port}"})


def is_public(address: str) -> bool:
    """Whether it is a machine somewhere on the internet, and surely not one of ours."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return _is_public(found.ipv4_mapped)
        return found in _GLOBAL_6 and _is_public(found)
    return _is_public(found)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in each for each in _NOT_GLOBAL if each.version == address.version)
    )


def _host(name: str) -> str:
    host = name.rstrip(".").lower()
    if ":" in host:
        if "%" in host:
            raise ToolFailed("the URL's host is an address of one link only")
        try:
            return str(IPv6Address(host))
        except ValueError as exc:
            raise ToolFailed("the URL's host is no address") from exc
    try:
        host = host if host.isascii() else host.encode("idna").decode()
    except UnicodeError as exc:
        raise ToolFailed("the URL's host is no name") from exc
    if not _HOST.fullmatch(host):
        raise ToolFailed("the URL names no host" if not host else "the URL's host is no name")
    return host
