"""ONNX operators on constants: what computes shapes and parameters, done with numpy at once.

Integers keep 64 bits here and floating-point numbers their precision, as in ONNX. Operators that
are missing become nodes of the graph, and constants by the passes that fold those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fitzroy.base import budget
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.reader import element_type
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor

Fold = Callable[[Operation, Sequence[Array]], Array]


def _broadcasting(function: Callable[..., Array]) -> Fold:
    """A function of corresponding elements."""

    def fold(op: Operation, arrays: Sequence[Array]) -> Array:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        budget.demand(8 * math.prod(shape), f"the constant {op.outputs[0]!r}")
        return function(*arrays)

    return fold


def _quotient(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return np.asarray(a / b)
    if (b == 0).any():
        raise Refusal("onnx-type-rule", "a division by 0")
    return np.asarray(
        np.trunc(np.true_divide(a, b)) if a.dtype.itemsize < 8 else _exact(a, b)
    ).astype(a.dtype)


def _exact(a: Array, b: Array) -> Array:
    """Quotients of 64 bits, rounded towards 0."""
    floor = a // b
    return np.where((floor < 0) & (floor * b != a), floor + 1, floor)


def _modulo(op: Operation, arrays: Sequence[Array]) -> Array:
    if arrays[1].dtype.kind in "iu" and (arrays[1] == 0).any():
        raise Refusal("onnx-type-rule", "a division by 0")
    return _broadcasting(np.fmod if op.integer("fmod") else np.mod)(op, arrays)


def _cast(op: Operation, arrays: Sequence[Array]) -> Array:
    return arrays[0].astype(element_type(op.integer("to")).numpy)


def _range(op: Operation, arrays: Sequence[Array]) -> Array:
    start, limit, delta = (array.reshape(-1)[0].item() for array in arrays)
    if delta == 0 or not all(map(math.isfinite, (start, limit, delta))):
        raise Refusal("onnx-type-rule", f"a range from {start} to {limit} in steps of {delta}")
    count = max(math.ceil((limit - start) / delta), 0)
    budget.demand(8 * count, f"the constant {op.outputs[0]!r}")
    return np.asarray(start + np.arange(count) * delta).astype(arrays[0].dtype)


def _reduced(function: Callable[..., Array]) -> Fold:
    def fold(op: Operation, arrays: Sequence[Array]) -> Array:
        x = arrays[0]
        axes = op.integers("axes") or op.constants(1, "axes")
        if not axes:
            if op.integer("noop_with_empty_axes"):
                return x
            axes = tuple(range(x.ndim))
        chosen = tuple(op.axis(axis, x.ndim) for axis in axes)
        keep = bool(op.integer("keepdims", 1))
        return np.asarray(function(x, axis=tuple(set(chosen)), keepdims=keep)).astype(x.dtype)

    return fold


def _non_zero(op: Operation, arrays: Sequence[Array]) -> Array:
    x = arrays[0]
    budget.demand(8 * x.size * x.ndim, f"the constant {op.outputs[0]!r}")
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64)


def _triangle(op: Operation, arrays: Sequence[Array]) -> Array:
    offset = int(arrays[1].reshape(-1)[0]) if len(arrays) > 1 else 0
    return np.asarray((np.triu if op.integer("upper", 1) else np.tril)(arrays[0], offset))


def _one_hot(op: Operation, arrays: Sequence[Array]) -> Array:
    indices, depth, values = arrays[0], int(arrays[1].reshape(-1)[0]), arrays[2]
    budget.demand(8 * max(depth, 0) * indices.size, f"the constant {op.outputs[0]!r}")
    axis = op.axis(op.integer("axis", -1), indices.ndim + 1)
    found = (indices % max(depth, 1))[..., None] == np.arange(depth)
    found &= ((indices >= -depth) & (indices < depth))[..., None]
    return np.moveaxis(np.where(found, values[1], values[0]), -1, axis)


def _scatter_nd(op: Operation, arrays: Sequence[Array]) -> Array:
    data, indices, updates = arrays[0].copy(), arrays[1], arrays[2]
    if op.text("reduction", "none") != "none" or not indices.ndim:
        raise Refusal("onnx-attribute", "ScatterND that reduces")
    flat = indices.reshape(-1, indices.shape[-1])
    data[tuple(flat.T)] = updates.reshape(len(flat), *data.shape[indices.shape[-1] :])
    return data


def _eye(op: Operation, arrays: Sequence[Array]) -> Array:
    code = op.integer("dtype", 0)
    dtype = element_type(code).numpy if code else arrays[0].dtype
    rows, columns = arrays[0].shape
    return np.asarray(np.eye(rows, columns, op.integer("k"), dtype))


def _cumulated(op: Operation, arrays: Sequence[Array]) -> Array:
    x, axis = arrays[0], int(arrays[1].reshape(-1)[0])
    axis = op.axis(axis, x.ndim)
    x = np.flip(x, axis) if op.integer("reverse") else x
    result = np.cumsum(x, axis=axis, dtype=x.dtype)
    result = result - x if op.integer("exclusive") else result
    return np.asarray(np.flip(result, axis) if op.integer("reverse") else result)


FOLDS: dict[str, Fold] = {
    "Abs": _broadcasting(np.abs),
    "Add": _broadcasting(np.add),
    "And": _broadcasting(np.logical_and),
    "Cast": _cast,
    "Ceil": _broadcasting(np.ceil),
    "Cos": _broadcasting(np.cos),
    "CumSum": _cumulated,
    "Div": _broadcasting(_quotient),
    "Equal": _broadcasting(np.equal),
    "Exp": _broadcasting(np.exp),
    "EyeLike": _eye,
    "Floor": _broadcasting(np.floor),
    "Greater": _broadcasting(np.greater),
    "GreaterOrEqual": _broadcasting(np.greater_equal),
    "Less": _broadcasting(np.less),
    "LessOrEqual": _broadcasting(np.less_equal),
    "Log": _broadcasting(np.log),
    "Max": _broadcasting(lambda *a: np.asarray(np.max(np.broadcast_arrays(*a), axis=0))),
    "Min": _broadcasting(lambda *a: np.asarray(np.min(np.broadcast_arrays(*a), axis=0))),
    "Mod": _modulo,
    "Mul": _broadcasting(np.multiply),
    "Neg": _broadcasting(np.negative),
    "NonZero": _non_zero,
    "Not": _broadcasting(np.logical_not),
    "OneHot": _one_hot,
    "Or": _broadcasting(np.logical_or),
    "Pow": _broadcasting(lambda a, b: np.asarray(np.power(a, b)).astype(a.dtype)),
    "Range": _range,
    "Reciprocal": _broadcasting(np.reciprocal),
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "Round": _broadcasting(np.rint),
    "ScatterND": _scatter_nd,
    "Sign": _broadcasting(np.sign),
    "Sin": _broadcasting(np.sin),
    "Sqrt": _broadcasting(np.sqrt),
    "Sub": _broadcasting(np.subtract),
    "Trilu": _triangle,
    "Where": _broadcasting(np.where),
    "Xor": _broadcasting(np.logical_xor),
}
"""What each operator is of constants."""


def folded(op: Operation) -> Tensor | None:
    """The result of an operator whose operands are all constants; None if it is none of these.

    Raises:
        Refusal: the operands do not fit.
        CapacityError: the result takes more memory than the budget has.
    """
    fold = FOLDS.get(op.name)
    arrays = [tensor.data for tensor in op.inputs if tensor is not None]
    known = [array for array in arrays if array is not None]
    if fold is None or not arrays or len(known) < len(op.inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            return op.array(np.asarray(fold(op, known)))
    except (ValueError, TypeError, IndexError, OverflowError, RuntimeError) as error:
        raise Refusal("onnx-type-rule", f"constants do not fit {op.name}: {error}") from None
