from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from tests.hw_models.xnnpack_cases import CASES, INT32, Maker, Net, Shape
from tests.support import need_executorch

from fitzroy.base.errors import FitzroyError, FormatError, UnsupportedError, UsageError
from fitzroy.base.types import Array
from fitzroy.driver.runtime.executorch import ExecuTorchRuntime
from fitzroy.formats import xnnpack as xn
from fitzroy.formats.xnnpack import INVALID_ID, DataType
from fitzroy.hw_models.xnnpack import NODES, execute
from fitzroy.linker.packages.executorch import link_program

SEED = 20


@pytest.fixture(scope="module")
def runtime() -> Iterator[ExecuTorchRuntime]:
    need_executorch()
    with ExecuTorchRuntime(threads=1) as runtime:
        yield runtime


def close(mine: Array, real: Array, tolerance: float) -> bool:
    if mine.shape != real.shape or mine.dtype != real.dtype:
        return False
    if mine.dtype.kind != "f":
        return bool(np.array_equal(mine, real))
    if tolerance == 0:
        return bool(np.array_equal(mine, real, equal_nan=True))
    reach = float(np.abs(real).max(initial=1))
    return bool(np.allclose(mine, real, rtol=0, atol=tolerance * reach))


@pytest.mark.long
@pytest.mark.runtime
@pytest.mark.parametrize("name", CASES)
def test_a_node_computes_what_the_runtime_computes(
    name: str, runtime: ExecuTorchRuntime, full: bool
) -> None:
    make, datatypes, tolerance = CASES[name]
    for datatype in datatypes:
        for number in range(100 if full else 10):
            seed = [SEED, number]
            net = make(Maker(np.random.default_rng(seed), datatype))
            with runtime.load(link_program([net.method()])) as session:
                real = session.run(net.inputs)
            mine = execute(net.blob(), net.arguments())
            for got, expected in zip(mine.values(), real, strict=True):
                assert close(got, expected, tolerance), (
                    f"{name}, {DataType(datatype).name}, seed {seed}: {got} != {expected}"
                )


def test_every_executed_node_has_a_case() -> None:
    names = {f"XNN{name.split(',')[0].split(' from')[0]}" for name in CASES}
    assert names == {node.__name__ for node in NODES}
    assert set(xn.NODE_TYPES) - set(NODES) == {xn.XNNScaledDotProductAttention}


def one(cls: type[xn.NodeTable], x: Array, shape: Shape | None = None, **fields: object) -> Net:
    """A float node with one input and one output."""
    net = Net()
    a = net.tensor(x.shape, io="in", contents=x)
    b = net.tensor(x.shape if shape is None else shape, io="out")
    return net.node(cls(input_id=a, output_id=b, **fields))  # type: ignore[call-arg]


def run(net: Net) -> list[Array]:
    return list(execute(net.blob(), net.arguments()).values())


def test_conv_2d_by_hand() -> None:
    net = Net()
    x = net.tensor(
        (1, 2, 2, 1), DataType.QINT8, (0.5, 1), io="in",
        contents=np.array([[[[1], [3]], [[5], [-1]]]], np.int8),
    )  # fmt: skip
    w = net.tensor((1, 2, 2, 1), DataType.QINT8, (0.25, 0), data=np.array([1, 2, 3, 4], np.int8))
    b = net.tensor((1,), DataType.QINT32, (1.0, 0), data=np.array([3], np.int32))
    y = net.tensor((1, 1, 1, 1), DataType.QINT8, (0.25, -2), io="out")
    net.node(
        xn.XNNConv2d(
            kernel_height=2, kernel_width=2, subsampling_height=1, subsampling_width=1,
            dilation_height=1, dilation_width=1, group_input_channels=1,
            group_output_channels=1, groups=1, input1_id=x, filter_id=w, bias_id=b, output_id=y,
        )
    )  # fmt: skip
    # 0 * 1 + 2 * 2 + 4 * 3 - 2 * 4 + 3 = 11; 11 * 0.5 = 5.5, to even 6; 6 - 2 = 4
    assert run(net)[0].item() == 4


