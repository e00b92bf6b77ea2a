"""Minimum cuts, against all ways to divide small networks."""

from __future__ import annotations

import itertools
import random

from tests.work import calls_at_most

from fitzroy.compiler.ir.flow import Edge, source_side


def cost(edges: list[Edge], side: set[object]) -> float:
    crossing = [c for a, b, c in edges if a in side and b not in side]
    return sum(float("inf") if c is None else c for c in crossing)


def test_small_networks() -> None:
    for seed in range(60):
        rng = random.Random(seed)
        inner = list(range(rng.randint(1, 6)))
        nodes = ["s", *inner, "t"]
        pairs = [(a, b) for a in nodes for b in nodes if a != b and rng.random() < 0.5]
        edges: list[Edge] = [
            (a, b, None if rng.random() < 0.1 and (a, b) != ("s", "t") else rng.randint(0, 9))
            for a, b in pairs
        ]
        edges += [("s", n, 0) for n in inner if ("s", n) not in pairs]
        edges += [(n, "t", 0) for n in inner if (n, "t") not in pairs]
        sides = [
            {"s", *chosen}
            for size in range(len(inner) + 1)
            for chosen in itertools.combinations(inner, size)
        ]
        least = min(cost(edges, side) for side in sides)
        if least == float("inf"):
            continue
        most = max((side for side in sides if cost(edges, side) == least), key=len)
        assert source_side(edges, "s", "t") == most, seed


def test_equal_networks_give_equal_sides() -> None:
    edges: list[Edge] = [("s", 0, 3), (0, 1, 3), (1, "t", 3)]
    assert source_side(edges, "s", "t") == {"s", 0, 1}


def test_work_in_long_networks() -> None:
    """Models are long: not every length of a way to the other side costs a search of its own."""
    rng, edges = random.Random(0), list[Edge]()
    for node in range(400):
        edges += [("s", node, rng.randint(1, 20)), (node, "t", rng.randint(1, 20))]
        edges += [(node, node + 1, rng.randint(1, 9)), (node + 1, node, rng.randint(1, 9))]
    edges.append((400, "t", 1))
    source_side(edges[:4], "s", "t")  # Loads networkx.
    with calls_at_most(800_000):
        source_side(edges, "s", "t")
