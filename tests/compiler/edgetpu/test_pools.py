"""Maxima over windows, whatever else reads what lies around their images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.compiler.edgetpu_models import assert_exact, program

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT
from fitzroy.compiler.targets.edgetpu.program.lower import legalized
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.tensor import TensorOp


def _image(shape: tuple[int, ...], zero_point: int = 10) -> TensorType:
    return TensorType(shape, DType.INT8, Quantization.per_tensor(0.05, zero_point))


def _pool(graph: Graph, source: str, kernel: int, stride: int = 1) -> str:
    type = graph.type(source)
    _, height, width, channels = type.shape
    shape = (1, -(-height // stride), -(-width // stride), channels)
    attributes = PoolAttributes((kernel, kernel), (stride, stride), PaddingScheme.SAME)
    return graph.emit("max_pool_2d", [source], type.with_shape(shape), attributes)


def _convolution(graph: Graph, source: str, kernel: int) -> str:
    type = graph.type(source)
    channels = type.shape[3]
    data = np.random.default_rng(kernel).integers(-127, 128, (20, kernel, kernel, channels))
    filters = graph.add_constant("filters", data.astype(np.int8), Quantization.per_tensor(0.01))
    attributes = ConvAttributes((1, 1), padding=PaddingScheme.SAME)
    return graph.emit("conv_2d", [source, filters], _image((*type.shape[:3], 20)), attributes)


def _instructions(graph: Graph) -> list[Instruction]:
    found: list[Instruction] = []
    for stream in program(graph).main.instruction_bitstreams or ():
        assert stream.bitstream is not None
        found += disassemble(bytes(stream.bitstream))
    return found


@pytest.mark.parametrize("zero_point", [-128, 10, 127])
@pytest.mark.parametrize(("kernel", "stride"), [(5, 1), (3, 2), (9, 1), (2, 2)])
def test_maxima_at_the_border_ignore_what_lies_outside(
    kernel: int, stride: int, zero_point: int
) -> None:
    graph = Graph("pool")
    image = graph.add_input("image", _image((1, 9, 13, 72), zero_point))
    graph.outputs.append(_pool(graph, image, kernel, stride))
    assert_exact(graph)


@pytest.mark.parametrize("first", ["pool", "convolution"])
def test_maxima_and_convolutions_reach_around_the_same_image(first: str) -> None:
    # The least byte must lie there for the one, and zero for the other, whichever comes first.
    graph = Graph("both")
    image = graph.add_input("image", _image((1, 10, 7, 16)))
    makers: list[Callable[[Graph, str, int], str]] = [_pool, _convolution]
    if first == "convolution":
        makers.reverse()
    graph.outputs.extend(make(graph, image, 3) for make in makers)
    assert not legalized(graph, DEFAULT).compared
    assert_exact(graph)


def test_only_maxima_have_the_least_byte_around_them() -> None:
    graph = Graph("alone")
    image = graph.add_input("image", _image((1, 10, 7, 16)))
    graph.outputs += [_pool(graph, image, 3), _pool(graph, image, 5), _convolution(graph, image, 1)]
    assert legalized(graph, DEFAULT).compared == {image}
    assert_exact(graph)


def test_a_tile_takes_its_maxima_of_64_channels_at_once_as_published_programs_do() -> None:
    graph = Graph("chain")
    value = graph.add_input("image", _image((1, 10, 10, 128)))
    for _ in range(3):
        value = _pool(graph, value, 5)
    graph.outputs.append(value)
    found = [
        one for one in _instructions(graph) if isinstance(one, TensorOp) and one.op is Opcode.MAX
    ]
    assert {form(one) for one in found} <= published().keys()
    tiles = [sum(one.tiles >> tile & 1 for one in found) for tile in range(16)]
    assert tiles == [3 * 2] * 16
