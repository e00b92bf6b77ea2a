"""Narrow memory that is nearly full: where tensors lie, what makes room, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.compiler.edgetpu.test_attention import attention
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu.test_large import concatenate, resize, sigmoid, unet
from tests.compiler.edgetpu.test_strips import arrangement, pool, tile_image
from tests.compiler.edgetpu_models import differing_bytes, findings, program

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.targets.edgetpu.fitting import narrow, ordering, spilling
from fitzroy.compiler.targets.edgetpu.fitting.narrow import Arrangement
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.strip_search import NoStrips, Search
from fitzroy.compiler.targets.edgetpu.host.host_layers import Keep, compacted
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.lowerings.matrix_product import MatrixProduct
from fitzroy.compiler.targets.edgetpu.lowerings.products import LEAST_BYTES, Product
from fitzroy.compiler.targets.edgetpu.memory import allocation
from fitzroy.compiler.targets.edgetpu.memory.allocation import (
    NARROW_BYTES,
    Addresses,
    Live,
    NoRoom,
    Overlap,
    allocate_narrow,
)
from fitzroy.compiler.targets.edgetpu.program.lower import legalized
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Assembly
from fitzroy.hw_models.numerics import Sampling


def kinds(found: Arrangement) -> Counter[type]:
    """How many layers of each kind an arrangement has."""
    return Counter(type(layer) for layer in found.layered.layers)


def assert_exact(graph: Graph, nbytes: int = NARROW_BYTES) -> None:
    """The program gives the reference's bytes and breaks no rule."""
    package = program(graph, Options(narrow_bytes=nbytes))
    assert differing_bytes(graph, package, (1,)) == 0
    assert [str(finding) for finding in findings(package)] == []


# --- addresses -----------------------------------------------------------------------------------


