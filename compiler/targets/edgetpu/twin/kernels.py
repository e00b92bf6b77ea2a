"""Which operators of the twin have fast kernels; what is not here is computed by `semantics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.twin import elementwise, filters, places
from fitzroy.compiler.targets.edgetpu.twin.codes import Kernel, Single
from fitzroy.compiler.targets.edgetpu.twin.semantics import OPERATORS, Operator

Preparation = Callable[[Call], Single | None]
"""The kernel of an operator with one result; None if there is none for such operands."""

KERNELS: Mapping[str, Preparation] = {
    "conv_2d": filters.conv_2d,
    "depthwise_conv_2d": filters.depthwise_conv_2d,
    "transpose_conv": filters.transpose_conv,
    "fully_connected": filters.fully_connected,
    "batch_matmul": filters.batch_matmul,
    "add": elementwise.summed(1),
    "sub": elementwise.summed(-1),
    "mul": elementwise.product,
    "maximum": elementwise.extremum(np.maximum),
    "minimum": elementwise.extremum(np.minimum),
    "prelu": elementwise.prelu,
    "quantize": elementwise.converted,
    "clamp": elementwise.converted,
    "softmax": elementwise.softmax,
    "l2_normalization": elementwise.l2_normalization,
    "average_pool_2d": places.average_pool_2d,
    "max_pool_2d": places.max_pool_2d,
    "mean": places.mean,
    "sum": places.mean,
    "reduce_max": places.reduced(np.maximum),
    "reduce_min": places.reduced(np.minimum),
    "concatenation": places.concatenation,
    "pack": places.pack,
    "pad": places.padded,
    "reshape": places.reshape,
    "resize_bilinear": places.resize_bilinear,
}
"""Kernels of programs of this compiler."""

_MOVED = (
    "transpose", "strided_slice", "split", "unpack", "gather", "space_to_depth", "depth_to_space",
    "tile", "broadcast_to", "reverse", "mirror_pad", "resize_nearest_neighbor",
)  # fmt: skip


_MIXED = ("add", "sub", "mul", "maximum", "minimum", "prelu", "batch_matmul", "concatenation")
"""Operators any of whose operands may be constant."""

_LINEAR = ("quantize", "clamp")
"""Functions of one code that are faster computed than looked up."""


def kernel_of(
    call: Call,
    operators: Mapping[str, Operator] = OPERATORS,
    kernels: Mapping[str, Preparation] = KERNELS,
) -> Kernel | None:
    """A kernel for an operator; None if there is none, or none for such operands.

    Args:
        call: the operator.
        operators: operators whose results are not those of their declarations.
        kernels: kernels of operators with one result.

    Raises:
        UnsupportedError: the operator has no arithmetic on the chip.
    """
    op = call.node.op
    computed = [value for value in call.inputs if value and value.data is None]
    if not computed or not all(value.type.is_eight_bit for value in (*computed, *call.outputs)):
        return None
    if op in _MIXED and not all(value.type.is_eight_bit for value in call.inputs if value):
        return None
    if op in _MOVED:
        return places.moved(call) if call.operand(0).data is None else None
    given = {value.name if value.data is None else None for value in call.inputs if value}
    if OPS[op].elementwise and len(given) == 1 and op not in _LINEAR:
        return _alone(elementwise.function(call, operators))
    single = kernels[op](call) if op in kernels else None
    return None if single is None else _alone(single)


def _alone(single: Single) -> Kernel:
    """A kernel of one result."""
    return lambda operands, outs: single(operands, outs[0])
