"""All probes, safest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from fitzroy.driver.probe.probe import Probe
from fitzroy.driver.probe.suite import arithmetic, forms, host, movement, scalar

_FAMILIES: tuple[Callable[[], Iterator[Probe]], ...] = (
    movement.controls,
    arithmetic.controls,
    scalar.controls,
    host.controls,
    arithmetic.rules,
    movement.rules,
    scalar.rules,
    host.rules,
    forms.probes,
    movement.properties,
    arithmetic.properties,
    scalar.properties,
    host.properties,
)


@cache
def suite() -> tuple[Probe, ...]:
    """All probes: controls, then what is less and less certain to leave the device well."""
    found = [probe for family in _FAMILIES for probe in family()]
    return tuple(sorted(found, key=lambda probe: probe.risk))