def packed(seed: int, count: int, steps: int = 40, nbytes: int = 4000) -> list[Live]:
    """Tensors that fill a memory without gaps, as a rectangle of steps and bytes cut in pieces."""
    rng = np.random.default_rng(seed)
    pieces = [(0, steps, 0, nbytes // 40)]
    while len(pieces) < count:
        sizes = [(last - first) * (high - low) for first, last, low, high in pieces]
        first, last, low, high = pieces.pop(int(np.argmax(sizes)))
        if rng.random() < 0.5 and last - first > 1:
            cut = int(rng.integers(first + 1, last))
            pieces += [(first, cut, low, high), (cut, last, low, high)]
        else:
            cut = int(rng.integers(low + 1, high)) if high - low > 1 else high
            pieces += [(first, last, low, cut), *([(first, last, cut, high)] if cut < high else [])]
    return [
        Live(tile_image(f"x{number}", 10 * (high - low)), first, last - 1)
        for number, (first, last, low, high) in enumerate(pieces)
    ]


def assert_disjoint(lives: Sequence[Live], found: Addresses, nbytes: int) -> None:
    """No two tensors that live at the same time share a byte."""
    places = [(live, found.bases[live.tensor]) for live in lives]
    for number, (live, base) in enumerate(places):
        assert 0 <= base <= nbytes - live.tensor.nbytes
        for other, place in places[:number]:
            low, high = other.refuses(live, place)
            assert not low < base < high


@pytest.mark.parametrize("seed", range(12))
def test_tensors_that_nearly_fill_memory_find_addresses(seed: int) -> None:
    lives = packed(seed, 60)
    nbytes = 4000 + 400
    found = allocate_narrow(lives, nbytes=nbytes)
    assert isinstance(found, Addresses)
    assert_disjoint(lives, found, nbytes)
    assert found.used <= nbytes
    assert allocate_narrow(lives, nbytes=nbytes) == found


def test_orders_alone_do_not_find_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "_SEARCHES", 0)
    found = [allocate_narrow(packed(seed, 60), nbytes=4400) for seed in range(12)]
    assert sum(isinstance(one, NoRoom) for one in found) >= 4


def test_tensors_that_may_overlap_are_moved_together() -> None:
    """The result lies over what it is made of in one direction only, and the rest is taken."""
    one, other = tile_image("one", 20), tile_image("other", 20)
    lives = [
        Live(tile_image("low", 6), 0, 5),
        Live(tile_image("high", 4), 6, 9),
        Live(one, 1, 7),
        Live(other, 5, 9, Overlap(one, -8, 80)),
    ]
    found = allocation._rearranged(lives, [], 112, 0)
    assert isinstance(found, Addresses)
    assert_disjoint(lives, found, 112)
    assert found.bases[other] - found.bases[one] == -8


def test_what_needs_more_than_there_is_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    monkeypatch.setattr(allocation, "_rearranged", lambda *given: searched.append(given[-1]))
    lives = [Live(tile_image("one", 10), 0, 1), Live(tile_image("other", 20), 1, 3)]
    assert isinstance(allocate_narrow(lives, reserved=[0, 0, 0, 41], nbytes=120), NoRoom)
    assert not searched


# --- products ------------------------------------------------------------------------------------


def weighted(extent: tuple[int, int, int], channels: int, waiting: int) -> Graph:
    """A convolution with SiLU, while a narrower image waits."""
    graph = chain(DType.INT8, extent)
    grow(graph, "conv_2d", waiting, (1, 1))
    (skip,) = graph.outputs
    grow(graph, "conv_2d", channels, (1, 1))
    (name,) = graph.outputs
    after = graph.type(name)
    silu = graph.emit("mul", [name, sigmoid(graph, name)], after, ActivationAttributes())
    graph.outputs = [silu]
    grow(graph, "conv_2d", waiting, (1, 1))
    (name,) = graph.outputs
    both = graph.emit("add", [name, skip], graph.type(name), ActivationAttributes())
    graph.outputs = [both]
    return graph


def product_of(found: Arrangement) -> Product:
    """The only product of an arrangement."""
    (product,) = (x for x in found.schedule.layered.layers if isinstance(x, Product))
    return product


def test_matrices_of_products_take_what_is_left() -> None:
    roomy, tight = (arrangement(weighted((80, 80, 8), 128, waiting)) for waiting in (8, 32))
    for found in (roomy, tight):
        assert len(found.schedule.steps) == len(found.layered.layers)
        assert product_of(found).matrix_bytes > LEAST_BYTES
    free = tight.schedule.free()
    for step, nbytes in zip(tight.schedule.steps, free, strict=True):
        assert step.layer.scratch_bytes(step.tensors) <= nbytes
    assert product_of(tight).matrix_bytes < product_of(roomy).matrix_bytes


@pytest.mark.long
def test_products_with_little_room_are_exact() -> None:
    assert_exact(weighted((80, 80, 8), 128, 32))


# --- order ---------------------------------------------------------------------------------------


def side_by_side(*widths: int, flat: bool = False) -> Graph:
    """Images of some widths that wait together while another one goes through many layers.

    Args:
        widths: their columns.
        flat: whether the other one becomes a vector in the end, which cannot run in strips.
    """
    graph = Graph("side_by_side")

    def given(name: str, width: int) -> str:
        kind = TensorType((1, 16, width, 4), DType.INT8, Quantization.per_tensor(1 / 256, -128))
        return sigmoid(graph, graph.add_input(name, kind))

    waiting = [given(f"image{width}", width) for width in widths]
    pairs = [[name, sigmoid(graph, name)] for name in waiting]
    name = given("other", 4)
    for _ in range(12):
        name = sigmoid(graph, name)
    if flat:
        vector = graph.type(name).with_shape((graph.type(name).size,))
        rows = graph.emit("reshape", [name], vector, ReshapeAttributes(vector.shape))
        name = graph.emit("mul", [rows, rows], vector, ActivationAttributes())
    graph.outputs.append(name)
    for pair in pairs:
        both = graph.emit("add", pair, graph.type(pair[0]), ActivationAttributes())
        graph.outputs.append(both)
    return graph


@pytest.mark.long
def test_heads_are_finished_one_after_the_other_if_all_do_not_fit() -> None:
    graph, nbytes = attention((16, 16), 4, 8, 8), 20000
    found = arrangement(graph, nbytes)
    assert not kinds(found)[Keep]
    assert len(found.schedule.steps) == len(found.layered.layers)
    roomy, tight = (
        [x.name for x in each.layered.layers if isinstance(x, MatrixProduct)]
        for each in (arrangement(graph), found)
    )
    assert len(roomy) == 8
    assert tight == [name for both in zip(roomy[:4], roomy[4:], strict=True) for name in both]


def test_layers_come_after_what_they_read() -> None:
    layered = legalized(attention((8, 6), 2, 8, 8, 4))
    found = ordering.depth_first(layered)
    assert sorted(x.name for x in found.layers) == sorted(x.name for x in layered.layers)
    there: set[str] = set()
    for layer in found.layers:
        assert there.issuperset(layer.reads)
        there.add(layer.writes)
    assert ordering.depth_first(found).layers == found.layers


@pytest.mark.long
def test_heads_in_another_order_are_exact() -> None:
    assert_exact(attention((16, 16), 4, 8, 8), 20000)


def test_order_counts_where_it_changes_what_is_missing() -> None:
    """The largest image lacks as much as before, and others no longer wait for each other."""
    graph = side_by_side(8, 16, 32)
    kind = graph.type(graph.inputs[0]).with_shape((1, 16, 400, 4))
    graph.outputs.append(sigmoid(graph, graph.add_input("large", kind)))
    layered = replace(legalized(graph), options=Options(narrow_bytes=400))
    found = narrow._reordered(narrow._search(layered))
    assert found is not None
    before, after = (Search.of(Schedule.of(each)).taken() for each in (layered, found))
    assert max(before) == max(after)
    assert sum(nbytes > 400 for nbytes in after) < sum(nbytes > 400 for nbytes in before)
    assert narrow._reordered(narrow._search(found)) is None


# --- images that make room -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missing", "width"),
    [
        ({0: 1}, 8),
        ({0: 33}, 16),
        # Another layer lacks more while they wait.
        ({0: 1, 2: 100}, 32),
        # One that runs after they have come back does not count.
        ({0: 33, 99: 100}, 16),
    ],
)
def test_the_smallest_image_that_makes_enough_room_waits(
    missing: dict[int, int], width: int
) -> None:
    layered = legalized(side_by_side(8, 16, 32))
    first = next(n for n, x in enumerate(layered.layers) if "other" in x.writes) + 4
    lacking = {first + number: nbytes for number, nbytes in missing.items()}
    waiting = spilling.sufficient(layered, first, lacking).waiting
    assert waiting is not None
    ((kept,),) = [x.reads for x in waiting.layers if isinstance(x, Keep)]
    assert layered.type(kept).shape[2] == width


