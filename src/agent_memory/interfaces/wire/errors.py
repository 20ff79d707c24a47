"""The one table of codes that an error has in commands, gRPC, HTTP and JSON-RPC."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent_memory.kernel import access, errors
from agent_memory.kernel.errors import AgentMemoryError

STORE_FAILS = (
    "the database of the server cannot be used now: try again later, or tell its operator, who sees"
    " the reason with `memory-daemon status`"
)
USAGE_ERROR = "UsageError"  # the name of a wrong command line, which only commands know


class Codes(NamedTuple):
    """The codes of one kind of error. `grpc` is the name of a gRPC status."""

    exit: int
    grpc: str
    http: int
    rpc: int = -32000  # of JSON-RPC and of streams, as 004 has them


ERRORS: Mapping[type[AgentMemoryError], Codes] = {
    errors.InvalidInput: Codes(exit=11, grpc="INVALID_ARGUMENT", http=422, rpc=-32002),
    errors.NotFound: Codes(exit=10, grpc="NOT_FOUND", http=404, rpc=-32001),
    errors.Unauthorized: Codes(exit=1, grpc="UNAUTHENTICATED", http=401),
    errors.Forbidden: Codes(exit=1, grpc="PERMISSION_DENIED", http=403),
    errors.ContentBlocked: Codes(exit=12, grpc="FAILED_PRECONDITION", http=422, rpc=-32003),
    errors.FeatureUnavailable: Codes(exit=3, grpc="FAILED_PRECONDITION", http=409),
    errors.NotConfigured: Codes(exit=3, grpc="FAILED_PRECONDITION", http=409),
    errors.ConfigError: Codes(exit=3, grpc="FAILED_PRECONDITION", http=500),
    errors.Overloaded: Codes(exit=1, grpc="RESOURCE_EXHAUSTED", http=503),
    errors.LlmFailed: Codes(exit=6, grpc="UNAVAILABLE", http=502),
    errors.ToolFailed: Codes(exit=1, grpc="FAILED_PRECONDITION", http=409),
    errors.RemoteUnavailable: Codes(exit=5, grpc="UNAVAILABLE", http=502),
    errors.ListenFailed: Codes(exit=1, grpc="UNAVAILABLE", http=503),
    errors.Cancelled: Codes(exit=130, grpc="CANCELLED", http=499),
    errors.StorageClosed: Codes(exit=4, grpc="UNAVAILABLE", http=503),
    errors.StorageDamaged: Codes(exit=4, grpc="DATA_LOSS", http=500),
    errors.StorageUnwritable: Codes(exit=4, grpc="UNAVAILABLE", http=503),
    errors.StorageFailed: Codes(exit=4, grpc="INTERNAL", http=500),
    AgentMemoryError: Codes(exit=1, grpc="INTERNAL", http=500),
}


def get_codes(error: AgentMemoryError) -> Codes:
    """Return the codes of the nearest listed class of this error."""
    return next(ERRORS[kind] for kind in type(error).__mro__ if kind in ERRORS)


def describe_error(error: AgentMemoryError) -> str:
    """Return the message for a caller. People of a team do not learn from a failing store where it
    is: the log and the commands on the server say so."""
    caller = access.get_caller()
    if isinstance(error, errors.StorageFailed) and caller not in (None, access.OWNER):
        return STORE_FAILS
    return str(error) or type(error).__doc__ or ""


def error_json(error: AgentMemoryError) -> dict[str, Any]:
    codes = get_codes(error)
    return {"code": codes.rpc, "name": codes.grpc.lower(), "message": describe_error(error)}


def command_error_json(
    error: AgentMemoryError, exit_code: int, causes: Sequence[str] = ()
) -> dict[str, Any]:
    """Describe the error of a command: its name in the table of errors, and its exit code."""
    message = str(error) or type(error).__doc__ or ""
    described = _describe_failure(type(error).__name__, message, exit_code)
    if causes:
        described["error"]["causes"] = list(causes)
    return described


def usage_json(message: str, exit_code: int) -> dict[str, Any]:
    """Describe a wrong command line."""
    return _describe_failure(USAGE_ERROR, message, exit_code)


def _describe_failure(name: str, message: str, exit_code: int) -> dict[str, Any]:
    return {"error": {"name": name, "message": message, "exit_code": exit_code}}
