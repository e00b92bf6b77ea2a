"""The arithmetic of recurrent cells: numbers of 16 bits, their output stages, and one table.

Numbers of 16 bits that have a sign are stored with a zero point in the middle of the range. As in
the integer kernels of TFLite, the sums of gates are in units of 2^-12, those of the input and of
the state rounded each, and products of gates are rounded to the unit of the cell state before they
are added. A logistic function is half a hyperbolic tangent of half the argument, and one more, so
that a single table serves all gates:

    stored tanh(x)     = 2^15 + 2^15 tanh(x)          in units of 2^-15
    stored logistic(x) = 2^15 + 2^15 tanh(x / 2)      in units of 2^-16
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import TensorType
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import EVERY
from fitzroy.compiler.targets.edgetpu.parameters.polynomials import DEGREE, SEGMENTS
from fitzroy.compiler.targets.edgetpu.parameters.requantization import ODD, OutputStage, copy_stage
from fitzroy.hw_models.isa.tensor import NluTable

MIDDLE = 1 << 15
"""Zero point of numbers of 16 bits with a sign."""

SUM_UNIT = 2.0**-12
"""Unit of the sums of gates."""

TANH_UNIT = 2.0**-15
"""Unit of hyperbolic tangents."""

LOGISTIC_UNIT = 2.0**-16
"""Unit of logistic functions, which have no sign."""

_REACH = MIDDLE * SUM_UNIT
"""The largest argument of the table; the function is one unit from its limit there."""

_HALVINGS = 30


@dataclass(frozen=True, slots=True)
class Stages:
    """Output stages of a long short-term memory.

    Attributes:
        sums: of both halves of the sums of gates, whose scales are in memory or differ by gate.
        logistic: of the gates that open and close, from both halves.
        candidate: of what is added to the cell state, from both halves.
        forgotten: of the cell state that is kept.
        added: of what is added to it.
        cell: of the sum of both.
        squashed: of the hyperbolic tangent of the cell state.
        hidden: of the result, 8 bits.
    """

    sums: OutputStage
    logistic: OutputStage
    candidate: OutputStage
    forgotten: OutputStage
    added: OutputStage
    cell: OutputStage
    squashed: OutputStage
    hidden: OutputStage


def stages(cell_unit: float, hidden: TensorType, cell_clip: float = 0.0) -> Stages:
    """The output stages of a long short-term memory.

    Args:
        cell_unit: scale of the cell state, whose zero point is 0.
        hidden: type of the result.
        cell_clip: largest magnitude of the cell state, 0 for none.
    """
    clip = float(np.rint(cell_clip / cell_unit)) if cell_clip else math.inf
    result = copy_stage(hidden, hidden)
    product = LOGISTIC_UNIT * TANH_UNIT
    return Stages(
        sums=_whole(1.0, a_zero_point=0),
        logistic=_function(SUM_UNIT / 2),
        candidate=_function(SUM_UNIT),
        forgotten=_product(LOGISTIC_UNIT),
        added=_product(float(np.float32(product / cell_unit))),
        cell=_whole(1.0, clip=clip),
        squashed=_function(float(np.float32(cell_unit))),
        hidden=OutputStage(
            scale=float(np.float32(product) * (np.float32(1) / np.float32(unit_of(hidden)))),
            minimum=result.minimum,
            maximum=result.maximum,
            output_zero_point=result.output_zero_point,
            c_zero_point=MIDDLE,
        ),
    )


def unit_of(type: TensorType) -> float:
    """Scale of a tensor that has one."""
    assert type.quantization is not None
    return type.quantization.scale[0]


def _whole(scale: float, *, a_zero_point: int = MIDDLE, clip: float = math.inf) -> OutputStage:
    """A number of 16 bits, saturated."""
    return OutputStage(
        scale=scale,
        minimum=max(-MIDDLE, -clip),
        maximum=min(MIDDLE - 1, clip),
        output_zero_point=MIDDLE,
        a_zero_point=a_zero_point,
    )


def _product(scale: float) -> OutputStage:
    """A product with a logistic function, of 16 bits."""
    return OutputStage(
        scale=scale,
        minimum=-MIDDLE,
        maximum=MIDDLE - 1,
        output_zero_point=MIDDLE,
        c_zero_point=MIDDLE,
    )


def _function(scale: float) -> OutputStage:
    """The table's function of a number of 16 bits that saturates before it."""
    largest = min((MIDDLE - 1) * scale, _REACH)
    return OutputStage(
        scale=scale,
        minimum=max(-MIDDLE * scale, -_REACH),
        maximum=largest,
        output_zero_point=MIDDLE,
        a_zero_point=MIDDLE,
        nlu=True,
        nlu_odd=ODD,
    )


# --- table ---------------------------------------------------------------------------------------


@cache
def tanh_table() -> NluTable:
    """2^15 tanh(x) for arguments that are not negative, with segments of about equal errors."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_breaks(middle)) <= SEGMENTS else (middle, high)
    breaks = _breaks(high)
    rows = [_coefficients(*bounds) for bounds in zip([0.0, *breaks], breaks, strict=False)]
    rows += [rows[-1]] * (SEGMENTS - len(rows))
    breakpoints = [*breaks[:-1], *[math.inf] * (SEGMENTS - len(breaks))]
    return NluTable(tiles=EVERY, coefficients=tuple(rows), breakpoints=tuple(breakpoints))


def _breaks(error: float) -> list[float]:
    """Ends of the longest segments whose polynomials have so small an error."""
    found = [0.0]
    while found[-1] < _REACH and len(found) <= SEGMENTS + 1:
        begin = found[-1]
        good, bad = begin, _REACH
        if _error(begin, bad) <= error:
            good = bad
        while bad - good > _STEP:
            middle = (good + bad) / 2
            good, bad = (middle, bad) if _error(begin, middle) <= error else (good, middle)
        # A table has float32.
        found.append(float(np.float32(max(good, begin + _STEP))))
    return found[1:]


_STEP = 2.0**-10


def _function_of(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return MIDDLE * np.tanh(x)


def _polynomial(begin: float, end: float) -> np.polynomial.Chebyshev:
    """The polynomial that approximates the table in a segment."""
    return np.polynomial.Chebyshev.interpolate(_function_of, DEGREE, domain=[begin, end])


def _error(begin: float, end: float) -> float:
    """Largest error of a segment's polynomial."""
    x = np.linspace(begin, end, 65)
    return float(np.abs(_polynomial(begin, end)(x) - _function_of(x)).max())


def _coefficients(begin: float, end: float) -> tuple[float, ...]:
    """Of powers of the argument, float32."""
    powers = _polynomial(begin, end).convert(kind=np.polynomial.Polynomial).coef
    return tuple(float(np.float32(x)) for x in np.pad(powers, (0, DEGREE + 1 - len(powers))))
