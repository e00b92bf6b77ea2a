"""XNNPACK graphs as ExecuTorch's XNNPACK backend reads them.

The flatbuffer (``XN00``, or ``XN01`` as the official exporter stamps it) usually sits after an
``XH00`` header, followed by the constants::

    0   u32  0                          10  u32  offset of the flatbuffer
    4   "XH00"                          14  u32  its size
    8   u16  length of the header, 30   18  u32  offset of the constants
                                        22  u64  their size

Facts: the published schema of ``backends/xnnpack`` and the runtime's header parser.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats import flat
from fitzroy.formats.flat import Table, scalar, string, table, tables, union, vector

INVALID_ID = 0xFFFFFFFF
"""Value id of an operand that is absent, and external id of an internal value."""

NAMED_OFFSET = 0xFFFFFFFFFFFFFFFF
"""Offset of a constant that is looked up by name outside the blob."""

CONSTANT_ALIGNMENT = 16
"""Bytes to which XNNPACK graphs align every constant."""

MAX_EXTERNS = 4096
"""Most external values that the runtime accepts."""


class DataType(IntEnum):
    """Element types of XNNPACK values."""

    INVALID = 0
    FP32 = 1
    FP16 = 2
    QINT8 = 3
    QUINT8 = 4
    QINT32 = 5
    QCINT8 = 6
    QCINT32 = 7
    QCINT4 = 8
    QDINT8 = 9
    QBINT4 = 10
    QPINT8 = 11
    INT32 = 12
    PFP32 = 13
    BF16 = 14


class ValueFlag(IntFlag):
    """Whether a value crosses the border of the graph."""

    EXTERNAL_INPUT = 1
    EXTERNAL_OUTPUT = 2


class NodeFlag(IntFlag):
    """Options of nodes; the same bits as XNNPACK's ``XNN_FLAG_*``."""

    TRANSPOSE_WEIGHTS = 0x1
    TENSORFLOW_SAME_PADDING = 0x4
    TENSORFLOW_LEGACY_MODE = 0x4
    ALIGN_CORNERS = 0x8
    KEEP_DIMS = 0x40


@dataclass(eq=False, slots=True, kw_only=True)
class Buffer(Table):
    """A constant inside the flatbuffer (older files)."""

    storage: Array | None = vector("u1", align=16)


@dataclass(eq=False, slots=True, kw_only=True)
class PerChannelQuant(Table):
    """One scale per slice along `channel_dim`; zero points are 0.

    Scales may lie in a constant instead: `num_scales` of them in constant `scale_buffer_idx`.
    """

    scale: Array | None = vector("f4")
    channel_dim: int = scalar("i4")
    scale_buffer_idx: int = scalar("u4")
    num_scales: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class PerTensorQuant(Table):
    """One scale and zero point."""

    scale: float = scalar("f4")
    zero_point: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class PerTokenDynamicQuant(Table):
    """Parameters found at run time, one pair per row."""

    num_nonbatch_dims: int = scalar("i4")


@dataclass(eq=False, slots=True, kw_only=True)
class PerChannelGroupQuant(Table):
    """One scale per group of elements of a channel."""

    scale: Array | None = vector("f4")
    channel_dim: int = scalar("i4")
    group_size: int = scalar("i4")
    scale_bf16: Array | None = vector("u2")
    scale_buffer_idx: int = scalar("u4")
    num_scales: int = scalar("u4")


QuantParams = PerChannelQuant | PerTensorQuant | PerTokenDynamicQuant | PerChannelGroupQuant


@dataclass(eq=False, slots=True, kw_only=True)
class TensorValue(Table):
    """A value: an activation, a border of the graph, or a constant."""

    datatype: int = scalar("i2")
    num_dims: int = scalar("u4")
    dims: Array | None = vector("u4")
    constant_buffer_idx: int = scalar("u4")
    external_id: int = scalar("u4")
    flags: int = scalar("u4")
    id_out: int = scalar("u4")
    dq_datatype: int = scalar("i2")


