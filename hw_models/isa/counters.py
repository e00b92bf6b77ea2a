"""Counters of 16 bits: flags, ring tokens and what they are compared with wrap around."""

from __future__ import annotations

HALF = 1 << 15
"""Counters that are further apart compare the wrong way round."""


def signed16(value: int) -> int:
    """The low 16 bits of a count as a signed number, which is how thresholds hold it."""
    return (value + 0x8000 & 0xFFFF) - 0x8000


def distance(value: int, wanted: int) -> int:
    """How far a counter is past a value; negative while it is short of it."""
    return (value - wanted + 0x8000 & 0xFFFF) - 0x8000


def nearest(value: int, near: int) -> int:
    """The count nearest to another one whose low 16 bits are those of a value."""
    return near + distance(value, near)
