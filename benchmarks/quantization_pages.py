"""Tables of ``docs/quantization.md`` from the results of ``benchmarks.quantization``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def accuracy_table(results: Json) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: an output of a model each, in dB for every quantizer."""
    rows = [row for row in results["rows"] if "snr_db" in row]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    table = []
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = {row["method"]: row["snr_db"] for row in rows if row["model"] == model}
        for output in next(iter(mine.values())):
            found = [mine.get(method, {}).get(output) for method in methods]
            best = max((value for value in found if value is not None), default=0.0)
            table.append((model, f"`{output}`", *(_level(value, best) for value in found)))
    return ("model", "output", *methods), table


def _level(value: float | None, best: float) -> str:
    if value is None:
        return "—"
    return f"**{value:.1f}**" if value >= best - 0.05 else f"{value:.1f}"


def score_table(results: Json) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows: what models of the examples get right, in percent."""
    rows: Sequence[Json] = [row for row in results["rows"] if "score" in row]
    models = list(dict.fromkeys(row["model"] for row in rows))
    methods = dict.fromkeys(["float32", *(row["method"] for row in rows)])
    scores = {(row["model"], row["method"]): row["score"] for row in rows}
    table = [
        (
            method,
            *(
                f"{100 * scores[model, method]:.1f} %" if (model, method) in scores else "—"
                for model in models
            ),
        )
        for method in methods
    ]
    return ("", *models), table


def cost_text(results: Json) -> str:
    """What quantizing a large model costs."""
    cost = results["cost"]
    return (
        f"A network of the size of MobileNetV2 ({cost['multiplications'] / 1e6:.0f} million "
        f"multiplications, 224x224), {cost['samples']} samples, default options: "
        f"{cost['seconds']:.0f} s, at most "
        f"{cost['peak_bytes'] / (1 << 20):.0f} MiB resident.\n"
    )
