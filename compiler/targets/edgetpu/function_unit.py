"""What the non-linear unit does with functions of one element, for quantization to know.

The tables and polynomials are loaded when a function is asked about, which few models do.
"""

from __future__ import annotations

from fitzroy.compiler.quantization.functions import Codes, FunctionUnit
from fitzroy.compiler.quantization.ranges import Function


def _has_table(codes: Codes, zero_in: int, zero_out: int) -> bool:
    """Whether the chip has a table of a function; arguments as for `lowerings.functions`."""
    from fitzroy.compiler.targets.edgetpu.lowerings.functions import has_table

    return has_table(codes, zero_in, zero_out)


def _approximates(function: Function, scale: float, zero_point: int) -> bool:
    """Whether the chip has polynomials for a function of sums; arguments as for `approximated`."""
    from fitzroy.compiler.targets.edgetpu.parameters.polynomials import approximated

    return approximated(function, scale, zero_point) is not None


FUNCTIONS = FunctionUnit(_has_table, _approximates)
"""Tables and polynomials of the chip."""
