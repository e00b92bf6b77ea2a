"""How programs differ from LiteRT, from the oracle and from the reference semantics.

Every source model of the corpus is compiled and run on ExecuTorch's runtime; its outputs are
compared with those of LiteRT's interpreter with the XNNPACK delegate, of the oracle (the model
of the runtime), and of the reference semantics of the imported graph. Models with custom
operators are cut before these, and LiteRT gets the cut graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.support import corpus_path

import fitzroy
from benchmarks.support import (
    LiteRT,
    as_tflite,
    corpus_sources,
    image_inputs,
    random_inputs,
    without_custom,
    write_results,
)
from fitzroy.base.errors import FitzroyError
from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate
from fitzroy.driver.runtime import ExecuTorchRuntime, OracleRuntime

CLASSIFIERS = (
    "keras_lstm_mnist_ptq",
    "mobilenet_v1_0.25_128_quant",
    "mobilenet_v1_0.5_160_quant",
    "mobilenet_v2_1.0_224_quant",
    "model_mobilenet_v2_w_fc_224x224x3",
    "tf2_mobilenet_v2_1.0_224_ptq",
    "yamnet_spectra_in",
)
"""Models whose output ranks classes."""

RANDOM = 25
"""Random inputs of each model."""

IMAGES = 12
"""Pictures for each model that takes some."""

CLASSIFIED_IMAGES = 100
"""Pictures for each classifier."""

MODELLED = 4
"""Of both kinds, how many also go through the oracle and the reference semantics."""


@dataclass
class Difference:
    """How outputs differ from those of one peer.

    Attributes:
        inputs: number of inputs compared.
        elements: number of output elements compared.
        differing: how many of them differ.
        largest: largest difference, in units of the last place of integers.
        agreeing: inputs for which both have the largest output at the same place.
    """

    inputs: int = 0
    elements: int = 0
    differing: int = 0
    largest: float = 0.0
    agreeing: int = 0

    def add(self, ours: Sequence[Array], theirs: Sequence[Array]) -> None:
        """Compare the outputs for one input."""
        self.inputs += 1
        self.agreeing += int(ours[0].argmax() == theirs[0].argmax())
        for one, other in zip(ours, theirs, strict=True):
            gap = np.abs(one.astype(np.float64) - other.astype(np.float64))
            self.elements += gap.size
            self.differing += int(np.count_nonzero(gap))
            self.largest = max(self.largest, float(gap.max(initial=0)))

    def as_json(self, *, ranks: bool) -> dict[str, object]:
        """Figures fit for JSON."""
        result: dict[str, object] = {
            "inputs": self.inputs,
            "largest": self.largest,
            "differing": self.differing / max(self.elements, 1),
        }
        if ranks:
            result["top1"] = self.agreeing / max(self.inputs, 1)
        return result


@dataclass
class Comparison:
    """A model under one policy for uint8.

    Attributes:
        policy: ``exact`` or ``fast``.
        litert: differences from LiteRT on random inputs.
        pictures: the same on pictures.
        oracle: differences from the model of the runtime.
        reference: differences from the reference semantics of the imported graph.
    """

    policy: str
    litert: Difference = field(default_factory=Difference)
    pictures: Difference = field(default_factory=Difference)
    oracle: Difference = field(default_factory=Difference)
    reference: Difference = field(default_factory=Difference)


def policies(graph: Graph) -> tuple[str, ...]:
    """Policies that matter to a graph: ``fast`` only if it has uint8 values."""
    types = [value.type.dtype for value in graph.values.values()]
    return ("exact", "fast") if DType.UINT8 in types else ("exact",)


def compare(
    graph: Graph,
    model: bytes,
    runtime: ExecuTorchRuntime,
    policy: str,
    *,
    randoms: int,
    images: int,
    modelled: int,
) -> Comparison:
    """Run one model everywhere.

    Args:
        graph: the model, without custom operators.
        model: the same for LiteRT.
        runtime: the real runtime.
        policy: how uint8 is computed.
        randoms: number of random inputs.
        images: number of pictures.
        modelled: how many of both kinds also go through the models in numpy.

    Raises:
        FitzroyError: the model cannot be compiled or run.
    """
    program = fitzroy.compile(graph, uint8=policy).data
    litert, result = LiteRT(model), Comparison(policy)
    kinds = (
        (result.litert, random_inputs(graph, randoms)),
        (result.pictures, image_inputs(graph, images)),
    )
    with runtime.load(program) as session, OracleRuntime().load(program) as oracle:
        for difference, source in kinds:
            for number, arrays in enumerate(source):
                ours = session.run(arrays)
                difference.add(ours, litert.run(arrays))
                if number < modelled:
                    named = evaluate(graph, dict(zip(graph.inputs, arrays, strict=True)))
                    result.oracle.add(ours, oracle.run(arrays))
                    result.reference.add(ours, [named[name] for name in graph.outputs])
    return result


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Compare every model and write ``results/conformance.json``.

    Args:
        progress: called with the name of each model.
        repeats: number of random inputs, 0 for the usual number.

    Returns:
        what is not as documented: failures, differences from the oracle, differences without
        explanation.
    """
    entries: list[dict[str, object]] = []
    faults: list[str] = []
    with ExecuTorchRuntime(threads=1, timeout=120) as runtime:
        for path in corpus_sources():
            name = str(path.relative_to(corpus_path()).with_suffix(""))
            progress(name)
            found, problems = _measure_model(path, name, runtime, repeats or RANDOM)
            entries += found
            faults += problems
    write_results("conformance", {"models": entries})
    return faults


