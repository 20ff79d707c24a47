"""Owners of ids on a team's server: an id that came from a person ends in `@` and their name."""

import hashlib

MARK = "@"
MAX_OWNER_CHARS = 48
_HASH_CHARS = 40


def to_owner(person: str) -> str:
    """Return the form of a person's name at the end of an id. Different people have different
    ones."""
    owner = person.replace("%", "%25").replace(MARK, "%40").replace("/", "%2F")
    if len(owner) <= MAX_OWNER_CHARS and owner.isprintable():
        return owner
    return f"%{shorten(person)}"


def qualify(name: str, person: str, limit: int) -> str:
    """Return a name as that of a person. One that is too long is replaced by its hash."""
    owned = f"{name}{MARK}{to_owner(person)}"
    return owned if len(owned) <= limit else f"{shorten(name)}{MARK}{to_owner(person)}"


def qualify_session(session_id: str, person: str, limit: int) -> str:
    """Return the id of a session as that of a person. Subagents stay below their session."""
    main, slash, rest = session_id.partition("/")
    owned = f"{main}{MARK}{to_owner(person)}{slash}{rest}"
    return owned if len(owned) <= limit else qualify(session_id, person, limit)


def to_person(owner: str) -> str:
    """Return the person of an owner's form; a shortened form stays as it is."""
    return owner.replace("%2F", "/").replace("%40", MARK).replace("%25", "%")


def is_anothers(name: str, person: str) -> bool:
    """Tell whether an id ends in the name of somebody else."""
    _, mark, owner = name.rpartition(MARK)
    return bool(mark) and owner != to_owner(person)


def shorten(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
