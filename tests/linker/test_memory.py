from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fitzroy.linker.packages.memory import Lifetime, lay_out_buffer

REQUESTS = st.lists(
    st.builds(
        lambda size, begin, length: Lifetime(size, begin, begin + length),
        st.integers(0, 200),
        st.integers(0, 12),
        st.integers(0, 6),
    ),
    max_size=24,
)


@given(REQUESTS, st.sampled_from([1, 16, 64]))
def test_living_requests_never_overlap(requests: list[Lifetime], alignment: int) -> None:
    plan = lay_out_buffer(requests, alignment=alignment)
    placed = list(zip(requests, plan.offsets, strict=True))
    assert plan.size == max((offset + r.size for r, offset in placed), default=0)
    assert all(offset % alignment == 0 for offset in plan.offsets)
    for number, (one, start) in enumerate(placed):
        for other, begin in placed[:number]:
            if one.overlaps(other) and one.size and other.size:
                assert start + one.size <= begin or begin + other.size <= start


def test_memory_is_reused() -> None:
    chain = [Lifetime(100, step, step + 1) for step in range(10)]
    assert lay_out_buffer(chain, alignment=4).size == 200


def test_tightest_gap_is_taken() -> None:
    requests = [
        Lifetime(64, 0, 9),  # at 0
        Lifetime(48, 0, 4),  # at 64: leaves a gap of 48 after step 4
        Lifetime(40, 0, 9),  # at 112
        Lifetime(32, 0, 4),  # at 160: leaves a gap of 32
        Lifetime(24, 0, 9),  # at 192
        Lifetime(20, 5, 9),  # fits both gaps, the second one better
    ]
    assert lay_out_buffer(requests).offsets == (0, 64, 112, 160, 192, 160)


def test_empty_plan() -> None:
    assert lay_out_buffer([]).size == 0
