"""Parts of values: the same elements, computed without the others.

Detectors join boxes and scores in one tensor, and take them apart again to decode them. One tensor
has one scale when it is quantized, which serves neither; so what reads a part of it is led back to
what computes just that part, up to the filters of a convolution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.detections import DECODING
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)

Shape = tuple[int, ...]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Region:
    """Elements of a value: a range along one axis.

    Attributes:
        name: the value.
        axis: the axis.
        begin: first index.
        size: how many.
    """

    name: str
    axis: int
    begin: int
    size: int

    @property
    def end(self) -> int:
        """The index after the last."""
        return self.begin + self.size


def source_of(graph: Graph, name: str) -> Region | None:
    """Which part of another value a slice is; None if it is none, or one of several axes."""
    node = graph.producer(name)
    if node is None:
        return None
    a = node.attributes
    if isinstance(a, SplitAttributes):
        before = sum(a.sizes[: node.outputs.index(name)])
        axis = a.axis % graph.type(name).rank
        return Region(str(node.inputs[0]), axis, before, graph.type(name).shape[axis])
    if isinstance(a, StridedSliceAttributes):
        whole = graph.type(str(node.inputs[0])).shape
        cut = [axis for axis, extent in enumerate(whole) if a.size[axis] != extent]
        if len(cut) == 1 and a.stride[cut[0]] == 1:
            axis = cut[0]
            return Region(str(node.inputs[0]), axis, a.begin[axis], a.size[axis])
    return None


MOVERS = ("reshape", "transpose", "concatenation", "strided_slice", "split")
"""Operators whose results have elements of their operands."""

_LAYERS = (
    "conv_2d", "depthwise_conv_2d", "fully_connected", "batch_matmul", "max_pool_2d",
    "average_pool_2d", "transpose_conv",
)  # fmt: skip


def is_layer(graph: Graph, node: Node) -> bool:
    """Whether a node belongs to the network that a head follows.

    The expectation of a distribution is a convolution, too: what it reads are probabilities.
    """
    if node.op not in _LAYERS:
        return False
    before = graph.producer(str(node.inputs[0]))
    while before is not None and before.op in ("reshape", "transpose"):
        before = graph.producer(str(before.inputs[0]))
    return before is None or before.op != "softmax"


def separate(columns: Columns, names: list[str]) -> None:
    """Lead slices between layers and some values back to what computes their part alone."""
    graph, pending, seen = columns.graph, list(names), set()
    while pending:
        name = pending.pop()
        node = graph.producer(name)
        if name in seen or node is None or is_layer(graph, node):
            continue
        seen.add(name)
        source = source_of(graph, name)
        if source is not None:
            part = columns.take(source.name, source.axis, source.begin, source.size)
            if source_of(graph, part) is None:
                graph.replace_uses(name, part)
                pending.append(part)
                continue
        pending += [read for read in node.inputs if read is not None]


def stored(graph: Graph, name: str) -> str:
    """A value as the numbers of one scale that it is converted from; itself if there are none."""
    node = graph.producer(name)
    if node is None or node.op not in ("dequantize", "reshape", "transpose"):
        return name
    before = str(node.inputs[0])
    if node.op == "dequantize":
        quantization = graph.type(before).quantization
        return name if quantization is None or not quantization.is_per_tensor else before
    source = stored(graph, before)
    if source == before:
        return name
    type = graph.type(source).with_shape(graph.type(name).shape)
    return graph.emit(node.op, [source], type, node.attributes)


@dataclass
class Columns:
    """Makes parts of values in a graph, which keeps what was there.

    Attributes:
        graph: the graph, which gets more nodes.
        stem: what names of slices and concatenations begin with.
    """

    graph: Graph
    stem: str = ""
    _known: dict[Region, str] = field(default_factory=dict)

    def take(self, name: str, axis: int, begin: int, size: int) -> str:
        """A value that holds some of the elements of another along an axis, and nothing else."""
        if size == self.graph.type(name).shape[axis]:
            source = source_of(self.graph, name)
            if source is None:
                return name
            return self.take(source.name, source.axis, source.begin, source.size)
        region = Region(name, axis, begin, size)
        if region not in self._known:
            self._known[region] = self._taken(region)
        return self._known[region]

    def sliced(self, name: str, axis: int, begin: int, size: int) -> str:
        """A slice of a value, which is computed whole, or a part of a constant."""
        return self._sliced(Region(name, axis, begin, size))

    def has_channels_apart(self, name: str) -> bool:
        """Whether channels of an image have filters of their own, so that some can be picked."""
        node = self.graph.producer(name)
        return node is not None and self._has_filters(node)

    def picked(self, name: str, chosen: Indices) -> str:
        """An image of some channels, in any order and repeated as often as they are named.

        Args:
            name: an image whose channels have filters of their own.
            chosen: the channels.
        """
        node = self.graph.producer(name)
        assert node is not None
        return self._filtered(node, chosen)

    def scaled(self, name: str, factor: float) -> str | None:
        """An image multiplied by a number above zero, by other filters.

        Args:
            name: an image of float32 whose channels have filters of their own.
            factor: the number.

        Returns:
            The image; None if its numbers are cut off at others than zero.
        """
        node = self.graph.producer(name)
        assert node is not None
        assert isinstance(node.attributes, ConvAttributes)
        if not set(node.attributes.activation.bounds) <= {0.0, math.inf, -math.inf}:
            return None
        made: list[str | None] = []
        for read in node.inputs[1:]:
            data = None if read is None else self.graph.value(read).data
            scaled = None if data is None else np.asarray(data * np.float32(factor))
            made.append(
                None if scaled is None else self.graph.add_constant(f"{read}.scaled", scaled)
            )
        return self.graph.emit(
            node.op,
            [node.inputs[0], *made],
            self.graph.type(name),
            node.attributes,
            stem=f"{name}.scaled",
        )

    def transposed(self, name: str, perm: Shape) -> str:
        """A value with its dimensions in another order; two changes of the order are one."""
        node = self.graph.producer(name)
        if node is not None and isinstance(node.attributes, TransposeAttributes):
            perm = tuple(node.attributes.perm[axis] for axis in perm)
            name = str(node.inputs[0])
        if perm == tuple(range(len(perm))):
            return name
        type = self.graph.type(name)
        moved = type.with_shape(tuple(type.shape[axis] for axis in perm))
        return self.graph.emit("transpose", [name], moved, TransposeAttributes(perm))

    def reshaped(self, name: str, shape: Shape) -> str:
        """A value with another shape, or what it was reshaped from if that has the shape."""
        type, before = self.graph.type(name), name
        while self.graph.type(before).shape != shape:
            node = self.graph.producer(before)
            if node is None or node.op != "reshape":
                break
            before = str(node.inputs[0])
        else:
            return before
        return self.graph.emit("reshape", [name], type.with_shape(shape), ReshapeAttributes(shape))

    def real(self, name: str) -> str:
        """A value as float32, for the host; the value itself if it is not quantized."""
        type = self.graph.type(name)
        if not type.is_quantized:
            return name
        real = TensorType(type.shape, DType.FLOAT32)
        return self.graph.emit("dequantize", [name], real, stem=f"{DECODING}dequantize")

    def joined(self, names: list[str], axis: int) -> str:
        """Values one after another along an axis, as float32 if their quantizations differ."""
        if len(names) == 1:
            return names[0]
        if len({self.graph.type(name).quantization for name in names}) > 1:
            names = [self.real(name) for name in names]
        type = self.graph.type(names[0])
        shape = list(type.shape)
        shape[axis] = sum(self.graph.type(name).shape[axis] for name in names)
        return self.graph.emit(
            "concatenation",
            names,
            type.with_shape(tuple(shape)),
            ConcatenationAttributes(axis),
            stem=f"{self.stem}concatenation",
        )

    def _taken(self, region: Region) -> str:
        name, axis, begin, size = region.name, region.axis, region.begin, region.size
        node = self.graph.producer(name)
        source = source_of(self.graph, name)
        if source is not None:
            if source.axis == axis:
                return self.take(source.name, axis, source.begin + begin, size)
            inner = self.take(source.name, axis, begin, size)
            if source_of(self.graph, inner) is not None:
                # Nothing computes that part alone.
                return self._sliced(region)
            return self.take(inner, source.axis, source.begin, source.size)
        if node is None:
            return self._sliced(region)
        if isinstance(node.attributes, ConcatenationAttributes):
            return self._of_concatenation(node, region)
        if isinstance(node.attributes, TransposeAttributes):
            perm = node.attributes.perm
            inner = self.take(str(node.inputs[0]), perm[axis], begin, size)
            return self.transposed(inner, perm)
        if isinstance(node.attributes, ReshapeAttributes):
            return self._of_reshape(node, region)
        if OPS[node.op].elementwise and len(node.outputs) == 1:
            return self._of_elements(node, region)
        chosen = np.arange(begin, begin + size)
        if axis == 3 and self._has_filters(node):
            return self._filtered(node, chosen)
        return self._sliced(region)

    def _of_concatenation(self, node: Node, region: Region) -> str:
        assert isinstance(node.attributes, ConcatenationAttributes)
        names = [str(name) for name in node.inputs]
        joint = node.attributes.axis % self.graph.type(region.name).rank
        if joint != region.axis:
            parts = [self.take(x, region.axis, region.begin, region.size) for x in names]
            return self.joined(parts, joint)
        parts, offset = [], 0
        for name in names:
            extent = self.graph.type(name).shape[joint]
            low, high = max(region.begin - offset, 0), min(region.end - offset, extent)
            if low < high:
                parts.append(self.take(name, joint, low, high - low))
            offset += extent
        return self.joined(parts, joint)

    def _of_reshape(self, node: Node, region: Region) -> str:
        """A part of a reshape: of the same axis before, or of one that it is merged from or into.

        What is a part of no axis before is sliced after the reshape.
        """
        name = str(node.inputs[0])
        before, after = self.graph.type(name).shape, self.graph.type(region.name).shape
        inner = math.prod(after[region.axis + 1 :])
        shape = list(after)
        shape[region.axis] = region.size
        for axis, extent in enumerate(before):
            rest = math.prod(before[axis + 1 :])
            if rest == inner and extent == after[region.axis]:
                part = self.take(name, axis, region.begin, region.size)
                return self.reshaped(part, tuple(shape))
            # Outer part of a merged axis: whole elements of the axis before.
            whole = extent * rest == after[region.axis] * inner and rest % inner == 0
            step = rest // inner if whole else 0
            if whole and step and region.begin % step == region.size % step == 0:
                part = self.take(name, axis, region.begin // step, region.size // step)
                return self.reshaped(part, tuple(shape))
        source = self.graph.producer(name)
        if source is not None and self._has_filters(source) and inner == 1:
            # The innermost part of channels: of each group, some filters.
            extent = after[region.axis]
            if before[-1] % extent == 0:
                channels = np.arange(before[-1]).reshape(-1, extent)
                chosen = channels[:, region.begin : region.end].reshape(-1)
                return self.reshaped(self._filtered(source, chosen), tuple(shape))
        return self._sliced(region)

    def _of_elements(self, node: Node, region: Region) -> str:
        """A part of what is computed element by element."""
        result = self.graph.type(region.name)
        inputs: list[str | None] = []
        for name in node.inputs:
            if name is None:
                inputs.append(None)
                continue
            shape = self.graph.type(name).shape
            axis = region.axis - (result.rank - len(shape))
            whole = axis < 0 or shape[axis] == 1
            inputs.append(name if whole else self.take(name, axis, region.begin, region.size))
        shape = _resized(result.shape, region)
        return self.graph.emit(node.op, inputs, result.with_shape(shape), node.attributes)

    def _has_filters(self, node: Node) -> bool:
        """Whether a node is a convolution with constant filters for all channels."""
        if node.op != "conv_2d" or not isinstance(node.attributes, ConvAttributes):
            return False
        if any(name is not None and not self.graph.value(name).is_constant
               for name in node.inputs[1:]):  # fmt: skip
            return False
        kernel = self.graph.type(str(node.inputs[1]))
        groups = self.graph.type(str(node.inputs[0])).shape[3] // max(kernel.shape[3], 1)
        return groups == 1

    def _filtered(self, node: Node, chosen: Indices) -> str:
        """A convolution with some of the filters of another."""
        result = self.graph.type(node.outputs[0])
        constants: list[str | None] = []
        for name in node.inputs[1:]:
            value = None if name is None else self.graph.value(name)
            if value is None or value.data is None:
                constants.append(None)
                continue
            quantization = _of_channels(value.type.quantization, chosen)
            constants.append(
                self.graph.add_constant(f"{name}.part", value.data[chosen], quantization)
            )
        shape = (*result.shape[:3], len(chosen))
        return self.graph.emit(
            node.op,
            [node.inputs[0], *constants],
            result.with_shape(shape),
            node.attributes,
            stem=f"{node.outputs[0]}.part",
        )

    def _sliced(self, region: Region) -> str:
        """A slice, or a part of a constant."""
        value = self.graph.value(region.name)
        if value.data is not None:
            data: Array = value.data.take(range(region.begin, region.end), region.axis)
            return self.graph.add_constant(f"{region.name}.part", data, value.type.quantization)
        shape = _resized(value.type.shape, region)
        begin = tuple(region.begin if axis == region.axis else 0 for axis in range(len(shape)))
        a = StridedSliceAttributes(begin, shape, (1,) * len(shape))
        stem = f"{self.stem}slice"
        type = replace(value.type, shape=shape)
        return self.graph.emit("strided_slice", [region.name], type, a, stem=stem)


def _of_channels(quantization: Quantization | None, chosen: Indices) -> Quantization | None:
    """The quantization of some channels, which are the first axis."""
    if quantization is None or quantization.is_per_tensor:
        return quantization
    scale, zero_point = (
        tuple(numbers[index] for index in chosen)
        for numbers in (quantization.scale, quantization.zero_point)
    )
    return replace(quantization, scale=scale, zero_point=zero_point)


def _resized(shape: Shape, region: Region) -> Shape:
    return (*shape[: region.axis], region.size, *shape[region.axis + 1 :])
