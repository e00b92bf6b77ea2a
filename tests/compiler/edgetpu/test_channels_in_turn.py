"""Channels that are computed in turn where borders of all do not fit; results are exact."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.compiler.edgetpu_models import Model, differences, findings, program, random_inputs

from fitzroy.base.types import Quantization
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.passes.rewritten import Rewritten
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.fitting.narrow import arranged
from fitzroy.compiler.targets.edgetpu.host.host_layers import Keep
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.lowerings.channels_in_turn import channels_in_turn
from fitzroy.compiler.targets.edgetpu.partition.divide import layers_of
from fitzroy.compiler.targets.edgetpu.program.lower import legalized

_EXTENT, _CHANNELS, _FEW = 16, 136, 8

_BYTES = 12_000
"""Narrow memory that holds the image and the result, but not with what windows of all read."""

_SMALL = replace(DEFAULT, narrow_bytes=_BYTES)


def convolved(
    model: Model,
    image: str,
    channels: int,
    op: str = "conv_2d",
    kernel: int = 1,
    dilation: int = 1,
) -> str:
    """A convolution that keeps the extent of its image."""
    unit, shape = model.unit(image), model.of(image).shape
    taps = kernel * kernel * (shape[3] if op == "conv_2d" else 1)
    filters = (channels, kernel, kernel, shape[3])
    if op != "conv_2d":
        filters = (1, kernel, kernel, channels)
    data, about = model.weights(filters, 0 if op == "conv_2d" else 3, taps)
    a = ConvAttributes(dilation=(dilation, dilation), padding=PaddingScheme.SAME)
    type = model.type((*shape[:3], channels), unit * about * math.sqrt(taps))
    return model.emit(op, [image, data, model.bias(channels, taps)], type, a)


def squeezed(*, excited: bool = True, read_whole: bool = False, seed: int = 1) -> Graph:
    """An inverted residual whose depthwise convolution reaches far.

    Args:
        excited: whether its channels get factors that a mean of the image decides on.
        read_whole: whether a convolution reads the image of all channels as well.
        seed: of weights and scales.
    """
    model = Model(seed)
    x = model.graph.add_input("x", model.type((1, _EXTENT, _EXTENT, _FEW), 0.05))
    wide = convolved(model, x, _CHANNELS)
    wide = model.emit("hardswish", [wide], model.type(model.of(wide).shape, model.unit(wide)))
    deep = convolved(model, wide, _CHANNELS, "depthwise_conv_2d", kernel=5, dilation=2)
    deep = model.emit("tanh", [deep], model.type(model.of(deep).shape, 1 / 128))
    if excited:
        mean = model.type((1, 1, 1, _CHANNELS), model.unit(deep) / 4)
        kept = ReductionAttributes((1, 2), keep_dims=True)
        factor = convolved(model, model.emit("mean", [deep], mean, kept), _CHANNELS)
        sigmoid = Quantization.per_tensor(1 / 256, model.dtype.limits[0])
        factor = model.emit("sigmoid", [factor], replace(mean, quantization=sigmoid))
        scaled = model.type(model.of(deep).shape, model.unit(deep))
        deep = model.emit("mul", [deep, factor], scaled, ActivationAttributes())
    model.graph.outputs.append(convolved(model, deep, _FEW))
    if read_whole:
        model.graph.outputs.append(convolved(model, wide, _FEW))
    verify(model.graph)
    return model.graph


@pytest.mark.parametrize("excited", [False, True])
@pytest.mark.parametrize("read_whole", [False, True])
def test_results_are_exact(excited: bool, read_whole: bool) -> None:
    graph = squeezed(excited=excited, read_whole=read_whole, seed=3)
    turns = channels_in_turn(graph, _BYTES)
    inputs = random_inputs(graph, 1)
    wanted, found = evaluate(graph, inputs), evaluate(turns.graph, inputs)
    assert all(np.array_equal(wanted[name], found[name]) for name in graph.outputs)
    package = program(graph, _SMALL)
    assert not differences(graph, package, seed=1)
    assert not findings(package)


def test_each_part_is_finished_but_for_what_needs_all_channels() -> None:
    graph = squeezed()
    turns = channels_in_turn(graph, _BYTES).graph
    depths = [
        turns.type(node.outputs[0]).shape[3]
        for node in turns.nodes()
        if node.op == "depthwise_conv_2d"
    ]
    assert sum(depths) == _CHANNELS
    assert len(depths) > 1
    assert max(depths) <= 64
    joined = [node for node in turns.nodes() if node.op == "concatenation"]
    assert [turns.type(node.outputs[0]).shape[1] for node in joined] == [1, _EXTENT]
    assert not any(
        node.op == "strided_slice" and _EXTENT in turns.type(node.inputs[0]).shape
        for node in turns.nodes()
        if node.inputs[0]
    )


def test_an_image_that_is_read_whole_is_made_whole() -> None:
    turns = channels_in_turn(squeezed(read_whole=True), _BYTES).graph
    (wide,) = (node for node in turns.nodes() if node.op == "hardswish")
    assert turns.type(wide.outputs[0]).shape[3] == _CHANNELS


def test_nothing_waits_with_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = squeezed()
    layers = arranged(legalized(graph, _SMALL)).layered.layers
    assert not any(isinstance(layer, Keep) for layer in layers)
    monkeypatch.setattr(
        "fitzroy.compiler.targets.edgetpu.program.lower.channels_in_turn",
        lambda graph, narrow_bytes: Rewritten(graph),
    )
    with pytest.raises(Refused, match="takes 19584 bytes of every tile"):
        arranged(legalized(graph, _SMALL))


def test_operators_belong_to_one_region_at_most() -> None:
    model = Model(5)
    x = model.graph.add_input("x", model.type((1, _EXTENT, _EXTENT, _FEW), 0.05))
    wide = convolved(model, x, _CHANNELS)
    one, other = (
        model.emit(op, [wide], model.type(model.of(wide).shape, 1 / 128))
        for op in ("tanh", "hardswish")
    )
    for image in (one, other):
        deep = convolved(model, image, _CHANNELS, "depthwise_conv_2d", kernel=5, dilation=2)
        model.graph.outputs.append(convolved(model, deep, _FEW))
    # The first image is read whole as well, so the first region ends in front of it. The second
    # region would reach it from above.
    model.graph.outputs.append(convolved(model, one, _FEW))
    verify(model.graph)
    turns = channels_in_turn(model.graph, _BYTES)
    assert sum(node.op == "depthwise_conv_2d" for node in turns.graph.nodes()) > 2
    inputs = random_inputs(model.graph, 1)
    wanted, found = evaluate(model.graph, inputs), evaluate(turns.graph, inputs)
    assert all(np.array_equal(wanted[name], found[name]) for name in model.graph.outputs)


@pytest.mark.parametrize("nbytes", [1_000, 30_000])
def test_graphs_stay_as_they_are_if_borders_fit_or_images_do_not(nbytes: int) -> None:
    graph = squeezed()
    assert channels_in_turn(graph, nbytes).graph is graph


def test_reports_name_the_operators_of_the_model() -> None:
    graph = squeezed()
    names = {node.name for node in graph.nodes()}
    turns = channels_in_turn(graph, _BYTES)
    assert set(turns.origins.values()) <= names
    assert {node.name for node in turns.graph.nodes()} <= names | turns.origins.keys()
    layers = layers_of(graph, _SMALL)
    assert all(layers[node.name] for node in graph.nodes())
