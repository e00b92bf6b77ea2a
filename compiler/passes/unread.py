"""Pixels that nothing reads, which need not be computed.

A convolution of one pixel with a stride of two reads a quarter of its image. Where all that read an
image skip the same pixels, the operator before need not give them: a convolution gets a larger
stride, operators of single elements get smaller images, and what they read may have unread pixels
in turn. In residual networks whose strides are in convolutions of one pixel, this concerns several
layers in front of every change of resolution.

Elements that remain are computed as before.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Attributes, Graph, Node, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    Pad,
    PadAttributes,
    SplitAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.ops.windows import Edges, explicit_padding, image_extent
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.rewritten import Rewritten
from fitzroy.hw_models.numerics import conv_output_extent

_IMAGE = 4
"""Dimensions of an image."""

_CHANNELS = 3
"""Axis of its channels."""

_CONVOLUTIONS = ("conv_2d", "depthwise_conv_2d")

_WORTHWHILE = 0.5
"""Share of the pixels of an image up to which computing only these pays."""

_LEAST = 8
"""Fewest rows and columns that an elementwise operator computes, if its image has as many.

This gives every tile two of each. Operators on a single pixel would need instruction forms that no
published program has, and the extra pixels cost next to nothing.
"""


@dataclass(frozen=True)
class UnreadPixels(Pass):
    """Leave out the pixels of images that no operator reads."""

    name = "unread-pixels"

    def run(self, graph: Graph) -> Graph:
        """Make images smaller of which less is read."""
        return read_pixels(graph).graph


def read_pixels(graph: Graph) -> Rewritten:
    """A graph of the same outputs that does not compute pixels that nothing reads.

    Its nodes and values have the names that they had; slices are added.

    Args:
        graph: a verified graph; it stays as it is, and is the result if it has no such pixels.
    """
    grids = _computed(graph) if _has_unread(graph) else {}
    if not grids:
        return Rewritten(graph)
    work = _Shrinking(graph, graph.copy(), grids)
    work.run()
    return Rewritten(work.graph, work.origins)


# --- positions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Span:
    """Positions along an axis.

    Attributes:
        begin: the first.
        count: how many, at least 1.
        step: their distance; 1 if there is one.
    """

    begin: int
    count: int
    step: int = 1

    @classmethod
    def of(cls, begin: int, count: int, step: int) -> _Span:
        return cls(begin, count, step if count > 1 else 1)

    @property
    def last(self) -> int:
        return self.begin + self.step * (self.count - 1)

    @property
    def indices(self) -> slice:
        return slice(self.begin, self.last + 1, self.step)

    def joined(self, other: _Span) -> _Span:
        """The fewest positions at equal distances among which are those of both."""
        begin, last = min(self.begin, other.begin), max(self.last, other.last)
        steps = [span.step for span in (self, other) if span.count > 1]
        step = math.gcd(self.begin - other.begin, *steps) or 1
        return _Span.of(begin, (last - begin) // step + 1, step)

    def widened(self, extent: int) -> _Span:
        """These positions and enough others, equally spaced, to make `_LEAST` if they exist.

        Args:
            extent: positions along the axis.
        """
        first = self.begin % self.step
        missing = min(_LEAST, (extent - 1 - first) // self.step + 1) - self.count
        if missing <= 0:
            return self
        behind = min(missing, (extent - 1 - self.last) // self.step)
        before = self.step * (missing - behind)
        return _Span.of(self.begin - before, self.count + missing, self.step)

    def among(self, other: _Span) -> _Span:
        """These positions, counted among those of another span that has them all."""
        begin = (self.begin - other.begin) // other.step
        return _Span.of(begin, self.count, max(self.step // other.step, 1))


_Grid = tuple[_Span, _Span]
"""Rows and columns of an image."""


def _joined(one: _Grid, other: _Grid) -> _Grid:
    return one[0].joined(other[0]), one[1].joined(other[1])


def _whole(extents: tuple[int, int]) -> _Grid:
    return _Span(0, extents[0]), _Span(0, extents[1])


def _size(grid: _Grid) -> int:
    return grid[0].count * grid[1].count


def _extents(type: TensorType) -> tuple[int, int]:
    """Height and width of a tensor, of which the first dimensions may be missing."""
    _, height, width, _ = ((1,) * _IMAGE + type.shape)[-_IMAGE:]
    return height, width


@dataclass(frozen=True, slots=True)
class _Window:
    """What an element of a result reads along an axis.

    Attributes:
        taps: how many elements.
        stride: how much further the next element reads.
        dilation: distance of the elements.
        before: elements of padding in front of the operand; negative if the first are not read.
        crops: whether the operator can skip the first elements.
    """

    taps: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    crops: bool = False

    def reads(self, given: _Span, extent: int) -> _Span | None:
        """The positions of an operand that some positions of the result read.

        Args:
            given: positions of the result.
            extent: of the operand.

        Returns:
            None if all are in the padding.
        """
        first = given.begin * self.stride - self.before
        last = given.last * self.stride - self.before + (self.taps - 1) * self.dilation
        apart = [given.step * self.stride] if given.count > 1 else []
        apart += [self.dilation] if self.taps > 1 else []
        step = math.gcd(*apart) or 1
        begin, last = first if first >= 0 else first % step, min(last, extent - 1)
        return None if begin > last else _Span.of(begin, (last - begin) // step + 1, step)

    def over(self, given: _Span, held: _Span) -> tuple[_Window, int] | None:
        """The window over an operand of which there are only some positions.

        Args:
            given: positions of the result that remain.
            held: those of the operand.

        Returns:
            The window, and the padding behind the operand; None if no window reads the same.
        """
        step, first = held.step, given.begin * self.stride - self.before - held.begin
        stride = given.step * self.stride if given.count > 1 else step
        dilation = self.dilation if self.taps > 1 else step
        if first % step or stride % step or dilation % step:
            return None
        window = replace(
            self, stride=stride // step, dilation=dilation // step, before=-first // step
        )
        if self.crops:
            return window, 0
        last = (given.count - 1) * window.stride + (self.taps - 1) * window.dilation
        after = max(0, last - window.before - (held.count - 1))
        count = conv_output_extent(
            held.count, self.taps, window.stride, window.dilation, window.before + after
        )
        return (window, after) if window.before >= 0 and count == given.count else None


def _windows(graph: Graph, node: Node) -> tuple[_Window, _Window] | None:
    """What a node reads along rows and columns; None if it is no window that moves."""
    source = graph.type(str(node.inputs[0])) if node.inputs else None
    match node.attributes:
        case ConvAttributes(stride, dilation, padding) if node.op in _CONVOLUTIONS:
            height, width = graph.type(str(node.inputs[1])).shape[1:3]
            kernel = height, width
        case PoolAttributes(kernel, stride, padding):
            dilation = 1, 1
        case StridedSliceAttributes(begin, _, step) if source and source.rank == _IMAGE:
            first, second = (_Window(1, step[k], 1, -begin[k], True) for k in (1, 2))
            return (first, second) if min(step) > 0 else None
        case _:
            return None
    assert source is not None
    edges = explicit_padding(padding, image_extent(source), kernel, stride, dilation)
    first, second = (_Window(kernel[k], stride[k], dilation[k], edges[2 * k]) for k in range(2))
    return first, second


# --- which pixels --------------------------------------------------------------------------------


def _has_unread(graph: Graph) -> bool:
    """Whether any node reads half of an image or less.

    Without such a node, no image becomes smaller, and the search can be left out.
    """
    return any(
        _size(grid) <= _WORTHWHILE * _size(_whole(image_extent(graph.type(name))))
        for node in graph.nodes()
        for name, grid in _reads(graph, node, None)
    )


def _computed(graph: Graph) -> dict[str, _Grid]:
    """The pixels of images that are computed, of those of which not all are."""
    complete: set[str] = set()
    while True:
        given, found = _given(graph, complete), dict[str, _Grid]()
        before = len(complete)
        for node in graph.nodes():
            if node.name in given and _pays(graph, node, given, found):
                found |= dict.fromkeys(node.outputs, given[node.name])
            elif node.name in given:
                complete.add(node.name)
        if len(complete) == before:
            return found
        # What gives all of its pixels may read more than was thought.


def _given(graph: Graph, complete: Container[str]) -> dict[str, _Grid]:
    """The pixels that are read of what nodes give, by node, where these are few.

    Args:
        graph: the graph.
        complete: nodes that give all of their pixels.
    """
    found = dict[str, _Grid]()
    read = {
        name: _whole(image_extent(graph.type(name)))
        for name in graph.outputs
        if graph.type(name).rank == _IMAGE
    }
    for node in reversed(graph.nodes()):
        grid = None if node.name in complete else _needed(graph, node, read)
        if grid is not None:
            found[node.name] = grid
        for name, part in _reads(graph, node, grid):
            read[name] = _joined(read[name], part) if name in read else part
    return found


def _needed(graph: Graph, node: Node, read: Mapping[str, _Grid]) -> _Grid | None:
    """The pixels that a node has to give, of all of its results; None if it gives all of them."""
    if not _can_skip(graph, node) or not all(name in read for name in node.outputs):
        return None
    first, *others = (read[name] for name in node.outputs)
    for other in others:
        first = _joined(first, other)
    extents, windows = image_extent(graph.type(node.outputs[0])), _windows(graph, node) or ()
    if not windows:
        first = first[0].widened(extents[0]), first[1].widened(extents[1])
    if _size(first) > _WORTHWHILE * _size(_whole(extents)):
        return None
    image = image_extent(graph.type(str(node.inputs[0]))) if windows else ()
    spans = (w.reads(span, extent) for w, span, extent in zip(windows, first, image, strict=False))
    return None if None in spans else first


def _can_skip(graph: Graph, node: Node) -> bool:
    """Whether a node can give some pixels of its results without the others."""
    images = [graph.type(name).rank == _IMAGE for name in node.outputs]
    if not images or not all(images):
        return False
    match node.attributes:
        case ConcatenationAttributes(axis) | SplitAttributes(axis):
            return axis == _CHANNELS
        case PadAttributes():
            return True
        case PoolAttributes():
            # Averages count the elements that are in the image.
            return node.op == "max_pool_2d"
    if _windows(graph, node) is not None:
        return True
    return OPS[node.op].elementwise and all(
        graph.value(name).is_constant or graph.type(name).rank == _IMAGE
        for name in node.inputs
        if name is not None
    )


def _reads(graph: Graph, node: Node, grid: _Grid | None) -> Iterator[tuple[str, _Grid]]:
    """The images that a node reads, each with the pixels that it reads of it.

    Args:
        graph: the graph.
        node: a node.
        grid: the pixels that it gives; None for all.
    """
    for index, name in enumerate(node.inputs):
        if name is None or graph.value(name).is_constant or graph.type(name).rank != _IMAGE:
            continue
        whole, windows = _whole(image_extent(graph.type(name))), _windows(graph, node)
        if windows is not None and index > 0:
            # Weights that are computed.
            yield name, whole
        elif windows is not None:
            given = grid or _whole(image_extent(graph.type(node.outputs[0])))
            rows, columns = (
                window.reads(span, extent.count)
                for window, span, extent in zip(windows, given, whole, strict=True)
            )
            yield name, (rows, columns) if rows and columns else whole
        elif grid is None:
            yield name, whole
        elif isinstance(node.attributes, PadAttributes):
            inside = _inside(node.attributes, grid, whole)
            if inside is not None:
                yield name, inside
        else:
            yield name, _repeated(grid, whole)


def _repeated(grid: _Grid, whole: _Grid) -> _Grid:
    """The pixels that an operand contributes, which is repeated along axes of extent 1."""
    rows, columns = (
        span if extent.count > 1 else extent for span, extent in zip(grid, whole, strict=True)
    )
    return rows, columns


def _inside(a: PadAttributes, grid: _Grid, whole: _Grid) -> _Grid | None:
    """The pixels that padding takes of its operand for some of its result; None if it has none."""
    found = []
    for axis, (span, extent) in enumerate(zip(grid, whole, strict=True), 1):
        first = max(0, -(-(a.before[axis] - span.begin) // span.step))
        last = min(span.count - 1, (a.before[axis] + extent.count - 1 - span.begin) // span.step)
        if first > last:
            return None
        begin = span.begin + first * span.step - a.before[axis]
        found.append(_Span.of(begin, last - first + 1, span.step))
    return found[0], found[1]


def _pays(
    graph: Graph, node: Node, given: Mapping[str, _Grid], computed: Mapping[str, _Grid]
) -> bool:
    """Whether a node that can leave out pixels has less to do then.

    Args:
        graph: the graph.
        node: the node.
        given: the pixels that nodes have to give, by node.
        computed: those that are computed, of images before it of which not all are.
    """
    windows, grid, first = _windows(graph, node), given[node.name], str(node.inputs[0])
    if isinstance(node.attributes, PadAttributes):
        # Windows over all of it may contain the padding themselves.
        readers = graph.consumers(node.outputs[0])
        return any(x.name in given or _windows(graph, x) is None for x in readers)
    if windows is None:
        # To take pixels out of an operand costs as much as to take them out of the result.
        return any(name in computed for name in node.inputs)
    source, result = graph.type(first), graph.type(node.outputs[0])
    held = computed.get(first) or _whole(image_extent(source))
    if _over(windows, grid, held) is not None:
        return True
    wanted = dict(_reads(graph, node, grid))[first]
    saved = _size(_whole(image_extent(result))) - _size(grid)
    return _size(wanted) * source.shape[-1] <= saved * result.shape[-1]


# --- the graph -----------------------------------------------------------------------------------


@dataclass
class _Shrinking:
    """A graph whose images are made smaller.

    Attributes:
        before: the graph as it was.
        graph: the graph so far.
        grids: the pixels that are computed of images, if not all.
        origins: the nodes for which slices were added, by the names of these.
        slices: results of these, by what they take.
    """

    before: Graph
    graph: Graph
    grids: Mapping[str, _Grid]
    origins: dict[str, str] = field(default_factory=dict)
    slices: dict[tuple[str, _Grid], str] = field(default_factory=dict)

    def run(self) -> None:
        """Change the types of images, then the nodes that give or read them."""
        for name, (rows, columns) in self.grids.items():
            value = self.graph.value(name)
            batch, _, _, channels = value.type.shape
            shape = batch, rows.count, columns.count, channels
            self.graph.set_value(replace(value, type=value.type.with_shape(shape)))
        for node in self.before.nodes():
            if any(name in self.grids for name in (*node.inputs, *node.outputs)):
                self._change(node)
        for node in self.graph.nodes():
            if isinstance(node.attributes, StridedSliceAttributes):
                self._skip(node)
        self.graph.prune()

    def _skip(self, node: Node) -> None:
        """Let readers of a slice read its operand, if nothing else was left of that."""
        (source,), (result,) = node.inputs, node.outputs
        same = source is not None and self.graph.type(source) == self.graph.type(result)
        if source is not None and same and result not in self.graph.outputs:
            self.graph.replace_uses(result, source)

    def _held(self, name: str) -> _Grid:
        """The pixels of an image that there are."""
        return self.grids.get(name) or _whole(image_extent(self.before.type(name)))

    def _change(self, node: Node) -> None:
        """Let a node read, and give, what there is."""
        grid, windows = self.grids.get(node.outputs[0]), _windows(self.before, node)
        if windows is not None:
            self._move(node, windows, self._held(node.outputs[0]))
            return
        if isinstance(node.attributes, PadAttributes):
            self._pad(node, node.attributes)
            return
        wanted = dict(_reads(self.before, node, grid))
        names = tuple(
            self._sliced(node, name, wanted[name]) if name in wanted else self._constant(name, grid)
            for name in node.inputs
        )
        self.graph.update(replace(node, inputs=names))

    def _move(self, node: Node, windows: tuple[_Window, _Window], given: _Grid) -> None:
        """Let a window move over the pixels that there are."""
        source = str(node.inputs[0])
        found = _over(windows, given, self._held(source))
        if found is None:
            # Other operators read pixels that no window over them would leave out.
            read = dict(_reads(self.before, node, given))[source]
            source, found = self._sliced(node, source, read), _over(windows, given, read)
            assert found is not None, "a window begins with the first pixel that it reads"
        attributes = _moving(node.attributes, given, *found)
        self.graph.update(replace(node, inputs=(source, *node.inputs[1:]), attributes=attributes))

    def _pad(self, node: Node, a: PadAttributes) -> None:
        """Pad the pixels that there are; a result without any of them becomes a constant."""
        (source,), (result,) = (str(name) for name in node.inputs), node.outputs
        whole = _whole(image_extent(self.before.type(source)))
        given = self._held(result)
        inside = _inside(a, given, whole)
        if inside is None:
            call = Call.of(self.before, node)
            type = self.graph.type(result)
            stored = np.full(type.shape, Pad().stored(call), type.dtype.numpy)
            self.graph.remove(node.name)
            self.graph.set_value(Value(result, type, stored))
            return
        before, after = list(a.before), list(a.after)
        for axis, (span, part) in enumerate(zip(given, inside, strict=True), 1):
            before[axis] = (part.begin + a.before[axis] - span.begin) // span.step
            after[axis] = span.count - part.count - before[axis]
        padding = replace(a, before=tuple(before), after=tuple(after))
        name = self._sliced(node, source, inside)
        self.graph.update(replace(node, inputs=(name,), attributes=padding))

    def _constant(self, name: str | None, grid: _Grid | None) -> str | None:
        """A constant operand, or one that is no image, of an operator that gives some pixels."""
        data = None if name is None else self.before.value(name).data
        if name is None or data is None or grid is None:
            return name
        type = self.before.type(name)
        whole = _whole(_extents(type))
        part = _repeated(grid, whole)
        if part == whole:
            return name
        taken = (slice(None), part[0].indices, part[1].indices, slice(None))
        kept = np.ascontiguousarray(data[taken[-data.ndim :]])
        fresh = self.graph.fresh(f"{name}/read")
        return self.graph.add_value(Value(fresh, type.with_shape(kept.shape), kept))

    def _sliced(self, node: Node, name: str, wanted: _Grid) -> str:
        """An image of some of the pixels of another; that one if these are all that there are."""
        held = self._held(name)
        if wanted == held:
            return name
        if (name, wanted) not in self.slices:
            rows, columns = (a.among(b) for a, b in zip(wanted, held, strict=True))
            type = self.graph.type(name)
            batch, _, _, channels = type.shape
            size = batch, rows.count, columns.count, channels
            taken = StridedSliceAttributes(
                (0, rows.begin, columns.begin, 0), size, (1, rows.step, columns.step, 1)
            )
            found = self.graph.emit(
                "strided_slice", [name], type.with_shape(size), taken, stem=f"{name}/read"
            )
            self.slices[name, wanted], self.origins[found] = found, node.name
        return self.slices[name, wanted]


_Placed = tuple[_Window, int]
"""A window, and the padding behind what it moves over."""


def _over(
    windows: tuple[_Window, _Window], given: _Grid, held: _Grid
) -> tuple[_Placed, _Placed] | None:
    """Windows over the pixels that there are; None if there are none."""
    rows, columns = (w.over(a, b) for w, a, b in zip(windows, given, held, strict=True))
    return None if rows is None or columns is None else (rows, columns)


def _moving(a: Attributes, given: _Grid, rows: _Placed, columns: _Placed) -> Attributes:
    """Attributes of an operator for windows that move otherwise."""
    (down, below), (across, right) = rows, columns
    stride = down.stride, across.stride
    edges: Edges = down.before, below, across.before, right
    match a:
        case ConvAttributes():
            dilation = down.dilation, across.dilation
            return replace(a, stride=stride, dilation=dilation, padding=edges)
        case PoolAttributes():
            return replace(a, stride=stride, padding=edges)
        case StridedSliceAttributes(begin, size, step):
            return StridedSliceAttributes(
                (begin[0], -down.before, -across.before, begin[3]),
                (size[0], given[0].count, given[1].count, size[3]),
                (step[0], *stride, step[3]),
            )
    raise AssertionError("only these have windows")
