"""Means over whole images: tiles gather blocks of channels of the image and average them.

Where narrow memory does not hold a whole image and all blocks of a tile beside it, they come in
several passes, each with some words of a single block of every tile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.windows import explicit_padding
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder, mask_of
from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS, WHOLE, free, full, once
from fitzroy.compiler.targets.edgetpu.kernels.queues import Sending
from fitzroy.compiler.targets.edgetpu.kernels.tensor import Axis, moves
from fitzroy.compiler.targets.edgetpu.kernels.transfers import consume, unpack
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.lowerings.pools import MOST_SUMMED, average_pool
from fitzroy.compiler.targets.edgetpu.memory.allocation import NARROW_BYTES
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
    split,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage, output_stage
from fitzroy.hw_models.isa.conversion import WideToNarrow
from fitzroy.hw_models.isa.fields import TileFlag
from fitzroy.hw_models.isa.ring import RingConsume
from fitzroy.hw_models.isa.tensor import TensorOp

_MOST_STAGED = 384
"""Wide rows for a gather, unless a single row of the image takes more."""

_WORDS = LANES // WORD

_MOST_GATHERED = 1 / 3
"""Share of narrow memory for a pass, if there are several."""


@dataclass(frozen=True, slots=True)
class _Channels:
    """Channels of a pass.

    Attributes:
        blocks: numbers of their blocks; those in front of them fill all tiles equally.
        words: which words of each block, as far as the last one has them.
    """

    blocks: range
    words: Interval

    @classmethod
    def all(cls, result: Vector) -> _Channels:
        """All channels of a vector, as one pass."""
        return cls(range(result.blocks), (0, result.lanes(0) // WORD))

    @classmethod
    def parts(cls, result: Vector, most: int) -> list[_Channels]:
        """All channels of a vector, at most so many words of a block of every tile at a time."""
        found = []
        for first in range(0, result.blocks, TILES):
            words = result.lanes(first) // WORD
            for begin, end in split(words, -(-words // max(1, most))):
                blocks = range(first, min(first + TILES, result.blocks))
                if result.lanes(blocks[-1]) <= WORD * begin:
                    blocks = blocks[:-1]
                found.append(cls(blocks, (begin, end)))
        return found

    @property
    def rounds(self) -> int:
        """Blocks of a tile, at most."""
        return -(-len(self.blocks) // TILES)

    def count(self, result: Vector, block: int) -> int:
        """Words of one of the blocks."""
        begin, end = self.words
        return min(end, result.lanes(block) // WORD) - begin

    def held(self, result: Vector, tile: int) -> list[int]:
        """Those of the blocks that a tile has."""
        return [block for block in result.held(tile) if block in self.blocks]

    def address(self, result: Vector, number: int) -> int:
        """Byte address of the first of these channels in a tile's block of that number here."""
        block = self.blocks.start // TILES + number
        return result.base + LANES * block + WORD * self.words[0]

    def nbytes(self, image: Image, result: Vector) -> int:
        """Bytes of one of the blocks of all of an image, gathered."""
        positions = image.rows.extent * image.columns.extent
        return WORD * self.count(result, self.blocks[0]) * positions

    def scratch(self, image: Image, result: Vector) -> int:
        """Bytes of all of an image, gathered on a tile."""
        return self.nbytes(image, result) * self.rounds


