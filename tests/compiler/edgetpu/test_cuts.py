"""Cuts of a model for several chips, against every way to cut it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.support import corpus

from fitzroy.base.types import DType
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.targets.edgetpu.partition import cuts as module
from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS, Costs, parameter_bytes
from fitzroy.compiler.targets.edgetpu.partition.cuts import Cuts, Objective, cuts_of, worthwhile

CAPACITY = 30_000
REAL_CAPACITY = 500_000
SLOW_BUS = replace(COSTS, parameters=2.0, controller=2.0)


def branching(seed: int) -> Graph:
    """Two branches of convolutions that join, and one of their ends read again at the end."""
    chosen = random.Random(seed)
    graph = chain(DType.INT8, (12, 12, 16))
    (start,) = graph.outputs
    ends = []
    for _ in range(2):
        graph.outputs = [start]
        for _ in range(chosen.randint(0, 2)):
            grow(graph, "conv_2d", chosen.choice([16, 48, 96]), (3, 3))
        grow(graph, "conv_2d", 32, (3, 3))
        ends += graph.outputs
    join(graph, *ends)
    grow(graph, "conv_2d", 32, (3, 3))
    join(graph, graph.outputs[0], ends[0])
    return graph


def join(graph: Graph, left: str, right: str) -> None:
    graph.outputs = [graph.emit("add", [left, right], graph.type(left), ActivationAttributes())]


def found(graph: Graph, costs: Costs = COSTS, capacity: int = CAPACITY) -> Cuts:
    return cuts_of(graph, {node.name for node in graph.nodes()}, capacity, costs)


def every_way(graph: Graph, count: int) -> Iterator[list[list[Node]]]:
    """All ways to give nodes to chips so that none needs a result of a later chip."""
    nodes = graph.nodes()
    for chips in itertools.product(range(count), repeat=len(nodes)):
        if len(set(chips)) < count:
            continue
        chip = {node.name: number for node, number in zip(nodes, chips, strict=True)}
        if all(chip[source] <= chip[target] for source, target in edges(graph)):
            yield [[node for node in nodes if chip[node.name] == own] for own in range(count)]


def edges(graph: Graph) -> list[tuple[str, str]]:
    return [
        (producer.name, node.name)
        for node in graph.nodes()
        for name in node.inputs
        if name is not None and (producer := graph.producer(name)) is not None
    ]


def figures(
    graph: Graph, nodes: Sequence[Node], costs: Costs, capacity: int = CAPACITY
) -> tuple[float, float]:
    """Microseconds of a segment and of a controller for it, counted on its own graph."""
    part = graph.part(nodes)
    streamed = max(0, sum(parameter_bytes(graph, node) for node in nodes) - capacity)
    time = (
        costs.part
        + sum(costs.chip.time(graph, node) for node in nodes)
        + streamed / costs.parameters
    )
    time += sum(costs.take(graph, name) for name in part.inputs)
    time += sum(costs.give(graph, name) for name in part.outputs)
    moved = sum(graph.type(name).nbytes for name in (*part.inputs, *part.outputs))
    return time, (moved + streamed) / costs.controller


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("costs", [COSTS, SLOW_BUS], ids=["usb", "slow"])
@pytest.mark.parametrize("seed", range(3))
def test_no_other_way_is_better(seed: int, costs: Costs, count: int) -> None:
    graph = branching(seed)
    ways = [[figures(graph, part, costs) for part in way] for way in every_way(graph, count)]
    shortest = min(max(*(t for t, _ in way), sum(b for _, b in way)) for way in ways)
    fastest = min(sum(time for time, _ in way) for way in ways)
    cuts = found(graph, costs)
    assert cuts.exact
    often, fast = cuts.best(count), cuts.best(count, Objective.LATENCY)
    assert shortest * 0.9999 <= often.interval <= 1.02 * shortest
    assert fast.latency == pytest.approx(fastest)
    assert often.times == pytest.approx([figures(graph, part, costs)[0] for part in often.segments])
    assert often.bus == pytest.approx(
        sum(figures(graph, part, costs)[1] for part in often.segments)
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "count"),
    [
        # Four heads on one trunk; a pyramid of branches that join.
        ("posenet_mobilenet_v1_075_353_481_16_quant_decoder", 2),
        pytest.param(
            "posenet_mobilenet_v1_075_353_481_16_quant_decoder", 3, marks=pytest.mark.slow
        ),
        ("deeplabv3_mnv2_dm05_pascal_quant", 2),
    ],
)
def test_no_other_way_to_cut_a_real_model_is_better(name: str, count: int) -> None:
    graph = load(corpus() / f"coral/{name}.tflite")
    cuts = found(graph, capacity=REAL_CAPACITY)
    assert cuts.exact
    inner = [frozenset(names) for names in closed_sets(graph)]
    everything = frozenset(node.name for node in graph.nodes())
    assert len(inner) > len(everything), "there are branches"
    taken: dict[tuple[frozenset[str], frozenset[str]], tuple[float, float]] = {}

    def piece(begin: frozenset[str], end: frozenset[str]) -> tuple[float, float]:
        if (begin, end) not in taken:
            nodes = [node for node in graph.nodes() if node.name in end - begin]
            taken[begin, end] = figures(graph, nodes, COSTS, REAL_CAPACITY)
        return taken[begin, end]

    shortest = min(
        max(*(time for time, _ in parts), sum(bus for _, bus in parts))
        for way in itertools.combinations(sorted(inner, key=len), count - 1)
        for path in [[frozenset[str](), *way, everything]]
        if all(begin < end for begin, end in itertools.pairwise(path))
        for parts in [[piece(begin, end) for begin, end in itertools.pairwise(path)]]
    )
    assert shortest * 0.9999 <= cuts.best(count).interval <= 1.02 * shortest


def closed_sets(graph: Graph) -> set[frozenset[str]]:
    """All sets of nodes that need nothing from outside of them."""
    needs = {node.name: set[str]() for node in graph.nodes()}
    for source, target in edges(graph):
        needs[target].add(source)
    sets, fresh = {frozenset[str]()}, {frozenset[str]()}
    while fresh:
        fresh = {
            names | {name}
            for names in fresh
            for name, needed in needs.items()
            if name not in names and needed <= names
        } - sets
        sets |= fresh
    return sets


def test_segments_need_only_those_before() -> None:
    graph = branching(1)
    for count in (2, 3, 4):
        cut = found(graph).best(count)
        chip = {node.name: number for number, part in enumerate(cut.segments) for node in part}
        assert chip.keys() == {node.name for node in graph.nodes()}
        assert all(chip[source] <= chip[target] for source, target in edges(graph))


def test_too_many_cuts_leave_those_along_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = branching(2)
    exact = found(graph).best(2)
    monkeypatch.setattr(module, "MOST_CUTS", 3)
    ordered = found(graph).best(2)
    assert not ordered.exact
    assert ordered.interval >= exact.interval / 1.02
    names = [node.name for part in ordered.segments for node in part]
    assert names == [node.name for node in graph.nodes()]


def test_fewer_chips_if_more_do_not_pay() -> None:
    graph = chain(DType.INT8, (64, 64, 8))
    for _ in range(6):
        grow(graph, "conv_2d", 8, (1, 1))
    # An image takes far longer to move than to compute.
    assert len(worthwhile(found(graph).choose()).segments) == 1
    graph = chain(DType.INT8, (8, 8, 16))
    for _ in range(6):
        grow(graph, "conv_2d", 512, (3, 3))
    chosen = worthwhile(found(graph).choose())
    assert len(chosen.segments) > 1
    assert chosen.interval < chosen.whole
    assert chosen.parallel_interval >= chosen.whole_bus


@pytest.mark.parametrize(
    ("intervals", "wanted"),
    [
        ([100.0, 96.0, 94.0, 92.0], 1),
        ([100.0, 90.0, 88.0, 87.0], 2),
        # Only three chips have room for all parameters.
        ([100.0, 99.0, 10.0, 9.0], 4),
        ([100.0, 99.0, 10.0, 9.8], 3),
        ([100.0], 1),
    ],
)
def test_every_further_chip_has_to_pay(intervals: list[float], wanted: int) -> None:
    whole = found(branching(1)).best(1)
    cuts = [
        replace(whole, times=(time,) * count, bus=0.0) for count, time in enumerate(intervals, 1)
    ]
    assert len(worthwhile(cuts).times) == wanted


@pytest.mark.long
def test_a_long_model_takes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain(DType.INT8, (4, 4, 8))
    for _ in range(199):
        grow(graph, "conv_2d", 8, (1, 1))
    steps = list[int]()
    path = module._path

    def counted(table: module.Times, count: int, joined: np.ufunc) -> list[int] | None:
        steps.append(len(table))
        return path(table, count, joined)

    monkeypatch.setattr(module, "_path", counted)
    assert len(found(graph).choose()) == module.MOST_CHIPS
    assert set(steps) == {len(graph.nodes()) + 1}
    assert len(steps) <= 30 * module.MOST_CHIPS


def test_what_is_found_out_about_a_piece_corrects_all_others() -> None:
    possible = found(branching(1))
    cut = possible.best(2)
    first, second = cut.pieces
    refined = possible.refined({first: cut.times[0] / 2, second: cut.times[1]})
    again = refined.along(cut.path)
    assert again.times == pytest.approx((cut.times[0] / 2, cut.times[1]))
    # The whole model has the blocks of both.
    assert again.whole == pytest.approx(cut.whole - cut.times[0] / 2)
    assert possible.along(cut.path).times == cut.times


def test_what_is_known_of_the_whole_model_stays() -> None:
    possible = found(branching(1)).on_one_chip(5.0)
    cut = possible.best(2)
    refined = possible.refined({cut.pieces[0]: cut.times[0] / 2})
    assert refined.along(cut.path).whole == 5.0


def test_better_cuts_are_found_once_a_segment_is_known() -> None:
    possible = found(branching(2))
    cut = possible.best(2)
    refined = possible.refined({cut.pieces[-1]: 10 * cut.times[-1]})
    best = refined.best(2)
    assert best.path != cut.path
    assert best.interval < refined.along(cut.path).interval
