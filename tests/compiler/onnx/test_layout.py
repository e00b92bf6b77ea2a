"""Layouts: channels come last without transpositions, and elements stay what they are."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.onnx.models import compare, helper, model, operators, read

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.onnx.builder import Builder
from fitzroy.compiler.frontends.onnx.values import Tensor, inverse
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import PadAttributes, TransposeAttributes
from fitzroy.compiler.reference import evaluate

RNG = np.random.default_rng(5)


def weights(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def network() -> bytes:
    """A residual block with squeeze and excitation, pooling, and a classifier on 2 x 2 pixels."""
    node, rng = helper().make_node, np.random.default_rng(1)

    def given(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    nodes = [
        node("Sub", ["x", "mean"], ["centred"]),
        node("Conv", ["centred", "w0", "b0"], ["c0"], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", ["c0", "s", "o", "m", "v"], ["n0"]),
        node("Relu", ["n0"], ["r0"]),
        node("Conv", ["r0", "w1"], ["c1"], pads=[1, 1, 1, 1], group=8),
        node("GlobalAveragePool", ["c1"], ["g"]),
        node("Conv", ["g", "w2", "b2"], ["gate"]),
        node("Sigmoid", ["gate"], ["gated"]),
        node("Mul", ["c1", "gated"], ["scaled"]),
        node("Add", ["scaled", "r0"], ["sum"]),
        node("MaxPool", ["sum"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["p", "p"], ["cat"], axis=1),
        node("Flatten", ["cat"], ["flat"]),
        node("Relu", ["flat"], ["relu"]),
        node("Gemm", ["relu", "w3", "b3"], ["y"], transB=1),
    ]
    constants = {
        "mean": given(1, 3, 1, 1), "w0": given(8, 3, 3, 3), "b0": given(8),
        "s": given(8), "o": given(8), "m": given(8), "v": np.abs(given(8)),
        "w1": given(8, 1, 3, 3), "w2": given(8, 8, 1, 1), "b2": given(8),
        "w3": given(10, 64), "b3": given(10),
    }  # fmt: skip
    return model(nodes, [("x", [2, 3, 8, 8])], ["y"], constants)


def test_convolutional_network_has_no_transposition() -> None:
    data = network()
    kept = compare(data, {"x": weights(2, 3, 8, 8)})
    assert operators(kept).count("transpose") == 1
    assert kept.type("x").shape == (2, 3, 8, 8)
    graph = read(data, Reading())
    assert "transpose" not in operators(graph)
    assert graph.type("x").shape == (2, 8, 8, 3)


def test_channels_last_input_gives_the_same_numbers() -> None:
    data, x = network(), weights(2, 3, 8, 8)
    kept = evaluate(read(data), {"x": x})
    turned = evaluate(read(data, Reading()), {"x": x.transpose(0, 2, 3, 1)})
    np.testing.assert_array_equal(kept["y"], turned["y"])


def test_batch_normalization_becomes_part_of_the_filter() -> None:
    found = operators(read(network()))
    # The subtraction before the first filter and the two of the residual block are left.
    assert (found.count("sub"), found.count("mul"), found.count("add")) == (1, 1, 1)
    assert "clamp" in found, "the rectifier after Flatten has no filter before it"


def test_transpositions_of_the_model_are_labels() -> None:
    node = helper().make_node
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        node("Conv", ["t", "w"], ["c"]),
        node("Transpose", ["c"], ["y"], perm=[0, 2, 3, 1]),
    ]
    data = model(nodes, [("x", [1, 6, 5, 3])], ["y"], {"w": weights(4, 3, 3, 3)})
    assert operators(compare(data, {"x": weights(1, 6, 5, 3)})) == ["conv_2d"]


@pytest.mark.parametrize(("images", "groups"), [(1, 1), (2, 1), (1, 3), (2, 2), (1, 6)])
def test_images_normalized_in_groups_stay_where_they_are(images: int, groups: int) -> None:
    """So PyTorch exports `GroupNorm`."""
    node, shape = helper().make_node, (images, 6, 5, 4)
    nodes = [
        node("Conv", ["x", "v"], ["c"]),
        node("Reshape", ["c", "flat"], ["r"]),
        node("InstanceNormalization", ["r", "s", "b"], ["n"], epsilon=1e-3),
        node("Reshape", ["n", "whole"], ["i"]),
        node("Mul", ["i", "factor"], ["m"]),
        node("Add", ["m", "offset"], ["a"]),
        node("Conv", ["a", "w"], ["y"]),
    ]
    constants = {
        "v": weights(6, 3, 1, 1), "w": weights(2, 6, 1, 1), "s": weights(groups),
        "b": weights(groups), "factor": weights(6, 1, 1), "offset": weights(6, 1, 1),
        "flat": np.array((images, groups, -1)), "whole": np.array(shape),
    }  # fmt: skip
    data = model(nodes, [("x", [images, 3, 5, 4])], ["y"], constants)
    compare(data, {"x": weights(images, 3, 5, 4)})
    graph = read(data, Reading())
    # One is for the output, which keeps its order.
    assert operators(graph).count("transpose") == 1
    if groups == 1:
        assert all(len(graph.type(n.outputs[0]).shape) == 4 for n in graph.nodes())


@pytest.mark.parametrize(("opset", "factors"), [(18, 3), (21, 6)])
def test_groups_of_channels_are_normalized_where_they_are(opset: int, factors: int) -> None:
    node = helper().make_node
    nodes = [
        node("Conv", ["x", "v"], ["c"]),
        node("GroupNormalization", ["c", "s", "b"], ["n"], num_groups=3, epsilon=1e-3),
        node("Conv", ["n", "w"], ["y"]),
    ]
    constants = {
        "v": weights(6, 3, 1, 1), "w": weights(2, 6, 1, 1),
        "s": weights(factors), "b": weights(factors),
    }  # fmt: skip
    data = model(nodes, [("x", [2, 3, 5, 4])], ["y"], constants, opset=opset)
    compare(data, {"x": weights(2, 3, 5, 4)})
    graph = read(data, Reading())
    # One is for the output, which keeps its order.
    assert operators(graph).count("transpose") == 1
    # What has the size of the image is the two convolutions and: less the mean, its square, times
    # the deviation, scaled, offset.
    images = [n.op for n in graph.nodes() if graph.type(n.outputs[0]).shape == (2, 5, 4, 6)]
    assert images == ["conv_2d", "sub", "square", "mul", "mul", "add"]


@pytest.mark.parametrize("groups", [0, 4])
def test_groups_that_channels_do_not_fill_are_refused(groups: int) -> None:
    nodes = [helper().make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=groups)]
    data = model(nodes, [("x", [1, 6, 2, 2])], ["y"], {"s": weights(6), "b": weights(6)}, opset=21)
    with pytest.raises(UnsupportedError, match=f"in {groups} groups"):
        read(data)


def test_a_reshape_that_is_undone_moves_nothing() -> None:
    nodes = [
        helper().make_node("Conv", ["x", "v"], ["c"]),
        helper().make_node("Reshape", ["c", "flat"], ["r"]),
        helper().make_node("Reshape", ["r", "whole"], ["i"]),
        helper().make_node("Conv", ["i", "w"], ["y"]),
    ]
    constants = {
        "v": weights(6, 3, 1, 1), "w": weights(2, 6, 1, 1),
        "flat": np.array((1, 3, -1)), "whole": np.array((1, 6, 5, 4)),
    }  # fmt: skip
    data = model(nodes, [("x", [1, 3, 5, 4])], ["y"], constants)
    compare(data, {"x": weights(1, 3, 5, 4)})
    assert operators(read(data, Reading())) == ["conv_2d", "conv_2d", "transpose"]


def test_a_normalization_of_single_numbers_is_zero() -> None:
    nodes = [
        helper().make_node("Reshape", ["x", "flat"], ["r"]),
        helper().make_node("InstanceNormalization", ["r", "s", "b"], ["y"]),
    ]
    constants = {"flat": np.array((2, 1, -1)), "s": weights(1), "b": weights(1)}
    data = model(nodes, [("x", [2, 1, 1, 1])], ["y"], constants)
    compare(data, {"x": weights(2, 1, 1, 1)})


def test_rows_and_columns_change_places_without_a_transposition() -> None:
    node = helper().make_node
    nodes = [
        node("Conv", ["x", "v"], ["c"]),
        node("Transpose", ["c"], ["t"], perm=[0, 1, 3, 2]),
        node("Conv", ["t", "w"], ["y"], pads=[0, 1, 1, 0], strides=[1, 2]),
    ]
    constants = {"v": weights(4, 3, 1, 1), "w": weights(2, 4, 3, 2)}
    data = model(nodes, [("x", [1, 3, 6, 9])], ["y"], constants)
    graph = compare(data, {"x": weights(1, 3, 6, 9)})
    # One for the input and one for the output, which keep their order.
    assert operators(graph).count("transpose") == 2


@pytest.mark.parametrize("channels", [1, 4])
def test_rows_are_padded_as_convolutions_read_them(channels: int) -> None:
    """Amounts that no padding scheme gives are added to columns, not to channels."""
    node = helper().make_node
    nodes = [
        node("Pad", ["x", "amounts"], ["p"], mode="reflect"),
        node("Conv", ["p", "v"], ["c"], pads=[3, 3], strides=[2]),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "w"], ["y"], pads=[4, 0]),
    ]
    constants = {
        "v": weights(5, channels, 4), "w": weights(2, 5, 5),
        "amounts": np.array([0, 0, 2, 0, 0, 3], np.int64),
    }  # fmt: skip
    data = model(nodes, [("x", [1, channels, 20])], ["y"], constants)
    compare(data, {"x": weights(1, channels, 20)})
    graph = read(data, Reading())
    pads = [n for n in graph.nodes() if isinstance(n.attributes, PadAttributes)]
    assert len(pads) == 2
    for pad in pads:
        shape = graph.type(pad.outputs[0]).shape
        assert pad.attributes.before[-1] == 0  # type: ignore[attr-defined]
        assert shape[-1] == graph.type(str(pad.inputs[0])).shape[-1]
    (mirrored,) = (n for n in graph.nodes() if n.op == "mirror_pad")
    assert graph.type(mirrored.outputs[0]).shape == (1, 25, channels)


def test_rectifiers_after_convolutions_of_rows_are_part_of_them() -> None:
    node = helper().make_node
    nodes = [
        node("Conv", ["x", "v"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("Conv", ["r", "w"], ["y"]),
    ]
    data = model(nodes, [("x", [1, 3, 20])], ["y"], {"v": weights(5, 3, 4), "w": weights(2, 5, 5)})
    graph = compare(data, {"x": weights(1, 3, 20)})
    assert "clamp" not in operators(graph)


def test_output_of_a_convolution_keeps_the_order_of_the_model() -> None:
    nodes = [helper().make_node("Conv", ["x", "w"], ["y"])]
    data = model(nodes, [("x", [1, 3, 6, 5])], ["y"], {"w": weights(4, 3, 3, 3)})
    graph = read(data, Reading())
    assert graph.type("y").shape == (1, 4, 4, 3)
    assert operators(graph) == ["conv_2d", "transpose"]


# --- moves at random --------------------------------------------------------------------------


def factored(rng: np.random.Generator, size: int) -> tuple[int, ...]:
    """Extents at random whose product is `size`."""
    extents = []
    for prime in (2, 3, 5):
        while size % prime == 0:
            size //= prime
            extents.append(prime)
    extents += [1] * int(rng.integers(0, 3))
    rng.shuffle(extents)
    while len(extents) > 1 and rng.random() < 0.7:
        at = int(rng.integers(0, len(extents) - 1))
        extents[at : at + 2] = [extents[at] * extents[at + 1]]
    return tuple(extents)


def moved(rng: np.random.Generator, build: Builder, x: Tensor, y: Array) -> tuple[Tensor, Array]:
    """One step on a tensor and on what it should be."""
    kind = rng.integers(0, 4)
    if kind == 0:
        perm = tuple(int(axis) for axis in rng.permutation(x.rank))
        return build.transpose(x, perm), y.transpose(perm)
    if kind == 1:
        shape = factored(rng, x.size)
        return build.reshape(x, shape), y.reshape(shape)
    if kind == 2:
        shape = tuple(e if rng.random() < 0.6 else 1 for e in y.shape)[int(rng.integers(0, 2)) :]
        other = rng.standard_normal(shape).astype(np.float32)
        return build.binary("add", x, build.constant(other), ActivationAttributes()), y + other
    # Combined with itself in another layout.
    perm = tuple(int(axis) for axis in rng.permutation(x.rank))
    twin = build.transpose(build.variable(build.value(build.transpose(x, perm))), inverse(perm))
    return build.binary("mul", x, twin, ActivationAttributes()), y * y


@pytest.mark.parametrize("seed", range(60))
def test_moves_at_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = Graph("moves")
    shape = factored(rng, 120)
    graph.add_input("x", TensorType(shape, DType.FLOAT32))
    build = Builder(graph)
    given = rng.standard_normal(shape).astype(np.float32)
    tensor, wanted = build.variable("x"), given
    for _ in range(8):
        tensor, wanted = moved(rng, build, tensor, wanted)
        assert tensor.shape == wanted.shape
    graph.outputs = [build.copy(build.value(tensor))]
    found = evaluate(graph, {"x": given})[graph.outputs[0]]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("reduction", "count", "keep", "operator"),
    [
        ("ReduceSum", 3, 0, "add"),
        ("ReduceMax", 2, 1, "maximum"),
        ("ReduceMean", 2, 0, "mean"),
        ("ReduceSum", 9, 0, "sum"),
    ],
)
def test_tensors_stacked_to_be_reduced_are_joined_in_pairs(
    reduction: str, count: int, keep: int, operator: str
) -> None:
    node, names = helper().make_node, [f"c{number}" for number in range(count)]
    nodes = [
        *(node("Conv", ["x", f"w{i}"], [name]) for i, name in enumerate(names)),
        *(node("Unsqueeze", [name, "last"], [f"{name}.one"]) for name in names),
        node("Concat", [f"{name}.one" for name in names], ["stack"], axis=-1),
        node(reduction, ["stack", "last"], ["y"], keepdims=keep),
    ]
    constants: dict[str, Array] = {f"w{i}": weights(6, 4, 1, 1) for i in range(count)}
    constants["last"] = np.array([-1], np.int64)
    data = model(nodes, [("x", [1, 4, 5, 7])], ["y"], constants, opset=18)
    found = operators(compare(data, {"x": weights(1, 4, 5, 7)}))
    joined = operator in ("add", "maximum")
    assert found.count(operator) == (count - 1 if joined else 1)
    assert ("concatenation" in found) is not joined


def test_shuffled_channels_stay_last() -> None:
    node = helper().make_node
    nodes = [
        node("Conv", ["x", "w0"], ["c"]),
        node("Reshape", ["c", "parted"], ["parts"]),
        node("Transpose", ["parts"], ["turned"], perm=[0, 2, 1, 3, 4]),
        node("Reshape", ["turned", "whole"], ["shuffled"]),
        node("Split", ["shuffled"], ["first", "second"], axis=1),
        node("Conv", ["first", "w1"], ["y"]),
        node("Conv", ["second", "w1"], ["z"]),
    ]
    constants: dict[str, Array] = {"w0": weights(12, 4, 1, 1), "w1": weights(5, 6, 1, 1)}
    constants["parted"] = np.array([1, 2, 6, 5, 7], np.int64)
    constants["whole"] = np.array([1, 12, 5, 7], np.int64)
    data = model(nodes, [("x", [1, 4, 5, 7])], ["y", "z"], constants)
    graph = compare(data, {"x": weights(1, 4, 5, 7)})
    # Beside the input and the two outputs, one pair of neighbours changes places.
    assert operators(graph).count("transpose") == 4
    moved = [node.attributes for node in graph.nodes() if node.op == "transpose"]
    assert moved.count(TransposeAttributes((0, 1, 2, 4, 3))) == 1


def test_patches_that_are_added_to_an_image_follow_it() -> None:
    node = helper().make_node
    nodes = [
        node("Conv", ["x", "w0"], ["c"]),
        node("Reshape", ["c", "parted"], ["parts"]),
        node("Transpose", ["parts"], ["turned"], perm=[0, 1, 3, 5, 2, 4]),
        node("Reshape", ["turned", "merged"], ["patches"]),
        node("Conv", ["patches", "w1"], ["made"]),
        node("Add", ["patches", "made"], ["sum"]),
        node("Conv", ["sum", "w1"], ["y"]),
    ]
    constants: dict[str, Array] = {"w0": weights(5, 4, 1, 1), "w1": weights(5, 5, 1, 1)}
    constants["parted"] = np.array([1, 5, 3, 2, 4, 2], np.int64)
    constants["merged"] = np.array([1, 5, 4, 12], np.int64)
    data = model(nodes, [("x", [1, 4, 6, 8])], ["y"], constants)
    graph = compare(data, {"x": weights(1, 4, 6, 8)})
    (added,) = (node for node in graph.nodes() if node.op == "add")
    assert graph.type(added.outputs[0]).shape == (1, 4, 12, 5)


def test_dimensions_of_one_element_are_not_interpolated() -> None:
    # The point of the only element lies at -0.5 here.
    resize = helper().make_node(
        "Resize", ["x", "", "factors"], ["y"], mode="linear",
        coordinate_transformation_mode="pytorch_half_pixel",
    )  # fmt: skip
    factors = {"factors": np.array([1, 1, 2, 2], np.float32)}
    data = model([resize], [("x", [1, 1, 4, 5])], ["y"], factors)
    found = operators(compare(data, {"x": weights(1, 1, 4, 5)}))
    assert "resize_bilinear" in found
    assert "fully_connected" not in found
