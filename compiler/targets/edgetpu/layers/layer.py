"""What is a machine-level operator?

A layer has operands in narrow memory, parameters in wide memory, and instructions. Legalization
turns every node of a graph into layers. A layer says which part of each operand a tile's result
depends on (windows follow from that), and which rows of wide memory and bytes of narrow memory it
uses for itself. `Layer.emit` writes its instructions once everything has an address.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.instructions.sync import Condition
from fitzroy.compiler.targets.edgetpu.layers.halo import Blocks, Progress, arrivals
from fitzroy.compiler.targets.edgetpu.layers.input_stream import InputStream
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import MatrixRows, Row
from fitzroy.compiler.targets.edgetpu.layers.options import Recipes
from fitzroy.compiler.targets.edgetpu.layers.streaming import HostStream
from fitzroy.compiler.targets.edgetpu.memory.allocation import Piece
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    WORD,
    Image,
    Interval,
    Kept,
    Placed,
    Vector,
    Window,
)
from fitzroy.formats.object_file import UNIT_BYTES, OperandKind
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.tensor import NluTable

Windows = tuple[Window, Window]
"""What an operator reads along rows and along columns."""

POINT: Windows = (Window(), Window())
"""The same element."""

PHASE_CYCLES = 700
"""Estimated cycles of a phase besides its steps: barriers, and the latency of the first weights."""


@dataclass(frozen=True, slots=True, eq=False)
class Deferred:
    """Words that are made when they are asked for, every time.

    Layers are made several times, and what is decided about them depends on sizes alone: words that
    are made for the program only save the time and the memory of all others.

    Attributes:
        nbytes: how many bytes they have.
        make: makes them, uint8.
    """

    nbytes: int
    make: Callable[[], Array]

    def __len__(self) -> int:
        return self.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Parameters of a layer in the layout of the hardware.

    Attributes:
        name: unique in the model.
        kind: where they may live.
        lanes: lanes of every word.
        prefix: words of scales, biases and zero points in front of every block.
        data: the words, uint8, or how to make them; filled up to 64 bytes.
        words: how many words.
        blocks: blocks of channels, all of which have as many words; of fully connected layers, each
            goes to a tile of its own.
        beside: name of the weights that are sent at the same time, on the other channel of the
            ring; empty if none are. Each of their owners sends a single message.
    """

    name: str
    kind: OperandKind
    lanes: int
    prefix: int
    data: Array | Deferred
    words: int
    blocks: int = 1
    beside: str = ""

    @property
    def units(self) -> int:
        """Units of 64 bytes that the data takes."""
        return len(self.data) // UNIT_BYTES

    @property
    def content(self) -> Array:
        """The words, uint8."""
        return self.data.make() if isinstance(self.data, Deferred) else self.data

    def parted(self, blocks: int, staged: int, rows: int) -> tuple[Weights, Weights]:
        """The same for both channels of the ring.

        Args:
            blocks: blocks that are sent one after the other.
            staged: words of a chunk, which blocks consist of after their prefix.
            rows: the last words of every chunk, which go to the second part.

        Returns:
            What channel B has, with the prefixes, and what channel A has.
        """
        size = WORD * self.lanes
        count = (self.words // blocks - self.prefix) // staged * blocks * rows
        name = f"{self.name}/beside"

        def chunks() -> tuple[Array, Array]:
            """The prefixes, and the words after them: uint8[blocks, chunks, staged, size]."""
            data = self.content[: self.words * size].reshape(blocks, -1, size)
            return data[:, : self.prefix], data[:, self.prefix :].reshape(blocks, -1, staged, size)

        def first() -> Array:
            prefixes, words = chunks()
            kept = words[:, :, : staged - rows].reshape(blocks, -1, size)
            return filled(np.concatenate([prefixes, kept], axis=1).reshape(-1))

        def other() -> Array:
            return filled(chunks()[1][:, :, staged - rows :].reshape(-1))

        def deferred(words: int, make: Callable[[], Array]) -> Deferred:
            return Deferred(-(-words * size // UNIT_BYTES) * UNIT_BYTES, make)

        left = self.words - count
        return (
            replace(self, data=deferred(left, first), words=left, beside=name),
            replace(
                self,
                name=name,
                prefix=0,
                data=deferred(count, other),
                words=count,
                beside=self.name,
            ),
        )

    def divided(self, count: int) -> tuple[Weights, Weights]:
        """The first blocks, and the others; neither is read in place."""
        words, nbytes = self.words // self.blocks * count, len(self.data) // self.blocks * count
        first = replace(
            self,
            name=f"{self.name}[:{count}]",
            kind=OperandKind.CONVOLUTION,
            data=Deferred(nbytes, lambda: self.content[:nbytes]),
            words=words,
            blocks=count,
        )
        return first, replace(
            first,
            name=f"{self.name}[{count}:]",
            data=Deferred(len(self.data) - nbytes, lambda: self.content[nbytes:]),
            words=self.words - words,
            blocks=self.blocks - count,
        )


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a phase brings an image from the host that it also reads.

    Attributes:
        image: the image.
        counted: what AVDATA has counted on each tile when its own part is complete.
    """

    image: Image
    counted: Sequence[int]

    def complete(self, tile: int) -> list[Condition]:
        """Conditions under which the op engine of a tile, which copies its own part, may read."""
        return arrivals(self.image, tile)


@dataclass(frozen=True, slots=True)
class Departure:
    """How a phase computes an image that it also sends to the host.

    Attributes:
        progress: what it counts while it computes.
        arriving: how it brings what it computes from, if it does.
    """

    progress: Progress
    arriving: Arrival | None = None

    def complete(self, axis: str, image: Image, sent: Image, tile: int) -> Condition:
        """Wait before a row is read until it is complete.

        Args:
            axis: axis of the rows.
            image: what the phase computes.
            sent: what it sends of that.
            tile: the tile.
        """
        before = 0 if self.arriving is None else self.arriving.counted[tile]
        (top, bottom), _ = image.owned(tile)
        (first, _), _ = sent.owned(tile)
        return self.progress.complete(axis, bottom - top, first - top, before)


@dataclass(frozen=True, slots=True)
class Flow:
    """What the phase of a step brings from the host, and sends there.

    Attributes:
        arriving: how this step brings what the next one reads, or the one before what this one
            reads; None if it was there before.
        departing: how this step computes what the next one sends, or the one before what this one
            sends; None if it was there before.
        above: rows at the top of wide memory for data of the steps before in the same phase.
        joined: whether the step runs in the phase of the one before.
        joins: whether the next step runs in the same phase.
    """

    arriving: Arrival | None = None
    departing: Departure | None = None
    above: int = 0
    joined: bool = False
    joins: bool = False

    @property
    def counts_rows(self) -> bool:
        """Whether what computes counts rows of its result instead of blocks of channels."""
        return self.departing is not None and self.departing.progress.by_rows

    def arrived(self, tile: int) -> list[Condition]:
        """What a tile waits for before it reads what the phase brings."""
        return [] if self.arriving is None else self.arriving.complete(tile)


@dataclass(frozen=True, slots=True)
class Context:
    """What layers find when they are emitted.

    Attributes:
        builder: the program.
        tensors: places of tensors by name.
        pieces: where the words of each weights lie, by name; those without come from the host.
        matrices: where small matrices lie.
        scratch: byte address of narrow memory for the layer's own use.
        host: what comes from the host while the program runs.
        inputs: the inputs among it.
        kept: parts of images in the host's scratch buffer, by the names of these images there.
        last: whether no later step sends another part of the same output.
        flow: what the phase of the step brings from the host, and sends there.
        recipes: ways to compute layers that are allowed.
    """

    builder: Builder
    tensors: Mapping[str, Placed]
    pieces: Mapping[str, Sequence[Piece]]
    matrices: MatrixRows
    scratch: int
    host: HostStream
    inputs: InputStream
    kept: Mapping[str, Kept] = field(default_factory=dict)
    last: bool = True
    flow: Flow = Flow()
    recipes: Recipes = Recipes()

    @property
    def top(self) -> int:
        """One past the last row of wide memory for data of the step."""
        return self.builder.staging - self.flow.above

    @property
    def identity(self) -> int:
        """Wide row of the identity matrix."""
        return self.matrices.identity

    def streamed(self, name: str) -> bool:
        """Whether weights come from the host."""
        return name not in self.pieces

    def image(self, name: str) -> Image:
        """The layout of an image, by name."""
        found = self.tensors[name]
        assert isinstance(found, Image)
        return found

    def vector(self, name: str) -> Vector:
        """The layout of a vector, by name."""
        found = self.tensors[name]
        assert isinstance(found, Vector)
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Layer(ABC):
    """A machine-level operator, which nothing changes: stages make others from it by `replace`.

    Attributes:
        name: name of the node that it comes from, or of what it makes for that.
        reads: names of its operands.
        writes: name of its result.
        weights: its parameters.
        origin: name of the node that it comes from; that of the input that it takes.
        table: the function that its output stage applies, which is loaded before the layer's phase.
    """

    kind: ClassVar[str]
    """The kind of the layer in words, for logs and texts: the name of its class."""

    makes_vector: ClassVar[bool] = False
    """Whether the result lies in blocks of channels on consecutive tiles."""

    fills_blocks: ClassVar[bool] = False
    """Whether it computes all lanes of a short last block after others, which is then like them."""

    gathers: ClassVar[bool] = False
    """Whether vectors that it reads may begin on any tile, and the one that it makes too."""

    early: ClassVar[bool] = False
    """Whether it may compute from its only operand in the phase in which this comes from the
    host."""

    remote: ClassVar[bool] = False
    """Whether the result is in the host's memory."""

    spreads: ClassVar[bool] = False
    """Whether a vector that it makes comes from the infeed, and begins on the first tile."""

    streams: ClassVar[bool] = False
    """Whether weights may come from the host: all, or the blocks from any on."""

    strips: ClassVar[bool] = False
    """Whether it computes any rectangle of an image from windows of others."""

    doubled: ClassVar[bool] = False
    """Whether it may read images with overlapping rectangles, though it computes no rectangle."""

    bands: ClassVar[bool] = True
    """Whether these rectangles may divide the columns that a tile owns."""

    exact: ClassVar[bool] = False
    """Whether it writes nothing around its result."""

    reading: ClassVar[bool] = False
    """Whether it writes nothing around its operands."""

    by_name: ClassVar[bool] = False
    """Whether it knows its operands by their names only, so that they may be others."""

    received: ClassVar[bool] = False
    """Whether the result is an input, which the host can send again."""

    returned: ClassVar[bool] = False
    """Whether the result comes back from the host, in whole rows."""

    compares: ClassVar[bool] = False
    """Whether it takes maxima. If only such layers read beyond the border of an image, the least
    byte surrounds it instead of zero."""

    word_steps: ClassVar[int] = 0
    """Steps for each word of the result, estimated; 0 if it takes its time otherwise."""

    name: str
    reads: tuple[str, ...]
    writes: str
    weights: tuple[Weights, ...] = field(default=())
    origin: str = ""
    table: NluTable | None = None

    def __init_subclass__(cls) -> None:
        name = cls.__name__.strip("_")
        cls.kind = "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()

    def windows(self, index: int) -> Windows:
        """What an element of the result needs of an operand."""
        return POINT

    def completes(self, tensors: Mapping[str, Placed]) -> Blocks | None:
        """How its last phase computes the result, if windows may be filled in the same phase.

        No instruction then writes around what a tile owns. None if another phase is needed.
        """
        return None

    def progress(self, tensors: Mapping[str, Placed]) -> Progress | None:
        """What its last phase counts, if the result may be sent to the host in the same phase.

        None if another phase is needed.
        """
        return None

    @property
    def matrices(self) -> tuple[Row, ...]:
        """Small matrices that it reads beside the identity; parameters leave room for them."""
        return ()

    @property
    def sends_result(self) -> bool:
        """Whether it sends its result to the host by itself."""
        return False

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for its own use."""
        return 0

    def columns_of(self, columns: Sequence[Interval], extent: int) -> int:
        """Columns of a tile that it takes its time for.

        Args:
            columns: what each column of the grid computes.
            extent: columns of the whole image.
        """
        return longest(columns)

    def cycles(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles of the tile that computes most; 0 if they are not estimated.

        Args:
            area: its rows and columns.
            groups: words of a pixel.
        """
        return word_cycles(area, groups, self.word_steps) if self.word_steps else 0.0

    def blocked(self, area: tuple[int, int], groups: int) -> float:
        """Estimated cycles that the host takes of it, if they are more than the chip's.

        Args:
            area: rows and columns of a tile.
            groups: words of a pixel.
        """
        return 0.0

    @abstractmethod
    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows at the top of wide memory that it uses for data."""

    def streaming_rows(self, tensors: Mapping[str, Placed]) -> int:
        """These rows if weights come from the host."""
        return self.staging_rows(tensors)

    @abstractmethod
    def emit(self, context: Context) -> None:
        """Append its instructions; a phase has begun before, and another begins after."""


@dataclass(frozen=True, slots=True, eq=False)
class Places(Mapping[str, Placed]):
    """Tensors of a strip by name: its own, and those of all steps.

    Attributes:
        local: its own.
        shared: those of all steps.
    """

    local: Mapping[str, Placed]
    shared: Mapping[str, Placed]

    def __getitem__(self, name: str) -> Placed:
        found = self.local.get(name)
        return self.shared[name] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter({**self.shared, **self.local})

    def __len__(self) -> int:
        return len({*self.shared, *self.local})


@dataclass(frozen=True, slots=True)
class Step:
    """A layer that runs once, and where its tensors are while it does.

    Attributes:
        layer: the layer.
        tensors: places of tensors by name.
        whole: the image that the result is a part of, if other steps compute its other parts.
        complete: whether the image is complete then.
    """

    layer: Layer
    tensors: Mapping[str, Placed]
    whole: Image | None = None
    complete: bool = True

    @property
    def result(self) -> Placed:
        """The layout of what the step computes."""
        return self.tensors[self.layer.writes]

    @property
    def cycles(self) -> float:
        """Estimated cycles of a layer that computes an image; 0 for others."""
        result = self.result
        if not isinstance(result, Image):
            return 0.0
        width = self.layer.columns_of(result.columns.owned, result.columns.extent)
        area, groups = (longest(result.rows.owned), width), result.depth // WORD
        return max(self.layer.cycles(area, groups), self.layer.blocked(area, groups))


def matrix_rows(layers: Iterable[Layer]) -> int:
    """Rows of every tile for small matrices of layers, those that several read once."""
    return 1 + sum(map(len, {layer.matrices for layer in layers}))


def longest(intervals: Iterable[Interval]) -> int:
    """Length of the longest of some intervals."""
    return max([end - begin for begin, end in intervals])


def word_cycles(area: tuple[int, int], groups: int, steps: float) -> float:
    """Estimated cycles of a layer that takes as long for every word of its result.

    Args:
        area: rows and columns of a tile.
        groups: words of a pixel.
        steps: steps for a word, on average.
    """
    height, width = area
    return height * width * groups * steps + BEAGLE.timing.phase


def filled(data: bytes | Array) -> Array:
    """Words of an operand, filled up to whole units."""
    raw = np.frombuffer(data, np.uint8)
    rest = -len(raw) % UNIT_BYTES
    return np.concatenate([raw, np.zeros(rest, np.uint8)]) if rest else raw
