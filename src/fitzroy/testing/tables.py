"""Comparisons as documents, as Markdown for comments on pull requests, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from fitzroy.testing.comparison import Change, Comparison
from fitzroy.testing.figures import text

MOST_CHARACTERS = 60_000
"""Characters of a comment; GitHub takes 65,536."""

_MOST_LAYERS = 20
_MOST_OUTPUTS = 10
_MOST_NAME = 80
_HEADLINE = ("latency_us", "cycles")
"""Figures that are shown even if they are the same."""


def document(found: Comparison, regressions: Sequence[Change] = ()) -> dict[str, Any]:
    """A comparison for JSON.

    Args:
        found: the comparison.
        regressions: figures that got worse by more than is allowed.
    """
    return {
        "old": found.old,
        "new": found.new,
        "figures": [
            {
                "name": item.name,
                "title": item.kind.title,
                "unit": item.kind.unit,
                "better": item.kind.better,
                "old": item.old,
                "new": item.new,
                "percent": item.percent,
            }
            for item in found.figures
        ],
        "layers": [
            {"name": item.name, "old": item.old, "new": item.new} for item in found.layers or ()
        ],
        "layers_known": found.layers is not None,
        "host_operators": {
            name: {"old": old, "new": new} for name, (old, new) in found.host.items()
        },
        "samples": found.samples,
        "outputs": [
            {
                "sample": item.sample,
                "output": item.deviation.output,
                "elements": item.deviation.elements,
                "largest": item.deviation.largest,
                "text": item.deviation.text,
            }
            for item in found.outputs
        ],
        "regressions": [item.name for item in regressions],
    }


def value(item: Change, number: float | None) -> str:
    """A figure or cycles for people; a dash for none."""
    return "–" if number is None else text(item.kind, number)


def change(item: Change) -> str:
    """By how much something grew, for people."""
    if item.old is None:
        return "new"
    if item.new is None:
        return "gone"
    percent = item.percent
    if percent is None or item.same:
        return "same"
    return f"{percent:+.1f} %" if isfinite(percent) else "was 0"


def worse(item: Change) -> str:
    """By how much a figure got worse, for people."""
    if isfinite(item.regression):
        return f"by {item.regression:.1f} %"
    return f"from {value(item, item.old)} to {value(item, item.new)}"


def shown(found: Comparison) -> tuple[Change, ...]:
    """Figures that changed, and those that everybody looks for."""
    return tuple(item for item in found.figures if not item.same or item.name in _HEADLINE)


def largest(found: Comparison) -> tuple[Change, ...]:
    """Layers that changed, those by the most cycles first."""
    return tuple(
        sorted(found.layers or (), key=lambda item: -abs((item.new or 0) - (item.old or 0)))
    )


def moved(found: Comparison) -> Iterator[str]:
    """What became of operators on the host, as sentences."""
    for name, (old, new) in found.host.items():
        yield f"{new} {name} on the host, {old} before"


def sentence(found: Comparison) -> str:
    """Whether outputs are the same."""
    if not found.outputs:
        return f"Outputs are the same on {found.samples} of {found.samples} inputs."
    samples = len({item.sample for item in found.outputs})
    return f"Outputs differ on {samples} of {found.samples} inputs."


def markdown(found: Comparison, regressions: Sequence[Change], most: float | None) -> str:
    """A comparison as Markdown that fits a comment on a pull request.

    Args:
        found: the comparison.
        regressions: figures that got worse by more than is allowed.
        most: how many percent are allowed; None if nothing was asked.
    """
    lines = [f"### {_plain(found.old)} → {_plain(found.new)}", ""]
    if most is not None:
        lines += [*_verdict(regressions, most), ""]
    lines += ["| figure | before | after | change |", "|---|---:|---:|---:|"]
    lines += [_row(item.kind.title, item) for item in shown(found)]
    same = len(found.figures) - len(shown(found))
    if same:
        lines += ["", f"{same} more figures are the same."]
    lines += [f"\n{_plain(item)}." for item in moved(found)]
    if found.samples:
        lines += ["", sentence(found)]
        lines += [
            f"- {_plain(item.sample)}, {_plain(item.deviation.output)}: "
            f"{_plain(item.deviation.text, 400)}"
            for item in found.outputs[:_MOST_OUTPUTS]
        ]
    if found.layers:
        more = min(len(found.layers), _MOST_LAYERS)
        title = f"{len(found.layers)} layers changed"
        title += f", the {more} that changed most" if more < len(found.layers) else ""
        lines += ["", f"<details><summary>{title}</summary>", ""]
        lines += ["| layer | cycles before | after | change |", "|---|---:|---:|---:|"]
        lines += [_row(item.name, item) for item in largest(found)[:_MOST_LAYERS]]
        lines += ["", "</details>"]
    return "\n".join(lines)[:MOST_CHARACTERS] + "\n"


def _verdict(regressions: Sequence[Change], most: float) -> Iterator[str]:
    """Whether figures got worse by more than is allowed."""
    if not regressions:
        yield f"No figure got worse by more than {most:g} %."
    for item in regressions:
        yield f"**{_plain(item.kind.title)} got worse {worse(item)}**, "
        yield f"at most {most:g} % are allowed."


def _row(title: str, item: Change) -> str:
    cells = (_plain(title), value(item, item.old), value(item, item.new), change(item))
    return f"| {' | '.join(cells)} |"


def _plain(name: str, most: int = _MOST_NAME) -> str:
    """A name from a file that neither ends a cell nor becomes markup."""
    short = name if len(name) <= most else f"{name[: most - 1]}…"
    safe = "".join(c if c.isprintable() else " " for c in short)
    for mark, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        safe = safe.replace(mark, instead)
    return "".join(f"\\{c}" if c in "\\`*_{}[]()#+!|~@" else c for c in safe)


def table(found: Comparison) -> str:
    """A comparison as CSV: one row per figure and per layer that changed."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("kind", "name", "unit", "old", "new", "percent"))
    for item in found.figures:
        writer.writerow(("figure", item.name, item.kind.unit, *_cells(item)))
    for item in found.layers or ():
        writer.writerow(("layer", _cell(item.name), "cycles", *_cells(item)))
    for output in found.outputs:
        name = f"{output.sample}: {output.deviation.output}"
        writer.writerow(("output", _cell(name), "elements", 0, output.deviation.elements, ""))
    return stream.getvalue()


def _cells(item: Change) -> tuple[str, str, str]:
    percent = item.percent
    numbers = (item.old, item.new, None if percent is None else round(percent, 4))
    old, new, grown = ("" if number is None else f"{number:.10g}" for number in numbers)
    return old, new, grown


def _cell(name: str) -> str:
    """A name from a file that no spreadsheet takes for a formula."""
    return f"'{name}" if name[:1] in ("=", "+", "-", "@") else name
