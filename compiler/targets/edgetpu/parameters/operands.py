"""The parameter operands of a quantized graph, and where a compiled model keeps them.

Operands come in the order of the source's operators, as compilers emit them: the filter of a
convolution or a fully connected layer, or of one gate of an LSTM, with biases and scales; and what
compilers need not use: the tables of a SOFTMAX, the one-hot convolutions of operators that move
elements, the sequence that an LSTM writes into.
Facts: parameter blobs of published compiled models, reproduced byte for byte from their sources.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.recurrent import (
    BIASES,
    GATES,
    INPUT_WEIGHTS,
    RECURRENT_WEIGHTS,
    LstmAttributes,
)
from fitzroy.compiler.ops.shape import ConcatenationAttributes, SplitAttributes
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    SIGNED_OFFSET,
    filter_scales,
)
from fitzroy.hw_models.parameters import (
    BLOB_ALIGNMENT,
    BLOCK_CHANNELS,
    CHANNEL_GROUP,
    RUN_CHANNELS,
    ConvolutionLayout,
    DepthwiseLayout,
    FilterLayout,
    Layout,
    Mover,
    Parameters,
    Prefix,
    TableLayout,
    WordOrder,
    ZeroBias,
    keeps_bias,
    merge,
    pack,
    prefix_for,
    regroup,
    softmax_layout,
    softmax_table,
    transposition,
)

Bytes = npt.NDArray[np.uint8]

STATE_SUFFIX = "_variable_output"
"""What compilers append to the name of a state tensor for the output that carries it on."""


@dataclass(frozen=True, slots=True, eq=False)
class Operand(ABC):
    """Parameters of an operator that lie together in the blob.

    Attributes:
        node: the operator.
    """

    node: Node

    optional: ClassVar[bool] = False
    """Whether compilers may do without the operand."""

    @property
    def name(self) -> str:
        """What the operand belongs to, for messages."""
        return _title(self.node)

    @property
    @abstractmethod
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts that a compiler may have chosen."""

    @abstractmethod
    def pack(self, layout: Layout) -> Bytes:
        """The operand's bytes in one of `layouts`."""


def _title(node: Node) -> str:
    return f"{node.op} {node.name!r}"


@dataclass(frozen=True, slots=True, eq=False)
class FilterOperand(Operand):
    """Weights with the vectors that belong to them.

    Attributes:
        layout: layout, with the default order of weight words.
        parameters: values that fit the layout.
        part: name of the gate of a recurrent operator; else empty.
    """

    layout: FilterLayout
    parameters: Parameters
    part: str = ""

    @property
    def name(self) -> str:
        """The operator and the gate."""
        return _title(self.node) + (f", {self.part} gate" if self.part else "")

    @property
    def layouts(self) -> tuple[FilterLayout, ...]:
        """The layout in both orders of words if they differ."""
        layout = self.layout
        if isinstance(layout, ConvolutionLayout) and layout.order_matters:
            return tuple(replace(layout, order=order) for order in WordOrder)
        return (layout,)

    def pack(self, layout: Layout) -> Bytes:
        """The bytes in one of `layouts`."""
        assert isinstance(layout, FilterLayout)
        return pack(layout, self.parameters)


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxOperand(Operand):
    """Tables of a SOFTMAX on the tiles.

    Attributes:
        channels: channels of the operator.
        input_scale: scale of its input.
    """

    channels: int
    input_scale: float

    optional = True

    @property
    def layouts(self) -> tuple[TableLayout, ...]:
        """With and without the last row."""
        return (
            softmax_layout(self.channels, unit_row=True),
            softmax_layout(self.channels, unit_row=False),
        )

    def unit_row(self, layout: Layout) -> bool:
        """Whether one of `layouts` is the one with the last row."""
        return layout == self.layouts[0]

    def pack(self, layout: Layout) -> Bytes:
        """The bytes in one of `layouts`."""
        return softmax_table(self.channels, self.input_scale, unit_row=self.unit_row(layout))


@dataclass(frozen=True, slots=True, eq=False)
class MoverOperand(Operand):
    """A one-hot convolution that moves elements; nothing in it depends on weights.

    Attributes:
        mover: what it moves.
    """

    mover: Mover

    optional = True

    @property
    def layouts(self) -> tuple[ConvolutionLayout]:
        """The only layout that compilers choose."""
        return (self.mover.layout,)

    def pack(self, layout: Layout) -> Bytes:
        """The bytes of the only layout."""
        return self.mover.pack()


