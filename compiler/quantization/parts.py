"""Activations with outliers, computed in parts, so that steps are small and nothing is cut off.

Where the largest elements are many times the usual ones, 8 bits hold one or the other. What is
computed instead, side by side: the activation up to a bound, what is above that up to twice the
bound, and so on. Their sum is the activation, and filters that read it add products up anyway: each
part is read by the same weights. A convolution with its SiLU becomes one up to the bound, and one
whose rectifier gives the parts above, where a SiLU is the identity but for a part of a step.

Each channel has as many parts as its largest element needs: a few channels have many, and most have
one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ClampAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, PadAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.quantization.channels import FILTERED
from fitzroy.compiler.quantization.ranges import UNSEEN, is_silu
from fitzroy.compiler.quantization.statistics import Statistics

_IDENTITY = 6.0
"""A bound from which on a SiLU is the identity, but for less than 0.015: a third of its step."""

_BELOW = 5.0
"""How far a range goes on below zero, before a SiLU."""

_WORTH = 0.8
"""By which factor the product of noise and channels has to become less."""

_MORE = 224
"""Most channels that are added to an activation."""

_MEMORY = 11 << 19
"""Most weights of a model that gets more: they are stored in 8 MiB, with biases and gaps."""

_SHARE = 64
"""To the weights of a larger model, one for so many may be added."""

MOST_ELEMENTS = 3 << 20
"""Most elements of an image that becomes wider: about as many as the tiles of a chip hold."""

_LATER = 1 << 19
"""The same of all parts of an image after the first layers: others wait beside it, and what makes
its parts."""

_CANDIDATES = 48
"""Bounds that are tried."""


@dataclass(frozen=True, slots=True)
class Parts:
    """How an activation is taken apart.

    Attributes:
        name: the activation, a SiLU.
        counts: how many parts each of its channels has.
        bound: how far each part goes.
    """

    name: str
    counts: tuple[int, ...]
    bound: float

    def above(self) -> list[tuple[int, list[int]]]:
        """For each part but the first, its number and the channels that have it."""
        numbers = range(1, max(self.counts))
        return [(n, [c for c, count in enumerate(self.counts) if count > n]) for n in numbers]


def outliers(
    graph: Graph,
    statistics: Mapping[str, Statistics],
    most: int,
    whole: Collection[str] = (),
) -> list[Parts]:
    """The activations that are better computed in parts.

    Those that gain most come first, as long as there is room for their weights: a model that fits
    the memory of a chip goes on to do so.

    Args:
        graph: a float32 graph.
        statistics: of its activations.
        most: most parts of one.
        whole: activations that stay whole.
    """
    if most < 2:
        return []
    chances, first = [], _first_layers(graph)
    for name, known in statistics.items():
        if name in graph.values and name not in whole and _is_eligible(graph, name):
            _, height, width, channels = graph.type(name).shape
            largest = MOST_ELEMENTS if name in first else _LATER
            widest = min(channels + _MORE, largest // (height * width))
            chances += _divided(name, known, most, widest)
    room, found = room_for_weights(graph), []
    for _, parts in sorted(chances, key=lambda chance: chance[0]):
        weights = _added_weights(graph, parts)
        if weights <= room:
            room -= weights
            found.append(parts)
    return found


def room_for_weights(graph: Graph) -> int:
    """How many weights a model may have more, so that it goes on to fit the memory of a chip."""
    held = sum(graph.type(str(n.inputs[1])).size for n in graph.nodes() if n.op in FILTERED)
    return max(_MEMORY - held, held // _SHARE)


def _first_layers(graph: Graph) -> set[str]:
    """Results of nodes before images are divided or joined for the first time."""
    found: set[str] = set()
    for node in graph.nodes():
        if len(node.outputs) > 1 or (len(graph.computed(node)) > 1 and node.op != "mul"):
            break
        found.update(node.outputs)
    return found


def _added_weights(graph: Graph, parts: Parts) -> int:
    """How many weights the parts above the first have."""
    product = graph.producer(parts.name)
    assert product is not None
    convolution = _convolution(graph, product)
    assert convolution is not None
    filters = [graph.type(str(node.inputs[1])) for node in _readers(graph, parts.name)]
    kernel = graph.type(str(convolution.inputs[1]))
    width = len(parts.counts)
    more = sum(parts.counts) - width
    return more * (kernel.size + sum(found.size for found in filters)) // width


def _divided(name: str, known: Statistics, most: int, widest: int) -> list[tuple[float, Parts]]:
    """The parts with the least product of noise and channels, as a share of that of the whole.

    Nothing where the whole is about as good.

    Args:
        name: the activation.
        known: its statistics.
        most: most parts of a channel.
        widest: most channels of all parts together.
    """
    reach = float(known.extrema[1])
    far = UNSEEN * reach
    lowest = max(_IDENTITY, far / most)
    if lowest >= reach:
        return []
    width = len(known.high)
    best, least, unchanged = None, _WORTH, 2 * (reach + _BELOW) ** 2
    for bound in np.geomspace(lowest, reach, _CANDIDATES, endpoint=False).tolist():
        counts = np.maximum(np.ceil(UNSEEN * known.high / bound), 1).astype(int)
        total = int(counts.sum())
        # Channels are computed by one filter, and read by others.
        share = (bound + _BELOW) ** 2 * (1 + total / width) / unchanged
        if total <= widest and share < least:
            best, least = Parts(name, tuple(counts.tolist()), bound), share
    return [] if best is None else [(least, best)]


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
    """What reads a value, or the same with a border of zeros."""
    found = []
    for node in graph.consumers(name):
        a = node.attributes
        padded = isinstance(a, PadAttributes) and not (a.before[-1] or a.after[-1] or a.value)
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


@dataclass(frozen=True, slots=True)
class Divided:
    """A graph with activations in parts, that computes the same up to the last bound.

    Attributes:
        graph: the graph.
        bounded: inputs of SiLUs, clamped to the bounds of their first parts.
        above: results of the convolutions that give the parts above.
    """

    graph: Graph
    bounded: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()


def with_parts(graph: Graph, chosen: list[Parts]) -> Divided:
    """Take the chosen activations of a graph apart."""
    result = graph.copy()
    made = [_Maker(result, parts).make() for parts in chosen]
    result.prune()
    return Divided(result, frozenset(low for low, _ in made), frozenset(above for _, above in made))


@dataclass(frozen=True)
class _Maker:
    """Takes one activation of a graph apart."""

    graph: Graph
    parts: Parts

    def make(self) -> tuple[str, str]:
        """Take the activation apart.

        Returns:
            The clamped input of the SiLU, and the result of the convolution that gives the parts
            above.
        """
        graph, parts = self.graph, self.parts
        product = graph.producer(parts.name)
        assert product is not None
        convolution = _convolution(graph, product)
        assert convolution is not None
        readers = graph.consumers(parts.name)
        above = self.above(convolution)
        clamp = ClampAttributes(-math.inf, parts.bound)
        high = graph.emit("clamp", [above], graph.type(above), clamp, stem=f"{parts.name}.high")
        low = self.bounded(convolution)
        type = graph.type(parts.name)
        whole = type.with_shape((*type.shape[:3], sum(parts.counts)))
        joined = graph.emit(
            "concatenation",
            [parts.name, high],
            whole,
            ConcatenationAttributes(3),
            stem=f"{parts.name}.parts",
        )
        for reader in readers:
            self.read(reader, parts.name, joined)
        return low, above

    def bounded(self, convolution: Node) -> str:
        """Clamp the input of the SiLU to the bound; the name of the clamped input."""
        graph, (name,) = self.graph, convolution.outputs
        a = ClampAttributes(-math.inf, self.parts.bound)
        readers = graph.consumers(name)
        low = graph.emit("clamp", [name], graph.type(name), a, stem=f"{name}.low")
        for node in readers:
            inputs = tuple(low if read == name else read for read in node.inputs)
            graph.update(replace(graph.node(node.name), inputs=inputs))
        return low

    def above(self, convolution: Node) -> str:
        """The convolution that gives the parts above the bound, side by side."""
        graph, parts = self.graph, self.parts
        kernel, bias = (graph.value(str(name)).data for name in convolution.inputs[1:3])
        assert kernel is not None
        assert bias is not None
        channels, bounds = self.repeated(), np.float32(parts.bound) * self.numbers()
        shifted = (bias.reshape(-1)[channels] - bounds).astype(np.float32)
        filters = graph.add_constant(f"{parts.name}.filters", kernel[channels])
        biases = graph.add_constant(f"{parts.name}.biases", shifted)
        type = graph.type(convolution.outputs[0])
        type = type.with_shape((*type.shape[:3], len(channels)))
        assert isinstance(convolution.attributes, ConvAttributes)
        a = replace(convolution.attributes, activation=Activation.RELU)
        inputs = [convolution.inputs[0], filters, biases]
        return graph.emit("conv_2d", inputs, type, a, stem=f"{parts.name}.above")

    def repeated(self) -> list[int]:
        """The channels of the parts above, in order of these."""
        return [channel for _, channels in self.parts.above() for channel in channels]

    def numbers(self) -> npt.NDArray[np.float32]:
        """For each of them, the number of its part."""
        above = self.parts.above()
        return np.concatenate([np.full(len(found), n, np.float32) for n, found in above])

    def read(self, node: Node, name: str, joined: str) -> None:
        """Let a node read all parts in the place of the whole."""
        graph = self.graph
        if isinstance(node.attributes, PadAttributes):
            before = node.outputs[0]
            type = graph.type(before)
            wide = type.with_shape((*type.shape[:3], sum(self.parts.counts)))
            inputs = [joined, *node.inputs[1:]]
            padded = graph.emit(node.op, inputs, wide, node.attributes, stem=f"{before}.parts")
            for reader in graph.consumers(before):
                self.read(reader, before, padded)
            return
        kernel = graph.value(str(node.inputs[1])).data
        assert kernel is not None
        filters = np.concatenate([kernel, kernel[..., self.repeated()]], axis=3)
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
