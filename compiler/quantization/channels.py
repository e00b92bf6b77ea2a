"""Which channels of which activations can be scaled together without a change of meaning.

If channel c of an activation is divided by a positive number everywhere, and the filters that
produce and read it make up for that, the graph computes the same. Rectifiers, additions, pools and
whatever moves elements pass such a scale on; other functions do not, and neither do inputs and
outputs of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.elementwise import ClampAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    PadAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.quantization.rules import is_real

Floats = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
"""For each channel of an activation, which are its last dimension, a number: equal numbers are
scaled alike."""

FIXED = 0
"""The label of what cannot be scaled."""

FILTERED = ("conv_2d", "depthwise_conv_2d", "fully_connected")
"""Operators whose filters make up for scales of inputs and results."""


def has_free_filter(graph: Graph, node: Node) -> bool:
    """Whether a node's filter is a constant whose input channels are those of the input."""
    if node.op not in FILTERED or graph.value(str(node.inputs[0])).is_constant:
        return False
    if not all(name is None or graph.value(name).is_constant for name in node.inputs[1:]):
        return False
    kernel, width = graph.type(str(node.inputs[1])).shape, graph.type(str(node.inputs[0])).shape[-1]
    if node.op == "conv_2d":
        return kernel[3] == width
    # Matrix products may read several pixels at once.
    return width > 0 and kernel[-1] % width == 0


