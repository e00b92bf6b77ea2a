"""Random quantized models for the Edge TPU, and what becomes of them on the simulator.

A seed is a model: element type, inputs, one to eight operators that read any values before them,
and outputs. Scales of results are about those that a calibration would find, so that values are
spread over the whole range and errors do not saturate.
"""

from __future__ import annotations

import math
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.sharing import shared

from fitzroy.base.errors import CapacityError, FitzroyError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node, print_graph
from fitzroy.compiler.ops.convolution import (
    ConvAttributes,
    TransposeConvAttributes,
    transpose_conv_padding,
)
from fitzroy.compiler.ops.elementwise import (
    ActivationAttributes,
    ClampAttributes,
    EluAttributes,
    GeluAttributes,
    LeakyReluAttributes,
)
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes, FullyConnectedAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.resize import ResizeAttributes
from fitzroy.compiler.ops.shape import (
    AxisAttributes,
    BlockAttributes,
    ConcatenationAttributes,
    PadAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import Activation, PaddingScheme, output_extent
from fitzroy.compiler.reference import verify
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.partition.rules import NAME
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.compiler.targets.edgetpu.twin.twin import Twin
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.latitude import ANY, NONE
from fitzroy.hw_models.edgetpu.verifier import Finding, record
from fitzroy.hw_models.edgetpu.verifier import verify as verify_program
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.numerics import Sampling
from fitzroy.linker.packages.darwinn import link

I8, U8 = DType.INT8, DType.UINT8
ACTIVATIONS = tuple(Activation)
_SPREAD = 74.0
"""Standard deviation of uniform bytes."""


class Model:
    """A graph that grows.

    Args:
        seed: decides on everything.

    Attributes:
        rng: where random numbers come from.
        graph: the graph so far.
        dtype: element type of all values but `ends`.
        live: values that operators may read.
        ends: outputs that no operator reads.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = Graph(f"random-{seed}")
        self.dtype = I8 if self.chance(0.6) else U8
        self.live: list[str] = []
        self.ends: list[str] = []

    def chance(self, probability: float) -> bool:
        """Whether something happens."""
        return bool(self.rng.random() < probability)

    def number(self, low: int, high: int) -> int:
        """A whole number, both bounds included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def choose(self, *items: object) -> object:
        """One of some things."""
        return items[int(self.rng.integers(len(items)))]

    def scale(self, about: float) -> float:
        """A scale of float32 that is not far from one."""
        return float(np.float32(about * math.exp(self.rng.uniform(-0.7, 0.7))))

    def quantization(self, about: float) -> Quantization:
        """One of a tensor; zero points are often at an end of the range, as after rectifiers."""
        low, high = self.dtype.limits
        zero = self.number(low, high) if self.chance(0.6) else low
        return Quantization.per_tensor(self.scale(about), zero)

    def type(self, shape: tuple[int, ...], about: float) -> TensorType:
        """A tensor type with a new quantization."""
        return TensorType(shape, self.dtype, self.quantization(about))

    def of(self, name: str) -> TensorType:
        """Type of a value."""
        return self.graph.type(name)

    def unit(self, name: str) -> float:
        """Scale of a value."""
        quantization = self.of(name).quantization
        assert quantization is not None
        return quantization.scale[0]

    def activation(self) -> Activation:
        """None in half of all cases."""
        return ACTIVATIONS[self.number(0, 3)] if self.chance(0.5) else Activation.NONE

    def extent(self) -> int:
        """Rows or columns, mostly few."""
        return self.number(1, 9) if self.chance(0.3) else self.number(4, 40)

    def channels(self) -> int:
        """Channels, mostly few, often no multiple of 4."""
        if self.chance(0.1):
            return self.number(60, 200)
        return self.number(1, 12) if self.chance(0.5) else 4 * self.number(1, 16)

    def emit(
        self, op: str, inputs: Sequence[str | None], type: TensorType, a: Attributes = NO_ATTRIBUTES
    ) -> str:
        """Append an operator."""
        return self.graph.emit(op, inputs, type, a)

    def image(self) -> str | None:
        """A live value that is an image, None if there is none."""
        images = [name for name in self.live if len(self.of(name).shape) == 4]
        return None if not images else images[int(self.rng.integers(len(images)))]

    def weights(self, shape: tuple[int, ...], axis: int, taps: int) -> tuple[str, float]:
        """Constant weights and their mean scale."""
        low, high = self.dtype.limits
        data = self.rng.integers(max(low, -127), high, shape, self.dtype.numpy, endpoint=True)
        about = 1 / (_SPREAD * math.sqrt(taps))
        if self.dtype is U8 or self.chance(0.1):
            zero = self.number(90, 160) if self.dtype is U8 else 0
            quantization = Quantization.per_tensor(self.scale(about), zero)
        else:
            scales = tuple(self.scale(about) for _ in range(shape[axis]))
            quantization = Quantization(scales, (0,) * shape[axis], axis)
        return self.graph.add_constant("w", data, quantization), about

    def constant(self, shape: tuple[int, ...], about: float) -> str:
        """A constant of any bytes."""
        low, high = self.dtype.limits
        data = self.rng.integers(low, high, shape, self.dtype.numpy, endpoint=True)
        return self.graph.add_constant("c", data, self.quantization(about))

    def bias(self, count: int, taps: int) -> str | None:
        """Biases of the size of sums, or none."""
        if self.chance(0.25):
            return None
        most = max(2, int(_SPREAD * _SPREAD * math.sqrt(taps)))
        data = self.rng.integers(-most, most, count, np.int32)
        return self.graph.add_constant("b", data, Quantization((1.0,), (0,)))


def random_model(seed: int, *, axes: bool = False) -> Graph:
    """The model of a seed.

    Args:
        seed: decides on everything.
        axes: whether operators along any axis, and on several images, are among the others; these
            are other models then.
    """
    model = Model(seed)
    growers, shares = (_ALONG_AXES, _AXES_SHARES) if axes else (_GROWERS, _SHARES)
    for index in range(1 + model.chance(0.2)):
        channels = model.number(1, 4) if model.chance(0.5) else model.channels()
        shape: tuple[int, ...] = (1, model.extent(), model.extent(), channels)
        if model.chance(0.08):
            shape = (1, model.number(1, 300))
        if model.chance(0.06):
            shape = (1, model.number(60, 240), model.number(60, 240), model.number(1, 16))
        model.live.append(
            model.graph.add_input(
                f"x{index}", model.type(shape, math.exp(model.rng.uniform(-5, 0)))
            )
        )
    wanted, attempts = model.number(1, 8), 0
    while len(model.graph.nodes()) < wanted and attempts < 60:
        attempts += 1
        grow = growers[int(model.rng.choice(len(growers), p=shares))]
        name = model.live[int(model.rng.integers(len(model.live)))]
        if model.chance(0.6):
            name = model.live[-1]
        model.live += grow(model, name)
    graph = model.graph
    names = [name for name in model.live if graph.producer(name) is not None]
    graph.outputs = [name for name in names if not graph.consumers(name)] + model.ends
    inner = [name for name in names if name not in graph.outputs]
    if inner and model.chance(0.2):
        graph.outputs.append(inner[int(model.rng.integers(len(inner)))])
    unread = [name for name in graph.inputs if not graph.consumers(name)]
    for name in unread:
        graph.outputs.append(
            model.emit("quantize", [name], model.type(model.of(name).shape, model.unit(name)))
        )
    verify(graph)
    return graph


# --- operators; each gives the names of its results, none if it does not apply -------------------


def _conv(model: Model, x: str) -> list[str]:
    return _window(model, x, "conv_2d")


def _depthwise(model: Model, x: str) -> list[str]:
    return _window(model, x, "depthwise_conv_2d")


def _window(model: Model, x: str, op: str) -> list[str]:
    shape = model.of(x).shape
    if len(shape) != 4:
        return []
    image = shape[1], shape[2]
    stride = (1, 1) if model.chance(0.6) else (model.number(1, 3), model.number(1, 3))
    dilation = (1, 1)
    if stride == (1, 1) and model.chance(0.2):
        dilation = (model.number(1, 3), model.number(1, 3))
    if model.chance(0.4):
        kernel = (1, 1) if model.chance(0.5) else (3, 3)
    else:
        kernel = (model.number(1, 7), model.number(1, 7))
    if model.chance(0.05):
        kernel = image
    padding = PaddingScheme.SAME if model.chance(0.6) else PaddingScheme.VALID
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    if padding is PaddingScheme.VALID and (reach[0] > image[0] or reach[1] > image[1]):
        return []
    if op == "conv_2d":
        out = model.channels()
        weights = (out, *kernel, shape[3])
        taps, axis = math.prod(kernel) * shape[3], 0
    else:
        multiplier = 1 if model.chance(0.7) else model.number(2, 5)
        out = shape[3] * multiplier
        weights = (1, *kernel, out)
        taps, axis = math.prod(kernel), 3
    if math.prod(weights) > _MOST_WEIGHTS or out > _MOST_CHANNELS:
        return []
    extent = output_extent(padding, image, kernel, stride, dilation)
    if math.prod(extent) * max(out, taps) > _MOST_PRODUCTS:
        return []
    w, about = model.weights(weights, axis, taps)
    type = model.type((1, *extent, out), model.unit(x) * about * _SPREAD * math.sqrt(taps))
    attributes = ConvAttributes(stride, dilation, padding, model.activation())
    return [model.emit(op, [x, w, model.bias(out, taps)], type, attributes)]


_MOST_WEIGHTS = 200_000
_MOST_CHANNELS = 400
_MOST_PRODUCTS = 6_000_000
"""Of outputs, and of operands of a channel of outputs."""


def _sum(model: Model, x: str) -> list[str]:
    op = str(model.choose("add", "add", "sub", "mul", "maximum", "minimum"))
    before = model.of(x)
    others = [n for n in model.live if model.of(n).shape == before.shape and n != x]
    if others and model.chance(0.8):
        other = others[int(model.rng.integers(len(others)))]
    elif model.chance(0.5):
        other = model.constant(_repeatable(model, before.shape), model.unit(x))
    else:
        other = model.emit("quantize", [x], model.type(before.shape, model.unit(x)))
    about = model.unit(x) + model.unit(other)
    if op == "mul":
        about = model.unit(x) * model.unit(other) * 2 * _SPREAD
    order = [x, other] if model.chance(0.5) else [other, x]
    plain = op in ("maximum", "minimum")
    attributes = NO_ATTRIBUTES if plain else ActivationAttributes(model.activation())
    return [model.emit(op, order, model.type(before.shape, about), attributes)]


def _repeatable(model: Model, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of which some axes are to be repeated, or missing."""
    kept = [extent if model.chance(0.6) else 1 for extent in shape]
    return tuple(kept[model.number(0, len(shape) - 1) :]) if model.chance(0.5) else tuple(kept)


def _broadcast(model: Model, x: str) -> list[str]:
    """A part of a value, repeated to another one's shape."""
    before = model.of(x)
    if before.size > 20_000:
        return []
    begin = tuple(model.number(0, extent - 1) for extent in before.shape)
    size = tuple(
        extent if first == 0 and model.chance(0.6) else 1
        for extent, first in zip(before.shape, begin, strict=True)
    )
    attributes = StridedSliceAttributes(begin, size, (1,) * len(size))
    part = model.emit(
        "strided_slice", [x], TensorType(size, before.dtype, before.quantization), attributes
    )
    op, about = ("add", 2 * model.unit(x)) if model.chance(0.5) else ("maximum", model.unit(x))
    attributes_of = NO_ATTRIBUTES if op == "maximum" else ActivationAttributes(model.activation())
    order = [x, part] if model.chance(0.5) else [part, x]
    return [model.emit(op, order, model.type(before.shape, about), attributes_of)]


def _function(model: Model, x: str) -> list[str]:
    op = str(
        model.choose(
            *("sigmoid", "tanh", "hardswish", "leaky_relu", "clamp", "quantize", "clamp"),
            *("elu", "gelu", "abs", "negate", "square"),
        )
    )
    before, about = model.of(x), model.unit(x)
    attributes: Attributes = NO_ATTRIBUTES
    type = model.type(before.shape, about)
    low, high = model.dtype.limits
    if op == "leaky_relu":
        attributes = LeakyReluAttributes(float(np.float32(model.rng.uniform(0.01, 0.5))))
    if op == "clamp":
        bounds = model.choose((0.0, math.inf), (0.0, 6.0), (-1.0, 1.0))
        assert isinstance(bounds, tuple)
        attributes = ClampAttributes(*bounds)
    if op == "elu":
        attributes = EluAttributes(1.0)
    if op == "gelu":
        attributes = GeluAttributes(model.chance(0.5))
    if op == "square":
        type = model.type(before.shape, about * about * 2 * _SPREAD)
    if op == "sigmoid":
        type = TensorType(before.shape, model.dtype, Quantization.per_tensor(1 / 256, low))
    if op == "tanh":
        zero = (low + high + 1) // 2
        type = TensorType(before.shape, model.dtype, Quantization.per_tensor(1 / 128, zero))
    return [model.emit(op, [x], type, attributes)]


def _prelu(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if len(before.shape) != 4:
        return []
    low, high = model.dtype.limits
    shape = (1, 1, before.shape[3])
    data = model.rng.integers(low, high, shape, model.dtype.numpy, endpoint=True)
    slope = model.graph.add_constant("slope", data, model.quantization(1 / 200))
    return [model.emit("prelu", [x, slope], model.type(before.shape, model.unit(x)))]


def _pool(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if len(before.shape) != 4:
        return []
    op = str(model.choose("max_pool_2d", "average_pool_2d"))
    image = before.shape[1], before.shape[2]
    kernel = (model.number(1, 4), model.number(1, 4))
    stride = (model.number(1, 3), model.number(1, 3))
    padding = PaddingScheme.SAME if model.chance(0.5) else PaddingScheme.VALID
    if op == "average_pool_2d" and model.chance(0.3):
        kernel, padding = image, PaddingScheme.VALID
    if padding is PaddingScheme.VALID and (kernel[0] > image[0] or kernel[1] > image[1]):
        return []
    shape = (1, *output_extent(padding, image, kernel, stride), before.shape[3])
    type = TensorType(shape, before.dtype, before.quantization)
    if model.chance(0.15):
        type = model.type(shape, model.unit(x))
    return [model.emit(op, [x], type, PoolAttributes(kernel, stride, padding, model.activation()))]


def _mean(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if len(before.shape) != 4:
        return []
    keep = model.chance(0.5)
    shape = (1, 1, 1, before.shape[3]) if keep else (1, before.shape[3])
    type = model.type(shape, model.unit(x) / 2)
    return [model.emit("mean", [x], type, ReductionAttributes((1, 2), keep))]


def _fully_connected(model: Model, x: str) -> list[str]:
    size, out = model.of(x).size, model.number(1, 150)
    if model.chance(0.1):
        out = model.number(150, 1200)
    if size * out > 5 * _MOST_WEIGHTS:
        return []
    w, about = model.weights((out, size), 0, size)
    type = model.type((1, out), model.unit(x) * about * _SPREAD * math.sqrt(size))
    attributes = FullyConnectedAttributes(model.activation())
    return [model.emit("fully_connected", [x, w, model.bias(out, size)], type, attributes)]


def _rows(model: Model, x: str) -> list[str]:
    """A matrix product of every row."""
    before = model.of(x)
    depth, out = before.shape[-1], model.number(1, 100)
    positions = before.size // depth
    if positions < 2 or positions * depth * out > _MOST_PRODUCTS or before.size > 20_000:
        return []
    scale = _SPREAD * math.sqrt(depth)
    if model.chance(0.3) and len(before.shape) > 1:
        turned = model.chance(0.5)
        w = model.constant((out, depth) if turned else (depth, out), 1 / scale)
        type = model.type((*before.shape[:-1], out), model.unit(x) * model.unit(w) * scale)
        return [model.emit("batch_matmul", [x, w], type, BatchMatMulAttributes(False, turned))]
    w, about = model.weights((out, depth), 0, depth)
    keeps = len(before.shape) > 2
    shape = (*(before.shape[:-1] if keeps else (positions,)), out)
    attributes = FullyConnectedAttributes(model.activation(), keeps)
    type = model.type(shape, model.unit(x) * about * scale)
    return [model.emit("fully_connected", [x, w, model.bias(out, depth)], type, attributes)]


def _transpose(model: Model, x: str) -> list[str]:
    before = model.of(x)
    rank = len(before.shape)
    perm = tuple(int(axis) for axis in model.rng.permutation(rank))
    if rank == 4:
        perm = (0, *(int(axis) + 1 for axis in model.rng.permutation(3)))
    shape = tuple(before.shape[axis] for axis in perm)
    if before.size > 20_000 or shape[-1] > _MOST_CHANNELS:
        return []
    type = TensorType(shape, before.dtype, before.quantization)
    return [model.emit("transpose", [x], type, TransposeAttributes(perm))]


def _l2_normalization(model: Model, x: str) -> list[str]:
    before = model.of(x)
    middle = sum(model.dtype.limits) + 1 >> 1
    type = TensorType(before.shape, model.dtype, Quantization.per_tensor(1 / 128, middle))
    return [model.emit("l2_normalization", [x], type)]


def _softmax(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if before.size != before.shape[-1]:
        return []
    type = TensorType(
        before.shape, model.dtype, Quantization.per_tensor(1 / 256, model.dtype.limits[0])
    )
    return [model.emit("softmax", [x], type, SoftmaxAttributes())]


def _concatenation(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if len(before.shape) != 4:
        return []
    axis = 3 if model.chance(0.7) else model.number(1, 2)
    fits = [
        name
        for name in model.live
        if len(model.of(name).shape) == 4
        and all(
            one == other or index == axis
            for index, (one, other) in enumerate(
                zip(before.shape, model.of(name).shape, strict=True)
            )
        )
    ]
    names = [x, *(fits[model.number(0, len(fits) - 1)] for _ in range(model.number(1, 3)))]
    shape = list(before.shape)
    shape[axis] = sum(model.of(name).shape[axis] for name in names)
    if shape[3] > _MOST_CHANNELS or math.prod(shape) > _MOST_ELEMENTS:
        return []
    type = TensorType(tuple(shape), before.dtype, before.quantization)
    if model.chance(0.3):
        type = model.type(tuple(shape), model.unit(x))
    return [model.emit("concatenation", names, type, ConcatenationAttributes(axis))]


_MOST_ELEMENTS = 500_000


def _pad(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if len(before.shape) != 4:
        return []
    first = (0, model.number(0, 3), model.number(0, 3), 0)
    last = (0, model.number(0, 3), model.number(0, 3), 0)
    shape = tuple(a + b + c for a, b, c in zip(first, before.shape, last, strict=True))
    value = 0.0 if model.chance(0.7) else 20 * model.unit(x)
    type = TensorType(shape, before.dtype, before.quantization)
    return [model.emit("pad", [x], type, PadAttributes(first, last, value))]


def _slice(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if len(before.shape) != 4:
        return []
    begin = [model.number(0, (extent - 1) // 2) for extent in before.shape]
    stride = [1, model.number(1, 2), model.number(1, 2), 1 + int(model.chance(0.1))]
    size = [
        model.number(1, -(-(extent - first) // step))
        for extent, first, step in zip(before.shape, begin, stride, strict=True)
    ]
    type = TensorType(tuple(size), before.dtype, before.quantization)
    attributes = StridedSliceAttributes(tuple(begin), tuple(size), tuple(stride))
    return [model.emit("strided_slice", [x], type, attributes)]


def _split(model: Model, x: str) -> list[str]:
    before = model.of(x)
    axis = 3 if model.chance(0.7) else 1
    if len(before.shape) != 4 or before.shape[axis] < 2:
        return []
    first = model.number(1, before.shape[axis] - 1)
    sizes = (first, before.shape[axis] - first)
    types = []
    for size in sizes:
        shape = list(before.shape)
        shape[axis] = size
        types.append(TensorType(tuple(shape), before.dtype, before.quantization))
    names = tuple(model.graph.fresh(f"split{index}") for index in range(2))
    node = Node(names[0], "split", (x,), names, SplitAttributes(axis, sizes))
    model.graph.add_node(node, types)
    return list(names)


def _reshape(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if len(before.shape) == 4 and model.chance(0.6):
        shape: tuple[int, ...] = (1, before.size)
    else:
        columns = next(d for d in (7, 5, 4, 3, 2, 1) if before.size % d == 0)
        rows = next(d for d in (6, 4, 3, 2, 1) if before.size // columns % d == 0)
        shape = (1, rows, columns, before.size // columns // rows)
    if shape[-1] > _MOST_CHANNELS and len(shape) == 4:
        return []
    type = TensorType(shape, before.dtype, before.quantization)
    return [model.emit("reshape", [x], type, ReshapeAttributes(shape))]


def _resize(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if len(before.shape) != 4 or before.size > 20_000:
        return []
    factors = model.number(1, 4), model.number(1, 4)
    bilinear = model.chance(0.5)
    sampling = tuple(Sampling)[model.number(0, len(Sampling) - 1)]
    size = before.shape[1] * factors[0], before.shape[2] * factors[1]
    if model.chance(0.5):
        size = model.number(1, 60), model.number(1, 60)
    op = "resize_bilinear" if bilinear else "resize_nearest_neighbor"
    type = TensorType((1, *size, before.shape[3]), before.dtype, before.quantization)
    return [model.emit(op, [x], type, ResizeAttributes(size, sampling))]


def _block(model: Model, x: str) -> list[str]:
    before, block = model.of(x), 2
    if len(before.shape) != 4:
        return []
    _, height, width, channels = before.shape
    if channels % (block * block) == 0 and model.chance(0.5):
        shape = (1, height * block, width * block, channels // (block * block))
        op = "depth_to_space"
    elif height % block == 0 and width % block == 0 and channels < _MOST_CHANNELS // 4:
        shape, op = (1, height // block, width // block, channels * block * block), "space_to_depth"
    else:
        return []
    type = TensorType(shape, before.dtype, before.quantization)
    return [model.emit(op, [x], type, BlockAttributes(block))]


def _retype(model: Model, x: str) -> list[str]:
    """An output of the other element type."""
    before = model.of(x)
    dtype = U8 if before.dtype is I8 else I8
    zero = model.number(*dtype.limits)
    type = TensorType(before.shape, dtype, Quantization.per_tensor(model.unit(x), zero))
    model.ends.append(model.emit("quantize", [x], type))
    return []


def _transpose_conv(model: Model, x: str) -> list[str]:
    shape = model.of(x).shape
    if len(shape) != 4 or model.of(x).size > 20_000:
        return []
    stride = (model.number(1, 3), model.number(1, 3))
    kernel = (model.number(1, 5), model.number(1, 5))
    image = shape[1], shape[2]
    if model.chance(0.5):
        padding = PaddingScheme.SAME
        size = image[0] * stride[0], image[1] * stride[1]
    else:
        padding = PaddingScheme.VALID
        rows, columns = (
            (extent - 1) * step + max(window, step)
            for extent, step, window in zip(image, stride, kernel, strict=True)
        )
        size = rows, columns
    edges = transpose_conv_padding(padding, image, kernel, stride, size)
    out = model.number(1, 20) if model.chance(0.8) else model.number(60, 140)
    taps = max(1, math.prod(kernel) * shape[3] // math.prod(stride))
    if math.prod(size) * max(out, taps) > _MOST_PRODUCTS:
        return []
    w, about = model.weights((out, *kernel, shape[3]), 0, taps)
    type = model.type((1, *size, out), model.unit(x) * about * _SPREAD * math.sqrt(taps))
    attributes = TransposeConvAttributes(stride, edges, size, model.activation())
    return [model.emit("transpose_conv", [x, w, model.bias(out, taps)], type, attributes)]


_WEIGHTED: dict[Callable[[Model, str], list[str]], int] = {
    _conv: 30,
    _depthwise: 20,
    _sum: 16,
    _function: 9,
    _prelu: 2,
    _pool: 10,
    _mean: 3,
    _fully_connected: 7,
    _softmax: 4,
    _concatenation: 8,
    _pad: 4,
    _slice: 4,
    _split: 4,
    _reshape: 3,
    _resize: 5,
    _block: 3,
    _retype: 2,
    _transpose_conv: 4,
    _broadcast: 3,
    _rows: 3,
    _transpose: 3,
    _l2_normalization: 2,
}
_GROWERS = tuple(_WEIGHTED)
_SHARES = np.array(list(_WEIGHTED.values())) / sum(_WEIGHTED.values())


def _reduction(model: Model, x: str) -> list[str]:
    """Some axes next to each other, or all but one of an image."""
    before, op = model.of(x), ("mean", "sum", "reduce_max", "reduce_min")[model.number(0, 3)]
    rank = len(before.shape)
    first = model.number(0, rank - 1)
    axes = tuple(range(first, model.number(first, rank - 1) + 1))
    if before.size > 10_000 or math.prod(before.shape[axis] for axis in axes) > 1500:
        return []
    keep = model.chance(0.5) or axes == tuple(range(rank))
    shape = tuple(
        1 if axis in axes else extent
        for axis, extent in enumerate(before.shape)
        if keep or axis not in axes
    )
    count = math.prod(before.shape[axis] for axis in axes)
    about = model.unit(x) * {"mean": 0.5, "sum": math.sqrt(count)}.get(op, 1.0)
    return [model.emit(op, [x], model.type(shape, about), ReductionAttributes(axes, keep))]


def _stack(model: Model, x: str) -> list[str]:
    """A tensor and others of its shape along a fresh axis, or apart again."""
    before = model.of(x)
    alike = [name for name in model.live if model.of(name).shape == before.shape][:3]
    axis = model.number(0, len(before.shape))
    if before.size > 5_000 or len(before.shape) > 4 or before.shape[-1] > _MOST_CHANNELS:
        return []
    shape = (*before.shape[:axis], len(alike), *before.shape[axis:])
    stacked = model.emit("pack", alike, model.type(shape, model.unit(x)), AxisAttributes(axis))
    if model.chance(0.5):
        model.ends.append(stacked)
        return []
    axis = model.number(0, len(shape) - 1)
    if shape[axis] > 4:
        axis = int(np.argmin(shape))
    names = tuple(model.graph.fresh(f"part{index}") for index in range(shape[axis]))
    part = model.of(stacked).with_shape((*shape[:axis], *shape[axis + 1 :]))
    node = Node(names[0], "unpack", (stacked,), names, AxisAttributes(axis))
    model.graph.add_node(node, [part] * len(names))
    if len(part.shape) == 4 and part.shape[0] > 1:
        model.ends += names
        return []
    return list(names)


def _blocks(model: Model, x: str) -> list[str]:
    """Axes of an image in another order, with its rows and columns as two each."""
    before = model.of(x)
    if len(before.shape) != 4 or before.size > 5_000:
        return []
    _, height, width, channels = before.shape
    tall, wide = (next(d for d in (3, 2, 1) if extent % d == 0) for extent in (height, width))
    shape = (height // tall, tall, width // wide, wide, channels)
    split = model.emit("reshape", [x], before.with_shape(shape), ReshapeAttributes(shape))
    perm = tuple(int(axis) for axis in model.rng.permutation(5))
    after = before.with_shape(tuple(shape[axis] for axis in perm))
    model.ends.append(model.emit("transpose", [split], after, TransposeAttributes(perm)))
    return []


def _images(model: Model, x: str) -> list[str]:
    """Two or three images of the rows of one, through an operator, and as one again."""
    before = model.of(x)
    count = model.number(2, 3)
    if len(before.shape) != 4 or before.shape[1] % count or before.size > 10_000:
        return []
    _, height, width, channels = before.shape
    shape = (count, height // count, width, channels)
    y = model.emit("reshape", [x], before.with_shape(shape), ReshapeAttributes(shape))
    kind = model.number(0, 2)
    if kind == 0:
        out = model.number(1, 20)
        w, about = model.weights((out, 3, 3, channels), 0, 9 * channels)
        type = model.type((*shape[:3], out), model.unit(x) * about * _SPREAD * 3)
        attributes = ConvAttributes(padding=PaddingScheme.SAME)
        y = model.emit("conv_2d", [y, w, model.bias(out, 9 * channels)], type, attributes)
    elif kind == 1:
        pool = PoolAttributes((3, 3), (1, 1), PaddingScheme.SAME)
        y = model.emit("max_pool_2d", [y], model.of(y), pool)
    else:
        y = model.emit("add", [y, y], model.type(shape, 2 * model.unit(x)), ActivationAttributes())
    whole = (1, height, width, model.of(y).shape[3])
    return [model.emit("reshape", [y], model.of(y).with_shape(whole), ReshapeAttributes(whole))]


def _softmax_of_rows(model: Model, x: str) -> list[str]:
    before = model.of(x)
    if before.size > 10_000 or before.shape[-1] in (1, before.size):
        return []
    probabilities = Quantization.per_tensor(1 / 256, model.dtype.limits[0])
    type = TensorType(before.shape, model.dtype, probabilities)
    return [model.emit("softmax", [x], type, SoftmaxAttributes())]


_WITH_AXES = _WEIGHTED | {
    _reduction: 40,
    _stack: 25,
    _blocks: 12,
    _images: 25,
    _softmax_of_rows: 12,
}
_ALONG_AXES = tuple(_WITH_AXES)
_AXES_SHARES = np.array(list(_WITH_AXES.values())) / sum(_WITH_AXES.values())


# --- on the simulator ----------------------------------------------------------------------------


@dataclass
class Tally:
    """What became of some models.

    Attributes:
        models: how many.
        segments: parts that ran.
        bytes: bytes of outputs that were compared.
        mapped: operators on the chip by name.
        refused: operators that stayed on the host, and parts without room, by reason.
        failures: seed, what failed and a minimized graph.
        unordered: seed, and what the verifier of programs found.
    """

    models: int = 0
    segments: int = 0
    mapped: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    unordered: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count other models too."""
        self.models += other.models
        self.segments += other.segments
        self.bytes += other.bytes
        self.mapped += other.mapped
        self.refused += other.refused
        self.failures += other.failures
        self.unordered += other.unordered


def random_inputs(graph: Graph, seed: int) -> dict[str, Array]:
    """Bytes for all inputs of a graph."""
    rng = np.random.default_rng(seed)
    found = {}
    for name in graph.inputs:
        type = graph.type(name)
        found[name] = rng.integers(0, 256, type.shape, np.uint8).view(type.dtype.numpy)
    return found


def program(graph: Graph, options: Options = DEFAULT) -> PackageFile:
    """The linked program of a graph, which is compiled once in a session.

    Args:
        graph: the graph.
        options: what the program may use of the chip.

    Raises:
        CapacityError: it does not fit.
    """

    def make() -> PackageFile:
        (package,) = link([lower(graph, options)])
        return package

    return shared(("program", options, graph), make)


ORDERS = (None, 1, 2)
"""Orders of engines and first contents of memories; None for the plain order."""


def differing_bytes(
    graph: Graph,
    package: PackageFile,
    seeds: Sequence[int | None] = ORDERS,
    reference: Callable[[Graph, dict[str, Array]], Mapping[str, Array]] = evaluate_on_device,
) -> int:
    """Bytes of all outputs that the simulator gives otherwise than a reference, for all seeds.

    Args:
        graph: a graph.
        package: the program made of it.
        seeds: orders of engines and first contents of memories.
        reference: outputs of a graph by name, from its inputs.
    """
    inputs = random_inputs(graph, 5)
    wanted = reference(graph, inputs)
    raw = {name: x.reshape(-1).view(np.uint8) for name, x in inputs.items()}
    count = 0
    for seed in seeds:
        # A chip that is as late and irregular as published programs bear, if anything is random.
        device = SimulatedDevice(seed=seed, latitude=NONE if seed is None else ANY)
        found = device.run(package, raw)
        for name in graph.outputs:
            expected = np.asarray(wanted[name]).reshape(-1).view(np.uint8)
            count += int(np.count_nonzero(found.tensors[name] != expected))
    return count


def differences(graph: Graph, package: PackageFile, seed: int) -> str:
    """How outputs of the simulator, or of the twin, differ from the reference; empty if not.

    Args:
        graph: a graph.
        package: the program made of it.
        seed: decides on the inputs, the order of engines and what memories hold at first.

    Raises:
        SimulationError: the program fails.
    """
    inputs = random_inputs(graph, seed)
    raw = {name: x.reshape(-1).view(np.uint8) for name, x in inputs.items()}
    outputs = SimulatedDevice(seed=seed, latitude=ANY).run(package, raw)
    wanted, twin, found = evaluate_on_device(graph, inputs), Twin(graph).run(inputs), list[str]()
    for name in graph.outputs:
        want = wanted[name]
        if not np.array_equal(twin[name], want):
            found.append(f"{name}: the twin differs from the meaning of the operators")
        have = outputs.tensors[name].view(want.dtype).reshape(want.shape)
        gap = np.abs(have.astype(np.int64) - want)
        if gap.any():
            first = np.unravel_index(np.flatnonzero(gap)[0], gap.shape)
            found.append(
                f"{name}: {np.count_nonzero(gap)} of {gap.size} bytes differ, at most by "
                f"{gap.max()}, first at {tuple(map(int, first))}: {have[first]}, not {want[first]}"
            )
    return "; ".join(found)


def assert_exact(graph: Graph, seed: int = 1) -> None:
    """Assert that a graph's program gives the bytes of the reference, and that nothing is wrong."""
    verify(graph)
    package = program(graph)
    assert not differences(graph, package, seed)
    assert not findings(package)


def findings(package: PackageFile, *, envelope: bool = False) -> tuple[Finding, ...]:
    """What is wrong with a package's main program.

    Args:
        package: the package.
        envelope: whether what no published program has counts, too.
    """
    streams = [
        b"" if stream.bitstream is None else bytes(stream.bitstream)
        for stream in package.main.instruction_bitstreams or ()
    ]

    def make() -> tuple[Finding, ...]:
        chunks = [disassemble(stream) for stream in streams]
        return tuple(verify_program(record(chunks), chunks))

    found = shared(("findings", *streams), make)
    return tuple(one for one in found if envelope or one.rule != "envelope")


def check(seed: int, options: Options = DEFAULT, *, axes: bool = False) -> Tally:
    """Run the model of a seed; `axes` as for `random_model`."""
    graph = random_model(seed, axes=axes)
    tally = Tally(models=1)
    try:
        segments, placements = divide(graph, options)
    except Exception as error:  # Every fault of the compiler is a finding here.
        tally.failures.append((seed, f"divide: {_crash(error)}", print_graph(graph, data=False)))
        return tally
    for placement in placements:
        if placement.target != NAME:
            for reject in placement.rejects:
                op = reject.where.split(" ")[0] if reject.where else ""
                tally.refused[f"{op}: {general(reject.what)}"] += 1
    for segment in segments:
        part = segment.graph
        fault, unordered = examined(part, seed, options)
        if fault.startswith(_REFUSED):
            tally.refused[general(fault.removeprefix(_REFUSED))] += 1
            continue
        tally.segments += 1
        tally.mapped.update(node.op for node in segment.nodes)
        tally.bytes += sum(part.type(name).size for name in part.outputs)
        if fault:
            tally.failures.append((seed, fault, minimized(part, seed, options)))
        tally.unordered += [(seed, text) for text in unordered]
    return tally


_REFUSED = "refused: "


def examined(
    graph: Graph, seed: int, options: Options = DEFAULT, *, verified: bool = True
) -> tuple[str, list[str]]:
    """What is wrong with a graph on the simulator, and what the verifier of programs finds.

    The first begins with `_REFUSED` if the graph was refused.

    Args:
        graph: the graph.
        seed: decides on everything random.
        options: what the program may use of the chip.
        verified: whether to ask the verifier, if nothing else is wrong.
    """
    try:
        package = program(graph, options)
        fault = differences(graph, package, seed)
        objections = findings(package) if verified and not fault else ()
        return fault, [str(finding) for finding in objections]
    except CapacityError as error:
        return f"{_REFUSED}{error.what}", []
    except FitzroyError as error:
        # The partition asked about every operator before.
        return f"{type(error).__name__}: {error.what}: {error.reason} ({error.where})", []
    except Exception as error:  # Every fault of the compiler is a finding here.
        return _crash(error), []


def _crash(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(place.filename).name}, {place.name})"


def general(reason: str) -> str:
    """A reason without names and numbers."""
    words = ("N" if any(c.isdigit() for c in word) else word for word in reason.split())
    return " ".join(words)[:90]


def part_of(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """Some nodes as a graph of their own, which gives all that none of them reads."""
    part, own = graph.part(nodes), {node.name for node in nodes}
    part.outputs = [
        name
        for node in nodes
        for name in node.outputs
        if all(reader.name not in own for reader in graph.consumers(name)) or name in graph.outputs
    ]
    return part


def minimized(graph: Graph, seed: int, options: Options = DEFAULT) -> str:
    """The fewest consecutive operators of a graph that fail, as text, and how."""
    nodes = graph.nodes()
    for length in range(1, len(nodes) + 1):
        for begin in range(len(nodes) - length + 1):
            part = part_of(graph, nodes[begin : begin + length])
            fault, _ = examined(part, seed, options, verified=False)
            if fault and not fault.startswith(_REFUSED):
                return f"{fault}\n{print_graph(part, data=False)}"
    return print_graph(graph, data=False)
