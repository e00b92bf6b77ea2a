"""Which operators go to the chip, how many parts they make, and where models are cut."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace
from random import Random

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow, image
from tests.compiler.edgetpu_models import random_model

from fitzroy.base.errors import UsageError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ir.flow import Edge, source_side
from fitzroy.compiler.ops.definition import Reject
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.partition import Decided, partition
from fitzroy.compiler.targets.edgetpu.partition.costs import (
    COSTS,
    Costs,
    Sides,
    gain,
    profitable,
)
from fitzroy.compiler.targets.edgetpu.partition.cuts import cuts_of
from fitzroy.compiler.targets.edgetpu.partition.divide import consecutive, divide
from fitzroy.compiler.targets.edgetpu.partition.rules import NAME

I8 = DType.INT8
F32 = DType.FLOAT32


# --- graphs --------------------------------------------------------------------------------------


def on_host(graph: Graph) -> None:
    """Append an operator on floating-point numbers, which the chip does not have: it has jumps."""
    (x,) = graph.outputs
    type = graph.type(x)
    real = TensorType(type.shape, F32)
    y = graph.emit("dequantize", [x], real)
    y = graph.emit("floor", [y], real)
    graph.outputs = [graph.emit("quantize", [y], type)]


def rescale(graph: Graph) -> None:
    """Append a rescaling, which is cheap anywhere."""
    (x,) = graph.outputs
    graph.outputs = [graph.emit("quantize", [x], image(graph.type(x).shape, graph.type(x).dtype))]


def convolutions(graph: Graph, count: int, channels: int = 64) -> None:
    """Append operators that the chip had better compute."""
    for _ in range(count):
        grow(graph, "conv_2d", channels, (3, 3))


def where(graph: Graph, costs: Costs | None) -> list[tuple[str, list[str]]]:
    """Targets of the groups and the operators in them."""
    return [
        (placement.target, [node.op for node in placement.nodes])
        for placement in divide(graph, costs=costs)[1]
    ]


# --- chip or host --------------------------------------------------------------------------------


def test_a_model_that_can_be_mapped_is_mapped() -> None:
    graph = chain(I8, (200, 200, 3))
    rescale(graph)
    assert where(graph, COSTS) == [(NAME, ["quantize"])]


def test_a_cheap_operator_between_two_of_the_host_stays_there() -> None:
    graph = chain(I8, (24, 24, 16))
    convolutions(graph, 3)
    on_host(graph)
    rescale(graph)
    on_host(graph)
    everything = where(graph, None)
    assert [target for target, _ in everything] == [NAME, "host", NAME, "host"]
    chosen = where(graph, COSTS)
    assert [target for target, _ in chosen] == [NAME, "host"]
    assert chosen[0][1] == ["conv_2d"] * 3
    reasons = [
        reject
        for placement in divide(graph, costs=COSTS)[1]
        for reject in placement.rejects
        if reject.code == "edgetpu-transfers"
    ]
    assert reasons
    assert all("cost more than it saves" in reason.what for reason in reasons)
    assert all("--partition all" in reason.hint for reason in reasons)


def test_a_part_of_its_own_must_pay() -> None:
    def model(layers: int, channels: int) -> Graph:
        graph = chain(I8, (16, 16, 32))
        convolutions(graph, 4)
        on_host(graph)
        convolutions(graph, layers, channels)
        return graph

    assert [target for target, _ in where(model(1, 4), COSTS)] == [NAME, "host"]
    assert [target for target, _ in where(model(3, 128), COSTS)] == [NAME, "host", NAME]


def test_what_joins_results_of_the_host_stays_there() -> None:
    graph = chain(I8, (24, 24, 16))
    convolutions(graph, 2)
    (x,) = graph.outputs
    ends = []
    for _ in range(2):
        graph.outputs = [x]
        on_host(graph)
        ends += graph.outputs
    graph.outputs = [graph.emit("add", ends, graph.type(ends[0]), ActivationAttributes())]
    assert [target for target, _ in where(graph, None)] == [NAME, "host", NAME]
    assert [target for target, _ in where(graph, COSTS)] == [NAME, "host"]


def test_one_part_stays_however_little_it_saves() -> None:
    graph = chain(I8, (4, 4, 4))
    on_host(graph)
    rescale(graph)
    on_host(graph)
    assert NAME in [target for target, _ in where(graph, COSTS)]


@pytest.mark.parametrize("seed", range(12))
def test_costs_only_take_away(seed: int) -> None:
    graph = random_model(seed)
    everything = {node.name for part in divide(graph)[0] for node in part.nodes}
    chosen = {node.name for part in divide(graph, costs=COSTS)[0] for node in part.nodes}
    assert chosen <= everything
    if len(everything) == len(graph.nodes()):
        assert chosen == everything
    again = divide(graph, costs=COSTS)[1]
    assert [p.nodes for p in again] == [p.nodes for p in divide(graph, costs=COSTS)[1]]


def test_gains_are_what_is_saved_without_transfers() -> None:
    graph = chain(I8, (8, 8, 8))
    on_host(graph)
    convolutions(graph, 1)
    on_host(graph)
    (node,) = [node for node in graph.nodes() if node.op == "conv_2d"]
    moved = COSTS.take(graph, node.inputs[0] or "") + COSTS.give(graph, node.outputs[0])
    saved = COSTS.host.time(graph, node) - COSTS.chip.time(graph, node)
    assert gain(graph, [node], COSTS) == pytest.approx(saved - moved - COSTS.part)
    free = replace(COSTS, into=1e9, out=1e9, tensor=0)
    assert profitable(graph, {node.name}, free) == {node.name}


def crossing(graph: Graph, on_chip: Collection[str]) -> float:
    """Microseconds of operators and of what crosses, every further part being free."""
    total = 0.0
    for node in graph.nodes():
        inside = node.name in on_chip
        total += (COSTS.chip if inside else COSTS.host).time(graph, node)
        for name in node.outputs:
            others = {(reader.name in on_chip) != inside for reader in graph.consumers(name)}
            if True in others:
                total += (COSTS.give if inside else COSTS.take)(graph, name)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_no_division_is_cheaper(seed: int) -> None:
    """All divisions of a few operators, some of which are the host's and keep others apart."""
    graph, random = chain(I8, (16, 16, 32)), Random(seed)
    convolutions(graph, 1, 8)
    values = list(graph.outputs)
    for _ in range(8):
        operands = [random.choice(values) for _ in range(2)]
        type = graph.type(operands[0])
        values.append(graph.emit("add", operands, type, ActivationAttributes()))
    graph.outputs = values[1:]
    names = [node.name for node in graph.nodes()]
    mappable = [name for name in names if random.random() < 0.7]
    chosen = profitable(graph, mappable, COSTS)
    least = min(
        crossing(graph, {name for name, bit in zip(mappable, bits, strict=True) if bit})
        for bits in itertools.product((0, 1), repeat=len(mappable))
    )
    assert crossing(graph, chosen) == pytest.approx(least, abs=0.01)


