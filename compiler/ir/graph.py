"""The graph: values and operator nodes, which networkx orders.

A value is a graph input, a constant, or one output of one node. Nodes read values by name. Names
are unique within the graph; iteration is topological and, among nodes that are ready, in order of
insertion: equal constructions give equal orders. A copy shares all values and nodes, so that it
costs little.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fitzroy.base.diagnostics import Diagnostic
from fitzroy.base.errors import InternalError, UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType


@dataclass(frozen=True)
class Attributes:
    """Base of the attribute dataclasses that operators declare; this one has no fields."""


NO_ATTRIBUTES = Attributes()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node came from.

    Attributes:
        file: name of the file.
        subgraph: which of its subgraphs.
        index: which operator of that.
        operator: the operator's name in the file, for people; the text form leaves it out.
    """

    file: str
    subgraph: int
    index: int
    operator: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.subgraph}:{self.index}"


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor that flows through the graph.

    Attributes:
        name: unique within the graph.
        type: shape, element type and quantization.
        data: the constant's elements, of exactly `type`'s shape and dtype; None for variables.
    """

    name: str
    type: TensorType
    data: Array | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the value is known at compile time."""
        return self.data is not None


@dataclass(frozen=True, slots=True)
class Node:
    """An application of an operator.

    Attributes:
        name: unique among nodes.
        op: name of the operator, as declared in ``compiler.ops``.
        inputs: names of the values read; None for an optional operand that is absent.
        outputs: names of the values produced.
        attributes: the operator's attribute dataclass.
        origin: where the node came from, if it came from a file.
    """

    name: str
    op: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Attributes = NO_ATTRIBUTES
    origin: Origin | None = None

    @property
    def spelled(self) -> str:
        """Name of the operator as the file that it came from spells it."""
        named = "" if self.origin is None else self.origin.operator
        return named or getattr(self.attributes, "code", self.op)


_DIGITS = 9
"""Digits that are read of the number after a name. Longer numbers are taken for smaller ones, and
the search for a name then only begins earlier than it has to."""


def unused_name(stem: str, *taken: Container[str]) -> str:
    """`stem`, with a number after it if something has that name already."""
    name, count = stem, 0
    while any(name in names for names in taken):
        count += 1
        name = f"{stem}.{count}"
    return name


