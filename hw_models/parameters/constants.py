"""Operands that hold no trained weights: one-hot convolutions and the tables of SOFTMAX.

Compilers move elements between channels with convolutions whose weights are a single one per output
(RESHAPE, CONCATENATION and SPLIT of tensors with few channels, transposition of sequences). SOFTMAX
on the tiles reads tables.

Facts: parameter blobs of published compiled models; when a compiler chooses to use them is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.hw_models.parameters.layouts import (
    CHANNEL_GROUP,
    LANE_BYTES,
    TABLE_LANES,
    ConvolutionLayout,
    Prefix,
    TableLayout,
    round_up,
)
from fitzroy.hw_models.parameters.packing import Bytes, Parameters, pack

RUN_CHANNELS = 16
"""Most elements of a row that become channels at once: the fewest lanes of a dense layer."""


@dataclass(frozen=True, slots=True)
class Mover:
    """A one-hot convolution: what `one_hot` takes.

    Attributes:
        layout: its layout, without scales and zero points in memory.
        picks: for every output channel, the element of the window that it copies.
    """

    layout: ConvolutionLayout
    picks: tuple[int, ...]

    def pack(self) -> Bytes:
        """The bytes of the operand.

        Raises:
            UsageError: as `one_hot` does.
        """
        return pack(self.layout, one_hot(self.layout, self.picks))


def regroup(sources: Sequence[tuple[int, int]], *, fully_connected: bool) -> Mover:
    """The mover that puts channels of several groups of four side by side; it keeps its biases.

    Args:
        sources: for every output channel, the group of the window and the channel in the group.
        fully_connected: whether it acts on a vector rather than on every position of an image.
    """
    groups = 1 + max(group for group, _ in sources)
    layout = ConvolutionLayout(
        channels=len(sources), in_channels=CHANNEL_GROUP, kernel=(1, groups),
        prefix=Prefix(biases=True), fully_connected=fully_connected,
    )  # fmt: skip
    return Mover(layout, tuple(group * CHANNEL_GROUP + channel for group, channel in sources))


def merge(count: int, *, biases: bool) -> Mover:
    """The mover that makes channels of consecutive positions with one channel each.

    Args:
        count: number of positions.
        biases: whether it has biases, which are zero; RESHAPE has, a transposition has none.
    """
    layout = ConvolutionLayout(
        channels=count, in_channels=1, kernel=(1, count),
        prefix=Prefix(biases=biases), fully_connected=True,
    )  # fmt: skip
    return Mover(layout, tuple(range(count)))


def transposition(rows: int, channels: int) -> tuple[Mover, Mover, Mover]:
    """The movers that transpose the first two axes of a tensor [rows, columns, channels].

    The first makes positions of the channels, the second gathers the rows of one position, the
    third makes channels of positions again. Between them an element has a group of four channels to
    itself, of which it is the first. Only the first mover keeps biases.
    """
    spread = ConvolutionLayout(
        channels=channels * CHANNEL_GROUP, in_channels=channels, prefix=Prefix(biases=True)
    )
    gather = ConvolutionLayout(channels=rows * CHANNEL_GROUP, in_channels=1, kernel=(rows, 1))
    return (
        Mover(spread, _first_of_group(channels)),
        Mover(gather, _first_of_group(rows)),
        merge(channels, biases=False),
    )


def _first_of_group(count: int) -> tuple[int, ...]:
    groups = ((pick, *[-1] * (CHANNEL_GROUP - 1)) for pick in range(count))
    return tuple(pick for group in groups for pick in group)


def one_hot(layout: ConvolutionLayout, picks: Sequence[int]) -> Parameters:
    """Parameters that make every output channel a copy of one input element.

    Args:
        layout: a convolution without scales and zero points in memory.
        picks: for every output channel, the element of the window that it copies, counted through
            rows, columns and channels; negative for none.

    Raises:
        UsageError: the layout keeps scales or zero points, or a pick lies outside the window.
    """
    prefix, window = layout.prefix, int(np.prod(layout.weight_shape[1:]))
    if prefix.scales or prefix.zero_points:
        raise UsageError("a one-hot convolution keeps neither scales nor zero points")
    if len(picks) != layout.channels or max(picks) >= window:
        raise UsageError(f"picks {list(picks)} for {layout.channels} channels of {window} elements")
    weights = np.zeros((layout.channels, window), np.uint8)
    for channel, pick in enumerate(picks):
        if pick >= 0:
            weights[channel, pick] = 1
    return Parameters(
        weights.reshape(layout.weight_shape),
        np.zeros(1, np.uint8),
        np.zeros(layout.channels, np.int32) if prefix.biases else None,
    )


def softmax_layout(channels: int, *, unit_row: bool) -> TableLayout:
    """The layout of `softmax_table`."""
    return TableLayout(entries=3 * (round_up(channels, CHANNEL_GROUP) // CHANNEL_GROUP) + unit_row)


def softmax_table(channels: int, input_scale: float, *, unit_row: bool) -> Bytes:
    """The tables of a SOFTMAX on the tiles.

    Per group of four channels a word of zeros, twice, and a word of the input's scale; channels
    beyond the last hold the least integer, and the scale times the greatest float32 number.

    Args:
        channels: channels of the operator.
        input_scale: scale of its input.
        unit_row: whether a word that holds 1.0 follows; seen with 1001 channels, not with 10.

    Returns:
        uint8 of as many elements as `softmax_layout` takes.
    """
    width = round_up(channels, CHANNEL_GROUP)
    offsets = np.zeros(width, "<i4")
    offsets[channels:] = np.iinfo(np.int32).min
    factors = np.full(width, input_scale, "<f4")
    with np.errstate(over="ignore"):  # a scale above 1 gives infinity, which does as well
        factors[channels:] *= np.finfo(np.float32).max
    unit = [np.array([1, 0, 0, 0], "<f4")] if unit_row else []
    words = np.concatenate([part.view("<u4") for part in (offsets, offsets, factors, *unit)])
    groups = words.reshape(-1, CHANNEL_GROUP)
    table = np.zeros((len(groups), TABLE_LANES), "<u4")
    table[:, :CHANNEL_GROUP] = groups
    return table.view(np.uint8).reshape(-1)


def read_softmax_table(channels: int, data: Bytes, *, unit_row: bool) -> float:
    """The input scale that `softmax_table` was made for.

    Raises:
        FormatError: the bytes are no such table.
    """
    layout = softmax_layout(channels, unit_row=unit_row)
    if data.size != layout.nbytes:
        raise FormatError(f"{data.size} bytes for a table of {layout.nbytes}", table=str(layout))
    first = data.reshape(layout.entries, layout.word_bytes)[2 * (layout.entries // 3)]
    scale = float(first[:LANE_BYTES].view("<f4")[0])
    if not np.isfinite(scale) or scale <= 0:
        raise FormatError(f"input scale {scale} in a SOFTMAX table", table=str(layout))
    expected = softmax_table(channels, scale, unit_row=unit_row)
    differing = np.flatnonzero(data != expected)
    if differing.size:
        raise FormatError(
            f"{differing.size} bytes differ from a SOFTMAX table of input scale {scale}",
            offset=int(differing[0]),
            table=str(layout),
        )
    return scale
