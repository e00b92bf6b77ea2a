"""How do images and vectors get from the host to the tiles that own them?

The host sends an image in pieces, each for one or more rows of the grid of tiles. An infeed sends
the units of a piece over the ring. Tiles take rows of the image through two slots, keep the words
that they own and drop the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder, mask_of
from fitzroy.compiler.targets.edgetpu.instructions.sync import (
    SLOTS,
    free,
    full,
)
from fitzroy.compiler.targets.edgetpu.kernels.host_buffers import ACTIVATIONS, UNIT
from fitzroy.compiler.targets.edgetpu.kernels.queues import (
    SLOT,
    Taking,
    in_slots,
)
from fitzroy.compiler.targets.edgetpu.kernels.tensor import Axis, single_bytes
from fitzroy.compiler.targets.edgetpu.kernels.transfers import fill
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.layers.input_stream import InputStream, Piece
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, longest
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    LANES,
    ROWS,
    TILES,
    WORD,
    Image,
    Interval,
    Placed,
    Vector,
    round_up,
)
from fitzroy.hw_models.isa.conversion import WideToNarrow
from fitzroy.hw_models.isa.counters import signed16
from fitzroy.hw_models.isa.fields import (
    TileFlag,
)
from fitzroy.hw_models.isa.ring import RingConsume
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import (
    Prefix,
)


def receive_image(
    builder: Builder,
    image: Image,
    stream: InputStream,
    row: int,
    buffer: int,
    *,
    top: int = 0,
    compact: bool = False,
    ends: bool = True,
) -> None:
    """Take what tiles own of an image from the host, and spread it over them.

    Every tile of a row of the grid gets the packed image rows of that row, and copies its columns.
    The host sends rows again that several rows of the grid own.

    Args:
        builder: the program.
        image: where it goes.
        stream: inputs that the host sends.
        row: wide row of the identity matrix.
        buffer: byte address of the row buffer, of `buffer_bytes`.
        top: rows before the image in the host's buffer.
        compact: whether its slots are as small as they can be.
        ends: whether the phase ends then; else what comes next in it sends nothing on channel A
            until the infeed is idle.
    """
    feed = _Feed.of(image, row, buffer, builder.staging, compact, top)
    if feed.beyond:
        # The last word of a pixel takes bytes of the next one, even after slots and rows.
        between = walk(buffer // WORD + feed.slot, word=(2, feed.step))
        builder.on_tiles(lambda tile: fill(between))
        builder.on_tiles(lambda tile: fill(feed.end(tile)))
    builder.feed()
    builder.on_tiles(lambda tile: feed.copy(tile, rest=False))
    builder.on_tiles(feed.unpack)
    builder.on_tiles(feed.consume)
    for piece in _pieces(image, top):
        position = stream.take(builder)
        for part in piece.parts:
            feed.send(builder, part, position - piece.units[0])
    builder.on_tiles(lambda tile: feed.copy(tile, rest=True))
    if ends:
        # Tiles send on the same channel of the ring as the infeed.
        builder.sync()


def copies(image: Image, *, compact: bool = False) -> tuple[int, ...]:
    """How often AVDATA counts on each tile while `receive_image` copies what it owns."""
    feed = _Feed.of(image, 0, 0, 0, compact)
    divisions = map(feed.division, range(TILES))
    return tuple(slots + bool(rest) for slots, rest in divisions)


def pieces(tensor: Placed, name: str, top: int = 0) -> list[Piece]:
    """What the host sends of an input for what tiles own of a tensor, request by request.

    Args:
        tensor: where it goes.
        name: the input.
        top: rows before the tensor in the input.
    """
    if isinstance(tensor, Image):
        return [Piece(name, piece.units, piece.again) for piece in _pieces(tensor, top)]
    return [Piece(name, (0, _vector_units(tensor)))]


def staging_rows(tensor: Placed, *, compact: bool = False) -> int:
    """Rows of wide memory through which an input goes, in slots of any size or the smallest."""
    if isinstance(tensor, Image):
        return SLOTS * -(-_slot_words(tensor, compact)[1] // LANES)
    return SPREAD_ROWS


def buffer_bytes(tensor: Placed, *, compact: bool = False) -> int:
    """Bytes of narrow memory in which an input waits before it is copied to its place."""
    if isinstance(tensor, Image):
        return SLOTS * WORD * (_slot_words(tensor, compact)[1] + 1)
    return SPREAD_BYTES


_AROUND = 2 * (UNIT - 1)
"""Bytes before and after the rows of a tile in the units that bring them."""


_LATE_WORDS, _MOST_WORDS, _TURNS = 192, 384, 16
"""Words of a slot of several image rows: of small images at most, of any image at most; and how
often slots are filled at least in between.

