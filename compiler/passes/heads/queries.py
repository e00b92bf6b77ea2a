"""Boxes of queries, as transformers give them: each says where it is in the image by itself.

All four numbers are sigmoids, of sums that may refine an earlier guess, in parts of the image. No
cell and no anchor has a part in them, so that 8 bits of a sigmoid would be steps of more than a
pixel: the host computes it, and all that leads from results of layers to it.

Such a model is trained to give every object once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import BoxCoding, decoded
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.detections import DECODING, sigmoid
from fitzroy.compiler.passes.heads.columns import MOVERS
from fitzroy.compiler.passes.heads.probing import Probe

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
