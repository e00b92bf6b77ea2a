from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from tests.support import corpus

from fitzroy.base.errors import LinkError, UnsupportedError, UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.convolution import ConvAttributes, TransposeConvAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.recurrent import OPERANDS, LstmAttributes
from fitzroy.compiler.targets.edgetpu.operands import (
    FilterOperand,
    Operand,
    Placement,
    SoftmaxOperand,
    locate,
    mapped_nodes,
    operands,
    place,
    search,
)
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.parameters import (
    ConvolutionLayout,
    DepthwiseLayout,
    Prefix,
    WordOrder,
    ZeroBias,
    effective_scale,
    one_hot,
    pack,
    softmax_table,
)

UNIT = Quantization.per_tensor(0.5, 3)


def tensor(*shape: int, dtype: DType = DType.INT8, quantization: Quantization = UNIT) -> TensorType:
    return TensorType(shape, dtype, quantization)


@dataclass
class Builder:
    """A graph under construction; every filter gets weights of its own."""

    graph: Graph
    rng: np.random.Generator
    dtype: DType = DType.INT8

    def filter(self, shape: tuple[int, ...], axis: int | None) -> str:
        low, high = self.dtype.limits
        data = self.rng.integers(low, high, shape, self.dtype.numpy, endpoint=True)
        if axis is None:
            zero = 0 if self.dtype is DType.INT8 else 131
            return self.graph.add_constant("w", data, Quantization.per_tensor(0.01, zero))
        scale = tuple(float(np.float32(s)) for s in self.rng.uniform(0.001, 0.02, shape[axis]))
        return self.graph.add_constant("w", data, Quantization(scale, (0,) * len(scale), axis))

    def bias(self, count: int, zero: bool = False) -> str:
        data = np.zeros(count, np.int32) if zero else self.rng.integers(-9, 999, count, np.int32)
        return self.graph.add_constant("b", data, Quantization((1.0,), (0,)))

    def conv(
        self, x: str, count: int, kernel: tuple[int, int] = (1, 1), axis: int | None = 0,
        zero: bool = False,
    ) -> str:  # fmt: skip
        _, rows, columns, depth = self.graph.type(x).shape
        w = self.filter((count, *kernel, depth), axis)
        type = tensor(1, rows - kernel[0] + 1, columns - kernel[1] + 1, count, dtype=self.dtype)
        b = self.bias(count, zero)
        return self.graph.emit("conv_2d", [x, w, b], type, ConvAttributes())

    def depthwise(self, x: str, multiplier: int = 1) -> str:
        _, rows, columns, depth = self.graph.type(x).shape
        count = depth * multiplier
        w = self.filter((1, 3, 3, count), 3 if self.dtype is DType.INT8 else None)
        type = tensor(1, rows - 2, columns - 2, count, dtype=self.dtype)
        return self.graph.emit("depthwise_conv_2d", [x, w, self.bias(count)], type,
                               ConvAttributes())  # fmt: skip

    def dense(self, x: str, count: int) -> str:
        w = self.filter((count, self.graph.type(x).size), None)
        type = tensor(1, count, dtype=self.dtype)
        attributes = FullyConnectedAttributes()
        return self.graph.emit("fully_connected", [x, w, self.bias(count)], type, attributes)


def classifier(seed: int = 0, dtype: DType = DType.INT8) -> Graph:
    graph = Graph("classifier")
    build = Builder(graph, np.random.default_rng(seed), dtype)
    axis = 0 if dtype is DType.INT8 else None
    x = graph.add_input("x", tensor(1, 8, 8, 3, dtype=dtype))
    x = build.conv(x, 17, (3, 3), axis)
    x = build.depthwise(x)
    x = build.conv(x, 10, (2, 2), axis)
    x = build.dense(x, 6)
    graph.outputs = [graph.emit("softmax", [x], tensor(1, 6, dtype=dtype), stem="y")]
    return graph


