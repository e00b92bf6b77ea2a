"""How far a quantized model is from its source: what verbs that measure it share."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import typer

from fitzroy.base.files import text_bytes
from fitzroy.cli.help import ModelLabels, Printed
from fitzroy.cli.samples import Quantization
from fitzroy.cli.terminal import Column, Terminal, count, plain
from fitzroy.report.documents import headed

if TYPE_CHECKING:
    from fitzroy.cli.samples import Named
    from fitzroy.compiler.frontends.frontend import Reading
    from fitzroy.compiler.ir import Graph
    from fitzroy.compiler.quantization.comparison import Comparison, Difference


@dataclass(frozen=True)
class Quantified(Printed):
    """What to write, and how to say what was done.

    Attributes:
        output: file of the quantized model.
        report: file of a report.
        labels: file with names of classes for the quantized model.
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
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write a report, .html or .json: the error of each operator, alone and left out, "
            "the samples that differ most, and remedies.",
            show_default=False,
        ),
    ] = None
    labels: ModelLabels = None


def report_bytes(path: Path, schema: str, document: dict[str, Any]) -> bytes:
    """A report in the format that its name says.

    Args:
        path: its file.
        schema: what it is as JSON, see `fitzroy.report.documents`.
        document: its content.
    """
    if path.suffix == ".json":
        text = json_text.dumps(plain(headed(schema, document)), indent=2) + "\n"
    else:
        from fitzroy.report.quantization import page

        text = page(document)
    return text_bytes(text)


def worst(where: str, outputs: Mapping[str, Difference]) -> dict[str, Any]:
    """The worst output on a sample, for JSON."""
    name = min(outputs, key=lambda name: outputs[name].decibels)
    return {"sample": where, "output": name, "snr_db": outputs[name].decibels}


def samples_for(
    model: str, graph: Graph, how: Reading, options: Quantization, paths: list[str]
) -> list[Named]:
    """Samples for a graph from arrays with the order of dimensions that its file has.

    Args:
        model: the path of the model.
        graph: what was read of it.
        how: how it was read.
        options: how many samples, and what pixels become.
        paths: files and folders of samples.

    Raises:
        FitzroyError: a sample cannot be read, or does not suit.
    """
    import fitzroy
    from fitzroy.cli.samples import load_samples
    from fitzroy.compiler.passes.borders import input_order

    source = fitzroy.load(model, replace(how, keep_layout=True))
    samples = load_samples(source, paths, options.rule, options.samples)
    for name in source.inputs:
        order = input_order(source, name)
        if order is None or input_order(graph, name) is not None:
            continue
        for _, sample in samples:
            sample[name] = np.ascontiguousarray(sample[name].transpose(order))
    return samples


def accuracy(comparison: Comparison) -> list[dict[str, Any]]:
    """How far outputs are apart, for JSON."""
    return [
        {
            "output": name,
            "snr_db": found.decibels,
            "largest_difference": found.largest,
            "largest_steps": found.steps,
            "elements": found.count,
        }
        for name, found in comparison.outputs.items()
    ]


def show_accuracy(terminal: Terminal, document: dict[str, Any]) -> None:
    """Print how far outputs are apart."""
    terminal.heading(f"signal to noise on {count(document['compared_samples'], 'sample')}")
    terminal.table(
        (
            Column("output", style="cyan"),
            Column("dB", right=True),
            Column("largest difference", right=True),
            Column("in steps", right=True),
        ),
        [
            [
                entry["output"],
                f"{entry['snr_db']:.1f}",
                f"{entry['largest_difference']:.4g}",
                "" if entry["largest_steps"] is None else f"{entry['largest_steps']:.1f}",
            ]
            for entry in document["accuracy"]
        ],
    )
