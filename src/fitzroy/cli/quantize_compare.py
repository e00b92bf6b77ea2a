"""``fitzroy quantize --compare``: how far a quantized model of anybody is from its source."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fitzroy.base.errors import UsageError
from fitzroy.cli.accuracy import (
    Quantified,
    accuracy,
    report_bytes,
    samples_for,
    show_accuracy,
    worst,
)
from fitzroy.cli.files import write_file
from fitzroy.cli.samples import Quantization
from fitzroy.cli.terminal import Column, Terminal, size

if TYPE_CHECKING:
    from fitzroy.compiler.frontends.frontend import Reading

_LAYER_SAMPLES = 2
_WORST = 8
_SHOWN = 12


def compare_models(
    terminal: Terminal,
    models: list[str],
    how: Reading,
    options: Quantization,
    wanted: tuple[list[str] | None, Quantified],
) -> None:
    """Compare a float32 model with a quantized one, and say how far they are apart.

    Args:
        terminal: where to say it.
        models: the paths of both.
        how: how to read them.
        options: what pixels become, and how many samples are taken.
        wanted: files and folders of samples, and what to write.

    Raises:
        FitzroyError: a file cannot be read, or the models do not correspond.
    """
    data, written = wanted
    if len(models) != 2:
        raise UsageError(
            f"--compare takes two models, and {len(models)} are given",
            hint="fitzroy quantize --compare float.onnx quantized.tflite --data images/",
        )
    if written.output is not None:
        raise UsageError("--compare writes no model", hint="leave -o away, or --compare")
    if not data:
        raise UsageError("--compare needs inputs", hint="give some: --data images/")
    with terminal.working("comparing") as progress:
        document = _compared(models, how, options, data, progress)
    if written.report is not None:
        content = report_bytes(written.report, "quantize-compare", document)
        write_file(written.report, content)
        document["files"] = [{"path": os.fspath(written.report), "bytes": len(content)}]
    if terminal.json:
        terminal.document("quantize-compare", document)
    elif not terminal.quiet:
        _show(terminal, document)


def _compared(
    models: list[str], how: Reading, options: Quantization, data: list[str], progress: Any
) -> dict[str, Any]:
    """How far two models are apart, for JSON."""
    import fitzroy
    from fitzroy.compiler.quantization.comparison import compare
    from fitzroy.compiler.quantization.pipeline import demand_float
    from fitzroy.compiler.quantization.report import matching, worst_samples

    source, quantized = (fitzroy.load(model, how) for model in models)
    demand_float(source)
    samples = samples_for(models[0], source, how, options, data)
    arrays = [sample for _, sample in samples]
    comparison = compare(source, quantized, arrays, progress=progress)
    progress("values of the same name")
    step = -(-len(arrays) // _LAYER_SAMPLES)
    return {
        "model": models[0],
        "quantized": models[1],
        "files": [],
        "samples": len(samples),
        "operators": {
            "model": len(source.nodes()),
            "integer": sum(_is_integer(quantized, node.name) for node in quantized.nodes()),
            "float": sum(not _is_integer(quantized, node.name) for node in quantized.nodes()),
        },
        "compared_samples": len(samples),
        "accuracy": accuracy(comparison),
        "layers": [
            {"name": name, "op": _op(source, name), "snr_db": off.decibels}
            for name, off in matching(source, quantized, arrays[::step])
        ],
        "worst_samples": [
            worst(samples[number][0], comparison.samples[number])
            for number in worst_samples(comparison.samples, _WORST)
        ],
        "advice": [],
    }


def _is_integer(graph: Any, name: str) -> bool:
    """Whether a node gives quantized values."""
    return any(graph.type(output).is_quantized for output in graph.node(name).outputs)


def _op(graph: Any, name: str) -> str:
    node = graph.producer(name)
    return "" if node is None else str(node.op)


def _show(terminal: Terminal, document: dict[str, Any]) -> None:
    show_accuracy(terminal, document)
    if document["layers"]:
        terminal.heading("values that both models name, the farthest apart")
        rows = sorted(document["layers"], key=lambda layer: layer["snr_db"])[:_SHOWN]
        terminal.table(
            (Column("operator"), Column("value", style="cyan"), Column("dB", right=True)),
            [[layer["op"], layer["name"], f"{layer['snr_db']:.1f}"] for layer in rows],
        )
    for file in document["files"]:
        terminal.line(f"wrote {file['path']}, {size(file['bytes'])}", style="green")