def blob_of(found: list[Operand], order: WordOrder = WordOrder.IC_OUTER) -> Array:
    parts = []
    for operand in found:
        layout = operand.layouts[-1]
        if isinstance(layout, ConvolutionLayout):
            layout = replace(layout, order=order)
        parts.append(operand.pack(layout))
    return np.concatenate(parts)


def positions(placements: list[Placement]) -> list[tuple[int, int]]:
    return [(p.blob, p.offset) for p in placements]


def test_operands_come_in_the_order_of_operators() -> None:
    found = operands(classifier(), zero_bias=ZeroBias.DROP)
    every = Prefix(scales=True, biases=True, zero_points=True)
    assert [operand.node.op for operand in found] == [
        "conv_2d", "depthwise_conv_2d", "conv_2d", "fully_connected", "softmax",
    ]  # fmt: skip
    assert [operand.layouts[0] for operand in found[:4]] == [
        ConvolutionLayout(channels=17, in_channels=3, kernel=(3, 3), prefix=every),
        DepthwiseLayout(channels=17, kernel=(3, 3), prefix=every),
        ConvolutionLayout(channels=10, in_channels=17, kernel=(2, 2), prefix=every),
        # The image that the layer reads is the window of a convolution.
        ConvolutionLayout(channels=6, in_channels=10, kernel=(3, 3),
                          prefix=Prefix(biases=True), fully_connected=True),
    ]  # fmt: skip
    assert [len(operand.layouts) for operand in found] == [1, 1, 2, 2, 2]
    assert [operand.optional for operand in found] == [False] * 4 + [True]


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
def test_values_move_to_the_unsigned_domain(dtype: DType) -> None:
    graph = classifier(dtype=dtype)
    first = operands(graph, zero_bias=ZeroBias.DROP)[0]
    assert isinstance(first, FilterOperand)
    weights, bias = (graph.value(name) for name in first.node.inputs[1:] if name is not None)
    assert weights.data is not None
    assert bias.data is not None
    assert weights.type.quantization is not None
    shift = 128 if dtype is DType.INT8 else 0
    assert np.array_equal(first.parameters.weights, weights.data.astype(int) + shift)
    assert np.array_equal(first.parameters.biases, bias.data)  # type: ignore[arg-type]
    zeros = first.parameters.zero_points
    assert zeros is not None
    assert zeros.tolist() == ([128] * 17 if dtype is DType.INT8 else [131])
    if dtype is DType.INT8:
        scales = np.array(weights.type.quantization.scale, np.float32)
        assert np.array_equal(first.parameters.scales, effective_scale(0.5, scales, 0.5))  # type: ignore[arg-type]
    else:
        assert first.parameters.scales is None


def test_zero_biases_are_kept_or_dropped() -> None:
    graph = Graph("g")
    build = Builder(graph, np.random.default_rng(0))
    graph.outputs = [build.conv(graph.add_input("x", tensor(1, 4, 4, 4)), 4, zero=True)]
    kept, dropped = (operands(graph, zero_bias=rule)[0].layouts[0] for rule in ZeroBias)
    assert kept.nbytes == dropped.nbytes == 64
    assert (kept.word_count, dropped.word_count) == (4, 3)


def test_one_input_channel_makes_an_ordinary_convolution() -> None:
    graph = Graph("g")
    build = Builder(graph, np.random.default_rng(0))
    graph.outputs = [build.depthwise(graph.add_input("x", tensor(1, 5, 6, 1)), multiplier=7)]
    (found,) = operands(graph, zero_bias=ZeroBias.DROP)
    assert isinstance(found, FilterOperand)
    layout = found.layout
    assert isinstance(layout, ConvolutionLayout)
    assert (layout.channels, layout.in_channels, layout.kernel) == (7, 1, (3, 3))
    data = graph.value(found.node.inputs[1] or "").data
    assert data is not None
    assert found.parameters.weights[6, 2, 1, 0] == int(data[0, 2, 1, 6]) + 128


