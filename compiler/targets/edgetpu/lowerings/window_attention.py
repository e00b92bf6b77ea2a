"""Attention within windows, as products of whole heads in windows of one image.

Vision transformers with windows multiply a matrix for every window and head. Pixels of a window
follow each other in the image that queries, keys and values are channels of. A head of all windows
is then a slice of its channels, and `batch_matmul` of [windows,pixels,channels] multiplies all of
them at once. What lies between the two products of an attention is computed head by head as well:
functions of single elements, the sum with constants (positions, masks of shifted windows), softmax.

Fewer windows than there are tiles take one product with those of all heads: pixels of a head follow
those of the head before, so that the heads of windows are windows themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    Shape,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.passes.axes.frames import is_plain
from fitzroy.compiler.passes.rewritten import Rewriter, Rewritten
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK
from fitzroy.compiler.targets.edgetpu.lowerings.batch_matmul import MOST_HEADS, MOST_MATRICES
from fitzroy.compiler.targets.edgetpu.lowerings.traces import (
    MOVES,
    Numbers,
    is_product,
    moved,
    traces,
)
from fitzroy.compiler.targets.edgetpu.reshaping.windows import (
    divides_evenly,
    heads_divide_evenly,
)

MOST_TOGETHER = 3 << 17
"""Elements of the scores, the operands or the results of an attention up to which all its matrices
are computed together: an eighth of what all tiles hold. Scores, exponentials and results of more do
not fit at the same time."""

_MOST_OF_HEAD = 3 << 18
"""Scores of a head in all windows, a quarter of what all tiles hold, up to which these are computed
together if single matrices can be multiplied instead: exponentials and what they are made of need
as much each."""

_MOST_AT_ONCE = 3 << 20
"""Bytes of these, of what heads are channels of, of the results and of the image that these are
added to: what all tiles hold."""

_BY_HEADS = (0, 2, 1, 3)
"""The order of axes between [windows,heads,pixels,channels] and [windows,pixels,heads,channels]."""


@dataclass(frozen=True, slots=True)
class _Heads:
    """Matrices of all windows and heads as channels of pixels.

    Attributes:
        root: the value that has the pixels, window by window.
        firsts: for each head, its first channel there.
        channels: of a head.
        depth: channels of a pixel there.
        between: functions of single elements that the matrices have gone through, the first first.
    """

    root: str
    firsts: tuple[int, ...]
    channels: int
    depth: int
    between: tuple[Node, ...]

    @property
    def distance(self) -> int | None:
        """Channels from a head to the next one, if heads together are channels that follow.

        These are those of heads alone, or, if something is between them, all channels.
        """
        steps = {after - before for before, after in pairwise(self.firsts)}
        if steps == {self.channels}:
            return self.channels
        each, rest = divmod(self.depth, len(self.firsts))
        inside = self.firsts[0] + self.channels <= each
        return each if steps == {each} and not rest and inside else None


@dataclass(frozen=True, slots=True)
class _Attention:
    """The two products of an attention, and what they read.

    Attributes:
        scores: the first product.
        functions: what its result goes through, one after the other.
        mixed: the second product.
        query: rows of the first product.
        key: columns of the first product.
        value: what the second product mixes.
    """

    scores: Node
    functions: tuple[Node, ...]
    mixed: Node
    query: _Heads
    key: _Heads
    value: _Heads


def by_heads(graph: Graph) -> Rewritten:
    """A graph of the same meaning, in which attention within windows has a product for each head.

    Args:
        graph: the graph; it stays as it is, and is the result if it has no such attention.
    """
    found = [_attention(graph, node) for node in graph.nodes() if _of_windows(graph, node)]
    return _Work.applied(graph, [one for one in found if one is not None])


def _of_windows(graph: Graph, node: Node) -> bool:
    """Whether a node has products [windows,heads,pixels,pixels] that tiles have as many of each."""
    if not is_product(graph, node):
        return False
    shape = graph.type(node.outputs[0]).shape
    if len(shape) != IMAGE_RANK or not 1 < shape[1] <= MOST_HEADS or shape[2] != shape[3]:
        return False
    return bool(_groups(shape))


def _groups(shape: Shape) -> list[range]:
    """The heads that are computed together; none if tiles would not have as many windows each.

    Args:
        shape: shape of the scores [windows,heads,pixels,pixels].
    """
    windows, heads, _, _ = shape
    if divides_evenly(windows):
        return [range(head, head + 1) for head in range(heads)]
    together = heads_divide_evenly(windows, heads) and math.prod(shape) <= MOST_TOGETHER
    return [range(heads)] if together else []


def _attention(graph: Graph, scores: Node) -> _Attention | None:
    """The attention that a first product begins; None if it is something else."""
    shape, functions = graph.type(scores.outputs[0]).shape, list[Node]()
    node = scores
    while True:
        (name,), readers = node.outputs, graph.consumers(node.outputs[0])
        if len(readers) != 1 or name in graph.outputs:
            return None
        (node,) = readers
        if is_product(graph, node):
            break
        if not _goes_by_heads(graph, node, name, shape):
            return None
        functions.append(node)
    first, second = scores.attributes, node.attributes
    assert isinstance(first, BatchMatMulAttributes)
    assert isinstance(second, BatchMatMulAttributes)
    if second.adj_x or node.inputs[0] != name or node.inputs[1] == name:
        return None
    rows = shape[:-1]
    if graph.type(node.outputs[0]).shape[:-1] != rows:
        return None
    query = _heads(graph, scores.inputs[0], rows, swapped=first.adj_x)
    key = _heads(graph, scores.inputs[1], rows, swapped=not first.adj_y)
    value = _heads(graph, node.inputs[1], rows, swapped=second.adj_y)
    if query is None or key is None or value is None:
        return None
    if len(_groups(shape)) == 1 and None in (query.distance, key.distance, value.distance):
        return None
    found = _Attention(scores, tuple(functions), node, query, key, value)
    return found if _has_room(graph, found) else None


def _has_room(graph: Graph, item: _Attention) -> bool:
    """Whether tiles have room for an attention by heads, or cannot compute it otherwise."""
    shape = graph.type(item.scores.outputs[0]).shape
    if math.prod(shape[:-2]) > MOST_MATRICES:
        return True
    scores = math.prod(shape) // len(_groups(shape))
    roots = sorted({item.query.root, item.key.root, item.value.root})
    read = sum(graph.type(root).size for root in roots)
    written = graph.type(item.mixed.outputs[0]).size
    return scores <= _MOST_OF_HEAD and 3 * scores + read + 2 * written <= _MOST_AT_ONCE


def _goes_by_heads(graph: Graph, node: Node, name: str, shape: Shape) -> bool:
    """Whether a function of scores can be computed for each head by itself.

    Args:
        graph: the graph.
        node: the function.
        name: what it reads.
        shape: shape of the scores [windows,heads,pixels,pixels].
    """
    after = graph.type(node.outputs[0]).shape
    if _without_units(after) != _without_units(shape) or after[-2:] != shape[-2:]:
        return False
    if node.op in ("reshape", "softmax"):
        return True
    if not OPS[node.op].elementwise or None in node.inputs or node.inputs.count(name) != 1:
        return False
    others = [graph.value(other or "") for other in node.inputs if other != name]
    return all(value.is_constant and is_plain(value.type) for value in others)


def _without_units(shape: Sequence[int]) -> list[int]:
    return [extent for extent in shape if extent > 1]


def _heads(graph: Graph, name: str | None, rows: Shape, *, swapped: bool) -> _Heads | None:
    """The matrices of an operand as channels of pixels, of the furthest value possible.

    Args:
        graph: the graph.
        name: the operand.
        rows: windows, heads and pixels, of each of which it has its own rows; none are repeated.
        swapped: whether rows of its matrices are channels.
    """
    for trace in reversed(traces(graph, name or "")):
        numbers = trace.numbers.swapaxes(-1, -2) if swapped else trace.numbers
        shape = graph.type(trace.root).shape
        if numbers.shape[:-1] != rows or not shape:
            continue
        firsts = _firsts(numbers, shape)
        if firsts is not None:
            return _Heads(trace.root, firsts, numbers.shape[-1], shape[-1], trace.between)
    return None


def _firsts(numbers: Numbers, shape: Shape) -> tuple[int, ...] | None:
    """The first channels of heads in a value whose pixels are those of windows; None if not.

    Args:
        numbers: numbers of elements there, of [windows,heads,pixels,channels].
        shape: shape of the value.
    """
    windows, _, pixels, channels = numbers.shape
    depth = shape[-1]
    if math.prod(shape) != windows * pixels * depth:
        return None
    firsts = numbers[0, :, 0, 0]
    places = np.arange(windows * pixels).reshape(windows, 1, pixels, 1) * depth
    plain = places + firsts[:, None, None] + np.arange(channels)
    if firsts.max() + channels > depth or not np.array_equal(numbers, plain):
        return None
    return tuple(firsts.tolist())


class _Work(Rewriter[_Attention]):
    """A graph whose attentions are computed by heads."""

    def rewrite(self, item: _Attention) -> None:
        """Put products of heads in the place of those of windows and heads."""
        graph, (mixed,) = self.graph, item.mixed.outputs
        after = graph.type(mixed)
        windows, heads, pixels, channels = after.shape
        groups = _groups(graph.type(item.scores.outputs[0]).shape)
        joined = self._joined(item, [self._group(item, group) for group in groups])
        numbers = np.arange(after.size).reshape(windows, pixels, heads, channels)
        for name, shape in list(self._same(mixed, numbers.transpose(_BY_HEADS))):
            graph.replace_uses(name, self._reshape(item.mixed.name, joined, shape))
        if graph.consumers(mixed) or mixed in graph.outputs:
            self._put(item.mixed, joined)

    # --- results -------------------------------------------------------------------------------

    def _joined(self, item: _Attention, names: Sequence[str]) -> str:
        """Results of all heads beside each other, as [windows,pixels,channels]."""
        origin = item.mixed.name
        after = self.graph.type(item.mixed.outputs[0])
        windows, heads, pixels, channels = after.shape
        whole = after.with_shape((windows, pixels, heads * channels))
        if len(names) > 1:
            axis = ConcatenationAttributes(2)
            return self.emit(origin, "concatenation", names, whole, axis)
        apart = self._reshape(origin, names[0], after.shape)
        return self._reshape(origin, self._turned(origin, apart), whole.shape)

    def _same(self, name: str, numbers: Numbers) -> Iterator[tuple[str, Shape]]:
        """What moves make of a value that has elements in the order of their numbers.

        What goes out keeps its place, and is none of these.
        """
        for node in self.graph.consumers(name):
            if node.op not in MOVES or len(node.outputs) > 1:
                continue
            (result,) = node.outputs
            found = moved(self.graph, node, result, numbers)
            if not np.array_equal(found.reshape(-1), np.arange(numbers.size)):
                yield from self._same(result, found)
            elif result not in self.graph.outputs:
                yield result, self.graph.type(result).shape

    def _put(self, mixed: Node, joined: str) -> None:
        """The result of a second product as it was, for those that read it so."""
        (name,) = mixed.outputs
        windows, heads, pixels, channels = self.graph.type(name).shape
        apart = self._reshape(mixed.name, joined, (windows, pixels, heads, channels))
        if name in self.graph.outputs:
            self.put_in_place(mixed, "transpose", [apart], TransposeAttributes(_BY_HEADS))
        else:
            self.graph.replace_uses(name, self._turned(mixed.name, apart))

    # --- heads ---------------------------------------------------------------------------------

    def _group(self, item: _Attention, group: range) -> str:
        """Some heads of an attention, as [windows,pixels,channels]: a window for each of them."""
        query, key, value = (
            self._operand(heads, product, group)
            for heads, product in (
                (item.query, item.scores),
                (item.key, item.scores),
                (item.value, item.mixed),
            )
        )
        name = self._product(item.scores, [query, key], adj_y=True)
        before = item.scores.outputs[0]
        for node in item.functions:
            if node.op != "reshape":
                name = self._function(node, before, name, group)
            (before,) = node.outputs
        return self._product(item.mixed, [name, value], adj_y=False)

    def _operand(self, heads: _Heads, product: Node, group: range) -> str:
        """The matrices of some heads, as [windows,pixels,channels]."""
        windows, every, pixels, _ = self.graph.type(product.outputs[0]).shape
        origin, channels, distance = product.name, heads.channels, heads.distance
        name = self._reshape(origin, heads.root, (windows, pixels, heads.depth))
        if len(group) == 1:
            name = self._slice(origin, name, heads.firsts[group[0]], channels)
        else:
            assert distance is not None, "a condition of heads that are computed together"
            between = distance > channels
            first = 0 if between else heads.firsts[0]
            name = self._slice(origin, name, first, every * distance)
            apart = self._reshape(origin, name, (windows, pixels, every, distance))
            shape = (windows * every, pixels, distance)
            name = self._reshape(origin, self._turned(origin, apart), shape)
            name = self._slice(origin, name, heads.firsts[0] - first, channels)
        for node in heads.between:
            own = self.graph.type(node.outputs[0]).with_shape(self.graph.type(name).shape)
            inputs = [name, *(self._scalar(one or "") for one in node.inputs[1:])]
            name = self.emit(node.name, node.op, inputs, own, node.attributes)
        return name

    def _product(self, product: Node, operands: Sequence[str], *, adj_y: bool) -> str:
        """The products of some heads in all windows."""
        shape = self.graph.type(operands[0]).shape[:-1]
        after = self.graph.type(product.outputs[0])
        type = after.with_shape((*shape, after.shape[-1]))
        attributes = BatchMatMulAttributes(adj_x=False, adj_y=adj_y)
        return self.emit(product.name, "batch_matmul", operands, type, attributes)

    def _function(self, node: Node, before: str, name: str, group: range) -> str:
        """A function of scores, for some heads of them.

        Args:
            node: the function.
            before: what it reads.
            name: the heads of that.
            group: their numbers.
        """
        own = self.graph.type(name).shape
        inputs = [
            name if one == before else self._constant(node, one or "", own, group)
            for one in node.inputs
        ]
        type = self.graph.type(node.outputs[0]).with_shape(own)
        return self.emit(node.name, node.op, inputs, type, node.attributes)

    def _constant(self, node: Node, name: str, own: Shape, group: range) -> str:
        """What heads meet of a constant: once if it is the same for all of their windows.

        Args:
            node: a function of scores.
            name: its constant.
            own: shape of the scores of the heads [windows,pixels,pixels].
            group: numbers of the heads.
        """
        value = self.graph.value(name)
        if value.type.size == 1:
            return self._scalar(name)
        assert value.data is not None, "it is a constant"
        windows, rows, columns = own
        whole = np.broadcast_to(value.data, self.graph.type(node.outputs[0]).shape)
        apart = whole.reshape(windows // len(group), -1, rows, columns)
        data = apart[:, group.start : group.stop].reshape(own)
        if (data == data[:1]).all():
            data = data[:1]
        quantization = value.type.quantization
        return self.graph.add_constant(name, np.ascontiguousarray(data), quantization)

    def _scalar(self, name: str) -> str:
        """A constant of one element without axes, of which heads may have fewer."""
        value = self.graph.value(name)
        assert value.data is not None, "it is a constant"
        if not value.type.rank:
            return name
        return self.graph.add_constant(name, value.data.reshape(()), value.type.quantization)

    # --- building ------------------------------------------------------------------------------

    def _turned(self, origin: str, name: str) -> str:
        """Heads in front of pixels, or the other way round."""
        type = self.graph.type(name)
        turned = type.with_shape(tuple(type.shape[axis] for axis in _BY_HEADS))
        return self.emit(origin, "transpose", [name], turned, TransposeAttributes(_BY_HEADS))

    def _slice(self, origin: str, name: str, first: int, channels: int) -> str:
        """Some channels of all pixels; nothing to do if these are all."""
        type = self.graph.type(name)
        part = type.with_shape((*type.shape[:-1], channels))
        if part.shape == type.shape:
            return name
        taken = StridedSliceAttributes((0, 0, first), part.shape, (1, 1, 1))
        return self.emit(origin, "strided_slice", [name], part, taken)

    def _reshape(self, origin: str, name: str, shape: Shape) -> str:
        """The same elements in another shape; nothing to do if it is the same."""
        type = self.graph.type(name).with_shape(shape)
        if self.graph.type(name).shape == shape:
            return name
        return self.emit(origin, "reshape", [name], type, ReshapeAttributes(shape))
