"""The status that ends a gRPC call, and how headers carry it."""

from enum import IntEnum
from urllib.parse import quote

_MAX_DETAIL_BYTES = 2600  # three times as many if encoded; clients accept 8 KiB of headers
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if code != ord("%"))


class Status(IntEnum):
    """The codes of the protocol."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class StatusError(Exception):
    """The call ends with this status."""

    def __init__(self, status: Status, details: str) -> None:
        super().__init__(details)
        self.status = status
        self.details = details

    def to_headers(self) -> list[tuple[bytes, bytes]]:
        return [
            (b"grpc-status", b"%d" % self.status),
            (b"grpc-message", _encode_details(self.details)),
        ]


def _encode_details(details: str) -> bytes:
    if len(content := details.encode()) > _MAX_DETAIL_BYTES:
        details = content[:_MAX_DETAIL_BYTES].decode(errors="ignore")
    return quote(details, safe=_PRINTABLE).encode()
