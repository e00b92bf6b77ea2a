"""Rewriting of single nodes for XNNPACK: what rules of legalization build with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import reals
from fitzroy.compiler.ops.shape import ConcatenationAttributes, ReshapeAttributes
from fitzroy.compiler.targets.xnnpack.rules import MOST_CONCATENATED


class Leave(Exception):
    """The node has no replacement; it stays, to be refused with its reason."""


class Rewriter:
    """Builds the replacement of one node."""

    def __init__(self, graph: Graph, call: Call) -> None:
        self.graph = graph
        self.call = call
        self._emitted: set[str] = set()

    @property
    def out(self) -> TensorType:
        """Type of the node's first result."""
        return self.call.result.type

    def emit(
        self,
        op: str,
        inputs: Sequence[str | None],
        type: TensorType,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> str:
        """Insert a node; returns its result."""
        node = self.call.node
        stem = f"{node.name}/{op}"
        name = self.graph.emit(op, inputs, type, attributes, stem=stem, origin=node.origin)
        self._emitted.add(name)
        return name

    def constant(self, data: Array) -> str:
        """A float32 constant."""
        return self.graph.add_constant(f"{self.call.node.name}/constant", data.astype(np.float32))

    def type(self, name: str) -> TensorType:
        """Type of a value."""
        return self.graph.type(name)

    def to(self, name: str, type: TensorType) -> str:
        """The same real numbers in another representation."""
        if self.type(name) == type:
            return name
        for kind in (self.type(name), type):
            if kind.quantization is None and kind.dtype is not DType.FLOAT32:
                raise Leave
        op = "dequantize" if type.quantization is None else "quantize"
        return self.emit(op, [name], type)

    def real(self, name: str) -> str:
        """The value as float32; constants are converted at once."""
        value = self.graph.value(name)
        if value.type.quantization is None:
            if value.type.dtype is not DType.FLOAT32:
                raise Leave
            return name
        if value.data is not None:
            return self.constant(reals(value.data, value.type))
        return self.to(name, value.type.real())

    def reshape(self, name: str, shape: tuple[int, ...]) -> str:
        """The same elements with another shape."""
        type = self.type(name)
        if type.shape == shape:
            return name
        return self.emit("reshape", [name], type.with_shape(shape), ReshapeAttributes(shape))

    def replace(self, *results: str) -> None:
        """Make `results` the node's results, converted to their types; remove the node."""
        pairs = list(zip(self.call.outputs, results, strict=True))
        sources = [self.to(found, old.type) for old, found in pairs]
        self.graph.remove(self.call.node.name)
        for old, source in zip(self.call.outputs, sources, strict=True):
            if source not in self._emitted:
                # A value of its own is needed to carry the old name.
                source = self.emit("copy", [source], old.type)
            self.graph.retarget(source, old.name)

    def chain(self, op: str, inputs: list[str], type: TensorType, axis: int) -> str:
        """A tree of concatenations, each of as many inputs as a node takes."""
        while len(inputs) > 1:
            groups = [
                inputs[i : i + MOST_CONCATENATED] for i in range(0, len(inputs), MOST_CONCATENATED)
            ]
            inputs = [self._join(op, group, type, axis) for group in groups]
        return inputs[0]

    def _join(self, op: str, group: list[str], type: TensorType, axis: int) -> str:
        if len(group) == 1:
            return group[0]
        shape = list(type.shape)
        shape[axis] = sum(self.type(name).shape[axis] for name in group)
        return self.emit(op, group, type.with_shape(tuple(shape)), ConcatenationAttributes(axis))


Rule = Callable[[Rewriter], None]
"""Replaces a node, leaves it alone, or raises `Leave`."""
