"""Single-node XNNPACK graphs with random shapes, quantization and contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.formats import xnnpack as xn
from fitzroy.formats.method import DelegateCall, Method, TensorValue
from fitzroy.formats.xnnpack import INVALID_ID, DataType

INT32 = 12
STORAGE: dict[int, DType] = {
    DataType.FP32: DType.FLOAT32,
    DataType.QINT8: DType.INT8,
    DataType.QUINT8: DType.UINT8,
    DataType.QINT32: DType.INT32,
    DataType.QCINT8: DType.INT8,
    DataType.QCINT32: DType.INT32,
    DataType.QDINT8: DType.INT8,
    INT32: DType.INT32,
}
Shape = tuple[int, ...]
Parameters = tuple[float, int]


@dataclass
class Net:
    """A graph under construction; external ids count up in order of creation."""

    values: list[xn.XValue] = field(default_factory=list)
    nodes: list[xn.XNode] = field(default_factory=list)
    ports: list[tuple[str, TensorType]] = field(default_factory=list)
    inputs: list[Array] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    places: list[xn.ConstantDataOffset] = field(
        default_factory=lambda: [xn.ConstantDataOffset(offset=0, size=0)]
    )

    def tensor(
        self,
        shape: Shape,
        datatype: int = DataType.FP32,
        params: Parameters | None = None,
        *,
        scales: Array | None = None,
        axis: int = 0,
        rows: int = 0,
        data: Array | None = None,
        io: str = "",
        contents: Array | None = None,
    ) -> int:
        """Add a value: an input with `contents`, an output, a constant, or an internal one."""
        number, external, index = len(self.values), INVALID_ID, 0
        if io:
            external = len(self.ports)
            self.ports.append((io, TensorType(shape, STORAGE[datatype])))
        if contents is not None:
            self.inputs.append(contents)
        if data is not None:
            self.constants += bytes(-len(self.constants) % 16)
            index = len(self.places)
            raw = np.ascontiguousarray(data).tobytes()
            self.places.append(xn.ConstantDataOffset(offset=len(self.constants), size=len(raw)))
            self.constants += raw
        inner = xn.TensorValue(
            datatype=int(datatype),
            num_dims=len(shape),
            dims=np.asarray(shape, np.uint32),
            constant_buffer_idx=index,
            external_id=external,
            flags={"": 0, "in": 1, "out": 2}[io],
            id_out=number,
            dq_datatype=0,
        )
        quant: Any = None
        if rows:
            quant = xn.PerTokenDynamicQuant(num_nonbatch_dims=rows)
        elif scales is not None:
            quant = xn.PerChannelQuant(scale=scales.astype(np.float32), channel_dim=axis)
        elif params is not None:
            quant = xn.PerTensorQuant(scale=params[0], zero_point=params[1])
        value = (
            inner
            if quant is None
            else xn.QuantizedTensorValue(tensor_value=inner, quant_params=quant)
        )
        self.values.append(xn.XValue(value=value))
        return number

    def node(self, node: xn.NodeTable, bounds: tuple[float, float] | None = None) -> Net:
        """Add a node."""
        limits = None
        if bounds is not None:
            limits = xn.OutputMinMax(output_min=bounds[0], output_max=bounds[1])
        self.nodes.append(xn.XNode(node=node, debug_handle=0, output_min_max=limits))
        return self

    def graph(self) -> xn.XNNGraph:
        """The graph as a table."""
        none = np.zeros(0, np.uint32)
        return xn.XNNGraph(
            version="0",
            xnodes=self.nodes,
            xvalues=self.values,
            num_externs=len(self.ports),
            input_ids=none,
            output_ids=none,
            constant_buffer=[],
            mem_buffer_sizes=none,
            constant_data=self.places,
        )

    def blob(self) -> bytes:
        """The serialized graph."""
        return xn.write_blob(self.graph(), bytes(self.constants) + bytes(64))

    def method(self) -> Method:
        """A method that runs the graph."""
        values = tuple(TensorValue(f"v{i}", type_) for i, (_, type_) in enumerate(self.ports))
        indices = {
            io: tuple(i for i, p in enumerate(self.ports) if p[0] == io) for io in ("in", "out")
        }
        call = DelegateCall("XnnpackBackend", self.blob(), tuple(range(len(values))))
        return Method("forward", values, indices["in"], indices["out"], (call,))

    def arguments(self) -> dict[int, Array]:
        """Inputs by external id."""
        numbers = [i for i, port in enumerate(self.ports) if port[0] == "in"]
        return dict(zip(numbers, self.inputs, strict=True))


class Maker:
    """Random ingredients of graphs."""

    def __init__(self, rng: np.random.Generator, datatype: int) -> None:
        self.rng = rng
        self.datatype = datatype

    @property
    def quantized(self) -> bool:
        return self.datatype != DataType.FP32

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def shape(self, low: int = 1, high: int = 4, extent: int = 7) -> Shape:
        return tuple(self.integer(1, extent) for _ in range(self.integer(low, high)))

    def real(self, low: float, high: float) -> float:
        return float(np.float32(self.rng.uniform(low, high)))

    def params(self, datatype: int | None = None) -> Parameters | None:
        datatype = self.datatype if datatype is None else datatype
        if datatype == DataType.FP32:
            return None
        low, high = STORAGE[datatype].limits
        scale = float(np.float32(np.exp(self.rng.uniform(-4, 0))))
        return scale, self.integer(low, high)

    def contents(self, shape: Shape, datatype: int | None = None) -> Array:
        kind = STORAGE[self.datatype if datatype is None else datatype]
        if kind.is_float:
            return (self.rng.standard_normal(shape) * 3).astype(np.float32)
        low, high = kind.limits
        return self.rng.integers(low, high + 1, shape).astype(kind.numpy)

    def bounds(self) -> tuple[float, float] | None:
        if self.rng.random() < 0.5:
            return None
        return self.real(-3, 0), self.real(0.1, 5)

    def input(self, net: Net, shape: Shape, params: Parameters | None = None) -> int:
        params = params or self.params()
        return net.tensor(shape, self.datatype, params, io="in", contents=self.contents(shape))

    def output(self, net: Net, shape: Shape, params: Parameters | None = None) -> int:
        return net.tensor(shape, self.datatype, params or self.params(), io="out")


Make = Callable[[Maker], Net]


def same_fits(size: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> bool:
    """Whether SAME padding is not negative, with which the runtime cannot deal."""
    return all(
        (-(-n // s) - 1) * s + (k - 1) * d + 1 >= n
        for n, k, s, d in zip(size, kernel, stride, dilation, strict=True)
    )


def unary(cls: type[Any], *, positive: bool = False, **fields: tuple[float, float]) -> Make:
    def make(maker: Maker) -> Net:
        net, shape = Net(), maker.shape(0)
        x, y = maker.input(net, shape), maker.output(net, shape)
        if positive and not maker.quantized:
            net.inputs[0] = np.abs(net.inputs[0]) + np.float32(0.01)
        values = {name: maker.real(*span) for name, span in fields.items()}
        bounds = (maker.real(-3, 0), maker.real(0, 4)) if cls is xn.XNNClamp else None
        return net.node(cls(input_id=x, output_id=y, flags=0, **values), bounds)

    return make


def clamp_same(maker: Maker) -> Net:
    net, shape, params = Net(), maker.shape(), maker.params()
    x, y = maker.input(net, shape, params), maker.output(net, shape, params)
    bounds = maker.real(-3, 0), maker.real(0, 4)
    return net.node(xn.XNNClamp(input_id=x, output_id=y, flags=0), bounds)


def convert_from(source: int) -> Make:
    def make(maker: Maker) -> Net:
        net, shape = Net(), maker.shape()
        x = net.tensor(
            shape, source, maker.params(source), io="in", contents=maker.contents(shape, source)
        )
        y = maker.output(net, shape)
        return net.node(xn.XNNConvert(input_id=x, output_id=y, flags=0))

    return make


def binary(cls: type[Any], *, clamps: bool = False) -> Make:
    def make(maker: Maker) -> Net:
        net, shape = Net(), maker.shape()
        shapes = [shape, shape]
        for which in (0, 1):
            if maker.rng.random() < 0.4:
                cut = shape[maker.integer(0, len(shape)) :]
                shapes[which] = tuple(1 if maker.rng.random() < 0.4 else n for n in cut)
        a, b = (maker.input(net, shape) for shape in shapes)
        y = maker.output(net, np.broadcast_shapes(*shapes))
        if cls is xn.XNNDiv and not maker.quantized:
            net.inputs[1] += np.where(net.inputs[1] < 0, -1, 1).astype(np.float32)
        node = cls(input1_id=a, input2_id=b, output_id=y, flags=0)
        return net.node(node, maker.bounds() if clamps else None)

    return make


def weights(
    maker: Maker, net: Net, shape: Shape, axis: int, channels: int, *, per_channel: bool
) -> tuple[int, int]:
    """A filter and a bias, fitting the element type of the input."""
    rng = maker.rng
    bias = maker.rng.random() < 0.8
    if not maker.quantized:
        w = net.tensor(shape, data=rng.standard_normal(shape).astype(np.float32))
        addend = rng.standard_normal(channels).astype(np.float32)
        return w, net.tensor((channels,), data=addend) if bias else INVALID_ID
    addend = rng.integers(-3000, 3000, channels).astype(np.int32)
    if maker.datatype == DataType.QUINT8:
        data = rng.integers(0, 256, shape).astype(np.uint8)
        w = net.tensor(shape, DataType.QUINT8, (0.01, maker.integer(0, 255)), data=data)
    else:
        data = rng.integers(-128, 128, shape).astype(np.int8)
        if per_channel:
            scales = np.exp(rng.uniform(-6, -3, channels)).astype(np.float32)
            w = net.tensor(shape, DataType.QCINT8, scales=scales, axis=axis, data=data)
            if not bias:
                return w, INVALID_ID
            ones = np.ones(channels, np.float32)
            return w, net.tensor((channels,), DataType.QCINT32, scales=ones, data=addend)
        w = net.tensor(shape, DataType.QINT8, (0.01, 0), data=data)
    if not bias:
        return w, INVALID_ID
    return w, net.tensor((channels,), DataType.QINT32, (1.0, 0), data=addend)


def out_params(maker: Maker, reach: float) -> Parameters | None:
    """Output parameters under which most results do not saturate."""
    params = maker.params()
    if params is None:
        return None
    return float(np.float32(reach * maker.rng.uniform(0.2, 1.5))), params[1]


def convolution(cls: type[Any], *, per_channel: bool = False) -> Make:
    def make(maker: Maker) -> Net:
        net, r = Net(), maker
        kernel = (r.integer(1, 4), r.integer(1, 4))
        stride = (r.integer(1, 3), r.integer(1, 3))
        dilation = (r.integer(1, 2), r.integer(1, 2))
        groups = r.integer(1, 3) if r.rng.random() < 0.4 else 1
        depth, share = r.integer(1, 9), r.integer(1, 9)
        size = (r.integer(8, 12), r.integer(8, 12))
        pads = {side: r.integer(0, 1) for side in ("top", "bottom", "left", "right")}
        extra = {"adjustment_height": 0, "adjustment_width": 0}
        flags = 0
        shape: Shape
        if cls is xn.XNNDepthwiseConv2d:
            groups, depth, share = r.integer(1, 20), 1, r.integer(1, 2)
            shape, axis = (1, *kernel, groups * share), 3
        else:
            shape, axis = (groups * share, *kernel, depth), 0
        if cls is xn.XNNConvTranspose2d:
            size = (r.integer(2, 5), r.integer(2, 5))
            extra = {
                "adjustment_height": r.integer(0, stride[0] - 1),
                "adjustment_width": r.integer(0, stride[1] - 1),
            }
            tall, wide = (
                (n - 1) * s + (k - 1) * d + 1 + a
                for n, s, k, d, a in zip(
                    size, stride, kernel, dilation, extra.values(), strict=True
                )
            )
            rows = tall - pads["top"] - pads["bottom"]
            columns = wide - pads["left"] - pads["right"]
            if rows < 1 or columns < 1:
                pads = dict.fromkeys(pads, 0)
                rows, columns = tall, wide
        else:
            if r.rng.random() < 0.4 and same_fits(size, kernel, stride, dilation):
                flags, pads = 4, dict.fromkeys(pads, 0)
            spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
            rows, columns = (
                -(-n // s) if flags else (n + p - span) // s + 1
                for n, s, p, span in zip(
                    size,
                    stride,
                    (pads["top"] + pads["bottom"], pads["left"] + pads["right"]),
                    spans,
                    strict=True,
                )
            )
        batch = r.integer(1, 2)
        x = maker.input(net, (batch, *size, groups * depth))
        w, b = weights(maker, net, shape, axis, groups * share, per_channel=per_channel)
        reach = 0.3 * (kernel[0] * kernel[1] * depth) ** 0.5
        y = maker.output(net, (batch, rows, columns, groups * share), out_params(maker, reach))
        node = cls(
            **{f"padding_{side}": n for side, n in pads.items()},
            kernel_height=kernel[0],
            kernel_width=kernel[1],
            subsampling_height=stride[0],
            subsampling_width=stride[1],
            dilation_height=dilation[0],
            dilation_width=dilation[1],
            group_input_channels=depth,
            group_output_channels=share,
            groups=groups,
            **extra,
            input1_id=x,
            filter_id=w,
            bias_id=b,
            output_id=y,
            flags=flags,
        )
        return net.node(node, maker.bounds())

    return make


def fully_connected(*, per_channel: bool = False) -> Make:
    def make(maker: Maker) -> Net:
        net = Net()
        depth, channels = maker.integer(1, 40), maker.integer(1, 40)
        lead = maker.shape(0, 3, 4)
        x = maker.input(net, (*lead, depth))
        flip = int(maker.rng.random() < 0.4)
        shape = (depth, channels) if flip else (channels, depth)
        w, b = weights(maker, net, shape, flip, channels, per_channel=per_channel)
        y = maker.output(net, (*lead, channels), out_params(maker, 0.3 * depth**0.5))
        node = xn.XNNFullyConnected(input1_id=x, filter_id=w, bias_id=b, output_id=y, flags=flip)
        return net.node(node, maker.bounds())

    return make


def dynamic_fully_connected(maker: Maker) -> Net:
    net, rng = Net(), maker.rng
    depth, channels = maker.integer(1, 40), maker.integer(1, 40)
    lead = maker.shape(1, 3, 4)
    x = maker.input(net, (*lead, depth))
    q = net.tensor((*lead, depth), DataType.QDINT8, rows=1)
    scales = np.exp(rng.uniform(-6, -3, channels)).astype(np.float32)
    data = rng.integers(-128, 128, (channels, depth)).astype(np.int8)
    w = net.tensor((channels, depth), DataType.QCINT8, scales=scales, axis=0, data=data)
    b = INVALID_ID
    if rng.random() < 0.7:
        b = net.tensor((channels,), data=rng.standard_normal(channels).astype(np.float32))
    y = maker.output(net, (*lead, channels))
    net.node(xn.XNNConvert(input_id=x, output_id=q, flags=0))
    node = xn.XNNFullyConnected(input1_id=q, filter_id=w, bias_id=b, output_id=y, flags=0)
    return net.node(node, maker.bounds())


def batch_matmul(maker: Maker) -> Net:
    net, flip = Net(), maker.integer(0, 1)
    m, k, n = (maker.integer(1, 9) for _ in range(3))
    lead = maker.shape(1, 2, 4)
    other = tuple(1 if maker.rng.random() < 0.3 else extent for extent in lead)
    a = maker.input(net, (*lead, m, k))
    b = maker.input(net, (*other, n, k) if flip else (*other, k, n))
    y = maker.output(net, (*lead, m, n))
    return net.node(xn.XNNBatchMatrixMultiply(input1_id=a, input2_id=b, output_id=y, flags=flip))


def pooling(cls: type[Any]) -> Make:
    def make(maker: Maker) -> Net:
        net, r = Net(), maker
        kernel = (r.integer(1, 4), r.integer(2, 4))
        stride = (r.integer(1, 3), r.integer(1, 3))
        dilation = (r.integer(1, 2), r.integer(1, 2)) if cls is xn.XNNMaxPooling2d else (1, 1)
        size = (r.integer(7, 10), r.integer(7, 10))
        pads = {
            "top": r.integer(0, kernel[0] - 1),
            "bottom": r.integer(0, kernel[0] - 1),
            "left": r.integer(0, kernel[1] - 1),
            "right": r.integer(0, kernel[1] - 1),
        }
        flags = 0
        if r.rng.random() < 0.4 and same_fits(size, kernel, stride, dilation):
            flags, pads = 4, dict.fromkeys(pads, 0)
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        totals = (pads["top"] + pads["bottom"], pads["left"] + pads["right"])
        rows, columns = (
            -(-n // s) if flags else (n + p - span) // s + 1
            for n, s, p, span in zip(size, stride, totals, spans, strict=True)
        )
        batch, channels, params = r.integer(1, 2), r.integer(1, 20), r.params()
        x = maker.input(net, (batch, *size, channels), params)
        y = maker.output(net, (batch, rows, columns, channels), params)
        node = cls(
            **{f"padding_{side}": n for side, n in pads.items()},
            pooling_height=kernel[0],
            pooling_width=kernel[1],
            stride_height=stride[0],
            stride_width=stride[1],
            dilation_height=dilation[0],
            dilation_width=dilation[1],
            input_id=x,
            output_id=y,
            flags=flags,
        )
        return net.node(node, maker.bounds())

    return make


def arg_max_pool(maker: Maker) -> Net:
    net = Net()
    kernel = (maker.integer(1, 4), maker.integer(2, 4))
    count = (maker.integer(1, 3), maker.integer(1, 3))
    channels = maker.integer(1, 9)
    shape = (1, kernel[0] * count[0], kernel[1] * count[1], channels)
    x = maker.input(net, shape)
    y = maker.output(net, (1, *count, channels))
    z = net.tensor((1, *count, channels), INT32, io="out")
    node = xn.XNNArgMaxPooling2d(
        pooling_height=kernel[0],
        pooling_width=kernel[1],
        input_id=x,
        output_value_id=y,
        output_index_id=z,
    )
    return net.node(node)


def global_average_pool(maker: Maker) -> Net:
    net, keep = Net(), maker.integer(0, 1)
    shape = (maker.integer(1, 2), *(maker.integer(1, 12) for _ in range(2)), maker.integer(1, 40))
    x = maker.input(net, shape)
    out = (shape[0], 1, 1, shape[3]) if keep else (shape[0], shape[3])
    y = maker.output(net, out)
    node = xn.XNNGlobalAvgPooling2d(input_id=x, output_id=y, flags=0x40 * keep)
    return net.node(node, maker.bounds())


def softmax(maker: Maker) -> Net:
    net, shape = Net(), maker.shape(1, 4, 20)
    x, y = maker.input(net, shape), maker.output(net, shape)
    return net.node(xn.XNNSoftmax(input_id=x, output_id=y, flags=0))


def resize(maker: Maker) -> Net:
    net, params = Net(), maker.params()
    size = (maker.integer(1, 9), maker.integer(1, 9))
    target = (maker.integer(1, 20), maker.integer(1, 20))
    batch, channels = maker.integer(1, 2), maker.integer(1, 20)
    x = maker.input(net, (batch, *size, channels), params)
    y = maker.output(net, (batch, *target, channels), params)
    flags = (0, 4, 8)[maker.integer(0, 2)]
    node = xn.XNNStaticResizeBilinear2D(
        new_height=target[0], new_width=target[1], input_id=x, output_id=y, flags=flags
    )
    return net.node(node)


def transpose(maker: Maker) -> Net:
    net, shape, params = Net(), maker.shape(1, 6, 5), maker.params()
    order = maker.rng.permutation(len(shape))
    x = maker.input(net, shape, params)
    y = maker.output(net, tuple(shape[i] for i in order), params)
    node = xn.XNNStaticTranspose(
        num_dims=len(shape), perm=order.astype(np.uint32), input_id=x, output_id=y, flags=0
    )
    return net.node(node)


def reshape(maker: Maker) -> Net:
    net, shape, params = Net(), maker.shape(1, 5, 4), maker.params()
    target = [int(np.prod(shape[:1])), int(np.prod(shape[1:]))]
    written = list(target)
    if maker.rng.random() < 0.5:
        written[maker.integer(0, 1)] = 0
    x, y = maker.input(net, shape, params), maker.output(net, tuple(target), params)
    node = xn.XNNStaticReshape(
        num_dims=2, new_shape=np.asarray(written, np.uint32), input_id=x, output_id=y, flags=0
    )
    return net.node(node)


def copy(maker: Maker) -> Net:
    net, shape, params = Net(), maker.shape(), maker.params()
    x, y = maker.input(net, shape, params), maker.output(net, shape, params)
    return net.node(xn.XNNCopy(input_id=x, output_id=y, flags=0))


def slice_box(maker: Maker) -> Net:
    net, shape, params = Net(), maker.shape(1, 6, 6), maker.params()
    size = tuple(maker.integer(1, n) for n in shape)
    begin = [maker.integer(0, n - s) for n, s in zip(shape, size, strict=True)]
    x, y = maker.input(net, shape, params), maker.output(net, size, params)
    node = xn.XNNStaticSlice(
        num_dims=len(shape),
        offsets=np.asarray(begin, np.uint32),
        sizes=np.asarray(size, np.uint32),
        input_id=x,
        output_id=y,
        flags=0,
    )
    return net.node(node)


def pad(maker: Maker) -> Net:
    net, shape, params = Net(), maker.shape(1, 6, 4), maker.params()
    before, after = ([maker.integer(0, 3) for _ in shape] for _ in range(2))
    out = tuple(b + n + a for b, n, a in zip(before, shape, after, strict=True))
    x, y = maker.input(net, shape, params), maker.output(net, out, params)
    node = xn.XNNStaticConstantPad(
        pre_paddings=np.asarray(before, np.uint32),
        post_paddings=np.asarray(after, np.uint32),
        padding_value=maker.real(-3, 3),
        input_id=x,
        output_id=y,
        flags=0,
    )
    return net.node(node)


def concatenate(count: int) -> Make:
    cls: Any = {
        2: xn.XNNConcatenate2,
        3: xn.XNNConcatenate3,
        4: xn.XNNConcatenate4,
        5: xn.XNNConcatenate5,
    }[count]

    def make(maker: Maker) -> Net:
        net, shape, params = Net(), list(maker.shape(1, 4, 5)), maker.params()
        axis = maker.integer(0, len(shape) - 1)
        extents = [maker.integer(1, 5) for _ in range(count)]
        ids = {}
        for number, extent in enumerate(extents, 1):
            shape[axis] = extent
            ids[f"input{number}_id"] = maker.input(net, tuple(shape), params)
        shape[axis] = sum(extents)
        y = maker.output(net, tuple(shape), params)
        return net.node(cls(axis=axis, output_id=y, flags=0, **ids))

    return make


FLOAT = (DataType.FP32,)
ALL = (DataType.FP32, DataType.QINT8, DataType.QUINT8)
SIGNED = (DataType.QINT8,)

CASES: dict[str, tuple[Make, tuple[int, ...], float]] = {
    # name: how to make one, element types, tolerance of floats relative to the largest result or 1
    "Abs": (unary(xn.XNNAbs), ALL, 0),
    "Add": (binary(xn.XNNAdd, clamps=True), ALL, 0),
    "ArgMaxPooling2d": (arg_max_pool, FLOAT, 0),
    "AvgPooling2d": (pooling(xn.XNNAvgPooling2d), FLOAT, 1e-6),
    "BatchMatrixMultiply": (batch_matmul, FLOAT, 1e-6),
    "Ceiling": (unary(xn.XNNCeiling), ALL, 0),
    "Clamp": (unary(xn.XNNClamp), ALL, 0),
    "Clamp, one quantization": (clamp_same, ALL, 0),
    "Concatenate2": (concatenate(2), ALL, 0),
    "Concatenate3": (concatenate(3), ALL, 0),
    "Concatenate4": (concatenate(4), ALL, 0),
    "Concatenate5": (concatenate(5), ALL, 0),
    "Conv2d": (convolution(xn.XNNConv2d), ALL, 5e-6),
    "Conv2d, per channel": (convolution(xn.XNNConv2d, per_channel=True), SIGNED, 0),
    "ConvTranspose2d": (convolution(xn.XNNConvTranspose2d), ALL, 5e-6),
    "ConvTranspose2d, per channel": (
        convolution(xn.XNNConvTranspose2d, per_channel=True),
        SIGNED,
        0,
    ),
    "Convert from float": (convert_from(DataType.FP32), ALL, 0),
    "Convert from int8": (convert_from(DataType.QINT8), ALL, 0),
    "Convert from uint8": (convert_from(DataType.QUINT8), ALL, 0),
    "Copy": (copy, ALL, 0),
    "Cos": (unary(xn.XNNCos), ALL, 1e-6),
    "DepthwiseConv2d": (convolution(xn.XNNDepthwiseConv2d), ALL, 5e-6),
    "DepthwiseConv2d, per channel": (
        convolution(xn.XNNDepthwiseConv2d, per_channel=True),
        SIGNED,
        0,
    ),
    "Div": (binary(xn.XNNDiv, clamps=True), ALL, 1e-6),
    "ELU": (unary(xn.XNNELU, alpha=(0.1, 2)), ALL, 1e-6),
    "Exp": (unary(xn.XNNExp), ALL, 1e-6),
    "Floor": (unary(xn.XNNFloor), ALL, 0),
    "FullyConnected": (fully_connected(), ALL, 5e-6),
    "FullyConnected, dynamic": (dynamic_fully_connected, FLOAT, 1e-6),
    "FullyConnected, per channel": (fully_connected(per_channel=True), SIGNED, 0),
    "Gelu": (unary(xn.XNNGelu), ALL, 1e-6),
    "GlobalAvgPooling2d": (global_average_pool, ALL, 1e-6),
    "Hardswish": (unary(xn.XNNHardswish), ALL, 1e-6),
    "LeakyReLU": (unary(xn.XNNLeakyReLU, negative_slope=(-0.5, 1.5)), ALL, 0),
    "Log": (unary(xn.XNNLog, positive=True), ALL, 1e-6),
    "MaxPooling2d": (pooling(xn.XNNMaxPooling2d), ALL, 0),
    "Maximum": (binary(xn.XNNMaximum), ALL, 0),
    "Minimum": (binary(xn.XNNMinimum), ALL, 0),
    "Multiply": (binary(xn.XNNMultiply, clamps=True), ALL, 0),
    "Negate": (unary(xn.XNNNegate), ALL, 0),
    "PReLU": (binary(xn.XNNPReLU), ALL, 0),
    "ReciprocalSquareRoot": (unary(xn.XNNReciprocalSquareRoot, positive=True), ALL, 1e-6),
    "Sigmoid": (unary(xn.XNNSigmoid), ALL, 1e-6),
    "Sin": (unary(xn.XNNSin), ALL, 1e-6),
    "Softmax": (softmax, FLOAT, 1e-6),
    "Square": (unary(xn.XNNSquare), ALL, 0),
    "SquareRoot": (unary(xn.XNNSquareRoot, positive=True), ALL, 1e-6),
    "StaticConstantPad": (pad, ALL, 0),
    "StaticReshape": (reshape, ALL, 0),
    "StaticResizeBilinear2D": (resize, ALL, 1e-6),
    "StaticSlice": (slice_box, ALL, 0),
    "StaticTranspose": (transpose, ALL, 0),
    "Subtract": (binary(xn.XNNSubtract, clamps=True), ALL, 0),
    "Tanh": (unary(xn.XNNTanh), ALL, 1e-6),
}
