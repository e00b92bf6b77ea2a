"""Graphs as drawings: nodes in rows by dataflow, few crossings, lines around nodes.

The layers of the method of Sugiyama, Tagawa and Toda (1981): every node stands below all that it
reads; an edge that spans several rows has a place in each of them; rows are put in order by the
mean place of neighbours; and coordinates are those nearest to the neighbours' that keep the order,
found by pooling adjacent violators.

Why not a library: libraries were compared on the graphs of DeepLab, PoseNet, MobileNet v2, MoveNet,
YOLOv5nu and YOLOv8n (38 to 273 nodes). This module draws them with 5 crossings in all and no edge
through a node, in at most 19 ms.

- Graphviz and ELK draw as well: 7 crossings each, widths from 21 % less to 36 % more. In a
  page, `@viz-js/viz` 3.31 and elkjs 0.12 add 1.3 and 1.6 MB to every report and take 0.1 and 0.8 s
  whenever one of the YOLOs is opened. Outside of it, Graphviz is a program to be installed.
- fast-sugiyama 0.5 (MIT, wheels) knows one spacing for all nodes: drawings are up to 1.95 times as
  wide, as an edge that passes takes the room of a box.
- pyelk 0.3 (EPL) leads up to 84 edges through nodes; grandalf 0.8 (GPL or EPL) up to 19. igraph
  (GPL) and OGDF (GPL) do not go with the licence of this project.
- networkx, which is a dependency, has rows of points (`multipartite_layout`), but neither their
  order nor room for boxes.

So a report stays one page of an installation without extras, and the same bytes for the same model.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fitzroy.report.tables import escaped

MOST_NODES = 3000
"""Nodes that a drawing may have; with more it says nothing to anybody."""

_WIDTH, _HEIGHT, _ACROSS, _DOWN = 168.0, 38.0, 18.0, 30.0
_BEND = 14.0
"""Width that an edge takes in a row that it passes."""

_SWEEPS = 6
_LETTER = 6.1
"""Width of a letter, for the room that texts have."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node of a drawing.

    Attributes:
        title: its first line, cut if it is too long.
        detail: its second line.
        tip: all that there is to say of it.
        kind: its class, for style.
        key: how scripts know it; empty if nothing is chosen with it.
    """

    title: str
    detail: str = ""
    tip: str = ""
    kind: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """An edge of a drawing, by the numbers of its nodes."""

    source: int
    target: int
    tip: str = ""
    kind: str = ""


@dataclass
class _Layout:
    """Places, those of nodes first and then those of edges in rows that they pass.

    Attributes:
        rows: places of each row, from left to right.
        widths: width of each place.
        above: neighbours of each place in the row above.
        below: neighbours of each place in the row below.
        paths: places of every edge from its source to its target.
        x: middle of each place.
    """

    rows: list[list[int]]
    widths: list[float]
    above: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    below: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    paths: list[list[int]] = field(default_factory=list)
    x: dict[int, float] = field(default_factory=dict)


def ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The row of each node: one below the lowest that it reads; every edge goes to a later node."""
    found = [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        found[target] = max(found[target], found[source] + 1)
    # What nothing stands above comes down to those that read it.
    readers: dict[int, list[int]] = defaultdict(list)
    fed = {target for _, target in edges}
    for source, target in edges:
        readers[source].append(found[target])
    for node, below in readers.items():
        if node not in fed:
            found[node] = min(below) - 1
    return found


def drawing(boxes: Sequence[Box], lines: Sequence[Line], label: str) -> str:
    """A graph as SVG.

    Args:
        boxes: its nodes, each after those that it reads.
        lines: its edges.
        label: what it shows.
    """
    if len(boxes) > MOST_NODES:
        return (
            f'<p class="hint">{len(boxes):,} nodes are not drawn; at most {MOST_NODES:,} are.</p>'
        )
    layout = _layout(len(boxes), lines)
    low = min((layout.x[at] - layout.widths[at] / 2 for at in layout.x), default=0.0)
    high = max((layout.x[at] + layout.widths[at] / 2 for at in layout.x), default=0.0)
    for at in layout.x:
        layout.x[at] += _ACROSS - low
    width, row = high - low + 2 * _ACROSS, _HEIGHT + _DOWN
    height = len(layout.rows) * row + _DOWN / 2
    tops = {at: place * row + _DOWN / 2 for place, row_ in enumerate(layout.rows) for at in row_}
    shapes = [
        _path(layout, tops, path, line) for path, line in zip(layout.paths, lines, strict=True)
    ]
    shapes += [
        _box(box, layout.x[number] - _WIDTH / 2, tops[number]) for number, box in enumerate(boxes)
    ]
    return (
        f'<div class="drawing" tabindex="0" role="region" aria-label="{escaped(label)}">'
        f'<svg width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="group" aria-label="{escaped(label)}">{"".join(shapes)}</svg></div>'
    )


def _layout(count: int, lines: Sequence[Line]) -> _Layout:
    row_of = ranks(count, [(line.source, line.target) for line in lines])
    layout = _Layout([[] for _ in range(max(row_of, default=-1) + 1)], [_WIDTH] * count)
    for node in range(count):
        layout.rows[row_of[node]].append(node)
    for line in lines:
        path = [line.source]
        for row in range(row_of[line.source] + 1, row_of[line.target]):
            layout.rows[row].append(len(layout.widths))
            path.append(len(layout.widths))
            layout.widths.append(_BEND)
        path.append(line.target)
        for upper, lower in itertools.pairwise(path):
            layout.below[upper].append(lower)
            layout.above[lower].append(upper)
        layout.paths.append(path)
    _order(layout)
    _place(layout)
    return layout


def _order(layout: _Layout) -> None:
    """Put rows in an order with few crossings."""
    at = {node: place for row in layout.rows for place, node in enumerate(row)}
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = layout.above if down else layout.below
        for row in layout.rows if down else reversed(layout.rows):
            means = {
                node: _mean([at[other] for other in neighbours[node]], at[node]) for node in row
            }
            row.sort(key=means.__getitem__)
            at |= {node: place for place, node in enumerate(row)}


def _place(layout: _Layout) -> None:
    """Give places coordinates: in the middle of neighbours where there is room."""
    for row in layout.rows:
        left = 0.0
        for node in row:
            layout.x[node] = left + layout.widths[node] / 2
            left += layout.widths[node] + _ACROSS
    for sweep in range(2 * _SWEEPS):
        down = sweep % 2 == 0
        neighbours = layout.above if down else layout.below
        for row in layout.rows if down else reversed(layout.rows):
            wanted = [
                _mean([layout.x[other] for other in neighbours[node]], layout.x[node])
                for node in row
            ]
            layout.x |= dict(zip(row, _apart(row, wanted, layout.widths), strict=True))


def _mean(values: Sequence[float], rest: float) -> float:
    return sum(values) / len(values) if values else rest


def _apart(row: Sequence[int], wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Coordinates nearest to those wanted that keep order and distances: least squares."""
    offsets = [0.0]
    for left, right in itertools.pairwise(row):
        offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + _ACROSS)
    pools: list[tuple[float, int]] = []
    for value, offset in zip(wanted, offsets, strict=True):
        total, count = value - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            more, others = pools.pop()
            total, count = total + more, count + others
        pools.append((total, count))
    free = [total / count for total, count in pools for _ in range(count)]
    return [value + offset for value, offset in zip(free, offsets, strict=True)]


def _path(layout: _Layout, tops: Mapping[int, float], path: Sequence[int], line: Line) -> str:
    x, y = layout.x[path[0]], tops[path[0]] + _HEIGHT
    parts = [f"M{x:.1f} {y:.1f}"]
    for at in path[1:]:
        end, half = tops[at], (tops[at] - y) / 2
        parts.append(f"C{x:.1f} {y + half:.1f} {layout.x[at]:.1f} {end - half:.1f} ")
        parts.append(f"{layout.x[at]:.1f} {end:.1f}")
        x, y = layout.x[at], end
        if at != path[-1]:
            y += _HEIGHT
            parts.append(f"V{y:.1f}")
    kind = f' class="{escaped(line.kind)}"' if line.kind else ""
    return f'<path{kind} d="{"".join(parts)}"><title>{escaped(line.tip)}</title></path>'


def _box(box: Box, x: float, y: float) -> str:
    kind = f' class="{escaped(box.kind)}"' if box.kind else ""
    key = f' tabindex="0" role="button" data-op="{escaped(box.key)}"' if box.key else ""
    texts = "".join(
        f'<text x="{x + 8:.1f}" y="{y + down:.1f}"{soft}>{escaped(_cut(text))}</text>'
        for text, down, soft in ((box.title, 16, ""), (box.detail, 30, ' class="soft"'))
        if text
    )
    return (
        f'<g{kind}{key}><title>{escaped(box.tip or box.title)}</title><rect x="{x:.1f}" '
        f'y="{y:.1f}" width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}" rx="4"/>{texts}</g>'
    )


def _cut(text: str) -> str:
    """Text that fits a box, shortened in the middle."""
    most = int((_WIDTH - 14) / _LETTER)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[len(text) - (most - most // 2 - 1) :]}"
