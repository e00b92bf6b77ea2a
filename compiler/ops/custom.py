"""Operators that only their authors know."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    TypeRuleError,
    define,
    demand,
)
from fitzroy.formats import flexbuffer
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

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(CustomAttributes)
        return Exported(a.code, a.options, version=a.version)


class PostProcessing(Operator):
    """Base of custom operators that are published; their users run them on the host.

    Options are a flexbuffer map whose keys are the attributes, which are numbers.
    """

    results = None

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        found = flexbuffer.decode(options) if options else {}
        if not isinstance(found, dict):
            raise TypeRuleError("the options are no map")
        values = {}
        for item in fields(self.attributes):
            value = found.get(item.name, None if item.default is MISSING else item.default)
            kinds = int | float if item.type == "float" else int
            demand(
                isinstance(value, kinds) and math.isfinite(value),
                f"the options have no number {item.name}",
            )
            values[item.name] = _CASTS[item.type](value)
        return Imported(self.attributes(**values))

    def to_tflite(self, call: Call) -> Exported:
        return Exported(self.custom, flexbuffer.encode(asdict(call.attributes(self.attributes))))


_CASTS: dict[Any, Callable[[Any], object]] = {"int": int, "float": float, "bool": bool}
"""How an option becomes an attribute, by the attribute's annotation."""


def cut_hint(call: Call) -> str:
    """How to compile the part of a model before a custom operator; empty if there is none."""
    names = [
        value.name
        for value in call.inputs
        if value is not None and not value.is_constant and value.name not in call.graph_inputs
    ]
    return f"compile up to it with --outputs '{','.join(names)}'" if names else ""
