"""The tables of ``docs/onnx.md``, made from results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fitzroy.compiler.frontends.onnx.values import RULES

Json = Mapping[str, Any]


def rules_table() -> str:
    """Rules by which operators are refused."""
    return "".join(f"| `{rule}` | {meaning} |\n" for rule, meaning in RULES.items())


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
