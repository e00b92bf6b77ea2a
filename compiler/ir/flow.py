"""Minimum cuts of flow networks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

Edge = tuple[Hashable, Hashable, int | None]
"""From, to, and a whole capacity; None if no cut may go through it."""


def source_side(edges: Iterable[Edge], source: Hashable, target: Hashable) -> set[Hashable]:
    """The nodes on the side of the source of a minimum cut, as many as possible.

    Args:
        edges: the network, at most one edge from a node to another.
        source: where the flow comes from.
        target: where it goes; it must be possible to cut it off.
    """
    # It takes long to load, and most models go to one side without a cut.
    import networkx as nx

    network = nx.DiGraph()
    for begin, end, capacity in edges:
        limit = {} if capacity is None else {"capacity": capacity}
        network.add_edge(begin, end, **limit)
    # Ways have very many lengths in networks of models; Dinic's method starts anew for each.
    _, (side, _) = nx.minimum_cut(network, source, target, flow_func=nx.flow.boykov_kolmogorov)
    return set(side)
