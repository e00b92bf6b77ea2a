"""How much noise in the channels of activations disturbs the outputs.

Rounding errors are taken for white: independent of one another and of the values. Then the power of
an operator's noise is linear in that of its operands, and the factors follow backwards from the
outputs: a filter's are sums of squares of its weights, a rectifier's the share of elements that it
lets through, a product's the power of the other operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import TransposeConvAttributes
from fitzroy.compiler.ops.elementwise import ClampAttributes, LeakyReluAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    PadAttributes,
    SplitAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.quantization.ranges import FUNCTIONS, slope
from fitzroy.compiler.quantization.rules import is_real
from fitzroy.compiler.quantization.statistics import Statistics

Doubles = npt.NDArray[np.float64]


def sensitivities(graph: Graph, statistics: Mapping[str, Statistics]) -> dict[str, Doubles]:
    """Noise in all outputs, as shares of their power, for noise of power 1 in a channel.

    Args:
        graph: a float32 graph.
        statistics: of its activations.

    Returns:
        by name of the activation, a number for every channel, which are its last dimension.
    """
    return _Propagation(graph, statistics).run()


class _Propagation:
    def __init__(self, graph: Graph, statistics: Mapping[str, Statistics]) -> None:
        self.graph, self.statistics = graph, statistics
        self.found: dict[str, Doubles] = {}

    def run(self) -> dict[str, Doubles]:
        for name in self.graph.outputs:
            if name in self.statistics:
                power = float(self.statistics[name].square.sum()) or 1.0
                self.add(name, np.full(self.width(name), 1 / power))
        for node in reversed(self.graph.nodes()):
            self.visit(node)
        return self.found

    def visit(self, node: Node) -> None:
        """Pass what is known of a node's results on to its operands."""
        for number, result in enumerate(node.outputs):
            if result not in self.found:
                continue
            after = self.found[result] * self.let_through(node, result)
            rule = _RULES.get(node.op, _Propagation.evenly)
            for index, name in enumerate(node.inputs):
                if name is None or not is_real(self.graph, name):
                    continue
                if self.graph.value(name).is_constant:
                    continue
                before = rule(self, node, index, number, after)
                if before is not None and len(before) == self.width(name):
                    self.add(name, before)

    def add(self, name: str, found: Doubles) -> None:
        self.found[name] = self.found[name] + found if name in self.found else found

    def width(self, name: str | None) -> int:
        shape = self.graph.type(str(name)).shape
        return shape[-1] if shape else 1

    def let_through(self, node: Node, result: str) -> Doubles | float:
        """The share of elements of each channel that a fused activation function lets through."""
        fused: Activation = getattr(node.attributes, "activation", Activation.NONE)
        low, high = fused.bounds
        if result not in self.statistics or not (np.isfinite(low) or np.isfinite(high)):
            return 1.0
        rows = self.statistics[result].rows
        share: Doubles = ((rows > low) & (rows < high)).mean(axis=0)
        return share

    # --- rules: of an operand by index, from what is known of a result by number ---

    def evenly(self, node: Node, index: int, number: int, after: Doubles) -> Doubles:
        """What is known of no channel in particular."""
        return np.full(self.width(node.inputs[index]), after.mean())

    def same(self, node: Node, index: int, number: int, after: Doubles) -> Doubles:
        width = self.width(node.inputs[index])
        if width == len(after):
            return after
        return np.full(width, after.sum() / width)

    def conv(self, node: Node, index: int, number: int, after: Doubles) -> Doubles | None:
        kernel = self.graph.value(str(node.inputs[1])).data
        if index or kernel is None:
            return None
        squares = np.square(kernel, dtype=np.float64)
        depth = self.width(node.inputs[0])
        if node.op == "depthwise_conv_2d":
            found: Doubles = (squares.sum(axis=(0, 1, 2)) * after).reshape(depth, -1).sum(axis=1)
            return found
        if node.op == "fully_connected":
            taps = squares.reshape(len(squares), -1, depth).sum(axis=1)
            matrix: Doubles = after @ taps
            return matrix
        taps = squares.sum(axis=(1, 2))
        if isinstance(node.attributes, TransposeConvAttributes):
            taps = taps / np.prod(node.attributes.stride)
        groups = depth // kernel.shape[3]
        shares = zip(np.split(after, groups), np.split(taps, groups), strict=True)
        return np.concatenate([part @ own for part, own in shares])

    def product(self, node: Node, index: int, number: int, after: Doubles) -> Doubles | None:
        other = str(node.inputs[1 - index])
        data = self.graph.value(other).data
        if data is not None:
            power = np.square(data, dtype=np.float64).reshape(-1, self.width(other)).mean(axis=0)
        elif other in self.statistics:
            power = self.statistics[other].square
        else:
            return None
        return self.same(node, index, number, after * power)

    def rectified(self, node: Node, index: int, number: int, after: Doubles) -> Doubles | None:
        name = str(node.inputs[0])
        if index or name not in self.statistics:
            return None
        rows = self.statistics[name].rows
        if isinstance(node.attributes, ClampAttributes):
            inside = (rows > node.attributes.min) & (rows < node.attributes.max)
            found: Doubles = after * inside.mean(axis=0)
            return found
        square: Doubles | float
        if isinstance(node.attributes, LeakyReluAttributes):
            square = node.attributes.alpha**2
        else:
            data = self.graph.value(str(node.inputs[1])).data
            if data is None:
                return None
            slopes = data.reshape(-1, self.width(node.inputs[1])).astype(np.float64)
            square = np.square(slopes).mean(axis=0)
        positive: Doubles = (rows > 0).mean(axis=0)
        passed: Doubles = after * (positive + (1 - positive) * square)
        return passed

    def unary(self, node: Node, index: int, number: int, after: Doubles) -> Doubles | None:
        name = str(node.inputs[0])
        if name not in self.statistics:
            return None
        rows = self.statistics[name].rows.astype(np.float64)
        step = max(float(np.ptp(rows)), 1e-6) / 256
        found: Doubles = after * np.square(slope(FUNCTIONS[node.op], rows, step)).mean(axis=0)
        return found

    def pooled(self, node: Node, index: int, number: int, after: Doubles) -> Doubles:
        a = node.attributes
        assert isinstance(a, PoolAttributes)
        return after / float(np.prod(a.kernel))

    def reduced(self, node: Node, index: int, number: int, after: Doubles) -> Doubles:
        before = self.graph.type(str(node.inputs[0]))
        count = before.size / max(self.graph.type(node.outputs[0]).size, 1)
        share = 1 / count if node.op == "mean" else count
        a = node.attributes
        assert isinstance(a, ReductionAttributes)
        rank = before.rank
        if any(axis % rank == rank - 1 for axis in a.axes):
            return np.full(self.width(node.inputs[0]), after.mean() * share)
        return after * share

    def padded(self, node: Node, index: int, number: int, after: Doubles) -> Doubles:
        a = node.attributes
        assert isinstance(a, PadAttributes)
        first = a.before[-1]
        return after[first : first + self.width(node.inputs[0])]

    def reshaped(self, node: Node, index: int, number: int, after: Doubles) -> Doubles:
        width = self.width(node.inputs[0])
        if width and len(after) % width == 0:
            found: Doubles = after.reshape(-1, width).mean(axis=0)
            return found
        if width % len(after) == 0:
            return np.tile(after, width // len(after))
        return self.evenly(node, index, number, after)

    def joined(self, node: Node, index: int, number: int, after: Doubles) -> Doubles:
        a = node.attributes
        assert isinstance(a, ConcatenationAttributes)
        rank = self.graph.type(node.outputs[0]).rank
        if a.axis % rank != rank - 1:
            return after
        first = sum(self.width(name) for name in node.inputs[:index])
        return after[first : first + self.width(node.inputs[index])]

    def sliced(self, node: Node, index: int, number: int, after: Doubles) -> Doubles:
        a = node.attributes
        assert isinstance(a, StridedSliceAttributes)
        found = np.zeros(self.width(node.inputs[0]))
        found[a.begin[-1] + a.stride[-1] * np.arange(a.size[-1])] = after
        return found

    def split(self, node: Node, index: int, number: int, after: Doubles) -> Doubles:
        a = node.attributes
        assert isinstance(a, SplitAttributes)
        if a.axis != self.graph.type(str(node.inputs[0])).rank - 1:
            return after
        found = np.zeros(self.width(node.inputs[0]))
        first = sum(a.sizes[:number])
        found[first : first + len(after)] = after
        return found


_Rule = Callable[[_Propagation, Node, int, int, Doubles], Doubles | None]

_RULES: dict[str, _Rule] = {
    "abs": _Propagation.same,
    "add": _Propagation.same,
    "average_pool_2d": _Propagation.pooled,
    "clamp": _Propagation.rectified,
    "concatenation": _Propagation.joined,
    "conv_2d": _Propagation.conv,
    "depthwise_conv_2d": _Propagation.conv,
    "fully_connected": _Propagation.conv,
    "leaky_relu": _Propagation.rectified,
    "max_pool_2d": _Propagation.same,
    "maximum": _Propagation.same,
    "mean": _Propagation.reduced,
    "minimum": _Propagation.same,
    "mul": _Propagation.product,
    "negate": _Propagation.same,
    "pad": _Propagation.padded,
    "prelu": _Propagation.rectified,
    "reduce_max": _Propagation.reduced,
    "reduce_min": _Propagation.reduced,
    "reshape": _Propagation.reshaped,
    "resize_bilinear": _Propagation.same,
    "resize_nearest_neighbor": _Propagation.same,
    "split": _Propagation.split,
    "strided_slice": _Propagation.sliced,
    "sub": _Propagation.same,
    "sum": _Propagation.reduced,
    "transpose_conv": _Propagation.conv,
    **dict.fromkeys(FUNCTIONS, _Propagation.unary),
}
