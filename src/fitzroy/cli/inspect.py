"""``fitzroy inspect``: what is in a file of any known format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.cli.describe import quantization_text, tensor_type
from fitzroy.cli.files import check_output, write_files
from fitzroy.cli.help import Json, Verb
from fitzroy.cli.terminal import Column, Terminal, count, size
from fitzroy.formats.detect import FileKind

Document = Mapping[str, Any]

_OPERATORS = (
    Column("#", right=True, style="dim"),
    Column("operator", style="cyan", keep=True),
    Column("inputs"),
    Column("outputs"),
)
_NAMED_SHOWN = 12


def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="File of any known format.")],
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Show everything: each operator, memory of tiles, the host script, instruction "
            "statistics.",
        ),
    ] = False,
    json: Json = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="Dump the raw tables of the file as JSON.")
    ] = False,
    forms: Annotated[
        bool,
        typer.Option(
            "--forms",
            help="Show how many instructions of an Edge TPU program have forms of published "
            "programs, and list the other forms.",
        ),
    ] = False,
    envelope: Annotated[
        bool,
        typer.Option(
            "--envelope",
            help="Show the properties of an Edge TPU program beside their ranges in published "
            "programs.",
        ),
    ] = False,
    labels_out: Annotated[
        Path | None,
        typer.Option(
            "--labels-out",
            metavar="FILE",
            help="Write the names of classes that a model has to a file, one per line, for "
            "--labels and other programs.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show what a file is: inputs and outputs, what runs where, whether it fits, how long it takes.

    Reads TFLite models, ExecuTorch programs and bundled programs, XNNPACK graphs, Edge TPU
    packages, executables and objects, bytecode modules, and graph texts. The contents decide, not
    the name. --full shows everything in the file, down to the packages inside compiled models.
    """
    from fitzroy.cli.describe import describe, raw_tables
    from fitzroy.cli.describe_module import show_module
    from fitzroy.cli.inspect_edgetpu import (
        show_envelope,
        show_forms,
        show_object,
        show_package,
    )
    from fitzroy.cli.inspect_summary import show_summary

    terminal, data = Terminal(json=json), read_file(file)
    if tables:
        terminal.document("inspect-tables", raw_tables(data, file))
        return
    if forms:
        show_forms(terminal, data, file)
        return
    if envelope:
        show_envelope(terminal, data, file)
        return
    with terminal.working("inspecting"):
        document = describe(data, file)
    if labels_out is not None:
        _write_labels(terminal, document, file, labels_out)
    if json:
        terminal.document("inspect", document)
        return
    summarized = {"subgraphs", "executables", "methods", "program", "datatypes"}
    if not full and summarized & {*document}:
        show_summary(terminal, document, file, len(data))
        return
    terminal.fields(
        [
            ("file", file),
            ("kind", _kind(document)),
            ("size", f"{size(len(data))} ({len(data):,} bytes)"),
            *([("description", document["description"])] if document.get("description") else []),
        ]
    )
    _suites(terminal, document)
    _program(terminal, document.get("program", document))
    _model(terminal, document)
    if "datatypes" in document:
        _xnnpack(terminal, document)
    if "executables" in document:
        terminal.line()
        show_package(terminal, document)
    if document["kind"] == FileKind.MODULE.value:
        terminal.line()
        show_module(terminal, document)
    if "sections" in document:
        terminal.line()
        show_object(terminal, document)
    subgraphs = document.get("subgraphs", ())
    for number, subgraph in enumerate(subgraphs):
        place = f" of subgraph {number}" if len(subgraphs) > 1 else ""
        for operator in subgraph["operators"]:
            if "package" in operator:
                terminal.heading(f"package of operator {operator['index']}{place}")
                show_package(terminal, operator["package"])


def _write_labels(terminal: Terminal, document: Document, file: str, target: Path) -> None:
    """Write the names of classes of a model.

    Raises:
        UsageError: it has none, or the file cannot be written.
    """
    from fitzroy.formats.labels import write_label_file

    check_output(target, [file])
    labels = {item["class"]: item["label"] for item in document.get("labels", ())}
    if not labels:
        raise UsageError(
            "the model has no names of classes",
            reason="; ".join(document.get("labels_left_out", ())),
            where=file,
            hint="fitzroy compile MODEL --labels FILE puts them in",
        )
    write_files([(target, write_label_file(labels))])
    terminal.note(f"wrote {target}, {count(len(labels), 'label')}")


