"""Quotients of computed values as products with reciprocals.

TFLite has no 8-bit kernel for quotients, and a chip that looks up functions of one element has the
reciprocal but not the quotient. The reciprocal takes 8 bits of its own, so that divisors must not
differ too much: near the smallest one, a step of the divisor is as large a share of it as near the
largest one a step of the reciprocal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.quantization.rules import touches_reals
from fitzroy.compiler.quantization.statistics import Range

_WIDEST = 16.0
"""The largest divisor in smallest ones: either step is then 1/16 of a number at most."""

_LEAST = 1e-9
"""The least divisor: float32 holds the square of its reciprocal, which statistics take."""


def with_reciprocals(graph: Graph, ranges: Mapping[str, Range]) -> Graph:
    """Multiply by reciprocals instead of dividing, where 8 bits hold these well.

    Args:
        graph: a float32 graph; it stays as it is, and is the result if no quotient changes.
        ranges: smallest and largest element of its activations.
    """
    chosen = [node for node in graph.nodes() if _is_suitable(graph, node, ranges)]
    if not chosen:
        return graph
    result = graph.copy()
    for node in chosen:
        dividend, divisor = str(node.inputs[0]), str(node.inputs[1])
        one = result.add_constant(f"{node.name}.one", np.ones((), np.float32))
        type = result.type(divisor)
        stem = f"{node.name}.reciprocal"
        inverse = result.emit("div", [one, divisor], type, ActivationAttributes(), stem=stem)
        result.update(replace(node, op="mul", inputs=(dividend, inverse)))
    return result


def _is_suitable(graph: Graph, node: Node, ranges: Mapping[str, Range]) -> bool:
    """Whether a node divides by computed numbers that do not differ too much."""
    if node.op != "div" or not touches_reals(graph, node):
        return False
    dividend, divisor = (graph.value(str(name)) for name in node.inputs)
    if divisor.is_constant or (dividend.is_constant and dividend.type.size == 1):
        return False
    # Tensors without elements have no range.
    low, high = ranges.get(divisor.name, (0.0, 0.0))
    small, large = sorted((abs(low), abs(high)))
    return low * high > 0 and small >= _LEAST and large <= _WIDEST * small
