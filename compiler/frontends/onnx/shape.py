"""ONNX operators that move elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from fitzroy.base import budget
from fitzroy.base.types import Array, DType
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor, channels_last, identity
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.arrangement import MirrorPadAttributes
from fitzroy.compiler.ops.shape import (
    BlockAttributes,
    ConcatenationAttributes,
    GatherAttributes,
    PadAttributes,
    SplitAttributes,
    StridedSliceAttributes,
)
from fitzroy.hw_models.numerics import dequantize

# --- shapes -------------------------------------------------------------------------------------


def reshaped(op: Operation, x: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor with another shape of as many elements.

    Raises:
        Refusal: the numbers of elements differ.
    """
    if math.prod(shape) != x.size or min(shape, default=1) < 0:
        raise Refusal("onnx-type-rule", f"{x.size} elements do not fill {list(shape)}")
    return op.build.reshape(x, tuple(shape))


@imports("Reshape")
def reshape(op: Operation) -> Tensor:
    """Another shape, in which 0 keeps an extent and -1 stands for what is left."""
    return reshaped(op, op.input(), wanted_shape(op))


def wanted_shape(op: Operation) -> tuple[int, ...]:
    """The shape that a Reshape wants; -1 stays where several or none are right."""
    x = op.input()
    wanted = list(op.constants(1, "shape") or ())
    if not op.integer("allowzero"):
        for axis, extent in enumerate(wanted):
            if extent == 0:
                if axis >= x.rank:
                    raise Refusal("onnx-type-rule", f"extent {axis} of {x.rank} dimensions is kept")
                wanted[axis] = x.shape[axis]
    if wanted.count(-1) == 1:
        rest = math.prod(extent for extent in wanted if extent != -1)
        wanted[wanted.index(-1)] = x.size // rest if rest else 0
    return tuple(wanted)


