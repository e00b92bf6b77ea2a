"""What is said of outputs, for people and in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.cli.terminal import Column, Terminal, count, seconds
from fitzroy.execution import arrays
from fitzroy.execution.inputs import Port

_FEW = 8
"""Outputs of at most as many elements are shown in full, and as many classes are listed."""

_DOUBT = "the classes may be shifted or of another data set"


def score_names(
    given: dict[int, str] | None, labels: dict[int, str], port: Port
) -> dict[int, str] | None:
    """Names for the scores of an output: those that are given, or those of the model.

    Those of the model count if there is one for each score: it may have vectors of other things.
    """
    if given is None and labels and max(labels) + 1 == port.type.size:
        return labels
    return given


def describe_output(
    port: Port, result: Array, top: int, names: dict[int, str] | None
) -> dict[str, Any]:
    """What to say of an output, for JSON."""
    from fitzroy.cli.describe import tensor

    real = arrays.real_values(result, port.type)
    type = port.type.with_shape(result.shape)
    report: dict[str, Any] = {
        **tensor(port.name, type),
        "type": str(type),
        "sha256": arrays.digest(result),
    }
    if arrays.is_vector(result.shape):
        report["top"] = [
            {
                "index": index,
                **({"label": names.get(index, "")} if names is not None else {}),
                "score": float(real.reshape(-1)[index]),
                "stored": result.reshape(-1)[index].item(),
            }
            for index in arrays.top(real, top)
        ]
    elif result.size <= _FEW:
        report["values"] = real.reshape(-1).tolist()
    if result.size:
        finite = real[np.isfinite(real)]
        for name, value in (("min", finite.min), ("mean", finite.mean), ("max", finite.max)):
            report[name] = float(value()) if finite.size else None
        report["not_finite"] = int(real.size - finite.size)
    return report


def show_outputs(terminal: Terminal, document: dict[str, Any]) -> None:
    """Print what `describe_output` says of all outputs."""
    terminal.note(f"ran on {document['ran_on']} in {seconds(document['seconds'])}")
    parts = document.get("parts", ())
    for part in parts if len(parts) > 1 else ():
        terminal.note(f"{part['on']}: {part['what']} in {seconds(part['seconds'])}")
    for number, report in enumerate(document["outputs"]):
        name = report["name"] or f"output {number}"
        terminal.line(f"{name}: {report['type']}", style="bold")
        if "top" in report:
            _show_top(terminal, report["top"])
            continue
        if "values" in report:
            terminal.line("  " + " ".join(f"{value:.6g}" for value in report["values"]))
        elif report.get("mean") is not None:
            figures = (f"{key} {report[key]:.6g}" for key in ("min", "mean", "max"))
            terminal.line("  " + ", ".join(figures))
        if report.get("not_finite"):
            terminal.line(f"  {report['not_finite']} elements are not finite")
    if "objects" in document:
        from fitzroy.cli.objects import show_objects

        show_objects(terminal, document["objects"])
    for path in document["written"]:
        terminal.note(f"wrote {path}")


def _show_top(terminal: Terminal, entries: Sequence[dict[str, Any]]) -> None:
    labelled = any("label" in entry for entry in entries)
    columns = [Column("class", right=True), Column("score", right=True), Column("label")]
    rows = [
        [str(entry["index"]), f"{entry['score']:.6g}", entry.get("label", "")] for entry in entries
    ]
    terminal.table(columns if labelled else columns[:2], [r if labelled else r[:2] for r in rows])


def judge_labels(terminal: Terminal, names: dict[int, str], ports: Sequence[Port]) -> None:
    """Warn of labels that cannot belong to the outputs."""
    vectors = [port for port in ports if arrays.is_vector(port.type.shape)]
    if not vectors:
        terminal.warn("the labels have no use: no output is a vector of scores")
    for port in vectors:
        if max(names, default=-1) + 1 != port.type.size:
            terminal.warn(f"{count(len(names), 'label')} for {port.type.size} scores", [_DOUBT])


def judge_object_labels(
    terminal: Terminal, names: dict[int, str], objects: Iterable[dict[str, Any]]
) -> None:
    """Warn of objects, given by their documents, whose class has no label."""
    unnamed = sorted({item["class"] for item in objects if not item["label"]})
    if unnamed:
        found = ", ".join(map(str, unnamed[:_FEW])) + (", ..." if unnamed[_FEW:] else "")
        terminal.warn(f"{count(len(names), 'label')}, and none for class {found}", [_DOUBT])
