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
from fitzroy.compiler.targets.edgetpu.host import host_io
from fitzroy.compiler.targets.edgetpu.host.host_layers import Fetch, Keep, Receive, Send
from fitzroy.compiler.targets.edgetpu.layers.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.layers.matrices import Pointwise
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.lowerings.depthwise import Depthwise
from fitzroy.compiler.targets.edgetpu.lowerings.pools import AveragePool, MaxPool
from fitzroy.compiler.targets.edgetpu.lowerings.products import Product
from fitzroy.compiler.targets.edgetpu.lowerings.resize import Bilinear
from fitzroy.compiler.targets.edgetpu.lowerings.sums import Sum
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import COLUMNS, ROWS, Axis, Image
from fitzroy.compiler.targets.edgetpu.reshaping.moves import Assembly

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
        before: number of the last layer in front of the gap that uses it.
        reader: number of the first layer behind the gap that reads it.
        nbytes: bytes of every tile.
    """

    name: str
    maker: int
    before: int
    reader: int
    nbytes: int

    @property
    def length(self) -> int:
        """Number of layers, with the reader."""
        return self.reader - self.before


def spill(legalizer: Legalizer) -> bool:
    """Let the image that takes most room for most layers wait in the host's memory.

    Returns:
        Whether there is any.
    """
    gap = max(
        (gap for gap in _gaps(legalizer) if gap.length > _SHORTEST),
        key=lambda one: one.nbytes * (one.length - 1),
        default=None,
    )
    if gap is not None:
        _let_wait(legalizer, gap)
    return gap is not None


def interrupt(legalizer: Legalizer, reached: int) -> bool:
    """Let an image wait in the host's memory although it is read at once, as a last resort.

    Then it need not be in narrow memory as a whole: strips send it, and others take it back.

    Args:
        legalizer: the layers.
        reached: layers in front of this number can run; the smallest image behind them waits.

    Returns:
        Whether there is any.
    """
    layers = legalizer.layers
    gap = min(
        (
            gap
            for gap in _gaps(legalizer)
            if reached <= gap.maker < reached + _FURTHEST
            and not isinstance(layers[gap.maker], Receive)
        ),
        key=lambda one: one.nbytes,
        default=None,
    )
    if gap is not None:
        _let_wait(legalizer, gap)
    return gap is not None


_FURTHEST = 12
"""Of so many layers, one is interrupted; strips of more of them would be too long."""


def _let_wait(legalizer: Legalizer, gap: _Gap) -> None:
    """Send an image to the host, or take it from there again, and let readers have that."""
    layers = legalizer.layers
    maker, back = layers[gap.maker], _name(legalizer, gap.name, "again")
    for number in range(gap.reader, len(layers)):
        if gap.name in layers[number].reads:
            reader = copy.copy(layers[number])
            reader.reads = tuple(back if name == gap.name else name for name in reader.reads)
            layers[number] = reader
    origin = maker.origin
    if isinstance(maker, Receive):
        again = Receive(name=back, reads=(), writes=back, input=maker.input, origin=origin)
        layers.insert(gap.reader, again)
        return
    kept = _name(legalizer, gap.name, "kept")
    keep = Keep(name=kept, reads=(gap.name,), writes=kept, origin=origin)
    fetch = Fetch(name=back, reads=(), writes=back, source=keep, origin=origin)
    layers.insert(gap.reader, fetch)
    layers.insert(gap.maker + 1, keep)


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
            if (isinstance(maker, Receive) or host_io.kept_whole(image)) and all(
                isinstance(layer, _READERS) for layer in later
            ):
                yield _Gap(name, numbers[0], before, behind, image.nbytes)


_SHORTEST = 2
"""A gap has more than so many layers, counted with its last reader."""


def _name(legalizer: Legalizer, name: str, suffix: str) -> str:
    result = unused_name(f"{name}.{suffix}", legalizer.graph.values, legalizer.types)
    legalizer.types[result] = legalizer.type(name)
    return result
