"""Operators that only their authors know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.definition import Arrays, Call, Expected, Operator, Reject, define
from fitzroy.hw_models.numerics import Arithmetic


@dataclass(frozen=True)
class CustomAttributes(Attributes):
    """Attributes of custom operators.

    Attributes:
        code: name of the operator.
        options: its parameters, as the file holds them.
        version: version of the operator.
    """

    code: str = ""
    options: bytes = b""
    version: int = 1


@define
class Custom(Operator):
    """A TFLite custom operator, carried with its bytes but not interpreted."""

    name = "custom"
    operands = ("inputs*",)
    attributes = CustomAttributes
    results = None

    def _code(self, call: Call) -> str:
        return call.attributes(CustomAttributes).code

    def infer(self, call: Call) -> Sequence[Expected]:
        return [Expected(out.type.shape, out.type.dtype) for out in call.outputs]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        raise UnsupportedError(
            f"custom operator {self._code(call)} has no reference semantics",
            where=call.node.name,
            hint=cut_hint(call),
        )

    def reject_xnnpack(self, call: Call) -> Iterator[Reject]:
        yield Reject(
            "custom-operator", f"custom operator {self._code(call)} is opaque", cut_hint(call)
        )

    def reject_portable(self, call: Call) -> Iterator[Reject]:
        yield from self.reject_xnnpack(call)


def cut_hint(call: Call) -> str:
    """How to compile the part of a model before a custom operator; empty if there is none."""
    names = [
        value.name
        for value in call.inputs
        if value is not None and not value.is_constant and value.name not in call.graph_inputs
    ]
    return f"compile up to it with --outputs '{','.join(names)}'" if names else ""