@dataclass(frozen=True, slots=True)
class _Slice:
    """Rows of an image that tiles send at a time, all of them the same of what they own.

    Attributes:
        first: first of these rows.
        rows: how many; fewer on tiles that own less.
    """

    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Gathering:
    """How blocks of the channels of an image get to the tiles that average them.

    A message has the pixels of a tile block by block, each from a wide row of its own on. Tiles
    store all rows of a message, but each so that its own first block comes to the same place.
    Long messages come first, so that those that are alike follow each other.

    Attributes:
        image: the image.
        result: the means.
        channels: channels that are gathered.
        slices: what is sent at a time.
        spacing: wide rows of a block of a message, at most.
    """

    image: Image
    result: Vector
    channels: _Channels
    slices: tuple[_Slice, ...]
    spacing: int

    @classmethod
    def of(cls, image: Image, result: Vector, channels: _Channels) -> _Gathering:
        height = max(end - begin for begin, end in image.rows.owned)
        width = max(end - begin for begin, end in image.columns.owned)
        words = channels.count(result, channels.blocks[0])
        for count in range(1, height + 1):
            rows = -(-height // count)
            spacing = -(-words * rows * width // LANES)
            gathering = cls(image, result, channels, _slices(height, rows), spacing)
            if gathering.staged <= _MOST_STAGED:
                break
        return gathering

    @classmethod
    def passes(cls, image: Image, result: Vector, nbytes: int) -> list[_Gathering]:
        """A single pass if it fits narrow memory of so many bytes, else several."""
        whole = _Channels.all(result)
        free = nbytes - image.nbytes - result.nbytes
        if whole.scratch(image, result) <= free:
            return [cls.of(image, result, whole)]
        most = min(free, int(_MOST_GATHERED * nbytes))
        words = most // (WORD * image.rows.extent * image.columns.extent)
        return [cls.of(image, result, part) for part in _Channels.parts(result, words)]

    @property
    def message(self) -> int:
        """Wide rows of a message, at most."""
        return self.spacing * len(self.channels.blocks)

    @property
    def before(self) -> int:
        """Wide rows for first blocks that are not a tile's own."""
        return self.spacing * (min(len(self.channels.blocks), TILES) - 1)

    @property
    def staged(self) -> int:
        """Wide rows: two slots of the sender, and two of the receivers."""
        return SLOTS * self.depth + SLOTS * self.message + self.before

    @property
    def depth(self) -> int:
        """Wide rows of a slot of the sender: half of a message, so that it waits for its turn."""
        return -(-self.message // SLOTS)

    @property
    def scratch(self) -> int:
        """Bytes of the gathered blocks of a tile."""
        return self.channels.scratch(self.image, self.result)

    @property
    def pixel_bytes(self) -> int:
        """Bytes of a pixel of a gathered block."""
        return WORD * self.channels.count(self.result, self.channels.blocks[0])

    @property
    def block_bytes(self) -> int:
        """Bytes of narrow memory that a gathered block takes."""
        return self.channels.nbytes(self.image, self.result)

    @property
    def first_word(self) -> int:
        """Words of a pixel in front of the first."""
        return _WORDS * self.channels.blocks.start + self.channels.words[0]

    @property
    def receivers(self) -> list[int]:
        """Tiles that have some of the blocks."""
        return [tile for tile in self.result.tiles if self.held(tile)]

    def held(self, tile: int) -> list[int]:
        """Numbers of the blocks that a tile gathers."""
        return self.channels.held(self.result, tile)

    def pixels(self, tile: int, part: _Slice) -> tuple[int, int]:
        """Rows and columns that a tile sends."""
        height, width = self.image.area(tile)
        return max(0, min(part.rows, height - part.first)), width

    def blocks(self, message: _Message, blocks: Sequence[int], stride: int) -> _Blocks:
        """Loops over some blocks of a message, which are `stride` words apart."""
        height, width = self.pixels(message.tile, message.part)
        whole, last = (self.channels.count(self.result, blocks[end]) for end in (0, -1))
        return _Blocks(height, width, len(blocks), whole, last, stride)

    def messages(self) -> list[_Message]:
        """The messages of all tiles, in the order in which they are sent."""
        found = [
            _Message(tile, part)
            for part in self.slices
            for tile in range(TILES)
            if all(self.pixels(tile, part))
        ]
        return sorted(found, key=self._order)

    def _order(self, message: _Message) -> tuple[int, int, bool]:
        """Long messages first, those of one form together, those at regular distances first."""
        blocks = self.sent(message)
        begins = [begin for begin, _ in self.image.columns.owned]
        column = message.tile % COLUMNS
        apart = begins[column] != begins[0] + column * (begins[1] - begins[0])
        return -blocks.words, blocks.height, apart

    def place(self, message: _Message) -> int:
        """Words from the first pixel of a gathered block to the first of a message."""
        (top, _), (left, _) = self.image.owned(message.tile)
        columns = self.image.columns.extent
        return self.pixel_bytes // WORD * ((top + message.part.first) * columns + left)

    def groups(self, *, together: bool) -> list[list[_Message]]:
        """Messages in groups that a tile with a single block takes with one instruction.

        Args:
            together: whether it may take several: those of a form, at regular distances.
        """
        found: list[list[_Message]] = []
        for message in self.messages():
            if together and found and self._follows(found[-1], message):
                found[-1].append(message)
            else:
                found.append([message])
        return found

    def _follows(self, group: Sequence[_Message], message: _Message) -> bool:
        """Whether a message continues a group."""
        first, *rest = [self.place(item) for item in (*group, message)]
        return self.sent(group[0]) == self.sent(message) and rest == [
            first + number * (rest[0] - first) for number in range(1, len(rest) + 1)
        ]

    def sent(self, message: _Message) -> _Blocks:
        """A message on the side of the sender."""
        return self.blocks(message, self.channels.blocks, _WORDS)

    def taken(self, message: _Message, receiver: int) -> _Blocks:
        """What a tile keeps of a message."""
        return self.blocks(message, self.held(receiver), self.block_bytes // WORD)


@dataclass(frozen=True, slots=True)
class _Message:
    """What a tile sends at a time.

    Attributes:
        tile: the tile.
        part: which rows of what it owns.
    """

    tile: int
    part: _Slice


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Words of a message, on the side of narrow memory and on the side of wide memory.

    Attributes:
        height: rows of pixels.
        width: pixels of a row.
        count: blocks.
        whole: words of a pixel in all blocks but the last.
        last: words of a pixel in the last block.
        stride: words from one block to the next.
    """

    height: int
    width: int
    count: int
    whole: int
    last: int
    stride: int

    @property
    def words(self) -> int:
        """Words of narrow memory that the blocks take."""
        return self.height * self.width * (self.whole * (self.count - 1) + self.last)

    @property
    def spacing(self) -> int:
        """Rows of wide memory from one block of a message to the next."""
        return -(-self.whole * self.width * self.height // LANES)

    @property
    def rows(self) -> int:
        """Wide rows of all blocks; the last one may have fewer."""
        last = -(-self.last * self.width * self.height // LANES)
        return self.spacing * (self.count - 1) + last

    def narrow(self, base: int, pixel: int, line: int) -> Walk:
        """Words of narrow memory, for distances of pixels and rows in words."""
        return walk(
            base,
            word=(self.whole, 1),
            pixel=(self.width, pixel),
            line=(self.height, line),
            block=(self.count, self.stride),
            part=(self.last, "block"),
        )

    def wide(self, base: int, distance: int) -> Walk:
        """Rows of wide memory, those of the blocks at some distance."""
        last = self.rows - self.spacing * (self.count - 1)
        return walk(
            base,
            row=(self.spacing, 1),
            block=(self.count, distance),
            part=(last, "block"),
        )


def _slices(height: int, rows: int) -> tuple[_Slice, ...]:
    return tuple(_Slice(first, rows) for first in range(0, height, rows))


def _gather(context: Context, gathering: _Gathering) -> None:
    """Bring every tile the blocks of channels that it averages; a barrier must follow."""
    builder = context.builder
    groups = gathering.groups(together=context.recipes.together)
    messages = [message for group in groups for message in group]
    begun = {group[0]: group for group in groups}
    receivers = mask_of(gathering.receivers)
    kept = dict.fromkeys(gathering.receivers, 0)
    sent = [0] * TILES
    sendings: dict[_Message, Sending] = {}
    for number, message in enumerate(messages):
        builder.room(_MESSAGE_BUNDLES)
        form = gathering.sent(message)
        if not number or gathering.sent(messages[number - 1]) != form:
            same = sum(gathering.sent(other) == form for other in messages)
            _consume(builder, gathering, message, number, same, kept)
        if message not in sendings:
            # Tiles that send the same rows pack them at the same time, and wait for their turns.
            together = [
                other
                for other in messages[number:]
                if other.part == message.part and gathering.sent(other) == form
            ]
            for other in together:
                sendings[other] = _sending(builder, gathering, other, sent)
            by_tile = {other.tile: sendings[other].pack() for other in together}
            builder.on_tiles(by_tile.get, by_tile)
        unpack_all = partial(_unpack, context, gathering, message, number, begun.get(message, []))
        builder.on_tiles(unpack_all, gathering.receivers)
        sending, turn = sendings[message], builder.tokens.turn(0, 1)
        builder.emit(sending.produce(message.tile, turn, receivers))
        sent[message.tile] += sending.turns
        for tile in kept:
            kept[tile] += gathering.taken(message, tile).words


_MESSAGE_BUNDLES = TILES * (4 + 4 * 7) + 4


def _first(builder: Builder, gathering: _Gathering, number: int) -> int:
    """Wide row of a tile's own first block in a message of some number."""
    receiving = builder.staging - SLOTS * gathering.depth
    return receiving - (SLOTS - number % SLOTS) * gathering.message


def _consume(
    builder: Builder,
    gathering: _Gathering,
    message: _Message,
    number: int,
    count: int,
    kept: Mapping[int, int],
) -> None:
    """Tiles take messages that are alike through two slots.

    Args:
        builder: the program.
        gathering: what is gathered.
        message: the first of the messages.
        number: its number.
        count: how many there are.
        kept: words that tiles have kept of the messages before.
    """
    blocks = gathering.sent(message)
    first = _first(builder, gathering, number)
    other = _first(builder, gathering, number + 1) - first

    def make(tile: int) -> RingConsume:
        before = gathering.held(tile)[0] - gathering.channels.blocks.start
        words = gathering.taken(message, tile).words
        rows = walk(
            first - blocks.spacing * before,
            row=(blocks.rows, 1),
            message=(count, 0),
            turn=("message", other),
        )
        credit = free(TileFlag.WIDE_TO_NARROW, "message", before=kept[tile], step=words)
        return consume(0, rows, publish="message", acquire=credit)

    builder.on_tiles(make, gathering.receivers)


def _sending(
    builder: Builder, gathering: _Gathering, message: _Message, sent: Sequence[int]
) -> Sending:
    """How a tile sends a message: through two slots, in turn from message to message.

    Args:
        builder: the program.
        gathering: what is gathered.
        message: the message.
        sent: how often each tile has emptied slots before.
    """
    image, tile, blocks = gathering.image, message.tile, gathering.sent(message)
    (top, _), (left, _) = image.owned(tile)
    start = image.address(tile, top + message.part.first, left) // WORD + gathering.first_word
    words = blocks.narrow(start, image.depth // WORD, image.pitch // WORD)
    slots, depth = builder.staging - SLOTS * gathering.depth, gathering.depth
    return Sending(words, blocks.rows, slots, "block", sent[tile], depth)


def _unpack(
    context: Context,
    gathering: _Gathering,
    message: _Message,
    number: int,
    group: Sequence[_Message],
    receiver: int,
) -> WideToNarrow | None:
    """A tile takes its blocks out of a message, or its only block out of a group of messages.

    Args:
        context: what layers find.
        gathering: what is gathered.
        message: the message.
        number: its number.
        group: the messages that are taken with it, with itself; empty if it is taken with one
            before it.
        receiver: the tile.
    """
    blocks = gathering.taken(message, receiver)
    if blocks.count > 1:
        group = [message]
    elif not group:
        return None
    pixel = gathering.pixel_bytes // WORD
    line = pixel * gathering.image.columns.extent
    start = context.scratch // WORD + gathering.place(message)
    first = _first(context.builder, gathering, number)
    if len(group) == 1:
        return unpack(
            blocks.wide(first, gathering.sent(message).spacing * TILES),
            blocks.narrow(start, pixel, line),
            row="block",
            publish="word",
            acquire=[once(TileFlag.RING_READ_A, WHOLE, number + 1)],
        )
    distance = gathering.place(group[1]) - gathering.place(message)
    other = _first(context.builder, gathering, number + 1) - first
    return unpack(
        walk(first, row=(blocks.rows, 1), message=(len(group), 0), turn=("message", other)),
        walk(
            start,
            word=(blocks.whole, 1),
            pixel=(blocks.width, pixel),
            line=(blocks.height, line),
            message=(len(group), distance),
        ),
        row="message",
        publish="word",
        acquire=[full(TileFlag.RING_READ_A, "message", before=number)],
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class GlobalAverage(Layer):
    """The mean of every channel.

    Attributes:
        stage: constants of the output stage.
        narrow_bytes: bytes of narrow memory that the program may use.
    """

    stage: OutputStage
    narrow_bytes: int

    makes_vector = True
    doubled = True

    def _passes(self, tensors: Mapping[str, Placed]) -> list[_Gathering]:
        """The passes of an image; none of a vector."""
        source, result = tensors[self.reads[0]], tensors[self.writes]
        assert isinstance(result, Vector)
        if isinstance(source, Vector):
            return []
        return _Gathering.passes(source, result, self.narrow_bytes)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory that the gather takes."""
        return max((gathering.staged for gathering in self._passes(tensors)), default=0)

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """The gathered blocks of a tile."""
        return max((gathering.scratch for gathering in self._passes(tensors)), default=0)

    def emit(self, context: Context) -> None:
        """For every pass the gather, and an operation for every block of a tile."""
        builder = context.builder
        source, result = context.tensors[self.reads[0]], context.vector(self.writes)
        if isinstance(source, Vector):
            self._average(
                context, _Channels.all(result), source.base, LANES, [Axis("pixel", 1, LANES)]
            )
        for index, gathering in enumerate(self._passes(context.tensors)):
            if index:
                builder.room(_MESSAGE_BUNDLES)
                builder.barrier()
            _gather(context, gathering)
            builder.barrier()
            self._average(
                context,
                gathering.channels,
                context.scratch,
                gathering.block_bytes,
                _positions(gathering),
            )

    def _average(
        self,
        context: Context,
        channels: _Channels,
        base: int,
        step: int,
        pixels: Sequence[Axis],
    ) -> None:
        """The means of some channels, of which each tile has its blocks at distances of `step`."""
        result = context.vector(self.writes)

        def average(number: int, tile: int) -> TensorOp | None:
            held = channels.held(result, tile)
            if number >= len(held):
                return None
            return moves(
                base + step * number,
                channels.address(result, number),
                context.identity,
                pixels,
                [Axis("word", channels.count(result, held[number]), WORD, WORD)],
                self.stage,
            )

        for number in range(channels.rounds):
            context.builder.on_tiles(partial(average, number))


def _positions(gathering: _Gathering) -> list[Axis]:
    """Loops over all pixels of a gathered block, which follow each other: a single one if it can.

    Sums stay in the accumulators from one loop to the next.
    """
    height, width = gathering.image.rows.extent, gathering.image.columns.extent
    pixel = gathering.pixel_bytes
    if height * width <= MOST_SUMMED:
        return [Axis("pixel", height * width, pixel)]
    return [Axis("pixel", width, pixel), Axis("line", height, width * pixel)]


def gathered_bytes(height: int, width: int) -> int:
    """Least bytes of a tile for means of an image: a word of all pixels beside those it owns."""
    return WORD * (height * width + -(-height // ROWS) * -(-width // COLUMNS))


def is_global(call: Call) -> bool:
    """Whether the window of an average pool is the whole image."""
    attributes, image = call.attributes(PoolAttributes), call.type().shape
    extent = (image[1], image[2])
    pads = explicit_padding(
        attributes.padding, extent, attributes.kernel, attributes.stride, (1, 1)
    )
    return attributes.kernel == extent and not any(pads)


def global_average(legalizer: Legalizer, call: Call, stage: OutputStage) -> None:
    """Append the mean, or the sum, of every channel of an image.

    Args:
        legalizer: the graph.
        call: the operator.
        stage: what makes its result of sums.
    """
    source = legalizer.place(call.node.inputs[0] or "")
    legalizer.layers.append(
        GlobalAverage(
            name=call.node.name,
            reads=(source,),
            writes=call.node.outputs[0],
            stage=stage,
            narrow_bytes=legalizer.options.narrow_bytes,
        )
    )


@legalizes("average_pool_2d")
def _average_pool(legalizer: Legalizer, call: Call) -> None:
    image = call.type().shape
    if is_global(call) and gathered_bytes(*image[1:3]) <= NARROW_BYTES:
        global_average(legalizer, call, output_stage(call))
    else:
        average_pool(legalizer, call)
