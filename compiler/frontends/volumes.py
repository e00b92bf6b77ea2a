"""Convolutions of volumes [N,D,H,W,C], as sums of convolutions of their layers.

A layer of the result is the sum of what one convolution of images for each layer of the filter
gives. Layers of a volume are so many images, so that there are as many convolutions as the filter
has layers, whatever the volume's depth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import demand
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import PadAttributes, ReshapeAttributes, StridedSliceAttributes
from fitzroy.compiler.ops.windows import Activation, output_extent


@dataclass(frozen=True, slots=True)
class Layers:
    """How a window moves over the layers of a volume.

    Attributes:
        kernel: layers of the window.
        stride: step.
        dilation: distance between layers of the window.
        before: layers of zeros in front.
        after: layers of zeros behind.
    """

    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    def count(self, depth: int) -> int:
        """Layers of the result.

        Raises:
            TypeRuleError: the window is larger than the volume.
        """
        found, _ = output_extent(
            (self.before, self.after, 0, 0),
            (depth, 1),
            (self.kernel, 1),
            (self.stride, 1),
            (self.dilation, 1),
        )
        return found


@dataclass(frozen=True, eq=False)
class Filter:
    """A filter of volumes.

    Attributes:
        weights: float32 [D,H,W,I,O]; I is less than the volume's channels if there are groups.
        bias: a value, float32 [O].
        layers: how it moves over layers.
        image: how it moves over rows and columns.
    """

    weights: Array
    bias: str
    layers: Layers
    image: ConvAttributes


def convolution(graph: Graph, x: str, filter: Filter, stem: str) -> str:
    """Add a convolution of a float32 volume [N,D,H,W,C]; gives its result.

    Args:
        graph: where it goes.
        x: the volume.
        filter: what it is multiplied with.
        stem: name for what is added.

    Raises:
        TypeRuleError: volume and filter do not fit.
    """
    type = graph.type(x)
    demand(type.rank == 5 and filter.weights.ndim == 5, "no volume, or no filter of volumes")
    batch, depth, height, width, channels = type.shape
    moves, weights = filter.layers, filter.weights
    demand(moves.kernel == weights.shape[0], "a filter of another depth")
    groups, rest = divmod(channels, weights.shape[3])
    demand(not rest and groups > 0, f"{channels} channels, and filters of {weights.shape[3]}")
    results, offsets = weights.shape[4], graph.type(filter.bias).shape
    demand(results % groups == 0, f"{results} results of {groups} groups of channels")
    demand(offsets == (results,), f"an offset {list(offsets)} for {results} channels")
    count = moves.count(depth)
    if moves.before or moves.after:
        before, after = ((0, n, 0, 0, 0) for n in (moves.before, moves.after))
        depth += moves.before + moves.after
        type = type.with_shape((batch, depth, height, width, channels))
        x = graph.emit("pad", [x], type, PadAttributes(before, after, 0.0), stem=stem)
    size = output_extent(
        filter.image.padding, (height, width), weights.shape[1:3], filter.image.stride,
        filter.image.dilation,
    )  # fmt: skip
    images = type.with_shape((batch * count, height, width, channels))
    after_image = type.with_shape((batch * count, *size, weights.shape[4]))
    zero = graph.add_constant(f"{stem}/zero", np.zeros(weights.shape[4], np.float32))
    depthwise = weights.shape[3] == 1 < channels
    order = (2, 0, 1, 3) if depthwise else (3, 0, 1, 2)
    plain = replace(filter.image, activation=Activation.NONE)
    total = ""
    for layer in range(moves.kernel):
        begin = (0, layer * moves.dilation, 0, 0, 0)
        box = (batch, count, height, width, channels)
        slice = StridedSliceAttributes(begin, box, (1, moves.stride, 1, 1, 1))
        part = graph.emit("strided_slice", [x], type.with_shape(box), slice, stem=stem)
        part = graph.emit("reshape", [part], images, ReshapeAttributes(images.shape), stem=stem)
        kernel = graph.add_constant(
            f"{stem}/layer", np.ascontiguousarray(weights[layer].transpose(order))
        )
        op = "depthwise_conv_2d" if depthwise else "conv_2d"
        inputs = [part, kernel, zero if total else filter.bias]
        last = layer == moves.kernel - 1
        alone = filter.image if last and not total else plain
        part = graph.emit(op, inputs, after_image, alone, stem=stem)
        activation = filter.image.activation if last else Activation.NONE
        assert isinstance(activation, Activation)
        fused = ActivationAttributes(activation)
        total = graph.emit("add", [total, part], after_image, fused, stem=stem) if total else part
    result = type.with_shape((batch, count, *size, weights.shape[4]))
    return graph.emit("reshape", [total], result, ReshapeAttributes(result.shape), stem=stem)
