"""How the parameters of one operator lie in the blob and in wide memory.

The blob is a concatenation of operands, each padded with zero bytes to a multiple of 64. An operand
is a sequence of words. A word serves all lanes of one block of output channels with four bytes for
each lane: an effective scale, a bias, a zero point, or the weights of four input channels. The
words of a block are its prefix (scales, biases, zero points, as far as present), then its weights.

A word is a row of wide memory, except that words of four lanes share rows of 256 bytes, 16 to the
row.

Facts: parameter blobs of published compiled models, reproduced byte for byte from their sources.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from fitzroy.base.errors import UsageError

BLOCK_CHANNELS = 64
"""Output channels that one block of a convolution serves."""

CHANNEL_GROUP = 4
"""Input channels in one word; also the granularity of channels in narrow memory."""

BLOB_ALIGNMENT = 64
"""Bytes to which operands are padded in the blob; also the unit in which the blob is streamed."""

WIDE_ROW_BYTES = 256
"""Bytes of one row of wide memory."""

TABLE_LANES = 16
"""Lanes of a table's words; only the first four hold values."""

LANE_BYTES = 4
"""Bytes of one lane of a word."""


def round_up(count: int, unit: int) -> int:
    """The smallest multiple of `unit` that is not below `count`."""
    return -(-count // unit) * unit


class WordOrder(Enum):
    """Order of a convolution's weight words; the loop nest that reads them decides.

    Both are the same for kernels of one element and for up to four input channels.
    """

    IC_OUTER = "ic_outer"
    """For each group of input channels, the kernel's rows and columns."""

    IC_INNER = "ic_inner"
    """For each row and column of the kernel, the groups of input channels."""


class WordKind(Enum):
    """What a word holds for each of its lanes."""

    SCALE = "scale"
    """float32 factor from accumulator to output."""

    BIAS = "bias"
    """int32 addend of the accumulator."""

    ZERO_POINT = "zero_point"
    """uint32 zero point of the lane's weights."""

    WEIGHTS = "weights"
    """uint8 weights of four input channels."""

    TABLE = "table"
    """Constants of whatever kind."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Which vectors precede the weights of every block.

    Attributes:
        scales: effective scales in memory; else the instruction holds one for all channels.
        biases: biases; else they are zero.
        zero_points: zero points in memory; else the instruction holds one for all channels.
    """

    scales: bool = False
    biases: bool = False
    zero_points: bool = False

    @property
    def kinds(self) -> tuple[WordKind, ...]:
        """The prefix words in their order."""
        present = (self.scales, self.biases, self.zero_points)
        return tuple(kind for kind, there in zip(_PREFIX_ORDER, present, strict=True) if there)


_PREFIX_ORDER = (WordKind.SCALE, WordKind.BIAS, WordKind.ZERO_POINT)


@dataclass(frozen=True, slots=True)
class Word:
    """One word of an operand.

    Attributes:
        kind: what it holds.
        block: the block of output channels that it serves.
        index: position among the block's weight or table words; 0 for prefix words.
    """

    kind: WordKind
    block: int
    index: int = 0


@dataclass(frozen=True, kw_only=True)
class Layout(ABC):
    """Layout of one operand; sizes and rows follow from words and lanes."""

    @property
    @abstractmethod
    def lanes(self) -> int:
        """Lanes of every word."""

    @property
    @abstractmethod
    def word_count(self) -> int:
        """Words of the operand."""

    @abstractmethod
    def words(self) -> Iterator[Word]:
        """The words in the order of the blob."""

    @property
    def word_bytes(self) -> int:
        """Bytes of a word."""
        return LANE_BYTES * self.lanes

    @property
    def content_bytes(self) -> int:
        """Bytes of all words, without the padding after them."""
        return self.word_count * self.word_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the operand in the blob."""
        return round_up(self.content_bytes, BLOB_ALIGNMENT)

    @property
    def words_per_row(self) -> int:
        """Words in one row of wide memory."""
        return WIDE_ROW_BYTES // self.word_bytes if self.lanes == CHANNEL_GROUP else 1

    @property
    def row_bytes(self) -> int:
        """Bytes used of a row of wide memory; the last row may have fewer words."""
        return self.word_bytes * self.words_per_row

    @property
    def rows(self) -> int:
        """Rows of wide memory."""
        return -(-self.word_count // self.words_per_row)


@dataclass(frozen=True, kw_only=True)
class TableLayout(Layout):
    """Constant words of 16 lanes, one to a row: tables that an operator reads.

    Attributes:
        entries: number of words.
    """

    entries: int

    @property
    def lanes(self) -> int:
        """Sixteen."""
        return TABLE_LANES

    @property
    def word_count(self) -> int:
        """The number of entries."""
        return self.entries

    def words(self) -> Iterator[Word]:
        """The entries."""
        return (Word(WordKind.TABLE, 0, index) for index in range(self.entries))


@dataclass(frozen=True, kw_only=True)
class FilterLayout(Layout):
    """Layout of weights with the vectors that belong to them.

    Attributes:
        channels: output channels.
        kernel: height and width.
        prefix: which vectors precede the weights of every block.
    """

    channels: int
    kernel: tuple[int, int] = (1, 1)
    prefix: Prefix = Prefix()

    # --- what subclasses state -------------------------------------------------------------------

    channel_axis: ClassVar[int]
    """Axis of output channels in `weight_shape`."""

    block_channels: ClassVar[int]
    """Output channels of a full block."""

    repeats_first_channel: ClassVar[bool]
    """Whether lanes up to `filled_channels` hold the first scale and zero point, or zeros."""

    @property
    @abstractmethod
    def weight_shape(self) -> tuple[int, int, int, int]:
        """Shape of the weights, in TFLite's order of axes."""

    @property
    @abstractmethod
    def input_groups(self) -> int:
        """Groups of four input channels that every lane reads."""

    @property
    @abstractmethod
    def weight_index(self) -> tuple[Any, ...]:
        """Index of the weights, output channels first, in an array of `lane_shape`."""

    @property
    @abstractmethod
    def word_axes(self) -> tuple[int, ...]:
        """Axes of the weight words from the blob's slowest to its fastest.

        0 is the block, 1 the lane, 2 and 3 the kernel's row and column, 4 the group of input
        channels, 5 the input channel in the group.
        """

    # --- what follows ----------------------------------------------------------------------------

    @property
    def filled_channels(self) -> int:
        """Output channels rounded up to whole groups."""
        return round_up(self.channels, CHANNEL_GROUP)

    @property
    def lane_shape(self) -> tuple[int, int, int, int]:
        """Lanes of all blocks, kernel rows, kernel columns, input channels of whole groups."""
        return (self.blocks * self.lanes, *self.kernel, self.input_groups * CHANNEL_GROUP)

    @property
    def split_shape(self) -> tuple[int, ...]:
        """`lane_shape` by the axes that `word_axes` counts."""
        return (self.blocks, self.lanes, *self.kernel, self.input_groups, CHANNEL_GROUP)

    @property
    def is_padded(self) -> bool:
        """Whether zero points fill bytes of the weight words that no weight occupies."""
        filled = self.filled_channels * math.prod(self.lane_shape[1:])
        return math.prod(self.weight_shape) < filled

    @property
    def blocks(self) -> int:
        """Blocks of output channels."""
        return -(-self.channels // self.block_channels)

    @property
    def prefix_words(self) -> int:
        """Prefix words of one block."""
        return len(self.prefix.kinds)

    @property
    def weight_words(self) -> int:
        """Weight words of one block."""
        return self.input_groups * math.prod(self.kernel)

    @property
    def block_words(self) -> int:
        """Words of one block."""
        return self.prefix_words + self.weight_words

    @property
    def word_count(self) -> int:
        """Words of all blocks."""
        return self.blocks * self.block_words

    def words(self) -> Iterator[Word]:
        """The blocks, of each the prefix and then the weights."""
        kinds = self.prefix.kinds
        for block in range(self.blocks):
            yield from (Word(kind, block) for kind in kinds)
            yield from (Word(WordKind.WEIGHTS, block, index) for index in range(self.weight_words))

    def __post_init__(self) -> None:
        if min(*self.weight_shape) < 1:
            raise UsageError(f"weights of shape {list(self.weight_shape)} have no elements")


_AXES = {WordOrder.IC_OUTER: (0, 4, 2, 3, 1, 5), WordOrder.IC_INNER: (0, 2, 3, 4, 1, 5)}


@dataclass(frozen=True, kw_only=True)
class ConvolutionLayout(FilterLayout):
    """Parameters of a convolution or a fully connected layer.

    A fully connected layer over an image is a convolution whose kernel is the image; over a vector
    it has a kernel of one element. A depthwise convolution of a single input channel is an ordinary
    one. Stride, padding and dilation do not matter here.

    Attributes:
        in_channels: input channels.
        order: order of the weight words.
        fully_connected: whether up to four output channels take 16 lanes rather than 4.
    """

    in_channels: int
    order: WordOrder = WordOrder.IC_OUTER
    fully_connected: bool = False

    channel_axis = 0
    block_channels = BLOCK_CHANNELS
    repeats_first_channel = True

    @property
    def order_matters(self) -> bool:
        """Whether the two orders of words differ."""
        return self.input_groups > 1 and math.prod(self.kernel) > 1

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """Output channels, kernel rows, kernel columns, input channels."""
        return (self.channels, *self.kernel, self.in_channels)

    @property
    def lanes(self) -> int:
        """Enough for the channels of a block: 4 or a multiple of 16."""
        if self.channels > BLOCK_CHANNELS:
            return BLOCK_CHANNELS
        if self.channels <= CHANNEL_GROUP and not self.fully_connected:
            return CHANNEL_GROUP
        return round_up(self.channels, 16)

    @property
    def input_groups(self) -> int:
        """Groups of four input channels that every lane reads."""
        return -(-self.in_channels // CHANNEL_GROUP)

    @property
    def weight_index(self) -> tuple[Any, ...]:
        """Every lane reads every input channel."""
        return np.s_[: self.channels, :, :, : self.in_channels]

    @property
    def word_axes(self) -> tuple[int, ...]:
        """As the order of words says."""
        return _AXES[self.order]


@dataclass(frozen=True, kw_only=True)
class DepthwiseLayout(FilterLayout):
    """Parameters of a depthwise convolution with one output per input channel.

    A block is a group of four channels; the weights of one kernel element are a matrix of four by
    four with the weights on its diagonal.
    """

    channel_axis = 3
    block_channels = CHANNEL_GROUP
    repeats_first_channel = False

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """One, kernel rows, kernel columns, channels."""
        return (1, *self.kernel, self.channels)

    @property
    def lanes(self) -> int:
        """Four, one for each channel of a group."""
        return CHANNEL_GROUP

    @property
    def input_groups(self) -> int:
        """One, the same channels as the output."""
        return 1

    @property
    def weight_index(self) -> tuple[Any, ...]:
        """Every lane reads the input channel of its own number."""
        channel = np.arange(self.channels)
        return np.s_[channel, :, :, channel % CHANNEL_GROUP]

    @property
    def word_axes(self) -> tuple[int, ...]:
        """Kernel rows, then columns."""
        return _AXES[WordOrder.IC_OUTER]
