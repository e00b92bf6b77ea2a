"""One sigmoid of a value in the place of one for each of its slices.

YOLOv5's exporter to TensorFlow slices what a layer gives into centres, extents and scores, and
takes the sigmoid of each. Boxes are encoded as sigmoids: where one value holds these, they are
found.
"""

from __future__ import annotations

from dataclasses import replace

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.passes.heads.columns import Columns, source_of


def join_sigmoids(graph: Graph) -> None:
    """Take the sigmoid of values of which all slices along an axis go through one."""
    for name in list(graph.values):
        sigmoids = _sigmoids(graph, name)
        if len(sigmoids) < 2:
            continue
        after = graph.type(sigmoids[0].outputs[0])
        type = replace(after, shape=graph.type(name).shape)
        joint = graph.emit("sigmoid", [name], type, sigmoids[0].attributes)
        columns = Columns(graph)
        for node in sigmoids:
            part = source_of(graph, str(node.inputs[0]))
            assert part is not None
            own = columns.sliced(joint, part.axis, part.begin, part.size)
            graph.replace_uses(node.outputs[0], own)


def _sigmoids(graph: Graph, name: str) -> list[Node]:
    """The sigmoids of all slices of a value; none if some slice, or part of it, goes elsewhere."""
    found: list[Node] = []
    axes, types = set[int](), set[object]()
    for node in graph.consumers(name):
        for piece in node.outputs:
            part, readers = source_of(graph, piece), graph.consumers(piece)
            alone = len(readers) == 1 and readers[0].op == "sigmoid"
            if part is None or not alone or piece in graph.outputs:
                return []
            axes.add(part.axis)
            made = graph.type(readers[0].outputs[0])
            types.add((made.dtype, made.quantization))
            found.append(readers[0])
    return found if len(axes) == len(types) == 1 else []
