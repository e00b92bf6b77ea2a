"""Parameters to bytes of the blob, and back.

Bytes that no parameter occupies are fixed too. Input channels beyond the last hold their lane's
zero point, so that they add nothing. Lanes up to the next multiple of four hold weights equal to
the first channel's zero point, a bias of zero, and the first channel's scale and zero point, or
zeros in a depthwise convolution. Lanes beyond those hold zeros, with a scale of one if there are
several blocks.

Facts: parameter blobs of published compiled models, reproduced byte for byte from their sources.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.types import Array
from fitzroy.hw_models.parameters.layouts import BLOCK_CHANNELS, FilterLayout, WordKind

Bytes = npt.NDArray[np.uint8]

_DTYPES = {
    WordKind.SCALE: np.dtype("<f4"),
    WordKind.BIAS: np.dtype("<i4"),
    WordKind.ZERO_POINT: np.dtype("<u4"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """The values of one operand.

    Attributes:
        weights: uint8, of the layout's `weight_shape`; signed weights are moved up by 128.
        zero_points: zero points of the weights, 0 to 255: one for each output channel if the
            layout holds them, else a single one, or None where it occurs nowhere in the bytes.
        biases: int32, one for each output channel; None if the layout has none.
        scales: float32, one for each output channel; None if the layout has none.
    """

    weights: Array
    zero_points: Array | None = None
    biases: Array | None = None
    scales: Array | None = None

    def vector(self, kind: WordKind) -> Array | None:
        """The values of one kind of prefix word."""
        by_kind = {
            WordKind.SCALE: self.scales,
            WordKind.BIAS: self.biases,
            WordKind.ZERO_POINT: self.zero_points,
        }
        return by_kind[kind]


def pack(layout: FilterLayout, parameters: Parameters) -> Bytes:
    """The bytes of an operand.

    Returns:
        uint8 of `layout.nbytes` elements.

    Raises:
        UsageError: the parameters do not fit the layout.
    """
    _check(layout, parameters)
    result = np.zeros(layout.nbytes, np.uint8)
    words = _words(layout, result)
    for position, kind in enumerate(layout.prefix.kinds):
        vector = parameters.vector(kind)
        assert vector is not None
        words[:, position] = _pack_vector(layout, kind, vector)
    lanes = np.zeros(layout.lane_shape, np.uint8)
    if parameters.zero_points is not None:
        lanes[: layout.filled_channels] = parameters.zero_points[0]
        lanes[: layout.channels] = parameters.zero_points.reshape(-1, 1, 1, 1)
    by_channel = np.moveaxis(parameters.weights, layout.channel_axis, 0)
    lanes[layout.weight_index] = by_channel.reshape(lanes[layout.weight_index].shape)
    _lane_view(layout, words)[...] = lanes.reshape(layout.split_shape)
    return result


def unpack(layout: FilterLayout, data: Bytes | bytes | memoryview) -> Parameters:
    """The parameters that an operand's bytes stand for; the exact inverse of `pack`.

    Raises:
        FormatError: the size is another, or bytes that no parameter occupies have unexpected
            values.
    """
    raw = np.frombuffer(data, np.uint8)
    if raw.size != layout.nbytes:
        raise FormatError(
            f"{raw.size} bytes for parameters that take {layout.nbytes}", table=str(layout)
        )
    words = _words(layout, raw)
    vectors = {
        kind: _unpack_vector(layout, kind, words[:, position])
        for position, kind in enumerate(layout.prefix.kinds)
    }
    lanes = _lane_view(layout, words).reshape(layout.lane_shape)
    shape = layout.weight_shape
    moved = np.moveaxis(np.empty(shape, bool), layout.channel_axis, 0).shape
    weights = np.moveaxis(lanes[layout.weight_index].reshape(moved), 0, layout.channel_axis)
    zero_points = vectors.get(WordKind.ZERO_POINT)
    if zero_points is None and layout.is_padded:
        padding = np.ones(layout.lane_shape, bool)
        padding[layout.weight_index] = False
        zero_points = lanes[padding][:1]
    elif zero_points is not None and zero_points.max() > 255:
        raise FormatError(f"zero point {zero_points.max()} exceeds 8 bits", table=str(layout))
    parameters = Parameters(
        np.ascontiguousarray(weights),
        None if zero_points is None else zero_points.astype(np.uint8),
        vectors.get(WordKind.BIAS),
        vectors.get(WordKind.SCALE),
    )
    differing = np.flatnonzero(pack(layout, parameters) != raw)
    if differing.size:
        raise FormatError(
            f"{differing.size} padding bytes of packed parameters have unexpected values",
            offset=int(differing[0]),
            table=str(layout),
        )
    return parameters


def _check(layout: FilterLayout, parameters: Parameters) -> None:
    weights, zero_points = parameters.weights, parameters.zero_points
    if weights.dtype != np.uint8 or weights.shape != layout.weight_shape:
        raise UsageError(
            f"weights are {weights.dtype}{list(weights.shape)}, "
            f"expected uint8{list(layout.weight_shape)}"
        )
    for kind in (WordKind.SCALE, WordKind.BIAS):
        vector = parameters.vector(kind)
        wanted = layout.channels if kind in layout.prefix.kinds else 0
        found = 0 if vector is None else vector.size
        if found != wanted:
            raise UsageError(f"{found} values of kind {kind.value}, expected {wanted}")
    if zero_points is None:
        if layout.prefix.zero_points or layout.is_padded:
            raise UsageError("zero points are absent but the layout needs them")
        return
    wanted = layout.channels if layout.prefix.zero_points else 1
    if zero_points.size != wanted:
        raise UsageError(f"{zero_points.size} zero points, expected {wanted}")
    if zero_points.min() < 0 or zero_points.max() > 255:
        raise UsageError(f"zero points {zero_points.min()} to {zero_points.max()} exceed 8 bits")


def _words(layout: FilterLayout, data: Bytes) -> Bytes:
    """View of an operand's bytes by block, word and byte."""
    shape = (layout.blocks, layout.block_words, layout.word_bytes)
    return data[: layout.content_bytes].reshape(shape)


def _lane_view(layout: FilterLayout, words: Bytes) -> Bytes:
    """View of the weight words as an array of `split_shape`."""
    shape = [layout.split_shape[axis] for axis in layout.word_axes]
    ordered = words[:, layout.prefix_words :].reshape(shape)
    return ordered.transpose(np.argsort(layout.word_axes))


def _pack_vector(layout: FilterLayout, kind: WordKind, values: Array) -> Bytes:
    """Prefix words [blocks, bytes] of one kind."""
    lanes = np.zeros(layout.blocks * layout.lanes, _DTYPES[kind])
    if kind is WordKind.SCALE and layout.channels > BLOCK_CHANNELS:
        lanes[:] = 1.0
    repeats = kind is not WordKind.BIAS and layout.repeats_first_channel
    lanes[layout.channels : layout.filled_channels] = values[0] if repeats else 0
    lanes[: layout.channels] = values
    return lanes.view(np.uint8).reshape(layout.blocks, layout.word_bytes)


def _unpack_vector(layout: FilterLayout, kind: WordKind, words: Bytes) -> Array:
    lanes = np.ascontiguousarray(words).view(_DTYPES[kind]).reshape(-1)
    return lanes[: layout.channels].astype(_DTYPES[kind].newbyteorder("="))
