"""Runs for tests of reports: timelines that are plausible, made without the timing model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.driver.runtime.stage import Stage
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.occupancy import occupancy, phase_numbers
from fitzroy.hw_models.edgetpu.op_plan import OpPlan
from fitzroy.hw_models.edgetpu.recording import Dispatched, Recording, Streamed
from fitzroy.hw_models.edgetpu.timeline import (
    Issued,
    Link,
    Phase,
    Span,
    Timeline,
    Transfer,
)
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.fields import ENGINE_OF
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.stream import Pop, PopMemory
from fitzroy.report.run import Run

CLOCK = 500.0
GAP = 200.0
"""Cycles of the fence between two phases."""


def stages(package: PackageFile, seed: int = 0) -> tuple[Stage, ...]:
    """The executables of a package as they ran on random inputs, with recordings."""
    rng = np.random.default_rng(seed)
    inputs = {
        name: rng.integers(
            0, 256, layer.packed_bytes * layer.execution_count_per_inference, np.uint8
        )
        for name, layer in package.main.inputs.items()
    }
    return SimulatedDevice().start(package, inputs, record=True).finish().stages


def timeline(recording: Recording) -> Timeline:
    """Every engine does its instructions of a phase one after the other, and waits for nobody."""
    issued: list[Issued] = []
    spans: list[Span] = []
    numbers = list(phase_numbers(recording))
    count = numbers[-1] + 1
    begins, ends, bundles, streamed = [0.0] * count, [0.0] * count, [0] * count, [0] * count
    free: dict[tuple[str, int], float] = {}
    now, phase = 0.0, 0
    instruction: Instruction
    for number, (steps, entry) in zip(numbers, recording.entries, strict=True):
        if number != phase:
            ends[phase] = max([now + GAP, *free.values()])
            now, phase, free = ends[phase], number, {}
            begins[phase] = now
        bundles[phase] = steps
        match entry:
            case Dispatched():
                issue = entry.issue
                if isinstance(issue.instruction, TileFence):
                    continue
                unit, tiles = ENGINE_OF[issue.instruction.op].name.lower(), entry.tiles
                elements, macs = _elements(issue.plan), 0
                if isinstance(issue.plan, OpPlan):
                    macs = elements * 64 * issue.plan.elements
                instruction, chunk, bundle = issue.instruction, issue.chunk, issue.bundle
            case Streamed():
                event = entry.event
                unit, tiles, macs = event.instruction.op.name.lower(), 0, 0
                if isinstance(event.instruction, Pop):
                    parameters = event.instruction.memory is PopMemory.PARAMETER
                    unit = "parameter_pop" if parameters else "avdata_pop"
                    streamed[phase] += 64 * len(entry.plan.addresses) * parameters
                elements = len(entry.plan.addresses)
                instruction, chunk, bundle = event.instruction, event.chunk, event.bundle
            case _:
                continue
        issued.append(Issued(instruction, chunk, bundle, phase, tiles, elements, macs))
        members = [t for t in range(16) if tiles >> t & 1] or [-1]
        begin = max(free.get((unit, tile), now) for tile in members)
        wait = 25.0 if unit == "op" and elements > 100 else 0.0
        for tile in members:
            free[unit, tile] = begin + wait + elements
        waits = {"ring_read_a": wait} if wait else {}
        end = begin + wait + elements
        spans.append(Span(unit, tiles, len(issued) - 1, begin, end, elements, waits))
    ends[phase] = max([now + GAP, *free.values()])
    phases = tuple(
        Phase(begin, end, after - before, size)
        for begin, end, before, after, size in zip(
            begins, ends, [0, *bundles[:-1]], bundles, streamed, strict=True
        )
    )
    links = [Link("scalar", None, item.begin, item.end, "fence") for item in phases]
    for index, item in enumerate(phases):
        inside = [s for s in spans if issued[s.issue].phase == index]
        if inside:
            last = max(inside, key=lambda span: span.end)
            links[index] = Link(last.unit, last.issue, item.begin, item.end, "the phase before")
    total = phases[-1].end
    spans.sort(key=lambda span: span.begin)
    chip = total / CLOCK
    return Timeline(
        clock="max",
        core_mhz=CLOCK,
        host="jetson_nano_10w_usb3",
        start=120.0,
        cycles=total,
        total=120.0 + chip + 80.0,
        issued=tuple(issued),
        spans=tuple(spans),
        phases=phases,
        transfers=(
            Transfer("instructions", 40_000, 10.0, 100.0),
            Transfer("input", 4_096, 100.0, 120.0),
            Transfer("output", 1_008, 120.0 + chip, 130.0 + chip),
            Transfer("interrupt", 4, 150.0 + chip, 160.0 + chip),
        ),
        critical_path=tuple(links),
    )


def _elements(plan: object) -> int:
    if plan is None:
        return 1
    if isinstance(plan, OpPlan):
        return plan.steps
    for name in ("narrow", "rows"):
        if hasattr(plan, name):
            return len(getattr(plan, name))
    return max(len(plan.send.words), len(plan.receive.words))  # type: ignore[attr-defined]


def run(package: PackageFile, name: str = "model") -> Run:
    """A run of a package."""
    done = stages(package)
    *caching, main = [stage.recording for stage in done]
    assert main is not None
    executable = done[-1].executable
    instructions = sum(
        len(chunk.bitstream)
        for chunk in executable.instruction_bitstreams or ()
        if chunk.bitstream is not None
    )
    return Run(
        name=name,
        timeline=timeline(main),
        occupied=partial(occupancy, main, [item for item in caching if item is not None]),
        instructions=instructions,
        streamed=0 if executable.parameters is None else len(executable.parameters),
        cached=sum(
            len(stage.executable.parameters)
            for stage in done[:-1]
            if stage.executable.parameters is not None
        ),
        inputs={name: layer.size_bytes for name, layer in executable.inputs.items()},
        outputs={name: layer.size_bytes for name, layer in executable.outputs.items()},
    )


def renamed(original: Run, name: str) -> Run:
    """The same run of a model of another name."""
    return replace(original, name=name)
