"""Key layout. Times are zero-padded to 13 digits, so byte order is time order."""

from agent_memory.kernel.ids import Digest, Domain, EventId, MemoryKey, Millis, Position, SessionId

OUTBOX_PREFIX = b"outbox:"
SESSION_PREFIX = b"ses:"
MEMORY_PREFIX = b"mem:"
FACT_PREFIX = b"fact:"


def event(at_ms: Millis, event_id: EventId) -> bytes:
    return b"evt:%013d:%s" % (at_ms, event_id.encode())


def event_prefix(at_ms: Millis) -> bytes:
    """What the keys of all events of one millisecond start with."""
    return b"evt:%013d:" % at_ms


def event_id(event_id: EventId) -> bytes:
    return b"eid:%s" % event_id.encode()


def session_event(session_id: SessionId, at_ms: Millis, event_id: EventId) -> bytes:
    return b"%s%013d:%s" % (session(session_id), at_ms, event_id.encode())


def session(session_id: SessionId) -> bytes:
    """The prefix of one session's events. The id is escaped: a colon ends it."""
    return b"%s%s:" % (SESSION_PREFIX, escape(session_id))


def parse_session(key: bytes) -> SessionId:
    """The session that a session key is of."""
    return SessionId(unescape(key.split(b":", 2)[1]))


def parse_position(key: bytes) -> Position:
    """The time and id that end an event key or a session key."""
    fields_before = 1 if key.startswith(b"evt:") else 2
    *_, at_ms, name = key.split(b":", fields_before + 1)
    return Position(at_ms=Millis(int(at_ms)), event_id=EventId(name.decode()))


def domain(name: Domain) -> bytes:
    """The prefix of one domain's memories."""
    return b"%s%s:" % (MEMORY_PREFIX, escape(name))


def memory(key: MemoryKey) -> bytes:
    return b"%s%s:%s" % (domain(key.domain), key.namespace.encode(), key.digest.encode())


def parse_memory(key: bytes) -> MemoryKey:
    _, name, namespace, digest = key.split(b":")
    return MemoryKey(Domain(unescape(name)), namespace.decode(), Digest(digest.decode()))


def escape(name: str) -> bytes:
    """A colon ends a part of a key: none is left in it."""
    return name.replace("%", "%25").replace(":", "%3A").encode("utf-8", "surrogateescape")


def unescape(part: bytes) -> str:
    return part.decode("utf-8", "surrogateescape").replace("%3A", ":").replace("%25", "%")


def after(key: bytes) -> bytes:
    """The smallest key greater than this one."""
    return key + b"\0"


def end_of(prefix: bytes) -> bytes:
    """The smallest key greater than every key that starts with `prefix`."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
