"""Functions of one element: the non-linear unit with tables that are fitted to each operator.

Stored values of 8 bits have only 256 arguments, so that a table is right when it gives the
reference's code for each of them. A table has eight polynomials of degree four. Segments are made
as long as a polynomial can be found that lies within half a unit of every code in it, beyond
saturation even further.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Value
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.elementwise import Clamp, Unary
from fitzroy.compiler.reference import argument_type, evaluate_elements
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import EVERY
from fitzroy.compiler.targets.edgetpu.parameters.polynomials import (
    DEGREE,
    SEGMENTS,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    LARGEST,
    OutputStage,
    function_of,
    unsigned_zero_point,
)
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import pointwise
from fitzroy.hw_models.isa.tensor import NluTable
from fitzroy.hw_models.numerics import Arithmetic, horner

CODES = LARGEST + 1
_SCALE = 2.0**-5
"""Arguments are stored values less the zero point times this: exact, and of moderate size."""

_MARGINS = (0.45, 0.5)
"""How far values may lie from a code; ties, half a unit away, are left to rounding if need be."""

_BEYOND = 1e3
"""How far values may lie beyond a code at the end of the range."""

_EXCHANGES = 100
"""Most exchanges of bounds in the search for a polynomial; about twenty are usual."""

_EXACT = 1e-9
"""Differences of units of codes that do not matter."""

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fit:
    """A table, and what it gives.

    Attributes:
        table: the instruction that loads it.
        stage: constants of the output stage.
    """

    table: NluTable
    stage: OutputStage


def codes(*calls: Call) -> npt.NDArray[np.int64]:
    """The stored result of a function for each stored argument, both unsigned, int64[256].

    Args:
        calls: the operators that make it up, in order. What they read is constants of one element,
            results of the ones before, and otherwise the argument.
    """
    dtype = argument_type(calls).dtype
    stored = (np.arange(CODES) + dtype.limits[0]).astype(dtype.numpy)
    values = evaluate_elements(calls, stored, Arithmetic.XNNPACK)
    return values.astype(np.int64) - calls[-1].result.type.dtype.limits[0]


def fitted(wanted: npt.NDArray[np.int64], zero_in: int, zero_out: int) -> Fit | None:
    """A table that gives wanted codes, None if eight polynomials do not.

    Args:
        wanted: unsigned code for each unsigned argument, int64[256].
        zero_in: zero point of the arguments.
        zero_out: zero point of the results.
    """
    return _cached(wanted.tobytes(), zero_in, zero_out)


def has_table(wanted: npt.NDArray[np.int64], zero_in: int, zero_out: int) -> bool:
    """Whether the chip has a table that gives wanted codes; arguments as for `fitted`."""
    return fitted(wanted, zero_in, zero_out) is not None


def table_of(call: Call) -> NluTable | None:
    """What loads the function that is fused into an operator with a filter; None if none is."""
    function = function_of(call)
    if function is None:
        return None
    return NluTable(
        tiles=EVERY, coefficients=function.coefficients, breakpoints=function.breakpoints
    )


@cache
def _cached(wanted: bytes, zero_in: int, zero_out: int) -> Fit | None:
    stored = np.frombuffer(wanted, np.int64)
    for margin in _MARGINS:
        fit = _fitted(stored, zero_in, zero_out, margin)
        if fit is not None and (computed(fit) == stored).all():
            return fit
    return None


def _fitted(
    wanted: npt.NDArray[np.int64], zero_in: int, zero_out: int, margin: float
) -> Fit | None:
    arguments = (np.arange(CODES) - zero_in).astype(np.float64) * _SCALE
    goal = (wanted - zero_out).astype(np.float64)
    low = np.where(wanted == 0, goal - _BEYOND, goal - margin)
    high = np.where(wanted == LARGEST, goal + _BEYOND, goal + margin)
    factors: list[tuple[float, ...]] = []
    breaks: list[float] = []
    begin = 0
    while begin < CODES:
        if len(factors) == SEGMENTS:
            return None
        end, polynomial = _longest(arguments, low, high, goal, begin)
        factors.append(tuple(float(x) for x in polynomial))
        if end < CODES:
            breaks.append(float((arguments[end - 1] + arguments[end]) / 2))
        begin = end
    factors += [factors[-1]] * (SEGMENTS - len(factors))
    breaks += [math.inf] * (SEGMENTS - 1 - len(breaks))
    return Fit(
        NluTable(tiles=EVERY, coefficients=tuple(factors), breakpoints=tuple(breaks)),
        OutputStage(
            scale=_SCALE,
            minimum=float(arguments[0]),
            maximum=float(arguments[-1]),
            output_zero_point=zero_out,
            a_zero_point=zero_in,
            nlu=True,
        ),
    )


def computed(fit: Fit) -> npt.NDArray[np.int64]:
    """What the hardware makes of every argument, in its arithmetic: float32, Horner's scheme."""
    stage = fit.stage
    x = ((np.arange(CODES) - stage.a_zero_point).astype(np.float32) * np.float32(stage.scale)).clip(
        np.float32(stage.minimum), np.float32(stage.maximum)
    )
    value = horner(fit.table.coefficients, fit.table.breakpoints, x)
    stored = np.rint(value).astype(np.int64) + stage.output_zero_point
    return np.asarray(stored.clip(0, LARGEST))


