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

from fitzroy.base.errors import InternalError
from fitzroy.compiler.targets.edgetpu.fitting.wide import Assignment
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Weights
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS, Piece
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    TILES,
    Window,
)
from fitzroy.compiler.targets.edgetpu.program.records import (
    Numbers,
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
    kernel, stride, dilation, before = numbers = (
        window.kernel,
        window.stride,
        window.dilation,
        window.before,
    )
    taps = f"{kernel} at stride {stride}, dilation {dilation}, {before} before"
    if type(window) is Window:
        return Words("same element" if window == Window() else taps)
    name = type(window).__name__.strip("_").lower()
    return Words(name if numbers == (1, 1, 1, 0) else f"{name} {taps}")


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