def test_what_can_be_computed_again_comes_before_smaller_images() -> None:
    nbytes = 2000
    graph = unet((48, 48), 3, 4, "resize_nearest_neighbor", DType.INT8)
    layered = compacted(replace(legalized(graph), options=Options(narrow_bytes=nbytes)))
    assert layered is not None
    search = narrow._search(layered)
    refusal = narrow._fitted(search, 1)
    assert isinstance(refusal, NoStrips)
    missing = search.missing(refusal.layer, nbytes)
    assert spilling.sufficient(layered, refusal.layer, missing).waiting is not None
    assert narrow._ways(search, refusal).computing is not None


def test_no_image_waits_if_none_makes_enough_room() -> None:
    layered = legalized(side_by_side(8, 16, 32))
    number = len(layered.layers) // 2
    assert spilling.sufficient(layered, number, {number: 129}).waiting is None


def test_a_small_image_waits_where_little_room_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors fit, but not in any place; the largest image would make far more room than that."""
    layered = compacted(legalized(side_by_side(8, 128, flat=True)))
    assert layered is not None
    nbytes = max(narrow._search(layered).taken())
    layered = replace(layered, options=Options(narrow_bytes=nbytes))

    def allocated(
        lives: Sequence[Live], *, reserved: Sequence[int], nbytes: int
    ) -> Addresses | NoRoom:
        found = allocate_narrow(lives, reserved=reserved, nbytes=nbytes)
        if allocation._demand(lives, reserved) > nbytes - 16:
            return NoRoom(lives[-1].tensor, 0, nbytes)
        return found

    monkeypatch.setattr(narrow, "allocate_narrow", allocated)
    # In the order in which outputs leave early, no image has to wait.
    eased = narrow._in_order(layered)
    monkeypatch.setattr(narrow, "_eased", lambda search, refusal, times: refusal)
    other = narrow._in_order(layered)
    few, many = (
        [found.layered.type(x.writes).shape[2] for x in found.layered.layers if isinstance(x, Keep)]
        for found in (eased, other)
    )
    assert few == [8]
    assert 128 in many
    assert eased.cycles < other.cycles


def test_what_is_missing_is_what_strips_would_need() -> None:
    """Both layers can run in strips, so one lacks less than its whole image takes."""
    graph = chain(DType.INT8, (64, 64, 4))
    grow(graph, "conv_2d", 32, (1, 1))
    grow(graph, "conv_2d", 4, (1, 1))
    layered = legalized(graph)
    search = Search.of(Schedule.of(layered))
    wide = next(n for n, x in enumerate(layered.layers) if layered.type(x.writes).shape[3] == 32)
    taken = search.taken()[wide + 1]
    assert search.missing(wide, taken - 100)[wide] < 0
    refusal = search.choose(500, early=False)
    assert isinstance(refusal, NoStrips)
    assert search.missing(refusal.layer, 500)[refusal.layer] > 0


def test_what_is_missing_in_front_of_vectors_is_known() -> None:
    """Vectors have no rows to take in strips."""
    graph = chain(DType.INT8, (16, 16, 4))
    grow(graph, "conv_2d", 32, (1, 1))
    (image,) = graph.outputs
    shape = (graph.type(image).size,)
    flat = graph.type(image).with_shape(shape)
    vector = graph.emit("reshape", [image], flat, ReshapeAttributes(shape))
    other = graph.add_input("factors", flat)
    graph.outputs[:] = [graph.emit("mul", [vector, other], flat, ActivationAttributes())]
    layered = legalized(graph)
    search = Search.of(Schedule.of(layered))
    for number, taken in enumerate(search.taken()[1:]):
        assert search.missing(number, 0)[number] <= taken


# --- strips --------------------------------------------------------------------------------------


def joined() -> Graph:
    """An enlarged image beside the one that it was made of, in fewer channels again."""
    graph = chain(DType.INT8, (48, 48, 4))
    grow(graph, "conv_2d", 32, (1, 1))
    (skip,) = graph.outputs
    pool(graph, "max_pool_2d", (2, 2), (2, 2))
    grow(graph, "conv_2d", 32, (3, 3))
    grow(graph, "conv_2d", 32, (3, 3))
    (low,) = graph.outputs
    resize(graph, "resize_nearest_neighbor", (48, 48), Sampling.HALF_PIXEL)
    graph.outputs = [concatenate(graph, [skip, graph.outputs[0]], 3)]
    grow(graph, "conv_2d", 24, (1, 1))
    grow(graph, "conv_2d", 24, (3, 3))
    grow(graph, "conv_2d", 24, (3, 3), (2, 2))
    graph.outputs = [concatenate(graph, [graph.outputs[0], low], 3)]
    return graph


@pytest.mark.long
def test_results_lie_over_images_that_are_joined() -> None:
    graph, nbytes = joined(), 10000
    found = arrangement(graph, nbytes)
    assert not kinds(found)[Keep]
    (sharing,) = found.schedule.sharings
    readers = [x for x in found.layered.layers if sharing.source.name in x.reads]
    assert any(isinstance(x, Assembly) for x in readers)
    assert_exact(graph, nbytes)


def test_a_search_knows_the_windows_that_strips_gave_an_image() -> None:
    """Two convolutions read an image strip by strip, and compute what lies between again."""
    graph = chain(DType.INT8, (48, 48, 4))
    grow(graph, "conv_2d", 8, (1, 1))
    for channels in (64, 64, 4):
        grow(graph, "conv_2d", channels, (3, 3))
    layered = legalized(graph)
    search = Search.of(Schedule.of(layered))
    segments = search.choose(8000, early=False)
    assert isinstance(segments, list)
    tensors = Schedule.of(layered, segments).tensors
    wider = search.widened(tensors)
    assert wider is not None
    sizes = {live.tensor.name: live.tensor.nbytes for live in wider.lives}
    assert all(sizes[name] >= tensor.nbytes for name, tensor in tensors.items())
    assert sum(wider.taken()) > sum(search.taken())
    assert wider.widened(tensors) is None
