"""Spans: which operations belong together, across interfaces."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")
_HEX = re.compile(r"[0-9a-f]{32}")
_NONE = ("0" * 32, "0" * 16)


class Interface(StrEnum):
    CLI = "cli"
    GRPC = "grpc"
    HOOK = "hook"
    HTTP = "http"
    MCP = "mcp"
    STREAMING = "streaming"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """What an operation is a part of, as hexadecimal digits."""

    trace_id: str
    parent_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An operation that has ended. Times are Unix nanoseconds."""

    interface: Interface
    operation: str
    outcome: str
    started_ns: int
    ended_ns: int
    trace: TraceContext | None = None


def from_name(name: str) -> TraceContext:
    """That of a session or of a call: its id where it is one, else made from it, so that all that
    one session does is one trace."""
    plain = name.replace("-", "").lower()
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    usable = _HEX.fullmatch(plain) and plain != _NONE[0]
    return TraceContext(trace_id=plain if usable else digest[:32], parent_id=digest[32:48])


def parse_traceparent(header: str) -> TraceContext | None:
    """What a caller says in a W3C `traceparent`; None where it says nothing that can be read."""
    found = _PARENT.fullmatch(header.strip().lower())
    if found is None or found[1] == _NONE[0] or found[2] == _NONE[1]:
        return None
    return TraceContext(trace_id=found[1], parent_id=found[2])
