"""Which tensor operations of a compiled program compute which operators of its source.

Tensor operations with the same constants over the same number of weight words form a site. An
operator belongs to a site by the constants of its output stage; where those are allowed to differ,
by the sizes of its weights and the order of the program, in which no operator begins before those
that it depends on.

Facts: tensor operations of published compiled models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.formats.darwinn import Executable
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES
from fitzroy.hw_models.isa.program import disassemble, positions
from fitzroy.hw_models.isa.scalar import Scalar
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.parameters import (
    BLOCK_CHANNELS,
    CHANNEL_GROUP,
    ConvolutionLayout,
    FilterLayout,
    Prefix,
    WordOrder,
)

CLAMP_TOLERANCE = 1e-3
"""How far clamps may differ without effect on rounded values; compilers vary in the last bits."""

ADJUSTABLE = frozenset({"scale", "c_zero_point"})
"""Constants that depend on the weights and on nothing else."""

_CLAMPS = ("minimum", "maximum")
_STAGE = tuple(OutputStage.__dataclass_fields__)

MOST_STATES = 1 << 14
"""Most states of a search for assignments; more are taken for an ambiguity."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where an instruction is: number of the chunk, and byte offset in it."""

    chunk: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """Tensor operations with the same output stage and number of weight words.

    Attributes:
        words: weight words that every output reads.
        operations: the instructions by their positions, in order of the program.
    """

    words: int
    operations: Mapping[Position, TensorOp]

    @property
    def first(self) -> TensorOp:
        """One of the operations; all have the same constants."""
        return next(iter(self.operations.values()))

    @property
    def prefix(self) -> Prefix:
        """The vectors that the operations read from memory."""
        op = self.first
        return Prefix(op.scale_in_memory, op.bias_in_memory, op.zero_points_in_memory)

    @property
    def is_copy(self) -> bool:
        """Whether it may move data only: with weights of zero and one, or made on the chip."""
        op = self.first
        plain = not op.zero_points_in_memory and op.c_zero_point == 0
        return plain and (op.scale > 0.99 or not op.trained)

    def fits(self, layout: FilterLayout) -> bool:
        """Whether weights of this layout have as many words and lanes."""
        return self.words == layout.weight_words and any(self.for_layout(layout))

    def for_layout(self, layout: FilterLayout) -> Iterator[TensorOp]:
        """The operations that have the lanes of a layout."""
        wanted = _lanes(layout)
        return (op for op in self.operations.values() if op.lanes in wanted)


def tensor_operations(executable: Executable) -> dict[Position, TensorOp]:
    """All tensor operations of a program, in order.

    Raises:
        FormatError: a malformed instruction.
    """
    found = {}
    for chunk, stream in enumerate(executable.instruction_bitstreams or ()):
        data = b"" if stream.bitstream is None else stream.bitstream.tobytes()
        for bundle, instruction in positions(disassemble(data)):
            if isinstance(instruction, TensorOp):
                found[Position(chunk, bundle * BUNDLE_BYTES)] = instruction
    return found


def scalar_words(executable: Executable) -> set[int]:
    """Immediate words of the scalar core's instructions.

    Raises:
        FormatError: a malformed instruction.
    """
    return {
        instruction.immediate
        for stream in executable.instruction_bitstreams or ()
        if stream.bitstream is not None
        for instruction in disassemble(stream.bitstream.tobytes())
        if isinstance(instruction, Scalar)
    }


def sites(operations: Mapping[Position, TensorOp]) -> list[Site]:
    """The sites of a program, in the order in which they begin."""
    found: dict[tuple[object, ...], dict[Position, TensorOp]] = {}
    for place, operation in operations.items():
        if _multiplies_bytes(operation):
            constants = tuple(getattr(operation, name) for name in _STAGE)
            key = (_words(operation), operation.trained, *constants)
            found.setdefault(key, {})[place] = operation
    return [Site(_words(next(iter(group.values()))), group) for group in found.values()]


def differences(stage: OutputStage, operation: TensorOp) -> list[str]:
    """Names of the constants in which an operation differs from an output stage."""
    differing = []
    for name in _STAGE:
        found, wanted = getattr(operation, name), getattr(stage, name)
        tolerance = CLAMP_TOLERANCE if name in _CLAMPS else 0
        if found != wanted and not abs(found - wanted) < tolerance:
            differing.append(name)
    return differing


