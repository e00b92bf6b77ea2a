"""Products of two tensors.

One operand becomes matrices, on whose diagonals its bytes lie: a first operation spreads its words,
they go to wide memory, and a second one multiplies the other's words with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE, free, full, once
from fitzroy.compiler.targets.edgetpu.kernels.tensor import QUARTER, Axis, moves
from fitzroy.compiler.targets.edgetpu.kernels.transfers import pack
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.layers.layer import (
    POINT,
    Context,
    Layer,
    Step,
    Windows,
    longest,
    word_cycles,
)
from fitzroy.compiler.targets.edgetpu.layers.matrices import (
    COVERED,
    matrices,
    over,
)
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import Row
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Cover,
    Image,
    Interval,
    Placed,
    Vector,
    Window,
    covered,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    OutputStage,
)
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.fields import Producer, TileFlag
from fitzroy.hw_models.isa.tensor import TensorOp

_SLOT_ROWS = 128
"""Most rows of a slot of matrices, unless the words of one pixel take more."""

MOST_CHANNELS = WORD * 512
"""Most channels of images: a slot holds the matrices of a pixel at least."""

LEAST_BYTES = 12 << 10
"""Narrow memory that matrices are planned with, unless those of a single row take more."""

_MOST_BYTES = 48 << 10
"""Narrow memory that matrices take at most; with more, tiles would hardly be faster."""

_SPREAD = tuple(
    1 << 8 * (lane // WORD) if lane % WORD == lane // WORD else 0 for lane in range(WORD * WORD)
)
"""Byte l of a word becomes byte l of word l."""

_MATRIX = WORD * WORD
"""Bytes of a matrix."""

_ONCE = Producer(7)
"""Counts at the highest level, which is above all loops, however many there are."""


@dataclass(frozen=True, slots=True)
class _Strip:
    """Some rows of a product on a tile.

    Attributes:
        counts: words of a pixel, pixels of a row, and rows.
        level: loops below this one share a slot.
    """

    counts: tuple[int, int, int]
    level: int

    @classmethod
    def of(cls, counts: tuple[int, int, int]) -> _Strip:
        rows = max(_SLOT_ROWS, counts[0])
        level = max(k for k in range(1, len(counts) + 1) if math.prod(counts[:k]) <= rows)
        return cls(counts, level)

    @property
    def slot(self) -> int:
        """Rows of wide memory for the matrices of a slot."""
        return math.prod(self.counts[: self.level])

    @property
    def slots(self) -> int:
        """Number of slots that a strip is divided into."""
        return math.prod(self.counts[self.level :])


@dataclass(frozen=True, slots=True)
class _Work:
    """What a tile does in a strip.

    Attributes:
        strip: the words that become matrices.
        first: words of the first operand.
        second: words of the second.
        result: words of the result.
    """

    strip: _Strip
    first: Cover
    second: Cover
    result: Cover


def _shared(tensor: Image, result: Placed) -> bool:
    """Whether an operand is the same at all positions of the result."""
    return (
        isinstance(result, Image)
        and (tensor.rows.extent, tensor.columns.extent) == (1, 1)
        and (result.rows.extent, result.columns.extent) != (1, 1)
    )


class Everywhere(Window):
    """All of an axis of one element."""

    def needs(self, interval: Interval) -> Interval:
        """The element, for any interval."""
        return (0, 1) if interval[0] < interval[1] else (0, 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class Product(Layer):
    """Product of two tensors of one shape; the second may be the same at all positions.

    Attributes:
        stage: constants of the output stage.
        shared: whether the second operand is the same at all positions.
        matrix_bytes: narrow memory that matrices take at a time, unless those of a single row of
            the largest tile take more.
    """

    stage: OutputStage
    shared: bool = False
    matrix_bytes: int = LEAST_BYTES

    strips = True
    by_name = True

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles.

        Spreading a word takes four steps, and packing its matrix as many cycles; this begins when
        all words of a strip are spread. A shared operand has few words, so that the step of each
        product takes most.
        """
        steps = 1 if self.shared else 2 * _MATRIX // WORD
        return word_cycles(area, groups, steps)

    @property
    def matrices(self) -> tuple[Row, ...]:
        """The one that spreads words."""
        return (_SPREAD,)

    def windows(self, index: int) -> Windows:
        """The same element, or the only one."""
        return (Everywhere(), Everywhere()) if self.shared and index else POINT

    def _strips(self, result: Placed) -> list[tuple[int, int]]:
        """First row and number of rows of every strip of the largest tile."""
        groups, width, height = _counts(result)
        if self.shared:
            return [(0, height)]
        if isinstance(result, Vector):
            # Blocks may differ in length.
            return [(block, 1) for block in range(width)]
        rows = max(1, self.matrix_bytes // (_MATRIX * groups * width))
        return [(first, min(rows, height - first)) for first in range(0, height, rows)]

    def _strip(self, result: Placed) -> _Strip:
        groups, width, _ = _counts(result)
        rows = max(count for _, count in self._strips(result))
        single = self.shared or isinstance(result, Vector)
        return _Strip.of((groups, 1, 1) if single else (groups, width, rows))

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Words of matrices of a strip, and the matrix that spreads them."""
        strip = self._strip(tensors[self.writes])
        return _MATRIX * math.prod(strip.counts) + WORD * len(_SPREAD)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Two slots of matrices, and the one that spreads."""
        strip = self._strip(tensors[self.writes])
        return 2 * strip.slot + 1

    def emit(self, context: Context) -> None:
        """Per strip: spread the second operand's words, and multiply with them as they come."""
        builder = context.builder
        one, other, result = (context.tensors[name] for name in (*self.reads, self.writes))
        spread = matrices(context, self.matrices, context.scratch)
        first = builder.staging - 1 - 2 * self._strip(result).slot
        base = context.scratch + WORD * len(_SPREAD)
        for index, (begin, rows) in enumerate(self._strips(result)):
            builder.room(_MOST_STRIP_BUNDLES)
            if index:
                builder.barrier()
            strips = self._works(one, other, result, begin, rows)
            builder.on_tiles(partial(_spread, strips, spread, base, other.zero_point), strips)
            builder.on_tiles(partial(_multiply, self, strips, first), strips)
            builder.on_tiles(partial(_pack, strips, base, first), strips)

    def _works(
        self, one: Placed, other: Placed, result: Placed, first: int, rows: int
    ) -> dict[int, _Work]:
        """What every tile does in a strip; smaller tiles use the slots of the largest."""
        level = self._strip(result).level
        found = {}
        for tile in range(TILES):
            a, b, out = (
                self._part(tensor, result, tile, first, rows) for tensor in (one, other, result)
            )
            if a is not None and b is not None and out is not None:
                groups, width, height = (count for count, _ in b.dims)
                found[tile] = _Work(_Strip((groups, width, height), level), a, b, out)
        return found

    def _part(
        self, tensor: Placed, result: Placed, tile: int, first: int, rows: int
    ) -> Cover | None:
        """What a strip takes of an operand, or makes of the result."""
        if isinstance(tensor, Vector):
            return _block(tensor, tile, first)
        if self.shared and isinstance(tensor, Image) and _shared(tensor, result):
            if not result.active(tile):
                return None
            words = (tensor.depth // WORD, WORD)
            return Cover(tensor.address(tile, 0, 0), (words, (1, 0), (1, 0)))
        return _cut(covered(tensor, result, tile), first, rows)


class VectorProduct(Product):
    """Product of two vectors."""

    makes_vector: ClassVar[bool] = True


def with_room(steps: Sequence[Step], free: Sequence[int]) -> dict[Layer, Layer]:
    """Products whose matrices take what is left of narrow memory, up to `_MOST_BYTES`.

    The fewer turns they take, the less time is lost between them.

    Args:
        steps: the steps.
        free: for each, bytes at the top of narrow memory that no tensor takes.
    """
    room: dict[Product, int] = {}
    for step, nbytes in zip(steps, free, strict=True):
        if isinstance(step.layer, Product):
            left = nbytes - WORD * len(_SPREAD)
            room[step.layer] = min(room.get(step.layer, _MOST_BYTES), left)
    return {
        layer: replace(layer, matrix_bytes=nbytes)
        for layer, nbytes in room.items()
        if nbytes > layer.matrix_bytes
    }


_MOST_STRIP_BUNDLES = 1000


def _counts(tensor: Placed) -> tuple[int, int, int]:
    """Most words of a pixel, pixels of a row and rows on a tile."""
    if isinstance(tensor, Image):
        return tensor.depth // WORD, longest(tensor.columns.owned), longest(tensor.rows.owned)
    covers = [tensor.cover(tile) for tile in range(TILES)]
    groups, width, height = (
        max(cover.dims[axis][0] for cover in covers if cover is not None) for axis in range(3)
    )
    return groups, width, height


def _cut(cover: Cover | None, first: int, rows: int) -> Cover | None:
    """The part of a cover with some of its rows."""
    if cover is None:
        return None
    count, stride = cover.dims[2]
    rows = min(rows, count - first)
    if rows <= 0:
        return None
    return Cover(cover.base + first * stride, (*cover.dims[:2], (rows, stride)))


def _block(vector: Vector, tile: int, number: int) -> Cover | None:
    """A block of a vector on a tile."""
    held = vector.held(tile)[number : number + 1]
    if not held:
        return None
    words = vector.lanes(held[0]) // WORD
    return Cover(vector.base + LANES * number, ((words, WORD), (1, 0), (1, 0)))


def _spread(works: Mapping[int, _Work], row: int, base: int, zero: int, tile: int) -> TensorOp:
    """Words become matrices: their bytes on the diagonal, and zero points elsewhere."""
    source = works[tile].second
    distance = _MATRIX
    places = []
    for name, (count, stride) in zip(COVERED, source.dims, strict=True):
        places.append(Axis(name, count, stride, distance))
        distance *= count
    stage = OutputStage(scale=1.0, a_zero_point=zero, output_zero_point=zero)
    operation = moves(source.base, base, row, [], places, stage, lanes=_MATRIX)
    return replace(operation, avdata=_ONCE)


def _pack(works: Mapping[int, _Work], base: int, first: int, tile: int) -> NarrowToWide:
    """Matrices go to rows of wide memory, slot after slot."""
    strip = works[tile].strip
    return pack(
        walk(base // WORD, word=(WORD, 1), matrix=(strip.slot * strip.slots, WORD)),
        walk(first, matrix=(strip.slot, 1), slot=(strip.slots, 0), turn=("slot", strip.slot)),
        row="matrix",
        publish="slot",
        acquire=[once(TileFlag.AVDATA, "matrix", 1), free(TileFlag.PARAMETERS, "slot")],
    )


def _multiply(layer: Product, works: Mapping[int, _Work], first: int, tile: int) -> TensorOp:
    """Words times their matrices, slot after slot, or all of them again for every pixel."""
    work = works[tile]
    kept = 1 if layer.shared else work.strip.level
    places, distance = over(work.first, work.result), QUARTER
    for index, axis in enumerate(places[:kept]):
        places[index] = replace(axis, factor=distance)
        distance *= axis.count
    slots: dict[str, Any] = {"acquire": [once(TileFlag.NARROW_TO_WIDE, places[0].name, 1)]}
    if not layer.shared:
        slot = (*[axis.name for axis in places], WHOLE)[kept]
        slots = {
            "acquire": [full(TileFlag.NARROW_TO_WIDE, slot)],
            "release": slot,
            "turn": (slot, QUARTER * work.strip.slot),
        }
    return moves(work.first.base, work.result.base, first, [], places, layer.stage, **slots)
