"""Large arrays that are used again: fresh pages cost more than what is written to them."""

from __future__ import annotations

import sys
import threading

import numpy as np

from fitzroy.base.types import Array

_SMALL = 64 << 10
"""Bytes below which memory is at hand anyway."""

_MOST_BYTES = 16 << 20
_MOST_ARRAYS = 4


def _references(arrays: list[Array]) -> list[int]:
    """References to each of some arrays, with those that counting adds."""
    return [sys.getrefcount(array) for array in arrays]


class Pool:
    """Arrays of bytes; one is handed out again when nobody has it, or a view of it, any more."""

    def __init__(self) -> None:
        self._arrays: list[Array] = []
        self._lock = threading.Lock()
        # How many counting adds depends on the version of Python.
        (self._free,) = _references([np.empty(0, np.uint8)])

    def take(self, size: int) -> Array:
        """Memory for so many bytes, uint8[size]; they are anything at first."""
        if not _SMALL <= size <= _MOST_BYTES:
            return np.empty(size, np.uint8)
        with self._lock:
            for array, count in zip(self._arrays, _references(self._arrays), strict=True):
                if len(array) == size and count <= self._free:
                    return array
            fresh = np.empty(size, np.uint8)
            self._arrays = [fresh, *self._arrays][:_MOST_ARRAYS]
            while sum(map(len, self._arrays)) > _MOST_BYTES:
                self._arrays.pop()
            return fresh
