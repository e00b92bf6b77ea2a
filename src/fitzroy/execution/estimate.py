"""How long a program takes on the timing model, without data: its course does not depend on any."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from fitzroy.base.errors import UsageError
from fitzroy.base.garbage import uncollected
from fitzroy.driver.runtime.stage import Stage
from fitzroy.execution.hosts import Profile, find
from fitzroy.formats.compilation_record import Step
from fitzroy.formats.darwinn import Executable, PackageFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import LIBEDGETPU
from fitzroy.hw_models.edgetpu import timing
from fitzroy.hw_models.edgetpu.occupancy import occupancy
from fitzroy.hw_models.edgetpu.recording import Dispatched
from fitzroy.hw_models.edgetpu.verifier import record
from fitzroy.hw_models.edgetpu.verifier.parts import plan_of
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.report.phases import owners, phases
from fitzroy.report.run import Run

if TYPE_CHECKING:
    # Timing a program takes nothing of what generates programs.
    from fitzroy.compiler.targets.edgetpu.program.emitted import Mark

CLOCK = "max"
"""Performance level of the Edge TPU unless told otherwise."""

HOST = "jetson_nano_10w_usb3"
"""Host of the Edge TPU unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a program is timed.

    Attributes:
        clock: performance level, a key of `BEAGLE.clocks`.
        host: host and link: a key of `BEAGLE.hosts`, a file with a profile, or a profile.
        driver: a key of `BEAGLE.drivers`.
    """

    clock: str = CLOCK
    host: str | Profile = HOST
    driver: str = LIBEDGETPU

    def check(self) -> Profile:
        """The host; refuse unknown names, and a driver that does not know the bus of the host.

        Raises:
            UsageError: an unknown clock, host or driver, or a bus that the driver does not know.
            FormatError: the host is a file that is no profile.
        """
        kinds = (
            ("clock", self.clock, BEAGLE.clocks),
            ("driver", self.driver, BEAGLE.drivers),
        )
        for kind, name, known in kinds:
            if name not in known:
                raise UsageError(f"there is no {kind} {name!r}", reason=f"use {', '.join(known)}")
        profile = find(self.host) if isinstance(self.host, str) else self.host
        buses = BEAGLE.drivers[self.driver].buses
        if profile.host.bus not in buses:
            raise UsageError(
                f"{self.driver} does not know the bus of {profile.name}",
                reason=f"{profile.host.bus}; it knows {', '.join(buses)}",
            )
        return profile


def estimate(
    package: PackageFile,
    name: str,
    conditions: Conditions | None = None,
    steps: Sequence[Step] = (),
) -> Run:
    """When everything in an inference of a package would happen.

    Args:
        package: the package.
        name: its name in reports.
        conditions: clock and host.
        steps: where the steps of layers begin, if that is known.

    Raises:
        UsageError: an unknown clock or host.
        UnknownValueError: the course of the program depends on data.
        SimulationError: the program relies on queues that the chip may not have.
    """
    conditions = conditions or Conditions()
    profile = conditions.check()
    conditions = replace(conditions, host=profile)
    outputs = {
        name: layer.size_bytes * layer.execution_count_per_inference
        for name, layer in package.main.outputs.items()
    }
    with uncollected():
        run = timed(stages_of(package), name, outputs, conditions)
    return replace(run, steps=tuple(steps))


def stages_of(package: PackageFile) -> list[Stage]:
    """The executables of a package as they would run, without data, the main one last.

    Raises:
        UnknownValueError: the course of a program depends on data.
    """
    return [recorded(item) for item in (package.caching, package.main) if item is not None]


def recorded(executable: Executable) -> Stage:
    """An executable as it would run, without data.

    Every instruction of the recording has its element order.

    Args:
        executable: the executable.

    Raises:
        UnknownValueError: the course of the program depends on data.
    """
    streams = executable.instruction_bitstreams or ()
    chunks = [
        disassemble(b"" if stream.bitstream is None else bytes(stream.bitstream))
        for stream in streams
    ]
    recording = record(chunks)
    for _, entry in recording.entries:
        if isinstance(entry, Dispatched):
            plan_of(entry.issue)
    return Stage(executable, "main", chunks, recording)


def timed(
    stages: Sequence[Stage],
    name: str,
    outputs: Mapping[str, int],
    conditions: Conditions,
    notes: tuple[str, ...] = (),
) -> Run:
    """What reports are made of.

    Args:
        stages: executables as they ran, recorded, the main one last.
        name: name of the model.
        outputs: bytes that the chip sends for each output, by name.
        conditions: clock and host.
        notes: remarks that belong beside the figures.

    Raises:
        UsageError: the main executable was not recorded, or an unknown clock, host or driver.
        SimulationError: the program relies on queues that the chip may not have.
    """
    *before, main = stages
    if main.recording is None:
        raise UsageError("the run was not recorded")
    sizes, profile = main.chunk_sizes, conditions.check()
    loading = [stage.recording for stage in before if stage.recording is not None]
    return Run(
        name=name,
        timeline=timing.simulate(
            main.recording,
            sizes,
            clock=conditions.clock,
            host=profile.name,
            profile=profile.host,
            driver=conditions.driver,
            pieces=main.positions,
        ),
        occupied=cache(partial(occupancy, main.recording, loading)),
        instructions=sum(sizes),
        streamed=main.requested(DescriptorTag.PARAMETERS),
        cached=sum(stage.requested(DescriptorTag.PARAMETERS) for stage in before),
        inputs={
            name: layer.size_bytes * layer.execution_count_per_inference
            for name, layer in main.executable.inputs.items()
        },
        outputs=outputs,
        notes=notes,
        positions=main.positions,
    )


@dataclass(frozen=True, slots=True)
class StepFigures:
    """What a step of a program costs.

    Attributes:
        mark: the step.
        cycles: cycles of its phases, from the end of the phase before. Those of a phase that also
            brings what it reads, or sends its result, are those of the step that computes.
        op_busy: those of them in which the op engine computes.
        streamed: bytes of parameters that come from the host in it.
        instructions: bytes of its instructions.
        macs: products of all tiles, in lanes that are on.
        bound: resource that most of the critical path in it goes through.
        least: cycles that its products take on all tiles, or its bytes on both channels of the
            ring, if those are more.
    """

    mark: Mark
    cycles: float
    op_busy: float
    streamed: int
    instructions: int
    macs: int
    bound: str
    least: float


def steps(marks: Sequence[Mark], run: Run) -> list[StepFigures]:
    """What every step of a program costs.

    Args:
        marks: where the steps begin.
        run: an inference.
    """
    spent, busy = [0.0] * len(marks), [0.0] * len(marks)
    products, streamed, moved = ([0] * len(marks) for _ in range(3))
    critical: list[dict[str, float]] = [defaultdict(float) for _ in marks]
    places = [(mark.chunk, mark.bundle) for mark in marks]
    computing = _computing(marks)
    for figures, first in zip(phases(run), owners(places, run.timeline), strict=True):
        owner = computing[first]
        spent[owner] += figures.cycles
        busy[owner] += figures.op_busy
        streamed[owner] += figures.streamed
        products[owner] += figures.macs
        moved[owner] += figures.ring_bytes
        for what, cycles in figures.critical.items():
            critical[owner][what] += cycles
    bounds = [max(sorted(path), key=path.__getitem__) if path else "" for path in critical]
    both = run.chip.limits.ring_channels * run.ring_rate
    least = [
        max(macs / run.peak_macs, nbytes / both)
        for macs, nbytes in zip(products, moved, strict=True)
    ]
    return [
        StepFigures(*figures)
        for figures in zip(
            marks, spent, busy, streamed, _sizes(marks, run), products, bounds, least, strict=True
        )
    ]


def _computing(marks: Sequence[Mark]) -> list[int]:
    """For each step, the one that computes in its phase: figures of a phase are those of one."""
    found: list[int] = []
    begin = 0
    for number, mark in enumerate(marks):
        begin = begin if mark.joined else number
        if mark.joined and mark.layer:
            found[begin:] = [number] * (number - begin)
        found.append(found[-1] if mark.joined and not mark.layer else number)
    return found


def _sizes(marks: Sequence[Mark], run: Run) -> list[int]:
    """Bytes of instructions of every step of a program, from its mark to that of the next."""
    chunks = (item.size for item in run.timeline.transfers if item.kind == "instructions")
    before = [0, *accumulate(chunks)]
    begin = [before[mark.chunk] + mark.bundle * BUNDLE_BYTES for mark in marks]
    return [end - start for start, end in pairwise([*begin, before[-1]])]
