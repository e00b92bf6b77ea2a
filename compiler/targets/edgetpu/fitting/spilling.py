"""Which images wait in the host's memory until they are read again?

Skip connections over many layers, such as those of U-Net, are too large to stay on the chip. They
go to the host's scratch buffer when they are computed, and come back before the first layer after
the gap. Inputs are taken from the host again instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from fitzroy.compiler.targets.edgetpu.host import scratch
from fitzroy.compiler.targets.edgetpu.host.host_layers import Fetch, Keep, Receive
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import COLUMNS, ROWS, Image, TiledAxis


@dataclass(frozen=True, slots=True)
class _Gap:
    """Layers between two that use an image.

    Attributes:
        name: the image.
        maker: number of the layer that computes it.
        before: number of the last layer in front of the gap that uses it.
        reader: number of the first layer after the gap that reads it.
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


def spilled(layered: Layered) -> Layered | None:
    """The layers with the image in the host's memory that takes most room for most of them.

    Args:
        layered: the layers.

    Returns:
        None if there is no such image.
    """
    gap = max(
        (gap for gap in _gaps(layered) if gap.length > _SHORTEST),
        key=lambda one: one.nbytes * (one.length - 1),
        default=None,
    )
    return None if gap is None else _waiting(layered, gap)


def interrupted(layered: Layered, reached: int) -> Layered | None:
    """The layers with an image in the host's memory although it is read at once, as a last resort.

    Then it need not be in narrow memory as a whole: strips send it, and others take it back.

    Args:
        layered: the layers.
        reached: layers in front of this number can run; the smallest image after them waits.

    Returns:
        None if there is no such image.
    """
    gap = min(
        (
            gap
            for gap in _gaps(layered)
            if reached <= gap.maker < reached + _FURTHEST and not layered.layers[gap.maker].received
        ),
        key=lambda one: one.nbytes,
        default=None,
    )
    return None if gap is None else _waiting(layered, gap)


_FURTHEST = 12
"""Of so many layers, one is interrupted; strips of more of them would be too long."""


def _waiting(layered: Layered, gap: _Gap) -> Layered:
    """Send an image to the host, or take it from there again, and let readers have that."""
    maker, type = layered.layers[gap.maker], layered.type(gap.name)
    back = layered.unused(f"{gap.name}.again")
    layered = replace(layered, types={**layered.types, back: type})
    before, after = layered.layers[: gap.reader], layered.layers[gap.reader :]
    after = tuple(_reading(layer, gap.name, back) for layer in after)
    origin = maker.origin
    if isinstance(maker, Receive):
        again = replace(maker, name=back, writes=back, compact=False)
        return replace(layered, layers=(*before, again, *after))
    kept = layered.unused(f"{gap.name}.kept")
    keep = Keep(name=kept, reads=(gap.name,), writes=kept, origin=origin)
    fetch = Fetch(name=back, reads=(), writes=back, source=kept, origin=origin)
    made, rest = before[: gap.maker + 1], before[gap.maker + 1 :]
    return replace(
        layered,
        layers=(*made, keep, *rest, fetch, *after),
        types={**layered.types, kept: type},
    )


def _reading(layer: Layer, name: str, other: str) -> Layer:
    """A layer that reads another value instead of one."""
    if name not in layer.reads:
        return layer
    return replace(layer, reads=tuple(other if own == name else own for own in layer.reads))


def _gaps(layered: Layered) -> Iterator[_Gap]:
    uses: dict[str, list[int]] = {}
    for number, layer in enumerate(layered.layers):
        if not (layer.makes_vector or layer.remote or layer.returned):
            uses[layer.writes] = [number]
        for name in layer.reads:
            if name in uses:
                uses[name].append(number)
    for name, numbers in uses.items():
        _, height, width, channels = layered.type(name).shape
        image = Image(
            name, TiledAxis.of(height, ROWS, []), TiledAxis.of(width, COLUMNS, []), channels, 0
        )
        maker = layered.layers[numbers[0]]
        for before, after in pairwise(numbers):
            later = [layered.layers[number] for number in numbers if number >= after]
            if (maker.received or scratch.kept_whole(image)) and all(
                layer.by_name for layer in later
            ):
                yield _Gap(name, numbers[0], before, after, image.nbytes)


_SHORTEST = 2
"""A gap has more than so many layers, counted with its last reader."""
