"""Which order of axes moves the fewest elements?

Operators that work with any order of axes form regions with the values that they read and make.
Each region gets a single order, the one that moves the least inside the region and at its borders.
Candidates are the orders that its values have now, and those of the values they are moved from.
Then parts of regions, between operators that move, get an order of their own where less moves so:
a few numbers that are moved after a convolution may save to move all that it reads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from fitzroy.base.disjoint_sets import DisjointSets
from fitzroy.compiler.ir import Attributes, Graph, Node
from fitzroy.compiler.ops.shape import Shape
from fitzroy.compiler.passes.axes.frames import (
    Frame,
    Order,
    frame_of,
    frame_of_pixels,
    is_plain,
    order_of,
)
from fitzroy.compiler.passes.axes.movement import Movement

_MOVES = frozenset(["reshape", "transpose"])

_MOST_ORDERS = 16
"""Orders that are tried for a region: each takes as long as the region is large."""


class Axis(NamedTuple):
    """An axis of a value, or of an operator.

    Attributes:
        name: of the value or of the node, which may have the same.
        number: the number of the axis.
        of_node: whether it is an axis of the operator.
    """

    name: str
    number: int
    of_node: bool = False


Cost = tuple[int, int]
"""As `Movement.cost`, of several together."""


@dataclass(frozen=True, slots=True)
class Need:
    """A form in which an operator reads a value.

    Attributes:
        value: the value, as it was.
        rank: its number of axes: it gets axes of extent 1 in front if it has fewer.
        order: of these.
    """

    value: str
    rank: int
    order: Order


@dataclass
class Plan:
    """Orders of the axes of a graph's values.

    Attributes:
        graph: the graph.
        frames: of the operators that any order suits, by the names of nodes.
        needs: values that operators other than moves read, or that go out, with their readers.
        roots: for what moves make, the value that they begin with, and what moves its elements.
        axes: which axes are the same.
        regions: which values are of one region.
        parts: which values are of one part of a region.
        orders: those in which operators that any order suits find values, as far as is decided and
            another than it was.
    """

    graph: Graph
    frames: dict[str, Frame] = field(default_factory=dict)
    needs: dict[str, list[Node | None]] = field(default_factory=dict)
    roots: dict[str, tuple[str, tuple[Attributes, ...]]] = field(default_factory=dict)
    axes: DisjointSets[Axis] = field(default_factory=DisjointSets)
    regions: DisjointSets[str] = field(default_factory=DisjointSets)
    parts: DisjointSets[str] = field(default_factory=DisjointSets)
    orders: dict[str, Order] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Plan:
        """The plan in which everything is stored as it was."""
        plan = cls(graph)
        for node in graph.nodes():
            if not plan._follow(node):
                plan._take_in(node)
        for name in graph.outputs:
            plan.needs.setdefault(name, []).append(None)
        for name in plan.needs:
            plan._connect(name)
        return plan

    # --- building ------------------------------------------------------------------------------

    def _follow(self, node: Node) -> bool:
        """Note what a node moves, if that is all that it does."""
        if node.op not in _MOVES:
            return False
        source, (result,) = str(node.inputs[0]), node.outputs
        before, after = self.graph.type(source), self.graph.type(result)
        same = (before.dtype, before.quantization) == (after.dtype, after.quantization)
        if not same or not is_plain(before) or self.graph.value(source).is_constant:
            return False
        root, moves = self.roots.get(source, (source, ()))
        if _moved(self.graph.type(root).shape, (*moves, node.attributes)) is None:
            # It begins anew.
            self.needs.setdefault(source, []).append(node)
            root, moves = source, ()
        self.roots[result] = root, (*moves, node.attributes)
        return True

    def _take_in(self, node: Node) -> None:
        """Note what a node reads, and which axes it has in common."""
        for name in node.inputs:
            if name is not None and not self.graph.value(name).is_constant:
                self.needs.setdefault(name, []).append(node)
        frame = frame_of(self.graph, node)
        if frame is not None:
            for name in frame.values:
                self.regions.join(node.outputs[0], name)
            self._put_in(node, frame)

    def _put_in(self, node: Node, frame: Frame) -> None:
        """Note that any order of its axes suits an operator."""
        self.frames[node.name] = frame
        for name, axes in frame.values.items():
            self.parts.join(node.outputs[0], name)
            for number, axis in enumerate(axes):
                self.axes.join(Axis(node.name, axis, of_node=True), Axis(name, number))

    def _connect(self, name: str) -> None:
        """Let a value be of the region of the one that it was moved from, if axes stay whole."""
        if name not in self.roots:
            return
        root, moves = self.roots[name]
        movement = _moved(self.graph.type(root).shape, moves)
        if movement is None or not movement.keeps_axes:
            return
        self.regions.join(root, name)
        for before, after in movement.same_axes():
            self.axes.join(Axis(root, before), Axis(name, after))

    # --- choosing ------------------------------------------------------------------------------

    def choose(self) -> None:
        """Decide on the orders of all regions, one after the other, and then on those of parts."""
        self._choose_each(self.regions)
        # They would tie whole regions to their order, in which channels are last.
        for node in self.graph.nodes():
            frame = frame_of_pixels(self.graph, node)
            if frame is not None and not any(map(self._is_reordered, frame.values)):
                for name in frame.values:
                    self.orders.pop(name, None)
                self._put_in(node, frame)
        self._choose_each(self.parts)

    def _is_reordered(self, name: str) -> bool:
        """Whether operators find a value in another order; what only moves read has none."""
        around = (self.graph.producer(name), *self.graph.consumers(name))
        framed = any(node is not None and node.name in self.frames for node in around)
        return name in self.orders and framed

    def _choose_each(self, regions: DisjointSets[str]) -> None:
        """Decide on the orders of some regions, one after the other."""
        members, borders = (
            defaultdict[str, list[str]](list),
            defaultdict[str, list[str]](list),
        )
        for name in self.graph.values:
            if name not in self.roots or name in self.needs:
                members[regions.find(name)].append(name)
        for name in self.needs:
            root, _ = self.roots.get(name, (name, ()))
            for region in dict.fromkeys(map(regions.find, (name, root))):
                borders[region].append(name)
        for region, names in members.items():
            if len(names) > 1 and any(name in self.roots for name in borders[region]):
                self._choose(names, borders[region])

    def _choose(self, names: Sequence[str], borders: Sequence[str]) -> None:
        """Decide on the order of a region: the cheapest one, if it is cheaper than what was."""
        now = self._cost(borders, self.orders)
        assert now is not None, "it is what was"
        own = set(names)
        others = {name: order for name, order in self.orders.items() if name not in own}
        least, best = now, self.orders
        for wanted in self._wanted(names) if now[0] else ():
            orders = self._orders(names, wanted)
            if orders is None or not self._suit(orders):
                continue
            every = {**others, **orders}
            cost = self._cost(borders, every)
            if cost is not None and cost[0] < now[0] and cost < least:
                least, best = cost, every
        self.orders = best

    def _wanted(self, names: Sequence[str]) -> list[tuple[Axis, ...]]:
        """Orders of axes to try: those that most values have, or have where they come from."""
        found = Counter[tuple[Axis, ...]]()
        for name in names:
            shape = self.graph.type(name).shape
            # Those of extent 1 may lie anywhere, and many values have some of their own.
            long = [axis for axis, extent in enumerate(shape) if extent > 1]
            axes = {axis: self.axes.find(Axis(name, axis)) for axis in long}
            found[tuple(axes.values())] += 1
            if name in self.roots:
                root, moves = self.roots[name]
                # Where it comes from may lie in another order by now.
                for stored in dict.fromkeys([None, self.stored(root, self.orders)]):
                    movement = _moved(self.graph.type(root).shape, moves, stored)
                    if movement is None:
                        continue
                    last = [factors[-1][1] if factors else 0 for factors in movement.axes]
                    found[tuple(axes[axis] for axis in sorted(long, key=lambda n: -last[n]))] += 1
        common = (axes for axes, _ in found.most_common() if len(set(axes)) == len(axes))
        return list(islice(common, _MOST_ORDERS))

    def _orders(self, names: Sequence[str], wanted: Sequence[Axis]) -> dict[str, Order] | None:
        """The order of each value of a region in which axes have a wanted order.

        Axes of which nothing is wanted stay where they are.

        Returns:
            The orders of those that change; None if a value has an axis twice.
        """
        place = {axis: number for number, axis in enumerate(wanted)}
        orders = {}
        for name in names:
            axes = [self.axes.find(Axis(name, axis)) for axis in range(self.graph.type(name).rank)]
            known = [axis for axis, one in enumerate(axes) if one in place]
            if len({axes[axis] for axis in known}) < len(known):
                return None
            moved = iter(sorted(known, key=lambda axis: place[axes[axis]]))
            order = tuple(next(moved) if one in place else axis for axis, one in enumerate(axes))
            if order != tuple(range(len(axes))):
                orders[name] = order
        return orders

    def _suit(self, orders: Mapping[str, Order]) -> bool:
        """Whether every operator finds its axes in one order, and those last that have to be."""
        nodes = {
            node.name: node
            for name in orders
            for node in (*self.graph.consumers(name), self.graph.producer(name))
            if node is not None
        }
        return all(self._suits(self.frames[name], orders) for name in nodes if name in self.frames)

    def _suits(self, frame: Frame, orders: Mapping[str, Order]) -> bool:
        order = order_of(frame, orders)
        if order is None or (frame.last and order[-1] != frame.rank - 1):
            return False
        for name, axes in frame.values.items():
            own = orders.get(name, tuple(range(len(axes))))
            if [axes[axis] for axis in own] != [axis for axis in order if axis in axes]:
                return False
        return True

    def _cost(self, borders: Sequence[str], orders: Mapping[str, Order]) -> Cost | None:
        """What it costs to move what operators read.

        Returns:
            None if it cannot be said how elements move then.
        """
        costs = [(0, 0)]
        for name in borders:
            # Many readers want the same form, which is made once.
            for need in dict.fromkeys(self.need(name, one, orders) for one in self.needs[name]):
                moved = self.movement(need, orders)
                if moved is None:
                    return None
                costs.append(moved.cost)
        first, second = (sum(some) for some in zip(*costs, strict=True))
        return first, second

    # --- asking ----------------------------------------------------------------------------------

    def need(self, name: str, reader: Node | None, orders: Mapping[str, Order]) -> Need:
        """The form in which something reads a value."""
        rank = self.graph.type(name).rank
        frame = None if reader is None else self.frames.get(reader.name)
        if frame is None or name not in frame.values:
            return Need(name, rank, tuple(range(rank)))
        order = order_of(frame, orders)
        assert order is not None, "orders suit all operators"
        own = frame.values[name]
        if own != tuple(range(frame.rank - rank, frame.rank)):
            return Need(name, rank, tuple(own.index(axis) for axis in order if axis in own))
        if order == tuple(range(frame.rank)):
            # It is read with as few axes as it was.
            return Need(name, rank, tuple(range(rank)))
        return Need(name, frame.rank, order)

    def stored(self, name: str, orders: Mapping[str, Order]) -> Order | None:
        """The order in which something makes a value; None if it is that in which it was."""
        producer = self.graph.producer(name)
        framed = producer is not None and producer.name in self.frames
        return orders.get(name) if framed else None

    def movement(self, need: Need, orders: Mapping[str, Order]) -> Movement | None:
        """How the elements of what is stored move to what is read; None if it cannot be said."""
        root, moves = self.roots.get(need.value, (need.value, ()))
        shape = self.graph.type(root).shape
        found = _moved(shape, moves, self.stored(root, orders))
        return None if found is None else found.extended(need.rank).transposed(need.order)


@lru_cache(1 << 14)
def _moved(
    shape: Shape, moves: Sequence[Attributes], order: Order | None = None
) -> Movement | None:
    """What some reshapes and transpositions do to a tensor.

    Args:
        shape: its shape.
        moves: their attributes.
        order: that in which its axes are stored, if it is another.

    Returns:
        None if it cannot be said.
    """
    found: Movement | None
    if order is None:
        found = Movement.of(shape)
    else:
        back = tuple(order.index(axis) for axis in range(len(order)))
        found = Movement.of(tuple(shape[axis] for axis in order)).transposed(back)
    for move in moves:
        found = None if found is None else found.then(move)
    return found
