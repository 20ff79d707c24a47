"""Sockets to listen on: loopback by default, and never open to other machines by accident."""

import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

from agent_memory.kernel.errors import ConfigError, ListenFailed

LOOPBACK = ("127.0.0.1", "::1")
BACKLOG = 2048
FREE_PORT_TRIES = 20
# Ask a silent client after two minutes, and give up after another; not every system has these.
_KEEPALIVE = {"TCP_KEEPIDLE": 120, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def resolve_hosts(setting: str, host: str, *, refusal: str | None) -> tuple[str, ...]:
    """Return the addresses of a host setting. With a `refusal`, only loopback is allowed."""
    if host in ("localhost", "loopback"):
        return LOOPBACK
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ConfigError(
            f"{setting} is {host!r}: give an IP address, or `localhost` for loopback"
        ) from None
    if refusal is not None and not address.is_loopback:
        raise ConfigError(f"{setting} is {host}, which other machines can reach: {refusal}")
    return (str(address),)


def bind(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """Listen on each address, all on one port; 0 takes a port that is free on all of them.

    A machine without IPv6 listens on IPv4 only.
    """
    for _ in range(FREE_PORT_TRIES if port == 0 else 1):
        bound: list[socket.socket] = []
        try:
            for address in addresses:
                shared = bound[0].getsockname()[1] if bound else port
                try:
                    bound.append(_listener(address, shared))
                except OSError as exc:
                    if bound and ":" in address and exc.errno in NO_SUCH_ADDRESS:
                        continue
                    raise ListenFailed(
                        f"cannot listen on {format_address(address, shared)}: {exc.strerror}"
                    ) from exc
            return bound
        except ListenFailed as exc:
            failed = exc
            for listener in bound:
                listener.close()
    raise failed


def bind_path(path: Path) -> socket.socket:
    """Listen on a Unix socket that only its owner can open. Its folder must be private too."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        raise ListenFailed(f"cannot listen on {path}: {exc.strerror}") from exc
    return listener


def load_tls(
    certificate: str, key: str, section: str = "http", protocol: str = "http/1.1"
) -> ssl.SSLContext | None:
    """Load the files of the TLS settings of a section; return None if both are empty. `protocol`
    is the name that clients ask for (ALPN)."""
    if not certificate and not key:
        return None
    files = {f"{section}.tls_cert": certificate, f"{section}.tls_key": key}
    for name, path in files.items():
        if not path:
            raise ConfigError(f"{name} is missing: TLS needs both {' and '.join(files)}")
        try:
            with key_file(path).open("rb"):
                pass
        except OSError as exc:
            raise ConfigError(f"{name}: cannot read {path}: {exc.strerror}") from exc
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    try:
        # With no password set, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(key_file(certificate), key_file(key), password="")
    except ssl.SSLError as exc:
        raise ConfigError(
            f"{section}.tls_cert {certificate} and {section}.tls_key {key} cannot be used:"
            f" {exc.reason or exc}; they must be PEM, belong together, and have no password"
        ) from exc
    return context


def key_file(path: str) -> Path:
    """Return an absolute path: the daemon has no folder that a relative one could mean."""
    file = Path(path).expanduser()
    if not file.is_absolute():
        raise ConfigError(f"the TLS file {path!r} is a relative path: use an absolute one")
    return file


def _listener(address: str, port: int) -> socket.socket:
    listener = socket.socket(
        socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM
    )
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        # Connections inherit it. Without, one whose client has vanished would stay for good.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            if (code := getattr(socket, option, None)) is not None:
                listener.setsockopt(socket.IPPROTO_TCP, code, value)
        # Right away: two processes can bind the same port until one of them listens.
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def format_address(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
