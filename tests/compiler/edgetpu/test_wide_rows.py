"""Rows of wide memory for parameters: holes after blocks, and levels for other programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fitzroy.compiler.targets.edgetpu.memory.allocation import NoRows, Piece, Taken, WideRows
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES


def disjoint(pieces: Sequence[Piece]) -> bool:
    rows = [(p.tile, row) for p in pieces for row in range(p.row, p.row + p.words)]
    return len(rows) == len(set(rows))


def taken(found: Taken | NoRows) -> tuple[WideRows, tuple[Piece, ...]]:
    assert isinstance(found, Taken)
    return found.rows, found.pieces


def test_blocks_leave_holes_that_operands_fill() -> None:
    free = WideRows((*[0] * 15, 100), limit=1000)
    rows, blocks = taken(free.blocks(10, 16))
    assert {piece.row for piece in blocks} == {100}
    rows, small = taken(rows.anywhere(30))
    assert small == (Piece(0, 0, 30, small[0].group),)
    # The rest of the hole is the smallest that takes it.
    rows, (next_one,) = taken(rows.anywhere(70))
    assert (next_one.tile, next_one.row) == (0, 30)
    rows, (large,) = taken(rows.anywhere(120))
    assert large.row == 110
    assert disjoint([*blocks, *small, next_one, large])
    assert free == WideRows((*[0] * 15, 100), limit=1000)


def test_holes_take_parts_of_what_fits_nowhere() -> None:
    rows, _ = taken(WideRows((*[0] * 15, 100), limit=110).blocks(10, 16))
    rows, pieces = taken(rows.anywhere(250))
    assert [piece.words for piece in pieces] == [100, 100, 50]
    whole, much = rows.anywhere(101, whole=True), rows.anywhere(15 * 100)
    assert isinstance(whole, NoRows)
    assert (whole.words, whole.reason) == (101, "110 rows of every tile are for parameters")
    assert isinstance(much, NoRows)
    assert much.words == 250


def test_blocks_of_a_pass_that_does_not_fit() -> None:
    missing = WideRows(limit=25).blocks(10, 48)
    assert isinstance(missing, NoRows)
    assert missing.reason == "5 rows are free on all of 16 tiles"
    assert missing.rows.used == (20,) * TILES


def test_levels() -> None:
    plain, level = WideRows(limit=2000), WideRows(limit=2000, level=True)
    for words in (1500, 900, 40, 700):
        plain, _ = taken(plain.anywhere(words))
        level, _ = taken(level.anywhere(words))
    assert max(plain.used) == 1500
    assert sum(plain.used) == sum(level.used) == 3140
    assert max(level.used) - min(level.used) <= 128
    assert len(taken(level.anywhere(1000, whole=True))[1]) == 1


@pytest.mark.parametrize("seed", range(20))
def test_pieces_never_share_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before = [int(n) for n in rng.integers(0, 300, TILES)]
    rows = WideRows(tuple(before), limit=1200, level=bool(seed % 2))
    pieces: list[Piece] = []
    for _ in range(40):
        words = int(rng.integers(1, 400))
        if rng.random() < 0.3:
            found = rows.blocks(words // 8 + 1, int(rng.integers(1, 40)))
        else:
            found = rows.anywhere(words, whole=bool(rng.random() < 0.3))
            if isinstance(found, Taken):
                assert sum(piece.words for piece in found.pieces) == words
        if isinstance(found, NoRows):
            break
        rows, pieces = found.rows, [*pieces, *found.pieces]
    assert pieces
    assert disjoint(pieces)
    assert all(before[p.tile] <= p.row and p.row + p.words <= 1200 for p in pieces)
