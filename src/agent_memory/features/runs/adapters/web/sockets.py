"""A network backend for httpcore that checks addresses.

Each connection resolves the name once, checks the addresses, and connects to one of them. So a name
that resolves differently a moment later (DNS rebinding) does no harm.
"""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from typing import Any

import httpcore

from agent_memory.features.runs.model import web
from agent_memory.features.runs.model.web import Target
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled, ToolFailed

Resolver = Callable[[str, int], Sequence[str]]
Address = tuple[str, int]
Route = Callable[[str, int], Address]
MAX_ADDRESSES = 3  # tried at most
MAX_LOOKUPS = 16  # at once: a slow lookup cannot be cancelled
CONNECT_SECONDS = 10.0
_lookups = threading.BoundedSemaphore(MAX_LOOKUPS)


def resolve_host(host: str, port: int) -> list[str]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


def direct_route(address: str, port: int) -> Address:
    return address, port


class Deadline:
    """The total time limit of a request, and its cancellation."""

    def __init__(self, seconds: float, cancel: CancelToken) -> None:
        self._until = time.monotonic() + seconds
        self._cancel_token = cancel
        self._cut = ExitStack()

    def remaining(self) -> float:
        """Return the seconds left. Raises Cancelled and TimeoutError."""
        self._cancel_token.check()
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def on_cancel(self, call: Callable[[], None]) -> None:
        """Call this when the request is cancelled."""
        self._cut.enter_context(self._cancel_token.on_cancel(call))

    def wait(self, event: threading.Event) -> None:
        with self._cancel_token.on_cancel(event.set):
            event.wait(self.remaining())
        self.remaining()

    def close(self) -> None:
        self._cut.close()


class CheckedNetwork(httpcore.NetworkBackend):
    """Connects to one target only. Raises ToolFailed if it is not allowed."""

    def __init__(
        self, target: Target, deadline: Deadline, resolver: Resolver, route: Route
    ) -> None:
        self._target = target
        self._deadline = deadline
        self._resolver = resolver
        self._route = route

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002  the deadline limits it
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        if (host, port) != (self._target.host, self._target.port):
            raise ToolFailed(f"{host}:{port} is not the host of the request")
        addresses = self._resolve()
        if not self._target.listed and not all(map(web.is_public, addresses)):
            raise ToolFailed(
                f"{host} is on this machine or in a private network: web_fetch reads public hosts"
                " only, and those in the setting runs.web_private"
            )
        failure: OSError | None = None
        for address in addresses[:MAX_ADDRESSES]:
            try:
                return self._connect(address)
            except OSError as exc:
                failure = exc
        reason = getattr(failure, "strerror", None) or "no address answers"
        raise httpcore.ConnectError(reason) from failure

    def _connect(self, address: str) -> "_CheckedStream":
        endpoint = self._route(address, self._target.port)
        family = socket.AF_INET6 if ":" in endpoint[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(min(self._deadline.remaining(), CONNECT_SECONDS))
            self._deadline.on_cancel(lambda: _shut_down(sock))
            sock.connect(endpoint)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            self._deadline.remaining()
            raise
        return _CheckedStream(sock, self._deadline)

    def _resolve(self) -> list[str]:
        host = self._target.host
        with contextlib.suppress(ValueError):
            return [str(ip_address(host))]
        if not _lookups.acquire(blocking=False):
            raise ToolFailed("too many host names are being resolved: try again")
        done = threading.Event()
        addresses: list[str] = []
        failed: list[OSError] = []

        def look_up() -> None:
            try:
                addresses.extend(self._resolver(host, self._target.port))
            except (OSError, UnicodeError) as exc:
                failed.append(exc if isinstance(exc, OSError) else OSError(str(exc)))
            finally:
                _lookups.release()
                done.set()

        threading.Thread(target=look_up, name="look-up", daemon=True).start()
        self._deadline.wait(done)
        if failed or not addresses:
            raise ToolFailed(f"there is no host {host}")
        return addresses


class _CheckedStream(httpcore.NetworkStream):
    """A stream whose steps share the deadline of the request."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        with self._step(httpcore.ReadTimeout, httpcore.ReadError):
            return self._sock.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        with self._step(httpcore.WriteTimeout, httpcore.WriteError):
            self._sock.sendall(buffer)

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        with self._step(httpcore.ConnectTimeout, httpcore.ConnectError):
            sock = ssl_context.wrap_socket(
                self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
            )
            stream = _CheckedStream(sock, self._deadline)
            self._deadline.on_cancel(lambda: _shut_down(sock))
            try:
                sock.settimeout(self._deadline.remaining())
                sock.do_handshake()
            except BaseException:
                sock.close()
                raise
        return stream

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object":
            return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
        return self._sock if info == "socket" else None

    @contextmanager
    def _step(
        self, late: type[httpcore.TimeoutException], failed: type[httpcore.NetworkError]
    ) -> Iterator[None]:
        try:
            self._sock.settimeout(self._deadline.remaining())
            yield
        except TimeoutError as exc:
            raise late from exc
        except Cancelled:
            raise
        except OSError as exc:
            raise failed(exc.strerror or str(exc)) from exc


def _shut_down(sock: socket.socket) -> None:
    """Wake the threads that wait for the socket. They close it themselves."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # the shutdown of TLS would wait
