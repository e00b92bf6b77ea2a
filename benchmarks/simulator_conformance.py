"""How compiled models on the simulator differ from their source models.

Every compiled model of the corpus that comes with its source runs on the simulator with random
inputs and, where its input takes some, pictures. Its outputs are compared with those of LiteRT's
interpreter with the XNNPACK delegate on the source model, of the reference semantics of the source
(which compute in XNNPACK's arithmetic), and of the reference semantics *as compiled*: with
requantization by the reciprocal of the output scale, the scales and zero points that the package
has for its outputs, and LSTM gates in the numbers that compiled programs keep them in. What
differs from the source and not from that is so for these reasons and no other.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from tests.support import corpus_path

import fitzroy
from benchmarks.conformance import explanation as source_explanation
from benchmarks.simulator import packages
from benchmarks.support import (
    LiteRT,
    as_tflite,
    corpus_sources,
    image_inputs,
    random_array,
    write_results,
)
from fitzroy.base.errors import FitzroyError, UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.definition import Arrays, Call
from fitzroy.compiler.ops.pooling import AveragePool2D
from fitzroy.compiler.ops.recurrent import (
    UnidirectionalSequenceLstm,
)
from fitzroy.compiler.reference import evaluate
from fitzroy.compiler.targets.edgetpu.twin.published import (
    evaluate_as_published,
    published_logistic,
)
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats import flat, tflite
from fitzroy.formats.darwinn import PackageFile
from fitzroy.formats.submodel import submodel
from fitzroy.hw_models.numerics import Arithmetic

COMPILED = "**/*edgetpu*.tflite"

STATE = "_variable_output"
"""What the names of state outputs have in addition to those of the inputs that they become."""

STATE_INPUT = "tfl.pseudo_qconst"
"""How names of inputs begin that hold states."""

RANDOM = 5
"""Random inputs of each model."""

IMAGES = 5
"""Pictures for each model that takes some."""

SCALES = "scales"
RECIPROCAL = "reciprocal"
GATES = "gates"
POOL = "pool"
FUNCTIONS = "functions"
SOFTMAX = "softmax on tiles"

EXPLANATIONS: dict[str, str] = {
    SCALES: "the package has other scales or zero points than the source model",
    RECIPROCAL: (
        "compiled programs multiply by the reciprocal of the output scale where XNNPACK divides "
        "by it, which moves values next to a tie"
    ),
    GATES: (
        "compiled, both halves of an LSTM gate's sum, that of the input with the bias and that of "
        "the state, are stored in 8 bits with the scale of the state, and saturate at 1"
    ),
    POOL: (
        "LiteRT runs AVERAGE_POOL_2D over an even number of elements in TFLite's kernel, which "
        "rounds ties away from zero; with that kernel the reference equals LiteRT in every byte"
    ),
    FUNCTIONS: (
        "what is left is small and not traced; compiled programs have polynomials for sigmoid and "
        "tanh"
    ),
    SOFTMAX: (
        "the softmax runs on the tiles, with polynomials and products of 16 bits, which moves "
        "values within a few hundredths of a tie"
    ),
}
"""Why the simulator differs from the reference semantics, or these from LiteRT."""

COMPILED_OTHERWISE: dict[str, str] = {
    "coral/keras_lstm_mnist_ptq": FUNCTIONS,
    "coral/mobilenet_v1_0.25_128_quant": SOFTMAX,
    "coral/mobilenet_v1_0.5_160_quant": SOFTMAX,
}
"""How names of models begin whose compiled programs do not compute the same, and what is other."""


def source_path(path: Path) -> Path:
    """Where the source of a compiled model would be."""
    stem = re.sub(r"_cocompiled_with_\w[\w.]*_quant", "", path.stem)
    return path.with_name(re.sub(r"[_-]edgetpu", "", stem) + ".tflite")


def source_part(path: Path, package: PackageFile) -> Graph:
    """The operators of a source model that a package computes.

    Args:
        path: the source, which may have operators that cannot be imported.
        package: what was compiled from it, with the names of its tensors.
    """
    model = tflite.read_model(path.read_bytes(), path.name)
    main = (model.subgraphs or [])[0]
    tensors, operators = main.tensors or [], main.operators or []
    made_by = {
        tensors[index].name: number
        for number, operator in enumerate(operators)
        for index in flat.ints(operator.outputs)
    }
    inputs = [name for name in package.main.inputs if not name.startswith(STATE_INPUT)]
    outputs = [name for name in package.main.outputs if not name.endswith(STATE)]
    found: set[int] = set()
    wanted = [str(name) for name in outputs]
    while wanted:
        number = made_by.get(name := wanted.pop())
        if number is None or number in found or name in inputs:
            continue
        found.add(number)
        read = flat.ints(operators[number].inputs)
        wanted += [str(tensors[index].name) for index in read if index >= 0]
    return import_model(submodel(model, found, inputs, outputs), path=path.name)


def stored_input(graph: Graph, name: str, package: PackageFile) -> str:
    """Name of the quantized tensor that the package takes for an input of the source model."""
    if name in package.main.inputs:
        return name
    (node,) = [node for node in graph.nodes() if name in node.inputs]
    (inner,) = node.outputs
    return inner


def source_input(graph: Graph, name: str, inner: str, stored: Array) -> Array:
    """Input of the source model for elements that the package gets, dequantized if need be.

    Args:
        graph: the source model.
        name: one of its inputs.
        inner: the quantized tensor that stands for it, perhaps itself.
        stored: elements of that tensor.
    """
    type = graph.type(name)
    if inner == name:
        return stored.reshape(type.shape)
    quantization = graph.type(inner).quantization
    (node,) = [node for node in graph.nodes() if name in node.inputs]
    if node.op != "quantize" or quantization is None:
        raise UnsupportedError(f"input {name!r} of the source is not quantized to {inner!r}")
    scale, zero = np.float64(quantization.scale[0]), int(quantization.zero_point[0])
    real = (stored.astype(np.float64) - zero) * scale
    return real.astype(type.dtype.numpy).reshape(type.shape)


def numerics(package: PackageFile, name: str) -> tuple[float, int] | None:
    """Scale and zero point of an output as the package has them, None if it has none."""
    layer = package.main.outputs[name]
    if layer.numerics is None:
        return None
    # Zero points in packages are those of unsigned numbers.
    shift = 1 << 8 * layer.element.itemsize - 1 if layer.element.signed else 0
    return float(
        np.float32(layer.numerics.dequantization_factor)
    ), layer.numerics.zero_point - shift


def requantized(graph: Graph, package: PackageFile, names: Sequence[str]) -> Graph:
    """The graph with the scales and zero points that its outputs have in the package."""
    result = graph.copy()
    for output in names:
        numbers = numerics(package, output)
        if numbers is None:
            continue
        scale, zero = numbers
        name: str | None = output
        shift = 0
        while name is not None:
            value, producer = result.value(name), result.producer(name)
            before = value.type.quantization
            if before is None:
                break
            after = replace(
                before,
                scale=(scale,),
                zero_point=(zero - shift,),
            )
            result.set_value(replace(value, type=replace(value.type, quantization=after)))
            # A QUANTIZE that only changes the type moves the zero point by 128.
            name = producer.inputs[0] if producer and producer.op == "quantize" else None
            if name is not None:
                inner = result.type(name).quantization
                if inner is None or inner.scale != before.scale:
                    break
                shift = before.zero_point[0] - inner.zero_point[0]
    return result


def by_reciprocal(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Reference semantics with the requantization of compiled programs."""
    return evaluate(graph, inputs, Arithmetic.EDGETPU)


