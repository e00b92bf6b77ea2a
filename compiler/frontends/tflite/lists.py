"""Lists that loops fill, without the slices of which every turn makes a list again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.shape import ConcatenationAttributes, StridedSliceAttributes


@dataclass(frozen=True)
class _Part:
    """Consecutive rows of a value.

    Attributes:
        name: the value.
        begin: its first row.
        end: the row after the last.
    """

    name: str
    begin: int
    end: int


def joined(graph: Graph) -> None:
    """Let concatenations along the first axis read what they are made of in the end.

    A turn of a loop writes an element of a list as a concatenation of the rows before it, the
    element, and the rows after it. Written out, the last list consists of the elements alone;
    nothing reads the lists before it any more, whose rows grow with the square of the turns.
    """
    made: dict[str, list[_Part]] = {}
    read: dict[str, list[_Part]] = {}
    for node in graph.nodes():
        parts = _parts(graph, node, made)
        if not parts:
            # It computes its rows, or has none.
            continue
        read[node.name] = parts
        if _keeps(graph, node):
            made[node.outputs[0]] = parts
    needed = {*graph.outputs}
    for node in reversed(graph.nodes()):
        if needed.isdisjoint(node.outputs):
            continue
        if node.name in read and isinstance(node.attributes, ConcatenationAttributes):
            names = tuple(_value(graph, part, node) for part in read[node.name])
            node = graph.update(replace(node, inputs=names))
            needed.update(part.name for part in read[node.name])
        needed.update(name for name in node.inputs if name is not None)
    graph.prune()


def _parts(graph: Graph, node: Node, made: dict[str, list[_Part]]) -> list[_Part] | None:
    """Of which rows of other values the result of a node consists; None if it computes them."""
    attributes = node.attributes
    if isinstance(attributes, ConcatenationAttributes) and attributes.axis == 0:
        return [part for name in node.inputs for part in _whole(graph, str(name), made)]
    if isinstance(attributes, StridedSliceAttributes) and _takes_rows(graph, node, attributes):
        begin, end = attributes.begin[0], attributes.begin[0] + attributes.size[0]
        return _cut(_whole(graph, str(node.inputs[0]), made), begin, end)
    return None


def _keeps(graph: Graph, node: Node) -> bool:
    """Whether a node gives elements as they are stored, not rounded to another scale."""
    own = graph.type(node.outputs[0]).quantization
    return all(graph.type(str(name)).quantization == own for name in node.inputs)


def _takes_rows(graph: Graph, node: Node, a: StridedSliceAttributes) -> bool:
    """Whether a slice gives consecutive rows."""
    shape = graph.type(str(node.inputs[0])).shape
    return bool(a.size) and set(a.stride) == {1} and a.size[1:] == shape[1:]


def _whole(graph: Graph, name: str, made: dict[str, list[_Part]]) -> list[_Part]:
    """The parts of a value, which is one itself if nothing else is known."""
    return made.get(name, [_Part(name, 0, graph.type(name).shape[0])])


def _cut(parts: list[_Part], begin: int, end: int) -> list[_Part]:
    """Rows of a value that consists of parts."""
    found, start = list[_Part](), 0
    for part in parts:
        count = part.end - part.begin
        first, last = max(begin - start, 0), min(end - start, count)
        if (first, last) == (0, count):
            found.append(part)
        elif first < last:
            found.append(_Part(part.name, part.begin + first, part.begin + last))
        start += count
    return found


def _value(graph: Graph, part: _Part, node: Node) -> str:
    """The value of a part: a slice, unless the part is the whole."""
    type = graph.type(part.name)
    count = part.end - part.begin
    if count == type.shape[0]:
        return part.name
    shape = (count, *type.shape[1:])
    begin = (part.begin, *[0] * (type.rank - 1))
    attributes = StridedSliceAttributes(begin, shape, (1,) * type.rank)
    return graph.emit(
        "strided_slice", [part.name], type.with_shape(shape), attributes,
        stem=node.name, origin=node.origin,
    )  # fmt: skip
