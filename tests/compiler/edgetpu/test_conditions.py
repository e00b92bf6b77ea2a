"""What calls must be: every reason, and nothing is lowered to find them."""

from __future__ import annotations

import numpy as np
import pytest

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Attributes, Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import WIDE_ACTIVATIONS, Call
from fitzroy.compiler.ops.matmul import BatchMatMulAttributes
from fitzroy.compiler.ops.shape import PadAttributes, ReshapeAttributes, TransposeAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.target import TARGETS

SCALE = Quantization.per_tensor(0.5, 3)
OTHER = Quantization.per_tensor(0.25, 3)


def int8(*shape: int, quantization: Quantization = SCALE) -> TensorType:
    return TensorType(shape, DType.INT8, quantization)


@pytest.fixture(autouse=True)
def nothing_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Legalizer, *args: object) -> None:
        raise AssertionError("legalized for trial")

    monkeypatch.setattr(Legalizer, "legalize", never)


def reasons(graph: Graph) -> list[str]:
    """All reasons for the only node of a graph, as the target and as a division give them."""
    (node,) = graph.nodes()
    found = [item.reason for item in TARGETS.get("edgetpu").rejects(Call.of(graph, node))]
    (placement,) = divide(graph)[1]
    assert [reject.what for reject in placement.rejects] == list(dict.fromkeys(found))
    return found


def test_a_convolution_has_a_reason_for_kernel_and_biases() -> None:
    graph = Graph("g")
    graph.add_input("x", int8(1, 50, 50, 4))
    weights = graph.add_constant(
        "w", np.zeros((8, 46, 45, 4), np.int8), Quantization.per_tensor(0.1, 0)
    )
    bias = graph.add_constant("b", np.zeros(8, np.int64), Quantization.per_tensor(0.05, 0))
    attributes = ConvAttributes(padding=PaddingScheme.VALID)
    graph.outputs = [graph.emit("conv_2d", ["x", weights, bias], int8(1, 5, 6, 8), attributes)]
    taps, biases = reasons(graph)
    assert "2070 taps" in taps
    assert "of 2000 at a time" in taps
    assert "int64" in biases


def test_a_product_of_matrices_has_all_of_its_reasons() -> None:
    graph = Graph("g")
    graph.add_input("x", int8(65, 3000, 4))
    graph.add_input("y", int8(1, 3000, 400))
    attributes = BatchMatMulAttributes(adj_x=True)
    graph.outputs = [graph.emit("batch_matmul", ["x", "y"], int8(65, 4, 400), attributes)]
    found = reasons(graph)
    assert [text.split("' ")[-1].split(",")[0] for text in found] == [
        "multiplies tensors of 65 and 1 matrices",
        "adds 3000 products",
        "copies a matrix of 1200000 bytes to every tile",
        "has 65 matrices",
    ]


def test_a_constant_matrix_has_all_of_its_reasons() -> None:
    graph = Graph("g")
    graph.add_input("x", int8(65, 3, 4))
    graph.add_constant("y", np.zeros((65, 3, 4), np.int16), Quantization.per_tensor(0.1, 0))
    attributes = BatchMatMulAttributes(adj_x=True)
    graph.outputs = [graph.emit("batch_matmul", ["x", "y"], int8(65, 4, 4), attributes)]
    found = reasons(graph)
    assert [text.split("' ")[-1].split(",")[0] for text in found] == [
        "with int16[65",
        "has 65 matrices",
    ]


def test_values_that_only_move_keep_their_quantization() -> None:
    graph = Graph("g")
    graph.add_input("x", int8(1, 2, 4))
    after = int8(1, 8, quantization=OTHER)
    graph.outputs = [graph.emit("reshape", ["x"], after, ReshapeAttributes((1, 8)))]
    (found,) = reasons(graph)
    assert "0.5" in found
    assert "0.25" in found


@pytest.mark.parametrize("dtype", [DType.INT32, DType.BOOL, DType.FLOAT32])
def test_values_that_only_move_have_8_bits(dtype: DType) -> None:
    graph = Graph("g")
    graph.add_input("x", TensorType((1, 7), dtype))
    after = TensorType((1, 1, 7), dtype)
    graph.outputs = [graph.emit("reshape", ["x"], after, ReshapeAttributes((1, 1, 7)))]
    found = reasons(graph)
    assert len(found) == 2
    assert all("not 8-bit quantized" in reason for reason in found)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("transpose", TransposeAttributes((0, 2, 1, 3))),
        ("pad", PadAttributes((0, 0, 0, 0), (0, 0, 0, 0))),
    ],
)
def test_values_of_16_bits_have_a_hint_of_their_own(op: str, attributes: Attributes) -> None:
    graph = Graph("g")
    type = TensorType((1, 4, 4, 2), DType.INT16, Quantization.per_tensor(0.5, 0))
    graph.add_input("x", type)
    graph.outputs = [graph.emit(op, ["x"], type, attributes)]
    found = reasons(graph)
    assert len(found) == 2
    assert all("not 8-bit quantized" in reason for reason in found)
    (placement,) = divide(graph)[1]
    assert {reject.hint for reject in placement.rejects} == {WIDE_ACTIVATIONS}


def test_what_lowerings_emit_is_held_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    graph = Graph("g")
    graph.add_input("x", int8(1, 2, 4))
    after = int8(1, 8, quantization=OTHER)
    graph.outputs = [graph.emit("reshape", ["x"], after, ReshapeAttributes((1, 8)))]
    (node,) = graph.nodes()
    with pytest.raises(UnsupportedError, match=r"0.5.*0.25"):
        Legalizer(graph).legalize_as(node, "of another node")
