"""How fast a host computes operators that stay on it, from times of some on this very host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from fitzroy.base.evidence import Evidence
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.reduction import ArgAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import TransposeAttributes
from fitzroy.compiler.reference import evaluate
from fitzroy.driver.runtime import litert
from fitzroy.execution.host_operators import work_of
from fitzroy.execution.hosts import made, values
from fitzroy.formats import tflite
from fitzroy.hw_models.chips.hosts import Host
from fitzroy.measurement.calibration import Fit, Sample, fit

CONSTANTS = ("compute", "element")
"""What is fitted."""

_LEAST = {"compute": 0.01, "element": 0.01}
_IMAGE = (1, 128, 128, 32)


@dataclass(frozen=True, slots=True)
class Operators:
    """What this host takes for operators.

    Attributes:
        ran_on: what computed them, for people.
        samples: the operators, with their times.
        fit: `compute` and `element` as they fit best, and how well they do.
    """

    ran_on: str
    samples: tuple[Sample, ...]
    fit: Fit

    def of(self, host: Host, source: str) -> Host:
        """A host that computes as fast."""
        return made(values(host) | dict(self.fit.changes), Evidence.FITTED, source)


def measure(
    runs: int,
    *,
    progress: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Operators:
    """Measure this host, on LiteRT's own kernels if it is installed, else on numpy.

    Args:
        runs: how often every operator runs, after once to warm up.
        progress: is told what is being done.
        clock: seconds since some moment.

    Raises:
        DeviceError: LiteRT fails.
        UsageError: the times do not tell the constants apart.
    """
    samples = []
    for name, graph in trials():
        progress(f"running {name}")
        run = _runner(graph)
        run()
        times = []
        for _ in range(runs):
            begin = clock()
            run()
            times.append((clock() - begin) * 1e6)
        (node,) = graph.nodes()
        work = work_of(graph, node)
        terms = {"compute": work.compute / 1000, "element": work.elements / 1000}
        samples.append(Sample(name, max(median(times), 1e-3), 0.0, terms))
    ran_on = "LiteRT on this processor" if litert.available() else "numpy on this processor"
    return Operators(ran_on, tuple(samples), fit(samples, CONSTANTS, _LEAST))


def _runner(graph: Graph) -> Callable[[], object]:
    """Computes an operator once."""
    rng = np.random.default_rng(0)
    inputs = {name: _filled(graph.type(name), rng) for name in graph.inputs}
    if litert.available():
        model = litert.LiteRtModel(tflite.write_model(export_model(graph)), xnnpack=False)
        return lambda: model.run([*inputs.values()])
    return lambda: evaluate(graph, inputs)


def _filled(type: TensorType, rng: np.random.Generator) -> Array:
    return rng.integers(-100, 100, type.shape).astype(type.dtype.numpy)


def _bytes(shape: Sequence[int], scale: float = 1 / 16, zero_point: int = 0) -> TensorType:
    return TensorType(tuple(shape), DType.INT8, Quantization((scale,), (zero_point,)))


def trials() -> Iterator[tuple[str, Graph]]:
    """Graphs of one operator each, by what they are."""
    yield "a convolution", _convolution(128)
    yield (
        "a resize",
        _single("resize_bilinear", (1, 32, 32, 32), _IMAGE, ResizeAttributes((128, 128))),
    )
    yield "the largest channel", _largest()
    yield "a softmax", _softmax()
    yield "another scale", _single("quantize", _IMAGE, _IMAGE, scale=1 / 8)
    yield "a transposition", _transposed()


def _single(
    op: str,
    shape: Sequence[int],
    result: Sequence[int],
    attributes: Attributes = NO_ATTRIBUTES,
    *,
    scale: float = 1 / 16,
) -> Graph:
    """An operator on bytes."""
    graph = Graph("trial")
    last = graph.add_input("x", _bytes(shape))
    graph.outputs = [graph.emit(op, [last], _bytes(result, scale), attributes)]
    return graph


def _largest() -> Graph:
    graph = Graph("trial")
    last = graph.add_input("x", _bytes(_IMAGE))
    type = TensorType(_IMAGE[:-1], DType.INT32)
    graph.outputs = [graph.emit("arg_max", [last], type, ArgAttributes(3))]
    return graph


def _softmax() -> Graph:
    graph = Graph("trial")
    last = graph.add_input("x", _bytes((1, 4096, 32)))
    type = _bytes((1, 4096, 32), 1 / 256, -128)
    graph.outputs = [graph.emit("softmax", [last], type, SoftmaxAttributes(1.0))]
    return graph


def _transposed() -> Graph:
    return _single("transpose", _IMAGE, (1, 32, 128, 128), TransposeAttributes((0, 3, 1, 2)))


def _convolution(channels: int) -> Graph:
    """Single pixels of 32 x 32, as many channels in as out."""
    graph = Graph("trial")
    last = graph.add_input("x", _bytes((1, 32, 32, channels)))
    weights = np.random.default_rng(0).integers(-127, 128, (channels, 1, 1, channels), np.int8)
    scale = 1 / (64 * channels)
    scales = Quantization((scale,) * channels, (0,) * channels, 0)
    biases = Quantization((scale / 16,) * channels, (0,) * channels, 0)
    operands = [
        last,
        graph.add_constant("w", weights, scales),
        graph.add_constant("b", np.zeros(channels, np.int32), biases),
    ]
    type = _bytes((1, 32, 32, channels))
    graph.outputs = [graph.emit("conv_2d", operands, type, ConvAttributes())]
    return graph
