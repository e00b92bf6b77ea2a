"""What a machine-level operator is: operands in narrow memory, parameters, and how it is emitted.

Legalization turns every node of a graph into layers, which know how the result of a tile depends
on their operands (so that windows follow), what they keep in wide memory, and how to emit their
instructions. Everything that lies somewhere has got its place by then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.layers.halo import Blocks
from fitzroy.compiler.targets.edgetpu.layers.streaming import HostStream
from fitzroy.compiler.targets.edgetpu.memory.allocation import Piece
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image, Placed, Reach, Vector
from fitzroy.formats.object_file import UNIT_BYTES, OperandKind

Window = tuple[Reach, Reach]
"""What an operator reads along rows and along columns."""

POINT: Window = (Reach(), Reach())
"""The same element."""


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """Parameters of a layer in the layout of the hardware.

    Attributes:
        name: unique in the model.
        kind: where they may live.
        lanes: lanes of every word.
        prefix: words of scales, biases and zero points in front of every block.
        data: the words, uint8; filled up to 64 bytes.
        words: how many words.
        blocks: blocks of channels, all of which have as many words; of fully connected layers, each
            goes to a tile of its own.
    """

    name: str
    kind: OperandKind
    lanes: int
    prefix: int
    data: Array
    words: int
    blocks: int = 1

    @property
    def units(self) -> int:
        """Units of the data."""
        return len(self.data) // UNIT_BYTES

    def divided(self, count: int) -> tuple[Weights, Weights]:
        """The first blocks, and the others; neither is read in place."""
        words, nbytes = self.words // self.blocks * count, len(self.data) // self.blocks * count
        first = replace(
            self,
            name=f"{self.name}[:{count}]",
            kind=OperandKind.CONVOLUTION,
            data=self.data[:nbytes],
            words=words,
            blocks=count,
        )
        return first, replace(
            first,
            name=f"{self.name}[{count}:]",
            data=self.data[nbytes:],
            words=self.words - words,
            blocks=self.blocks - count,
        )


@dataclass(frozen=True, slots=True)
class Context:
    """What layers find when they are emitted.

    Attributes:
        builder: the program.
        tensors: places of tensors by name.
        pieces: where the words of each weights lie, by name; those without come from the host.
        identity: wide row of the 4 x 4 identity matrix, on every tile.
        scratch: byte address of narrow memory for the layer's own use.
        host: what comes from the host while the program runs.
        last: whether no later step sends another part of the same output.
    """

    builder: Builder
    tensors: Mapping[str, Placed]
    pieces: Mapping[str, Sequence[Piece]]
    identity: int
    scratch: int
    host: HostStream
    last: bool = True

    def streamed(self, name: str) -> bool:
        """Whether weights come from the host."""
        return name not in self.pieces

    def image(self, name: str) -> Image:
        """The place of an image."""
        found = self.tensors[name]
        assert isinstance(found, Image)
        return found

    def vector(self, name: str) -> Vector:
        """The place of a vector."""
        found = self.tensors[name]
        assert isinstance(found, Vector)
        return found


@dataclass(eq=False, kw_only=True)
class Layer(ABC):
    """A machine-level operator.

    Attributes:
        name: name of the node that it comes from, or of what it makes for that.
        reads: names of its operands.
        writes: name of its result.
        weights: its parameters.
        origin: name of the node that it comes from; that of the input that it takes.
    """

    makes_vector: ClassVar[bool] = False
    """Whether the result lies in blocks of channels on consecutive tiles."""

    gathers: ClassVar[bool] = False
    """Whether vectors that it reads may begin on any tile, and the one that it makes too."""

    remote: ClassVar[bool] = False
    """Whether the result is in the host's memory."""

    spreads: ClassVar[bool] = False
    """Whether a vector that it makes comes from the infeed, and begins on the first tile."""

    streams: ClassVar[bool] = False
    """Whether weights may come from the host: all, or the blocks from any on."""

    name: str
    reads: tuple[str, ...]
    writes: str
    weights: tuple[Weights, ...] = field(default=())
    origin: str = ""

    def windows(self, index: int) -> Window:
        """What an element of the result needs of an operand."""
        return POINT

    def completes(self, tensors: Mapping[str, Placed]) -> Blocks | None:
        """How its last phase computes the result, if windows may be filled in the same phase.

        No instruction then writes around what a tile owns. None if another phase is needed.
        """
        return None

    def scratch_bytes(self, tensors: Mapping[str, Placed]) -> int:
        """Narrow memory for its own use."""
        return 0

    @abstractmethod
    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows at the top of wide memory that it uses for data."""

    def streaming_rows(self, tensors: Mapping[str, Placed]) -> int:
        """These rows if weights come from the host."""
        return self.staging_rows(tensors)

    @abstractmethod
    def emit(self, context: Context) -> None:
        """Append its instructions; a phase has begun before, and another begins after."""


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
        """What it computes."""
        return self.tensors[self.layer.writes]


def filled(data: bytes | Array) -> Array:
    """Words of an operand, filled up to whole units."""
    raw = np.frombuffer(bytes(data), np.uint8)
    return np.concatenate([raw, np.zeros(-len(raw) % 64, np.uint8)])
