"""Canonical form: what later stages may rely on.

After these passes padding is explicit, rectifiers are fused into what they follow, spatial
padding is part of the convolution it precedes, nothing constant is computed at run time, and no
node is without effect.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph, Node, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    PadAttributes,
    ReshapeAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation, explicit_padding, image_extent
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.stored_constants import keep_filters
from fitzroy.compiler.reference import is_static, static_results

LARGEST_CONSTANT = 1 << 28
"""Most bytes that folding one node may add to a program."""


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Evaluate nodes with constant operands, and nodes that depend on shapes only.

    Attributes:
        filters: whether filters become real numbers, too, that are dequantized for operators that
            read dequantized activations; some hardware computes these on integers.
    """

    name = "fold-constants"
    filters: bool = True

    def run(self, graph: Graph) -> Graph:
        """Replace such nodes by constants."""
        kept = set() if self.filters else keep_filters(graph)
        for node in graph.nodes():
            if node.name in kept or not is_static(graph, node):
                continue
            if sum(graph.type(name).nbytes for name in node.outputs) > LARGEST_CONSTANT:
                continue
            try:
                results = static_results(graph, node)
            except UnsupportedError:
                continue  # A custom operator stays a node, to be refused with its name.
            graph.remove(node.name)
            for name, data in results.items():
                graph.set_value(Value(name, graph.type(name), data))
        graph.prune()
        return graph


@dataclass(frozen=True)
class ExplicitPadding(Pass):
    """Replace padding schemes by explicit amounts of padding."""

    name = "explicit-padding"

    def run(self, graph: Graph) -> Graph:
        """Rewrite the attributes of convolutions and pools."""
        for node in graph.nodes():
            a = node.attributes
            if isinstance(a, ConvAttributes):
                kernel, dilation = graph.type(str(node.inputs[1])).shape[1:3], a.dilation
            elif isinstance(a, PoolAttributes):
                kernel, dilation = a.kernel, (1, 1)
            else:
                continue
            if not isinstance(a.padding, tuple):
                image = image_extent(graph.type(str(node.inputs[0])))
                size = (kernel[0], kernel[1])
                padding = explicit_padding(a.padding, image, size, a.stride, dilation)
                graph.update(replace(node, attributes=replace(a, padding=padding)))
        return graph


@dataclass(frozen=True)
class FoldPadding(Pass):
    """Merge spatial zero padding into the convolutions that read it."""

    name = "fold-padding"

    def run(self, graph: Graph) -> Graph:
        """Rewrite convolutions whose input is padded; needs explicit padding."""
        for node in graph.nodes():
            a = node.attributes
            if not isinstance(a, ConvAttributes) or not isinstance(a.padding, tuple):
                continue
            source = graph.producer(str(node.inputs[0]))
            if source is None or not isinstance(source.attributes, PadAttributes):
                continue
            pad, call = source.attributes, Call.of(graph, source)
            if pad.value or call.type().quantization != call.result.type.quantization:
                continue
            if len(pad.before) != 4 or any(
                (pad.before[0], pad.after[0], pad.before[3], pad.after[3])
            ):
                continue
            top, bottom, left, right = a.padding
            padding = (
                top + pad.before[1], bottom + pad.after[1],
                left + pad.before[2], right + pad.after[2],
            )  # fmt: skip
            inputs = (source.inputs[0], *node.inputs[1:])
            graph.update(replace(node, inputs=inputs, attributes=replace(a, padding=padding)))
        graph.prune()
        return graph


_ACTIVATIONS = {activation.bounds: activation for activation in Activation}


@dataclass(frozen=True)
class FuseActivations(Pass):
    """Merge rectifiers into the operators that compute their operand.

    Reshapes may come between them, as after convolutions of rows that are computed as images.
    """

    name = "fuse-activations"

    def run(self, graph: Graph) -> Graph:
        """Rewrite pairs of an operator and a clamp that is its only reader."""
        for node in graph.nodes():
            if not isinstance(node.attributes, ClampAttributes):
                continue
            bounds = (node.attributes.min, node.attributes.max)
            source = self._source(graph, node) if bounds in _ACTIVATIONS else None
            if source is not None:
                fused = replace(source.attributes, activation=_ACTIVATIONS[bounds])  # type: ignore[call-arg]
                graph.update(replace(source, attributes=fused))
                graph.remove(node.name)
                graph.retarget(str(node.inputs[0]), node.outputs[0])
        graph.prune()
        return graph

    @staticmethod
    def _source(graph: Graph, clamp: Node) -> Node | None:
        """The operator that can apply a clamp; None if others read its result, or there is none."""
        name, type = str(clamp.inputs[0]), graph.type(clamp.outputs[0])
        while name not in graph.outputs and len(graph.consumers(name)) == 1:
            source, found = graph.producer(name), graph.type(name)
            if source is None or found != type.with_shape(found.shape):
                return None
            if getattr(source.attributes, "activation", None) is Activation.NONE:
                return source
            if source.op != "reshape":
                return None
            name = str(source.inputs[0])
        return None


_NEUTRAL = {"add": 0.0, "maximum": -math.inf, "minimum": math.inf, "mul": 1.0}
"""Operands that change nothing, on either side; exported softmax and normalizations have them."""

_NEUTRAL_SECOND = _NEUTRAL | {"div": 1.0, "sub": 0.0}
"""The same for second operands."""


