"""Source models of the corpus, compiled for the Edge TPU and run on the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.edgetpu_compiler import (
    MOST_BYTES,
    compile_apart,
    geometric_mean,
    measured,
    quantized,
    ratios,
)
from benchmarks.support import INT8_MODEL, read_results
from tests.compiler.edgetpu_models import findings
from tests.support import corpus, corpus_params, corpus_path

from fitzroy.compilation.edgetpu import compile_edgetpu

pytestmark = pytest.mark.corpus

SOURCES = "**/*.tflite"
CUSTOM_ONLY = "model_invoking_error"


def sources() -> list[object]:
    """Source models; some always run."""
    return [
        param
        for param in corpus_params(SOURCES, quick=14, seed=2)
        if "edgetpu" not in param.values[0].stem  # type: ignore[attr-defined]
    ]


@pytest.mark.long
@pytest.mark.parametrize("path", sources())
def test_outputs_equal_the_reference(path: Path) -> None:
    if not quantized(path):
        pytest.skip("no model of 8 bits")
    if path.stem == CUSTOM_ONLY:
        pytest.skip("its only operator is a custom one")
    entry = measured(path, seeds=(0,), costs=False)
    print(entry)
    assert not entry.failure
    assert not entry.faults
    assert entry.bytes > 0
    assert (entry.differing, entry.largest) == (0, 0)
    # Whatever stays on the host has a reason.
    assert sum(entry.reasons.values()) >= entry.operators - entry.mapped


@pytest.mark.long
@pytest.mark.parametrize("path", sources())
def test_programs_are_synchronized(path: Path) -> None:
    if not quantized(path) or path.stem == CUSTOM_ONLY:
        pytest.skip("nothing to map")
    for part in compile_edgetpu(path).segments:
        assert findings(part.package) == ()


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "coral/split_concat.tflite",
        "templates/looming_64x64_3x3.tflite",
        "coral/mobilenet_v1_0.25_128_quant.tflite",
        pytest.param(INT8_MODEL, marks=pytest.mark.slow),
    ],
)
def test_equal_models_give_equal_bytes(name: str) -> None:
    runs = [compile_apart(corpus() / name, seed) for seed in ("1", "2")]
    digests = {run["digest"] for run in runs}
    assert len(digests) == 1
    # Each process compiles twice and would give two digests if these differed.
    assert len(str(digests.pop()).split()) == 1


@pytest.mark.slow
def test_memory_of_a_compilation() -> None:
    assert float(compile_apart(corpus() / INT8_MODEL)["peak"]) < MOST_BYTES


def test_published_figures() -> None:
    results = read_results("edgetpu_compiler")
    models = results["models"]
    names = {
        str(path.relative_to(corpus_path()).with_suffix(""))
        for path in corpus().glob(SOURCES)
        if "edgetpu" not in path.stem and quantized(path)
    }
    assert {entry["model"] for entry in models} == names
    assert [entry["model"] for entry in models if entry["differing"] or entry["faults"]] == []
    assert [entry["model"] for entry in models if entry["failure"]] in (
        [],
        [f"coral/{CUSTOM_ONLY}"],
    )
    assert results["random"]["models"] >= 2000
    assert results["random"]["failures"] == []
    assert results["mean"] <= results["bounds"]["mean"]
    assert max(results["ratios"].values()) <= results["bounds"]["most"]
    assert results["inferences"]["USB 3"]["most"] <= results["bounds"]["most"]


def test_geometric_mean() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1)
    assert np.isnan(geometric_mean([]))
    assert ratios([], lambda costs: costs.cycles) == {}
