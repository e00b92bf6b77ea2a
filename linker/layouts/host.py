"""Bytes of tensors as the device wants and gives them.

The device computes with unsigned elements: the driver inverts the sign bit of signed ones, on the
way in and on the way out. Inputs are padded to the size of their buffers, outputs come in the
order of tiles. A layer that is executed several times per inference has all executions one after
the other, each padded.

Facts: the published driver of the Edge TPU.
"""

from __future__ import annotations

import numpy as np

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import Layer
from fitzroy.linker.layouts.relayout import Bytes, OutputMap, octets, output_map

_SIGN = 0x80


def flip_signs(data: Bytes, itemsize: int) -> Array:
    """Invert the highest bit of every element; its own inverse.

    Args:
        data: whole little-endian elements.
        itemsize: bytes per element.

    Returns:
        uint8, a copy.

    Raises:
        FormatError: the bytes are no whole number of elements.
    """
    copy = octets(data).copy()
    if len(copy) % itemsize:
        raise FormatError(f"{len(copy)} bytes are not elements of {itemsize} bytes")
    copy[itemsize - 1 :: itemsize] ^= _SIGN
    return copy


def encode_input(layer: Layer, data: Bytes) -> Array:
    """What the device gets for an input.

    Args:
        layer: the input.
        data: NHWC elements of all executions, packed.

    Returns:
        uint8[executions * size_bytes]; the padding is zero.

    Raises:
        FormatError: the size of the data or of the layer's buffer is wrong.
    """
    content = octets(data)
    executions, size = layer.execution_count_per_inference, layer.packed_bytes
    if len(content) != executions * size or size > layer.size_bytes:
        raise FormatError(
            f"{len(content)} bytes, expected {executions} of {size} bytes in {layer.size_bytes}",
            table=f"layer {layer.name!r}",
        )
    if size == layer.size_bytes:
        return np.array(_signs(layer, content))
    buffer = np.zeros((executions, layer.size_bytes), np.uint8)
    buffer[:, :size] = _signs(layer, content).reshape(executions, size)
    return buffer.reshape(-1)


def decode_output(layer: Layer, data: Bytes, places: OutputMap | None = None) -> Array:
    """The elements of an output, from what the device sent.

    Args:
        layer: the output.
        data: executions * size_bytes in tile order.
        places: `output_map` of the layer, for those who decode again and again.

    Returns:
        uint8, elements of all executions in y, x, z order, packed.

    Raises:
        FormatError: the size of the data is wrong, or elements are not inside the buffer.
    """
    places = places or output_map(layer)
    parts = _executions(layer, octets(data), layer.size_bytes)
    unpacked = [places.unpack(part) for part in parts]
    return _signs(layer, unpacked[0] if len(unpacked) == 1 else np.concatenate(unpacked))


def encode_output(layer: Layer, data: Bytes) -> Array:
    """What the device would send for an output; inverse of `decode_output`.

    Raises:
        FormatError: as `decode_output`.
    """
    places = output_map(layer)
    parts = _executions(layer, _signs(layer, octets(data)), places.packed_bytes)
    return np.concatenate([places.pack(part) for part in parts])


def _executions(layer: Layer, data: Array, size: int) -> Array:
    executions = layer.execution_count_per_inference
    if executions < 1 or len(data) != executions * size:
        raise FormatError(
            f"{len(data)} bytes, expected {executions} of {size} bytes",
            table=f"layer {layer.name!r}",
        )
    return data.reshape(executions, size)


def _signs(layer: Layer, data: Array) -> Array:
    return flip_signs(data, layer.element.itemsize) if layer.element.signed else data
