"""Memory that is used again, and never while somebody has a view of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from fitzroy.base.memory import Pool
from fitzroy.base.types import Array

SIZE = 100_000


def test_memory_is_used_again() -> None:
    pool = Pool()
    first = pool.take(SIZE)
    place = first.ctypes.data
    del first
    assert pool.take(SIZE).ctypes.data == place


def a_slice(array: Array) -> object:
    return array[5:10]


def a_memoryview(array: Array) -> object:
    return array.data


def a_shape(array: Array) -> object:
    return array.reshape(10, -1)[2:]


def an_array_of_a_part(array: Array) -> object:
    return np.frombuffer(array.data[3:], np.uint8)


@pytest.mark.parametrize("view_of", [a_slice, a_memoryview, a_shape, an_array_of_a_part])
def test_memory_with_a_user_is_left_alone(view_of: Callable[[Array], object]) -> None:
    pool = Pool()
    array = pool.take(SIZE)
    place, view = array.ctypes.data, view_of(array)
    del array
    other = pool.take(SIZE)
    assert other.ctypes.data != place
    del view
    assert pool.take(SIZE).ctypes.data == place


def test_other_sizes() -> None:
    pool = Pool()
    assert [len(pool.take(size)) for size in (0, 1, SIZE, SIZE + 1, 32 << 20)] == [
        0, 1, SIZE, SIZE + 1, 32 << 20,
    ]  # fmt: skip
    # What is kept has a bound.
    kept = [pool.take(8 << 20) for _ in range(4)]
    assert sum(map(len, pool._arrays)) <= 16 << 20
    assert len({array.ctypes.data for array in kept}) == 4


def test_many_threads() -> None:
    pool = Pool()
    wrong: list[int] = []

    def use(number: int) -> None:
        for _ in range(200):
            array = pool.take(SIZE)
            array[:] = number
            if (array != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
