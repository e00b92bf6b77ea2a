"""``fitzroy quantize``: a float32 model becomes one of 8-bit integers."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UsageError
from fitzroy.base.options import given
from fitzroy.base.progress import prefixed
from fitzroy.cli.accuracy import (
    Quantified,
    accuracy,
    report_bytes,
    samples_for,
    show_accuracy,
    worst,
)
from fitzroy.cli.files import check_output, write_files
from fitzroy.cli.help import Verb
from fitzroy.cli.models import Importing, give_labels, warn_of
from fitzroy.cli.samples import Quantization
from fitzroy.cli.terminal import Terminal, count, size
from fitzroy.compiler.passes.heads.options import PLAIN_OUTPUTS, HeadForm, HeadOptions

if TYPE_CHECKING:
    from fitzroy.cli.samples import Named
    from fitzroy.compiler.frontends.frontend import Reading
    from fitzroy.compiler.quantization.calibrated import Quantized
    from fitzroy.compiler.quantization.comparison import Comparison

_MEASURED = 16
"""Samples that the result is compared on."""


@dataclass(frozen=True)
class Comparing:
    """Comparing two models.

    Attributes:
        compare: whether to do that, and nothing else.
        data: inputs to compare on.
    """

    panel: ClassVar[str] = "Comparing"

    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare a float32 MODEL with a quantized one from any source, given after it, on "
            "--data; writes only the report.",
        ),
    ] = False
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="X...",
            help="Inputs for the comparison, as for --calibrate.",
            show_default=False,
        ),
    ] = None


def quantize(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="A float32 model; with --compare, a float32 model and a quantized one.",
            show_default=False,
        ),
    ],
    importing: Importing,
    options: Quantization,
    heads: HeadOptions,
    written: Quantified,
    comparing: Comparing,
) -> None:
    """Quantize a float32 model to 8 bits, for the Edge TPU and other integer hardware.

    The model runs on representative inputs, which determine the range of every value. A hundred
    pictures like those that the model will see are better than thousands of others. Preprocessing
    (--preprocess) must match the training: a mismatch costs more accuracy than anything else here.

    The result follows TFLite's 8-bit specification and runs wherever TFLite does. Operators without
    an 8-bit form stay float32 and are listed. The signal-to-noise ratio of every output is measured
    in integer arithmetic: 20 dB or more is good. --report shows the error that each operator
    causes, and remedies.
    """
    from fitzroy.cli.models import check_model

    terminal = written.terminal
    for model in models:
        check_model(model)
    if written.report is not None:
        check_report(written.report, models)
    if comparing.compare:
        from fitzroy.cli.quantize_compare import compare_models

        _refuse_with_compare(options, heads)
        if written.labels is not None:
            raise UsageError("--labels does not go with --compare", reason="no model is written")
        compare_models(terminal, models, importing.how, options, (comparing.data, written))
        return
    if comparing.data:
        raise UsageError("--data is for --compare", hint="calibrate with --calibrate")
    if len(models) != 1:
        raise UsageError(f"{len(models)} models", hint="quantize one after the other")
    (model,) = models
    output = written.output or Path(f"{Path(model).stem}_quant.tflite")
    check_output(output, [model])
    if not options.calibrate:
        from fitzroy.compiler.targets.edgetpu.partition import rules

        raise UsageError(
            "quantization needs representative inputs",
            hint=rules.quantize_command(model, importing.arguments, os.fspath(output)),
        )
    how = replace(importing.how, before_choice=heads.detections)
    document = _quantize(terminal, model, output, (how, options, heads, written))
    if terminal.json:
        terminal.document("quantize", document)
    elif not terminal.quiet:
        _show(terminal, document)


_OF_INPUTS = {"samples", "preprocess", "mean", "std"}
"""Options of inputs, which --compare takes, too."""


def _refuse_with_compare(options: Quantization, heads: HeadOptions) -> None:
    """Refuse options that say how to quantize where nothing is quantized.

    Raises:
        UsageError: one is given.
    """
    for name in (*given(options), *given(heads)):
        if name not in _OF_INPUTS:
            raise UsageError(
                f"--{name} does not go with --compare", reason="nothing is quantized there"
            )


_OF_OUTPUTS = {"output-type", "mixed-outputs"}
"""Options of outputs, which are float32 where they are objects."""


def _refuse_with_objects(options: Quantization, heads: HeadOptions) -> None:
    """Refuse options of outputs where objects take the place of the outputs.

    Raises:
        UsageError: one is given.
    """
    if not heads.detections or heads.form is HeadForm.YOLO:
        return
    for name in given(options):
        if name in _OF_OUTPUTS:
            raise UsageError(
                f"--{name} does not go with --detections",
                reason="objects are float32",
                hint="leave it out, or ask for outputs before decoding: --form yolo",
            )


def _quantize(
    terminal: Terminal,
    model: str,
    output: Path,
    settings: tuple[Reading, Quantization, HeadOptions, Quantified],
) -> dict[str, Any]:
    """Quantize a model, write it and its report, and describe what was done.

    Raises:
        FitzroyError: the model or a sample cannot be read, or the model cannot be quantized.
    """
    from fitzroy.compiler.frontends.tflite import export_model
    from fitzroy.compiler.passes.heads.class_maximum import with_best_classes
    from fitzroy.formats.tflite import write_model

    how, options, heads, written = settings
    report = written.report
    with terminal.working("quantizing") as progress:
        result, samples = quantized_model(model, how, options, progress, heads)
        progress("writing")
        graph = with_best_classes(result.graph)
        give_labels(graph, written.labels)
        data = write_model(export_model(graph))
        measured_on = samples[:: -(-len(samples) // _MEASURED)]
        comparison = measured(result, measured_on, progress)
        document = {
            "model": model,
            "files": [{"path": os.fspath(output), "bytes": len(data)}],
            "samples": len(samples),
            **describe(result, comparison),
        }
        agreed = agreement(result, measured_on)
        if agreed is not None:
            document["agreement"] = agreed
        files = [(output, data)]
        if report is not None:
            document |= _costs(result, measured_on, comparison, progress)
            files.append((report, report_bytes(report, "quantize", document)))
    write_files(files)
    document["files"] += [
        {"path": os.fspath(path), "bytes": len(content)} for path, content in files[1:]
    ]
    warn_of(terminal, result.graph)
    warn_of_floats(terminal, result)
    if not heads.detections:
        warn_of_noise(terminal, comparison, model)
    return document


_REPORTS = (".html", ".json")
_LAYER_SAMPLES = 2
"""Samples on which the cost of each operator is measured."""

_WORST = 8


def check_report(path: Path, inputs: list[str]) -> None:
    """Refuse a report that cannot be written.

    Raises:
        UsageError: the name says no format, or the file cannot be written.
    """
    if path.suffix not in _REPORTS:
        raise UsageError("a report is an .html or a .json file", where=os.fspath(path))
    check_output(path, inputs)


def _costs(
    result: Quantized, samples: list[Named], comparison: Comparison, progress: Any
) -> dict[str, Any]:
    """What each operator costs, which samples differ most, and what to do."""
    from fitzroy.compiler.quantization.report import advice, layers, worst_samples

    step = -(-len(samples) // _LAYER_SAMPLES)
    found = layers(
        result,
        [sample for _, sample in samples[::step]],
        lambda text: progress(prefixed("costs, ", text)),
    )
    total = sum(layer.noise for layer in found)
    return {
        "layers": [
            {
                "op": layer.op,
                "name": layer.name,
                "range": list(layer.range),
                "saturated": layer.saturated,
                "snr_db": layer.here.decibels,
                "alone_db": {name: off.decibels for name, off in layer.alone.items()},
                "others_db": {name: off.decibels for name, off in layer.others.items()},
                "share": layer.noise / total if total else 0.0,
            }
            for layer in found
        ],
        "layer_samples": len(samples[::step]),
        "worst_samples": [
            worst(samples[number][0], comparison.samples[number])
            for number in worst_samples(comparison.samples, _WORST)
        ],
        "advice": advice(comparison.outputs, found, result),
    }


def quantized_model(
    model: str,
    how: Reading,
    options: Quantization,
    progress: Any,
    heads: HeadOptions = PLAIN_OUTPUTS,
    *,
    sums: bool = True,
) -> tuple[Quantized, list[Named]]:
    """A model, quantized, and the samples that it was calibrated with, without those left out.

    Args:
        model: its path.
        how: how to read it.
        options: how to quantize it, and on what: arrays have the model's own order of dimensions.
        progress: called with what is under way.
        heads: what a detector is to give.
        sums: whether functions in tables may be those of sums that are not rounded.

    Raises:
        UsageError: options contradict each other.
        FitzroyError: the model or a sample cannot be read, or the model cannot be quantized.
    """
    import fitzroy
    from fitzroy.cli.samples import pixel_ranges
    from fitzroy.compilation.quantizing import quantized
    from fitzroy.compiler.passes.heads.rewriting import with_detections
    from fitzroy.compiler.quantization.pipeline import demand_float
    from fitzroy.compiler.targets.edgetpu.function_unit import FUNCTIONS

    options.check()
    _refuse_with_objects(options, heads)
    graph = fitzroy.load(model, how)
    demand_float(graph)
    graph = with_detections(graph, heads)
    progress("reading samples")
    paths = options.calibrate or []
    samples = samples_for(model, graph, how, options, paths)
    known = pixel_ranges(graph, paths, options.rule)
    arrays = [sample for _, sample in samples]
    unit = FUNCTIONS if sums else replace(FUNCTIONS, approximates=None)
    result = quantized(graph, arrays, options, heads, progress, known=known, unit=unit)
    left_out = [samples[number] for number in result.left_out]
    notes = (*result.notes, *(_exception(name) for name, _ in left_out))
    kept = [item for number, item in enumerate(samples) if number not in result.left_out]
    return replace(result, notes=notes), kept


def _exception(sample: str) -> Diagnostic:
    """A warning of a sample that is left out."""
    return Diagnostic(
        Severity.WARNING,
        "quantize",
        f"sample {sample}",
        "it is left out: many values of the model are far larger on it than on the others",
        "8-bit steps that hold these are too large for the other samples",
        "check that it is like what the model will see; if it is, add more samples like it",
    )


def measured(result: Quantized, samples: list[Named], progress: Any) -> Comparison:
    """The quantized graph compared with the float32 graph on samples."""
    from fitzroy.compiler.passes.heads.rewriting import encoded
    from fitzroy.compiler.quantization.comparison import compare

    return compare(
        encoded(result.source),
        encoded(result.counterpart),
        [sample for _, sample in samples],
        progress=lambda text: progress(prefixed("measuring, ", text)),
    )


def agreement(result: Quantized, samples: list[Named]) -> float | None:
    """Mean average precision of the objects of a quantized detector; None for other models."""
    import fitzroy
    from fitzroy.compiler.ops.detections import Detections
    from fitzroy.compiler.passes.heads.rewriting import with_lower_threshold
    from fitzroy.compiler.quantization.agreement import mean_average_precision
    from fitzroy.compiler.quantization.comparison import stored_input

    names = [node.outputs[0] for node in result.source.nodes() if node.op == Detections.name]
    if not names:
        return None
    (name,) = names
    quantized = with_lower_threshold(result.graph.cut([name]))
    found, exact = [], []
    for _, sample in samples:
        given = {key: stored_input(x, result.graph.type(key)) for key, x in sample.items()}
        exact.append(fitzroy.evaluate(result.source.cut([name]), sample)[name])
        found.append(fitzroy.evaluate(quantized, given)[name])
    return mean_average_precision(found, exact)


def describe(result: Quantized, comparison: Comparison) -> dict[str, Any]:
    """What quantization did, for JSON."""
    from fitzroy.cli.describe import tensor

    graph, source = result.graph, result.source
    return {
        "inputs": [tensor(name, graph.type(name)) for name in graph.inputs],
        "outputs": [tensor(name, graph.type(name)) for name in graph.outputs],
        "operators": {
            "model": len(source.nodes()),
            "integer": len(result.scheme.operands),
            "tables": len(result.looked_up),
            "float": len(result.scheme.floats - result.looked_up),
            "after": len(graph.nodes()),
        },
        "compared_samples": len(comparison.samples),
        "accuracy": accuracy(comparison),
        "warnings": [
            {"code": r.code, "where": r.where, "what": r.what, "reason": r.reason, "hint": r.hint}
            for r in (*result.floats, *result.notes)
        ],
    }


def warn_of_floats(terminal: Terminal, result: Quantized) -> None:
    """Say which operators stay float32 and what became of outputs, and why."""
    if result.floats:
        nodes = len({reason.where for reason in result.floats})
        details = [f"{r.where}: {r.what}: {r.reason}" for r in result.floats]
        stay = "stays" if nodes == 1 else "stay"
        terminal.warn(f"{count(nodes, 'operator')} {stay} float32", details)
    for note in result.notes:
        terminal.warn(f"{note.where}: {note.what}", [note.reason, f"hint: {note.hint}"])


_NOISY = 10.0
"""Decibels below which an output may be of little use: an error of a third of the signal."""


_EXACT = 2.0
"""Steps of an output that it differs by at most, if 8 bits can hold it no more exactly."""


def warn_of_noise(terminal: Terminal, comparison: Comparison, model: str) -> None:
    """Say which outputs of a quantized model are far from those of the float32 model.

    An output may also have little signal to noise because its values are near 0 on all samples, as
    the probability of what none of them shows.
    """
    for name, difference in comparison.outputs.items():
        if difference.decibels < _NOISY:
            samples = count(len(comparison.samples), "sample")
            what = f"output {name!r} has {difference.decibels:.1f} dB of signal to noise on"
            steps = difference.steps
            if steps is not None and steps <= _EXACT:
                terminal.note(
                    f"{what} {samples} because its values are near 0; it is as exact as 8 bits can "
                    f"be: off by at most {steps:.1f} steps of {difference.step:.2g}"
                )
                continue
            terminal.warn(
                f"{what} {samples}",
                [
                    "a value before it does not fit 8 bits well, or there are too few samples",
                    f"hint: find it with fitzroy quantize {model} --calibrate … --report q.html",
                ],
            )


def _show(terminal: Terminal, document: dict[str, Any]) -> None:
    from fitzroy.cli.describe import signature_rows

    rows = signature_rows(document)
    counts = document["operators"]
    tables = f"{counts['tables']} in tables, " if counts["tables"] else ""
    text = f"{counts['integer']} on integers, {tables}{counts['float']} float32"
    rows.append(("operators", text))
    terminal.fields(rows)
    show_accuracy(terminal, document)
    if "agreement" in document:
        text = (
            f"{100 * document['agreement']:.1f} % mean average precision at overlaps of 0.5 to 0.95"
        )
        terminal.line(f"objects agree with float32: {text}")
    for text in document.get("advice", ()):
        terminal.line(f"hint: {text}", style="green")
    for file in document["files"]:
        terminal.line(f"wrote {file['path']}, {size(file['bytes'])}", style="green")


quantize_command = Verb(
    quantize,
    (
        "fitzroy quantize model.tflite --calibrate images/ -o model_quant.tflite",
        "fitzroy quantize m.tflite --calibrate set/ --preprocess imagenet --effort best",
        "fitzroy quantize model.onnx --calibrate inputs.npz --output-type float32",
        "fitzroy quantize m.tflite --calibrate d/ --keep-float SOFTMAX --report q.html",
        "fitzroy quantize --compare float.onnx quantized.tflite --data images/",
        "fitzroy compile model.onnx --calibrate images/ -o model_edgetpu.tflite",
    ),
)
