"""By which constants does the output stage turn accumulators into stored integers?

A tensor operation multiplies ``a - a_zero_point`` with ``c - c_zero_point``, sums, adds `constant`
and a bias, multiplies with a scale, clamps, looks up the non-linear table, rounds and adds
`output_zero_point`. Activations and weights are unsigned on the chip, so zero points of int8
tensors are moved up by 128. Every operation on scales is rounded to float32.

Facts: tensor operations of published compiled models, reproduced bit for bit from their sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.windows import Activation, FusedFunction, explicit_padding
from fitzroy.hw_models.numerics import Polynomials
from fitzroy.hw_models.parameters import Prefix, effective_scale

LARGEST = 255
"""Largest stored activation."""

SIGNED_OFFSET = 128
"""What is added to int8 values and zero points: the chip holds them as uint8."""

LARGEST_WEIGHT = 32767
"""Largest 16-bit weight by which an operand of a sum is multiplied."""

LOGISTIC_BOUND = float(np.float32(10.3967))
"""The logistic table is for inputs from the negative of this to this."""

TANH_BOUND = float(np.float32(6.87481))
"""The table of the hyperbolic tangent is for inputs from the negative of this to this."""

TABLE_TOLERANCE = 1 / 200
"""Relative distance of an output's scale from that of its table."""

ODD = 3
"""Value of `nlu_odd` for a table that holds one half of an odd function."""


@dataclass(frozen=True, slots=True)
class OutputStage:
    """Constants of a tensor operation; fields have the names of the instruction's.

    Attributes:
        scale: factor of the accumulator; 1 if there is one per lane.
        minimum: lower clamp, before rounding and without the zero point.
        maximum: upper clamp likewise.
        output_zero_point: added after rounding.
        a_zero_point: zero point of the activations.
        c_zero_point: zero point of the weights; 0 if there is one per lane.
        constant: added to every accumulator.
        scale_in_memory: whether scales come from scaling memory, one per lane.
        bias_in_memory: whether biases are added from scaling memory.
        zero_points_in_memory: whether zero points of weights come from wide memory.
        nlu: whether the non-linear table is applied after the clamp.
        nlu_odd: `ODD` if that table is for an odd function.
    """

    scale: float
    minimum: float = -math.inf
    maximum: float = math.inf
    output_zero_point: int = 0
    a_zero_point: int = 0
    c_zero_point: int = 0
    constant: int = 0
    scale_in_memory: bool = False
    bias_in_memory: bool = False
    zero_points_in_memory: bool = False
    nlu: bool = False
    nlu_odd: int = 0


