"""Depthwise convolutions of some channels after others, where borders of all do not fit.

With an image, a tile keeps what it reads of its neighbours. On small maps that is several times
what it owns, if a kernel reaches far. Strips of rows do not help where a mean of the whole image is
read next, as in squeeze and excitation. But no channel depends on another one: neither in depthwise
convolutions, nor in activations, means over an image, and products with a factor for each channel.
A convolution in front of them makes any of its channels alone. So all of these compute a part of
the channels, one part after the other, and only one has borders at a time. The parts are joined for
operators that read all channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, PadAttributes
from fitzroy.compiler.passes.rewritten import Rewritten
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK
from fitzroy.compiler.targets.edgetpu.lowerings.as_convolution import windows_of
from fitzroy.compiler.targets.edgetpu.lowerings.some_channels import (
    ChannelRewriter,
    bias_of,
    narrowed,
    some,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    LANES,
    ROWS,
    Image,
    Interval,
    TiledAxis,
    round_up,
    split,
)

_SHARE = 4
"""A part of an image with its borders takes one of so many parts of narrow memory."""

_GRID = ROWS, COLUMNS

_FILTER_AXIS = {"conv_2d": 0, "depthwise_conv_2d": 3}
"""The axis of output channels in filters."""


def channels_in_turn(graph: Graph, narrow_bytes: int) -> Rewritten:
    """A graph of the same meaning, in which borders of all channels are never there together.

    Args:
        graph: the graph; it stays as it is, and is the result if all borders fit.
        narrow_bytes: bytes of narrow memory of every tile.
    """
    regions, taken = list[_Region](), set[str]()
    for node in graph.nodes():
        if node.name in taken or not _is_depthwise(graph, node):
            continue
        parts = _parts(graph, node, narrow_bytes)
        if len(parts) > 1:
            region = _Region.around(graph, node, parts, taken)
            taken.update(one.name for one in region.nodes)
            regions.append(region)
    if not regions:
        return Rewritten(graph)
    work = _Work(graph.copy())
    for region in regions:
        work.divide(region)
    return work.finished()


def _parts(graph: Graph, node: Node, narrow_bytes: int) -> Sequence[range]:
    """Channels that a depthwise convolution computes at a time; all, if their borders fit.

    They are all as well if the image does not even fit without borders: then strips of rows help.
    """
    call = Call.of(graph, node)
    source, result = call.type(0).shape, call.result.type.shape
    _, height, width, _ = call.operand(1).type.shape
    rows, columns = windows_of(call, (height, width))
    needs = [
        [tuple(window.needs(owned) for owned in split(count, tiles))]
        for window, count, tiles in zip((rows, columns), result[1:3], _GRID, strict=True)
    ]
    bordered, computed = _bytes(source, needs), _bytes(result)
    if bordered + computed <= narrow_bytes or _bytes(source) + computed > narrow_bytes:
        return [range(source[3])]
    fewest = -(-bordered * _SHARE // narrow_bytes)
    width = round_up(-(-source[3] // fewest), LANES)
    return [range(begin, min(begin + width, source[3])) for begin in range(0, source[3], width)]


def _bytes(shape: Sequence[int], needs: Sequence[Sequence[tuple[Interval, ...]]] = ((), ())) -> int:
    """Bytes of every tile that an image takes, with what is read of its rows and columns."""
    rows, columns = (
        TiledAxis.of(extent, tiles, read)
        for extent, tiles, read in zip(shape[1:3], _GRID, needs, strict=True)
    )
    return Image("", rows, columns, shape[3], 0).nbytes


# --- what goes together --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Region:
    """Operators that compute the same channels at a time.

    Attributes:
        nodes: them, in order.
        parts: the channels.
    """

    nodes: Sequence[Node]
    parts: Sequence[range]

    @classmethod
    def around(cls, graph: Graph, node: Node, parts: Sequence[range], taken: Set[str]) -> _Region:
        """The region of a depthwise convolution: all that is connected with it by images.

        Args:
            graph: the graph.
            node: the convolution.
            parts: the channels.
            taken: names of nodes that belong to other regions.
        """
        names, waiting = {node.name}, [node]
        while waiting:
            near = waiting.pop()
            for other in (*_before(graph, near), *_after(graph, near)):
                if other.name not in names | taken:
                    names.add(other.name)
                    waiting.append(other)
        return cls([one for one in graph.nodes() if one.name in names], parts)


def _before(graph: Graph, node: Node) -> Iterator[Node]:
    """Operators that make the images that a node reads, if nothing else wants these whole."""
    if node.op == "conv_2d":
        return
    for name in _images(graph, node):
        maker = graph.producer(name)
        if maker is None or name in graph.outputs:
            continue
        apart = all(_keeps_channels(graph, reader) for reader in graph.consumers(name))
        if apart and (_keeps_channels(graph, maker) or _is_convolution(graph, maker)):
            yield maker


def _after(graph: Graph, node: Node) -> Iterator[Node]:
    """Operators that read the image that a node makes, and can do so in parts."""
    (result,) = node.outputs
    if _is_image(graph, result):
        yield from (one for one in graph.consumers(result) if _keeps_channels(graph, one))


def _images(graph: Graph, node: Node) -> list[str]:
    """What a node reads that has all of an image's channels at several positions."""
    return [name for name in node.inputs if name is not None and _is_image(graph, name)]


