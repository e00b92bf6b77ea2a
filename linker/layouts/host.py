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
from fitzroy.base.memory import Pool
from fitzroy.base.types import Array
from fitzroy.formats.darwinn import Layer
from fitzroy.linker.layouts.relayout import Bytes, OutputMap, octets, output_map

_SIGN = np.uint8(0x80)


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
    content = octets(data)
    if itemsize == 1:
        return content ^ _SIGN
    if len(content) % itemsize:
        raise FormatError(f"{len(content)} bytes are not elements of {itemsize} bytes")
    copy = content.copy()
    copy[itemsize - 1 :: itemsize] ^= _SIGN
    return copy


class InputEncoder:
    """What the device gets for an input, for those who encode again and again.

    Args:
        layer: the input.
    """

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._executions = layer.execution_count_per_inference
        self._size = layer.packed_bytes
        self._padded = layer.size_bytes
        self._signed = layer.element.itemsize if layer.element.signed else 0
        self._pool = Pool()

    def __call__(self, data: Bytes, *, lent: bool = False) -> Array:
        """The bytes of an input.

        Args:
            data: NHWC elements of all executions, packed.
            lent: whether the result may be a view of the data.

        Returns:
            uint8[executions * size_bytes]; the padding is zero.

        Raises:
            FormatError: the size of the data or of the layer's buffer is wrong.
        """
        content = octets(data)
        executions, size, padded = self._executions, self._size, self._padded
        if len(content) != executions * size or size > padded:
            raise FormatError(
                f"{len(content)} bytes, expected {executions} of {size} bytes in {padded}",
                table=f"layer {self._layer.name!r}",
            )
        if self._signed:
            content = flip_signs(content, self._signed)
        elif size == padded and not lent:
            content = content.copy()
        if size == padded:
            return content
        buffer = self._pool.take(executions * padded).reshape(executions, padded)
        buffer[:, size:] = 0
        buffer[:, :size] = content.reshape(executions, size)
        return buffer.reshape(-1)

    def pieces(self, data: Bytes, unit: int) -> tuple[Array, ...]:
        """The bytes of an input that stays as it is, the larger part of them as a view if possible.

        Args:
            data: as for a call.
            unit: all pieces but the last are whole multiples of so many bytes.

        Returns:
            uint8 each; one after the other, they are the result of a call.

        Raises:
            FormatError: as a call.
        """
        content = octets(data)
        cut = len(content) // unit * unit
        bare = not self._signed and self._executions == 1 and len(content) == self._size
        if not bare or self._size >= self._padded or not cut:
            return (self(data, lent=True),)
        rest = np.zeros(self._padded - cut, np.uint8)
        rest[: self._size - cut] = content[cut:]
        return content[:cut], rest


def encode_input(layer: Layer, data: Bytes) -> Array:
    """What the device gets for an input; see `InputEncoder`."""
    return InputEncoder(layer)(data)


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
    if layer.execution_count_per_inference == 1 and len(data) == layer.size_bytes:
        return _signs(layer, places.unpack(data))
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