@imports("Flatten")
def flatten(op: Operation) -> Tensor:
    """Two dimensions: those before an axis, and the others."""
    x, axis = op.input(), op.integer("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    return reshaped(op, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@imports("Squeeze")
def squeeze(op: Operation) -> Tensor:
    """Without some dimensions of extent 1."""
    x = op.input()
    units = [axis for axis, extent in enumerate(x.shape) if extent == 1]
    axes = op.axes(x.rank, units)
    if not set(axes) <= set(units):
        raise Refusal("onnx-type-rule", f"axes {axes} of {list(x.shape)} are not all 1")
    return reshaped(op, x, [extent for axis, extent in enumerate(x.shape) if axis not in axes])


@imports("Unsqueeze")
def unsqueeze(op: Operation) -> Tensor:
    """With additional dimensions of extent 1."""
    x = op.input()
    given = op.integers("axes") or op.constants(1, "axes") or ()
    axes = [op.axis(axis, x.rank + len(given)) for axis in given]
    if len(set(axes)) < len(axes):
        raise Refusal("onnx-type-rule", f"axes {given} name one twice")
    extents = iter(x.shape)
    rank = x.rank + len(axes)
    return reshaped(op, x, [1 if axis in axes else next(extents) for axis in range(rank)])


@imports("Transpose")
def transpose(op: Operation) -> Tensor:
    """Another order of dimensions."""
    x = op.input()
    perm = op.integers("perm")
    perm = tuple(range(x.rank))[::-1] if perm is None else perm
    if sorted(perm) != list(range(x.rank)):
        raise Refusal("onnx-type-rule", f"{perm} permutes no {x.rank} dimensions")
    return op.build.transpose(x, perm)


@imports("Shape")
def shape(op: Operation) -> Tensor:
    """Extents, which are known."""
    extents = op.input().shape
    start, end = op.integer("start"), op.integer("end", len(extents))
    return op.array(np.array(extents[start:end], np.int64))


@imports("Size")
def size(op: Operation) -> Tensor:
    """Number of elements, which is known."""
    return op.array(np.array(op.input().size, np.int64))


# --- constants ---------------------------------------------------------------------------------


@imports("Constant")
def constant(op: Operation) -> Tensor:
    """A constant that an attribute holds."""
    for name, value in op.fields.items():
        if name == "value" and isinstance(value, np.ndarray):
            return op.array(value)
        if name in ("value_float", "value_floats"):
            return op.array(np.array(value, np.float32))
        if name in ("value_int", "value_ints"):
            return op.array(np.array(value, np.int64))
    raise Refusal("onnx-element-type", "a constant that holds no numbers")


@imports("ConstantOfShape")
def constant_of_shape(op: Operation) -> Tensor:
    """One number in every element."""
    extents = op.constants(0, "shape") or ()
    value = op.fields.get("value", np.zeros(1, np.float32))
    if min(extents, default=0) < 0 or not isinstance(value, np.ndarray) or value.size != 1:
        raise Refusal("onnx-type-rule", f"a constant of shape {list(extents)}")
    budget.demand(8 * math.prod(extents), f"a constant of shape {list(extents)}")
    return op.array(np.full(extents, value.reshape(-1)[0], value.dtype))


# --- parts -------------------------------------------------------------------------------------


@imports("Concat")
def concat(op: Operation) -> Tensor:
    """Operands one after another along an axis."""
    operands = op.present()
    rank = operands[0].rank
    axis = op.axis(op.integer("axis"), rank)
    if any(tensor.rank != rank for tensor in operands):
        raise Refusal("onnx-type-rule", "operands differ in the number of dimensions")
    return joined(op.build, operands, axis)


def joined(build: Builder, operands: Sequence[Tensor], axis: int) -> Tensor:
    """Operands one after another along an axis, in the layout of the largest."""
    operands = [build.plain(tensor) for tensor in build.alike(operands)[0]]
    variables = [tensor for tensor in operands if tensor.data is None]
    rank = operands[0].rank
    order = max(variables, key=lambda t: t.size).perm if variables else identity(rank)
    names = [build.value(tensor, order) for tensor in operands if tensor.shape[axis]]
    if not names:
        return operands[0]
    if len(names) == 1:
        return build.variable(names[0], order)
    attributes = ConcatenationAttributes(order.index(axis))
    return build.variable(build.emit("concatenation", names, attributes), order)


@imports("Split")
def split(op: Operation) -> list[Tensor]:
    """Consecutive parts along an axis."""
    x, build = op.input(), op.build
    axis = op.axis(op.integer("axis"), x.rank)
    sizes = op.integers("split") or op.constants(1, "extents of parts")
    if sizes is None:
        count = op.integer("num_outputs", len(op.outputs))
        each = -(-x.shape[axis] // max(count, 1))
        starts = [min(index * each, x.shape[axis]) for index in range(count + 1)]
        sizes = tuple(b - a for a, b in pairwise(starts))
    if sum(sizes) != x.shape[axis] or min(sizes, default=0) < 0:
        raise Refusal("onnx-type-rule", f"parts {list(sizes)} of {x.shape[axis]}")
    x = build.plain(x)
    if x.data is not None:
        return [build.constant(p) for p in np.split(x.data, np.cumsum(sizes)[:-1], axis=axis)]
    attributes = SplitAttributes(x.perm.index(axis), sizes)
    names = build.emit_all("split", [x.name], attributes, len(sizes))
    return [build.variable(name, x.perm) for name in names]


@imports("Slice")
def slice_(op: Operation) -> Tensor:
    """Every n-th element of a box."""
    x = op.input()
    begin, count, step = [0] * x.rank, list(x.shape), [1] * x.rank
    for axis, start, end, stride in slices(op):
        extent = x.shape[axis]
        # A start before the first element counts from there, whatever the direction.
        last = None if end < -extent else end
        if stride > 0 and last is None:
            last = 0
        first = max(start, -extent)
        chosen = range(extent)[slice(first, last, stride)]
        begin[axis], count[axis], step[axis] = chosen.start, len(chosen), stride
    return sliced(op.build, x, begin, count, step)


def slices(op: Operation) -> list[tuple[int, int, int, int]]:
    """Axis, start, end and step of each dimension that a Slice names, as the model has them.

    Raises:
        Refusal: they do not belong together, or vary.
    """
    if op.opset < 10:
        starts, ends = op.integers("starts") or (), op.integers("ends") or ()
        axes, steps = op.integers("axes"), None
    else:
        starts, ends = op.constants(1, "starts") or (), op.constants(2, "ends") or ()
        axes, steps = op.constants(3, "axes"), op.constants(4, "steps")
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Refusal("onnx-type-rule", f"a slice from {starts} to {ends} in steps of {steps}")
    named = [op.axis(axis, op.input().rank) for axis in axes]
    return list(zip(named, starts, ends, steps, strict=True))


def sliced(
    build: Builder, x: Tensor, begin: Sequence[int], count: Sequence[int], step: Sequence[int]
) -> Tensor:
    """Elements of a box: first index, count and step along each dimension."""
    if x.data is not None:
        for axis, (first, size, stride) in enumerate(zip(begin, count, step, strict=True)):
            x = build.constant(x.data.take(range(first, first + size * stride, stride), axis=axis))
        return x
    x = build.plain(x)
    if tuple(count) == x.shape and all(stride > 0 for stride in step):
        return x
    begin = [first if size else 0 for first, size in zip(begin, count, strict=True)]
    rows = [tuple(values[axis] for axis in x.perm) for values in (begin, count, step)]
    name = build.emit("strided_slice", [x.name], StridedSliceAttributes(*rows))
    return build.variable(name, x.perm)


def counted(build: Builder, indices: Tensor, extent: int) -> Tensor:
    """Indices of which negative ones count from the end, as ones that do not."""
    if indices.data is not None:
        return build.constant(np.where(indices.data < 0, indices.data + extent, indices.data))
    return build.binary("floor_mod", indices, build.constant(np.array(extent, indices.dtype.numpy)))


@imports("Gather")
def gather(op: Operation) -> Tensor:
    """Slices along an axis, chosen by indices."""
    x, indices, build = op.input(0), op.input(1), op.build
    axis = op.axis(op.integer("axis"), x.rank)
    if indices.data is not None:
        extent = x.shape[axis]
        low, high = indices.data.min(initial=0), indices.data.max(initial=-1)
        if low < -extent or high >= extent:
            raise Refusal("onnx-type-rule", f"indices {low} to {high} of {extent}")
        return gathered(
            build, x, np.where(indices.data < 0, indices.data + extent, indices.data), axis
        )
    places = counted(build, indices, x.shape[axis])
    name = build.emit("gather", [build.value(x), build.value(places)], GatherAttributes(axis))
    return build.variable(name)


def gathered(build: Builder, x: Tensor, indices: Array, axis: int) -> Tensor:
    """Slices along an axis, chosen by known indices that are not negative."""
    if x.data is not None:
        budget.demand(
            8 * max(x.size // max(x.shape[axis], 1), 1) * indices.size, "gathered constants"
        )
        return build.constant(np.asarray(x.data.take(indices, axis=axis)))
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    flat = indices.reshape(-1).astype(np.int64)
    steps = np.diff(flat)
    step = int(steps[0]) if len(steps) else 1
    if len(flat) and step and (steps == step).all():
        # Evenly spaced indices are a slice.
        begin, count, stride = [0] * x.rank, list(x.shape), [1] * x.rank
        begin[axis], count[axis], stride[axis] = int(flat[0]), len(flat), step
        return build.reshape(sliced(build, x, begin, count, stride), shape)
    x = build.plain(x)
    chosen = build.constant(flat.astype(np.int32))
    attributes = GatherAttributes(x.perm.index(axis))
    name = build.emit("gather", [x.name, build.value(chosen)], attributes)
    return build.reshape(build.variable(name, x.perm), shape)


# --- more elements -----------------------------------------------------------------------------


@imports("Pad")
def pad(op: Operation) -> Tensor:
    """Elements around a tensor: a number, reflections, copies of the border, or from beyond it."""
    x = op.input()
    mode = op.text("mode", "constant")
    amounts = op.integers("pads") if op.opset < 11 else op.constants(1, "padding")
    amounts = amounts or (0,) * (2 * x.rank)
    axes = op.constants(3, "axes") if op.opset >= 18 else None
    value = op.number("value") if op.opset < 11 else 0.0
    if op.opset >= 11 and op.optional(2) is not None:
        value = float(op.constant(2, "padding value").reshape(-1)[0])
    value = _meant(op.build, x, value)
    before, after = [0] * x.rank, [0] * x.rank
    chosen = [op.axis(axis, x.rank) for axis in (range(x.rank) if axes is None else axes)]
    if len(amounts) != 2 * len(chosen):
        raise Refusal("onnx-type-rule", f"{len(amounts)} amounts for {len(chosen)} dimensions")
    for index, axis in enumerate(chosen):
        before[axis], after[axis] = amounts[index], amounts[index + len(chosen)]
    if mode != "constant":
        return _mirrored(op, x, before, after, mode)
    cut = sliced(
        op.build,
        x,
        [max(-a, 0) for a in before],
        [e + min(a, 0) + min(b, 0) for e, a, b in zip(x.shape, before, after, strict=True)],
        (1,) * x.rank,
    )
    return padded(op.build, cut, [max(a, 0) for a in before], [max(b, 0) for b in after], value)


def _meant(build: Builder, x: Tensor, value: float) -> float:
    """The real number that an element of a quantized tensor stands for; of others, the element."""
    quantization = build.type(x).quantization
    if quantization is None:
        return value
    return float(dequantize(np.array(value).clip(*x.dtype.limits), quantization))


def padded(
    build: Builder, x: Tensor, before: Sequence[int], after: Sequence[int], value: float
) -> Tensor:
    """A tensor with a number around it, a real one if the tensor is quantized."""
    return _surrounded(build, "pad", x, before, after, partial(PadAttributes, value=value))


def _surrounded(
    build: Builder,
    op: str,
    x: Tensor,
    before: Sequence[int],
    after: Sequence[int],
    attributes: Callable[[tuple[int, ...], tuple[int, ...]], Attributes],
) -> Tensor:
    """A tensor with elements around it, by an operator with attributes for the stored order."""
    if not any((*before, *after)):
        return x
    # What is added to are rows and columns, as for convolutions.
    x = build.channels_last(build.plain(x))
    rows = [tuple(int(values[axis]) for axis in x.perm) for values in (before, after)]
    name = build.emit(op, [build.stored(x)], attributes(*rows))
    return build.variable(name, x.perm)


_NUMPY_MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _mirrored(
    op: Operation, x: Tensor, before: Sequence[int], after: Sequence[int], mode: str
) -> Tensor:
    """A tensor with copies of its own elements around it.

    Raises:
        Refusal: there is no such mode, or elements are taken away.
    """
    if mode not in _NUMPY_MODES or min((*before, *after)) < 0:
        raise Refusal("onnx-attribute", f"padding of mode {mode!r} by {before} and {after}")
    added = zip(before, x.shape, after, strict=True)
    once = all(max(first, last) < max(size, 1) for first, size, last in added)
    if mode == "reflect" and once and x.data is None:
        return _surrounded(op.build, "mirror_pad", x, before, after, MirrorPadAttributes)
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        if first or last:
            budget.demand(8 * (first + last), "indices of a padding")
            indices = np.pad(np.arange(x.shape[axis]), (first, last), _NUMPY_MODES[mode])  # type: ignore[call-overload]
            x = gathered(op.build, x, indices, axis)
    return x


@imports("Expand")
def expand(op: Operation) -> Tensor:
    """Elements repeated along dimensions of extent 1."""
    x = op.input()
    wanted = op.constants(1, "shape") or ()
    try:
        target = np.broadcast_shapes(x.shape, wanted)
    except ValueError:
        raise Refusal("onnx-type-rule", f"{list(x.shape)} does not expand to {wanted}") from None
    x = op.build.reshape(x, (1,) * (len(target) - x.rank) + x.shape)
    counts = [b if a == 1 else 1 for a, b in zip(x.shape, target, strict=True)]
    return repeated(op.build, x, counts)


@imports("Tile")
def tile(op: Operation) -> Tensor:
    """Copies one after another along every dimension."""
    x = op.input()
    counts = op.constants(1, "repeats") or ()
    if len(counts) != x.rank or min(counts, default=0) < 0:
        raise Refusal("onnx-type-rule", f"repeats {counts} of {x.rank} dimensions")
    return repeated(op.build, x, counts)


def repeated(build: Builder, x: Tensor, counts: Sequence[int]) -> Tensor:
    """Copies of a tensor, so many along each dimension."""
    shape = [extent * count for extent, count in zip(x.shape, counts, strict=True)]
    if x.data is not None:
        budget.demand(8 * math.prod(shape), "repeated constants")
        return build.constant(np.tile(x.data, counts))
    if sum(counts) > 1 << 16:
        raise Refusal("onnx-size", f"{list(counts)} copies")
    for axis, count in enumerate(counts):
        if count == 0:
            rest = [0 if a == axis else extent for a, extent in enumerate(x.shape)]
            x = sliced(build, x, [0] * x.rank, rest, [1] * x.rank)
        elif count > 1:
            x = _copies(build, x, axis, count)
    return x


def _copies(build: Builder, x: Tensor, axis: int, count: int) -> Tensor:
    if x.shape[axis] == 1 and x.dtype is not DType.BOOL and not build.type(x).is_quantized:
        # Adding zeros broadcasts.
        shape = tuple(count if a == axis else 1 for a in range(x.rank))
        return build.add(x, build.constant(np.zeros(shape, x.dtype.numpy)))
    return joined(build, [x] * count, axis)


# --- channels and space ------------------------------------------------------------------------


@imports("DepthToSpace", "SpaceToDepth")
def space_depth(op: Operation) -> Tensor:
    """Blocks of pixels to channels, or channels to blocks of pixels."""
    x, build, block = op.input(), op.build, op.integer("blocksize")
    mode = op.text("mode", "DCR")
    if x.rank != 4:
        raise Refusal("onnx-rank", f"{op.name} of {x.rank} dimensions, not 4")
    if block < 1 or mode not in ("DCR", "CRD"):
        raise Refusal("onnx-attribute", f"a block of {block} in mode {mode!r}")
    order = channels_last(4)
    area, attributes = block * block, BlockAttributes(block)
    if op.name == "DepthToSpace":
        if mode == "CRD" and x.shape[1] % area == 0:
            # The order of channels that our operator takes.
            x = gathered(build, x, np.arange(x.shape[1]).reshape(-1, area).T.reshape(-1), 1)
        name = build.emit("depth_to_space", [build.value(x, order)], attributes)
        return build.variable(name, order)
    name = build.emit("space_to_depth", [build.value(x, order)], attributes)
    result = build.variable(name, order)
    if mode == "DCR":
        return result
    return gathered(build, result, np.arange(result.shape[1]).reshape(area, -1).T.reshape(-1), 1)
