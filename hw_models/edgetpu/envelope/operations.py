"""Measures of tensor operations and of what lies in narrow memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np

from fitzroy.base.types import Array
from fitzroy.hw_models.edgetpu.envelope.program import Place, Program, Value
from fitzroy.hw_models.edgetpu.op_plan import plan
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.partial_sums import contribution_run, revisit_distance, words_per_step
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import Dim, Traversal

_QUARTERS = 4


def _tensor_operations(program: Program) -> Iterator[tuple[Place, TensorOp]]:
    for place, event in program.dispatched:
        if isinstance(event.instruction, TensorOp):
            yield place, event.instruction


# --- partial sums in wide memory -----------------------------------------------------------------


def partial_sum_runs(program: Program) -> Iterator[Value]:
    """Steps of the shortest contribution of each operation that keeps sums in wide memory."""
    return _sums(program, 0)


def partial_sum_revisits(program: Program) -> Iterator[Value]:
    """Fewest steps after which each operation comes back to a row with sums."""
    return _sums(program, 1)


def partial_sum_words(program: Program) -> Iterator[Value]:
    """Words that the last contribution hands out for each of its steps, rounded up."""
    return _sums(program, 2)


def _sums(program: Program, which: int) -> Iterator[Value]:
    seen: set[TensorOp] = set()
    for place, op in _tensor_operations(program):
        if op.accumulate or op.d is None:
            continue
        shape = _summing(op)
        if shape not in seen:
            seen.add(shape)
            program.look_at(_steps(op))
        value = _measured(shape)[which]
        if value is not None:
            yield Value(value, place)


def _summing(op: TensorOp) -> TensorOp:
    """An operation with nothing but what decides on the order of its sums.

    Loops outside of all that are summed over repeat the same order. Two iterations of the innermost
    one of them show how one follows another.
    """
    assert op.d is not None
    d = replace(op.d, base=op.d.base % _QUARTERS)
    loops, shorter = op.loops, _shorter(op)
    first = _first(d, math.prod(shorter))
    if first is not None and not op.loop_part_dim:
        loops, d = shorter, first
    return TensorOp(
        loops=loops,
        loop_part=op.loop_part,
        loop_part_dim=op.loop_part_dim,
        d=d,
        reduction=op.reduction,
        lanes=op.lanes,
        lanes_last=op.lanes_last,
        output16=op.output16,
    )


def _shorter(op: TensorOp) -> tuple[int, ...]:
    """The loops of an operation without what repeats the order of its sums."""
    loops = list(op.loops)
    outer = [k for k in range(op.reduction.bit_length(), len(loops)) if loops[k] > 1]
    for number, k in enumerate(outer):
        loops[k] = 1 if number else 2
    return tuple(loops)


def _first(d: Traversal, steps: int) -> Traversal | None:
    """A traversal of the first addresses of another one; None if its loops end elsewhere."""
    dims, product = [], 1
    for dim in d.dims:
        count = min(dim.count, -(-steps // product))
        dims.append(Dim(count, dim.stride))
        product *= count
    return replace(d, dims=tuple(dims)) if product == steps and not d.part_dim else None


@lru_cache(maxsize=4096)
def _measured(op: TensorOp) -> tuple[int | None, int | None, int | None]:
    words = words_per_step(op)
    return contribution_run(op), revisit_distance(op), None if words is None else -int(-words // 1)


def _steps(op: TensorOp) -> int:
    dims = tuple(Dim(count, 0) for count in op.loops)
    return Traversal(0, dims, part_count=op.loop_part, part_dim=op.loop_part_dim).steps


# --- what an operation does to its own operands --------------------------------------------------


def self_reads(program: Program) -> Iterator[Value]:
    """Words that each operation reads after it has written them itself."""
    found: dict[TensorOp, int] = {}
    for place, op in _tensor_operations(program):
        if not _overlaps(op):
            continue
        shape = replace(op, tiles=0, seq=0)
        if shape not in found:
            program.look_at(_steps(op))
            found[shape] = _read_again(shape)
        if found[shape]:
            yield Value(found[shape], place)


def _overlaps(op: TensorOp) -> bool:
    """Whether results may lie where operands do."""
    if op.op is not Opcode.MAC or op.a is None or op.b is None:
        return False
    (low, high), (first, last) = op.a.extent, op.b.extent
    return low <= last + 3 and first <= high + 3


def _read_again(op: TensorOp) -> int:
    """Words of narrow memory that are read in a later step than the one that writes them.

    Raises:
        SimulationError: operands whose steps are not those of the loops.
    """
    found = plan(op)
    if found.a is None or not len(found.b):
        return 0
    steps = np.arange(found.steps)
    ends = np.repeat(np.asarray(found.runs)[1:] - 1, np.diff(found.words))
    base = min(int(found.a.min()) >> 2, int(found.b.min()))
    size = max(int(found.a.max()) + 3 >> 2, int(found.b.max())) - base + 2
    written: Array = np.full(size, found.steps, np.int64)
    # The first step that writes a word: later assignments win, so the order is reversed.
    written[found.b[::-1] - base] = ends[::-1]
    again: Array = np.zeros(size, bool)
    for offset in {0, found.input_bytes - 1}:
        words = (found.a + offset >> 2) - base
        again[words[written[words] < steps]] = True
    return int(np.count_nonzero(again))


# --- narrow memory -------------------------------------------------------------------------------


def narrow_tops(program: Program) -> Iterator[Value]:
    """The highest word of narrow memory that each instruction uses."""
    for place, event in program.dispatched:
        top = max(_tops(event.instruction, event.base), default=None)
        if top is not None:
            yield Value(top, place)


def _tops(instruction: Instruction, base: int | None) -> Iterator[int]:
    match instruction:
        case TensorOp():
            for operand in (instruction.a, instruction.b):
                if operand is not None:
                    yield operand.extent[1] >> 2
        case NarrowToWide():
            narrow = instruction.narrow
            placed = narrow if base is None else replace(narrow, base=base)
            yield _top(placed, 1 if instruction.transpose else 0)
        case WideToNarrow() if not instruction.to_scaling:
            yield _top(instruction.narrow)
            if instruction.prefix is not None and instruction.prefix.enabled:
                yield instruction.prefix.end
        case Mesh():
            for half in (instruction.send, instruction.receive):
                if half is not None:
                    yield _top(half)


def _top(narrow: Traversal, partial_dim: int = 0) -> int:
    """The highest word of a traversal of narrow memory.

    Args:
        narrow: the traversal.
        partial_dim: the dimension that a partial last chunk shortens.

    Raises:
        FormatError: the traversal has too many steps to be followed.
    """
    if narrow.part_dim:
        # The extent takes a shorter last chunk for a whole one. With two slots, the last chunk may
        # also be the only one in the upper slot.
        return int(narrow.addresses(partial_dim=partial_dim).max())
    return narrow.extent[1]