def word_order(layout: ConvolutionLayout, operation: TensorOp) -> WordOrder | None:
    """The order in which an operation reads the activations of one output, if it is one of both.

    Args:
        layout: of the weights, with either order.
        operation: one with as many weight words.
    """
    rows, columns = layout.kernel
    groups = layout.input_groups
    run = _first_run(operation)
    if run.size != layout.weight_words:
        return None
    in_group = np.arange(groups) * CHANNEL_GROUP
    for order in WordOrder:
        inner = order is WordOrder.IC_INNER
        shape = (rows, columns, groups) if inner else (groups, rows, columns)
        grid = run.reshape(shape) if inner else run.reshape(shape).transpose(1, 2, 0)
        down = np.arange(rows) * (grid[1, 0, 0] if rows > 1 else 0)
        right = np.arange(columns) * (grid[0, 1, 0] if columns > 1 else 0)
        if np.array_equal(grid, down[:, None, None] + right[None, :, None] + in_group):
            return order
    return None


def assign(
    candidates: Mapping[str, Sequence[int]],
    after: Mapping[str, frozenset[str]],
    required: frozenset[int],
) -> list[dict[str, int]]:
    """Ways to give every operator a site of its own, in the order of the program; at most two.

    Args:
        candidates: sites that are possible for each operator, by their numbers in the program.
        after: the operators that each one depends on.
        required: sites that must belong to an operator.

    Returns:
        No way, the only one, or two of several.
    """
    order = sorted({site for options in candidates.values() for site in options} | required)
    states: dict[frozenset[str], list[dict[str, int]]] = {frozenset(): [{}]}
    for site in order:
        following: dict[frozenset[str], list[dict[str, int]]] = {}
        for done, ways in states.items():
            if site not in required:
                _join(following, done, ways)
            for name, options in candidates.items():
                if (
                    name not in done
                    and site in options
                    and not (after[name] - done) & set(candidates)
                ):
                    _join(following, done | {name}, [way | {name: site} for way in ways])
        states = following
        if len(states) > MOST_STATES:
            return [{}, {}]
    return states.get(frozenset(candidates), [])


def _join(
    states: dict[frozenset[str], list[dict[str, int]]],
    done: frozenset[str],
    ways: list[dict[str, int]],
) -> None:
    states[done] = (states.get(done, []) + ways)[:2]


# --- geometry ------------------------------------------------------------------------------------


def _multiplies_bytes(operation: TensorOp) -> bool:
    """Whether it is of the form that convolutions and copies have."""
    plain = not (operation.a16 or operation.c16 or any(operation.idle_multipliers))
    return operation.op is Opcode.MAC and plain


def _words(operation: TensorOp) -> int:
    """Weight words that every output reads."""
    if not operation.accumulate:
        return math.prod(
            count for k, count in enumerate(operation.loops) if operation.reduction >> k & 1
        )
    d = operation.d
    if d is not None and d.fifo_step:
        return math.prod(dim.count for dim in d.dims[: d.fifo_dim])
    return math.prod(operation.loops)


def _lanes(layout: FilterLayout) -> set[int]:
    """Lanes of the blocks of output channels, rounded up to whole groups of channels."""
    if layout.block_channels < BLOCK_CHANNELS:
        return {layout.block_channels}
    last = (layout.channels - 1) % BLOCK_CHANNELS + 1
    lanes = {-(-last // CHANNEL_GROUP) * CHANNEL_GROUP}
    return lanes | {BLOCK_CHANNELS} if layout.channels > BLOCK_CHANNELS else lanes


def _first_run(operation: TensorOp) -> Array:
    """Offsets of the activations of the first output, in the order in which they are read."""
    steps = np.arange(_words(operation))
    if not operation.accumulate:
        steps, stride = np.zeros(1, np.int64), 1
        for k, count in enumerate(operation.loops):
            if operation.reduction >> k & 1:
                steps = (np.arange(count)[:, None] * stride + steps).reshape(-1)
            stride *= count
    offsets = np.zeros(steps.size, np.int64)
    for dim in operation.a.dims if operation.a is not None else ():
        offsets += steps % dim.count * dim.stride
        steps = steps // dim.count
    return offsets