def test_groups_keep_their_cuts_when_a_model_is_divided_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, asked = chain(I8, (16, 16, 32)), list[int]()
    for _ in range(5):
        convolutions(graph, 2, 8)
        on_host(graph)
    mappable = [node.name for node in graph.nodes() if node.op == "conv_2d"]

    def counted(edges: Iterable[Edge], source: Hashable, target: Hashable) -> set[Hashable]:
        asked.append(1)
        return source_side(edges, source, target)

    monkeypatch.setattr("fitzroy.compiler.targets.edgetpu.partition.costs.source_side", counted)
    known: Sides = {}
    profitable(graph, mappable, COSTS, known)
    assert len(asked) == 5
    fewer = mappable[:4] + mappable[5:]
    assert profitable(graph, fewer, COSTS, known) == profitable(graph, fewer, COSTS)
    assert len(asked) == 5 + 1 + 5


# --- groups --------------------------------------------------------------------------------------


_NO = Reject("no", "no")


def by_name(graph: Graph, letter: str) -> Decided:
    others = (node.name for node in graph.nodes() if node.name[0] != letter)
    return Decided(letter, dict.fromkeys(others, (_NO,)))


def test_independent_ways_share_a_group() -> None:
    # a: chip to host; b: host to chip. One group on the chip will do for both.
    type = TensorType((1, 4), F32)
    graph = Graph("ways")
    x = graph.add_input("x", type)
    first = graph.emit("abs", [x], type, stem="c1")
    one = graph.emit("abs", [first], type, stem="h1")
    second = graph.emit("abs", [x], type, stem="h2")
    other = graph.emit("abs", [second], type, stem="c2")
    graph.outputs = [one, other]
    found = partition(graph, (by_name(graph, "c"), by_name(graph, "h")))
    assert [placement.target for placement in found] == ["h", "c", "h"]


