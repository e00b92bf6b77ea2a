"""Products of matrices: rows of an operand as pixels.

A constant second matrix makes them a convolution of 1 x 1, several make one each, and a computed
one a `MatrixProduct`.
Products in windows of an image, of which tiles own whole ones, are one `WindowProduct`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.ir import Value
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, Shape, TransposeAttributes
from fitzroy.compiler.ops.windows import Activation, FusedFunction
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.layer import POINT
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.layers.rewriting import Rewriting
from fitzroy.compiler.targets.edgetpu.lowerings.as_convolution import as_convolution, convolution_of
from fitzroy.compiler.targets.edgetpu.lowerings.constants import put_in_memory
from fitzroy.compiler.targets.edgetpu.lowerings.joined_products import joined_shapes
from fitzroy.compiler.targets.edgetpu.lowerings.matrix_product import (
    MOST_BYTES,
    MOST_SUMMANDS,
    MatrixProduct,
)
from fitzroy.compiler.targets.edgetpu.lowerings.window_product import WindowProduct
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD, round_up
from fitzroy.compiler.targets.edgetpu.parameters.requantization import product_stage
from fitzroy.compiler.targets.edgetpu.reshaping.reshape import as_image_of, as_vector
from fitzroy.compiler.targets.edgetpu.reshaping.rows_as_pixels import as_positions, from_positions
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector
from fitzroy.compiler.targets.edgetpu.reshaping.windows import (
    divides_evenly,
    grid_of,
    has_whole_windows,
    heads_divide_evenly,
)

MOST_MATRICES = 64
"""Products of computed matrices that an operator is divided into, each with a gather of its own."""

MOST_HEADS = 32
"""Products in windows that an operator is divided into, one for each head of an attention."""

_WINDOW_RANK = 3
"""Axes of a product in windows: windows, pixels of each, and channels."""


def multiplied_rows(
    legalizer: Legalizer, call: Call, weights: Array, activation: FusedFunction
) -> None:
    """Rows of an operand times a matrix, as a convolution of 1 x 1.

    Args:
        legalizer: the graph.
        call: the operator.
        weights: the weights [O,I], in the quantization of its second operand.
        activation: fused function.
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
    """The second operand is known, or there is a computed one for each first."""
    right = call.operand(1)
    for value in (call.operand(0), right):
        if value.is_constant and not value.type.is_eight_bit:
            yield refused(call, f"with {value.type}, not quantized with one scale")
    if right.data is None:
        yield from _computed(call)
        return
    if _count(right.type) != 1:
        yield from _known(call)


def _known(call: Call) -> Iterator[Reject]:
    """Several known matrices multiply as many others, or one."""
    count, first = _count(call.result.type), _count(call.type(0))
    if first not in (1, count):
        what = f"multiplies tensors of {first} and {_count(call.type(1))} matrices"
        yield refused(call, what, "repeat the matrices of which there are fewer")
    if count > MOST_MATRICES:
        what = f"has {count} matrices, {MOST_MATRICES} are possible"
        yield refused(call, what, "divide it by matrices")


def _count(type: TensorType) -> int:
    """How many matrices a tensor has."""
    return math.prod(type.shape[:-2])


def _computed(call: Call) -> Iterator[Reject]:
    """There are as many second matrices as products, each small enough to copy to every tile."""
    attributes = call.attributes(BatchMatMulAttributes)
    left, right = call.type(0).shape, call.type(1).shape
    known = call.operand(0).is_constant
    if not known:
        left, right = joined_shapes(left, right, attributes)
    counts = [math.prod(shape[:-2]) for shape in (left, right)]
    count = math.prod(np.broadcast_shapes(left[:-2], right[:-2]))
    # A constant first operand is repeated if it has too few.
    if any(found != count for found in counts[known:]):
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
    if count > MOST_MATRICES and not may_be_in_windows(call):
        what = f"has {count} matrices, {MOST_MATRICES} are possible"
        yield refused(call, what, "divide it by matrices")


def may_be_in_windows(call: Call) -> bool:
    """Whether a product is of pixels of windows, which all tiles own as many of.

    Its matrices are those of windows and, within these, of heads.
    """
    after, left = call.result.type.shape, call.type(0).shape
    heads = math.prod(after[1:-2])
    return (
        len(after) in (_WINDOW_RANK, _WINDOW_RANK + 1)
        and (divides_evenly(after[0]) or heads_divide_evenly(after[0], heads))
        and heads <= MOST_HEADS
        and not call.attributes(BatchMatMulAttributes).adj_x
        and after[-2] in (after[-1], left[-1])
    )


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
    if _count(right.type) > 1:
        _by_matrices(legalizer, call, attributes)
        return
    if attributes.adj_x and 1 not in left.type.shape[-2:]:
        _transposed(legalizer, call, attributes)
        return
    weights = right.data.reshape(right.type.shape[-2:])
    if not attributes.adj_y:
        weights = weights.T
    multiplied_rows(legalizer, call, np.ascontiguousarray(weights), Activation.NONE)


