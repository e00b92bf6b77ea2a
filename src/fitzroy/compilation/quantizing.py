"""Quantization of a float32 model by what it is for, and by what the Edge TPU computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from fitzroy.base.errors import UsageError
from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.heads.class_maximum import with_best_classes
from fitzroy.compiler.passes.heads.emphasis import coarse_scores, emphasis
from fitzroy.compiler.passes.heads.options import PLAIN_OUTPUTS, HeadOptions
from fitzroy.compiler.passes.heads.rewriting import with_detections
from fitzroy.compiler.quantization.calibrated import Progress, Quantized
from fitzroy.compiler.quantization.functions import FunctionUnit
from fitzroy.compiler.quantization.options import Border, Mixed, QuantizeOptions
from fitzroy.compiler.quantization.pipeline import demand_float, quantize_model
from fitzroy.compiler.quantization.statistics import Range, Sample
from fitzroy.compiler.targets.edgetpu.function_unit import FUNCTIONS


def quantize(
    graph: Graph,
    samples: Sequence[Sample],
    *,
    dtype: DType = DType.INT8,
    io: Literal["integer", "float"] = "integer",
    options: QuantizeOptions | None = None,
    heads: HeadOptions = PLAIN_OUTPUTS,
) -> Graph:
    """Quantize a float32 graph.

    The graph is run on the samples by its reference semantics, and every activation gets a range
    from what it is on them. Values that are not float32, such as indices, stay as they are, and so
    do operators for which TFLite has no 8-bit kernel.

    Args:
        graph: a verified float32 graph.
        samples: representative inputs: one array per graph input, of exactly its type.
        dtype: element type of the activations; the specification has int8 only.
        io: ``integer`` makes the graph's float32 inputs and outputs int8; ``float`` keeps them,
            with conversions inside.
        options: how; they say more about inputs and outputs than `io`, and go before it.
        heads: whether a detector is to list its objects.

    Returns:
        A verified graph. Inputs, outputs, nodes and activations keep their names, but for the head
        of a detector, which computes boxes and scores apart.

    Raises:
        UsageError: no samples, samples that do not fit, results that are not finite, or an
            unknown option.
        UnsupportedError: with one diagnostic per node if nothing can be quantized; objects are
            asked for, and no head is recognised.
        CapacityError: evaluation takes more memory than the budget has.
    """
    if dtype is not DType.INT8:
        raise UsageError(f"activations are quantized to int8, not to {dtype.value}")
    if io not in ("integer", "float"):
        raise UsageError(f"io is 'integer' or 'float', not {io!r}")
    if options is None:
        border = Border.FLOAT if io == "float" else Border.INT8
        options = QuantizeOptions(input_type=border, output_type=border, mixed_outputs=Mixed.KEEP)
    demand_float(graph)
    listing = with_detections(graph, heads)
    return with_best_classes(quantized(listing, samples, options, heads).graph)


def quantized(
    graph: Graph,
    samples: Sequence[Sample],
    options: QuantizeOptions,
    heads: HeadOptions = PLAIN_OUTPUTS,
    progress: Progress = lambda step: None,
    *,
    known: Mapping[str, Range] = MappingProxyType({}),
    unit: FunctionUnit = FUNCTIONS,
) -> Quantized:
    """Quantize a float32 graph by what counts in it, and say what became of it.

    Args:
        graph: a verified float32 graph; what the pass of `heads` made of it, if objects are asked
            for.
        samples: representative inputs: one array per graph input, of exactly its type.
        options: how.
        heads: whether the graph lists objects, and which ones count.
        progress: called with what is under way.
        known: ranges of inputs that are known beforehand, as those of pixels.
        unit: what hardware does with functions of one element, where `options` want tables.

    Raises:
        FitzroyError: as of `quantize_model`.
    """
    counts = emphasis(graph, heads, samples)
    result = quantize_model(
        counts.graph,
        samples,
        replace(options, keep_float=[*(options.keep_float or []), *counts.floats]),
        progress,
        known=known,
        limits=counts.limits,
        rare=counts.rare,
        bounds=counts.bounds,
        unit=unit,
    )
    stored = result.scheme.quantizations
    coarse = coarse_scores(counts, {name: stored[name] for name in graph.outputs if name in stored})
    return replace(result, notes=(*result.notes, *coarse))
