"""Programs on a chip that is late: what the code generator waits for, and what shows without."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.compiler.edgetpu.test_convolution import anew, chain, grow
from tests.compiler.edgetpu.test_host_transfers import softmax_of
from tests.compiler.edgetpu_models import examined

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.lowerings import convolution, softmax
from fitzroy.hw_models.isa.scalar import Scalar


def partial_sums() -> Graph:
    """A convolution whose sums of a few positions wait in wide memory."""
    graph = chain(DType.INT8, (6, 6, 256))
    grow(graph, "conv_2d", 96, (1, 1))
    return graph


def divisors(groups: int, taps: int, positions: int) -> list[int]:
    """Chunks of the input channels, however short."""
    return [chunk for chunk in range(1, groups + 1) if groups % chunk == 0]


PROGRAMS: dict[str, Callable[[], Graph]] = {
    "partial sums": partial_sums,
    "softmax": lambda: softmax_of(500, inner=False),
    "softmax inside": lambda: softmax_of(70, inner=True),
}

UNDONE: dict[str, tuple[str, object, str, object]] = {
    "short contributions": ("partial sums", convolution, "_chunks", divisors),
    "no fence after stores": ("softmax inside", softmax, "PIPELINE", Scalar()),
    "reciprocal used at once": ("softmax", softmax, "_RECIPROCAL_BUNDLES", 2),
}
"""A program, and a decision that is undone: an owner, its attribute, and another value."""

SEEDS = (1, 2, 3)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_bear_what_published_programs_bear(name: str) -> None:
    for seed in SEEDS:
        assert examined(PROGRAMS[name](), seed) == ("", [])


@pytest.mark.long
@pytest.mark.parametrize("name", UNDONE)
def test_decisions_that_are_undone_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, owner, attribute, value = UNDONE[name]
    monkeypatch.setattr(owner, attribute, value)
    with anew():
        faults = [examined(PROGRAMS[program](), seed, verified=False)[0] for seed in SEEDS]
    # Other bytes, or sums with what nothing has written.
    assert any("differ" in fault or "SimulationError" in fault for fault in faults), faults
