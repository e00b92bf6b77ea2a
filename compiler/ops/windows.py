"""Windows of spatial operators: padding schemes, output extents, activations.

Facts: TensorFlow's documented padding schemes; the same formulas as TFLite's.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from fitzroy.base.types import TensorType
from fitzroy.compiler.ops.definition import TypeRuleError
from fitzroy.hw_models.numerics import Polynomials, conv_output_extent, same_padding

Pair = tuple[int, int]
Edges = tuple[int, int, int, int]
"""Padding of an image: top, bottom, left, right, in elements."""


class PaddingScheme(Enum):
    """Padding named by its effect rather than by its amounts."""

    SAME = "same"
    VALID = "valid"


Padding = PaddingScheme | Edges


class Activation(Enum):
    """Clamp fused into an operator."""

    NONE = "none"
    RELU = "relu"
    RELU_N1_TO_1 = "relu_n1_to_1"
    RELU6 = "relu6"

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest real number that passes."""
        return _BOUNDS[self]


_INF = float("inf")
_BOUNDS = {
    Activation.NONE: (-_INF, _INF),
    Activation.RELU: (0.0, _INF),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
    Activation.RELU6: (0.0, 6.0),
}


FusedFunction = Activation | Polynomials
"""What sums go through before they are stored.

Polynomials take the real sums of quantized operands, and give codes less the zero point. Only code
generators for hardware that computes so use them.
"""


def ending(function: FusedFunction) -> dict[str, Any]:
    """A fused function, as the arguments of kernels."""
    if isinstance(function, Polynomials):
        return {"function": function}
    low, high = function.bounds
    return {"low": low, "high": high}


def explicit_padding(
    padding: Padding, image: Pair, kernel: Pair, stride: Pair, dilation: Pair
) -> Edges:
    """The amounts that a padding scheme stands for: top, bottom, left, right."""
    if isinstance(padding, tuple):
        return padding
    if padding is PaddingScheme.VALID:
        return (0, 0, 0, 0)
    return same_padding(image, kernel, stride, dilation)


def output_extent(
    padding: Padding, image: Pair, kernel: Pair, stride: Pair, dilation: Pair = (1, 1)
) -> Pair:
    """Height and width of what a window yields.

    Raises:
        TypeRuleError: the window is larger than the padded image, or a parameter is not positive.
    """
    if min(*kernel, *stride, *dilation) < 1:
        raise TypeRuleError(
            f"kernel {kernel}, stride {stride}, dilation {dilation} must be positive"
        )
    top, bottom, left, right = explicit_padding(padding, image, kernel, stride, dilation)
    if min(top, bottom, left, right) < 0:
        raise TypeRuleError(f"negative padding {(top, bottom, left, right)}")
    rows, cols = (
        conv_output_extent(image[i], kernel[i], stride[i], dilation[i], added)
        for i, added in enumerate((top + bottom, left + right))
    )
    if rows < 1 or cols < 1:
        raise TypeRuleError(f"a window of {kernel} does not fit an image of {image}")
    return rows, cols


def scheme_of(
    padding: Padding, image: Pair, kernel: Pair, stride: Pair, dilation: Pair
) -> PaddingScheme | None:
    """The scheme that `padding` is or whose amounts it has, or None."""
    if isinstance(padding, PaddingScheme):
        return padding
    amounts = explicit_padding(padding, image, kernel, stride, dilation)
    for scheme in (PaddingScheme.VALID, PaddingScheme.SAME):
        if explicit_padding(scheme, image, kernel, stride, dilation) == amounts:
            return scheme
    return None


def image_extent(type: TensorType) -> Pair:
    """Height and width of an NHWC tensor.

    Raises:
        TypeRuleError: it does not have four dimensions.
    """
    if type.rank != 4:
        raise TypeRuleError(f"an image has 4 dimensions, not {type.rank}")
    return type.shape[1], type.shape[2]
