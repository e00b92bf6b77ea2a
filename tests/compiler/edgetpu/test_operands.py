from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import corpus

from fitzroy.base.errors import LinkError, UnsupportedError, UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes, TransposeConvAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.recurrent import OPERANDS, LstmAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, ReshapeAttributes, SplitAttributes
from fitzroy.compiler.targets.edgetpu.parameters.locating import Location, locate, place, search
from fitzroy.compiler.targets.edgetpu.parameters.operands import (
    FilterOperand,
    MoverOperand,
    Operand,
    SequenceOperand,
    SoftmaxOperand,
    mapped_nodes,
    operands,
)
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.parameters import (
    ConvolutionLayout,
    DepthwiseLayout,
    Mover,
    Prefix,
    WordOrder,
    ZeroBias,
    effective_scale,
    merge,
    one_hot,
    pack,
    regroup,
    softmax_table,
    transposition,
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


def positions(locations: list[Location]) -> list[tuple[int, int]]:
    return [(p.blob, p.offset) for p in locations]


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
    gates = [operand for operand in found if isinstance(operand, FilterOperand)]
    assert [operand.part for operand in gates] == ["input", "forget", "cell", "output"]
    for gate, operand in enumerate(gates):
        wx, wh = (graph.value(names[first + gate] or "").data for first in (1, 5))
        assert wx is not None
        assert wh is not None
        both = np.concatenate([wx, wh], axis=1).astype(int) + 128
        assert np.array_equal(operand.parameters.weights, both[:, None, None, :])
    # The sequence of outputs before the first step; input and output are transposed.
    first, *into = found[:4]
    assert isinstance(first, SequenceOperand)
    assert first.pack(first.layouts[0]).tolist() == [128] * 12 + [0] * 52
    for movers, rows, channels in ((into, 1, 5), (found[8:], 2, 6)):
        assert [o.mover for o in movers if isinstance(o, MoverOperand)] == [
            *transposition(rows, channels)
        ]
    (node,) = graph.nodes()
    graph.update(replace(node, attributes=LstmAttributes(time_major=True)))
    kinds = [type(operand) for operand in operands(graph, zero_bias=ZeroBias.DROP)]
    assert kinds == [SequenceOperand, *[FilterOperand] * 4]


def movers_of(graph: Graph, **options: Any) -> list[Mover]:
    found = operands(graph, zero_bias=ZeroBias.DROP, **options)
    return [operand.mover for operand in found if isinstance(operand, MoverOperand)]


def test_three_movers_transpose() -> None:
    rows, columns, channels = 3, 2, 5
    data = np.random.default_rng(0).integers(1, 255, (rows, columns, channels))
    movers = transposition(rows, channels)
    spread, gather, merged = (one_hot(m.layout, m.picks).weights.astype(int) for m in movers)
    # Channels become positions of four channels each, of which the first is taken.
    moved = np.einsum("kc,rxc->rxk", spread[:, 0, 0], data).reshape(rows, columns, channels, 4)
    moved = np.einsum("kr,rxc->xck", gather[:, :, 0, 0], moved[..., 0])
    moved = moved.reshape(columns, channels, rows, 4)
    moved = np.einsum("kc,xcr->xrk", merged[:, 0, :, 0], moved[..., 0])
    assert np.array_equal(moved, data.swapaxes(0, 1))
    assert [m.layout.prefix.biases for m in movers] == [True, False, False]


def test_reshape_moves_runs_of_positions() -> None:
    for shape, count in (((1, 3, 3, 1), 9), ((1, 8, 8, 1), 16), ((1, 3, 7, 1), 0), ((1, 4, 4), 0)):
        graph = Graph("g")
        x = graph.add_input("x", tensor(*shape))
        size = math.prod(shape)
        graph.outputs = [graph.emit("reshape", [x], tensor(1, size), ReshapeAttributes((1, size)))]
        assert movers_of(graph) == ([merge(count, biases=True)] if count else [])


def test_concatenation_and_split_move_from_the_tensors_in_front() -> None:
    graph = Graph("g")
    a, b, c = (graph.add_input("abc"[n], tensor(1, 8, 8, n % 3 + 1)) for n in range(3))
    both = graph.emit("concatenation", [c, a, b], tensor(1, 8, 8, 6), ConcatenationAttributes(3))
    types = [tensor(1, 8, 8, 2), tensor(1, 8, 8, 4)]
    (node,) = (n for n in graph.nodes() if both in n.outputs)
    split = graph.add_node(
        Node("split", "split", (both,), ("s", "t"), SplitAttributes(3, (2, 4))), types
    )
    again = graph.emit("concatenation", ["s", b], tensor(1, 8, 8, 4), ConcatenationAttributes(3))
    graph.outputs = ["t", again]
    # c2 a0 b0 b1, and c0 c1 b0 b1.
    assert movers_of(graph) == [
        regroup([(0, 2), (1, 0), (2, 0), (2, 1)], fully_connected=False),
        regroup([(0, 0), (0, 1), (1, 0), (1, 1)], fully_connected=False),
    ]
    # What runs elsewhere is no origin; channels that keep their groups need no mover.
    assert movers_of(graph, nodes=[split]) == [
        regroup([(0, 2), (0, 3), (1, 0), (1, 1)], fully_connected=False)
    ]
    graph.outputs = [both, "t", again]
    assert len(movers_of(graph, nodes=[node])) == 1


def test_concatenation_of_vectors_is_a_dense_mover() -> None:
    graph = Graph("g")
    names = [graph.add_input(name, tensor(1, 1)) for name in "ab"]
    attributes = ConcatenationAttributes(1)
    graph.outputs = [graph.emit("concatenation", names, tensor(1, 2), attributes)]
    assert movers_of(graph) == [regroup([(0, 0), (1, 0)], fully_connected=True)]
    # Whole groups of channels stay as they are, and so does another axis.
    for shape, axis, result in (((1, 4), 1, (1, 8)), ((1, 1), 0, (2, 1))):
        graph = Graph("g")
        names = [graph.add_input(name, tensor(*shape)) for name in "ab"]
        attributes = ConcatenationAttributes(axis)
        graph.outputs = [graph.emit("concatenation", names, tensor(*result), attributes)]
        assert not movers_of(graph)


def test_scales_of_output_layers_replace_those_of_the_source() -> None:
    def scales(through: DType | None, scale: float, layer: float | None = None) -> list[float]:
        graph = Graph("g")
        build = Builder(graph, np.random.default_rng(0))
        y = build.conv(graph.add_input("x", tensor(1, 4, 4, 3)), 5)
        if through is not None:
            quantization = Quantization.per_tensor(scale, 131)
            type = tensor(1, 4, 4, 5, dtype=through, quantization=quantization)
            y = graph.emit("quantize", [y], type)
        graph.outputs = [y]
        outputs = None if layer is None else {y: layer}
        (found,) = operands(graph, zero_bias=ZeroBias.DROP, outputs=outputs)
        assert isinstance(found, FilterOperand)
        assert found.parameters.scales is not None
        kept = graph.type(y).quantization
        assert kept is not None
        assert kept.scale == (scale if through else 0.5,)
        return [float(scale) for scale in found.parameters.scales]

    plain = scales(None, 0.5)
    halves = [scale / 2 for scale in plain]
    assert scales(None, 0.5, layer=1.0) == halves
    assert scales(DType.UINT8, 0.5, layer=1.0) == halves
    # A QUANTIZE that changes the scale has an operand of its own scale.
    assert scales(DType.UINT8, 0.25, layer=1.0) == plain
    with pytest.raises(UsageError, match="no value named 'other'"):
        operands(classifier(), zero_bias=ZeroBias.DROP, outputs={"other": 1.0})


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


def test_search_takes_what_is_optional_last() -> None:
    graph = Graph("g")
    x = graph.add_input("x", tensor(1, 1, 16, 1))
    graph.outputs = [graph.emit("reshape", [x], tensor(1, 16), ReshapeAttributes((1, 16)))]
    (long,) = operands(graph, zero_bias=ZeroBias.DROP)
    # Its weights are in the blob twice: also after its biases.
    weights = merge(16, biases=False)
    short = MoverOperand(long.node, weights)
    blob = np.concatenate([long.pack(long.layouts[0]), weights.pack()])
    places, missing = search([short, long], [blob])
    assert not missing
    assert positions(places) == [(0, long.layouts[0].nbytes), (0, 0)]
    must = FilterOperand(long.node, weights.layout, one_hot(weights.layout, weights.picks))
    places, missing = search([short, must], [weights.pack()])
    assert not missing
    assert [p.operand for p in places] == [must]


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
        return self.operands_with(self.scales)

    def operands_with(self, scales: dict[str, float] | None) -> list[Operand]:
        # Packages that ask for runtime version 14 come from the compilers that drop zero biases.
        drops = self.package.package.min_runtime_version >= 14
        main = self.package.main
        nodes = mapped_nodes(self.graph, main.inputs, main.outputs)
        zero_bias = ZeroBias.DROP if drops else ZeroBias.KEEP
        return operands(self.graph, zero_bias=zero_bias, nodes=nodes, outputs=scales)

    @property
    def scales(self) -> dict[str, float]:
        """What the output layers say."""
        layers = self.package.main.outputs.items()
        return {
            name: float(np.float32(layer.numerics.dequantization_factor))
            for name, layer in layers
            if layer.numerics is not None
        }


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


RESCALED = {
    # The published source has other output scales than the compiled model's layers say.
    "coral/bodypix_mobilenet_v1_075_512_512_16_quant_decoder": [
        "conv_2d 'float_heatmaps1'",
        "conv_2d 'float_part_heatmaps1'",
    ],
}
"""Operators whose bytes are in the compiled model only with the scales of its output layers."""

MOVED = {
    "coral/keras_lstm_mnist_ptq": (6, 27712),
    "coral/split_concat": (3, 192),
    "templates/bright_16x16": (1, 192),
    "templates/color_cyan_128x128": (2, 1280),
    "templates/color_red_64x64": (2, 1280),
    "templates/looming_128x128_3x3": (1, 640),
    "templates/looming_64x64_3x3": (1, 640),
}
"""One-hot convolutions in the blobs, and their bytes."""

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
    "layers/model_dense_2x2x3x100x100",
}
"""Models whose operands cannot be placed by order and size alone."""


