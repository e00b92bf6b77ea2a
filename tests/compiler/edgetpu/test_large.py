"""Inputs, outputs and skip connections that do not fit narrow memory, on the simulated Edge TPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow, image
from tests.compiler.edgetpu.test_strips import pool
from tests.compiler.edgetpu_models import differing_bytes, findings, program, random_model
from tests.support import corpus

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    PadAttributes,
    ReshapeAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.ops.windows import output_extent
from fitzroy.compiler.targets.edgetpu.fitting import narrow
from fitzroy.compiler.targets.edgetpu.fitting.narrow import Arrangement, arranged
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.spilling import Ways, fetched_apart, spilled
from fitzroy.compiler.targets.edgetpu.fitting.strip_search import (
    MANY_LAYERS,
    MOST_LAYERS,
    Search,
)
from fitzroy.compiler.targets.edgetpu.host.host_layers import Fetch, Keep
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.lowerings import dilated
from fitzroy.compiler.targets.edgetpu.lowerings.global_pool import GlobalAverage
from fitzroy.compiler.targets.edgetpu.memory.allocation import NARROW_BYTES
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lower
from fitzroy.formats.darwinn import OutputLayer, OutputLayout, PackageFile
from fitzroy.hw_models.edgetpu.output_layouts import ownership_of
from fitzroy.hw_models.edgetpu.scalar import Descriptor, ScalarCore
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.hw_models.numerics import Sampling
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.schedule import Fence, SendInput, SendScratch
from fitzroy.linker.schedule.derive import derive_executable

I8, U8 = DType.INT8, DType.UINT8

# --- graphs --------------------------------------------------------------------------------------


def resize(graph: Graph, op: str, size: tuple[int, int], sampling: Sampling) -> None:
    """Append a resize."""
    (x,) = graph.outputs
    type = graph.type(x)
    after = replace(type, shape=(1, *size, type.shape[3]))
    graph.outputs = [graph.emit(op, [x], after, ResizeAttributes(size, sampling))]


def concatenate(graph: Graph, names: Sequence[str], axis: int) -> str:
    """Append a concatenation; all have the type of the first."""
    type = graph.type(names[0])
    shape = list(type.shape)
    shape[axis] = sum(graph.type(name).shape[axis] for name in names)
    after = replace(type, shape=tuple(shape))
    return graph.emit("concatenation", list(names), after, ConcatenationAttributes(axis))


def reshape(graph: Graph, name: str, shape: tuple[int, ...]) -> str:
    """Append a reshape."""
    after = replace(graph.type(name), shape=shape)
    return graph.emit("reshape", [name], after, ReshapeAttributes(shape))


def sigmoid(graph: Graph, name: str) -> str:
    """Append a sigmoid."""
    before = graph.type(name)
    zero = -128 if before.dtype is I8 else 0
    after = TensorType(before.shape, before.dtype, Quantization.per_tensor(1 / 256, zero))
    return graph.emit("sigmoid", [name], after, NO_ATTRIBUTES)


def convolved(
    dtype: DType, extent: tuple[int, int, int], channels: int, stride: int = 1, kernel: int = 3
) -> Graph:
    """One convolution."""
    graph = chain(dtype, extent)
    grow(graph, "conv_2d", channels, (kernel, kernel), (stride, stride))
    return graph


def filtered(extent: tuple[int, int, int], kernel: tuple[int, int]) -> Graph:
    """One convolution to eight channels."""
    graph = chain(I8, extent)
    grow(graph, "conv_2d", 8, kernel)
    return graph


def one_pool(extent: tuple[int, int, int]) -> Graph:
    """One pool."""
    graph = chain(U8, extent)
    pool(graph, "max_pool_2d", (2, 2), (2, 2))
    return graph


def unet(extent: tuple[int, int], levels: int, channels: int, op: str, dtype: DType) -> Graph:
    """Down and up again, with connections between images of the same size."""
    graph = chain(dtype, (*extent, 3))
    grow(graph, "conv_2d", channels, (3, 3))
    skips = []
    for level in range(1, levels + 1):
        skips.append(graph.outputs[0])
        pool(graph, "max_pool_2d", (2, 2), (2, 2))
        grow(graph, "conv_2d", channels << level, (3, 3))
    for skip in reversed(skips):
        _, height, width, depth = graph.type(skip).shape
        resize(graph, op, (height, width), Sampling.HALF_PIXEL)
        grow(graph, "conv_2d", depth, (3, 3))
        graph.outputs = [concatenate(graph, [graph.outputs[0], skip], 3)]
        grow(graph, "conv_2d", depth, (3, 3))
    grow(graph, "conv_2d", 1, (1, 1))
    return graph


def segmentation(extent: tuple[int, int], classes: int) -> Graph:
    """Scores that are enlarged to the size of the input, as those of DeepLab."""
    graph = chain(U8, (*extent, 3))
    grow(graph, "conv_2d", 8, (3, 3), (2, 2))
    grow(graph, "depthwise_conv_2d", 8, (3, 3), (2, 2))
    grow(graph, "conv_2d", 16, (1, 1))
    grow(graph, "depthwise_conv_2d", 16, (3, 3), (2, 2))
    grow(graph, "conv_2d", classes, (1, 1))
    resize(graph, "resize_bilinear", extent, Sampling.ALIGN_CORNERS)
    return graph


def pyramid(extent: tuple[int, int]) -> Graph:
    """Images of several scales added up from the smallest to the largest."""
    graph = chain(I8, (*extent, 3))
    grow(graph, "conv_2d", 16, (3, 3), (2, 2))
    scales = list(graph.outputs)
    for _ in range(2):
        grow(graph, "depthwise_conv_2d", 16, (3, 3), (2, 2))
        grow(graph, "conv_2d", 16, (1, 1))
        scales.append(graph.outputs[0])
    outputs = []
    for scale in scales[-2::-1]:
        _, height, width, _ = graph.type(scale).shape
        resize(graph, "resize_nearest_neighbor", (height, width), Sampling.HALF_PIXEL)
        sums = image(graph.type(scale).shape)
        names = [graph.outputs[0], scale]
        graph.outputs = [graph.emit("add", names, sums, ActivationAttributes())]
        grow(graph, "conv_2d", 16, (3, 3))
        (merged,) = graph.outputs
        grow(graph, "conv_2d", 6, (3, 3))
        outputs += graph.outputs
        graph.outputs = [merged]
    graph.outputs = outputs
    return graph


def detector(extent: tuple[int, int], anchors: int, classes: int, dtype: DType) -> Graph:
    """Boxes and scores of several scales one after the other, as those of SSD."""
    graph = chain(dtype, (*extent, 3))
    grow(graph, "conv_2d", 8, (3, 3), (2, 2))
    heads: list[list[str]] = [[], []]
    for _ in range(3):
        (features,) = graph.outputs
        _, height, width, _ = graph.type(features).shape
        for head, values in zip(heads, (4, classes), strict=True):
            graph.outputs = [features]
            grow(graph, "conv_2d", anchors * values, (3, 3))
            head.append(reshape(graph, graph.outputs[0], (1, height * width * anchors, values)))
        graph.outputs = [features]
        grow(graph, "conv_2d", 8, (3, 3), (2, 2))
    boxes, scores = (concatenate(graph, head, 1) for head in heads)
    graph.outputs = [boxes, sigmoid(graph, scores)]
    return graph


def long_rows() -> Graph:
    """Rows of which a strip cannot hold a single one: their columns are cut, too."""
    graph = chain(U8, (24, 200, 3))
    grow(graph, "conv_2d", 16, (3, 3), (2, 2))
    for _ in range(2):
        grow(graph, "depthwise_conv_2d", 16, (3, 3))
        grow(graph, "conv_2d", 16, (1, 1))
    grow(graph, "conv_2d", 4, (3, 3), (2, 2))
    return graph


CASES: dict[str, tuple[Callable[[], Graph], int]] = {
    "strided": (lambda: convolved(I8, (83, 45, 3), 8, 2), 1600),
    "odd": (lambda: convolved(I8, (61, 43, 5), 5), 2100),
    "wide-kernel": (lambda: convolved(U8, (61, 43, 3), 3, kernel=5), 1500),
    "whole-rows": (lambda: filtered((240, 6, 5), (3, 11)), 2500),
    "almost-whole-rows": (lambda: filtered((300, 9, 3), (3, 17)), 2500),
    "one-channel": (lambda: one_pool((90, 86, 1)), 1600),
    "long-rows": (long_rows, 3200),
    "segmentation": (lambda: segmentation((65, 65), 21), 4100),
    "pyramid": (lambda: pyramid((64, 48)), 2600),
    "unet": (lambda: unet((48, 40), 3, 4, "resize_nearest_neighbor", U8), 1900),
    "unet-bilinear": (lambda: unet((40, 48), 3, 4, "resize_bilinear", I8), 1900),
    "detector": (lambda: detector((97, 64), 2, 3, I8), 1900),
}
"""Graphs, and bytes of narrow memory that their inputs or outputs do not fit."""


# --- programs ------------------------------------------------------------------------------------


def kinds(graph: Graph, nbytes: int = NARROW_BYTES) -> Counter[str]:
    """How often layers of each kind run."""
    layered = replace(legalized(graph), options=Options(narrow_bytes=nbytes))
    return Counter(type(step.layer).__name__ for step in arranged(layered).schedule.steps)


def differences(
    graph: Graph, nbytes: int = NARROW_BYTES, seeds: Sequence[int] = (1, 2)
) -> tuple[int, PackageFile]:
    """Bytes that differ from the arithmetic of the chip, and the package."""
    package = program(graph, Options(narrow_bytes=nbytes))
    return differing_bytes(graph, package, seeds), package


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_inputs_and_outputs_may_be_larger_than_narrow_memory(name: str) -> None:
    make, nbytes = CASES[name]
    graph = make()
    found = kinds(graph, nbytes)
    assert sum(found.values()) > sum(kinds(graph).values())
    count, package = differences(graph, nbytes)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


def descriptors(package: PackageFile) -> list[Descriptor]:
    streams = package.main.instruction_bitstreams or ()
    chunks = [disassemble(np.asarray(stream.bitstream).tobytes()) for stream in streams]
    return [event for event in ScalarCore().run(chunks) if isinstance(event, Descriptor)]


def test_the_host_sends_overlapping_pieces_of_an_input() -> None:
    make, nbytes = CASES["wide-kernel"]
    (package,) = link([lower(make(), Options(narrow_bytes=nbytes))])
    sent = [
        (step.offset, step.offset + step.size)
        for step in derive_executable(package.main).steps
        if isinstance(step, SendInput)
    ]
    assert len(sent) > 4
    covered = np.zeros(package.main.inputs["x"].size_bytes, np.int64)
    for begin, end in sent:
        assert begin % 8 == end % 8 == 0
        covered[begin:end] += 1
    assert covered.min() >= 1
    assert covered.max() >= 2


def test_an_input_that_fits_comes_in_one_piece() -> None:
    (package,) = link([lower(convolved(I8, (61, 43, 3), 3))])
    tags = Counter(event.tag for event in descriptors(package))
    assert tags[DescriptorTag.INPUT] == tags[DescriptorTag.OUTPUT] == 1


def output_layouts(nbytes: int) -> list[OutputLayout | None]:
    make, _ = CASES["strided"]
    ports = lower(make(), Options(narrow_bytes=nbytes)).outputs or ()
    kinds = [port.any_layer for port in ports]
    return [kind.layout for kind in kinds if isinstance(kind, OutputLayer)]


def test_layouts_of_outputs_that_come_in_strips_have_several_passes() -> None:
    assert output_layouts(NARROW_BYTES) == [None]
    (layout,) = output_layouts(CASES["strided"][1])
    assert layout is not None
    assert max(ownership_of(layout).rows) >= 16
    assert ownership_of(layout).tiles % 16 == 0


@pytest.mark.long
@pytest.mark.parametrize(("extent", "levels", "nbytes"), [(64, 2, 2600), (48, 4, 1400)])
def test_skip_connections_that_do_not_fit_wait_in_the_memory_of_the_host(
    extent: int, levels: int, nbytes: int
) -> None:
    graph = unet((extent, extent), levels, 4, "resize_nearest_neighbor", U8)
    found = kinds(graph, nbytes)
    assert found["Keep"]
    assert found["Fetch"] >= found["Keep"]
    count, package = differences(graph, nbytes)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []
    assert package.main.scratch_size_bytes > 0
    steps = derive_executable(package.main, fences=True).steps
    first = next(number for number, step in enumerate(steps) if isinstance(step, SendScratch))
    assert any(isinstance(step, Fence) for step in steps[:first])


@pytest.mark.long
@pytest.mark.parametrize(("extent", "levels", "nbytes"), [(48, 2, 1200), (64, 4, 1500)])
def test_images_wait_with_the_host_if_strips_fit_but_addresses_are_missing(
    extent: int, levels: int, nbytes: int
) -> None:
    graph = unet((extent, extent), levels, 4, "resize_nearest_neighbor", U8)
    layered = replace(legalized(graph), options=Options(narrow_bytes=nbytes))
    layers = arranged(layered).layered.layers
    kept = {layer.writes for layer in layers if isinstance(layer, Keep)}
    assert kept
    assert kept == {layer.source for layer in layers if isinstance(layer, Fetch)}
    count, package = differences(graph, nbytes)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


def side_by_side(extent: int, channels: int, dilations: Sequence[int]) -> Graph:
    """Convolutions with several dilations of one image that another one makes, joined."""
    graph = chain(I8, (extent, extent, 8))
    grow(graph, "conv_2d", channels, (1, 1))
    (image,), results = graph.outputs, []
    for dilation in dilations:
        graph.outputs = [image]
        kernel = (1, 1) if dilation == 1 else (3, 3)
        grow(graph, "conv_2d", 8, kernel, dilation=(dilation, dilation))
        results += graph.outputs
    graph.outputs = [concatenate(graph, results, 3)]
    grow(graph, "conv_2d", 8, (1, 1))
    return graph


@pytest.mark.long
def test_images_come_back_for_each_reader_if_all_together_want_too_much() -> None:
    graph, options = side_by_side(32, 64, (1, 12, 24)), Options(narrow_bytes=12_000)
    layers = arranged(legalized(graph, options)).layered.layers
    (keep,) = (layer for layer in layers if isinstance(layer, Keep))
    back = [layer for layer in layers if isinstance(layer, Fetch)]
    assert {layer.source for layer in back} == {keep.writes}
    assert len(back) > 10
    readers = Counter(name for layer in layers for name in layer.reads)
    assert all(readers[layer.writes] == 1 for layer in back)
    package = program(graph, options)
    assert differing_bytes(graph, package, (1,)) == 0
    assert [str(finding) for finding in findings(package)] == []


@pytest.mark.long
@pytest.mark.parametrize(("dilations", "nbytes"), [((1, 28), 12_000), ((1, 24, 28), 8_000)])
def test_a_row_of_each_tile_is_a_strip(dilations: tuple[int, ...], nbytes: int) -> None:
    """The first and the last four rows of a result read others than those between."""
    graph, options = side_by_side(32, 64, dilations), Options(narrow_bytes=nbytes)
    layered = legalized(graph, options)
    steps = arranged(layered).schedule.steps
    parts = Counter(step.whole.name for step in steps if step.whole is not None)
    single = {name for name, count in parts.items() if count == 1}
    assert {layered.type(name).shape[1] for name in single} == {4}
    assert sum(isinstance(step.layer, Keep) for step in steps) == 1
    package = program(graph, options)
    assert differing_bytes(graph, package, (1,)) == 0
    assert [str(finding) for finding in findings(package, envelope=True)] == []


def test_what_is_cut_from_a_fetched_image_is_not_sent_again() -> None:
    layered = legalized(side_by_side(32, 64, (1, 28)), Options(narrow_bytes=6_000))
    apart = fetched_apart(layered, Schedule.of(layered).tensors)
    assert apart is not None
    back = {layer.writes for layer in apart.layers if isinstance(layer, Fetch)}
    cut = {layer.writes for layer in apart.layers if back.issuperset(layer.reads)}
    readers = Counter(name for layer in apart.layers for name in layer.reads)
    tensors = Schedule.of(apart).tensors
    assert any(readers[name] > 1 and tensors[name].nbytes > 6_000 for name in cut)
    assert fetched_apart(apart, tensors) is None


def test_rows_that_are_joined_early_leave_room_for_larger_strips(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, options = side_by_side(32, 64, (1, 24, 28)), Options(narrow_bytes=8_000)

    def fetched() -> int:
        steps = arranged(legalized(graph, options)).schedule.steps
        return sum(isinstance(step.layer, Fetch) for step in steps)

    early = fetched()
    monkeypatch.setattr(dilated, "_SHARE", 0)
    assert early < fetched()


def test_making_room_ends_although_there_is_always_another_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []

    def never(search: Search, times: int) -> Refused:
        tried.append(times)
        assert times < 1_000
        return Refused([], "no room", reason="")

    monkeypatch.setattr(narrow, "_fitted", never)
    monkeypatch.setattr(narrow, "_ways", lambda search, refusal: Ways(search.layered))
    with pytest.raises(Refused, match="no room"):
        arranged(legalized(convolved(I8, (16, 16, 4), 8)))
    assert len(tried) > 30


@pytest.mark.long
def test_inputs_that_are_read_again_later_come_twice() -> None:
    graph = chain(I8, (64, 48, 4))
    grow(graph, "conv_2d", 8, (3, 3))
    for _ in range(3):
        grow(graph, "conv_2d", 8, (3, 3), (2, 2))
    resize(graph, "resize_nearest_neighbor", (64, 48), Sampling.HALF_PIXEL)
    graph.outputs = [concatenate(graph, [graph.outputs[0], "x"], 3)]
    grow(graph, "conv_2d", 4, (1, 1))
    nbytes = 1500
    assert kinds(graph, NARROW_BYTES)["Receive"] == 1
    assert kinds(graph, nbytes)["Receive"] > 1
    count, package = differences(graph, nbytes)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "channels", "nbytes"),
    [
        ("dense", 3, 1500),
        ("convolution", 8, 2000),
        ("convolutions", 3, 2000),
        ("depthwise", 8, 2000),
    ],
)
def test_images_are_computed_again_if_the_host_is_slower(
    first: str, channels: int, nbytes: int
) -> None:
    """Few layers compute them from an input, which the host sends again."""
    graph = chain(I8, (64, 48, channels))
    op = "depthwise_conv_2d" if first == "depthwise" else "conv_2d"
    for _ in range(2 if first == "convolutions" else 1):
        grow(graph, op, 8, (3, 3))
    check_computed_again(graph, nbytes)


@pytest.mark.long
@pytest.mark.parametrize("nbytes", [5000, 6000])
def test_two_levels_of_a_unet_are_computed_again(nbytes: int) -> None:
    """With 6,000 bytes, everything would fit in strips that take nine times as long."""
    graph = chain(I8, (128, 96, 3))
    for _ in range(2):
        grow(graph, "conv_2d", 8, (3, 3))
    pool(graph, "max_pool_2d", (2, 2), (2, 2))
    for _ in range(2):
        grow(graph, "conv_2d", 16, (3, 3))
    check_computed_again(graph, nbytes)


def check_computed_again(graph: Graph, nbytes: int) -> None:
    """Read the output much later; it is computed twice, and nothing waits with the host."""
    (skip,) = graph.outputs
    _, height, width, _ = graph.type(skip).shape
    for _ in range(3):
        grow(graph, "conv_2d", 8, (3, 3), (2, 2))
    resize(graph, "resize_nearest_neighbor", (height, width), Sampling.HALF_PIXEL)
    graph.outputs = [concatenate(graph, [graph.outputs[0], skip], 3)]
    grow(graph, "conv_2d", 4, (1, 1))
    layered = replace(legalized(graph), options=Options(narrow_bytes=nbytes))
    layers = arranged(layered).layered.layers
    assert f"{skip}.again" in {layer.writes for layer in layers}
    assert not {"keep", "fetch"} & {layer.kind for layer in layers}
    count, package = differences(graph, nbytes)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


@pytest.mark.long
@pytest.mark.parametrize("tries", [0, 2])
def test_strips_are_searched_once_for_every_image_that_waits(
    tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short segments are tried at first, for a few images, and in the end only."""
    layered = legalized(unet((64, 64), 4, 4, "resize_nearest_neighbor", I8))
    tight = replace(layered, options=Options(narrow_bytes=1300))
    tried = []
    cheapest = narrow._cheapest

    def counted(search: Search) -> Arrangement | Refused:
        tried.append(search.most)
        return cheapest(search)

    monkeypatch.setattr(narrow, "_cheapest", counted)
    monkeypatch.setattr(narrow, "_SHORT_TRIES", tries)
    kept = sum(isinstance(layer, Keep) for layer in arranged(tight).layered.layers)
    assert kept > 4
    # Once for images that only wait, and once for those that are computed again.
    assert tried.count(MOST_LAYERS) <= 3 + 2 * tries
    assert tried.count(MANY_LAYERS) <= 2 * (kept + 3)


