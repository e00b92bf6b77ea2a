"""How long the host takes for operators that are not on the chip.

Every operator has *work*: what LiteRT's own kernels take for it on a reference processor, one core
of an AMD EPYC at 3 GHz. A host takes `compute` times the work. Operators that only move or convert
elements take `element` per element that they read or write, because small processors are slower at
that than at computing (`hw_models.chips.hosts`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.targets.edgetpu.partition.costs import elements, macs
from fitzroy.hw_models.chips.hosts import Host

ALIASES = frozenset({"reshape", "shape", "rank", "bitcast"})
"""Operators that only say otherwise what a value is."""

MOVES = frozenset(
    {
        "batch_to_space", "broadcast_to", "cast", "concatenation", "copy", "depth_to_space",
        "dequantize", "dynamic_update_slice", "embedding_lookup", "fill", "gather", "gather_nd",
        "mirror_pad", "pack", "pad", "quantize", "reverse", "reverse_sequence", "scatter_nd",
        "select", "space_to_batch", "space_to_depth", "split", "strided_slice", "tile", "transpose",
        "unpack", "where", "zeros_like",
    }
)  # fmt: skip
"""Operators that move or convert elements."""

OVERHEAD = 1000.0
"""Nanoseconds of work that every operator is besides."""

PRODUCT = {1: 0.0076, 4: 0.03}
"""Nanoseconds of a product by bytes of an operand's element; MEASURED for 8 bits."""

FUNCTION = 1.8
"""Nanoseconds per element of a function that has no entry of its own; MEASURED for EXP and SQRT."""

PER_ELEMENT = {
    **dict.fromkeys(("arg_max", "arg_min"), 0.87),
    **dict.fromkeys(("add", "sub", "mul", "div", "maximum", "minimum", "squared_difference"), 0.9),
    **dict.fromkeys(("clamp", "abs", "negate", "square", "round", "floor", "ceil", "sign"), 0.7),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), 0.7),
    **dict.fromkeys(("mean", "sum", "reduce_max", "reduce_min"), 0.8),
    **dict.fromkeys(("sigmoid", "tanh", "hardswish", "leaky_relu", "prelu"), 0.7),
    **dict.fromkeys(("softmax", "log_softmax"), 2.2),
    **dict.fromkeys(("max_pool_2d", "average_pool_2d"), 1.0),
    "resize_bilinear": 0.91,
    "resize_nearest_neighbor": 0.3,
    "detection_post_process": 1.4,
    "detections": 0.2,
    "one_hot": 1.5,
    "pose_decoder": 8.0,
}
"""Nanoseconds per element of the larger side, operands or results; MEASURED, but for the decoder of
poses, which is assumed."""

LIST = 95_000.0
"""Nanoseconds that a list of ten objects takes apart from its elements.

MEASURED: 270 µs on the reference processor. This figure and that of its elements are divided by the
`compute` of the workstation, because Python computes the list, and hosts differ less in the speed
of Python than in that of LiteRT's kernels.
"""


@dataclass(frozen=True, slots=True)
class Work:
    """What an operator is on any host.

    Attributes:
        compute: nanoseconds on the reference processor.
        elements: elements that are moved or converted.
    """

    compute: float
    elements: int

    def time(self, host: Host) -> float:
        """Microseconds on a host."""
        return (host.compute * self.compute + host.element * self.elements) / 1000


def work_of(graph: Graph, node: Node) -> Work:
    """What an operator is.

    Args:
        graph: its graph.
        node: the operator.
    """
    if node.op in ALIASES:
        return Work(OVERHEAD, 0)
    if node.op in MOVES:
        return Work(OVERHEAD, elements(graph, node))
    products = macs(graph, node)
    if products and node.op not in PER_ELEMENT:
        width = graph.type(node.outputs[0]).dtype.itemsize
        return Work(OVERHEAD + products * PRODUCT[1 if width == 1 else 4], 0)
    results = sum(graph.type(name).size for name in node.outputs)
    read = elements(graph, node) - results
    if node.op == "detections":
        # Most elements of the results are zeros, whatever their number.
        return Work(LIST + read * PER_ELEMENT[node.op], 0)
    larger = max(results, read)
    return Work(OVERHEAD + larger * PER_ELEMENT.get(node.op, FUNCTION), 0)


def host_time(graph: Graph, nodes: Iterable[Node], host: Host) -> float:
    """Microseconds that a host takes for operators, one after the other."""
    return sum(work_of(graph, node).time(host) for node in nodes)
