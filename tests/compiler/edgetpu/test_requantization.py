from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import corpus

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Attributes, Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.elementwise import ActivationAttributes, ClampAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.targets.edgetpu.parameters.operands import (
    FilterOperand,
    mapped_nodes,
    operands,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import (
    ODD,
    OutputStage,
    output_stage,
    sum_weights,
)
from fitzroy.compiler.targets.edgetpu.patching.matching import differences, tensor_operations
from fitzroy.formats import custom_op, tflite
from fitzroy.hw_models.parameters import Prefix, ZeroBias

F32 = np.float32


def act(
    scale: float, zero: int, dtype: DType = DType.UINT8, shape: tuple[int, ...] = (1, 4, 4, 8)
) -> TensorType:
    return TensorType(shape, dtype, Quantization.per_tensor(scale, zero))


def stage_of(
    op: str, inputs: list[TensorType], result: TensorType, attributes: Attributes,
    prefix: Prefix | None = None, weights: tuple[TensorType, ...] = (),
) -> OutputStage:  # fmt: skip
    graph = Graph("g")
    names = [graph.add_input(f"x{i}", type) for i, type in enumerate(inputs)]
    for type in weights:
        names.append(
            graph.add_constant("w", np.zeros(type.shape, type.dtype.numpy), type.quantization)
        )
    graph.outputs = [graph.emit(op, names, result, attributes)]
    return output_stage(Call.of(graph, graph.nodes()[0]), prefix)


def weight(scales: tuple[float, ...], zeros: tuple[int, ...], dtype: DType) -> TensorType:
    axis = 0 if len(scales) > 1 else None
    return TensorType((3, 1, 1, 8), dtype, Quantization(scales, zeros, axis))


def test_a_convolution_with_one_scale() -> None:
    s_in, s_w, s_out = (float(F32(s)) for s in (0.1, 0.03, 0.07))
    stage = stage_of(
        "conv_2d", [act(s_in, 5)], act(s_out, 9, shape=(1, 4, 4, 3)),
        ConvAttributes(activation=Activation.RELU6), Prefix(biases=True),
        (weight((s_w,), (131,), DType.UINT8),),
    )  # fmt: skip
    assert stage == OutputStage(
        scale=float((F32(s_in) * F32(s_w)) * (F32(1) / F32(s_out))),
        minimum=0.0,
        maximum=float(F32(6) / F32(s_out)),
        output_zero_point=9,
        a_zero_point=5,
        c_zero_point=131,
        bias_in_memory=True,
    )


def test_a_convolution_with_a_scale_per_channel() -> None:
    every = Prefix(scales=True, zero_points=True)
    types = [act(0.1, -128, DType.INT8)], act(0.07, -3, DType.INT8, (1, 4, 4, 3))
    weights = (weight((0.1, 0.2, 0.3), (0, 0, 0), DType.INT8),)
    stage = stage_of("conv_2d", *types, ConvAttributes(), every, weights)
    assert stage == OutputStage(
        1.0, -125.0, 130.0, 125, scale_in_memory=True, zero_points_in_memory=True
    )
    with pytest.raises(UnsupportedError, match="3 effective scales, but no scales in memory"):
        stage_of("conv_2d", *types, ConvAttributes(), Prefix(zero_points=True), weights)


def test_sums() -> None:
    assert sum_weights(1.0, 1.0) == (1, 1)
    assert sum_weights(0.5, 1.5) == (1, 3)
    assert sum_weights(1.5, 0.5) == (3, 1)
    assert sum_weights(1e-9, 1.0) == (0, 1)
    plain = ActivationAttributes()
    added = stage_of("add", [act(0.5, 10), act(1.5, 20)], act(1.0, 7), plain)
    assert added == OutputStage(0.5, -7.0, 248.0, 7, constant=-(10 + 3 * 20))
    subtracted = stage_of("sub", [act(0.5, 10), act(1.5, 20)], act(1.0, 7), plain)
    assert subtracted == OutputStage(0.5, -7.0, 248.0, 7, c_zero_point=3, constant=50)
    # An operand too small to count.
    assert stage_of("add", [act(1e-9, 10), act(1.0, 20)], act(1.0, 7), plain).scale == 1.0


def test_operators_without_weights() -> None:
    x, y = act(0.5, 10), act(0.25, 7)
    product = stage_of("mul", [x, y], act(1.0, 3), ActivationAttributes(Activation.RELU))
    assert product == OutputStage(0.125, 0.0, 252.0, 3, 10, 7)
    pool = PoolAttributes(kernel=(2, 2), stride=(2, 2))
    small = act(0.5, 10, shape=(1, 2, 2, 8))
    assert stage_of("average_pool_2d", [x], small, pool) == OutputStage(0.25, -10.0, 245.0, 10, 10)
    largest = OutputStage(1.0, -10.0, 245.0, 10, 0, 10, -10)
    assert stage_of("max_pool_2d", [x], small, pool) == largest
    axes = ReductionAttributes(axes=(1, -2))
    mean = stage_of("mean", [x], act(0.5, 10, shape=(1, 8)), axes)
    assert mean == OutputStage(1 / 16, -10.0, 245.0, 10, 10)
    requantized = stage_of("quantize", [x], act(0.25, 0, DType.INT8), Attributes())
    assert requantized == OutputStage(2.0, -128.0, 127.0, 128, 10)
    clamped = stage_of("clamp", [x], act(0.25, 7), ClampAttributes(0.0, 6.0))
    assert clamped == OutputStage(2.0, 0.0, 24.0, 7, 10)
    logistic = stage_of("sigmoid", [x], act(1 / 256, 0), Attributes())
    bound = float(F32(10.3967))
    assert logistic == OutputStage(0.5, -bound, bound, 0, 10, nlu=True)
    tanh = stage_of("tanh", [x], act(1 / 128, 128), Attributes())
    assert (tanh.maximum, tanh.output_zero_point) == (float(F32(6.87481)), 128)
    assert (tanh.nlu, tanh.nlu_odd) == (True, ODD)


def test_what_has_no_known_stage_is_refused() -> None:
    x = act(0.5, 10)
    with pytest.raises(UnsupportedError, match="reshape has no known output stage"):
        stage_of("reshape", [x], x, Attributes())
    same = PoolAttributes(kernel=(3, 3), padding=PaddingScheme.SAME)
    with pytest.raises(UnsupportedError, match="over the border"):
        stage_of("average_pool_2d", [x], x, same)
    with pytest.raises(UnsupportedError, match="does not change the quantization"):
        stage_of("max_pool_2d", [x], act(0.5, 11), PoolAttributes())
    with pytest.raises(UnsupportedError, match=r"output scale of 1/256, not 0\.5"):
        stage_of("sigmoid", [x], x, Attributes())
    with pytest.raises(UnsupportedError, match="is not quantized to 8 bits"):
        stage_of("quantize", [TensorType((1,), DType.FLOAT32)], x, Attributes())


def test_scales_whose_quotient_no_number_holds() -> None:
    large, small = act(1e38, 10), act(1e-37, 10)
    with pytest.raises(UnsupportedError, match="too far apart"):
        stage_of("quantize", [large], small, Attributes())
    weights = weight((1e38,), (0,), DType.INT8)
    with pytest.raises(UnsupportedError, match="too far apart"):
        stage_of("conv_2d", [large], small, ConvAttributes(), weights=(weights,))
    assert stage_of("quantize", [small], large, Attributes()).scale == 0


# --- vectors and corpus --------------------------------------------------------------------------


def real(bits: str) -> float:
    return float(struct.unpack(">f", bytes.fromhex(bits))[0])


@pytest.mark.corpus
def test_vectors_of_the_manual() -> None:
    path: Path = corpus().parent / "beagle" / "vectors" / "quantization.json"
    if not path.is_file():
        pytest.skip(f"no vectors at {path}")
    vectors: dict[str, Any] = json.loads(path.read_text())
    for v in vectors["effective_scale"]:
        weights = (weight((real(v["weight_scale"]),), (128,), DType.UINT8),)
        stage = stage_of(
            "conv_2d", [act(real(v["in_scale"]), 0)],
            act(real(v["out_scale"]), 0, shape=(1, 4, 4, 3)), ConvAttributes(), None, weights,
        )  # fmt: skip
        assert stage.scale == real(v["effective"])
    for v in vectors["add"]:
        s1, s2 = real(v["s1"]), real(v["s2"])
        weights_found = sum_weights(s1, s2)
        assert weights_found == (v["w1"], v["w2"])
        stage = stage_of(
            "add", [act(s1, v["z1"]), act(s2, v["z2"])], act(real(v["s_out"]), v["z_out"]),
            ActivationAttributes(),
        )  # fmt: skip
        assert (stage.constant, stage.scale) == (v["const"], real(v["scale"]))
        a, b = np.array(v["q1"]), np.array(v["q2"])
        total = weights_found[0] * a + weights_found[1] * b + stage.constant
        scaled = np.clip(F32(total) * F32(stage.scale), F32(stage.minimum), F32(stage.maximum))
        assert np.array_equal(np.rint(scaled) + stage.output_zero_point, v["out"])


@pytest.mark.long
@pytest.mark.corpus
def test_stages_of_the_corpus() -> None:
    """Of all operators, which have a tensor operation with just these constants."""
    found: Counter[tuple[str, bool]] = Counter()
    root = corpus()
    for path in sorted(root.glob("**/*_edgetpu.tflite")):
        stem = path.name.partition("_edgetpu")[0].partition("_cocompiled_with")[0]
        source = path.with_name(stem + ".tflite")
        if not source.is_file() or "bodypix" in stem:
            continue
        graph = import_model(tflite.read_model(source.read_bytes(), str(source)))
        model = tflite.read_model(path.read_bytes(), str(path))
        for op in custom_op.extract(model, str(path)):
            package = op.read()
            operations = tensor_operations(package.main).values()
            drops = package.package.min_runtime_version >= 14
            zero_bias = ZeroBias.DROP if drops else ZeroBias.KEEP
            for node in mapped_nodes(graph, package.main.inputs, package.main.outputs):
                if node.op in ("softmax", "unidirectional_sequence_lstm"):
                    continue
                prefix = None
                for operand in operands(graph, zero_bias=zero_bias, nodes=[node]):
                    if not isinstance(operand, FilterOperand):
                        continue
                    prefix = operand.layout.prefix
                try:
                    stage = output_stage(Call.of(graph, node), prefix)
                except UnsupportedError:
                    continue
                equal = any(not differences(stage, operation) for operation in operations)
                found[node.op, equal] += 1
    # Other forms of large pools have other zero points. A change between int8 and uint8 that keeps
    # the unsigned values needs no instruction.
    assert found == {
        ("conv_2d", True): 236, ("depthwise_conv_2d", True): 141, ("fully_connected", True): 113,
        ("add", True): 522, ("mul", True): 4, ("sigmoid", True): 1,
        ("average_pool_2d", True): 8, ("average_pool_2d", False): 1,
        ("mean", True): 1, ("mean", False): 1,
        ("quantize", True): 5, ("quantize", False): 24,
    }  # fmt: skip
