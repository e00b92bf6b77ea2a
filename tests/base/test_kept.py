from __future__ import annotations

from tests.work import memory_of

from fitzroy.base.kept import kept


def test_results_are_kept_while_there_is_room() -> None:
    made: list[int] = []

    @kept(10_000, len)
    def zeros(count: int) -> bytes:
        made.append(count)
        return bytes(count)

    for count in (1000, 1001, 1000, 1001):
        assert zeros(count) == bytes(count)
    assert made == [1000, 1001]
    # 1000 was used last, so 1001 goes first; each takes 1 KiB more than its data.
    zeros(1000)
    for count in (1002, 1003, 1004):
        zeros(count)
    made.clear()
    zeros(1000)
    zeros(1001)
    assert made == [1001]


def test_large_results_are_not_kept() -> None:
    made: list[int] = []

    @kept(10_000, len)
    def zeros(count: int) -> bytes:
        made.append(count)
        return bytes(count)

    for count in (100, 5000, 100, 5000):
        zeros(count)
    assert made == [100, 5000, 5000]


def test_many_results_take_limited_memory() -> None:
    @kept(1 << 20, len)
    def zeros(count: int) -> bytes:
        return bytes(count)

    with memory_of() as memory:
        for count in range(200_000, 200_400):
            zeros(count)
        for count in range(20_000):
            zeros(count % 5000)
    assert memory.peak < 3 << 20
