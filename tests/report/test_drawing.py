from __future__ import annotations

import re
from itertools import combinations

from fitzroy.report.drawing import MOST_NODES, Box, Line, drawing, ranks

HOSTILE = "</title></svg><script>alert(1)</script>"


def places(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<rect x="([-\d.]+)" y="([\d.]+)"', text)]


def test_nodes_stand_below_all_that_they_read() -> None:
    edges = [(0, 1), (0, 2), (2, 3), (1, 4), (3, 4)]
    found = ranks(5, edges)
    assert all(found[source] < found[target] for source, target in edges)


def test_what_nothing_feeds_stands_just_above_its_reader() -> None:
    assert ranks(5, [(0, 2), (2, 3), (3, 4), (1, 4)]) == [0, 2, 1, 2, 3]


def test_nodes_do_not_overlap_and_edges_go_down() -> None:
    lines = [Line(0, n) for n in range(1, 7)] + [Line(n, 7) for n in range(1, 7)] + [Line(0, 7)]
    found = places(drawing([Box(str(n)) for n in range(8)], lines, "graph"))
    assert len(found) == 8
    for (x0, y0), (x1, y1) in combinations(found, 2):
        assert y0 != y1 or abs(x0 - x1) >= 168
    assert min(x for x, _ in found) >= 0


def test_a_chain_is_straight_beside_an_edge_that_passes_it() -> None:
    lines = [Line(n, n + 1) for n in range(5)]
    found = places(drawing([Box(str(n)) for n in range(6)], lines, "graph"))
    assert len({x for x, _ in found}) == 1


def test_parallel_chains_do_not_cross() -> None:
    # Two chains whose nodes come in turns, the right one first in every other row.
    lines = [Line(0, 3), Line(1, 2), Line(2, 5), Line(3, 4)]
    found = places(drawing([Box(str(n)) for n in range(6)], lines, "graph"))
    first = [found[n][0] for n in (0, 3, 4)]
    second = [found[n][0] for n in (1, 2, 5)]
    assert len({a < b for a, b in zip(first, second, strict=True)}) == 1


def test_names_are_escaped_and_cut() -> None:
    text = drawing([Box(HOSTILE * 9, HOSTILE, HOSTILE, key=HOSTILE)], [], HOSTILE)
    assert "<script" not in text
    assert "…" in text


def test_graphs_without_nodes_and_with_too_many() -> None:
    assert "<svg" in drawing([], [], "graph")
    text = drawing([Box("n")] * (MOST_NODES + 1), [], "graph")
    assert "<svg" not in text
    assert f"at most {MOST_NODES:,}" in text
