"""Real models, compiled and run on the real runtime, against everything else that runs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from benchmarks.conformance import CLASSIFIERS, Difference, compare, explanation, policies
from benchmarks.support import (
    INT8_MODEL,
    LiteRT,
    as_tflite,
    image_inputs,
    random_inputs,
    without_custom,
)
from tests.support import corpus, corpus_models, corpus_path, need_executorch, need_litert

import fitzroy
from fitzroy.driver.runtime import ExecuTorchRuntime

pytestmark = [pytest.mark.corpus, pytest.mark.runtime]

# Largest difference from LiteRT in LSB; 0 for every model and policy that is not listed. Why they
# differ: benchmarks/conformance.py.
BOUNDS: dict[tuple[str, str], float] = {
    ("coral/deeplabv3_mnv2_dm05_pascal_quant", "fast"): 16,
    ("coral/keras_lstm_mnist_ptq", "exact"): 4,
    ("coral/keras_lstm_mnist_ptq", "fast"): 4,
    ("coral/mobilenet_v1_0.25_128_quant", "exact"): 8,
    ("coral/mobilenet_v1_0.25_128_quant", "fast"): 22,
    ("coral/mobilenet_v1_0.5_160_quant", "fast"): 16,
    ("coral/mobilenet_v1_1.0_224_quant_embedding_extractor", "fast"): 9,
    ("coral/mobilenet_v2_1.0_224_quant", "fast"): 23,
    ("coral/traffic_model", "exact"): 2,
    ("coral/traffic_model", "fast"): 13,
    ("layers/model_padding_stride_2x2x3", "fast"): 1,
    ("layers/model_stride_128x128x3", "fast"): 1,
    ("layers/model_stride_128x64x3", "fast"): 1,
    ("layers/model_stride_256x512x3", "fast"): 1,
    ("layers/model_stride_2x2x3", "fast"): 1,
    ("layers/model_stride_512x256x3", "fast"): 1,
    ("templates/gabor_64x64_p4", "exact"): 1,
    ("templates/gabor_64x64_p4", "fast"): 1,
}

NOTHING_LEFT = ("coral/model_invoking_error",)

LONG = (
    "bodypix",
    "deeplab",
    "embedding_extractor",
    "mobilenet_v2_1.0_224_quant",
    "model_conv_128x128x3x32x7x10",
    "model_mat_Add",
    "model_mobilenet_v2_w_fc",
    "posenet",
    "traffic",
)


def model_name(path: Path) -> str:
    return str(path.relative_to(corpus_path()).with_suffix(""))


def params() -> Sequence[object]:
    found = [
        pytest.param(
            path,
            id=model_name(path),
            marks=[pytest.mark.slow] if any(part in path.stem for part in LONG) else [],
        )
        for path in corpus_models()
        if "edgetpu" not in path.stem and model_name(path) not in NOTHING_LEFT
    ]
    reason = f"no corpus at {corpus_path()} (set FITZROY_CORPUS)"
    return found or [pytest.param(Path(), id="none", marks=pytest.mark.skip(reason=reason))]


@pytest.fixture(scope="module")
def runtime() -> Iterator[ExecuTorchRuntime]:
    need_executorch()
    with ExecuTorchRuntime(threads=1, timeout=120) as opened:
        yield opened


@pytest.mark.long
def test_int8_mobilenet_equals_litert(runtime: ExecuTorchRuntime, full: bool) -> None:
    need_litert()
    path = corpus() / INT8_MODEL
    graph, count = fitzroy.load(path), 25 if full else 4
    litert, difference = LiteRT(path.read_bytes()), Difference()
    with runtime.load(fitzroy.compile(graph).data) as session:
        for inputs in (*random_inputs(graph, count), *image_inputs(graph, count)):
            difference.add(session.run(inputs), litert.run(inputs))
    assert difference == Difference(inputs=2 * count, elements=2 * count * 1001, agreeing=2 * count)


@pytest.mark.long
@pytest.mark.parametrize("path", params())
def test_model(runtime: ExecuTorchRuntime, full: bool, path: Path) -> None:
    need_litert()
    original, name = fitzroy.load(path), model_name(path)
    graph = without_custom(original)
    assert graph is not None
    model, count = as_tflite(path, original, graph), 4 if full else 1
    for policy in policies(graph):
        found = compare(graph, model, runtime, policy, randoms=count, images=count, modelled=count)
        assert found.litert.inputs == count
        assert (found.oracle.largest, found.oracle.differing) == (0, 0), policy
        if policy == "exact":
            assert (found.reference.largest, found.reference.differing) == (0, 0)
        bound = BOUNDS.get((name, policy), 0)
        assert max(found.litert.largest, found.pictures.largest) <= bound, policy


def test_what_is_only_a_custom_operator_leaves_nothing() -> None:
    for name in NOTHING_LEFT:
        assert without_custom(fitzroy.load(corpus() / f"{name}.tflite")) is None


def test_every_difference_is_explained() -> None:
    assert [key for key in BOUNDS if not explanation(*key)] == []


def test_tables_name_models_of_the_corpus() -> None:
    corpus()
    names = {model_name(path) for path in corpus_models()}
    assert {name for name, _ in BOUNDS} <= names
    assert {f"coral/{stem}" for stem in CLASSIFIERS} <= names
