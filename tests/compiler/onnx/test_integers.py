"""Operators that ONNX applies to quantized integers themselves keep what these stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tests.compiler.onnx.models import executed, helper, model, operators, read

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate

RNG = np.random.default_rng(17)
SCALE = 0.03
IMAGE = (1, 4, 6, 6)
ZEROS = (np.uint8(120), np.int8(-8))
Zero = np.uint8 | np.int8

KEPT = ("scale", "zero")
QUANTIZED = ("q", *KEPT)

zeros = pytest.mark.parametrize("zero", ZEROS, ids=["uint8", "int8"])


def between(
    nodes: Sequence[Any],
    zero: Zero,
    constants: Mapping[str, Any] | None = None,
    shape: Sequence[int] = IMAGE,
    result: Sequence[str] = KEPT,
) -> bytes:
    """A model that quantizes `x` to `q`, applies operators, and dequantizes their result `r`.

    Args:
        nodes: the operators.
        zero: zero point and element type.
        constants: what the operators read besides.
        shape: of `x`.
        result: scale and zero point of `r`.
    """
    node = helper().make_node
    around = [
        node("QuantizeLinear", ["x", *KEPT], ["q"]),
        *nodes,
        node("DequantizeLinear", ["r", *result], ["y"]),
    ]
    given = {"scale": np.float32(SCALE), "zero": zero, **(constants or {})}
    arrays = {name: np.asarray(value) for name, value in given.items()}
    return model(around, [("x", shape)], ["y"], arrays)


def same(data: bytes, shape: Sequence[int] = IMAGE, *, steps: int = 0) -> Graph:
    """Demand that a model gives what ONNX Runtime gives, up to some steps; returns its graph."""
    graph, x = read(data), RNG.standard_normal(shape).astype(np.float32)
    (wanted,) = executed(data, {"x": x})
    np.testing.assert_allclose(
        evaluate(graph, {"x": x})["y"], wanted, rtol=0, atol=SCALE * (steps + 0.01)
    )
    return graph


@zeros
@pytest.mark.parametrize("border", ["zero", "other", ""])
def test_padding_of_integers_is_a_stored_integer(zero: Zero, border: str) -> None:
    node = helper().make_node("Pad", ["q", "pads", border], ["r"])
    pads = np.array([0, 0, 1, 2, 0, 0, 2, 1])
    same(between([node], zero, {"pads": pads, "other": zero + type(zero)(7)}))


@zeros
@pytest.mark.parametrize(
    ("attributes", "pooled"),
    [
        ({"kernel_shape": [2, 2], "strides": [2, 2]}, True),
        ({"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, True),
        ({"kernel_shape": [2, 2], "dilations": [2, 2], "pads": [1, 1, 1, 1]}, False),
    ],
)
def test_integers_are_pooled(zero: Zero, attributes: dict[str, Any], pooled: bool) -> None:
    data = between([helper().make_node("MaxPool", ["q"], ["r"], **attributes)], zero)
    assert ("max_pool_2d" in operators(same(data))) is pooled


@zeros
@pytest.mark.parametrize("op", ["DepthToSpace", "SpaceToDepth"])
def test_pixels_of_integers_become_channels_and_back(zero: Zero, op: str) -> None:
    same(between([helper().make_node(op, ["q"], ["r"], blocksize=2)], zero))


@zeros
def test_channels_of_integers_are_shuffled(zero: Zero) -> None:
    node = helper().make_node
    nodes = [
        node("Reshape", ["q", "groups"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["b", "image"], ["r"]),
    ]
    shapes = {"groups": np.array([1, 2, 2, 6, 6]), "image": np.array(IMAGE)}
    same(between(nodes, zero, shapes))


@zeros
def test_constants_beside_integers_count_in_their_steps(zero: Zero) -> None:
    node = helper().make_node("Concat", ["q", "more"], ["r"], axis=1)
    more = RNG.integers(0, 100, (1, 2, 6, 6)).astype(type(zero))
    same(between([node], zero, {"more": more}))


def test_integers_with_different_scales_are_not_joined() -> None:
    node = helper().make_node
    nodes = [
        node("QuantizeLinear", ["x", "other", "zero"], ["p"]),
        node("Concat", ["q", "p"], ["r"], axis=1),
    ]
    with pytest.raises(UnsupportedError, match="different scales"):
        read(between(nodes, np.int8(3), {"other": np.float32(0.5)}))


@zeros
def test_integers_are_limited(zero: Zero) -> None:
    node, kind = helper().make_node, type(zero)
    bounds = {"low": zero - kind(9), "high": zero + kind(50)}
    clipped = same(between([node("Clip", ["q", "low", "high"], ["r"])], zero, bounds))
    assert {"maximum", "minimum"} <= {*operators(clipped)}
    same(between([node("Clip", ["q", "low"], ["r"])], zero, bounds))
    same(
        between([node("Max", ["q", "low"], ["m"]), node("Min", ["m", "high"], ["r"])], zero, bounds)
    )


def test_rectifier_of_integers_has_the_stored_zero_for_a_bound() -> None:
    same(between([helper().make_node("Relu", ["q"], ["r"])], np.int8(-8)))


@zeros
def test_integers_are_chosen(zero: Zero) -> None:
    node = helper().make_node
    nodes = [
        node("Greater", ["x", "bound"], ["c"]),
        node("Where", ["c", "q", "other"], ["a"]),
        node("Where", ["c", "a", "q"], ["r"]),
    ]
    other = RNG.integers(0, 100, (4, 1, 1)).astype(type(zero))
    same(between(nodes, zero, {"bound": np.float32(0.2), "other": other}))


@zeros
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("format", ["QOperator", "QDQ"])
def test_images_of_integers_are_quantized_inputs(zero: Zero, channels: int, format: str) -> None:
    node, shape = helper().make_node, (1, channels, 6, 7)
    convolution = [
        node("DequantizeLinear", ["x", "scale", "zero"], ["x/d"]),
        node("DequantizeLinear", ["w", "step", "none"], ["w/d"]),
        node("Conv", ["x/d", "w/d"], ["c"]),
        node("QuantizeLinear", ["c", "coarse", "zero"], ["r"]),
    ]
    if format == "QOperator":
        operands = ["x", "scale", "zero", "w", "step", "none", "coarse", "zero"]
        convolution = [node("QLinearConv", operands, ["r"])]
    # Without VNNI, ONNX Runtime saturates sums of two products of uint8 and int8 at 16 bits.
    constants = {
        "scale": np.float32(SCALE), "zero": zero, "step": np.float32(0.01), "none": np.int8(0),
        "coarse": np.float32(0.1), "w": RNG.integers(-64, 64, (4, channels, 3, 3)).astype(np.int8),
    }  # fmt: skip
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    dequantized = node("DequantizeLinear", ["r", "coarse", "zero"], ["y"])
    dtype = DType(type(zero).__name__)
    data = model([*convolution, dequantized], [("x", shape)], ["y"], arrays, dtype=dtype)
    x = RNG.integers(*dtype.limits, shape).astype(type(zero))
    (wanted,) = executed(data, {"x": x})
    for keep in (True, False):
        graph = read(data, Reading(keep_layout=keep))
        assert graph.type("x").is_quantized
        assert {"conv_2d", "dequantize"} <= {*operators(graph)} <= {
            "conv_2d", "dequantize", "quantize", "transpose", "reshape"
        }  # fmt: skip
        found = evaluate(graph, {"x": x if keep else x.transpose(0, 2, 3, 1)})["y"]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=0.101)


@zeros
@pytest.mark.parametrize(
    ("mode", "factors", "made"),
    [
        ("nearest", [1, 1, 2, 2], "resize_nearest_neighbor"),
        ("linear", [1, 1, 2, 2], "resize_bilinear"),
        ("linear", [1, 1, 1.6, 1], "fully_connected"),
    ],
)
def test_images_of_integers_are_resized(
    zero: Zero, mode: str, factors: Sequence[float], made: str
) -> None:
    node = helper().make_node("Resize", ["q", "", "factors"], ["r"], mode=mode)
    data = between([node], zero, {"factors": np.array(factors, np.float32)})
    # ONNX Runtime rounds means of integers towards 0.
    assert made in operators(same(data, steps=0 if mode == "nearest" else 1))


# --- operators of ONNX Runtime -----------------------------------------------------------------


def microsoft(op: str, operands: Sequence[str], **attributes: Any) -> Any:
    """A node of ONNX Runtime's own, which gives `r`."""
    return helper().make_node(op, operands, ["r"], domain="com.microsoft", **attributes)


