"""Inputs that are read with another size than the file states, against ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.compiler.onnx.models import Port, executed, helper, model, read

from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import Array
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.reference import evaluate

RNG = np.random.default_rng(5)
FILTERS = {"w": RNG.standard_normal((4, 3, 3, 3)).astype(np.float32)}
STATED: list[Port] = [("x", [1, 3, 8, 8])]


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    return helper().make_node(kind, inputs, outputs, **attributes)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def convolution(*rest: Any, **constants: Array) -> bytes:
    """A convolution of 8x8 pixels to [1,4,8,8], `c`, and what follows."""
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), *rest]
    return model(nodes, STATED, ["y"], FILTERS | constants)


def sized(data: bytes, *shape: int) -> Any:
    return read(data, Reading(shapes={"x": shape}, keep_layout=True))


def opened(data: bytes) -> bytes:
    """The model with open extents, which ONNX Runtime takes in every size."""
    import onnx

    proto = onnx.ModelProto.FromString(data)
    for index, dim in enumerate(proto.graph.input[0].type.tensor_type.shape.dim):
        dim.dim_param = f"d{index}"
    return bytes(proto.SerializeToString())


FREE: dict[str, Callable[[], bytes]] = {
    "convolution": lambda: convolution(node("Relu", ["c"], ["y"])),
    "scales": lambda: convolution(
        node("Resize", ["c", "", "s"], ["y"], mode="nearest"), s=np.array([1, 1, 2, 2], np.float32)
    ),
    "joined pixels": lambda: convolution(node("Reshape", ["c", "s"], ["y"]), s=ints(0, 4, -1)),
    "pooled": lambda: convolution(
        node("GlobalAveragePool", ["c"], ["p"]), node("Reshape", ["p", "s"], ["y"]), s=ints(-1, 4)
    ),
    "split channels": lambda: convolution(
        node("Shape", ["c"], ["n"], start=2),
        node("Concat", ["b", "n"], ["t"], axis=0),
        node("Reshape", ["c", "t"], ["y"]),
        b=ints(-1, 2, 2),
    ),
    "first rows": lambda: convolution(
        node("Slice", ["c", "a", "b", "d"], ["y"]), a=ints(1), b=ints(7), d=ints(2)
    ),
    "rows to the end": lambda: convolution(
        node("Slice", ["c", "a", "b", "d"], ["y"]), a=ints(1), b=ints(2**63 - 1), d=ints(2)
    ),
    "one row": lambda: convolution(node("Gather", ["c", "i"], ["y"], axis=2), i=np.array(3)),
    "factors of channels": lambda: convolution(
        node("Mul", ["c", "f"], ["y"]), f=RNG.random((1, 4, 1, 1), np.float32)
    ),
}


@pytest.mark.parametrize("shape", [(1, 3, 12, 10), (2, 3, 8, 8), (3, 3, 6, 16)])
@pytest.mark.parametrize("name", FREE)
def test_operators_of_any_size_take_another(name: str, shape: tuple[int, ...]) -> None:
    data = FREE[name]()
    x = RNG.standard_normal(shape).astype(np.float32)
    graph = sized(data, *shape)
    (wanted,) = executed(opened(data), {"x": x})
    np.testing.assert_allclose(evaluate(graph, {"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)


BOUND: dict[str, tuple[Callable[[], bytes], tuple[int, ...], str]] = {
    "a dense layer": (
        lambda: convolution(
            node("Flatten", ["c"], ["f"]),
            node("Gemm", ["f", "m"], ["y"]),
            m=RNG.random((256, 5), np.float32),
        ),
        (1, 3, 12, 8),
        "operator 2 \\(Gemm, 'y'\\)",
    ),
    "a table of places": (
        lambda: convolution(node("Add", ["c", "t"], ["y"]), t=RNG.random((1, 4, 8, 8), np.float32)),
        (1, 3, 12, 8),
        "operator 1 \\(Add, 'y'\\)",
    ),
    "a table that would be broadcast to": (
        lambda: convolution(node("Add", ["c", "t"], ["y"]), t=RNG.random((1, 4, 8, 8), np.float32)),
        (1, 3, 1, 8),
        "operator 1 \\(Add, 'y'\\).*stretch",
    ),
    "a batch that would become channels": (
        lambda: convolution(
            node("GlobalAveragePool", ["c"], ["p"]),
            node("Reshape", ["p", "s"], ["y"]),
            s=ints(1, -1),
        ),
        (2, 3, 8, 8),
        "operator 2 \\(Reshape, 'y'\\)",
    ),
    "pixels that would become a batch": (
        lambda: convolution(node("Reshape", ["c", "s"], ["y"]), s=ints(-1, 2, 2, 8, 8)),
        (1, 3, 16, 16),
        "operator 1 \\(Reshape, 'y'\\)",
    ),
    "rows that would become columns": (
        lambda: convolution(node("Reshape", ["c", "s"], ["y"]), s=ints(1, 4, 8, 8)),
        (1, 3, 4, 16),
        "operator 1 \\(Reshape, 'y'\\)",
    ),
    "extents of a resize": (
        lambda: convolution(
            node("Resize", ["c", "", "", "s"], ["y"], mode="nearest"), s=ints(1, 4, 16, 16)
        ),
        (1, 3, 16, 16),
        "operator 1 \\(Resize, 'y'\\)",
    ),
    "the end of a slice": (
        lambda: convolution(
            node("Slice", ["c", "a", "b", "d"], ["y"]), a=ints(1), b=ints(8), d=ints(2)
        ),
        (1, 3, 10, 8),
        "operator 1 \\(Slice, 'y'\\)",
    ),
    "all rows in another order": (
        lambda: convolution(
            node("Gather", ["c", "i"], ["y"], axis=2), i=ints(4, 5, 6, 7, 0, 1, 2, 3)
        ),
        (1, 3, 10, 8),
        "operator 1 \\(Gather, 'y'\\)",
    ),
    "the extents of a transposed convolution": (
        lambda: convolution(
            node("ConvTranspose", ["c", "v"], ["y"], strides=[2, 2], output_shape=[16, 16]),
            v=RNG.random((4, 2, 2, 2), np.float32),
        ),
        (1, 3, 9, 9),
        "operator 1 \\(ConvTranspose, 'y'\\)",
    ),
}


@pytest.mark.parametrize("name", BOUND)
def test_operators_with_constants_of_one_size_are_named(name: str) -> None:
    made, shape, place = BOUND[name]
    data = made()
    read(data)
    with pytest.raises(UnsupportedError) as caught:
        sized(data, *shape)
    (reject,) = caught.value.rejects
    assert re.search(place, f"{reject.where} {reject.what}")
    assert "dynamic_axes" in caught.value.hint


def test_the_number_of_dimensions_stays() -> None:
    with pytest.raises(UsageError, match="has shape 1x3x8x8, not 1x3x8"):
        sized(FREE["convolution"](), 1, 3, 8)


def test_extents_of_a_model_that_leaves_some_open_stay() -> None:
    """Its author has said which ones vary."""
    data = model([node("Relu", ["x"], ["y"])], [("x", ["n", 3, 8, 8])], ["y"])
    with pytest.raises(UsageError, match=r"has shape \?x3x8x8, not 1x3x9x9"):
        sized(data, 1, 3, 9, 9)


def test_arrays_do_not_replace_a_shape() -> None:
    how = Reading(arrays={"x": (1, 3, 9, 9)}, keep_layout=True)
    with pytest.raises(UsageError, match="has shape 1x3x8x8, not 1x3x9x9"):
        read(FREE["convolution"](), how)
