"""One or more small graphs for every operator, as seeds of tests over the whole repertoire."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node
from fitzroy.compiler.ops import (
    elementwise,
    matmul,
    normalization,
    pooling,
    recurrent,
    reduction,
    resize,
    shape,
)
from fitzroy.compiler.ops.convolution import ConvAttributes, TransposeConvAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.hw_models.numerics import Sampling

F32, I8, U8, I32 = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32
DTYPES = (F32, I8, U8)


def tensor(
    shape: tuple[int, ...], dtype: DType, scale: float = 0.05, zero: int | None = None
) -> TensorType:
    """A tensor type; 8-bit ones are quantized, by default with a zero point off the middle."""
    if dtype in (I8, U8):
        point = (7 if dtype is I8 else 135) if zero is None else zero
        return TensorType(shape, dtype, Quantization.per_tensor(scale, point))
    return TensorType(shape, dtype)


def single(
    op: str,
    inputs: list[TensorType | Array | None],
    output: TensorType,
    attributes: Attributes = NO_ATTRIBUTES,
    constants: dict[int, Quantization] | None = None,
) -> Graph:
    """A graph of one node; arrays become constants."""
    graph, names = Graph(op), list[str | None]()
    for index, item in enumerate(inputs):
        if isinstance(item, TensorType):
            names.append(graph.add_input(f"x{index}", item))
        elif item is None:
            names.append(None)
        else:
            names.append(graph.add_constant(f"c{index}", item, (constants or {}).get(index)))
    graph.outputs = [graph.emit(op, names, output, attributes, stem="y")]
    return graph


Zoo = dict[str, Graph]


def zoo(seed: int = 0) -> Zoo:
    """All graphs by a readable name that begins with the operator's."""
    rng = np.random.default_rng(seed)
    found: Zoo = {}
    for family in (_unary, _binary, _convolution, _pooling, _shape, _reduction, _rest):
        for name, graph in family(rng):
            assert name not in found
            found[name] = graph
    return found


Pairs = Iterator[tuple[str, Graph]]


def _unary(rng: np.random.Generator) -> Pairs:
    positive = {"sqrt", "rsqrt", "log"}
    attributes: dict[str, Attributes] = {
        "elu": elementwise.EluAttributes(0.7),
        "leaky_relu": elementwise.LeakyReluAttributes(0.3),
        "gelu": elementwise.GeluAttributes(False),
    }
    for op in (
        "abs", "ceil", "floor", "negate", "square", "sqrt", "rsqrt", "exp", "log", "sin", "cos",
        "tanh", "sigmoid", "hardswish", "gelu", "elu", "leaky_relu",
    ):  # fmt: skip
        for dtype in DTYPES:
            zero = dtype.limits[0] if dtype is not F32 and op in positive else None
            x = tensor((2, 3, 5), dtype, 0.03, zero)
            y = tensor((2, 3, 5), dtype, 0.02)
            yield f"{op}-{dtype.value}", single(op, [x], y, attributes.get(op, NO_ATTRIBUTES))
    yield (
        "sigmoid-uint8-to-int8",
        single("sigmoid", [tensor((4,), U8)], tensor((4,), I8, 1 / 256, -128)),
    )
    for dtype in DTYPES:
        a = elementwise.ClampAttributes(-0.5, 1.0)
        yield f"clamp-{dtype.value}", single("clamp", [tensor((7,), dtype)], tensor((7,), dtype), a)
    relu6 = elementwise.ClampAttributes(0.0, 6.0)
    y = tensor((7,), I8, 6 / 255, -128)
    yield "clamp-requantizing", single("clamp", [tensor((7,), I8, 0.1)], y, relu6)
    for a_type, b_type in ((F32, I8), (F32, U8), (I8, U8), (U8, I8), (I8, I8), (U8, U8)):
        name = f"quantize-{a_type.value}-{b_type.value}"
        yield name, single("quantize", [tensor((6,), a_type, 0.07)], tensor((6,), b_type, 0.05))
    for dtype in (I8, U8):
        yield (
            f"dequantize-{dtype.value}",
            single("dequantize", [tensor((6,), dtype)], tensor((6,), F32)),
        )
    for ratio in (1e-6, 1e6):
        name = f"-scales-{ratio:g}"
        near, far = tensor((6,), I8, 0.05), tensor((6,), I8, 0.05 * ratio)
        yield "quantize" + name, single("quantize", [near], far)
        pair = [near, far]
        yield (
            "add" + name,
            single(
                "add",
                list(pair),
                tensor((6,), I8, 0.05 / ratio),
                elementwise.ActivationAttributes(),
            ),
        )
        yield (
            "leaky_relu" + name,
            single("leaky_relu", [near], far, elementwise.LeakyReluAttributes(0.3)),
        )
    yield "cast-int32-float32", single("cast", [tensor((6,), I32)], tensor((6,), F32))
    yield "cast-float32-int32", single("cast", [tensor((6,), F32)], tensor((6,), I32))


