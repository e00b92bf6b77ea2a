"""The forms that a program takes between graph and object: as text, and what must hold of each.

`lower` shows each form to an observer as soon as it is there. A form is a value that says what a
stage has decided, without the data. Its text is deterministic and parses back to an equal form; a
form that breaks its rules is a fault of the code generator, found where it began.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np

from fitzroy.base.errors import InternalError
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.wide import Assignment
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Step, Weights
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS, Live, Piece
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    TILES,
    Image,
    Placed,
    TiledAxis,
    Window,
)
from fitzroy.compiler.targets.edgetpu.program.records import (
    Numbers,
    Ranges,
    Record,
    Words,
    parsed,
    printed,
)


class Form(ABC):
    """A program at one stage."""

    stage: ClassVar[str]
    """Name of the stage that made it."""

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """The form as text, line by line."""

    @abstractmethod
    def faults(self) -> Iterator[str]:
        """Every rule that it breaks."""

    def check(self) -> None:
        """Verify the form.

        Raises:
            InternalError: it breaks a rule.
        """
        for fault in self.faults():
            raise InternalError(f"{self.stage}: {fault}")


class Readable(Record, Form):
    """A form that its text says all of."""

    def lines(self) -> Iterator[str]:
        """The form as text, line by line."""
        return printed(self)

    @classmethod
    def parse(cls, text: str, path: str = "") -> Self:
        """The form with some text.

        Raises:
            FormatError: no form has it.
        """
        return parsed(cls, text, path)


Observer = Callable[[Form], None]
"""What is shown every form."""


def text(lines: Iterable[str]) -> str:
    """Lines as a file."""
    return "".join(f"{line}\n" for line in lines)


# --- layers --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Read(Record):
    """What a layer needs of an operand for an element of its result, in words."""

    template = "reads {name}: rows {rows}; columns {columns}"

    name: str
    rows: Words
    columns: Words


@dataclass(frozen=True)
class Written(Record):
    """How the result of a layer lies."""

    template = "writes {name} as {shape}"

    name: str
    shape: Words


@dataclass(frozen=True)
class Weighed(Record):
    """Parameters of a layer."""

    template = (
        "weights {name}: {kind}, {words} words of {lanes} lanes, {prefix} of prefix, "
        "{blocks} blocks, {nbytes} B"
    )

    name: str
    kind: Words
    words: int
    lanes: int
    prefix: int
    blocks: int
    nbytes: int

    @classmethod
    def of(cls, item: Weights) -> Weighed:
        """What the text says of weights."""
        kind = Words(item.kind.name.lower())
        size = len(item.data)
        return cls(item.name, kind, item.words, item.lanes, item.prefix, item.blocks, size)


@dataclass(frozen=True)
class LayerLine(Record):
    """A layer: what it is, and the node of the model that it comes from."""

    template = "{kind} {name} of node {origin}"

    kind: Words
    name: str
    origin: str
    reads: tuple[Read, ...]
    writes: tuple[Written, ...]
    weights: tuple[Weighed, ...]

    @classmethod
    def of(cls, layer: Layer) -> LayerLine:
        """What the text says of a layer."""
        windows = map(layer.windows, range(len(layer.reads)))
        return cls(
            Words(layer.kind),
            layer.name,
            layer.origin,
            tuple(
                Read(name, _window(rows), _window(columns))
                for name, (rows, columns) in zip(layer.reads, windows, strict=True)
            ),
            (Written(layer.writes, _shape(layer)),),
            tuple(map(Weighed.of, layer.weights)),
        )


def _shape(layer: Layer) -> Words:
    if layer.makes_vector:
        return Words("vector")
    return Words("image of the host" if layer.remote else "image")


def _window(window: Window) -> Words:
    """What an operator reads along an axis, in words; more than windows have a name."""
    size, stride, dilation = window.kernel, window.stride, window.dilation
    text = f"{size} at stride {stride}, dilation {dilation}, {window.before} before"
    if type(window) is Window:
        return Words("same element" if window == Window() else text)
    name = type(window).__name__.strip("_").lower()
    plain = (size, stride, dilation, window.before) == (1, 1, 1, 0)
    return Words(name if plain else f"{name} {text}")


@dataclass(frozen=True)
class Alias(Record):
    """A value that is the bytes of another value."""

    template = "alias {name} = {place}"

    name: str
    place: str


@dataclass(frozen=True)
class Legalized(Readable):
    """Machine-level layers.

    Attributes:
        layers: the layers in the order in which they run.
        aliases: values that are the bytes of another value.
    """

    stage = "legalized"

    layers: tuple[LayerLine, ...]
    aliases: tuple[Alias, ...]

    @classmethod
    def of(cls, layered: Layered) -> Legalized:
        """The form of layers."""
        return cls(
            tuple(map(LayerLine.of, layered.layers)),
            tuple(Alias(name, place) for name, place in layered.aliases.items()),
        )

    def faults(self) -> Iterator[str]:
        """What layers read that is not there, results of one name, and weights of one name."""
        places = {alias.name: alias.place for alias in self.aliases}
        known: set[str] = set()
        items: dict[str, Weighed] = {}
        for layer in self.layers:
            for read in layer.reads:
                if _place(read.name, places) not in known:
                    yield f"layer {layer.name!r} reads {read.name!r} before it is there"
            for written in layer.writes:
                if written.name in known:
                    yield f"layer {layer.name!r} writes {written.name!r}, which is there"
                known.add(written.name)
            for item in layer.weights:
                if items.setdefault(item.name, item) != item:
                    yield f"different weights are called {item.name!r}"


def _place(name: str, places: Mapping[str, str]) -> str:
    """The value that holds the bytes of a value; any of them if they are aliases in a circle."""
    seen: set[str] = set()
    while name in places and name not in seen:
        seen.add(name)
        name = places[name]
    return name


# --- narrow memory -------------------------------------------------------------------------------


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

    template = "step {number}: {kind} {name}, {scratch} B of scratch"

    number: int
    kind: Words
    name: str
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
        return cls(number, Words(layer.kind), layer.name, scratch, tuple(needs), part)


def _needs(layer: Layer, result: Image) -> Iterator[tuple[str, Ranges, Ranges]]:
    """What tiles need of each operand for what they own of a result."""
    for index, name in enumerate(layer.reads):
        rows, columns = layer.windows(index)
        yield (
            name,
            tuple(map(rows.needs, result.rows.owned)),
            tuple(map(columns.needs, result.columns.owned)),
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


# --- wide memory ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows(Record):
    """Rows that others have on each tile, and the first row that is not for parameters."""

    template = "rows {taken} are taken, {limit} rows at most"

    taken: Numbers
    limit: int


@dataclass(frozen=True)
class PieceLine(Record):
    """Rows of a tile that hold words of an operand."""

    template = "tile {tile}: rows {row} to {end}, group {group}"

    tile: int
    row: int
    end: int
    group: int


@dataclass(frozen=True)
class Held(Record):
    """Words of an operand, and those of them that stay on the chip."""

    template = "{name}: {kind}, {nbytes} B, {held} of {words} words on the chip"

    name: str
    kind: Words
    nbytes: int
    held: int
    words: int
    pieces: tuple[PieceLine, ...]

    @classmethod
    def of(cls, item: Weights, pieces: Iterable[Piece]) -> Held:
        """What the text says of weights in rows."""
        lines = tuple(
            PieceLine(piece.tile, piece.row, piece.row + piece.words, piece.group)
            for piece in pieces
        )
        held = sum(piece.end - piece.row for piece in lines)
        kind = Words(item.kind.name.lower())
        return cls(item.name, kind, len(item.data), held, item.words, lines)


@dataclass(frozen=True)
class Parameters(Readable):
    """Parameters in wide memory.

    Attributes:
        rows: rows that they may take.
        operands: all weights.
    """

    stage = "parameters"

    rows: tuple[Rows, ...]
    operands: tuple[Held, ...]

    @classmethod
    def of(cls, assignment: Assignment) -> Parameters:
        """The form of an assignment."""
        pieces = assignment.residency.pieces
        taken = assignment.schedule.layered.options.taken
        return cls(
            (Rows(taken, WIDE_ROWS - assignment.staging),),
            tuple(Held.of(item, pieces.get(item.name, ())) for item in assignment.weights),
        )

    @property
    def taken(self) -> list[int]:
        """Rows that others have on each tile."""
        return [count for rows in self.rows for count in rows.taken]

    @property
    def limit(self) -> int:
        """First row that is not for parameters."""
        return sum(rows.limit for rows in self.rows)

    def faults(self) -> Iterator[str]:
        """Operands in part, rows that two share, and rows that are not for parameters."""
        held: dict[int, list[tuple[int, int, str]]] = {}
        for item in self.operands:
            words = sum(piece.end - piece.row for piece in item.pieces)
            if words != item.held or words not in (0, item.words):
                yield f"{item.name!r} has {item.words} words and rows for {words}"
            for piece in item.pieces:
                held.setdefault(piece.tile, []).append((piece.row, piece.end, item.name))
        taken = dict(enumerate(self.taken))
        if len(taken) != TILES:
            yield f"rows of {len(taken)} tiles are taken, there are {TILES}"
        for tile, rows in sorted(held.items()):
            rows.sort()
            for (_, end, one), (begin, _, other) in pairwise(rows):
                if begin < end:
                    yield f"{one!r} and {other!r} share rows of tile {tile}"
            if tile not in taken or rows[0][0] < taken[tile] or rows[-1][1] > self.limit:
                yield (
                    f"rows {rows[0][0]} to {rows[-1][1]} of tile {tile} are not between "
                    f"{taken.get(tile)} and {self.limit}"
                )
