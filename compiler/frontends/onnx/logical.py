"""ONNX's comparisons, truth values, and choices by them."""

from __future__ import annotations

import math

from fitzroy.base.types import DType
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor

_COMPARISONS = {
    "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "Less": "less",
    "LessOrEqual": "less_equal", "And": "logical_and", "Or": "logical_or", "Xor": "not_equal",
}  # fmt: skip
"""Functions of two operands that give booleans."""


@imports(*_COMPARISONS)
def comparison(op: Operation) -> Tensor:
    """A comparison of numbers, or a function of truth values."""
    return op.build.binary(_COMPARISONS[op.name], op.input(0), op.input(1))


@imports("Not")
def negation(op: Operation) -> Tensor:
    """The opposite truth value."""
    return op.build.unary("logical_not", op.input())


@imports("Where")
def where(op: Operation) -> Tensor:
    """Elements of one operand or the other.

    Raises:
        Refusal: the condition is no boolean.
    """
    condition, x, y = (op.input(index) for index in range(3))
    if condition.dtype is not DType.BOOL:
        raise Refusal("onnx-element-type", f"a condition of {condition.dtype.value}")
    return chosen(op.build, condition, x, y)


def chosen(build: Builder, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Elements of `x` where a condition holds, else of `y`."""
    choices, quantization = build.alike([x, y])
    names, model = build.aligned([condition, *choices])
    name = build.emit("select", names, dtype=x.dtype, quantization=quantization)
    return build.like(name, model)


@imports("IsNaN")
def is_nan(op: Operation) -> Tensor:
    """Whether numbers are none: only those differ from themselves."""
    return op.build.binary("not_equal", op.input(), op.input())


@imports("IsInf")
def is_infinite(op: Operation) -> Tensor:
    """Whether numbers are infinite, of one sign or of both."""
    build, x = op.build, op.input()
    signs = [
        sign
        for sign, name in ((1, "detect_positive"), (-1, "detect_negative"))
        if op.integer(name, 1)
    ]
    if len(signs) == 2:
        x, signs = build.unary("abs", x), [1]
    if not signs:
        # No number is less than itself.
        return build.binary("less", x, x)
    return build.binary("equal", x, build.scalar(signs[0] * math.inf, x))
