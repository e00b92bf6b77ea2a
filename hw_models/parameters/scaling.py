"""Effective scales, and which vectors an operator keeps in memory.

Facts: parameter blobs of published compiled models, reproduced byte for byte from their sources.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.hw_models.parameters.layouts import Prefix


class ZeroBias(Enum):
    """What becomes of biases that are all zero; compilers differ."""

    KEEP = "keep"
    DROP = "drop"
    """As compilers do whose packages ask for runtime version 14."""


def effective_scale(
    input_scale: float, weight_scale: Array, output_scale: float
) -> npt.NDArray[np.float32]:
    """Factors from accumulators to outputs, every operation rounded to float32.

    Args:
        input_scale: scale of the input.
        weight_scale: scales of the weights, of any shape.
        output_scale: scale of the output.

    Raises:
        UnsupportedError: a factor is beyond float32.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.float32(input_scale) * np.asarray(weight_scale, np.float32)
        inverse = np.float32(1) / np.float32(output_scale)
        factors = np.asarray(product * inverse, np.float32)
    if not np.isfinite(factors).all():
        raise UnsupportedError(
            f"scales too far apart: {input_scale:.4g} times up to {np.max(weight_scale):.4g} by "
            f"{output_scale:.4g} is beyond float32"
        )
    return factors


def keeps_bias(biases: Array | None, zero_bias: ZeroBias) -> bool:
    """Whether biases take words; None if the operator has none."""
    return biases is not None and (zero_bias is ZeroBias.KEEP or bool(biases.any()))


def prefix_for(
    scales: Array, biases: Array | None, *, per_channel: bool, zero_bias: ZeroBias
) -> Prefix:
    """The vectors that precede an operator's weights.

    Scales that are all equal go into the instruction instead; the zero points of weights with a
    scale per channel stay in memory even then.

    Args:
        scales: effective scales of the channels.
        biases: int32 biases, None if the operator has none.
        per_channel: whether the weights have a scale per output channel.
        zero_bias: what becomes of biases that are all zero.
    """
    return Prefix(
        scales=per_channel and bool((scales != scales.flat[0]).any()),
        biases=keeps_bias(biases, zero_bias),
        zero_points=per_channel,
    )
