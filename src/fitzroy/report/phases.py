"""Figures of each phase of a run, and names for what it does.

Compiled programs have no layers; a record of the compilation may say which they are
(`formats.compilation_record`). What lies between two fences of all tiles stands for one,
and its name is told from the loops of the tensor operation in it that takes the most steps:
channels are those of one tile, input channels filled up to words.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fitzroy.hw_models.chips.chip import Chip
from fitzroy.hw_models.edgetpu.memory import LANES
from fitzroy.hw_models.edgetpu.timeline import Issued, Span, Timeline
from fitzroy.hw_models.isa.conversion import NarrowToWide, WideToNarrow
from fitzroy.hw_models.isa.fields import Opcode, TileEngine
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.tensor import Resize, TensorOp
from fitzroy.report.run import Run

ENGINES = tuple(engine.name.lower() for engine in TileEngine)
"""Engines of a tile, in the order of reports."""

STREAM_UNITS = ("avdata_pop", "parameter_pop", "infeed", "outfeed")
"""Units that exist once, in the order of reports."""

RESOURCES = {
    "op": ("op",),
    "ring": ("ring_produce", "ring_consume_a", "ring_consume_b"),
    "mesh": ("mesh_southward", "mesh_westward", "mesh_northward", "mesh_eastward"),
    "conversion": ("narrow_to_wide", "wide_to_narrow"),
    "infeed": STREAM_UNITS,
    "fence": ("fence",),
    "scalar": ("scalar",),
    "host": ("host",),
}
"""What can bound a phase, and the units that it is made of."""

RESOURCE_OF = {unit: resource for resource, units in RESOURCES.items() for unit in units}


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """Figures of a phase.

    Instructions count where they are issued, times where they pass: a tile need not wait for the
    others at a fence, nor a fence for every engine. Figures of engines are those of the tile whose
    op engine is busiest in the phase.

    Attributes:
        number: number of the phase.
        name: what it does.
        layer: the source's layer that it computes, empty if that is not known.
        begin: cycle at which it begins.
        end: cycle at which it ends.
        tile: the tile.
        op_busy: cycles in which the tile's op engine computes.
        steps: most steps of tensor operations of a tile.
        macs: products of all tiles, in lanes that are on.
        utilization: share of the products that the chip could do in the time that it did.
        ring_rows: rows that tiles and the infeed send over the ring.
        ring_bytes: bytes of these rows.
        mesh_words: words that tiles send to their neighbours.
        streamed: bytes of parameters from the host.
        input_bytes: bytes of inputs from the host.
        output_bytes: bytes to the host by the outfeed.
        busy: cycles in which units move elements, by unit.
        waits: cycles that units wait, by unit and by what for.
        critical: cycles of the critical path, by resource.
        bound: resource that most of the critical path goes through.
    """

    number: int
    name: str
    layer: str
    begin: float
    end: float
    tile: int
    op_busy: float
    steps: int
    macs: int
    utilization: float
    ring_rows: int
    ring_bytes: int
    mesh_words: int
    streamed: int
    input_bytes: int
    output_bytes: int
    busy: Mapping[str, float]
    waits: Mapping[str, Mapping[str, float]]
    critical: Mapping[str, float]
    bound: str

    @property
    def title(self) -> str:
        """The layer, if it is known, and what it does."""
        return f"{short_name(self.layer)}: {self.name}" if self.layer else self.name

    @property
    def cycles(self) -> float:
        """Cycles that the phase takes."""
        return self.end - self.begin

    @property
    def op_waits(self) -> Mapping[str, float]:
        """What the op engine waits for."""
        return self.waits.get("op", {})


def members(mask: int, chip: Chip) -> Iterator[int]:
    """Numbers of the tiles in a mask."""
    return (tile for tile in range(chip.tiles.count) if mask >> tile & 1)


def tile_name(tile: int, chip: Chip) -> str:
    """Row and column, as in assembly text."""
    return f"r{tile // chip.tiles.columns}c{tile % chip.tiles.columns}"


def products(item: Issued) -> int:
    """Products of a tensor operation in each tile, in lanes that are on."""
    op = item.instruction
    if not isinstance(op, TensorOp | Resize):
        return 0
    _, _, blocks = _extents(op)
    return item.macs * ((blocks - 1) * op.lanes + op.lanes_last) // (blocks * LANES)


def busiest_tile(run: Run) -> int:
    """The tile whose op engine computes longest."""
    busy = [0.0] * run.chip.tiles.count
    for span in run.timeline.spans:
        if span.unit == "op":
            for tile in members(span.tiles, run.chip):
                busy[tile] += span.busy
    return busy.index(max(busy))


_MOST_NAME = 56
"""Characters of a layer's name that titles have."""

