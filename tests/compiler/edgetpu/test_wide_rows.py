"""Rows of wide memory for parameters: holes after blocks, and levels for other programs."""

from __future__ import annotations

import numpy as np
import pytest

from fitzroy.base.errors import CapacityError
from fitzroy.compiler.targets.edgetpu.memory.allocation import Piece, WideRows
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES


def disjoint(pieces: list[Piece]) -> bool:
    rows = [(p.tile, row) for p in pieces for row in range(p.row, p.row + p.words)]
    return len(rows) == len(set(rows))


def test_blocks_leave_holes_that_operands_fill() -> None:
    rows = WideRows([0] * 15 + [100], limit=1000)
    blocks = rows.blocks(10, 16)
    assert {piece.row for piece in blocks} == {100}
    small = rows.anywhere(30)
    assert small == [Piece(0, 0, 30, small[0].group)]
    # The rest of the hole is the smallest that takes it.
    (next_one,) = rows.anywhere(70)
    assert (next_one.tile, next_one.row) == (0, 30)
    (large,) = rows.anywhere(120)
    assert large.row == 110
    assert disjoint([*blocks, *small, next_one, large])


def test_holes_take_parts_of_what_fits_nowhere() -> None:
    rows = WideRows([0] * 15 + [100], limit=110)
    rows.blocks(10, 16)
    pieces = rows.anywhere(250)
    assert [piece.words for piece in pieces] == [100, 100, 50]
    with pytest.raises(CapacityError, match="do not fit"):
        rows.anywhere(101, whole=True)
    with pytest.raises(CapacityError, match="do not fit"):
        rows.anywhere(15 * 100)


def test_levels() -> None:
    plain, level = WideRows(limit=2000), WideRows(limit=2000, level=True)
    for words in (1500, 900, 40, 700):
        plain.anywhere(words)
        level.anywhere(words)
    assert max(plain.used) == 1500
    assert sum(plain.used) == sum(level.used) == 3140
    assert max(level.used) - min(level.used) <= 128
    assert len(level.anywhere(1000, whole=True)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_pieces_never_share_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    taken = [int(n) for n in rng.integers(0, 300, TILES)]
    rows = WideRows(list(taken), limit=1200, level=bool(seed % 2))
    pieces: list[Piece] = []
    for _ in range(40):
        words = int(rng.integers(1, 400))
        try:
            if rng.random() < 0.3:
                pieces += rows.blocks(words // 8 + 1, int(rng.integers(1, 40)))
            else:
                found = rows.anywhere(words, whole=bool(rng.random() < 0.3))
                assert sum(piece.words for piece in found) == words
                pieces += found
        except CapacityError:
            break
    assert pieces
    assert disjoint(pieces)
    assert all(taken[p.tile] <= p.row and p.row + p.words <= 1200 for p in pieces)
