"""ONNX's quantized operators.

Conversions with known scales become conversions of ours; what ONNX computes on integers becomes
conversions around operators on real numbers. A pass, `FuseQuantized`, makes quantized operators of
both. Constants are not folded meanwhile, so that their integers are kept.
"""

from __future__ import annotations

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, is_usable_scale
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.convolution import convolution_of
from fitzroy.compiler.frontends.onnx.dynamic import DOMAIN
from fitzroy.compiler.frontends.onnx.elementwise import INFINITY, clamp
from fitzroy.compiler.frontends.onnx.logical import chosen
from fitzroy.compiler.frontends.onnx.matmul import connected, product
from fitzroy.compiler.frontends.onnx.normalization import softmax_of, softmax_shape
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.pooling import average_pool_of
from fitzroy.compiler.frontends.onnx.reader import element_type
from fitzroy.compiler.frontends.onnx.reduction import reduced
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.shape import joined
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor, channels_last, inverse
from fitzroy.compiler.ops.elementwise import LeakyReluAttributes
from fitzroy.hw_models import numerics

_STORED = (DType.INT8, DType.UINT8)
"""Element types of quantized values in the graph."""


def quantization_of(
    scale: Tensor | None, zero: Tensor | None, x: Tensor, axis: int
) -> Quantization | None:
    """The quantization of a value; None if it is computed at run time or is of another kind.

    Args:
        scale: one number, or one for each slice along the axis.
        zero: as many, or absent.
        x: the value, whose dimensions are plain.
        axis: the axis in ONNX's order.
    """
    if scale is None or scale.data is None or (zero is not None and zero.data is None):
        return None
    scales = scale.data.reshape(-1).astype(np.float32)
    zeros = np.zeros(scales.size, np.int64) if zero is None else _flat(zero)
    if (
        scale.rank > 1
        or scales.size != zeros.size
        or not all(map(is_usable_scale, scales.tolist()))
    ):
        return None
    if scales.size == 1:
        return Quantization.per_tensor(float(scales[0]), int(zeros[0]))
    if not -x.rank <= axis < x.rank or x.shape[axis] != scales.size:
        return None
    stored = x.perm.index(axis % x.rank)
    return Quantization(tuple(map(float, scales)), tuple(map(int, zeros)), stored)


def _flat(zero: Tensor) -> Array:
    assert zero.data is not None
    return zero.data.reshape(-1).astype(np.int64)


# --- conversions -------------------------------------------------------------------------------


@imports("QuantizeLinear")
@imports("QuantizeLinear", domain="com.microsoft")
def quantize(op: Operation) -> Tensor:
    """Real numbers to integers."""
    x, scale, zero = op.input(0), op.input(1), op.optional(2)
    code = op.integer("output_dtype")
    dtype = element_type(code) if code else DType.UINT8 if zero is None else zero.dtype
    return quantized(op.build, x, scale, zero, (dtype, op.integer("axis", 1)))


def quantized(
    build: Builder, x: Tensor, scale: Tensor, zero: Tensor | None, how: tuple[DType, int]
) -> Tensor:
    """Real numbers to integers of a type, with scales along an axis if there are several.

    Raises:
        Refusal: the type has more than 16 bits, or scales are of blocks.
    """
    dtype, axis = how
    x = build.plain(x)
    found = quantization_of(scale, zero, x, axis)
    if found is not None and found.is_per_tensor and dtype in _STORED:
        return build.unary("quantize", x, dtype=dtype, quantization=found)
    if not dtype.is_integer or dtype.itemsize > 2:
        raise Refusal("onnx-element-type", f"numbers quantized to {dtype.value}")
    ratio = build.binary("div", x, _aligned(build, scale, x, axis))
    rounded = build.unary("round", ratio)
    if zero is not None:
        offset = build.unary("cast", zero, dtype=DType.FLOAT32)
        rounded = build.add(rounded, _aligned(build, offset, x, axis))
    low, high = dtype.limits
    return build.unary("cast", clamp(build, rounded, low, high), dtype=dtype)


