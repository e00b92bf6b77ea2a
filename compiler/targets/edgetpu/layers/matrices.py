"""Small matrices in wide memory, and operations that multiply every word of a tensor with them.

Lane l of a row holds the factor of each of a word's four bytes in byte l of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.instructions.sync import WHOLE, once
from fitzroy.compiler.targets.edgetpu.kernels.tensor import QUARTER, Axis, moves
from fitzroy.compiler.targets.edgetpu.kernels.transfers import fill, pack
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer, word_cycles
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import Row
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    EVERY,
    WORD,
    Cover,
    Placed,
    covered,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.fields import TileFlag
from fitzroy.hw_models.isa.tensor import TensorOp

# --- matrices ------------------------------------------------------------------------------------


def diagonal(value: int, background: int = 0) -> Row:
    """The matrix with a byte on its diagonal, and another one elsewhere."""
    whole = background * 0x01010101
    return tuple(whole + (value - background << 8 * lane) for lane in range(WORD))


def shifted(by: int, first: int = 0) -> Row:
    """Lanes from `first` on take the byte of a word that lies `by` after their own, if any."""
    return tuple(
        1 << 8 * (lane + by) if lane >= first and 0 <= lane + by < WORD else 0
        for lane in range(WORD)
    )


def kept(lanes: int) -> Row:
    """The first bytes of a word."""
    return tuple(1 << 8 * lane if lane < lanes else 0 for lane in range(WORD))


def narrow_bytes(rows: Sequence[Row]) -> int:
    """Narrow memory in which a program makes rows."""
    return WORD * sum(map(len, rows))


def matrices(context: Context, rows: Sequence[Row], scratch: int) -> int:
    """Rows of wide memory that every tile has, in a phase that begins with what reads them.

    They are loaded with parameters if there is room for them; else the program makes them, in the
    last rows for data of the step.

    Args:
        context: what layers find.
        rows: the rows, all with the same number of lanes.
        scratch: byte address of `narrow_bytes` in narrow memory.

    Returns:
        The first of them.
    """
    builder, found = context.builder, context.matrices
    loaded = found.find(rows)
    if loaded is not None:
        builder.barrier()
        return loaded
    first = builder.staging - len(rows)
    make(builder, rows, first, scratch)
    found.cycles += making(rows)
    return first


def make(builder: Builder, rows: Sequence[Row], first: int, scratch: int) -> None:
    """Put rows of wide memory on every tile, without parameters: meshes fill words with them.

    A phase begins after it, as in published programs: their operations on matrices of this kind
    wait for nothing.

    Args:
        builder: the program.
        rows: the rows, all with the same number of lanes.
        first: where the first goes.
        scratch: byte address of `narrow_bytes` in narrow memory.
    """
    fills = _fills(rows)
    for index, (value, start, step, count) in enumerate(fills):
        run = walk(scratch // WORD + start, word=(count, step))
        last = index == len(fills) - 1
        builder.emit(fill(run, value, publish=WHOLE if last else None, tiles=EVERY))
    lanes = len(rows[0])
    builder.emit(
        pack(
            walk(scratch // WORD, word=(lanes, 1), row=(len(rows), lanes)),
            walk(first, row=(len(rows), 1)),
            row="row",
            publish=WHOLE,
            acquire=[once(TileFlag.MESH_SOUTH_IN, "row", 1)],
            tiles=EVERY,
        )
    )
    builder.barrier()


def making(rows: Sequence[Row]) -> float:
    """Estimated cycles of `make` and the fence after it."""
    words = sum(count for *_, count in _fills(rows))
    timing = BEAGLE.timing
    packed = timing.conversion_word * len(rows) * len(rows[0])
    return timing.mesh_fill_word * words + packed + timing.phase


def _fills(rows: Sequence[Row]) -> list[tuple[int, int, int, int]]:
    """What meshes put into the words of rows, in order: value, first word, distance and count."""
    words = [word for row in rows for word in row]
    common = max(set(words), key=lambda word: (words.count(word), -word))
    fills = [(common, 0, 1, len(words))]
    for value in sorted(set(words) - {common}):
        fills += [
            (value, *run) for run in _progressions([i for i, w in enumerate(words) if w == value])
        ]
    return fills


def _progressions(numbers: Sequence[int]) -> list[tuple[int, int, int]]:
    """Ascending numbers as runs of equal distance: first, distance, count."""
    found: list[tuple[int, int, int]] = []
    for number in numbers:
        if found:
            first, step, count = found[-1]
            if count == 1:
                found[-1] = (first, number - first, 2)
                continue
            if number == first + step * count:
                found[-1] = (first, step, count + 1)
                continue
        found.append((number, 1, 1))
    return found


# --- axes of covers -----------------------------------------------------------------------------


def over(source: Cover, result: Cover) -> list[Axis]:
    """Loops over the words of an operand and those of a result."""
    return [
        Axis(name, count, read, write)
        for name, (count, read), (_, write) in zip(COVERED, source.dims, result.dims, strict=True)
    ]


COVERED = ("word", "x", "y")
"""Axes of covers."""


# --- pointwise -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointwise(Layer):
    """Every element of a tensor by itself: requantized, clamped, scaled, or through a table.

    Attributes:
        stage: constants of the output stage.
        rows: matrices, one per step; none for the identity.
        wide_factors: whether the matrices hold 16-bit factors, two bytes of a word per step.
    """

    stage: OutputStage
    rows: tuple[Row, ...] = ()
    wide_factors: bool = False

    strips = True
    exact = True
    reading = True
    by_name = True

    @property
    def matrices(self) -> tuple[Row, ...]:
        """Its rows."""
        return self.rows

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles: a step for each matrix."""
        return word_cycles(area, groups, 2 if self.wide_factors else max(1, len(self.rows)))

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for matrices that are packed into wide memory."""
        return narrow_bytes(self.rows)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory for the matrices."""
        return len(self.rows)

    def emit(self, context: Context) -> None:
        """The matrices, then one tensor operation."""
        found = matrices(context, self.rows, context.scratch) if self.rows else None
        row = context.identity if found is None else found
        source, result = context.tensors[self.reads[0]], context.tensors[self.writes]
        halves = Axis("half", 2, 2, 0, QUARTER)
        taps = [halves if self.wide_factors else Axis("matrix", max(1, len(self.rows)))]

        def operation(tile: int) -> TensorOp | None:
            before, after = covered(source, result, tile), result.cover(tile)
            if before is None or after is None:
                return None
            places = over(before, after)
            return moves(
                before.base,
                after.base,
                row,
                taps,
                places,
                self.stage,
                c16=self.wide_factors,
            )

        context.builder.on_tiles(operation)


class VectorPointwise(Pointwise):
    """Every element of a vector by itself."""

    makes_vector: ClassVar[bool] = True


def put_identity(builder: Builder, row: int, words: int) -> None:
    """Put the 4 x 4 identity matrix into a row of every tile.

    Args:
        builder: the program.
        row: wide row.
        words: narrow words that may be overwritten, four of them.
    """
    for lane in range(WORD):
        last = lane == WORD - 1
        word = walk(words + lane, word=(1, 1))
        builder.emit(fill(word, 1 << 8 * lane, publish=WHOLE if last else None, tiles=EVERY))
    builder.emit(
        pack(
            walk(words, word=(WORD, 1)),
            walk(row, row=(1, 1)),
            publish=WHOLE,
            acquire=[once(TileFlag.MESH_SOUTH_IN, WHOLE, 1)],
            tiles=EVERY,
        )
    )
    builder.barrier()
