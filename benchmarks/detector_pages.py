"""Tables of ``docs/detectors.md`` from the results of ``benchmarks.detectors`` and ``trained``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.detection_pages import agreement

Json = Mapping[str, Any]
Table = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]

_HOST_NAMES = {
    "raspberry_pi_5_usb3": "Pi 5, USB 3",
    "x86_workstation_usb3": "workstation, USB 3",
    "jetson_nano_10w_usb2": "Jetson Nano, USB 2",
}

PUBLISHED = {
    ("yolov8n", 320): "16.7 ms (Pi 5, USB 3)",
    ("yolov8s", 320): "32.2 ms (Pi 5, USB 3)",
    ("yolov9t", 320): "10 ms (YOLOv9s with ReLU6, Frigate)",
    ("ssd-mobilenet-v2", 320): "7.3 ms (300 pixels)",
    ("ssdlite-mobiledet", 320): "7.7 ms",
    ("efficientdet-lite0", 320): "37.4 ms",
    ("efficientdet-lite1", 384): "56.3 ms",
}
"""Times that others have measured, of the same model or of the one that is named."""


def detectors_tables(results: Json) -> list[Table]:
    """What runs where, how long it takes, and why operators stay on the host."""
    rows: Sequence[Json] = results["models"]
    measured = [row for row in rows if "failed" not in row]
    return [
        _places(measured),
        _times(measured),
        _listing(measured),
        _several(measured),
        _reasons(rows),
    ]


def trained_models_table(results: Json) -> Table:
    """Models with trained weights: what runs where, how long it takes, and how well it agrees."""
    header = (
        "model", "size", "on the chip", "on the host", "parts", "cycles", *_HOST_NAMES.values(),
        "agreement with float32", "SNR", "bytes that differ",
    )  # fmt: skip
    rows: Sequence[Json] = results["rows"]
    return header, [
        (
            str(row["model"]),
            "x".join(str(extent) for extent in reversed(row["size"])),
            *(str(row[key]) for key in ("chip", "host", "segments")),
            f"{row['cycles']:,.0f}",
            *(_milliseconds(row, host) for host in _HOST_NAMES),
            agreement(row) if "map" in row else f"{100 * row['read']:.1f} % of characters",
            _levels(row["outputs_db"]),
            _differing(row),
        )
        for row in rows
    ]


def _name(row: Json) -> tuple[str, str]:
    return str(row["model"]), str(row["size"])


def _places(rows: Sequence[Json]) -> Table:
    header = (
        "model", "size", "on the chip", "on the host", "parts", "file", "cached", "streamed",
        "SNR", "bytes that differ",
    )  # fmt: skip
    return header, [
        (
            *_name(row),
            *(str(row[key]) for key in ("chip", "host", "segments")),
            *(f"{row[key] / 2**20:.2f} MiB" for key in ("bytes", "cached", "streamed")),
            _levels(row["snr_db"]),
            _differing(row),
        )
        for row in rows
    ]


def _differing(row: Json) -> str:
    return f"{row['differing']} of {row['compared']:,}" if "differing" in row else "not simulated"


def _levels(levels: Sequence[float]) -> str:
    """Signal to noise of the worst and of the best output."""
    low, high = (f"{one(levels):.0f}" for one in (min, max))
    return f"{low if low == high else f'{low} to {high}'} dB"


def _times(rows: Sequence[Json]) -> Table:
    header = ("model", "size", "cycles", *_HOST_NAMES.values(), "published")
    return header, [
        (
            *_name(row),
            f"{row['cycles']:,.0f}",
            *(_milliseconds(row, host) for host in _HOST_NAMES),
            PUBLISHED.get((row["model"], row["size"]), ""),
        )
        for row in rows
    ]


def _listing(rows: Sequence[Json]) -> Table:
    """Models that list objects."""
    header = (
        "with `--detections`", "size", "on the chip", "on the host", "parts", "cycles",
        *_HOST_NAMES.values(),
    )  # fmt: skip
    return header, [
        (
            *_name(row),
            *(str(row["listed"][key]) for key in ("chip", "host", "segments")),
            f"{row['listed']['cycles']:,.0f}",
            *(_milliseconds(row["listed"], host) for host in _HOST_NAMES),
        )
        for row in rows
        if "listed" in row
    ]


def _several(rows: Sequence[Json]) -> Table:
    """Models whose parameters do not fit one chip, on one chip and on as many as pay."""
    header = (
        "larger than a chip", "size", "outputs", "chips", "time between results",
        "time of an inference", "streamed for each",
    )  # fmt: skip
    return header, [
        (
            *_name(row),
            outputs,
            str(cut["chips"]),
            *(f"{cut[key] / 1000:.1f} ms" for key in ("interval_us", "latency_us")),
            f"{cut['streamed'] / 2**20:.2f} MiB",
        )
        for row in rows
        for outputs, part in (("all boxes", row), ("`--detections`", row.get("listed", {})))
        for cut in part.get("several", ())
    ]


def _milliseconds(row: Json, host: str) -> str:
    return f"{row['us'][host] / 1000:.1f} ms"


def _reasons(rows: Sequence[Json]) -> Table:
    found = [
        (*_name(row), str(count), what.replace("|", "/"))
        for row in rows
        for what, count in row.get("reasons", ())
    ]
    found += [
        (*_name(row), "", str(row[key]).replace("|", "/"))
        for row in rows
        for key in ("failed", "unfinished", "unlisted")
        if key in row
    ]
    return ("model", "size", "operators", "why not on the chip"), found