def _binary(rng: np.random.Generator) -> Pairs:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((1, 3, 1), (2, 1, 4)),
    ]  # fmt: skip
    for op in ("add", "sub", "mul", "div", "minimum", "maximum"):
        plain = op in ("minimum", "maximum")
        for dtype in DTYPES:
            for index, (a, b) in enumerate(shapes):
                activation = (Activation.NONE, Activation.RELU, Activation.RELU6)[index]
                attributes = (
                    NO_ATTRIBUTES if plain else elementwise.ActivationAttributes(activation)
                )
                types: list[TensorType | Array | None] = [
                    tensor(a, dtype, 0.04),
                    tensor(b, dtype, 0.06, 3),
                ]
                y = tensor(np.broadcast_shapes(a, b), dtype, 0.08)
                yield f"{op}-{dtype.value}-{index}", single(op, types, y, attributes)
        if op != "div":
            attributes = NO_ATTRIBUTES if plain else elementwise.ActivationAttributes()
            pair: list[TensorType | Array | None] = [tensor((2, 3), I32), tensor((2, 3), I32)]
            yield f"{op}-int32", single(op, pair, tensor((2, 3), I32), attributes)
    constant = rng.integers(-128, 127, (4,), np.int8)
    yield (
        "add-constant",
        single(
            "add", [tensor((2, 4), I8), constant], tensor((2, 4), I8, 0.07),
            elementwise.ActivationAttributes(), {1: Quantization.per_tensor(0.03, 5)},
        ),
    )  # fmt: skip
    for dtype in DTYPES:
        slope = rng.integers(0, 100, 5).astype(dtype.numpy)
        quantization = None if dtype is F32 else Quantization.per_tensor(0.004, 2)
        yield (
            f"prelu-{dtype.value}",
            single(
                "prelu", [tensor((2, 3, 3, 5), dtype), slope], tensor((2, 3, 3, 5), dtype, 0.07),
                constants={} if quantization is None else {1: quantization},
            ),
        )  # fmt: skip
        left, right = tensor((2, 3), dtype), tensor((2, 3), dtype, 0.04)
        yield (
            f"squared_difference-{dtype.value}",
            single("squared_difference", [left, right], tensor((2, 3), dtype, 0.1)),
        )


def _filter(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, axis: int | None
) -> tuple[Array, Quantization | None]:
    if dtype is F32:
        return rng.standard_normal(shape).astype(np.float32), None
    if dtype is U8:
        return rng.integers(0, 256, shape, np.uint8), Quantization.per_tensor(0.01, 120)
    data = rng.integers(-127, 128, shape, np.int8)
    if axis is None:
        return data, Quantization.per_tensor(0.01)
    scale = tuple(float(np.float32(s)) for s in rng.uniform(0.004, 0.02, shape[axis]))
    return data, Quantization(scale, (0,) * len(scale), axis)


def _weighted(
    rng: np.random.Generator, op: str, x: TensorType, filter_shape: tuple[int, ...],
    axis: int | None, y: TensorType, attributes: Attributes, bias: bool = True,
) -> Graph:  # fmt: skip
    data, quantization = _filter(rng, filter_shape, x.dtype, axis)
    channels = filter_shape[3] if op == "depthwise_conv_2d" else filter_shape[0]
    constants = {} if quantization is None else {1: quantization}
    inputs: list[TensorType | Array | None] = [x, data]
    if bias and x.dtype is F32:
        inputs.append(rng.standard_normal(channels).astype(np.float32))
    elif bias:
        inputs.append(rng.integers(-3000, 3000, channels, np.int32))
        constants[2] = Quantization.per_tensor(1.0)
    return single(op, inputs, y, attributes, constants)