@pytest.mark.long
def test_no_more_images_wait_once_short_segments_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether long ones fit or not."""
    layered = legalized(unet((64, 64), 4, 4, "resize_nearest_neighbor", I8))
    tight = replace(layered, options=Options(narrow_bytes=2600))
    cheapest, kept = narrow._cheapest, list[int]()

    def short_only(search: Search) -> Arrangement | Refused:
        if search.most == MANY_LAYERS:
            return Refused([], "no room")
        kept.append(sum(isinstance(layer, Keep) for layer in search.layered.layers))
        return cheapest(search)

    monkeypatch.setattr(narrow, "_cheapest", short_only)
    found = sum(isinstance(layer, Keep) for layer in arranged(tight).layered.layers)
    assert found == max(kept) > 0


@pytest.mark.long
@pytest.mark.parametrize(("seed", "nbytes"), [(60272, 3000), (60233, 3000), (50066, 7000)])
def test_images_come_back_when_all_of_them_are_with_the_host(seed: int, nbytes: int) -> None:
    """Strips that send an image and others that take it back are not the same."""
    graph = random_model(seed)
    assert kinds(graph, nbytes)["Keep"]
    count, package = differences(graph, nbytes)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


@pytest.mark.long
def test_images_that_wait_long_make_room_before_larger_ones() -> None:
    """A small image waits for forty layers, and a large one for eight."""
    graph = Graph("skips")
    skips = []
    for width, length in ((8, 40), (32, 8)):
        shape = (1, 16, width, 4)
        kind = TensorType(shape, DType.INT8, Quantization.per_tensor(1 / 256, -128))
        skip = name = sigmoid(graph, graph.add_input(f"image{width}", kind))
        for _ in range(length):
            name = sigmoid(graph, name)
        graph.outputs.append(graph.emit("add", [skip, name], kind, ActivationAttributes()))
        skips.append(skip)
    spilt = spilled(legalized(graph)).waiting
    assert spilt is not None
    assert [x.reads for x in spilt.layers if isinstance(x, Keep)] == [(skips[0],)]


@pytest.mark.long
def test_only_images_around_a_tensor_make_room_for_it() -> None:
    """The longest gap is that of another skip connection, a hundred layers later."""
    graph = Graph("skips")
    kind = TensorType((1, 8, 8, 4), DType.INT8, Quantization.per_tensor(1 / 256, -128))
    name, skips = graph.add_input("image", kind), list[str]()
    for length in (6, 100, 20):
        skip = name = sigmoid(graph, name)
        for _ in range(length):
            name = sigmoid(graph, name)
        if length < 100:
            skips.append(skip)
            name = graph.emit("add", [skip, name], kind, ActivationAttributes())
    graph.outputs = [name]
    layered = legalized(graph)
    kept = []
    for lacking in ("", skips[0], skips[1]):
        spilt = spilled(layered, lacking=lacking).waiting
        assert spilt is not None
        kept += [layer.reads[0] for layer in spilt.layers if isinstance(layer, Keep)]
    assert kept == [skips[1], skips[0], skips[1]]


def test_parts_of_an_output_are_sent_one_after_the_other() -> None:
    """Not strip by strip of all of them: the host's buffer has one part after the other."""
    count, package = differences(random_model(50242), 3000)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