_LEAST_NAME = 36
"""Characters that are left of a name if whole folders go; else it is cut where it is too long."""


def short_name(layer: str) -> str:
    """The name of a layer without the layers that were folded into it, and not too long.

    The end of a name tells most, so folders at its beginning go first. What a step does stands in
    front of the name, with a space, and stays.
    """
    name = layer.partition(";")[0] or layer
    does, space, path = name.rpartition(" ")
    if not does.replace(" ", "").islower():
        does, space, path = "", "", name
    rest = path
    while len(rest) > _MOST_NAME - 2 and "/" in rest and len(path) > _MOST_NAME:
        rest = rest.partition("/")[2]
    if len(rest) < min(len(path), _LEAST_NAME):
        rest = path
    if rest != path:
        rest = f"…/{rest}"
    elif len(path) > _MOST_NAME:
        rest = f"…{path[1 - _MOST_NAME :]}"
    return f"{does}{space}{rest}"


def owners(places: Sequence[tuple[int, int]], timeline: Timeline) -> Iterator[int]:
    """For each phase, the step that its first instruction belongs to.

    Args:
        places: chunk and bundle where each step begins, counted without START, in order.
        timeline: an inference.
    """
    first: dict[int, tuple[int, int]] = {}
    for item in timeline.issued:
        # START is a bundle, too.
        first.setdefault(item.phase, (item.chunk, item.bundle - 1))
    owner = 0
    for number in range(len(timeline.phases)):
        if number in first:
            owner = max(0, bisect_right(places, first[number]) - 1)
        yield owner


def _layers(run: Run) -> list[str]:
    """The layer of every phase."""
    if not run.steps:
        return [""] * len(run.timeline.phases)
    places = [(step.chunk, step.bundle) for step in run.steps]
    return [run.steps[owner].origin for owner in owners(places, run.timeline)]


def phases(run: Run) -> tuple[PhaseFigures, ...]:
    """Figures of every phase, in order."""
    timeline = run.timeline
    count = len(timeline.phases)
    issued: list[list[Issued]] = [[] for _ in range(count)]
    for item in timeline.issued:
        issued[item.phase].append(item)
    spans: list[list[tuple[Span, float]]] = [[] for _ in range(count)]
    for span in timeline.spans:
        for number, part in _parts(timeline, span):
            spans[number].append((span, part))
    critical: list[dict[str, float]] = [defaultdict(float) for _ in range(count)]
    for what, number, cycles in _critical(timeline):
        critical[number][RESOURCE_OF.get(what, what)] += cycles
    return tuple(
        replace(_figures(run, number, issued[number], spans[number], critical[number]), layer=layer)
        for number, layer in enumerate(_layers(run))
    )


def _parts(timeline: Timeline, span: Span) -> Iterator[tuple[int, float]]:
    """The phases in whose time a span is, each with the part of the span."""
    length = span.end - span.begin
    number = max(0, bisect_right(timeline.phases, span.begin, key=lambda phase: phase.begin) - 1)
    if length <= 0:
        yield number, 1.0
        return
    begin, last = span.begin, len(timeline.phases) - 1
    while number < last and timeline.phases[number].end < span.end:
        end = timeline.phases[number].end
        if end > begin:
            yield number, (end - begin) / length
            begin = end
        number += 1
    yield number, (span.end - begin) / length


def _critical(timeline: Timeline) -> Iterator[tuple[str, int, float]]:
    """Stretches of the critical path, cut at the phases: unit, phase and cycles."""
    number = 0
    last = len(timeline.phases) - 1
    for link in timeline.critical_path:
        begin = link.begin
        while number < last and timeline.phases[number].end <= begin:
            number += 1
        while number < last and timeline.phases[number].end < link.end:
            yield link.what, number, max(0.0, timeline.phases[number].end - begin)
            begin = max(begin, timeline.phases[number].end)
            number += 1
        if last >= 0:
            yield link.what, number, link.end - begin