class Graph:
    """A dataflow graph; the one mutable type of the IR.

    Args:
        name: name of the model or method.

    Attributes:
        inputs: names of the values that come in.
        outputs: names of the values that go out.
        remarks: what the user should know of the model that it was made of.
        labels: names of the classes that it tells apart, by number; empty if they are not known.
        files: other files that belong to the model, by name, such as vocabularies; TFLite models
            have them packed behind their tables.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.remarks: list[Diagnostic] = []
        self.labels: dict[int, str] = {}
        self.files: dict[str, bytes] = {}
        self._values: dict[str, Value] = {}
        self._producer: dict[str, str] = {}
        # Sets that are never changed, so that copies may share them.
        self._readers: dict[str, frozenset[str]] = {}
        self._nodes: dict[str, Node] = {}
        # When nodes were inserted.
        self._serials: dict[str, int] = {}
        self._serial = 0
        self._order: list[Node] | None = None
        # By stem: all names with lower numbers are taken.
        self._numbers: dict[str, int] = {}

    def __repr__(self) -> str:
        return (
            f"<Graph {self.name!r}: {', '.join(self.inputs) or 'no input'} -> "
            f"{', '.join(self.outputs) or 'no output'}, {len(self._nodes)} nodes, "
            f"{self._held():,} bytes of constants>"
        )

    def __str__(self) -> str:
        """One line per input, node and output; `print_graph` gives all of it."""
        lines = [f"{self.name}: {len(self._nodes)} nodes, {self._held():,} bytes of constants"]
        lines += [f"  input {name}: {self.type(name)}" for name in self.inputs]
        for node in self.nodes():
            read = ", ".join("_" if name is None else name for name in node.inputs)
            made = ", ".join(f"{name}: {self.type(name)}" for name in node.outputs)
            lines.append(f"  {node.op}({read}) -> {made}")
        lines += [f"  output {name}" for name in self.outputs]
        return "\n".join(lines)

    def _held(self) -> int:
        """Bytes of all constants."""
        return sum(value.data.nbytes for value in self._values.values() if value.data is not None)

    # --- looking ---------------------------------------------------------------------------------

    @property
    def values(self) -> Mapping[str, Value]:
        """All values by name, in order of definition."""
        return MappingProxyType(self._values)

    def nodes(self) -> list[Node]:
        """All nodes, producers before consumers.

        Raises:
            InternalError: the graph has a cycle.
        """
        if self._order is None:
            self._order = self._sorted()
        return list(self._order)

    def _sorted(self) -> list[Node]:
        """All nodes, each after those whose outputs it reads; of those that may be next, the first.

        Raises:
            InternalError: the graph has a cycle.
        """
        serials = self._serials
        if all(
            serials[before] < serials[name]
            for name, node in self._nodes.items()
            for before in self._before(node)
        ):
            return sorted(self._nodes.values(), key=lambda node: serials[node.name])
        # It takes long to load, and most models come in order.
        import networkx as nx

        net = nx.DiGraph()
        net.add_nodes_from(self._nodes)
        net.add_edges_from(
            (before, name) for name, node in self._nodes.items() for before in self._before(node)
        )
        try:
            order = list(nx.lexicographical_topological_sort(net, serials.__getitem__))
        except nx.NetworkXUnfeasible:
            raise InternalError("the graph has a cycle", where=self.name) from None
        return [self._nodes[name] for name in order]

    def _before(self, node: Node) -> set[str]:
        """Names of the nodes whose outputs a node reads."""
        return {self._producer[x] for x in node.inputs if x is not None and x in self._producer}

    def node(self, name: str) -> Node:
        """The node of that name."""
        return self._nodes[name]

    def value(self, name: str) -> Value:
        """The value of that name.

        Raises:
            UsageError: there is none.
        """
        try:
            return self._values[name]
        except KeyError:
            raise UsageError(f"no value named {name!r}", where=self.name) from None

    def type(self, name: str) -> TensorType:
        """Type of the value of that name."""
        return self.value(name).type

    def producer(self, value: str) -> Node | None:
        """The node that produces a value; None for inputs and constants."""
        name = self._producer.get(value)
        return None if name is None else self.node(name)

    def consumers(self, value: str) -> list[Node]:
        """The nodes that read a value, each once, in order of insertion."""
        names = self._readers.get(value, ())
        return [self._nodes[name] for name in sorted(names, key=self._serials.__getitem__)]

    def computed(self, node: Node) -> list[str]:
        """Names of what a node reads beside constants, in the order of its operands."""
        return [x for x in node.inputs if x is not None and not self.value(x).is_constant]

    # --- building --------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        """`stem`, with a number after it if a value or a node has that name already."""
        number, name = self._numbers.get(stem, 0), stem
        if number:
            name = f"{stem}.{number}"
        while name in self._values or name in self._nodes:
            number += 1
            name = f"{stem}.{number}"
        self._numbers[stem] = number
        return name

    def _freed(self, name: str) -> None:
        """Let a name that neither a value nor a node may have any more be given again."""
        stem, _, digits = name.rpartition(".")
        for key, number in ((name, "0"), (stem, digits[:_DIGITS])):
            if number.isdecimal() and int(number) < self._numbers.get(key, 0):
                self._numbers[key] = int(number)

    def add_value(self, value: Value) -> str:
        """Define a value; returns its name.

        Raises:
            InternalError: the name is taken, or constant data does not have the stated type.
        """
        if value.name in self._values:
            raise InternalError(f"value {value.name!r} is defined twice", where=self.name)
        if value.data is not None and (
            value.data.shape != value.type.shape or value.data.dtype != value.type.dtype.numpy
        ):
            raise InternalError(
                f"constant {value.name!r} does not have its type",
                reason=f"{value.data.dtype}{list(value.data.shape)}, not {value.type}",
                where=self.name,
            )
        self._values[value.name] = value
        return value.name

    def add_input(self, name: str, type: TensorType) -> str:
        """Define a graph input; returns its name."""
        self.inputs.append(self.add_value(Value(name, type)))
        return name

    def add_constant(self, stem: str, data: Array, quantization: Quantization | None = None) -> str:
        """Define a constant under a fresh name; returns the name."""
        type = TensorType(data.shape, DType.of(data), quantization)
        return self.add_value(Value(self.fresh(stem), type, data))

    def add_node(self, node: Node, types: Sequence[TensorType] = ()) -> Node:
        """Insert a node.

        Args:
            node: its inputs must be defined.
            types: types of outputs that are not yet defined as values, all or none.

        Raises:
            InternalError: a name is taken or missing, or an output has a producer already.
        """
        for name, type in zip(node.outputs, types, strict=False):
            self.add_value(Value(name, type))
        if node.name in self._nodes:
            raise InternalError(f"node {node.name!r} is defined twice", where=self.name)
        for used in (*node.inputs, *node.outputs):
            if used is not None and used not in self._values:
                raise InternalError(f"node {node.name!r} uses unknown {used!r}", where=self.name)
        for output in node.outputs:
            if (
                output in self._producer
                or self._values[output].is_constant
                or output in self.inputs
            ):
                raise InternalError(f"value {output!r} is produced twice", where=self.name)
            self._producer[output] = node.name
        self._nodes[node.name], self._serials[node.name] = node, self._serial
        self._serial += 1
        for read in node.inputs:
            if read is not None:
                self._readers[read] = self._readers.get(read, frozenset()) | {node.name}
        self._order = None
        return node

    def emit(
        self,
        op: str,
        inputs: Sequence[str | None],
        type: TensorType,
        attributes: Attributes = NO_ATTRIBUTES,
        *,
        stem: str = "",
        origin: Origin | None = None,
    ) -> str:
        """Insert a node with one output under a fresh name; returns the output's name."""
        name = self.fresh(stem or op)
        self.add_node(Node(name, op, tuple(inputs), (name,), attributes, origin), (type,))
        return name

    # --- changing --------------------------------------------------------------------------------

    def remove(self, node: str) -> None:
        """Remove a node; its outputs stay as values until `prune` or a new producer."""
        self._detach(node)
        self._freed(node)

    def _detach(self, node: str) -> None:
        """Remove a node, but let nobody else have its name."""
        old = self.node(node)
        for read in old.inputs:
            if read is not None:
                self._readers[read] -= {node}
        del self._nodes[node], self._serials[node]
        for name in old.outputs:
            del self._producer[name]
        self._order = None

    def update(self, node: Node) -> Node:
        """Replace the node of the same name, keeping its place in the order."""
        serial = self._serials[node.name]
        self._detach(node.name)
        self.add_node(node)
        self._serials[node.name] = serial
        return node

    def replace_uses(self, old: str, new: str) -> None:
        """Make every reader of `old`, and the graph's outputs, read `new` instead."""
        for reader in self.consumers(old):
            inputs = tuple(new if name == old else name for name in reader.inputs)
            self.update(replace(reader, inputs=inputs))
        self.outputs = [new if name == old else name for name in self.outputs]

    def retarget(self, old: str, new: str) -> Node:
        """Let the producer of `old` produce the defined value `new`, and readers read that.

        Returns the changed producer; `new` must have no producer, `old` one.
        """
        producer = self.node(self._producer[old])
        self.remove(producer.name)
        outputs = tuple(new if name == old else name for name in producer.outputs)
        changed = self.add_node(replace(producer, outputs=outputs))
        self.replace_uses(old, new)
        return changed

    def rename_output(self, old: str, new: str) -> None:
        """Give the value of an output a name that no other value has."""
        value = self._values.pop(old)
        self._freed(old)
        producer, readers = self.producer(old), self.consumers(old)
        self._values[new] = replace(value, name=new)
        self.inputs = [new if name == old else name for name in self.inputs]
        self.outputs = [new if name == old else name for name in self.outputs]
        if producer is not None:
            outputs = tuple(new if name == old else name for name in producer.outputs)
            self.update(replace(producer, outputs=outputs))
        for reader in readers:
            inputs = tuple(new if name == old else name for name in reader.inputs)
            self.update(replace(reader, inputs=inputs))

    def set_value(self, value: Value) -> None:
        """Replace the definition of the value of the same name."""
        self._values[value.name] = value

    def prune(self) -> int:
        """Remove nodes that no output depends on, and values that nothing uses.

        Graph inputs stay. Returns the number of nodes removed.
        """
        live: set[str] = set()
        pending = [self._producer[name] for name in self.outputs if name in self._producer]
        while pending:
            name = pending.pop()
            if name not in live:
                live.add(name)
                pending.extend(self._before(self._nodes[name]))
        dead = [name for name in self._nodes if name not in live]
        for name in dead:
            self.remove(name)
        used = {*self.inputs, *self.outputs, *self._producer}
        used.update(name for name, readers in self._readers.items() if readers)
        for name in self._values.keys() - used:
            del self._values[name]
            self._freed(name)
        return len(dead)

    def copy(self) -> Graph:
        """An independent copy; values and nodes are shared because they never change."""
        other = Graph(self.name)
        other.inputs, other.outputs = list(self.inputs), list(self.outputs)
        other.take_notes(self)
        other._values = dict(self._values)
        # What holds in this graph holds in the copy: no node has to be checked again.
        other._producer = dict(self._producer)
        other._readers = dict(self._readers)
        other._nodes, other._serials = dict(self._nodes), dict(self._serials)
        other._serial, other._order = self._serial, self._order
        return other

    def take_notes(self, source: Graph) -> None:
        """Take over what is known beside values and nodes of the graph that this is made of."""
        self.remarks = list(source.remarks)
        self.labels, self.files = dict(source.labels), dict(source.files)

    def cut(self, outputs: Sequence[str]) -> Graph:
        """A copy that computes only the given values.

        Raises:
            UsageError: a value does not exist.
        """
        for name in outputs:
            self.value(name)
        other = self.copy()
        other.outputs = list(outputs)
        other.prune()
        return other

    def between(self, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
        """The nodes that compute some values from others, as a graph.

        Args:
            inputs: values of this graph that are given; those that nothing reads are left out.
            outputs: values of this graph.
        """
        given, wanted = {*inputs}, [*outputs]
        found: dict[str, Node] = {}
        while wanted:
            name = wanted.pop()
            node = None if name in given else self.producer(name)
            if node is not None and node.name not in found:
                found[node.name] = node
                wanted += [value for value in node.inputs if value is not None]
        other = self.part([node for node in self.nodes() if node.name in found])
        other.outputs = [*outputs]
        return other

    def part(self, nodes: Sequence[Node]) -> Graph:
        """Some nodes as a graph: what they read from others comes in, what others read goes out.

        Args:
            nodes: nodes of this graph, producers before consumers.
        """
        other = Graph(self.name)
        own = {node.name for node in nodes}
        made = {name for node in nodes for name in node.outputs}
        read = (name for node in nodes for name in node.inputs if name is not None)
        for name in dict.fromkeys(read):
            value = self.value(name)
            if value.is_constant:
                other.add_value(value)
            elif name not in made:
                other.add_input(name, value.type)
        for node in nodes:
            other.add_node(node, [self.type(name) for name in node.outputs])
        other.outputs = [
            name
            for node in nodes
            for name in node.outputs
            if name in self.outputs
            or any(reader.name not in own for reader in self.consumers(name))
        ]
        return other

    # --- checking --------------------------------------------------------------------------------

    def verify_structure(self) -> None:
        """Check that every value has exactly one source and every name a definition.

        Raises:
            InternalError: what is broken.
        """
        for border in (*self.inputs, *self.outputs):
            if border not in self._values:
                raise InternalError(f"border value {border!r} is not defined", where=self.name)
        for node in self.nodes():
            for name in node.inputs:
                if name is None:
                    continue
                value = self._values.get(name)
                if value is None:
                    raise InternalError(
                        f"{name!r} is not defined", where=f"{self.name}.{node.name}"
                    )
                if not value.is_constant and name not in self._producer and name not in self.inputs:
                    raise InternalError(f"{name!r} has no source", where=f"{self.name}.{node.name}")
        for output in self.outputs:
            value = self._values[output]
            if not (value.is_constant or output in self._producer or output in self.inputs):
                raise InternalError(f"output {output!r} has no source", where=self.name)
