"""The tables of ``docs/onnx.md``, made from results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitzroy.compiler.frontends.onnx.values import RULES

Json = Mapping[str, Any]


def rules_table() -> str:
    """Rules by which operators are refused."""
    return "".join(f"| `{rule}` | {meaning} |\n" for rule, meaning in RULES.items())


def models_table(results: Json) -> str:
    """Whole models beside ONNX Runtime."""
    lines = [
        "| package | model | operators | transpositions | reference | LiteRT | nodes for XNNPACK "
        "| compile | from TFLite |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results["models"]:
        start = f"| {row['package']} | {row['model']} |"
        if "refused" in row:
            lines.append(f"{start} refused: {row['refused'].replace('|', '/')} | | | | | | |")
            continue
        placed = ", ".join(f"{count} on {target}" for target, count in row["placed"].items())
        lines.append(
            f"{start} {row['operators']} | {row['transpositions']} | {row['reference']:.1e} "
            f"| {row['litert']:.1e} | {placed} | {row['seconds']:.2f} s "
            f"| {row['seconds_tflite']:.2f} s |"
        )
    return "\n".join(lines) + "\n"


def nodes_table(results: Json) -> str:
    """What becomes of the node cases of every ONNX operator."""
    rows = results["operators"]
    passed = sum(row["passed"] for row in rows.values())
    refused = sum(len(names) for row in rows.values() for names in row["refused"].values())
    lines = [
        f"onnx {results['onnx']}: {passed} of {passed + refused} cases pass, {refused} are refused "
        "by a rule.\n",
        "| operator | cases | pass | refused by |",
        "|---|---|---|---|",
    ]
    for name, row in sorted(rows.items()):
        rules = ", ".join(f"`{rule}` {len(c)}" for rule, c in sorted(row["refused"].items()))
        total = row["passed"] + sum(map(len, row["refused"].values()))
        lines.append(f"| {name} | {total} | {row['passed']} | {rules} |")
    return "\n".join(lines) + "\n"
