"""Pipelines over several chips: what cuts are predicted to gain, and how long finding them takes.

The models have the structure of those of published measurements, with random weights: five fully
connected layers of as many neurons, and five convolutions of as many filters. Predictions go by the
costs that decide the cuts. Segments for some numbers of chips are compiled, too, and timed on the
timing model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.support import write_results
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compilation.edgetpu import compile_segments
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.targets.edgetpu.partition.cuts import Cut
from fitzroy.compiler.targets.edgetpu.partition.divide import cuts
from fitzroy.execution.estimate import estimate

NEURONS = (1024, 2048, 2560)
FILTERS = ((256, 32), (640, 32), (640, 8))
_LAYERS = 5
_LONG = 500
_COMPILED = (1, 4)
_SECONDS = 10.0
"""Longest time in which cuts of a model of `_LONG` operators for all numbers of chips are found."""


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/cuts.json``.

    Args:
        progress: called with the name of each model.
        repeats: of no effect: nothing here varies but the time to find cuts.

    Returns:
        bounds that were exceeded.
    """
    entries = []
    for name, graph in (
        *((f"fully connected, {count} neurons", dense(count)) for count in NEURONS),
        *(
            (f"convolutions, {count} filters, {side} x {side} pixels", convolutions(count, side))
            for count, side in FILTERS
        ),
    ):
        progress(name)
        entries.append(_entry(name, graph))
    progress(f"{_LONG} operators")
    begin = time.perf_counter()
    cuts(convolutions(8, side=4, layers=_LONG, kernel=1)).choose()
    spent = time.perf_counter() - begin
    write_results("cuts", {"models": entries, "operators": _LONG, "seconds": spent})
    return [f"cuts: {_LONG} operators take {spent:.1f} s"] if spent > _SECONDS else []


def _entry(name: str, graph: Graph) -> dict[str, Any]:
    """Predictions for every number of chips, and times of the segments that are compiled."""
    model = export_model(graph)
    source = Source(name, 0, model, import_model(model, path=name))
    found: list[Cut] = []
    rows: dict[int, dict[str, Any]] = {}
    compile_segments(source, None, report=found.extend)
    for cut in found:
        rows[len(cut.times)] = {
            "chips": len(cut.times),
            "interval_us": cut.interval,
            "parallel_interval_us": cut.parallel_interval,
            "latency_us": cut.latency,
        }
    for count in _COMPILED:
        rows[count]["timing_model_us"] = _timed(source, count)
    parameters = sum(value.type.nbytes for value in graph.values.values() if value.is_constant)
    return {"name": name, "parameter_bytes": parameters, "rows": list(rows.values())}


def _timed(source: Source, count: int) -> Sequence[float]:
    """Microseconds of every compiled segment on the timing model."""
    return [
        sum(estimate(part.package, source.path).timeline.total for part in result.segments)
        for result in compile_segments(source, count)
    ]


# --- models --------------------------------------------------------------------------------------


def dense(neurons: int) -> Graph:
    """Fully connected layers of as many neurons."""
    graph, rng = Graph("dense"), np.random.default_rng(neurons)
    type = _type(1, neurons)
    x = graph.add_input("x", type)
    for _ in range(_LAYERS):
        operands = [x, *_parameters(graph, rng, (neurons, neurons))]
        x = graph.emit("fully_connected", operands, type, FullyConnectedAttributes())
    graph.outputs = [x]
    return graph


def convolutions(filters: int, side: int, layers: int = _LAYERS, kernel: int = 3) -> Graph:
    """Convolutions of as many filters on a square image of three channels."""
    graph, rng = Graph("convolutions"), np.random.default_rng(filters)
    x = graph.add_input("x", _type(1, side, side, 3))
    for _ in range(layers):
        depth = graph.type(x).shape[-1]
        operands = [x, *_parameters(graph, rng, (filters, kernel, kernel, depth))]
        attributes = ConvAttributes(padding=PaddingScheme.SAME)
        x = graph.emit("conv_2d", operands, _type(1, side, side, filters), attributes)
    graph.outputs = [x]
    return graph


def _type(*shape: int) -> TensorType:
    return TensorType(shape, DType.INT8, Quantization.per_tensor(0.05, 0))


def _parameters(graph: Graph, rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[str, str]:
    weights = rng.integers(-127, 127, shape, np.int8, endpoint=True)
    scale = float(np.float32(0.01))
    product = float(np.float32(np.float32(0.05) * np.float32(scale)))
    return (
        graph.add_constant("w", weights, Quantization.per_tensor(scale, 0)),
        graph.add_constant("b", np.zeros(shape[0], np.int32), Quantization.per_tensor(product, 0)),
    )
