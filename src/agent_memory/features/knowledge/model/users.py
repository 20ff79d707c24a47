"""Users: the people that agents talk with, under one name each."""

from dataclasses import dataclass, replace

from agent_memory.kernel import ids, limits
from agent_memory.kernel.ids import KnowledgeId, Millis

_TELEGRAM = "telegram:"
_EMAIL = "email:"


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user. `canonical_id` names a person on any channel: `telegram:123456789`,
    `email:ann@example.org`, `local:ann`. The id is derived from it."""

    id: KnowledgeId
    canonical_id: str
    display_name: str | None = None
    telegram_id: str | None = None
    email: str | None = None
    total_conversations: int = 0
    last_seen_ms: Millis | None = None
    created_ms: Millis
    fixed: frozenset[str] = (
        frozenset()
    )  # fields set by a user; they make it more than a learned record

    def __post_init__(self) -> None:
        limits.check_name("canonical_id", self.canonical_id)
        for field in ("display_name", "telegram_id", "email"):
            limits.check_name(field, getattr(self, field) or "", required=False)
        limits.check_count("total_conversations", self.total_conversations)


def derive_id(canonical_id: str) -> KnowledgeId:
    return ids.derive_id("user", canonical_id)


def create_user(canonical_id: str, at: Millis) -> User:
    """Create a user from the canonical id alone."""
    return User(
        id=derive_id(canonical_id),
        canonical_id=canonical_id,
        telegram_id=_after(_TELEGRAM, canonical_id),
        email=_after(_EMAIL, canonical_id),
        created_ms=at,
    )


def update_seen(user: User, *, conversations: int, at: Millis | None, name: str) -> User:
    """Add (or subtract) conversations and set the time of the last one."""
    known = user.last_seen_ms
    return replace(
        user,
        total_conversations=max(0, user.total_conversations + conversations),
        last_seen_ms=known if at is None else max(at, known or at),
        display_name=user.display_name or name or None,
    )


def _after(prefix: str, name: str) -> str | None:
    return name.removeprefix(prefix) or None if name.startswith(prefix) else None