@dataclass(frozen=True, slots=True, eq=False)
class SequenceOperand(Operand):
    """The outputs of a recurrent operator before its first step: zeros of its signed type.

    Attributes:
        size: elements of the output.
    """

    size: int

    optional = True

    @property
    def layouts(self) -> tuple[TableLayout]:
        """The only one: as many rows of the blob as the elements take."""
        return (TableLayout(entries=-(-self.size // BLOB_ALIGNMENT)),)

    def pack(self, layout: Layout) -> Bytes:
        """The bytes of the only layout."""
        result = np.zeros(layout.nbytes, np.uint8)
        result[: self.size] = SIGNED_OFFSET
        return result


# --- from a graph to operands --------------------------------------------------------------------


def operands(
    graph: Graph,
    *,
    zero_bias: ZeroBias,
    nodes: Iterable[Node] | None = None,
    outputs: Mapping[str, float] | None = None,
) -> list[Operand]:
    """The operands of a graph in the order of its operators.

    Args:
        graph: a quantized graph, as the TFLite frontend gives it.
        zero_bias: whether biases that are all zero take words.
        nodes: the operators that run on the chip, in order; all of the graph by default.
        outputs: scales of the package's output layers by their names, if they shall count rather
            than those of the graph: a source may have been published with other scales than it was
            compiled with.

    Raises:
        UnsupportedError: with one diagnostic per operator whose weights have no known layout.
        UsageError: an output is no value of the graph.
    """
    result: list[Operand] = []
    rejects: list[Diagnostic] = []
    mapped = graph.nodes() if nodes is None else list(nodes)
    names = {node.name for node in mapped}
    if outputs is not None:
        graph = _rescaled(graph, outputs)
    for node in mapped:
        try:
            if node.op in _KINDS:
                result.extend(_KINDS[node.op](Call.of(graph, node), zero_bias))
            elif _regroups(graph, node):
                result.extend(_regrouping(graph, node, names))
            elif OPS[node.op].channel_axis is not None:
                raise UnsupportedError("its weights have no known layout")
        except UnsupportedError as error:
            rejects.append(
                Diagnostic(Severity.ERROR, "edgetpu-parameters", _title(node), error.what)
            )
    if rejects:
        raise UnsupportedError(
            f"{len(rejects)} operators have parameters that cannot be laid out",
            rejects=rejects,
            where=graph.name,
        )
    return result


def mapped_nodes(graph: Graph, inputs: Iterable[str], outputs: Iterable[str]) -> list[Node]:
    """The operators that a package computes, in order.

    Args:
        graph: the source.
        inputs: names of the package's input layers.
        outputs: names of its output layers; those that carry a state are left out.

    Raises:
        UsageError: an output is no value of the graph.
    """
    ends, found = set(inputs), set[str]()
    pending = [graph.value(name).name for name in outputs if not _is_state(graph, name)]
    while pending:
        name = pending.pop()
        producer = None if name in ends else graph.producer(name)
        if producer is not None and producer.name not in found:
            found.add(producer.name)
            pending.extend(read for read in producer.inputs if read is not None)
    return [node for node in graph.nodes() if node.name in found]


def _is_state(graph: Graph, output: str) -> bool:
    stem = output.removesuffix(STATE_SUFFIX)
    return stem != output and stem in graph.values and graph.value(stem).is_constant


def _rescaled(graph: Graph, outputs: Mapping[str, float]) -> Graph:
    """A copy of a graph whose outputs have other scales.

    The operand of a QUANTIZE that only changes the type has the scale of its result.
    """
    result = graph.copy()
    for output, scale in outputs.items():
        name = None if _is_state(graph, output) else output
        while name is not None:
            value, producer = result.value(name), result.producer(name)
            before = value.type.quantization
            if before is None or not before.is_per_tensor:
                break
            type = replace(value.type, quantization=replace(before, scale=(scale,)))
            result.set_value(replace(value, type=type))
            name = producer.inputs[0] if producer and producer.op == "quantize" else None
            quantization = None if name is None else result.type(name).quantization
            if quantization is None or quantization.scale != before.scale:
                break
    return result


def _convolution(call: Call, zero_bias: ZeroBias) -> Iterator[Operand]:
    weights = call.operand(1)
    if weights.type.shape[3] != call.type(0).shape[3]:
        raise UnsupportedError("a convolution in groups has no known layout")
    yield _filtered(call, zero_bias, _convolution_layout(weights.type.shape), _stored(weights))


def _depthwise(call: Call, zero_bias: ZeroBias) -> Iterator[Operand]:
    weights, depth = call.operand(1), call.type(0).shape[3]
    _, rows, columns, channels = weights.type.shape
    if depth == 1:
        layout = _convolution_layout((channels, rows, columns, depth))
        data = np.ascontiguousarray(_stored(weights).transpose(3, 1, 2, 0))
        yield _filtered(call, zero_bias, layout, data)
    elif depth == channels:
        by_group = DepthwiseLayout(channels=channels, kernel=(rows, columns))
        yield _filtered(call, zero_bias, by_group, _stored(weights))
    else:
        raise UnsupportedError(f"{channels} filters for {depth} channels have no known layout")


def _fully_connected(call: Call, zero_bias: ZeroBias) -> Iterator[Operand]:
    weights, image = call.operand(1), call.type(0).shape
    channels, depth = weights.type.shape
    window = image[1:] if len(image) == 4 and math.prod(image[1:]) == depth else (1, 1, depth)
    layout = _convolution_layout((channels, *window), fully_connected=True)
    yield _filtered(call, zero_bias, layout, _stored(weights).reshape(layout.weight_shape))


def _lstm(call: Call, zero_bias: ZeroBias) -> Iterator[Operand]:
    """Per gate, a fully connected layer over the input and the state side by side.

    The gates want the axis of time first: where it is second, input and output are transposed.
    """
    source, result = call.type(0), call.result.type
    time_major = call.attributes(LstmAttributes).time_major
    if result.dtype is DType.INT8:
        yield SequenceOperand(call.node, result.size)
    if not time_major:
        batches, _, depth = source.shape
        yield from (MoverOperand(call.node, m) for m in transposition(batches, depth))
    for gate, name in enumerate(GATES):
        parts = [call.operand(first + gate) for first in (INPUT_WEIGHTS, RECURRENT_WEIGHTS)]
        quantizations = [part.type.quantization for part in parts]
        if any(q is None or not q.is_per_tensor or any(q.zero_point) for q in quantizations):
            raise UnsupportedError("LSTM weights with a zero point or a scale per channel")
        data = np.concatenate([_stored(part) for part in parts], axis=1)
        biases = _biases(call.optional(BIASES + gate))
        prefix = Prefix(biases=keeps_bias(biases, zero_bias))
        layout = replace(_convolution_layout((len(data), 1, 1, data.shape[1]), True), prefix=prefix)
        parameters = Parameters(
            data.reshape(layout.weight_shape),
            _zero_points(parts[0]),
            biases if prefix.biases else None,
        )
        yield FilterOperand(call.node, layout, parameters, name)
    if not time_major:
        _, steps, cells = result.shape
        yield from (MoverOperand(call.node, m) for m in transposition(steps, cells))


def _reshape(call: Call, zero_bias: ZeroBias) -> Iterator[Operand]:
    """An image of one channel becomes a vector, by runs of positions."""
    source, result = call.type(0), call.result.type
    run = min(result.size, RUN_CHANNELS)
    flattens = source.rank and source.shape[-1] == 1 < result.size == result.shape[-1]
    if flattens and result.size % run == 0:
        yield MoverOperand(call.node, merge(run, biases=True))


def _regroups(graph: Graph, node: Node | None) -> bool:
    """Whether an operator concatenates or splits channels."""
    if node is None or not isinstance(node.attributes, ConcatenationAttributes | SplitAttributes):
        return False
    return node.attributes.axis == graph.type(node.outputs[0]).rank - 1


def _regrouping(graph: Graph, node: Node, mapped: Container[str]) -> Iterator[Operand]:
    """One-hot convolutions from the tensors in front of all concatenations and splits.

    Results that only operators of the same kind read need none; nor do those whose groups of four
    channels are groups of their origins.
    """
    for name in node.outputs:
        type, readers = graph.type(name), graph.consumers(name)
        inner = all(reader.name in mapped and _regroups(graph, reader) for reader in readers)
        if (inner and readers and name not in graph.outputs) or type.shape[-1] > BLOCK_CHANNELS:
            continue
        origins = _origins(graph, name, mapped)
        sources = [(origin, channel // CHANNEL_GROUP) for origin, channel in origins]
        lanes = [channel % CHANNEL_GROUP for _, channel in origins]
        if all(
            lane == index % CHANNEL_GROUP and sources[index] == sources[index - lane]
            for index, lane in enumerate(lanes)
        ):
            continue
        numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
        picks = [(numbers[source], lane) for source, lane in zip(sources, lanes, strict=True)]
        vector = type.size == type.shape[-1]
        yield MoverOperand(node, regroup(picks, fully_connected=vector))


def _origins(graph: Graph, name: str, mapped: Container[str]) -> list[tuple[str, int]]:
    """For every channel of a value, the value and the channel that it is moved from."""
    node, channels = graph.producer(name), graph.type(name).shape[-1]
    if node is None or node.name not in mapped or not _regroups(graph, node):
        return [(name, channel) for channel in range(channels)]
    found = [
        origin
        for read in node.inputs
        if read is not None
        for origin in _origins(graph, read, mapped)
    ]
    index = node.outputs.index(name)
    first = sum(graph.type(output).shape[-1] for output in node.outputs[:index])
    return found[first : first + channels]


def _softmax(call: Call, zero_bias: ZeroBias) -> Iterator[Operand]:
    source = call.type(0)
    if source.quantization is None or source.rank == 0:
        raise UnsupportedError("its input is not quantized")
    yield SoftmaxOperand(call.node, source.shape[-1], source.quantization.scale[0])


_KINDS: dict[str, Callable[[Call, ZeroBias], Iterator[Operand]]] = {
    "conv_2d": _convolution,
    "depthwise_conv_2d": _depthwise,
    "fully_connected": _fully_connected,
    "unidirectional_sequence_lstm": _lstm,
    "reshape": _reshape,
    "softmax": _softmax,
}


# --- parts of an operand -------------------------------------------------------------------------


def _convolution_layout(shape: tuple[int, ...], fully_connected: bool = False) -> ConvolutionLayout:
    channels, rows, columns, depth = shape
    return ConvolutionLayout(
        channels=channels, in_channels=depth, kernel=(rows, columns),
        fully_connected=fully_connected,
    )  # fmt: skip


def _filtered(call: Call, zero_bias: ZeroBias, layout: FilterLayout, weights: Array) -> Operand:
    """The operand of an operator with a filter as operand 1 and biases as operand 2."""
    scales, biases = filter_scales(call), _biases(call.optional(2))
    quantization = call.operand(1).type.quantization
    per_channel = quantization is not None and not quantization.is_per_tensor
    prefix = prefix_for(scales, biases, per_channel=per_channel, zero_bias=zero_bias)
    parameters = Parameters(
        weights,
        _zero_points(call.operand(1)),
        biases if prefix.biases else None,
        scales if prefix.scales else None,
    )
    return FilterOperand(call.node, replace(layout, prefix=prefix), parameters)


def _stored(value: Value) -> Array:
    """Weights of an 8-bit constant in the blob's unsigned domain."""
    if value.data is None:
        raise UnsupportedError(f"the weights {value.name!r} are not constant")
    if value.type.dtype is DType.UINT8:
        return value.data
    if value.type.dtype is DType.INT8:
        return value.data.view(np.uint8) ^ np.uint8(SIGNED_OFFSET)
    raise UnsupportedError(f"the weights {value.name!r} are {value.type.dtype.value}, not 8-bit")


def _zero_points(value: Value) -> Array:
    """Zero points of an 8-bit constant in the blob's unsigned domain."""
    quantization = value.type.quantization
    assert quantization is not None
    shift = SIGNED_OFFSET if value.type.dtype is DType.INT8 else 0
    return (np.array(quantization.zero_point) + shift).astype(np.uint8)


def _biases(value: Value | None) -> Array | None:
    if value is None:
        return None
    if value.data is None or value.type.dtype is not DType.INT32:
        raise UnsupportedError(f"the biases {value.name!r} are not an int32 constant")
    return value.data.reshape(-1)


def with_prefix(graph: Graph, operand: FilterOperand, prefix: Prefix) -> FilterOperand:
    """An operand with the vectors of a given prefix, which a compiled program expects.

    Vectors that the operand could do without are written out; a missing bias is zero.

    Args:
        graph: the graph that the operand is from.
        operand: the operand, with whatever prefix.
        prefix: the vectors to put in front of the weights.

    Raises:
        UnsupportedError: the prefix lacks a vector that is needed.
    """
    call, channels = Call.of(graph, operand.node), operand.layout.channels
    if operand.part:
        gate = GATES.index(operand.part)
        biases = _biases(call.optional(BIASES + gate))
        scales = zero_points = operand.parameters.zero_points
        if prefix.scales or prefix.zero_points:
            raise UnsupportedError("LSTM weights with a scale or a zero point per channel")
    else:
        biases = _biases(call.optional(2))
        scales, zero_points = filter_scales(call), _zero_points(call.operand(1))
        if not prefix.scales and (scales != scales[0]).any():
            raise UnsupportedError(
                "its channels have different effective scales; the compiled model has one for all",
            )
    assert scales is not None
    assert zero_points is not None
    if not prefix.zero_points and (zero_points != zero_points[0]).any():
        raise UnsupportedError(
            "its weights have different zero points; the compiled model has one for all"
        )
    if not prefix.biases and keeps_bias(biases, ZeroBias.DROP):
        raise UnsupportedError("it has biases; the compiled model has none, or only zeros")
    if prefix.biases and biases is None:
        biases = np.zeros(channels, np.int32)
    parameters = Parameters(
        operand.parameters.weights,
        np.broadcast_to(zero_points, channels) if prefix.zero_points else zero_points[:1],
        biases if prefix.biases else None,
        np.broadcast_to(scales, channels) if prefix.scales else None,
    )
    return replace(operand, layout=replace(operand.layout, prefix=prefix), parameters=parameters)
