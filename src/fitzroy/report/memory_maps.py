"""Maps of the memories of a compiled program as drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fitzroy.report import units
from fitzroy.report.tables import escaped

_COLORS = ("op", "ring", "mesh", "conversion", "infeed", "host", "scalar")
"""Colours of the page that boxes take in turn."""

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 900.0, 300.0, 64.0, 22.0


def narrow_map(narrow: Mapping[str, Any]) -> str:
    """Tensors as boxes: steps along, bytes up; scratch of the steps hangs from the top."""
    steps, capacity = len(narrow["steps"]), narrow["capacity"]
    boxes = [
        (item["begin"], item["end"] + 1, item["base"], item["base"] + item["bytes"], item["name"])
        for item in narrow["tensors"]
    ]
    colored = [(*box, _COLORS[place % len(_COLORS)]) for place, box in enumerate(boxes)]
    colored += [
        (step, step + 1, capacity - size, capacity, f"scratch of step {step}", "fence")
        for step, size in enumerate(narrow["scratch"])
    ]
    return _map(colored, steps, capacity, units.size(capacity), f"{steps} steps")


def wide_map(wide: Mapping[str, Any]) -> str:
    """Parameters as boxes: tiles along, rows up."""
    capacity, tiles = wide["capacity"], len(wide["taken"])
    boxes = [
        (
            piece["tile"],
            piece["tile"] + 1,
            piece["row"],
            piece["row"] + piece["rows"],
            item["name"],
            _COLORS[place % len(_COLORS)],
        )
        for place, item in enumerate(wide["operands"])
        for piece in item["pieces"]
    ]
    boxes += [
        (tile, tile + 1, 0, rows, "other models and parts", "fence")
        for tile, rows in enumerate(wide["taken"])
        if rows
    ]
    boxes.append((0, tiles, wide["limit"], capacity, "rows for data", "fence"))
    return _map(boxes, tiles, capacity, f"{capacity} rows", f"{tiles} tiles")


def _map(
    boxes: Sequence[tuple[float, float, float, float, str, str]],
    columns: int,
    rows: int,
    top: str,
    along: str,
) -> str:
    """Boxes from column to column and from row to row, with a name and a colour."""
    across = (_WIDTH - _LEFT) / max(1, columns)
    up = (_HEIGHT - _BOTTOM) / max(1, rows)
    shapes = [
        f'<rect class="box" x="{_LEFT + left * across:.1f}" y="{_HEIGHT - _BOTTOM - end * up:.1f}" '
        f'width="{(right - left) * across:.1f}" height="{(end - begin) * up:.1f}" '
        f'style="fill:var(--{color})"><title>{escaped(name)}: {begin:,} to {end:,}</title></rect>'
        for left, right, begin, end, name, color in boxes
        if end > begin
    ]
    shapes.append(f'<path class="axis" d="M{_LEFT} 0V{_HEIGHT - _BOTTOM}H{_WIDTH}"/>')
    shapes.append(f'<text x="{_LEFT - 6}" y="11" text-anchor="end">{escaped(top)}</text>')
    shapes.append(
        f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">'
        f"{escaped(along)}</text>"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="Memory map">{"".join(shapes)}</svg>'
    )
