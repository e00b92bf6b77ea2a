"""Reference implementations of the portable kernels of ExecuTorch's library.

Every kernel is declared once, with the element types that the released runtime was measured to
accept for its principal operand. A kernel gets Python values in the order of its ATen signature
and returns arrays; whoever calls it stores them in the out tensors, which cast as C does.

Facts: ATen's operator signatures and ``kernels/portable``; behaviour compared with the runtime.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fitzroy.base import budget
from fitzroy.base.errors import SimulationError
from fitzroy.base.types import Array, DType

Result = Array | tuple[Array, ...]
Number = bool | int | float

FLOATS = frozenset({DType.FLOAT32})
INTEGERS = frozenset({DType.INT8, DType.UINT8, DType.INT32, DType.INT64})
BOOL = frozenset({DType.BOOL})
REAL = FLOATS | INTEGERS
ALL = REAL | BOOL


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the library.

    Attributes:
        name: operator, such as ``aten::argmax``.
        overload: overload, such as ``out``.
        dtypes: element types that the principal operand may have, out of bool, int8, uint8,
            int32, int64 and float32; for a choice between operands, those of the operands.
        parameters: names of the arguments before the out tensors.
        outputs: number of out tensors, or None for one list of tensors.
        compute: the arguments and ``out``, the element types of the out tensors, to arrays.
    """

    name: str
    overload: str
    dtypes: frozenset[DType]
    parameters: tuple[str, ...]
    outputs: int | None
    compute: Callable[..., Result]

    @property
    def key(self) -> str:
        """Name and overload, as the runtime prints them."""
        return f"{self.name}.{self.overload}"


KERNELS: dict[str, Kernel] = {}
"""Every kernel by name and overload, such as ``aten::argmax.out``."""