def _convolution(rng: np.random.Generator) -> Pairs:
    same, valid = PaddingScheme.SAME, PaddingScheme.VALID
    for dtype in DTYPES:
        for axis in (None, 0) if dtype is I8 else (None,):
            kind = f"{dtype.value}{'' if axis is None else '-channels'}"
            x = tensor((1, 7, 6, 4), dtype)
            a = ConvAttributes((2, 1), (1, 1), same, Activation.RELU6)
            yield (
                f"conv_2d-{kind}",
                _weighted(
                    rng, "conv_2d", x, (5, 3, 2, 4), axis, tensor((1, 4, 6, 5), dtype, 0.1), a
                ),
            )
            a = ConvAttributes((1, 1), (2, 2), valid)
            y = tensor((1, 3, 4, 6), dtype, 0.1)
            yield (
                f"conv_2d-{kind}-dilated",
                _weighted(rng, "conv_2d", x, (6, 3, 2, 4), axis, y, a, bias=False),
            )
            y = tensor((1, 5, 5, 6), dtype, 0.1)
            a = ConvAttributes((1, 1), (1, 1), valid)
            yield f"conv_2d-{kind}-grouped", _weighted(rng, "conv_2d", x, (6, 3, 2, 2), axis, y, a)
            depth_axis = None if axis is None else 3
            y = tensor((1, 7, 6, 8), dtype, 0.1)
            a = ConvAttributes((1, 1), (1, 1), same, Activation.RELU)
            name = f"depthwise_conv_2d-{kind}"
            yield name, _weighted(rng, "depthwise_conv_2d", x, (1, 3, 3, 8), depth_axis, y, a)
            flat = tensor((3, 4), dtype)
            layer = matmul.FullyConnectedAttributes(Activation.RELU)
            yield (
                f"fully_connected-{kind}",
                _weighted(
                    rng, "fully_connected", flat, (5, 4), axis, tensor((3, 5), dtype, 0.1), layer
                ),
            )
            layer = matmul.FullyConnectedAttributes(keep_num_dims=True)
            y = tensor((1, 7, 6, 5), dtype, 0.1)
            yield (
                f"fully_connected-{kind}-dims",
                _weighted(rng, "fully_connected", x, (5, 4), axis, y, layer, bias=False),
            )
            t = TransposeConvAttributes((2, 2), (0, 1, 1, 0), (14, 12))
            y = tensor((1, 14, 12, 3), dtype, 0.2)
            yield (
                f"transpose_conv-{kind}",
                _weighted(rng, "transpose_conv", x, (3, 3, 3, 4), axis, y, t),
            )


def _pooling(rng: np.random.Generator) -> Pairs:
    same = PaddingScheme.SAME
    for dtype in DTYPES:
        x = tensor((1, 6, 7, 3), dtype)
        for op in ("average_pool_2d", "max_pool_2d"):
            a = pooling.PoolAttributes((3, 2), (2, 1), same, Activation.RELU)
            yield f"{op}-{dtype.value}", single(op, [x], tensor((1, 3, 7, 3), dtype), a)
            a = pooling.PoolAttributes((6, 7), (1, 1))
            yield f"{op}-{dtype.value}-global", single(op, [x], tensor((1, 1, 1, 3), dtype), a)
            a = pooling.PoolAttributes((2, 3), (2, 2), PaddingScheme.VALID, Activation.RELU6)
            yield f"{op}-{dtype.value}-valid", single(op, [x], tensor((1, 3, 3, 3), dtype), a)
            a = pooling.PoolAttributes((1, 1), (2, 2))
            yield f"{op}-{dtype.value}-stride", single(op, [x], tensor((1, 3, 4, 3), dtype), a)

    graph = Graph("arg_max_pool_2d")
    graph.add_input("x", tensor((1, 6, 7, 3), F32))
    result = tensor((1, 3, 2, 3), F32)
    graph.add_node(
        Node("node", "arg_max_pool_2d", ("x",), ("y", "i"), pooling.ArgMaxPoolAttributes((2, 3))),
        (result, TensorType(result.shape, I32)),
    )
    graph.outputs = ["y", "i"]
    yield "arg_max_pool_2d", graph