def _measure_model(
    path: Path, name: str, runtime: ExecuTorchRuntime, randoms: int
) -> tuple[list[dict[str, object]], list[str]]:
    try:
        original = fitzroy.load(path)
        graph = without_custom(original)
        if graph is None:
            return [{"model": name, "skipped": "one custom operator, nothing else"}], []
        model = as_tflite(path, original, graph)
        ranks = path.stem in CLASSIFIERS
        entries, faults = [], []
        for policy in policies(graph):
            result = compare(
                graph,
                model,
                runtime,
                policy,
                randoms=randoms,
                images=CLASSIFIED_IMAGES if ranks else IMAGES,
                modelled=MODELLED,
            )
            entries.append(_entry(name, graph is not original, ranks, result))
            faults += _faults(name, result)
    except FitzroyError as error:
        return [{"model": name, "failure": str(error)}], [f"{name}: {error}"]
    return entries, faults


def _entry(name: str, is_cut: bool, ranks: bool, result: Comparison) -> dict[str, object]:
    entry: dict[str, object] = {"model": name, "policy": result.policy, "cut": is_cut}
    entry["litert"] = result.litert.as_json(ranks=ranks)
    if result.pictures.inputs:
        entry["litert_pictures"] = result.pictures.as_json(ranks=ranks)
    entry["oracle"] = result.oracle.as_json(ranks=False)
    entry["reference"] = result.reference.as_json(ranks=False)
    return entry


def _faults(name: str, result: Comparison) -> list[str]:
    faults = []
    if result.oracle.differing:
        faults.append(f"{name} ({result.policy}): the oracle differs from the runtime")
    if result.policy == "exact" and result.reference.differing:
        faults.append(f"{name}: the reference semantics differ from the runtime")
    if (result.litert.differing or result.pictures.differing) and not explanation(
        name, result.policy
    ):
        faults.append(f"{name} ({result.policy}): a difference from LiteRT without explanation")
    return faults