def test_lstm_has_an_operand_per_gate() -> None:
    graph = Graph("g")
    build = Builder(graph, np.random.default_rng(0))
    names: list[str | None] = [None] * OPERANDS
    names[0] = graph.add_input("x", tensor(1, 2, 5))
    for gate in range(4):
        names[1 + gate] = build.filter((6, 5), None)
        names[5 + gate] = build.filter((6, 6), None)
        names[12 + gate] = build.bias(6)
    graph.outputs = [
        graph.emit("unidirectional_sequence_lstm", names, tensor(1, 2, 6), LstmAttributes())
    ]
    found = operands(graph, zero_bias=ZeroBias.DROP)
    assert [operand.name.rpartition(", ")[2] for operand in found] == [
        "input gate", "forget gate", "cell gate", "output gate",
    ]  # fmt: skip
    for gate, operand in enumerate(found):
        assert isinstance(operand, FilterOperand)
        wx, wh = (graph.value(names[first + gate] or "").data for first in (1, 5))
        assert wx is not None
        assert wh is not None
        both = np.concatenate([wx, wh], axis=1).astype(int) + 128
        assert np.array_equal(operand.parameters.weights, both[:, None, None, :])


def test_operators_without_known_layout_are_refused_together() -> None:
    graph = Graph("g")
    build = Builder(graph, np.random.default_rng(0))
    x = graph.add_input("x", tensor(1, 6, 6, 4))
    y = build.depthwise(x, multiplier=2)
    w = build.filter((4, 1, 1, 2), 0)
    grouped = graph.emit("conv_2d", [x, w], tensor(1, 6, 6, 4), ConvAttributes())
    wide = graph.add_input("v", tensor(4, 1, 1, 4))
    variable = graph.emit("conv_2d", [x, wide], tensor(1, 6, 6, 4), ConvAttributes())
    w = build.filter((4, 1, 1, 4), None)
    attributes = TransposeConvAttributes(output=(6, 6))
    up = graph.emit("transpose_conv", [x, w], tensor(1, 6, 6, 4), attributes)
    graph.outputs = [y, grouped, variable, up]
    with pytest.raises(UnsupportedError, match="4 operators have parameters") as caught:
        operands(graph, zero_bias=ZeroBias.DROP)
    text = str(caught.value)
    for part in ("8 filters for 4 channels", "in groups", "'v' are not constant", "transpose_conv"):
        assert part in text


def test_mapped_nodes_lie_between_the_layers() -> None:
    graph = classifier()
    nodes = graph.nodes()
    assert mapped_nodes(graph, ["x"], ["y"]) == nodes
    assert mapped_nodes(graph, [nodes[1].outputs[0]], [nodes[3].outputs[0]]) == nodes[2:4]
    # The state that an LSTM carries from run to run is an output of the package only.
    graph.add_constant("state", np.zeros(3, np.int8), UNIT)
    assert mapped_nodes(graph, ["x"], ["y", "state_variable_output"]) == nodes
    with pytest.raises(UsageError, match="no value named 'other_variable_output'"):
        mapped_nodes(graph, ["x"], ["y", "other_variable_output"])


@pytest.mark.parametrize("order", list(WordOrder))
def test_locate_finds_operands_wherever_they_are(order: WordOrder) -> None:
    found = operands(classifier(), zero_bias=ZeroBias.DROP)
    first, second = blob_of(found[3:], order), blob_of([found[2], found[0], found[1]], order)
    mover = ConvolutionLayout(channels=9, in_channels=1, kernel=(3, 3), fully_connected=True)
    second = np.concatenate([pack(mover, one_hot(mover, range(9))), second])
    places = locate(found, [first, second])
    ends = [operand.layouts[-1].nbytes for operand in found]
    at = mover.nbytes
    assert positions(places) == [
        (1, at + ends[2]), (1, at + ends[2] + ends[0]), (1, at), (0, 0), (0, ends[3]),
    ]  # fmt: skip
    layout = places[2].layouts[0]
    assert isinstance(layout, ConvolutionLayout)
    assert layout.order is order
    assert len(places[2].layouts) == 1
    assert [p.end - p.offset for p in places] == ends


