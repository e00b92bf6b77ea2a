"""ONNX's matrix products."""

from __future__ import annotations

import numpy as np

from fitzroy.compiler.frontends.onnx.builder import Builder, parts_of
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.registry import imports
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor, identity
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes


@imports("Gemm")
def gemm(op: Operation) -> Tensor:
    """``alpha * A * B + beta * C``, with A and B transposed on request."""
    a, b, c, build = op.input(0), op.input(1), op.optional(2), op.build
    if a.rank != 2 or b.rank != 2:
        raise Refusal("onnx-rank", f"Gemm of {a.rank} and {b.rank} dimensions, not 2")
    alpha, beta = op.number("alpha", 1.0), op.number("beta", 1.0)
    a = build.transpose(a, (1, 0)) if op.integer("transA") else a
    b = build.transpose(b, (1, 0)) if op.integer("transB") else b
    if a.shape[1] != b.shape[0]:
        raise Refusal("onnx-type-rule", f"{a.shape[1]} columns times {b.shape[0]} rows")
    if alpha != 1:
        b = _scaled(build, b, alpha)
    if c is not None and beta != 1:
        c = _scaled(build, c, beta)
    if (
        c is not None
        and c.data is not None
        and c.size in (1, b.shape[1])
        and c.shape[-1:] != (a.shape[0],)
    ):
        bias = np.broadcast_to(c.data.reshape(-1), (b.shape[1],))
        return connected(build, a, b, build.constant(np.ascontiguousarray(bias), c.name))
    if c is not None and c.data is not None and c.shape in ((b.shape[1],), (1, b.shape[1])):
        return connected(build, a, b, build.constant(c.data.reshape(-1), c.name))
    if c is not None and build.is_coded(c) and build.is_coded(b) and c.rank == 1:
        return connected(build, a, b, c)
    result = connected(build, a, b, None)
    return result if c is None else build.add(result, c)


def _scaled(build: Builder, x: Tensor, factor: float) -> Tensor:
    if x.data is not None:
        return build.constant((x.data * np.float32(factor)).astype(x.data.dtype), x.name)
    return build.mul(x, build.scalar(factor, x))


def connected(build: Builder, x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    """Rows [...,K] times a matrix [K,N]; an offset is added."""
    if build.is_coded(kernel) and x.data is None and x.rank > 0:
        x = build.plain(x)
        order = (*(axis for axis in x.perm if axis != x.rank - 1), x.rank - 1)
        rows = (build.value(x, order), order)
        return _connect(build, rows, build.value(kernel, (1, 0)), bias)
    if kernel.data is None or x.data is not None or x.rank < 1:
        result = multiplied(build, x, kernel)
        return result if bias is None else build.add(result, bias)
    if not x.is_plain and len(parts_of(x)[-1]) == 1:
        x = build.plain(x)
    if x.is_plain:
        order = (*(axis for axis in x.perm if axis != x.rank - 1), x.rank - 1)
        name = build.value(x, order)
    else:
        name, kernel, order = _reordered(build, x, kernel)
    return _connect(build, (name, order), build.value(kernel, (1, 0)), bias)


def _connect(
    build: Builder, rows: tuple[str, tuple[int, ...]], filter: str, bias: Tensor | None
) -> Tensor:
    """Rows, a value and its layout, times the rows of a filter [N,K]."""
    name, order = rows
    operands = [name, filter] + ([] if bias is None else [build.value(bias)])
    attributes = FullyConnectedAttributes(keep_num_dims=len(order) > 2)
    return build.variable(build.emit("fully_connected", operands, attributes), order)


def _reordered(build: Builder, x: Tensor, kernel: Tensor) -> tuple[str, Tensor, tuple[int, ...]]:
    """Rows whose elements are stored in another order, and a matrix whose rows follow them."""
    parts = parts_of(x)[-1]
    outer = parts[0]
    inner = [axis for axis in x.perm if axis in parts]
    if list(x.perm[-len(parts) :]) != inner or len(parts_of(x)) != outer + 1:
        x = build.plain(x)
        return build.value(x), kernel, identity(x.rank)
    from fitzroy.compiler.ops.shape import ReshapeAttributes

    lead = x.perm[: -len(parts)]
    shape = (*(x.split[axis] for axis in lead), x.shape[-1])
    name = build.emit("reshape", [x.name], ReshapeAttributes(shape))
    assert kernel.data is not None, "a constant"
    cube = kernel.data.reshape(*(x.split[axis] for axis in parts), -1)
    moved = cube.transpose(*(axis - outer for axis in inner), len(parts))
    return name, build.constant(moved.reshape(kernel.shape), kernel.name), (*lead, outer)


@imports("MatMul")
def matmul(op: Operation) -> Tensor:
    """Matrix product of the last two dimensions, with broadcasting of the others."""
    return product(op.build, op.input(0), op.input(1))


def product(build: Builder, a: Tensor, b: Tensor) -> Tensor:
    """Matrix product of the last two dimensions, of which one operand may have fewer.

    Raises:
        Refusal: the shapes do not fit.
    """
    if not a.rank or not b.rank:
        raise Refusal("onnx-rank", "MatMul of a scalar")
    if a.shape[-1] != b.shape[max(b.rank - 2, 0)]:
        raise Refusal("onnx-type-rule", f"shapes {list(a.shape)} and {list(b.shape)} do not fit")
    if b.rank == 2:
        return connected(build, a, b, None)
    if a.rank > 1 and b.rank > 1:
        return multiplied(build, a, b)
    left = build.reshape(a, (1, *a.shape)) if a.rank == 1 else a
    right = build.reshape(b, (*b.shape, 1)) if b.rank == 1 else b
    result = multiplied(build, left, right)
    shape = list(result.shape)
    if b.rank == 1:
        shape.pop()
    if a.rank == 1:
        shape.pop(-1 if b.rank == 1 else -2)
    return build.reshape(result, tuple(shape))


def multiplied(build: Builder, a: Tensor, b: Tensor) -> Tensor:
    """Product of matrices in the last two dimensions, of which one may be stored transposed."""
    if a.rank < 2:
        row = multiplied(build, build.reshape(a, (1, *a.shape)), b)
        return build.reshape(row, (*row.shape[:-2], row.shape[-1]))
    names, swapped = [], []
    for tensor in (a, b):
        tensor = build.plain(tensor)
        rank = tensor.rank
        order = (*range(rank - 2), rank - 1, rank - 2)
        is_swapped = tensor.data is None and tensor.perm == order
        names.append(build.value(tensor, order if is_swapped else identity(rank)))
        swapped.append(is_swapped)
    return build.variable(build.emit("batch_matmul", names, BatchMatMulAttributes(*swapped)))
