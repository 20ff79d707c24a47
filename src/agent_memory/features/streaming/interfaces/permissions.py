"""What each role may do with the streams of a team server."""

from collections.abc import Mapping

from agent_memory.interfaces.permissions import MANAGE, READ_SCOPED, WEBSOCKET, Permission

HTTP: Mapping[tuple[str, str], Permission] = {
    ("POST", "/stream/consolidate"): MANAGE,
    ("POST", "/stream/recall"): READ_SCOPED,
    ("GET", "/stream/events"): READ_SCOPED,
    (WEBSOCKET, "/ws"): READ_SCOPED,
}
