"""Small matrices in wide memory, and operations that multiply every word of a tensor with them.

Lane l of a row holds the factor of each of a word's four bytes in byte l of the result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fitzroy.compiler.targets.edgetpu.codegen.builder import Builder
from fitzroy.compiler.targets.edgetpu.codegen.convolution import (
    QUARTER,
    bytes_at,
    loops_of,
    padded,
    quarters_at,
    rows_at,
    stage_fields,
)
from fitzroy.compiler.targets.edgetpu.codegen.layers import Context, Layer
from fitzroy.compiler.targets.edgetpu.codegen.placement import EVERY, WORD, Placed, covered
from fitzroy.compiler.targets.edgetpu.codegen.sync import once
from fitzroy.compiler.targets.edgetpu.requantization import OutputStage
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.fields import Opcode, Producer, TileFlag, Watcher
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp
from fitzroy.hw_models.isa.traversal import NARROW, WIDE, traversal

PLAIN = OutputStage(scale=1.0)
"""Bytes as they are."""

Row = tuple[int, ...]
"""Words of the lanes of a row of wide memory."""

IDENTITY: Row = tuple(1 << 8 * lane for lane in range(WORD))

_LOOPS = 8


# --- matrices ------------------------------------------------------------------------------------


def diagonal(value: int, background: int = 0) -> Row:
    """The matrix with a byte on its diagonal, and another one elsewhere."""
    whole = background * 0x01010101
    return tuple(whole + (value - background << 8 * lane) for lane in range(WORD))


def shifted(by: int, first: int = 0) -> Row:
    """Lanes from `first` on take the byte of a word that lies `by` behind their own, if any."""
    return tuple(
        1 << 8 * (lane + by) if lane >= first and 0 <= lane + by < WORD else 0
        for lane in range(WORD)
    )


def kept(lanes: int) -> Row:
    """The first bytes of a word."""
    return tuple(1 << 8 * lane if lane < lanes else 0 for lane in range(WORD))


def narrow_bytes(rows: Sequence[Row]) -> int:
    """Narrow memory in which `matrices` makes rows."""
    return WORD * sum(map(len, rows))


def matrices(builder: Builder, rows: Sequence[Row], first: int, scratch: int) -> None:
    """Put rows of wide memory on every tile, without parameters: meshes fill words with them.

    Args:
        builder: the program; a barrier must follow.
        rows: the rows, all with the same number of lanes.
        first: where the first goes.
        scratch: byte address of `narrow_bytes` in narrow memory.
    """
    words = [word for row in rows for word in row]
    common = max(set(words), key=lambda word: (words.count(word), -word))
    fills = [(common, 0, 1, len(words))]
    for value in sorted(set(words) - {common}):
        fills += [
            (value, *run) for run in _progressions([i for i, w in enumerate(words) if w == value])
        ]
    for index, (value, start, step, count) in enumerate(fills):
        builder.emit(
            Mesh(
                op=Opcode.MESH_NORTHWARD,
                tiles=EVERY,
                receive=traversal(scratch // WORD + start, [(count, step)], rank=WIDE.rank),
                received=Producer(1) if index == len(fills) - 1 else None,
                fill=True,
                fill_word=value,
            )
        )
    lanes = len(rows[0])
    builder.emit(
        NarrowToWide(
            tiles=EVERY,
            narrow=traversal(scratch // WORD, [(lanes, 1), (len(rows), lanes)], rank=NARROW.rank),
            wide=rows_at(first, [(len(rows), 1)]),
            narrow_to_wide=Producer(1),
            wait=padded([once(TileFlag.MESH_SOUTH_IN, 1, 1)], 5),
            pack_level=1,
        )
    )


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


# --- tensor operations ---------------------------------------------------------------------------

Tap = tuple[int, int, int]
"""A loop that is summed over: count, stride of activations in bytes, of matrices in quarters."""

Place = tuple[int, int, int, int]
"""A loop over the result: count, strides of activations, of the result, and of matrices."""


def moves(
    source: int,
    target: int,
    row: int,
    taps: Iterable[Tap],
    places: Iterable[Place],
    stage: OutputStage,
    *,
    wait: Sequence[Watcher] = (),
    lanes: int = WORD,
    rows_ping_pong: tuple[int, int] = (0, 0),
    halfwords: bool = False,
    output16: bool = False,
    **more: object,
) -> TensorOp:
    """A tensor operation that makes words of a result out of words and rows.

    Args:
        source: byte address of the first activations.
        target: byte address of the first word of the result.
        row: first row of wide memory.
        taps: loops that are summed over, innermost first.
        places: loops over the result, innermost first.
        stage: constants of the output stage.
        wait: wait conditions.
        lanes: lanes, of which each four make a word.
        rows_ping_pong: `fifo_dim` and `fifo_step` of the matrices, in quarters.
        halfwords: whether matrices hold 16-bit factors.
        output16: whether results have 16 bits.
        more: further fields.
    """
    taps, places = list(taps) or [(1, 0, 0)], list(places)
    count = len(taps)
    loops = [tap[0] for tap in taps] + [place[0] for place in places]
    size = lanes * (2 if output16 else 1)
    words = [(size // WORD, WORD)] if size > WORD else []
    fields: dict[str, object] = {
        "accumulate": True,
        "c16": halfwords,
        "output16": output16,
        **stage_fields(stage),
        **more,
    }
    return TensorOp(
        op=Opcode.MAC,
        loops=loops_of(loops),
        a=bytes_at(source, [tap[:2] for tap in taps] + [place[:2] for place in places]),
        b=bytes_at(target, words + [(place[0], place[2]) for place in places]),
        c=quarters_at(
            QUARTER * row,
            [(tap[0], tap[2]) for tap in taps] + [(place[0], place[3]) for place in places],
            ping_pong=rows_ping_pong,
        ),
        d=quarters_at(
            0,
            [(math.prod(loops[:count]), 0), *[(place[0], 0) for place in places]],
            ping_pong=(1, QUARTER),
        ),
        wait=padded(wait, 6),
        block_level=min(_LOOPS - 1, len(loops)),
        reduction=(1 << count) - 1,
        lanes=lanes,
        lanes_last=lanes,
        **fields,  # type: ignore[arg-type]
    )


# --- pointwise -----------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class Pointwise(Layer):
    """Every element of a tensor by itself: requantized, clamped, scaled, or through a table.

    Attributes:
        stage: constants of the output stage.
        rows: matrices, one per step; none for the identity.
        wide_factors: whether the matrices hold 16-bit factors, two bytes of a word per step.
        table: the non-linear function that the stage applies.
    """

    stage: OutputStage
    rows: tuple[Row, ...] = ()
    wide_factors: bool = False
    table: NluTable | None = None

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Matrices on their way."""
        return narrow_bytes(self.rows)

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Matrices."""
        return len(self.rows)

    def emit(self, context: Context) -> None:
        """The table or the matrices, then one tensor operation."""
        builder = context.builder
        row = context.identity
        if self.rows:
            row = builder.staging - len(self.rows)
            matrices(builder, self.rows, row, context.scratch)
            builder.barrier()
        if self.table is not None:
            builder.emit(self.table)
        source, result = context.tensors[self.reads[0]], context.tensors[self.writes]
        taps = [(2, 2, QUARTER)] if self.wide_factors else [(max(1, len(self.rows)), 0, 0)]

        def make(tile: int) -> TensorOp | None:
            before, after = covered(source, result, tile), result.cover(tile)
            if before is None or after is None:
                return None
            places = [
                (count, stride, other, 0)
                for (count, stride), (_, other) in zip(before.dims, after.dims, strict=True)
            ]
            return moves(
                before.base, after.base, row, taps, places, self.stage, halfwords=self.wide_factors
            )

        builder.on_tiles(make)


class VectorPointwise(Pointwise):
    """Every element of a vector by itself."""

    makes_vector: ClassVar[bool] = True
