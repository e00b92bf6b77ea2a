"""The forms that a program takes between graph and object: as text, and what must hold of each.

`lower` shows each form to an observer as soon as it is there. Texts are deterministic; a form that
breaks its rules is a fault of the code generator, found where it began.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from fitzroy.base.errors import InternalError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Step, Weights
from fitzroy.compiler.targets.edgetpu.memory.allocation import Live, Piece
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, Axis, Image, Placed, Reach
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import chunk as whole_chunk


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


Observer = Callable[[Form], None]
"""What is shown every form."""


def kind_of(layer: Layer) -> str:
    """What a layer is, in words."""
    name = type(layer).__name__
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


@dataclass(frozen=True)
class Legalized(Form):
    """Machine-level layers.

    Attributes:
        graph: the graph.
        layers: the layers in the order in which they run.
        aliases: values that are the bytes of another value.
    """

    stage = "legalized"

    graph: Graph
    layers: Sequence[Layer]
    aliases: Mapping[str, str]

    def lines(self) -> Iterator[str]:
        """Every layer with what it reads and writes."""
        for number, layer in enumerate(self.layers, 1):
            yield f"{number:03} {kind_of(layer)} {layer.name!r} of node {layer.origin!r}"
            for index, name in enumerate(layer.reads):
                rows, columns = map(_reach, layer.windows(index))
                yield f"    reads {name!r}: rows {rows}; columns {columns}"
            yield f"    writes {layer.writes!r}{' as a vector' if layer.makes_vector else ''}"
            for item in layer.weights:
                yield (
                    f"    weights {item.name!r}: {item.kind.name.lower()}, {item.words} words of "
                    f"{item.lanes} lanes, {item.prefix} of prefix, {item.blocks} blocks, "
                    f"{len(item.data)} B"
                )
        for name, other in self.aliases.items():
            yield f"alias {name!r} = {other!r}"

    def faults(self) -> Iterator[str]:
        """What layers read that is not there, and weights of one name."""
        known = set(self.graph.inputs)
        for layer in self.layers:
            for name in layer.reads:
                if self._place(name) not in known:
                    yield f"layer {layer.name!r} reads {name!r} before it is there"
            known.add(layer.writes)
        items = {id(item): item for layer in self.layers for item in layer.weights}
        names = [item.name for item in items.values()]
        if len(set(names)) != len(names):
            yield "names of weights repeat"

    def _place(self, name: str) -> str:
        while name in self.aliases:
            name = self.aliases[name]
        return name


def _reach(reach: Reach) -> str:
    if reach == Reach():
        return "same element"
    return (
        f"{reach.kernel} at stride {reach.stride}, dilation {reach.dilation}, {reach.before} before"
    )


@dataclass(frozen=True)
class Allocated(Form):
    """Tensors in narrow memory.

    Attributes:
        lives: tensors with their addresses, and when they are there; step 0 takes the inputs.
        steps: the steps.
        scratch: bytes at the top that the inputs, and then each step, use for themselves.
        narrow_bytes: bytes of narrow memory.
    """

    stage = "allocated"

    lives: Sequence[Live]
    steps: Sequence[Step]
    scratch: Sequence[int]
    narrow_bytes: int

    def lines(self) -> Iterator[str]:
        """Every tensor with its bytes, windows and life, then the steps."""
        for live in sorted(self.lives, key=lambda live: (live.begin, live.tensor.base)):
            tensor = live.tensor
            yield (
                f"{tensor.name!r}: bytes {tensor.base} to {_end(tensor)}, steps {live.begin} to "
                f"{live.end}"
            )
            if isinstance(tensor, Image):
                yield f"    {tensor.channels} channels, {tensor.depth} B per pixel"
                yield f"    rows {_axis(tensor.rows)}"
                yield f"    columns {_axis(tensor.columns)}"
            else:
                yield f"    {tensor.channels} channels in {tensor.blocks} blocks from tile " + str(
                    tensor.first
                )
        for number, step in enumerate(self.steps, 1):
            yield (
                f"step {number}: {kind_of(step.layer)} {step.layer.name!r}, "
                f"{self.scratch[number]} B of scratch"
            )
            result = step.result
            if step.whole is not None and isinstance(result, Image):
                yield f"    part of {step.whole.name!r}"
                yield f"    rows {_ranges(result.rows.owned)}"
                yield f"    columns {_ranges(result.columns.owned)}"

    def faults(self) -> Iterator[str]:
        """Tensors that overlap while both live or leave the memory; windows that lack bytes."""
        for live in self.lives:
            limit = self.narrow_bytes - max(self.scratch[live.begin : live.end + 1], default=0)
            if live.tensor.base < 0 or _end(live.tensor) > limit:
                yield f"{live.tensor.name!r} is not below byte {limit}"
        for number, one in enumerate(self.lives):
            for other in self.lives[number + 1 :]:
                low, high = one.refuses(other)
                if low < other.tensor.base < high:
                    yield f"{one.tensor.name!r} and {other.tensor.name!r} overlap"
        for live in self.lives:
            if isinstance(live.tensor, Image):
                for axis in (live.tensor.rows, live.tensor.columns):
                    yield from _windows(live.tensor.name, axis)


def _end(tensor: Placed) -> int:
    return tensor.base + tensor.nbytes


def _axis(axis: Axis) -> str:
    return f"{axis.extent}, owned {_ranges(axis.owned)}, windows {_ranges(axis.window)}"


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{begin}:{end}" for begin, end in ranges)


def _windows(name: str, axis: Axis) -> Iterator[str]:
    """Tiles own an axis in their order, and keep what they own; those of strips leave gaps."""
    begins = [begin for begin, end in axis.owned if begin < end]
    for (begin, end), (first, last) in zip(axis.owned, axis.window, strict=True):
        if begin < end and not (first <= begin and end <= last):
            yield f"{name!r}: a tile owns {begin}:{end} and keeps {first}:{last}"
    if begins != sorted(begins):
        yield f"{name!r} is not owned in order: {axis.owned}"


@dataclass(frozen=True)
class Parameters(Form):
    """Parameters in wide memory.

    Attributes:
        weights: all weights.
        pieces: rows of each that stay on the chip, by name.
        taken: rows that others have on each tile.
        limit: first row that is not for parameters.
    """

    stage = "parameters"

    weights: Sequence[Weights]
    pieces: Mapping[str, Sequence[Piece]]
    taken: Sequence[int]
    limit: int

    def lines(self) -> Iterator[str]:
        """The rows of every operand."""
        yield f"rows {' '.join(map(str, self.taken))} are taken, {self.limit} rows at most"
        for item in self.weights:
            pieces = self.pieces.get(item.name, ())
            held = sum(piece.words for piece in pieces)
            yield f"{item.name!r}: {held} of {item.words} words on the chip"
            for piece in pieces:
                yield (
                    f"    tile {piece.tile}: rows {piece.row} to {piece.row + piece.words}, "
                    f"group {piece.group}"
                )

    def faults(self) -> Iterator[str]:
        """Rows that two operands share, or that are not for parameters."""
        held: dict[int, list[tuple[int, int, str]]] = {tile: [] for tile in range(TILES)}
        for name, pieces in self.pieces.items():
            for piece in pieces:
                held[piece.tile].append((piece.row, piece.row + piece.words, name))
        for tile, rows in held.items():
            rows.sort()
            for (_, end, one), (begin, _, other) in pairwise(rows):
                if begin < end:
                    yield f"{one!r} and {other!r} share rows of tile {tile}"
            if rows and (rows[0][0] < self.taken[tile] or rows[-1][1] > self.limit):
                yield (
                    f"rows {rows[0][0]} to {rows[-1][1]} of tile {tile} are not between "
                    f"{self.taken[tile]} and {self.limit}"
                )


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the instructions of a step begin.

    Attributes:
        name: what the step is.
        layer: name of its layer, empty for inputs and outputs.
        chunk: number of the chunk.
        bundle: bundle in the chunk, behind its START.
        origin: the node that the layer comes from, or the input that it takes; empty for the end.
    """

    name: str
    layer: str
    chunk: int
    bundle: int
    origin: str = ""


