"""Products with constant matrices: rows of an operand as pixels, and a convolution of 1 x 1."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.windows import Activation
from fitzroy.compiler.targets.edgetpu.layers.conditions import refused, requires
from fitzroy.compiler.targets.edgetpu.layers.layer import POINT
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer, legalizes
from fitzroy.compiler.targets.edgetpu.lowerings.as_convolution import as_convolution, convolution_of
from fitzroy.compiler.targets.edgetpu.reshaping.rows_as_pixels import as_positions, from_positions


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
def _one_matrix(call: Call) -> Iterator[Reject]:
    """The second operand is one matrix that is known."""
    attributes, right = call.attributes(BatchMatMulAttributes), call.operand(1)
    if right.data is None:
        yield refused(call, "of two operands that are computed", "make one of them constant")
    if math.prod(right.type.shape[:-2]) != 1:
        what = f"with {math.prod(right.type.shape[:-2])} matrices, one is possible"
        yield refused(call, what, "divide it by matrices")
    if attributes.adj_x and 1 not in call.type().shape[-2:]:
        yield refused(call, "transposes its first operand", "transpose it before")
    if right.type.quantization is None or not right.type.quantization.is_per_tensor:
        yield refused(call, f"with {right.type}, not quantized with one scale")


@legalizes("batch_matmul")
def _batch_matmul(legalizer: Legalizer, call: Call) -> None:
    attributes, right = call.attributes(BatchMatMulAttributes), call.operand(1)
    assert right.data is not None, "a condition of the operator"
    weights = right.data.reshape(right.type.shape[-2:])
    if not attributes.adj_y:
        weights = weights.T
    multiplied_rows(legalizer, call, np.ascontiguousarray(weights), Activation.NONE)