@imports("DequantizeLinear")
@imports("DequantizeLinear", domain="com.microsoft")
def dequantize(op: Operation) -> Tensor:
    """Integers to real numbers."""
    return dequantized(op.build, op.input(0), op.input(1), op.optional(2), op.integer("axis", 1))


def dequantized(
    build: Builder, x: Tensor, scale: Tensor, zero: Tensor | None, axis: int = 1
) -> Tensor:
    """Integers, which may be plain or quantized, to real numbers.

    Raises:
        Refusal: they are no integers, or scales are of blocks.
    """
    if not x.dtype.is_integer:
        raise Refusal("onnx-element-type", f"{x.dtype.value} dequantized")
    x = build.plain(x)
    found = quantization_of(scale, zero, x, axis)
    if found is not None and not build.keeps_integers:
        real_constant = _looked_up(build, x, found)
        if real_constant is not None:
            return real_constant
    wide = x.dtype is DType.INT32 and x.data is not None and found is not None
    if found is not None and (wide or x.dtype in _STORED):
        coded = build.coded(x, found)
        if coded is not None:
            return coded
    real = build.unary("cast", x, dtype=DType.FLOAT32)
    if zero is not None:
        offset = build.unary("cast", zero, dtype=DType.FLOAT32)
        real = build.binary("sub", real, _aligned(build, offset, x, axis))
    return build.mul(real, _aligned(build, scale, x, axis))


def _looked_up(build: Builder, x: Tensor, quantization: Quantization) -> Tensor | None:
    """Constant integers, or rows of them that are looked up, as real constants; None otherwise."""
    if x.data is not None:
        return build.constant(numerics.dequantize(x.data, quantization))
    node = build.graph.producer(x.name)
    if node is None or node.op != "gather" or not quantization.is_per_tensor:
        return None
    data = build.graph.value(str(node.inputs[0])).data
    if data is None:
        return None
    table = build.value(build.constant(numerics.dequantize(data, quantization)))
    return build.variable(build.emit("gather", [table, node.inputs[1]], node.attributes), x.perm)


def _aligned(build: Builder, values: Tensor, x: Tensor, axis: int) -> Tensor:
    """Scales or zero points, shaped to be combined with a tensor.

    Raises:
        Refusal: they are of blocks.
    """
    if values.size == 1:
        return build.reshape(values, ())
    if values.rank > 1 or not -x.rank <= axis < x.rank or x.shape[axis] != values.size:
        raise Refusal("onnx-attribute", f"scales {list(values.shape)} of blocks of {list(x.shape)}")
    shape = [1] * x.rank
    shape[axis] = values.size
    return build.reshape(values, tuple(shape))


# --- operators on integers ---------------------------------------------------------------------


@imports("QLinearConv")
def quantized_convolution(op: Operation) -> Tensor:
    """Convolution of integers; scales along output channels."""
    build = op.build
    x = dequantized(build, op.input(0), op.input(1), op.input(2))
    kernel = dequantized(build, op.input(3), op.input(4), op.input(5), 0)
    bias = op.optional(8)
    if bias is not None:
        scale = build.mul(op.input(1), op.input(4))
        bias = dequantized(build, bias, scale, None, 0)
    result = convolution_of(op, x, kernel, bias)
    return quantized(build, result, op.input(6), op.input(7), (op.input(7).dtype, 1))


@imports("QLinearMatMul")
def quantized_product(op: Operation) -> Tensor:
    """Matrix product of integers."""
    build = op.build
    a = dequantized(build, op.input(0), op.input(1), op.input(2), op.input(0).rank - 2)
    b = dequantized(build, op.input(3), op.input(4), op.input(5), op.input(3).rank - 1)
    result = product(build, a, b)
    axis = max(result.rank - 2, 0)
    return quantized(build, result, op.input(6), op.input(7), (op.input(7).dtype, axis))


