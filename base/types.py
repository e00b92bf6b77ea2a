"""Element types, quantization and tensor types, shared by every layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class DType(Enum):
    """Element type of a tensor; the value is its name in the IR's text form."""

    BOOL = "bool"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    UINT32 = "uint32"
    INT64 = "int64"
    UINT64 = "uint64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    COMPLEX64 = "complex64"

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype, in native byte order."""
        return _NUMPY[self]

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return _NUMPY[self].itemsize

    @property
    def is_float(self) -> bool:
        """Whether elements are floating-point numbers."""
        return _NUMPY[self].kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether elements are integers (booleans are not)."""
        return _NUMPY[self].kind in "iu"

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        info = np.iinfo(_NUMPY[self])
        return int(info.min), int(info.max)

    @classmethod
    def of(cls, array: Array) -> DType:
        """The element type of a numpy array.

        Raises:
            ValueError: numpy's dtype has no counterpart here.
        """
        return cls(array.dtype.name)


_NUMPY = {dtype: np.dtype(dtype.value) for dtype in DType}


_SCALES = np.finfo(np.float32)


def is_usable_scale(scale: float) -> bool:
    """Whether a scale is a positive, normal float32 number, so that its reciprocal is finite."""
    return float(_SCALES.tiny) <= scale <= float(_SCALES.max)


def _short(number: int) -> str:
    """A number for people, however large it is."""
    return str(number) if abs(number) < 1 << 64 else f"of {number.bit_length()} bits"


@dataclass(frozen=True, slots=True)
class Quantization:
    """Affine quantization: ``real = scale * (stored - zero_point)``.

    Attributes:
        scale: one scale per tensor, or one per slice along ``axis``; float32 values.
        zero_point: as many as scales.
        axis: the dimension that the scales run along, or None for one scale per tensor.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int = 0) -> Quantization:
        """One scale for the whole tensor; the scale is rounded to float32."""
        return cls((float(np.float32(scale)),), (int(zero_point),))

    @property
    def is_per_tensor(self) -> bool:
        """Whether one scale holds for the whole tensor."""
        return self.axis is None

    def is_usable(self) -> bool:
        """Whether `is_usable_scale` holds for every scale."""
        return all(map(is_usable_scale, self.scale))

    def fault(self, shape: tuple[int, ...]) -> str:
        """What is wrong with the quantization of a tensor of a shape; empty if nothing is."""
        for scale in self.scale:
            if not is_usable_scale(scale):
                return f"scale {scale:.7g}, which is no positive, normal float32 number"
        for zero in self.zero_point:
            if not -(2**31) <= zero < 2**31:
                return f"zero point {_short(zero)}, which exceeds 32 bits"
        count, axis = len(self.scale), self.axis
        if len(self.zero_point) != count:
            return f"{len(self.zero_point)} zero points for {count} scales"
        if axis is None:
            return "" if count == 1 else f"{count} scales of a whole tensor"
        if not 0 <= axis < len(shape) or shape[axis] != count:
            return f"{count} scales along dimension {axis} of shape {list(shape)}"
        return ""

    def scale_array(self, rank: int) -> npt.NDArray[np.float32]:
        """Scales shaped to broadcast against a tensor of the given rank."""
        return self._shaped(np.asarray(self.scale, np.float32), rank)

    def zero_point_array(self, rank: int) -> npt.NDArray[np.int32]:
        """Zero points shaped to broadcast against a tensor of the given rank."""
        return self._shaped(np.asarray(self.zero_point, np.int32), rank)

    def _shaped(self, values: npt.NDArray[Any], rank: int) -> npt.NDArray[Any]:
        if self.axis is None:
            return values.reshape(())
        shape = [1] * rank
        shape[self.axis] = -1
        return values.reshape(shape)


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape, element type and quantization of a tensor.

    Attributes:
        shape: extents, outermost first; all at least 0.
        dtype: element type.
        quantization: how stored integers stand for real numbers, or None if they do not.
    """

    shape: tuple[int, ...]
    dtype: DType
    quantization: Quantization | None = None

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a dense tensor of this type."""
        return self.size * self.dtype.itemsize

    @property
    def is_quantized(self) -> bool:
        """Whether elements are integers that stand for real numbers."""
        return self.quantization is not None

    @property
    def is_eight_bit(self) -> bool:
        """Whether elements are integers of 8 bits that stand for real numbers by one scale."""
        q = self.quantization
        return q is not None and q.is_per_tensor and self.dtype in (DType.INT8, DType.UINT8)

    def fault(self) -> str:
        """What is wrong with the quantization; empty if nothing is, or there is none."""
        if self.quantization is None:
            return ""
        if not self.dtype.is_integer:
            return f"{self.dtype.value} with a quantization, which integers have"
        low, high = self.dtype.limits
        for zero in self.quantization.zero_point:
            if not low <= zero <= high:
                name = self.dtype.value
                return f"zero point {_short(zero)} of {name}, which holds {low} to {high}"
        return self.quantization.fault(self.shape)

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """This type with another shape."""
        return replace(self, shape=shape)

    def relabelled(self, dtype: DType) -> TensorType:
        """The quantized 8-bit type `dtype` that stands for the same real numbers.

        Stored elements move with the zero point, by the difference of the types' limits.
        """
        quantization = self.quantization
        assert quantization is not None
        shift = dtype.limits[0] - self.dtype.limits[0]
        zero_point = tuple(zero + shift for zero in quantization.zero_point)
        return replace(self, dtype=dtype, quantization=replace(quantization, zero_point=zero_point))

    def real(self) -> TensorType:
        """The float32 type of the real numbers that this type stands for."""
        return TensorType(self.shape, DType.FLOAT32)

    def __str__(self) -> str:
        text = f"{self.dtype.value}[{','.join(map(str, self.shape))}]"
        if self.quantization is None:
            return text
        scale, zero = self.quantization.scale, self.quantization.zero_point
        if self.quantization.axis is not None:
            return f"{text} quantized along axis {self.quantization.axis}"
        return f"{text} scale {scale[0]:.7g} zero point {zero[0]}"
