"""What the non-linear unit does with functions of one element, for quantization to know."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.quantization.functions import FunctionUnit
from fitzroy.compiler.targets.edgetpu.lowerings.functions import has_table
from fitzroy.compiler.targets.edgetpu.parameters.polynomials import approximated

Reals = npt.NDArray[np.float64]


def approximates(function: Callable[[Reals], Reals], scale: float, zero_point: int) -> bool:
    """Whether the chip has polynomials for a function of sums; arguments as for `approximated`."""
    return approximated(function, scale, zero_point) is not None


FUNCTIONS = FunctionUnit(has_table, approximates)
"""Tables and polynomials of the chip."""
