"""ONNX operators on corresponding elements."""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from fitzroy.base import budget
from fitzroy.base.types import DType
from fitzroy.compiler.frontends.onnx.builder import Builder, graph_type
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.reader import element_type
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor
from fitzroy.compiler.ops.elementwise import (
    ClampAttributes,
    EluAttributes,
    GeluAttributes,
    LeakyReluAttributes,
)

INFINITY = float("inf")

_UNARY = {
    "Abs": "abs", "Ceil": "ceil", "Cos": "cos", "Exp": "exp", "Floor": "floor", "Log": "log",
    "Neg": "negate", "Sigmoid": "sigmoid", "Sin": "sin", "Sqrt": "sqrt", "Tanh": "tanh",
    "HardSwish": "hardswish", "Round": "round", "Sign": "sign",
}  # fmt: skip
"""Functions of one number that are operators of ours."""


@imports(*_UNARY)
def unary(op: Operation) -> Tensor:
    """A function of one number."""
    return op.build.unary(_UNARY[op.name], op.input())


@imports("Identity", "Dropout")
def identity(op: Operation) -> list[Tensor]:
    """The operand; a dropout does nothing when a model is not trained.

    Raises:
        Refusal: the dropout is one of training.
    """
    if op.name == "Dropout" and op.optional(2) is not None and bool(op.constant(2, "mode").any()):
        raise Refusal("onnx-random", "a dropout in training mode")
    results = [op.input()]
    if op.wanted(1):
        results.append(op.array(np.ones(op.input().shape, np.bool_)))
    return results


@imports("Cast", "CastLike")
def cast(op: Operation) -> Tensor:
    """Numbers of another element type; float16 and float64 are computed in float32."""
    x = op.input()
    dtype = element_type(op.integer("to")) if op.name == "Cast" else op.input(1).dtype
    dtype = graph_type(dtype)
    if dtype is x.dtype:
        return x
    return op.build.unary("cast", x, dtype=dtype)


# --- rectifiers and the like -------------------------------------------------------------------


CLAMPS = ((0.0, INFINITY), (0.0, 6.0), (-1.0, 1.0), (0.0, 1.0))
"""Clamps that are operators of TFLite."""


def clamp(build: Builder, x: Tensor, low: float, high: float) -> Tensor:
    """Numbers limited to a range."""
    if x.dtype is DType.FLOAT32 and (low, high) in CLAMPS:
        return build.unary("clamp", x, ClampAttributes(low, high))
    if low > -INFINITY:
        x = build.extremum("maximum", x, build.scalar(low, x))
    if high < INFINITY:
        x = build.extremum("minimum", x, build.scalar(high, x))
    return x


@imports("Relu")
def relu(op: Operation) -> Tensor:
    """Positive numbers; others become 0."""
    return clamp(op.build, op.input(), 0, INFINITY)


@imports("Clip")
def clip(op: Operation) -> Tensor:
    """Numbers limited to a range, which attributes or operands give."""
    x = op.input()
    bounds = []
    for index, name in ((1, "min"), (2, "max")):
        operand = op.optional(index)
        given = op.number(name, INFINITY if index == 2 else -INFINITY)
        bounds.append(operand if operand is not None else op.build.constant(np.array(given)))
    low, high = bounds
    if low.data is not None and high.data is not None:
        return clamp(op.build, x, float(low.data), min(float(high.data), INFINITY))
    for name, bound in (("maximum", low), ("minimum", high)):
        if bound.data is None or np.isfinite(bound.data).all():
            x = op.build.extremum(name, x, bound)
    return x


@imports("LeakyRelu")
def leaky_relu(op: Operation) -> Tensor:
    """Positive numbers; others are scaled."""
    return op.build.unary("leaky_relu", op.input(), LeakyReluAttributes(op.number("alpha", 0.01)))


