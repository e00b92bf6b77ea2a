"""Fourier transforms, and the parts of the complex numbers that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    define,
    demand,
)
from fitzroy.compiler.ops.shape import static
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic


@dataclass(frozen=True)
class FourierAttributes(Attributes):
    """Attributes of a transform: rows and columns to which images are cut or filled with zeros."""

    size: tuple[int, int] = (1, 1)


@define
class Rfft2d(Operator):
    """Fourier transform of real images [...,H,W]: the non-redundant half of the spectrum."""

    name = "rfft2d"
    attributes = FourierAttributes
    tflite = ("RFFT2D",)

    def infer(self, call: Call) -> Sequence[Expected]:
        type, (rows, columns) = call.type(), call.attributes(FourierAttributes).size
        demand(type.dtype is DType.FLOAT32 and type.rank >= 2, f"{type} is no float32 image")
        for size in (rows, columns):
            demand(size > 0 and size & (size - 1) == 0, f"a size of {size}, which is no power of 2")
        return [Expected((*type.shape[:-2], rows, columns // 2 + 1), DType.COMPLEX64)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        size = call.attributes(FourierAttributes).size
        return [np.fft.rfft2(x.astype(np.float64), s=size, axes=(-2, -1)).astype(np.complex64)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        rows, columns = static(call, 1, "size of the transform")
        return Imported(FourierAttributes((rows, columns)), (0,))

    def to_tflite(self, call: Call) -> Exported:
        size = np.array(call.attributes(FourierAttributes).size, np.int32)
        return Exported("RFFT2D", tflite.Rfft2dOptions(), (0, size))


class ComplexPart(Operator):
    """Base of real functions of complex numbers."""

    elementwise = True
    function: ClassVar[Callable[..., Array]]

    def infer(self, call: Call) -> Sequence[Expected]:
        dtype = call.type().dtype
        demand(dtype is DType.COMPLEX64, f"the operand is {dtype.value}, not complex64")
        return [Expected(call.type().shape, DType.FLOAT32)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        return [np.array(type(self).function(*arrays))]


@define
class Real(ComplexPart):
    """The real part."""

    name = "real"
    tflite = ("REAL",)
    function = np.real


@define
class Imaginary(ComplexPart):
    """The imaginary part."""

    name = "imaginary"
    tflite = ("IMAG",)
    function = np.imag


@define
class ComplexAbs(ComplexPart):
    """The absolute value of a complex number."""

    name = "complex_abs"
    tflite = ("COMPLEX_ABS",)
    function = np.abs
