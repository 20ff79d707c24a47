"""What removes secrets."""

from collections.abc import Sequence
from typing import Protocol


class SecretsFilter(Protocol):
    """Removes secrets before anything is stored, indexed or logged."""

    def clean(self, text: str, /, *, where: str = "") -> str:
        """The text without its secrets; `where` it stands is told to who keeps account. Raises
        ContentBlocked where it may not be kept at all."""
        ...

    def clean_name(self, name: str, /, *, limit: int, where: str = "") -> str:
        """Return a name without its secrets, in at most `limit` characters: the same for the same
        name, another for another. A name never blocks what is named by it."""
        ...

    def is_clean(self, texts: Sequence[str], /) -> bool:
        """Whether a glance at all of them together tells that `clean` finds nothing in any one.
        Where it does not, only `clean` knows. Raises ContentBlocked as `clean` does."""
        ...