@imports("QLinearAdd", "QLinearMul", domain="com.microsoft")
def quantized_binary(op: Operation) -> Tensor:
    """Sum or product of integers."""
    build = op.build
    a = dequantized(build, op.input(0), op.input(1), op.optional(2))
    b = dequantized(build, op.input(3), op.input(4), op.optional(5))
    result = build.binary("add" if op.name == "QLinearAdd" else "mul", a, b)
    return quantized(build, result, op.input(6), op.optional(7), (op.input(0).dtype, 1))


@imports("QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", domain="com.microsoft")
def quantized_unary(op: Operation) -> Tensor:
    """A function of integers."""
    build = op.build
    x = dequantized(build, op.input(0), op.input(1), op.optional(2))
    if op.name == "QLinearSoftmax":
        axis = op.axis(op.integer("axis", -1), x.rank)
        # The operator set is that of the Softmax that was quantized.
        x = build.reshape(x, softmax_shape(x, axis, op.integer("opset", 13)))
        result = softmax_of(build, "Softmax", x, axis)
    elif op.name == "QLinearLeakyRelu":
        result = build.unary("leaky_relu", x, LeakyReluAttributes(op.number("alpha", 0.01)))
    else:
        result = build.unary("sigmoid", x)
    result = quantized(build, result, op.input(3), op.optional(4), (op.input(0).dtype, 1))
    return build.reshape(result, op.input(0).shape)


@imports("QGemm", domain="com.microsoft")
def quantized_gemm(op: Operation) -> Tensor:
    """Matrix product of integers with an offset; of real numbers if the result has no scale."""
    build = op.build
    a = dequantized(build, op.input(0), op.input(1), op.optional(2))
    a = build.transpose(a, (1, 0)) if op.integer("transA") else a
    # The factor is one of the offset's scale, too.
    step = build.mul(op.input(4), build.scalar(op.number("alpha", 1.0), op.input(4)))
    turned = bool(op.integer("transB"))
    b = dequantized(build, op.input(3), step, op.optional(5), 0 if turned else 1)
    b = build.transpose(b, (1, 0)) if turned else b
    bias = op.optional(6)
    if bias is not None:
        scale = build.mul(op.input(1), step)
        bias = dequantized(build, build.reshape(bias, (bias.size,)), scale, None, 0)
    result = connected(build, a, b, bias)
    if op.optional(7) is None:
        return result
    return quantized(build, result, op.input(7), op.optional(8), (op.input(0).dtype, 1))


@imports("QLinearAveragePool", "QLinearGlobalAveragePool", domain="com.microsoft")
def quantized_average_pool(op: Operation) -> Tensor:
    """Mean over each window, or of every channel; channels may be last."""
    build = op.build
    x = dequantized(build, op.input(0), op.input(1), op.optional(2))
    last = channels_last(x.rank)
    turned = bool(op.integer("channels_last"))
    x = build.transpose(x, inverse(last)) if turned else x
    if op.name == "QLinearAveragePool":
        result = average_pool_of(op, x)
    else:
        result = reduced(build, "mean", x, tuple(range(2, x.rank)))
    result = build.transpose(result, last) if turned else result
    return quantized(build, result, op.input(3), op.optional(4), (op.input(0).dtype, 1))


@imports("QLinearWhere", domain="com.microsoft")
def quantized_choice(op: Operation) -> Tensor:
    """Integers of one operand or the other, each with a scale and a zero point of its own."""
    build = op.build
    x = dequantized(build, op.input(1), op.input(2), op.optional(3))
    y = dequantized(build, op.input(4), op.input(5), op.optional(6))
    result = chosen(build, op.input(0), x, y)
    return quantized(build, result, op.input(7), op.optional(8), (op.input(1).dtype, 1))