def by_tflite_pool(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Reference semantics with the average pooling of TFLite."""
    evaluate_pool = AveragePool2D.evaluate

    def pool(
        self: AveragePool2D, call: Call, arrays: Arrays, arithmetic: Arithmetic
    ) -> Sequence[Array]:
        del arithmetic
        return evaluate_pool(self, call, arrays, Arithmetic.TFLITE)

    with patch.object(AveragePool2D, "evaluate", pool):
        return evaluate(graph, inputs)


def state(package: PackageFile, name: str) -> Array:
    """Bytes of a state that is zero, as the tensor holds it."""
    layer = package.main.inputs[name]
    zero = 0 if layer.numerics is None else layer.numerics.zero_point
    size = layer.element.itemsize
    # Zero points in packages are those of unsigned numbers.
    code = zero ^ (1 << 8 * size - 1 if layer.element.signed else 0)
    return np.full(layer.packed_bytes // size, code, f"<u{size}").view(np.uint8)


@dataclass
class Difference:
    """How outputs differ from those of one peer.

    Attributes:
        differing: bytes that differ.
        largest: largest difference of two values.
    """

    differing: int = 0
    largest: int = 0

    def add(self, ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> None:
        """Compare the outputs for one input."""
        for name, one in ours.items():
            other = theirs[name]
            self.differing += int(np.count_nonzero(_bytes(one) != _bytes(other)))
            gap = np.abs(one.astype(np.int64) - other.astype(np.int64))
            self.largest = max(self.largest, int(gap.max(initial=0)))


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


@dataclass
class Comparison:
    """A compiled model against its source.

    Attributes:
        randoms: number of random inputs.
        pictures: number of pictures.
        bytes: bytes of outputs, of all inputs together.
        scales: outputs whose scale or zero point differs: of the source, then of the package.
        recurrent: whether the model has an LSTM.
        seconds: time of each inference on the simulator.
        litert: differences from LiteRT on the source.
        source: differences of the reference semantics of the source from LiteRT.
        pooled: the same with the average pooling of TFLite.
        reference: differences from the reference semantics of the source.
        reciprocal: the same, requantized by the reciprocal of the output scale.
        compiled: the same, also with the scales and zero points of the package, and LSTM gates
            stored as compiled programs do.
    """

    randoms: int = 0
    pictures: int = 0
    bytes: int = 0
    scales: dict[str, tuple[float, int, float, int]] = field(default_factory=dict)
    recurrent: bool = False
    seconds: list[float] = field(default_factory=list)
    litert: Difference = field(default_factory=Difference)
    source: Difference = field(default_factory=Difference)
    pooled: Difference = field(default_factory=Difference)
    reference: Difference = field(default_factory=Difference)
    reciprocal: Difference = field(default_factory=Difference)
    compiled: Difference = field(default_factory=Difference)

    @property
    def causes(self) -> list[str]:
        """What makes the outputs differ, as found by taking it away; empty if they do not."""
        found = [POOL] if self.source.differing and not self.pooled.differing else []
        if not self.reference.differing:
            return found
        if not self.reciprocal.differing:
            return [*found, RECIPROCAL]
        if self.scales and self.compiled.differing < self.reciprocal.differing:
            found.append(SCALES)
        if self.recurrent and self.compiled.largest < self.reciprocal.largest:
            found.append(GATES)
        if self.reciprocal.differing < self.reference.differing:
            found.append(RECIPROCAL)
        return found


def compare(path: Path, *, randoms: int, images: int) -> Comparison:
    """Run a compiled model and its source everywhere.

    Args:
        path: the compiled model; its source lies beside it.
        randoms: number of random inputs.
        images: number of pictures.

    Raises:
        FitzroyError: a model cannot be read or run.
    """
    (package,) = packages(str(path.relative_to(corpus_path())))
    original = fitzroy.load(source_path(path))
    names = [name for name in package.main.outputs if not name.endswith(STATE)]
    graph = original if names == list(original.outputs) else original.cut(names)
    compiled = requantized(graph, package, names)
    logistic = published_logistic(package)
    litert = LiteRT(as_tflite(source_path(path), original, graph))
    device, result = SimulatedDevice(), Comparison(scales=_scales(graph, package, names))
    result.randoms = randoms
    result.recurrent = any(node.op == UnidirectionalSequenceLstm.name for node in graph.nodes())
    stored = {name: stored_input(graph, name, package) for name in graph.inputs}
    for arrays in chain(_random(graph, stored, randoms), _pictures(graph, stored, images)):
        given = {
            name: state(package, name) if name.startswith(STATE_INPUT) else _bytes(arrays[name])
            for name in package.main.inputs
        }
        if not result.seconds:
            # Parameters are loaded by the first run.
            device.run(package, given)
        start = time.perf_counter()
        outputs = device.run(package, given)
        result.seconds.append(time.perf_counter() - start)
        inputs = {
            name: source_input(graph, name, inner, arrays[inner]) for name, inner in stored.items()
        }
        wanted = evaluate(graph, inputs)
        ours = {
            name: outputs.tensors[name].view(wanted[name].dtype).reshape(wanted[name].shape)
            for name in names
        }
        result.bytes += sum(array.nbytes for array in ours.values())
        theirs = litert.run([inputs[name] for name in graph.inputs])
        peer = dict(zip(graph.outputs, theirs, strict=True))
        result.litert.add(ours, peer)
        before = result.source.differing
        result.source.add({name: wanted[name] for name in names}, peer)
        if result.source.differing > before:
            result.pooled.add(by_tflite_pool(graph, inputs), peer)
        before = result.reference.differing
        result.reference.add(ours, wanted)
        if result.reference.differing > before:
            result.reciprocal.add(ours, by_reciprocal(graph, inputs))
            result.compiled.add(ours, evaluate_as_published(compiled, inputs, logistic))
    result.pictures = len(result.seconds) - randoms
    return result


def _scales(
    graph: Graph, package: PackageFile, names: Sequence[str]
) -> dict[str, tuple[float, int, float, int]]:
    found = {}
    for name in names:
        quantization, theirs = graph.type(name).quantization, numerics(package, name)
        if quantization is None or theirs is None:
            continue
        ours = float(np.float32(quantization.scale[0])), int(quantization.zero_point[0])
        if ours != theirs:
            found[name] = (*ours, *theirs)
    return found


def _random(graph: Graph, stored: Mapping[str, str], count: int) -> Iterator[dict[str, Array]]:
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield {inner: random_array(graph.type(inner), rng) for inner in stored.values()}


def _pictures(graph: Graph, stored: Mapping[str, str], count: int) -> Iterator[dict[str, Array]]:
    # A dequantized input is none of bytes, so it takes no picture.
    if all(name == inner for name, inner in stored.items()):
        for arrays in image_inputs(graph, count):
            yield dict(zip(graph.inputs, arrays, strict=True))


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Compare every model and write ``results/simulator_conformance.json``.

    Args:
        progress: called with the name of each model.
        repeats: number of random inputs, 0 for the usual number.

    Returns:
        failures, and differences without explanation.

    Raises:
        UsageError: there is no corpus.
    """
    entries: list[dict[str, Any]] = []
    faults: list[str] = []
    corpus_sources()
    for path in sorted(corpus_path().glob(COMPILED)):
        name = str(path.relative_to(corpus_path()).with_suffix(""))
        if not source_path(path).is_file():
            entries.append({"model": name, "skipped": "the corpus does not have its source"})
            continue
        progress(name)
        try:
            result = compare(path, randoms=repeats or RANDOM, images=IMAGES)
        except FitzroyError as error:
            entries.append({"model": name, "failure": str(error)})
            faults.append(f"{name}: {error}")
            continue
        entries.append(_entry(name, result))
        if (result.litert.differing or result.reference.differing) and not explanation(entries[-1]):
            faults.append(f"{name}: a difference without explanation")
        faults += _unexplained(name, result)
    write_results("simulator_conformance", {"models": entries})
    return faults


def _entry(name: str, result: Comparison) -> dict[str, Any]:
    peers = ("litert", "source", "pooled", "reference", "reciprocal", "compiled")
    return {
        "model": name,
        "source_model": str(
            source_path(corpus_path() / f"{name}.tflite").relative_to(corpus_path())
        ),
        "inputs": result.randoms,
        "pictures": result.pictures,
        "bytes": result.bytes,
        "seconds": statistics.median(result.seconds),
        "scales": result.scales,
        "causes": result.causes,
        **{peer: vars(getattr(result, peer)) for peer in peers},
    }


def _unexplained(name: str, result: Comparison) -> list[str]:
    """Differences that remain with everything taken away that is known."""
    if result.compiled.differing and not _otherwise(name):
        return [f"{name}: differs from its source as compiled"]
    return []


def explanation(entry: Mapping[str, Any]) -> str:
    """Why a model differs from LiteRT or from its source; empty if no reason is known."""
    found = [EXPLANATIONS[cause] for cause in entry["causes"]]
    if entry["compiled"]["differing"]:
        found += [EXPLANATIONS[cause] for cause in _otherwise(entry["model"])]
    if entry["source"]["differing"] and POOL not in entry["causes"]:
        # The reference semantics, which are those of the ExecuTorch runtime, differ as well.
        name = str(Path(entry["source_model"]).with_suffix(""))
        found.append(source_explanation(name, "exact"))
    return "; ".join(filter(None, found))


def _otherwise(model: str) -> list[str]:
    """What a compiled program is known to compute in another way than its source."""
    return [cause for name, cause in COMPILED_OTHERWISE.items() if model.startswith(name)]
