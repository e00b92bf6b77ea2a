"""The form of a program whose tensors have addresses: what lies where in narrow memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Step
from fitzroy.compiler.targets.edgetpu.memory.allocation import Live
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    Image,
    Placed,
    TiledAxis,
    needs_of,
)
from fitzroy.compiler.targets.edgetpu.program.records import Ranges, Record, Words
from fitzroy.compiler.targets.edgetpu.program.stages import Readable


@dataclass(frozen=True)
class Channels(Record):
    """Channels of an image, and bytes of a pixel."""

    template = "{channels} channels, {depth} B per pixel"

    channels: int
    depth: int


@dataclass(frozen=True)
class Blocks(Record):
    """Channels of a vector, and the tiles that have them."""

    template = "{channels} channels in {blocks} blocks from tile {first}"

    channels: int
    blocks: int
    first: int


@dataclass(frozen=True)
class AxisLine(Record):
    """What tiles own of an axis of an image, and what they keep."""

    template = "{axis} {extent}, owned {owned}, windows {window}, slack {slack}"

    axis: Words
    extent: int
    owned: Ranges
    window: Ranges
    slack: int

    @classmethod
    def of(cls, name: str, axis: TiledAxis) -> AxisLine:
        """What the text says of an axis."""
        return cls(Words(name), axis.extent, axis.owned, axis.window, axis.slack)

    def faults(self) -> Iterator[str]:
        """Tiles own an axis in their order, and keep what they own; those of strips leave gaps."""
        begins = [begin for begin, end in self.owned if begin < end]
        if begins != sorted(begins):
            yield f"{self.axis} are not owned in order"
        if len(self.owned) != len(self.window):
            yield f"{len(self.owned)} tiles own {self.axis}, {len(self.window)} keep some"
        for (begin, end), (first, last) in zip(self.owned, self.window, strict=False):
            if begin < end and not (first <= begin and end <= last):
                yield f"a tile owns {self.axis} {begin}:{end} and keeps {first}:{last}"


@dataclass(frozen=True)
class Over(Record):
    """Another tensor that one may lie over while both live, and how far after it it may begin."""

    template = "over {name}: at most {below} bytes after its first, or at least {above}"

    name: str
    below: int
    above: int


@dataclass(frozen=True)
class Tensor(Record):
    """Bytes of a tensor on every tile, and the steps in which it is there."""

    template = "{name}: bytes {base} to {end}, steps {begin} to {last}"

    name: str
    base: int
    end: int
    begin: int
    last: int
    layout: tuple[Channels | Blocks, ...]
    axes: tuple[AxisLine, ...]
    over: tuple[Over, ...]

    @classmethod
    def of(cls, live: Live) -> Tensor:
        """What the text says of a tensor that has an address."""
        tensor, overlap = live.tensor, live.overlap
        return cls(
            tensor.name,
            tensor.base,
            tensor.base + tensor.nbytes,
            live.begin,
            live.end,
            (_layout(tensor),),
            _axes(tensor),
            () if overlap is None else (Over(overlap.tensor.name, overlap.below, overlap.above),),
        )

    def clears(self, other: Tensor) -> bool:
        """Whether it may be where it is, over another tensor that begins before it does."""
        return any(
            over.name == other.name and not over.below < self.base - other.base < over.above
            for over in self.over
        )

    def holds(self, needs: Needs) -> bool:
        """Whether tiles keep what they need of it."""
        windows = [axis.window for axis in self.axes]
        parts = [needs.rows, needs.columns]
        return len(windows) == len(parts) and all(map(_inside, parts, windows))


def _layout(tensor: Placed) -> Channels | Blocks:
    if isinstance(tensor, Image):
        return Channels(tensor.channels, tensor.depth)
    return Blocks(tensor.channels, tensor.blocks, tensor.first)


def _axes(tensor: Placed) -> tuple[AxisLine, ...]:
    if not isinstance(tensor, Image):
        return ()
    return AxisLine.of("rows", tensor.rows), AxisLine.of("columns", tensor.columns)


@dataclass(frozen=True)
class Needs(Record):
    """What tiles read of an image in a step, borders of padding included."""

    template = "reads {name}: rows {rows}; columns {columns}"

    name: str
    rows: Ranges
    columns: Ranges


@dataclass(frozen=True)
class Part(Record):
    """What tiles compute of an image in a step, if others compute its other parts."""

    template = "part of {name}: rows {rows}; columns {columns}"

    name: str
    rows: Ranges
    columns: Ranges


@dataclass(frozen=True)
class StepLine(Record):
    """A layer that runs once, and narrow memory that it uses for itself."""

    template = "step {number}: {kind} {name} of node {origin}, {scratch} B of scratch"

    number: int
    kind: Words
    name: str
    origin: str
    scratch: int
    needs: tuple[Needs, ...]
    part: tuple[Part, ...]

    @classmethod
    def of(cls, number: int, step: Step, scratch: int) -> StepLine:
        """What the text says of a step."""
        layer, result = step.layer, step.result
        needs, part = list[Needs](), tuple[Part, ...]()
        if isinstance(result, Image) and layer.strips:
            needs = [
                Needs(name, rows, columns)
                for name, rows, columns in _needs(layer, result)
                if (rows, columns) != (result.rows.owned, result.columns.owned)
            ]
        if isinstance(result, Image) and step.whole is not None:
            part = (Part(step.whole.name, result.rows.owned, result.columns.owned),)
        kind, name = Words(layer.kind), layer.name
        return cls(number, kind, name, layer.origin, scratch, tuple(needs), part)


def _needs(layer: Layer, result: Image) -> Iterator[tuple[str, Ranges, Ranges]]:
    """What tiles need of each operand for what they own of a result."""
    for index, name in enumerate(layer.reads):
        rows, columns = layer.windows(index)
        yield (
            name,
            needs_of(rows, result.rows.owned),
            needs_of(columns, result.columns.owned),
        )


@dataclass(frozen=True)
class Capacity(Record):
    """Bytes of narrow memory, and what the identity matrix takes of it before the first step."""

    template = "{nbytes} B of narrow memory, {identity} B for the identity matrix"

    nbytes: int
    identity: int


@dataclass(frozen=True)
class Allocated(Readable):
    """Tensors in narrow memory.

    Attributes:
        capacity: narrow memory.
        tensors: tensors with their addresses, and when they are there; step 1 is the first layer.
        steps: the steps.
    """

    stage = "allocated"

    capacity: tuple[Capacity, ...]
    tensors: tuple[Tensor, ...]
    steps: tuple[StepLine, ...]

    @classmethod
    def of(cls, schedule: Schedule) -> Allocated:
        """The form of a schedule with addresses."""
        identity, *scratch = schedule.scratch
        nbytes = schedule.layered.options.narrow_bytes
        lives = sorted(schedule.lives, key=lambda live: (live.begin, live.tensor.base))
        steps = enumerate(zip(schedule.steps, scratch, strict=True), 1)
        return cls(
            (Capacity(nbytes, identity),),
            tuple(map(Tensor.of, lives)),
            tuple(StepLine.of(number, step, own) for number, (step, own) in steps),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of narrow memory."""
        return sum(item.nbytes for item in self.capacity)

    @property
    def scratch(self) -> list[int]:
        """Bytes at the top that the identity matrix, and then each step, use for themselves."""
        return [
            *(item.identity for item in self.capacity),
            *(step.scratch for step in self.steps),
        ]

    def faults(self) -> Iterator[str]:
        """Tensors that leave the memory or overlap while both live, and windows that lack bytes."""
        scratch = self.scratch
        for tensor in self.tensors:
            limit = self.nbytes - max(scratch[tensor.begin : tensor.last + 1], default=0)
            if not 0 <= tensor.base <= tensor.end <= limit:
                yield f"{tensor.name!r} is not below byte {limit}"
            for axis in tensor.axes:
                for fault in axis.faults():
                    yield f"{tensor.name!r}: {fault}"
        yield from self._overlaps()
        yield from self._missing()

    def _overlaps(self) -> Iterator[str]:
        columns = ("base", "end", "begin", "last")
        every = np.array(
            [[getattr(tensor, name) for name in columns] for tensor in self.tensors], np.int64
        ).reshape(-1, 4)
        for number, one in enumerate(self.tensors):
            base, end, begin, last = every[number + 1 :].T
            both = (begin <= one.last) & (one.begin <= last)
            shared = (base < one.end) & (one.base < end) & (base < end) & (one.base < one.end)
            for place in np.flatnonzero(both & shared):
                other = self.tensors[number + 1 + int(place)]
                if not (one.clears(other) or other.clears(one)):
                    yield f"{one.name!r} and {other.name!r} overlap"

    def _missing(self) -> Iterator[str]:
        """What steps read of images outside of windows."""
        named: dict[str, list[Tensor]] = {}
        for tensor in self.tensors:
            named.setdefault(tensor.name, []).append(tensor)
        for step in self.steps:
            for needs in step.needs:
                # Every strip has an image of its own with the same name.
                there = [
                    tensor
                    for tensor in named.get(needs.name, ())
                    if tensor.begin <= step.number <= tensor.last
                ]
                if not there:
                    yield f"step {step.number} reads {needs.name!r}, which is not there"
                elif not any(tensor.holds(needs) for tensor in there):
                    yield f"step {step.number} reads more of {needs.name!r} than tiles keep"


def _inside(parts: Ranges, windows: Ranges) -> bool:
    """Whether windows hold what is needed of each."""
    return len(parts) == len(windows) and all(
        begin >= end or (first <= begin and end <= last)
        for (begin, end), (first, last) in zip(parts, windows, strict=True)
    )
