"""How an operator is declared.

One class per operator holds everything the compiler knows of it: operands and attributes, the
rule for its result types, its meaning (numpy), and the TFLite operators it is imported from and
exported to. `define` registers it; nothing else needs to change when an operator is added. How
targets run it is declared by them.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from fitzroy.base.errors import InternalError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Attributes, Graph, Node, Value
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic

Arrays = Sequence[Array | None]
"""One array per operand; None where an optional operand is absent."""

A = TypeVar("A", bound=Attributes)

WIDE_ACTIVATIONS = (
    "activations of 16 bits (the converter's 16x8 mode) run on no target here: convert the model"
    " with int8 activations, or convert it as float and quantize it with fitzroy quantize"
)
"""What to do about a model that computes with quantized int16 activations."""


class TypeRuleError(Exception):
    """Operand types or attributes that the operator does not admit; the text says which."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Why a target does not take a node.

    Attributes:
        rule: stable identifier of the rule, in kebab case.
        reason: what is not possible, naming the found and the permitted values.
        hint: what the user can do about it.
    """

    rule: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A node together with the values it reads and writes: what rules are asked about.

    Attributes:
        node: the node.
        inputs: values read; None where an optional operand is absent.
        outputs: values produced.
        graph_inputs: names of the values read that are inputs of the graph.
    """

    node: Node
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    graph_inputs: frozenset[str] = frozenset()

    @classmethod
    def of(cls, graph: Graph, node: Node) -> Call:
        """The call of a node of a graph."""
        return cls(
            node,
            tuple(None if name is None else graph.value(name) for name in node.inputs),
            tuple(graph.value(name) for name in node.outputs),
            frozenset(name for name in graph.inputs if name in node.inputs),
        )

    def operand(self, index: int) -> Value:
        """The operand at `index`, which the operator requires.

        Raises:
            TypeRuleError: it is absent.
        """
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise TypeRuleError(f"operand {index} is absent")
        return value

    def optional(self, index: int) -> Value | None:
        """The operand at `index`, or None."""
        return self.inputs[index] if index < len(self.inputs) else None

    def type(self, index: int = 0) -> TensorType:
        """Type of the operand at `index`."""
        return self.operand(index).type

    def attributes(self, cls: builtins.type[A]) -> A:
        """The node's attributes as the class that its operator declares.

        Raises:
            TypeRuleError: they are of another class.
        """
        if not isinstance(self.node.attributes, cls):
            found = self.node.attributes.__class__.__name__
            raise TypeRuleError(f"attributes are {found}, not {cls.__name__}")
        return self.node.attributes

    @property
    def result(self) -> Value:
        """The only, or first, output."""
        return self.outputs[0]

    def constant(self, index: int) -> tuple[int, ...] | None:
        """Elements of an integer operand that is known at compile time, flattened; else None.

        Raises:
            TypeRuleError: it is constant, but no integers.
        """
        value = self.operand(index)
        if value.data is not None and value.data.dtype.kind not in "biu":
            raise TypeRuleError(f"operand {index} is {value.type.dtype.value}, not integers")
        return None if value.data is None else tuple(int(x) for x in value.data.reshape(-1))


@dataclass(frozen=True, slots=True)
class Imported:
    """What a TFLite operator becomes.

    Attributes:
        attributes: the attributes.
        operands: which of TFLite's operands the node keeps, in the operator's order; None keeps
            all. The others, such as a shape, have become attributes.
        reshaped: operands of TFLite that get another shape first, by index.
        reshape: shape that a reshape has to give the node's result, if the operator's is another.
    """

    attributes: Attributes
    operands: tuple[int, ...] | None = None
    reshaped: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    reshape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """How a node is written as a TFLite operator.

    Attributes:
        builtin: name of the builtin operator, or of the custom one.
        options: its options table, or None; custom operators have bytes.
        operands: operands of the node by index, and constants to make tensors of, quantized ones
            as values whose name does not count; None stands for all operands of the node.
        version: version of the operator, None for the first that has the types.
        states: operands, by their place in the file, whose tensors last from run to run.
        intermediates: types of tensors that kernels use while they run.
    """

    builtin: str
    options: Any = None
    operands: tuple[int | Array | Value, ...] | None = None
    version: int | None = None
    states: tuple[int, ...] = ()
    intermediates: tuple[TensorType, ...] = ()


@dataclass(frozen=True, slots=True)
class Expected:
    """What a type rule finds for one output; None stands for "any"."""

    shape: tuple[int, ...]
    dtype: DType | None = None


