"""What can go wrong between a program and the daemon.

ClientError
├── InvalidEndpoint      the address makes no sense; nothing was tried
├── ConnectionFailed     no daemon answers, or the client is closed
├── RpcError             the daemon answered with an error: `code`, `details`
│   └── EventsRefused    some events of a batch; the others are stored
└── SerializationError   a value cannot be sent, or an answer cannot be read
"""

from collections.abc import Sequence

_NAMED = 3  # refused events that a message names; `refused` has them all


class ClientError(Exception):
    """The root of all errors of this library."""


class InvalidEndpoint(ClientError):
    """The address of the daemon is not one."""


class ConnectionFailed(ClientError):
    """No daemon answers at the address, or the client is closed."""


class SerializationError(ClientError):
    """A value cannot be sent, or an answer cannot be read."""


class RpcError(ClientError):
    """A call failed. `code` is the name of a gRPC status, such as `INVALID_ARGUMENT`."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(code, details)
        self.code = code
        self.details = details

    def __str__(self) -> str:
        return f"{self.code}: {self.details}"


class EventsRefused(RpcError):
    """Some events of a batch were refused: `refused` has (event_id, reason) for each.

    All others are stored; `created` of them are new.
    """

    def __init__(self, refused: Sequence[tuple[str, str]], created: int) -> None:
        named = "; ".join(f"{event_id!r}: {reason}" for event_id, reason in refused[:_NAMED])
        more = f"; and {len(refused) - _NAMED:,} more" if len(refused) > _NAMED else ""
        super().__init__("INVALID_ARGUMENT", f"{len(refused):,} refused: {named}{more}")
        self.args = (refused, created)  # what copies and pickles are made from
        self.refused = tuple(refused)
        self.created = created