def test_locate_takes_equal_operands_in_order() -> None:
    found = operands(classifier(), zero_bias=ZeroBias.DROP)
    same = [found[0], replace(found[0])]
    blob = blob_of(same)
    assert positions(locate(same, [blob])) == [(0, 0), (0, len(blob) // 2)]
    places, missing = search([*same, found[0]], [blob])
    assert len(places) == 2
    assert missing == [found[0]]


def test_locate_names_what_is_missing() -> None:
    found = operands(classifier(), zero_bias=ZeroBias.DROP)
    other = operands(classifier(seed=1), zero_bias=ZeroBias.DROP)
    with pytest.raises(LinkError, match="1 of 5 operands are not in the compiled model") as caught:
        locate([*found[:3], other[3], found[4]], [blob_of(found)])
    assert other[3].name in str(caught.value)
    # A table that the compiler did not use is no fault.
    assert len(locate(found, [blob_of(found[:4])])) == 4


def test_place_fits_other_weights() -> None:
    old = operands(classifier(), zero_bias=ZeroBias.DROP)
    new = operands(classifier(seed=1), zero_bias=ZeroBias.DROP)
    mover = ConvolutionLayout(channels=2, in_channels=1, kernel=(1, 2), fully_connected=True)
    moving = pack(mover, one_hot(mover, range(2)))
    for table in (True, False):
        used = old if table else old[:4]
        blob = np.concatenate([blob_of(used[:2]), moving, blob_of(used[2:]), moving])
        places = place(new, [np.empty(0, np.uint8), blob])
        assert positions(places) == positions(locate(old, [np.empty(0, np.uint8), blob]))
        assert [p.operand for p in places] == new[: len(used)]
        # Padding of input channels shows in which order the words are.
        assert [p.layouts for p in places[2:4]] == [o.layouts[:1] for o in new[2:4]]


def test_place_leaves_the_order_of_words_open() -> None:
    graph = Graph("g")
    build = Builder(graph, np.random.default_rng(0))
    graph.outputs = [build.conv(graph.add_input("x", tensor(1, 4, 4, 8)), 8, (3, 3))]
    found = operands(graph, zero_bias=ZeroBias.DROP)
    (placed,) = place(found, [blob_of(found)])
    assert placed.layouts == found[0].layouts
    assert len(placed.layouts) == 2


def test_place_refuses_what_does_not_fit() -> None:
    found = operands(classifier(), zero_bias=ZeroBias.DROP)
    blob = blob_of(found)
    swapped = blob_of([found[1], found[0], *found[2:]])
    with pytest.raises(LinkError, match=r"conv_2d .* do not fit where they should be"):
        place(found, [swapped])
    with pytest.raises(LinkError, match=r"fully_connected .* do not fit"):
        place(found, [blob[: sum(o.layouts[-1].nbytes for o in found[:3])]])
    with pytest.raises(LinkError, match="0 ways to place 4 operands"):
        place(found[:4], [np.concatenate([blob, np.full(64, 7, np.uint8)])])
    with pytest.raises(LinkError, match="no multiple of 64"):
        place(found, [blob[:-1]])
    same = [found[0], found[0]]
    with pytest.raises(LinkError, match="2 ways to place 2 operands"):
        place(same, [blob_of(same[:1]), blob_of(same[:1])])


def test_place_reads_a_softmax_table_of_another_scale() -> None:
    graph = Graph("g")
    logits = graph.add_input("x", tensor(1, 9))
    graph.outputs = [graph.emit("softmax", [logits], tensor(1, 9))]
    found = operands(graph, zero_bias=ZeroBias.DROP)
    assert isinstance(found[0], SoftmaxOperand)
    (placed,) = place(found, [softmax_table(9, 0.25, unit_row=True)])
    assert placed.layouts == found[0].layouts[:1]


# --- corpus --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A compiled model with its source, and what is left over when its operands are found."""

    name: str
    graph: Graph
    package: PackageFile

    @property
    def blobs(self) -> list[Array]:
        return [
            np.empty(0, np.uint8) if item.parameters is None else item.parameters
            for item in self.package.executables
        ]

    @property
    def operands(self) -> list[Operand]:
        # Packages that ask for runtime version 14 come from the compilers that drop zero biases.
        drops = self.package.package.min_runtime_version >= 14
        main = self.package.main
        nodes = mapped_nodes(self.graph, main.inputs, main.outputs)
        zero_bias = ZeroBias.DROP if drops else ZeroBias.KEEP
        return operands(self.graph, zero_bias=zero_bias, nodes=nodes)


def source_of(path: Path) -> Path:
    stem = path.name.partition("_edgetpu")[0].partition("_cocompiled_with")[0]
    return path.with_name(stem + ".tflite")


def cases() -> list[Case]:
    root, found = corpus(), []
    for path in sorted(root.glob("**/*_edgetpu.tflite")):
        source = source_of(path)
        if source.is_file():
            model = tflite.read_model(path.read_bytes(), str(path))
            graph = import_model(tflite.read_model(source.read_bytes(), str(source)))
            name = str(path.relative_to(root)).removesuffix("_edgetpu.tflite")
            found += [Case(name, graph, op.read()) for op in custom_op.extract(model, str(path))]
    return found


MISSING = {
    # The published source has other output scales than the compiled model's layers say.
    "coral/bodypix_mobilenet_v1_075_512_512_16_quant_decoder": [
        "conv_2d 'float_heatmaps1'",
        "conv_2d 'float_part_heatmaps1'",
    ],
}
"""Operators of the corpus whose bytes are not in the compiled model."""

UNEXPLAINED = {
    "coral/bodypix_mobilenet_v1_075_512_512_16_quant_decoder": 2 * 12672,
    # One-hot convolutions, and the first state, which is streamed.
    "coral/keras_lstm_mnist_ptq": 28288,
    # One-hot convolutions of RESHAPE, CONCATENATION and SPLIT.
    "coral/split_concat": 192,
    "templates/bright_16x16": 192,
    "templates/color_cyan_128x128": 1280,
    "templates/color_red_64x64": 1280,
    "templates/looming_128x128_3x3": 640,
    "templates/looming_64x64_3x3": 640,
}
"""Bytes of the blobs that belong to no operand, where there are any."""

REORDERED = {
    # The two operands of a CONCATENATION come after all other convolutions.
    "coral/bodypix_mobilenet_v1_075_512_512_16_quant_decoder",
    "coral/posenet_mobilenet_v1_075_353_481_16_quant_decoder",
    "coral/posenet_mobilenet_v1_075_481_641_16_quant_decoder",
    # Some parameters are cached and some are streamed.
    "layers/model_dense_2x2x3x100x100",
    "templates/color_cyan_128x128",
}
"""Models whose blobs, one after the other, are not in the order of operators."""

INNER = {
    "conv3x3/conv2d_12x176x32_to_32_k3_s1_same_quant": 1,
    "conv3x3/conv2d_12x184x32_to_32_k3_s1_same_quant": 1,
    "conv3x3/conv2d_12x192x32_to_32_k3_s1_same_quant": 1,
    "layers/model_conv_128x128x3x32x7x10": 9,
}
"""Number of operands in the order `IC_INNER`."""

UNPLACED = {
    "coral/bodypix_mobilenet_v1_075_512_512_16_quant_decoder",
    "coral/posenet_mobilenet_v1_075_353_481_16_quant_decoder",
    "coral/posenet_mobilenet_v1_075_481_641_16_quant_decoder",
    "coral/keras_lstm_mnist_ptq",
    "layers/model_dense_2x2x3x100x100",
}
"""Models whose operands cannot be placed by order and size alone."""


@pytest.mark.corpus
def test_blobs_of_the_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    found_operands = all_operands = found_bytes = all_bytes = models = 0
    missing, unexplained, inner = {}, {}, {}
    reordered = set()
    for case in cases():
        models += 1
        wanted, blobs = case.operands, case.blobs
        places, absent = search(wanted, blobs)
        explained = sum(p.end - p.offset for p in places)
        total = sum(blob.size for blob in blobs)
        all_operands += sum(not operand.optional for operand in wanted)
        found_operands += sum(not p.operand.optional for p in places)
        found_bytes, all_bytes = found_bytes + explained, all_bytes + total
        if absent:
            missing[case.name] = [operand.name for operand in absent]
        if explained < total:
            unexplained[case.name] = total - explained
        if positions(places) != sorted(positions(places)):
            reordered.add(case.name)
        layouts = [p.layouts[0] for p in places if isinstance(p.layouts[0], ConvolutionLayout)]
        count = sum(layout.order is WordOrder.IC_INNER for layout in layouts)
        if count:
            inner[case.name] = count
    with capsys.disabled():
        print(
            f"\n{models} packages: {found_bytes:,} of {all_bytes:,} bytes equal,"
            f" {found_operands} of {all_operands} operands found"
        )
    assert missing == MISSING
    assert unexplained == UNEXPLAINED
    assert reordered == REORDERED
    assert inner == INNER
    assert (models, found_operands, all_operands) == (59, 526, 528)
    assert (found_bytes, all_bytes) == (24_546_304, 24_604_160)


@pytest.mark.corpus
def test_missing_operands_have_the_scales_of_the_compiled_layers() -> None:
    name = next(iter(MISSING))
    (case,) = (case for case in cases() if case.name == name)
    graph = case.graph
    for output, layer in case.package.main.outputs.items():
        # The last operator of each branch only changes the type.
        producer = graph.producer(output)
        assert producer is not None
        assert producer.op == "quantize"
        value = graph.value(producer.inputs[0] or "")
        assert layer.numerics is not None
        scale = layer.numerics.dequantization_factor
        quantization = replace(value.type.quantization or UNIT, scale=(scale,))
        graph.set_value(Value(value.name, replace(value.type, quantization=quantization)))
    places = locate(case.operands, case.blobs)
    assert sum(p.end - p.offset for p in places) == sum(blob.size for blob in case.blobs)


@pytest.mark.corpus
def test_order_and_size_place_most_of_the_corpus() -> None:
    unplaced = set()
    for case in cases():
        if case.name == "layers/model_dense_2x2x3x100x100":
            continue  # 1e21 equal ways, which take seconds to count
        wanted, blobs = case.operands, case.blobs
        # Other weights of the same kind: what is there must not matter.
        changed = [
            replace(o, parameters=replace(o.parameters, weights=o.parameters.weights ^ 0x55))
            if isinstance(o, FilterOperand)
            else o
            for o in wanted
        ]
        try:
            places = place(changed, blobs)
        except LinkError:
            unplaced.add(case.name)
            continue
        assert positions(places) == positions(locate(wanted, blobs)), case.name
    assert unplaced == UNPLACED - {"layers/model_dense_2x2x3x100x100"}


@pytest.mark.corpus
@pytest.mark.slow
def test_equal_sizes_in_two_blobs_are_ambiguous() -> None:
    (case,) = (case for case in cases() if case.name == "layers/model_dense_2x2x3x100x100")
    with pytest.raises(LinkError, match="ways to place 101 operands"):
        place(case.operands, case.blobs)