def test_what_is_read_late_runs_late() -> None:
    type = TensorType((1, 4), F32)
    graph = Graph("late")
    x = graph.add_input("x", type)
    early = graph.emit("abs", [x], type, stem="c1")
    host = graph.emit("abs", [early], type, stem="h1")
    side = graph.emit("abs", [x], type, stem="c2")
    joined = graph.emit("add", [host, side], type, ActivationAttributes(), stem="c3")
    graph.outputs = [joined]
    found = partition(graph, (by_name(graph, "c"), by_name(graph, "h")))
    assert [len(placement.nodes) for placement in found] == [1, 1, 2]


# --- consecutive segments ------------------------------------------------------------------------


def test_segments_follow_one_another() -> None:
    graph = chain(I8, (32, 32, 8))
    convolutions(graph, 7, 16)
    parts = consecutive(graph, 3)
    assert [node.name for part in parts for node in part.nodes] == [
        node.name for node in graph.nodes()
    ]
    for before, after in itertools.pairwise(parts):
        assert before.graph.outputs == after.graph.inputs
    assert parts[0].graph.inputs == graph.inputs
    assert parts[-1].graph.outputs == graph.outputs


def test_parameters_that_would_be_streamed_count() -> None:
    graph = chain(I8, (8, 8, 64))
    convolutions(graph, 4)
    convolutions(graph, 1, 256)
    nodes = {node.name for node in graph.nodes()}
    roomy = cuts_of(graph, nodes, 1 << 30).best(2).segments
    tight = cuts_of(graph, nodes, 160_000).best(2).segments
    held = [sum(graph.type(n.inputs[1] or "").nbytes for n in part) for part in tight]
    assert max(held) <= 200_000
    assert len(roomy) == len(tight) == 2


def test_residual_blocks_are_not_cut() -> None:
    graph = chain(I8, (32, 32, 16))
    convolutions(graph, 2, 16)
    (skip,) = graph.outputs
    convolutions(graph, 2, 16)
    (x,) = graph.outputs
    graph.outputs = [graph.emit("add", [x, skip], graph.type(x), ActivationAttributes())]
    convolutions(graph, 2, 16)
    dear = replace(COSTS, tensor=1e6)
    names = {node.name for node in graph.nodes()}
    for part in cuts_of(graph, names, 1 << 30, dear).best(3).segments[1:]:
        first = part[0]
        crossing = {
            name
            for node in graph.nodes()
            for name in node.outputs
            if graph.producer(name) not in part
            and any(reader in part for reader in graph.consumers(name))
        }
        assert len(crossing) == 1, first


def test_too_many_segments() -> None:
    graph = chain(I8, (8, 8, 8))
    convolutions(graph, 2, 8)
    with pytest.raises(UsageError, match="3 segments of a model with 2 operators"):
        consecutive(graph, 3)
