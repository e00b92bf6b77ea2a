"""Polynomials for functions of real numbers, such as the sums of a convolution.

The non-linear unit computes a function of a number that was not rounded before. It has eight
polynomials of degree four, so that values differ from those of the function, by a small part of a
unit of the result. Segments are as long as polynomials are close enough, and the arguments are
those for which results differ: further out, the function has levelled off, or results saturate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.targets.edgetpu.parameters.requantization import LARGEST
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.numerics import Polynomials

Reals = npt.NDArray[np.float64]

SEGMENTS = BEAGLE.compute.nlu_segments
DEGREE = 4

_TOLERANCES = tuple(2.0**power for power in range(-10, -1))
"""How far values may be off, in units of the result: the first with which segments suffice."""

_LEVEL = 2.0**-8
"""Results that differ by less are the same, where a function levels off."""

_ENDS = np.concatenate([-np.geomspace(2.0**14, 2.0**-7, 400), np.geomspace(2.0**-7, 2.0**14, 400)])
"""Arguments of which some are the ends."""

_SAMPLES = 1 << 12
"""Intervals between arguments that are tried."""

_NODES = (1 - np.cos(np.pi * np.arange(17) / 16)) / 2
"""Where polynomials are fitted, as shares of a segment: close together at its ends."""

_KEPT = 1 << 10
"""Most functions whose polynomials are kept, for they are asked for again and again."""

_KNOWN: dict[tuple[bytes, float, int], Polynomials | None] = {}


def approximated(
    function: Callable[[Reals], Reals], scale: float, zero_point: int
) -> Polynomials | None:
    """Polynomials whose values are codes less the zero point; None if eight are not close enough.

    Args:
        function: of float64[n].
        scale: of the results, 8 bits.
        zero_point: of the results, unsigned.
    """
    coarse = function(_ENDS) / scale
    key = coarse.tobytes(), scale, zero_point
    if key not in _KNOWN:
        if len(_KNOWN) >= _KEPT:
            _KNOWN.clear()
        _KNOWN[key] = _approximated(function, coarse, scale, zero_point)
    return _KNOWN[key]


def _approximated(
    function: Callable[[Reals], Reals], coarse: Reals, scale: float, zero_point: int
) -> Polynomials | None:
    if np.isnan(coarse).any():
        return None
    codes = coarse.clip(-zero_point, LARGEST - zero_point)
    changing = np.flatnonzero((abs(codes - codes[0]) > _LEVEL) & (abs(codes - codes[-1]) > _LEVEL))
    if not changing.size:
        return None
    low, high = _ENDS[max(changing[0] - 1, 0)], _ENDS[min(changing[-1] + 1, len(_ENDS) - 1)]
    x = np.linspace(low, high, _SAMPLES + 1)
    y = function(x) / scale
    if not np.isfinite(y).all():
        return None
    bounds = float(np.float32(low)), float(np.float32(high))
    for tolerance in _TOLERANCES:
        found = _polynomials(x, y, tolerance, bounds)
        if found is not None:
            return found
    return None


def _polynomials(
    x: Reals, y: Reals, tolerance: float, bounds: tuple[float, float]
) -> Polynomials | None:
    """Polynomials that are no further from values than a tolerance; None if more are needed."""
    coefficients, breakpoints, begin, last = list[tuple[float, ...]](), list[float](), 0, len(x) - 1
    while begin < last:
        if len(coefficients) == SEGMENTS:
            return None
        found, good, bad = None, begin, last + 1
        while bad - good > 1:
            end = last if good == begin and bad > last else (good + bad) // 2
            one = _polynomial(x[begin : end + 1], y[begin : end + 1], tolerance)
            if one is None:
                bad = end
            else:
                found, good = one, end
        if found is None:
            return None
        coefficients.append(tuple(map(float, found)))
        breakpoints.append(float(np.float32(x[good])))
        begin = good
    missing = SEGMENTS - len(coefficients)
    return Polynomials(
        (*coefficients, *[coefficients[-1]] * missing),
        (*breakpoints[:-1], *[math.inf] * missing),
        bounds,
    )


def _polynomial(x: Reals, y: Reals, tolerance: float) -> npt.NDArray[np.float32] | None:
    """The coefficients of a polynomial that is close to values, as float32 evaluates it.

    It is fitted to a few of them.
    """
    centre, half = (x[0] + x[-1]) / 2, (x[-1] - x[0]) / 2
    nodes = np.rint(_NODES * (len(x) - 1)).astype(int)
    # From powers of a number between -1 and 1 to those of an argument.
    shifted = np.zeros(1)
    powers = np.vander((x[nodes] - centre) / half, DEGREE + 1, increasing=True)
    for factor in np.linalg.lstsq(powers, y[nodes])[0][::-1]:
        shifted = np.convolve(shifted, (-centre / half, 1 / half))
        shifted[0] += factor
    coefficients = shifted[: DEGREE + 1].astype(np.float32)
    argument = x.astype(np.float32)
    value = np.full(len(x), coefficients[-1])
    for factor in coefficients[-2::-1]:
        value *= argument
        value += factor
    return coefficients if np.abs(value - y).max() <= tolerance else None
