"""The last form of a program: its instructions, by the steps and phases that they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fitzroy.compiler.targets.edgetpu.program.records import Counts, Record, Words
from fitzroy.compiler.targets.edgetpu.program.stages import Form, Readable
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import chunk as whole_chunk


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the instructions of a step begin.

    Attributes:
        name: what the step is.
        layer: name of its layer, empty for inputs and outputs.
        chunk: number of the chunk.
        bundle: bundle in the chunk, after its START.
        origin: the node that the layer comes from, or the input that it takes; empty for the end.
        kind: what the layer is.
        variant: what was chosen for it, for people; empty where there was no choice.
        cycles: estimated cycles from the end of the step before; 0 where nothing is estimated.
        joined: whether the step runs in the same phase as the one before.
    """

    name: str
    layer: str
    chunk: int
    bundle: int
    origin: str = ""
    kind: str = ""
    variant: str = ""
    cycles: float = 0.0
    joined: bool = False


@dataclass(frozen=True)
class Emitted(Form):
    """Instructions, and where steps begin.

    Attributes:
        marks: where steps begin.
        program: chunk, bundle and instruction of the whole program.
    """

    stage = "emitted"

    marks: Sequence[Mark]
    program: Sequence[tuple[int, int, Instruction]]

    @property
    def chunks(self) -> list[list[Instruction]]:
        """The chunks of the program, START and END included; addresses are not filled in."""
        bodies: dict[int, list[Instruction]] = {}
        for number, _, instruction in self.program:
            bodies.setdefault(number, []).append(instruction)
        return [whole_chunk(bodies[number]) for number in sorted(bodies)]

    @property
    def cycles(self) -> float:
        """Estimated cycles of all steps with an estimate."""
        return sum(mark.cycles for mark in self.marks)

    def step_at(self, chunk: int, bundle: int) -> Mark | None:
        """The step that the instruction in some place belongs to; None for what precedes all."""
        before = [mark for mark in self.marks if (mark.chunk, mark.bundle) <= (chunk, bundle)]
        return before[-1] if before else None

    def origin(self, chunk: int, bundle: int) -> str:
        """What the instruction in some place comes from, as `Mark.origin`; empty for no step."""
        step = self.step_at(chunk, bundle)
        return "" if step is None else step.origin

    def outline(self) -> Outline:
        """Steps, and in each its phases: what begins them, and how much there is to do."""
        marks = list(self.marks)
        groups: list[tuple[Mark | None, list[Phase]]] = [(None, [])]
        for phase in self._phases():
            place = phase.chunk, phase.bundle
            while marks and (marks[0].chunk, marks[0].bundle) <= place:
                groups.append((marks.pop(0), []))
            groups[-1][1].append(phase)
        return Outline(
            tuple(groups[0][1]),
            tuple(
                Phases(mark.chunk, mark.bundle, mark.name, tuple(phases))
                for mark, phases in groups
                if mark is not None
            ),
        )

    def lines(self) -> Iterator[str]:
        """The outline as text; the instructions themselves are those of the object."""
        return self.outline().lines()

    def _phases(self) -> Iterator[Phase]:
        """Phases with the instructions that belong to them; a step begins one, or goes on."""
        begins = {(mark.chunk, mark.bundle) for mark in self.marks}
        place, fence, counts = (0, 0), "begin", Counter[str]()
        for chunk, bundle, instruction in self.program:
            resets = isinstance(instruction, TileFence) and bool(instruction.set)
            if (resets or (chunk, bundle) in begins) and counts:
                yield _phase(place, fence, counts)
                place, fence, counts = (chunk, bundle), "goes on", Counter()
            if isinstance(instruction, TileFence) and resets:
                fence = "all tiles" if instruction.signal else "each tile"
            counts[_work(instruction)] += 1
        yield _phase(place, fence, counts)

    def faults(self) -> Iterator[str]:
        """Faults of the outline, and signals of tiles that do not take turns with waits."""
        yield from self.outline().faults()
        signalled = False
        for chunk, bundle, instruction in self.program:
            work = _work(instruction)
            if work == _SIGNAL and signalled:
                yield f"tiles signal twice at {chunk}:{bundle}"
            if work == _WAIT and not signalled:
                yield f"nobody signals what {chunk}:{bundle} waits for"
            signalled = work == _SIGNAL or (signalled and work != _WAIT)


_SIGNAL, _WAIT = "signal", "wait"
"""Fences of tiles that signal to the scalar core, and those of the core that wait for that."""


def _work(instruction: Instruction) -> str:
    """What an instruction does, in a word."""
    if isinstance(instruction, TileFence) and instruction.signal:
        return _SIGNAL
    if isinstance(instruction, ScalarFence) and instruction.wait_tiles:
        return _WAIT
    return instruction.op.name.lower()


def _phase(place: tuple[int, int], fence: str, counts: Counter[str]) -> Phase:
    work = tuple((Words(name), count) for name, count in counts.items())
    return Phase(*place, Words(fence), work)


@dataclass(frozen=True)
class Phase(Record):
    """Instructions from a fence on, or from the begin of a step that has none.

    Attributes:
        chunk: number of the chunk where it begins.
        bundle: bundle in the chunk, after its START.
        fence: what begins it.
        work: instructions by kind.
    """

    template = "{chunk}:{bundle} {fence}: {work}"

    chunk: int
    bundle: int
    fence: Words
    work: Counts


@dataclass(frozen=True)
class Phases(Record):
    """The phases of a step.

    Attributes:
        chunk: number of the chunk where it begins.
        bundle: bundle in the chunk, after its START.
        name: what the step is.
        phases: its phases.
    """

    template = "{chunk}:{bundle} {name}"

    chunk: int
    bundle: int
    name: str
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class Outline(Readable):
    """What a program does, step by step and phase by phase.

    Attributes:
        prologue: phases before the first step.
        steps: the steps; the last one is the end.
    """

    stage = "emitted"

    prologue: tuple[Phase, ...]
    steps: tuple[Phases, ...]

    @property
    def phases(self) -> list[Phase]:
        """All phases."""
        return [*self.prologue, *(phase for step in self.steps for phase in step.phases)]

    def faults(self) -> Iterator[str]:
        """Steps and phases out of order, and tiles that signal what nobody waits for."""
        steps = [(step.chunk, step.bundle) for step in self.steps]
        if steps != sorted(steps):
            yield "steps are not in the order of their instructions"
        phases = [(phase.chunk, phase.bundle) for phase in self.phases]
        if phases != sorted(set(phases)):
            yield "phases are not in the order of their instructions"
        for step in self.steps:
            if any(
                (phase.chunk, phase.bundle) < (step.chunk, step.bundle) for phase in step.phases
            ):
                yield f"{step.name!r} has phases that begin before it"
        signals = 0
        for phase in self.phases:
            work = dict(phase.work)
            signals += work.get(Words(_SIGNAL), 0) - work.get(Words(_WAIT), 0)
            if signals not in (0, 1):
                place = f"{phase.chunk}:{phase.bundle}"
                yield f"tiles have signalled {signals} times more than was waited for after {place}"
        if signals:
            yield "nobody waits for the last signal of the tiles"
