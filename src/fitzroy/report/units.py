"""Figures as text for people."""

from __future__ import annotations

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def time(us: float) -> str:
    """A time with three significant digits or more."""
    if us >= 1e6:
        return f"{us / 1e6:,.2f} s"
    if us >= 1e3:
        return f"{us / 1e3:,.3f} ms" if us < 1e5 else f"{us / 1e3:,.1f} ms"
    return f"{us:.1f} µs"


def size(count: float) -> str:
    """A number of bytes."""
    if count >= 1 << 20:
        return f"{count / (1 << 20):,.2f} MiB"
    if count >= 1 << 10:
        return f"{count / (1 << 10):,.1f} KiB"
    return f"{count:,.0f} B"


def number(count: float) -> str:
    """A number with a space and a decimal prefix, for a unit to follow."""
    for factor, prefix in _STEPS:
        if count >= factor:
            return f"{count / factor:.3g} {prefix}"
    return f"{count:.3g} "


def some(number: int, noun: str) -> str:
    """A number of things: ``1 operator``, ``12,000 operators``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def share(part: float) -> str:
    """A share in percent."""
    if 0 < part < 0.001:
        return "< 0.1 %"
    return f"{100 * part:.1f} %"
