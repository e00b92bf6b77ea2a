"""How convolutions stage their weights: a share of the cycles goes to published forms."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from tests.compiler.edgetpu_models import differences, findings

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.targets.edgetpu.fitting import staging, wide
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Step
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution, Staging
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.linker.packages.darwinn import link
from fitzroy.report.forms import forms_of

CHANNELS = (256, 384, 96, 512, 128)


def pointwise_chain() -> Graph:
    """Convolutions of few positions, where many slots of few weights are fastest."""
    rng = np.random.default_rng(7)
    graph = Graph("chain")
    quantization = Quantization.per_tensor(0.04, 3)
    name = graph.add_input("x", TensorType((1, 14, 14, CHANNELS[0]), DType.INT8, quantization))
    for before, after in pairwise(CHANNELS):
        data = rng.integers(-127, 127, (after, 1, 1, before), np.int8, endpoint=True)
        scales = tuple(float(s) for s in rng.uniform(4e-4, 8e-4, after).astype(np.float32))
        weights = graph.add_constant("w", data, Quantization(scales, (0,) * after, 0))
        biases = graph.add_constant(
            "b", rng.integers(-3000, 3000, after, np.int32), Quantization((1.0,), (0,))
        )
        name = graph.emit(
            "conv_2d",
            [name, weights, biases],
            TensorType((1, 14, 14, after), DType.INT8, quantization),
            ConvAttributes((1, 1), (1, 1), PaddingScheme.SAME, Activation.NONE),
        )
    graph.outputs = [name]
    return graph


@contextmanager
def spending(cost: float) -> Iterator[list[Step]]:
    """Another share of the cycles for published forms; the steps of the last program."""
    steps: list[Step] = []

    def choose(
        own: Sequence[Step],
        _: float,
        cycles: float,
        top: int,
        room: int,
        flowing: Collection[Layer],
    ) -> dict[Layer, Layer]:
        chosen = staging.choose_staging(own, cost, cycles, top, room, flowing)
        steps[:] = [replace(step, layer=chosen.get(step.layer, step.layer)) for step in own]
        return chosen

    with patch.object(wide, "choose_staging", choose):
        yield steps


def layers(steps: list[Step]) -> list[tuple[Convolution, Step]]:
    return [(step.layer, step) for step in steps if isinstance(step.layer, Convolution)]


def novel(steps: list[Step]) -> int:
    """Instructions of convolutions whose form is not published."""
    return sum(
        form(item) not in published()
        for layer, step in layers(steps)
        for item in layer.consumers(step.tensors, 2079)
    )


def cycles(steps: list[Step]) -> float:
    return sum(layer.blocking(step.result).cycles for layer, step in layers(steps))


def test_what_is_counted_once_holds_wherever_tensors_lie() -> None:
    with spending(0.0) as steps:
        lower(pointwise_chain())
    found = layers(steps)
    assert novel(steps) == sum(layer.novel(step.tensors, 2079) for layer, step in found)
    for layer, step in found:
        images = [step.tensors[name] for name in (*layer.reads, layer.writes)]
        moved = {image.name: replace(image, base=image.base + 4096) for image in images}
        here, there = (layer.consumers(tensors, 2079) for tensors in (step.tensors, moved))
        assert here != there
        assert [*map(form, here)] == [*map(form, there)]


@pytest.mark.parametrize("cost", [0.0, 0.03, 0.2, math.inf])
def test_the_share_of_cycles_is_kept(cost: float) -> None:
    graph = pointwise_chain()
    with spending(0.0) as steps:
        lower(graph)
        fastest, most = cycles(steps), novel(steps)
    with spending(cost) as steps:
        lower(graph)
        assert cycles(steps) <= fastest * (1 + cost)
        assert novel(steps) <= most
        if cost == math.inf:
            assert novel(steps) < most
            assert all(layer.staging is not Staging.MANY for layer, _ in layers(steps))


def test_weights_of_all_channels_leave_room_for_parameters() -> None:
    """Where parameters fill wide memory, no more rows are taken for data."""
    graph = pointwise_chain()
    with spending(math.inf) as steps:
        lower(graph, Options(parameter_rows=600))
        assert all(layer.staging is not Staging.WHOLE for layer, _ in layers(steps))


@pytest.mark.long
@pytest.mark.parametrize("options", [DEFAULT, Options(conservative=True)])
@pytest.mark.parametrize("way", list(Staging))
def test_every_way_gives_the_same_bytes(options: Options, way: Staging) -> None:
    graph = pointwise_chain()

    def choose(steps: list[Step], *_: object) -> dict[Layer, Layer]:
        return {layer: replace(layer, staging=way) for layer, _step in layers(steps)}

    with patch.object(wide, "choose_staging", choose):
        (package,) = link([lower(graph, options)])
    assert not differences(graph, package, 3)
    assert not findings(package)


def test_conservative_programs_have_at_least_as_many_published_forms() -> None:
    graph = pointwise_chain()
    usual, conservative = (
        forms_of(list(link([lower(graph, options)])))
        for options in (DEFAULT, Options(conservative=True))
    )
    assert (
        conservative.known_instructions / conservative.instructions
        >= usual.known_instructions / usual.instructions
    )
