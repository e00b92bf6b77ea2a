"""Elements at regular distances: tiles gather a tensor and put words of the result together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import TensorType
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.targets.edgetpu.kernels.tensor import Axis, single_bytes
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Image,
    Placed,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import ToVector, move
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import (
    gather,
    gather_rows,
    is_vector,
    linear_bytes,
)
from fitzroy.hw_models.isa.tensor import TensorOp

MOST_BYTES = 96 << 10
"""Bytes of a linear copy, which every tile keeps in narrow memory."""

_IMAGE_RANK = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class Elements(Layer):
    """An image whose elements are anywhere in another tensor, at regular distances.

    Attributes:
        first: the first element, in bytes of a linear copy of the operand.
        strides: distances of rows, columns and channels, likewise; of any sign.
    """

    first: int
    strides: tuple[int, int, int]

    gathers = True
    doubled = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory that the gather takes."""
        return gather_rows(tensors[self.reads[0]])

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """The linear copy; whole blocks are read."""
        return linear_bytes(tensors[self.reads[0]]) + LANES

    def emit(self, context: Context) -> None:
        """Gather the tensor, then copy whole words, then the last bytes of each pixel."""
        builder, result = context.builder, context.image(self.writes)
        tiles = [tile for tile in range(TILES) if result.active(tile)]
        gather(context, context.tensors[self.reads[0]], context.scratch, tiles)
        builder.barrier()
        whole, rest = divmod(result.channels, WORD)
        if whole:
            builder.on_tiles(lambda tile: self._words(context, result, tile, 0, whole, WORD), tiles)
        if rest:
            first = WORD * whole
            builder.on_tiles(lambda tile: self._words(context, result, tile, first, 1, rest), tiles)

    def _words(
        self, context: Context, result: Image, tile: int, first: int, words: int, steps: int
    ) -> TensorOp:
        """Words of all pixels of a tile, from a channel on, of so many bytes each."""
        height, width = result.area(tile)
        (top, _), (left, _) = result.owned(tile)
        down, across, channel = self.strides
        start = context.scratch + self.first + top * down + left * across + first * channel
        return single_bytes(
            start,
            result.address(tile, top, left, first),
            context.identity,
            Axis("byte", steps, channel, factor=1),
            [
                Axis("word", words, WORD * channel, WORD),
                Axis("x", width, across, result.depth),
                Axis("y", height, down, result.pitch),
            ],
        )


def distances(legalizer: Legalizer, source: str, shape: Sequence[int]) -> list[int]:
    """Distances of the elements along every axis, in a linear copy.

    Args:
        legalizer: the graph.
        source: place of the tensor.
        shape: its shape; that of its place if it is an image.

    Raises:
        UnsupportedError: it is an image of another shape.
    """
    extents = list(shape)
    if not is_vector(legalizer, source):
        own = legalizer.type(source).shape
        if own != tuple(shape) or own[0] != 1:
            raise UnsupportedError(f"{source!r} is an image of {list(own)}, not {extents}")
        extents[-1] = round_up(extents[-1], WORD)
    return [math.prod(extents[axis + 1 :]) for axis in range(len(extents))]


def copied_bytes(legalizer: Legalizer, source: str) -> int:
    """Bytes of a linear copy of a tensor; the channels of an image fill words."""
    type = legalizer.type(source)
    if is_vector(legalizer, source):
        return type.size
    return type.size // type.shape[-1] * round_up(type.shape[-1], WORD)


def take_elements(
    legalizer: Legalizer,
    name: str,
    source: str,
    result: tuple[str, TensorType],
    first: int,
    strides: Sequence[int],
) -> None:
    """Add layers that make a result of elements of a tensor.

    Args:
        legalizer: the graph.
        name: name of the operator.
        source: place of the tensor.
        result: name and type of the result.
        first: its first element, in bytes of a linear copy of the tensor.
        strides: distances along its axes, likewise.

    Raises:
        UnsupportedError: the result is not one image, or the tensor is too large.
    """
    written, after = result
    missing = _IMAGE_RANK - len(after.shape)
    if missing < 0 or (not missing and after.shape[0] != 1):
        raise UnsupportedError(
            f"{name!r} has a result of shape {list(after.shape)}, not of one image"
        )
    size = copied_bytes(legalizer, source)
    if size > MOST_BYTES:
        raise UnsupportedError(
            f"{name!r} moves single elements of {size} bytes; every tile has room for {MOST_BYTES}"
        )
    down, across, channel = ([0] * missing + list(strides))[1:]
    image = written
    if missing:
        image = unused_name(f"{written}.image", legalizer.graph.values, legalizer.types)
        legalizer.types[image] = replace(after, shape=(1,) * missing + after.shape)
    legalizer.layers.append(
        Elements(
            name=name,
            reads=(source,),
            writes=image,
            first=first,
            strides=(down, across, channel),
        )
    )
    if missing:
        move(legalizer, ToVector, written, image, written)