@zeros
@pytest.mark.parametrize("counted", [0, 1])
def test_integers_are_averaged(zero: Zero, counted: int) -> None:
    windows = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}
    pool = microsoft(
        "QLinearAveragePool", [*QUANTIZED, *KEPT], count_include_pad=counted, **windows
    )
    found = operators(same(between([pool], zero), steps=1))
    assert "average_pool_2d" in found


@zeros
@pytest.mark.parametrize("op", ["QLinearAveragePool", "QLinearGlobalAveragePool"])
def test_integers_with_channels_last_are_averaged(zero: Zero, op: str) -> None:
    windows = {"kernel_shape": [2, 2]} if op == "QLinearAveragePool" else {}
    pool = microsoft(op, [*QUANTIZED, *KEPT], channels_last=1, **windows)
    same(between([pool], zero), steps=1)


@zeros
def test_integers_of_two_scales_are_chosen(zero: Zero) -> None:
    nodes = [
        helper().make_node("Greater", ["x", "bound"], ["c"]),
        microsoft("QLinearWhere", ["c", *QUANTIZED, "other", "coarse", "zero", *KEPT]),
    ]
    constants = {
        "bound": np.float32(0.2), "coarse": np.float32(0.06),
        "other": RNG.integers(0, 100, (4, 1, 1)).astype(type(zero)),
    }  # fmt: skip
    same(between(nodes, zero, constants), steps=1)


