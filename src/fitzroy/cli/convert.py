"""``fitzroy convert``: a model of any format to a TFLite model of the same numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import UsageError
from fitzroy.cli.files import check_output, with_suffix, write_files
from fitzroy.cli.help import Json, ModelLabels, Outputs, Quiet, Verb
from fitzroy.cli.models import Importing
from fitzroy.cli.terminal import Terminal, count, size

if TYPE_CHECKING:
    from fitzroy.compiler.ir import Graph


def convert(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A .onnx or .tflite model, or a graph in text form."),
    ],
    importing: Importing,
    outputs: Outputs = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The TFLite model to write. [dim]default: MODEL.tflite here[/dim]",
            show_default=False,
        ),
    ] = None,
    labels: ModelLabels = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model as a TFLite model that computes the same numbers.

    Image inputs get channels last, [N,H,W,C], as in TFLite, unless --keep-layout is given. Outputs
    keep the order of dimensions of the model. Element types stay the same; use [b]fitzroy
    quantize[/b] for 8-bit integers. Names of classes that the model has are kept.
    """
    import fitzroy
    from fitzroy.cli.describe import tensor
    from fitzroy.cli.models import check_model, give_labels, resolve_outputs
    from fitzroy.compiler.frontends.tflite import export_model
    from fitzroy.formats.tflite import write_model

    terminal = Terminal(json=json, quiet=quiet)
    check_model(model)
    target = output if output is not None else with_suffix(Path(model).name, ".tflite")
    check_output(target, [model])
    if target.suffix != ".tflite":
        raise UsageError(
            f"{target} is no name of a TFLite model",
            reason=f"it ends in {target.suffix!r}",
            hint="name the output .tflite; fitzroy compile writes programs",
        )
    with terminal.working("converting") as progress:
        graph = fitzroy.load(model, importing.how)
        if outputs:
            graph = graph.cut(resolve_outputs(graph, outputs))
        give_labels(graph, labels)
        progress("writing")
        data = write_model(export_model(graph))
    write_files([(target, data)])
    document: dict[str, Any] = {
        "model": model,
        "files": [{"path": os.fspath(target), "bytes": len(data)}],
        "inputs": [tensor(name, graph.type(name)) for name in graph.inputs],
        "outputs": [tensor(name, graph.type(name)) for name in graph.outputs],
        "operators": len(graph.nodes()),
    }
    if terminal.json:
        terminal.document("convert", document)
    elif not terminal.quiet:
        _show(terminal, graph, target, len(data))


def _show(terminal: Terminal, graph: Graph, target: Path, written: int) -> None:
    """Say what was written."""
    sides = (("input", graph.inputs), ("output", graph.outputs))
    rows = [(side, f"{name}: {graph.type(name)}") for side, names in sides for name in names]
    operators = len(graph.nodes())
    terminal.fields([*rows, ("operators", str(operators))])
    text = f"wrote {target}, {size(written)}, {count(operators, 'operator')}"
    terminal.line(text, style="green")


convert_command = Verb(
    convert,
    (
        "fitzroy convert model.onnx -o model.tflite",
        "fitzroy convert model.onnx --input images=1x3x320x320",
        "fitzroy convert model.onnx --keep-layout --outputs scores",
    ),
)
