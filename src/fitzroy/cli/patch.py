"""``fitzroy patch-weights``: new weights for a compiled model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.help import Json, Quiet, Verb
from fitzroy.cli.models import Importing
from fitzroy.cli.terminal import Column, Terminal

if TYPE_CHECKING:
    from fitzroy.compiler.targets.edgetpu.patching.apply import ModelReport


def patch_weights(
    compiled: Annotated[
        str,
        typer.Argument(
            metavar="COMPILED", help="The compiled model, *_edgetpu.tflite.", show_default=False
        ),
    ],
    retrained: Annotated[
        str,
        typer.Argument(
            metavar="RETRAINED",
            help="Its source after training: the same network, quantized to the same activation "
            "ranges.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where the result goes.", show_default=False
        ),
    ],
    original: Annotated[
        str | None,
        typer.Option(
            "--original",
            metavar="SOURCE",
            help="The source that the model was compiled from, to find the weights by content.",
            show_default=False,
        ),
    ] = None,
    *,
    importing: Importing,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Replace the weights of a compiled model without compiling it again.

    Weights, biases and their scales replace those of the compiled model, in the layout of the
    hardware. Everything that the instructions depend on, above all the ranges of activations, must
    be unchanged; differences are refused by name.
    """
    import fitzroy

    terminal = Terminal(json=json, quiet=quiet)
    check_output(output, [compiled, retrained, *([original] if original else [])])
    data, report = fitzroy.patch_weights(compiled, retrained, original=original, how=importing.how)
    write_file(output, data)
    if json:
        terminal.document(
            "patch-weights", {"output": str(output), "bytes": len(data)} | _document(report)
        )
        return
    for note in report.diagnostics:
        terminal.note(str(note))
    if not quiet:
        _print(terminal, report)
    terminal.note(f"{len(data)} bytes written to {output}")


def _document(report: ModelReport) -> dict[str, object]:
    from fitzroy.formats.darwinn import token_text

    return {
        "packages": [
            {
                "operands": [
                    {
                        "operator": operand.operator,
                        "executable": operand.executable,
                        "offset": operand.offset,
                        "bytes": operand.nbytes,
                        "changed": operand.changed,
                        "instructions": operand.instructions,
                        "constants": [
                            {"name": name, "before": before, "after": after}
                            for name, before, after in operand.constants
                        ],
                    }
                    for operand in package.operands
                ],
                "token": {
                    "before": token_text(package.token[0]),
                    "after": token_text(package.token[1]),
                },
                "checked": list(package.checked),
            }
            for package in report.packages
        ],
        "constants": list(report.constants),
        "diagnostics": [str(note) for note in report.diagnostics],
    }


def _print(terminal: Terminal, report: ModelReport) -> None:
    columns = [
        Column("operator"),
        Column("bytes", right=True),
        Column("changed", right=True),
        Column("instructions", right=True),
    ]
    for package in report.packages:
        terminal.table(
            columns,
            [
                [
                    operand.operator,
                    f"{operand.nbytes:,}",
                    f"{operand.changed:,}",
                    str(operand.instructions),
                ]
                for operand in package.operands
            ],
        )
    if report.constants:
        terminal.line(f"constants on the CPU: {', '.join(report.constants)}")


patch_command = Verb(
    patch_weights,
    (
        "fitzroy patch-weights model_edgetpu.tflite retrained.tflite "
        "\\\n     --original model.tflite -o retrained_edgetpu.tflite",
        "fitzroy patch-weights dense_edgetpu.tflite new.tflite -o new_edgetpu.tflite",
    ),
)
