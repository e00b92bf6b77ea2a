"""Long short-term memories on the simulated Edge TPU, against the arithmetic of the chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.compiler.edgetpu_models import differing_bytes, findings, program
from tests.support import corpus

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.recurrent import (
    BIASES,
    CELL_STATE,
    INPUT,
    INPUT_WEIGHTS,
    OPERANDS,
    OUTPUT_STATE,
    RECURRENT_WEIGHTS,
    LstmAttributes,
)
from fitzroy.compiler.ops.shape import StridedSliceAttributes
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.lowerings import recurrence
from fitzroy.compiler.targets.edgetpu.lowerings.gates import MIDDLE, tanh_table
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.tensor import NluTable
from fitzroy.linker.packages.darwinn import link

I8, I16, I32 = DType.INT8, DType.INT16, DType.INT32
INPUT_TYPE = Quantization.per_tensor(float(np.float32(0.02)), -5)


@dataclass(frozen=True)
class Memory:
    """A long short-term memory with random weights.

    Attributes:
        steps: steps of the sequence.
        inputs: values of a step.
        cells: cells.
        batch: sequences.
        time_major: whether steps come before sequences.
        cell_clip: largest magnitude of the cell state.
        cell_unit: its scale.
        biases: whether there are any.
        open_gates: whether biases open the gates as far as they can.
        strength: how large weights are; many sums of gates saturate if it is much more than 1.
    """

    steps: int
    inputs: int
    cells: int
    batch: int = 1
    time_major: bool = False
    cell_clip: float = 10.0
    cell_unit: float = 2.0**-12
    biases: bool = True
    open_gates: bool = False
    strength: float = 1.0

    def type(self, values: int, quantization: Quantization) -> TensorType:
        """Of a sequence."""
        order = (self.steps, self.batch) if self.time_major else (self.batch, self.steps)
        return TensorType((*order, values), I8, quantization)

    def emit(self, graph: Graph, x: str) -> str:
        """Append it to a graph."""
        rng = np.random.default_rng(self.cells)
        operands: list[str | None] = [None] * OPERANDS
        operands[INPUT] = x
        hidden = Quantization.per_tensor(float(np.float32(1 / 127)), int(rng.integers(-20, 20)))
        for gate in range(recurrence.GATES):
            for first, values in ((INPUT_WEIGHTS, self.inputs), (RECURRENT_WEIGHTS, self.cells)):
                data = rng.integers(-127, 128, (self.cells, values)).astype(np.int8)
                scale = np.float32(self.strength * rng.uniform(1, 2) / 127 / values**0.5)
                operands[first + gate] = graph.add_constant(
                    "w", data, Quantization.per_tensor(float(scale), 0)
                )
            if self.biases:
                unit = graph.type(operands[INPUT_WEIGHTS + gate] or "").quantization
                assert unit is not None
                scale = np.float32(unit.scale[0]) * np.float32(0.02)
                real = np.full(self.cells, 20) if self.open_gates else rng.normal(size=self.cells)
                operands[BIASES + gate] = graph.add_constant(
                    "b",
                    np.rint(real / scale).astype(np.int32),
                    Quantization.per_tensor(float(scale), 0),
                )
        zero = np.full((self.batch, self.cells), hidden.zero_point[0], np.int8)
        operands[OUTPUT_STATE] = graph.add_constant("h", zero, hidden)
        operands[CELL_STATE] = graph.add_constant(
            "c", np.zeros_like(zero, np.int16), Quantization.per_tensor(self.cell_unit, 0)
        )
        attributes = LstmAttributes(self.time_major, self.cell_clip)
        return graph.emit(
            "unidirectional_sequence_lstm", operands, self.type(self.cells, hidden), attributes
        )

    def graph(self) -> Graph:
        """A graph of it alone."""
        graph = Graph("lstm")
        x = graph.add_input("x", self.type(self.inputs, INPUT_TYPE))
        graph.outputs = [self.emit(graph, x)]
        return graph


def differences(graph: Graph, seeds: Sequence[int | None] = (1, 2)) -> int:
    """Bytes of all outputs that the chip gives otherwise than the reference."""
    verify(graph)
    package = program(graph)
    assert not findings(package)
    return differing_bytes(graph, package, seeds)


MEMORIES = [
    Memory(1, 1, 1),
    Memory(3, 8, 8),
    Memory(4, 7, 5, time_major=True),
    Memory(3, 30, 64),
    Memory(3, 3, 66),
    Memory(2, 100, 200, biases=False),
    Memory(4, 12, 20, cell_unit=2.0**-11, cell_clip=0.0),
    Memory(4, 12, 20, cell_clip=1.5),
    Memory(4, 16, 24, strength=20.0),
]


@pytest.mark.long
@pytest.mark.parametrize("memory", MEMORIES, ids=str)
def test_sizes(memory: Memory) -> None:
    assert differences(memory.graph()) == 0


def test_a_saturated_cell_state() -> None:
    memory = Memory(12, 4, 4, open_gates=True)
    graph = memory.graph()
    x = np.zeros(graph.type("x").shape, np.int8)
    # The cell state grows by nearly 1 in every step and stops at 8; so the result has one limit.
    result = evaluate_on_device(graph, {"x": x})[graph.outputs[0]]
    assert (result[0, -3:] == result[0, -1]).all()
    assert differences(graph) == 0


def test_sums_of_the_input_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(7, 5, 9)
    monkeypatch.setattr(recurrence, "_STRIP_BYTES", 300)
    assert recurrence.Shape(7, 5, 9).strip == 3
    assert differences(memory.graph()) == 0


def test_results_are_close_to_real_numbers() -> None:
    """The reference of the chip rounds to 16 bits what the other one has in float32."""
    graph = Memory(20, 16, 32).graph()
    rng = np.random.default_rng(0)
    inputs = {"x": rng.integers(-128, 128, (1, 20, 16)).astype(np.int8)}
    (name,) = graph.outputs
    found, real = (
        function(graph, inputs)[name].astype(int) for function in (evaluate_on_device, evaluate)
    )
    assert np.abs(found - real).max() <= 3
    assert (found != real).mean() < 0.15


def test_layers_on_one_another() -> None:
    """All steps to the next memory, and its last step to a fully connected layer."""
    graph = Graph("stacked")
    first = Memory(5, 6, 10)
    x = graph.add_input("x", first.type(6, INPUT_TYPE))
    y = Memory(5, 10, 7).emit(graph, first.emit(graph, x))
    after = graph.type(y)
    last = graph.emit(
        "strided_slice",
        [y],
        replace(after, shape=(1, 1, 7)),
        StridedSliceAttributes((0, 4, 0), (1, 1, 7), (1, 1, 1)),
    )
    rng = np.random.default_rng(1)
    weights = graph.add_constant(
        "w", rng.integers(-127, 128, (3, 7), np.int8), Quantization.per_tensor(0.01, 0)
    )
    result = TensorType((1, 3), I8, Quantization.per_tensor(0.02, 3))
    operands = [last, weights, None]
    graph.outputs = [graph.emit("fully_connected", operands, result, FullyConnectedAttributes())]
    assert differences(graph) == 0


def test_functions_before_and_after_it() -> None:
    """A memory loads a function of its own, so that the one before it is loaded again."""
    graph = Graph("functions")
    memory = Memory(3, 8, 8)
    type = memory.type(8, INPUT_TYPE)
    x = graph.emit("sin", [graph.add_input("x", type)], type)
    y = memory.emit(graph, x)
    doubled = graph.emit("add", [y, y], type, ActivationAttributes())
    graph.outputs = [graph.emit("sin", [doubled], type)]
    (package,) = link([lower(graph)])
    streams = [np.asarray(x.bitstream) for x in package.main.instruction_bitstreams or ()]
    found = [item for stream in streams for item in disassemble(stream.tobytes())]
    first, own, last = (item.coefficients for item in found if isinstance(item, NluTable))
    assert first == last != own
    assert differences(graph) == 0


@pytest.mark.slow
@pytest.mark.parametrize("memory", [Memory(150, 40, 33), Memory(60, 10, 700)], ids=str)
def test_programs_of_several_chunks(memory: Memory) -> None:
    (package,) = link([lower(memory.graph())])
    assert len(package.main.instruction_bitstreams or ()) > 1
    assert differences(memory.graph(), (1,)) == 0


REFUSED = {
    "2 sequences": Memory(2, 4, 4, batch=2),
    "1028 cells": Memory(2, 4, 1028),
    "rows of parameters": Memory(1, 2048, 4),
    "bytes of every tile": Memory(16000, 8, 4),
    "results": Memory(5000, 4, 16),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_does_not_fit_is_refused(reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        lower(REFUSED[reason].graph())


def _retyped(graph: Graph, index: int, type: TensorType) -> Graph:
    """The same memory with another type of an operand."""
    (node,) = graph.nodes()
    value = graph.value(node.inputs[index] or "")
    data = value.data
    data = None if data is None else data.astype(type.dtype.numpy)
    graph.set_value(replace(value, type=type, data=data))
    return graph


@pytest.mark.parametrize(
    ("index", "change", "reason"),
    [
        (CELL_STATE, {"dtype": DType.INT8}, "cell state"),
        (OUTPUT_STATE, {"quantization": Quantization.per_tensor(0.5, 1)}, "another quantization"),
        (INPUT_WEIGHTS, {"quantization": Quantization.per_tensor(0.5, 1)}, "no offset"),
        (INPUT_WEIGHTS + 2, {"quantization": Quantization((0.1,) * 4, (0,) * 4, 0)}, "one scale"),
        (INPUT, {"dtype": DType.UINT8}, "not int8"),
    ],
)
def test_other_numbers_are_refused(index: int, change: dict[str, object], reason: str) -> None:
    graph = Memory(2, 4, 4).graph()
    (node,) = graph.nodes()
    type = graph.type(node.inputs[index] or "")
    with pytest.raises(UnsupportedError, match=reason):
        lower(_retyped(graph, index, replace(type, **change)))  # type: ignore[arg-type]


def test_the_table_is_nearly_exact() -> None:
    table = tanh_table()
    x = (np.arange(MIDDLE + 1) * 2.0**-12).astype(np.float32)
    segment = np.searchsorted(np.array(table.breakpoints, np.float32), x, side="right")
    factors = np.array(table.coefficients, np.float32)[segment].T
    value = factors[4]
    for factor in factors[3::-1]:
        value = value * x + factor
    assert np.abs(value - MIDDLE * np.tanh(x.astype(np.float64))).max() < 0.06
    assert abs(value[0]) < 0.5


@pytest.mark.long
@pytest.mark.corpus
def test_a_published_model_is_one_part() -> None:
    graph = load(corpus() / "coral" / "keras_lstm_mnist_ptq.tflite")
    segments, _ = divide(graph)
    assert [len(segment.nodes) for segment in segments] == [6]
    assert differences(graph, (1,)) == 0
