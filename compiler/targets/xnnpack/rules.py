"""What ExecuTorch's XNNPACK backend takes: the rules behind every refusal.

Each rule yields a `Reject` with the found and the permitted values. Several of them stand for
crashes or silently wrong results of the runtime rather than for clean refusals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Value
from fitzroy.compiler.ops.definition import WIDE_ACTIVATIONS, Call, Reject

QUANTIZED = (DType.INT8, DType.UINT8)
MAX_EXTENT = 2**31 - 1
"""Largest extent of a tensor that the program's tables hold."""
MAX_RANK = 6
"""Most dimensions of an XNNPACK value."""
MOST_CONCATENATED = 5
"""Most inputs of a node that concatenates."""


def is_activation(type: TensorType) -> bool:
    """Whether an XNNPACK value can have this type: float32, or int8/uint8 with one scale."""
    if type.dtype is DType.FLOAT32:
        return type.quantization is None
    quantization = type.quantization
    return (
        type.dtype in QUANTIZED
        and quantization is not None
        and quantization.is_per_tensor
        and quantization.is_usable()
        and type.dtype.limits[0] <= quantization.zero_point[0] <= type.dtype.limits[1]
    )


def variables(call: Call) -> list[Value]:
    """Operands and results of a call that are present."""
    return [value for value in (*call.inputs, *call.outputs) if value is not None]


def activations(
    values: Iterable[Value], *, floats: bool = True, integers: bool = True
) -> Iterator[Reject]:
    """Every value must be float32, or int8/uint8 quantized per tensor."""
    for value in values:
        type = value.type
        if type.rank > MAX_RANK:
            yield Reject(
                "xnnpack-rank", f"{value.name!r} has {type.rank} dimensions, at most {MAX_RANK}"
            )
        if max(type.shape, default=0) > MAX_EXTENT:
            yield Reject(
                "xnnpack-extent",
                f"{value.name!r} has an extent of {max(type.shape)}, at most {MAX_EXTENT}",
            )
        if 0 in type.shape:
            yield Reject("xnnpack-empty", f"{value.name!r} is empty: {list(type.shape)}")
        if not is_activation(type):
            yield Reject(
                "xnnpack-type",
                f"{value.name!r} is {type}; XNNPACK takes float32, or int8 and uint8 with one"
                " normal positive scale",
                WIDE_ACTIVATIONS if type.dtype is DType.INT16 and type.is_quantized else "",
            )
        elif type.dtype is DType.FLOAT32 and not floats:
            yield Reject("xnnpack-integer-only", f"{value.name!r} is float32")
        elif type.dtype in QUANTIZED and not integers:
            yield Reject(
                "xnnpack-float-only",
                f"{value.name!r} is {type.dtype.value}; XNNPACK computes this in float32 only",
            )


def same_dtype(values: Iterable[Value]) -> Iterator[Reject]:
    """All values must have one element type."""
    found = sorted({value.type.dtype.value for value in values})
    if len(found) > 1:
        yield Reject("xnnpack-mixed-types", f"operands and result mix {', '.join(found)}")


def same_quantization(values: Iterable[Value]) -> Iterator[Reject]:
    """All values must have the same scale and zero point; else the program fails to load."""
    found = {(value.type.dtype, value.type.quantization) for value in values}
    if len(found) > 1:
        yield Reject(
            "xnnpack-quantization",
            "operands and result differ in scale or zero point where XNNPACK copies elements",
        )


def elementwise(call: Call, *, floats: bool = True, integers: bool = True) -> Iterator[Reject]:
    """Rules of unary and binary nodes: one element type, any quantization."""
    values = variables(call)
    yield from activations(values, floats=floats, integers=integers)
    yield from same_dtype(values)


def mover(call: Call) -> Iterator[Reject]:
    """Rules of nodes that copy elements: one element type and one quantization."""
    values = variables(call)
    yield from activations(values)
    yield from same_quantization(values)


def window(*sizes: tuple[int, ...]) -> Iterator[Reject]:
    """Kernel, stride, dilation and padding must fit the program's tables."""
    largest = max(size for group in sizes for size in group)
    if largest > MAX_EXTENT:
        yield Reject(
            "xnnpack-window", f"a window reaches over {largest} elements, at most {MAX_EXTENT}"
        )


def weighted(
    call: Call, *, channel_axis: int | None, filter_zero_point_ignored: bool = False
) -> Iterator[Reject]:
    """Rules of convolutions and fully connected layers.

    Args:
        call: input, filter, optional bias.
        channel_axis: the filter's axis of output channels.
        filter_zero_point_ignored: whether the runtime accepts an int8 filter with a zero point
            and computes as if it were 0.
    """
    image, kernel, result = call.operand(0), call.operand(1), call.result
    yield from activations((image, result))
    yield from same_dtype((image, result))
    if not kernel.is_constant:
        yield Reject("xnnpack-static-filter", f"filter {kernel.name!r} is not a constant")
    bias = call.optional(2)
    if bias is not None and not bias.is_constant:
        yield Reject("xnnpack-static-bias", f"bias {bias.name!r} is not a constant")
    kind, q = kernel.type.dtype, kernel.type.quantization
    if image.type.dtype is DType.FLOAT32:
        if kind is not DType.FLOAT32:
            yield Reject(
                "xnnpack-filter-type",
                f"float32 activations with a {kind.value} filter; both must be float32",
                "dequantize the filter, or quantize the activations",
            )
        if bias is not None and bias.type.dtype is not DType.FLOAT32:
            yield Reject(
                "xnnpack-bias-type", f"float32 activations with a {bias.type.dtype.value} bias"
            )
        return
    if q is None or not q.is_usable():
        yield Reject("xnnpack-filter-scale", "the filter has no normal positive scale")
        return
    if kind is not image.type.dtype:
        yield Reject(
            "xnnpack-filter-type",
            f"{image.type.dtype.value} activations with a {kind.value} filter; both must agree",
            "the fast uint8 policy turns such layers into int8",
        )
    if kind is DType.INT8 and any(q.zero_point):
        effect = (
            "ignores it and computes wrong results" if filter_zero_point_ignored else "refuses it"
        )
        yield Reject(
            "xnnpack-filter-zero-point",
            f"the int8 filter has zero point {q.zero_point[0]}, not 0; the runtime {effect}",
        )
    if kind is DType.UINT8 and q.axis is not None:
        yield Reject("xnnpack-filter-type", "a uint8 filter cannot have a scale per channel")
    if q.axis is not None and q.axis != channel_axis:
        yield Reject(
            "xnnpack-channel-axis",
            f"scales run along axis {q.axis} of the filter, not {channel_axis}",
        )
    if bias is not None:
        if bias.type.dtype is not DType.INT32:
            yield Reject("xnnpack-bias-type", f"the bias is {bias.type.dtype.value}, not int32")
        if bias.type.quantization is not None and any(bias.type.quantization.zero_point):
            yield Reject("xnnpack-bias-zero-point", "the bias has a zero point other than 0")
    if not (is_activation(image.type) and is_activation(result.type)):
        return
    if image.type.quantization is not None and result.type.quantization is not None:
        ratio = max(q.scale) * image.type.quantization.scale[0] / result.type.quantization.scale[0]
        if not ratio < 256 or math.isnan(ratio):
            yield Reject(
                "xnnpack-scale-ratio",
                f"input scale times filter scale is {ratio:.4g} of the output scale, at most 256",
            )
