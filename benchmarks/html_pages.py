"""HTML pages of a large model in a browser: bytes, elements, layouts, time until they answer."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.report.browser import browser, installed
from tests.report.large import POSENET, opened, pages_of

from benchmarks.support import corpus_model, write_results
from fitzroy.base.errors import UsageError

REPEATS = 9
BOUND_MILLISECONDS = 500
"""Most milliseconds until a page answers."""

_NAMES = {
    "compilation": "report of the compiler",
    "simulation": "report of a run",
    "explorer": "explorer",
}


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Open each page several times, and take the medians.

    Args:
        progress: is told what is under way.
        repeats: how many times; 0 for the usual number.

    Returns:
        Pages that take too long.

    Raises:
        UsageError: there is no browser, or no corpus.
    """
    if installed() is None:
        raise UsageError("no browser", hint="install chromium and chromedriver")
    model = corpus_model(POSENET)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, browser() as session:
        progress(f"pages of {model.stem}")
        for name, page in pages_of(model, Path(folder)).items():
            works = [opened(session, page) for _ in range(repeats or REPEATS)]
            figures = {key: statistics.median(work[key] for work in works) for key in works[0]}
            rows.append({"page": name, "bytes": page.stat().st_size, **figures})
    write_results("html_pages", {"model": POSENET, "rows": rows})
    return [
        f"the {_NAMES[row['page']]} takes {row['interactive_ms']:.0f} ms, at most "
        f"{BOUND_MILLISECONDS} ms are allowed"
        for row in rows
        if row["interactive_ms"] > BOUND_MILLISECONDS
    ]


def pages_table(results: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of what was measured."""
    header = ("page", "size", "elements", "passes of layout", "answers after")
    return header, [
        (
            _NAMES[row["page"]],
            f"{row['bytes'] / 1000:,.0f} kB",
            f"{row['elements']:,.0f}",
            f"{row['layouts']:.0f}",
            f"{row['interactive_ms']:.0f} ms",
        )
        for row in results["rows"]
    ]