A tile is told that a slot is full some 150 cycles late, which small slots cannot hide. What is in
the last slots of a tile is copied when everything has come.
"""


def _slot_words(image: Image, compact: bool) -> tuple[int, int]:
    """Image rows of a slot, and its words: as few rows as fill whole words, or more of them.

    Rows of a tile begin anywhere in a word. If it owns whole image rows or almost, the last row of
    such a slot therefore reaches over its end. Slots of these images have room for all rows of a
    tile and what surrounds them in the stream.
    """
    row_bytes = image.columns.extent * image.channels
    rows = WORD // math.gcd(WORD, row_bytes)
    most = max(end - begin for begin, end in image.rows.owned)
    if not compact:
        words = most * row_bytes // WORD
        limit = min(max(words // _TURNS, _LATE_WORDS), _MOST_WORDS, words)
        rows *= max(1, limit * WORD // (rows * row_bytes))
    widest = max(end - begin for begin, end in image.columns.owned)
    if widest * image.channels + WORD - 1 > row_bytes:
        rows = round_up(most + -(-_AROUND // row_bytes), rows)
    return rows, rows * row_bytes // WORD


def last_words(image: Image, *, compact: bool = False) -> int:
    """Words that a tile still has to copy, at most, when the last of its rows have come."""
    _, slot = _slot_words(image, compact)
    row_bytes = image.columns.extent * image.channels
    return min(slot, longest(image.rows.owned) * row_bytes // WORD)


def fills(image: Image) -> bool:
    """Whether tiles fill some words before they take an image: copies read beyond a pixel."""
    return image.depth > image.channels > WORD


def _units(image: Image, part: int, top: int) -> Interval:
    """Units of the host's buffer with the image rows of a row of the grid.

    Args:
        image: the image.
        part: the row of the grid.
        top: rows before the image in the buffer.
    """
    row_bytes = image.columns.extent * image.channels
    begin, end = ((top + bound) * row_bytes for bound in image.rows.owned[part])
    return begin // UNIT, max(-(-end // UNIT), begin // UNIT)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Units that the host sends on one request.

    Attributes:
        units: the units, in the host's buffer.
        parts: rows of the grid that they are for.
        sent: units that infeeds send to these, some of them more than once.
    """

    units: Interval
    parts: tuple[int, ...]
    sent: int

    @property
    def again(self) -> int:
        """Units that more than one row of the grid gets."""
        return self.sent - (self.units[1] - self.units[0])


_MOST_UNITS = (48 << 10) // UNIT
"""Units of a request for several rows of the grid, at most.

Hosts copy transfers before these move, and one while another moves. Transfers of 52,048 bytes show
no such cost, those of 75,360 bytes and more do (`hw_models.chips.hosts`).
"""


def _pieces(image: Image, top: int) -> list[_Piece]:
    """What the host sends of an image with so many rows before it in its buffer.

    Rows of the grid that follow each other share a request if that is small. The last unit of one
    may then also be the first of the next: the infeed can read it again.
    """
    pieces: list[_Piece] = []
    for part in range(ROWS):
        first, last = image.rows.owned[part]
        if first == last:
            continue
        begin, end = _units(image, part, top)
        before = pieces[-1] if pieces else _Piece((-_MOST_UNITS, -_MOST_UNITS), (), 0)
        if 0 <= before.units[1] - begin <= 1 and end - before.units[0] <= _MOST_UNITS:
            sent = before.sent + end - begin
            pieces[-1] = _Piece((before.units[0], end), (*before.parts, part), sent)
        else:
            pieces.append(_Piece((begin, end), (part,), end - begin))
    return pieces