def _figures(
    run: Run,
    number: int,
    issued: list[Issued],
    spans: list[tuple[Span, float]],
    critical: Mapping[str, float],
) -> PhaseFigures:
    timeline, chip = run.timeline, run.chip
    phase = timeline.phases[number]
    op_busy = [0.0] * chip.tiles.count
    done = 0.0
    for span, part in spans:
        if span.unit == "op":
            for tile in members(span.tiles, chip):
                op_busy[tile] += part * span.busy
            if 0 <= span.issue < len(timeline.issued):
                item = timeline.issued[span.issue]
                done += part * products(item) * span.tiles.bit_count()
    tile = op_busy.index(max(op_busy))
    busy: dict[str, float] = defaultdict(float)
    waits: dict[str, dict[str, float]] = {}
    for span, part in spans:
        if not span.tiles or span.tiles >> tile & 1:
            busy[span.unit] += part * span.busy
            for cause, cycles in span.waits.items():
                of_unit = waits.setdefault(span.unit, defaultdict(float))
                of_unit[cause] += part * cycles
    macs = steps = ring_rows = ring_bytes = mesh_words = input_bytes = output_bytes = 0
    tile_steps = [0] * chip.tiles.count
    for item in issued:
        tiles = item.tiles.bit_count()
        instruction = item.instruction
        match instruction:
            case TensorOp() | Resize():
                macs += products(item) * tiles
                for member in members(item.tiles, chip):
                    tile_steps[member] += item.steps
            case RingProduce():
                ring_rows += item.steps * tiles
                ring_bytes += item.steps * tiles * chip.memories.wide.element_bytes
            case Infeed():
                size = instruction.buffer.steps * _unit_bytes(instruction, chip)
                ring_bytes += size
                ring_rows += -(
                    -size // (instruction.row_words * chip.memories.narrow.element_bytes)
                )
            case Mesh():
                if instruction.send is not None:
                    mesh_words += instruction.send.steps * tiles
            case Pop():
                if instruction.memory is PopMemory.ACTIVATION:
                    size = chip.memories.activation_buffer.element_bytes
                    input_bytes += instruction.buffer.steps * size
            case Outfeed():
                if instruction.to_host:
                    size = chip.limits.host_output_unit
                    output_bytes += instruction.buffer.steps * size
    steps = max(tile_steps)
    cycles = phase.end - phase.begin
    return PhaseFigures(
        number=number,
        name=_name(issued, number, len(timeline.phases), phase.bundles),
        layer="",
        begin=phase.begin,
        end=phase.end,
        tile=tile,
        op_busy=op_busy[tile],
        steps=steps,
        macs=macs,
        utilization=done / (cycles * run.peak_macs) if cycles else 0.0,
        ring_rows=ring_rows,
        ring_bytes=ring_bytes,
        mesh_words=mesh_words,
        streamed=phase.streamed,
        input_bytes=input_bytes,
        output_bytes=output_bytes,
        busy=dict(busy),
        waits={unit: dict(causes) for unit, causes in waits.items()},
        critical=dict(critical),
        bound=max(critical, key=lambda what: critical[what]) if critical else "",
    )


def _unit_bytes(infeed: Infeed, chip: Chip) -> int:
    match infeed.memory:
        case InfeedMemory.PARAMETER:
            return chip.memories.parameter_buffer.element_bytes
        case InfeedMemory.ACTIVATION:
            return chip.memories.activation_buffer.element_bytes
        case InfeedMemory.SCALAR:
            return chip.memories.scalar.element_bytes


# --- names ---------------------------------------------------------------------------------------


def _name(issued: Iterable[Issued], number: int, count: int, bundles: int) -> str:
    issued = list(issued)
    parts = []
    main = _main_operation(issued)
    if any(_is_input(item) for item in issued):
        parts.append("input")
    if main is not None and (_is_layer(main) or not parts):
        parts.append(_operation(main))
    if any(isinstance(i.instruction, Outfeed) and i.instruction.to_host for i in issued):
        # What is copied on the way out is not a layer.
        if main is not None and not _is_layer(main):
            parts = parts[:-1]
        parts.append("output")
    if not parts:
        parts.append(_movement(issued, number, count, bundles))
    return " + ".join(parts)


