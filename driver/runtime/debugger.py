"""Stops a package on the simulator where one wants to look, and shows what is there.

The scalar core is stopped before it asks another unit or the host for something: an instruction
for tiles or a stream unit, a fence, a descriptor, words for the host, a halt. Engines have no
clock; what is shown of tiles and stream units is as if the scalar core stood still until nothing
can move any more. That is done to a copy: looking does not change what the program computes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fitzroy.base.bits import integer
from fitzroy.base.errors import FormatError, SimulationError, UsageError
from fitzroy.base.types import Array
from fitzroy.driver.runtime.simulator import PackageOutputs, PackageRun
from fitzroy.driver.runtime.stage import Stage
from fitzroy.formats.compilation_record import Step
from fitzroy.hw_models.edgetpu.machine import Machine
from fitzroy.hw_models.edgetpu.memory import TILES
from fitzroy.hw_models.edgetpu.scalar import (
    MEMORY_WORDS,
    ChunkEnd,
    Descriptor,
    Dispatch,
    Event,
    Fence,
    HostWords,
    Stream,
)
from fitzroy.hw_models.edgetpu.state import Head, Traffic
from fitzroy.hw_models.edgetpu.unknown import KNOWN
from fitzroy.hw_models.isa.counters import signed16
from fitzroy.hw_models.isa.fields import Opcode, ScalarFlag, TileFlag
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import bundle_count, jump_target, positions
from fitzroy.hw_models.isa.scalar import Branch, End, Loop, Scalar, Start, Store
from fitzroy.hw_models.isa.text import instruction_lines

MEMORIES = ("narrow", "wide", "scaling", "scalar")
"""Names of the memories; all but the last are in every tile."""

_STAGES = ("caching", "main")
_SILENT = (Start, End, Branch, Loop)
"""Instructions that the scalar core executes without asking anyone."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Where to stop; what is None does not matter.

    Attributes:
        text: how it is written.
        stage: ``caching`` or ``main``.
        chunk: number of the chunk.
        bundle: bundle in the chunk.
        opcode: operation of the instruction.
        phase: number of the phase, at whose last fence to stop.
        every_phase: whether to stop at the last fence of every phase.
    """

    text: str
    stage: str | None = None
    chunk: int | None = None
    bundle: int | None = None
    opcode: Opcode | None = None
    phase: int | None = None
    every_phase: bool = False

    @classmethod
    def parse(cls, text: str) -> Breakpoint:
        """A breakpoint from ``[STAGE:][CHUNK:]BUNDLE``, ``phase[:N]`` or the name of an opcode.

        Raises:
            UsageError: it is none of these.
        """
        *front, last = text.lower().split(":")
        stage = front.pop(0) if front and front[0] in _STAGES else None
        try:
            if last == "phase" and not front:
                return cls(text, stage, every_phase=True)
            if front == ["phase"]:
                return cls(text, stage or "main", phase=_natural(last))
            if not front and last == "fence":
                return cls(text, stage, opcode=Opcode.SCALAR_FENCE)
            if not front and last.upper() in Opcode.__members__:
                return cls(text, stage, opcode=Opcode[last.upper()])
            if len(front) <= 1:
                chunk = _natural(front[0]) if front else 0
                return cls(text, stage or "main", chunk, _natural(last))
        except FormatError:
            pass
        raise UsageError(
            f"{text[:60]!r} is no place in a program",
            hint="write CHUNK:BUNDLE, BUNDLE, phase:N, phase, fence or the name of an "
            "instruction, with caching: in front for the executable that loads parameters",
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Where the scalar core is.

    Attributes:
        stage: ``caching`` or ``main``.
        chunk: number of the chunk.
        bundle: bundle in the chunk, None if the core is about to send words to the host.
        instruction: what is there.
        phase: number of the phase.
        instructions: bundles that were executed since power-up.
        what: what the core is about to do.
        layer: the source's layer that the instruction belongs to, empty if that is not known.
    """

    stage: str
    chunk: int
    bundle: int | None
    instruction: Instruction | None
    phase: int
    instructions: int
    what: str
    layer: str = ""

    def __str__(self) -> str:
        at = f"{self.chunk}:{self.bundle}" if self.bundle is not None else str(self.chunk)
        return at if self.stage == "main" else f"{self.stage}:{at}"


@dataclass(frozen=True, slots=True)
class Line:
    """An instruction of a listing.

    Attributes:
        bundle: its first bundle.
        lines: its text; branches say where they lead.
        current: whether the scalar core is there.
        breakpoints: numbers of the breakpoints on it.
    """

    bundle: int
    lines: tuple[str, ...]
    current: bool
    breakpoints: tuple[int, ...]