def test_ties_of_addition_round_up() -> None:
    net = Net()
    x = np.array([1, 3, -1, -3], np.int8)
    ids = [net.tensor((4,), DataType.QINT8, (0.5, 0), io="in", contents=c) for c in (x, x * 0)]
    y = net.tensor((4,), DataType.QINT8, (1.0, 0), io="out")
    net.node(xn.XNNAdd(input1_id=ids[0], input2_id=ids[1], output_id=y))
    assert run(net)[0].tolist() == [1, 2, 0, -1]


def test_reshape_infers_an_extent() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    net = one(xn.XNNStaticReshape, x, (2, 6), num_dims=2, new_shape=np.array([2, 0], np.uint32))
    assert np.array_equal(run(net)[0], x.reshape(2, 6))


def test_concatenate_counts_axes_from_the_end() -> None:
    net = Net()
    x = np.ones((2, 1), np.float32)
    ids = [net.tensor((2, 1), io="in", contents=x) for _ in range(2)]
    y = net.tensor((2, 2), io="out")
    net.node(xn.XNNConcatenate2(axis=0xFFFFFFFF, input1_id=ids[0], input2_id=ids[1], output_id=y))
    assert run(net)[0].shape == (2, 2)


def test_constants_may_live_in_the_flatbuffer_or_have_names() -> None:
    data = np.array([1, 2], np.float32)
    x = np.array([10, 20], np.float32)

    def net() -> Net:
        made = Net()
        a = made.tensor((2,), io="in", contents=x)
        b = made.tensor((2,), data=data)
        y = made.tensor((2,), io="out")
        return made.node(xn.XNNAdd(input1_id=a, input2_id=b, output_id=y))

    assert run(net())[0].tolist() == [11, 22]
    graph = net().graph()
    graph.constant_data = None
    graph.constant_buffer = [xn.Buffer(), xn.Buffer(storage=np.frombuffer(data.tobytes(), "u1"))]
    blob = xn.write_blob(graph)
    assert execute(blob, {0: x})[1].tolist() == [11, 22]
    graph = net().graph()
    graph.constant_data = [
        xn.ConstantDataOffset(),
        xn.ConstantDataOffset(offset=xn.NAMED_OFFSET, size=8, named_key="weights"),
    ]
    blob = xn.write_blob(graph)
    names = {"weights": memoryview(data.tobytes())}
    assert execute(blob, {0: x}, names.get)[1].tolist() == [11, 22]
    with pytest.raises(FormatError, match="weights"):
        execute(blob, {0: x})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: setattr(t, "num_dims", 3), "3 dimensions"),
        (lambda t: setattr(t, "id_out", 1), "id 1 stands for two"),
        (lambda t: setattr(t, "external_id", 7), "external id 7"),
        (lambda t: setattr(t, "external_id", INVALID_ID), "without an external id"),
        (lambda t: setattr(t, "flags", 8), "flags 0x8"),
        (lambda t: setattr(t, "constant_buffer_idx", 1), "comes from elsewhere"),
        (lambda t: setattr(t, "datatype", DataType.QINT8), "has no parameters"),
        (lambda t: setattr(t, "dims", np.ones(7, np.uint32)), "7 extents"),
    ],
)
def test_malformed_values(change: Callable[[xn.TensorValue], None], message: str) -> None:
    net = one(xn.XNNAbs, np.zeros((2, 2), np.float32))
    tensor = xn.tensor_of(net.values[0])
    assert tensor is not None
    change(tensor)
    with pytest.raises(FormatError, match=message):
        run(net)