@dataclass(frozen=True, slots=True)
class _Feed:
    """How an image comes in.

    Attributes:
        image: the image.
        identity: wide row of the identity matrix.
        buffer: byte address of two slots of rows.
        staging: wide rows of two slots.
        row_bytes: bytes of an image row, packed.
        rows: image rows of a slot.
        slot: words of a slot.
        staged: wide rows of a slot.
        top: image rows before it in the host's buffer.
    """

    image: Image
    identity: int
    buffer: int
    staging: int
    row_bytes: int
    rows: int
    slot: int
    staged: int
    top: int

    @classmethod
    def of(
        cls, image: Image, identity: int, buffer: int, staging: int, compact: bool, top: int = 0
    ) -> _Feed:
        rows, slot = _slot_words(image, compact)
        staged = -(-slot // LANES)
        row_bytes = image.columns.extent * image.channels
        first = staging - SLOTS * staged
        return cls(image, identity, buffer, first, row_bytes, rows, slot, staged, top)

    def stream(self, part: int) -> tuple[int, int, int]:
        """First unit, number of units, and bytes to skip, of the rows of a row of the grid."""
        begin, end = _units(self.image, part, self.top)
        first = self.top + self.image.rows.owned[part][0]
        return begin, end - begin, first * self.row_bytes % UNIT

    def offset(self, tile: int) -> tuple[int, int]:
        """Words that a tile drops, and bytes of the next one that are not its own."""
        part, column = divmod(tile, COLUMNS)
        skip = self.stream(part)[2] + self.image.columns.owned[column][0] * self.image.channels
        return divmod(skip, WORD)

    def end(self, tile: int) -> Walk:
        """The word of the row buffer after the last one that a tile keeps."""
        slot, words = divmod(self.kept(tile), self.slot)
        place = self.buffer // WORD + slot % SLOTS * self.step + words
        return walk(place, word=(1, 1))

    def kept(self, tile: int) -> int:
        """Words of the rows sent to a tile from the first that it owns on."""
        return self.stream(tile // COLUMNS)[1] * UNIT // WORD - self.offset(tile)[0]

    @property
    def beyond(self) -> int:
        """Bytes after a pixel that its copy reads."""
        return self.image.depth - self.image.channels if fills(self.image) else 0

    @property
    def step(self) -> int:
        """Words from one slot to the next: there is one between for what copies read beyond."""
        return self.slot + bool(self.beyond)

    def unpack(self, tile: int) -> WideToNarrow | None:
        """Takes the words of all rows into the row buffer, from the tile's first own one on."""
        if not self.image.active(tile):
            return None
        dropped, _ = self.offset(tile)
        base = self.buffer // WORD
        taking = replace(
            self.taking(tile // COLUMNS, in_slots(base, self.kept(tile), self.slot, self.step)),
            prefix=Prefix(1, base, dropped, base + dropped - 1, 0) if dropped else None,
            acquire=[free(TileFlag.AVDATA, SLOT)],
        )
        return taking.unpack()

    def taking(self, part: int, words: Walk) -> Taking:
        """How the rows of a row of the grid come to words."""
        rows = -(-self.stream(part)[1] * UNIT // WORD // LANES)
        return Taking(in_slots(self.staging, rows, self.staged), words)

    def consume(self, tile: int) -> RingConsume | None:
        """Takes the rows of a tile's row of the grid from the ring, into the slots of wide rows."""
        if not self.image.active(tile):
            return None
        part = tile // COLUMNS
        count = self.stream(part)[1] * UNIT // WORD
        words = in_slots(self.buffer // WORD, count, self.slot, self.step)
        waits = count > SLOTS * self.slot
        return self.taking(part, words).consume(uncounted=waits * self.offset(tile)[0])

    def send(self, builder: Builder, part: int, origin: int) -> None:
        """Rows of the image, out of what the host sends, to a row of the grid.

        Args:
            builder: the program.
            part: the row of the grid.
            origin: where the first unit of the image would be in the stream.
        """
        begin, units, _ = self.stream(part)
        across = range(part * COLUMNS, (part + 1) * COLUMNS)
        tiles = mask_of([tile for tile in across if self.image.active(tile)])
        builder.emit(ACTIVATIONS.infeed(units, origin + begin, tiles))

    def division(self, tile: int) -> tuple[int, int]:
        """Whole slots of image rows of a tile, and the rows that are left."""
        if not self.image.active(tile):
            return 0, 0
        height, _ = self.image.area(tile)
        whole, left = divmod(height, self.rows)
        if self.beyond and whole and not left:
            # Nothing comes after the last row, so that there is nothing to wait for.
            return whole - 1, self.rows
        return whole, left

    def copy(self, tile: int, *, rest: bool) -> TensorOp | None:
        """Copies the tile's columns out of whole slots, or out of the rows that are left."""
        image = self.image
        _, width = image.area(tile)
        whole, left = self.division(tile)
        rows, slots = (left, 1) if rest else (self.rows, whole)
        if not rows * slots:
            return None
        (top, _), (column, _) = image.owned(tile)
        _, inside = self.offset(tile)
        channels, depth = image.channels, image.depth
        group = depth // WORD
        single = channels % WORD != 0
        steps = min(channels, WORD) if single else 1
        start = self.buffer + inside
        place = image.address(tile, top, column)
        if rest:
            start += whole % SLOTS * WORD * self.step
            place += whole * self.rows * image.pitch
        read = inside + (rows - 1) * self.row_bytes + width * channels + self.beyond
        needed = min(-(-read // WORD), self.slot)
        before = needed - self.slot
        if rest:
            # What is read beyond the last word never comes.
            before = signed16(min(whole * self.slot + needed, self.kept(tile)) - self.slot)
        there = full(TileFlag.WIDE_TO_NARROW, "slot", before=before, step=self.slot)
        return single_bytes(
            start,
            place,
            self.identity,
            Axis("byte", steps, 1, factor=int(steps > 1)),
            [
                Axis("word", group, WORD, WORD),
                Axis("x", width, channels, depth),
                Axis("y", rows, self.row_bytes, image.pitch),
                Axis("slot", slots, 0, self.rows * image.pitch, turn=WORD * self.step),
            ],
            acquire=[there],
            publish="slot",
            idle_multipliers=(single,) * 3,
        )


# --- vectors -------------------------------------------------------------------------------------

ROW_BLOCKS = WORD
"""Blocks of a vector that make a row of the ring; a row of the grid takes them."""

SPREAD_ROWS = 2
"""Wide rows that a vector takes on its way to the tiles."""

SPREAD_BYTES = (ROW_BLOCKS - 1) * LANES
"""Bytes of narrow memory for the blocks of others."""


def spread(context: Context, vector: Vector, blocks: range) -> None:
    """Tiles take their blocks of a vector that comes from the infeed, in rows of four blocks.

    Args:
        context: where things are.
        vector: the vector.
        blocks: numbers of the blocks that come; the first one is on the first tile.
    """
    builder = context.builder
    staging = builder.staging - SPREAD_ROWS
    words, aside = LANES // WORD, context.scratch // WORD
    of = {tile: [block for block in vector.held(tile) if block in blocks] for tile in vector.tiles}
    tiles = [tile for tile, held in of.items() if held]

    def taking(tile: int) -> Taking:
        held = of[tile]
        # Only the last row has fewer words.
        first, last = vector.lanes(held[0]) // WORD, vector.lanes(held[-1]) // WORD
        others = held[0] % ROW_BLOCKS * words
        return Taking(
            walk(staging, row=(1, 1), slot=(len(held), 0), turn=(SLOT, 1)),
            walk(
                vector.base // WORD + words * (held[0] // TILES),
                word=(first, 1),
                block=(len(held), words),
                part=(last, "block"),
            ),
            row="block",
            prefix=Prefix(0, aside, others, aside + others - 1, 0) if others else None,
        )

    builder.on_tiles(lambda tile: taking(tile).unpack(), tiles)
    builder.on_tiles(lambda tile: taking(tile).consume(), tiles)


def takers(vector: Vector, row: int) -> int:
    """Mask of the tiles that take blocks of a row of the ring."""
    first = ROW_BLOCKS * row
    blocks = range(first, min(first + ROW_BLOCKS, vector.blocks))
    return mask_of([vector.owner(block) for block in blocks])


def _vector_units(vector: Vector) -> int:
    """Units of the host's buffer with a vector."""
    return -(-vector.channels // UNIT)


def receive_vector(context: Context, vector: Vector) -> None:
    """Take a vector from the host."""
    builder = context.builder
    builder.feed()
    units, position = _vector_units(vector), context.inputs.take(builder)
    spread(context, vector, range(vector.blocks))
    size = ROW_BLOCKS * LANES // UNIT
    for row, first in enumerate(range(0, units, size)):
        builder.emit(
            ACTIVATIONS.infeed(min(size, units - first), position + first, takers(vector, row))
        )
    # Tiles send on the same channel of the ring as the infeed.
    builder.sync()