@imports("Elu")
def elu(op: Operation) -> Tensor:
    """Positive numbers; others become ``alpha * (exp(x) - 1)``."""
    build, x, alpha = op.build, op.input(), op.number("alpha", 1.0)
    if alpha == 1:
        return build.unary("elu", x, EluAttributes())
    negative = build.unary("elu", clamp(build, x, -INFINITY, 0.0), EluAttributes())
    return build.add(clamp(build, x, 0, INFINITY), build.mul(negative, build.scalar(alpha, x)))


@imports("HardSigmoid")
def hard_sigmoid(op: Operation) -> Tensor:
    """``alpha * x + beta`` limited to 0 and 1."""
    build, x = op.build, op.input()
    alpha, beta = op.number("alpha", 0.2), op.number("beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        six = clamp(build, build.add(x, build.scalar(3, x)), 0, 6)
        return build.mul(six, build.scalar(1 / 6, x))
    return clamp(
        build, build.add(build.mul(x, build.scalar(alpha, x)), build.scalar(beta, x)), 0, 1
    )


@imports("Gelu")
def gelu(op: Operation) -> Tensor:
    """Gaussian error linear unit."""
    return op.build.unary(
        "gelu", op.input(), GeluAttributes(op.text("approximate", "none") == "tanh")
    )


@imports("Softplus")
def softplus(op: Operation) -> Tensor:
    """Logarithm of 1 + exp(x), without overflow."""
    return softplus_of(op.build, op.input())


def softplus_of(build: Builder, x: Tensor) -> Tensor:
    """Logarithm of 1 + exp(x) as max(x, 0) + log(1 + exp(-|x|))."""
    small = build.unary("exp", build.unary("negate", build.unary("abs", x)))
    tail = build.unary("log", build.add(small, build.scalar(1, x)))
    return build.add(clamp(build, x, 0, INFINITY), tail)


@imports("Mish")
def mish(op: Operation) -> Tensor:
    """``x * tanh(softplus(x))``."""
    x = op.input()
    return op.build.mul(x, op.build.unary("tanh", softplus_of(op.build, x)))


@imports("Swish")
def swish(op: Operation) -> Tensor:
    """``x * sigmoid(alpha * x)``."""
    build, x, alpha = op.build, op.input(), op.number("alpha", 1.0)
    inner = x if alpha == 1 else build.mul(x, build.scalar(alpha, x))
    return build.mul(x, build.unary("sigmoid", inner))


_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: error at most 1.5e-7."""


@imports("Erf")
def erf(op: Operation) -> Tensor:
    """Error function: ``sign(x) * (1 - p(t) * exp(-x * x))`` with t = 1 / (1 + 0.3275911 |x|)."""
    build, x = op.build, op.input()
    one = build.scalar(1, x)
    size = build.unary("abs", x)
    t = build.binary("div", one, build.add(build.mul(size, build.scalar(0.3275911, x)), one))
    series = build.scalar(_ERF[-1], x)
    for factor in reversed(_ERF[:-1]):
        series = build.add(build.mul(series, t), build.scalar(factor, x))
    falling = build.unary("exp", build.unary("negate", build.unary("square", x)))
    upper = build.binary("sub", one, build.mul(build.mul(series, t), falling))
    # The sign, which is 0 for 0: x divided by |x| and the least normal number more.
    tiny = build.scalar(float(np.finfo(np.float32).tiny), x)
    return build.mul(upper, build.binary("div", x, build.binary("maximum", size, tiny)))


@imports("Reciprocal")
def reciprocal(op: Operation) -> Tensor:
    """1 divided by each number."""
    return op.build.binary("div", op.build.scalar(1, op.input()), op.input())


# --- several operands --------------------------------------------------------------------------

_BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}


@imports(*_BINARY)
def binary(op: Operation) -> Tensor:
    """A function of two numbers."""
    return op.build.binary(_BINARY[op.name], op.input(0), op.input(1))


_EXTREMA = {"Max": "maximum", "Min": "minimum"}


@imports(*_EXTREMA)
def extremum(op: Operation) -> Tensor:
    """The largest or the smallest of any number of numbers."""
    return reduce(partial(op.build.extremum, _EXTREMA[op.name]), op.present())


@imports("Sum", "Mean")
def folded(op: Operation) -> Tensor:
    """Sum or mean of any number of numbers."""
    operands, build = op.present(), op.build
    result = reduce(build.add, operands)
    if op.name == "Mean" and len(operands) > 1:
        return build.mul(result, build.scalar(1 / len(operands), result))
    return result


@imports("PRelu")
def prelu(op: Operation) -> Tensor:
    """Positive numbers; others are scaled by an operand."""
    return op.build.binary("prelu", op.input(0), op.input(1))


@imports("Pow")
def power(op: Operation) -> Tensor:
    """Numbers raised to a power."""
    build, x, exponent = op.build, op.input(0), op.input(1)
    known = exponent.data is not None and exponent.size == 1 and x.dtype is DType.FLOAT32
    value = float(exponent.data.reshape(-1)[0]) if known and exponent.data is not None else None
    if value == 1:
        return x
    if value in (2, 3):
        square = build.unary("square", x)
        return square if value == 2 else build.mul(square, x)
    if value in _ROOTS:
        return build.unary(_ROOTS[value], x)
    if value == -1:
        return build.binary("div", build.scalar(1, x), x)
    if exponent.dtype is not x.dtype:
        exponent = build.unary("cast", exponent, dtype=x.dtype)
    return build.binary("pow", x, exponent)


_ROOTS: dict[float | None, str] = {0.5: "sqrt", -0.5: "rsqrt"}


@imports("Mod")
def modulo(op: Operation) -> Tensor:
    """Remainder, with the sign of the divisor, or with ``fmod`` that of the dividend."""
    build, a, b = op.build, op.input(0), op.input(1)
    if not op.integer("fmod"):
        return build.binary("floor_mod", a, b)
    size = build.binary("floor_mod", build.unary("abs", a), build.unary("abs", b))
    return build.mul(size, build.unary("sign", a))


@imports("Tan")
def tangent(op: Operation) -> Tensor:
    """Tangent, as a quotient."""
    build, x = op.build, op.input()
    return build.binary("div", build.unary("sin", x), build.unary("cos", x))


@imports("Sinh", "Cosh")
def hyperbolic(op: Operation) -> Tensor:
    """Hyperbolic sine or cosine."""
    build, x = op.build, op.input()
    rising, falling = build.unary("exp", x), build.unary("exp", build.unary("negate", x))
    both = build.binary("sub" if op.name == "Sinh" else "add", rising, falling)
    return build.mul(both, build.scalar(0.5, x))


@imports("Atan", "Asin", "Acos")
def arc(op: Operation) -> Tensor:
    """Angles, by their tangent: of x and 1, or of x and the other leg."""
    build, x = op.build, op.input()
    one = build.scalar(1, x)
    if op.name == "Atan":
        # TFLite's operator does not broadcast.
        budget.demand(4 * x.size, "as many ones as there are tangents")
        return build.binary("atan2", x, build.constant(np.ones(x.shape, np.float32)))
    leg = build.unary("sqrt", build.binary("sub", one, build.unary("square", x)))
    pair = (x, leg) if op.name == "Asin" else (leg, x)
    return build.binary("atan2", *pair)


@imports("Asinh", "Acosh", "Atanh")
def area(op: Operation) -> Tensor:
    """Inverse hyperbolic functions, as logarithms."""
    build, x = op.build, op.input()
    one = build.scalar(1, x)
    if op.name == "Atanh":
        ratio = build.binary("div", build.add(one, x), build.binary("sub", one, x))
        return build.mul(build.unary("log", ratio), build.scalar(0.5, x))
    if op.name == "Acosh":
        # The product of roots does not overflow where the root of a product of squares would.
        below, above = build.binary("sub", x, one), build.add(x, one)
        leg = build.mul(build.unary("sqrt", below), build.unary("sqrt", above))
        return build.unary("log", build.add(x, leg))
    # Of negative numbers, the sum would cancel out.
    size = build.unary("abs", x)
    leg = build.unary("sqrt", build.add(build.unary("square", x), one))
    return build.mul(build.unary("log", build.add(size, leg)), build.unary("sign", x))
