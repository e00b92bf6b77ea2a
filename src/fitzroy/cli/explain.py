"""``fitzroy explain``: where every operator of a model would run, and why not elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import UnsupportedError
from fitzroy.cli.help import Json, OptionTexts, Outputs, TargetName, Verb, option_values
from fitzroy.cli.models import Importing, warn_of
from fitzroy.cli.terminal import Column, Terminal, count, error_document
from fitzroy.compiler.targets.xnnpack.options import XnnpackOptions

if TYPE_CHECKING:
    from fitzroy.base.diagnostics import Diagnostic
    from fitzroy.compiler.ir import Graph, Node
    from fitzroy.compiler.partition import Placement

NOWHERE = "nowhere"
MERGED = "merged"
UNUSED = "unused"


@dataclass(slots=True)
class Row:
    """An operator of the model and what became of it.

    Attributes:
        index: position in the model, or None for what a pass inserted.
        kind: operator, ``opaque`` for all that have no class.
        op: operator as the model spells it.
        name: its first result.
        shape: type of that result.
        nodes: what it became, with the target of each node.
        used: whether any output depends on it.
        reasons: why targets that come first did not take it.
    """

    index: int | None
    kind: str
    op: str
    name: str
    shape: str
    used: bool = True
    nodes: list[tuple[str, str]] = field(default_factory=list)
    reasons: list[Diagnostic] = field(default_factory=list)

    @property
    def placed(self) -> str:
        """Targets in order, or what else became of the operator."""
        targets = dict.fromkeys(target or NOWHERE for _, target in self.nodes)
        return " + ".join(targets) or (MERGED if self.used else UNUSED)

    @property
    def became(self) -> str:
        """The nodes, unless there is one of the operator's own kind."""
        ops = [op for op, _ in self.nodes]
        return "" if ops in ([], [self.kind]) else repeated(ops)


def explain(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A .tflite or .onnx model, or a graph in text form."),
    ],
    importing: Importing,
    xnnpack: XnnpackOptions,
    target: TargetName = None,
    option: OptionTexts = None,
    outputs: Outputs = None,
    json: Json = False,
) -> None:
    """Show where every operator would run, and every reason why not on the first target.

    For the Edge TPU, this compiles the model, because some limits only show then, and takes as
    long. Exits with 4 if an operator can run nowhere; the table is complete in any case.
    """
    import fitzroy
    from fitzroy.cli.models import check_model, resolve_outputs
    from fitzroy.compilation.source import demand_uncompiled
    from fitzroy.compiler.targets.edgetpu.partition.rules import (
        has_quantized_activations,
        has_wide_activations,
        quantize_command,
    )
    from fitzroy.compiler.targets.edgetpu.target import EdgeTpu
    from fitzroy.compiler.targets.executorch.target import Xnnpack
    from fitzroy.compiler.targets.target import TARGETS

    terminal = Terminal(json=json)
    check_model(model)
    graph = fitzroy.load(model, importing.how)
    if outputs:
        graph = graph.cut(resolve_outputs(graph, outputs))
    demand_uncompiled(graph, model)
    if target is None:
        target = EdgeTpu.name if has_quantized_activations(graph) else Xnnpack.name
    settings: dict[str, Any] = dict(option_values(option))
    if target == Xnnpack.name:
        settings = {"uint8": xnnpack.uint8, **settings}
    if not json:
        warn_of(terminal, graph)
    with terminal.working("explaining"):
        legalized, placements = fitzroy.explain(graph, target=target, **settings)
    layers = TARGETS.get(target).parts(legalized, placements)
    rows = explain_rows(graph, legalized, placements, layers)
    error = _refusal(rows, model)
    quantized = has_quantized_activations(graph) or has_wide_activations(graph)
    real = target == EdgeTpu.name and not quantized
    command = quantize_command(model, importing.arguments) if real else ""
    if json:
        entries = [_entry(row) for row in rows]
        document: dict[str, Any] = {"model": model, "target": target, "operators": entries}
        document["next"] = command or None
        if error is not None:
            document["error"] = error_document(error)
        terminal.document("explain", document)
    else:
        _show(terminal, rows, target)
        if command:
            terminal.line()
            terminal.line("the model computes with real numbers; next:")
            terminal.line(command, indent=2, whole=True)
        if error is not None:
            terminal.line()
            terminal.error(UnsupportedError(error.what, where=error.where, hint=error.hint))
    if error is not None:
        raise typer.Exit(error.exit_code)


