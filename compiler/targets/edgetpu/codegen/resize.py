"""Bilinear resizing by whole factors.

Along an axis, results come in periods of as many as the factor; all periods use the same weights,
of neighbours that move on by one. Where both neighbours would be the first or the last element,
they are read twice. Every pair of phases of a period, down and across, has four matrices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, product

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.targets.edgetpu.codegen.builder import Reference, mask_of
from fitzroy.compiler.targets.edgetpu.codegen.convolution import QUARTER, padded, rows_at
from fitzroy.compiler.targets.edgetpu.codegen.copies import Run, Section
from fitzroy.compiler.targets.edgetpu.codegen.layers import Context, Layer, Weights, Window, filled
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.codegen.matrices import diagonal, moves
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    TILES,
    WORD,
    Image,
    Interval,
    Placed,
    Reach,
)
from fitzroy.compiler.targets.edgetpu.codegen.shapes import (
    as_image,
    assemble,
    image_shape,
    keeps_bytes,
    pointwise,
    temporary,
)
from fitzroy.compiler.targets.edgetpu.requantization import OutputStage, copy_stage
from fitzroy.formats.object_file import OperandKind, Part, SymbolKind
from fitzroy.hw_models.isa.fields import Opcode, Producer
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.numerics import Sampling

_ROW_LANES = 16
"""Lanes of a row of parameters with a matrix, the fewest that there are."""

_LARGEST_WEIGHT = 255
_MOST_OPERATION_BUNDLES = 600
_UP = 1 + 2.0**-20
"""Lifts exact halves, which are rounded up, above what is rounded to even."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Results along an axis that have their neighbours at regular distances.

    Attributes:
        first: the first result.
        phase: its place in a period.
        phases: results of every period.
        periods: number of periods.
        lower: lower neighbour of the first period.
        step: how far neighbours move on with each period.
        reach: distance of the neighbours.
    """

    first: int
    phase: int
    phases: int
    periods: int
    lower: int
    step: int
    reach: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the results along an axis come about.

    Attributes:
        before: elements.
        after: results.
        factor: results of a period.
        shift: places in its period that the first result is behind.
        offset: lower neighbour of the first period.
        weights: of the lower and the upper neighbour, by phase.
    """

    before: int
    after: int
    factor: int
    shift: int
    offset: int
    weights: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, before: int, after: int, sampling: Sampling) -> Scaling | None:
        """The scaling of an axis; None if the factor is not whole."""
        if before in (1, after):
            return cls(before, after, 1, 0, 0, ((1, 0),))
        inset = int(sampling is Sampling.ALIGN_CORNERS)
        factor = Fraction(after - inset, before - inset)
        if factor.denominator != 1:
            return None
        size = int(factor)
        start = Fraction(1 - size, 2 * size) if sampling is Sampling.HALF_PIXEL else Fraction(0)
        lower = start.numerator // start.denominator
        # Results in front of the first would have weights of their own in the same period.
        shift = int((start - lower) * size)
        rest = (start - lower) - Fraction(shift, size)
        unit = Fraction(1, size) if not rest else Fraction(1, 2 * size)
        whole = int(1 / unit)
        upper = [int((Fraction(phase, size) + rest) / unit) for phase in range(size)]
        return cls(
            before, after, size, shift, lower, tuple((whole - weight, weight) for weight in upper)
        )

    @property
    def unit(self) -> int:
        """Sum of the weights of both neighbours."""
        return sum(self.weights[0])

    def lowers(self, interval: Interval) -> list[tuple[int, int]]:
        """Unclamped lower neighbour and phase of results."""
        return [
            (self.offset + place // self.factor, place % self.factor)
            for place in range(interval[0] + self.shift, interval[1] + self.shift)
        ]

    def needs(self, interval: Interval) -> Interval:
        """Elements that results read."""
        if interval[0] == interval[1]:
            return (0, 0)
        if self.factor == 1:
            return interval if self.before > 1 else (0, 1)
        last = self.before - 1
        lows = [max(0, min(lower, last)) for lower, _ in self.lowers(interval)]
        return lows[0], min(lows[-1] + 1, last) + 1

    def pieces(self, interval: Interval) -> list[_Piece]:
        """Results of an interval, in as few pieces as possible."""
        begin, end = interval
        if self.factor == 1:
            step = int(self.before > 1)
            return [_Piece(begin, 0, 1, end - begin, begin * step, step, 0)]
        found: list[_Piece] = []
        first = begin
        for lower, group in groupby(self.lowers(interval), key=lambda item: item[0]):
            phases = [phase for _, phase in group]
            place = max(0, min(lower, self.before - 1))
            inside = int(0 <= lower < self.before - 1)
            piece = _Piece(first, phases[0], len(phases), 1, place, 1, inside)
            first += len(phases)
            if found:
                last = found[-1]
                if (last.phases, last.reach, piece.phases, inside) == (self.factor, 1) * 2:
                    found[-1] = replace(last, periods=last.periods + 1)
                    continue
            found.append(piece)
        return found


@dataclass(frozen=True, slots=True)
class _Neighbours(Reach):
    """What a scaling reads.

    Attributes:
        scaling: the scaling.
    """

    scaling: Scaling | None = None

    def needs(self, interval: Interval) -> Interval:
        """Elements that results read."""
        return (0, 0) if self.scaling is None else self.scaling.needs(interval)


@dataclass(eq=False, kw_only=True)
class Bilinear(Layer):
    """A bilinear resize that keeps the quantization.

    Attributes:
        rows: scaling along rows.
        columns: scaling along columns.
    """

    rows: Scaling
    columns: Scaling

    def windows(self, index: int) -> Window:
        """The neighbours."""
        return _Neighbours(scaling=self.rows), _Neighbours(scaling=self.columns)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """The matrices."""
        return self.weights[0].words

    def emit(self, context: Context) -> None:
        """Matrices to all tiles, then a tensor operation for every two pieces."""
        builder = context.builder
        source, result = context.image(self.reads[0]), context.image(self.writes)
        (operand,) = self.weights
        first = builder.staging - operand.words
        active = [tile for tile in range(TILES) if result.active(tile)]
        pieces = context.pieces[operand.name]
        builder.emit(
            RingConsume(
                op=Opcode.RING_CONSUME_B,
                tiles=mask_of(active),
                wide=rows_at(first, [(operand.words, 1)]),
                wait=padded([], 1),
                ring_read=Producer(1),
            )
        )
        for group, piece in enumerate(pieces):
            builder.emit(
                RingProduce(
                    tiles=1 << piece.tile,
                    wide=rows_at(piece.row, [(piece.words, 1)]),
                    token=Producer(0),
                    wait=padded([builder.tokens.turn(1, 1, piece.words)], 2),
                    channel=1,
                    destination=mask_of(active),
                ),
                Reference("wide.base", SymbolKind.OPERAND, operand.name, Part.ROW, 0, group),
            )
        builder.barrier()
        boxes = {tile: self._boxes(result, tile) for tile in active}
        for index in range(max(map(len, boxes.values()))):
            builder.room(_MOST_OPERATION_BUNDLES)
            builder.on_tiles(
                lambda tile, index=index: self._operation(  # type: ignore[misc]
                    source, result, tile, boxes[tile][index], first
                ),
                [tile for tile, mine in boxes.items() if index < len(mine)],
            )

    def _boxes(self, result: Image, tile: int) -> list[tuple[_Piece, _Piece]]:
        rows, columns = result.owned(tile)
        return list(product(self.rows.pieces(rows), self.columns.pieces(columns)))

    def _operation(
        self, source: Image, result: Image, tile: int, box: tuple[_Piece, _Piece], first: int
    ) -> TensorOp:
        down, across = box
        halves = _halves(self.rows, self.columns)
        row = QUARTER * (2 if halves else 1)
        line = 4 * row * self.columns.factor
        taps = [
            (2, source.depth * across.reach, row),
            (2, source.pitch * down.reach, 2 * row),
        ]
        if halves:
            taps.insert(0, (2, 2, QUARTER))
        return moves(
            source.address(tile, down.lower, across.lower),
            result.address(tile, down.first, across.first),
            first + (line * down.phase + 4 * row * across.phase) // QUARTER,
            taps,
            [
                (result.depth // WORD, WORD, WORD, 0),
                (across.phases, 0, result.depth, 4 * row),
                (across.periods, source.depth * across.step, result.depth * across.phases, 0),
                (down.phases, 0, result.pitch, line),
                (down.periods, source.pitch * down.step, result.pitch * down.phases, 0),
            ],
            OutputStage(scale=_UP / (self.rows.unit * self.columns.unit)),
            halfwords=halves,
        )


def _halves(rows: Scaling, columns: Scaling) -> bool:
    """Whether products of weights take 16 bits."""
    most = max(map(max, rows.weights)) * max(map(max, columns.weights))
    return most > _LARGEST_WEIGHT


def _matrices(rows: Scaling, columns: Scaling) -> list[tuple[int, ...]]:
    """Of every phase down and across, of the upper left, right, lower left and right neighbours."""
    found = []
    for down, across in product(rows.weights, columns.weights):
        for y, x in product(down, across):
            if not _halves(rows, columns):
                found.append(diagonal(y * x))
                continue
            for half in (0, 2):
                found.append(
                    tuple(
                        y * x << 16 * (lane - half) if lane - half in (0, 1) else 0
                        for lane in range(WORD)
                    )
                )
    return found


_MOST_MATRICES = 512
"""Matrices, which lie in wide memory once as parameters and once where they are used."""


@legalizes("resize_bilinear")
def _resize_bilinear(legalizer: Legalizer, call: Call) -> None:
    node, result, after = call.node, call.node.outputs[0], call.result.type
    source = as_image(legalizer, node.inputs[0] or "")
    height, width, channels = image_shape(legalizer, source)
    before = legalizer.type(source)
    attributes = call.attributes(ResizeAttributes)
    size = attributes.size
    if size == (height, width) and keeps_bytes(before, after):
        legalizer.aliases[result] = source
        return
    if (height, width) in ((1, 1), size):
        across = Run(size[1], stride=int(width > 1))
        section = Section(Run(size[0], stride=int(height > 1)), across, channels)
        assemble(legalizer, node.name, result, after, [(source, section)])
        return
    rows = Scaling.of(height, size[0], attributes.sampling)
    columns = Scaling.of(width, size[1], attributes.sampling)
    if rows is None or columns is None:
        raise UnsupportedError(
            f"{node.name!r} resizes {height} x {width} to {size[0]} x {size[1]}, "
            f"not by whole factors",
            hint="choose sizes that are multiples, or with aligned corners multiples less one",
        )
    matrices = _matrices(rows, columns)
    if len(matrices) > _MOST_MATRICES:
        raise UnsupportedError(
            f"{node.name!r} resizes by {rows.factor} x {columns.factor}, which takes "
            f"{len(matrices)} matrices of at most {_MOST_MATRICES}",
            hint="resize in two steps",
        )
    data = np.zeros((len(matrices), _ROW_LANES), np.uint32)
    data[:, :WORD] = matrices
    resized = result
    if not keeps_bytes(before, after):
        resized = temporary(legalizer, f"{result}.resized", replace(before, shape=after.shape))
    legalizer.layers.append(
        Bilinear(
            name=node.name,
            reads=(source,),
            writes=resized,
            rows=rows,
            columns=columns,
            weights=(
                Weights(
                    node.name,
                    OperandKind.CONVOLUTION,
                    _ROW_LANES,
                    0,
                    filled(data.view(np.uint8).reshape(-1)),
                    len(matrices),
                ),
            ),
        )
    )
    if resized != result:
        pointwise(legalizer, f"{result}.requantized", resized, result, copy_stage(before, after))
