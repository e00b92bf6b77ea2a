"""Activations with outliers, computed in parts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors

import fitzroy
from fitzroy.base.errors import UsageError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.shape import PadAttributes
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import features, with_detections
from fitzroy.compiler.quantization import parts as apart
from fitzroy.compiler.quantization.comparison import compare
from fitzroy.compiler.quantization.functions import ANY_TABLE, FunctionUnit
from fitzroy.compiler.quantization.options import MOST_PARTS, QuantizeOptions, RangeMethod
from fitzroy.compiler.quantization.parts import Parts, _first_layers, outliers, with_parts
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.quantization.ranges import UNSEEN
from fitzroy.compiler.quantization.statistics import collect
from fitzroy.compiler.targets.edgetpu.function_unit import FUNCTIONS

Floats = npt.NDArray[np.float32]


def image(seed: int) -> Floats:
    """Dark pixels, and a few very bright ones."""
    random = np.random.default_rng(seed)
    found = random.random((1, detectors.SIDE, detectors.SIDE, 3), np.float32)
    found[random.random(found.shape) > 0.02] *= 0.02
    return found


def network(*, padded: bool = False, added: bool = False, border: float = 0.0) -> tuple[Graph, str]:
    """Two convolutions with a SiLU in between whose largest elements are far out; and its name."""
    m = detectors.Maker()
    bright = m.layer(m.binary("mul", m.image, 60), 8)
    name = m.binary("mul", bright, m.sigmoid(bright))
    read = name
    if padded:
        _, height, width, depth = m.shape(name)
        shape = (1, height + 2, width + 2, depth)
        read = m.emit("pad", [name], shape, PadAttributes((0, 1, 1, 0), (0, 1, 1, 0), border))
    result = m.layer(read, 4)
    if added:
        result = m.binary("add", result, m.layer(m.binary("mul", name, 2), 4))
    return m.done(result), name


def samples(count: int = 4) -> list[dict[str, Floats]]:
    return [{"image": image(seed)} for seed in range(count)]


@pytest.mark.parametrize("padded", [False, True])
def test_parts_add_up_to_the_whole(padded: bool) -> None:
    """Channels have as many parts as they need."""
    graph, name = network(padded=padded)
    high = collect(graph, samples())[name].high
    bound = 1.01 * float(high.max()) / 3
    counts = np.maximum(np.ceil(1.001 * high / bound), 1).astype(int).tolist()
    assert len({*counts}) > 1
    made = with_parts(graph, [Parts(name, tuple(counts), bound)])
    divided = made.graph
    assert [divided.type(result).shape[3] for result in made.above] == [sum(counts) - 8]
    given = {"image": image(0)}
    (first,), (second,) = (fitzroy.evaluate(x, given).values() for x in (graph, divided))
    np.testing.assert_allclose(second, first, rtol=1e-4, atol=1e-3 * np.abs(first).max())
    reader = divided.producer(divided.outputs[0])
    assert reader is not None
    assert divided.type(str(reader.inputs[1])).shape[3] == sum(counts)


def test_noise_is_less_in_parts() -> None:
    """Each part has steps of a fraction; no clamp is left, which no file could hold."""
    graph, _ = network()
    decibels = {}
    for parts in (1, 4):
        options = QuantizeOptions(parts=parts)
        result = quantize_model(graph, samples(), options)
        assert not any(node.op == "clamp" for node in result.graph.nodes())
        differences = compare(graph, result.graph, samples(8)[4:]).outputs
        (decibels[parts],) = (found.decibels for found in differences.values())
    assert decibels[4] > decibels[1] + 1


def test_parts_meet_at_their_bound() -> None:
    """However rare elements near the bound are, the range of the part below ends there."""
    graph, _ = network()
    (divided,) = outliers(graph, collect(graph, samples()), 4)
    options = QuantizeOptions(ranges=RangeMethod.PERCENTILE, percentile=99, parts=4)
    made = quantize_model(graph, samples(), options)
    (low,) = with_parts(graph, [divided]).bounded
    found = made.scheme.quantizations[low]
    step = found.scale[0]
    assert (127 - found.zero_point[0]) * step == pytest.approx(divided.bound, abs=step)


def test_what_is_taken_apart() -> None:
    """A SiLU that only convolutions read, if some channels have outliers."""
    graph, name = network()
    known = collect(graph, samples())
    (found,) = outliers(graph, known, 4)
    assert found.name == name
    assert max(found.counts) == 4 > min(found.counts)
    assert all(found.bound * np.array(found.counts) > known[name].high)
    assert not outliers(graph, known, 1)
    assert not outliers(graph, known, 4, {name})
    other, _ = network(added=True)
    assert not outliers(other, collect(other, samples()), 4)
    other, _ = network(padded=True, border=1.0)
    assert not outliers(other, collect(other, samples()), 4)
    dim = {key: found.divided(np.full(1, 100, np.float32)) for key, found in known.items()}
    assert not outliers(graph, dim, 4)


def test_parts_keep_to_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where their weights find no room, activations stay whole."""
    graph, _ = network()
    known = collect(graph, samples())
    (found,) = outliers(graph, known, 4)
    (first, second) = (node for node in graph.nodes() if node.op == "conv_2d")
    sizes = [graph.type(str(node.inputs[1])).size for node in (first, second)]
    added = (sum(found.counts) - 8) * sum(sizes) // 8
    for room, fits in ((added, True), (added - 1, False)):
        monkeypatch.setattr(apart, "_MEMORY", sum(sizes) + room)
        assert bool(outliers(graph, known, 4)) == fits


