"""``fitzroy quantize``: a float32 model becomes one of 8-bit integers."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import typer

from fitzroy.base.errors import UsageError
from fitzroy.cli.files import check_output, write_files
from fitzroy.cli.help import Json, Quiet, Verb
from fitzroy.cli.models import Importing
from fitzroy.cli.samples import Quantization
from fitzroy.cli.terminal import Column, Terminal, count, size

if TYPE_CHECKING:
    from fitzroy.cli.samples import Sample
    from fitzroy.compiler.frontends.frontend import Reading
    from fitzroy.compiler.ir import Graph
    from fitzroy.compiler.quantization.comparison import Comparison
    from fitzroy.compiler.quantization.pipeline import Quantized

_MEASURED = 16
"""Samples that the result is compared on."""


@dataclass(frozen=True)
class Written:
    """What to write, and how to say what was done.

    Attributes:
        output: file of the quantized model.
        json: whether to print one JSON document.
        quiet: whether to leave out remarks.
    """

    panel: ClassVar[str] = "Results"

    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT.tflite",
            help="The quantized model. [dim]default: MODEL_quant.tflite, in the current "
            "directory[/dim]",
            show_default=False,
        ),
    ] = None
    json: Json = False
    quiet: Quiet = False


def quantize(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL", help="A float32 model.", show_default=False),
    ],
    importing: Importing,
    options: Quantization,
    written: Written,
) -> None:
    """Quantize a float32 model to 8 bits, for the Edge TPU and other integer hardware.

    The model runs on representative inputs, and every value gets a range from what it is on them.
    A hundred pictures of what the model will see are better than thousands of other ones, and what
    their pixels become (--preprocess) must be what the model was trained with: a wrong convention
    costs more than everything else here.

    The result keeps to TFLite's 8-bit specification and runs wherever TFLite does. Operators that
    have no 8-bit form stay float32, and are named. The signal-to-noise ratio of every output is
    measured in integers: 20 dB and more is good; see docs/quantization.md for what to do about
    less.
    """
    from fitzroy.cli.models import check_model

    terminal = Terminal(json=written.json, quiet=written.quiet)
    if len(models) != 1:
        raise UsageError(f"{len(models)} models", hint="quantize one after the other")
    (model,) = models
    check_model(model)
    output = written.output or Path(f"{Path(model).stem}_quant.tflite")
    check_output(output, [model])
    if not options.calibrate:
        raise UsageError(
            "quantization needs representative inputs",
            hint=f"fitzroy quantize {model} --calibrate images/ -o {output}",
        )
    with terminal.working("quantizing") as progress:
        result, samples = quantized_model(model, importing.how, options, progress)
        from fitzroy.compiler.frontends.tflite import export_model
        from fitzroy.formats.tflite import write_model

        progress("writing")
        data = write_model(export_model(result.graph))
        comparison = measured(result, samples, progress)
    write_files([(output, data)])
    document = {
        "model": model,
        "files": [{"path": os.fspath(output), "bytes": len(data)}],
        "samples": len(samples),
        **describe(result, comparison),
    }
    if terminal.json:
        terminal.document(document)
        return
    warn_of_floats(terminal, result)
    if not terminal.quiet:
        _show(terminal, document)


def quantized_model(
    model: str, how: Reading, options: Quantization, progress: Any
) -> tuple[Quantized, list[Sample]]:
    """A model, quantized, and the samples that it was calibrated with.

    Args:
        model: its path.
        how: how to read it.
        options: how to quantize it, and on what: arrays have the model's own order of dimensions.
        progress: called with what is under way.

    Raises:
        FitzroyError: the model or a sample cannot be read, or the model cannot be quantized.
    """
    import fitzroy
    from fitzroy.cli.samples import pixel_ranges
    from fitzroy.compiler.quantization.pipeline import demand_float, quantize_model

    options.check()
    rule = options.rule
    graph = fitzroy.load(model, how)
    demand_float(graph)
    progress("reading samples")
    paths = options.calibrate or []
    samples = samples_for(model, graph, how, options)
    known = pixel_ranges(graph, paths, rule)
    return quantize_model(graph, samples, options, progress, known=known), samples


def samples_for(model: str, graph: Graph, how: Reading, options: Quantization) -> list[Sample]:
    """Samples for a graph from arrays with the order of dimensions that its file has.

    Args:
        model: the path of the model.
        graph: what was read of it.
        how: how it was read.
        options: which samples, and what pixels become.

    Raises:
        FitzroyError: a sample cannot be read, or does not suit.
    """
    import fitzroy
    from fitzroy.cli.samples import load_samples
    from fitzroy.compiler.passes.layout import input_order

    source = fitzroy.load(model, replace(how, keep_layout=True))
    samples = load_samples(source, options.calibrate or [], options.rule, options.samples)
    for name in source.inputs:
        order = input_order(source, name)
        if order is None or input_order(graph, name) is not None:
            continue
        for sample in samples:
            sample[name] = np.ascontiguousarray(sample[name].transpose(order))
    return samples


def measured(result: Quantized, samples: list[Sample], progress: Any) -> Comparison:
    """The quantized graph compared with the float32 graph on some of the samples."""
    from fitzroy.compiler.quantization.comparison import compare

    step = -(-len(samples) // _MEASURED)
    return compare(
        result.source,
        result.graph,
        samples[::step],
        progress=lambda text: progress(f"measuring {text}"),
    )


def describe(result: Quantized, comparison: Comparison) -> dict[str, Any]:
    """What quantization did, for JSON."""
    from fitzroy.cli.describe import tensor

    graph, source = result.graph, result.source
    accuracy = [
        {
            "output": name,
            "snr_db": found.decibels,
            "largest_difference": found.largest,
            "elements": found.count,
        }
        for name, found in comparison.outputs.items()
    ]
    return {
        "inputs": [tensor(name, graph.type(name)) for name in graph.inputs],
        "outputs": [tensor(name, graph.type(name)) for name in graph.outputs],
        "operators": {
            "model": len(source.nodes()),
            "integer": len(result.scheme.operands),
            "float": len(result.scheme.floats),
            "after": len(graph.nodes()),
        },
        "compared_samples": len(comparison.samples),
        "accuracy": accuracy,
        "warnings": [
            {"code": r.code, "where": r.where, "what": r.what, "reason": r.reason, "hint": r.hint}
            for r in result.floats
        ],
    }


def warn_of_floats(terminal: Terminal, result: Quantized) -> None:
    """Say which operators stay float32, and why."""
    if result.floats:
        nodes = len({reason.where for reason in result.floats})
        details = [f"{r.where}: {r.what}: {r.reason}" for r in result.floats]
        terminal.warn(f"{count(nodes, 'operator')} stay float32 and run on the host", details)


def _show(terminal: Terminal, document: dict[str, Any]) -> None:
    from fitzroy.cli.inspect import quantization_text, tensor_type

    rows = []
    for side in ("inputs", "outputs"):
        for tensor in document[side]:
            q = quantization_text(tensor)
            text = f"{tensor['name']}: {tensor_type(tensor)}" + (f", {q}" if q else "")
            rows.append((side[:-1], text))
    counts = document["operators"]
    text = f"{counts['integer']} on integers, {counts['float']} float32"
    rows.append(("operators", text))
    terminal.fields(rows)
    terminal.heading(f"signal to noise on {count(document['compared_samples'], 'sample')}")
    terminal.table(
        (
            Column("output", style="cyan"),
            Column("dB", right=True),
            Column("largest difference", right=True),
        ),
        [
            [entry["output"], f"{entry['snr_db']:.1f}", f"{entry['largest_difference']:.4g}"]
            for entry in document["accuracy"]
        ],
    )
    for file in document["files"]:
        terminal.line(f"wrote {file['path']}, {size(file['bytes'])}", style="green")


quantize_command = Verb(
    quantize,
    (
        "fitzroy quantize model.tflite --calibrate images/ -o model_quant.tflite",
        "fitzroy quantize model.tflite --calibrate images/ --preprocess imagenet --effort best",
        "fitzroy quantize model.onnx --calibrate inputs.npz --output-type float32",
        "fitzroy quantize model.tflite --calibrate images/ --keep-float SOFTMAX --json",
        "fitzroy compile model.onnx --calibrate images/ -o model_edgetpu.tflite",
    ),
)
