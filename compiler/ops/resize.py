"""Resizing of images [N,H,W,C]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    Reject,
    define,
    demand,
)
from fitzroy.compiler.ops.elementwise import real, requantized
from fitzroy.compiler.ops.shape import static
from fitzroy.compiler.ops.windows import Pair, image_extent
from fitzroy.compiler.targets.executorch import portable
from fitzroy.compiler.targets.executorch.portable import PortableEmitter
from fitzroy.compiler.targets.xnnpack import rules
from fitzroy.compiler.targets.xnnpack.emitter import SubgraphEmitter
from fitzroy.formats import tflite
from fitzroy.formats import xnnpack as xnn
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


_FLAGS = {
    Sampling.HALF_PIXEL: 0,
    Sampling.ALIGN_CORNERS: int(xnn.NodeFlag.ALIGN_CORNERS),
    Sampling.LEGACY: int(xnn.NodeFlag.TENSORFLOW_LEGACY_MODE),
}


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

    def reject_xnnpack(self, call: Call) -> Iterator[Reject]:
        yield from rules.mover(call)

    def lower_xnnpack(self, call: Call, emitter: SubgraphEmitter) -> None:
        a = self.resize(call)
        emitter.add(
            xnn.XNNStaticResizeBilinear2D(
                new_height=a.size[0],
                new_width=a.size[1],
                input_id=emitter.value(call.operand(0).name),
                output_id=emitter.value(call.result.name),
                flags=_FLAGS[a.sampling],
            )
        )


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

    def reject_portable(self, call: Call) -> Iterator[Reject]:
        yield from portable.stored([call.operand(0), call.result])
        yield from portable.numbers([call.operand(0)])
        if call.type().quantization != call.result.type.quantization:
            yield Reject("portable-quantized", "the kernel cannot change the quantization")
        if self.resize(call).sampling is not Sampling.LEGACY:
            yield Reject(
                "portable-resize-sampling",
                f"{self.resize(call).sampling.value} sampling; the kernel reads as TF1 does",
            )

    def lower_portable(self, call: Call, emitter: PortableEmitter) -> None:
        planes = emitter.transposed(emitter.tensor(call.operand(0).name), (0, 3, 1, 2))
        size = self.resize(call).size
        shape = call.result.type.shape
        scaled = emitter.temporary(call.type().with_shape((shape[0], shape[3], *size)))
        arguments = (planes, emitter.argument(size), emitter.argument(None))
        emitter.call_indexed("aten::upsample_nearest2d", "vec_out", arguments, scaled)
        order = emitter.argument((0, 2, 3, 1))
        out = emitter.tensor(call.result.name)
        emitter.call_indexed("aten::permute_copy", "out", (scaled, order), out)
