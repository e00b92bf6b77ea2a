"""Where do small matrices lie in wide memory?

Operations multiply words of a tensor with small matrices to move elements, or to scale them. Where
parameters stay on the chip, these matrices are loaded with them before the first inference. A
program makes the others itself, each time, which takes instructions and a phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD

Row = tuple[int, ...]
"""Words of the lanes of a row of wide memory."""

IDENTITY: Row = tuple(1 << 8 * lane for lane in range(WORD))

LOADED = WIDE_ROWS
"""Rows from here on stand for those of loaded matrices, in their order: the linker places them."""


@dataclass(slots=True)
class MatrixRows:
    """The matrices of a program, on every tile.

    Attributes:
        room: rows for matrices that are loaded with parameters; 0 if no parameters are.
        top: row of the identity matrix if the program makes it when it begins.
        needs_identity: whether a layer has asked for the identity matrix.
        loaded: sets of rows that are loaded, and where each begins among them.
        cycles: estimated cycles in which the program has made others so far.
    """

    room: int
    top: int
    needs_identity: bool = False
    loaded: dict[tuple[Row, ...], int] = field(default_factory=dict)
    cycles: float = 0.0

    @property
    def rows(self) -> list[Row]:
        """The rows that are loaded."""
        return [row for rows in self.loaded for row in rows]

    @property
    def identity(self) -> int:
        """Row of the identity matrix; if any are loaded, there is room for it."""
        self.needs_identity = True
        found = self.find((IDENTITY,))
        return self.top if found is None else found

    def find(self, rows: Sequence[Row]) -> int | None:
        """Where rows begin that are loaded; None if there is no room for them."""
        wanted = tuple(rows)
        begin = self.loaded.get(wanted)
        if begin is None:
            begin = len(self.rows)
            kept_free = wanted != (IDENTITY,) and (IDENTITY,) not in self.loaded
            if begin + len(wanted) + kept_free > self.room:
                return None
            self.loaded[wanted] = begin
        return LOADED + begin
