"""Networks whose activations do not fit narrow memory, on the simulated Edge TPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow, image
from tests.compiler.edgetpu_models import differences, findings, program, random_inputs
from tests.support import corpus

from fitzroy.base.errors import CapacityError
from fitzroy.base.types import DType
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes, LeakyReluAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.windows import PaddingScheme, Pair, output_extent
from fitzroy.compiler.targets.edgetpu.fitting import strip_search, strips
from fitzroy.compiler.targets.edgetpu.fitting.narrow import Arrangement, arranged
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.strips import Segment
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.memory.allocation import (
    NARROW_BYTES,
    Addresses,
    Live,
    NoRoom,
    Overlap,
    allocate_narrow,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image, TiledAxis, hull
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lower
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats.object_file import write_object
from fitzroy.hw_models.edgetpu.verifier import record, verify
from fitzroy.hw_models.isa.program import disassemble

SEEDS = (None, 1, 2)
"""Orders of engines and first contents of memories; None for the plain order."""

SAME, VALID = PaddingScheme.SAME, PaddingScheme.VALID


# --- graphs --------------------------------------------------------------------------------------


def pool(graph: Graph, op: str, kernel: Pair, stride: Pair) -> None:
    """Append a pool."""
    (x,) = graph.outputs
    type = graph.type(x)
    extent = output_extent(SAME, (type.shape[1], type.shape[2]), kernel, stride)
    shape = (1, *extent, type.shape[3])
    after = image(shape, type.dtype)
    graph.outputs = [graph.emit(op, [x], after, PoolAttributes(kernel, stride, SAME))]


def pointwise(graph: Graph) -> None:
    """Append a leaky rectifier, which has a matrix of its own."""
    (x,) = graph.outputs
    attributes = LeakyReluAttributes(0.2)
    graph.outputs = [graph.emit("leaky_relu", [x], graph.type(x), attributes)]


def joined(graph: Graph, op: str, skip: str) -> None:
    """Append an operator of two tensors."""
    (x,) = graph.outputs
    graph.outputs = [graph.emit(op, [x, skip], graph.type(x), ActivationAttributes())]


def separable(dtype: DType) -> Graph:
    """The first layers of MobileNet."""
    graph = chain(dtype, (83, 45, 3))
    grow(graph, "conv_2d", 24, (3, 3), (2, 2))
    grow(graph, "depthwise_conv_2d", 24, (3, 3))
    grow(graph, "conv_2d", 48, (1, 1))
    grow(graph, "depthwise_conv_2d", 48, (3, 3), (2, 2))
    grow(graph, "conv_2d", 8, (1, 1))
    return graph


def wide() -> Graph:
    """Kernels, dilations and paddings of all kinds; halos that reach over several tiles."""
    graph = chain(DType.INT8, (50, 30, 4))
    grow(graph, "conv_2d", 40, (5, 3), padding=VALID)
    grow(graph, "depthwise_conv_2d", 40, (3, 5), dilation=(2, 3))
    grow(graph, "conv_2d", 44, (3, 2), (1, 3))
    grow(graph, "conv_2d", 6, (7, 7), (2, 1))
    return graph


def residual() -> Graph:
    """A block with a skip connection between wide layers."""
    graph = chain(DType.INT8, (64, 36, 4))
    grow(graph, "conv_2d", 40, (1, 1))
    (skip,) = graph.outputs
    grow(graph, "depthwise_conv_2d", 40, (3, 3))
    pointwise(graph)
    joined(graph, "add", skip)
    (skip,) = graph.outputs
    grow(graph, "conv_2d", 40, (1, 1))
    joined(graph, "mul", skip)
    grow(graph, "conv_2d", 4, (3, 3))
    return graph


def pooled(op: str) -> Callable[[], Graph]:
    """Large convolutions in front of a pool."""

    def make() -> Graph:
        graph = chain(DType.UINT8, (61, 43, 4))
        grow(graph, "conv_2d", 24, (3, 3))
        grow(graph, "conv_2d", 40, (3, 3))
        pool(graph, op, (3, 3), (2, 2))
        grow(graph, "conv_2d", 4, (1, 1), (2, 2))
        return graph

    return make


def long() -> Graph:
    """Many layers of one size: strips recompute a lot, or segments are short."""
    graph = chain(DType.UINT8, (72, 20, 4))
    for _ in range(4):
        grow(graph, "depthwise_conv_2d", graph.type(graph.outputs[0]).shape[3], (3, 3))
        grow(graph, "conv_2d", 32, (1, 1))
    grow(graph, "conv_2d", 4, (1, 1), (2, 2))
    return graph


GRAPHS: dict[str, Callable[[], Graph]] = {
    "separable-int8": lambda: separable(DType.INT8),
    "separable-uint8": lambda: separable(DType.UINT8),
    "wide": wide,
    "residual": residual,
    "max-pool": pooled("max_pool_2d"),
    "average-pool": pooled("average_pool_2d"),
    "long": long,
}


def arrangement(graph: Graph, nbytes: int = NARROW_BYTES) -> Arrangement:
    """The arrangement of a graph in so many bytes of every tile."""
    layered = legalized(graph)
    return arranged(replace(layered, options=Options(narrow_bytes=nbytes)))


@cache
def limits(name: str) -> tuple[int, ...]:
    """Narrow memories that are smaller than what a graph takes without strips."""
    whole = arrangement(GRAPHS[name]())
    assert all(step.whole is None for step in whole.schedule.steps)
    found = []
    for percent in (85, 65, 50):
        limit = whole.used * percent // 400 * 4
        try:
            arrangement(GRAPHS[name](), limit)
        except CapacityError:
            break
        found.append(limit)
    assert found
    return tuple(found)


# --- programs ------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", GRAPHS)
def test_strips_give_what_whole_layers_give(name: str) -> None:
    graph = GRAPHS[name]()
    inputs = random_inputs(graph, 5)
    wanted = evaluate_on_device(graph, inputs)
    raw = {name: x.reshape(-1).view(np.uint8) for name, x in inputs.items()}
    for limit, seed in zip(limits(name), [1, None, 2], strict=False):
        assert any(step.whole is not None for step in arrangement(graph, limit).schedule.steps)
        package = program(graph, Options(narrow_bytes=limit))
        found = SimulatedDevice(seed=seed).run(package, raw)
        for output in graph.outputs:
            np.testing.assert_array_equal(
                found.tensors[output],
                wanted[output].reshape(-1).view(np.uint8),
                err_msg=f"{output} in {limit} bytes, seed {seed}",
            )


@pytest.mark.long
@pytest.mark.parametrize("name", ["separable-int8", "wide", "max-pool"])
def test_programs_obey_the_rules_of_the_chip(name: str) -> None:
    graph = GRAPHS[name]()
    package = program(graph, Options(narrow_bytes=limits(name)[0]))
    streams = package.main.instruction_bitstreams or ()
    chunks = [disassemble(np.asarray(stream.bitstream).tobytes()) for stream in streams]
    found = [finding for finding in verify(record(chunks), chunks) if finding.rule != "envelope"]
    assert [str(finding) for finding in found] == []


def test_the_same_graph_gives_the_same_program() -> None:
    graph, limit = GRAPHS["separable-int8"](), limits("separable-int8")[0]
    one, other = (write_object(lower(graph, Options(narrow_bytes=limit))) for _ in range(2))
    assert one == other


def test_weights_are_kept_once_and_sent_for_every_strip() -> None:
    graph, limit = GRAPHS["separable-int8"](), limits("separable-int8")[0]
    # Strips have their weights on one channel of the ring.
    plain = lower(graph, Options(both=False))
    small = lower(graph, Options(narrow_bytes=limit, both=False))
    names = [[item.name for item in found.operands or ()] for found in (plain, small)]
    assert names[0] == names[1]
    uses = [sum(len(text.fixups or ()) for text in found.text or ()) for found in (plain, small)]
    assert uses[0] < uses[1]


# --- places --------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", GRAPHS)
def test_rows_are_there_when_they_are_read(name: str) -> None:
    for limit in limits(name):
        plan = arrangement(GRAPHS[name](), limit)
        assert plan.used <= limit
        check_rows(plan, limit)


def check_rows(plan: Arrangement, limit: int) -> None:
    """Follow which row of which image every byte holds, on a tile of each row of the grid."""
    memory = np.full((4, limit), -1)
    numbers: dict[Image, int] = {}

    def token(image: Image, row: int) -> int:
        return 100_000 * numbers.setdefault(image, len(numbers)) + 1000 + row

    def place(image: Image, part: int, row: int) -> slice:
        begin = image.base + (row - image.rows.window[part][0]) * image.pitch
        return slice(begin, begin + image.pitch)

    scratch = plan.schedule.scratch
    for number, step in enumerate(plan.schedule.steps, 1):
        part_of = step.result
        assert isinstance(part_of, Image)
        result = step.whole or part_of
        assert isinstance(result, Image)
        assert result.base + result.nbytes <= limit - scratch[number]
        for part in range(4):
            made = part_of.rows.owned[part]
            if made[0] == made[1]:
                continue
            for index, name in enumerate(step.layer.reads):
                source = step.tensors[name]
                assert isinstance(source, Image)
                for row in range(*step.layer.windows(index)[0].needs(made)):
                    assert (memory[part, place(source, part, row)] == token(source, row)).all()
            for row in range(*made) if result.nbytes else ():
                memory[part, place(result, part, row)] = token(result, row)
        for part, window in enumerate(result.rows.window):
            for row in range(*window) if result.nbytes and step.complete else ():
                memory[part, place(result, part, row)] = token(result, row)


def one_size(columns: int = 40) -> Graph:
    """Layers whose images have one size, two of which fit only if one lies over the other."""
    graph = chain(DType.INT8, (48, columns, 16))
    for _ in range(4):
        grow(graph, "depthwise_conv_2d", 16, (3, 3))
        grow(graph, "conv_2d", 16, (1, 1))
    return graph


def test_results_lie_over_what_is_read() -> None:
    graph, limit = one_size(), 4000
    plan = arrangement(graph, limit)
    image = 14 * 12 * 16
    assert plan.used < 2 * image
    check_rows(plan, limit)
    firsts = {
        step.whole: step.result for step in reversed(plan.schedule.steps) if step.whole is not None
    }
    begins = [part.rows.owned[0][0] for part in firsts.values() if isinstance(part, Image)]
    # Strips go down, and up again.
    assert 0 in begins
    assert max(begins) > 0
    package = program(graph, Options(narrow_bytes=limit))
    for seed in (1, 2):
        assert differences(graph, package, seed) == ""
    assert not findings(package)


@pytest.mark.long
def test_images_that_never_fit_wait_with_the_host() -> None:
    graph, limit = one_size(20), 1500
    kinds = {type(step.layer).__name__ for step in arrangement(graph, limit).schedule.steps}
    assert {"Keep", "Fetch"} <= kinds
    package = program(graph, Options(narrow_bytes=limit))
    for seed in (1, 2):
        assert differences(graph, package, seed) == ""
    assert not findings(package)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_strips_cover_the_result_and_what_it_needs(count: int) -> None:
    layered = legalized(wide())
    segment = Segment(1, 5, count)
    result = layered.layers[4].writes
    _, height, _, _ = layered.type(result).shape
    rows: list[list[int]] = [[], [], [], []]
    for needed in strips.regions(layered, segment):
        for layer in segment.layers(layered):
            _, *extents, _ = layered.type(layer.writes).shape
            for part in range(4):
                for axis, reach in enumerate(layer.windows(0)):
                    made = needed[layer.writes][axis][part]
                    inside = max(made[0], 0), min(made[1], extents[axis])
                    if inside[0] < inside[1]:
                        wanted, have = reach.needs(inside), needed[layer.reads[0]][axis][part]
                        assert hull([wanted, have]) == have
        for part, (begin, end) in enumerate(needed[result][0]):
            rows[part] += range(begin, end)
    assert [row for part in rows for row in part] == list(range(height))


def test_windows_of_the_input_hold_what_all_strips_read() -> None:
    layered = legalized(wide())
    name = layered.layers[1].reads[0]
    for count in (1, 2, 5, 9):
        segment = Segment(1, 5, count)
        found = strips.windows(layered, segment)[name]
        read = [needed[name] for needed in strips.regions(layered, segment)]
        for axis in (0, 1):
            for part in range(4):
                assert found[axis][part] == hull(region[axis][part] for region in read)


# --- choice --------------------------------------------------------------------------------------


def chosen(layered: Layered, limit: int) -> list[Segment]:
    segments = strip_search.Search.of(Schedule.of(layered)).choose(limit, early=False)
    assert not isinstance(segments, Refused)
    return segments


def test_what_fits_has_no_strips() -> None:
    layered = legalized(GRAPHS["separable-int8"]())
    assert chosen(layered, NARROW_BYTES) == []


def test_smaller_memories_take_more_cycles() -> None:
    graph = GRAPHS["separable-int8"]()
    plans = [arrangement(graph, limit) for limit in (NARROW_BYTES, *limits("separable-int8"))]
    cycles = [plan.cycles for plan in plans]
    assert cycles == sorted(cycles)
    assert all(len(plan.schedule.steps) > len(legalized(graph).layers) for plan in plans[1:])


def test_segments_hold_all_readers_of_what_they_do_not_keep() -> None:
    layered = legalized(residual())
    for limit in limits("residual"):
        for segment in chosen(layered, limit):
            inside = {layer.name for layer in segment.layers(layered)}
            for name in segment.inner(layered):
                readers = {layer.name for layer in layered.layers if name in layer.reads}
                assert readers <= inside


@pytest.mark.long
def test_intermediate_images_go_to_the_host_in_strips() -> None:
    graph = pooled("max_pool_2d")()
    graph.outputs.insert(0, graph.nodes()[0].outputs[0])
    limit = 4000
    assert any(
        graph.outputs[0] in segment.inner(legalized(graph))
        for segment in chosen(legalized(graph), limit)
    )
    inputs = random_inputs(graph, 5)
    wanted = evaluate_on_device(graph, inputs)
    package = program(graph, Options(narrow_bytes=limit))
    raw = {name: x.reshape(-1).view(np.uint8) for name, x in inputs.items()}
    found = SimulatedDevice(seed=1).run(package, raw)
    for output in graph.outputs:
        np.testing.assert_array_equal(
            found.tensors[output], wanted[output].reshape(-1).view(np.uint8)
        )


def test_what_cannot_fit_is_refused() -> None:
    graph = chain(DType.INT8, (64, 64, 4))
    grow(graph, "conv_2d", 32, (1, 1))
    (x,) = graph.outputs
    mean = ReductionAttributes((1, 2), keep_dims=True)
    graph.outputs = [graph.emit("mean", [x], image((1, 1, 1, 32)), mean)]
    with pytest.raises(CapacityError, match="works on 16384 bytes of every tile"):
        lower(graph, Options(narrow_bytes=8192))


# --- narrow memory -------------------------------------------------------------------------------


def tile_image(name: str, rows: int) -> Image:
    """An image of so many words on every tile."""
    return Image(name, TiledAxis.of(4 * rows, 4, []), TiledAxis.of(4, 4, []), 4, 0)


def test_tensors_may_lie_where_other_steps_have_scratch() -> None:
    one, other = tile_image("one", 10), tile_image("other", 20)
    lives = [Live(one, 0, 1), Live(other, 2, 3)]
    found = allocate_narrow(lives, reserved=[60, 60, 0, 20], nbytes=100)
    assert isinstance(found, Addresses)
    assert found.used == 80
    missing = allocate_narrow(lives, reserved=[60, 60, 0, 21], nbytes=100)
    assert missing == NoRoom(other, 79, 100)


def test_a_tensor_may_begin_between_the_bounds_of_another() -> None:
    one, other = tile_image("one", 10), tile_image("other", 10)
    last = tile_image("last", 8)
    lives = [
        Live(one, 0, 1),
        Live(other, 1, 2, Overlap(one, -8, 8)),
        Live(last, 2, 3, Overlap(other, -8, 8)),
    ]
    assert one.nbytes == other.nbytes == 40
    found = allocate_narrow(lives, nbytes=48)
    assert found == Addresses({one: 0, other: 8, last: 0}, 48)


# --- whole networks ------------------------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "posenet_mobilenet_v1_075_353_481_16_quant_decoder",
        "posenet_mobilenet_v1_075_481_641_16_quant_decoder",
        "bodypix_mobilenet_v1_075_512_512_16_quant_decoder",
    ],
)
def test_large_networks_of_the_corpus(name: str) -> None:
    (segment,), _ = divide(load(corpus() / f"coral/{name}.tflite"))
    graph = segment.graph
    inputs = random_inputs(graph, 1)
    package = program(graph)
    raw = {name: x.reshape(-1).view(np.uint8) for name, x in inputs.items()}
    found = SimulatedDevice(seed=1).run(package, raw)
    wanted = evaluate_on_device(graph, inputs)
    for output in graph.outputs:
        np.testing.assert_array_equal(
            found.tensors[output], wanted[output].reshape(-1).view(np.uint8)
        )
