"""Operators of rows on images that a head joins: each is computed image by image."""

from __future__ import annotations

import pytest
from tests.compiler.edgetpu_models import Model, differences, findings, program

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
)
from fitzroy.compiler.reference import verify

_GRIDS = ((6, 5), (3, 4), (2, 2))


def head(seed: int) -> Graph:
    """Rows of several images, joined, with some operators of rows after them."""
    model = Model(seed)
    graph, each, width = model.graph, model.number(1, 4), 4 * model.number(1, 3)
    grids = _GRIDS[: model.number(2, 3)]
    joined = model.type((1, each * sum(h * w for h, w in grids), width), 0.05)
    parts = []
    for number, (height, columns) in enumerate(grids):
        x = graph.add_input(f"x{number}", model.type((1, height, columns, 8), 0.05))
        w, _ = model.weights((each * width, 1, 1, 8), 0, 8)
        image = TensorType((1, height, columns, each * width), joined.dtype, joined.quantization)
        found = model.emit("conv_2d", [x, w, None], image, ConvAttributes())
        shape = (1, height * columns * each, width)
        flat = TensorType(shape, joined.dtype, joined.quantization)
        parts.append(model.emit("reshape", [found], flat, ReshapeAttributes(shape)))
    model.live = [model.emit("concatenation", parts, joined, ConcatenationAttributes(1))]
    for _ in range(model.number(1, 4)):
        model.live += _grown(model, model.live[-1])
    graph.outputs = [name for name in model.live if not graph.consumers(name)]
    verify(graph)
    return graph


def _grown(model: Model, x: str) -> list[str]:
    """An operator of rows on a value."""
    before = model.of(x)
    count, width = before.shape[1:]
    half = max(1, width // 2)
    kind = model.choose("softmax", "split", "slice", "constant", "sum", "join")
    if kind == "softmax":
        return [model.emit("softmax", [x], model.type(before.shape, 1 / 256), SoftmaxAttributes())]
    if kind == "split" and width > half:
        types = [
            TensorType((1, count, size), before.dtype, before.quantization)
            for size in (half, width - half)
        ]
        names = tuple(model.graph.fresh(f"split{index}") for index in range(2))
        attributes = SplitAttributes(2, (half, width - half))
        model.graph.add_node(Node(names[0], "split", (x,), names, attributes), types)
        return [*names]
    if kind == "slice":
        cut = StridedSliceAttributes((0, 0, width - half), (1, count, half), (1, 1, 1))
        return [model.emit("strided_slice", [x], model.type((1, count, half), 0.05), cut)]
    if kind == "constant":
        other = model.constant((1, count, 1) if model.chance(0.5) else (1, count, width), 0.05)
        op = str(model.choose("mul", "add", "sub"))
        return [model.emit(op, [x, other], model.type(before.shape, 0.1), ActivationAttributes())]
    if kind == "sum":
        return [model.emit("add", [x, x], model.type(before.shape, 0.1), ActivationAttributes())]
    type = model.type((1, count, 2 * width), 0.05)
    return [model.emit("concatenation", [x, x], type, ConcatenationAttributes(2))]


@pytest.mark.parametrize("seed", range(24))
def test_heads(seed: int) -> None:
    graph = head(seed)
    package = program(graph)
    assert not differences(graph, package, seed)
    assert not findings(package)