def _shape(rng: np.random.Generator) -> Pairs:
    for dtype in DTYPES:
        kind = dtype.value
        x = tensor((1, 4, 6, 4), dtype)

        def same(extent: tuple[int, ...], x: TensorType = x) -> TensorType:
            return x.with_shape(extent)

        yield (
            f"reshape-{kind}",
            single("reshape", [x], same((4, 24)), shape.ReshapeAttributes((4, 24))),
        )
        yield (
            f"reshape-{kind}-scalar",
            single("reshape", [same((1,))], same((1, 1)), shape.ReshapeAttributes((1, 1))),
        )
        yield (
            f"transpose-{kind}",
            single("transpose", [x], same((1, 6, 4, 4)), shape.TransposeAttributes((0, 2, 1, 3))),
        )
        pad = shape.PadAttributes((0, 1, 2, 0), (0, 0, 1, 1))
        yield f"pad-{kind}", single("pad", [x], same((1, 5, 9, 5)), pad)
        value = shape.PadAttributes((0, 0, 0, 1), (0, 0, 0, 0), 1.5)
        yield f"pad-{kind}-value", single("pad", [x], same((1, 4, 6, 5)), value)
        box = shape.StridedSliceAttributes((0, 1, 2, 0), (1, 2, 3, 4), (1, 1, 1, 1))
        yield f"strided_slice-{kind}", single("strided_slice", [x], same((1, 2, 3, 4)), box)
        steps = shape.StridedSliceAttributes((0, 0, 1, 0), (1, 2, 2, 4), (1, 2, 3, 1))
        yield f"strided_slice-{kind}-steps", single("strided_slice", [x], same((1, 2, 2, 4)), steps)
        for count in (1, 2, 3, 5, 7):
            inputs: list[TensorType | Array | None] = [x] * count
            a = shape.ConcatenationAttributes(3)
            yield (
                f"concatenation-{kind}-{count}",
                single("concatenation", inputs, same((1, 4, 6, 4 * count)), a),
            )
        yield f"pack-{kind}", single("pack", [x, x], same((1, 2, 4, 6, 4)), shape.AxisAttributes(1))
        down = shape.BlockAttributes(2)
        yield f"space_to_depth-{kind}", single("space_to_depth", [x], same((1, 2, 3, 16)), down)
        yield f"depth_to_space-{kind}", single("depth_to_space", [x], same((1, 8, 12, 1)), down)
        for op, attributes, extents in (
            (
                "split",
                shape.SplitAttributes(2, (1, 2, 3)),
                [(1, 4, 1, 4), (1, 4, 2, 4), (1, 4, 3, 4)],
            ),
            ("unpack", shape.AxisAttributes(1), [(1, 6, 4)] * 4),
        ):
            graph = Graph(op)
            graph.add_input("x", x)
            types = [x.with_shape(extent) for extent in extents]
            names = tuple(f"y{i}" for i in range(len(types)))

            graph.add_node(Node("node", op, ("x",), names, attributes), types)
            graph.outputs = list(names)
            yield f"{op}-{kind}", graph
        indices = np.array([2, 0, 2], np.int32)
        yield (
            f"gather-{kind}",
            single("gather", [x, indices], same((1, 3, 6, 4)), shape.GatherAttributes(1)),
        )
        half = resize.ResizeAttributes((7, 9), Sampling.HALF_PIXEL)
        yield f"resize_bilinear-{kind}", single("resize_bilinear", [x], same((1, 7, 9, 4)), half)
        legacy = resize.ResizeAttributes((8, 12), Sampling.LEGACY)
        yield (
            f"resize_bilinear-{kind}-legacy",
            single("resize_bilinear", [x], same((1, 8, 12, 4)), legacy),
        )
        corners = resize.ResizeAttributes((7, 11), Sampling.ALIGN_CORNERS)
        yield (
            f"resize_bilinear-{kind}-corners",
            single("resize_bilinear", [x], same((1, 7, 11, 4)), corners),
        )
        yield (
            f"resize_nearest_neighbor-{kind}",
            single("resize_nearest_neighbor", [x], same((1, 8, 12, 4)), legacy),
        )
        odd = resize.ResizeAttributes((5, 7), Sampling.LEGACY)
        yield (
            f"resize_nearest_neighbor-{kind}-odd",
            single("resize_nearest_neighbor", [x], same((1, 5, 7, 4)), odd),
        )
    for dtype in (*DTYPES, I32):
        yield f"copy-{dtype.value}", single("copy", [tensor((2, 3), dtype)], tensor((2, 3), dtype))
    y = tensor((2, 2), I8, 0.02, -4)
    yield (
        "reshape-requantizing",
        single("reshape", [tensor((4,), I8)], y, shape.ReshapeAttributes((2, 2))),
    )
    a = shape.ConcatenationAttributes(0)
    parts: list[TensorType | Array | None] = [tensor((4,), I8, 0.1), tensor((4,), I8, 0.02, -9)]
    yield "concatenation-requantizing", single("concatenation", parts, tensor((8,), I8, 0.05), a)
    yield (
        "reshape-int32",
        single(
            "reshape", [tensor((4,), I32)], tensor((2, 2), I32), shape.ReshapeAttributes((2, 2))
        ),
    )


