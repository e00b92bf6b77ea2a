"""Things go wrong in sessions: no hang, no wrong result, nothing without a type."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.driver.fault_campaign import (
    TABLES,
    Case,
    Rivalry,
    campaign,
    make,
    play,
    single,
    tables,
    transfers,
)
from tests.driver.fault_sessions import BAD, Ending, Work
from tests.driver.hostile_device import EVENT, CountedDevice, Lie

from fitzroy.driver.device.limits import Watch
from fitzroy.driver.device.streams import Streams
from fitzroy.driver.runtime.prepared import PreparedExecutable
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind

SAMPLE = 4
SESSIONS = 40
"""Enough that every family of sessions is among them."""


@pytest.mark.long
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
    cases = [make(3, number) for number in range(300)]
    assert cases == [make(3, number) for number in range(300)]
    assert {case.lie for case in cases} >= set(Lie)
    assert {case.rivalry for case in cases} >= set(Rivalry)
    chosen = next(case for case in cases if len(case.faults) > 3 and not case.background)
    assert play(chosen, 3) == play(chosen, 3)


def _fails(*_: Any) -> None:
    raise KeyError("a mistake")


LOST_EVENT = Fault(FaultKind.LOSE, 2, endpoint=EVENT)


@pytest.mark.parametrize(
    ("owner", "name", "broken", "case", "ending"),
    [
        (
            PreparedExecutable, "_missing", lambda *_: "",
            Case(0, (), (LOST_EVENT,), (Work.FOLLOWED,), booted=True), Ending.WRONG,
        ),
        (
            Watch, "check", lambda *_: None,
            Case(0, (), lie=Lie.SLOW), Ending.HANG,
        ),
        (Streams, "finish", _fails, Case(0, ()), Ending.UNTYPED),
        (
            CountedDevice, "heal", lambda *_: None,
            Case(0, (), (Fault(FaultKind.UNPLUG, 9),)), Ending.UNUSABLE,
        ),
    ],
    ids=lambda item: item.value if isinstance(item, Ending) else "",
)  # fmt: skip
def test_mistakes_are_noticed(
    owner: type, name: str, broken: Any, case: Case, ending: Ending,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert play(case).ending not in BAD
    monkeypatch.setattr(owner, name, broken)
    assert play(case).ending is ending
