"""What the page of pipelines says of measured cuts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]

_HEADER = (
    "model",
    "parameters",
    "chips",
    "interval",
    "speed-up",
    "speed-up of whole models in parallel",
    "slowest segment",
    "best of all cuts",
    "equal parameters",
    "gain over these",
)

_USB_HEADER = (
    "over USB",
    "chips",
    "predicted interval",
    "on the clocks of the accelerators",
    "outputs a second",
    "speed-up",
    "bytes that differ",
)


def pipelines_table(results: Json) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: what every number of chips takes."""
    return _HEADER, [row for model in results["models"] for row in _rows(model)]


def over_usb_table(results: Json) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: models on virtual accelerators."""
    rows = results["over_usb"]
    alone = {row["name"]: row["measured_us"] for row in rows if row["chips"] == 1}
    return _USB_HEADER, [
        (
            row["name"],
            str(row["chips"]),
            f"{row['predicted_us'] / 1000:.3f} ms",
            f"{row['measured_us'] / 1000:.3f} ms",
            f"{1e6 / row['measured_us']:,.0f}",
            f"{alone[row['name']] / row['measured_us']:.2f}",
            str(row["differing"]),
        )
        for row in rows
    ]


def pipelines_text(results: Json) -> str:
    """How long it takes to find cuts."""
    return (
        f"The cuts of a model of {results['operators']} operators for 1 to 8 chips were found in "
        f"{results['seconds']:.1f} s.\n"
    )


def _rows(model: Json) -> Iterator[tuple[str, ...]]:
    one = model["rows"][0]
    for row in model["rows"]:
        slowest = max(row["segments_us"])
        yield (
            model["name"],
            f"{model['parameter_bytes'] / 1e6:.1f} MB",
            str(row["chips"]),
            f"{row['interval_us'] / 1000:.2f} ms",
            f"{one['interval_us'] / row['interval_us']:.2f}",
            f"{one['interval_us'] / row['parallel_interval_us']:.2f}",
            f"{slowest / 1000:.2f} ms",
            f"{row['least_us'] / 1000:.2f} ms",
            f"{row['even_us'] / 1000:.2f} ms",
            f"{row['even_us'] / slowest:.2f}",
        )
