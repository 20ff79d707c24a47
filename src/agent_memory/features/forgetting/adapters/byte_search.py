"""Search bytes for many byte strings at once.

The first bytes of each string are a number. A table tells for every position whether its number may
be one of these, and only those few positions are compared. So the time depends on the size of the
data, and hardly on the number of strings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from agent_memory.kernel.late_package import LatePackage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = LatePackage("numpy")

_AT_HAND = 1 << 17
_SPREAD = 0x9E3779B97F4A7C15


class ByteSearch:
    """A search for byte strings of at least six bytes."""

    def __init__(self, needles: AbstractSet[bytes]) -> None:
        self.longest = max(map(len, needles), default=0)
        by_width: dict[int, set[bytes]] = {16: set(), 8: set(), 6: set()}
        for needle in needles:
            by_width[next(width for width in by_width if width <= len(needle))].add(needle)
        self._groups = [_NeedleGroup(each, width) for width, each in by_width.items() if each]

    def find(self, data: bytes) -> set[bytes]:
        padded = data + bytes(16)
        return {needle for group in self._groups for needle in group.find(padded)}


class _NeedleGroup:
    """Strings that differ in their first `width` bytes."""

    def __init__(self, needles: AbstractSet[bytes], width: int) -> None:
        self._needles = needles
        self._width = width
        self._lengths: defaultdict[int, set[int]] = defaultdict(set)
        for needle in needles:
            (number,) = self._hash_words(needle[:width] + bytes(16 - width))
            self._lengths[int(number)].add(len(needle))
        self._numbers = np.array(sorted(self._lengths), np.uint64)
        # One slot in 64 is used. The table stays small so that it fits the processor's cache.
        self._shift = np.uint64(64 - 6 - len(self._numbers).bit_length())
        self._table = np.zeros(1 << (64 - int(self._shift)), np.bool_)
        self._table[self._to_slots(self._numbers)] = True

    def find(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _AT_HAND):
            for shift in range(start, min(start + 8, len(data) - 15)):
                numbers = self._hash_words(data[shift : shift + _AT_HAND + 8])
                spots = np.flatnonzero(self._table[self._to_slots(numbers)])
                for spot in spots[self._is_known(numbers[spots])]:
                    at = int(spot) * 8 + shift
                    for length in self._lengths[int(numbers[spot])]:
                        if data[at : at + length] in self._needles:
                            yield data[at : at + length]

    def _hash_words(self, data: bytes) -> NDArray[np.uint64]:
        """Hash the bytes at every eighth position."""
        words: NDArray[np.uint64] = np.frombuffer(data, "<u8", len(data) // 8)
        if self._width == 16:
            return words[:-1] * np.uint64(_SPREAD) + words[1:]
        return words[:-1] & np.uint64((1 << 8 * self._width) - 1)

    def _is_known(self, numbers: NDArray[np.uint64]) -> NDArray[np.bool_]:
        next_to = np.searchsorted(self._numbers, numbers)
        found: NDArray[np.bool_] = self._numbers[next_to % len(self._numbers)] == numbers
        return found

    def _to_slots(self, numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
        return ((numbers * np.uint64(_SPREAD)) >> self._shift).view(np.int64)
