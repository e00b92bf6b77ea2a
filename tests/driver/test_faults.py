"""Things go wrong in sessions: no hang, no wrong result, nothing without a type."""

from __future__ import annotations

import random

import pytest
from tests.driver.fault_campaign import (
    TABLES,
    Rivalry,
    campaign,
    make,
    play,
    single,
    tables,
    transfers,
)
from tests.driver.fault_sessions import BAD
from tests.driver.hostile_device import Lie

from fitzroy.hw_models.usb_device.faults import FaultKind

SAMPLE = 4
SESSIONS = 40
"""Enough that every family of sessions is among them."""


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("kind", FaultKind)
def test_every_fault_at_every_transfer(kind: FaultKind, background: bool, full: bool) -> None:
    count = len(transfers())
    assert count > 300
    places = list(range(1, count + 1))
    if not full:
        places = random.Random(kind.value).sample(places, SAMPLE)
    endings = {place: single(kind, place, background=background).ending for place in places}
    assert {place: end for place, end in endings.items() if end in BAD} == {}


def test_faults_together(full: bool) -> None:
    tally = campaign(SESSIONS * (25 if full else 1), seed=15)
    assert tally.failures == []
    assert {table for table, _ in tally.rows} == set(TABLES[1:])
    text = tables(tally.as_json())
    assert "### Two processes" in text


def test_sessions_are_those_of_their_seed() -> None:
    cases = [make(3, number) for number in range(200)]
    assert cases == [make(3, number) for number in range(200)]
    assert {case.lie for case in cases} >= set(Lie)
    assert {case.rivalry for case in cases} >= set(Rivalry)
    chosen = next(case for case in cases if len(case.faults) > 3 and not case.background)
    assert play(chosen, 3) == play(chosen, 3)
