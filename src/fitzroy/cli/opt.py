"""``fitzroy opt``: single passes on a model or a dumped graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fitzroy.base.errors import UsageError
from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.help import Outputs, Passes, Printed, Verb, pass_names
from fitzroy.cli.models import Importing
from fitzroy.cli.terminal import Column, Terminal, seconds

if TYPE_CHECKING:
    from fitzroy.compiler.ir import Graph
    from fitzroy.compiler.passes.base import Stage


_LETTERS = 48
"""Letters of a name, and of elements and scales of a constant, that are printed without --full."""


def opt(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A .tflite or .onnx model, or a graph in text form.",
            show_default=False,
        ),
    ] = None,
    passes: Passes = None,
    listing: Annotated[bool, typer.Option("--list", help="List the passes.")] = False,
    outputs: Outputs = None,
    data: Annotated[
        bool,
        typer.Option("--data/--no-data", help="Print constants, shortened unless --full is given."),
    ] = True,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Print names and constants in full, so that the text can be read back. Files "
            "always have them in full.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the text there.", show_default=False
        ),
    ] = None,
    *,
    importing: Importing,
    printed: Printed,
) -> None:
    """Run passes on a model and print the graph as text.

    With -o or --full, every command that takes a model can read the text. You can therefore rerun a
    pass on any dump of [b]fitzroy compile --dump[/b].
    """
    import fitzroy
    from fitzroy.cli.models import check_model, resolve_outputs
    from fitzroy.compiler.ir import print_graph
    from fitzroy.compiler.passes.base import named_passes, run_passes

    terminal = printed.terminal
    if listing:
        _list(terminal)
        return
    if model is None:
        raise UsageError("a model is missing", hint="see: fitzroy opt --help")
    check_model(model)
    if output is not None:
        check_output(output, [model])
    steps = named_passes(pass_names(passes))
    graph = fitzroy.load(model, importing.how)
    if outputs:
        graph = graph.cut(resolve_outputs(graph, outputs))
    stages: list[Stage] = []

    def observe(stage: Stage, _: Graph) -> None:
        stages.append(stage)

    graph = run_passes(graph, steps, observe)
    whole = full or output is not None or printed.json
    text = print_graph(graph, data=data, most=None if whole else _LETTERS)
    for stage in stages:
        change = f"{stage.before} nodes to {stage.after}"
        terminal.note(f"{stage.name}: {change}, {seconds(stage.seconds)}")
    if output is not None:
        write_file(output, text.encode())
        terminal.note(f"wrote {output}")
    if printed.json:
        done = [
            {"name": s.name, "seconds": s.seconds, "before": s.before, "after": s.after}
            for s in stages
        ]
        where = None if output is None else str(output)
        terminal.document("opt", {"passes": done, "graph": text, "output": where})
    elif output is None:
        terminal.raw(text)


def _list(terminal: Terminal) -> None:
    from fitzroy.compiler.passes.base import PASSES

    rows = []
    for name in sorted(PASSES.names()):
        doc = type(PASSES.get(name)).__doc__ or ""
        rows.append([name, doc.strip().partition("\n")[0]])
    if terminal.json:
        terminal.document(
            "passes", {"passes": [{"name": name, "does": does} for name, does in rows]}
        )
        return
    terminal.table((Column("pass", style="cyan", keep=True), Column("what it does")), rows)


opt_command = Verb(
    opt,
    (
        "fitzroy opt --list",
        "fitzroy opt model.tflite --no-data",
        "fitzroy opt model.tflite --passes simplify,fuse-activations -o graph.ir",
    ),
)
