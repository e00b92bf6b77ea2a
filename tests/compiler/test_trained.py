"""What the benchmarks of trained detectors judge by, and how they quantize parts of a model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from benchmarks.floors import with_activations, with_weights
from benchmarks.text_lines import edits, read, regions
from tests.compiler import detectors
from tests.compiler.test_heads import listed

import fitzroy
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.quantization.comparison import real_output, stored_input
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model

Floats = npt.NDArray[np.float32]


@pytest.mark.parametrize(
    ("one", "other", "least"),
    [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("abc", "axc", 1), ("abcd", "bcde", 2)],
)
def test_edits(one: str, other: str, least: int) -> None:
    first, second = ([ord(letter) for letter in text] for text in (one, other))
    assert edits(first, second) == edits(second, first) == least


def test_characters_of_a_line() -> None:
    """Repeated ones count once, unless none stands between them."""
    columns = [0, 3, 3, 0, 3, 5, 5, 0, 0, 1]
    assert read(np.eye(6, dtype=np.float32)[columns]) == [3, 3, 5, 1]
    assert read(np.eye(6, dtype=np.float32)[[0, 0]]) == []


def test_regions_of_a_map() -> None:
    """Those that are sure and large enough, as boxes with their mean."""
    pytest.importorskip("scipy")
    image = np.zeros((1, 20, 30, 1), np.float32)
    image[0, 2:8, 4:15] = 0.75
    image[0, 12:18, 4:15] = 0.4
    image[0, 12:14, 20:28] = 0.9
    np.testing.assert_array_equal(regions(image), [[4, 2, 15, 8, 0.75, 0]])
    np.testing.assert_array_equal(regions(image.transpose(0, 3, 1, 2)), regions(image))
    assert regions(np.zeros_like(image)).shape == (0, 6)


def test_parts_of_a_model_lose_a_part() -> None:
    """Weights or activations alone are nearer to float32 than both, and neither is exact."""
    graph = listed(detectors.dfl())
    samples = [
        {"image": np.random.default_rng(seed).random((1, 64, 64, 3), np.float32)}
        for seed in range(4)
    ]
    result = quantize_model(graph, samples, QuantizeOptions(correct_bias=False))
    (node,) = (node for node in graph.nodes() if node.op == "detections")
    boxes = str(node.inputs[0])

    exact = [fitzroy.evaluate(graph.cut([boxes]), sample)[boxes] for sample in samples]

    def off(changed: Graph) -> float:
        (name,) = changed.inputs
        type, total = changed.type(boxes), 0.0
        for sample, wanted in zip(samples, exact, strict=True):
            given = {name: stored_input(sample["image"], changed.type(name))}
            found = real_output(fitzroy.evaluate(changed.cut([boxes]), given)[boxes], type)
            total += float(np.square(found - wanted).sum())
        return total

    alone = [off(part(result)) for part in (with_weights, with_activations)]
    both = off(result.graph)
    assert min(alone) > 0
    assert max(alone) < 1.5 * both
    assert both < 3 * sum(alone)
