"""Ranges of scales within which XNNPACK's fixed-point kernels calculate what is meant.

Outside of them the runtime refuses, overflows, or rounds everything to nothing; compilers then go
through float32. Facts: the checks of XNNPACK's operators, confirmed on the runtime.
"""

from __future__ import annotations

import math

import numpy as np

from fitzroy.base.types import Quantization


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def conversion_fits(before: Quantization, after: Quantization, slope: float = 1.0) -> bool:
    """Whether a change of scale, times `slope`, lies between 2**-8 and 2**7 in magnitude."""
    ratio = abs(np.float32(before.scale[0]) / np.float32(after.scale[0]) * np.float32(slope))
    return bool(2.0**-8 <= ratio <= 2.0**7)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def product_fits(a: Quantization, b: Quantization, out: Quantization) -> bool:
    """Whether the product of the input scales is below 2**8 output scales."""
    ratio = float(np.float32(a.scale[0]) * np.float32(b.scale[0]) / np.float32(out.scale[0]))
    return math.isfinite(ratio) and ratio < 2.0**8


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def sum_fits(a: Quantization, b: Quantization, out: Quantization) -> bool:
    """Whether the larger input scale is at least 2**-11 and below 2**20 output scales."""
    ratio = float(np.float32(max(a.scale[0], b.scale[0])) / np.float32(out.scale[0]))
    return math.isfinite(ratio) and 2.0**-11 <= ratio < 2.0**20
