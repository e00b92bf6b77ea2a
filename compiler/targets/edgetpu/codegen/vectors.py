"""Vectors, and linear copies of whole tensors: gathering, and changing the shape of tensors.

An all-gather brings the parts of a tensor to tiles that need all of it. Every tile that owns some
sends one message over the ring. Receivers stage the messages of a round, so that none waits for
another, and put their words where they belong in a linear copy: rows, columns and channels in that
order, channels filled up to words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fitzroy.compiler.targets.edgetpu.codegen.builder import Builder, mask_of
from fitzroy.compiler.targets.edgetpu.codegen.convolution import (
    padded,
    rows_at,
)
from fitzroy.compiler.targets.edgetpu.codegen.layers import Context, Layer
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    LANES,
    TILES,
    WORD,
    Image,
    Placed,
    Vector,
    round_up,
)
from fitzroy.compiler.targets.edgetpu.codegen.sync import SLOTS, free, full
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, Producer, TileFlag
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.traversal import NARROW, Traversal, traversal

_MOST_STAGED = 96
"""Wide rows for messages, unless a single one has more: gathers go in rounds."""

Loops = list[tuple[int, int]]
"""Count and stride of loops, innermost first."""


def linear_bytes(tensor: Placed) -> int:
    """Bytes of a linear copy of a tensor."""
    if isinstance(tensor, Vector):
        return round_up(tensor.channels, WORD)
    return tensor.rows.extent * tensor.columns.extent * tensor.depth


# --- all-gather ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Message:
    """What one tile sends.

    Attributes:
        tile: the tile.
        base: narrow word of the first.
        source: loops over the sender's words.
        target: loops over the words of the linear copy.
        offset: first word of the linear copy.
        part: words of the innermost run in the last iteration of a loop, and that loop.
        words: how many words.
    """

    tile: int
    base: int
    source: Loops
    target: Loops
    offset: int
    part: tuple[int, int] | None
    words: int

    @property
    def rows(self) -> int:
        """Rows of the ring."""
        return -(-self.words // LANES)


@dataclass(frozen=True, slots=True)
class _Unpacked:
    """Words that receivers take out of the rows of one or more messages.

    Attributes:
        target: loops over the words of the linear copy.
        offset: first word of the linear copy.
        part: as of a message.
        level: loops of a message; each begins with a row of its own.
        rows: how many rows.
    """

    target: Loops
    offset: int
    part: tuple[int, int] | None
    level: int
    rows: int


def _of_vector(vector: Vector, tile: int) -> _Message:
    held = vector.held(tile)
    whole, rest = (vector.lanes(held[end]) // WORD for end in (0, -1))
    return _Message(
        tile,
        vector.base // WORD,
        [(whole, 1), (len(held), LANES // WORD)],
        [(whole, 1), (len(held), TILES * LANES // WORD)],
        held[0] * LANES // WORD,
        (rest, 1) if rest != whole else None,
        whole * (len(held) - 1) + rest,
    )


def _of_image(image: Image, tile: int) -> _Message:
    height, width = image.area(tile)
    (top, _), (left, _) = image.owned(tile)
    words = image.depth // WORD
    return _Message(
        tile,
        image.address(tile, top, left) // WORD,
        [(words * width, 1), (height, image.pitch // WORD)],
        [(words * width, 1), (height, words * image.columns.extent)],
        words * (top * image.columns.extent + left),
        None,
        words * width * height,
    )


def _messages(tensor: Placed) -> list[_Message]:
    """What tiles send, in order."""
    if isinstance(tensor, Vector):
        owners = [tensor.owner(block) for block in range(min(tensor.blocks, TILES))]
        return [_of_vector(tensor, tile) for tile in owners]
    return [_of_image(tensor, tile) for tile in range(TILES) if tensor.active(tile)]


def _rounds(tensor: Placed) -> list[list[_Message]]:
    """Messages that are staged together."""
    found: list[list[_Message]] = []
    rows = 0
    for message in _messages(tensor):
        rows += message.rows
        if not found or rows > _MOST_STAGED:
            found.append([])
            rows = message.rows
        found[-1].append(message)
    return found


def _unpacked(messages: Sequence[_Message]) -> list[_Unpacked]:
    """What receivers do; messages of equal form and distance are taken together."""
    found: list[_Unpacked] = []
    for message in messages:
        last = found[-1] if found else None
        if last is not None and message.part is None and last.part is None:
            *inner, (count, distance) = last.target
            if (
                inner == message.target
                and last.rows == count * message.rows
                and distance in (0, (message.offset - last.offset) // count)
                and (message.offset - last.offset) % count == 0
            ):
                distance = (message.offset - last.offset) // count
                found[-1] = replace(
                    last,
                    target=[*inner, (count + 1, distance)],
                    rows=last.rows + message.rows,
                )
                continue
        target = [*message.target, (1, 0)]
        level = len(message.target)
        found.append(_Unpacked(target, message.offset, message.part, level, message.rows))
    return found


def gather_rows(tensor: Placed) -> int:
    """Wide rows that a gather takes: two slots of the sender, and those of the receivers."""
    return SLOTS + max(sum(message.rows for message in some) for some in _rounds(tensor))


def gather(context: Context, tensor: Placed, base: int, receivers: Sequence[int]) -> None:
    """Copy a whole tensor to tiles; a barrier must follow.

    Args:
        context: what layers find.
        tensor: the tensor; a phase has begun since it was computed.
        base: byte address of the linear copy, on all receivers.
        receivers: tiles that get the copy.
    """
    for number, messages in enumerate(_rounds(tensor)):
        if number:
            context.builder.barrier()
        _round(context.builder, messages, base // WORD, mask_of(receivers))


def _round(builder: Builder, messages: Sequence[_Message], base: int, receivers: int) -> None:
    """Gather some messages."""
    own = builder.staging - SLOTS
    rows = sum(message.rows for message in messages)
    first = own - rows
    builder.emit(
        RingConsume(
            op=Opcode.RING_CONSUME_A,
            tiles=receivers,
            wide=rows_at(first, [(rows, 1)]),
            ring_read=Producer(0),
        )
    )
    for message in messages:
        builder.emit(
            RingProduce(
                tiles=1 << message.tile,
                wide=rows_at(own, [(1, 1), (message.rows, 0)], ping_pong=(1, 1)),
                ring_write=Producer(1),
                token=Producer(2),
                wait=padded([builder.tokens.turn(0, 2, 1), full(TileFlag.NARROW_TO_WIDE, 1)], 2),
                destination=receivers,
            )
        )
    by_tile = {message.tile: message for message in messages}
    builder.on_tiles(
        lambda tile: NarrowToWide(
            narrow=_narrow(by_tile[tile].base, by_tile[tile].source, by_tile[tile].part),
            wide=rows_at(own, [(by_tile[tile].rows, 0)], ping_pong=(0, 1)),
            narrow_to_wide=Producer(0),
            wait=padded([free(TileFlag.RING_WRITE, 0)], 5),
            pack_level=len(by_tile[tile].source),
        ),
        by_tile,
    )
    done = 0
    for item in _unpacked(messages):
        builder.emit(
            WideToNarrow(
                tiles=receivers,
                wide=rows_at(first + done, [(item.rows, 1)]),
                narrow=_narrow(base + item.offset, item.target, item.part),
                wide_to_narrow=Producer(0),
                wait=padded([full(TileFlag.RING_READ_A, 0, before=done)], 2),
                pack_level=item.level,
            )
        )
        done += item.rows


def _narrow(base: int, dims: Loops, part: tuple[int, int] | None) -> Traversal:
    return traversal(base, dims, rank=NARROW.rank, part=part)


# --- where vectors lie ---------------------------------------------------------------------------


def is_vector(legalizer: Legalizer, name: str) -> bool:
    """Whether a value lies in blocks of channels rather than as an image."""
    place = legalizer.place(name)
    for layer in legalizer.layers:
        if layer.writes == place:
            return layer.makes_vector
    return len(legalizer.type(place).shape) != 4


def families(layers: Sequence[Layer], tensors: Mapping[str, Placed]) -> dict[str, list[Vector]]:
    """Vectors that begin on the same tile, by the name of each, if that may be any tile.

    Operators that do not gather have their operands on the tiles of their results. What comes from
    the infeed begins on the first tile.
    """
    members: dict[str, list[Vector]] = {
        name: [tensor] for name, tensor in tensors.items() if isinstance(tensor, Vector)
    }
    made = {layer.writes for layer in layers if not layer.spreads}
    pinned = {name for name in members if name not in made}
    for layer in layers:
        if layer.gathers:
            continue
        joined = [name for name in (*layer.reads, layer.writes) if name in members]
        if layer.writes not in members:
            pinned.update(joined)
        together = list(dict.fromkeys(v for name in joined for v in members[name]))
        for vector in together:
            members[vector.name] = together
    fixed = {vector.name for name in pinned for vector in members[name]}
    return {name: family for name, family in members.items() if name not in fixed}
