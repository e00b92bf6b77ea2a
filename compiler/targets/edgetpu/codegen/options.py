"""What the code generator may use of the chip, and how."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.codegen.memory import NARROW_BYTES, WIDE_ROWS
from fitzroy.compiler.targets.edgetpu.codegen.placement import TILES
from fitzroy.compiler.targets.edgetpu.codegen.sync import SLOTS
from fitzroy.hw_models.parameters import ZeroBias


@dataclass(frozen=True, slots=True)
class Recipes:
    """Ways to compute layers, among which the fastest one is taken.

    Attributes:
        slots: most slots for weights in staging.
        patches: whether the lanes of a tensor operation may compute several positions.
        shared_zero_points: whether an instruction holds the zero point of weights that have scales
            of their own for every channel, if it is the same for all.
        zero_bias: what becomes of biases that are all zero.
    """

    slots: int = 1 << 16
    patches: bool = True
    shared_zero_points: bool = True
    zero_bias: ZeroBias = ZeroBias.DROP


FASTEST = Recipes()
PUBLISHED = Recipes(slots=SLOTS, patches=False, shared_zero_points=False, zero_bias=ZeroBias.KEEP)
"""What published programs do."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a program is generated.

    Attributes:
        narrow_bytes: bytes of narrow memory of every tile that it may use.
        taken: rows of wide memory that other models have on each tile, from the bottom.
        parameter_rows: rows of wide memory of all tiles that its parameters may take; the rest is
            streamed from the host. None for all that are free.
        staging: rows at the top of wide memory, on all tiles, that other programs use for data.
        conservative: keep to forms of instructions that published programs have, where possible.
        confirmed: forms of instructions, and slugs of properties, that a device was seen to
            execute; beside these, only what published programs have may be used. None to use all.
    """

    narrow_bytes: int = NARROW_BYTES
    taken: tuple[int, ...] = (0,) * TILES
    parameter_rows: int | None = None
    staging: int = 0
    conservative: bool = False
    confirmed: frozenset[str] | None = None

    @property
    def recipes(self) -> Recipes:
        """Ways to compute layers."""
        return PUBLISHED if self.conservative else FASTEST

    def free_rows(self, staging: int) -> int:
        """Rows of wide memory of all tiles for parameters, beside rows at the top for data."""
        free = sum(max(0, WIDE_ROWS - staging - taken) for taken in self.taken)
        return free if self.parameter_rows is None else min(free, self.parameter_rows)


DEFAULT = Options()