def _kind(document: Document) -> str:
    identifier = document.get("identifier")
    return f"{document['kind']} ({identifier})" if identifier else str(document["kind"])


# --- parts ---------------------------------------------------------------------------------------


def _shape(tensor: Document | None) -> str:
    return "-" if tensor is None else f"[{','.join(map(str, tensor['shape']))}]"


def _ports(terminal: Terminal, document: Document) -> None:
    rows = []
    for side in ("inputs", "outputs"):
        for number, tensor in enumerate(document[side]):
            label = f"{side[:-1]} {number}"
            rows.append([label, tensor["name"], tensor_type(tensor), quantization_text(tensor)])
    if not any(row[3] for row in rows):
        rows = [row[:3] for row in rows]
    titles = ("", "name", "type", "quantization")
    columns = [Column(title, style="cyan" if not title else "") for title in titles]
    terminal.table(columns[: len(rows[0])] if rows else columns, rows)


def counts_text(histogram: Mapping[str, int]) -> str:
    """How often each name occurs."""
    return ", ".join(f"{name} ×{number}" for name, number in histogram.items()) or "none"


def _operators(terminal: Terminal, operators: Sequence[Document]) -> None:
    rows = []
    for operator in operators:
        name = operator["op"]
        if "clamp" in operator:
            name += " {:g}..{:g}".format(*operator["clamp"])
        inputs = " ".join(map(_shape, operator["inputs"]))
        if "package" in operator:
            inputs += f" and a package of {size(operator['package']['bytes'])}"
        elif operator.get("custom_options_bytes"):
            inputs += f" and {size(operator['custom_options_bytes'])} of options"
        outputs = " ".join(map(tensor_type, operator["outputs"]))
        rows.append([str(operator["index"]), name, inputs, outputs])
    terminal.table(_OPERATORS, rows)


def _opaque(terminal: Terminal, operators: Sequence[Document]) -> None:
    """What no class stands for, with the reason, once per kind of operator."""
    reasons = Counter((item["op"], item["opaque"]) for item in operators if "opaque" in item)
    if reasons:
        terminal.heading("opaque operators, which LiteRT computes")
    for (name, why), number in reasons.items():
        terminal.line(f"{name} ×{number}: {why}" if number > 1 else f"{name}: {why}")


def _model(terminal: Terminal, document: Document) -> None:
    from fitzroy.cli.inspect_summary import labels_text

    subgraphs = document.get("subgraphs", ())
    for number, subgraph in enumerate(subgraphs):
        label = f"subgraph {number}" if len(subgraphs) > 1 else "graph"
        name = f" {subgraph['name']!r}" if subgraph["name"] else ""
        terminal.heading(f"{label}{name}")
        _ports(terminal, subgraph)
        terminal.heading(_operator_count(subgraph["operators"]))
        terminal.line(counts_text(subgraph["histogram"]))
        terminal.line()
        _operators(terminal, subgraph["operators"])
        _opaque(terminal, subgraph["operators"])
        terminal.line()
        constants = subgraph["constants"]
        terminal.line(
            f"{count(subgraph['tensors'], 'tensor')}, of which"
            f" {count(constants['count'], 'constant')} with {size(constants['bytes'])}"
        )
    if document.get("signatures"):
        terminal.line(f"signatures: {', '.join(document['signatures'])}")
    for text in document.get("stale metadata", ()):
        terminal.warn(f"stale metadata: {text}")
    for entry in document.get("metadata", ()):
        terminal.line(f"metadata: {entry['name']}, {size(entry['bytes'])}")
    for entry in document.get("packed_files", ()):
        terminal.line(f"packed file: {entry['name']}, {size(entry['bytes'])}")
    if document.get("labels"):
        terminal.line(f"labels: {labels_text(document['labels'])}")
    for text in document.get("labels_left_out", ()):
        terminal.warn(f"names of classes are left out: {text}")