@dataclass(eq=False, slots=True, kw_only=True)
class QuantizedTensorValue(Table):
    """A value with quantization parameters."""

    tensor_value: TensorValue | None = table(TensorValue)
    quant_params: QuantParams | None = union(
        (PerChannelQuant, PerTensorQuant, PerTokenDynamicQuant, PerChannelGroupQuant)
    )


@dataclass(eq=False, slots=True, kw_only=True)
class XValue(Table):
    """A value of either kind."""

    value: TensorValue | QuantizedTensorValue | None = union((TensorValue, QuantizedTensorValue))


@dataclass(eq=False, slots=True, kw_only=True)
class OutputMinMax(Table):
    """Clamp of a node's output, in real numbers."""

    output_min: float = scalar("f4")
    output_max: float = scalar("f4")


class NodeTable(Table):
    """Base of every node's table."""

    __slots__ = ()


@dataclass(eq=False, slots=True, kw_only=True)
class Unary(NodeTable):
    """Nodes with one input and one output."""

    input_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class Binary(NodeTable):
    """Nodes with two inputs and one output."""

    input1_id: int = scalar("u4")
    input2_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class Concatenation(NodeTable):
    """Concatenation of two to five inputs."""

    axis: int = scalar("u4")
    input1_id: int = scalar("u4")
    input2_id: int = scalar("u4")
    input3_id: int = scalar("u4")
    input4_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")
    input5_id: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class Convolution(NodeTable):
    """Convolutions: activations NHWC, filters OHWI (depthwise: 1HWO)."""

    padding_top: int = scalar("u4")
    padding_right: int = scalar("u4")
    padding_bottom: int = scalar("u4")
    padding_left: int = scalar("u4")
    kernel_height: int = scalar("u4")
    kernel_width: int = scalar("u4")
    subsampling_height: int = scalar("u4")
    subsampling_width: int = scalar("u4")
    dilation_height: int = scalar("u4")
    dilation_width: int = scalar("u4")
    group_input_channels: int = scalar("u4")
    group_output_channels: int = scalar("u4")
    groups: int = scalar("u4")
    adjustment_height: int = scalar("u4")
    adjustment_width: int = scalar("u4")
    input1_id: int = scalar("u4")
    filter_id: int = scalar("u4")
    bias_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class Pooling(NodeTable):
    """Pooling over windows of an NHWC tensor."""

    padding_top: int = scalar("u4")
    padding_right: int = scalar("u4")
    padding_bottom: int = scalar("u4")
    padding_left: int = scalar("u4")
    pooling_height: int = scalar("u4")
    pooling_width: int = scalar("u4")
    stride_height: int = scalar("u4")
    stride_width: int = scalar("u4")
    dilation_height: int = scalar("u4")
    dilation_width: int = scalar("u4")
    input_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNFullyConnected(NodeTable):
    """Matrix product with a filter [O, I] and an optional bias."""

    input1_id: int = scalar("u4")
    filter_id: int = scalar("u4")
    bias_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNStaticTranspose(NodeTable):
    """Permutation of dimensions."""

    num_dims: int = scalar("u4")
    perm: Array | None = vector("u4")
    input_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNStaticResizeBilinear2D(NodeTable):
    """Bilinear resize of an NHWC tensor to a fixed size."""

    new_height: int = scalar("u4")
    new_width: int = scalar("u4")
    input_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNStaticConstantPad(NodeTable):
    """Padding with a constant, given as a real number."""

    pre_paddings: Array | None = vector("u4")
    post_paddings: Array | None = vector("u4")
    padding_value: float = scalar("f4")
    input_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNStaticReshape(NodeTable):
    """A view with another shape; one extent may be 0, meaning inferred."""

    num_dims: int = scalar("u4")
    new_shape: Array | None = vector("u4")
    input_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNArgMaxPooling2d(NodeTable):
    """Max pooling that also gives the position of each maximum."""

    padding_top: int = scalar("u4")
    padding_right: int = scalar("u4")
    padding_bottom: int = scalar("u4")
    padding_left: int = scalar("u4")
    pooling_height: int = scalar("u4")
    pooling_width: int = scalar("u4")
    input_id: int = scalar("u4")
    output_value_id: int = scalar("u4")
    output_index_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNELU(NodeTable):
    """Exponential linear unit."""

    alpha: float = scalar("f4")
    input_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNStaticSlice(NodeTable):
    """A box cut out of a tensor."""

    num_dims: int = scalar("u4")
    offsets: Array | None = vector("u4")
    sizes: Array | None = vector("u4")
    input_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNScaledDotProductAttention(NodeTable):
    """Attention; listed by the schema, refused by the runtime."""

    query_id: int = scalar("u4")
    key_id: int = scalar("u4")
    value_id: int = scalar("u4")
    scale_id: int = scalar("u4")
    mask_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