@zeros
@pytest.mark.parametrize("attributes", [{"alpha": 0.5}, {"alpha": 2.0, "transA": 1}])
def test_products_of_integers_are_scaled(zero: Zero, attributes: dict[str, Any]) -> None:
    operands = [*QUANTIZED, "w", "step", "none", "bias", "coarse", "zero"]
    constants = {
        "w": RNG.integers(-99, 99, (6, 5)).astype(np.int8), "step": np.float32(0.01),
        "none": np.int8(0), "bias": RNG.integers(-500, 500, 5).astype(np.int32),
        "coarse": np.float32(0.1),
    }  # fmt: skip
    product = microsoft("QGemm", operands, **attributes)
    data = between([product], zero, constants, (6, 6), ("coarse", "zero"))
    same(data, (6, 6), steps=4)


@zeros
@pytest.mark.parametrize("opset", [12, 13])
def test_softmax_of_integers_sums_as_its_operator_set_says(zero: Zero, opset: int) -> None:
    operands = [*QUANTIZED, "fine", "least"]
    softmax = microsoft("QLinearSoftmax", operands, axis=1, opset=opset)
    kind = type(zero)
    constants = {"fine": np.float32(1 / 256), "least": kind(np.iinfo(kind).min)}
    data = between([softmax], zero, constants, (1, 4, 10), ("fine", "least"))
    found = operators(same(data, (1, 4, 10), steps=1))
    assert found.count("dequantize") == 1, "of the result alone"


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
def test_conversions_of_runtime_are_those_of_onnx(kind: type) -> None:
    nodes = [
        helper().make_node(f"{op}Linear", [x, "scale", "zero"], [y], domain="com.microsoft")
        for op, x, y in (("Quantize", "x", "q"), ("Dequantize", "q", "y"))
    ]
    arrays = {"scale": np.asarray(np.float32(SCALE)), "zero": np.asarray(kind(7))}
    same(model(nodes, [("x", IMAGE)], ["y"], arrays))
