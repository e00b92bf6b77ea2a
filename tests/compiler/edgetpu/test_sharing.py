"""Fully connected layers with the same parameters keep them once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.compiler.edgetpu_models import Model, differences, findings, program

from fitzroy.base.types import Quantization
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.formats.object_file import OperandKind

_WIDTH = 160


class Vectors(Model):
    """Vectors of one type, products with filters by their numbers, and sums."""

    def __init__(self) -> None:
        super().__init__(1)
        random, shape = np.random.default_rng(1), (_WIDTH, _WIDTH)
        self.vector = self.type((1, _WIDTH), 0.05)
        scales = random.uniform(0.5, 1.5, _WIDTH) / (74 * np.sqrt(_WIDTH))
        scale = Quantization(tuple(map(float, scales.astype(np.float32))), (0,) * _WIDTH, 0)
        self.filters = [
            self.graph.add_constant("filter", random.integers(-127, 128, shape, np.int8), scale)
            for _ in range(3)
        ]
        self.first = self.graph.add_input("x", self.vector)

    def product(self, x: str, number: int) -> str:
        a = FullyConnectedAttributes()
        return self.emit("fully_connected", [x, self.filters[number]], self.vector, a)

    def add(self, x: str, y: str) -> str:
        return self.emit("add", [x, y], self.vector, ActivationAttributes())


def chain(*products: int, joins: tuple[int, ...] = ()) -> Graph:
    """Products with filters by their numbers, one after the other.

    Args:
        products: the number of the filter of each.
        joins: after which products the input is added, whose place on the tiles is given.
    """
    m = Vectors()
    last = m.first
    for index, number in enumerate(products):
        last = m.product(last, number)
        if index in joins:
            last = m.add(last, m.first)
    m.graph.outputs.append(last)
    return m.graph


def held(graph: Graph) -> int:
    """How many parameters of fully connected layers a program has."""
    kinds = [operand.kind for operand in lower(graph).operands or ()]
    return len(kinds) - kinds.count(OperandKind.MATRICES)


def check(graph: Graph) -> None:
    package = program(graph)
    assert not differences(graph, package, seed=1)
    assert not findings(package)


@pytest.mark.parametrize("joins", [(), (1,), (2,), (1, 2), (0, 3)])
def test_equal_parameters_are_kept_once(joins: tuple[int, ...]) -> None:
    graph = chain(0, 1, 1, 1, joins=joins)
    assert held(graph) == held(chain(0, 1, joins=tuple(j for j in joins if j < 2)))
    check(graph)


def test_results_may_have_to_begin_on_several_tiles() -> None:
    m = Vectors()
    second = m.product(m.product(m.first, 2), 0)
    beside_second = m.add(m.product(second, 1), second)
    m.graph.outputs.append(m.add(m.product(beside_second, 1), m.first))
    assert held(m.graph) == 3
    check(m.graph)


def test_a_result_with_another_scale_takes_other_parameters() -> None:
    graph = chain(0, 0)
    assert held(graph) == 1
    value = graph.value(graph.outputs[0])
    other = replace(value.type, quantization=Quantization.per_tensor(0.02, 3))
    graph.set_value(replace(value, type=other))
    assert held(graph) == 2
