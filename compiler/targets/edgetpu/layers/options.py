"""What the code generator may use of the chip, and how."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.memory.allocation import NARROW_BYTES, WIDE_ROWS
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES
from fitzroy.hw_models.edgetpu.envelope.fences import SHORT_CHUNKS


@dataclass(frozen=True, slots=True)
class Recipes:
    """Ways to compute layers.

    Attributes:
        patches: whether the lanes of a tensor operation may compute several positions.
        cost: share of a model's cycles that forms of published programs may cost.
        both: whether weights may come on both channels of the ring at the same time.
        together: whether an instruction may take the short messages of several tiles.
        partial_inputs: whether the host may be asked for a part of an input.
    """

    patches: bool = True
    cost: float = 0.03
    both: bool = True
    together: bool = True
    partial_inputs: bool = True


PUBLISHED = Recipes(patches=False, cost=math.inf, both=False, together=False, partial_inputs=False)
"""What published programs do."""


@dataclass(frozen=True, slots=True)
class Search:
    """What the code generator compares before it decides.

    Attributes:
        strips: numbers of strips of layers that compute while their input arrives.
        staging: whether convolutions compare ways to stage their weights, or all take the first.
        published: thousandths of a model's cycles that forms of published programs may cost.
    """

    strips: tuple[int, ...] = (2, 3, 4, 6)
    staging: bool = True
    published: int = 30


QUICK = Search(strips=(), staging=False)
"""Nothing that takes long."""

ALTERNATIVES = (
    Search(published=0),
    *(Search(strips, published=0) for strips in ((), (2,), (3,), (4,), (6,), (8,))),
)
"""What estimates decide otherwise, or do not compare."""


@dataclass(frozen=True, slots=True)
class Share:
    """Rows of wide memory, of all tiles, that programs share for their parameters.

    Attributes:
        reserved: rows that are kept for programs after it, whatever it uses for data.
        least: rows that it may take even so.
    """

    reserved: int
    least: int


_MOST_COPIED = 0.85
"""Part of narrow memory that copies of a whole tensor may take."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a program is generated.

    Attributes:
        narrow_bytes: bytes of narrow memory of every tile that it may use.
        taken: rows of wide memory that other models have on each tile, from the bottom.
        parameter_rows: rows of wide memory of all tiles that its parameters may take; the rest is
            streamed from the host. None for all that are free.
        share: what it gets of the rows for parameters that it shares with other programs; None
            for a program that has the chip for itself.
        staging: rows at the top of wide memory, on all tiles, that other programs use for data.
        conservative: keep to forms of instructions that published programs have, where possible,
            and to the envelope of their properties, or fail.
        confirmed: forms of instructions, and slugs of properties, that a device was seen to
            execute; beside these, only what published programs have may be used. None to use all.
        both: whether weights may come on both channels of the ring at the same time; those from
            the host may not.
        reduced: whether scores that leave the chip may be reduced to what the host reads of them.
        search: what is compared by estimates.
        alternatives: other searches, whose programs are compiled, too; the one that is fastest on
            the timing model is taken.
    """

    narrow_bytes: int = NARROW_BYTES
    taken: tuple[int, ...] = (0,) * TILES
    parameter_rows: int | None = None
    share: Share | None = None
    staging: int = 0
    conservative: bool = False
    confirmed: frozenset[str] | None = None
    both: bool = True
    reduced: bool = True
    search: Search = Search()
    alternatives: tuple[Search, ...] = ()

    @property
    def recipes(self) -> Recipes:
        """The ways to compute layers that the options allow."""
        if self.conservative:
            return PUBLISHED
        return Recipes(
            cost=self.search.published / 1000,
            both=self.both,
            partial_inputs=self.confirmed is None,
        )

    @property
    def copied_bytes(self) -> int:
        """Bytes of a whole tensor that every tile can copy; the tensor has some itself."""
        return int(_MOST_COPIED * self.narrow_bytes)

    @property
    def paced(self) -> bool:
        """Whether chunks may be short, so that the next one arrives while one is executed."""
        return SHORT_CHUNKS in (self.confirmed or ())

    @property
    def shared(self) -> bool:
        """Whether other programs are to find about as many rows on every tile."""
        return self.parameter_rows is not None or self.share is not None

    def free_rows(self, staging: int) -> int:
        """Rows of wide memory of all tiles for parameters; data takes `staging` on each."""
        free = sum(max(0, WIDE_ROWS - staging - taken) for taken in self.taken)
        if self.share is not None:
            free = max(min(free, self.share.least), free - self.share.reserved)
        return free if self.parameter_rows is None else min(free, self.parameter_rows)


DEFAULT = Options()