def _reduction(rng: np.random.Generator) -> Pairs:
    for dtype in DTYPES:
        kind = dtype.value
        x = tensor((2, 4, 5, 3), dtype)
        for axes, keep, out in (
            ((1, 2), False, (2, 3)), ((1, 2), True, (2, 1, 1, 3)),
            ((3,), False, (2, 4, 5)), ((1,), True, (2, 1, 5, 3)),
        ):  # fmt: skip
            a = reduction.ReductionAttributes(axes, keep)
            yield f"mean-{kind}-{axes}-{keep}", single("mean", [x], tensor(out, dtype, 0.02), a)
        a = reduction.ReductionAttributes((1, 2), False)
        yield f"sum-{kind}", single("sum", [x], tensor((2, 3), dtype, 0.5), a)
        for op in ("reduce_max", "reduce_min"):
            yield f"{op}-{kind}", single(op, [x], x.with_shape((2, 3)), a)
        for op in ("arg_max", "arg_min"):
            y = TensorType((2, 4, 5), I32)
            yield f"{op}-{kind}", single(op, [x], y, reduction.ArgAttributes(3))
        softmax = tensor((2, 9), dtype, 1 / 256, None if dtype is F32 else dtype.limits[0])
        rows = tensor((2, 9), dtype)
        yield (
            f"softmax-{kind}",
            single("softmax", [rows], softmax, normalization.SoftmaxAttributes()),
        )
        yield (
            f"softmax-{kind}-beta",
            single("softmax", [rows], softmax, normalization.SoftmaxAttributes(0.5)),
        )
        logs = tensor((2, 9), dtype, 16 / 256, None if dtype is F32 else dtype.limits[1])
        yield f"log_softmax-{kind}", single("log_softmax", [rows], logs)
        yield (
            f"l2_normalization-{kind}",
            single("l2_normalization", [rows], tensor((2, 9), dtype, 1 / 128)),
        )


def _rest(rng: np.random.Generator) -> Pairs:
    for dtype in DTYPES:
        a = matmul.BatchMatMulAttributes()
        x, y = tensor((2, 3, 4), dtype), tensor((2, 4, 5), dtype)
        yield (
            f"batch_matmul-{dtype.value}",
            single("batch_matmul", [x, y], tensor((2, 3, 5), dtype, 0.2), a),
        )
        x, y = tensor((2, 1, 3, 4), dtype), tensor((5, 4, 5), dtype)
        z = tensor((2, 5, 3, 5), dtype, 0.2)
        yield f"batch_matmul-{dtype.value}-broadcast", single("batch_matmul", [x, y], z, a)
        swapped = matmul.BatchMatMulAttributes(adj_y=True)
        x, y = tensor((3, 4), dtype), tensor((5, 4), dtype)
        yield (
            f"batch_matmul-{dtype.value}-adjoint",
            single("batch_matmul", [x, y], tensor((3, 5), dtype, 0.2), swapped),
        )
    for major in (False, True):
        x = tensor((3, 2, 4), F32)
        operands: list[TensorType | Array | None] = [None] * recurrent.OPERANDS
        operands[0] = x
        for gate in range(4):
            operands[recurrent.INPUT_WEIGHTS + gate] = rng.standard_normal((5, 4)).astype(
                np.float32
            )
            operands[recurrent.RECURRENT_WEIGHTS + gate] = rng.standard_normal((5, 5)).astype(
                np.float32
            )
            operands[recurrent.BIASES + gate] = rng.standard_normal(5).astype(np.float32)
        a_lstm = recurrent.LstmAttributes(major, 0.0 if major else 0.8)
        yield (
            f"unidirectional_sequence_lstm-{major}",
            single("unidirectional_sequence_lstm", operands, tensor((3, 2, 5), F32), a_lstm),
        )


def random_inputs(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    """Arrays for all inputs; float ones are positive half the time, integers use their range."""
    arrays: dict[str, Array] = {}
    for name in graph.inputs:
        type = graph.type(name)
        if type.dtype.is_float:
            array = rng.standard_normal(type.shape).astype(np.float32)
            positive = graph.name in ("sqrt", "rsqrt", "log")
            arrays[name] = np.abs(array) + np.float32(0.1) if positive else array
        else:
            low, high = type.dtype.limits if type.quantization else (-1000, 1000)
            arrays[name] = rng.integers(low, high, type.shape, type.dtype.numpy, endpoint=True)
    return arrays
