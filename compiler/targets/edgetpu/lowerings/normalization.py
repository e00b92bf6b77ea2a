"""L2 normalization: every pixel divided by the length of its channels.

Squares, of 16 bits, are a function of each element. Their sum S goes through a table of reciprocal
square roots, once as ``fine = 64 ONE / sqrt(max(S, 4096))`` and once as ``coarse = ONE /
sqrt(min(S, 4096))``. Both have 16 bits, and one of them always is what it is for 4096, so that
``fine - OFFSET + 64 (coarse - OFFSET)`` is the reciprocal of the length with the precision that
small and large lengths need. They become diagonal matrices in wide memory, with which elements of
a pixel, and 64 times these, are multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE
from fitzroy.compiler.targets.edgetpu.kernels.tensor import PLAIN, QUARTER, Axis, moves
from fitzroy.compiler.targets.edgetpu.kernels.transfers import pack
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.matrices import (
    matrices,
    narrow_bytes,
)
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import Row
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    EVERY,
    TILES,
    WORD,
    Image,
    Interval,
    Placed,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    OutputStage,
    copy_stage,
)
from fitzroy.compiler.targets.edgetpu.reshaping.rows_as_pixels import as_positions, from_positions
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp

GAIN = 64
"""What is between both reciprocals; they meet for a length of as much."""

OFFSET = 960
"""Zero point of both reciprocals."""

ONE = OFFSET * (GAIN + 1)
"""The coarse reciprocal of a length of one: the one of `GAIN` is as far above `OFFSET` as it has
to be for both zero points to take away what the other reciprocal is too much."""

_CENTRE = 1 << 15
"""Zero point of elements of 16 bits."""

_HALF = 2
"""Bytes of a square, of an element and of a reciprocal."""

_ROOT = _HALF * WORD
"""Bytes of a reciprocal of a pixel, which is in all of four lanes."""

_FACTORS = 2
"""Matrices of a reciprocal: for the first and the last two bytes of words."""

_SPREAD_LANES = _FACTORS * WORD * 2

_STRIP_BYTES = 48 << 10
"""Narrow memory for the pixels of a strip, unless a single row takes more."""

_MOST_PIXELS = 256
"""Pixels of a strip, unless a single row has more, for matrices in wide memory."""

_MOST_CHANNELS = 1 << 12

_SPREAD: Row = tuple(
    int(lane // 2 % WORD == lane // (2 * WORD) * 2 + lane % 2) for lane in range(_SPREAD_LANES)
)
"""Halfword b of lane l of matrix m is the reciprocal if l = 2 m + b, else zero."""

_BUNDLES = 1000


def table(coefficients: list[tuple[float, ...]], breakpoints: list[float]) -> NluTable:
    """A table of polynomials, of which the last one is repeated to fill it up."""
    segments = BEAGLE.compute.nlu_segments
    return NluTable(
        tiles=EVERY,
        coefficients=tuple(coefficients + coefficients[-1:] * (segments - len(coefficients))),
        breakpoints=tuple(breakpoints + [math.inf] * (segments - 1 - len(breakpoints))),
    )


SQUARE = table([(0.0, 0.0, 1.0, 0.0, 0.0)], [])
"""The square of any integer of 9 bits, exactly."""


def interpolated(function: Callable[[Array], Array], cuts: Sequence[float]) -> NluTable:
    """A table of a function between some cuts, as polynomials of degree 4."""
    coefficients = []
    for low, high in pairwise(cuts):
        fit = np.polynomial.chebyshev.Chebyshev.interpolate(function, 4, domain=[low, high])
        series = fit.convert(kind=np.polynomial.Polynomial).coef
        coefficients.append(tuple(float(np.float32(factor)) for factor in series))
    return table(coefficients, [float(np.float32(cut)) for cut in cuts[1:-1]])


def powers(end: float) -> list[float]:
    """Ends of the segments of a table from 1 to some end, each as many times the one before."""
    segments = BEAGLE.compute.nlu_segments
    return [end ** (segment / segments) for segment in range(segments + 1)]


RECIPROCAL_ROOT = interpolated(lambda x: ONE / np.sqrt(x), powers(4.0))
"""`ONE` divided by the square root, for arguments from 1 to 4."""

_ROOTS = (
    OutputStage(scale=1 / GAIN**2, minimum=1.0, nlu=True),
    # No length but zero, which is multiplied with zeros, is less than one.
    OutputStage(scale=1.0, minimum=1.0, maximum=float(GAIN**2), nlu=True),
)
"""Constants of the output stages of the sums of squares: fine, and coarse."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the factors of pixels follow from their elements.

    Attributes:
        terms: table that makes halfwords of elements.
        term_stage: constants of the stage that does so.
        factors: table that makes factors of the sums of these.
        factor_stages: constants of the stages that do so, one for each factor of a pixel.
        reduced: whether that table is for the range of its arguments from 1 to 4.
        offset: stored value of a factor of zero.
        gains: what elements are multiplied with before each factor; empty if the halfwords
            themselves are multiplied.
    """

    terms: NluTable
    term_stage: OutputStage
    factors: NluTable
    factor_stages: tuple[OutputStage, ...]
    reduced: bool
    offset: int
    gains: tuple[int, ...]


LENGTHS = Recipe(
    SQUARE, OutputStage(scale=1.0, nlu=True), RECIPROCAL_ROOT, _ROOTS, True, OFFSET, (1, GAIN)
)
"""Reciprocals of lengths."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Normalization(Layer):
    """Pixels times factors that all of their elements decide on, as the reciprocal of the length.

    Attributes:
        stage: constants of the last output stage.
        recipe: how the factors follow from the elements.
    """

    stage: OutputStage
    recipe: Recipe = LENGTHS

    strips = True
    word_steps = 13

    @property
    def _kinds(self) -> int:
        """Number of factors that a pixel has."""
        return len(self.recipe.factor_stages)

    def _rows(self, image: Image) -> list[Row]:
        """The matrix that spreads a reciprocal, then for each word which channels it has."""
        words = image.depth // WORD
        rest = image.channels - WORD * (words - 1)
        ones = [0x01010101] * (words - 1) + [sum(1 << 8 * lane for lane in range(rest))]
        return [(word,) * _SPREAD_LANES for word in ones]

    def _pixel(self, image: Image) -> int:
        """Narrow memory for a pixel: its elements, its reciprocals, and their matrices."""
        return self._kinds * (_HALF * image.depth + _ROOT + _HALF * _SPREAD_LANES)

    def _strip(self, image: Image) -> tuple[int, int]:
        """Rows of a strip, and its pixels on the tile that has most."""
        width = max(end - begin for begin, end in image.columns.owned)
        height = max(end - begin for begin, end in image.rows.owned)
        pixels = min(_STRIP_BYTES // self._pixel(image), _MOST_PIXELS)
        rows = max(1, min(height, pixels // max(1, width)))
        return rows, rows * width

    def _image(self, tensors: Mapping[str, Placed]) -> Image:
        image = tensors[self.writes]
        assert isinstance(image, Image)
        return image

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for the constant matrices, and later for a strip."""
        image = self._image(tensors)
        strip = self._pixel(image) * self._strip(image)[1]
        return max(narrow_bytes([_SPREAD, *self._rows(image)]), strip)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Constant matrices, and those of a strip."""
        image = self._image(tensors)
        return 1 + len(self._rows(image)) + self._kinds * _FACTORS * self._strip(image)[1]

    def emit(self, context: Context) -> None:
        """Constant matrices, then strip by strip."""
        builder, result = context.builder, context.image(self.writes)
        constant = [_SPREAD, *self._rows(result)]
        first = matrices(context, constant, context.scratch)
        end = builder.staging - len(constant)
        height = self._strip(result)[0]
        most = max(end - begin for begin, end in result.rows.owned)
        for start in range(0, most, height):
            builder.room(_BUNDLES)
            builder.barrier()
            strips = {}
            for tile in filter(result.active, range(TILES)):
                (top, bottom), _ = result.owned(tile)
                if top + start < bottom:
                    strips[tile] = (top + start, min(top + start + height, bottom))
            most = self._strip(result)[1]
            source = context.image(self.reads[0])
            _Strips(context, self, source, result, strips, most, first, end).emit()


@dataclass(frozen=True, slots=True)
class _Strips:
    """Pixels of some rows of every tile.

    Attributes:
        context: what the layer finds.
        layer: the layer.
        source: the operand.
        result: the result.
        rows: the rows, by tile.
        most: most pixels of a tile.
        first: first wide row of the constant matrices.
        end: one past the last wide row for those of factors.
    """

    context: Context
    layer: Normalization
    source: Image
    result: Image
    rows: Mapping[int, Interval]
    most: int
    first: int
    end: int

    @property
    def kinds(self) -> int:
        """Number of factors that a pixel has."""
        return len(self.layer.recipe.factor_stages)

    @property
    def words(self) -> int:
        """Words of narrow memory that a pixel takes."""
        return self.result.depth // WORD

    @property
    def line(self) -> int:
        """Bytes of the halfwords of a pixel."""
        return _HALF * self.result.depth

    @property
    def elements(self) -> int:
        """Byte address of halfwords, and of elements when these are no longer needed."""
        return self.context.scratch

    @property
    def roots(self) -> int:
        """Byte address of the factors."""
        return self.elements + self.kinds * self.line * self.most

    @property
    def spread(self) -> int:
        """Byte address of the words that become matrices of factors."""
        return self.roots + self.kinds * _ROOT * self.most

    @property
    def factors(self) -> int:
        """First row of wide memory with matrices of factors."""
        return self.end - self.kinds * _FACTORS * self.most

    def emit(self) -> None:
        """Halfwords, factors, elements and matrices, then the products."""
        builder, recipe, rows = self.context.builder, self.layer.recipe, self.rows
        builder.emit(recipe.terms)
        builder.on_tiles(lambda tile: self.copy(tile, self.elements, recipe.term_stage), rows)
        builder.barrier()
        builder.emit(recipe.factors)
        for kind, stage in enumerate(recipe.factor_stages):
            builder.on_tiles(partial(self.root, kind=kind, stage=stage), rows)
        builder.barrier()
        for kind, gain in enumerate(recipe.gains):
            stage = OutputStage(scale=gain, output_zero_point=_CENTRE)
            target = self.elements + kind * self.line * self.most
            builder.on_tiles(partial(self.copy, target=target, stage=stage), rows)
        builder.on_tiles(self.widen, rows)
        builder.barrier()
        builder.on_tiles(self.to_wide, rows)
        builder.barrier()
        builder.on_tiles(self.multiply, rows)

    def area(self, tile: int) -> tuple[int, int, int, int]:
        """First row and column, and how many of each."""
        (top, bottom), (left, right) = self.rows[tile], self.result.owned(tile)[1]
        return top, left, bottom - top, right - left

    def copy(self, tile: int, target: int, stage: OutputStage) -> TensorOp:
        """Copy the elements of a strip through an output stage."""
        top, left, height, width = self.area(tile)
        return moves(
            self.source.address(tile, top, left), target, self.context.identity, [],
            [
                Axis("word", self.words * width, WORD, _ROOT),
                Axis("y", height, self.source.pitch, self.line * width),
            ],
            replace(stage, a_zero_point=self.source.zero_point),
            output16=True,
        )  # fmt: skip

    def root(self, tile: int, kind: int, stage: OutputStage) -> TensorOp:
        """Compute the factors of one kind from sums of squares."""
        _, _, height, width = self.area(tile)
        # A step takes two of the halfwords of a word.
        half = Axis("half", 2, WORD, 0, QUARTER // 2)
        return moves(
            self.elements, self.roots + _ROOT * kind, self.first + 1,
            [half, Axis("word", self.words, _ROOT, 0, QUARTER)],
            [Axis("pixel", height * width, self.line, self.kinds * _ROOT)],
            stage, a16=True, output16=True, nlu_rsqrt=self.layer.recipe.reduced,
        )  # fmt: skip

    def widen(self, tile: int) -> TensorOp:
        """Spread factors to words of matrices."""
        _, _, height, width = self.area(tile)
        offset = self.layer.recipe.offset
        return moves(
            self.roots, self.spread, self.first, [],
            [Axis("pixel", self.kinds * height * width, _ROOT, _HALF * _SPREAD_LANES)],
            replace(PLAIN, a_zero_point=offset, output_zero_point=offset),
            lanes=_SPREAD_LANES, a16=True, output16=True,
        )  # fmt: skip

    def to_wide(self, tile: int) -> NarrowToWide:
        """Pack the matrices into wide memory."""
        _, _, height, width = self.area(tile)
        count = self.kinds * _FACTORS * height * width
        return pack(
            walk(self.spread // WORD, word=(WORD, 1), matrix=(count, WORD)),
            walk(self.factors, matrix=(count, 1)),
            row="matrix",
            publish=WHOLE,
        )

    def multiply(self, tile: int) -> TensorOp:
        """Multiply the elements of a strip with the factors of their pixels."""
        top, left, height, width = self.area(tile)
        result, line = self.result, self.line
        rows = self.kinds * _FACTORS * QUARTER
        return moves(
            self.elements, result.address(tile, top, left), self.factors,
            [
                Axis("half", WORD, _HALF, 0, QUARTER // 2),
                Axis("kind", self.kinds, line * self.most, 0, _FACTORS * QUARTER),
            ],
            [
                Axis("word", self.words, _ROOT, WORD),
                Axis("x", width, line, result.depth, rows),
                Axis("y", height, line * width, result.pitch, rows * width),
            ],
            self.layer.stage, c16=True, a16=True,
        )  # fmt: skip


@requires("l2_normalization")
def _summed(call: Call) -> Iterator[Reject]:
    """The squares of all channels are summed at a time."""
    channels = call.type().shape[-1]
    if channels > _MOST_CHANNELS:
        yield refused(call, f"of {channels} channels: at most {_MOST_CHANNELS} are summed")


@legalizes("l2_normalization")
def _l2_normalization(legalizer: Legalizer, call: Call) -> None:
    before, after = call.type(), call.result.type
    channels = before.shape[-1]
    source = as_positions(legalizer, call.node.inputs[0] or "", channels)
    # A unit of the operand's scale cancels: it is that of the length, too.
    stage = replace(copy_stage(after, after), a_zero_point=_CENTRE, c_zero_point=OFFSET)
    assert after.quantization is not None
    scale = float(np.float32(1 / (GAIN * ONE * after.quantization.scale[0])))

    def layer(result: str) -> Layer:
        return Normalization(
            name=call.node.name,
            reads=(source,),
            writes=result,
            stage=replace(stage, scale=scale),
        )

    from_positions(legalizer, call.result, source, layer)
