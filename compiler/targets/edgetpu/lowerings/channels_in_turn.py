"""Depthwise convolutions that compute some channels at a time, where borders of all do not fit.

A tile keeps what it reads of its neighbours' part of an image beside its own. If a kernel reaches
far on a small map, that is several times what it owns. Strips of rows would need less, but cannot
be used if a mean of the whole image comes next, as in squeeze and excitation. Channels, however,
are independent of each other in depthwise convolutions, activations, means over an image and
products with a factor for each channel, and a convolution in front of these can make any of its
channels alone. So all of them are divided into parts of the channels, which are computed one after
the other: borders are needed for one part at a time. Operators that read all channels get the parts
joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
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
    is_known,
    narrowed,
    some,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    LANES,
    ROWS,
    Image,
    needs_of,
    round_up,
    split,
)

_SHARE = 4
"""A part of the channels, borders included, may take one of so many parts of narrow memory."""


def channels_in_turn(graph: Graph, narrow_bytes: int) -> Rewritten:
    """A graph of the same meaning, which needs borders for some channels at a time.

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
    return _Work.applied(graph, regions)


def _parts(graph: Graph, node: Node, narrow_bytes: int) -> Sequence[range]:
    """Channels that a depthwise convolution computes at a time.

    These are all channels if their borders fit, and also if the image does not even fit without
    borders, which takes strips of rows.
    """
    call = Call.of(graph, node)
    source, result = call.type(0).shape, call.result.type.shape
    _, height, width, _ = call.operand(1).type.shape
    rows, columns = windows_of(call, (height, width))
    read = (
        [needs_of(rows, split(result[1], ROWS))],
        [needs_of(columns, split(result[2], COLUMNS))],
    )
    plain, computed = Image.of("", source).nbytes, Image.of("", result).nbytes
    bordered = Image.of("", source, read=read).nbytes
    if bordered + computed <= narrow_bytes or plain + computed > narrow_bytes:
        return [range(source[3])]
    fewest = -(-bordered * _SHARE // narrow_bytes)
    width = round_up(-(-source[3] // fewest), LANES)
    return [range(begin, min(begin + width, source[3])) for begin in range(0, source[3], width)]


# --- what goes together --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Region:
    """Operators that compute the same channels at a time.

    Attributes:
        nodes: the operators, in order.
        parts: the channels of each part.
    """

    nodes: Sequence[Node]
    parts: Sequence[range]

    @classmethod
    def around(cls, graph: Graph, node: Node, parts: Sequence[range], taken: Set[str]) -> _Region:
        """The region of a depthwise convolution: all that is connected with it by images.

        Args:
            graph: the graph.
            node: the convolution.
            parts: the channels of each part.
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
        divisible = maker.op == "conv_2d" and is_known(graph, maker)
        if apart and (divisible or _keeps_channels(graph, maker)):
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
    if node.op != "depthwise_conv_2d" or not is_known(graph, node):
        return False
    name, filters = str(node.inputs[0]), graph.type(str(node.inputs[1]))
    return _is_image(graph, name) and filters.shape[3] == graph.type(name).shape[3]


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
            return a.axes == (1, 2)
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
    """Whether a value has so many channels and is computed, so that slices of it can be read."""
    return not graph.value(name).is_constant and graph.type(name).shape[-1] == channels


# --- the parts -----------------------------------------------------------------------------------


class _Work(ChannelRewriter[_Region]):
    """A graph whose regions are divided one by one."""

    def rewrite(self, item: _Region) -> None:
        """Put nodes that make some channels in the place of those that make all."""
        parts = [self.part(item, channels) for channels in item.parts]
        names = {node.name for node in item.nodes}
        for node in reversed(item.nodes):
            (result,) = node.outputs
            outside = any(reader.name not in names for reader in self.graph.consumers(result))
            if outside or result in self.graph.outputs:
                axis = len(self.graph.type(result).shape) - 1
                joined = ConcatenationAttributes(axis)
                self.put_in_place(node, "concatenation", [part[result] for part in parts], joined)
            else:
                self.graph.remove(node.name)

    def part(self, region: _Region, channels: range) -> dict[str, str]:
        """Append nodes that make some channels.

        Returns:
            Names of their results, by the names of those with all channels.
        """
        made: dict[str, str] = {}
        for node in region.nodes:
            (result,) = node.outputs
            operands = self.operands(node, channels, made)
            type = narrowed(self.graph.type(result), channels)
            made[result] = self.emit(node.name, node.op, operands, type, node.attributes)
        return made

    def operands(
        self, node: Node, channels: range, made: Mapping[str, str]
    ) -> Sequence[str | None]:
        """What a node reads to make some channels.

        Args:
            node: the node.
            channels: the channels.
            made: results of its region with these channels, by the names of those with all.
        """

        def narrow(name: str | None) -> str | None:
            if name is None or self.graph.type(name).size == 1:
                return name
            return made[name] if name in made else self.slice(node, name, channels)

        if OPS[node.op].channel_axis is None:
            return [narrow(name) for name in node.inputs]
        image = node.inputs[0] if node.op == "conv_2d" else narrow(node.inputs[0])
        return [image, self.filters(node, channels), *self.biases(node, channels)]

    def filters(self, node: Node, channels: range) -> str:
        """The filters of some of a convolution's output channels."""
        filters = self.graph.value(str(node.inputs[1]))
        quantization = filters.type.quantization
        assert filters.data is not None, "the filter is known"
        assert quantization is not None, "and quantized"
        data = filters.data.take(channels, axis=OPS[node.op].channel_axis)
        return self.graph.add_constant(filters.name, data, some(quantization, channels))