def _is_image(graph: Graph, name: str) -> bool:
    value = graph.value(name)
    shape = value.type.shape
    if value.is_constant or value.type.quantization is None or len(shape) != IMAGE_RANK:
        return False
    return shape[0] == 1 and shape[1] * shape[2] > 1


def _is_depthwise(graph: Graph, node: Node) -> bool:
    """Whether a node is a depthwise convolution of one result for each channel, all of it known."""
    if node.op != "depthwise_conv_2d" or not _is_known(graph, node):
        return False
    name, filters = str(node.inputs[0]), graph.type(str(node.inputs[1]))
    return _is_image(graph, name) and filters.shape[3] == graph.type(name).shape[3]


def _is_convolution(graph: Graph, node: Node) -> bool:
    return node.op == "conv_2d" and _is_known(graph, node)


def _is_known(graph: Graph, node: Node) -> bool:
    """Whether the filter of a convolution is a quantized constant, and its bias one too."""
    filters, bias = graph.value(str(node.inputs[1])), bias_of(graph, node)
    known = filters.is_constant and (bias is None or bias.is_constant)
    return known and filters.type.quantization is not None


def _keeps_channels(graph: Graph, node: Node) -> bool:
    """Whether every channel of a node's result depends on the same channel of images alone."""
    images = _images(graph, node)
    if not images or len(node.outputs) != 1:
        return False
    channels = graph.type(images[0]).shape[3]
    if graph.type(node.outputs[0]).shape[-1] != channels:
        return False
    a = node.attributes
    match node.op:
        case "depthwise_conv_2d":
            return _is_depthwise(graph, node)
        case "mean":
            assert isinstance(a, ReductionAttributes), "the attributes of its operator"
            return tuple(a.axes) == (1, 2)
        case "pad":
            assert isinstance(a, PadAttributes), "the attributes of its operator"
            return not any((a.before[0], a.after[0], a.before[3], a.after[3]))
        case _:
            return OPS[node.op].elementwise and all(
                graph.type(name).size == 1 or _has_channels(graph, name, channels)
                for name in node.inputs
                if name is not None
            )


def _has_channels(graph: Graph, name: str, channels: int) -> bool:
    """Whether a value has so many channels: one that is computed, and of which slices are read."""
    return not graph.value(name).is_constant and graph.type(name).shape[-1] == channels


# --- the parts -----------------------------------------------------------------------------------


class _Work(ChannelRewriter):
    """A graph whose regions are divided one by one."""

    def divide(self, region: _Region) -> None:
        """Put nodes that make some channels in the place of those that make all."""
        made: dict[str, list[str]] = {one.outputs[0]: [] for one in region.nodes}
        for channels in region.parts:
            for node in region.nodes:
                operands = self.operands(node, channels, {k: v[-1] for k, v in made.items() if v})
                type = narrowed(self.graph.type(node.outputs[0]), channels)
                own = self.emit(node.name, node.op, operands, type, node.attributes)
                made[node.outputs[0]].append(own)
        names = {node.name for node in region.nodes}
        for node in reversed(region.nodes):
            (result,) = node.outputs
            outside = any(reader.name not in names for reader in self.graph.consumers(result))
            if outside or result in self.graph.outputs:
                axis = len(self.graph.type(result).shape) - 1
                joined = ConcatenationAttributes(axis)
                self.put_in_place(node, "concatenation", made[result], joined)
            else:
                self.graph.remove(node.name)

    def operands(self, node: Node, channels: range, own: dict[str, str]) -> Sequence[str | None]:
        """What a node reads to make some channels.

        Args:
            node: the node.
            channels: them.
            own: these channels of results of its region, by the names of all.
        """
        if node.op in _FILTER_AXIS:
            (source, *_), filters = node.inputs, self.filters(node, channels)
            if node.op == "conv_2d":
                return [source, filters, *self.biases(node, channels)]
            return [self.part(node, source, channels, own), filters, *self.biases(node, channels)]
        return [self.part(node, name, channels, own) for name in node.inputs]

    def part(
        self, node: Node, name: str | None, channels: range, own: dict[str, str]
    ) -> str | None:
        """Some channels of what a node reads."""
        if name is None or self.graph.type(name).size == 1:
            return name
        return own[name] if name in own else self.slice(node, name, channels)

    def filters(self, node: Node, channels: range) -> str:
        """The filters of some of a convolution's output channels."""
        filters = self.graph.value(str(node.inputs[1]))
        quantization = filters.type.quantization
        assert filters.data is not None, "the filter is known"
        assert quantization is not None, "and quantized"
        data = filters.data.take(channels, axis=_FILTER_AXIS[node.op])
        return self.graph.add_constant(filters.name, data, some(quantization, channels))