def explain_rows(
    graph: Graph,
    legalized: Graph,
    placements: Sequence[Placement],
    layers: Mapping[str, Sequence[str]] | None = None,
) -> list[Row]:
    """One row per operator of the model, then one per node that belongs to none.

    Args:
        graph: the model.
        legalized: what the passes made of it.
        placements: where the nodes of `legalized` run.
        layers: what becomes of nodes, by name, if that is known.
    """
    from fitzroy.compiler.ops.definition import OPS, TFLITE
    from fitzroy.compiler.partition import title

    rows: list[Row] = []
    by_key: dict[object, Row] = {}
    of_tflite = any(node.origin is not None and node.spelled in TFLITE for node in graph.nodes())
    used = {node.name for node in graph.cut(graph.outputs).nodes()}
    for number, node in enumerate(graph.nodes()):
        index = number if node.origin is None else node.origin.index
        row = _row(graph, node, index)
        row.used = node.name in used
        if node.origin is not None and _key(node) in by_key:
            # Of the nodes of one operator, the last one has its results.
            rows.remove(by_key[_key(node)])
        rows.append(row)
        by_key[_key(node)] = row
        by_key.setdefault(node.outputs[0], row)
    targets = {node.name: placement.target for placement in placements for node in placement.nodes}
    reasons: dict[str, list[Diagnostic]] = {}
    for reject in (reject for placement in placements for reject in placement.rejects):
        reasons.setdefault(reject.where, []).append(reject)
    inserted = []
    for node in legalized.nodes():
        found = by_key.get(_key(node)) or by_key.get(node.outputs[0])
        if found is None:
            found = _row(legalized, node, None)
            known = OPS[node.op].tflite if of_tflite and node.op in OPS else ()
            # Named as its neighbours are, which are of a TFLite model.
            found.op = known[0] if known else found.op
            inserted.append(found)
        became = (layers or {}).get(node.name) or [node.op]
        found.nodes += [(name, targets[node.name]) for name in became]
        found.reasons += [
            reason for reason in reasons.get(title(node), ()) if reason not in found.reasons
        ]
    return rows + inserted


def _row(graph: Graph, node: Node, index: int | None) -> Row:
    type = replace(graph.type(node.outputs[0]), quantization=None)
    return Row(index, node.op, node.spelled, node.outputs[0], str(type))


def repeated(names: Sequence[str]) -> str:
    """Names in order of first occurrence, with a number where there are several."""
    counts = Counter(names)
    return ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in counts.items())


def _key(node: Node) -> object:
    origin = node.origin
    return node.name if origin is None else (origin.file, origin.subgraph, origin.index)


def _refusal(rows: Sequence[Row], model: str) -> UnsupportedError | None:
    refused = [row for row in rows if any(not target for _, target in row.nodes)]
    if not refused:
        return None
    reasons = [reason for row in refused for reason in row.reasons]
    return UnsupportedError(
        f"{count(len(refused), 'operator')} cannot be placed on any target",
        rejects=reasons,
        where=model,
        hint="" if any(r.hint for r in reasons) else "compile the part before it with --outputs",
    )


def _entry(row: Row) -> dict[str, Any]:
    return {
        "index": row.index,
        "op": row.op,
        "name": row.name,
        "type": row.shape,
        "placed": row.placed,
        "nodes": [{"op": op, "target": target} for op, target in row.nodes],
        "reasons": [
            {"code": r.code, "where": r.where, "what": r.what, "hint": r.hint} for r in row.reasons
        ],
    }


def _show(terminal: Terminal, rows: Sequence[Row], first: str) -> None:
    terminal.table(
        (
            Column("#", right=True, style="dim"),
            Column("operator", style="cyan", keep=True),
            Column("result", keep=True),
            Column("runs on", keep=True),
            Column("as"),
        ),
        [
            ["" if row.index is None else str(row.index), row.op, row.shape, row.placed, row.became]
            # Those that the first target has left come first.
            for row in sorted(rows, key=lambda row: not row.reasons)
        ],
    )
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.placed] = counts.get(row.placed, 0) + 1
    terminal.line()
    summary = ", ".join(f"{number} {_phrase(place)}" for place, number in counts.items())
    terminal.line(f"{count(len(rows), 'operator')}: {summary}")
    if any(row.reasons for row in rows):
        terminal.heading(f"not on {first}")
    for row in rows:
        if row.reasons:
            terminal.line(f"{'' if row.index is None else row.index} {row.op} {row.name!r}".strip())
            for reason in row.reasons:
                terminal.line(f"{reason.code}: {reason.what}", indent=2)
                if reason.hint:
                    terminal.line(f"hint: {reason.hint}", style="green", indent=4)


def _phrase(place: str) -> str:
    if place == MERGED:
        return "merged into others"
    return place if place in (NOWHERE, UNUSED) else f"on {place}"


explain_command = Verb(
    explain,
    (
        "fitzroy explain model.tflite",
        "fitzroy explain model.tflite --target xnnpack",
        "fitzroy explain model.tflite --outputs scores",
        "fitzroy explain model.tflite --json | jq '.operators[].placed'",
    ),
)
