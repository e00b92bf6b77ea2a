"""The roofline of a run as a drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fitzroy.report import units
from fitzroy.report.elements import color
from fitzroy.report.phases import PhaseFigures
from fitzroy.report.run import Run
from fitzroy.report.tables import escaped

_FEW = 1e-4
"""Share of all products below which a phase is not shown."""

_WIDTH, _HEIGHT = 640.0, 400.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 16.0, 14.0, 44.0


def roofline(run: Run, figures: Sequence[PhaseFigures]) -> str:
    """MACs per byte on the ring against MACs per second, with the roofs of array, ring and link."""
    hertz = run.timeline.core_mhz * 1e6
    least = _FEW * sum(item.macs for item in figures)
    points = [
        (item, item.macs / item.ring_bytes, item.macs / item.cycles * hertz)
        for item in figures
        if item.macs > least and item.ring_bytes and item.cycles
    ]
    if not points:
        return '<p class="hint">No phase computes with what comes over the ring.</p>'
    peak = run.peak_macs * hertz
    ring = run.ring_rate * hertz
    link = None if run.link_rate is None else run.link_rate * 1e6
    knee = peak / ring
    x_range = _decades([x for _, x, _ in points] + [knee])
    y_range = _decades([y for _, _, y in points] + [peak])
    total = run.timeline.cycles or 1.0

    def at_x(value: float) -> float:
        part = (math.log10(value) - x_range[0]) / (x_range[1] - x_range[0])
        return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)

    def at_y(value: float) -> float:
        part = (math.log10(value) - y_range[0]) / (y_range[1] - y_range[0])
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)

    shapes = []
    for decade in range(x_range[0], x_range[1] + 1):
        x = at_x(10.0**decade)
        shapes.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
        shapes.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 15}" text-anchor="middle">'
            f"{escaped(units.number(10.0**decade).strip())}</text>"
        )
    for decade in range(y_range[0], y_range[1] + 1):
        y = at_y(10.0**decade)
        shapes.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        shapes.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escaped(units.number(10.0**decade).strip())}</text>"
        )
    low, high = 10.0 ** x_range[0], 10.0 ** x_range[1]
    shapes.append(f'<path class="roof" d="M{at_x(knee):.1f} {at_y(peak):.1f}H{_WIDTH - _RIGHT}"/>')
    shapes.append(
        f'<text x="{_WIDTH - _RIGHT - 4}" y="{at_y(peak) - 5:.1f}" text-anchor="end">'
        f"MAC array, {escaped(units.number(peak))} MAC/s</text>"
    )
    roofs = [("ring", ring, "ring")] + ([("host", link, "host link")] if link else [])
    for kind, rate, name in roofs:
        begin = max(low, 10.0 ** y_range[0] / rate)
        end = min(high, peak / rate)
        if begin >= end:
            continue
        shapes.append(
            f'<path class="roof {kind}" d="M{at_x(begin):.1f} {at_y(begin * rate):.1f}'
            f'L{at_x(end):.1f} {at_y(end * rate):.1f}"/>'
        )
        slope = math.degrees(
            math.atan2(at_y(begin * rate) - at_y(end * rate), at_x(end) - at_x(begin))
        )
        middle = 10 ** (0.7 * math.log10(begin) + 0.3 * math.log10(end))
        x, y = at_x(middle), at_y(middle * rate)
        shapes.append(
            f'<text x="{x:.1f}" y="{y - 6:.1f}" transform="rotate({-slope:.1f} {x:.1f} {y:.1f})">'
            f"{name}, {escaped(units.number(rate))}B/s</text>"
        )
    for item, x, y in sorted(points, key=lambda point: -point[0].cycles):
        share = item.cycles / total
        text = "|".join(
            (
                f"{units.number(x)} MACs per byte on the ring",
                f"{units.number(y)} MAC/s, {units.share(item.utilization)} of the array",
                f"{units.share(share)} of the time, bound by {item.bound or 'nothing'}",
            )
        )
        shapes.append(
            f'<circle class="dot" cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" '
            f'r="{3 + 22 * math.sqrt(share) / 2:.1f}" '
            f'style="fill:var(--{color(item.bound)})" data-phase="{item.number}" '
            f'data-title="{escaped(f"{item.number}: {item.title}")}" data-text="{escaped(text)}"/>'
        )
    shapes.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"/>')
    shapes.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 8}" text-anchor="middle">'
        "MACs per byte on the ring</text>"
    )
    shapes.append(
        f'<text x="14" y="{_HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {_HEIGHT / 2})">MACs per second</text>'
    )
    idle = sum(1 for item in figures if item.macs > least and not item.ring_bytes)
    more = f" {idle} that use no ring are left out." if idle else ""
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'aria-label="Roofline of the phases">{"".join(shapes)}</svg>'
        '<p class="hint">Each dot is a phase; its area is its share of the time, its colour what '
        "bounds it. All bytes from and to the host go over the ring; the roof of the host link "
        f"is that of phases which have their bytes from the host.{more}</p>"
    )


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten around values."""
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)) + 0.05)
    return low, max(high, low + 1)
