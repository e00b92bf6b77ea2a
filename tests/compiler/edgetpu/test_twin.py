"""The twin: its fast kernels give what operators mean on the chip, and programs give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.twin_proof import FIRST_SEED, Tally, prove
from tests.compiler.edgetpu_models import random_inputs, random_model
from tests.support import corpus, corpus_params, corpus_path

import fitzroy
from fitzroy.base.errors import MismatchError, UnsupportedError, UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compilation.source import Source
from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.convolution import ConvAttributes, TransposeConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.twin.kernels import kernel_of
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.compiler.targets.edgetpu.twin.source import digests_of
from fitzroy.compiler.targets.edgetpu.twin.twin import Twin
from fitzroy.driver.runtime.devices import (
    Answer,
    Device,
    DirectSimulator,
    LocalDevice,
)
from fitzroy.driver.runtime.proof import ProvenDevice
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice
from fitzroy.formats import tflite
from fitzroy.formats.darwinn import PackageFile

SEEDS = 60
DIGITS = "examples/models/digits.tflite"


def demand_equal(graph: Graph, seed: int, images: int = 3) -> None:
    """Demand that the twin gives what the operators of a graph mean, alone and together."""
    twin = Twin(graph)
    inputs = [random_inputs(graph, seed + number) for number in range(images)]
    stacked = {name: np.stack([image[name] for image in inputs]) for name in graph.inputs}
    together = [twin.run_images(stacked, images) for _ in range(2)]
    for number, image in enumerate(inputs):
        found, wanted = twin.run(image), evaluate_on_device(graph, image)
        for name in graph.outputs:
            for array in (found[name], *(results[name][number] for results in together)):
                assert array.dtype == wanted[name].dtype
                np.testing.assert_array_equal(array, wanted[name], err_msg=f"{seed}: {name}")


@pytest.mark.long
@pytest.mark.parametrize("axes", [False, True])
def test_random_models(axes: bool) -> None:
    for seed in range(SEEDS):
        for segment in divide(random_model(seed, axes=axes))[0]:
            demand_equal(segment.graph, seed)


def dense(depth: int, weight: int) -> Graph:
    """A fully connected layer with weights of one value."""
    graph = Graph("dense")
    x = graph.add_input("x", TensorType((1, depth), DType.UINT8, Quantization.per_tensor(0.5, 0)))
    filter = np.full((3, depth), weight, np.int8)
    filter[1, ::2] = -weight
    w = graph.add_constant("w", filter, Quantization((0.01, 0.02, 0.03), (0, 0, 0), 0))
    scale = 0.02 * depth * abs(weight) / 100
    out = TensorType((1, 3), DType.UINT8, Quantization.per_tensor(scale, 3))
    graph.outputs = [graph.emit("fully_connected", [x, w, None], out, FullyConnectedAttributes())]
    return graph


@pytest.mark.parametrize(("depth", "weight"), [(512, 127), (4096, 127), (4097, -127), (60000, 3)])
def test_sums_beyond_float32(depth: int, weight: int) -> None:
    demand_equal(dense(depth, weight), 1)


@pytest.mark.parametrize("largest", [40, 127])
@pytest.mark.parametrize(("groups", "depth"), [(2, 3), (3, 600)])
def test_convolutions_of_groups(groups: int, depth: int, largest: int) -> None:
    graph, rng = Graph("groups"), np.random.default_rng(depth)
    quantization = Quantization.per_tensor(0.1, 7)
    shape = (2, 9, 8, groups * depth)
    x = graph.add_input("x", TensorType(shape, DType.INT8, quantization))
    data = rng.integers(-largest, largest, (groups * 4, 3, 2, depth), np.int8, endpoint=True)
    scales = tuple(float(scale) for scale in rng.uniform(0.005, 0.02, len(data)))
    w = graph.add_constant("w", data, Quantization(scales, (0,) * len(data), 0))
    b = graph.add_constant("b", rng.integers(-900, 900, len(data)).astype(np.int32))
    scale = 0.05 * largest * depth**0.5 / 10
    out = TensorType((2, 5, 8, len(data)), DType.INT8, Quantization.per_tensor(scale, -3))
    attributes = ConvAttributes((2, 1), (1, 1), PaddingScheme.SAME)
    graph.outputs = [graph.emit("conv_2d", [x, w, b], out, attributes)]
    assert kernel_of(Call.of(graph, graph.nodes()[0])) is not None
    demand_equal(graph, groups)


def image_graph(shape: tuple[int, ...], zero: int = 7) -> tuple[Graph, str]:
    """A graph that takes an image."""
    graph = Graph("image")
    quantization = Quantization.per_tensor(0.1, zero)
    return graph, graph.add_input("x", TensorType(shape, DType.INT8, quantization))


def weights_of(graph: Graph, shape: tuple[int, ...], channels: int) -> list[str | None]:
    """A filter with a scale for every channel of the first or the last axis, and a bias."""
    rng = np.random.default_rng(channels)
    scales = tuple(float(scale) for scale in rng.uniform(0.005, 0.02, channels))
    axis = 0 if shape[0] == channels else len(shape) - 1
    data = rng.integers(-127, 128, shape, np.int8)
    quantization = Quantization(scales, (0,) * channels, axis)
    bias = rng.integers(-900, 900, channels).astype(np.int32)
    return [graph.add_constant("w", data, quantization), graph.add_constant("b", bias)]


def result(*shape: int) -> TensorType:
    return TensorType(shape, DType.INT8, Quantization.per_tensor(0.3, -3))


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 2), (3, 1)])
@pytest.mark.parametrize(
    ("kernel", "dilation", "multiplier"),
    [((3, 3), (1, 1), 1), ((2, 5), (1, 1), 3), ((3, 2), (2, 3), 2), ((7, 7), (1, 1), 1)],
)
def test_depthwise_convolutions(
    stride: tuple[int, int], kernel: tuple[int, int], dilation: tuple[int, int], multiplier: int
) -> None:
    graph, x = image_graph((2, 11, 14, 5))
    channels = 5 * multiplier
    w, b = weights_of(graph, (1, *kernel, channels), channels)
    attributes = ConvAttributes(stride, dilation, PaddingScheme.SAME)
    out = result(2, -(-11 // stride[0]), -(-14 // stride[1]), channels)
    graph.outputs = [graph.emit("depthwise_conv_2d", [x, w, b], out, attributes)]
    assert kernel_of(Call.of(graph, graph.nodes()[0])) is not None
    demand_equal(graph, multiplier)


@pytest.mark.parametrize(
    ("stride", "kernel", "padding", "output"),
    [
        ((2, 2), (3, 3), (0, 0, 0, 0), (13, 9)),
        ((2, 3), (2, 3), (0, 0, 0, 0), (12, 12)),
        ((1, 1), (4, 2), (1, 2, 0, 1), (6, 4)),
        ((3, 2), (2, 1), (0, 0, 0, 0), (18, 8)),
    ],
)
def test_transposed_convolutions(
    stride: tuple[int, int],
    kernel: tuple[int, int],
    padding: tuple[int, int, int, int],
    output: tuple[int, int],
) -> None:
    graph, x = image_graph((2, 6, 4, 9))
    w, b = weights_of(graph, (5, *kernel, 9), 5)
    attributes = TransposeConvAttributes(stride, padding, output)
    out = result(2, *output, 5)
    graph.outputs = [graph.emit("transpose_conv", [x, w, b], out, attributes)]
    assert kernel_of(Call.of(graph, graph.nodes()[0])) is not None
    demand_equal(graph, 3)


@pytest.mark.parametrize("shape", [(1, 4, 4, 9), (2, 3, 5), (7, 100)])
def test_softmax_of_rows(shape: tuple[int, ...]) -> None:
    graph, x = image_graph(shape)
    out = TensorType(shape, DType.INT8, Quantization.per_tensor(1 / 256, -128))
    graph.outputs = [graph.emit("softmax", [x], out, SoftmaxAttributes(0.7))]
    assert kernel_of(Call.of(graph, graph.nodes()[0])) is not None
    demand_equal(graph, 4)


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extrema_with_a_single_number(op: str) -> None:
    graph = Graph(op)
    kind = TensorType((1, 3, 5, 4), DType.INT8, Quantization.per_tensor(0.05, 3))
    x = graph.add_input("x", kind)
    least = graph.add_constant("least", np.array(7, np.int8), Quantization.per_tensor(0.1, -2))
    result = replace(kind, quantization=Quantization.per_tensor(0.06, -4))
    graph.outputs = [graph.emit(op, [x, least], result)]
    demand_equal(graph, 4)


def test_convolutions_of_sums_beyond_float32() -> None:
    graph = Graph("wide")
    quantization = Quantization.per_tensor(0.1, -128)
    x = graph.add_input("x", TensorType((1, 5, 6, 300), DType.INT8, quantization))
    rng = np.random.default_rng(0)
    data = rng.choice(np.array([-127, 127], np.int8), (4, 3, 3, 300))
    w = graph.add_constant("w", data, Quantization.per_tensor(0.01, 0))
    out = TensorType((1, 3, 4, 4), DType.INT8, Quantization.per_tensor(9.0, 4))
    graph.outputs = [graph.emit("conv_2d", [x, w, None], out, ConvAttributes())]
    demand_equal(graph, 2)


@pytest.mark.parametrize("path", corpus_params("coral/*_quant.tflite", quick=2))
def test_models_of_the_corpus(path: Path) -> None:
    (segment, *_), _ = divide(Source.read(path).graph)
    demand_equal(segment.graph, 3, images=2)


def digits_and_images(count: int) -> tuple[Source, bytes, list[dict[str, Array]]]:
    """A model, compiled, and inputs for it."""
    source = Source.read(DIGITS)
    compiled = fitzroy.compile_edgetpu(source).data
    return source, compiled, [random_inputs(source.graph, seed) for seed in range(count)]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_device_that_is_the_twin_of_the_chip(threads: int) -> None:
    source, compiled, images = digits_and_images(7)
    with (
        Interpreter(compiled, device="sim:direct") as chip,
        Interpreter(compiled, device=TwinDevice(source.graph, threads=threads)) as twin,
    ):
        wanted = chip.run_images(images)
        for found in (twin.run_images(images), [twin.run(image) for image in images]):
            for one, other in zip(found, wanted, strict=True):
                for output, array in other.items():
                    np.testing.assert_array_equal(one[output], array)
        assert twin.run_images([]) == []
        assert {item.part.where for item in twin.timings} == {"Edge TPU"}


class Counted(LocalDevice):
    """A device that counts its images."""

    def __init__(self, device: LocalDevice) -> None:
        super().__init__("counted")
        self._device = device
        self.images: list[int] = []

    def run_images(
        self, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
    ) -> list[Answer]:
        self.images.append(len(inputs))
        return self._device.run_images(package, inputs)


def test_a_proof_of_several_images() -> None:
    source, compiled, images = digits_and_images(5)
    first, second = Counted(TwinDevice(source.graph)), Counted(DirectSimulator())
    with Interpreter(compiled, device=ProvenDevice(first, second, 7)) as twin:
        twin.run_images(images)
        twin.run_images(images)
        twin.run_images(images)
    assert first.images == [5, 5, 5]
    assert second.images == [5, 2]


def with_other(graph: Graph, change: Callable[[Value], Value | None]) -> Graph:
    """A graph with one value changed: the last one for which there is a change."""
    other = graph.copy()
    other.set_value([new for value in other.values.values() if (new := change(value))][-1])
    return other


def other_weights(value: Value) -> Value | None:
    constant = value.data is not None and value.type.rank == 4
    return replace(value, data=-value.data) if constant and value.data is not None else None


def other_scale(value: Value) -> Value | None:
    quantization = value.type.quantization
    if value.data is not None or quantization is None:
        return None
    wider = replace(quantization, scale=(2 * quantization.scale[0],))
    return replace(value, type=replace(value.type, quantization=wider))


def test_one_scale_along_an_axis_is_one_of_a_tensor() -> None:
    """Files do not tell them apart, so a package and a graph in memory match with either."""

    def single(axis: int | None, scale: float = 0.02) -> Graph:
        graph = Graph("single")
        type = TensorType((1, 4, 4, 2), DType.INT8, Quantization.per_tensor(0.1))
        x = graph.add_input("x", type)
        filter = np.ones((1, 1, 1, 2), np.int8)
        w = graph.add_constant("w", filter, Quantization((scale,), (0,), axis))
        out = TensorType((1, 4, 4, 1), DType.INT8, Quantization.per_tensor(0.2))
        graph.outputs = [graph.emit("conv_2d", [x, w, None], out, ConvAttributes())]
        return graph

    assert digests_of(single(0)) == digests_of(single(None))
    assert digests_of(single(0)) != digests_of(single(0, scale=0.03))


def run(compiled: bytes, device: Device) -> None:
    """Run a model with one input on ones."""
    with Interpreter(compiled, device=device, name="compiled.tflite") as interpreter:
        (details,) = interpreter.get_input_details()
        interpreter.set_tensor(details["index"], np.ones(details["shape"], details["dtype"]))
        interpreter.invoke()


def without_record(compiled: bytes) -> bytes:
    """A compiled model as other compilers write it."""
    return tflite.write_model(replace(tflite.read_model(compiled), metadata=None))


def test_a_proof_finds_other_weights() -> None:
    source = Source.read(DIGITS)
    compiled = without_record(fitzroy.compile_edgetpu(source).data)
    for graph, right in (
        (source.graph, True),
        (with_other(source.graph, other_weights), False),
    ):
        proven = ProvenDevice(TwinDevice(graph), DirectSimulator(), 1)
        with nullcontext() if right else pytest.raises(MismatchError, match="differ"):
            run(compiled, proven)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (other_weights, r"constants of 1 of \d+ operators differ: '"),
        (other_scale, r"is another tensor than in the package|quantization of \d of \d+ operators"),
    ],
)
def test_another_source_is_refused(change: Callable[[Value], Value | None], text: str) -> None:
    source = Source.read(DIGITS)
    compiled = fitzroy.compile_edgetpu(source).data
    run(compiled, TwinDevice(source.graph))
    with pytest.raises(UsageError, match=text) as caught:
        run(compiled, TwinDevice(with_other(source.graph, change)))
    assert "compiled.tflite" in str(caught.value)


def test_programs_with_states_are_refused() -> None:
    path = corpus_path() / "coral/keras_lstm_mnist_ptq.tflite"
    if not path.is_file():
        pytest.skip(f"no corpus at {corpus_path()}")
    compiled = path.with_name("keras_lstm_mnist_ptq_edgetpu.tflite")
    with (
        Interpreter(compiled, device=TwinDevice(Source.read(path).graph)) as twin,
        pytest.raises(UnsupportedError, match="keeps states"),
    ):
        twin.invoke()


def test_a_twin_of_another_model_is_refused() -> None:
    compiled = fitzroy.compile_edgetpu(Source.read(DIGITS)).data
    with Interpreter(compiled, device=TwinDevice(dense(8, 1))) as twin:
        (details,) = twin.get_input_details()
        twin.set_tensor(details["index"], np.zeros(details["shape"], details["dtype"]))
        with pytest.raises(UsageError, match="the model has no tensor"):
            twin.invoke()


@pytest.mark.long
def test_random_programs_have_twins() -> None:
    tally = Tally()
    for seed in range(FIRST_SEED, FIRST_SEED + 4):
        tally.add_seed(seed)
    assert tally.bytes > 1000
    assert tally.faults == []
    assert tally.refused == {}


@pytest.mark.slow
@pytest.mark.corpus
def test_everything_has_a_twin() -> None:
    corpus()
    found, faults = prove(print)
    assert faults == []
    assert found["corpus"]["refused"] == {}
    assert found["corpus"]["models"] > 50
    assert found["published"]["models"] > 50
    assert found["random"]["models"] > 450
