"""Tables of ``docs/models.md`` from the results of ``benchmarks.models``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
Table = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]


def models_tables(results: Json) -> list[Table]:
    """Counts, one row for every model, figures of ONNX models, and what does not get through."""
    rows: Sequence[Json] = results["models"]
    return [_counts(rows), _targets(rows), _onnx(rows), _refusals(rows)]


def _runs(row: Json, target: str) -> bool:
    """Whether a model is compiled for a target."""
    return target in row and "refused" not in row[target]


def _counts(rows: Sequence[Json]) -> Table:
    convolutional = [row for row in rows if row.get("convolutions")]
    found = [
        ("models, each content once", len(rows)),
        ("compiled for XNNPACK", sum(_runs(row, "xnnpack") for row in rows)),
        ("compiled as modules", sum(_runs(row, "module") for row in rows)),
        ("one or the other", sum(_runs(r, "xnnpack") or _runs(r, "module") for r in rows)),
        ("on the Edge TPU, after quantization", sum(_runs(row, "edgetpu") for row in rows)),
        ("models with convolutions", len(convolutional)),
        ("of these on the Edge TPU", sum(_runs(row, "edgetpu") for row in convolutional)),
    ]
    return ("what", "models"), [(what, str(number)) for what, number in found]


def _targets(rows: Sequence[Json]) -> Table:
    header = (
        "package", "model", "operators", "XNNPACK", "difference", "module", "Edge TPU",
        "convolutions there", "SNR",
    )  # fmt: skip
    table = []
    for row in rows:
        name = f"{row['model']}.{row['format']}"
        if "refused" in row or "failed" in row:
            table.append((row["package"], name, "—", "no", "", "no", "no", "", ""))
            continue
        table.append(
            (
                row["package"],
                name,
                str(row["operators"]),
                *_program(row["xnnpack"]),
                _program(row["module"])[1] or "no",
                *_chip(row),
            )
        )
    return header, table


def _program(entry: Json) -> tuple[str, str]:
    """Where nodes of a program run, and how far it is from the peer."""
    if "refused" in entry:
        return "no", ""
    placed = ", ".join(f"{number} {target}" for target, number in entry.get("placed", {}).items())
    if entry.get("apart") is None:
        return placed, "not run"
    return placed, f"{entry['apart']:.0e}" if entry["apart"] else "0"


def _chip(row: Json) -> tuple[str, str, str]:
    entry = row["edgetpu"]
    if "refused" in entry:
        return "no", "", ""
    where = f"{entry['chip']} of {entry['chip'] + entry['host']}"
    convolutions = f"{entry['convolutions']} of {row['convolutions']}"
    levels = entry.get("snr_db")
    if levels is None:
        return where, convolutions, "was quantized"
    low, high = (f"{one(levels.values()):.0f}" for one in (min, max))
    mark = "*" if entry["calibration"] == "random numbers" else ""
    return where, convolutions, f"{low if low == high else f'{low} to {high}'} dB{mark}"


def _onnx(rows: Sequence[Json]) -> Table:
    header = (
        "ONNX model", "transpositions", "reference", "TFLite on LiteRT", "compiled in",
        "from TFLite in",
    )  # fmt: skip
    return header, [
        (
            row["model"],
            str(row["transpositions"]),
            f"{row['reference']:.0e}",
            f"{row['converted']:.0e}",
            f"{row['seconds']['file']:.2f} s",
            f"{row['seconds']['tflite']:.2f} s",
        )
        for row in rows
        if "converted" in row and "seconds" in row and "tflite" in row["seconds"]
    ]


def _refusals(rows: Sequence[Json]) -> Table:
    found = [(row["model"], *pair) for row in rows for pair in _refused(row)]
    return ("model", "what", "why"), found


def _refused(row: Json) -> Iterator[tuple[str, str]]:
    for key, what in (("refused", "reading"), ("failed", "measuring"), ("peer", "LiteRT")):
        if key in row:
            yield what, _plain(row[key])
    for target in ("xnnpack", "module", "edgetpu"):
        entry = row.get(target, {})
        if "refused" in entry:
            yield target, _plain(entry["refused"])
        elif "unrun" in entry:
            yield f"running the {target}", _plain(entry["unrun"])


def _plain(text: str) -> str:
    return text.replace("|", "/")
