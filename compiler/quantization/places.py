"""Real numbers that become indices: places in a tensor, which 8 bits do not hold.

A sampled image is read where a layer says, between pixels. A place has more digits than others: the
index of a pixel, and how far beyond it the place lies. With 256 steps for a whole image, a step is
a share of a pixel, the difference of two rounded places says nothing, and an index that is rounded
to the next one reads something else. So what computes places from results of layers stays float32,
and so does what is computed of places alone, such as the weights of neighbours.
"""

from __future__ import annotations

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.quantization.rules import is_real, touches_reals

_INDICES = "indices"
"""Name of the operand, in declarations of operators, that says which elements are read."""


def of_places(graph: Graph) -> list[Node]:
    """Nodes on real numbers that compute places, or compute of places alone, in order."""
    found = _before_indices(graph)
    if not found:
        return []
    places = {name for node in found.values() for name in node.outputs}
    for node in graph.nodes():
        if node.name in found or not _keeps_places(node) or not touches_reals(graph, node):
            continue
        read = [name for name in graph.computed(node) if is_real(graph, name)]
        if read and places.issuperset(read):
            found[node.name] = node
            places.update(node.outputs)
    return [node for node in graph.nodes() if node.name in found]


def _before_indices(graph: Graph) -> dict[str, Node]:
    """Nodes between results of layers and indices that touch real numbers, by their names."""
    pending = [
        name
        for node in graph.nodes()
        if _INDICES in OPS[node.op].operands
        for name in [node.inputs[OPS[node.op].operands.index(_INDICES)]]
    ]
    seen: set[str] = set()
    found: dict[str, Node] = {}
    while pending:
        name = pending.pop()
        node = None if name is None else graph.producer(name)
        if node is None or node.name in seen or not _keeps_places(node):
            continue
        seen.add(node.name)
        if touches_reals(graph, node):
            found[node.name] = node
        pending += graph.computed(node)
    # An index that is computed of integers alone needs nothing, and neither does what it reads.
    return found


def _keeps_places(node: Node) -> bool:
    """Whether a node computes each element of a few others, or moves elements."""
    operator = OPS[node.op]
    return operator.elementwise or operator.moves