# --- views ---------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("extent", "anchors", "classes", "dtype"),
    [((20, 13), 3, 5, I8), ((20, 16), 2, 3, U8), ((33, 47), 1, 1, I8), ((40, 40), 6, 91, U8)],
)
def test_heads_of_detectors_move_nothing(
    extent: tuple[int, int], anchors: int, classes: int, dtype: DType
) -> None:
    graph = detector(extent, anchors, classes, dtype)
    assert not kinds(graph).keys() & {"ToVector", "ToImage", "Assembly"}
    count, package = differences(graph)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


def test_parts_with_other_scales_are_requantized() -> None:
    graph = chain(I8, (9, 7, 4))
    (x,) = graph.outputs
    grow(graph, "conv_2d", 6, (3, 3))
    (y,) = graph.outputs
    after = TensorType((1, 630), I8, Quantization.per_tensor(0.11, -3))
    parts = [reshape(graph, name, (1, graph.type(name).size)) for name in (x, y)]
    joined = graph.emit("concatenation", parts, after, ConcatenationAttributes(1))
    graph.outputs = [joined]
    assert kinds(graph)["Pointwise"] == 2
    assert differences(graph)[0] == 0


@pytest.mark.long
def test_views_get_a_place_for_operators_that_need_one() -> None:
    graph = detector((16, 16), 2, 2, U8)
    boxes, _ = graph.outputs
    flat = reshape(graph, boxes, (1, graph.type(boxes).size))
    back = reshape(graph, flat, (1, graph.type(boxes).size // 8, 1, 8))
    graph.outputs = [boxes, back]
    assert not kinds(graph)["ToImage"]
    graph.outputs = [back]
    # A filter of several rows; one of a row is applied to each of the joined images.
    grow(graph, "conv_2d", 4, (3, 1))
    graph.outputs = [boxes, *graph.outputs]
    assert kinds(graph)["ToImage"]
    count, package = differences(graph)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


@pytest.mark.long
@pytest.mark.parametrize("channels", [128, 129])
def test_many_rows_of_joined_images_are_multiplied_image_by_image(channels: int) -> None:
    """No tile has room for all of them; slices of whole images are what was multiplied."""
    graph = chain(I8, (40, 30, channels))
    (x,) = graph.outputs
    pool(graph, "max_pool_2d", (2, 2), (2, 2))
    (y,) = graph.outputs
    rows = [
        reshape(graph, name, (1, graph.type(name).size // channels, channels)) for name in (x, y)
    ]
    joined = concatenate(graph, rows, 1)
    random = np.random.default_rng(1)
    filters = random.integers(-127, 128, (24, channels), np.int8)
    scales = Quantization((0.01,) * 12 + (0.02,) * 12, (0,) * 24, 0)
    kernel = graph.add_constant("filter", filters, scales)
    after = TensorType((1, 1500, 24), I8, Quantization.per_tensor(3.0, 5))
    a = FullyConnectedAttributes(keep_num_dims=True)
    product = graph.emit("fully_connected", [joined, kernel], after, a)
    graph.outputs = []
    for first, count in ((0, 1200), (1200, 300)):
        part = StridedSliceAttributes((0, first, 0), (1, count, 24), (1, 1, 1))
        type = after.with_shape((1, count, 24))
        graph.outputs.append(graph.emit("strided_slice", [product], type, part))
    assert not kinds(graph).keys() & {"ToVector", "ToImage", "Assembly", "FullyConnected"}
    assert kinds(graph)["Convolution"] == 2
    assert differences(graph, seeds=(1,))[0] == 0
    graph.outputs = [product]
    assert differences(graph, seeds=(1,))[0] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("extent", "after", "channels"),
    [
        ((64, 40), (10, 256), 32),
        ((88, 64), (512, 11), 13),
        ((120, 128), (1024, 15), 1),
        ((120, 100), (125, 96), 3),
    ],
)
def test_images_of_more_values_than_a_loop_counts_are_reshaped(
    extent: tuple[int, int], after: tuple[int, int], channels: int
) -> None:
    """Their rows end at so many places that they are not copied as boxes."""
    graph = chain(I8, (*extent, 4))
    grow(graph, "conv_2d", channels, (3, 3))
    (x,) = graph.outputs
    graph.outputs = [reshape(graph, x, (1, *after, channels))]
    pool(graph, "max_pool_2d", (3, 3), (2, 2))
    assert kinds(graph)["ToImage"]
    assert differences(graph, seeds=(1,))[0] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("extent", "channels", "nbytes", "passes"),
    [
        ((40, 30), 300, NARROW_BYTES, 1),
        ((40, 30), 300, 45000, 6),
        ((32, 32), 1280, NARROW_BYTES, 4),
        ((64, 64), 512, NARROW_BYTES, 6),
        ((9, 7), 1100, 9000, 4),
        ((17, 23), 70, 6000, 16),
        # More pixels than a loop has iterations, with sums that are exact all the same.
        ((160, 160), 20, NARROW_BYTES, 5),
        ((129, 128), 4, NARROW_BYTES, 1),
    ],
)
def test_means_of_large_images_gather_some_channels_at_a_time(
    extent: tuple[int, int], channels: int, nbytes: int, passes: int
) -> None:
    dtype = (I8, U8)[passes % 4 == 0]
    graph = convolved(dtype, (*extent, 4), channels, kernel=1)
    (x,) = graph.outputs
    mean = ReductionAttributes((1, 2), keep_dims=True)
    after = replace(graph.type(x), shape=(1, 1, 1, channels))
    graph.outputs = [graph.emit("mean", [x], after, mean)]
    schedule = arranged(legalized(graph, Options(narrow_bytes=nbytes))).schedule
    found = [
        len(step.layer._passes(step.tensors))
        for step in schedule.steps
        if isinstance(step.layer, GlobalAverage)
    ]
    assert found == [passes]
    count, package = differences(graph, nbytes)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


def test_pools_of_all_pixels_are_means() -> None:
    graph = chain(I8, (160, 160, 4))
    pooled = replace(graph.type("x"), shape=(1, 1, 1, 4))
    graph.outputs = [graph.emit("average_pool_2d", ["x"], pooled, PoolAttributes((160, 160)))]
    assert kinds(graph)["GlobalAverage"] == 1
    assert differences(graph)[0] == 0


def test_means_of_more_pixels_than_a_tile_gathers_are_refused() -> None:
    graph = chain(I8, (240, 240, 4))
    after = replace(graph.type("x"), shape=(1, 1, 1, 4))
    graph.outputs = [graph.emit("mean", ["x"], after, ReductionAttributes((1, 2), True))]
    with pytest.raises(UnsupportedError, match="takes 244800 bytes of a tile, which has 196592"):
        legalized(graph)


@pytest.mark.long
def test_parts_are_joined_for_operators_that_need_all_of_them() -> None:
    graph = chain(I8, (48, 40, 4))
    parts = []
    for channels in (16, 8, 4):
        grow(graph, "conv_2d", channels, (3, 3))
        (x,) = graph.outputs
        parts.append(reshape(graph, x, (1, graph.type(x).size)))
    joined = concatenate(graph, parts, 1)
    graph.outputs = [reshape(graph, joined, (1, 96, 70, 8))]
    grow(graph, "conv_2d", 4, (3, 3))
    graph.outputs.append(joined)
    assert kinds(graph)["Joined"] == 1
    count, package = differences(graph)
    assert count == 0
    assert [str(finding) for finding in findings(package)] == []


def test_outputs_may_leave_before_parameters_come_through_the_fifo() -> None:
    graph = chain(I8, (21, 19, 8))
    grow(graph, "conv_2d", 7, (3, 3))
    (first,) = graph.outputs
    for _ in range(3):
        grow(graph, "depthwise_conv_2d", graph.type(graph.outputs[0]).shape[3], (3, 3))
    graph.outputs = [first, *graph.outputs]
    assert differences(graph)[0] == 0


# --- whole networks ------------------------------------------------------------------------------


def mobilenet(extent: int) -> Graph:
    """MobileNet v1 of full width, without its classifier."""
    graph, depth = chain(I8, (extent, extent, 3)), 32
    grow(graph, "conv_2d", depth, (3, 3), (2, 2))
    for channels in (64, 128, 128, 256, 256, *[512] * 6, 1024, 1024):
        # The first block and those that keep the depth have a stride of 1.
        stride = 1 if channels in (depth, 64) else 2
        grow(graph, "depthwise_conv_2d", depth, (3, 3), (stride, stride))
        grow(graph, "conv_2d", channels, (1, 1))
        depth = channels
    return graph


def enlarged(graph: Graph, extent: tuple[int, int]) -> Graph:
    """A convolutional network for another size of its input."""
    result = Graph(graph.name)
    for name in graph.inputs:
        type = graph.type(name)
        result.add_input(name, replace(type, shape=(1, *extent, type.shape[3])))
    for node in graph.nodes():
        call = Call.of(graph, node)
        for value in call.inputs:
            if value is not None and value.is_constant and value.name not in result.values:
                result.add_value(value)
        before = result.type(node.inputs[0] or "").shape
        after = before[1], before[2]
        if isinstance(node.attributes, ConvAttributes):
            attributes, kernel = node.attributes, call.type(1).shape
            after = output_extent(
                attributes.padding,
                after,
                (kernel[1], kernel[2]),
                attributes.stride,
                attributes.dilation,
            )
        elif isinstance(node.attributes, PadAttributes):
            first, last = node.attributes.before, node.attributes.after
            after = after[0] + first[1] + last[1], after[1] + first[2] + last[2]
        type = call.result.type
        result.add_node(node, [replace(type, shape=(1, *after, type.shape[3]))])
    result.outputs = list(graph.outputs)
    return result


LARGE: dict[str, Callable[[], Graph]] = {
    "convolution-1200x1600": lambda: convolved(I8, (1200, 1600, 3), 8, 2),
    "convolution-1024": lambda: convolved(I8, (1024, 1024, 3), 8),
    "pool-2000": lambda: one_pool((2000, 2000, 1)),
    "segmentation-513": lambda: segmentation((513, 513), 21),
    "pyramid-512": lambda: pyramid((512, 512)),
    "mobilenet-1024": lambda: mobilenet(1024),
    "unet-512": lambda: unet((512, 512), 4, 8, "resize_nearest_neighbor", U8),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_images(name: str) -> None:
    assert differences(LARGE[name](), seeds=(1,))[0] == 0


@pytest.mark.corpus
@pytest.mark.slow
def test_a_detector_of_the_corpus_leaves_nothing_but_its_postprocessing_to_the_host() -> None:
    graph = load(corpus() / "coral/traffic_model.tflite")
    ((segment,), _) = divide(graph)
    assert len(segment.nodes) == len(graph.nodes()) - 1
    assert differences(segment.graph, seeds=(1,))[0] == 0


@pytest.mark.corpus
@pytest.mark.slow
def test_posenet_for_large_images() -> None:
    name = "posenet_mobilenet_v1_075_481_641_16_quant_decoder"
    ((segment,), _) = divide(load(corpus() / f"coral/{name}.tflite"))
    assert differences(enlarged(segment.graph, (721, 1281)), seeds=(1,))[0] == 0