def _transposed(legalizer: Legalizer, call: Call, attributes: BatchMatMulAttributes) -> None:
    """Transpose the matrices of the first operand before they are multiplied."""
    rewriting, left = Rewriting.of(legalizer, call), call.operand(0).type
    rows, columns = left.shape[-2:]
    matrices = rewriting.reshape(call.operand(0).name, (1, _count(left), rows, columns))
    first = rewriting.reshape(_swapped(rewriting, matrices), (*left.shape[:-2], columns, rows))
    inputs = [first, call.operand(1).name]
    own = replace(attributes, adj_x=False)
    rewriting.emit("batch_matmul", inputs, call.result.type, own, result=call.result.name)
    rewriting.run(legalizer)


def _swapped(rewriting: Rewriting, name: str) -> str:
    """The matrices of a value [1,n,rows,columns], each transposed."""
    type = rewriting.graph.type(name)
    _, count, rows, columns = type.shape
    swapped = type.with_shape((1, count, columns, rows))
    return rewriting.emit("transpose", [name], swapped, TransposeAttributes((0, 1, 3, 2)))


def _product(legalizer: Legalizer, call: Call, attributes: BatchMatMulAttributes) -> None:
    """Two matrices, or as many products of two as there are."""
    if _in_windows(legalizer, call, attributes):
        return
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


def _in_windows(legalizer: Legalizer, call: Call, attributes: BatchMatMulAttributes) -> bool:
    """Add a layer for products [windows,pixels,C] in windows; whether it is possible."""
    after = call.result.type
    operands = [call.operand(0), call.operand(1)]
    shapes = {value.type.shape[:2] for value in operands}
    if not may_be_in_windows(call) or shapes != {after.shape[:-1]}:
        return False
    grid = _grid(legalizer, operands, after.shape)
    if grid is None:
        if _count(after) <= MOST_MATRICES:
            return False
        grid = grid_of(after.shape[0], after.shape[1])
    first, second = (_in_grid(legalizer, value, grid) for value in operands)
    stage = product_stage(call.type(0), call.type(1), after)

    def layer(result: str) -> WindowProduct:
        return WindowProduct(
            name=call.node.name,
            reads=(first, second),
            writes=result,
            stage=stage,
            columns=not attributes.adj_y,
            pixels=after.shape[1],
            summands=operands[0].type.shape[-1],
        )

    from_positions(legalizer, call.result, first, layer)
    return True


def _grid(legalizer: Legalizer, values: Sequence[Value], after: Shape) -> tuple[int, int] | None:
    """Rows and columns of the first operand that lies as an image of whole windows; None if none.

    Args:
        legalizer: the graph.
        values: the operands.
        after: shape of the result [windows,pixels,C].
    """
    for value in values:
        parts = legalizer.parts(value.name)
        shape = legalizer.type(parts[0]).shape
        image = len(parts) == 1 and not is_vector(legalizer, parts[0])
        if image and shape[-1] == value.type.shape[-1] and has_whole_windows(shape, *after[:2]):
            return shape[1], shape[2]
    return None


def _in_grid(legalizer: Legalizer, value: Value, grid: tuple[int, int]) -> str:
    """The place of a value as an image of some rows and columns.

    Raises:
        UnsupportedError: it is another one, and too large to be copied as a vector.
    """
    parts, shape = legalizer.parts(value.name), (1, *grid, value.type.shape[-1])
    single = len(parts) == 1 and not is_vector(legalizer, parts[0])
    if single and legalizer.type(parts[0]).shape == shape:
        return parts[0]
    return as_image_of(legalizer, as_vector(legalizer, value.name), shape, f"{value.name}.windows")


def _by_matrices(legalizer: Legalizer, call: Call, attributes: BatchMatMulAttributes) -> None:
    """The products one by one; the result is a view of them.

    Raises:
        UnsupportedError: there are too many, and they are not in windows of an image.
    """
    rewriting, after = Rewriting.of(legalizer, call), call.result.type
    count = _count(after)
    if count > MOST_MATRICES:
        raise UnsupportedError(
            f"{call.node.spelled} {call.node.name!r} has {count} matrices that are not windows of "
            f"one image, {MOST_MATRICES} are possible",
            hint="divide it by matrices",
        )
    sides = [_matrices_of(rewriting, call.operand(side)) for side in (0, 1)]
    single = replace(after, shape=(1, 1, *after.shape[-2:]))
    parts = []
    for number in range(count):
        left, right = (matrix(number) for matrix in sides)
        if attributes.adj_x:
            left = _swapped(rewriting, left)
        own = replace(attributes, adj_x=False)
        parts.append(rewriting.emit("batch_matmul", [left, right], single, own))
    together = replace(after, shape=(1, count, *after.shape[-2:]))
    joined = rewriting.emit("concatenation", parts, together, ConcatenationAttributes(1))
    rewriting.reshape(joined, after.shape, result=call.result.name)
    rewriting.run(legalizer)


def _matrices_of(rewriting: Rewriting, value: Value) -> Callable[[int], str]:
    """The matrices of an operand [1,1,rows,columns] by the number of a product.

    Known ones are constants, repeated where there are too few.
    """
    after, matrix = rewriting.call.result.type, value.type.shape[-2:]
    if value.data is not None:
        known = np.broadcast_to(value.data, (*after.shape[:-2], *matrix)).reshape(-1, 1, 1, *matrix)
        return lambda number: rewriting.graph.add_constant(
            f"{value.name}/matrix", known[number], value.type.quantization
        )
    count = _count(value.type)
    stacked = rewriting.reshape(value.name, (1, count, *matrix))
    return lambda number: stacked if count == 1 else rewriting.slice(stacked, 1, number, 1)
