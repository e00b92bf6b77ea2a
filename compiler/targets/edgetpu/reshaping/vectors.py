"""Vectors, and linear copies of whole tensors: gathering, and changing the shape of tensors.

An all-gather brings the parts of a tensor to tiles that need all of it. Every tile that owns some
sends one message over the ring. Receivers stage messages, so that none waits for another, and put
their words where they belong in a linear copy: rows, columns and channels in that order, channels
filled up to words. Messages for which staging has no room go through two slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder, mask_of
from fitzroy.compiler.targets.edgetpu.instructions.sync import (
    SLOTS,
    WHOLE,
    Condition,
    full,
)
from fitzroy.compiler.targets.edgetpu.kernels.queues import Sending
from fitzroy.compiler.targets.edgetpu.kernels.transfers import consume, unpack
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk, walk
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    TILES,
    WORD,
    Image,
    Placed,
    Vector,
    round_up,
)
from fitzroy.hw_models.isa.counters import signed16
from fitzroy.hw_models.isa.fields import Side, TileFlag

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
        part: words of the last run, None if it is as long as the others.
        words: how many words.
        filled: whether the last run is sent as long as the others, though fewer words are taken.
    """

    tile: int
    base: int
    source: Loops
    target: Loops
    offset: int
    part: int | None
    words: int
    filled: bool = False

    @property
    def sent(self) -> Walk:
        """Its words where they come from."""
        return self._walk(self.base, self.source, None if self.filled else self.part)

    def taken(self, base: int) -> Walk:
        """Its words in the linear copy that begins at a word."""
        return self._walk(base + self.offset, self.target, self.part)

    @staticmethod
    def _walk(base: int, runs: Loops, part: int | None) -> Walk:
        word, run = runs
        return walk(base, word=word, run=run, part=None if part is None else (part, "run"))

    @property
    def rows(self) -> int:
        """Rows of the ring that the message takes."""
        return -(-self.words // LANES)

    @property
    def runs(self) -> Loops:
        """Its runs in the linear copy, without loops that run once."""
        return [(count, stride) for count, stride in self.target if count > 1]

    @property
    def stays(self) -> bool:
        """Whether published programs take such a message as a whole: a few rows, or one run."""
        whole = all(stride == inner * step for (inner, step), (_, stride) in pairwise(self.runs))
        return self.rows <= SLOTS or (whole and self.part is None)


def _of_vector(vector: Vector, tile: int) -> _Message:
    held = vector.held(tile)
    whole, rest = (vector.lanes(held[end]) // WORD for end in (0, -1))
    sent = vector.computed(held[0]) // WORD
    return _Message(
        tile,
        vector.base // WORD,
        [(sent, 1), (len(held), LANES // WORD)],
        [(whole, 1), (len(held), TILES * LANES // WORD)],
        held[0] * LANES // WORD,
        rest if rest != whole else None,
        whole * (len(held) - 1) + rest,
        vector.filled,
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
    """The messages of all tiles, in the order in which they are sent."""
    if isinstance(tensor, Vector):
        owners = [tensor.owner(block) for block in range(min(tensor.blocks, TILES))]
        return [_of_vector(tensor, tile) for tile in owners]
    return [_of_image(tensor, tile) for tile in range(TILES) if tensor.active(tile)]


def _pieces(message: _Message) -> list[_Message]:
    """A message as receivers take it: in pieces of whole rows that can stay, if there are such."""
    if message.stays or message.part is not None:
        return [message]
    (run, _), (count, stride) = message.target
    sizes = range(1, max(2, SLOTS * LANES // run + 1))
    whole = [size for size in sizes if size * run % LANES == 0]
    if not whole:
        return [message]
    size = whole[-1]
    return [
        replace(
            message,
            target=[(run, 1), (min(size, count - first), stride)],
            offset=message.offset + first * stride,
            words=run * min(size, count - first),
        )
        for first in range(0, count, size)
    ]


def _alike(pieces: Iterable[_Message]) -> list[list[_Message]]:
    """Pieces in groups that an instruction takes: they are alike, and at regular distances."""
    found: list[list[_Message]] = []
    for piece in pieces:
        if found and _follows(found[-1], piece):
            found[-1].append(piece)
        else:
            found.append([piece])
    return found


def _follows(group: Sequence[_Message], piece: _Message) -> bool:
    """Whether a piece continues a group; if it is shorter, the group ends with it."""
    first, last = group[0], group[-1]
    regular = len(group) == 1 or piece.offset - last.offset == group[1].offset - first.offset
    if not regular or last.runs != first.runs or not first.stays or first.words == 1:
        return False
    if first.part is not None or piece.part is not None:
        return False
    if len(first.runs) > 1 or len(piece.runs) != 1:
        return piece.runs == first.runs
    # Of the loops of an instruction, the innermost may be shorter the last time.
    (most, distance), (count, stride) = first.runs[0], piece.runs[0]
    return stride == distance and (count == most or (count < most and first.rows == 1))


_MOST_STAGED = 96
"""Wide rows in which messages stay until they have been taken."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Messages that receivers take with one instruction.

    Attributes:
        messages: one, or several that are alike.
        stays: whether they stay in wide rows of their own until they have been taken.
    """

    messages: Sequence[_Message]
    stays: bool

    @property
    def staged(self) -> int:
        """Wide rows of its own."""
        if not self.stays:
            return 0
        count = len(self.messages)
        return self.messages[0].rows * (count if count <= SLOTS else count + _APART)


_APART = 2
"""By how many messages every second of several is further away than if all followed each other."""


def _taken(tensor: Placed, *, together: bool = True) -> list[_Group]:
    """Messages as receivers take them: several with one instruction, if they may."""
    found, staged = list[_Group](), 0
    pieces = list(chain.from_iterable(map(_pieces, _messages(tensor))))
    for messages in _alike(pieces) if together else [[piece] for piece in pieces]:
        group = _Group(messages, messages[0].stays)
        if staged + group.staged <= _MOST_STAGED:
            found.append(group)
            staged += group.staged
            continue
        for message in messages:
            stays = message.stays and staged + message.rows <= _MOST_STAGED
            found.append(_Group([message], stays))
            staged += found[-1].staged
    return found


def _staged(groups: Iterable[_Group]) -> int:
    """Wide rows of messages that stay."""
    return sum(group.staged for group in groups)


def gather_rows(tensor: Placed) -> int:
    """Wide rows that a gather takes: two slots of the sender, and those of the receivers."""
    return 2 * SLOTS + max(_staged(_taken(tensor, together=way)) for way in (False, True))


def gather(context: Context, tensor: Placed, base: int, receivers: Sequence[int]) -> None:
    """Copy a whole tensor to tiles; a barrier must follow, or who reads the copy waits for it.

    Args:
        context: what layers find.
        tensor: the tensor; a phase has begun since it was computed.
        base: byte address of the linear copy, on all receivers.
        receivers: tiles that get the copy.
    """
    builder, tiles = context.builder, mask_of(receivers)
    _send(builder, _messages(tensor), tiles)
    slots = builder.staging - 2 * SLOTS
    groups = _taken(tensor, together=context.recipes.together)
    taking = _Taking(builder, tiles, base // WORD, slots, slots - _staged(groups))
    for group in groups:
        if len(group.messages) > 1:
            taking.together(group)
        elif group.stays:
            taking.stage(group.messages[0])
        else:
            taking.through_slots(group.messages[0])


@dataclass(slots=True)
class _Taking:
    """Receivers of a gather, and what they have taken so far.

    Attributes:
        builder: the program.
        tiles: mask of the receivers.
        base: word of the linear copy.
        slots: first wide row of two slots.
        next_row: wide row of the next message that stays.
        counted: what RING_READ_A has counted.
        words: words of narrow memory.
        passed: words that had been taken with the last message through slots.
    """

    builder: Builder
    tiles: int
    base: int
    slots: int
    next_row: int
    counted: int = 0
    words: int = 0
    passed: int = 0

    def stage(self, message: _Message) -> None:
        """Store a message in rows of its own; nothing has to be awaited."""
        # Published programs count one or two rows, or more of them as a whole.
        few = message.rows <= SLOTS
        rows = walk(self.next_row, row=(message.rows, 1))
        self._take(message.taken(self.base), rows, "row" if few else WHOLE)
        self.next_row += message.rows
        self.counted += message.rows if few else 1
        self.words += message.words

    def through_slots(self, message: _Message) -> None:
        """Take a message through two slots."""
        # All rows but the last one are whole.
        taken = max(self.passed, self.words - LANES)
        credit = Condition("row", TileFlag.WIDE_TO_NARROW, signed16(taken), LANES, Side.WRITE)
        rows = walk(self.slots, row=(message.rows, 0), turn=("row", 1))
        self._take(message.taken(self.base), rows, "row", credit)
        self.counted += message.rows
        self.words += message.words
        self.passed = self.words

    def together(self, group: _Group) -> None:
        """Store all messages of a group with one instruction, and take them with one.

        Published programs count messages whose rows are in two slots in turn. Here every message
        has rows of its own, of which every second is further away.
        """
        messages = group.messages
        first, second, last = messages[0], messages[1], messages[-1]
        count, rows, distance = len(messages), first.rows, second.offset - first.offset
        # Two messages in turn are in two slots; more of them are further apart in turn.
        step, turn = (0, rows) if count == SLOTS else (rows, _APART * rows)
        inner = [("row", rows, 1)] if rows > 1 else []
        stored = Walk(self.next_row, (*inner, ("message", count, step)), ("message", turn))
        runs = [(name, *run) for name, run in zip(("word", "run"), first.runs, strict=False)]
        taken = Walk(
            self.base + first.offset,
            (*runs, ("message", count, distance)),
            part=(last.runs[0][0], "message"),
        )
        # The rows of short messages are counted, as where messages are taken alone.
        few = 1 < rows <= SLOTS
        self._take(taken, stored, "row" if few else "message", row="message")
        self.next_row += group.staged
        self.counted += count * rows if few else count
        self.words += sum(item.words for item in messages)

    def _take(
        self,
        words: Walk,
        rows: Walk,
        counted: str,
        credit: Condition | None = None,
        row: str = WHOLE,
    ) -> None:
        """Store rows that arrive, of which an axis is counted, and take their words from there."""
        self.builder.emit(consume(0, rows, publish=counted, acquire=credit, tiles=self.tiles))
        self.builder.emit(
            unpack(
                rows,
                words,
                publish="word",
                acquire=[full(TileFlag.RING_READ_A, counted, before=self.counted)],
                row=row,
                tiles=self.tiles,
            )
        )


def _send(builder: Builder, messages: Iterable[_Message], receivers: int) -> None:
    """Owners send a message each, through two slots."""
    sendings = {
        message.tile: Sending(message.sent, message.rows, builder.staging - SLOTS)
        for message in messages
    }
    builder.on_tiles(lambda tile: sendings[tile].pack(), sendings)
    for tile, sending in sendings.items():
        builder.emit(sending.produce(tile, builder.tokens.turn(0, 1), receivers))


# --- where vectors lie ---------------------------------------------------------------------------


def is_vector(legalizer: Legalizer, name: str) -> bool:
    """Whether a value lies in blocks of channels rather than as an image."""
    place = legalizer.place(name)
    made = legalizer.makes_vector(place)
    return len(legalizer.type(place).shape) != 4 if made is None else made


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
