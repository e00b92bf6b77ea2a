"""How ExecuTorch's portable kernels run operators: the rules that reject a call, and the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fitzroy.base.types import DType
from fitzroy.compiler.ops.definition import Call, Reject, operator_of
from fitzroy.compiler.ops.elementwise import Binary
from fitzroy.compiler.ops.reduction import ArgAttributes, ReductionAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    GatherAttributes,
    Pad,
    PadAttributes,
    ReshapeAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.targets.executorch import portable
from fitzroy.compiler.targets.executorch.portable import PortableEmitter
from fitzroy.compiler.targets.target import Lowering
from fitzroy.compiler.targets.xnnpack import rules
from fitzroy.formats import method as m
from fitzroy.hw_models.numerics import Sampling

Rules = Callable[[Call], Iterator[Reject]]
Emit = Callable[[Call, PortableEmitter], None]

KERNELS: dict[str, Lowering] = {}
"""How operators become kernel calls, by their names."""


def kernel(op: str, rejects: Rules) -> Callable[[Emit], Emit]:
    """Declare the kernel of an operator.

    Args:
        op: name of the operator.
        rejects: every reason why the kernel cannot run a call.
    """

    def declare(emit: Emit) -> Emit:
        KERNELS[op] = Lowering(emit, rejects)
        return emit

    return declare


def _same_quantization(call: Call) -> Iterator[Reject]:
    if call.type().quantization != call.result.type.quantization:
        yield Reject("portable-quantized", "the kernel cannot change the quantization")


# --- numbers -------------------------------------------------------------------------------------


@kernel("cast", portable.unquantized)
def _cast(call: Call, emitter: PortableEmitter) -> None:
    emitter.cast(call.operand(0).name, call.result.name)


def _binary_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.unquantized(call)
    if operator_of(call, Binary).bounds(call) != Activation.NONE.bounds:
        yield Reject("portable-activation", "the kernel has no fused activation")


def _binary(name: str, *extra: int) -> Emit:
    def emit(call: Call, emitter: PortableEmitter) -> None:
        emitter.call(name, "out", [call.operand(0), call.operand(1), *extra], call.result)

    return emit


# Sums and differences have a factor for the second operand.
kernel("add", _binary_rejects)(_binary("aten::add", 1))
kernel("sub", _binary_rejects)(_binary("aten::sub", 1))
kernel("mul", _binary_rejects)(_binary("aten::mul"))
kernel("minimum", _binary_rejects)(_binary("aten::minimum"))
kernel("maximum", _binary_rejects)(_binary("aten::maximum"))


@kernel("log_softmax", portable.unquantized)
def _log_softmax(call: Call, emitter: PortableEmitter) -> None:
    arguments: list[Any] = [call.operand(0), call.type().rank - 1, False]
    emitter.call("aten::_log_softmax", "out", arguments, call.result)


# --- reductions ----------------------------------------------------------------------------------


def _axes(call: Call) -> Iterator[Reject]:
    """No axes mean all axes to the kernels."""
    if not call.attributes(ReductionAttributes).axes and call.type().rank:
        yield Reject("portable-reduction-axes", "a reduction over no axes")


def _reduction_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.unquantized(call)
    yield from _axes(call)


def _extremum_rejects(call: Call) -> Iterator[Reject]:
    yield from _axes(call)
    yield from portable.stored(rules.variables(call))
    yield from _same_quantization(call)


def _reduction(name: str, overload: str, *, takes_dtype: bool) -> Emit:
    def emit(call: Call, emitter: PortableEmitter) -> None:
        a = call.attributes(ReductionAttributes)
        arguments: list[Any] = [call.operand(0), a.axes, a.keep_dims]
        emitter.call(name, overload, [*arguments, None] if takes_dtype else arguments, call.result)

    return emit


kernel("mean", _reduction_rejects)(_reduction("aten::mean", "out", takes_dtype=True))
kernel("sum", _reduction_rejects)(_reduction("aten::sum", "IntList_out", takes_dtype=True))
kernel("reduce_max", _extremum_rejects)(_reduction("aten::amax", "out", takes_dtype=False))
kernel("reduce_min", _extremum_rejects)(_reduction("aten::amin", "out", takes_dtype=False))


def _arg_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.stored([call.operand(0), call.result])
    yield from portable.numbers([call.operand(0)])


def _arg(name: str) -> Emit:
    def emit(call: Call, emitter: PortableEmitter) -> None:
        arguments: list[Any] = [call.operand(0), call.attributes(ArgAttributes).axis, False]
        if call.result.type.dtype is DType.INT64:
            emitter.call(name, "out", arguments, call.result)
            return
        # The kernel writes int64 only.
        wide = emitter.temporary(replace(call.result.type, dtype=DType.INT64))
        emitter.call(name, "out", arguments, wide)
        emitter.cast(wide, call.result.name)

    return emit


kernel("arg_max", _arg_rejects)(_arg("aten::argmax"))
kernel("arg_min", _arg_rejects)(_arg("aten::argmin"))


# --- moving elements -----------------------------------------------------------------------------


def _mover_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.stored([call.operand(0), call.result])
    yield from _same_quantization(call)


@kernel("copy", _mover_rejects)
def _copy(call: Call, emitter: PortableEmitter) -> None:
    emitter.call("aten::clone", "out", [call.operand(0), None], call.result)


@kernel("reshape", _mover_rejects)
def _reshape(call: Call, emitter: PortableEmitter) -> None:
    shape = call.attributes(ReshapeAttributes).shape
    emitter.call("aten::view_copy", "out", [call.operand(0), shape], call.result)


@kernel("transpose", _mover_rejects)
def _transpose(call: Call, emitter: PortableEmitter) -> None:
    perm = call.attributes(TransposeAttributes).perm
    emitter.call("aten::permute_copy", "out", [call.operand(0), perm], call.result)


@kernel("pad", _mover_rejects)
def _pad(call: Call, emitter: PortableEmitter) -> None:
    a = call.attributes(PadAttributes)
    pairs = zip(reversed(a.before), reversed(a.after), strict=True)
    amounts = tuple(amount for pair in pairs for amount in pair)
    arguments: list[Any] = [call.operand(0), amounts, operator_of(call, Pad).stored(call)]
    emitter.call("aten::constant_pad_nd", "out", arguments, call.result)


def _concatenation_rejects(call: Call) -> Iterator[Reject]:
    values = rules.variables(call)
    yield from portable.stored(values)
    yield from rules.same_quantization(values)


@kernel("concatenation", _concatenation_rejects)
def _concatenation(call: Call, emitter: PortableEmitter) -> None:
    items = m.TensorList(tuple(emitter.tensor(v.name) for v in call.inputs if v is not None))
    axis = call.attributes(ConcatenationAttributes).axis
    emitter.call("aten::cat", "out", [items, axis], call.result)


def _gather_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.stored(rules.variables(call))
    yield from _same_quantization(call)
    if call.type(1).dtype not in (DType.INT32, DType.INT64):
        yield Reject("portable-index-type", f"indices are {call.type(1).dtype.value}")
    if call.attributes(GatherAttributes).batch:
        yield Reject("portable-gather-batch", "every image of the batch has indices of its own")


@kernel("gather", _gather_rejects)
def _gather(call: Call, emitter: PortableEmitter) -> None:
    axis, indices, out = call.attributes(GatherAttributes).axis, call.operand(1), call.result
    if indices.type.rank == 1:
        emitter.call("aten::index_select", "out", [call.operand(0), axis, indices], out)
        return
    # The kernel takes a vector of indices.
    count, shape = indices.type.size, call.type().shape
    vector = emitter.temporary(indices.type.with_shape((count,)))
    flat = emitter.argument((count,))
    emitter.call_indexed("aten::view_copy", "out", (emitter.tensor(indices.name), flat), vector)
    rows = emitter.temporary(out.type.with_shape((*shape[:axis], count, *shape[axis + 1 :])))
    arguments = (emitter.tensor(call.operand(0).name), emitter.argument(axis), vector)
    emitter.call_indexed("aten::index_select", "out", arguments, rows)
    target = emitter.argument(out.type.shape)
    emitter.call_indexed("aten::view_copy", "out", (rows, target), emitter.tensor(out.name))


def _slice_rejects(call: Call) -> Iterator[Reject]:
    yield from _mover_rejects(call)
    stride = call.attributes(StridedSliceAttributes).stride
    if any(step < 1 for step in stride):
        yield Reject("portable-slice-stride", f"strides {stride} run backwards")


@kernel("strided_slice", _slice_rejects)
def _strided_slice(call: Call, emitter: PortableEmitter) -> None:
    a = call.attributes(StridedSliceAttributes)
    source, type = emitter.tensor(call.operand(0).name), call.type()
    cuts = [
        axis
        for axis, extent in enumerate(type.shape)
        if (a.begin[axis], a.size[axis], a.stride[axis]) != (0, extent, 1)
    ]
    if not cuts:
        _copy(call, emitter)
        return
    for axis in cuts:
        shape = list(type.shape)
        shape[axis] = a.size[axis]
        type = type.with_shape(tuple(shape))
        last = axis == cuts[-1]
        out = emitter.tensor(call.result.name) if last else emitter.temporary(type)
        end = a.begin[axis] + (a.size[axis] - 1) * a.stride[axis] + 1
        numbers = [emitter.argument(n) for n in (axis, a.begin[axis], end, a.stride[axis])]
        emitter.call_indexed("aten::slice_copy", "Tensor_out", (source, *numbers), out)
        source = out


def _resize_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.stored([call.operand(0), call.result])
    yield from portable.numbers([call.operand(0)])
    yield from _same_quantization(call)
    sampling = call.attributes(ResizeAttributes).sampling
    if sampling is not Sampling.LEGACY:
        yield Reject(
            "portable-resize-sampling",
            f"{sampling.value} sampling; the kernel reads as TF1 does",
        )


@kernel("resize_nearest_neighbor", _resize_rejects)
def _resize_nearest(call: Call, emitter: PortableEmitter) -> None:
    planes = emitter.transposed(emitter.tensor(call.operand(0).name), (0, 3, 1, 2))
    size = call.attributes(ResizeAttributes).size
    shape = call.result.type.shape
    scaled = emitter.temporary(call.type().with_shape((shape[0], shape[3], *size)))
    arguments = (planes, emitter.argument(size), emitter.argument(None))
    emitter.call_indexed("aten::upsample_nearest2d", "vec_out", arguments, scaled)
    order = emitter.argument((0, 2, 3, 1))
    out = emitter.tensor(call.result.name)
    emitter.call_indexed("aten::permute_copy", "out", (scaled, order), out)
