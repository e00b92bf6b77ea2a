"""Softmax, padding, batched products and dynamic quantization."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, TensorType
from fitzroy.hw_models.numerics.requantization import quantized_range


def softmax(x: Array, beta: float = 1.0) -> npt.NDArray[np.float32]:
    """Softmax over the last dimension, in float32.

    Args:
        x: float32, at least one dimension.
        beta: factor of the exponents.
    """
    shifted = (x - x.max(axis=-1, keepdims=True)).astype(np.float32, copy=False)
    if beta != 1:
        shifted = shifted * np.float32(beta)
    power: npt.NDArray[np.float32] = np.exp(shifted)
    power *= np.float32(1) / power.sum(axis=-1, keepdims=True, dtype=np.float32)
    return power


def pad(
    x: Array,
    x_type: TensorType,
    *,
    before: Sequence[int],
    after: Sequence[int],
    value: float = 0.0,
) -> Array:
    """Pad with a constant real number.

    Args:
        x: the input; quantized integers are padded with the stored form of `value`.
        x_type: its type.
        before: elements to add before each dimension.
        after: elements to add after each dimension.
        value: the real number.
    """
    stored: float = value
    if x_type.quantization is not None:
        stored = quantized_range(value, value, x_type.quantization, x_type.dtype)[0]
    return np.pad(x, list(zip(before, after, strict=True)), constant_values=x.dtype.type(stored))


def batch_matmul(a: Array, b: Array, *, transpose_b: bool = False) -> Array:
    """``a @ b`` over the last two dimensions, with numpy's broadcasting of the others.

    Args:
        a: [..., M, K] float32.
        b: [..., K, N], or [..., N, K] if `transpose_b`.
        transpose_b: whether the last two dimensions of `b` are swapped.
    """
    product: Array = np.matmul(a, np.swapaxes(b, -1, -2) if transpose_b else b)
    return product


def concatenate(parts: Sequence[Array], axis: int) -> Array:
    """Concatenation of inputs that share one type."""
    return np.concatenate(parts, axis=axis)


def slice_box(x: Array, begin: Sequence[int], size: Sequence[int]) -> Array:
    """The box of `size` that begins at `begin`."""
    box = tuple(slice(b, b + s) for b, s in zip(begin, size, strict=True))
    return x[box]