@pytest.mark.long
@pytest.mark.corpus
def test_blobs_of_the_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    found_operands = all_operands = found_bytes = all_bytes = models = 0
    missing, unexplained, inner, moved = {}, {}, {}, {}
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
        sizes = [p.end - p.offset for p in places if isinstance(p.operand, MoverOperand)]
        if sizes:
            moved[case.name] = (len(sizes), sum(sizes))
        count = sum(layout.order is WordOrder.IC_INNER for layout in layouts)
        if count:
            inner[case.name] = count
    with capsys.disabled():
        print(
            f"\n{models} packages: {found_bytes:,} of {all_bytes:,} bytes equal,"
            f" {found_operands} of {all_operands} operands found"
        )
    assert not missing
    assert not unexplained
    assert moved == MOVED
    assert reordered == REORDERED
    assert inner == INNER
    assert (models, found_operands, all_operands) == (59, 528, 528)
    assert (found_bytes, all_bytes) == (24_604_160, 24_604_160)


@pytest.mark.corpus
def test_scales_of_the_compiled_layers_matter() -> None:
    missing = {}
    for case in cases():
        wanted = case.operands_with(None)
        places, absent = search(wanted, case.blobs)
        if absent:
            missing[case.name] = [operand.name for operand in absent]
            explained = sum(p.end - p.offset for p in places)
            assert sum(blob.size for blob in case.blobs) - explained == 2 * 12672
    assert missing == RESCALED


@pytest.mark.long
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
        located = locate([o for o in wanted if not isinstance(o, MoverOperand)], blobs)
        assert positions(places) == positions(located), case.name
    assert unplaced == UNPLACED - {"layers/model_dense_2x2x3x100x100"}


@pytest.mark.corpus
@pytest.mark.slow
def test_equal_sizes_in_two_blobs_are_ambiguous() -> None:
    (case,) = (case for case in cases() if case.name == "layers/model_dense_2x2x3x100x100")
    with pytest.raises(LinkError, match="ways to place 101 operands"):
        place(case.operands, case.blobs)
