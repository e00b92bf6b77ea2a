"""A graph in the arithmetic of the chip, prepared once and run for many inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fitzroy.base import budget
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ir import Graph, Value
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.reference import check_array, demand_memory
from fitzroy.compiler.targets.edgetpu.lowerings.tables import with_functions_of_sums
from fitzroy.compiler.targets.edgetpu.twin.codes import Codes, Kernel
from fitzroy.compiler.targets.edgetpu.twin.kernels import KERNELS, Preparation, kernel_of
from fitzroy.compiler.targets.edgetpu.twin.semantics import OPERATORS, Operator, results

_MOST_IMAGES = 16

_TOGETHER_BYTES = 16 << 20
"""What the largest value of the images that are computed together takes at most."""


@dataclass(frozen=True)
class _Step:
    """A node.

    Attributes:
        call: the node, with its values.
        kernel: what computes it fast; None if `semantics` has to.
        last: values that nothing reads after it.
    """

    call: Call
    kernel: Kernel | None
    last: tuple[str, ...]


class Twin:
    """A graph, prepared; several threads may run it.

    Args:
        graph: a verified graph whose activations are quantized to 8 bits, such as the part of a
            model that one program computes on the chip.
        operators: operators whose results are not those of their declarations; by default those of
            programs of this compiler.
        kernels: what computes operators fast, and gives the same.

    Attributes:
        graph: the graph.
        operators: operators whose results are not those of their declarations.
        together: how many images are computed together; more would only take more memory.

    Raises:
        CapacityError: the values take more memory than the budget has.
        UnsupportedError: a tensor is not quantized to 8 bits where an operator demands it.
    """

    def __init__(
        self,
        graph: Graph,
        operators: Mapping[str, Operator] = OPERATORS,
        kernels: Mapping[str, Preparation] = KERNELS,
    ) -> None:
        graph = with_functions_of_sums(graph)
        self.graph = graph
        self.operators = operators
        self._steps: list[_Step] = []
        self._rooms: list[_Rooms] = []
        nodes = graph.nodes()
        ends: dict[str, int] = {}
        for number, node in enumerate(nodes):
            demand_memory(graph, node)
            ends |= {name: number for name in (*node.inputs, *node.outputs) if name is not None}
        last: list[list[str]] = [[] for _ in nodes]
        for name, end in ends.items():
            if name not in graph.outputs and not graph.value(name).is_constant:
                last[end].append(name)
        for node, unread in zip(nodes, last, strict=True):
            call = Call.of(graph, node)
            self._steps.append(_Step(call, kernel_of(call, operators, kernels), tuple(unread)))
        largest = max((graph.type(name).size for name in ends), default=1)
        self.together = max(1, min(_MOST_IMAGES, _TOGETHER_BYTES // (4 * max(1, largest))))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, as a program of the graph gives them on the chip.

        Args:
            inputs: one array per graph input, of exactly its type.

        Raises:
            UsageError: an input has another type.
            CapacityError: values take more memory than the budget has.
        """
        found = self.run_images({name: inputs[name][None] for name in self.graph.inputs}, 1)
        return {name: array[0] for name, array in found.items()}

    def run_images(self, inputs: Mapping[str, Array], count: int) -> dict[str, Array]:
        """Outputs by name of several images, in one product of matrices where there is one.

        Args:
            inputs: one array per graph input, with an axis of images before those of its type.
            count: how many images there are.

        Raises:
            UsageError: an input has another type.
            CapacityError: values take more memory than the budget has.
        """
        graph = self.graph
        stored = {
            name: check_array(name, _of_images(graph.type(name), count), inputs[name])
            for name in graph.inputs
        }
        # Memory is used again; every thread has its own.
        try:
            rooms = self._rooms.pop()
        except IndexError:
            rooms = _Rooms()
        try:
            return _Run(graph, self.operators, count, stored, rooms).outputs(self._steps)
        finally:
            self._rooms.append(rooms)


def _of_images(type: TensorType, count: int) -> TensorType:
    return TensorType((count, *type.shape), type.dtype)


class _Rooms:
    """Memory of values that are no longer needed, by its size."""

    def __init__(self) -> None:
        self._free: dict[int, list[Codes]] = {}

    def take(self, type: TensorType, count: int) -> Codes:
        """Room for the codes of a tensor of several images."""
        shape = (count, *type.shape)
        rooms = self._free.get(count * type.size)
        if rooms:
            return rooms.pop().reshape(shape)
        budget.demand(4 * count * type.size, f"{count} tensors {type}")
        return np.empty(shape, np.float32)

    def give(self, codes: Codes) -> None:
        """Take memory back."""
        self._free.setdefault(codes.size, []).append(codes)


@dataclass
class _Run:
    """Some images on their way.

    Attributes:
        graph: the graph.
        operators: as for `Twin`.
        count: how many images there are.
        stored: elements of values as files have them, by name.
        rooms: memory for codes.
        codes: centred codes of values, by name.
    """

    graph: Graph
    operators: Mapping[str, Operator]
    count: int
    stored: dict[str, Array]
    rooms: _Rooms
    codes: dict[str, Codes] = field(default_factory=dict)

    def outputs(self, steps: Sequence[_Step]) -> dict[str, Array]:
        """Elements of the outputs, after all steps."""
        for step in steps:
            if step.kernel is not None:
                self._compute(step.call, step.kernel)
            else:
                self._evaluate(step.call)
            for name in step.last:
                self.stored.pop(name, None)
                self._drop(name)
        found = {}
        for name in self.graph.outputs:
            data = self.graph.value(name).data
            found[name] = self._elements(name) if data is None else np.stack([data] * self.count)
        for name in list(self.codes):
            self._drop(name)
        return found

    def _drop(self, name: str) -> None:
        if name in self.codes:
            self.rooms.give(self.codes.pop(name))

    def _compute(self, call: Call, kernel: Kernel) -> None:
        """Compute a node by its kernel."""
        operands = [
            self._coded(value.name)
            for value in call.inputs
            if value is not None and value.data is None
        ]
        outs = [self.rooms.take(value.type, self.count) for value in call.outputs]
        kernel(operands, outs)
        self.codes.update(zip(call.node.outputs, outs, strict=True))

    def _evaluate(self, call: Call) -> None:
        """Compute a node as `semantics` defines it, one image after the other."""
        arrays = [
            None if value is None else self._elements(value.name) if value.data is None else value
            for value in call.inputs
        ]
        found = [
            results(
                call,
                [x.data if isinstance(x, Value) else None if x is None else x[n] for x in arrays],
                self.operators,
            )
            for n in range(self.count)
        ]
        for name, *parts in zip(call.node.outputs, *found, strict=True):
            self.stored[name] = np.stack(parts)

    def _elements(self, name: str) -> Array:
        """Elements of a value as files have them."""
        if name not in self.stored:
            type = self.graph.type(name)
            codes = self.codes[name] + _zero_point(type)
            self.stored[name] = codes.astype(type.dtype.numpy)
        return self.stored[name]

    def _coded(self, name: str) -> Codes:
        """Centred codes of a value."""
        if name not in self.codes:
            type = self.graph.type(name)
            out = self.rooms.take(type, self.count)
            np.subtract(self.stored[name], _zero_point(type), out=out, casting="unsafe")
            self.codes[name] = out
        return self.codes[name]


def _zero_point(type: TensorType) -> np.float32:
    assert type.quantization is not None, "only values with codes get here"
    return np.float32(type.quantization.zero_point[0])
