"""Pipelines over several chips: what cuts gain, and how long finding them takes.

The models have the structure of those of published measurements, with random weights: five fully
connected layers of as many neurons, and five convolutions of as many filters. They are compiled for
each number of chips, and timed on the timing model, and so is every way to cut them.
Some run on virtual accelerators over USB, whose clocks tell what their programs take.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support import write_results
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.segments import compile_segments
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.targets.edgetpu.partition.cuts import Cut
from fitzroy.compiler.targets.edgetpu.partition.divide import cuts, segments_of
from fitzroy.driver.runtime.devices import DeviceOptions, virtual_device
from fitzroy.execution.controller import course_of, steady
from fitzroy.execution.estimate import HOST
from fitzroy.execution.pipelined import PipelinedInterpreter
from fitzroy.execution.whole import predict
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.stopwatch import Stopwatch
from fitzroy.measurement.bench import random_arrays

NEURONS = (1024, 2048, 2560)
FILTERS = ((256, 32), (640, 32), (640, 8))
_LAYERS = 5
_LONG = 500
_CHIPS = 3
_PYRAMID = ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (640, 2), (640, 1), (640, 1))
"""Filters and strides."""

_INFERENCES = 4
_REPEATED = 4
"""How often what was measured is put together, so that a pipeline is full for some time."""

_APART = 0.05
"""How far predictions may be from the clocks of virtual accelerators."""

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
        ("convolutions of a pyramid, 64 to 640 filters", pyramid()),
    ):
        progress(name)
        entries.append(_entry(name, graph))
    measured = list[dict[str, Any]]()
    for name, graph in (
        ("fully connected, 2048 neurons", dense(2048)),
        ("fully connected, 2560 neurons", dense(2560)),
        ("convolutions, 640 filters, 8 x 8 pixels", convolutions(640, 8)),
    ):
        progress(f"{name} over USB")
        measured += _over_usb(name, graph)
    progress(f"{_LONG} operators")
    begin = time.perf_counter()
    cuts(convolutions(8, side=4, layers=_LONG, kernel=1)).choose()
    spent = time.perf_counter() - begin
    write_results(
        "cuts", {"models": entries, "over_usb": measured, "operators": _LONG, "seconds": spent}
    )
    failed = [f"cuts: {_LONG} operators take {spent:.1f} s"] if spent > _SECONDS else []
    for row in measured:
        if row["differing"]:
            failed.append(f"cuts: {row['name']}: {row['differing']} bytes differ over USB")
        if abs(row["measured_us"] / row["predicted_us"] - 1) > _APART:
            failed.append(f"cuts: {row['name']}: predictions are not what clocks tell")
    return failed


def _entry(name: str, graph: Graph) -> dict[str, Any]:
    """Every number of chips: our cuts, the best of all, and those of equal parameters."""
    source = _source(name, graph)
    pieces = _Pieces.of(source)
    rows = []
    for count in range(1, _LAYERS + 1):
        found: list[Cut] = []
        compile_segments(source, count, report=found.extend)
        (cut,) = found
        rows.append(
            {
                "chips": count,
                "segments_us": list(cut.times),
                "interval_us": cut.interval,
                "parallel_interval_us": cut.parallel_interval,
                "latency_us": cut.latency,
                "least_us": pieces.slowest(pieces.fastest_way(count)),
                "even_us": pieces.slowest(pieces.even_way(count)),
            }
        )
    return {"name": name, "parameter_bytes": sum(pieces.parameters), "rows": rows}


Way = tuple[int, ...]
"""Numbers of the blocks at which segments begin, and of the end."""


@dataclass(frozen=True)
class _Pieces:
    """Every piece of a chain of blocks, compiled and timed.

    Attributes:
        parameters: bytes of each block's parameters.
        microseconds: of an inference of the piece from a block to another, which it has not.
    """

    parameters: tuple[int, ...]
    microseconds: Mapping[tuple[int, int], float]

    @classmethod
    def of(cls, source: Source) -> _Pieces:
        possible, graph = cuts(source.graph), source.graph
        count, taken = len(possible.blocks), dict[tuple[int, int], float]()
        for begin, end in combinations(range(count + 1), 2):
            path = sorted({0, begin, end, count})
            segment = segments_of(graph, possible.along(path))[path.index(begin)]
            made = compile_edgetpu(Source.of(segment.graph))
            taken[begin, end] = predict(made.data, source.path).total
        constants = [
            {
                name
                for node in block
                for name in node.inputs
                if name and graph.value(name).is_constant
            }
            for block in possible.blocks
        ]
        return cls(tuple(sum(graph.type(n).nbytes for n in some) for some in constants), taken)

    def _ways(self, count: int) -> Iterator[Way]:
        last = len(self.parameters)
        return ((0, *inner, last) for inner in combinations(range(1, last), count - 1))

    def slowest(self, way: Way) -> float:
        """Microseconds of the segment that takes longest."""
        return max(self.microseconds[piece] for piece in pairwise(way))

    def fastest_way(self, count: int) -> Way:
        """The way to cut whose slowest segment is the fastest, of all."""
        return min(self._ways(count), key=self.slowest)

    def even_way(self, count: int) -> Way:
        """The way whose largest segment has the fewest bytes of parameters."""
        return min(
            self._ways(count),
            key=lambda way: max(sum(self.parameters[begin:end]) for begin, end in pairwise(way)),
        )


def _source(name: str, graph: Graph) -> Source:
    model = export_model(graph)
    return Source(name, 0, model, import_model(model, path=name))


def _over_usb(name: str, graph: Graph) -> Iterator[dict[str, Any]]:
    """A model on one virtual accelerator, and in a pipeline of several."""
    source, expected = _source(name, graph), list[Array]()
    for count in (1, _CHIPS):
        found: list[Cut] = []
        results = compile_segments(source, count, report=found.extend)
        watches = [Stopwatch(HOST) for _ in results]
        devices = [
            virtual_device(DeviceOptions(), VirtualDevice(stopwatch=watch)) for watch in watches
        ]
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{number}_edgetpu.tflite" for number in range(len(results))]
            for path, result in zip(paths, results, strict=True):
                path.write_bytes(result.data)
            with PipelinedInterpreter(paths, devices) as pipeline:
                given = [
                    random_arrays({port.name: port.type for port in pipeline.inputs}, seed)
                    for seed in range(_INFERENCES)
                ]
                outputs = [
                    np.concatenate([np.ravel(array) for array in result.values()])
                    for result in pipeline.map(given)
                ]
        expected = expected or outputs
        yield {
            "name": name,
            "chips": count,
            "predicted_us": found[0].interval,
            "measured_us": steady(
                [_REPEATED * [*map(course_of, watch.timelines())] for watch in watches]
            ),
            "differing": sum(int((a != b).sum()) for a, b in zip(expected, outputs, strict=True)),
        }


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


def pyramid() -> Graph:
    """Convolutions that halve an image and double its channels, as classifiers do.

    Most products are in the first layers, and most parameters in the last ones.
    """
    graph, rng = Graph("pyramid"), np.random.default_rng(64)
    side, x = 112, graph.add_input("x", _type(1, 112, 112, 3))
    for filters, stride in _PYRAMID:
        depth, side = graph.type(x).shape[-1], side // stride
        operands = [x, *_parameters(graph, rng, (filters, 3, 3, depth))]
        attributes = ConvAttributes((stride, stride), padding=PaddingScheme.SAME)
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