def _longest(
    x: Reals, low: Reals, high: Reals, goal: Reals, begin: int
) -> tuple[int, npt.NDArray[np.float32]]:
    """The end of the longest segment from a code on, and its polynomial."""
    good, best = begin + 1, np.array([goal[begin], 0, 0, 0, 0], np.float32)
    bad = len(x) + 1
    step = len(x)
    while bad - good > 1:
        end = min(good + step, bad - 1)
        found = _polynomial(x[begin:end], low[begin:end], high[begin:end], goal[begin:end])
        if found is None:
            bad = end
        else:
            good, best = end, found
        step = max(1, (bad - good) // 2)
    return good, best


def _polynomial(x: Reals, low: Reals, high: Reals, goal: Reals) -> npt.NDArray[np.float32] | None:
    """A polynomial between two bounds, evaluated in float32; None if there is none."""
    centre, half = (x[0] + x[-1]) / 2, max((x[-1] - x[0]) / 2, _SCALE)
    basis = np.polynomial.chebyshev.chebvander((x - centre) / half, DEGREE)
    if len(x) > DEGREE + 1:
        factors = _between(basis, low, high)
    else:
        factors = np.asarray(np.linalg.solve(basis[:, : len(x)], goal), np.float64)
    power = np.polynomial.chebyshev.cheb2poly(factors)
    shifted = np.zeros(1)
    for factor in power[::-1]:
        shifted = np.polynomial.polynomial.polyadd(
            np.polynomial.polynomial.polymul(shifted, [-centre / half, 1 / half]), [factor]
        )
    found = np.zeros(DEGREE + 1, np.float32)
    kept = shifted[: DEGREE + 1]
    found[: len(kept)] = kept
    y = x.astype(np.float32)
    result = np.full(len(x), found[DEGREE])
    for degree in reversed(range(DEGREE)):
        result = result * y + found[degree]
    inside = (result >= low - _SLACK) & (result <= high + _SLACK)
    inside |= np.rint(result) == goal
    return found if inside.all() else None


def _between(basis: Reals, low: Reals, high: Reals) -> Reals:
    """The factors with which a sum of columns violates bounds the least.

    If it can keep within them, it keeps the largest distance. This linear program is solved by
    the dual simplex method: at first, the sum reaches upper and lower bounds in turns. Then one of
    these is exchanged for the bound that is violated most, until none is violated more than others.

    Args:
        basis: polynomials of rising degree at each argument, float64[n, k], n > k.
        low: lower bounds, float64[n].
        high: upper bounds, float64[n].
    """
    count, width = basis.shape
    # The unknowns are the factors and the violation; rows times these are at most the bounds.
    rows = np.hstack([np.vstack([basis, -basis]), np.full((2 * count, 1), -1.0)])
    bounds = np.concatenate([high, -low])
    order = np.arange(width + 1)
    spread = np.rint((1 - np.cos(np.pi * order / width)) / 2 * (count - 1)).astype(int)
    reached = np.maximum.accumulate(spread - order).clip(0, count - width - 1) + order
    reached[1::2] += count
    for _ in range(_EXCHANGES):
        matrix = rows[reached]
        found = np.linalg.solve(matrix, bounds[reached])
        excess = rows @ found - bounds
        worst = int(excess.argmax())
        if excess[worst] <= _EXACT:
            break
        duals = np.linalg.solve(matrix.T, -np.eye(width + 1)[-1])
        shares = np.linalg.solve(matrix.T, rows[worst])
        ratios = np.divide(duals, shares, out=np.full(width + 1, np.inf), where=shares > _EXACT)
        reached[ratios.argmin()] = worst
    return found[:-1]


_SLACK = 0.02
"""How far values may lie outside of the bounds, of which their verification takes care."""


def _function(legalizer: Legalizer, call: Call, argument: int = 0) -> None:
    node = call.node
    wanted = codes(call)
    zeros = unsigned_zero_point(call.type(argument)), unsigned_zero_point(call.result.type)
    fit = fitted(wanted, *zeros)
    if fit is None:
        raise UnsupportedError(
            f"{node.spelled} {node.name!r} has no table: "
            f"{SEGMENTS} polynomials of degree {DEGREE} do not give its {CODES} results",
            hint="quantize its result with a larger scale",
        )
    source = legalizer.place(node.inputs[argument] or "")
    pointwise(legalizer, node.name, source, node.outputs[0], fit.stage, table=fit.table)


for _name, _operator in OPS.items():
    # A clamp is the end of an output stage; a table is for functions without jumps.
    if isinstance(_operator, Unary) and _operator.smooth and not isinstance(_operator, Clamp):
        legalizes(_name)(_function)


@legalizes("div")
def _quotient(legalizer: Legalizer, call: Call) -> None:
    (argument,) = (index for index, value in enumerate(call.inputs) if not _is_number(value))
    _function(legalizer, call, argument)


@requires("div")
def _of_one(call: Call) -> Iterator[Reject]:
    """A quotient is a function of one element if the other one is known."""
    shapes = [value.type.shape for value in call.inputs if value and not _is_number(value)]
    if shapes != [call.result.type.shape]:
        advice = "multiply by the reciprocal, which fitzroy quantize does for a float32 model"
        yield refused(
            call, "divides tensors; on the chip, one of them has to be a known number", advice
        )


def _is_number(value: Value | None) -> bool:
    return value is not None and value.data is not None and value.data.size == 1
