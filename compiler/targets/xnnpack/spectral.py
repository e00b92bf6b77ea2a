"""Legalization of Fourier transforms of rows: products with matrices of sines and cosines.

XNNPACK has no complex numbers. What reads a spectrum takes its real or imaginary part, or its
absolute value; each is computed from the rows themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.shape import StridedSliceAttributes
from fitzroy.compiler.ops.spectral import FourierAttributes
from fitzroy.compiler.targets.xnnpack.rewriter import Leave, Rewriter

Wave = Callable[[Array], Array]
"""A function of angles, which is the part of a Fourier transform that is wanted."""


_MOST_ELEMENTS = 1 << 24
"""Largest matrix that a transform becomes."""


def real_part(r: Rewriter) -> None:
    """The real part of a spectrum; a cast of complex numbers to float32 gives that, too."""
    if r.call.type().dtype is DType.COMPLEX64:
        r.replace(_part(r, np.cos))


def imaginary_part(r: Rewriter) -> None:
    """The imaginary part of a spectrum."""
    r.replace(_part(r, lambda angle: -np.sin(angle)))


def complex_abs(r: Rewriter) -> None:
    """The root of the sum of the squares of both parts."""
    parts = [_part(r, np.cos), _part(r, np.sin)]
    squares = [r.emit("square", [part], r.out) for part in parts]
    total = r.emit("add", squares, r.out, ActivationAttributes())
    r.replace(r.emit("sqrt", [total], r.out))


def _part(r: Rewriter, wave: Wave) -> str:
    """One part of the spectrum that the node reads, in the node's shape.

    Raises:
        Leave: the node reads no spectrum of rows.
    """
    if r.out.dtype is not DType.FLOAT32:
        raise Leave
    source = r.graph.producer(r.call.operand(0).name)
    while source is not None and source.op == "reshape":
        source = r.graph.producer(str(source.inputs[0]))
    if source is None or not isinstance(source.attributes, FourierAttributes):
        raise Leave
    rows, columns = source.attributes.size
    if rows != 1:
        raise Leave
    name = str(source.inputs[0])
    shape = r.type(name).shape
    used = min(shape[-1], columns)
    if shape[-2] != 1 or used != shape[-1]:
        # What sticks out of the transform is left out.
        box = (*shape[:-2], 1, used)
        whole = StridedSliceAttributes((0,) * len(shape), box, (1,) * len(shape))
        name = r.emit("strided_slice", [name], r.type(name).with_shape(box), whole)
    if (columns // 2 + 1) * used > _MOST_ELEMENTS:
        raise Leave
    count = math.prod(shape[:-2])
    lines = r.reshape(name, (count, used))
    weights = r.constant(_matrix(wave, columns // 2 + 1, used, columns))
    result = r.out.with_shape((count, columns // 2 + 1))
    attributes = FullyConnectedAttributes()
    return r.reshape(r.emit("fully_connected", [lines, weights], result, attributes), r.out.shape)


def _matrix(wave: Wave, frequencies: int, used: int, columns: int) -> Array:
    """Waves [frequencies, used] of whole numbers of periods over `columns` places."""
    # Products of frequency and place are taken modulo a period, so that angles stay exact.
    places = np.outer(np.arange(frequencies), np.arange(used)) % columns
    found: Array = wave(places * (2 * np.pi / columns))
    return found