class Debugger:
    """Advances a run and looks at it.

    Args:
        run: a run that has not begun.
        steps: where the steps of the source's layers begin in the main program, if that is known.

    Attributes:
        run: the run.
        breakpoints: where to stop, by number.
        failure: what made the program fail, None as long as it has not.
    """

    def __init__(self, run: PackageRun, steps: Sequence[Step] = ()) -> None:
        self.run = run
        self._steps = steps
        self.breakpoints: dict[int, Breakpoint] = {}
        self.failure: SimulationError | None = None
        self._number = 0
        self._phase = 0
        self._chunk = 0
        self._view: Machine | None = None

    # --- going on --------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether the program has ended, or failed."""
        return self.failure is not None or self.run.outputs is not None

    @property
    def outputs(self) -> PackageOutputs | None:
        """What came out, None before the end."""
        return self.run.outputs

    def step(self, count: int = 1) -> None:
        """Go on by a number of things that the scalar core asks for.

        Raises:
            UsageError: the program is over.
            SimulationError: it fails.
        """
        self._demand_more()
        for _ in range(count):
            if not self._advance():
                return

    def resume(
        self,
        until: Callable[[], bool] = lambda: False,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> list[int]:
        """Go on to the next breakpoint, or the end.

        Args:
            until: another reason to stop, asked at every stop.
            interrupted: likewise, someone is impatient.

        Returns:
            numbers of the breakpoints that stopped the program.

        Raises:
            UsageError: the program is over.
            SimulationError: it fails.
        """
        self._demand_more()
        while self._advance():
            hit = [number for number, item in self.breakpoints.items() if self._is_at(item)]
            if hit or until() or interrupted():
                return hit
        return []

    def at_fence(self) -> bool:
        """Whether the scalar core is at a fence."""
        return isinstance(self.run.event, Fence)

    def at_phase_end(self) -> bool:
        """Whether the scalar core is at a fence that waits for tiles."""
        event = self.run.event
        return isinstance(event, Fence) and event.instruction.wait_tiles

    def _demand_more(self) -> None:
        if self.failure is not None:
            raise UsageError("the program has failed", reason=self.failure.what)
        if self.run.outputs is not None:
            raise UsageError("the program has ended")

    def _advance(self) -> bool:
        stage, phase = self.run.stage, self._phase + self.at_phase_end()
        self._view = None
        try:
            more = self.run.advance()
        except SimulationError as error:
            self.failure = error
            raise
        self._phase = phase if self.run.stage is stage else 0
        event = self.run.event
        if isinstance(event, Dispatch | Stream | Fence | Descriptor | ChunkEnd):
            self._chunk = event.chunk
        return more

    # --- breakpoints -----------------------------------------------------------------------------

    def add(self, text: str) -> tuple[int, Breakpoint]:
        """Add a breakpoint; one on a bundle goes to the next instruction that can be stopped at.

        Returns:
            its number, and the breakpoint as it is.

        Raises:
            UsageError: it is malformed, or there is no such place.
        """
        item = self._placed(Breakpoint.parse(text))
        self._number += 1
        self.breakpoints[self._number] = item
        return self._number, item

    def remove(self, number: int) -> None:
        """Remove a breakpoint.

        Raises:
            UsageError: there is none with this number.
        """
        if self.breakpoints.pop(number, None) is None:
            raise UsageError(f"there is no breakpoint {number}")

    def _placed(self, item: Breakpoint) -> Breakpoint:
        stages = {stage.name: stage for stage in self.run.stages}
        if item.stage is not None and item.stage not in stages:
            raise UsageError(
                f"the package does not run an executable {item.stage!r}",
                reason=f"it runs {' and '.join(stages)}",
            )
        if item.chunk is None or item.bundle is None or item.stage is None:
            return item
        chunks = stages[item.stage].chunks
        if item.chunk >= len(chunks):
            raise UsageError(
                f"there is no chunk {item.chunk}", reason=f"the program has {len(chunks)}"
            )
        instructions = chunks[item.chunk]
        for bundle, instruction in positions(instructions):
            if bundle >= item.bundle and _asks(instruction):
                text = f"{item.chunk}:{bundle}"
                text = text if item.stage == "main" else f"{item.stage}:{text}"
                return Breakpoint(text, item.stage, item.chunk, bundle)
        raise UsageError(
            f"nothing can be stopped at after bundle {item.bundle} of chunk {item.chunk}",
            reason=f"the chunk has {bundle_count(instructions)} bundles",
        )

    def _is_at(self, item: Breakpoint) -> bool:
        event = self.run.event
        if event is None or item.stage not in (None, self.run.stage.name):
            return False
        if item.every_phase:
            return self.at_phase_end()
        if item.phase is not None:
            return self.at_phase_end() and self._phase == item.phase
        if item.opcode is not None:
            return _opcode(event) is item.opcode
        return (self._chunk, _bundle(event)) == (item.chunk, item.bundle)

    # --- looking ---------------------------------------------------------------------------------

    @property
    def view(self) -> Machine:
        """The machine with every unit as far as it can get; read only.

        Raises:
            SimulationError: a unit fails on its way there.
        """
        if self.over:
            return self.run.machine
        if self._view is None:
            self._view = self.run.machine.settled()
        return self._view

    def place(self) -> Place:
        """Where the scalar core is."""
        event, stage = self.run.event, self.run.stage
        bundle = None if event is None else _bundle(event)
        instruction = None if bundle is None else _instruction(stage, self._chunk, bundle)
        return Place(
            stage.name,
            self._chunk,
            bundle,
            instruction,
            self._phase,
            self.run.machine.core.steps,
            self._what(event, instruction),
            self._layer(stage.name, bundle),
        )

    @property
    def share(self) -> float:
        """The share of the main program's bundles that stand before the scalar core."""
        event, stage = self.run.event, self.run.stage
        if stage.name != "main" or event is None:
            return 0.0
        sizes = [bundle_count(chunk) for chunk in stage.chunks]
        done = sum(sizes[: self._chunk]) + (_bundle(event) or 0)
        return done / max(1, sum(sizes))

    def _layer(self, stage: str, bundle: int | None) -> str:
        """The source's layer that a bundle of the current chunk belongs to."""
        if stage != "main" or bundle is None:
            return ""
        # Steps count bundles from after START.
        here = (self._chunk, bundle - 1)
        number = bisect_right(self._steps, here, key=lambda step: (step.chunk, step.bundle))
        return self._steps[number - 1].origin if number else ""

    def _what(self, event: Event | None, instruction: Instruction | None) -> str:
        match event:
            case None if self.failure is not None:
                return f"the program has failed: {self.failure.what}"
            case None if self.run.outputs is not None:
                return "the program has ended"
            case None:
                return "the program has not begun"
            case HostWords(words):
                return f"{len(words)} words for the host"
            case Descriptor():
                return (
                    f"descriptor: {event.tag.name.lower()}, {event.size} bytes at "
                    f"{event.address:#x}"
                )
        return "" if instruction is None else next(instruction_lines(instruction)).strip()

    def listing(self, before: int = 5, after: int = 5, around: int | None = None) -> list[Line]:
        """Instructions of the chunk that the scalar core is in.

        Args:
            before: how many instructions before the current one.
            after: how many after it.
            around: a bundle in place of the current one.

        Raises:
            UsageError: the chunk has no such bundle.
        """
        chunks = self.run.stage.chunks
        if self._chunk >= len(chunks):
            return []
        event = self.run.event
        now = None if event is None else _bundle(event)
        items = list(positions(chunks[self._chunk]))
        wanted = around if around is not None else now or 0
        if wanted >= bundle_count(chunks[self._chunk]):
            raise UsageError(
                f"there is no bundle {wanted}",
                reason=f"the chunk has {bundle_count(chunks[self._chunk])}",
            )
        middle = max(index for index, (bundle, _) in enumerate(items) if bundle <= wanted)
        return [
            Line(
                bundle,
                tuple(_lines(bundle, instruction)),
                bundle == now,
                tuple(
                    number
                    for number, stop in self.breakpoints.items()
                    if (stop.stage, stop.chunk, stop.bundle)
                    == (self.run.stage.name, self._chunk, bundle)
                ),
            )
            for bundle, instruction in items[max(middle - before, 0) : middle + after + 1]
        ]

    def heads(self) -> list[Head]:
        """What engines, dispatchers and stream units are at.

        Raises:
            SimulationError: a unit fails on its way there.
        """
        return list(self.view.heads())

    def traffic(self) -> Traffic:
        """What is on its way between units.

        Raises:
            SimulationError: a unit fails on its way there.
        """
        return self.view.traffic()

    def registers(self) -> dict[int, int]:
        """Registers of the scalar core by number, those that are known."""
        words = self.run.machine.core.registers
        return {number: word for number, word in enumerate(words) if word is not None}

    def predicates(self) -> dict[int, bool]:
        """Predicates of the scalar core by number, those that are known."""
        values = self.run.machine.core.predicates
        return {number: value for number, value in enumerate(values) if value is not None}

    def flags(self, tile: int) -> dict[str, int]:
        """Flags of a tile by name, as 16 signed bits.

        Raises:
            UsageError: there is no such tile.
            SimulationError: a unit fails on its way there.
        """
        check_tile(tile)
        return {flag.name.lower(): signed16(self.view.flags[flag][tile]) for flag in TileFlag}

    def scalar_flags(self) -> dict[str, int]:
        """Flags of the scalar core by name, as 16 signed bits.

        Raises:
            SimulationError: a unit fails on its way there.
        """
        return {flag.name.lower(): signed16(self.view.scalar_flags[flag]) for flag in ScalarFlag}

    def done(self) -> list[int]:
        """Tiles whose done bits are set.

        Raises:
            SimulationError: a unit fails on its way there.
        """
        return [tile for tile in range(TILES) if self.view.done >> tile & 1]

    def memory(self, name: str, tile: int | None = None) -> tuple[Array, Array]:
        """Contents of a memory, and which of its words were written.

        Args:
            name: one of `MEMORIES`.
            tile: a tile, None for all; the scalar core's memory has none.

        Returns:
            uint32 and bool of one shape: ``[tiles, words]`` for narrow, ``[tiles, rows, lanes]``
            for wide, ``[tiles, entries, 2]`` for scaling, ``[words]`` for scalar memory; without
            the first dimension for a tile.

        Raises:
            UsageError: there is no such memory or tile.
            SimulationError: a unit fails on its way there.
        """
        if name not in MEMORIES:
            raise UsageError(
                f"there is no memory {name[:40]!r}", reason=f"there are {', '.join(MEMORIES)}"
            )
        if name == "scalar":
            (words,) = self.view.read_words(0, MEMORY_WORDS)
            return words, self.view.read_marks(0, MEMORY_WORDS)
        held = self.view.memory
        words, known = getattr(held, name), getattr(held, f"{name}_known") == KNOWN
        if tile is None:
            return words, known
        check_tile(tile)
        return words[tile], known[tile]

    def examine(self, name: str, tile: int | None, address: int, count: int) -> tuple[Array, Array]:
        """Elements of a memory, as instructions address it.

        Args:
            name: one of `MEMORIES`.
            tile: a tile; None for the scalar core's memory.
            address: first element: word, row of wide memory, or entry of scaling memory.
            count: number of elements.

        Returns:
            words, uint32[count, words of an element], and which of them were written, bool.

        Raises:
            UsageError: there is no such memory, tile or element.
            SimulationError: a unit fails on its way there.
        """
        words, known = self.memory(name, tile)
        if not 0 <= address < address + count <= len(words):
            raise UsageError(
                f"elements {address} to {address + count - 1} of {name} memory",
                reason=f"it has {len(words)}",
            )
        shape = (count, -1)
        place = slice(address, address + count)
        return words[place].reshape(shape), known[place].reshape(shape)


def check_tile(tile: int) -> None:
    """Refuse tiles that do not exist.

    Raises:
        UsageError: it is not between 0 and 15.
    """
    if not 0 <= tile < TILES:
        raise UsageError(f"there is no tile {tile}", reason=f"there are {TILES}, from 0")


def _natural(text: str) -> int:
    value = integer(text)
    if value < 0:
        raise FormatError(f"{text} is negative")
    return value


def _asks(instruction: Instruction) -> bool:
    """Whether the scalar core asks another unit or the host for something."""
    if isinstance(instruction, Scalar):
        return instruction.store is Store.ISSUE
    return not isinstance(instruction, _SILENT)


def _bundle(event: Event) -> int | None:
    return None if isinstance(event, HostWords) or not hasattr(event, "bundle") else event.bundle


def _opcode(event: Event) -> Opcode:
    match event:
        case Dispatch() | Stream() | Fence():
            return event.instruction.op
        case ChunkEnd():
            return Opcode.HALT
    return Opcode.SCALAR


def _instruction(stage: Stage, chunk: int, bundle: int) -> Instruction | None:
    chunks: Sequence[Sequence[Instruction]] = stage.chunks
    return next((item for at, item in positions(chunks[chunk]) if at == bundle), None)


def _lines(bundle: int, instruction: Instruction) -> Iterator[str]:
    first, *others = (line.removeprefix("    ") for line in instruction_lines(instruction))
    target = jump_target(bundle, instruction)
    if isinstance(instruction, Loop):
        yield f"{first}  ; up to bundle {target}"
    else:
        yield first if target is None else f"{first}  ; to bundle {target}"
    yield from others
