"""Tables of ``docs/detections.md`` from the results of ``detections``, ``trained``, ``floors``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import table

Json = Mapping[str, Any]


def measures_tables(results: Json) -> str:
    """What each measure brings, and objects of single pictures."""
    header = ("measure", "mAP at 0.5 to 0.95", "mAP at 0.5", "objects")
    rows = [
        (row["method"], _percent(row["map"]), _percent(row["map50"]), str(row["objects"]))
        for row in results["rows"]
    ]
    seen = ("picture", "simulated chip", "ONNX Runtime, float32", "mAP")
    beside = [
        (name, *(_listed(best) for best in entry["best"]), _percent(entry["map"]))
        for name, entry in zip(results["pictures"], results["simulated"], strict=True)
    ]
    return (
        f"\n{table(header, rows)}\n{results['judged']} crops of {len(results['pictures'])} "
        f"pictures, in which the float32 model finds {results['exact']} objects. Calibrated on "
        f"{results['calibrated']} crops of {len(results['calibration'])} other pictures.\n\n"
        f"{table(seen, beside)}\n"
    )


def floors_table(results: Json) -> str:
    """What is lost when only a part of the detector is quantized."""
    splits: Mapping[str, Json] = results["splits"]
    titles = [row["quantized"] for row in next(iter(splits.values()))["rows"]]
    found = {
        (name, row["quantized"]): agreement(row)
        for name, one in splits.items()
        for row in one["rows"]
    }
    header = ("quantized", *(f"{name}, {one['objects']} objects" for name, one in splits.items()))
    rows = [(title, *(found[name, title] for name in splits)) for title in titles]
    return f"\n{table(header, rows)}\n"


def trained_table(results: Json) -> str:
    """How far trained models agree."""
    rows: Sequence[Json] = results["rows"]
    header = (
        "model", "package", "pixels", "crops", "objects", "mAP at 0.5 to 0.95", "mAP at 0.5",
    )  # fmt: skip
    boxes = [
        (
            *_about(row),
            str(row["objects"]),
            agreement(row),
            _percent(row["map50"]),
        )
        for row in rows
        if "map" in row
    ]
    reading = ("model", "package", "pixels", "crops", "characters", "read the same", "SNR")
    texts = [
        (
            *_about(row),
            str(row["characters"]),
            f"{_percent(row['read'])} %",
            f"{row['snr_db']:.0f} dB",
        )
        for row in rows
        if "read" in row
    ]
    return f"\n{table(header, boxes)}\n{table(reading, texts)}\n"


def _about(row: Json) -> tuple[str, ...]:
    height, width = row["size"]
    return row["model"], f"`{row['package']}`", f"{width}x{height}", str(row["judged"])


def agreement(row: Json) -> str:
    """The mean average precision, with its confidence interval if there is one."""
    likely = row.get("likely")
    found = _percent(row["map"])
    return found if likely is None else f"{found} ({' to '.join(map(_percent, likely))})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _listed(objects: Sequence[Sequence[float]]) -> str:
    """The best objects of a picture: class, score and corners."""
    return "<br>".join(
        f"{kind:.0f} ({score:.2f}) at {left:.0f}, {top:.0f}, {right:.0f}, {bottom:.0f}"
        for left, top, right, bottom, score, kind in objects
    )