@dataclass(eq=False, slots=True, kw_only=True)
class XNNLeakyReLU(NodeTable):
    """Leaky rectifier."""

    negative_slope: float = scalar("f4")
    input_id: int = scalar("u4")
    output_id: int = scalar("u4")
    flags: int = scalar("u4")


class XNNAdd(Binary):
    """Sum."""

    __slots__ = ()


class XNNSoftmax(Unary):
    """Softmax over the last dimension."""

    __slots__ = ()


class XNNSigmoid(Unary):
    """Logistic function."""

    __slots__ = ()


class XNNClamp(Unary):
    """Clamp to the node's output range."""

    __slots__ = ()


class XNNConv2d(Convolution):
    """Convolution, possibly grouped."""

    __slots__ = ()


class XNNDiv(Binary):
    """Quotient."""

    __slots__ = ()


class XNNAvgPooling2d(Pooling):
    """Average pooling."""

    __slots__ = ()


class XNNMinimum(Binary):
    """Smaller of two."""

    __slots__ = ()


class XNNDepthwiseConv2d(Convolution):
    """Depthwise convolution."""

    __slots__ = ()


class XNNMaxPooling2d(Pooling):
    """Max pooling."""

    __slots__ = ()


class XNNMultiply(Binary):
    """Product."""

    __slots__ = ()


class XNNSubtract(Binary):
    """Difference."""

    __slots__ = ()


class XNNFloor(Unary):
    """Largest integer not above."""

    __slots__ = ()


class XNNConvert(Unary):
    """Change of element type or quantization."""

    __slots__ = ()


class XNNGlobalAvgPooling2d(Unary):
    """Mean over height and width."""

    __slots__ = ()


class XNNSquareRoot(Unary):
    """Square root."""

    __slots__ = ()


class XNNCeiling(Unary):
    """Smallest integer not below."""

    __slots__ = ()


class XNNHardswish(Unary):
    """Hard swish."""

    __slots__ = ()


class XNNMaximum(Binary):
    """Larger of two."""

    __slots__ = ()


class XNNNegate(Unary):
    """Negation."""

    __slots__ = ()


class XNNSquare(Unary):
    """Square."""

    __slots__ = ()


class XNNAbs(Unary):
    """Absolute value."""

    __slots__ = ()


class XNNPReLU(Binary):
    """Parametric leaky rectifier: input, slope."""

    __slots__ = ()


class XNNConcatenate2(Concatenation):
    """Concatenation of two inputs."""

    __slots__ = ()


class XNNConcatenate3(Concatenation):
    """Concatenation of three inputs."""

    __slots__ = ()


class XNNConcatenate4(Concatenation):
    """Concatenation of four inputs."""

    __slots__ = ()


class XNNBatchMatrixMultiply(Binary):
    """Batched matrix product."""

    __slots__ = ()


class XNNConcatenate5(Concatenation):
    """Concatenation of five inputs."""

    __slots__ = ()


