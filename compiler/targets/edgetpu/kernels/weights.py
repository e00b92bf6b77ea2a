"""Weights on their way: through slots of wide memory, and their vectors to scaling memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder, Reference
from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS, Condition, free, full
from fitzroy.compiler.targets.edgetpu.kernels.transfers import (
    consume,
    produce,
    unpack,
)
from fitzroy.compiler.targets.edgetpu.kernels.walks import Dim, Walk, walk
from fitzroy.compiler.targets.edgetpu.memory.allocation import Piece
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.formats.object_file import Part, SymbolKind
from fitzroy.hw_models.isa.conversion import WideToNarrow
from fitzroy.hw_models.isa.fields import TileFlag
from fitzroy.hw_models.isa.traversal import Prefix

_SLOT = 32
"""Entries of scaling memory of a slot."""

_BIASES = 64
"""First entry of scaling memory for biases."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Scales and biases of blocks of output channels.

    Attributes:
        count: how many vectors a block has.
        scales: whether the first of them holds scales.
        lanes: lanes of each.
    """

    count: int
    scales: bool
    lanes: int

    def load(
        self, rows: Walk, blocks: int, acquire: Iterable[Condition], *, used: int = 0, tiles: int
    ) -> WideToNarrow:
        """Bring them to the two slots of scaling memory, block by block.

        Args:
            rows: where they are.
            blocks: how many blocks.
            acquire: what is waited for beside a free slot.
            used: blocks that have been computed before.
            tiles: mask of tiles.
        """
        entries = walk(
            0 if self.scales else _BIASES,
            entry=(self.lanes // 2, 1),
            vector=(self.count, SLOTS * _SLOT),
            block=(blocks, 0),
            turn=("block", _SLOT),
        )
        taken = unpack(
            rows,
            entries,
            row="vector",
            publish="block",
            acquire=[*acquire, free(TileFlag.AVDATA, "block", before=used)],
            tiles=tiles,
        )
        return replace(taken, to_scaling=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightStream:
    """Weights on their way from their owners through two slots at the top of wide memory.

    Attributes:
        staged: weight rows of a slot.
        slots: how many slots; other numbers than two must divide the chunks of a block, or the
            blocks if they have a single chunk.
        chunks: chunks of weights of a block, each of which takes a slot.
        blocks: blocks of output channels.
        prefix: words of vectors in front of each block.
        vectors: those of them that go to scaling memory.
        top: one past the last row.
        channel: channel of the ring.
        beside: rows at the end of every slot that come on channel A while the others come on B.
    """

    staged: int
    slots: int = SLOTS
    chunks: int
    blocks: int
    prefix: int
    vectors: Vectors
    top: int
    channel: int = 1
    beside: int = 0

    @property
    def weights(self) -> int:
        """First of the rows that hold slots of weights."""
        return self.top - self.slots * self.staged

    @property
    def vector_slots(self) -> int:
        """Slots of vectors: a block has one."""
        return self.slots if self.chunks == 1 else SLOTS

    @property
    def vector_rows(self) -> int:
        """First row of vectors, the lowest row that the stream uses."""
        return self.weights - self.vector_slots * self.prefix

    @property
    def words(self) -> int:
        """All words, with those of vectors."""
        return self.blocks * (self.prefix + self.chunks * self.staged)

    @property
    def single(self) -> bool:
        """Whether there is nothing but one row, which its owner sends.

        It is sent twice, to the same place: no published program sends a single row on channel B,
        or takes one from it.
        """
        return self.channel == 1 and self.words == 1

    def walk(self, base: int, *inner: Dim, slot: int) -> Walk:
        """A walk that goes round the slots with every chunk, and does some loops in each.

        Args:
            base: where the first slot is.
            inner: the loops.
            slot: distance of slots.
        """
        chunks, blocks, slots = self.chunks, self.blocks, self.slots
        if slots == SLOTS:
            axes: tuple[Dim, ...] = (("chunk", chunks, 0), ("block", blocks, 0))
            return Walk(base, (*inner, *axes), ("chunk", slot))
        if chunks == 1:
            axes = (("chunk", slots, slot), ("block", blocks // slots, 0))
        else:
            axes = (("chunk", slots, slot), ("round", chunks // slots, 0), ("block", blocks, 0))
        return Walk(base, (*inner, *axes))

    def taken(self, axes: Sequence[str]) -> list[Condition]:
        """What an operation with some axes waits for before chunks and blocks of output channels.

        Without a loop over chunks, each block has a single one.
        """
        chunk = "chunk" if "chunk" in axes else "block"
        found = [full(self._delivered, chunk)]
        if self.beside:
            found.append(full(TileFlag.RING_READ_A, chunk))
        if self.vectors.count:
            found.append(full(TileFlag.WIDE_TO_SCALING, "block"))
        return found

    @property
    def _delivered(self) -> TileFlag:
        """The flag that counts chunks which have arrived."""
        return (TileFlag.RING_READ_A, TileFlag.RING_READ_B)[self.channel]

    def receive(self, builder: Builder, tiles: int) -> None:
        """Tiles take the weights from the ring, and the vectors to scaling memory."""
        first = self.staged - self.beside
        rows = self._slot_rows(0, first)
        if self.single:
            rows = walk(self.weights, row=(2, 0), chunk=(1, 0))
        prefix = None
        if self.prefix:
            # The loop over blocks may have been divided between slots.
            before = rows.level("chunk" if self.chunks == 1 else "block")
            last = self.weights - 1
            prefix = Prefix(before - 1, self.vector_rows, self.prefix, last, self.prefix)
        released = free(TileFlag.PARAMETERS, "chunk", slots=self.slots)
        builder.emit(
            consume(
                self.channel, rows, publish="chunk", acquire=released, prefix=prefix, tiles=tiles
            )
        )
        if self.beside:
            rows = self._slot_rows(first, self.beside)
            builder.emit(consume(0, rows, publish="chunk", acquire=released, tiles=tiles))
        if self.vectors.count:
            # Vectors come in front of the first chunk of a block.
            there = full(self._delivered, "block", step=self.chunks, before=1 - self.chunks)
            rows = self._staged_vectors()
            builder.emit(self.vectors.load(rows, self.blocks, [there], tiles=tiles))

    def _slot_rows(self, first: int, count: int) -> Walk:
        """So many rows of every slot, from one of them on."""
        return self.walk(self.weights + first, ("row", count, 1), slot=self.staged)

    def _staged_vectors(self) -> Walk:
        """Where vectors are before they go to scaling memory."""
        base, count = self.vector_rows, self.vector_slots
        vector = self.vectors.count, 1
        if count == SLOTS:
            turn = "block", self.prefix
            return walk(base, vector=vector, block=(self.blocks, 0), turn=turn)
        rounds = self.blocks // count, 0
        return walk(base, vector=vector, block=(count, self.prefix), round=rounds)

    def zero_points(self, stage: OutputStage) -> dict[str, Any]:
        """Fields of a tensor operation with zero points in the last word of vectors."""
        if not stage.zero_points_in_memory:
            return {}
        return {
            "zero_point_base": self.vector_rows + self.prefix - 1,
            "zero_point_step": self.prefix,
            "zero_point_last": self.weights - 1,
        }


def send(
    builder: Builder,
    name: str,
    pieces: Sequence[Piece],
    destination: int,
    words: range | None = None,
    *,
    channel: int = 1,
    twice: bool = False,
) -> None:
    """Owners send words of an operand.

    Args:
        builder: the program.
        name: name of the operand.
        pieces: where its words lie.
        destination: tiles that receive them.
        words: which of them, all by default.
        channel: channel of the ring.
        twice: whether every word is sent twice.
    """
    at = 0
    for piece in pieces:
        low, high = 0, piece.words
        if words is not None:
            low, high = max(low, words.start - at), min(high, words.stop - at)
        at += piece.words
        if low >= high:
            continue
        words_sent = ("word", high - low, 1)
        rows = Walk(piece.row + low, (("again", 2, 0), words_sent) if twice else (words_sent,))
        builder.emit(
            produce(
                rows,
                token=rows.names[0],
                acquire=[builder.tokens.turn(channel, rows.rows.steps)],
                tiles=1 << piece.tile,
                channel=channel,
                destination=destination,
            ),
            Reference("wide.base", SymbolKind.OPERAND, name, Part.ROW, low, piece.group),
        )
