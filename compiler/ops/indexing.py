"""Operators that read and write elements at places that other operands name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.definition import (
    Arrays,
    Call,
    Expected,
    Exported,
    Imported,
    Operator,
    TypeRuleError,
    define,
    demand,
)
from fitzroy.compiler.ops.elementwise import requantized
from fitzroy.compiler.ops.shape import ReshapeAttributes, Shape, normalized_axis, static
from fitzroy.formats import tflite
from fitzroy.hw_models.numerics import Arithmetic

INDEX_TYPES = (DType.INT32, DType.INT64)


def index_type(type: TensorType, what: str) -> None:
    """Demand plain int32 or int64.

    Raises:
        TypeRuleError: they are something else.
    """
    demand(
        type.dtype in INDEX_TYPES and not type.is_quantized,
        f"{what} are {type.dtype.value}, neither int32 nor int64",
    )


def within(call: Call, indices: Array, shape: Shape) -> None:
    """Refuse indices outside of a shape, of which the last axis of `indices` holds one each.

    Raises:
        UsageError: naming the first of them.
    """
    limits = np.array(shape[: indices.shape[-1]], indices.dtype)
    outside = ((indices < 0) | (indices >= limits)).any(axis=-1)
    if outside.any():
        first = indices[outside][0].tolist()
        raise UsageError(f"the index {first} of shape {list(shape)}", where=call.node.name)


def known_within(call: Call, operand: int, shape: Shape) -> None:
    """Refuse constant indices outside of a shape; those of run time are judged then.

    Raises:
        TypeRuleError: naming the first of them.
    """
    data = call.operand(operand).data
    if data is not None:
        try:
            within(call, data, shape)
        except UsageError as error:
            raise TypeRuleError(error.what) from None


@define
class GatherNd(Operator):
    """Parts of the first operand, each named by a row of leading indices."""

    name = "gather_nd"
    operands = ("input", "indices")
    moves = True
    tflite = ("GATHER_ND",)
    table = "GatherNdOptions"

    def infer(self, call: Call) -> Sequence[Expected]:
        x, indices = call.type(0), call.type(1)
        index_type(indices, "indices")
        demand(indices.rank >= 1, "indices are a scalar")
        count = indices.shape[-1]
        demand(count <= x.rank, f"{count} indices of {x.rank} dimensions")
        known_within(call, 1, x.shape)
        return [Expected((*indices.shape[:-1], *x.shape[count:]), x.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, indices = arrays
        assert x is not None
        assert indices is not None
        within(call, indices, x.shape)
        found = x[tuple(np.moveaxis(indices, -1, 0))]
        if not indices.shape[-1]:
            found = np.broadcast_to(x, call.result.type.shape)
        return [requantized(np.array(found), call.type(0), call.result.type)]


@define
class ScatterNd(Operator):
    """Zeros of a shape, to which updates are added at rows of leading indices."""

    name = "scatter_nd"
    operands = ("indices", "updates")
    attributes = ReshapeAttributes
    tflite = ("SCATTER_ND",)

    def infer(self, call: Call) -> Sequence[Expected]:
        shape = call.attributes(ReshapeAttributes).shape
        indices, updates = call.type(0), call.type(1)
        index_type(indices, "indices")
        demand(not updates.is_quantized, "updates are quantized")
        demand(indices.rank >= 1 and min(shape, default=0) >= 0, "indices are a scalar")
        count = indices.shape[-1]
        demand(count <= len(shape), f"{count} indices of {len(shape)} dimensions")
        wanted = (*indices.shape[:-1], *shape[count:])
        demand(
            updates.shape == wanted, f"updates of shape {list(updates.shape)}, not {list(wanted)}"
        )
        known_within(call, 0, shape)
        return [Expected(shape, updates.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        indices, updates = arrays
        assert indices is not None
        assert updates is not None
        shape = call.result.type.shape
        within(call, indices, shape)
        result = np.zeros(shape, updates.dtype)
        places = tuple(np.moveaxis(indices, -1, 0))
        if updates.dtype == bool:
            np.logical_or.at(result, places, updates)
        else:
            np.add.at(result, places, updates)
        return [result]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(ReshapeAttributes(static(call, 2, "shape")), (0, 1))

    def to_tflite(self, call: Call) -> Exported:
        shape = np.array(call.result.type.shape, call.type(0).dtype.numpy)
        return Exported("SCATTER_ND", tflite.ScatterNdOptions(), (0, 1, shape))


@dataclass(frozen=True)
class TopKAttributes(Attributes):
    """Attributes of a choice of the largest: how many."""

    k: int = 1


@define
class TopK(Operator):
    """The largest elements along the last axis, largest first, and their indices."""

    name = "top_k"
    attributes = TopKAttributes
    results = 2
    tflite = ("TOPK_V2",)

    def infer(self, call: Call) -> Sequence[Expected]:
        type, k = call.type(), call.attributes(TopKAttributes).k
        demand(type.rank >= 1, "a scalar has no last axis")
        demand(0 <= k <= type.shape[-1], f"the largest {k} of {type.shape[-1]}")
        demand(call.result.type.quantization == type.quantization, "results have another scale")
        shape = (*type.shape[:-1], k)
        return [Expected(shape, type.dtype), Expected(shape, DType.INT32)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        (x,) = arrays
        assert x is not None
        k = call.attributes(TopKAttributes).k
        # A stable order of the elements turned around keeps the first of equal ones first.
        last = x.shape[-1] - 1
        order = last - np.argsort(np.flip(x, -1), axis=-1, kind="stable")[..., ::-1][..., :k]
        return [np.take_along_axis(x, order, axis=-1), order.astype(np.int32)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(TopKAttributes(static(call, 1, "number of results")[0]), (0,))

    def to_tflite(self, call: Call) -> Exported:
        k = np.array(call.attributes(TopKAttributes).k, np.int32)
        return Exported("TOPK_V2", tflite.TopKV2Options(), (0, k))


@dataclass(frozen=True)
class OneHotAttributes(Attributes):
    """Attributes of the spelling of indices as vectors: the axis of those, and their length."""

    axis: int = 0
    depth: int = 0


@define
class OneHot(Operator):
    """Along a new axis, `on` at the position of the index and `off` elsewhere."""

    name = "one_hot"
    operands = ("indices", "on", "off")
    attributes = OneHotAttributes
    tflite = ("ONE_HOT",)

    def infer(self, call: Call) -> Sequence[Expected]:
        a, indices, on, off = (call.attributes(OneHotAttributes), *map(call.type, range(3)))
        index_type(indices, "indices")
        demand(on.size == off.size == 1 and on == off, "on and off are scalars of one type")
        demand(call.result.type.quantization == on.quantization, "the result has another scale")
        demand(0 <= a.axis <= indices.rank and a.depth >= 0, f"axis {a.axis}, length {a.depth}")
        shape = (*indices.shape[: a.axis], a.depth, *indices.shape[a.axis :])
        return [Expected(shape, on.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        indices, on, off = arrays
        assert indices is not None
        assert on is not None
        assert off is not None
        a = call.attributes(OneHotAttributes)
        places = np.arange(a.depth).reshape([-1, *(1,) * (indices.ndim - a.axis)])
        return [
            np.where(np.expand_dims(indices, a.axis) == places, on.reshape(()), off.reshape(()))
        ]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        axis = normalized_axis(options.axis, call.type().rank + 1)
        return Imported(OneHotAttributes(axis, static(call, 1, "length")[0]), (0, 2, 3))

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(OneHotAttributes)
        depth = np.array(a.depth, np.int32)
        return Exported("ONE_HOT", tflite.OneHotOptions(axis=a.axis), (0, depth, 1, 2))


@define
class SparseToDense(Operator):
    """A tensor with a default value, except at the given indices."""

    name = "sparse_to_dense"
    operands = ("indices", "values", "default")
    attributes = ReshapeAttributes
    tflite = ("SPARSE_TO_DENSE",)

    def infer(self, call: Call) -> Sequence[Expected]:
        shape = call.attributes(ReshapeAttributes).shape
        indices, values, default = map(call.type, range(3))
        index_type(indices, "indices")
        rows, width = self._table(indices.shape, len(shape))
        demand(
            width == len(shape) and min(shape, default=1) > 0, f"{width} indices in {list(shape)}"
        )
        demand(values.shape in ((), (rows,)), f"{list(values.shape)} values for {rows} places")
        demand(default.size == 1 and default.dtype is values.dtype, "no default of the same type")
        demand(not values.is_quantized, "values are quantized")
        return [Expected(shape, values.dtype)]

    @staticmethod
    def _table(shape: Shape, rank: int) -> tuple[int, int]:
        """Rows and columns of the indices, which may leave both out."""
        if len(shape) == 2:
            return shape[0], shape[1]
        return (shape[0], 1) if shape else (1, 1)

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        indices, values, default = arrays
        assert indices is not None
        assert values is not None
        assert default is not None
        shape = call.result.type.shape
        table = indices.reshape(self._table(indices.shape, len(shape)))
        within(call, table, shape)
        result = np.full(shape, default.reshape(()), values.dtype)
        result[tuple(table.T)] = values
        return [result]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(ReshapeAttributes(static(call, 1, "shape")), (0, 2, 3))

    def to_tflite(self, call: Call) -> Exported:
        shape = np.array(call.result.type.shape, call.type(0).dtype.numpy)
        return Exported("SPARSE_TO_DENSE", tflite.SparseToDenseOptions(), (0, shape, 1, 2))


@define
class EmbeddingLookup(Operator):
    """Rows of the second operand, chosen by the first."""

    name = "embedding_lookup"
    operands = ("indices", "rows")
    tflite = ("EMBEDDING_LOOKUP",)

    def infer(self, call: Call) -> Sequence[Expected]:
        indices, rows = call.type(0), call.type(1)
        demand(indices.dtype is DType.INT32 and indices.rank == 1, "indices are an int32 vector")
        demand(rows.rank >= 2, f"a table of {rows.rank} dimensions")
        same = rows.quantization == call.result.type.quantization
        demand(same, "the result has another scale than the table")
        return [Expected((*indices.shape, *rows.shape[1:]), rows.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        indices, rows = arrays
        assert indices is not None
        assert rows is not None
        within(call, indices[:, None], rows.shape)
        return [rows[indices]]


@define
class DynamicUpdateSlice(Operator):
    """The first operand with a box replaced; a box that exceeds the bounds is moved inside."""

    name = "dynamic_update_slice"
    operands = ("input", "update", "start")
    moves = True
    tflite = ("DYNAMIC_UPDATE_SLICE",)

    def infer(self, call: Call) -> Sequence[Expected]:
        x, update, start = map(call.type, range(3))
        index_type(start, "the first indices")
        demand(
            start.shape == (x.rank,), f"{list(start.shape)} first indices of {x.rank} dimensions"
        )
        fits = update.rank == x.rank and all(
            n <= m for n, m in zip(update.shape, x.shape, strict=False)
        )
        demand(fits, f"a box of {list(update.shape)} in {list(x.shape)}")
        same = x.dtype is update.dtype and x.quantization == update.quantization
        demand(same and x.quantization == call.result.type.quantization, "types or scales differ")
        return [Expected(x.shape, x.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, update, start = arrays
        assert x is not None
        assert update is not None
        assert start is not None
        room = np.subtract(x.shape, update.shape)
        first = np.clip(start, 0, room).tolist()
        result = np.array(x)
        result[tuple(slice(b, b + n) for b, n in zip(first, update.shape, strict=True))] = update
        return [result]

    def to_tflite(self, call: Call) -> Exported:
        options = tflite.DynamicUpdateSliceOptions()
        return Exported("DYNAMIC_UPDATE_SLICE", options, version=2)


# --- segments ------------------------------------------------------------------------------------


@define
class SegmentSum(Operator):
    """Sums of rows with the same segment number; numbers rise from 0 in steps of 0 or 1."""

    name = "segment_sum"
    operands = ("input", "numbers")
    tflite = ("SEGMENT_SUM",)
    table = "SegmentSumOptions"

    def infer(self, call: Call) -> Sequence[Expected]:
        x, numbers = call.type(0), call.constant(1)
        demand(numbers is not None, "the number of results depends on data computed at run time")
        assert numbers is not None
        demand(call.type(1).dtype is DType.INT32, "numbers are int32")
        demand(x.dtype in (DType.FLOAT32, DType.INT32) and not x.is_quantized, f"rows are {x}")
        demand(x.rank >= 1 and len(numbers) == x.shape[0], f"{len(numbers)} numbers")
        steps = {after - before for before, after in pairwise((0, *numbers))}
        demand(steps <= {0, 1}, "numbers do not begin at 0 and rise by 0 or 1")
        return [Expected((max(numbers, default=-1) + 1, *x.shape[1:]), x.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, numbers = arrays
        assert x is not None
        assert numbers is not None
        result = np.zeros(call.result.type.shape, x.dtype)
        np.add.at(result, numbers, x)
        return [result]


@dataclass(frozen=True)
class SegmentAttributes(Attributes):
    """Attributes of reductions over segments: how many there are."""

    segments: int = 0


class UnsortedSegment(Operator):
    """Base of reductions over elements with the same number; negative numbers are left out.

    Class attributes:
        function: numpy's reduction of two elements.
    """

    operands = ("input", "numbers")
    attributes = SegmentAttributes
    function: ClassVar[np.ufunc]

    def empty(self, dtype: DType) -> float | int:
        """The result of a segment without elements."""
        raise NotImplementedError

    def infer(self, call: Call) -> Sequence[Expected]:
        x, numbers = call.type(0), call.type(1)
        count = call.attributes(SegmentAttributes).segments
        index_type(numbers, "numbers")
        demand(x.dtype in (DType.FLOAT32, DType.INT32) and not x.is_quantized, f"elements are {x}")
        demand(
            numbers.rank >= 1 and numbers.shape == x.shape[: numbers.rank],
            f"numbers of shape {list(numbers.shape)} for {list(x.shape)}",
        )
        demand(count > 0, f"{count} segments")
        return [Expected((count, *x.shape[numbers.rank :]), x.dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, numbers = arrays
        assert x is not None
        assert numbers is not None
        type = call.result.type
        chosen = numbers >= 0
        within(call, numbers[chosen][:, None], type.shape)
        result = np.full(type.shape, self.empty(type.dtype), x.dtype)
        self.function.at(result, numbers[chosen], x[chosen])
        return [result]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        return Imported(SegmentAttributes(static(call, 2, "number of segments")[0]), (0, 1))

    def to_tflite(self, call: Call) -> Exported:
        count = np.array(call.attributes(SegmentAttributes).segments, np.int32)
        return Exported(self.tflite[0], self.options(), (0, 1, count))


@define
class UnsortedSegmentSum(UnsortedSegment):
    """Sums of the elements with the same number."""

    name = "unsorted_segment_sum"
    tflite = ("UNSORTED_SEGMENT_SUM",)
    table = "UnsortedSegmentSumOptions"
    function = np.add

    def empty(self, dtype: DType) -> float | int:
        return 0


@define
class UnsortedSegmentProd(UnsortedSegment):
    """Products of the elements with the same number."""

    name = "unsorted_segment_prod"
    tflite = ("UNSORTED_SEGMENT_PROD",)
    table = "UnsortedSegmentProdOptions"
    function = np.multiply

    def empty(self, dtype: DType) -> float | int:
        return 1


def _limits(dtype: DType) -> tuple[float | int, float | int]:
    if dtype.is_float:
        return float(np.finfo(dtype.numpy).min), float(np.finfo(dtype.numpy).max)
    return dtype.limits


@define
class UnsortedSegmentMax(UnsortedSegment):
    """Largest of the elements with the same number."""

    name = "unsorted_segment_max"
    tflite = ("UNSORTED_SEGMENT_MAX",)
    table = "UnsortedSegmentMaxOptions"
    function = np.maximum

    def empty(self, dtype: DType) -> float | int:
        return _limits(dtype)[0]


@define
class UnsortedSegmentMin(UnsortedSegment):
    """Smallest of the elements with the same number."""

    name = "unsorted_segment_min"
    tflite = ("UNSORTED_SEGMENT_MIN",)
    table = "UnsortedSegmentMinOptions"
    function = np.minimum

    def empty(self, dtype: DType) -> float | int:
        return _limits(dtype)[1]
