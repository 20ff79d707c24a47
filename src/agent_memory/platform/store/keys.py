"""Key layout. Times are zero-padded to 13 digits, so that byte order is time order."""

from agent_memory.kernel.ids import Digest, Domain, EventId, MemoryKey, Millis, Position, SessionId

OUTBOX_PREFIX = b"outbox:"
SESSION_PREFIX = b"ses:"
MEMORY_PREFIX = b"mem:"
FACT_PREFIX = b"fact:"
LAST = b"\xff" * 512  # greater than every key


def event(at_ms: Millis, event_id: EventId) -> bytes:
    return b"evt:%013d:%s" % (at_ms, event_id.encode())


def event_prefix(at_ms: Millis) -> bytes:
    """Return the prefix of the events of one millisecond."""
    return b"evt:%013d:" % at_ms


def event_id(event_id: EventId) -> bytes:
    return b"eid:%s" % event_id.encode()


def parse_event_id(key: bytes) -> EventId:
    return EventId(key.partition(b":")[2].decode())


def session_event(session_id: SessionId, at_ms: Millis, event_id: EventId) -> bytes:
    return b"%s%013d:%s" % (session(session_id), at_ms, event_id.encode())


def session(session_id: SessionId) -> bytes:
    """Return the prefix of one session's events."""
    return b"%s%s:" % (SESSION_PREFIX, escape(session_id))


def parse_session(key: bytes) -> SessionId:
    """Return the session of a session key."""
    return SessionId(unescape(key.split(b":", 2)[1]))


def parse_position(key: bytes) -> Position:
    """Return the time and id at the end of an event key or a session key."""
    fields_before = 1 if key.startswith(b"evt:") else 2
    *_, at_ms, name = key.split(b":", fields_before + 1)
    return Position(at_ms=Millis(int(at_ms)), event_id=EventId(name.decode()))


def domain(name: Domain) -> bytes:
    """Return the prefix of one domain's memories."""
    return b"%s%s:" % (MEMORY_PREFIX, escape(name))


def memory(key: MemoryKey) -> bytes:
    return b"%s%s:%s" % (domain(key.domain), key.namespace.encode(), key.digest.encode())


def parse_memory(key: bytes) -> MemoryKey:
    _, name, namespace, digest = key.split(b":")
    return MemoryKey(Domain(unescape(name)), namespace.decode(), Digest(digest.decode()))


def escape(name: str) -> bytes:
    """Escape the colons in a name, because a colon ends a part of a key."""
    return name.replace("%", "%25").replace(":", "%3A").encode("utf-8", "surrogateescape")


def unescape(part: bytes) -> str:
    return part.decode("utf-8", "surrogateescape").replace("%3A", ":").replace("%25", "%")


def after(key: bytes) -> bytes:
    """Return the smallest key greater than this one."""
    return key + b"\0"


def end_of(prefix: bytes) -> bytes:
    """Return the smallest key greater than every key that starts with `prefix`."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