CAUSES = {
    "pool": (
        "AVERAGE_POOL_2D over an even number of elements: XNNPACK rounds ties to even, LiteRT "
        "runs TFLite's kernel, which rounds them away from zero"
    ),
    "concat": (
        "CONCATENATION of operands with different scales: XNNPACK rescales with 8 fractional "
        "bits, LiteRT runs TFLite's kernel, which does so in float32"
    ),
    "softmax": "softmax amplifies single units of the logits",
    "channels": (
        "channels whose centred weights exceed int8 are rescaled; "
        "what they change grows through the layers"
    ),
    "labels": "the output holds numbers of classes, so a small change of scores is a large one",
    "lstm": "gates and cell state of the LSTM are float32, in TFLite int16",
}
"""Why outputs differ from LiteRT's, one clause per cause."""

OPERATORS = (
    (
        "PRELU, quantized",
        "XNNPACK, and programs for the Edge TPU, multiply in float32 and round once, ties to even",
        "runs TFLite's kernel, with its XNNPACK delegate too: multipliers of 31 bits, rounded "
        "twice; 1.9 % of 196,608 random results are off by 1 LSB",
    ),
    (
        "ADD and SUB on the Edge TPU, of results exactly between two integers",
        "the chip rounds to the even neighbour, before the zero point is added",
        "rounds up, as XNNPACK and the reference semantics do. MoveNet subtracts 127.5 steps from "
        "every pixel, which are halves all: 54,825 of the 110,592 results of its third operator "
        "are off by 1, where differences of the whole model begin. Google's program for it "
        "differs there, too; on pictures of noise, which hold no person, other maxima of the heat "
        "maps win after that",
    ),
    (
        "operators with quantized weights and float activations (dynamic range)",
        "weights are the real numbers that they stand for, and activations stay float32",
        "rounds activations to 8 bits in every inference, by the range of each row; results differ "
        "by at most half a step of the largest activation over 127, times the sum of the weights",
    ),
    (
        "variables (VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE)",
        "every inference begins with the first values, which a warning says",
        "values last from inference to inference",
    ),
    (
        "LESS, GREATER, EQUAL… of quantized operands",
        "compares the real numbers",
        "compares real numbers that are rounded to 1/256; `--arithmetic tflite` does the same",
    ),
)
"""Operators that LiteRT computes in another way: name, what happens here, what LiteRT does."""

EXPLANATIONS: dict[tuple[str, str], tuple[str, ...]] = {
    ("coral/deeplabv3_mnv2_dm05_pascal_quant", "fast"): ("channels", "labels"),
    ("coral/keras_lstm_mnist_ptq", "exact"): ("lstm", "softmax"),
    ("coral/keras_lstm_mnist_ptq", "fast"): ("lstm", "softmax"),
    ("coral/mobilenet_v1_0.25_128_quant", "exact"): ("pool", "softmax"),
    ("coral/mobilenet_v1_0.25_128_quant", "fast"): ("channels", "pool", "softmax"),
    ("coral/mobilenet_v1_0.5_160_quant", "fast"): ("channels", "softmax"),
    ("coral/mobilenet_v1_1.0_224_quant_embedding_extractor", "fast"): ("channels",),
    ("coral/mobilenet_v2_1.0_224_quant", "fast"): ("channels", "softmax"),
    ("coral/traffic_model", "exact"): ("concat",),
    ("coral/traffic_model", "fast"): ("channels", "concat"),
    ("templates/gabor_64x64_p4", "exact"): ("pool",),
    ("templates/gabor_64x64_p4", "fast"): ("pool",),
}
"""Causes of the differences of a model under a policy, the strongest first."""

EXPLANATIONS.update(
    ((f"layers/model_{kind}_{extent}x3", "fast"), ("channels",))
    for kind, extent in (
        ("padding_stride", "2x2"),
        ("stride", "128x128"),
        ("stride", "128x64"),
        ("stride", "2x2"),
        ("stride", "256x512"),
        ("stride", "512x256"),
    )
)


def explanation(name: str, policy: str) -> str:
    """Why a model differs from LiteRT under a policy; empty if no reason is known."""
    return "; ".join(CAUSES[cause] for cause in EXPLANATIONS.get((name, policy), ()))
