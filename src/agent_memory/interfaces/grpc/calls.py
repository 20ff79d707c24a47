"""What a call asks for, and the methods that answer it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

from agent_memory.interfaces.grpc.admission import CallOrigin
from agent_memory.interfaces.grpc.messages import ENCODINGS, IDENTITY
from agent_memory.interfaces.grpc.statuses import Status, StatusError

CONTENT_TYPE = b"application/grpc"
_CONTENT_TYPES = (CONTENT_TYPE + b"+proto", CONTENT_TYPE + b";")  # or these at its beginning

Headers: TypeAlias = list[tuple[bytes, bytes]]

# Names and values are checked between line ends. With a line end of its own, a value could be taken
# for two where it is logged or passed on.
_IN_NAMES = b"abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-:\n"
_REQUIRED = frozenset([b":method", b":scheme", b":path"])
_OF_CONNECTIONS = frozenset(
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"]
)

_TIME_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MAX_TIME_DIGITS = 8


class NotGrpc(Exception):
    """The request is HTTP, but not a gRPC call. Answer with this status."""

    def __init__(self, status: HTTPStatus) -> None:
        super().__init__(status.phrase)
        self.status = status


class Malformed(Exception):
    """The headers break the rules of HTTP/2. Reset the stream."""


def read_headers(headers: Headers, *, required: frozenset[bytes]) -> dict[bytes, bytes]:
    """Return headers by their names; of those with the same name, the last. Raises Malformed."""
    # Each of these looks at all headers at once, in C.
    names = b"\n".join([b"", *[name for name, _ in headers], b""])
    values = b"\n".join([b"", *[value for _, value in headers], b""])
    pseudo = names.count(b"\n:")
    found = dict(headers)
    if (
        not names.count(b"\n") == values.count(b"\n") == len(headers) + 1
        or names.translate(None, _IN_NAMES)
        or b"\n\n" in names
        or b"\0" in values
        or b"\r" in values
        or b" \n" in values
        or b"\n " in values
        or b"\t\n" in values
        or b"\n\t" in values
        or names.count(b":") != pseudo
        or names.count(b"\n", 0, names.rfind(b"\n:") + 1) != pseudo  # they come first
        or pseudo != len(required) + (b":authority" in found)  # each once, and no others
        or not required <= found.keys()
        or not _OF_CONNECTIONS.isdisjoint(found)
        or found.get(b"te", b"trailers") != b"trailers"
    ):
        raise Malformed
    return found


@dataclass(frozen=True, slots=True)
class CallHead:
    """The headers of a call, and the connection that it came on."""

    headers: Mapping[bytes, bytes]
    origin: CallOrigin

    @classmethod
    def parse(cls, headers: Headers, origin: CallOrigin) -> "CallHead":
        """Parse the headers. Raises Malformed and NotGrpc."""
        head = cls(read_headers(headers, required=_REQUIRED), origin)
        if not head.path:
            raise Malformed
        if head.headers.get(b":method") != b"POST":
            raise NotGrpc(HTTPStatus.METHOD_NOT_ALLOWED)
        content_type = head.headers.get(b"content-type", b"")
        if content_type != CONTENT_TYPE and not content_type.startswith(_CONTENT_TYPES):
            raise NotGrpc(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        return head

    @property
    def path(self) -> bytes:
        """The method, as `/service/method`."""
        return self.headers.get(b":path", b"")

    @property
    def authorization(self) -> str | None:
        return self._get_text(b"authorization")

    @property
    def traceparent(self) -> str | None:
        return self._get_text(b"traceparent")

    def read_timeout(self) -> float | None:
        """Return the seconds that the caller waits. Raises StatusError."""
        value = self.headers.get(b"grpc-timeout")
        if value is None:
            return None
        number, unit = value[:-1], _TIME_UNITS.get(value[-1:])
        if unit is None or not number.isdigit() or len(number) > _MAX_TIME_DIGITS:
            raise StatusError(Status.INTERNAL, "`grpc-timeout` is not up to 8 digits and a unit")
        return int(number) * unit

    def read_encoding(self) -> bytes:
        """Return how messages are compressed. Raises StatusError."""
        encoding = self.headers.get(b"grpc-encoding", IDENTITY)
        if encoding != IDENTITY and encoding not in ENCODINGS:
            raise StatusError(
                Status.UNIMPLEMENTED,
                f"cannot decompress {encoding.decode('latin-1')!r}: use"
                f" {' or '.join(name.decode() for name in ENCODINGS)}",
            )
        return encoding

    def _get_text(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


ReadRequest = Callable[[], Awaitable[bytes]]
"""Wait until the request of a call is whole, and return it."""


@dataclass(frozen=True, slots=True)
class UnaryMethod:
    """A method with one request and one answer. `answer` raises StatusError.

    It begins with the headers of a call. Until it reads the request, the caller has shown no right
    to a place. An open method needs none, so its calls always give way to others.
    """

    answer: Callable[[ReadRequest, CallHead], Awaitable[bytes]]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class StreamMethod:
    """A method with streams of requests and answers, in all else like UnaryMethod."""

    answer: Callable[[AsyncIterator[bytes], CallHead], AsyncIterator[bytes]]
    is_open: bool = False


Method: TypeAlias = UnaryMethod | StreamMethod
Methods: TypeAlias = Mapping[bytes, Method]  # by their paths
