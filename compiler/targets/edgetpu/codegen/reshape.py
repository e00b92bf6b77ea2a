"""Reshaping: the same values in the same order as an image or as a vector."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.codegen.builder import mask_of
from fitzroy.compiler.targets.edgetpu.codegen.convolution import (
    QUARTER,
    bytes_at,
    loops_of,
    quarters_at,
    stage_fields,
)
from fitzroy.compiler.targets.edgetpu.codegen.layers import Context, Layer
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.codegen.matrices import PLAIN, moves
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    LANES,
    TILES,
    WORD,
    Image,
    Placed,
    Vector,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.codegen.vectors import (
    Loops,
    gather,
    gather_rows,
    is_vector,
    linear_bytes,
)
from fitzroy.hw_models.isa.fields import Opcode, Producer
from fitzroy.hw_models.isa.tensor import TensorOp


def assembly(
    identity: int,
    source: tuple[int, Loops],
    target: tuple[int, Loops],
    *,
    steps: int = WORD,
    part: tuple[int, int] | None = None,
    tiles: int = 0,
) -> TensorOp:
    """Words of narrow memory, put together from single bytes.

    Args:
        identity: wide row of the identity matrix.
        source: byte address, and loops of bytes in the order of the result.
        target: byte address, and loops of words.
        steps: bytes of a word; the others become zero.
        part: bytes of the innermost loop in the last iteration of another, and that one.
        tiles: mask of tiles.
    """
    words = math.prod(count for count, _ in target[1])
    return TensorOp(
        op=Opcode.MAC,
        tiles=tiles,
        loops=loops_of([steps, *[count for count, _ in target[1]]]),
        a=bytes_at(*source, part=part),
        b=bytes_at(*target),
        c=quarters_at(QUARTER * identity, [(steps, 1), (words, 0)]),
        d=quarters_at(0, [(steps, 0), (words, 0)], ping_pong=(1, QUARTER)),
        avdata=Producer(len(target[1])),
        accumulate=True,
        idle_multipliers=(True,) * 3,
        block_level=1,
        reduction=1,
        lanes=WORD,
        lanes_last=WORD,
        **stage_fields(PLAIN),  # type: ignore[arg-type]
    )


_MOST_VALUES = WORD << 14
"""Values of a tensor that can be moved: words of one loop of a tensor operation."""


class _Reshape(Layer):
    """The same values in the same order, somewhere else."""

    gathers = True

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Those of the gather."""
        return gather_rows(tensors[self.reads[0]])

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """The linear copy, and a packed one if it is not; whole blocks are read."""
        source = tensors[self.reads[0]]
        packed = _packed(source)
        return linear_bytes(source) + (0 if packed is None else round_up(packed, WORD)) + LANES

    def flat(self, context: Context, receivers: Sequence[int]) -> int:
        """Byte address of a packed copy on some tiles; a phase has begun after it was made."""
        source = context.tensors[self.reads[0]]
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
                [(words, WORD, WORD, 0), (len(held), LANES * TILES, LANES, 0)],
                PLAIN,
            )

        context.builder.on_tiles(copy, result.tiles)


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
            loops = [(words, WORD), (width, result.channels), (height, row)]
            target = (
                result.address(tile, top, left, first),
                [(words, WORD), (width, result.depth), (height, result.pitch)],
            )
            return assembly(context.identity, (start, [(steps, 1), *loops]), target, steps=steps)

        if whole:
            context.builder.on_tiles(lambda tile: copy(tile, 0, whole, WORD), tiles)
        if rest:
            context.builder.on_tiles(lambda tile: copy(tile, WORD * whole, 1, rest), tiles)


def _packed(tensor: Placed) -> int | None:
    """Bytes of a packed copy of a tensor; None if a linear copy is one."""
    if isinstance(tensor, Vector) or tensor.channels == tensor.depth:
        return None
    return tensor.rows.extent * tensor.columns.extent * tensor.channels


def _pack(context: Context, image: Image, count: int, tiles: int) -> int:
    """Pack the linear copy of an image of `count` values, in scratch memory."""
    builder = context.builder
    target = context.scratch + linear_bytes(image)
    whole, rest = divmod(count, WORD)
    channels, depth = image.channels, image.depth

    def address(index: int) -> int:
        pixel, channel = divmod(index, channels)
        return context.scratch + pixel * depth + channel

    if whole:
        last = whole * WORD % channels
        builder.emit(
            assembly(
                context.identity,
                (context.scratch, [(channels, 1), (-(-whole * WORD // channels), depth)]),
                (target, [(whole, WORD)]),
                part=(last, 1) if last else None,
                tiles=tiles,
            )
        )
    if rest:
        # At most three values, which are evenly spaced for any number of channels.
        first = address(whole * WORD)
        step = address(whole * WORD + 1) - first if rest > 1 else 0
        builder.emit(
            assembly(
                context.identity,
                (first, [(rest, step)]),
                (target + whole * WORD, [(1, WORD)]),
                steps=rest,
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
    result = unused_name(f"{place}.vector", legalizer.graph.values, legalizer.types)
    legalizer.types[result] = legalizer.type(place)
    _move(legalizer, ToVector, result, place, result)
    return result


def _move(legalizer: Legalizer, kind: type[_Reshape], name: str, source: str, result: str) -> None:
    size = legalizer.type(source).size
    if size > _MOST_VALUES:
        raise UnsupportedError(
            f"{name!r} moves {size} values, {_MOST_VALUES} can be moved at a time"
        )
    legalizer.layers.append(kind(name=name, reads=(source,), writes=result))


@legalizes("reshape")
def _reshape(legalizer: Legalizer, call: Call) -> None:
    source, result = legalizer.place(call.node.inputs[0] or ""), call.node.outputs[0]
    before, after = call.type(), call.result.type
    if (before.dtype, before.quantization) != (after.dtype, after.quantization):
        raise UnsupportedError(f"reshape {call.node.name!r} changes the quantization")
    shape = after.shape
    to_vector = len(shape) < 4 or math.prod(shape[:-1]) == 1
    graph = legalizer.graph
    if is_vector(legalizer, source):
        if to_vector:
            legalizer.aliases[result] = source
        else:
            _move(legalizer, ToImage, call.node.name, source, result)
        return
    readers = graph.consumers(result)
    # Fully connected layers read images in any shape.
    anywhere = result not in graph.outputs and {node.op for node in readers} == {"fully_connected"}
    if legalizer.type(source).shape == shape or (to_vector and anywhere):
        legalizer.aliases[result] = source
    elif to_vector:
        _move(legalizer, ToVector, call.node.name, source, result)
    else:
        _move(legalizer, ToImage, call.node.name, as_vector(legalizer, source), result)