@pytest.mark.parametrize("branching", [False, True])
def test_images_in_parts_find_room(branching: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less of it once other images wait, which they do from the first branch on."""
    graph, name = network()
    known = collect(graph, samples())
    (found,) = outliers(graph, known, 4)
    _, height, width, _ = graph.type(name).shape
    limit = "MOST_ELEMENTS"
    if branching:
        monkeypatch.setattr(apart, "_first_layers", lambda graph: set[str]())
        limit = "_LATER"
    for elements, fits in ((sum(found.counts), True), (8, False)):
        monkeypatch.setattr(apart, limit, elements * height * width)
        assert bool(outliers(graph, known, 4)) == fits
    assert name in _first_layers(graph)
    added, _ = network(added=True)
    assert not set(added.outputs) & _first_layers(added)


@pytest.mark.parametrize("parts", [0, MOST_PARTS + 1])
def test_other_numbers_of_parts_are_refused(parts: int) -> None:
    with pytest.raises(UsageError, match=f"1 to {MOST_PARTS}"):
        QuantizeOptions(parts=parts).check()


def test_nothing_of_rare_values_is_cut_off() -> None:
    """Their largest elements are within the range, by whatever method others are found."""
    graph, name = network()
    options = QuantizeOptions(ranges=RangeMethod.PERCENTILE, percentile=99, equalize=False, parts=1)
    ends = []
    for rare in ((), (name,)):
        result = quantize_model(graph, samples(), options, rare=rare)
        found = result.scheme.quantizations[name]
        ends.append((127 - found.zero_point[0]) * found.scale[0])
    reach = collect(graph, samples())[name].extrema[1]
    assert ends[0] < 0.9 * reach
    assert ends[1] >= 0.98 * reach


@pytest.mark.parametrize("unit", [ANY_TABLE, FUNCTIONS])
def test_ranges_of_rare_values_go_further_than_samples(unit: FunctionUnit) -> None:
    """Other pictures have objects with larger features; where sums were rounded, steps count."""
    graph, name = network()
    options = QuantizeOptions(equalize=False, parts=1, tables=True)
    reach = collect(graph, samples())[name].extrema[1]
    result = quantize_model(graph, samples(), options, rare=(name,), unit=unit)
    found = result.scheme.quantizations[name]
    wanted = UNSEEN if unit is FUNCTIONS else 1.0
    assert (127 - found.zero_point[0]) * found.scale[0] == pytest.approx(wanted * reach, rel=0.02)


def test_features_of_objects_follow_coarse_images() -> None:
    """All that is computed of an eighth of the resolution or less; nothing without objects."""
    graph = with_detections(detectors.dfl(), HeadOptions(True))
    found = features(graph, HeadOptions(True))
    assert {name for node in graph.nodes() for name in node.outputs} == found
    assert not features(graph, HeadOptions())
    fine, name = network()
    assert name not in features(fine, HeadOptions(True))
