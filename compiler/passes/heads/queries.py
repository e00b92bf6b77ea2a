"""Boxes of queries, as transformers give them: each says where it is in the image by itself.

All four numbers are sigmoids, of sums that may refine an earlier guess, in parts of the image. No
cell and no anchor has a part in them, so that 8 bits of a sigmoid would be steps of more than a
pixel: the host computes it, and all that leads from results of layers to it.

Such a model is trained to give every object once. Those that refine a guess have a score for each
class, and those that do not, such as DETR, let the classes share a softmax with one for no object,
which is the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BOX, BoxCoding, decoded
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.detections import DECODING, sigmoid
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.passes.heads.columns import (
    MOVERS,
    Columns,
    Region,
    source_of,
)
from fitzroy.compiler.passes.heads.probing import Probe, probes
from fitzroy.compiler.passes.heads.segments import comes_from_layers, is_shared, last_nodes

Floats = npt.NDArray[np.float32]

_TOLERANCE = 1e-3

_MOVERS = (*MOVERS, "gather", "gather_nd")
"""Operators whose results have elements of their operands; first guesses are chosen by scores."""


def are_queries(ways: Iterable[Probe]) -> bool:
    """Whether boxes are sigmoids of their four numbers, as centres and extents or as corners.

    Args:
        ways: ways from four numbers to boxes.
    """
    return any(map(_is_sigmoid, ways))


def _is_sigmoid(probe: Probe) -> bool:
    """Whether decoded boxes are sigmoids of random ones, in any units of x and y."""
    boxes = sigmoid(probe.random)
    corners = decoded(boxes, None, BoxCoding.CENTRES, 1.0)
    return any(_is_scaled(one, probe.answers) for one in (boxes, corners))


def _is_scaled(boxes: Floats, answers: Floats) -> bool:
    """Whether boxes [n,4] are others in other units of x and y."""
    units = np.abs(answers).max(axis=0) / np.abs(boxes).max(axis=0)
    same = np.allclose(units[:2], units[2:], rtol=_TOLERANCE)
    return same and np.allclose(boxes * units, answers, atol=_TOLERANCE * float(units.max()))


def rows_of_queries(columns: Columns) -> str | None:
    """Boxes of queries and scores as rows [1,n,4+c], of a model that gives both apart.

    Logits go through the function that the model was trained with.

    Returns:
        The rows; None if the outputs are others.
    """
    graph = columns.graph
    shapes = {name: graph.type(name).shape for name in graph.outputs}
    if len(shapes) != 2 or any(len(shape) != 3 for shape in shapes.values()):
        return None
    for boxes, scores in (graph.outputs, graph.outputs[::-1]):
        if shapes[boxes][2] != BOX or shapes[boxes][:2] != shapes[scores][:2]:
            continue
        own = _unstacked(columns, boxes)
        ways = [x for x in probes(graph, own, source_of) if x.region.size == BOX]
        if are_queries(ways):
            sure = _scores(graph, _unstacked(columns, scores), ways[-1])
            return columns.joined([own, sure], 2)
    return None


def _unstacked(columns: Columns, name: str) -> str:
    """What computes one of several values that are stacked; a value that is none of such itself."""
    graph, node = columns.graph, columns.graph.producer(name)
    if node is not None and node.op == "reshape":
        read = str(node.inputs[0])
        own = _unstacked(columns, read)
        return name if own == read else columns.reshaped(own, graph.type(name).shape)
    source = source_of(graph, name)
    if source is None or source.size > 1:
        return name
    return columns.take(source.name, source.axis, source.begin, source.size)


def _scores(graph: Graph, name: str, way: Probe) -> str:
    """Scores of queries, of logits or as they are.

    Args:
        graph: the graph.
        name: what the model gives.
        way: the longest way to boxes.
    """
    if {node.op for node in last_nodes(graph, name)} <= {"sigmoid", "softmax"}:
        return name
    type = graph.type(name)
    if _refines(graph, way):
        return graph.emit("sigmoid", [name], type)
    return graph.emit("softmax", [name], type, SoftmaxAttributes())


def _refines(graph: Graph, way: Probe) -> bool:
    """Whether boxes depend on more than what layers give, or on the number of their query."""
    zero = way.constant(0)
    return not comes_from_layers(graph, way.region.name) or not np.allclose(zero, zero[0])


def shared_scores(columns: Columns, part: Region) -> str | None:
    """Scores [1,n,c] of a softmax, without its last class, which stands for no object.

    Args:
        columns: makes parts of values.
        part: the columns of rows that may be such scores, with or without that class.
    """
    graph = columns.graph
    name = columns.take(part.name, part.axis, part.begin, part.size)
    if is_shared(columns, part):
        return columns.sliced(name, part.axis, 0, part.size - 1)
    source = source_of(graph, name)
    if source is None or source.begin or source.axis != part.axis:
        return None
    whole = Region(source.name, source.axis, 0, part.size + 1)
    same = graph.type(source.name).shape[source.axis] == whole.size
    return name if same and is_shared(columns, whole) else None


def on_host(graph: Graph, boxes: str) -> str:
    """Let the host compute boxes of what layers give, in real numbers.

    Args:
        graph: the graph, whose nodes between layers and boxes get other names.
        boxes: the boxes.

    Returns:
        The boxes.
    """
    pending, found = [boxes], set[str]()
    while pending:
        node = graph.producer(pending.pop())
        if node is not None and node.name not in found and _decodes(graph, node):
            found.add(node.name)
            pending += graph.computed(node)
    for name in [node.name for node in graph.nodes() if node.name in found]:
        node = graph.node(name)
        made = tuple(graph.fresh(f"{DECODING}{output}") for output in node.outputs)
        moved = replace(node, name=graph.fresh(f"{DECODING}{name}"), outputs=made)
        graph.add_node(moved, [graph.type(output) for output in node.outputs])
        for before, after in zip(node.outputs, made, strict=True):
            graph.replace_uses(before, after)
            boxes = after if boxes == before else boxes
    return boxes


def _decodes(graph: Graph, node: Node) -> bool:
    """Whether a node is between layers and boxes."""
    real = all(graph.type(name).dtype is DType.FLOAT32 for name in node.outputs)
    return real and (OPS[node.op].elementwise or node.op in _MOVERS)
