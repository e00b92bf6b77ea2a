"""The columns of rows by what computes them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.shape import ConcatenationAttributes, TransposeAttributes
from fitzroy.compiler.passes.heads.columns import MOVERS, Columns, Region, is_layer, source_of
from fitzroy.compiler.passes.heads.scores import is_rescaled


def segments(graph: Graph, rows: str) -> list[Region]:
    """The columns of rows [1,n,c] by what computes them, in order."""
    bounds = sorted({*boundaries(graph, rows, 2), 0, graph.type(rows).shape[2]})
    return [Region(rows, 2, low, high - low) for low, high in itertools.pairwise(bounds)]


def boundaries(graph: Graph, name: str, axis: int, *, through_sigmoids: bool = False) -> set[int]:
    """Where parts of a value along an axis meet that are computed apart.

    Args:
        graph: the graph.
        name: the value.
        axis: the axis.
        through_sigmoids: whether parts that one sigmoid takes count as apart.
    """
    node = graph.producer(name)

    def before(name: str, axis: int) -> set[int]:
        return boundaries(graph, name, axis, through_sigmoids=through_sigmoids)

    if node is not None and is_rescaled(graph, node):
        return before(str(node.inputs[0]), axis)
    if node is not None and node.op == "sigmoid" and through_sigmoids:
        return before(str(node.inputs[0]), axis)
    if node is None or node.op not in MOVERS:
        return set()
    extent = graph.type(name).shape[axis]
    found: set[int] = set()
    if isinstance(node.attributes, ConcatenationAttributes):
        joint, offset = node.attributes.axis % graph.type(name).rank, 0
        for part in map(str, node.inputs):
            found |= {offset + at for at in before(part, axis)}
            if joint == axis:
                offset += graph.type(part).shape[axis]
                found.add(offset)
        return found
    source = source_of(graph, name)
    if source is not None:
        inner = before(source.name, axis)
        begin = source.begin if source.axis == axis else 0
        return {at - begin for at in inner if 0 < at - begin < extent}
    read = str(node.inputs[0])
    if isinstance(node.attributes, TransposeAttributes):
        return before(read, node.attributes.perm[axis])
    after = math.prod(graph.type(name).shape[axis + 1 :])
    shape = graph.type(read).shape
    same = [
        i for i in range(len(shape)) if (shape[i], math.prod(shape[i + 1 :])) == (extent, after)
    ]
    return before(read, same[0]) if same else set()


def last_nodes(graph: Graph, name: str) -> Iterator[Node]:
    """The nodes before a value that do more than move elements, the last of each way."""
    node = graph.producer(name)
    if node is None:
        return
    if node.op not in MOVERS and not is_rescaled(graph, node):
        yield node
        return
    for read in node.inputs:
        if read is not None and not graph.value(read).is_constant:
            yield from last_nodes(graph, read)


def comes_from_layers(graph: Graph, name: str) -> bool:
    """Whether a value has what layers give, moved at most."""
    return all(
        is_layer(graph, node)
        # Depth becomes space in some heads, whose columns nothing follows through that.
        or (OPS[node.op].moves and comes_from_layers(graph, str(node.inputs[0])))
        for node in last_nodes(graph, name)
    )


def is_score(columns: Columns, part: Region) -> bool:
    """Whether a sigmoid computes all of some columns."""
    name = columns.take(part.name, part.axis, part.begin, part.size)
    return {node.op for node in last_nodes(columns.graph, name)} == {"sigmoid"}


def is_shared(columns: Columns, part: Region) -> bool:
    """Whether some columns share one probability: a softmax computes all of them, and no others."""
    name = columns.take(part.name, part.axis, part.begin, part.size)
    nodes = list(last_nodes(columns.graph, name))
    widths = {columns.graph.type(node.outputs[0]).shape[-1] for node in nodes}
    return part.size > 1 and {node.op for node in nodes} == {"softmax"} and widths == {part.size}
