"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.convolution import check_bias, check_weights
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
from fitzroy.compiler.ops.elementwise import real, reals, stored
from fitzroy.compiler.ops.tflite_options import activation_code, activation_of
from fitzroy.compiler.ops.windows import Activation, FusedFunction, ending
from fitzroy.formats import tflite
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic


@dataclass(frozen=True)
class FullyConnectedAttributes(Attributes):
    """Attributes of fully connected layers.

    Attributes:
        activation: fused clamp.
        keep_num_dims: whether leading dimensions stay; else the input is flattened to rows of as
            many elements as the filter takes.
    """

    activation: FusedFunction = Activation.NONE
    keep_num_dims: bool = False


@define
class FullyConnected(Operator):
    """Matrix product with a filter [O,I] and an optional bias [O]."""

    name = "fully_connected"
    operands = ("input", "filter", "bias?")
    attributes = FullyConnectedAttributes
    tflite = ("FULLY_CONNECTED",)
    channel_axis = 0

    def _attributes(self, call: Call) -> FullyConnectedAttributes:
        return call.attributes(FullyConnectedAttributes)

    def infer(self, call: Call) -> Sequence[Expected]:
        image, kernel = call.type(0), call.type(1)
        demand(kernel.rank == 2, f"the filter has {kernel.rank} dimensions, not 2")
        out, depth = kernel.shape
        demand(depth > 0 and image.size % depth == 0, f"{image.size} inputs in rows of {depth}")
        check_weights(call, self.channel_axis)
        check_bias(call, 2, out)
        if self._attributes(call).keep_num_dims:
            demand(
                image.rank > 0 and image.shape[-1] == depth,
                f"rows of {image.shape[-1:]} inputs with a filter for {depth}",
            )
            return [Expected((*image.shape[:-1], out))]
        return [Expected((image.size // depth, out))]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        x, w, bias = (*arrays, None)[:3]
        bias = None if bias is None else bias.reshape(-1)
        assert x is not None
        assert w is not None
        rows = x.reshape(-1, w.shape[1])
        result = numerics.fully_connected(
            rows, w, bias, call.type(0), call.type(1), call.result.type,
            arithmetic=arithmetic, **ending(self._attributes(call).activation),
        )  # fmt: skip
        return [result.reshape(call.result.type.shape)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        if options is None:
            return Imported(FullyConnectedAttributes())
        if options.weights_format:
            raise TypeRuleError(f"weights format {options.weights_format} is not the plain one")
        activation = activation_of(options.fused_activation_function)
        return Imported(FullyConnectedAttributes(activation, options.keep_num_dims))

    def to_tflite(self, call: Call) -> Exported:
        a = self._attributes(call)
        table = tflite.FullyConnectedOptions(
            fused_activation_function=activation_code(a.activation), keep_num_dims=a.keep_num_dims
        )
        return Exported("FULLY_CONNECTED", table)


@dataclass(frozen=True)
class BatchMatMulAttributes(Attributes):
    """Attributes of batched matrix products: whether an operand's last two axes are swapped."""

    adj_x: bool = False
    adj_y: bool = False


@define
class BatchMatMul(Operator):
    """Batched matrix product [...,M,K] x [...,K,N]."""

    name = "batch_matmul"
    operands = ("x", "y")
    attributes = BatchMatMulAttributes
    tflite = ("BATCH_MATMUL",)

    def _shapes(self, call: Call) -> tuple[tuple[int, ...], tuple[int, ...]]:
        a = call.attributes(BatchMatMulAttributes)
        x, y = call.type(0).shape, call.type(1).shape
        demand(min(len(x), len(y)) >= 2, f"shapes {list(x)} and {list(y)} are no matrices")
        x = (*x[:-2], x[-1], x[-2]) if a.adj_x else x
        y = (*y[:-2], y[-1], y[-2]) if a.adj_y else y
        return x, y

    def infer(self, call: Call) -> Sequence[Expected]:
        x, y = self._shapes(call)
        demand(
            call.type(0).dtype is call.type(1).dtype,
            f"operands are {call.type(0).dtype.value} and {call.type(1).dtype.value}",
        )
        real(call.type(0))
        real(call.type(1))
        real(call.result.type)
        demand(x[-1] == y[-2], f"{x[-1]} columns times {y[-2]} rows")
        try:
            batch = np.broadcast_shapes(x[:-2], y[:-2])
        except ValueError:
            raise TypeRuleError(f"batches {x[:-2]} and {y[:-2]} do not broadcast") from None
        return [Expected((*batch, x[-2], y[-1]), call.type(0).dtype)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a = call.attributes(BatchMatMulAttributes)
        x, y = (reals(x, call.type(i)) for i, x in enumerate(arrays) if x is not None)
        x = x.swapaxes(-1, -2) if a.adj_x else x
        y = y.swapaxes(-1, -2) if a.adj_y else y
        return [stored(np.matmul(x, y), call.result.type)]

    def from_tflite(self, builtin: str, options: Any, call: Call) -> Imported:
        if options is None:
            return Imported(BatchMatMulAttributes())
        return Imported(BatchMatMulAttributes(options.adj_x, options.adj_y))

    def to_tflite(self, call: Call) -> Exported:
        a = call.attributes(BatchMatMulAttributes)
        return Exported("BATCH_MATMUL", tflite.BatchMatMulOptions(adj_x=a.adj_x, adj_y=a.adj_y))
