"""TFLite's convolutions of volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fitzroy.base.types import DType
from fitzroy.compiler.frontends.volumes import Filter, Layers, convolution
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import demand
from fitzroy.compiler.ops.tflite_options import activation_of, padding_of
from fitzroy.compiler.ops.windows import explicit_padding
from fitzroy.formats import tflite


def convolved_volume(graph: Graph, names: Sequence[str | None], options: Any) -> str:
    """Add what CONV_3D computes of a volume [N,D,H,W,C], a filter [D,H,W,I,O] and a bias.

    Raises:
        TypeRuleError: the operands are not float32, the filter is computed at run time, or they do
            not fit.
    """
    demand(isinstance(options, tflite.Conv3DOptions), "the operator has no options")
    x, kernel, bias = (*names, None)[:3]
    assert x is not None
    assert kernel is not None
    type, value = graph.type(x), graph.value(kernel)
    weights = value.data
    demand(type.dtype is DType.FLOAT32 and type.rank == 5, f"a volume that is {type}")
    demand(value.type.dtype is DType.FLOAT32 and value.type.rank == 5, f"a filter {value.type}")
    if weights is None:
        demand(False, "the filter is computed at run time; it must be a constant")
    weights = np.asarray(weights)
    stride, dilation = (
        tuple(getattr(options, name.format(axis)) for axis in "dhw")
        for name in ("stride_{}", "dilation_{}_factor")
    )
    padding = padding_of(options.padding)
    demand(min(*stride, *dilation, *type.shape, *weights.shape) > 0, "an extent of 0")
    before, after, *_ = explicit_padding(
        padding, (type.shape[1], 1), (weights.shape[0], 1), (stride[0], 1), (dilation[0], 1)
    )
    layers = Layers(weights.shape[0], stride[0], dilation[0], before, after)
    activation = activation_of(options.fused_activation_function)
    image = ConvAttributes((stride[1], stride[2]), (dilation[1], dilation[2]), padding, activation)
    if bias is None:
        bias = graph.add_constant(f"{kernel}/bias", np.zeros(weights.shape[4], np.float32))
    demand(graph.type(bias).shape == (weights.shape[4],), "a bias of another size")
    return convolution(graph, x, Filter(weights, bias, layers, image), kernel)