def define(
    key: str, dtypes: frozenset[DType], *, outputs: int | None = 1
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Declare a kernel; parameters are those of the function before ``out``."""

    def register(compute: Callable[..., Result]) -> Callable[..., Result]:
        parameters = tuple(inspect.signature(compute).parameters)
        name, _, overload = key.rpartition(".")
        if key in KERNELS or parameters[-1] != "out":
            raise ValueError(f"{key} is declared twice, or takes no out")
        KERNELS[key] = Kernel(name, overload, dtypes, parameters[:-1], outputs, compute)
        return compute

    return register


Out = tuple["np.dtype[Any]", ...]


# --- element types -------------------------------------------------------------------------------


def promote(*operands: Array | Number) -> np.dtype[Any]:
    """The element type that ATen computes in.

    Arrays beat plain numbers of the same kind, floating point beats integers, integers beat
    truth values; two floating-point or two integer arrays widen.
    """
    arrays = [o.dtype for o in operands if isinstance(o, np.ndarray)]
    numbers = [o for o in operands if not isinstance(o, np.ndarray)]
    for kinds in ("f", "iu"):
        members = [dtype for dtype in arrays if dtype.kind in kinds]
        if members:
            result = members[0]
            for dtype in members[1:]:
                result = np.promote_types(result, dtype)
            break
        if kinds == "f" and any(isinstance(n, float) for n in numbers):
            return np.dtype(np.float32)
        if kinds == "iu" and any(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
            return np.dtype(np.int64)
    else:
        return np.dtype(bool)
    if result.kind != "f" and any(isinstance(n, float) for n in numbers):
        return np.dtype(np.float32)
    return result


def _as(operand: Array | Number, dtype: npt.DTypeLike) -> Array:
    kind = np.dtype(dtype)
    if isinstance(operand, int) and kind.kind in "iu":
        # Plain integers wrap, as a C cast does.
        return np.asarray(operand & ((1 << 64) - 1), np.uint64).astype(kind)
    return np.asarray(operand).astype(kind)


def _float(operand: Array) -> Array:
    return operand if operand.dtype.kind == "f" else operand.astype(np.float32)


# --- element by element --------------------------------------------------------------------------


def _with_alpha(sign: int) -> Callable[..., Result]:
    def compute(self: Array, other: Array | Number, alpha: Number, out: Out) -> Result:
        dtype = promote(self, other)
        scaled = _as(other, dtype) * _as(alpha, dtype)
        own = _as(self, dtype)
        return np.asarray(own + scaled if sign > 0 else own - scaled)

    return compute


def _binary(function: Callable[[Array, Array], Array]) -> Callable[..., Result]:
    def compute(self: Array, other: Array | Number, out: Out) -> Result:
        dtype = promote(self, other)
        return function(_as(self, dtype), _as(other, dtype))

    return compute


def _true_divide(a: Array, b: Array) -> Array:
    return np.asarray(np.divide(_float(a), _float(b)))


def _c_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.trunc(np.divide(a, b)))
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.asarray(np.where((a < 0) != (b < 0), -quotient, quotient)).astype(a.dtype)


def _divide_mode(self: Array, other: Array | Number, rounding_mode: str | None, out: Out) -> Result:
    dtype = promote(self, other)
    a, b = _as(self, dtype), _as(other, dtype)
    if rounding_mode is None:
        return _true_divide(a, b)
    if rounding_mode == "floor":
        return np.asarray(np.floor_divide(a, b))
    if rounding_mode == "trunc":
        return _c_divide(a, b)
    raise SimulationError("an unknown rounding mode", reason=repr(rounding_mode))


def _remainder(a: Array, b: Array) -> Array:
    # ATen's remainder has the sign of the divisor; the library follows it for floating point
    # only and truncates integers as C does.
    return np.asarray(np.remainder(a, b) if a.dtype.kind == "f" else np.fmod(a, b))


def _maximum(a: Array, b: Array) -> Array:
    return np.asarray(np.maximum(a, b))


def _minimum(a: Array, b: Array) -> Array:
    return np.asarray(np.minimum(a, b))


_ARITHMETIC: tuple[tuple[str, frozenset[DType], Callable[[Array, Array], Array]], ...] = (
    ("mul", ALL, lambda a, b: np.logical_and(a, b) if a.dtype == bool else a * b),
    ("div", ALL, _true_divide),
    ("fmod", REAL, np.fmod),
    ("remainder", REAL, _remainder),
    ("eq", ALL, np.equal),
    ("ne", ALL, np.not_equal),
    ("lt", ALL, np.less),
    ("le", ALL, np.less_equal),
    ("gt", ALL, np.greater),
    ("ge", ALL, np.greater_equal),
    ("bitwise_and", INTEGERS | BOOL, np.bitwise_and),
    ("bitwise_or", INTEGERS | BOOL, np.bitwise_or),
    ("bitwise_xor", INTEGERS | BOOL, np.bitwise_xor),
)
_PLAIN_TENSOR_OVERLOAD = frozenset({"mul", "div"})

for _sign, _name in ((1, "add"), (-1, "sub")):
    for _overload in ("out", "Scalar_out"):
        define(f"aten::{_name}.{_overload}", ALL if _sign > 0 else REAL)(_with_alpha(_sign))
for _name, _dtypes, _function in _ARITHMETIC:
    _tensor = "out" if _name in _PLAIN_TENSOR_OVERLOAD else "Tensor_out"
    for _overload in (_tensor, "Scalar_out"):
        define(f"aten::{_name}.{_overload}", _dtypes)(_binary(_function))
define("aten::div.out_mode", REAL)(_divide_mode)
define("aten::div.Scalar_mode_out", REAL)(_divide_mode)
define("aten::floor_divide.out", REAL)(_binary(lambda a, b: np.asarray(np.floor_divide(a, b))))
define("aten::atan2.out", ALL)(_binary(lambda a, b: np.asarray(np.arctan2(_float(a), _float(b)))))
define("aten::maximum.out", ALL)(_binary(_maximum))
define("aten::minimum.out", ALL)(_binary(_minimum))
for _name, _logical in (
    ("logical_and", np.logical_and),
    ("logical_or", np.logical_or),
    ("logical_xor", np.logical_xor),
):
    define(f"aten::{_name}.out", ALL)(_binary(_logical))


@define("aten::pow.Tensor_Tensor_out", REAL)
def _pow(self: Array, exponent: Array, out: Out) -> Result:
    return _power(self, exponent)


@define("aten::pow.Tensor_Scalar_out", REAL)
def _pow_scalar(self: Array, exponent: Number, out: Out) -> Result:
    return _power(self, exponent)


def _power(base: Array, exponent: Array | Number) -> Array:
    dtype = promote(base, exponent)
    if dtype.kind == "f":
        return np.asarray(np.power(_as(base, dtype), _as(exponent, dtype)))
    # The library computes powers of integers in double precision.
    return np.asarray(np.power(_as(base, np.float64), _as(exponent, np.float64)))


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), x.dtype)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


_FLOAT_UNARY: tuple[tuple[str, Callable[[Array], Array]], ...] = (
    ("acos", np.arccos),
    ("acosh", np.arccosh),
    ("asin", np.arcsin),
    ("asinh", np.arcsinh),
    ("atan", np.arctan),
    ("atanh", np.arctanh),
    ("cos", np.cos),
    ("cosh", np.cosh),
    ("erf", _erf),
    ("exp", np.exp),
    ("expm1", np.expm1),
    ("log", np.log),
    ("log10", np.log10),
    ("log1p", np.log1p),
    ("log2", np.log2),
    ("reciprocal", np.reciprocal),
    ("rsqrt", lambda x: np.asarray(1 / np.sqrt(x))),
    ("sigmoid", _sigmoid),
    ("sin", np.sin),
    ("sinh", np.sinh),
    ("sqrt", np.sqrt),
    ("tan", np.tan),
    ("tanh", np.tanh),
)


def _round(x: Array) -> Array:
    return x if x.dtype.kind != "f" else np.asarray(np.rint(x))


_SAME_UNARY: tuple[tuple[str, frozenset[DType], Callable[[Array], Array]], ...] = (
    ("abs", REAL, np.abs),
    ("bitwise_not", INTEGERS | BOOL, np.bitwise_not),
    ("ceil", REAL, lambda x: np.ceil(x).astype(x.dtype)),
    ("floor", REAL, lambda x: np.floor(x).astype(x.dtype)),
    ("isinf", ALL, np.isinf),
    ("isnan", ALL, np.isnan),
    ("logical_not", ALL, np.logical_not),
    ("neg", REAL, np.negative),
    ("relu", REAL, lambda x: np.maximum(x, x.dtype.type(0))),
    ("round", REAL, _round),
    ("sign", ALL, lambda x: x if x.dtype == bool else np.sign(x)),
    ("trunc", REAL, lambda x: np.trunc(x).astype(x.dtype)),
)


def _unary(function: Callable[[Array], Array], *, real: bool) -> Callable[..., Result]:
    def compute(self: Array, out: Out) -> Result:
        return np.asarray(function(_float(self) if real else self))

    return compute


for _name, _unary_function in _FLOAT_UNARY:
    define(f"aten::{_name}.out", ALL)(_unary(_unary_function, real=True))
for _name, _dtypes, _unary_function in _SAME_UNARY:
    define(f"aten::{_name}.out", _dtypes)(_unary(_unary_function, real=False))


@define("aten::clamp.out", REAL)
def _clamp(self: Array, min: Number | None, max: Number | None, out: Out) -> Result:
    dtype = promote(self, *(limit for limit in (min, max) if limit is not None))
    result = _as(self, dtype)
    if min is not None:
        result = np.maximum(result, _as(min, dtype))
    return result if max is None else np.minimum(result, _as(max, dtype))


@define("aten::hardtanh.out", REAL)
def _hardtanh(self: Array, min_val: Number, max_val: Number, out: Out) -> Result:
    return np.clip(self, _as(min_val, self.dtype), _as(max_val, self.dtype))


@define("aten::leaky_relu.out", FLOATS)
def _leaky_relu(self: Array, negative_slope: Number, out: Out) -> Result:
    return np.where(self > 0, self, self * _as(negative_slope, self.dtype))


@define("aten::elu.out", FLOATS)
def _elu(self: Array, alpha: Number, scale: Number, input_scale: Number, out: Out) -> Result:
    negative = np.expm1(self * _as(input_scale, self.dtype)) * _as(alpha, self.dtype)
    return np.where(self <= 0, negative, self) * _as(scale, self.dtype)


@define("aten::gelu.out", FLOATS)
def _gelu(self: Array, approximate: str, out: Out) -> Result:
    x = self.astype(np.float64)
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return np.asarray(0.5 * x * (1 + np.tanh(inner)))
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


@define("aten::where.self_out", ALL)
def _where(condition: Array, self: Array, other: Array, out: Out) -> Result:
    dtype = promote(self, other)
    return np.where(condition.astype(bool), _as(self, dtype), _as(other, dtype))


@define("aten::masked_fill.Scalar_out", ALL)
def _masked_fill(self: Array, mask: Array, value: Number, out: Out) -> Result:
    return np.where(mask, _as(value, self.dtype), self)


@define("aten::full.out", frozenset())
def _full(size: Sequence[int], fill_value: Number, out: Out) -> Result:
    value = np.asarray(_as(fill_value, out[0]))
    budget.demand(math.prod(size) * value.itemsize, f"aten::full of {list(size)}")
    return np.full(tuple(size), value)


@define("aten::full_like.out", ALL)
def _full_like(self: Array, fill_value: Number, memory_format: int | None, out: Out) -> Result:
    return np.full(self.shape, _as(fill_value, out[0]))


# --- reductions ----------------------------------------------------------------------------------


def _axes(dims: Sequence[int] | int | None, rank: int) -> tuple[int, ...]:
    """Axes to reduce; none or an empty list means all of them."""
    if isinstance(dims, int):
        dims = (dims,)
    return tuple(dim % max(rank, 1) for dim in dims) if dims else tuple(range(rank))


def _extremum(function: Callable[..., Array]) -> Callable[..., Result]:
    def compute(self: Array, dim: Sequence[int], keepdim: bool, out: Out) -> Result:
        return np.asarray(function(self, axis=_axes(dim, self.ndim), keepdims=keepdim))

    return compute


define("aten::amax.out", ALL)(_extremum(np.max))
define("aten::amin.out", ALL)(_extremum(np.min))


def _arg(function: Callable[..., Array]) -> Callable[..., Result]:
    def compute(self: Array, dim: int | None, keepdim: bool, out: Out) -> Result:
        if dim is None:
            shape = (1,) * self.ndim if keepdim else ()
            return np.asarray(function(self)).reshape(shape)
        return np.asarray(function(self, axis=dim, keepdims=keepdim))

    return compute


define("aten::argmax.out", REAL)(_arg(np.argmax))
define("aten::argmin.out", REAL)(_arg(np.argmin))


def _with_index(value: Callable[..., Array], index: Callable[..., Array]) -> Callable[..., Result]:
    def compute(self: Array, dim: int, keepdim: bool, out: Out) -> Result:
        return (
            np.asarray(value(self, axis=dim, keepdims=keepdim)),
            np.asarray(index(self, axis=dim, keepdims=keepdim)),
        )

    return compute


define("aten::max.dim_max", ALL, outputs=2)(_with_index(np.max, np.argmax))
define("aten::min.dim_min", ALL, outputs=2)(_with_index(np.min, np.argmin))


@define("aten::mean.out", FLOATS)
def _mean(
    self: Array, dim: Sequence[int] | None, keepdim: bool, dtype: int | None, out: Out
) -> Result:
    axes = _axes(dim, self.ndim)
    return np.asarray(np.mean(self, axis=axes, keepdims=keepdim, dtype=np.float64))


@define("aten::sum.IntList_out", ALL)
def _sum(
    self: Array, dim: Sequence[int] | None, keepdim: bool, dtype: int | None, out: Out
) -> Result:
    wide: npt.DTypeLike = np.float64 if out[0].kind == "f" else np.int64
    return np.sum(self, axis=_axes(dim, self.ndim), keepdims=keepdim, dtype=wide)


@define("aten::prod.int_out", ALL)
def _prod(self: Array, dim: int, keepdim: bool, dtype: int | None, out: Out) -> Result:
    return np.asarray(np.prod(self, axis=dim, keepdims=keepdim, dtype=out[0]))


@define("aten::prod.out", ALL)
def _prod_all(self: Array, dtype: int | None, out: Out) -> Result:
    return np.asarray(np.prod(self, dtype=out[0]))


@define("aten::any.out", ALL)
def _any(self: Array, dim: int, keepdim: bool, out: Out) -> Result:
    return np.asarray(np.any(self, axis=dim, keepdims=keepdim))


@define("aten::any.dims_out", ALL)
def _any_dims(self: Array, dim: Sequence[int] | None, keepdim: bool, out: Out) -> Result:
    return np.asarray(np.any(self, axis=_axes(dim, self.ndim), keepdims=keepdim))


@define("aten::var.correction_out", FLOATS)
def _var(
    self: Array, dim: Sequence[int] | None, correction: Number | None, keepdim: bool, out: Out
) -> Result:
    x = self.astype(np.float64)
    ddof: Any = 1 if correction is None else correction
    return np.asarray(np.var(x, axis=_axes(dim, self.ndim), keepdims=keepdim, ddof=ddof))


@define("aten::native_layer_norm.out", FLOATS, outputs=3)
def _native_layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None,
    bias: Array | None,
    eps: Number,
    out: Out,
) -> Result:
    count = len(normalized_shape)
    if input.shape[input.ndim - count :] != tuple(normalized_shape):
        raise SimulationError(f"shape {list(input.shape)} does not end in {normalized_shape}")
    axes = tuple(range(input.ndim - count, input.ndim))
    x = input.astype(np.float64)
    mean = x.mean(axis=axes, keepdims=True)
    factor = 1 / np.sqrt(x.var(axis=axes, keepdims=True) + eps)
    result = (x - mean) * factor
    if weight is not None:
        result = result * weight
    if bias is not None:
        result = result + bias
    return result, mean, factor


@define("aten::cumsum.out", ALL)
def _cumsum(self: Array, dim: int, dtype: int | None, out: Out) -> Result:
    return np.asarray(np.cumsum(self, axis=dim, dtype=out[0]))


def _log_softmax_of(x: Array, dim: int) -> Array:
    shifted = x.astype(np.float64) - np.max(x, axis=dim, keepdims=True)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=dim, keepdims=True)))


@define("aten::_log_softmax.out", FLOATS)
def _log_softmax(self: Array, dim: int, half_to_float: bool, out: Out) -> Result:
    return _log_softmax_of(self, dim)


@define("aten::_softmax.out", FLOATS)
def _softmax(self: Array, dim: int, half_to_float: bool, out: Out) -> Result:
    return np.asarray(np.exp(_log_softmax_of(self, dim)))


@define("aten::topk.values", REAL, outputs=2)
def _topk(self: Array, k: int, dim: int, largest: bool, sorted: bool, out: Out) -> Result:
    # Stable: of equal elements the first counts as the better one.
    order = np.argsort(_rank(self, largest), axis=dim, kind="stable")
    indices = np.take(order, np.arange(k), axis=dim)
    return np.take_along_axis(self, indices, axis=dim), indices


def _rank(x: Array, largest: bool) -> Array:
    """Keys whose ascending order is the wanted one; exact for every element type."""
    if not largest:
        return x
    return -x if x.dtype.kind == "f" else np.invert(x)


@define("aten::mm.out", REAL)
def _mm(self: Array, mat2: Array, out: Out) -> Result:
    return np.asarray(self @ mat2)


@define("aten::bmm.out", REAL)
def _bmm(self: Array, mat2: Array, out: Out) -> Result:
    return np.asarray(self @ mat2)


# --- moving elements -----------------------------------------------------------------------------


@define("aten::clone.out", ALL)
def _clone(self: Array, memory_format: int | None, out: Out) -> Result:
    return self


@define("dim_order_ops::_clone_dim_order.out", ALL)
def _clone_dim_order(
    self: Array, non_blocking: bool, dim_order: Sequence[int] | None, out: Out
) -> Result:
    return self


@define("aten::_to_copy.out", ALL)
def _to_copy(self: Array, non_blocking: bool, memory_format: int | None, out: Out) -> Result:
    return self


@define("dim_order_ops::_to_dim_order_copy.out", ALL)
def _to_dim_order_copy(
    self: Array, non_blocking: bool, dim_order: Sequence[int] | None, out: Out
) -> Result:
    return self


@define("aten::alias_copy.out", ALL)
def _alias_copy(self: Array, out: Out) -> Result:
    return self


@define("aten::view_copy.out", ALL)
def _view_copy(self: Array, size: Sequence[int], out: Out) -> Result:
    return self.reshape(tuple(size))


@define("aten::permute_copy.out", ALL)
def _permute_copy(self: Array, dims: Sequence[int], out: Out) -> Result:
    return self.transpose(tuple(dims))


@define("aten::transpose_copy.int_out", ALL)
def _transpose_copy(self: Array, dim0: int, dim1: int, out: Out) -> Result:
    return np.swapaxes(self, dim0, dim1)


@define("aten::squeeze_copy.dims_out", ALL)
def _squeeze_copy(self: Array, dim: Sequence[int], out: Out) -> Result:
    ones = tuple({d % self.ndim for d in dim if self.shape[d] == 1})
    return np.squeeze(self, axis=ones)


@define("aten::unsqueeze_copy.out", ALL)
def _unsqueeze_copy(self: Array, dim: int, out: Out) -> Result:
    return np.expand_dims(self, dim)


@define("aten::expand_copy.out", ALL)
def _expand_copy(self: Array, size: Sequence[int], implicit: bool, out: Out) -> Result:
    own = (1,) * (len(size) - self.ndim) + self.shape
    wanted = [have if want == -1 else want for want, have in zip(size, own, strict=True)]
    return np.broadcast_to(self, wanted)


@define("aten::repeat.out", ALL)
def _repeat(self: Array, repeats: Sequence[int], out: Out) -> Result:
    return np.tile(self, tuple(repeats))


@define("aten::flip.out", ALL)
def _flip(self: Array, dims: Sequence[int], out: Out) -> Result:
    return np.flip(self, tuple(dims))


@define("aten::roll.out", ALL)
def _roll(self: Array, shifts: Sequence[int], dims: Sequence[int], out: Out) -> Result:
    return np.roll(self, tuple(shifts), tuple(dims)) if dims else np.roll(self, shifts[0])


@define("aten::slice_copy.Tensor_out", ALL)
def _slice_copy(
    self: Array, dim: int, start: int | None, end: int | None, step: int, out: Out
) -> Result:
    return self[_along(dim, self.ndim, slice(start, end, step))]


@define("aten::select_copy.int_out", ALL)
def _select_copy(self: Array, dim: int, index: int, out: Out) -> Result:
    return np.asarray(np.take(self, index, axis=dim))


def _along(dim: int, rank: int, part: slice) -> tuple[slice, ...]:
    """An index that applies to one dimension only."""
    return tuple(part if axis == dim % rank else slice(None) for axis in range(rank))


@define("aten::cat.out", ALL)
def _cat(tensors: Sequence[Array], dim: int, out: Out) -> Result:
    # One-dimensional empty tensors are ignored, whatever the rank of the others.
    parts = [part for part in tensors if part.shape != (0,)] or list(tensors)
    return np.concatenate([_as(part, out[0]) for part in parts], axis=dim)


@define("aten::stack.out", ALL)
def _stack(tensors: Sequence[Array], dim: int, out: Out) -> Result:
    return np.stack([_as(part, out[0]) for part in tensors], axis=dim)


@define("aten::split_with_sizes_copy.out", ALL, outputs=None)
def _split_with_sizes_copy(self: Array, split_sizes: Sequence[int], dim: int, out: Out) -> Result:
    return tuple(np.split(self, np.cumsum(split_sizes)[:-1].tolist(), axis=dim))


@define("aten::split_copy.Tensor_out", ALL, outputs=None)
def _split_copy(self: Array, split_size: int, dim: int, out: Out) -> Result:
    extent = self.shape[dim]
    return tuple(np.split(self, range(split_size, extent, split_size), axis=dim))


@define("aten::unbind_copy.int_out", ALL, outputs=None)
def _unbind_copy(self: Array, dim: int, out: Out) -> Result:
    return tuple(np.moveaxis(self, dim, 0))


def _demand_padded(array: Array, pairs: Sequence[tuple[int, int]]) -> None:
    """Ask for the memory of an array with `pairs` of elements around it."""
    extents = [n + sum(pair) for n, pair in zip(array.shape, pairs, strict=True)]
    budget.demand(math.prod(extents) * array.itemsize, f"a tensor padded to {extents}")


@define("aten::constant_pad_nd.out", ALL)
def _constant_pad_nd(self: Array, pad: Sequence[int], value: Number, out: Out) -> Result:
    # Pairs (before, after) start at the innermost dimension; the library refuses to crop.
    if len(pad) % 2 or any(amount < 0 for amount in pad):
        raise SimulationError("padding must be pairs of numbers from 0", reason=f"{pad}")
    pairs = [(0, 0)] * self.ndim
    for number in range(len(pad) // 2):
        pairs[self.ndim - 1 - number] = (pad[2 * number], pad[2 * number + 1])
    _demand_padded(self, pairs)
    return np.pad(self, pairs, constant_values=_as(value, self.dtype).item())


@define("aten::reflection_pad2d.out", ALL)
def _reflection_pad2d(self: Array, padding: Sequence[int], out: Out) -> Result:
    left, right, top, bottom = padding
    grow = [(0, 0)] * (self.ndim - 2) + [(top, bottom), (left, right)]
    _demand_padded(self, grow)
    return np.pad(self, grow, mode="reflect")


@define("aten::gather.out", ALL)
def _gather(self: Array, dim: int, index: Array, sparse_grad: bool, out: Out) -> Result:
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[dim] = index
    return np.asarray(self[tuple(grid)])


@define("aten::scatter.src_out", ALL)
def _scatter(self: Array, dim: int, index: Array, src: Array, out: Out) -> Result:
    result = self.copy()
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[dim] = index
    result[tuple(grid)] = src[tuple(slice(extent) for extent in index.shape)]
    return result


@define("aten::index_select.out", ALL)
def _index_select(self: Array, dim: int, index: Array, out: Out) -> Result:
    return np.take(self, index, axis=dim)


@define("aten::embedding.out", ALL)
def _embedding(
    weight: Array,
    indices: Array,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
    out: Out,
) -> Result:
    return np.take(weight, indices, axis=0)


@define("aten::tril.out", ALL)
def _tril(self: Array, diagonal: int, out: Out) -> Result:
    return np.tril(self, diagonal)


@define("aten::pixel_shuffle.out", ALL)
def _pixel_shuffle(self: Array, upscale_factor: int, out: Out) -> Result:
    r = upscale_factor
    *batch, channels, height, width = self.shape
    split = self.reshape(-1, channels // (r * r), r, r, height, width)
    moved = split.transpose(0, 1, 4, 2, 5, 3)
    return moved.reshape(*batch, channels // (r * r), height * r, width * r)


@define("aten::pixel_unshuffle.out", ALL)
def _pixel_unshuffle(self: Array, downscale_factor: int, out: Out) -> Result:
    r = downscale_factor
    *batch, channels, height, width = self.shape
    split = self.reshape(-1, channels, height // r, r, width // r, r)
    moved = split.transpose(0, 1, 3, 5, 2, 4)
    return moved.reshape(*batch, channels * r * r, height // r, width // r)


@define("aten::upsample_nearest2d.vec_out", REAL)
def _upsample_nearest2d(
    input: Array,
    output_size: Sequence[int] | None,
    scale_factors: Sequence[float] | None,
    out: Out,
) -> Result:
    rows, columns = (
        _nearest(extent, axis, output_size, scale_factors)
        for axis, extent in enumerate(input.shape[2:])
    )
    return input[:, :, rows][:, :, :, columns]


def _nearest(
    extent: int,
    axis: int,
    output_size: Sequence[int] | None,
    scale_factors: Sequence[float] | None,
) -> Array:
    """Source index of every output position along one axis."""
    if output_size is not None:
        size = output_size[axis]
        step = np.float32(extent) / np.float32(size)
    elif scale_factors is not None:
        size = int(extent * scale_factors[axis])
        step = np.float32(1 / scale_factors[axis])
    else:
        raise SimulationError("resizing needs a size or scale factors")
    places = np.floor(np.arange(size, dtype=np.float32) * step).astype(np.int64)
    return np.asarray(np.minimum(places, extent - 1))
