"""Where parameters lie on the chip: runs of words in rows of wide memory.

Every tile has its own wide memory. Parameters that stay there from inference to inference are
loaded by a PARAMETER_CACHING program, segment by segment.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.parameters import BLOB_ALIGNMENT

TILES = BEAGLE.tiles.count
"""Tiles of the chip."""

WIDE_ROWS = BEAGLE.memories.wide.elements
"""Rows of wide memory of a tile."""

LANE_BYTES = BEAGLE.compute.multipliers
"""Bytes of a lane in a row, one for each of its multipliers."""

ROW_LANES = BEAGLE.compute.lanes
"""Lanes of a whole row."""


def segment_words(units: int, lanes: int) -> int:
    """Rows of `lanes` lanes that units of 64 bytes fill, the last one perhaps not to the end."""
    return -(-units * BLOB_ALIGNMENT // (LANE_BYTES * lanes))


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of an operand's words in consecutive rows of one tile.

    Attributes:
        operand: number of the operand that it belongs to.
        tile: tile that keeps the rows.
        row: first row, that of the prefix where there is one.
        words: rows, prefix words included.
        lanes: lanes of a row.
        position: first unit of 64 bytes in the blob.
        units: units in the blob.
        prefix_words: words of the block's prefix, if the segment is a block of a fully connected
            layer; 0 where the prefix is a part of the words sent to other tiles.
    """

    operand: int
    tile: int
    row: int
    words: int
    lanes: int
    position: int
    units: int
    prefix_words: int = 0

    @property
    def end(self) -> int:
        """First row after the segment."""
        return self.row + self.words

    @property
    def weights_row(self) -> int:
        """First row after the prefix: the base of the weights."""
        return self.row + self.prefix_words
