"""How do images and vectors get from the tiles to the host?

Tiles send what they own over the ring, in the order of the output's layout, and an outfeed pushes
it to the host. Pieces that are no whole units of 8 bytes go through the scalar core (`relay`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fitzroy.compiler.targets.edgetpu.host.inputs import SPREAD_ROWS
from fitzroy.compiler.targets.edgetpu.host.relay import PIPELINE, Destination, relay
from fitzroy.compiler.targets.edgetpu.instructions.builder import CHUNK_BUNDLES, Builder
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import UNIT, to_host
from fitzroy.compiler.targets.edgetpu.kernels.queues import (
    Sending,
    produce_row,
)
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.layers.layer import Departure
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Image,
    Vector,
    round_up,
)
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.stream import Outfeed
from fitzroy.hw_models.isa.units import (
    MOST_OUTFED,
)


def collect(
    builder: Builder,
    vector: Vector,
    outfeed: Callable[[int], Outfeed],
    *,
    blocks: range,
    base: int,
    width: int = 1,
    request: Callable[[], object] | None = None,
) -> None:
    """Tiles send their blocks of a vector to the outfeed, in order; a phase has begun.

    Args:
        builder: the program.
        vector: the vector.
        outfeed: takes a block, by its number.
        blocks: numbers of the blocks; the first one is on the vector's first tile.
        base: byte address of the first block of every tile.
        width: bytes of a value.
        request: asks the host for a transfer, if the blocks go there.
    """
    staging = builder.staging - SPREAD_ROWS
    words = width * LANES // WORD

    def packed(tile: int) -> NarrowToWide | None:
        held = [block for block in vector.held(tile) if block in blocks]
        if not held:
            return None
        first, last = (width * vector.lanes(held[end]) // WORD for end in (0, -1))
        held_words = walk(
            base // WORD + words * (held[0] // TILES),
            word=(first, 1),
            block=(len(held), words),
            part=(last, "block"),
        )
        return Sending(held_words, len(held), staging, "block").pack()

    builder.on_tiles(packed)
    if request is not None:
        request()
    for block in blocks:
        number = (block - blocks[0]) // TILES
        builder.room(_BLOCK_BUNDLES)
        taken = outfeed(block)
        turn = builder.tokens.turn(0, 1)
        message = produce_row(vector.owner(block), staging, number, turn)
        if taken.to_host:
            builder.emit_all([taken, message])
        else:
            # The scalar core has read the words that were there before.
            builder.emit_all([message, PIPELINE, taken])


_BLOCK_BUNDLES = 12

_MOST_BLOCKS = (CHUNK_BUNDLES // _BLOCK_BUNDLES - TILES) // TILES * TILES
"""Blocks of a portion: instructions that send them, and what is around these, fit a chunk."""


def send_vector(builder: Builder, vector: Vector, destination: Destination) -> None:
    """Send a vector to the host.

    The host takes all that a descriptor is about before it sends another chunk of instructions, so
    that those that send it have to be in the chunk of the descriptor.
    """
    size = destination.size(round_up(vector.channels, WORD))
    last = vector.blocks - 1

    def take(block: int) -> Outfeed:
        # What fills up the last unit, and the part, is after the words of the last row.
        taken = size - LANES * last if block == last else LANES
        return to_host(taken // UNIT)

    for first in range(0, vector.blocks, _MOST_BLOCKS):
        blocks = range(first, min(first + _MOST_BLOCKS, vector.blocks))
        some = (size if blocks[-1] == last else LANES * blocks.stop) - LANES * first
        builder.room(_BLOCK_BUNDLES * (len(blocks) + TILES))
        builder.sync()
        collect(
            builder,
            vector,
            take,
            blocks=blocks,
            base=vector.base,
            request=partial(destination.ask, builder, some),
        )
        builder.tokens.outfed += len(blocks)


SENT_ROWS = 2
"""Wide rows that an output takes on its way."""


def send_image(
    builder: Builder,
    image: Image,
    sent: Image,
    destination: Destination,
    top: int,
    departure: Departure | None = None,
) -> None:
    """Send a part of an image to the host, which gets whole units.

    Args:
        builder: the program.
        image: the image.
        sent: what of it goes to the host from every tile, which has it.
        destination: where it goes.
        top: one past the last row of wide memory for it.
        departure: how this phase computes the image; None if one before has.
    """
    staging = top - SENT_ROWS
    if departure is None:
        builder.sync()
    else:
        builder.calm()
    tiles = [tile for tile in range(TILES) if sent.active(tile)]

    def sending(tile: int) -> Sending:
        words, rows = owned_words(image, sent, tile), image_rows(sent, tile)
        if departure is None:
            return Sending(words, rows, staging)
        there = departure.complete("line", image, sent, tile)
        return Sending(words, rows, staging, acquire=[there])

    def message(tile: int) -> RingProduce:
        return sending(tile).produce(tile, builder.tokens.turn(0, 1), None)

    builder.on_tiles(lambda tile: sending(tile).pack(), tiles)
    words = {tile: image_words(sent, tile) for tile in tiles}
    size = destination.size(sent_bytes(sent))
    if relayed(sent, size):
        relay(builder, [(message(tile), count) for tile, count in words.items()], size, destination)
        return
    destination.ask(builder, size)
    words[tiles[-1]] += size // WORD - sum(words.values())
    for tile, count in words.items():
        # The message comes before all outfeeds of it but the first: an outfeed that has no room in
        # the queue would keep the scalar core from handing the message to its tile.
        first, *others = [to_host(units) for units in _split(WORD * count // UNIT, MOST_OUTFED)]
        for instruction in (first, message(tile), *others):
            builder.emit(instruction)
        builder.tokens.outfed += 1 + len(others)


def relayed(sent: Image, size: int) -> bool:
    """Whether what tiles send of an image goes through the scalar core.

    The outfeed sends units of 8 bytes, but pieces follow each other without gaps. What fills up
    the part is after the words of the last row.

    Args:
        sent: what of the image goes to the host.
        size: bytes that the host gets.
    """
    *others, last = [image_words(sent, tile) for tile in range(TILES) if sent.active(tile)]
    fill = size // WORD - sum(others) - last
    return any(WORD * count % UNIT for count in others) or fill > -last % LANES


def sent_bytes(sent: Image) -> int:
    """Bytes of what tiles send of an image, without what fills up the last unit."""
    return WORD * sum(image_words(sent, tile) for tile in range(TILES))


def _split(count: int, most: int) -> list[int]:
    """So many in portions of which only the last may be smaller than the most."""
    return [min(most, count - first) for first in range(0, count, most)]


def owned_words(image: Image, part: Image, tile: int) -> Walk:
    """The words of what a tile owns of a part of an image."""
    height, width = part.area(tile)
    (top, _), (left, _) = part.owned(tile)
    return walk(
        image.address(tile, top, left) // WORD,
        word=(width * image.depth // WORD, 1),
        line=(height, image.pitch // WORD),
    )


def image_words(image: Image, tile: int) -> int:
    """Words that a tile owns of an image."""
    height, width = image.area(tile)
    return height * width * image.depth // WORD


def image_rows(image: Image, tile: int) -> int:
    """Rows of the ring that these words fill."""
    return -(-image_words(image, tile) // LANES)
