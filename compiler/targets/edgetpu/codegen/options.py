"""What the code generator may use of the chip, and how."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.codegen.memory import NARROW_BYTES
from fitzroy.compiler.targets.edgetpu.codegen.placement import TILES


@dataclass(frozen=True, slots=True)
class Options:
    """How a program is generated.

    Attributes:
        narrow_bytes: bytes of narrow memory of every tile that it may use.
        taken: rows of wide memory that other models have on each tile, from the bottom.
        parameter_rows: rows of wide memory of all tiles that its parameters may take; the rest is
            streamed from the host. None for all that are free.
        conservative: keep to forms of instructions that published programs have, where possible.
    """

    narrow_bytes: int = NARROW_BYTES
    taken: tuple[int, ...] = (0,) * TILES
    parameter_rows: int | None = None
    conservative: bool = False


DEFAULT = Options()
