"""Chips by name."""

from __future__ import annotations

from fitzroy.base.errors import UsageError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.chip import Chip

CHIPS: dict[str, Chip] = {BEAGLE.name: BEAGLE}
"""All chips."""


def chip(name: str) -> Chip:
    """The chip of a name.

    Raises:
        UsageError: there is none.
    """
    if name not in CHIPS:
        raise UsageError(f"there is no chip {name[:40]!r}", hint=f"known are {', '.join(CHIPS)}")
    return CHIPS[name]
