"""The order in which tensors store their axes, chosen so that few elements move.

Exporters put transpositions where an operator wants another order: attention wants patches, heads
and rows in front of channels, convolutions want rows and columns. Most operators between them do as
well with any order, a layer normalization over its first axis as one over its last. Here they get
the order that `Plan` chose. What still has to move does so at once: all reshapes and transpositions
between two other operators become one transposition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.compiler.ir import Attributes, Graph, Node, Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.passes.axes.frames import Order, order_of, reordered
from fitzroy.compiler.passes.axes.movement import Step
from fitzroy.compiler.passes.axes.plan import Need, Plan
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.rewritten import Rewriter, Rewritten


@dataclass(frozen=True)
class AxisOrders(Pass):
    """Store axes in the order in which the least elements move, and move them all at once."""

    name = "axis-orders"

    def run(self, graph: Graph) -> Graph:
        """Choose an order for every region, and write the graph with it."""
        return in_cheapest_orders(graph).graph


def in_cheapest_orders(graph: Graph) -> Rewritten:
    """A graph of the same meaning in which the least elements move.

    Args:
        graph: the graph; it stays as it is, and is the result if nothing would change.
    """
    if not any(node.op == "transpose" for node in graph.nodes()):
        return Rewritten(graph)
    plan = Plan.of(graph)
    plan.choose()
    return _Writer.of(plan).finished()


@dataclass
class _Writer(Rewriter[Node]):
    """A graph that is written again, node by node.

    Attributes:
        plan: the orders; a graph is made of its one, with all values and, at first, no nodes.
        forms: names of values in the forms in which they are read.
        moved: what a reshape or a transposition has made of a value, by name and attributes.
        stored: names of what is stored in another order in place of values that go out.
    """

    plan: Plan = field(kw_only=True)
    forms: dict[Need, str] = field(default_factory=dict)
    moved: dict[tuple[str, Attributes], str] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan) -> _Writer:
        """Begin with all values and no nodes."""
        graph = plan.graph.copy()
        for node in reversed(graph.nodes()):
            graph.remove(node.name)
        return cls(graph, plan=plan)

    def finished(self) -> Rewritten:
        """The graph with the orders of the plan; that of the plan if it is the same."""
        plan = self.plan
        for node in plan.graph.nodes():
            if node.outputs[0] not in plan.roots:
                self._write(node)
                continue
            root, _ = plan.roots[node.outputs[0]]
            if self._is_other(root):
                continue
            if root == node.inputs[0] and root in plan.roots:
                # What begins anew reads what was moved before.
                self._form(plan.need(root, node, plan.orders))
            self.graph.add_node(node)
            self.moved[str(node.inputs[0]), node.attributes] = node.outputs[0]
        for name in plan.graph.outputs:
            self._form(plan.need(name, None, plan.orders))
        same = all(name == need.value for need, name in self.forms.items())
        return Rewritten(plan.graph) if same and not plan.orders else super().finished()

    def _write(self, node: Node) -> None:
        """Write a node for the order of its axes."""
        plan = self.plan
        frame = plan.frames.get(node.name)
        order = None if frame is None else order_of(frame, plan.orders)
        if frame is not None and order == tuple(range(frame.rank)):
            order = None
        inputs = [
            name
            if name is None
            else self._constant(node, name, order)
            if plan.graph.value(name).is_constant
            else self._form(plan.need(name, node, plan.orders))
            for name in node.inputs
        ]
        attributes = node.attributes if order is None else reordered(node.attributes, order)
        outputs = tuple(map(self._result, node.outputs))
        self.graph.add_node(
            replace(node, inputs=tuple(inputs), outputs=outputs, attributes=attributes)
        )

    def _result(self, name: str) -> str:
        """Give a result the order of its axes; returns the name of what is stored."""
        order = self.plan.stored(name, self.plan.orders)
        if order is None:
            return name
        type = self.plan.graph.type(name)
        type = type.with_shape(tuple(type.shape[axis] for axis in order))
        if name in self.plan.graph.outputs:
            own = self.graph.fresh(f"{name}/stored")
            self.graph.add_value(Value(own, type))
            self.stored[name] = own
            return own
        self.graph.set_value(Value(name, type))
        return name

    def _constant(self, node: Node, name: str, order: Order | None) -> str:
        """A constant operand for the order of an operator's axes."""
        value = self.plan.graph.value(name)
        every = OPS[node.op].elementwise or node.op == "concatenation"
        if order is None or not every or value.type.size == 1:
            return name
        assert value.data is not None, "it is a constant"
        data = value.data.reshape((1,) * (len(order) - value.type.rank) + value.type.shape)
        data = data.transpose(order)
        if OPS[node.op].elementwise:
            # As few axes as exporters write.
            data = data.reshape(data.shape[next(i for i, n in enumerate(data.shape) if n > 1) :])
        return self.graph.add_constant(name, np.ascontiguousarray(data), value.type.quantization)

    def _is_other(self, name: str) -> bool:
        """Whether a value is stored in another order than it was."""
        return self.plan.stored(name, self.plan.orders) is not None

    def _form(self, need: Need) -> str:
        """The name of a value in the form in which something reads it."""
        if need not in self.forms:
            self.forms[need] = self._moved(need)
        return self.forms[need]

    def _moved(self, need: Need) -> str:
        """Move the elements of a value to where something reads them; returns its name there."""
        plan, name = self.plan, need.value
        root, _ = plan.roots.get(name, (name, ()))
        movement = plan.movement(need, plan.orders)
        assert movement is not None, "orders are such that it can be said"
        as_before = need == plan.need(name, None, plan.orders)
        steps = movement.steps()
        if as_before and not self._is_other(root):
            if _transpositions(steps) >= self._own(name) or name in plan.graph.outputs:
                return name
        elif as_before and not steps and (name != root or name in self.stored):
            # It keeps a name of its own.
            steps = [("reshape", ReshapeAttributes(movement.shape), movement.shape)]
        own = self.stored.get(root, root)
        for number, step in enumerate(steps, 1):
            last = as_before and number == len(steps)
            own = self._step(name, own, step, by_name=last and self._is_free(name))
        return own

    def _own(self, name: str) -> int:
        """Transpositions that a value is made by, after the last value that is read besides."""
        plan, count = self.plan, 0
        while name in plan.roots:
            node = plan.graph.producer(name)
            assert node is not None, "a move makes it"
            count += node.op == "transpose"
            name = str(node.inputs[0])
            if name in plan.needs:
                break
        return count

    def _is_free(self, name: str) -> bool:
        """Whether nothing is stored by the name of a value that is moved to where it was."""
        root, moves = self.plan.roots.get(name, (name, ()))
        return name in self.stored or (bool(moves) and self._is_other(root))

    def _step(self, name: str, source: str, step: Step, *, by_name: bool) -> str:
        """Move elements of a value by one operator; returns the name of its result."""
        (op, attributes, shape), before = step, self.plan.graph
        if (source, attributes) in self.moved and not by_name:
            return self.moved[source, attributes]
        # An input is moved for the first that reads it.
        stands_for = before.producer(name) or before.consumers(name)[0]
        own = self.graph.fresh(f"{name}/{op}")
        result = name if by_name else own
        node = Node(own, op, (source,), (result,), attributes, stands_for.origin)
        self.graph.add_node(node, () if by_name else (before.type(name).with_shape(shape),))
        self.origins[own] = stands_for.name
        self.moved[source, attributes] = result
        return result


def _transpositions(steps: Sequence[Step]) -> int:
    """How many of some steps are transpositions."""
    return sum(op == "transpose" for op, _, _ in steps)
