"""What the page of pipelines says of measured cuts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]

_HEADER = (
    "model",
    "parameters",
    "chips",
    "predicted interval",
    "speed-up",
    "speed-up of whole models in parallel",
    "slowest segment on the timing model",
    "speed-up there",
)


def pipelines_table(results: Json) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: predictions for every number of chips, and what compiled segments take."""
    return _HEADER, [row for model in results["models"] for row in _rows(model)]


def pipelines_text(results: Json) -> str:
    """How long it takes to find cuts."""
    return (
        f"The cuts of a model of {results['operators']} operators for 1 to 8 chips were found in "
        f"{results['seconds']:.1f} s.\n"
    )


def _rows(model: Json) -> Iterator[tuple[str, ...]]:
    one = model["rows"][0]
    for row in model["rows"]:
        timed = max(row.get("timing_model_us", ()), default=None)
        yield (
            model["name"],
            f"{model['parameter_bytes'] / 1e6:.1f} MB",
            str(row["chips"]),
            f"{row['interval_us'] / 1000:.2f} ms",
            f"{one['interval_us'] / row['interval_us']:.2f}",
            f"{one['interval_us'] / row['parallel_interval_us']:.2f}",
            "" if timed is None else f"{timed / 1000:.2f} ms",
            "" if timed is None else f"{max(one['timing_model_us']) / timed:.2f}",
        )
