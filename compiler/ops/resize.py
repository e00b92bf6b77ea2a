"""Resizing of images [N,H,W,C]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.types import Array
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
from fitzroy.compiler.ops.elementwise import real, requantized
from fitzroy.compiler.ops.shape import static
from fitzroy.compiler.ops.windows import Pair, image_extent
from fitzroy.formats import tflite
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic, Sampling


@dataclass(frozen=True)
class ResizeAttributes(Attributes):
    """Attributes of resizing: height and width of the result, and which points it reads."""

    size: Pair = (1, 1)
    sampling: Sampling = Sampling.LEGACY


def _sampling(options: Any) -> Sampling:
    if options is not None and options.align_corners:
        return Sampling.ALIGN_CORNERS
    if options is not None and options.half_pixel_centers:
        return Sampling.HALF_PIXEL
    return Sampling.LEGACY


class Resize(Operator):
    """Base of resizing operators."""

    attributes = ResizeAttributes

    def resize(self, call: Call) -> ResizeAttributes:
        """The call's attributes, typed."""
        return call.attributes(ResizeAttributes)

    def infer(self, call: Call) -> Sequence[Expected]:
        image_extent(call.type())
        size, shape = self.resize(call).size, call.type().shape
        demand(min(size) > 0, f"a result of {size[0]} x {size[1]}")
        demand(min(shape[1:3]) > 0, f"an image of {shape[1]} x {shape[2]}")
        return [Expected((shape[0], *size, shape[3]), call.type().dtype)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        height, width = static(call, 1, "size")
        return Imported(ResizeAttributes((height, width), _sampling(options)), (0,))

    def to_tflite(self, call: Call) -> Exported:
        a = self.resize(call)
        bilinear = self.name == "resize_bilinear"
        table = tflite.ResizeBilinearOptions if bilinear else tflite.ResizeNearestNeighborOptions
        options = table(
            align_corners=a.sampling is Sampling.ALIGN_CORNERS,
            half_pixel_centers=a.sampling is Sampling.HALF_PIXEL,
        )
        return Exported(self.tflite[0], options, (0, np.array(a.size, np.int32)))


@define
class ResizeBilinear(Resize):
    """Bilinear interpolation between the four nearest pixels."""

    name = "resize_bilinear"
    tflite = ("RESIZE_BILINEAR",)

    def infer(self, call: Call) -> Sequence[Expected]:
        real(call.type())
        real(call.result.type)
        return super().infer(call)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = self.resize(call)
        result = numerics.resize_bilinear(x, a.size, a.sampling)
        return [requantized(result, call.type(), call.result.type)]


@define
class ResizeNearest(Resize):
    """Copy of the nearest pixel."""

    moves = True
    name = "resize_nearest_neighbor"
    tflite = ("RESIZE_NEAREST_NEIGHBOR",)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        a = self.resize(call)
        result = numerics.resize_nearest(x, a.size, a.sampling)
        return [requantized(result, call.type(), call.result.type)]
