"""Functions of real numbers as polynomials, one for each of several segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Polynomials:
    """A function that is computed in float32, of arguments within bounds.

    Attributes:
        coefficients: of each segment, from the constant one on.
        breakpoints: where segments after the first begin, ascending.
        bounds: what arguments are clamped to.
    """

    coefficients: tuple[tuple[float, ...], ...]
    breakpoints: tuple[float, ...]
    bounds: tuple[float, float]

    def __call__(self, x: Floats) -> Floats:
        """Values of the function, float32 of the shape of the arguments."""
        low, high = map(np.float32, self.bounds)
        return horner(self.coefficients, self.breakpoints, np.clip(x, low, high))


def horner(
    coefficients: Sequence[Sequence[float]], breakpoints: Sequence[float], x: Floats
) -> Floats:
    """Polynomials by Horner's rule, every operation rounded to float32.

    Args:
        coefficients: of each segment, from the constant one on.
        breakpoints: the segment of a number is how many of these are not above it.
        x: the numbers.
    """
    segment = np.searchsorted(np.array(breakpoints, np.float32), x, side="right")
    *others, last = np.array(coefficients, np.float32).T
    value = last.take(segment)
    for factors in reversed(others):
        value *= x
        value += factors.take(segment)
    return np.asarray(value)
