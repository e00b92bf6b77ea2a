"""Elements at places that are known when a model is read: gathers, blocks that become an image."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.onnx.models import compare, executed, helper, model, operators, read

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import Array
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.reference import evaluate

RNG = np.random.default_rng(31)


def parts(x: Array, rows: Array) -> list[str]:
    """The operators of a GatherND with known rows, whose results are compared."""
    node = helper().make_node("GatherND", ["x", "rows"], ["y"])
    data = model([node], [("x", x.shape)], ["y"], {"rows": rows.astype(np.int64)})
    return operators(compare(data, {"x": x}))


def grid(*lines: list[int]) -> Array:
    """Rows of indices that name every combination of indices along some dimensions."""
    return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)


def test_a_grid_of_rows_is_a_choice_along_each_dimension() -> None:
    x = RNG.standard_normal((5, 6, 3)).astype(np.float32)
    assert parts(x, grid([0, 0, 2, -1], [5, 1, 1])) == ["gather", "gather"]
    # Even steps are slices.
    assert parts(x, grid([0, 2, 4], [1, 2, 3])) == ["strided_slice", "strided_slice"]


def test_a_grid_may_have_several_axes_for_a_dimension() -> None:
    x = RNG.standard_normal((5, 6, 2)).astype(np.float32)
    windows = grid([0, 1], [0, 2], [3, 0], [0, 2])
    rows = np.stack([windows[..., 0] + windows[..., 1], windows[..., 2] + windows[..., 3]], -1)
    assert set(parts(x, rows)) == {"gather", "reshape"}
    # An axis along which nothing varies repeats the parts.
    assert "gather_nd" not in parts(x, np.repeat(grid([4, 1], [3, 3, 0])[:, None], 2, axis=1))


@pytest.mark.parametrize(
    "rows",
    [grid([2, 0, 0], [5, 1]).transpose(1, 0, 2), RNG.integers(-5, 5, (4, 3, 2)),
     np.array([3, 1]), np.zeros((0, 2))],
    ids=["turned", "any", "one", "none"],
)  # fmt: skip
def test_other_rows_are_a_choice_of_places(rows: Array) -> None:
    x = RNG.standard_normal((5, 6, 3)).astype(np.float32)
    assert "gather_nd" not in parts(x, rows)


def test_known_rows_outside_are_refused() -> None:
    node = helper().make_node("GatherND", ["x", "rows"], ["y"])
    for rows in ([[5]], [[-6]], [[0, 0, 0]]):
        data = model([node], [("x", [5, 6])], ["y"], {"rows": np.array(rows)})
        with pytest.raises(UnsupportedError, match="onnx-type-rule"):
            read(data)


@pytest.mark.parametrize(
    ("image", "block", "attributes"),
    [
        ((6, 8), (2, 2), {"strides": [2, 2]}),
        ((7, 9), (2, 4), {"strides": [2, 4]}),
        ((6, 5), (3, 2), {}),
        ((7, 6), (3, 3), {"strides": [2, 1], "pads": [1, 1, 1, 1]}),
        ((9, 9), (2, 3), {"dilations": [2, 2], "pads": [0, 1, 2, 1]}),
    ],
)
def test_blocks_become_an_image(
    image: tuple[int, int], block: tuple[int, int], attributes: dict[str, list[int]]
) -> None:
    stride, dilation = (attributes.get(name, [1, 1]) for name in ("strides", "dilations"))
    pads = attributes.get("pads", [0, 0, 0, 0])
    count = 1
    for axis in (0, 1):
        reach = (block[axis] - 1) * dilation[axis] + 1
        room = image[axis] + pads[axis] + pads[axis + 2] - reach
        count *= room // stride[axis] + 1
    x = RNG.standard_normal((2, 3 * block[0] * block[1], count)).astype(np.float32)
    node = helper().make_node("Col2Im", ["x", "image", "block"], ["y"], **attributes)
    constants = {"image": np.array(image), "block": np.array(block)}
    graph = compare(model([node], [("x", x.shape)], ["y"], constants, opset=18), {"x": x})
    overlap = stride != list(block)
    assert ("transpose_conv" in operators(graph)) is overlap


def test_blocks_that_do_not_fill_an_image_are_refused() -> None:
    node = helper().make_node("Col2Im", ["x", "image", "block"], ["y"])
    constants = {"image": np.array([5, 5]), "block": np.array([2, 2])}
    for shape in ([1, 4, 15], [1, 6, 16]):
        with pytest.raises(UnsupportedError, match="onnx-type-rule"):
            read(model([node], [("x", shape)], ["y"], constants, opset=18))


@pytest.mark.parametrize("kind", ["AveragePool", "MaxPool"])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 0, 2]])
def test_a_window_larger_than_the_image_is_cut(kind: str, pads: list[int]) -> None:
    node = helper().make_node(
        kind, ["x"], ["y"], kernel_shape=[640, 5], strides=[640, 5], ceil_mode=1, pads=pads
    )
    x = RNG.standard_normal((1, 4, 3, 3)).astype(np.float32)
    data = model([node], [("x", x.shape)], ["y"], opset=19)
    graph = read(data)
    (wanted,) = executed(data, {"x": x})
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], wanted, rtol=1e-5, atol=1e-6)
    (pool,) = (node for node in graph.nodes() if node.op.endswith("pool_2d"))
    assert isinstance(pool.attributes, PoolAttributes)
    assert max(pool.attributes.kernel) <= 6
