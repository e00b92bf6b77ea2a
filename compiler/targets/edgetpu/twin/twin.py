"""A graph in the arithmetic of the chip, prepared once and run for many inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fitzroy.base import budget
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.reference import check_array, demand_memory
from fitzroy.compiler.targets.edgetpu.twin.kernels import Codes, Kernel, kernel_of
from fitzroy.compiler.targets.edgetpu.twin.semantics import OPERATORS, Operator, results


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
    """A graph, prepared.

    Args:
        graph: a verified graph whose activations are quantized to 8 bits, such as the part of a
            model that one program computes on the chip.
        operators: operators whose results are not those of their declarations; by default those of
            programs of this compiler. An operator that is not the default one has no fast kernel.

    Raises:
        CapacityError: the values take more memory than the budget has.
        UnsupportedError: a tensor is not quantized to 8 bits where an operator demands it.
    """

    def __init__(self, graph: Graph, operators: Mapping[str, Operator] = OPERATORS) -> None:
        self.graph = graph
        self._operators = operators
        self._steps: list[_Step] = []
        self._free: dict[int, list[Codes]] = {}
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
            same = operators.get(node.op) is OPERATORS.get(node.op)
            self._steps.append(_Step(call, kernel_of(call) if same else None, tuple(unread)))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, as a program of the graph gives them on the chip.

        Args:
            inputs: one array per graph input, of exactly its type.

        Raises:
            UsageError: an input has another type.
            CapacityError: values take more memory than the budget has.
        """
        graph = self.graph
        stored = {name: check_array(name, graph.type(name), inputs[name]) for name in graph.inputs}
        codes: dict[str, Codes] = {}
        for step in self._steps:
            if step.kernel is not None:
                self._compute(step.call, step.kernel, stored, codes)
            else:
                self._evaluate(step.call, stored, codes)
            for name in step.last:
                stored.pop(name, None)
                if name in codes:
                    self._give(codes.pop(name))
        found = {name: self._stored(name, stored, codes) for name in graph.outputs}
        for name in list(codes):
            self._give(codes.pop(name))
        return found

    def _compute(
        self, call: Call, kernel: Kernel, stored: dict[str, Array], codes: dict[str, Codes]
    ) -> None:
        """Compute a node by its kernel."""
        operands = [
            self._coded(value.name, stored, codes)
            for value in call.inputs
            if value is not None and value.data is None
        ]
        out = self._take(call.result.type)
        kernel(operands, out)
        codes[call.result.name] = out

    def _evaluate(self, call: Call, stored: dict[str, Array], codes: dict[str, Codes]) -> None:
        """Compute a node as `semantics` defines it."""
        arrays = [
            None
            if value is None
            else self._stored(value.name, stored, codes)
            if value.data is None
            else value.data
            for value in call.inputs
        ]
        stored.update(zip(call.node.outputs, results(call, arrays, self._operators), strict=True))

    def _stored(self, name: str, stored: dict[str, Array], codes: Mapping[str, Codes]) -> Array:
        """Elements of a value as files have them."""
        value = self.graph.value(name)
        if value.data is not None:
            return value.data
        if name not in stored:
            stored[name] = (codes[name] + _zero_point(value.type)).astype(value.type.dtype.numpy)
        return stored[name]

    def _coded(self, name: str, stored: Mapping[str, Array], codes: dict[str, Codes]) -> Codes:
        """Centred codes of a value."""
        if name not in codes:
            type = self.graph.type(name)
            out = self._take(type)
            np.subtract(stored[name], _zero_point(type), out=out, casting="unsafe")
            codes[name] = out
        return codes[name]

    def _take(self, type: TensorType) -> Codes:
        """Room for the codes of a tensor; that of values that are no longer needed comes first."""
        rooms = self._free.get(type.size)
        if rooms:
            return rooms.pop().reshape(type.shape)
        budget.demand(4 * type.size, f"a tensor {type}")
        return np.empty(type.shape, np.float32)

    def _give(self, codes: Codes) -> None:
        self._free.setdefault(codes.size, []).append(codes)


def _zero_point(type: TensorType) -> np.float32:
    assert type.quantization is not None, "only values with codes get here"
    return np.float32(type.quantization.zero_point[0])
