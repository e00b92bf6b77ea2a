"""Portable kernels of comparisons, plain arithmetic, repetitions and places."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.arithmetic import CumsumAttributes
from fitzroy.compiler.ops.arrangement import ReverseAttributes, TileAttributes, mirrored
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.elementwise import Unary
from fitzroy.compiler.ops.indexing import OneHotAttributes, TopKAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.targets.executorch import portable
from fitzroy.compiler.targets.executorch.kernels import Emit, Rules, kernel
from fitzroy.compiler.targets.executorch.portable import PortableEmitter
from fitzroy.compiler.targets.xnnpack import rules
from fitzroy.hw_models.executorch.kernels import KERNELS as RUNTIME

_Step = tuple[str, str, Sequence[Any], TensorType]
"""Kernel, overload, arguments after the first, and type of the result of a call."""


def _chain(call: Call, emitter: PortableEmitter, steps: Sequence[_Step]) -> None:
    """Calls of which each takes the result of the one before."""
    source: Any = call.operand(0)
    for number, (name, overload, arguments, type) in enumerate(steps):
        last = number == len(steps) - 1
        out = emitter.tensor(call.result.name) if last else emitter.temporary(type)
        first = source if isinstance(source, int) else emitter.tensor(source.name)
        rest = [item if isinstance(item, _Index) else emitter.argument(item) for item in arguments]
        emitter.call_indexed(name, overload, (first, *map(int, rest)), out)
        source = out


class _Index(int):
    """Index of a value of the method, where arguments are expected."""


def _constant(emitter: PortableEmitter, data: Array) -> _Index:
    """A constant that only kernel calls see."""
    return _Index(emitter.constant(data))


# --- comparisons and choices ---------------------------------------------------------------------


def _comparison_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.stored(rules.variables(call))
    if call.type(0).quantization != call.type(1).quantization:
        yield Reject(
            "portable-quantized", "operands have different scales; the kernel compares integers"
        )


def _two(name: str, overload: str) -> Emit:
    def emit(call: Call, emitter: PortableEmitter) -> None:
        emitter.call(name, overload, [call.operand(0), call.operand(1)], call.result)

    return emit


def _one(name: str) -> Emit:
    def emit(call: Call, emitter: PortableEmitter) -> None:
        emitter.call(name, "out", [call.operand(0)], call.result)

    return emit


for _op, _name in (
    ("equal", "eq"), ("not_equal", "ne"), ("less", "lt"),
    ("less_equal", "le"), ("greater", "gt"), ("greater_equal", "ge"),
):  # fmt: skip
    kernel(_op, _comparison_rejects)(_two(f"aten::{_name}", "Tensor_out"))
kernel("logical_and", portable.unquantized)(_two("aten::logical_and", "out"))
kernel("logical_or", portable.unquantized)(_two("aten::logical_or", "out"))
kernel("logical_not", portable.unquantized)(_one("aten::logical_not"))


def _select_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.stored(rules.variables(call))
    yield from rules.same_quantization([call.operand(1), call.operand(2), call.result])


@kernel("select", _select_rejects)
def _select(call: Call, emitter: PortableEmitter) -> None:
    operands = [call.operand(index) for index in range(3)]
    emitter.call("aten::where", "self_out", operands, call.result)


# --- arithmetic ----------------------------------------------------------------------------------


def _only(*dtypes: DType) -> Rules:
    """Plain numbers of some types."""

    def rejects(call: Call) -> Iterator[Reject]:
        yield from portable.unquantized(call)
        for value in rules.variables(call):
            if value.type.dtype not in dtypes:
                known = ", ".join(dtype.value for dtype in dtypes)
                found = f"{value.name!r} is {value.type.dtype.value}"
                yield Reject("portable-type", f"{found}; the kernel takes {known}")

    return rejects


@kernel("floor_div", portable.unquantized)
def _floor_div(call: Call, emitter: PortableEmitter) -> None:
    operands, type = [call.operand(0), call.operand(1)], call.result.type
    if not type.dtype.is_float:
        emitter.call("aten::floor_divide", "out", operands, call.result)
        return
    # The kernel for floats corrects an inexact quotient; TFLite rounds it down.
    quotient = emitter.temporary(type)
    emitter.call("aten::div", "out", operands, quotient)
    emitter.call_indexed("aten::floor", "out", (quotient,), emitter.tensor(call.result.name))


@kernel("floor_mod", portable.unquantized)
def _floor_mod(call: Call, emitter: PortableEmitter) -> None:
    a, b, type = call.operand(0), call.operand(1), call.result.type
    if type.dtype.is_float:
        emitter.call("aten::remainder", "Tensor_out", [a, b], call.result)
        return
    # The kernel's remainder of integers has the sign of the dividend.
    quotient, product = emitter.temporary(type), emitter.temporary(type)
    emitter.call("aten::floor_divide", "out", [a, b], quotient)
    emitter.call_indexed("aten::mul", "out", (quotient, emitter.tensor(b.name)), product)
    rest = (emitter.tensor(a.name), product, emitter.argument(1))
    emitter.call_indexed("aten::sub", "out", rest, emitter.tensor(call.result.name))


_WIDE = (DType.FLOAT32, DType.INT32, DType.INT64)
_BITS = (DType.INT8, DType.UINT8, DType.INT32, DType.INT64)

kernel("pow", _only(DType.FLOAT32))(_two("aten::pow", "Tensor_Tensor_out"))
kernel("atan2", _only(DType.FLOAT32))(_two("aten::atan2", "out"))
kernel("bitwise_xor", _only(*_BITS))(_two("aten::bitwise_xor", "Tensor_out"))
for _op, _operator in OPS.items():
    # Kernels of functions without parameters have the functions' names.
    _plain = isinstance(_operator, Unary) and _operator.attributes is Attributes
    if _plain and f"aten::{_op}.out" in RUNTIME:
        kernel(_op, _only(DType.FLOAT32))(_one(f"aten::{_op}"))
kernel("negate", _only(DType.FLOAT32))(_one("aten::neg"))
kernel("sign", _only(*_WIDE))(_one("aten::sign"))
kernel("round", _only(DType.FLOAT32))(_one("aten::round"))


@kernel("add_n", _only(*_WIDE))
def _add_n(call: Call, emitter: PortableEmitter) -> None:
    _, *others = [value.name for value in call.inputs if value is not None]
    steps: list[_Step] = [
        ("aten::add", "out", (_Index(emitter.tensor(name)), 1), call.result.type) for name in others
    ]
    _chain(call, emitter, steps or [("aten::clone", "out", (None,), call.result.type)])


@kernel("cumsum", _only(*_WIDE))
def _cumsum(call: Call, emitter: PortableEmitter) -> None:
    a, type = call.attributes(CumsumAttributes), call.result.type
    extent = type.shape[a.axis]
    turn: list[_Step] = [("aten::flip", "out", ((a.axis,),), type)] if a.reverse else []
    steps: list[_Step] = [*turn, ("aten::cumsum", "out", (a.axis, None), type)]
    if a.exclusive:
        shape = tuple(n - (axis == a.axis) for axis, n in enumerate(type.shape))
        cut: _Step = (
            "aten::slice_copy",
            "Tensor_out",
            (a.axis, 0, extent - 1, 1),
            type.with_shape(shape),
        )
        pad = (0, 0) * (type.rank - 1 - a.axis) + (1, 0)
        grow: _Step = ("aten::constant_pad_nd", "out", (pad, 0), type)
        clear: _Step = ("aten::full_like", "out", (0, None), type)
        steps += [cut, grow] if extent > 1 else [clear]
    _chain(call, emitter, [*steps, *turn])


# --- reductions ----------------------------------------------------------------------------------


def _axes(call: Call) -> Iterator[Reject]:
    if not call.attributes(ReductionAttributes).axes:
        yield Reject("portable-reduction-axes", "a reduction over no axes")


def _product_rejects(call: Call) -> Iterator[Reject]:
    yield from _only(*_WIDE)(call)
    yield from _axes(call)


def _truth_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.unquantized(call)
    yield from _axes(call)


@kernel("reduce_prod", _product_rejects)
def _reduce_prod(call: Call, emitter: PortableEmitter) -> None:
    a, type = call.attributes(ReductionAttributes), call.type()
    steps: list[_Step] = []
    for axis in reversed(a.axes):
        inner = (1,) if a.keep_dims else ()
        type = type.with_shape((*type.shape[:axis], *inner, *type.shape[axis + 1 :]))
        steps.append(("aten::prod", "int_out", (axis, a.keep_dims, None), type))
    _chain(call, emitter, steps)


@kernel("reduce_any", _truth_rejects)
def _reduce_any(call: Call, emitter: PortableEmitter) -> None:
    a = call.attributes(ReductionAttributes)
    emitter.call("aten::any", "dims_out", [call.operand(0), a.axes, a.keep_dims], call.result)


@kernel("reduce_all", _truth_rejects)
def _reduce_all(call: Call, emitter: PortableEmitter) -> None:
    a, type = call.attributes(ReductionAttributes), call.result.type
    steps: list[_Step] = [
        ("aten::logical_not", "out", (), call.type()),
        ("aten::any", "dims_out", (a.axes, a.keep_dims), type),
        ("aten::logical_not", "out", (), type),
    ]
    _chain(call, emitter, steps)


# --- repetition and order ------------------------------------------------------------------------


def _mover_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.stored([call.operand(0), call.result])
    yield from rules.same_quantization([call.operand(0), call.result])


@kernel("tile", _mover_rejects)
def _tile(call: Call, emitter: PortableEmitter) -> None:
    multiples = call.attributes(TileAttributes).multiples
    emitter.call("aten::repeat", "out", [call.operand(0), multiples], call.result)


def _expand(call: Call, emitter: PortableEmitter) -> None:
    arguments: list[Any] = [call.operand(0), call.result.type.shape, False]
    emitter.call("aten::expand_copy", "out", arguments, call.result)


kernel("broadcast_to", _mover_rejects)(_expand)


def _fill_rejects(call: Call) -> Iterator[Reject]:
    yield from _mover_rejects(call)
    if call.type().rank > call.result.type.rank:
        yield Reject("portable-fill", f"a value of {call.type().rank} dimensions")


kernel("fill", _fill_rejects)(_expand)


@kernel("reverse", _mover_rejects)
def _reverse(call: Call, emitter: PortableEmitter) -> None:
    axes = call.attributes(ReverseAttributes).axes
    emitter.call("aten::flip", "out", [call.operand(0), axes], call.result)


@kernel("mirror_pad", _mover_rejects)
def _mirror_pad(call: Call, emitter: PortableEmitter) -> None:
    type, steps = call.type(), list[_Step]()
    for axis, places in enumerate(mirrored(call)):
        if len(places) == type.shape[axis]:
            continue
        type = type.with_shape((*type.shape[:axis], len(places), *type.shape[axis + 1 :]))
        index = _constant(emitter, places.astype(np.int64))
        steps.append(("aten::index_select", "out", (axis, index), type))
    _chain(call, emitter, steps or [("aten::clone", "out", (None,), type)])


# --- places --------------------------------------------------------------------------------------


def _places_rejects(call: Call) -> Iterator[Reject]:
    yield from _mover_rejects(call)
    if call.constant(1) is None:
        yield Reject("portable-places", "the indices are computed at run time")
    elif not call.type(1).shape[-1] or not call.type(1).size:
        yield Reject("portable-places", "there are no indices")


@kernel("gather_nd", _places_rejects)
def _gather_nd(call: Call, emitter: PortableEmitter) -> None:
    indices = call.operand(1).data
    assert indices is not None
    shape, count = call.type().shape, indices.shape[-1]
    rows = indices.reshape(-1, count).astype(np.int64)
    places: Any = np.ravel_multi_index(tuple(rows.T), shape[:count])
    flat: Array = np.asarray(places, np.int64)
    merged = (math.prod(shape[:count]), *shape[count:])
    chosen = (len(flat), *shape[count:])
    type = call.result.type
    steps: list[_Step] = [
        ("aten::view_copy", "out", (merged,), type.with_shape(merged)),
        ("aten::index_select", "out", (0, _constant(emitter, flat)), type.with_shape(chosen)),
        ("aten::view_copy", "out", (type.shape,), type),
    ]
    _chain(call, emitter, steps)


def _lookup_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.stored(rules.variables(call))
    yield from rules.same_quantization([call.operand(1), call.result])


@kernel("embedding_lookup", _lookup_rejects)
def _embedding_lookup(call: Call, emitter: PortableEmitter) -> None:
    arguments: list[Any] = [call.operand(1), 0, call.operand(0)]
    emitter.call("aten::index_select", "out", arguments, call.result)


@kernel("top_k", _only(DType.FLOAT32, DType.INT32, DType.INT64))
def _top_k(call: Call, emitter: PortableEmitter) -> None:
    values, places = call.outputs
    wide = emitter.temporary(replace(places.type, dtype=DType.INT64))
    k = call.attributes(TopKAttributes).k
    arguments = [emitter.argument(item) for item in (call.operand(0), k, -1, True, True)]
    emitter.call_several("aten::topk", "values", arguments, [emitter.tensor(values.name), wide])
    emitter.cast(wide, places.name)


def _one_hot_rejects(call: Call) -> Iterator[Reject]:
    yield from portable.unquantized(call)
    depth = call.attributes(OneHotAttributes).depth
    if depth > _MOST_PLACES:
        yield Reject("portable-depth", f"vectors of {depth} elements, at most {_MOST_PLACES}")


_MOST_PLACES = 1 << 24


@kernel("one_hot", _one_hot_rejects)
def _one_hot(call: Call, emitter: PortableEmitter) -> None:
    a, indices = call.attributes(OneHotAttributes), call.type()
    shape = (*indices.shape[: a.axis], 1, *indices.shape[a.axis :])
    places = np.arange(a.depth, dtype=indices.dtype.numpy)
    row = places.reshape([-1, *(1,) * (indices.rank - a.axis)])
    apart = emitter.temporary(indices.with_shape(shape))
    source = emitter.tensor(call.operand(0).name)
    emitter.call_indexed("aten::view_copy", "out", (source, emitter.argument(shape)), apart)
    mask = emitter.temporary(TensorType(call.result.type.shape, DType.BOOL))
    emitter.call_indexed("aten::eq", "Tensor_out", (apart, emitter.constant(row)), mask)
    choices = (emitter.tensor(call.operand(index).name) for index in (1, 2))
    out = emitter.tensor(call.result.name)
    emitter.call_indexed("aten::where", "self_out", (mask, *choices), out)
