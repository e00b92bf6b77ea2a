"""Images of which all tiles own parts of the same size."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.compiler.edgetpu.test_convolution import I8, chain, compare, grow, image
from tests.compiler.edgetpu_models import program

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image, alike, split
from fitzroy.compiler.targets.edgetpu.program.lower import legalized
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.report.forms import instructions


@pytest.mark.parametrize("extent", range(1, 70))
def test_parts_have_the_size_of_the_largest_and_cover_the_axis(extent: int) -> None:
    parts = alike(extent, 4)
    most = max(end - begin for begin, end in split(extent, 4))
    assert (parts[0][0], parts[-1][1]) == (0, extent)
    assert all(one[1] >= other[0] for one, other in pairwise(parts))
    if extent > 4:
        assert {end - begin for begin, end in parts} == {most}
    if extent % 4 == 0:
        assert parts == split(extent, 4)
    # What leaves for the host is split.
    for (begin, end), (first, last) in zip(split(extent, 4), parts, strict=True):
        assert begin == end or first <= begin < end <= last


def _block(height: int, width: int, stride: int = 2) -> Graph:
    """A block of MobileNet v2 on an image that tiles cannot share evenly, and what may follow."""
    graph = chain(I8, (height, width, 8))
    for op, channels, kernel, step in (
        ("conv_2d", 16, (1, 1), (1, 1)),
        ("conv_2d", 48, (1, 1), (1, 1)),
        ("depthwise_conv_2d", 48, (3, 3), (1, 1)),
        ("conv_2d", 16, (1, 1), (1, 1)),
        ("depthwise_conv_2d", 16, (5, 5), (stride, stride)),
        ("conv_2d", 24, (3, 3), (1, 1)),
        ("conv_2d", 8, (1, 1), (1, 1)),
    ):
        grow(graph, op, channels, kernel, step)
    return graph


@pytest.mark.parametrize("size", [(14, 14), (7, 9), (5, 6), (13, 3), (30, 11)])
def test_elements_that_two_tiles_compute_are_right(size: tuple[int, int]) -> None:
    compare(_block(*size))


def test_all_tiles_execute_the_same_operations() -> None:
    tiles = [
        item.tiles
        for _, item in instructions([program(_block(14, 14, stride=1))])
        if isinstance(item, TensorOp) and item.trained
    ]
    assert [mask.bit_count() for mask in tiles] == [16] * 7


def test_what_comes_from_the_host_comes_once() -> None:
    graph = _block(14, 14)
    tensors = Schedule.of(legalized(graph, DEFAULT)).tensors
    once = {
        name
        for name, tensor in tensors.items()
        if isinstance(tensor, Image) and tensor.rows.owned == split(tensor.rows.extent, 4)
    }
    (x,), (y,) = graph.inputs, graph.outputs
    assert once == {x, f"{y}.host"}


def test_a_mean_counts_every_element_once() -> None:
    graph = _block(14, 14, stride=1)
    axes = ReductionAttributes((1, 2), keep_dims=True)
    graph.outputs = [graph.emit("mean", graph.outputs, image((1, 1, 1, 8)), axes)]
    compare(graph)