@dataclass(frozen=True)
class Emitted(Form):
    """Instructions, by the steps that they belong to and the phases that fences make of them.

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

    def step_at(self, chunk: int, bundle: int) -> Mark | None:
        """The step that the instruction in some place belongs to; None for what precedes all."""
        before = [mark for mark in self.marks if (mark.chunk, mark.bundle) <= (chunk, bundle)]
        return before[-1] if before else None

    def origin(self, chunk: int, bundle: int) -> str:
        """What the instruction in some place comes from, as `Mark.origin`; empty for no step."""
        step = self.step_at(chunk, bundle)
        return "" if step is None else step.origin

    def lines(self) -> Iterator[str]:
        """Steps, and in each its phases: what begins them, and how much there is to do."""
        marks = list(self.marks)
        for (chunk, bundle), fence, counts in self._phases():
            while marks and (marks[0].chunk, marks[0].bundle) <= (chunk, bundle):
                mark = marks.pop(0)
                yield f"{mark.chunk}:{mark.bundle} {mark.name}"
            work = ", ".join(f"{name.lower()} {count}" for name, count in counts.items())
            yield f"  {chunk}:{bundle} {fence}: {work or 'nothing'}"

    def _phases(self) -> Iterator[tuple[tuple[int, int], str, Counter[str]]]:
        """Places where phases or steps begin, what begins them, and instructions behind that."""
        begins = {(mark.chunk, mark.bundle) for mark in self.marks}
        place, fence, counts = (0, 0), "begin", Counter[str]()
        for chunk, bundle, instruction in self.program:
            resets = isinstance(instruction, TileFence) and bool(instruction.set)
            if (resets or (chunk, bundle) in begins) and counts:
                yield place, fence, counts
                place, fence, counts = (chunk, bundle), "goes on", Counter()
            if isinstance(instruction, TileFence) and resets:
                fence = "all tiles" if instruction.signal else "each tile"
            counts[instruction.op.name] += 1
        yield place, fence, counts

    def faults(self) -> Iterator[str]:
        """Steps out of order, and signals of tiles that nobody waits for, or waits without one."""
        places = [(mark.chunk, mark.bundle) for mark in self.marks]
        if places != sorted(places):
            yield "steps are not in the order of their instructions"
        signalled = False
        for chunk, bundle, instruction in self.program:
            signals = isinstance(instruction, TileFence) and instruction.signal
            waits = isinstance(instruction, ScalarFence) and instruction.wait_tiles
            if signals and signalled:
                yield f"tiles signal twice at {chunk}:{bundle}"
            if waits and not signalled:
                yield f"nobody signals what {chunk}:{bundle} waits for"
            signalled = (signalled or signals) and not waits
        if signalled:
            yield "nobody waits for the last signal of the tiles"


def text(lines: Iterable[str]) -> str:
    """Lines as a file."""
    return "".join(f"{line}\n" for line in lines)