def _operator_count(operators: Sequence[Document]) -> str:
    text = count(len(operators), "operator")
    compiled = sum("package" in operator for operator in operators)
    if compiled:
        text += f": {compiled} on the Edge TPU, {len(operators) - compiled} on the CPU"
    return text


def _xnnpack(terminal: Terminal, graph: Document) -> None:
    _ports(terminal, graph)
    constants = graph["constants"]
    text = f"{constants['count']} with {size(constants['bytes'])} inside"
    if graph["named_constants"]:
        text += f", {graph['named_constants']} looked up by name"
    terminal.line()
    terminal.fields(
        [
            ("nodes", counts_text(graph["histogram"])),
            ("datatypes", counts_text(graph["datatypes"])),
            ("constants", text),
        ]
    )
    terminal.line()
    _operators(terminal, graph["operators"])


def _program(terminal: Terminal, program: Document) -> None:
    for method in program.get("methods", ()):
        terminal.heading(f"method {method['name']!r}")
        _ports(terminal, method)
        calls = method["calls"]
        planned = method["planned_memory"]
        rows = [
            ("calls", counts_text(_call_counts(calls))),
            ("values", counts_text(method["values"])),
            ("planned memory", " + ".join(size(item) for item in planned) or "none"),
        ]
        if method["kernels"]:
            rows.insert(1, ("kernels", counts_text(method["kernels"])))
        terminal.line()
        terminal.fields(rows)
        for number, delegate in enumerate(method["delegates"]):
            title = f"delegate {number}: {delegate['backend']}, {size(delegate['bytes'])}"
            terminal.heading(title)
            if "graph" in delegate:
                _xnnpack(terminal, delegate["graph"])
    if "methods" in program:
        _storage(terminal, program)


def _call_counts(calls: Sequence[Document]) -> dict[str, int]:
    kinds: dict[str, int] = {}
    for call in calls:
        kinds[call["call"]] = kinds.get(call["call"], 0) + 1
    return kinds


def _storage(terminal: Terminal, program: Document) -> None:
    segments, constants = program["segments"], program["constants"]
    terminal.heading("storage")
    inside = ", ".join(size(segment["bytes"]) for segment in segments[:_NAMED_SHOWN])
    if len(segments) > _NAMED_SHOWN:
        inside += f" and {len(segments) - _NAMED_SHOWN} more"
    named = program["named_data"]
    rows = [
        ("segments", f"{len(segments)}: {inside}" if segments else "none"),
        ("constants", f"{constants['count']} with {size(constants['bytes'])}"),
        (
            "named data",
            f"{len(named)} with {size(sum(item['bytes'] for item in named))}" if named else "none",
        ),
    ]
    terminal.fields(rows)


def _suites(terminal: Terminal, document: Document) -> None:
    for suite in document.get("suites", ()):
        terminal.heading(f"{count(len(suite['cases']), 'test case')} for {suite['method']!r}")
        terminal.table(
            (Column("case", right=True, style="dim"), Column("inputs"), Column("expected outputs")),
            [
                [str(number), _items(case["inputs"]), _items(case["outputs"])]
                for number, case in enumerate(suite["cases"])
            ],
        )
        for key, value in suite["metadata"].items():
            terminal.line(f"attachment {key}: {value}")
    for key, value in document.get("attachments", {}).items():
        terminal.line(f"attachment {key}: {value}")


def _items(items: Sequence[Document]) -> str:
    return " ".join(str(item["value"]) if "value" in item else tensor_type(item) for item in items)


inspect_command = Verb(
    inspect,
    (
        "fitzroy inspect model.tflite",
        "fitzroy inspect model.pte --json | jq .methods[0].delegates",
        "fitzroy inspect model_edgetpu.tflite",
        "fitzroy inspect model_edgetpu.tflite --full | less",
        "fitzroy inspect model_edgetpu.tflite --forms",
        "fitzroy inspect model_edgetpu.tflite --envelope",
        "fitzroy inspect model_edgetpu.tflite --labels-out labels.txt",
        "fitzroy inspect model.pte --tables > tables.json",
    ),
)
