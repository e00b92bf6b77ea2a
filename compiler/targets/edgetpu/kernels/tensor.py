"""Tensor operations: what their loops are, and the fields that follow from it.

A tensor operation walks over activations, results, factors and sums at the same time. Its loops
are axes with a distance for each of these; what an axis is (a tap, a position, a chunk of input
channels, a block of output channels) decides whether it is summed over, what it moves, and where
conditions and counters belong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE, Condition
from fitzroy.compiler.targets.edgetpu.kernels.walks import Dim, Walk, level, watchers
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import QUARTERS

QUARTER = 4
"""Addresses of tensor operations in wide memory count quarters of a row."""

PLAIN = OutputStage(scale=1.0)
"""Bytes as they are."""

_LOOPS = 8
_CONDITIONS = 6

_HALF = 2
"""Bytes of a result of 16 bits."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop of a tensor operation.

    Attributes:
        name: what it goes over; unique in the operation.
        count: iterations.
        read: bytes from the activations of an iteration to those of the next.
        write: bytes from its results to the next ones; nothing if it is summed over.
        factor: quarter rows from its weights, or matrices, to the next ones.
        turn: bytes between two slots of activations that it reads in turn, 0 for none.
    """

    name: str
    count: int
    read: int = 0
    write: int = 0
    factor: int = 0
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a tensor operation.

    Attributes:
        axes: innermost first.
        summed: names of those that are summed over.
    """

    axes: tuple[Axis, ...]
    summed: frozenset[str]

    @classmethod
    def of(cls, axes: Iterable[Axis], summed: Iterable[Axis]) -> Nest:
        """Axes, innermost first, and those of them that are summed over."""
        return cls(tuple(axes), frozenset(axis.name for axis in summed))

    @property
    def names(self) -> list[str]:
        """The axes, innermost first."""
        return [axis.name for axis in self.axes]

    @property
    def results(self) -> list[Axis]:
        """The axes that are not summed over."""
        return [axis for axis in self.axes if axis.name not in self.summed]

    def activations(self, base: int) -> Walk:
        """What is read, from a byte address on."""
        turn = next(((axis.name, axis.turn) for axis in self.axes if axis.turn), None)
        return Walk(base, tuple((axis.name, axis.count, axis.read) for axis in self.axes), turn)

    def written(self, base: int, lanes: Sequence[Dim], part: tuple[int, str] | None = None) -> Walk:
        """What is written, from a byte address on.

        Args:
            base: the address.
            lanes: loops over the words of all lanes.
            part: words of the last iteration of an axis, if there are fewer, and that axis.
        """
        results = tuple((axis.name, axis.count, axis.write) for axis in self.results)
        return Walk(base, (*lanes, *results), part=part)

    def factors(self, base: int, turn: tuple[str, int] | None = None) -> Walk:
        """Weights or matrices, from a quarter row on; `turn` as for walks."""
        return Walk(base, tuple((axis.name, axis.count, axis.factor) for axis in self.axes), turn)

    def accumulators(self) -> Walk:
        """Sums that stay in accumulators, several in two of them in turn; taps are innermost."""
        taps = [(a.name, a.count, 0) for a in self.axes if a.name in self.summed]
        steps = math.prod(count for _, count, _ in taps)
        if steps <= 1 << QUARTERS.address:
            taps = [("sum", steps, 0)]
        results = self.results
        turn = results[0].name, QUARTER
        return Walk(0, (*taps, *[(a.name, a.count, 0) for a in results]), turn)

    def fields(self, conditions: Iterable[Condition], block: str = WHOLE) -> dict[str, Any]:
        """Loops, reductions, blocks and conditions.

        Args:
            conditions: what is waited for.
            block: the axis of blocks of output channels; there is a single one by default.
        """
        mask = sum(1 << k for k, axis in enumerate(self.axes) if axis.name in self.summed)
        return {
            "loops": (*[axis.count for axis in self.axes], *[1] * (_LOOPS - len(self.axes))),
            "reduction": mask,
            "block_level": min(_LOOPS - 1, level(block, self.names)),
            "wait": watchers(conditions, self.names, _CONDITIONS),
        }


def stage_fields(stage: OutputStage) -> dict[str, Any]:
    """The fields of a tensor operation that an output stage fixes."""
    return {
        "scale": stage.scale,
        "minimum": stage.minimum,
        "maximum": stage.maximum,
        "output_zero_point": stage.output_zero_point,
        "a_zero_point": stage.a_zero_point,
        "c_zero_point": stage.c_zero_point,
        "constant": stage.constant,
        "scale_in_memory": stage.scale_in_memory,
        "bias_in_memory": stage.bias_in_memory,
        "zero_points_in_memory": stage.zero_points_in_memory,
        "nlu": stage.nlu,
        "nlu_odd": stage.nlu_odd,
    }


def moves(
    source: int,
    target: int,
    row: int,
    taps: Sequence[Axis],
    places: Sequence[Axis],
    stage: OutputStage = PLAIN,
    *,
    acquire: Iterable[Condition] = (),
    turn: tuple[str, int] | None = None,
    publish: str | None = None,
    release: str | None = None,
    block: str = WHOLE,
    lanes: int = WORD,
    output16: bool = False,
    **more: Any,
) -> TensorOp:
    """A tensor operation that makes words of a result out of words and rows.

    Args:
        source: byte address of the first activations.
        target: byte address of the first word of the result.
        row: first row of wide memory.
        taps: loops that are summed over, innermost first.
        places: loops over the result, innermost first.
        stage: constants of the output stage.
        acquire: what is waited for.
        turn: an axis from which on two slots of rows are used in turn, and their distance in
            quarters.
        publish: the axis of which AVDATA counts iterations, None to count nothing.
        release: the axis of which PARAMETERS counts iterations likewise.
        block: the axis of blocks of output channels, whose lanes have scales of their own.
        lanes: lanes, of which each four make a word.
        output16: whether results have 16 bits.
        more: further fields of the instruction.
    """
    taps = taps or [Axis("tap", 1)]
    nest = Nest.of([*taps, *places], taps)
    size = lanes * (_HALF if output16 else 1)
    written = nest.written(target, [("lane", size // WORD, WORD)] if size > WORD or block else [])
    factors = nest.factors(QUARTER * row, turn)
    fields: dict[str, Any] = {
        **nest.fields(acquire, block),
        **stage_fields(stage),
        "accumulate": True,
        "output16": output16,
        **more,
    }
    return TensorOp(
        op=Opcode.MAC,
        a=nest.activations(source).bytes,
        b=written.bytes,
        c=factors.quarters,
        d=nest.accumulators().quarters,
        avdata=None if publish is None else written.each(publish),
        parameters=None if release is None else factors.each(release),
        lanes=lanes,
        lanes_last=lanes,
        **fields,
    )


def single_bytes(
    source: int,
    target: int,
    identity: int,
    steps: Axis,
    places: Sequence[Axis],
    **more: Any,
) -> TensorOp:
    """Words of narrow memory, put together from single bytes; the arguments are those of `moves`.

    Args:
        source: byte address of the first byte.
        target: byte address of the first word.
        identity: wide row of the identity matrix.
        steps: bytes of a word, a quarter row apart; the others become zero.
        places: loops over words.
        more: further arguments of `moves`.
    """
    more = {"publish": WHOLE, "idle_multipliers": (True,) * 3, "block_level": 1, **more}
    return moves(source, target, identity, [steps], places, **more)
