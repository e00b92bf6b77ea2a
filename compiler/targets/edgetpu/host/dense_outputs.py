"""Which outputs are packed before they leave the chip, so that they carry no padding?

A pixel of an image takes whole words of four channels, so a mask of one channel would leave the
chip with three bytes of padding for each of its own. Where rows divide into groups of pixels whose
channels fill words, a convolution packs the pixels of each group without gaps.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fitzroy.base.types import Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK, RULES, Legalizer
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, WORD, round_up
from fitzroy.compiler.targets.edgetpu.reshaping.shapes import temporary
from fitzroy.compiler.targets.edgetpu.reshaping.vectors import is_vector

_BYTE_CYCLES = 11.0
"""Cycles in which a byte leaves the chip: 22 ns on the host of the cost model, at 500 MHz."""

_LAYER_CYCLES = 600.0
"""Cycles of a layer beside its steps: fences, weights, and the instructions that come for it."""

_LANES = 64
"""Channels of a step."""


def send_densely(legalizer: Legalizer) -> None:
    """Append the layers that make outputs dense, where that is faster; all nodes are legalized.

    Args:
        legalizer: the graph; the outputs concerned become views of the dense images.
    """
    for name in legalizer.graph.outputs:
        parts = legalizer.parts(name)
        dense = tuple(_dense(legalizer, name, number, part) for number, part in enumerate(parts))
        if dense != parts:
            legalizer.views[name] = dense


def _dense(legalizer: Legalizer, output: str, number: int, part: str) -> str:
    """The place of a part of an output without padding; the part itself if it stays."""
    type = legalizer.type(part)
    pixels = _group(type)
    # An input that is sent back has no layer that makes it.
    origin = next((layer.origin for layer in legalizer.layers if layer.writes == part), None)
    if is_vector(legalizer, part) or pixels == 1 or not _pays(type, pixels) or origin is None:
        return part
    _, height, width, channels = type.shape
    shape = (1, height, width // pixels, pixels * channels)
    result = temporary(legalizer, f"{output}.{number}.dense", replace(type, shape=shape))
    single, before = Graph(legalizer.graph.name), len(legalizer.layers)
    single.add_input(part, type)
    operands = (part, *_identity(single, type, pixels, f"{result}.pixels"))
    node = Node(result, "conv_2d", operands, (result,), ConvAttributes((1, pixels)))
    single.add_node(node, [legalizer.types[result]])
    RULES[node.op](replace(legalizer, graph=single), Call.of(single, node))
    legalizer.layers[before:] = [
        replace(layer, origin=origin) for layer in legalizer.layers[before:]
    ]
    return legalizer.place(result)


def _group(type: TensorType) -> int:
    """Pixels of a row whose channels fill whole words together; 1 if they stay as they are."""
    if len(type.shape) != IMAGE_RANK or type.shape[0] != 1:
        return 1
    _, _, width, channels = type.shape
    pixels = WORD // math.gcd(WORD, channels)
    return pixels if width % pixels == 0 else 1


def _pays(type: TensorType, pixels: int) -> bool:
    """Whether less time is saved by fewer bytes than the layer takes."""
    _, height, width, channels = type.shape
    padded = round_up(channels, WORD)
    groups = -(-height * width // pixels // TILES)
    blocks = -(-pixels * channels // _LANES)
    steps = groups * pixels * (padded // WORD) * blocks
    return height * width * (padded - channels) * _BYTE_CYCLES > _LAYER_CYCLES + steps


def _identity(graph: Graph, type: TensorType, pixels: int, name: str) -> tuple[str, str]:
    """Weights of one and biases of zero that put the channels of a group behind each other."""
    assert type.quantization is not None
    channels = type.shape[-1]
    every = pixels * channels
    filters = np.zeros((every, 1, pixels, channels), np.int64)
    filters.reshape(every, every)[np.arange(every), np.arange(every)] = 1
    weights = Quantization.per_tensor(1.0, 0)
    stored = graph.add_constant(name, filters.astype(type.dtype.numpy), weights)
    biases = Quantization.per_tensor(type.quantization.scale[0], 0)
    zeros = graph.add_constant(f"{name}.zeros", np.zeros(every, np.int32), biases)
    return stored, zeros
