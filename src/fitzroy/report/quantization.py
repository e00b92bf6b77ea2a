"""What quantization did to a model as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitzroy.report.elements import file_name, listed, scroll, section
from fitzroy.report.pages import page as whole_page
from fitzroy.report.tables import Cell, Column, escaped, meter, number, table

_FOOTER = (
    "Made by fitzroy quantize. Signal to noise is the power of what float32 gives by the power of "
    "the difference, in integer arithmetic. Alone: only that operator is quantized; all but it: "
    "everything else is."
)


def page(document: Mapping[str, Any]) -> str:
    """The report of a quantized model as an HTML document.

    Args:
        document: what ``fitzroy quantize --json`` prints, with ``layers``.
    """
    sections = [
        section("Outputs", _outputs(document)),
        section("What to do", _advice(document)),
        section("Operators", scroll(_layers(document), "Operators")),
        section("Samples that differ most", _samples(document)),
    ]
    subtitle = (
        f"Quantized to 8 bits on {document['samples']} samples · "
        f"{document['operators']['integer']} operators on integers, "
        f"{document['operators']['float']} float32"
    )
    return whole_page(file_name(document["model"]), subtitle, "\n".join(sections), _FOOTER)


def _decibels(value: float) -> Cell:
    return number(value, f"{value:.1f}" if abs(value) < 1e6 else "exact")


def _outputs(document: Mapping[str, Any]) -> str:
    return table(
        (
            Column("output", text=True),
            Column("dB"),
            Column("largest difference"),
            Column("in steps"),
        ),
        [
            (
                Cell(escaped(entry["output"])),
                _decibels(entry["snr_db"]),
                number(entry["largest_difference"], f"{entry['largest_difference']:.4g}"),
                Cell("")
                if entry["largest_steps"] is None
                else number(entry["largest_steps"], f"{entry['largest_steps']:.1f}"),
            )
            for entry in document["accuracy"]
        ],
    )


def _advice(document: Mapping[str, Any]) -> str:
    if not document["advice"]:
        return "<p>Nothing stands out.</p>"
    return listed(document["advice"], "advice")


def _layers(document: Mapping[str, Any]) -> str:
    """Operators; those of models that were quantized elsewhere have only their own figure."""
    if document["layers"] and "range" not in document["layers"][0]:
        return table(
            (Column("operator", text=True), Column("value", text=True), Column("dB")),
            [
                (
                    Cell(escaped(layer["op"])),
                    Cell(escaped(layer["name"])),
                    _decibels(layer["snr_db"]),
                )
                for layer in document["layers"]
            ],
        )
    return table(
        (
            Column("#"),
            Column("operator", text=True),
            Column("result", text=True),
            Column("from"),
            Column("to"),
            Column("cut off %", title="share of the float32 elements outside of the range"),
            Column("dB here", title="this result, everything quantized"),
            Column("dB alone", title="the worst output, only this operator quantized"),
            Column("dB all but it", title="the worst output, everything else quantized"),
            Column("share of loss %"),
            Column("", text=True),
        ),
        [
            (
                number(index),
                Cell(escaped(layer["op"])),
                Cell(escaped(layer["name"])),
                number(layer["range"][0], f"{layer['range'][0]:.4g}"),
                number(layer["range"][1], f"{layer['range'][1]:.4g}"),
                number(layer["saturated"], f"{100 * layer['saturated']:.2f}"),
                _decibels(layer["snr_db"]),
                _decibels(min(layer["alone_db"].values(), default=0.0)),
                _decibels(min(layer["others_db"].values(), default=0.0)),
                number(layer["share"], f"{100 * layer['share']:.1f}"),
                Cell(meter(layer["share"]), layer["share"]),
            )
            for index, layer in enumerate(document["layers"])
        ],
    )


def _samples(document: Mapping[str, Any]) -> str:
    return table(
        (Column("sample", text=True), Column("worst output", text=True), Column("dB")),
        [
            (
                Cell(escaped(entry["sample"])),
                Cell(escaped(entry["output"])),
                _decibels(entry["snr_db"]),
            )
            for entry in document["worst_samples"]
        ],
    )
