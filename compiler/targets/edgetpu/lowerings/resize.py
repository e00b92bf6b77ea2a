"""Bilinear resizing.

Places of results among the elements of an axis advance by a fraction, so that weights of neighbours
repeat with a period; weights that do not fit bytes are rounded to 1/255. Results whose weights and
neighbours advance regularly make a piece. Where both neighbours would be the first or the last
element, it is read twice. If their products are few and small, every pair of phases, down and
across, has matrices of its four neighbours. Otherwise rows are interpolated first, to sums of 16
bits, and then columns.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, product
from typing import TypeVar

import numpy as np

from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.targets.edgetpu.instructions.builder import mask_of
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE
from fitzroy.compiler.targets.edgetpu.kernels.tensor import QUARTER, Axis, moves
from fitzroy.compiler.targets.edgetpu.kernels.transfers import consume
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.kernels.weights import send
from fitzroy.compiler.targets.edgetpu.layers.layer import (
    Context,
    Layer,
    Weights,
    Windows,
    filled,
    word_cycles,
)
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.matrices import diagonal
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import Row
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    TILES,
    WORD,
    Image,
    Interval,
    Placed,
    Window,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage, copy_stage
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Run, Section
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import (
    as_image,
    assemble,
    image_shape,
    keeps_bytes,
    pointwise,
    temporary,
)
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.numerics import Sampling

T = TypeVar("T")

_ROW_LANES = 16
"""Lanes of a row of parameters with a matrix, the fewest that there are."""

_LARGEST_WEIGHT = 255
_UP = 1 + 2.0**-22
"""Lifts exact halves, which are rounded up, above what is rounded to even."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Results along an axis that have their neighbours at regular distances.

    Attributes:
        first: the first result.
        phase: its place in a period.
        phases: results that follow it, itself included, with the same neighbours.
        periods: how often that repeats.
        stride: results from one time to the next.
        lower: lower neighbour the first time.
        step: how far neighbours move on each time.
        reach: distance of the neighbours.
    """

    first: int
    phase: int
    phases: int
    periods: int
    stride: int
    lower: int
    step: int
    reach: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the results along an axis come about.

    Attributes:
        before: elements.
        step: elements from one result to the next.
        shift: places in its period that the first result is behind.
        origin: where a result at the first place of that period would be.
    """

    before: int
    step: Fraction
    shift: int = 0
    origin: Fraction = Fraction(0)

    @classmethod
    def of(cls, before: int, after: int, sampling: Sampling) -> Scaling:
        """The scaling of an axis from `before` elements to `after`."""
        if before in (1, after):
            return cls(before, Fraction(int(before > 1)))
        inset = int(sampling is Sampling.ALIGN_CORNERS and after > 1)
        step = Fraction(before - inset, after - inset)
        start = (step - 1) / 2 if sampling is Sampling.HALF_PIXEL else Fraction(0)
        # Places that round down to the same element have consecutive phases.
        shift = int(start % 1 / step)
        return cls(before, step, shift, start - shift * step)

    @property
    def _denominator(self) -> int:
        """The common denominator of all positions."""
        return math.lcm(self.origin.denominator, self.step.denominator)

    @property
    def rounded(self) -> bool:
        """Whether weights are rounded to bytes."""
        return self._denominator > _LARGEST_WEIGHT

    @property
    def unit(self) -> int:
        """Sum of the weights of both neighbours."""
        return min(self._denominator, _LARGEST_WEIGHT)

    @property
    def weights(self) -> list[tuple[int, int]]:
        """Of the lower and the upper neighbour, by phase."""
        if self.rounded:
            return [(self.unit - weight, weight) for weight in range(self.unit + 1)]
        places = (self.origin + self.step * phase for phase in range(self.step.denominator))
        upper = [int(place % 1 * self.unit) for place in places]
        return [(self.unit - weight, weight) for weight in upper]

    def phase(self, place: int) -> int:
        """Number of the weights of a result."""
        number = place + self.shift
        if self.rounded:
            return int((self.origin + self.step * number) % 1 * self.unit + Fraction(1, 2))
        return number % self.step.denominator

    def lower(self, place: int) -> int:
        """Lower neighbour of a result; may lie outside of the axis."""
        return int((self.origin + self.step * (place + self.shift)) // 1)

    def needs(self, interval: Interval) -> Interval:
        """Elements of the operand that an interval of the result reads."""
        if interval[0] == interval[1]:
            return (0, 0)
        last, reach = self.before - 1, int(self.unit > 1)
        first, end = (
            max(0, min(self.lower(place), last)) for place in (interval[0], interval[1] - 1)
        )
        return first, min(end + reach, last) + 1

    def pieces(self, interval: Interval) -> list[_Piece]:
        """Results of an interval, in as few pieces as possible."""
        by_phase = self._by_phase(interval)
        if self.rounded or not self.step:
            return by_phase
        return min(self._grouped(interval), by_phase, key=len)

    def _piece(self, first: int, phases: int, periods: int, stride: int) -> _Piece:
        lower, last = self.lower(first), self.before - 1
        inside = self.unit > 1 and 0 <= lower < last
        return _Piece(
            first,
            self.phase(first),
            phases,
            periods,
            stride,
            max(0, min(lower, last)),
            self.step.numerator,
            int(inside),
        )

    def _grouped(self, interval: Interval) -> list[_Piece]:
        """Pieces of consecutive results with the same neighbours."""
        found: list[_Piece] = []
        for _, group in groupby(range(*interval), key=self.lower):
            places = list(group)
            piece = self._piece(places[0], len(places), 1, len(places))
            last = found[-1] if found else None
            if (
                last is not None
                and self.step.denominator == last.phases == piece.phases
                and last.reach == piece.reach == 1
            ):
                found[-1] = replace(last, periods=last.periods + 1)
            else:
                found.append(piece)
        return found

    def _by_phase(self, interval: Interval) -> list[_Piece]:
        """Pieces of results of one phase."""
        found: list[_Piece] = []
        (begin, end), period = interval, self.step.denominator
        for first in range(begin, min(begin + period, end)):
            places = range(first, end, period)
            for _, group in groupby(places, key=lambda place: self._regular(self.lower(place))):
                run = list(group)
                found.append(self._piece(run[0], 1, len(run), period))
        return found

    def _regular(self, lower: int) -> int:
        """Which results may share a piece: those with two neighbours, or each by itself."""
        if self.unit == 1 or 0 <= lower < self.before - 1:
            return -1
        return abs(lower)


@dataclass(frozen=True, slots=True)
class _Neighbours(Window):
    """What a scaling reads.

    Attributes:
        scaling: the scaling.
    """

    scaling: Scaling | None = None

    def needs(self, interval: Interval) -> Interval:
        """Elements of the operand that an interval of the result reads."""
        return (0, 0) if self.scaling is None else self.scaling.needs(interval)


@dataclass(frozen=True, eq=False, kw_only=True)
class Bilinear(Layer):
    """A bilinear resize that keeps the quantization.

    Attributes:
        rows: scaling along rows.
        columns: scaling along columns.
    """

    rows: Scaling
    columns: Scaling

    strips = True
    by_name = True

    def windows(self, index: int) -> Windows:
        """The neighbours along rows and columns."""
        return _Neighbours(scaling=self.rows), _Neighbours(scaling=self.columns)

    @property
    def stage(self) -> OutputStage:
        """Constants of the last output stage."""
        return OutputStage(scale=_UP / (self.rows.unit * self.columns.unit))

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory for the matrices."""
        return self.weights[0].words

    def emit(self, context: Context) -> None:
        """Matrices to all tiles, then the tensor operations."""
        builder, result = context.builder, context.image(self.writes)
        (operand,) = self.weights
        first = builder.staging - operand.words
        active = [tile for tile in range(TILES) if result.active(tile)]
        pieces = context.pieces[operand.name]
        rows = walk(first, row=(operand.words, 1))
        builder.emit(consume(1, rows, publish=WHOLE, tiles=mask_of(active)))
        send(builder, operand.name, pieces, mask_of(active))
        builder.barrier()
        self.interpolate(context, first)

    @abstractmethod
    def interpolate(self, context: Context, first: int) -> None:
        """Append the tensor operations, with matrices from a row of wide memory on."""


def _axes(name: str, piece: _Piece, read: int, write: int, factor: int) -> list[Axis]:
    """Loops over the results of a piece.

    Args:
        name: the axis of the image.
        piece: the piece.
        read: bytes between neighbours.
        write: bytes between results.
        factor: quarter rows between the matrices of phases.
    """
    return [
        Axis(f"{name} phase", piece.phases, 0, write, factor),
        Axis(name, piece.periods, read * piece.step, write * piece.stride),
    ]


class Direct(Bilinear):
    """A resize with matrices for all four neighbours."""

    word_steps = 4

    def interpolate(self, context: Context, first: int) -> None:
        """A tensor operation for every two pieces."""
        source, result = context.image(self.reads[0]), context.image(self.writes)
        line = _FOUR * len(self.columns.weights)

        def operation(tile: int, box: tuple[_Piece, _Piece]) -> TensorOp:
            down, across = box
            return moves(
                source.address(tile, down.lower, across.lower),
                result.address(tile, down.first, across.first),
                first + line * down.phase + _FOUR * across.phase,
                [
                    Axis("kx", 2, source.depth * across.reach, 0, QUARTER),
                    Axis("ky", 2, source.pitch * down.reach, 0, 2 * QUARTER),
                ],
                [
                    Axis("word", result.depth // WORD, WORD, WORD),
                    *_axes("x", across, source.depth, result.depth, QUARTER * _FOUR),
                    *_axes("y", down, source.pitch, result.pitch, QUARTER * line),
                ],
                self.stage,
            )

        boxes = {}
        for tile in filter(result.active, range(TILES)):
            rows, columns = result.owned(tile)
            boxes[tile] = list(product(self.rows.pieces(rows), self.columns.pieces(columns)))
        context.builder.on_pieces(boxes, operation)


_STRIP_BYTES = 48 << 10
"""Most narrow memory for interpolated rows, unless a single one takes more."""

_SUM = 2
"""Bytes of a sum."""


class Separable(Bilinear):
    """A resize of rows, whose sums of 16 bits are exact, and then of columns."""

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles: four steps for a word of the result, two for one of the sums before."""
        return word_cycles(area, groups, 4 + 2 * float(self.columns.step)) + BEAGLE.timing.phase

    def _line(self, result: Image) -> int:
        """Bytes of a row of sums."""
        needed = map(self.columns.needs, result.columns.owned)
        return _SUM * result.depth * max(end - begin for begin, end in needed)

    def _height(self, result: Image) -> int:
        """Rows of sums of a strip."""
        most = max(end - begin for begin, end in result.rows.owned)
        return max(1, min(most, _STRIP_BYTES // max(1, self._line(result))))

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for the sums of a strip."""
        result = tensors[self.writes]
        assert isinstance(result, Image)
        return self._height(result) * self._line(result)

    def interpolate(self, context: Context, first: int) -> None:
        """Strip by strip, an operation for every piece of its rows, then of columns."""
        result = context.image(self.writes)
        height = self._height(result)
        most = max(end - begin for begin, end in result.rows.owned)
        for start in range(0, most, height):
            strips = {}
            for tile in filter(result.active, range(TILES)):
                (top, bottom), _ = result.owned(tile)
                if top + start < bottom:
                    strips[tile] = (top + start, min(top + start + height, bottom))
            if start:
                context.builder.barrier()
            self._rows(context, strips, first)
            context.builder.barrier()
            self._columns(context, strips, first + 2 * len(self.rows.weights))

    def _rows(self, context: Context, strips: Mapping[int, Interval], first: int) -> None:
        source, result = context.image(self.reads[0]), context.image(self.writes)
        line = self._line(result)

        def operation(tile: int, piece: _Piece) -> TensorOp:
            begin, end = self.columns.needs(result.owned(tile)[1])
            return moves(
                source.address(tile, piece.lower, begin),
                context.scratch + line * (piece.first - strips[tile][0]),
                first + 2 * piece.phase,
                [Axis("ky", 2, source.pitch * piece.reach, 0, QUARTER)],
                [
                    Axis("word", source.depth // WORD * (end - begin), WORD, _SUM * WORD),
                    *_axes("y", piece, source.pitch, line, 2 * QUARTER),
                ],
                output16=True,
            )

        pieces = {tile: self.rows.pieces(rows) for tile, rows in strips.items()}
        context.builder.on_pieces(pieces, operation)

    def _columns(self, context: Context, strips: Mapping[int, Interval], first: int) -> None:
        result = context.image(self.writes)
        line, pixel = self._line(result), _SUM * result.depth

        def operation(tile: int, piece: _Piece) -> TensorOp:
            top, bottom = strips[tile]
            begin, _ = self.columns.needs(result.owned(tile)[1])
            return moves(
                context.scratch + pixel * (piece.lower - begin),
                result.address(tile, top, piece.first),
                first + 2 * piece.phase,
                [
                    # A step takes two of the four factors of a matrix.
                    Axis("half", 2, WORD, 0, QUARTER // 2),
                    Axis("kx", 2, pixel * piece.reach, 0, QUARTER),
                ],
                [
                    Axis("word", result.depth // WORD, _SUM * WORD, WORD),
                    *_axes("x", piece, pixel, result.depth, 2 * QUARTER),
                    Axis("y", bottom - top, line, result.pitch),
                ],
                self.stage,
                a16=True,
            )

        pieces = {tile: self.columns.pieces(result.owned(tile)[1]) for tile in strips}
        context.builder.on_pieces(pieces, operation)


_FOUR = 4
"""Matrices of a phase down and across: upper left and right, lower left and right."""

_MOST_MATRICES = 512
"""Matrices of all phases down and across, to have some for each."""


def _planned(rows: Scaling, columns: Scaling) -> tuple[type[Bilinear], list[Row]]:
    """The layer that resizes, and its matrices; direct if products of weights are bytes."""
    if (
        rows.unit * columns.unit <= _LARGEST_WEIGHT
        and _FOUR * len(rows.weights) * len(columns.weights) <= _MOST_MATRICES
    ):
        phases = product(rows.weights, columns.weights)
        return Direct, [
            diagonal(y * x) for down, across in phases for y, x in product(down, across)
        ]
    return Separable, [
        diagonal(weight) for axis in (rows, columns) for pair in axis.weights for weight in pair
    ]


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
    kind, matrices = _planned(rows, columns)
    data = np.zeros((len(matrices), _ROW_LANES), np.uint32)
    data[:, :WORD] = matrices
    resized = result
    if not keeps_bytes(before, after):
        resized = temporary(legalizer, f"{result}.resized", replace(before, shape=after.shape))
    legalizer.layers.append(
        kind(
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