def filter_scale(graph: Graph, node: Node, before: Floats, after: Floats) -> Floats:
    """What a filter is multiplied by when channels of input and result are divided.

    Args:
        graph: the graph of the node.
        node: one for which `has_free_filter` holds.
        before: by what the channels of the input are divided.
        after: by what those of the result are.
    """
    kernel = graph.type(str(node.inputs[1])).shape
    if node.op == "depthwise_conv_2d":
        ratio: Floats = np.repeat(before, kernel[-1] // len(before)) / after
        return ratio
    inputs = np.tile(before, kernel[-1] // len(before))
    found: Floats = inputs / after.reshape(-1, *(1,) * (len(kernel) - 1))
    return found


class Channels:
    """Labels of the channels of all float32 activations of a graph.

    Attributes:
        labels: by name of the activation, after `find`.
    """

    def __init__(self, graph: Graph, floats: Iterable[str]) -> None:
        self._graph, self._floats = graph, frozenset(floats)
        self._parent = [FIXED]
        self._labels: dict[str, Labels] = {}
        self._shared: dict[str, tuple[Labels, Labels]] = {}
        for name in graph.inputs:
            self._give(name, self._fixed(name))
        for node in graph.nodes():
            self._add(node)
        for name in graph.outputs:
            if name in self._labels:
                self._fix(self._labels[name])
        self.labels = {name: self._found(labels) for name, labels in self._labels.items()}

    # --- disjoint sets of labels ---

    def _find(self, label: int) -> int:
        root = label
        while (parent := self._parent[root]) != root:
            root = parent
        while label != root:
            label, self._parent[label] = self._parent[label], root
        return root

    def _found(self, labels: Labels) -> Labels:
        return np.array([self._find(int(label)) for label in labels], np.int64)

    def _join(self, first: Labels, second: Labels) -> None:
        for a, b in zip(first, second, strict=True):
            low, high = sorted((self._find(int(a)), self._find(int(b))))
            # The least label represents a set, so that what is fixed stays so.
            self._parent[high] = low

    def _fix(self, labels: Labels) -> None:
        self._join(labels, np.zeros(len(labels), np.int64))

    def _new(self, count: int) -> Labels:
        first = len(self._parent)
        self._parent += range(first, first + count)
        return np.arange(first, first + count, dtype=np.int64)

    # --- nodes ---

    def _width(self, name: str) -> int:
        shape = self._graph.type(name).shape
        return shape[-1] if shape else 1

    def _fixed(self, name: str) -> Labels:
        return np.zeros(self._width(name), np.int64)

    def _give(self, name: str, labels: Labels) -> None:
        if is_real(self._graph, name):
            self._labels[name] = labels

    def _of(self, name: str | None) -> Labels:
        """Labels of an operand; constants have none that could be scaled."""
        assert name is not None
        return self._labels.get(name, self._fixed(name))

    def _add(self, node: Node) -> None:
        if node.name not in self._floats and has_free_filter(self._graph, node):
            (result,) = node.outputs
            labels = self._new(self._width(result))
            self._give(result, labels)
            self._share(str(node.inputs[1]), self._of(node.inputs[0]), labels)
            if self._activation(node) is Activation.RELU_N1_TO_1:
                self._fix(labels)
            return
        rule = None if node.name in self._floats else _RULES.get(node.op)
        found = None if rule is None else rule(self, node)
        if found is None:
            for operand in node.inputs:
                if operand in self._labels:
                    self._fix(self._labels[operand])
            found = [self._fixed(name) for name in node.outputs]
        for name, labels in zip(node.outputs, found, strict=True):
            self._give(name, labels)
        if self._activation(node) is Activation.RELU_N1_TO_1:
            for name in node.outputs:
                self._fix(self._labels[name])

    def _share(self, kernel: str, before: Labels, after: Labels) -> None:
        """Scale all readers of a filter alike, so that it stays one."""
        known = self._shared.setdefault(kernel, (before, after))
        for first, second in zip(known, (before, after), strict=True):
            if len(first) == len(second):
                self._join(first, second)
            else:
                self._fix(first)
                self._fix(second)

    @staticmethod
    def _activation(node: Node) -> Activation:
        found: Activation = getattr(node.attributes, "activation", Activation.NONE)
        return found

    # --- rules: labels of the results, or None if the node passes no scale on ---

    def _same(self, node: Node) -> list[Labels] | None:
        return [self._of(node.inputs[0])] * len(node.outputs)

    def _clamp(self, node: Node) -> list[Labels] | None:
        a = node.attributes
        assert isinstance(a, ClampAttributes)
        return self._same(node) if a.min == 0 else None

    def _pad(self, node: Node) -> list[Labels] | None:
        a = node.attributes
        assert isinstance(a, PadAttributes)
        if a.value:
            return None
        # Padded channels are zero, whatever their scale.
        labels = self._of(node.inputs[0])
        return [np.concatenate([self._new(a.before[-1]), labels, self._new(a.after[-1])])]

    def _sum(self, node: Node) -> list[Labels] | None:
        first, second = (self._of(name) for name in node.inputs)
        if not all(name in self._labels for name in node.inputs) or len(first) != len(second):
            return None
        self._join(first, second)
        return [first]

    def _product(self, node: Node) -> list[Labels] | None:
        """Products with a constant, or with a gate that is not scaled."""
        first, second = node.inputs
        for name, other in ((first, second), (second, first)):
            if name not in self._labels or self._width(node.outputs[0]) != self._width(str(name)):
                continue
            if other in self._labels and not self._is_gate(str(other)):
                continue
            return [self._of(name)]
        return None

    def _is_gate(self, name: str) -> bool:
        return not self._found(self._labels[name]).any()

    def _prelu(self, node: Node) -> list[Labels] | None:
        return None if node.inputs[1] in self._labels else self._same(node)

    def _reduction(self, node: Node) -> list[Labels] | None:
        a = node.attributes
        assert isinstance(a, ReductionAttributes)
        rank = self._graph.type(str(node.inputs[0])).rank
        if any(axis % rank == rank - 1 for axis in a.axes):
            return None
        return self._same(node)

    def _reshape(self, node: Node) -> list[Labels] | None:
        labels, width = self._of(node.inputs[0]), self._width(node.outputs[0])
        if width and len(labels) and width % len(labels) == 0:
            return [np.tile(labels, width // len(labels))]
        if width and len(labels) % width == 0:
            rows = labels.reshape(-1, width)
            for row in rows[1:]:
                self._join(rows[0], row)
            return [rows[0]]
        return None

    def _transpose(self, node: Node) -> list[Labels] | None:
        a = node.attributes
        assert isinstance(a, TransposeAttributes)
        return self._same(node) if a.perm and a.perm[-1] == len(a.perm) - 1 else None

    def _concatenation(self, node: Node) -> list[Labels] | None:
        a = node.attributes
        assert isinstance(a, ConcatenationAttributes)
        if not all(name in self._labels for name in node.inputs):
            return None
        parts = [self._of(name) for name in node.inputs]
        rank = self._graph.type(node.outputs[0]).rank
        if a.axis % rank == rank - 1:
            return [np.concatenate(parts)]
        for part in parts[1:]:
            self._join(parts[0], part)
        return [parts[0]]

    def _slice(self, node: Node) -> list[Labels] | None:
        a = node.attributes
        assert isinstance(a, StridedSliceAttributes)
        kept = a.begin[-1] + a.stride[-1] * np.arange(a.size[-1])
        return [self._of(node.inputs[0])[kept]]

    def _split(self, node: Node) -> list[Labels] | None:
        a = node.attributes
        assert isinstance(a, SplitAttributes)
        if a.axis != self._graph.type(str(node.inputs[0])).rank - 1:
            return self._same(node)
        return list(np.split(self._of(node.inputs[0]), np.cumsum(a.sizes)[:-1]))


_RULES: dict[str, Callable[[Channels, Node], list[Labels] | None]] = {
    "abs": Channels._same,
    "add": Channels._sum,
    "average_pool_2d": Channels._same,
    "clamp": Channels._clamp,
    "concatenation": Channels._concatenation,
    "leaky_relu": Channels._same,
    "max_pool_2d": Channels._same,
    "mean": Channels._reduction,
    "mul": Channels._product,
    "negate": Channels._same,
    "pad": Channels._pad,
    "prelu": Channels._prelu,
    "reduce_max": Channels._reduction,
    "reduce_min": Channels._reduction,
    "reshape": Channels._reshape,
    "resize_bilinear": Channels._same,
    "resize_nearest_neighbor": Channels._same,
    "split": Channels._split,
    "strided_slice": Channels._slice,
    "sub": Channels._sum,
    "sum": Channels._reduction,
    "transpose": Channels._transpose,
}
