"""CRC-32C (Castagnoli) of many byte strings at once, computed in parallel by numpy.

The standard library has only the other CRC-32; plain Python needs a minute for a log of 128 MiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from agent_memory.kernel.late_package import LatePackage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = LatePackage("numpy")

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8  # RocksDB masks the checksums that it stores with this
_GROUP = 1_024  # strings that are processed together


@cache
def _build_table() -> NDArray[np.uint32]:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, (values >> 1) ^ np.uint32(_POLYNOMIAL), values >> 1)
    return values.astype(np.uint32)


def compute(texts: Sequence[bytes]) -> list[int]:
    """Compute the checksum of each text."""
    sums = [0] * len(texts)
    order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    for first in range(0, len(order), _GROUP):
        group = order[first : first + _GROUP]
        values = _compute_group([texts[number] for number in group])
        for number, value in zip(group, values, strict=True):
            sums[number] = value
    return sums


def mask(checksum: int) -> int:
    """Mask a checksum as RocksDB stores it."""
    return (((checksum >> 15) | (checksum << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def _compute_group(texts: Sequence[bytes]) -> list[int]:
    """Compute the checksums of texts that are sorted longest first."""
    lengths = np.array([len(text) for text in texts])
    matrix = np.zeros((int(lengths[0]) if len(texts) else 0, len(texts)), dtype=np.uint8)
    for column, text in enumerate(texts):
        matrix[: len(text), column] = np.frombuffer(text, dtype=np.uint8)
    table = _build_table()
    state = np.full(len(texts), 0xFFFFFFFF, dtype=np.uint32)
    left = len(texts)
    for row, values in enumerate(matrix):
        while left and lengths[left - 1] <= row:
            left -= 1
        active = state[:left]
        state[:left] = table[(active ^ values[:left]) & 0xFF] ^ (active >> np.uint32(8))
    return [int(value) ^ 0xFFFFFFFF for value in state]
