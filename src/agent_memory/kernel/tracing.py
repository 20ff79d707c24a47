"""Trace spans: which operations belong together, across interfaces."""

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
    """The trace and the span that an operation belongs to, as hexadecimal digits."""

    trace_id: str
    parent_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A finished operation. Times are Unix nanoseconds."""

    interface: Interface
    operation: str
    outcome: str
    started_ns: int
    ended_ns: int
    trace: TraceContext | None = None


def from_name(name: str) -> TraceContext:
    """Derive the trace of a session or call from its name.

    A name of 32 hexadecimal digits is the trace id itself; any other name is hashed. Everything
    that one session does is one trace.
    """
    plain = name.replace("-", "").lower()
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    usable = _HEX.fullmatch(plain) and plain != _NONE[0]
    return TraceContext(trace_id=plain if usable else digest[:32], parent_id=digest[32:48])


def parse_traceparent(header: str) -> TraceContext | None:
    """Parse a W3C `traceparent` header; return None if it is malformed or all zeros."""
    match = _PARENT.fullmatch(header.strip().lower())
    if match is None or match[1] == _NONE[0] or match[2] == _NONE[1]:
        return None
    return TraceContext(trace_id=match[1], parent_id=match[2])
