"""Models that take turns on one chip."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from fitzroy.execution.tenants import Tenant, as_they_come, best, in_turns, share, together

ONE = Tenant("a", 10.0, 0.002, 0.010, cached=1, tokens=frozenset({1}))
TWO = Tenant("b", 30.0, 0.001, 0.004, cached=1, tokens=frozenset({2}))


def test_loads_are_those_after_another_model() -> None:
    found = as_they_come([ONE, TWO])
    assert found.loads == pytest.approx(10 * 3 / 4 + 30 / 4)
    assert found.busy == pytest.approx(10 * (0.002 + 0.0075) + 30 * (0.001 + 0.001))
    assert found.mean_latency == pytest.approx((found.latency[0] + 3 * found.latency[1]) / 4)


def test_what_waits_is_what_a_queue_shows() -> None:
    """Requests at random times, one after the other, as the formula has it."""
    rng = random.Random(5)
    tenants = [replace(ONE, rate=50.0), replace(TWO, rate=100.0)]
    wanted = as_they_come(tenants)
    assert 0.5 < wanted.busy < 0.9
    now = free = 0.0
    last, waits, count = tenants[0], 0.0, 300_000
    for _ in range(count):
        now += rng.expovariate(150.0)
        item = tenants[0] if rng.random() < 1 / 3 else tenants[1]
        begin = max(now, free)
        free = begin + item.seconds + (item.loading if last is not item else 0.0)
        waits += free - now
        last = item
    assert waits / count == pytest.approx(wanted.mean_latency, rel=0.05)


def test_models_that_were_compiled_together_load_nothing() -> None:
    shared = [ONE, replace(TWO, tokens=ONE.tokens)]
    assert share(shared)
    assert not share([ONE, TWO])
    assert share([ONE, replace(TWO, cached=0)])
    found = together(shared)
    assert found.loads == 0
    assert found.busy == pytest.approx(10 * 0.002 + 30 * 0.001)
    assert best([as_they_come(shared), found]) is found


def test_turns_save_loads_where_there_are_many_requests() -> None:
    many = [replace(ONE, rate=100.0), replace(TWO, rate=100.0)]
    queued, turns = as_they_come(many), in_turns(many)
    assert queued.busy >= 1
    assert math.isinf(queued.mean_latency)
    assert turns.cycle is not None
    # A round has time for its loads and for all requests that come in it.
    assert turns.cycle == pytest.approx(0.014 + turns.cycle * (0.2 + 0.1))
    assert turns.loads == pytest.approx(2 / turns.cycle)
    assert best([queued, turns]) is turns
    worse = [replace(item, rate=1000.0) for item in many]
    assert best([as_they_come(worse), in_turns(worse)]) is None