class XNNConvTranspose2d(Convolution):
    """Transposed convolution."""

    __slots__ = ()


class XNNReciprocalSquareRoot(Unary):
    """Reciprocal of the square root."""

    __slots__ = ()


class XNNLog(Unary):
    """Natural logarithm."""

    __slots__ = ()


class XNNGelu(Unary):
    """Gaussian error linear unit."""

    __slots__ = ()


class XNNTanh(Unary):
    """Hyperbolic tangent."""

    __slots__ = ()


class XNNExp(Unary):
    """Exponential function."""

    __slots__ = ()


class XNNSin(Unary):
    """Sine."""

    __slots__ = ()


class XNNCopy(Unary):
    """Copy; may change the shape."""

    __slots__ = ()


class XNNCos(Unary):
    """Cosine."""

    __slots__ = ()


NODE_TYPES: tuple[type[NodeTable], ...] = (
    XNNAdd,
    XNNFullyConnected,
    XNNSoftmax,
    XNNSigmoid,
    XNNStaticTranspose,
    XNNClamp,
    XNNConv2d,
    XNNDiv,
    XNNStaticResizeBilinear2D,
    XNNStaticConstantPad,
    XNNAvgPooling2d,
    XNNMinimum,
    XNNDepthwiseConv2d,
    XNNMaxPooling2d,
    XNNMultiply,
    XNNSubtract,
    XNNFloor,
    XNNConvert,
    XNNGlobalAvgPooling2d,
    XNNStaticReshape,
    XNNArgMaxPooling2d,
    XNNSquareRoot,
    XNNCeiling,
    XNNHardswish,
    XNNLeakyReLU,
    XNNMaximum,
    XNNNegate,
    XNNSquare,
    XNNELU,
    XNNAbs,
    XNNPReLU,
    XNNConcatenate2,
    XNNConcatenate3,
    XNNConcatenate4,
    XNNStaticSlice,
    XNNScaledDotProductAttention,
    XNNBatchMatrixMultiply,
    XNNConcatenate5,
    XNNConvTranspose2d,
    XNNReciprocalSquareRoot,
    XNNLog,
    XNNGelu,
    XNNTanh,
    XNNExp,
    XNNSin,
    XNNCopy,
    XNNCos,
)
"""Node tables in the order of the schema's union, whose codes start at 1."""


@dataclass(eq=False, slots=True, kw_only=True)
class XNode(Table):
    """A node with its optional output clamp."""

    node: NodeTable | None = union(NODE_TYPES)
    debug_handle: int = scalar("u4")
    output_min_max: OutputMinMax | None = table(OutputMinMax)


@dataclass(eq=False, slots=True, kw_only=True)
class ConstantDataOffset(Table):
    """Place of a constant in the area after the flatbuffer, or its name elsewhere."""

    offset: int = scalar("u8")
    size: int = scalar("u8")
    named_key: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class XNNGraph(Table):
    """The root table."""

    version: str | None = string()
    xnodes: list[XNode] | None = tables(XNode)
    xvalues: list[XValue] | None = tables(XValue)
    num_externs: int = scalar("u4")
    input_ids: Array | None = vector("u4")
    output_ids: Array | None = vector("u4")
    constant_buffer: list[Buffer] | None = tables(Buffer)
    mem_buffer_sizes: Array | None = vector("u4")
    constant_data: list[ConstantDataOffset] | None = tables(ConstantDataOffset)


IDENTIFIER = b"XN00"
IDENTIFIERS = (b"XN00", b"XN01")
HEADER_MAGIC = b"XH00"
_HEADER = struct.Struct("<4x4sHIIIQ")
_HEADER_SIZE = 32


@dataclass(slots=True)
class Blob:
    """What ExecuTorch hands to its XNNPACK backend: a graph and its constants.

    Attributes:
        graph: the decoded flatbuffer.
        constants: bytes of the constants after the flatbuffer; empty in older files.
        offset: where the flatbuffer starts in the blob.
    """

    graph: XNNGraph
    constants: memoryview
    offset: int = 0


