"""Revoked keys in memory."""

from collections.abc import Iterable


class RevokedInMemory:
    """A RevokedKeys for tests that are about something else."""

    def __init__(self) -> None:
        self._digests: frozenset[bytes] = frozenset()

    def list_digests(self) -> frozenset[bytes]:
        return self._digests

    def add(self, digests: Iterable[bytes], /) -> None:
        self._digests |= frozenset(digests)
