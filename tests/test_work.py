"""The counters that other tests assert by."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest
from tests.work import calls_at_most, memory_of


def spend(count: int) -> None:
    for number in range(count):
        abs(number)


def swallow() -> None:
    while True:
        with suppress(Exception):
            spend(1000)


def test_calls_are_counted_and_limited() -> None:
    before = sys.getprofile()
    with calls_at_most(100) as calls:
        spend(50)
    assert 50 < calls.count < 60
    with pytest.raises(AssertionError, match="more than 100 calls"), calls_at_most(100):
        swallow()
    assert sys.getprofile() is before


def test_memory_is_that_at_a_time() -> None:
    with memory_of() as memory:
        for _ in range(3):
            bytearray(1 << 20)
    assert 1 << 20 <= memory.peak < 2 << 20
