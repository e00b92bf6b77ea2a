"""One thing goes wrong in a session: no hang, no wrong result, nothing without a type."""

from __future__ import annotations

import random

import pytest
from tests.driver.fault_campaign import GOOD, INFERENCES, ending, transfers

from fitzroy.hw_models.usb_device.faults import FaultKind

SAMPLE = 4


@pytest.mark.long
@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("kind", FaultKind)
def test_every_fault_at_every_transfer(kind: FaultKind, pipelined: bool, full: bool) -> None:
    count = len(transfers())
    assert count > 300 + 2 * 6 * INFERENCES
    places = list(range(1, count + 1))
    if not full:
        places = random.Random(kind.value).sample(places, SAMPLE)
    endings = {place: ending(kind, place, pipelined=pipelined) for place in places}
    bad = {place: end for place, end in endings.items() if end not in GOOD}
    assert bad == {}
