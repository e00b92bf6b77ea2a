"""Parameters that the host sends with every inference, on the simulated Edge TPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from tests.compiler.edgetpu_models import differences, findings, program, random_inputs
from tests.support import corpus

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.targets.edgetpu.fitting.knapsack import knapsack
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import lower, parameter_rows
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.driver.runtime.devices import virtual_device
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.execution.estimate import Conditions, timed
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.linker.packages.darwinn import link

I8 = DType.INT8
ROW_BYTES = BEAGLE.memories.wide.element_bytes
BUFFER = BEAGLE.memories.parameter_buffer.elements


def tensor(shape: tuple[int, ...]) -> TensorType:
    return TensorType(shape, I8, Quantization.per_tensor(0.05, 3))


class Chain:
    """Layers one after the other."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rng = np.random.default_rng(len(shape) + sum(shape))
        self.graph = Graph("chain")
        self.last = self.graph.add_input("x", tensor((1, *shape)))
        self.graph.outputs = [self.last]

    def _operands(self, shape: tuple[int, ...], channels: int, axis: int) -> list[str | None]:
        data = self.rng.integers(-127, 128, shape, np.int8)
        depth = max(1, data.size // channels)
        scales = self.rng.uniform(0.5, 1.5, channels) / (74 * np.sqrt(depth))
        quantization = Quantization(
            tuple(scales.astype(np.float32).tolist()), (0,) * channels, axis
        )
        biases = self.rng.integers(-4000, 4000, channels, np.int32)
        number = len(self.graph.nodes())
        return [
            self.last,
            self.graph.add_constant(f"w{number}", data, quantization),
            self.graph.add_constant(f"b{number}", biases, Quantization((1.0,), (0,))),
        ]

    def _add(
        self, op: str, operands: list[str | None], shape: tuple[int, ...], more: object
    ) -> Chain:
        self.last = self.graph.emit(op, operands, tensor(shape), more)  # type: ignore[arg-type]
        self.graph.outputs = [self.last]
        return self

    def conv(self, channels: int, kernel: int = 1) -> Chain:
        """A convolution that keeps rows and columns."""
        _, height, width, depth = self.graph.type(self.last).shape
        operands = self._operands((channels, kernel, kernel, depth), channels, 0)
        more = ConvAttributes(padding=PaddingScheme.SAME)
        return self._add("conv_2d", operands, (1, height, width, channels), more)

    def depthwise(self, kernel: int = 3) -> Chain:
        """A depthwise convolution that keeps rows and columns."""
        _, height, width, depth = self.graph.type(self.last).shape
        operands = self._operands((1, kernel, kernel, depth), depth, 3)
        more = ConvAttributes(padding=PaddingScheme.SAME)
        return self._add("depthwise_conv_2d", operands, (1, height, width, depth), more)

    def dense(self, channels: int) -> Chain:
        """A fully connected layer."""
        operands = self._operands((channels, self.graph.type(self.last).size), channels, 0)
        return self._add("fully_connected", operands, (1, channels), FullyConnectedAttributes())


def convolutions() -> Chain:
    return Chain((5, 6, 40)).conv(200).conv(150, 3).conv(70)


def separable() -> Chain:
    # Three and five groups of channels do not fill whole units of the stream.
    return Chain((9, 11, 12)).depthwise().conv(20).depthwise().conv(12)


def few_channels() -> Chain:
    return Chain((12, 12, 3)).conv(8, 3).conv(4, 5).conv(2, 3)


def passes() -> Chain:
    return Chain((300,)).dense(1100).dense(40)


def long_blocks() -> Chain:
    return Chain((8000,)).dense(130)


MODELS = (convolutions, separable, few_channels, passes, long_blocks)


def linked(graph: Graph, rows: int | None) -> PackageFile:
    package = program(graph, Options(parameter_rows=rows))
    return package


def sizes(package: PackageFile) -> tuple[int, int]:
    """Bytes that stay on the chip, and bytes that are streamed."""
    cached = package.caching
    on_chip, streamed = (
        0 if one is None or one.parameters is None else len(one.parameters)
        for one in (cached, package.main)
    )
    return on_chip, streamed


@pytest.mark.long
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_any_part_of_the_parameters_may_come_from_the_host(
    model: Callable[[], Chain], share: float
) -> None:
    graph = model().graph
    budget = int(share * parameter_rows(graph))
    package = linked(graph, budget)
    cached, streamed = sizes(package)
    assert streamed
    assert cached <= budget * ROW_BYTES
    for seed in (1, 2):
        assert not differences(graph, package, seed)
    assert not findings(package)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_the_rows_that_a_model_needs_suffice(model: Callable[[], Chain]) -> None:
    graph = model().graph
    package = linked(graph, parameter_rows(graph))
    assert sizes(package)[1] == 0
    assert not differences(graph, package, 1)


def test_rows_are_filled_block_by_block() -> None:
    graph = Chain((4, 4, 128)).conv(256).conv(256).graph
    # Blocks of 64 channels: three vectors, and weights of 32 and 64 groups of channels.
    for rows in (34, 35, 67, 68, 101, 102, 137, 300, 407, 408):
        cached, streamed = sizes(linked(graph, rows))
        best = max(35 * a + 67 * b for a in range(5) for b in range(5) if 35 * a + 67 * b <= rows)
        # All tiles get the identity matrix in a row of 16 lanes, if rows are left for that.
        matrix = TILES * 64 if best and rows - best >= TILES else 0
        assert cached == best * ROW_BYTES + matrix
        assert cached + streamed == 408 * ROW_BYTES + matrix


def test_patches_shrink_before_anything_is_streamed() -> None:
    graph = Chain((40, 40, 16)).depthwise().depthwise(5).graph
    everything = sizes(linked(graph, None))[0]
    cached, streamed = sizes(linked(graph, parameter_rows(graph)))
    assert streamed == 0
    assert cached < everything


@pytest.mark.parametrize("seed", range(5))
def test_no_other_choice_is_worth_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = [
        [(0, 1), *((int(size), int(rng.integers(50))) for size in rng.integers(1, 12, count))]
        for count in rng.integers(1, 4, 5)
    ]
    for room in range(0, 40, 3):
        picks = knapsack(options, room)
        found = [some[pick] for some, pick in zip(options, picks, strict=True)]
        assert sum(size for size, _ in found) <= room
        best = max(
            sum(value for _, value in some)
            for some in itertools.product(*options)
            if sum(size for size, _ in some) <= room
        )
        assert sum(value for _, value in found) == best


def test_the_host_is_never_kept_from_other_transfers() -> None:
    """What was asked for fits the buffer, whenever something else may be wanted."""
    package = linked(Chain((6, 6, 96)).conv(512, 3).conv(320, 3).depthwise().conv(700).graph, 1500)
    asked = sent = 0
    ahead = []
    for stream in package.main.instruction_bitstreams or ():
        assert stream.bitstream is not None
        for instruction in disassemble(bytes(stream.bitstream)):
            match instruction:
                case Pop(memory=PopMemory.PARAMETER):
                    asked += instruction.buffer.steps
                case Infeed(memory=InfeedMemory.PARAMETER):
                    sent += instruction.buffer.steps
                    ahead.append(asked - sent)
                case Pop() | Outfeed():
                    assert asked - sent <= BUFFER
        assert asked - sent <= BUFFER
    assert asked == sent == sizes(package)[1] // 64
    # After each operand but the last, the host knows what comes next.
    assert len(ahead) > 2
    assert ahead[-1] == 0


@pytest.mark.long
def test_strips_are_sent_their_weights_again() -> None:
    graph = Chain((40, 40, 32)).conv(96, 3).conv(32, 3).graph
    file = lower(graph, Options(narrow_bytes=14_000, parameter_rows=0))
    (package,) = link([file])
    requested = 0
    for seed in (1, 2):
        inputs = random_inputs(graph, seed)
        outputs = SimulatedDevice(seed=seed).start(package, raw(inputs), record=True).finish()
        compare(outputs.tensors[graph.outputs[0]], graph, inputs)
        requested = outputs.stages[-1].requested(DescriptorTag.PARAMETERS)
    assert requested > sizes(package)[1]
    assert not findings(package)


def test_models_that_are_linked_together() -> None:
    graphs = [convolutions().graph, passes().graph]
    packages = link([lower(graph, Options(parameter_rows=300)) for graph in graphs])
    assert all(all(sizes(package)) for package in packages)
    device = SimulatedDevice(seed=1)
    stages = []
    for seed in (1, 2):
        for graph, package in zip(graphs, packages, strict=True):
            inputs = random_inputs(graph, seed)
            outputs = device.run(package, raw(inputs))
            stages.append([stage.name for stage in outputs.stages])
            compare(outputs.tensors[graph.outputs[0]], graph, inputs)
    assert stages == [["caching", "main"]] * 2 + [["main"]] * 2


def test_a_model_beside_the_rows_of_another() -> None:
    graph = convolutions().graph
    taken = tuple(range(1000, 1480, 30))
    for item in lower(graph, Options(taken=taken)).operands or ():
        assert all(run.row >= taken[run.tile] for run in item.runs or ())
    full = lower(graph, Options(taken=(1950,) * 16))
    assert any(not item.runs for item in full.operands or ())
    (package,) = link([full])
    assert not differences(graph, package, 1)


@pytest.mark.parametrize("rows", [0, 200])
def test_the_virtual_device_is_sent_the_parameters(rows: int) -> None:
    graph = convolutions().graph
    package = linked(graph, rows)
    with virtual_device() as device:
        for seed in (1, 2):
            inputs = random_inputs(graph, seed)
            outputs = device.run(package, raw(inputs))
            compare(outputs.tensors[graph.outputs[0]], graph, inputs)


@pytest.mark.long
def test_streaming_takes_the_time_of_the_transfer() -> None:
    graph = Chain((4, 4, 512)).conv(512).conv(512).conv(512).graph
    times = {}
    for rows in (0, None):
        package = linked(graph, rows)
        device = SimulatedDevice()
        inputs = raw(random_inputs(graph, 1))
        device.run(package, inputs)
        outputs = device.start(package, inputs, record=True).finish()
        lengths = {name: len(data) for name, data in outputs.buffers.items()}
        conditions = Conditions("max", "jetson_nano_10w_usb3")
        times[rows] = timed(outputs.stages, "chain", lengths, conditions).timeline.total
    megabytes_per_second = BEAGLE.hosts["jetson_nano_10w_usb3"].link
    transfer = sizes(linked(graph, 0))[1] / megabytes_per_second
    assert times[0] - times[None] == pytest.approx(transfer, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        lambda: Chain((4, 4, 1024)).conv(1024).conv(1024, 3),
        lambda: Chain((4096,)).dense(4096),
    ],
)
def test_models_that_are_larger_than_the_chip(model: Callable[[], Chain]) -> None:
    graph = model().graph
    package = linked(graph, None)
    cached, streamed = sizes(package)
    assert cached > 7_000_000
    assert streamed
    for seed in (1, 2):
        assert not differences(graph, package, seed)
    assert not findings(package)


@pytest.mark.long
@pytest.mark.corpus
@pytest.mark.parametrize("rows", [0, 1111])
def test_a_network(rows: int) -> None:
    path = corpus() / "coral" / "mobilenet_v1_0.25_128_quant.tflite"
    (segment,) = divide(load(path))[0]
    package = linked(segment.graph, rows)
    assert sizes(package)[1]
    assert not differences(segment.graph, package, 1)
    assert not findings(package)


def raw(inputs: dict[str, Array]) -> dict[str, Array]:
    return {name: x.reshape(-1).view(np.uint8) for name, x in inputs.items()}


def compare(found: Array, graph: Graph, inputs: dict[str, Array]) -> None:
    wanted = evaluate_on_device(graph, inputs)[graph.outputs[0]]
    np.testing.assert_array_equal(found.reshape(-1).view(np.uint8), raw({"": wanted})[""])
