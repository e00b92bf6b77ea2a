"""Products of matrices: rows of an operand as pixels.

A constant second matrix makes them a convolution of 1 x 1, a computed one a `MatrixProduct`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, TransposeAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.layer import POINT
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.lowerings.as_convolution import as_convolution, convolution_of
from fitzroy.compiler.targets.edgetpu.lowerings.constants import put_in_memory
from fitzroy.compiler.targets.edgetpu.lowerings.matrix_product import (
    MOST_BYTES,
    MOST_SUMMANDS,
    MatrixProduct,
)
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD, round_up
from fitzroy.compiler.targets.edgetpu.parameters.requantization import product_stage
from fitzroy.compiler.targets.edgetpu.reshaping.rows_as_pixels import as_positions, from_positions

MOST_MATRICES = 64
"""Products of computed matrices that an operator is divided into."""


def multiplied_rows(
    legalizer: Legalizer, call: Call, weights: Array, activation: Activation
) -> None:
    """Rows of an operand times a matrix, as a convolution of 1 x 1.

    Args:
        legalizer: the graph.
        call: the operator.
        weights: the weights [O,I], in the quantization of its second operand.
        activation: fused clamp.
    """
    channels, depth = weights.shape
    source = as_positions(legalizer, call.node.inputs[0] or "", depth)
    kernel = weights.reshape(channels, 1, 1, depth)
    own, product = as_convolution(legalizer, call, call.node.name, kernel, activation)
    from_positions(
        legalizer,
        call.result,
        source,
        lambda result: convolution_of(own, product, source, result, POINT),
    )


@requires("batch_matmul")
def _matrices(call: Call) -> Iterator[Reject]:
    """The second operand is one matrix that is known, or there is a computed one for each first."""
    attributes, right = call.attributes(BatchMatMulAttributes), call.operand(1)
    for value in (call.operand(0), right):
        if value.is_constant and not value.type.is_eight_bit:
            yield refused(call, f"with {value.type}, not quantized with one scale")
    if right.data is None:
        yield from _computed(call)
        return
    if _count(right.type) != 1:
        what = f"with {_count(right.type)} matrices, one is possible"
        yield refused(call, what, "divide it by matrices")
    if attributes.adj_x and 1 not in call.type().shape[-2:]:
        yield refused(call, "transposes its first operand", "transpose it before")


def _count(type: TensorType) -> int:
    """How many matrices a tensor has."""
    return math.prod(type.shape[:-2])


def _computed(call: Call) -> Iterator[Reject]:
    """There are as many second matrices as products, each small enough to copy to every tile."""
    attributes, count = call.attributes(BatchMatMulAttributes), _count(call.result.type)
    left, right = call.type(0).shape, call.type(1).shape
    counts = [_count(call.type(index)) for index in range(2)]
    # A constant first operand is repeated if it has too few.
    if any(found != count for found in counts[call.operand(0).is_constant :]):
        what = f"multiplies tensors of {counts[0]} and {counts[1]} matrices"
        yield refused(call, what, "repeat the matrices of which there are fewer")
    summands = left[-2] if attributes.adj_x else left[-1]
    if summands > MOST_SUMMANDS:
        what = f"adds {summands} products, {MOST_SUMMANDS} are possible"
        yield refused(call, what, "divide it, and add the parts")
    nbytes = round_up(right[-2], WORD) * round_up(right[-1], WORD)
    if nbytes > MOST_BYTES:
        what = f"copies a matrix of {nbytes} bytes to every tile, {MOST_BYTES} are possible"
        yield refused(call, what, "divide it by columns")
    if count > MOST_MATRICES:
        what = f"has {count} matrices, {MOST_MATRICES} are possible"
        yield refused(call, what, "divide it by matrices")


@legalizes("batch_matmul")
def _batch_matmul(legalizer: Legalizer, call: Call) -> None:
    attributes = call.attributes(BatchMatMulAttributes)
    left, right = call.operand(0), call.operand(1)
    if left.data is not None:
        # Kernels read rows from narrow memory only.
        shape = (*call.result.type.shape[:-2], *left.type.shape[-2:])
        repeated = replace(
            left, type=left.type.with_shape(shape), data=np.broadcast_to(left.data, shape)
        )
        put_in_memory(legalizer, call, [repeated])
        return
    if right.data is None:
        _product(legalizer, call, attributes)
        return
    weights = right.data.reshape(right.type.shape[-2:])
    if not attributes.adj_y:
        weights = weights.T
    multiplied_rows(legalizer, call, np.ascontiguousarray(weights), Activation.NONE)


def _product(legalizer: Legalizer, call: Call, attributes: BatchMatMulAttributes) -> None:
    """Two matrices, or as many products of two as there are."""
    if _count(call.result.type) != 1 or attributes.adj_x:
        _by_matrices(legalizer, call, attributes)
        return
    first, second = (
        as_positions(legalizer, value.name, value.type.shape[-1])
        for value in (call.operand(0), call.operand(1))
    )
    stage = product_stage(call.type(0), call.type(1), call.result.type)

    def layer(result: str) -> MatrixProduct:
        return MatrixProduct(
            name=call.node.name,
            reads=(first, second),
            writes=result,
            stage=stage,
            columns=not attributes.adj_y,
        )

    from_positions(legalizer, call.result, first, layer)


def _by_matrices(legalizer: Legalizer, call: Call, attributes: BatchMatMulAttributes) -> None:
    """The products one by one; the result is a view of them."""
    rewriting, after = Rewriting.of(legalizer, call), call.result.type
    count = _count(after)
    stacked = [
        rewriting.reshape(value.name, (1, count, *value.type.shape[-2:]))
        for value in (call.operand(0), call.operand(1))
    ]
    single = replace(after, shape=(1, 1, *after.shape[-2:]))
    parts = []
    for number in range(count):
        left, right = (
            name if count == 1 else rewriting.slice(name, 1, number, 1) for name in stacked
        )
        if attributes.adj_x:
            type = rewriting.graph.type(left)
            swapped = replace(type, shape=(1, 1, type.shape[3], type.shape[2]))
            left = rewriting.emit("transpose", [left], swapped, TransposeAttributes((0, 1, 3, 2)))
        own = replace(attributes, adj_x=False)
        parts.append(rewriting.emit("batch_matmul", [left, right], single, own))
    together = replace(after, shape=(1, count, *after.shape[-2:]))
    joined = rewriting.emit("concatenation", parts, together, ConcatenationAttributes(1))
    rewriting.reshape(joined, after.shape, result=call.result.name)
    rewriting.run(legalizer)