def quantized(params: xn.QuantParams | None, datatype: int = DataType.QINT8) -> Net:
    net = Net()
    x = net.tensor((2,), datatype, (1.0, 0), io="in", contents=np.zeros(2, np.int8))
    y = net.tensor((2,), datatype, (1.0, 0), io="out")
    value = net.values[0].value
    assert isinstance(value, xn.QuantizedTensorValue)
    value.quant_params = params
    return net.node(xn.XNNAbs(input_id=x, output_id=y))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        (None, FormatError, "no parameters"),
        (xn.PerTensorQuant(scale=1.0, zero_point=128), FormatError, "zero point 128"),
        (xn.PerTensorQuant(scale=float("nan"), zero_point=0), FormatError, "not finite"),
        (xn.PerTensorQuant(scale=0.0, zero_point=0), UnsupportedError, "scale 0"),
        (xn.PerTensorQuant(scale=1e-40, zero_point=0), UnsupportedError, "normal"),
        (
            xn.PerChannelQuant(scale=np.ones(2, np.float32), channel_dim=0),
            FormatError,
            "PerChannelQuant",
        ),
    ],
)
def test_bad_parameters(
    params: xn.QuantParams | None, error: type[FitzroyError], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(quantized(params))


X = np.zeros((4, 6), np.float32)


def broken() -> Iterator[tuple[str, Net]]:
    """Malformed graphs, and what their errors say."""
    yield "no value has id 9", one(xn.XNNAbs, X).node(xn.XNNAbs(input_id=9, output_id=1))
    yield "declares [4, 5]", one(xn.XNNAbs, X, (4, 5))
    twice = np.zeros(2, np.uint32)
    yield "permutes", one(xn.XNNStaticTranspose, X, num_dims=2, perm=twice)
    begin, size = np.array([0, 2], np.uint32), np.array([4, 5], np.uint32)
    net = one(xn.XNNStaticSlice, X, (4, 5), num_dims=2, offsets=begin, sizes=size)
    yield "leaves", net
    yield "cannot become", one(xn.XNNStaticReshape, X, num_dims=2, new_shape=size)
    yield "more than one extent", one(xn.XNNStaticReshape, X, num_dims=2, new_shape=twice)
    net = one(xn.XNNAbs, X)
    net.nodes[0].node = None
    yield "empty", net
    net = one(xn.XNNAbs, X)
    net.nodes.clear()
    yield "nothing computes", net
    yield "computed twice", one(xn.XNNAbs, X).node(xn.XNNAbs(input_id=0, output_id=1))
    net = one(xn.XNNAbs, X)
    net.nodes[0].node = xn.XNNAbs(input_id=net.tensor((4, 6)), output_id=1)
    yield "before anything computed", net
    net = one(xn.XNNClamp, X)
    net.nodes[0].output_min_max = xn.OutputMinMax(output_min=1, output_max=-1)
    yield "output range", net


def test_bad_nodes() -> None:
    for message, net in broken():
        with pytest.raises(FormatError, match=re.escape(message)):
            run(net)


def test_constants_must_have_the_size_of_their_value() -> None:
    net = Net()
    net.tensor((3,), data=np.zeros(2, np.float32))
    with pytest.raises(FormatError, match="needs 12 bytes, its constant has 8"):
        run(net)


def test_inputs_must_be_those_of_the_graph() -> None:
    net = one(xn.XNNAbs, np.zeros((2, 2), np.float32))
    with pytest.raises(UsageError, match=r"inputs \[0\]"):
        execute(net.blob(), {})
    with pytest.raises(UsageError, match="float32"):
        execute(net.blob(), {0: np.zeros((2, 2), np.float64)})


def refusals() -> Iterator[tuple[str, Net]]:
    """Graphs that the runtime refuses, crashes on, or gets wrong; with the rule's name."""
    x = np.zeros((1, 4, 4, 1), np.float32)
    q = np.zeros((1, 4, 4, 1), np.int8)

    def eight(cls: type[xn.NodeTable], out: tuple[float, int], **fields: object) -> Net:
        net = Net()
        a = net.tensor(q.shape, DataType.QINT8, (0.1, 0), io="in", contents=q)
        b = net.tensor(q.shape, DataType.QINT8, out, io="out")
        return net.node(cls(input_id=a, output_id=b, **fields))  # type: ignore[call-arg]

    unit = {"pooling_height": 1, "pooling_width": 2, "stride_height": 1, "stride_width": 1}
    unit |= {"dilation_height": 1, "dilation_width": 1}
    yield "quantization-differs", eight(xn.XNNMaxPooling2d, (0.2, 0), **unit)
    yield "quantization-differs", eight(xn.XNNCopy, (0.1, 1))
    yield "element-type", eight(xn.XNNSoftmax, (0.1, 0))
    yield "scale-ratio", eight(xn.XNNConvert, (0.0001, 0))
    yield "scale-ratio", eight(xn.XNNLeakyReLU, (0.1, 0), negative_slope=200.0)
    net = one(xn.XNNTanh, x)
    net.nodes[0].output_min_max = xn.OutputMinMax(output_min=-1, output_max=1)
    yield "ignored-output-range", net
    net = Net()
    a = net.tensor((2,), io="in", contents=np.zeros(2, np.float32))
    b = net.tensor((2,), DataType.QINT8, (1.0, 0), io="out")
    yield "element-types-differ", net.node(xn.XNNTanh(input_id=a, output_id=b))
    wide = {**unit, "pooling_width": 9}
    yield "window-exceeds-input", one(xn.XNNMaxPooling2d, x, (1, 4, 1, 1), **wide)
    above = {**unit, "padding_top": 1}
    yield "empty-window", one(xn.XNNMaxPooling2d, x, (1, 5, 3, 1), **above)
    strided = {**unit, "stride_height": 2, "flags": 4}
    yield "same-padding", one(xn.XNNAvgPooling2d, x, (1, 2, 4, 1), **strided)
    for rule, w_type, w_zero, stride in (
        ("filter-zero-point", DataType.QINT8, 3, 1),
        ("product-types", DataType.QUINT8, 0, 1),
        ("same-padding", DataType.QINT8, 0, 2),
        ("requantization-scale", DataType.QINT8, 0, 1),
    ):
        net = Net()
        a = net.tensor(q.shape, DataType.QINT8, (0.1, 0), io="in", contents=q)
        w = net.tensor((1, 1, 2, 1), w_type, (0.1, w_zero), data=np.zeros(2, np.int8))
        out = 1e-6 if rule == "requantization-scale" else 1.0
        extent = -(-4 // stride)
        b = net.tensor((1, extent, extent, 1), DataType.QINT8, (out, 0), io="out")
        node = xn.XNNConv2d(
            kernel_height=1, kernel_width=2, subsampling_height=stride, subsampling_width=stride,
            dilation_height=1, dilation_width=1, group_input_channels=1,
            group_output_channels=1, groups=1, input1_id=a, filter_id=w, bias_id=INVALID_ID,
            output_id=b, flags=4,
        )  # fmt: skip
        yield rule, net.node(node)
    net = Net()
    a, b = (net.tensor((4,), INT32, io=io) for io in ("in", "out"))
    net.inputs.append(np.zeros(4, np.int32))
    zeros = np.zeros(1, np.uint32)
    node_ = xn.XNNStaticConstantPad(
        pre_paddings=zeros, post_paddings=zeros, input_id=a, output_id=b
    )
    yield "element-type", net.node(node_)
    for sizes in ((1e-5, 1e-5), (2.0**21, 1.0)):
        net = Net()
        zero = np.zeros(2, np.int8)
        a, b = (net.tensor((2,), DataType.QINT8, (s, 0), io="in", contents=zero) for s in sizes)
        c = net.tensor((2,), DataType.QINT8, (1.0, 0), io="out")
        yield "scale-ratio", net.node(xn.XNNAdd(input1_id=a, input2_id=b, output_id=c))


def test_refusals_name_their_rule() -> None:
    for rule, net in refusals():
        with pytest.raises(UnsupportedError) as caught:
            run(net)
        assert [reject.code for reject in caught.value.rejects] == [rule]


def test_attention_is_refused() -> None:
    net = one(xn.XNNAbs, np.zeros(2, np.float32))
    net.nodes[0].node = xn.XNNScaledDotProductAttention(output_id=1)
    with pytest.raises(UnsupportedError, match="ScaledDotProductAttention"):
        run(net)


@pytest.mark.long
def test_mutated_graphs_raise_only_our_errors() -> None:
    rng = np.random.default_rng(SEED)
    for name in ("Conv2d", "Add", "StaticSlice", "Concatenate3", "FullyConnected, dynamic"):
        make, datatypes, _ = CASES[name]
        for _ in range(100):
            net = make(Maker(rng, datatypes[-1]))
            node = net.nodes[-1].node
            assert node is not None
            names = [field.name for field in dataclasses.fields(node)]  # type: ignore[arg-type]
            field = names[rng.integers(len(names))]
            if isinstance(getattr(node, field), int):
                setattr(node, field, int(rng.choice([0, 1, 2, 3, 9, 255, 1 << 16, INVALID_ID])))
            try:
                run(net)
            except (FormatError, UnsupportedError):
                continue
