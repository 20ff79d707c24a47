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


def to_person(owner: str) -> str:
    """Return the person of an owner's form; a shortened form stays as it is."""
    return owner.replace("%2F", "/").replace("%40", MARK).replace("%25", "%")


def is_anothers(name: str, person: str) -> bool:
    """Tell whether an id ends in the name of somebody else."""
    _, mark, owner = name.rpartition(MARK)
    return bool(mark) and owner != to_owner(person)


def shorten(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
