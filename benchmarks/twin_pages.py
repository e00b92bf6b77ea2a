"""What the page of the simulator says of the twin, from what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]

_COLUMNS = ("twin", "twin_many", "litert", "simulator_new", "simulator", "lockstep")
_PARALLEL = ("twin_cores", "litert_cores")

_WHAT = {
    "corpus": "the corpus, compiled here",
    "published": "the corpus, as Google compiled it",
    "random": "random models",
}


def speeds(results: Json) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of images a second."""
    threads = f"on {results['threads']} cores"
    header = (
        "model", "twin, one image", "32 images", "LiteRT", "simulated chip, new", "again",
        "32 images", f"twin, 32 images {threads}", f"LiteRT {threads}",
    )  # fmt: skip
    rows = [
        (
            Path(case["model"]).stem,
            *(_rate(case[who]["median_ms"]) for who in _COLUMNS),
            *(_rate(case[who]["fastest_ms"]) for who in _PARALLEL),
        )
        for case in results["cases"]
    ]
    return header, rows


def _rate(milliseconds: float) -> str:
    rate = 1000 / milliseconds
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2f}"


def proofs(results: Json) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of what was compared."""
    header = (
        "models", "compared", "images each", "bytes", "differing from the simulated chip",
        "differing from the numpy semantics",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for key, what in _WHAT.items():
        found = results["proof"][key]
        rows.append((
            what, f"{found['models']:,}", str(found["images"]), f"{found['bytes']:,}",
            f"{found['simulator']:,}", f"{found['meaning']:,}",
        ))  # fmt: skip
    return header, rows


def refusals(results: Json) -> str:
    """Which models have no twin, and why."""
    found = [
        f"- `{name}`: {reason}"
        for key in _WHAT
        for name, reason in results["proof"][key]["refused"].items()
    ]
    return "Without a twin, which says so:\n\n" + "\n".join(found) + "\n" if found else ""