@dataclass(frozen=True)
class Simplify(Pass):
    """Remove nodes without effect and expansions before broadcasting, merge reshapes."""

    name = "simplify"

    def run(self, graph: Graph) -> Graph:
        """Rewrite until nothing is left to remove."""
        for name in [node.name for node in graph.nodes()]:
            node = graph.node(name)
            if node.op == "reshape":
                self._merge_reshape(graph, node)
            elif self._is_neutral(graph, node, 0):
                graph.update(replace(node, inputs=node.inputs[::-1]))
            elif node.op in _BROADCASTING:
                self._repeat_nothing(graph, node)
            current = graph.node(name)
            if self._is_identity(graph, current):
                source, result = str(current.inputs[0]), current.outputs[0]
                if result in graph.outputs and (
                    source in graph.inputs
                    or source in graph.outputs
                    or graph.value(source).is_constant
                ):
                    # An output keeps a value, and a name, of its own.
                    copy = replace(current, op="copy", attributes=NO_ATTRIBUTES)
                    graph.update(replace(copy, inputs=current.inputs[:1]))
                    continue
                if result in graph.outputs:
                    # The producer of the operand produces the graph output instead.
                    graph.remove(current.name)
                    graph.retarget(source, result)
                else:
                    graph.replace_uses(result, source)
        graph.prune()
        return graph

    @staticmethod
    def _merge_reshape(graph: Graph, node: Node) -> None:
        source = graph.producer(str(node.inputs[0]))
        if source is None or source.op != "reshape":
            return
        types = {graph.type(n).quantization for n in (source.inputs[0], node.inputs[0]) if n}
        if len(types) == 1:
            graph.update(replace(node, inputs=source.inputs))

    @staticmethod
    def _repeat_nothing(graph: Graph, node: Node) -> None:
        """Let a node that broadcasts its operands read them before they are expanded."""
        names, result = list(node.inputs), graph.type(node.outputs[0]).shape
        for index, name in enumerate(names):
            source = _repeated(graph, str(name))
            if source is None:
                continue
            shapes = graph.type(source).shape, graph.type(str(names[1 - index])).shape
            if np.broadcast_shapes(*shapes) == result:
                names[index] = source
        graph.update(replace(node, inputs=tuple(names)))

    @staticmethod
    def _is_neutral(graph: Graph, node: Node, index: int) -> bool:
        """Whether an operand is a constant that leaves the other one as it is."""
        neutral = (_NEUTRAL_SECOND if index else _NEUTRAL).get(node.op)
        if neutral is None:
            return False
        data = graph.value(str(node.inputs[index])).data
        free = getattr(node.attributes, "activation", Activation.NONE) is Activation.NONE
        return (
            free and data is not None and data.dtype.kind == "f" and bool((data == neutral).all())
        )

    @staticmethod
    def _is_identity(graph: Graph, node: Node) -> bool:
        if (
            node.op not in OPS
            or len(node.outputs) != 1
            or not node.inputs
            or node.inputs[0] is None
        ):
            return False
        before, after = graph.type(node.inputs[0]), graph.type(node.outputs[0])
        if before != after:
            return False
        if Simplify._is_neutral(graph, node, 1):
            return True
        a = node.attributes
        if isinstance(a, ReshapeAttributes) or node.op in ("quantize", "cast", "copy"):
            return True
        if isinstance(a, TransposeAttributes):
            return a.perm == tuple(range(len(a.perm)))
        if isinstance(a, PadAttributes):
            return not any((*a.before, *a.after))
        if isinstance(a, ClampAttributes):
            return not bites(before, (a.min, a.max))
        if isinstance(a, StridedSliceAttributes):
            # Equal shapes leave nothing to cut, but a negative step turns around.
            return all(step > 0 for step in a.stride)
        if isinstance(a, ReductionAttributes) and not a.axes:
            return True
        return node.op == "concatenation" and len(node.inputs) == 1


_BROADCASTING = ("add", "sub", "mul", "div", "maximum", "minimum")
"""Operators that repeat an operand along dimensions of one element."""


def _repeated(graph: Graph, name: str) -> str | None:
    """The operand that a value expands by adding zeros, as exporters do; None if it does not.

    Only float32 qualifies: adding quantized zeros may also change the scale.
    """
    node, type = graph.producer(name), graph.type(name)
    if node is None or node.op != "add" or type.dtype is not DType.FLOAT32:
        return None
    if node.attributes != ActivationAttributes():
        return None
    for source, other in (node.inputs, node.inputs[::-1]):
        zeros = graph.value(str(other)).data
        if zeros is not None and not zeros.any() and graph.type(str(source)).shape != type.shape:
            return source
    return None


def bites(type: TensorType, bounds: tuple[float, float]) -> bool:
    """Whether a clamp to real bounds can change an element of a type."""
    low, high = bounds
    q = type.quantization
    if q is not None and not q.is_per_tensor:
        return True
    if q is None:
        return low > -math.inf or high < math.inf
    smallest, largest = type.dtype.limits
    scale, zero = q.scale[0], q.zero_point[0]
    return low > (smallest - zero) * scale or high < (largest - zero) * scale


@dataclass(frozen=True)
class DeadCode(Pass):
    """Remove nodes and values that no output depends on."""

    name = "dead-code"

    def run(self, graph: Graph) -> Graph:
        """Prune the graph."""
        graph.prune()
        return graph


FOLDING: tuple[Pass, ...] = (DeadCode(), FoldConstants(), Simplify())
"""Passes after which a graph has only what it computes of its inputs, in its own operators."""
