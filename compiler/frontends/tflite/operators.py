"""Operators of TFLite files as nodes of the operators declared here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fitzroy.base import budget
from fitzroy.base.errors import UsageError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.frontends.tflite.structs import ALIASES
from fitzroy.compiler.ir import Graph, Node, Value
from fitzroy.compiler.ops.catalog import CUSTOM, OPS, TFLITE
from fitzroy.compiler.ops.definition import Call, Operator, TypeRuleError, demand
from fitzroy.compiler.ops.shape import ReshapeAttributes
from fitzroy.compiler.reference import check, known_results
from fitzroy.formats import tflite
from fitzroy.formats.tflite_versions import VERSIONS
from fitzroy.hw_models.numerics import dequantize

HYBRID = frozenset(
    {
        "BATCH_MATMUL", "CONV_2D", "DEPTHWISE_CONV_2D", "EMBEDDING_LOOKUP", "FULLY_CONNECTED",
        "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM",
    }
)  # fmt: skip
"""Operators that may have quantized weights with real activations.

LiteRT rounds the activations to 8 bits in every inference, by the range of each row, and computes
with integers. Here the weights are what they stand for, and activations stay as they are.
"""


def declaration(
    operator: tflite.Operator, code: tflite.OperatorCode, name: str
) -> tuple[Operator, Any]:
    """The declared operator for one of TFLite, and the options in TFLite's form.

    Args:
        operator: the operator.
        code: its code.
        name: its name.

    Raises:
        TypeRuleError: there is none.
    """
    known, options = TFLITE.get(name), operator.builtin_options
    if options is None:
        options = operator.builtin_options2
    if tflite.is_custom(code):
        raw = operator.custom_options
        known = CUSTOM.get(name) or (ALIASES[name][0] if name in ALIASES else None)
        demand(known is not None, "a custom operator, which only its author knows")
        assert known is not None
        return known, b"" if raw is None else raw.tobytes()
    demand(known is not None, "it is none of the operators of docs/operators.md")
    newest = VERSIONS.get(name, 1)
    what = f"version {code.version}, {newest} is the newest that is known"
    demand(code.version <= newest, what)
    assert known is not None
    return known, options


class Operators:
    """Puts operators of a file into a graph.

    Args:
        graph: where they go.
        path: name of the file, for errors.
        open: values whose shapes the file leaves open; the operators say what they are.

    Attributes:
        added: names of the nodes that stand for the current operator so far.
    """

    def __init__(self, graph: Graph, path: str, open: Sequence[str] = ()) -> None:
        self.graph, self.path = graph, path
        self.open = set(open)
        self.added: list[str] = []

    def place(self, node: Node, builtin: str, known: Operator, options: Any) -> None:
        """Add the nodes of a declared operator for one of TFLite.

        Args:
            node: operands and results of TFLite's operator, and its origin.
            builtin: TFLite's name of the operator.
            known: the declared operator.
            options: the options in TFLite's form.

        Raises:
            TypeRuleError: the operands or the options are beyond the declared operator.
        """
        node, final = self._known(known, builtin, options, node)
        if final is None:
            self.insert(node)
            return
        (result,) = node.outputs
        type = self.graph.type(result)
        (found,) = OPS[node.op].infer(Call.of(self.graph, node))
        part = Value(self.graph.fresh(f"{result}/{node.op}"), type.with_shape(found.shape))
        self.graph.add_value(part)
        self.insert(replace(node, name=part.name, outputs=(part.name,)))
        reshape = Node(node.name, "reshape", (part.name,), (result,), ReshapeAttributes(final))
        reshape = replace(reshape, origin=node.origin)
        self.settle(reshape)
        self.insert(reshape)

    def insert(self, node: Node) -> None:
        """Add a node, or its results if shapes or constants say what they are.

        Raises:
            TypeRuleError: its operands, attributes or results do not fit.
        """
        graph = self.graph
        # Checked before it becomes part of the graph, which holds only what is well-typed.
        check(graph, node)
        try:
            found = known_results(graph, node)
        except UsageError as error:
            # Constants that the operator does not take, such as a divisor of zero.
            raise TypeRuleError(error.what) from None
        if found is None:
            graph.add_node(node)
            self.added.append(node.name)
            return
        for name, data in found.items():
            graph.set_value(Value(name, graph.type(name), data))

    def undo(self) -> None:
        """Remove the nodes that have been added for the current operator."""
        for name in reversed(self.added):
            self.graph.remove(name)
        self.added = []

    def settle(self, node: Node) -> None:
        """Give results the types that only the operator knows, where the file leaves them open."""
        call = Call.of(self.graph, node)
        if self.open.isdisjoint(node.outputs):
            return
        for value, found in zip(call.outputs, OPS[node.op].infer(call), strict=False):
            type = value.type.with_shape(found.shape)
            if found.dtype is not None and found.dtype is not type.dtype:
                type = TensorType(found.shape, found.dtype)
            self.graph.set_value(Value(value.name, type))

    def _known(
        self, known: Operator, name: str, options: Any, node: Node
    ) -> tuple[Node, tuple[int, ...] | None]:
        """A node of a declared operator, and the shape that its result is to have, if another."""
        call = Call.of(self.graph, replace(node, op=known.name))
        try:
            read = ALIASES[name][1] if name in ALIASES else partial(known.from_tflite, name)
            imported = read(options, call)
        except (AttributeError, IndexError, OverflowError, TypeError, ValueError) as error:
            # Options of another operator's type, or parameters of the wrong length.
            raise TypeRuleError(f"options or parameters do not fit {name}: {error}") from None
        operands = tuple(
            self._reshaped(node, self._real(name, node, item), imported.reshaped.get(index))
            for index, item in enumerate(node.inputs)
        )
        if imported.operands is not None:
            if max(imported.operands, default=-1) >= len(operands):
                raise TypeRuleError(f"{len(operands)} operands are too few")
            operands = tuple(operands[i] for i in imported.operands)
        while operands and operands[-1] is None:
            operands = operands[:-1]
        node = replace(node, op=known.name, inputs=operands, attributes=imported.attributes)
        if imported.reshape is None:
            self.settle(node)
        return node, imported.reshape

    def _real(self, builtin: str, node: Node, name: str | None) -> str | None:
        """An operand; quantized weights of an operator on real numbers as those real numbers."""
        if name is None or builtin not in HYBRID:
            return name
        value, result = self.graph.value(name), self.graph.type(node.outputs[0])
        quantization = value.type.quantization
        if quantization is None or value.data is None or result.dtype is not DType.FLOAT32:
            return name
        where = f"weights {name!r} as float32"
        budget.demand(4 * value.type.size, where, where=self.path)
        data = dequantize(value.data, quantization)
        return self.graph.add_constant(f"{name}/real", data)

    def _reshaped(self, node: Node, name: str | None, shape: tuple[int, ...] | None) -> str | None:
        """An operand, with another shape if there is one."""
        if name is None or shape is None:
            return name
        value, stem = self.graph.value(name), f"{node.name}/operand"
        type = value.type.with_shape(shape)
        if value.data is not None:
            data = value.data.reshape(shape)
            return self.graph.add_constant(stem, data, type.quantization)
        attributes = ReshapeAttributes(shape)
        result = self.graph.emit("reshape", [name], type, attributes, stem=stem, origin=node.origin)
        self.added.append(result)
        return result
