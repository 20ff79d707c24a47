"""Addresses of a daemon: how they are written, and where a running one is found.

No key is read from a file and sent. Your own daemon is reached over its Unix socket, also where you
write one of its ports: a socket needs no key, and no other user's program can be listening there. A
key goes out only where you give one.
"""

import ipaddress
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent_memory.client.errors import ConnectionFailed, InvalidEndpoint

DEFAULT_ENDPOINT = "http://[::1]:50051"
ENVIRONMENT_VARIABLE = "MEMORY_ENDPOINT"
KEY_VARIABLE = "MEMORY_KEY"

_FORMS = "http://host:port, https://host:port, host:port or unix:/path"
_ADDRESS = re.compile(r"(?P<host>\[[^\[\]]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})/?", re.ASCII)
_IPV4_FALLBACK = "http://127.0.0.1:50051"
_SOCKET_SECONDS = 1.0
_MAX_MESSAGE_BYTES = 16 << 20  # what the daemon may send; gRPC's own limit is 4 MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where to connect. `name` is as it was written, `target` as gRPC wants it."""

    name: str
    target: str
    tls: bool = False
    loopback: bool = False
    port: int = 0

    @property
    def options(self) -> list[tuple[str, int]]:
        """Of the channel. A connection of its own, so that no other client's failure delays it."""
        return [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 1_000),
            ("grpc.max_reconnect_backoff_ms", 500),
            ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
            # A proxy meant for the web cannot reach this machine's own ports.
            ("grpc.enable_http_proxy", 0 if self.loopback else 1),
        ]


def parse(text: str) -> Endpoint:
    if text.startswith("unix:"):
        return _unix(text)
    scheme, found, address = text.partition("://")
    if not found:
        scheme, address = "http", text
    if scheme not in ("http", "https"):
        raise _invalid(text, f"the scheme {scheme!r} is unknown")
    parts = _ADDRESS.fullmatch(address)
    if parts is None:
        raise _invalid(text, "it is not a host and a port")
    host, port = parts["host"], int(parts["port"])
    if not 1 <= port <= 65535:
        raise _invalid(text, f"there is no port {port}")
    return Endpoint(
        name=text,
        target=f"dns:///{host}:{port}",
        tls=scheme == "https",
        loopback=_is_loopback(text, host),
        port=port,
    )


def choose_key(key: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the key that the caller gives, as an argument or in the environment."""
    return key if key is not None else environ.get(KEY_VARIABLE) or None


def resolve(text: str, key: str | None, environ: Mapping[str, str]) -> Endpoint:
    """Where to connect for this address: without a key, to the socket of your own daemon where the
    address is a port of it."""
    written = parse(text)
    if key is not None or written.tls or not written.loopback or not written.port:
        return written
    try:
        facts = _load_record(record_path(environ))
        if facts["grpc_port"] != written.port:
            return written
        own = parse(f"unix:{facts['grpc_socket']}")
    except (OSError, ValueError, KeyError, InvalidEndpoint):
        return written
    return own if _is_listening(own) else written


def discover(environ: Mapping[str, str], key: str | None = None) -> tuple[Endpoint, ...]:
    """Where the daemon may be, best first.

    The environment names it, or its record does; the default ports are for when there is neither.
    A record of a daemon that is gone does not lead to them: another's daemon may be there.
    """
    if named := environ.get(ENVIRONMENT_VARIABLE):
        return (resolve(named, key, environ),)
    record = record_path(environ)
    try:
        found = _read(record)
    except FileNotFoundError:
        return (parse(DEFAULT_ENDPOINT), parse(_IPV4_FALLBACK))
    except (OSError, ValueError) as exc:
        raise ConnectionFailed(f"the daemon's record {record} cannot be read: {exc}") from exc
    if not found:
        raise ConnectionFailed(f"the daemon's record {record} has no address")
    return found


def list_candidates(
    text: str | None, key: str | None, environ: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    """Return the endpoint of this address, or those where the daemon may be."""
    return discover(environ, key) if text is None else (resolve(text, key, environ),)


def record_path(environ: Mapping[str, str]) -> Path:
    """Where a running daemon says how to reach it."""
    return Path(environ.get("HOME") or "/", ".local/share/agent-memory/daemon.json")


def _read(record: Path) -> tuple[Endpoint, ...]:
    facts = _load_record(record)
    path, port = facts.get("grpc_socket"), facts.get("grpc_port")
    names = [f"unix:{path}"] if path else []
    if port:
        names += [f"http://127.0.0.1:{port}", f"http://[::1]:{port}"]
    return tuple(parse(name) for name in names)


def _load_record(record: Path) -> dict[str, Any]:
    facts = json.loads(record.read_bytes())
    if not isinstance(facts, dict):
        raise ValueError("it is not a JSON object")
    return facts


def _is_listening(endpoint: Endpoint) -> bool:
    """Whether a program listens on this Unix socket: a daemon that was killed leaves its file."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_SOCKET_SECONDS)
        try:
            probe.connect(endpoint.name.removeprefix("unix:"))
        except OSError:
            return False
    return True


def _unix(text: str) -> Endpoint:
    path = text.removeprefix("unix:")
    if path.startswith("//"):
        path = path.removeprefix("//")
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise _invalid(text, "the path of a Unix socket must be absolute")
    # gRPC reads a target as a URI, in which a blank or a percent sign means something else.
    return Endpoint(name=text, target=f"unix:{quote(path)}", loopback=True)


def _is_loopback(text: str, host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError as exc:
        if host.startswith("["):
            raise _invalid(text, f"{host} is not an IPv6 address") from exc
        return False


def _invalid(text: str, reason: str) -> InvalidEndpoint:
    return InvalidEndpoint(f"{text!r} is not an endpoint: {reason}; write {_FORMS}")