@imports("QLinearConcat", domain="com.microsoft")
def quantized_concat(op: Operation) -> Tensor:
    """Integers one after another, each operand with a scale and a zero point of its own."""
    build = op.build
    parts = [
        dequantized(build, op.input(at), op.input(at + 1), op.optional(at + 2))
        for at in range(2, len(op.inputs), 3)
    ]
    result = joined(build, parts, op.axis(op.integer("axis"), parts[0].rank))
    return quantized(build, result, op.input(0), op.input(1), (op.input(1).dtype, 1))


@imports("ConvInteger", "MatMulInteger")
def integer_product(op: Operation) -> Tensor:
    """Convolution or matrix product of integers without scales, computed in float32.

    Sums of up to 24 bits are exact; larger ones are rounded to as many.
    """
    build = op.build
    x = _centred(build, op.input(0), op.optional(2), -2)
    kernel = _centred(build, op.input(1), op.optional(3), 0 if op.name == "ConvInteger" else -1)
    if op.name == "ConvInteger":
        result = convolution_of(op, x, kernel, None)
    else:
        result = product(build, x, kernel)
    return build.unary("cast", build.unary("round", result), dtype=DType.INT32)


def _centred(build: Builder, x: Tensor, zero: Tensor | None, axis: int) -> Tensor:
    """Integers less their zero point, as real numbers."""
    real = build.unary("cast", x, dtype=DType.FLOAT32)
    if zero is None:
        return real
    offset = build.unary("cast", zero, dtype=DType.FLOAT32)
    return build.binary("sub", real, _aligned(build, offset, x, axis))


@imports("MatMul", "Conv", domain=DOMAIN)
def real_product(op: Operation) -> Tensor:
    """Product of real numbers, which integers may stand for, and of integer weights."""
    build, x = op.build, op.input(0)
    if op.optional(2) is None:
        build.left_real += 1
    else:
        x = dequantized(build, x, op.input(2), op.optional(3))
    axis = 0 if op.name == "Conv" else -1
    weights = dequantized(build, op.input(1), op.input(4), op.optional(5), axis)
    return convolution_of(op, x, weights, None) if op.name == "Conv" else product(build, x, weights)


@imports("DynamicQuantizeMatMul", domain="com.microsoft")
def dynamic_product(op: Operation) -> Tensor:
    """Matrix product with integers and an offset; its first operand is not rounded here."""
    build = op.build
    build.left_real += 1
    weights = dequantized(build, op.input(1), op.input(2), op.optional(3), -1)
    result = product(build, op.input(0), weights)
    bias = op.optional(4)
    return result if bias is None else build.add(result, bias)


@imports("MatMulIntegerToFloat", domain="com.microsoft")
def integers_to_real_product(op: Operation) -> Tensor:
    """Matrix product of integers as real numbers, and an offset."""
    build = op.build
    a = dequantized(build, op.input(0), op.input(2), op.optional(4), -2)
    b = dequantized(build, op.input(1), op.input(3), op.optional(5), -1)
    result, bias = product(build, a, b), op.optional(6)
    return result if bias is None else build.add(result, bias)


@imports("DynamicQuantizeLinear")
def dynamic(op: Operation) -> list[Tensor]:
    """uint8 integers with a scale and zero point that the numbers themselves give."""
    build, x = op.build, op.build.plain(op.input())
    axes = tuple(range(x.rank))
    low = clamp(build, reduced(build, "reduce_min", x, axes, keep=False), -INFINITY, 0)
    high = clamp(build, reduced(build, "reduce_max", x, axes, keep=False), 0, INFINITY)
    scale = build.mul(build.binary("sub", high, low), build.scalar(1 / 255, x))
    least = build.scalar(float(np.finfo(np.float32).tiny), x)
    divisor = build.binary("maximum", scale, least)
    zero = build.unary("round", build.binary("div", build.unary("negate", low), divisor))
    zero = build.unary("cast", clamp(build, zero, 0, 255), dtype=DType.UINT8)
    return [quantized(build, x, divisor, zero, (DType.UINT8, 1)), scale, zero]
