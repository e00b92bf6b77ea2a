"""Random small int8 graphs of image operators, for property tests."""

from __future__ import annotations

import numpy as np

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme, output_extent

ACTIVATIONS = tuple(Activation)


def quantization(rng: np.random.Generator, dtype: DType = DType.INT8) -> Quantization:
    """A plausible per-tensor quantization."""
    low, high = dtype.limits
    return Quantization.per_tensor(rng.uniform(0.01, 0.1), int(rng.integers(low, high + 1)))


def random_graph(rng: np.random.Generator, dtype: DType = DType.INT8, nodes: int = 6) -> Graph:
    """A random graph with one image input and one output; every value is read or returned."""
    graph = Graph("random")
    channels = int(rng.integers(1, 5))
    extent = (int(rng.integers(4, 10)), int(rng.integers(4, 10)))
    shape = (1, *extent, channels)
    last = graph.add_input("x", TensorType(shape, dtype, quantization(rng, dtype)))
    for _ in range(nodes):
        last = _GROWERS[int(rng.integers(len(_GROWERS)))](graph, rng, last, dtype)
    graph.outputs = [last]
    return graph


def _weights(
    graph: Graph, rng: np.random.Generator, shape: tuple[int, ...], axis: int, dtype: DType
) -> str:
    low, high = dtype.limits
    data = rng.integers(max(low, -127), high, shape, dtype.numpy, endpoint=True)
    if dtype is DType.UINT8:
        return graph.add_constant("w", data, quantization(rng, dtype))
    count = shape[axis]
    scale = tuple(float(np.float32(s)) for s in rng.uniform(0.001, 0.02, count))
    return graph.add_constant("w", data, Quantization(scale, (0,) * count, axis))


def _bias(graph: Graph, rng: np.random.Generator, count: int) -> str | None:
    if rng.random() < 0.3:
        return None
    data = rng.integers(-2000, 2000, count, np.int32)
    return graph.add_constant("b", data, Quantization((1.0,), (0,)))


def _conv_attributes(rng: np.random.Generator) -> ConvAttributes:
    return ConvAttributes(
        stride=(int(rng.integers(1, 3)), int(rng.integers(1, 3))),
        padding=PaddingScheme.SAME,
        activation=ACTIVATIONS[int(rng.integers(len(ACTIVATIONS)))],
    )


def _conv(graph: Graph, rng: np.random.Generator, x: str, dtype: DType) -> str:
    shape = graph.type(x).shape
    kernel, out, a = (
        (int(rng.integers(1, 4)), int(rng.integers(1, 4))),
        int(rng.integers(1, 6)),
        _conv_attributes(rng),
    )
    w = _weights(graph, rng, (out, *kernel, shape[3]), 0, dtype)
    extent = output_extent(a.padding, (shape[1], shape[2]), kernel, a.stride)
    type = TensorType((1, *extent, out), dtype, quantization(rng, dtype))
    return graph.emit("conv_2d", [x, w, _bias(graph, rng, out)], type, a)


def _depthwise(graph: Graph, rng: np.random.Generator, x: str, dtype: DType) -> str:
    shape = graph.type(x).shape
    kernel, a = (int(rng.integers(1, 4)), int(rng.integers(1, 4))), _conv_attributes(rng)
    out = shape[3] * int(rng.integers(1, 3))
    w = _weights(graph, rng, (1, *kernel, out), 3, dtype)
    extent = output_extent(a.padding, (shape[1], shape[2]), kernel, a.stride)
    type = TensorType((1, *extent, out), dtype, quantization(rng, dtype))
    return graph.emit("depthwise_conv_2d", [x, w, _bias(graph, rng, out)], type, a)


def _add(graph: Graph, rng: np.random.Generator, x: str, dtype: DType) -> str:
    type = graph.type(x)
    other = graph.emit("sigmoid", [x], TensorType(type.shape, dtype, quantization(rng, dtype)))
    result = TensorType(type.shape, dtype, quantization(rng, dtype))
    return graph.emit("add", [x, other], result, ActivationAttributes())


def _pool(graph: Graph, rng: np.random.Generator, x: str, dtype: DType) -> str:
    type = graph.type(x)
    a = PoolAttributes((2, 2), (1, 1), PaddingScheme.SAME)
    return graph.emit("max_pool_2d", [x], type, a)


def _concat(graph: Graph, rng: np.random.Generator, x: str, dtype: DType) -> str:
    type = graph.type(x)
    other = graph.emit("tanh", [x], TensorType(type.shape, dtype, quantization(rng, dtype)))
    shape = (*type.shape[:3], 2 * type.shape[3])
    return graph.emit(
        "concatenation",
        [x, other],
        TensorType(shape, dtype, type.quantization),
        ConcatenationAttributes(3),
    )


_GROWERS = (_conv, _depthwise, _add, _pool, _concat)
