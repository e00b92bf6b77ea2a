from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from tests.support import need_litert

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.formats import tflite as tfl
from fitzroy.formats.tflite import BuiltinOperator as Op
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic, tflite

SEED = 7


def per_tensor(shape: Sequence[int], dtype: DType, scale: float, zero: int) -> TensorType:
    return TensorType(tuple(shape), dtype, Quantization.per_tensor(scale, zero))


def litert(
    op: Op,
    options: tfl.Options | None,
    inputs: Sequence[tuple[TensorType, Array | None]],
    output: TensorType,
    values: Sequence[Array],
    version: int = 1,
) -> Array:
    """Run one operator on LiteRT's reference kernels; inputs without data are fed `values`."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    buffers: list[tfl.Buffer] = [tfl.Buffer()]
    tensors: list[tfl.Tensor] = []
    codes = {dtype: code for code, dtype in tfl.DTYPES.items()}
    for type_, data in (*inputs, (output, None)):
        params = None
        if type_.quantization is not None:
            params = tfl.QuantizationParameters(
                scale=np.asarray(type_.quantization.scale, np.float32),
                zero_point=np.asarray(type_.quantization.zero_point, np.int64),
                quantized_dimension=type_.quantization.axis or 0,
            )
        index = 0
        if data is not None:
            index = len(buffers)
            buffers.append(tfl.Buffer(data=np.frombuffer(data.tobytes(), np.uint8)))
        tensors.append(
            tfl.Tensor(
                shape=np.asarray(type_.shape, np.int32), type=int(codes[type_.dtype]),
                buffer=index, name=f"t{len(tensors)}", quantization=params,
            )
        )  # fmt: skip
    free = [i for i, (_, data) in enumerate(inputs) if data is None]
    graph = tfl.SubGraph(
        tensors=tensors,
        inputs=np.asarray(free, np.int32),
        outputs=np.asarray([len(inputs)], np.int32),
        operators=[
            tfl.Operator(
                opcode_index=0,
                inputs=np.arange(len(inputs), dtype=np.int32),
                outputs=np.asarray([len(inputs)], np.int32),
                builtin_options=options,
            )
        ],
    )
    model = tfl.Model(
        version=3, operator_codes=[tfl.operator_code(op, version=version)], subgraphs=[graph],
        buffers=buffers,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpreter = Interpreter(
            model_content=tfl.write_model(model),
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        )
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    result: Array = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return result


class Draw:
    """Random quantized tensors."""

    def __init__(self, seed: int, dtype: DType) -> None:
        self.rng = np.random.default_rng([SEED, seed])
        self.dtype = dtype

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def type(self, shape: Sequence[int], reach: float = 1.0) -> TensorType:
        scale = float(np.exp(self.rng.uniform(-4, 0))) * reach
        return per_tensor(shape, self.dtype, scale, self.integer(*self.dtype.limits))

    def stored(self, shape: Sequence[int], dtype: DType | None = None) -> Array:
        low, high = (dtype or self.dtype).limits
        return self.rng.integers(low, high + 1, shape).astype((dtype or self.dtype).numpy)


DRAWS = [(dtype, seed) for dtype in (DType.INT8, DType.UINT8) for seed in range(6)]
draws = pytest.mark.parametrize(("dtype", "seed"), DRAWS)


@draws
def test_tflite_sums_and_products(dtype: DType, seed: int) -> None:
    need_litert()
    draw = Draw(seed, dtype)
    shape = (2, draw.integer(1, 9), 5)
    a, b, out = draw.type(shape), draw.type(shape), draw.type(shape)
    x, y = draw.stored(shape), draw.stored(shape)
    pairs = [(a, None), (b, None)]
    real = litert(Op.ADD, tfl.AddOptions(), pairs, out, [x, y], 2)
    assert np.array_equal(tflite.add(x, y, a, b, out), real)
    real = litert(Op.SUB, tfl.SubOptions(), pairs, out, [x, y], 2)
    assert np.array_equal(tflite.add(x, y, a, b, out, subtract=True), real)
    real = litert(Op.MUL, tfl.MulOptions(fused_activation_function=3), pairs, out, [x, y], 2)
    assert np.array_equal(tflite.multiply(x, y, a, b, out, low=0, high=6), real)


@draws
def test_tflite_convolutions(dtype: DType, seed: int) -> None:
    need_litert()
    draw = Draw(seed, dtype)
    depth, channels = draw.integer(1, 9), draw.integer(1, 9)
    kernel = (draw.integer(1, 3), draw.integer(1, 3))
    stride = (draw.integer(1, 2), draw.integer(1, 2))
    x_type = draw.type((1, 7, 8, depth))
    x = draw.stored(x_type.shape)
    bias = draw.rng.integers(-2000, 2000, channels).astype(np.int32)

    def bias_type(x_type: TensorType, w_type: TensorType, channels: int) -> TensorType:
        assert x_type.quantization is not None
        assert w_type.quantization is not None
        scale = x_type.quantization.scale[0] * w_type.quantization.scale[0]
        return TensorType((channels,), DType.INT32, Quantization.per_tensor(scale))

    def filters(shape: tuple[int, ...], axis: int) -> tuple[TensorType, Array]:
        if dtype is DType.UINT8:
            return per_tensor(shape, dtype, 0.01, draw.integer(0, 255)), draw.stored(shape)
        scales = np.exp(draw.rng.uniform(-6, -3, shape[axis])).astype(np.float32)
        quantization = Quantization(tuple(scales.tolist()), (0,) * len(scales), axis)
        return TensorType(shape, dtype, quantization), draw.stored(shape)

    padding = numerics.same_padding((7, 8), kernel, stride, (1, 1))
    rows, columns = -(-7 // stride[0]), -(-8 // stride[1])
    w_type, w = filters((channels, *kernel, depth), 0)
    out = draw.type((1, rows, columns, channels), 10)
    options = tfl.Conv2DOptions(stride_h=stride[0], stride_w=stride[1])
    triple = [(x_type, None), (w_type, w), (bias_type(x_type, w_type, bias.size), bias)]
    real = litert(Op.CONV_2D, options, triple, out, [x], 3)
    mine = numerics.conv_2d(
        x, w, bias, x_type, w_type, out, stride=stride, padding=padding,
        arithmetic=Arithmetic.TFLITE,
    )  # fmt: skip
    assert np.array_equal(mine, real)

    w_type, w = filters((1, *kernel, depth * 2), 3)
    bias = np.resize(bias, depth * 2)
    out = draw.type((1, rows, columns, depth * 2), 5)
    options_ = tfl.DepthwiseConv2DOptions(
        stride_h=stride[0], stride_w=stride[1], depth_multiplier=2
    )
    triple = [(x_type, None), (w_type, w), (bias_type(x_type, w_type, bias.size), bias)]
    real = litert(Op.DEPTHWISE_CONV_2D, options_, triple, out, [x], 3)
    mine = numerics.depthwise_conv_2d(
        x, w, bias, x_type, w_type, out, stride=stride, padding=padding, multiplier=2,
        arithmetic=Arithmetic.TFLITE,
    )  # fmt: skip
    assert np.array_equal(mine, real)

    zero = 0 if dtype is DType.INT8 else 99
    w_type, w = per_tensor((channels, depth), dtype, 0.01, zero), draw.stored((channels, depth))
    bias = np.resize(bias, channels)
    x_type = draw.type((3, depth))
    x, out = draw.stored(x_type.shape), draw.type((3, channels), 3)
    triple = [(x_type, None), (w_type, w), (bias_type(x_type, w_type, bias.size), bias)]
    real = litert(Op.FULLY_CONNECTED, tfl.FullyConnectedOptions(), triple, out, [x], 4)
    mine = numerics.fully_connected(
        x, w, bias, x_type, w_type, out, arithmetic=Arithmetic.TFLITE
    )  # fmt: skip
    assert np.array_equal(mine, real)


@draws
def test_tflite_means_and_pools(dtype: DType, seed: int) -> None:
    need_litert()
    draw = Draw(seed, dtype)
    shape = (1, draw.integer(3, 9), draw.integer(3, 9), draw.integer(1, 9))
    x_type, x = draw.type(shape), draw.stored(shape)
    keep = bool(seed % 2)
    out = draw.type((1, 1, 1, shape[3]) if keep else (1, shape[3]))
    axes = np.array([1, 2], np.int32)
    pair = [(x_type, None), (TensorType((2,), DType.INT32), axes)]
    real = litert(Op.MEAN, tfl.ReducerOptions(keep_dims=keep), pair, out, [x], 2)
    mine = tflite.mean(x, x_type, out, axes=(1, 2), keep_dims=keep)
    assert np.array_equal(mine, real)
    kernel = (draw.integer(1, 3), draw.integer(1, 3))
    options = tfl.Pool2DOptions(
        stride_h=1, stride_w=1, filter_height=kernel[0], filter_width=kernel[1]
    )
    real = litert(Op.AVERAGE_POOL_2D, options, [(x_type, None)], x_type, [x], 2)
    padding = numerics.same_padding((shape[1], shape[2]), kernel, (1, 1), (1, 1))
    mine = tflite.average_pool(x, x_type, kernel=kernel, stride=(1, 1), padding=padding)
    assert np.array_equal(mine, real)


@draws
def test_tflite_tables_and_requantization(dtype: DType, seed: int) -> None:
    need_litert()
    draw = Draw(seed, dtype)
    shape = (3, draw.integer(2, 40))
    x_type, x = draw.type(shape), draw.stored(shape)
    out = per_tensor(shape, dtype, 1 / 256, dtype.limits[0])
    real = litert(Op.SOFTMAX, tfl.SoftmaxOptions(beta=1), [(x_type, None)], out, [x], 2)
    assert np.array_equal(tflite.softmax(x, x_type, out), real)
    for other in (DType.INT8, DType.UINT8):
        target = per_tensor(shape, other, 0.3, draw.integer(*other.limits))
        real = litert(Op.QUANTIZE, tfl.QuantizeOptions(), [(x_type, None)], target, [x], 2)
        assert np.array_equal(tflite.requantize(x, x_type, target), real)
    real = litert(Op.LOGISTIC, None, [(x_type, None)], out, [x], 2)
    assert np.array_equal(tflite.logistic(x, x_type, out), real)


def test_requantize_rounds_ties_to_even_and_tflite_up() -> None:
    acc = np.array([1, 3, 5, -1, -3, 1000, -1000], np.int32)
    mine = numerics.requantize(acc, 0.5, 0, -128, 127, DType.INT8)
    assert mine.tolist() == [0, 2, 2, 0, -2, 127, -128]
    mine = numerics.requantize(acc, 0.5, 0, -128, 127, DType.INT8, Arithmetic.TFLITE)
    assert mine.tolist() == [1, 2, 3, 0, -1, 127, -128]
    channels = numerics.requantize(
        np.array([[4, 4]], np.int64), np.array([0.5, 2], np.float32), 1, -128, 127, DType.INT8
    )
    assert channels.tolist() == [[3, 9]]


def test_quantize_inverts_dequantize() -> None:
    quantization = Quantization.per_tensor(0.25, 3)
    stored = np.arange(-128, 128).astype(np.int8)
    real = numerics.dequantize(stored, quantization)
    assert real[3 + 128] == 0
    assert np.array_equal(numerics.quantize(real, quantization, DType.INT8), stored)
    special = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert numerics.quantize(special, quantization, DType.INT8).tolist() == [127, 127, -128]


def test_quantized_range() -> None:
    quantization = Quantization.per_tensor(0.1, -100)
    assert numerics.quantized_range(0, 6, quantization, DType.INT8) == (-100, -40)
    assert numerics.quantized_range(-math.inf, math.inf, quantization, DType.INT8) == (-128, 127)
    with pytest.raises(UsageError):
        numerics.quantized_range(0, 6, None, DType.INT8)


@pytest.mark.parametrize("dtype", [np.int8, np.float32])
def test_convolutions_equal_their_definition(dtype: type[np.generic]) -> None:
    rng = np.random.default_rng(SEED)
    x = rng.integers(-128, 128, (2, 6, 7, 4)).astype(dtype)
    w = rng.integers(-128, 128, (6, 2, 3, 2)).astype(dtype)
    zero = 5 if dtype is np.int8 else 0
    got = numerics.accumulate_conv_2d(
        x, w, stride=(2, 1), dilation=(2, 2), padding=(1, 0, 2, 1), groups=2, x_zero_point=zero
    )
    wide = np.pad(x.astype(np.int64) - zero, ((0, 0), (1, 0), (2, 1), (0, 0)))
    expected = np.zeros(got.shape, np.int64)
    for row in range(got.shape[1]):
        for column in range(got.shape[2]):
            for channel in range(6):
                first = 2 * (channel // 3)
                patch = wide[
                    :, 2 * row : 2 * row + 3 : 2, column : column + 5 : 2, first : first + 2
                ]
                expected[:, row, column, channel] = (patch * w[channel].astype(np.int64)).sum(
                    axis=(1, 2, 3)
                )
    assert np.array_equal(got, expected)
    assert got.dtype == (np.int32 if dtype is np.int8 else np.float32)


def test_transposed_convolution_is_the_adjoint() -> None:
    rng = np.random.default_rng(SEED)
    x = rng.integers(-9, 10, (1, 7, 8, 3))
    w = rng.integers(-9, 10, (4, 3, 2, 3))
    options = {"stride": (2, 3), "padding": (1, 0, 1, 1)}
    forward = numerics.accumulate_conv_2d(x, w, **options)  # type: ignore[arg-type]
    y = rng.integers(-9, 10, forward.shape)
    rest = (7 + 1 - 3) % 2, (8 + 2 - 2) % 3
    back = numerics.accumulate_transpose_conv_2d(
        y, w.transpose(3, 1, 2, 0), adjustment=rest, **options  # type: ignore[arg-type]
    )  # fmt: skip
    assert back.shape == x.shape
    assert int((forward * y).sum()) == int((x * back).sum())


def test_large_sums_stay_exact() -> None:
    x = np.full((1, 70000), 127, np.int8)
    w = np.full((2, 70000), 127, np.int8)
    sums = numerics.accumulate_fully_connected(x, w, x_zero_point=-128)
    assert sums.tolist() == [[255 * 127 * 70000] * 2]


def test_windows_must_fit() -> None:
    with pytest.raises(UsageError, match="5x5"):
        numerics.accumulate_conv_2d(np.zeros((1, 4, 4, 1)), np.zeros((1, 5, 5, 1)))


def test_resize_nearest() -> None:
    x = np.arange(4, dtype=np.int8).reshape(1, 1, 4, 1)
    for sampling, expected in (
        (numerics.Sampling.LEGACY, [0, 0, 1, 2, 2, 3]),
        (numerics.Sampling.HALF_PIXEL, [0, 1, 1, 2, 3, 3]),
        (numerics.Sampling.ALIGN_CORNERS, [0, 1, 1, 2, 2, 3]),
    ):
        assert numerics.resize_nearest(x, (1, 6), sampling).ravel().tolist() == expected


def test_unknown_functions_are_refused() -> None:
    real = TensorType((1,), DType.FLOAT32)
    with pytest.raises(UsageError, match="sinh"):
        numerics.unary("sinh", np.zeros(1, np.float32), real, real)