def read_blob(data: bytes | memoryview, *, path: str = "", base: int = 0) -> Blob:
    """Read a delegate blob, with or without an ``XH00`` header.

    Args:
        data: the blob.
        path: name of the file it came from, for errors.
        base: where the blob starts in that file, for errors.

    Raises:
        FormatError: the header, a range, or the flatbuffer is malformed.
    """
    view = memoryview(data).toreadonly().cast("B")
    if bytes(view[4:8]) != HEADER_MAGIC:
        graph = flat.decode(XNNGraph, view, identifiers=IDENTIFIERS, path=path, base=base)
        return Blob(graph, view[:0])
    if len(view) < _HEADER.size:
        raise FormatError(
            f"{len(view)} bytes where the header needs {_HEADER.size}",
            path=path, offset=base, table="XH00",
        )  # fmt: skip
    _, _, start, size, constants, constants_size = _HEADER.unpack_from(view)
    for name, first, length in (
        ("flatbuffer", start, size),
        ("constant area", constants, constants_size),
    ):
        if first + length > len(view):
            raise FormatError(
                f"the {name} spans bytes {first} to {first + length} of {len(view)}",
                path=path, offset=base + 10, table="XH00",
            )  # fmt: skip
    graph = flat.decode(
        XNNGraph, view[start : start + size], identifiers=IDENTIFIERS, path=path, base=base + start
    )
    return Blob(graph, view[constants : constants + constants_size], start)


def write_blob(graph: XNNGraph, constants: bytes | bytearray | memoryview = b"") -> bytes:
    """Write a delegate blob: header, flatbuffer padded to 16 bytes, constants."""
    body = flat.encode(graph, identifier=IDENTIFIER)
    body += b"\0" * (-len(body) % CONSTANT_ALIGNMENT)
    start = _HEADER_SIZE + len(body)
    header = _HEADER.pack(
        HEADER_MAGIC, _HEADER.size, _HEADER_SIZE, len(body), start, len(constants)
    )
    return b"".join((header.ljust(_HEADER_SIZE, b"\0"), body, constants))


def tensor_of(value: XValue) -> TensorValue | None:
    """The tensor part of a value, quantized or not."""
    inner = value.value
    return inner.tensor_value if isinstance(inner, QuantizedTensorValue) else inner


def constant_bytes(
    blob: Blob,
    index: int,
    named: Callable[[str], memoryview | None] = lambda _: None,
    *,
    path: str = "",
) -> memoryview:
    """Bytes of the constant with the given index (from 1).

    Args:
        blob: the blob that the constant belongs to.
        index: index into the graph's table of constants.
        named: looks up constants that live outside the blob.
        path: name of the file, for errors.

    Raises:
        FormatError: the index, the range or the name leads nowhere.
    """
    graph = blob.graph
    if graph.constant_data:
        if not 0 < index < len(graph.constant_data):
            raise FormatError(
                f"constant {index} of {len(graph.constant_data)}", path=path, table="XNNGraph"
            )
        place = graph.constant_data[index]
        if place.named_key is not None:
            found = named(place.named_key)
            if found is None:
                raise FormatError(
                    f"no named data {place.named_key!r}", path=path, table="ConstantDataOffset"
                )
            return found
        if place.offset + place.size > len(blob.constants):
            raise FormatError(
                f"constant {index} spans bytes {place.offset} to {place.offset + place.size}"
                f" of {len(blob.constants)}",
                path=path,
                table="ConstantDataOffset",
            )
        return blob.constants[place.offset : place.offset + place.size]
    buffers = graph.constant_buffer or []
    if not 0 < index < len(buffers):
        raise FormatError(f"constant {index} of {len(buffers)}", path=path, table="XNNGraph")
    storage = buffers[index].storage
    return memoryview(b"") if storage is None else storage.data.cast("B")
