"""The port of the secrets filter."""

from collections.abc import Sequence
from typing import Protocol


class SecretsFilter(Protocol):
    """A filter that removes secrets before anything is stored, indexed or logged.

    Every method raises ContentBlocked if the filter itself fails: no text passes unchecked.
    """

    def clean(self, text: str, /, *, where: str = "") -> str:
        """Return the text with its secrets redacted. To clean it again changes nothing.

        `where` names the place of the text in reports. Raises ContentBlocked if the text must not
        be stored at all.
        """
        ...

    def clean_name(self, name: str, /, *, limit: int, where: str = "") -> str:
        """Return a name with its secrets redacted, in at most `limit` characters.

        Equal names give equal results, different names different ones. A secret in a name never
        blocks the record with that name.
        """
        ...

    def is_clean(self, texts: Sequence[str], /) -> bool:
        """Return True if a quick check of all texts together shows that none has a secret.

        False means only that `clean` has to check each.
        """
        ...