def _is_input(item: Issued) -> bool:
    instruction = item.instruction
    return isinstance(instruction, Infeed) and instruction.memory is InfeedMemory.ACTIVATION


def _is_layer(item: Issued) -> bool:
    return not isinstance(item.instruction, TensorOp) or item.instruction.trained


def _main_operation(issued: list[Issued]) -> Issued | None:
    """The operation of most steps, among those with trained weights if there are any."""
    found = [item for item in issued if isinstance(item.instruction, TensorOp | Resize)]
    return max(found, key=lambda item: (_is_layer(item), item.steps), default=None)


def _movement(issued: list[Issued], number: int, count: int, bundles: int) -> str:
    instructions = [item.instruction for item in issued]
    if any(isinstance(item, RingProduce | Infeed) for item in instructions):
        return "move over the ring"
    mesh = [item for item in instructions if isinstance(item, Mesh)]
    if mesh:
        return "fill" if all(item.fill for item in mesh) else "halo"
    if any(isinstance(item, NarrowToWide | WideToNarrow) for item in instructions):
        return "repack"
    if number == 0:
        return "start"
    if number == count - 1:
        return "end"
    return "scalar core" if bundles > _MANY_BUNDLES else "fence"


_MANY_BUNDLES = 200
"""Bundles of a phase without instructions for tiles from which on it is the scalar core's."""


def _operation(item: Issued) -> str:
    op = item.instruction
    if not isinstance(op, TensorOp):
        return "resize"
    terms, positions, blocks = _extents(op)
    lanes = (blocks - 1) * op.lanes + op.lanes_last
    shape = _window(item)
    if op.op is not Opcode.MAC:
        name = op.op.name.lower()
        return f"{name} of {terms} terms" if positions == 1 else f"{name} pool, {terms} terms"
    if not op.trained:
        if terms == 1:
            return "non-linear function" if op.nlu else "copy"
        return f"mac of {terms} terms"
    if shape is None:
        return f"mac of {terms} terms -> {lanes}"
    window, channels, channelwise = shape
    size = "x".join(map(str, window)) or "1x1"
    if channelwise:
        return f"depthwise {size}, {lanes} channels"
    if positions == 1 and not window:
        return f"dense {channels} -> {lanes}"
    return f"conv {size}x{channels} -> {lanes}"


def _extents(op: TensorOp | Resize) -> tuple[int, int, int]:
    """Iterations of the loops that are summed over, that are positions, and that are blocks."""
    terms = positions = blocks = 1
    for k, loop in enumerate(op.loops):
        if op.reduction >> k & 1:
            terms *= loop
        elif k < op.block_level:
            positions *= loop
        else:
            blocks *= loop
    return terms, positions, blocks


def _window(item: Issued) -> tuple[tuple[int, ...], int, bool] | None:
    """Window, input channels, and whether each output block has input channels of its own.

    The dimensions of operand A are told apart by the loops that they are part of. Those of a
    reduction that follow each other without a gap are channels, unless windows would overlap in
    them. None if the dimensions do not divide the loops.
    """
    op = item.instruction
    if not isinstance(op, TensorOp) or op.a is None or not item.steps:
        return None
    bounds = [1]
    for loop in op.loops:
        bounds.append(bounds[-1] * loop)
    reduced: list[tuple[int, int]] = []
    position = 0
    channelwise = False
    inner = 1
    for dim in op.a.dims:
        if dim.count > 1:
            k = bisect_right(bounds, inner) - 1
            if k >= len(op.loops) or inner * dim.count > bounds[k + 1]:
                return None
            if op.reduction >> k & 1:
                reduced.append((abs(dim.stride), dim.count))
            elif k < op.block_level:
                step = abs(dim.stride)
                position = min(position, step) if position else step
            else:
                channelwise |= dim.stride != 0
        inner *= dim.count
    # All products of a step are counted, one for each lane.
    channels = max(1, item.macs // (item.steps * LANES))
    run = channels * (2 if op.a16 else 1)
    window: list[int] = []
    for stride, count in sorted(reduced):
        overlaps = position and run * count > position
        if channelwise or window or stride != run or overlaps:
            window.append(count)
        else:
            run *= count
            channels *= count
    return tuple(reversed(window)), channels, channelwise
