"""Images that wait in the host's memory until they are read again.

Skip connections over many layers, as those of U-Net, are too large to stay. They go to the host's
scratch buffer when they are computed, and come back in front of the first layer behind the gap;
inputs are just taken from the host again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.targets.edgetpu.codegen import edges
from fitzroy.compiler.targets.edgetpu.codegen.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.codegen.copies import Assembly
from fitzroy.compiler.targets.edgetpu.codegen.depthwise import Depthwise
from fitzroy.compiler.targets.edgetpu.codegen.layers import Layer
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.codegen.matrices import Pointwise
from fitzroy.compiler.targets.edgetpu.codegen.placement import COLUMNS, ROWS, Axis, Image
from fitzroy.compiler.targets.edgetpu.codegen.pools import AveragePool, MaxPool
from fitzroy.compiler.targets.edgetpu.codegen.ports import Fetch, Keep, Receive, Send
from fitzroy.compiler.targets.edgetpu.codegen.products import Product
from fitzroy.compiler.targets.edgetpu.codegen.resize import Bilinear
from fitzroy.compiler.targets.edgetpu.codegen.sums import Sum

_READERS = (
    Assembly,
    AveragePool,
    Bilinear,
    Convolution,
    Depthwise,
    MaxPool,
    Pointwise,
    Product,
    Send,
    Sum,
)
"""Layers that know their operands by their names only."""


@dataclass(frozen=True, slots=True)
class _Gap:
    """Layers between two that use an image.

    Attributes:
        name: the image.
        maker: number of the layer that computes it.
        reader: number of the first layer behind the gap that reads it.
        saved: bytes of every tile, times the number of layers.
    """

    name: str
    maker: int
    reader: int
    saved: int


def spill(legalizer: Legalizer) -> bool:
    """Let the image that takes most room for most layers wait in the host's memory.

    Returns:
        Whether there is any.
    """
    gap = max(_gaps(legalizer), key=lambda one: one.saved, default=None)
    if gap is None:
        return False
    layers = legalizer.layers
    maker, back = layers[gap.maker], _name(legalizer, gap.name, "again")
    for number in range(gap.reader, len(layers)):
        if gap.name in layers[number].reads:
            reader = copy.copy(layers[number])
            reader.reads = tuple(back if name == gap.name else name for name in reader.reads)
            layers[number] = reader
    if isinstance(maker, Receive):
        _insert(legalizer, gap.reader, Receive(name=back, reads=(), writes=back, input=maker.input))
        return True
    kept = _name(legalizer, gap.name, "kept")
    keep = Keep(name=kept, reads=(gap.name,), writes=kept)
    _insert(legalizer, gap.reader, Fetch(name=back, reads=(), writes=back, source=keep))
    _insert(legalizer, gap.maker + 1, keep)
    return True


def _gaps(legalizer: Legalizer) -> Iterator[_Gap]:
    uses: dict[str, list[int]] = {}
    for number, layer in enumerate(legalizer.layers):
        if not (layer.makes_vector or layer.remote or isinstance(layer, Fetch)):
            uses[layer.writes] = [number]
        for name in layer.reads:
            if name in uses:
                uses[name].append(number)
    for name, numbers in uses.items():
        _, height, width, channels = legalizer.type(name).shape
        image = Image(name, Axis.of(height, ROWS, []), Axis.of(width, COLUMNS, []), channels, 0)
        maker = legalizer.layers[numbers[0]]
        for before, behind in pairwise(numbers):
            later = [legalizer.layers[number] for number in numbers if number >= behind]
            if (
                behind - before > _SHORTEST
                and (isinstance(maker, Receive) or edges.kept_whole(image))
                and all(isinstance(layer, _READERS) for layer in later)
            ):
                yield _Gap(name, numbers[0], behind, image.nbytes * (behind - before - 1))


_SHORTEST = 2
"""A gap has more than so many layers, counted with its last reader."""


def _name(legalizer: Legalizer, name: str, suffix: str) -> str:
    result = unused_name(f"{name}.{suffix}", legalizer.graph.values, legalizer.types)
    legalizer.types[result] = legalizer.type(name)
    return result


def _insert(legalizer: Legalizer, number: int, layer: Layer) -> None:
    legalizer.layers.insert(number, layer)
    legalizer.origins.insert(number, layer.name)