def output_stage(call: Call, prefix: Prefix | None = None) -> OutputStage:
    """The output stage of an operator that runs as one tensor operation.

    Args:
        call: a quantized operator.
        prefix: what an operator with weights keeps in memory; others have none.

    Raises:
        UnsupportedError: the operator has no known output stage, its tensors are not quantized to
            8 bits or with scales too far apart, or the prefix leaves values in the instruction that
            differ between channels.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        stage = _stage(call, prefix or Prefix())
    if not math.isfinite(stage.scale):
        raise UnsupportedError(
            f"the scales of {call.node.spelled} {call.node.name!r} are too far apart",
            hint="their quotient is beyond float32; quantize the model again",
        )
    return stage


def _stage(call: Call, prefix: Prefix) -> OutputStage:
    if call.node.op in FILTERS:
        return _filter(call, prefix, FILTERS[call.node.op](call))
    if call.node.op not in _STAGES:
        raise UnsupportedError(f"{call.node.spelled} has no known output stage")
    return _STAGES[call.node.op](call)


def unsigned_zero_point(type: TensorType) -> int:
    """Zero point of an activation on the chip.

    Raises:
        UnsupportedError: the tensor is not quantized to 8 bits, or has a scale per channel.
    """
    return _quantization(type).zero_point[0] + _offset(type)


def sum_weights(first: float, second: float) -> tuple[int, int]:
    """The weights of two operands of a sum, in the proportion of their scales.

    The larger is at most 32,767 and the quotient the closest possible.

    Args:
        first: scale of the first operand, a float32 value.
        second: scale of the second.
    """
    quotient = Fraction(first) / Fraction(second)
    if quotient <= 1:
        closest = quotient.limit_denominator(LARGEST_WEIGHT)
        return closest.numerator, closest.denominator
    closest = (1 / quotient).limit_denominator(LARGEST_WEIGHT)
    return closest.denominator, closest.numerator


# --- parts ---------------------------------------------------------------------------------------


def _quantization(type: TensorType) -> Quantization:
    quantization = type.quantization
    if quantization is None or type.dtype not in (DType.UINT8, DType.INT8):
        raise UnsupportedError(f"a tensor {type} is not quantized to 8 bits")
    if not quantization.is_per_tensor:
        raise UnsupportedError(f"a tensor {type} has a scale per channel")
    return quantization


def _offset(type: TensorType) -> int:
    return SIGNED_OFFSET if type.dtype is DType.INT8 else 0


def _scale(type: TensorType) -> np.float32:
    return np.float32(_quantization(type).scale[0])


def _inverse(type: TensorType) -> np.float32:
    return np.float32(1) / _scale(type)


def _clamps(
    type: TensorType, bounds: tuple[float, float] = Activation.NONE.bounds
) -> tuple[float, float, int]:
    """Minimum, maximum and zero point of an output, for bounds in real numbers."""
    zero, scale = unsigned_zero_point(type), _scale(type)
    low, high = (float(np.float32(bound) / scale) for bound in bounds)
    return max(float(-zero), low), min(float(LARGEST - zero), high), zero


def _convolution(call: Call) -> FusedFunction:
    return call.attributes(ConvAttributes).activation


def _fully_connected(call: Call) -> FusedFunction:
    return call.attributes(FullyConnectedAttributes).activation


FILTERS: dict[str, Callable[[Call], FusedFunction]] = {
    "conv_2d": _convolution,
    "depthwise_conv_2d": _convolution,
    "fully_connected": _fully_connected,
}
"""The functions of operators with filters whose output stages may end with one."""


def function_of(call: Call) -> Polynomials | None:
    """The function of real sums that is fused into an operator with a filter; None for a clamp."""
    found = FILTERS[call.node.op](call) if call.node.op in FILTERS else None
    return found if isinstance(found, Polynomials) else None


def filter_scales(call: Call) -> npt.NDArray[np.float32]:
    """Factors of the sums of an operator with a filter: one, or one per channel.

    They make numbers of the result of them, in units of its scale, or real numbers where a function
    of these comes first.

    Raises:
        UnsupportedError: its tensors are not quantized to 8 bits, or a factor is beyond float32.
    """
    source, weights, result = call.type(0), call.type(1), call.result.type
    if weights.quantization is None or weights.dtype not in (DType.UINT8, DType.INT8):
        raise UnsupportedError(f"the weights {weights} are not quantized to 8 bits")
    unit = float(_scale(result)) if function_of(call) is None else 1.0
    return effective_scale(float(_scale(source)), np.array(weights.quantization.scale), unit)


def _filter(call: Call, prefix: Prefix, function: FusedFunction) -> OutputStage:
    source, weights, result = call.type(0), call.type(1), call.result.type
    scales = filter_scales(call)
    assert weights.quantization is not None
    if isinstance(function, Polynomials):
        (low, high), zero = function.bounds, unsigned_zero_point(result)
    else:
        low, high, zero = _clamps(result, function.bounds)
    zero_points = {point + _offset(weights) for point in weights.quantization.zero_point}
    if not prefix.scales and (scales != scales[0]).any():
        raise UnsupportedError(
            f"{len(set(scales.tolist()))} effective scales, but no scales in memory"
        )
    if not prefix.zero_points and len(zero_points) > 1:
        raise UnsupportedError(
            f"{len(zero_points)} zero points of weights, but no zero points in memory"
        )
    return OutputStage(
        scale=1.0 if prefix.scales else float(scales[0]),
        minimum=low,
        maximum=high,
        output_zero_point=zero,
        a_zero_point=unsigned_zero_point(source),
        c_zero_point=0 if prefix.zero_points else min(zero_points),
        scale_in_memory=prefix.scales,
        bias_in_memory=prefix.biases,
        zero_points_in_memory=prefix.zero_points,
        nlu=isinstance(function, Polynomials),
    )


def _sum(call: Call, sign: int) -> OutputStage:
    """Of a sum of products with `sum_weights`; a second weight that is negative is subtracted.

    Weights are unsigned, so that those of a difference are moved up by the second one's amount.
    """
    types = call.type(0), call.type(1)
    low, high, zero = _clamps(
        call.result.type, call.attributes(ActivationAttributes).activation.bounds
    )
    weights = sum_weights(*(float(_scale(type)) for type in types))
    # A weight is 0 if its operand is too small to count.
    operand = 0 if weights[0] else 1
    unit = np.float32(_scale(types[operand]) / np.float32(weights[operand]))
    first, second = (
        weight * unsigned_zero_point(type) for weight, type in zip(weights, types, strict=True)
    )
    return OutputStage(
        scale=float(unit * _inverse(call.result.type)),
        minimum=low,
        maximum=high,
        output_zero_point=zero,
        c_zero_point=0 if sign > 0 else weights[1],
        constant=-(first + sign * second),
    )


def _add(call: Call) -> OutputStage:
    return _sum(call, 1)


def _sub(call: Call) -> OutputStage:
    return _sum(call, -1)


def product_stage(
    first: TensorType,
    second: TensorType,
    after: TensorType,
    bounds: tuple[float, float] = Activation.NONE.bounds,
) -> OutputStage:
    """Of a product of activations.

    Args:
        first: the activations.
        second: what they are multiplied with.
        after: the product.
        bounds: smallest and largest real number that passes.

    Raises:
        UnsupportedError: one of them is not quantized to 8 bits, or has a scale per channel.
    """
    low, high, zero = _clamps(after, bounds)
    return OutputStage(
        scale=float(np.float32(_scale(first) * _scale(second)) * _inverse(after)),
        minimum=low,
        maximum=high,
        output_zero_point=zero,
        a_zero_point=unsigned_zero_point(first),
        c_zero_point=unsigned_zero_point(second),
    )


def _mul(call: Call) -> OutputStage:
    bounds = call.attributes(ActivationAttributes).activation.bounds
    return product_stage(call.type(0), call.type(1), call.result.type, bounds)


def mean_stage(
    before: TensorType,
    after: TensorType,
    count: int,
    bounds: tuple[float, float] = Activation.NONE.bounds,
) -> OutputStage:
    """Of a sum over elements with weights of one, which becomes their mean.

    Args:
        before: what is summed.
        after: what it becomes.
        count: how many elements.
        bounds: smallest and largest real number that passes.

    Raises:
        UnsupportedError: one of them is not quantized to 8 bits, or has a scale per channel.
    """
    low, high, zero = _clamps(after, bounds)
    return OutputStage(
        scale=float(np.float32(_scale(before) / np.float32(count)) / _scale(after)),
        minimum=low,
        maximum=high,
        output_zero_point=zero,
        a_zero_point=unsigned_zero_point(before),
    )


def sum_stage(before: TensorType, after: TensorType, weight: float) -> OutputStage:
    """Of a sum over elements with one weight, as of a convolution whose filter has that scale.

    Args:
        before: what is summed.
        after: what it becomes.
        weight: the weight.

    Raises:
        UnsupportedError: one of them is not quantized to 8 bits, or has a scale per channel.
    """
    stage = mean_stage(before, after, 1)
    factor = effective_scale(float(_scale(before)), np.asarray([weight]), float(_scale(after)))
    return replace(stage, scale=float(factor[0]))


def _average_pool(call: Call) -> OutputStage:
    a, image = call.attributes(PoolAttributes), call.type().shape[1:3]
    if any(explicit_padding(a.padding, (image[0], image[1]), a.kernel, a.stride, (1, 1))):
        raise UnsupportedError("windows that reach over the border have scales of their own")
    count = math.prod(a.kernel)
    return mean_stage(call.type(), call.result.type, count, a.activation.bounds)


def _mean(call: Call) -> OutputStage:
    shape = call.type().shape
    axes = {axis % len(shape) for axis in call.attributes(ReductionAttributes).axes}
    count = math.prod(shape[axis] for axis in axes)
    return mean_stage(call.type(), call.result.type, count)


def maximum_stage(
    type: TensorType, bounds: tuple[float, float] = Activation.NONE.bounds
) -> OutputStage:
    """Of a maximum of stored values, from which the constant takes the zero point away.

    Args:
        type: of what is compared, and of the result.
        bounds: smallest and largest real number that passes.

    Raises:
        UnsupportedError: it is not quantized to 8 bits, or has a scale per channel.
    """
    low, high, zero = _clamps(type, bounds)
    return OutputStage(
        scale=1.0,
        minimum=low,
        maximum=high,
        output_zero_point=zero,
        c_zero_point=zero,
        constant=-zero,
    )


def _max_pool(call: Call) -> OutputStage:
    if call.type().quantization != call.result.type.quantization:
        raise UnsupportedError("a maximum does not change the quantization")
    return maximum_stage(call.result.type, call.attributes(PoolAttributes).activation.bounds)


def copy_stage(
    before: TensorType,
    after: TensorType,
    bounds: tuple[float, float] = Activation.NONE.bounds,
) -> OutputStage:
    """Of a copy with weights of one from one quantization to another, which may clamp.

    Args:
        before: what is copied.
        after: what it becomes.
        bounds: smallest and largest real number that passes.

    Raises:
        UnsupportedError: one of them is not quantized to 8 bits, or has a scale per channel.
    """
    low, high, zero = _clamps(after, bounds)
    return OutputStage(
        scale=float(_scale(before) * _inverse(after)),
        minimum=low,
        maximum=high,
        output_zero_point=zero,
        a_zero_point=unsigned_zero_point(before),
    )


def _requantization(call: Call) -> OutputStage:
    attributes = call.node.attributes
    bounds = Activation.NONE.bounds
    if isinstance(attributes, ClampAttributes):
        bounds = (attributes.min, attributes.max)
    return copy_stage(call.type(), call.result.type, bounds)


def _logistic(call: Call) -> OutputStage:
    """The table holds 256 times the function, so that the output's scale is 1/256."""
    return _table(call, LOGISTIC_BOUND, 0, 0, 256)


def _tanh(call: Call) -> OutputStage:
    """The table holds 127.5 times the function for positive inputs."""
    return _table(call, TANH_BOUND, SIGNED_OFFSET, ODD, 127.5)


def _table(call: Call, bound: float, zero: int, odd: int, factor: float) -> OutputStage:
    """Of a copy to the table of a function that is held times a factor, the output's scale.

    Outputs that are quantized by 1/128 differ from those by 1/127.5 by less than a unit.
    """
    scale = float(_scale(call.result.type))
    if not math.isclose(scale, 1 / factor, rel_tol=TABLE_TOLERANCE):
        raise UnsupportedError(f"the table is for an output scale of 1/{factor:g}, not {scale:g}")
    return OutputStage(
        scale=float(_scale(call.type())),
        minimum=-bound,
        maximum=bound,
        output_zero_point=zero,
        a_zero_point=unsigned_zero_point(call.type()),
        nlu=True,
        nlu_odd=odd,
    )


_STAGES: dict[str, Callable[[Call], OutputStage]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "average_pool_2d": _average_pool,
    "mean": _mean,
    "max_pool_2d": _max_pool,
    "quantize": _requantization,
    "clamp": _requantization,
    "sigmoid": _logistic,
    "tanh": _tanh,
}
