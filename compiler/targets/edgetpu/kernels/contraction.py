"""How is a tensor operation written whose trained weights come through slots of wide memory?

A `Contraction` describes it by named axes. The fields of the instruction, the slots, and what it
acquires and publishes follow from the axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.instructions.sync import Condition
from fitzroy.compiler.targets.edgetpu.kernels.tensor import (
    QUARTER,
    Axis,
    Nest,
    stage_fields,
)
from fitzroy.compiler.targets.edgetpu.kernels.walks import Dim, Walk
from fitzroy.compiler.targets.edgetpu.kernels.weights import WeightStream
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.tensor import TensorOp


@dataclass(frozen=True, slots=True)
class Lanes:
    """What the lanes of an operation compute.

    Attributes:
        count: lanes of a block of output channels.
        last: those of the last block.
        words: words of the result of one position.
        spread: further positions that lanes compute at the same time.
    """

    count: int
    last: int
    words: int
    spread: tuple[Dim, ...] = ()

    @classmethod
    def channels(cls, count: int, last: int) -> Lanes:
        """A lane for each channel of a position."""
        return cls(count, last, count // WORD)

    @property
    def part(self) -> tuple[int, str]:
        """Words of a position in the last block."""
        return self.last * self.words // self.count, "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """Sums over taps and chunks of input channels, for every position, block by block.

    Weights are acquired and released per chunk, scales and biases acquired per block, and results
    published per block or per iteration of another axis. Loops, levels, masks and conditions
    follow. The sums of several positions that chunk after chunk adds to are in wide memory, all
    others in accumulators.

    Attributes:
        source: byte address of the activations of the first tap of the first position.
        result: byte address of the first result.
        taps: what is summed over with the weights of a chunk, innermost first.
        positions: results that have the same weights, innermost first; None for a single one.
        chunk: chunks of input channels.
        block: blocks of output channels.
        lanes: what lanes compute.
        weights: the queue of weights.
        sums: rows of wide memory for sums, below those of weights.
        stage: constants of the output stage.
        publish: axis of which AVDATA counts iterations.
        acquire: what is waited for beside weights.
    """

    source: int
    result: int
    taps: Sequence[Axis]
    positions: Sequence[Axis] | None
    chunk: Axis
    block: Axis
    lanes: Lanes
    weights: WeightStream
    stage: OutputStage
    sums: int = 0
    publish: str = "block"
    acquire: Sequence[Condition] = ()

    def operation(self) -> TensorOp:
        """The tensor operation, as an instruction."""
        nest = self._nest()
        lanes, queue = self.lanes, self.weights
        written = nest.written(
            self.result, [("lane", lanes.words, WORD), *lanes.spread], lanes.part
        )
        inner = ("tap", queue.staged, QUARTER), *self._positions(0)
        factors = queue.walk(QUARTER * queue.weights, *inner, slot=QUARTER * queue.staged)
        return TensorOp(
            op=Opcode.MAC,
            a=nest.activations(self.source).bytes,
            b=written.bytes,
            c=factors.quarters,
            d=self._accumulators().quarters,
            avdata=written.each(self.publish),
            parameters=factors.each("chunk"),
            trained=True,
            accumulate=not self._in_memory,
            lanes=lanes.count,
            lanes_last=lanes.last,
            **nest.fields([*queue.taken(nest.names), *self.acquire], "block"),
            **queue.zero_points(self.stage),
            **stage_fields(self.stage),
        )

    def _nest(self) -> Nest:
        """The loops of the operation, innermost first."""
        positions, chunks = self.positions or (), [self.chunk]
        if self.positions is not None and self.chunk.count == 1:
            # One loop fewer, as in published programs.
            chunks = []
        return Nest.of([*self.taps, *positions, *chunks, self.block], [*self.taps, *chunks])

    @property
    def _count(self) -> int:
        """Number of positions for which sums are kept."""
        return math.prod(axis.count for axis in self.positions or ())

    def _positions(self, stride: int) -> tuple[Dim, ...]:
        """All positions as one loop, unless there is a single result."""
        return () if self.positions is None else (("position", self._count, stride),)

    @property
    def _in_memory(self) -> bool:
        """Whether sums are in wide memory from one chunk to the next."""
        return self.chunk.count > 1 and self._count > 1

    def _accumulators(self) -> Walk:
        """The addresses of partial sums, in accumulators or in wide memory."""
        taps, chunk = ("tap", self.weights.staged, 0), ("chunk", self.chunk.count, 0)
        block = "block", self.block.count, 0
        if self.positions is None:
            return Walk(0, (taps, chunk, block), ("block", QUARTER))
        if self._in_memory:
            base = QUARTER * (self.weights.vector_rows - self.sums)
            return Walk(base, (taps, *self._positions(QUARTER), chunk, block))
        steps = "tap", self.weights.staged * self.chunk.count, 0
        return Walk(0, (steps, *self._positions(0), block), ("position", QUARTER))
