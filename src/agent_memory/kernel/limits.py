"""Limits on the fields of knowledge records, and checks that raise InvalidInput."""

from agent_memory.kernel.errors import InvalidInput

NAME_CHARS = 256
VALUE_CHARS = 32_768
TEXT_CHARS = 4_096
MAX_COUNT = 2**53 - 1  # the largest integer that every JSON reader represents exactly


def check_name(field: str, value: str, *, required: bool = True) -> None:
    if required and not value.strip():
        raise InvalidInput(f"{field} must not be empty")
    if len(value) > NAME_CHARS:
        raise InvalidInput(f"{field} has {len(value)} characters; the limit is {NAME_CHARS}")
    if not value.isprintable():
        raise InvalidInput(f"{field} must contain only printable characters")


def check_text(field: str, value: str, limit: int = TEXT_CHARS) -> None:
    if len(value) > limit:
        raise InvalidInput(f"{field} has {len(value):,} characters; the limit is {limit:,}")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInput(f"{field} must be valid Unicode (it has a lone surrogate)") from exc


def check_count(field: str, value: int) -> None:
    if not 0 <= value <= MAX_COUNT:
        raise InvalidInput(f"{field} is {value}; it must be from 0 to {MAX_COUNT}")


def check_share(field: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:  # written so that NaN fails too
        raise InvalidInput(f"{field} is {value}; it must be from 0 to 1")