class Operator:
    """Base of all operator declarations.

    Class attributes:
        name: name in the IR.
        operands: names of the operands; ``?`` marks optional ones, ``*`` the variadic last one.
        attributes: the attribute dataclass.
        results: number of outputs, or None if it depends on the attributes.
        tflite: names of the TFLite builtin operators that import as this one.
        table: name of the options table of the first of these; empty if it has none.
        custom: name of the TFLite custom operator that imports as this one; empty if none does.
        channel_axis: axis of output channels of the filter, operand 1; None without a filter.
        moves: whether results hold elements of the operands, so that both are quantized or neither.
        elementwise: whether outputs depend on corresponding (broadcast) elements only.
        reads_stored: whether operands that stand for real numbers may be integers, one by one.
        by_shape: whether outputs depend on the operands' types only, and not on elements.
    """

    name: ClassVar[str]
    operands: ClassVar[tuple[str, ...]] = ("input",)
    attributes: ClassVar[type[Attributes]] = Attributes
    results: ClassVar[int | None] = 1
    tflite: ClassVar[tuple[str, ...]] = ()
    table: ClassVar[str] = ""
    custom: ClassVar[str] = ""
    channel_axis: ClassVar[int | None] = None
    moves: ClassVar[bool] = False
    elementwise: ClassVar[bool] = False
    reads_stored: ClassVar[bool] = False
    by_shape: ClassVar[bool] = False

    # --- meaning ---------------------------------------------------------------------------------

    def infer(self, call: Call) -> Sequence[Expected]:
        """Result shapes and dtypes; checks operands.

        Raises:
            TypeRuleError: the operands do not fit.
        """
        raise NotImplementedError

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        """The operator's meaning: outputs from inputs, with numpy.

        Args:
            call: types and attributes.
            arrays: one array per operand, None where absent.
            arithmetic: rounding of integer kernels: XNNPACK's or the TFLite reference's.
        """
        raise NotImplementedError

    # --- TFLite ----------------------------------------------------------------------------------

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        """Attributes and operands from a TFLite operator.

        Args:
            builtin: name of the builtin operator, or of the custom one.
            options: its options table, or None; the bytes of the options of a custom operator.
            call: TFLite's operands; the node has no attributes yet.

        Raises:
            TypeRuleError: the operator uses something that has no counterpart here.
        """
        return Imported(self.attributes())

    def to_tflite(self, call: Call) -> Exported:
        """The TFLite operator for a node.

        Raises:
            TypeRuleError: TFLite cannot express it.
        """
        if not self.tflite:
            raise TypeRuleError(f"TFLite has no operator for {self.name}")
        return Exported(self.tflite[0], self.options())

    def options(self, **fields: Any) -> Any:
        """TFLite's table of options with these fields; None for operators that have none."""
        return getattr(tflite, self.table)(**fields) if self.table else None

    # --- arithmetic ------------------------------------------------------------------------------

    def scales_fit(self, call: Call) -> bool:
        """Whether fixed-point arithmetic covers the scales of a quantized call."""
        return True


OPS: dict[str, Operator] = {}
"""All operators by name."""

TFLITE: dict[str, Operator] = {}
"""Operators by the TFLite builtin operator they are imported from."""

CUSTOM: dict[str, Operator] = {}
"""Operators by the TFLite custom operator they are imported from."""

T = TypeVar("T", bound=type[Operator])


def define(cls: T) -> T:
    """Register an operator.

    Raises:
        InternalError: the name, or a TFLite operator, is declared already.
    """
    operator = cls()
    if operator.name in OPS:
        raise InternalError(f"operator {operator.name} is declared twice")
    OPS[operator.name] = operator
    for builtin in operator.tflite:
        if TFLITE.setdefault(builtin, operator) is not operator:
            raise InternalError(f"TFLite's {builtin} is claimed twice")
    if operator.custom and CUSTOM.setdefault(operator.custom, operator) is not operator:
        raise InternalError(f"the custom operator {operator.custom} is claimed twice")
    return cls


def attributes_of(op: str) -> type[Attributes]:
    """The attribute class of an operator; raises KeyError for unknown ones."""
    return OPS[op].attributes


Kind = TypeVar("Kind", bound=Operator)


def operator_of(call: Call, kind: type[Kind]) -> Kind:
    """The operator of a call, of which is known what it is derived from.

    Raises:
        InternalError: it is not.
    """
    operator = OPS[call.node.op]
    if not isinstance(operator, kind):
        raise InternalError(f"{operator.name} is no {kind.__name__}", where=call.node.name)
    return operator


def demand(condition: bool, text: str) -> None:
    """Raise TypeRuleError with `text` unless `condition` holds."""
    if not condition:
        raise TypeRuleError(text)
