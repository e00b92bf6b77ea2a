"""Weights on both channels of the ring: which layers have them, and that results stay the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.compiler.edgetpu.test_convolution import I8, U8, chain, grow
from tests.compiler.edgetpu_models import differences, findings, program

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.fitting.wide import Assignment, assigned
from fitzroy.compiler.targets.edgetpu.layers.layer import Weights, filled
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options, Share
from fitzroy.compiler.targets.edgetpu.memory.allocation import NoRows, Taken, WideRows
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES
from fitzroy.compiler.targets.edgetpu.program.emission import emitted
from fitzroy.compiler.targets.edgetpu.program.lower import legalized
from fitzroy.formats.darwinn import PackageFile
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.report.forms import instructions


def small_map(dtype: DType, extent: tuple[int, int], channels: tuple[int, ...]) -> Graph:
    """Pointwise and depthwise convolutions of many channels, which wait for their weights."""
    graph = chain(dtype, (*extent, channels[0]))
    for count in channels[1:]:
        grow(graph, "conv_2d", count, (1, 1))
        grow(graph, "depthwise_conv_2d", count, (3, 3))
    return graph


def both(assignment: Assignment) -> list[str]:
    """Layers whose weights come on both channels."""
    layers = assignment.schedule.layered.layers
    return [layer.name for layer in layers if any(item.beside for item in layer.weights)]


def rows(package: PackageFile) -> Counter[int]:
    """Rows that tiles send to tiles, by channel."""
    found = Counter[int]()
    for _, item in instructions([package]):
        if isinstance(item, RingProduce) and not item.to_outfeed:
            found[item.channel] += item.wide.steps
    return found


@pytest.mark.parametrize(
    ("dtype", "extent", "channels"),
    [
        (I8, (6, 4), (96, 256, 192)),
        (U8, (3, 2), (128, 320, 72)),
        (I8, (1, 5), (260, 132)),
        (U8, (7, 7), (160, 200)),
    ],
)
def test_results_stay_the_same(
    dtype: DType, extent: tuple[int, int], channels: tuple[int, ...]
) -> None:
    graph = small_map(dtype, extent, channels)
    assert both(assigned(legalized(graph)))
    package = program(graph)
    for seed in (1, 2):
        assert not differences(graph, package, seed)
    assert not findings(package, envelope=True)


def test_both_channels_bring_about_as_many_rows() -> None:
    graph = small_map(I8, (4, 4), (64, 512))
    one, two = (rows(program(graph, Options(both=both))) for both in (False, True))
    assert one[0] < 0.1 * one[1]
    # What reads the input has its weights on channel B alone.
    assert 0.7 < two[0] / two[1] < 1.2
    assert sum(two.values()) <= 1.1 * sum(one.values())


def test_owners_on_the_two_channels_are_different_tiles() -> None:
    found = assigned(legalized(small_map(I8, (6, 4), (96, 512, 512))))
    pairs = [item for item in found.weights if item.beside and item.prefix]
    assert pairs
    for item in pairs:
        pieces = [*found.residency.pieces[item.name], *found.residency.pieces[item.beside]]
        assert len({piece.tile for piece in pieces}) == len(pieces)


@pytest.mark.parametrize(
    "options", [Options(conservative=True), Options(parameter_rows=300), Options(both=False)]
)
def test_one_channel_is_enough(options: Options) -> None:
    """For published forms, and where weights come from the host, which sends on channel A."""
    graph = small_map(I8, (6, 4), (96, 256, 192))
    assert both(assigned(legalized(graph, DEFAULT)))
    assert not both(assigned(legalized(graph, options)))


@pytest.mark.parametrize(
    "options", [Options(parameter_rows=30_000), Options(share=Share(reserved=0, least=0))]
)
def test_a_budget_that_leaves_room_for_all_costs_nothing(options: Options) -> None:
    """Rows that are level on all tiles leave owners on both channels tiles of their own."""
    graph = small_map(I8, (6, 4), (96, 512, 512))
    alone, shared = (assigned(legalized(graph, some)) for some in (DEFAULT, options))
    assert both(shared) == both(alone) != []
    for item in shared.weights:
        if item.beside and item.prefix:
            pieces = [*shared.residency.pieces[item.name], *shared.residency.pieces[item.beside]]
            assert len({piece.tile for piece in pieces}) == len(pieces)
    assert emitted(shared).form.cycles == emitted(alone).form.cycles


def test_what_reads_an_input_leaves_it_channel_a() -> None:
    graph = chain(I8, (4, 4, 512))
    grow(graph, "conv_2d", 512, (1, 1), seed=1)
    reading = graph.nodes()[0].name
    grow(graph, "conv_2d", 512, (1, 1), seed=2)
    found = both(assigned(legalized(graph)))
    assert found
    assert reading not in found


def test_parts_hold_all_words() -> None:
    rng = np.random.default_rng(3)
    blocks, prefix, chunks, staged, lanes = 3, 2, 4, 5, 32
    words = rng.integers(0, 256, (blocks, prefix + chunks * staged, 4 * lanes), np.uint8)
    count = blocks * (prefix + chunks * staged)
    data = filled(words.reshape(-1))
    whole = Weights("w", OperandKind.CONVOLUTION, lanes, prefix, data, count, blocks)
    first, other = whole.parted(blocks, staged, 2)
    assert (first.words, other.words) == (count - blocks * chunks * 2, blocks * chunks * 2)
    assert (first.beside, other.beside) == (other.name, first.name)
    front = first.content[: first.words * 4 * lanes].reshape(blocks, -1, 4 * lanes)
    back = other.content[: other.words * 4 * lanes].reshape(blocks, chunks, 2, 4 * lanes)
    np.testing.assert_array_equal(front[:, :prefix], words[:, :prefix])
    body = front[:, prefix:].reshape(blocks, chunks, staged - 2, 4 * lanes)
    joined = np.concatenate([body, back], axis=2).reshape(blocks, -1, 4 * lanes)
    np.testing.assert_array_equal(joined, words[:, prefix:])


def test_pieces_on_tiles_apart() -> None:
    free = WideRows(limit=10)
    first = free.anywhere(25, apart=())
    assert isinstance(first, Taken)
    tiles = [piece.tile for piece in first.pieces]
    assert len(set(tiles)) == len(tiles) == 3
    other = first.rows.anywhere(25, apart=tiles)
    assert isinstance(other, Taken)
    assert not {piece.tile for piece in other.pieces} & set(tiles)
    # All rows would suffice, but not those of the other tiles.
    assert isinstance(free.anywhere(10 * TILES, apart=[3]), NoRows)
