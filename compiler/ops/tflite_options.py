"""Conversions between TFLite's option tables and attributes that many operators share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fitzroy.base.types import DType
from fitzroy.compiler.ops.definition import Call, TypeRuleError
from fitzroy.compiler.ops.windows import (
    Activation,
    FusedFunction,
    Padding,
    PaddingScheme,
    Pair,
    image_extent,
    scheme_of,
)
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Polynomials

if TYPE_CHECKING:

    class Window(Protocol):
        """Attributes of any operator with a window."""

        @property
        def stride(self) -> Pair: ...
        @property
        def dilation(self) -> Pair: ...
        @property
        def padding(self) -> Padding: ...
        @property
        def activation(self) -> FusedFunction: ...


_ACTIVATIONS = {
    tflite.ActivationFunctionType.NONE: Activation.NONE,
    tflite.ActivationFunctionType.RELU: Activation.RELU,
    tflite.ActivationFunctionType.RELU_N1_TO_1: Activation.RELU_N1_TO_1,
    tflite.ActivationFunctionType.RELU6: Activation.RELU6,
}
_ACTIVATION_CODES = {activation: int(code) for code, activation in _ACTIVATIONS.items()}
_SCHEMES = {
    int(tflite.Padding.SAME): PaddingScheme.SAME,
    int(tflite.Padding.VALID): PaddingScheme.VALID,
}
_SCHEME_CODES = {scheme: code for code, scheme in _SCHEMES.items()}


def activation_of(code: int) -> Activation:
    """The fused activation of an options table.

    Raises:
        TypeRuleError: it is not one that operators here can fuse.
    """
    for known, activation in _ACTIVATIONS.items():
        if known == code:
            return activation
    raise TypeRuleError(f"fused activation {code} is none of NONE, RELU, RELU_N1_TO_1, RELU6")


def activation_code(function: FusedFunction) -> int:
    """TFLite's number of a fused activation.

    Raises:
        TypeRuleError: it has none.
    """
    if isinstance(function, Polynomials):
        raise TypeRuleError("TFLite fuses no polynomials")
    return _ACTIVATION_CODES[function]


def padding_of(code: int) -> PaddingScheme:
    """The padding scheme of an options table.

    Raises:
        TypeRuleError: there is no such scheme.
    """
    try:
        return _SCHEMES[code]
    except KeyError:
        raise TypeRuleError(f"no padding scheme {code}") from None


def padding_code(scheme: PaddingScheme) -> int:
    """TFLite's number of a padding scheme."""
    return _SCHEME_CODES[scheme]


def tensor_code(dtype: DType) -> int:
    """TFLite's number of an element type."""
    return next(int(code) for code, known in tflite.DTYPES.items() if known is dtype)


def output_type(code: int, call: Call) -> None:
    """Demand that options name the type of the result, which the kernel gives in any case.

    Raises:
        TypeRuleError: they name another integer type.
    """
    stated = call.result.type.dtype
    named = tflite.DTYPES.get(code, stated)
    if named.is_integer and named is not stated:
        raise TypeRuleError(f"the result is {stated.value}, and {named.value} by the options")


def scheme_code(padding: Padding, image: Pair, kernel: Pair, stride: Pair, dilation: Pair) -> int:
    """TFLite's number of the scheme that gives these amounts.

    Raises:
        TypeRuleError: neither SAME nor VALID does; a PAD operator is needed.
    """
    scheme = scheme_of(padding, image, kernel, stride, dilation)
    if scheme is None:
        raise TypeRuleError(f"padding {padding} is neither SAME nor VALID")
    return padding_code(scheme)


def tflite_window(call: Call, attributes: Window, kernel: tuple[int, ...]) -> dict[str, int]:
    """Fields that the options of convolutions share."""
    a, size = attributes, (kernel[0], kernel[1])
    return {
        "padding": scheme_code(a.padding, image_extent(call.type(0)), size, a.stride, a.dilation),
        "stride_h": a.stride[0],
        "stride_w": a.stride[1],
        "dilation_h_factor": a.dilation[0],
        "dilation_w_factor": a.dilation[1],
        "fused_activation_function": activation_code(a.activation),
    }
