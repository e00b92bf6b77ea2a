"""What quantized weights, activations and heads cost a detector, each alone.

The detector is that of `benchmarks.detections`, with the same pictures, and with these exchanged.
Agreement is with float32, as there. What is not quantized computes in float32 what the model does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

import fitzroy
from benchmarks.detections import JUDGING, model, splits
from benchmarks.support import write_results
from fitzroy.base.types import DType, TensorType
from fitzroy.compilation.quantizing import quantized
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.heads.emphasis import emphasis
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections, with_lower_threshold
from fitzroy.compiler.quantization.agreement import (
    likely_precision,
    mean_average_precision,
)
from fitzroy.compiler.quantization.calibrated import Quantized
from fitzroy.compiler.quantization.comparison import stored_input
from fitzroy.compiler.quantization.options import QuantizeOptions

Floats = npt.NDArray[np.float32]

_OPTIONS = HeadOptions(True)

_HEAD = "/model.22/"
"""What names of the head's values begin with."""


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/floors.json``.

    Args:
        progress: called with what is under way.
        repeats: cuttings of each picture to judge on, 0 for the usual number.

    Returns:
        nothing, for there is no target.
    """
    listing = with_detections(model(), _OPTIONS)
    results: dict[str, object] = {}
    for split, (calibrating, judging) in splits(repeats or JUDGING).items():
        progress(f"{split}: float32")
        exact = [_listed(listing, picture) for picture in judging]
        rows = []
        for title, graph in _variants(listing, calibrating).items():
            progress(f"{split}: {title}")
            lowered = with_lower_threshold(graph)
            found = [_listed(lowered, picture) for picture in judging]
            rows.append(
                {
                    "quantized": title,
                    "map": mean_average_precision(found, exact),
                    "likely": likely_precision(found, exact),
                }
            )
        results[split] = {
            "objects": sum(int((found[:, 4] > 0).sum()) for found in exact),
            "rows": rows,
        }
    write_results("floors", {"splits": results})
    return []


def _variants(listing: Graph, calibrating: Sequence[Floats]) -> dict[str, Graph]:
    """The detector with parts of it quantized."""
    whole = _quantized(listing, calibrating)
    return {
        "all": whole.graph,
        "weights": with_weights(whole),
        "activations": with_activations(whole),
        "all but the head": _quantized(listing, calibrating, headless=True).graph,
    }


def _quantized(
    listing: Graph, calibrating: Sequence[Floats], *, headless: bool = False
) -> Quantized:
    (name,) = listing.inputs
    samples = [{name: picture} for picture in calibrating]
    floats = _head(emphasis(listing, _OPTIONS, samples).graph) if headless else []
    options = QuantizeOptions(keep_float=floats, tables=True)
    return quantized(listing, samples, options, _OPTIONS, known={name: (0.0, 1.0)})


def _head(graph: Graph) -> list[str]:
    """Results of the head's nodes, and of all that read them."""
    found: dict[str, None] = {}
    for node in graph.nodes():
        after = any(name in found for name in node.inputs if name is not None)
        if after or any(name.startswith(_HEAD) for name in node.outputs):
            found.update(dict.fromkeys(node.outputs))
    return [name for name in found if graph.type(name).dtype is DType.FLOAT32]


def with_weights(result: Quantized) -> Graph:
    """The float32 graph with the filters and biases of the quantized one."""
    graph = result.source.copy()
    for name, parameters in result.parameters.items():
        node = graph.node(name)
        inputs = list(node.inputs)
        inputs[1] = graph.add_constant("filter", parameters.real_filter())
        if parameters.bias is not None:
            bias = (parameters.bias * parameters.bias_scale).astype(np.float32)
            inputs[2] = graph.add_constant("bias", bias)
        graph.update(replace(node, inputs=tuple(inputs)))
    graph.prune()
    return graph


def with_activations(result: Quantized) -> Graph:
    """The float32 graph with activations rounded to what the quantized one can store."""
    graph, scheme = result.source.copy(), result.scheme
    for name in [*graph.inputs, *(x for node in graph.nodes() for x in node.outputs)]:
        # Values of the quantized graph may have names of others here.
        if name not in scheme.quantizations or name in scheme.sums:
            continue
        real = graph.type(name)
        readers = graph.consumers(name)
        type = TensorType(real.shape, DType.INT8, scheme.raw(name))
        stored = graph.emit("quantize", [name], type)
        rounded = graph.emit("dequantize", [stored], real)
        for reader in readers:
            inputs = tuple(rounded if x == name else x for x in reader.inputs)
            graph.update(replace(reader, inputs=inputs))
    return graph


def _listed(graph: Graph, picture: Floats) -> Floats:
    """Objects that a model lists."""
    (name,) = graph.inputs
    given = stored_input(picture, graph.type(name))
    found: Floats = fitzroy.evaluate(graph, {name: given})[graph.outputs[0]]
    return found
