"""Reshaping: the same values in the same order as an image or as a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.targets.edgetpu.instructions.builder import mask_of
from fitzroy.compiler.targets.edgetpu.kernels.tensor import Axis, moves, single_bytes
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Image,
    Placed,
    TiledAxis,
    Vector,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import (
    gather,
    gather_rows,
    is_vector,
    linear_bytes,
)
from fitzroy.hw_models.isa.tensor import TensorOp

_MOST_WORDS = 1 << 14
"""Iterations of a loop of a tensor operation."""


class _Reshape(Layer):
    """The same values in the same order, somewhere else."""

    gathers = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory that the gather takes."""
        source = tensors[self.reads[0]]
        return gather_rows(_own_words(source) or source)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """The linear copy, and a packed one if it is not; whole blocks are read."""
        source = tensors[self.reads[0]]
        own = _own_words(source)
        if own is not None:
            return linear_bytes(own) + LANES + own.nbytes
        return _copy_bytes(source)

    def flat(self, context: Context, receivers: Sequence[int]) -> int:
        """Byte address of a packed copy on some tiles; a phase has begun after it was made."""
        source = context.tensors[self.reads[0]]
        own = _own_words(source)
        if own is not None:
            assert isinstance(source, Image)
            own = replace(own, base=context.scratch + linear_bytes(own) + LANES)
            context.builder.on_tiles(lambda tile: _pack_own(context, source, own, tile))
            context.builder.barrier()
            gather(context, own, context.scratch, receivers)
            context.builder.barrier()
            return context.scratch
        gather(context, source, context.scratch, receivers)
        context.builder.barrier()
        packed = _packed(source)
        if packed is None:
            return context.scratch
        assert isinstance(source, Image)
        return _pack(context, source, packed, mask_of(receivers))


class ToVector(_Reshape):
    """An image becomes a vector."""

    makes_vector = True

    def emit(self, context: Context) -> None:
        """Every tile copies its blocks out of a packed copy."""
        result = context.vector(self.writes)
        flat = self.flat(context, result.tiles)

        def copy(tile: int) -> TensorOp:
            held, words = result.held(tile), LANES // WORD
            return moves(
                flat + LANES * held[0],
                result.base,
                context.identity,
                [],
                [
                    Axis("word", words, WORD, WORD),
                    Axis("block", len(held), LANES * TILES, LANES),
                ],
            )

        context.builder.on_tiles(copy, result.tiles)


