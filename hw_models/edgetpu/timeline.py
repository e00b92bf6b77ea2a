"""When everything happened: the result of the timing model, which traces and reports are made of.

Times on the chip are in cycles of its core clock from the start of the program; times of the host
are in microseconds from the start of the inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fitzroy.hw_models.chips.hosts import LIBEDGETPU
from fitzroy.hw_models.isa.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Issued:
    """An instruction that the scalar core handed to tiles or to a stream unit.

    Attributes:
        instruction: the instruction.
        chunk: number of its chunk.
        bundle: its first bundle in the chunk.
        phase: number of the phase that it belongs to.
        tiles: mask of the tiles, 0 for a stream unit.
        steps: elements that its engine handles in each tile: steps, words, rows or units.
        macs: products of a tensor operation in each tile, those of lanes that are off included.
    """

    instruction: Instruction
    chunk: int
    bundle: int
    phase: int
    tiles: int
    steps: int
    macs: int = 0

    @property
    def name(self) -> str:
        """Opcode and place."""
        return f"{self.instruction.op.name.lower()} @{self.chunk}:{self.bundle}"


@dataclass(frozen=True, slots=True)
class Span:
    """An instruction on its engine, from its first to its last element.

    Attributes:
        unit: name of the engine, stream unit or ``scalar``.
        tiles: mask of the tiles that execute it in step; 0 if the unit is not in a tile.
        issue: index of the instruction in `Timeline.issued`.
        begin: cycle at which it is at the head of its queue and the engine is free.
        end: cycle at which its last element is done.
        busy: cycles in which the engine moves elements.
        waits: cycles that it waited, by what for: the name of a flag, ``data``, ``receiver``,
            ``channel``, ``neighbour``, ``ring`` or ``host``. With `busy` they make up the time from
            `begin` to `end`; of the two sides of a mesh engine or an infeed, the one that ends last
            is meant.
    """

    unit: str
    tiles: int
    issue: int
    begin: float
    end: float
    busy: float
    waits: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Phase:
    """What lies between two fences of all tiles that wait for engines.

    Attributes:
        begin: cycle at which it begins.
        end: cycle at which the last tile passes the fence that ends it.
        bundles: bundles that the scalar core executed.
        streamed: bytes of parameters that it pops from the host.
    """

    begin: float
    end: float
    bundles: int
    streamed: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer of the host.

    Attributes:
        kind: ``instructions``, ``input``, ``parameters``, ``output`` or ``interrupt``.
        size: bytes.
        begin: microsecond at which it begins.
        end: microsecond at which its last byte is there.
    """

    kind: str
    size: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Link:
    """A stretch of the critical path.

    Attributes:
        what: unit, or ``host``.
        issue: index of the instruction in `Timeline.issued`, None if there is none.
        begin: cycle.
        end: cycle.
        cause: why it could not begin earlier.
    """

    what: str
    issue: int | None
    begin: float
    end: float
    cause: str


@dataclass(frozen=True)
class Timeline:
    """One inference in time.

    Attributes:
        clock: name of the performance level.
        core_mhz: core clock.
        host: name of the host model.
        start: microsecond of the inference at which cycle 0 of the program is.
        cycles: cycles that the program takes.
        total: microseconds of the whole inference, as a host measures it.
        issued: instructions in program order.
        spans: what engines did, in order of `begin`.
        phases: phases in order.
        transfers: transfers of the host in order.
        critical_path: from the start of the program to its end, without gaps.
        driver: name of the driver model.
        link: bytes of parameters per microsecond from host to chip; None if nothing says it.
    """

    clock: str
    core_mhz: float
    host: str
    start: float
    cycles: float
    total: float
    issued: tuple[Issued, ...]
    spans: tuple[Span, ...]
    phases: tuple[Phase, ...]
    transfers: tuple[Transfer, ...]
    critical_path: tuple[Link, ...]
    driver: str = LIBEDGETPU
    link: float | None = None

    @property
    def place(self) -> str:
        """The host, with the driver if it is not the one that hosts were measured with."""
        return self.host if self.driver == LIBEDGETPU else f"{self.host} with {self.driver}"

    def microsecond(self, cycle: float) -> float:
        """Microsecond of the inference at which a cycle of the program is."""
        return self.start + cycle / self.core_mhz
