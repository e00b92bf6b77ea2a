"""Operators that have no class here: carried with their bytes, and left to the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Attributes, Graph, Node
from fitzroy.compiler.ops.custom import cut_hint
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Operator,
    Reject,
    TypeRuleError,
    define,
)
from fitzroy.formats import flat, tflite
from fitzroy.hw_models.numerics import Arithmetic

RULE = "opaque-operator"
"""Code of diagnostics of operators that nobody here can compute."""


@dataclass(frozen=True)
class OpaqueAttributes(Attributes):
    """Attributes of opaque operators.

    Attributes:
        code: TFLite's name of the operator.
        options: of a custom operator, its options as the file holds them; of a builtin one, a
            `tflite.Operator` that holds its options and nothing else.
        version: version of the operator.
        builtin: TFLite's number of the operator; all custom ones have the same.
        reason: why it is opaque.
        whole: whether the node has all that the file says of the operator. Operands of types that
            graphs do not have stay in the file.
        hint: what can be done about it.
    """

    code: str = ""
    options: bytes = b""
    version: int = 1
    builtin: int = tflite.BuiltinOperator.CUSTOM
    reason: str = ""
    whole: bool = True
    hint: str = ""

    @property
    def why(self) -> str:
        """Why it is opaque; graphs that come from no file may leave it out."""
        return self.reason or f"there is no class for {self.code}"


@define
class Opaque(Operator):
    """A TFLite operator that FitzRoy does not know, kept with its bytes; LiteRT computes it."""

    name = "opaque"
    operands = ("inputs?*",)
    attributes = OpaqueAttributes
    results = None

    def infer(self, call: Call) -> Sequence[Expected]:
        return [Expected(out.type.shape, out.type.dtype) for out in call.outputs]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        raise UnsupportedError(
            f"{call.attributes(OpaqueAttributes).code} has no reference semantics",
            where=call.node.name,
            hint=cut_hint(call) or "LiteRT computes it: fitzroy run MODEL, or fitzroy.Interpreter",
        )

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(OpaqueAttributes)
        if not a.whole:
            raise TypeRuleError(f"only the file that it comes from has all of {a.code}")
        if a.builtin == tflite.BuiltinOperator.CUSTOM:
            return Exported(a.code, a.options, version=a.version)
        operator, _ = carried_operator(a)
        options = operator if a.options else None
        if options is not None and _calls(options):
            raise TypeRuleError(f"only the file that it comes from has what {a.code} calls")
        return Exported(tflite.BuiltinOperator(a.builtin).name, options, version=a.version)


def carried_operator(a: OpaqueAttributes) -> tuple[tflite.Operator, tflite.OperatorCode]:
    """The operator that opaque attributes carry, without operands, and its code.

    Raises:
        TypeRuleError: they do not have all of its options, or its number is unknown.
    """
    try:
        code = tflite.operator_code(tflite.BuiltinOperator(a.builtin), version=a.version)
        if tflite.is_custom(code):
            raw = np.frombuffer(a.options, np.uint8)
            return tflite.Operator(custom_options=raw), replace(code, custom_code=a.code)
        options = flat.decode(tflite.Operator, a.options) if a.options else tflite.Operator()
    except (FormatError, ValueError) as error:
        raise TypeRuleError(f"{a.code} has no options that can be written: {error}") from None
    return options, code


def opaque_attributes(
    operator: tflite.Operator, code: tflite.OperatorCode, name: str, reason: str, *, whole: bool
) -> OpaqueAttributes:
    """The attributes of an operator of a file.

    Args:
        operator: the operator.
        code: its code.
        name: its name.
        reason: why it is opaque.
        whole: whether the node has all of its operands.
    """
    number = tflite.builtin_number(code)
    raw = operator.custom_options
    options = b"" if raw is None else raw.tobytes()
    if not tflite.is_custom(code):
        unions = (operator.builtin_options, operator.builtin_options2)
        if any(isinstance(item, flat.UnknownMember) for item in unions):
            options, whole = b"", False
        else:
            options = flat.encode(
                tflite.Operator(
                    builtin_options=operator.builtin_options,
                    builtin_options2=operator.builtin_options2,
                    custom_options=raw,
                    mutating_variable_inputs=operator.mutating_variable_inputs,
                )
            )
        whole = whole and not flat.ints(operator.intermediates)
    return OpaqueAttributes(name, options, code.version, number, reason, whole)


def _calls(operator: tflite.Operator) -> bool:
    """Whether options refer to other subgraphs of a file."""
    every = (operator.builtin_options, operator.builtin_options2)
    names = (name for item in every if item is not None for _, name, _ in item.declared().fields)
    return any("subgraph" in name for name in names)


def opaque_reject(call: Call, hint: str = "") -> Reject:
    """Why a target that computes operators itself does not run an opaque one."""
    a = call.attributes(OpaqueAttributes)
    return Reject(RULE, f"{a.code} is opaque: {a.why}", a.hint or hint or cut_hint(call))


def opaque_nodes(graph: Graph) -> list[Node]:
    """The opaque operators of a graph."""
    return [node for node in graph.nodes() if node.op == Opaque.name]
