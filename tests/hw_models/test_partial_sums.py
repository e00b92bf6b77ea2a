from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.forms import programs
from tests.support import corpus

from fitzroy.hw_models.edgetpu.op_plan import plan
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.partial_sums import (
    PUBLISHED_REVISIT,
    PUBLISHED_RUN,
    contribution_run,
    revisit_distance,
    words_per_step,
)
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import BYTES, QUARTERS, traversal
from fitzroy.linker.packages.container import read_container
from fitzroy.report.forms import instructions


def operation(
    staged: int, positions: int, chunks: int, blocks: int = 1, *, lanes: int = 64
) -> TensorOp:
    """A convolution with partial sums, a row for each position."""
    loops = (staged, positions, chunks, blocks)
    return TensorOp(
        loops=(*loops, 1, 1, 1, 1),
        a=traversal(0, [(staged, 4), (positions, 64), (chunks, 4), (blocks, 0)], rank=BYTES.rank),
        b=traversal(4096, [(lanes // 4 * positions * blocks, 4)], rank=BYTES.rank),
        c=traversal(0, [(staged, 4), (positions, 0), (chunks, 0), (blocks, 0)], rank=QUARTERS.rank),
        d=traversal(
            512, [(staged, 0), (positions, 4), (chunks, 0), (blocks, 0)], rank=QUARTERS.rank
        ),
        block_level=3,
        reduction=0b101,
        lanes=lanes,
        lanes_last=lanes,
    )


@pytest.mark.parametrize("staged", [1, 3, 8])
@pytest.mark.parametrize("positions", [2, 5])
@pytest.mark.parametrize("blocks", [1, 3])
def test_runs_are_those_of_the_loop_below_positions(
    staged: int, positions: int, blocks: int
) -> None:
    op = operation(staged, positions, 4, blocks)
    assert contribution_run(op) == staged
    assert revisit_distance(op) == (positions - 1) * staged + 1
    assert words_per_step(op) == 16 / staged


def test_a_reduction_of_one_run_is_no_contribution() -> None:
    whole = operation(6, 5, 1)
    assert contribution_run(whole) is None
    assert revisit_distance(whole) is None
    in_accumulators = replace(operation(1, 5, 4), accumulate=True)
    assert contribution_run(in_accumulators) is None
    assert revisit_distance(in_accumulators) is None
    single_row = operation(2, 1, 4)
    assert contribution_run(single_row) is None


def test_quarters_of_a_row_are_one_row() -> None:
    """Positions that share a row come back to it at once."""
    op = operation(8, 2, 4)
    d = traversal(512, [(8, 0), (2, 1), (4, 0)], rank=QUARTERS.rank)
    assert revisit_distance(replace(op, d=d)) == 1


def test_a_shorter_last_chunk_counts() -> None:
    """The last chunk has 3 of 8 steps, which are the run."""
    op = replace(
        operation(8, 5, 2),
        loop_part=3,
        loop_part_dim=2,
        d=traversal(512, [(8, 0), (5, 4), (2, 0)], rank=QUARTERS.rank, part=(3, 2)),
    )
    assert contribution_run(op) == 3
    assert revisit_distance(op) == 4 * 3 + 1


def runs_of_the_simulator(op: TensorOp) -> int | None:
    """The same from the element order of the simulated op engine."""
    found = plan(op)
    lengths = np.diff(found.runs)[~(found.first & found.last)]
    return int(lengths.min()) if len(lengths) else None


@pytest.mark.long
@pytest.mark.corpus
def test_published_programs_keep_to_the_bounds() -> None:
    corpus()
    found = 0
    for path in programs()[::3]:
        packages = read_container(path.read_bytes(), str(path)).packages
        for op in distinct([item for _, item in instructions(packages)]):
            run = contribution_run(op)
            assert run == runs_of_the_simulator(op)
            if run is not None:
                found += 1
                assert run in PUBLISHED_RUN
                assert (revisit_distance(op) or PUBLISHED_REVISIT) >= PUBLISHED_REVISIT
    assert found > 20


def distinct(items: list[Instruction]) -> list[TensorOp]:
    """Operations with partial sums, equal ones once."""
    return list(
        dict.fromkeys(item for item in items if isinstance(item, TensorOp) and not item.accumulate)
    )
