"""Activations with far outliers, computed in parts, so that steps are small and nothing is cut off.

Where the largest elements are many times the usual ones, 8 bits hold one or the other. What is
computed instead, side by side: the activation up to a bound, what is above that up to twice the
bound, and so on. Their sum is the activation, and filters that read it add products up anyway: each
part is read by the same weights. A convolution with its SiLU becomes one up to the bound, and one
whose rectifier gives the parts above, where a SiLU is the identity but for less than a step.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ClampAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, PadAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.quantization.ranges import is_silu
from fitzroy.compiler.quantization.statistics import Statistics

_FAR = 12.0
"""How many times their root mean square the largest elements are from which on parts help."""

_PER_PART = 8.0
"""The same for one part."""

_HEADROOM = 1.25
"""How far parts reach, as a share of the largest element that was seen."""

_IDENTITY = 12.0
"""A bound from which on a SiLU is the identity, but for less than 1/10000."""

_WIDEST = 256
"""Most channels of all parts together."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How an activation is taken apart.

    Attributes:
        name: the activation, a SiLU.
        count: how many parts there are.
        bound: how far each goes.
    """

    name: str
    count: int
    bound: float


def outliers(
    graph: Graph, statistics: Mapping[str, Statistics], most: int, whole: Collection[str] = ()
) -> list[Parts]:
    """The activations that are better computed in parts.

    Args:
        graph: a float32 graph.
        statistics: of its activations.
        most: most parts of one.
        whole: activations that stay whole.
    """
    found = []
    for name, known in statistics.items():
        if name not in graph.values or name in whole or not _is_eligible(graph, name):
            continue
        reach, power = known.extrema[1], float(known.square.mean())
        far = reach / math.sqrt(power) if power > 0 else 0.0
        count = min(math.ceil(far / _PER_PART), most, _WIDEST // graph.type(name).shape[3])
        if far >= _FAR and count > 1 and _HEADROOM * reach / count >= _IDENTITY:
            found.append(Parts(name, count, _HEADROOM * reach / count))
    return found


def _is_eligible(graph: Graph, name: str) -> bool:
    """Whether an activation is the SiLU of a convolution, and read by convolutions only."""
    node = graph.producer(name)
    if node is None or node.op != "mul" or name in graph.outputs:
        return False
    convolution = _convolution(graph, node)
    readers = _readers(graph, name)
    return convolution is not None and bool(readers) and all(_is_plain(graph, x) for x in readers)


def _convolution(graph: Graph, product: Node) -> Node | None:
    """The convolution whose SiLU a product is; None if it is none."""
    for name in product.inputs:
        node = graph.producer(str(name))
        if node is not None and _is_plain(graph, node) and len(node.inputs) > 2:
            readers = graph.consumers(node.outputs[0])
            if product in readers and is_silu(graph, node.outputs[0], readers):
                return node
    return None


def _readers(graph: Graph, name: str) -> list[Node]:
    """What reads a value, or the same with a border."""
    found = []
    for node in graph.consumers(name):
        padded = isinstance(node.attributes, PadAttributes) and not (
            node.attributes.before[-1] or node.attributes.after[-1]
        )
        found += _readers(graph, node.outputs[0]) if padded else [node]
    return found


def _is_plain(graph: Graph, node: Node) -> bool:
    """Whether a node is a convolution of all channels with a constant filter."""
    a = node.attributes
    if node.op != "conv_2d" or not isinstance(a, ConvAttributes):
        return False
    constant = all(name is None or graph.value(name).is_constant for name in node.inputs[1:])
    depth = graph.type(str(node.inputs[0])).shape[3]
    return constant and graph.type(str(node.inputs[1])).shape[3] == depth


def with_parts(graph: Graph, chosen: list[Parts]) -> Graph:
    """A graph with activations in parts, that computes the same up to the last bound."""
    result = graph.copy()
    for parts in chosen:
        _Maker(result, parts).make()
    result.prune()
    return result


@dataclass(frozen=True)
class _Maker:
    """Takes one activation of a graph apart."""

    graph: Graph
    parts: Parts

    def make(self) -> None:
        graph, parts = self.graph, self.parts
        product = graph.producer(parts.name)
        assert product is not None
        convolution = _convolution(graph, product)
        assert convolution is not None
        readers = graph.consumers(parts.name)
        above = self.above(convolution)
        self.bounded(convolution, product)
        type = graph.type(parts.name)
        whole = type.with_shape((*type.shape[:3], type.shape[3] * parts.count))
        joined = graph.emit(
            "concatenation",
            [parts.name, above],
            whole,
            ConcatenationAttributes(3),
            stem=f"{parts.name}.parts",
        )
        for reader in readers:
            self.read(reader, parts.name, joined)

    def bounded(self, convolution: Node, product: Node) -> None:
        """Let the SiLU see nothing above the bound."""
        graph, (name,) = self.graph, convolution.outputs
        a = ClampAttributes(-math.inf, self.parts.bound)
        readers = graph.consumers(name)
        low = graph.emit("clamp", [name], graph.type(name), a, stem=f"{name}.low")
        for node in readers:
            inputs = tuple(low if read == name else read for read in node.inputs)
            graph.update(replace(graph.node(node.name), inputs=inputs))

    def above(self, convolution: Node) -> str:
        """The parts above the bound, side by side."""
        graph, parts = self.graph, self.parts
        kernel, bias = (graph.value(str(name)).data for name in convolution.inputs[1:3])
        assert kernel is not None
        assert bias is not None
        count = parts.count - 1
        bounds = np.float32(parts.bound) * np.arange(1, parts.count, dtype=np.float32)
        shifted = (bias.reshape(1, -1) - bounds[:, None]).reshape(-1).astype(np.float32)
        filters = graph.add_constant(f"{parts.name}.filters", np.concatenate([kernel] * count))
        biases = graph.add_constant(f"{parts.name}.biases", shifted)
        type = graph.type(convolution.outputs[0])
        type = type.with_shape((*type.shape[:3], type.shape[3] * count))
        assert isinstance(convolution.attributes, ConvAttributes)
        a = replace(convolution.attributes, activation=Activation.RELU)
        inputs = [convolution.inputs[0], filters, biases]
        name = graph.emit("conv_2d", inputs, type, a, stem=f"{parts.name}.above")
        clamp = ClampAttributes(-math.inf, parts.bound)
        return graph.emit("clamp", [name], type, clamp, stem=f"{parts.name}.high")

    def read(self, node: Node, name: str, joined: str) -> None:
        """Let a node read all parts in the place of the whole."""
        graph, count = self.graph, self.parts.count
        if isinstance(node.attributes, PadAttributes):
            before = node.outputs[0]
            type = graph.type(before)
            wide = type.with_shape((*type.shape[:3], type.shape[3] * count))
            inputs = [joined, *node.inputs[1:]]
            padded = graph.emit(node.op, inputs, wide, node.attributes, stem=f"{before}.parts")
            for reader in graph.consumers(before):
                self.read(reader, before, padded)
            return
        kernel = graph.value(str(node.inputs[1])).data
        assert kernel is not None
        filters = np.concatenate([kernel] * count, axis=3)
        repeated = graph.add_constant(f"{node.inputs[1]}.parts", filters)
        graph.update(replace(node, inputs=(joined, repeated, *node.inputs[2:])))


def without_bounds(graph: Graph) -> Graph:
    """A quantized graph without clamps to what its numbers can hold anyway, but for a step."""
    for node in graph.nodes():
        a, (name, *_) = node.attributes, node.inputs
        if not isinstance(a, ClampAttributes) or name is None or node.outputs[0] in graph.outputs:
            continue
        type = graph.type(name)
        q = type.quantization
        if q is None or not q.is_per_tensor or type != graph.type(node.outputs[0]):
            continue
        low, high = ((limit - q.zero_point[0]) * q.scale[0] for limit in type.dtype.limits)
        if a.min <= low + q.scale[0] and a.max >= high - q.scale[0]:
            graph.replace_uses(node.outputs[0], name)
    graph.prune()
    return graph
