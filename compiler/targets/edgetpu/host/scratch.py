"""Images in the scratch buffer of the host, from which tiles take their rows back."""

from __future__ import annotations

from fitzroy.compiler.targets.edgetpu.host.outputs import image_rows, image_words, owned_words
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.instructions.sync import (
    SLOTS,
)
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import ACTIVATIONS, UNIT
from fitzroy.compiler.targets.edgetpu.kernels.queues import (
    Taking,
    in_slots,
)
from fitzroy.compiler.targets.edgetpu.layers.input_stream import request
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    TILES,
    WORD,
    Image,
    Interval,
    Kept,
)
from fitzroy.formats.object_file import SymbolKind

FETCHED_ROWS = SLOTS
"""Wide rows that an image takes on its way back."""


def kept_whole(image: Image) -> bool:
    """Whether rows of all tiles are whole units, so that any rows can come back."""
    return all((end - begin) * image.depth % UNIT == 0 for begin, end in image.columns.owned)


def fetch_image(builder: Builder, image: Image, kept: Kept) -> None:
    """Take what tiles own of an image back from the scratch buffer."""
    staging = builder.staging - FETCHED_ROWS
    pieces = {tile: _kept_units(image, kept, tile) for tile in range(TILES) if image.active(tile)}

    def taking(tile: int) -> Taking:
        return Taking(
            in_slots(staging, image_rows(image, tile), 1), owned_words(image, image, tile)
        )

    builder.sync()
    builder.on_tiles(lambda tile: taking(tile).unpack(), pieces)
    builder.on_tiles(lambda tile: taking(tile).consume(), pieces)
    for tile, some in pieces.items():
        builder.room(_PIECE_BUNDLES * (len(some) + 1))
        position = 0
        for begin, end in some:
            request(builder, (begin, end), kind=SymbolKind.SCRATCH, position=position)
            position += end - begin
        builder.emit(ACTIVATIONS.infeed(position, 0, 1 << tile))
    # Tiles send on the same channel of the ring as the infeed.
    builder.sync()


def _kept_units(image: Image, kept: Kept, tile: int) -> list[Interval]:
    """Units of the scratch buffer with the rows that a tile owns, from the first on."""
    (top, bottom), (left, right) = image.owned(tile)
    row_bytes = (right - left) * image.depth
    found: list[tuple[int, Interval]] = []
    for sent, offset in kept:
        begin = offset
        for other in range(TILES):
            (first, last), across = sent.owned(other)
            low, high = max(first, top), min(last, bottom)
            if across == (left, right) and low < high:
                start = begin + (low - first) * row_bytes
                units = start // UNIT, (start + (high - low) * row_bytes) // UNIT
                found.append((low, units))
            begin += WORD * image_words(sent, other)
    pieces: list[Interval] = []
    for _, (begin, end) in sorted(found):
        if pieces and pieces[-1][1] == begin:
            pieces[-1] = pieces[-1][0], end
        else:
            pieces.append((begin, end))
    return pieces


_PIECE_BUNDLES = 32
"""Bundles of a request for units, or of an infeed."""