class Joined(ToVector):
    """Vectors, and images of whole words, become a vector one after the other."""

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory that the largest gather takes."""
        return max(gather_rows(tensors[name]) for name in self.reads)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """The linear copies; whole blocks are read."""
        return sum(linear_bytes(tensors[name]) for name in self.reads) + LANES

    def flat(self, context: Context, receivers: Sequence[int]) -> int:
        """Byte address of the copies one after the other."""
        place = context.scratch
        for name in self.reads:
            source = context.tensors[name]
            gather(context, source, place, receivers)
            context.builder.barrier()
            place += linear_bytes(source)
        return context.scratch


class ToImage(_Reshape):
    """A vector becomes an image."""

    def emit(self, context: Context) -> None:
        """Every tile copies its rows and columns out of a packed copy."""
        result = context.image(self.writes)
        tiles = [tile for tile in range(TILES) if result.active(tile)]
        flat = self.flat(context, tiles)

        whole, rest = divmod(result.channels, WORD)

        def copy(tile: int, first: int, words: int, steps: int) -> TensorOp:
            height, width = result.area(tile)
            (top, _), (left, _) = result.owned(tile)
            row = result.columns.extent * result.channels
            start = flat + top * row + left * result.channels + first
            return single_bytes(
                start,
                result.address(tile, top, left, first),
                context.identity,
                Axis("byte", steps, 1, factor=1),
                [
                    Axis("word", words, WORD, WORD),
                    Axis("x", width, result.channels, result.depth),
                    Axis("y", height, row, result.pitch),
                ],
            )

        if whole:
            context.builder.on_tiles(lambda tile: copy(tile, 0, whole, WORD), tiles)
        if rest:
            context.builder.on_tiles(lambda tile: copy(tile, WORD * whole, 1, rest), tiles)


def _copy_bytes(tensor: Placed) -> int:
    """Bytes of the linear copy of a tensor, and of a packed one."""
    return linear_bytes(tensor) + round_up(_packed(tensor) or 0, WORD) + LANES


def _packed(tensor: Placed) -> int | None:
    """Bytes of a packed copy of a tensor; None if a linear copy is one."""
    if isinstance(tensor, Vector) or tensor.channels == tensor.depth:
        return None
    return tensor.rows.extent * tensor.columns.extent * tensor.channels


def _own_words(tensor: Placed) -> Image | None:
    """The packed words of an image of which tiles own whole ones, row by row; else None."""
    if _packed(tensor) is None:
        return None
    assert isinstance(tensor, Image)
    owned = []
    for begin, end in tensor.columns.owned:
        first, last = (bound * tensor.channels for bound in (begin, end))
        if first < last and (first % WORD or last % WORD):
            return None
        owned.append((first // WORD, last // WORD))
    extent = tensor.columns.extent * tensor.channels // WORD
    columns = TiledAxis(extent, tuple(owned), tuple(owned))
    rows = TiledAxis(tensor.rows.extent, tensor.rows.owned, tensor.rows.owned)
    return Image(tensor.name, rows, columns, WORD, tensor.zero_point)


def _pack_own(context: Context, image: Image, words: Image, tile: int) -> TensorOp | None:
    """A tile packs what it owns of an image."""
    height, width = words.area(tile)
    if not height * width:
        return None
    (top, _), (left, _) = image.owned(tile)
    values = walk(
        image.address(tile, top, left),
        byte=(image.channels, 1),
        pixel=(width * WORD // image.channels, image.depth),
        y=(height, image.pitch),
    )
    steps = Axis("byte", WORD, 1, factor=1)
    places = [Axis("word", width, WORD, WORD), Axis("y", height, 0, words.pitch)]
    packed = single_bytes(0, words.base, context.identity, steps, places)
    # The bytes of a word may be of two pixels.
    return replace(packed, a=values.bytes)


def _pack(context: Context, image: Image, count: int, tiles: int) -> int:
    """Pack the linear copy of an image of `count` values, in scratch memory."""
    builder = context.builder
    target = context.scratch + linear_bytes(image)
    whole, rest = divmod(count, WORD)
    channels, depth = image.channels, image.depth

    def address(index: int) -> int:
        pixel, channel = divmod(index, channels)
        return context.scratch + pixel * depth + channel

    # As many words as end with a pixel.
    most = _MOST_WORDS // channels * channels
    for first in range(0, whole, most):
        words = min(most, whole - first)
        last = words * WORD % channels
        pixels = walk(
            address(first * WORD),
            byte=(channels, 1),
            pixel=(-(-words * WORD // channels), depth),
            part=(last, "pixel") if last else None,
        )
        place = [Axis("word", words, WORD, WORD)]
        steps = Axis("byte", WORD, 1, factor=1)
        packed = single_bytes(0, target + first * WORD, context.identity, steps, place, tiles=tiles)
        # The bytes of a word may be of two pixels.
        builder.emit(replace(packed, a=pixels.bytes))
    if rest:
        # At most three values, which are evenly spaced for any number of channels.
        first = address(whole * WORD)
        step = address(whole * WORD + 1) - first if rest > 1 else 0
        builder.emit(
            single_bytes(
                first,
                target + whole * WORD,
                context.identity,
                Axis("byte", rest, step, factor=1),
                [Axis("word", 1, 0, WORD)],
                tiles=tiles,
            )
        )
    builder.barrier()
    return target


# --- rules ---------------------------------------------------------------------------------------


def as_vector(legalizer: Legalizer, name: str) -> str:
    """The name of a vector with the values of a value; images are copied to one."""
    place = legalizer.place(name)
    if is_vector(legalizer, place):
        return place
    if (place, ()) not in legalizer.copies:
        type = legalizer.type(place)
        result = unused_name(f"{place}.vector", legalizer.graph.values, legalizer.types)
        legalizer.types[result] = type
        move(legalizer, ToVector, result, place, result)
        _remember(legalizer, result, place)
    return legalizer.copies[place, ()]


def as_image_of(legalizer: Legalizer, name: str, shape: tuple[int, ...], result: str) -> str:
    """The name of an image with the values of a vector; one of that shape may exist already.

    Args:
        legalizer: the graph.
        name: place of the vector.
        shape: shape of the image.
        result: a name for it, if no value has that.
    """
    if (name, shape) not in legalizer.copies:
        image = unused_name(result, legalizer.graph.values, legalizer.types)
        legalizer.types[image] = legalizer.type(name).with_shape(shape)
        move(legalizer, ToImage, image, name, image)
        _remember(legalizer, name, image)
    return legalizer.copies[name, shape]


def _remember(legalizer: Legalizer, vector: str, image: str) -> None:
    """Note that a vector and an image have the same elements."""
    legalizer.copies[image, ()] = vector
    legalizer.copies[vector, legalizer.type(image).shape] = image


def move(legalizer: Legalizer, kind: type[_Reshape], name: str, source: str, result: str) -> None:
    """Add a layer that makes a vector of an image, or an image of a vector."""
    _check_copies(legalizer, name, [source])
    legalizer.layers.append(kind(name=name, reads=(source,), writes=result))


def join_words(legalizer: Legalizer, name: str, parts: Sequence[str], result: str) -> bool:
    """Add a layer that joins values to a vector, if all but the last end with a word."""
    types = [legalizer.type(part) for part in parts]
    whole = all(
        is_vector(legalizer, part) or type.shape[-1] % WORD == 0
        for part, type in zip(parts, types, strict=True)
    )
    if not whole or any(type.size % WORD for type in types[:-1]):
        return False
    _check_copies(legalizer, name, parts)
    legalizer.layers.append(Joined(name=name, reads=tuple(parts), writes=result))
    return True


def _check_copies(legalizer: Legalizer, name: str, sources: Sequence[str]) -> None:
    """Refuse to copy whole tensors that do not fit narrow memory.

    Raises:
        UnsupportedError: they do not.
    """
    nbytes = 0
    for source in sources:
        type = legalizer.type(source)
        nbytes += round_up(type.size, WORD)
        if not is_vector(legalizer, source) and type.shape[-1] % WORD:
            nbytes += type.size // type.shape[-1] * round_up(type.shape[-1], WORD)
    most = legalizer.options.copied_bytes
    if nbytes > most:
        raise UnsupportedError(
            f"{name!r} copies {nbytes} bytes to every tile, at most {most} can be copied"
        )
