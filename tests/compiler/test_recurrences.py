"""Steps of recurrences whose filters would take more than a chip's memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.compiler import detectors
from tests.compiler.edgetpu_models import differences, findings, program

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.quantization import recurrences
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.formats.object_file import OperandKind

_WIDTH, _STEPS = 48, 5


class Steps(detectors.Maker):
    """A recurrent layer of hyperbolic tangents."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = self.constant(self.random.normal(0, 0.2, (_WIDTH, _WIDTH)))

    def product(self, x: str) -> str:
        a = FullyConnectedAttributes(keep_num_dims=False)
        return self.emit("fully_connected", [x, self.kernel], (1, _WIDTH), a)

    def step(self, x: str, state: str) -> str:
        total = self.binary("add", x, self.product(state))
        return self.emit("tanh", [total], (1, _WIDTH))


def row(m: Steps) -> str:
    """The first pixels of the image, as a vector."""
    pixels = m.slice(m.image, 1, 0, 1)
    return m.slice(m.reshape(pixels, 1, math.prod(m.shape(pixels))), 1, 0, _WIDTH)


def recurrent() -> Graph:
    m = Steps()
    x = row(m)
    state = m.emit("tanh", [x], (1, _WIDTH))
    for _ in range(_STEPS):
        state = m.step(x, state)
    return m.done(state)


def side_by_side() -> Graph:
    m = Steps()
    x = row(m)
    return m.done(m.product(x), m.product(m.emit("tanh", [x], (1, _WIDTH))))


def quantized(graph: Graph) -> Graph:
    random = np.random.default_rng(3)
    shape = graph.type(graph.inputs[0]).shape
    samples = [{graph.inputs[0]: random.normal(0, 1, shape).astype(np.float32)} for _ in range(6)]
    return quantize_model(graph, samples, QuantizeOptions()).graph


def steps(graph: Graph) -> set[tuple[object, ...]]:
    """What the parameters of each step of a quantized graph depend on."""
    return {
        (*(graph.type(str(name)).quantization for name in (node.inputs[0], *node.outputs)),
         node.inputs[1], graph.value(str(node.inputs[2])).data.tobytes())  # type: ignore[union-attr]
        for node in graph.nodes() if node.op == "fully_connected"
    }  # fmt: skip


def parameters(graph: Graph) -> int:
    """How many bytes of parameters the layers of a program have."""
    operands = lower(graph).operands or ()
    own = [operand.data for operand in operands if operand.kind != OperandKind.MATRICES]
    return sum(len(item) for item in own if item is not None)


def test_steps_have_parameters_in_common_if_a_chip_has_no_room_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = recurrent()
    apart = quantized(graph)
    assert len(steps(apart)) == _STEPS
    monkeypatch.setattr(recurrences, "_MEMORY", _STEPS * _WIDTH**2 - 1)
    together = quantized(graph)
    assert len(steps(together)) == 1
    assert parameters(apart) - parameters(together) == (_STEPS - 1) * parameters(together)
    package = program(together)
    assert not differences(together, package, seed=1)
    assert not findings(package)


def test_filters_that_are_used_side_by_side_are_no_recurrence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recurrences, "_MEMORY", 0)
    assert not recurrences.recurrences(side_by_side())
    assert [len(found) for found in recurrences.recurrences(recurrent())] == [_STEPS]
