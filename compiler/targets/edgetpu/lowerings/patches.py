"""Patches: what the lanes of a tensor operation compute of a convolution of few channels.

A patch is a rectangle of positions of the result, with some groups of four channels. Lanes hold the
weights of their own position for every word of the patch's input window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import (
    fewest_slots,
    published_slots,
)
from fitzroy.compiler.targets.edgetpu.lowerings.delivery import Delivery
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    LANES,
    WORD,
    Window,
)
from fitzroy.hw_models.chips.beagle import BEAGLE

GROUPS = LANES // WORD
"""Groups of four lanes."""


MOST_STAGED = (640, 320, 192, 128, 96, 64, 0)
"""Limits of the weight rows in staging that are tried, because it takes rows of all tiles."""


_MOST_SLOTS = 8
"""More slots of staging than these hide nothing that fewer do not."""


FIFO_LANES = WORD
"""Lanes of the words that the scalar core's fifo makes of rows."""


@dataclass(frozen=True, slots=True)
class Strip:
    """How the outputs along an axis form patches.

    With a dilation, the positions of a patch are those whose windows share elements, and the ones
    between them belong to other patches.

    Attributes:
        window: what an output reads.
        positions: outputs of a patch.
    """

    window: Window
    positions: int

    @property
    def spread(self) -> int:
        """Distance of the outputs of a patch."""
        return self.window.dilation // math.gcd(self.window.dilation, self.window.stride)

    @property
    def step(self) -> int:
        """Distance of their windows, in taps."""
        return self.window.stride // math.gcd(self.window.dilation, self.window.stride)

    @property
    def taps(self) -> int:
        """Taps of the input window of a patch."""
        return (self.positions - 1) * self.step + self.window.kernel

    def offsets(self, extent: int) -> int:
        """Patches between the outputs of a patch."""
        return min(self.spread, extent)

    def count(self, extent: int) -> int:
        """Number of patches that follow each other in an extent."""
        return -(-extent // (self.positions * self.spread))

    def stride(self, extent: int) -> int:
        """Outputs from one patch to the next: less than a patch if they then end together."""
        length, count = self.positions * self.spread, self.count(extent)
        if self.spread == 1 and count > 1 and (extent - length) % (count - 1) == 0:
            return (extent - length) // (count - 1)
        return length

    def patches(self, extent: int) -> int:
        """Number of patches that an extent takes."""
        return self.offsets(extent) * self.count(extent)

    def covered(self, extent: int) -> int:
        """Outputs from the first to the last that patches compute, at least the extent."""
        last = (self.count(extent) - 1) * self.stride(extent) + self.offsets(extent) - 1
        return last + (self.positions - 1) * self.spread + 1


@dataclass(frozen=True, slots=True)
class Patch:
    """What the lanes of a tensor operation compute.

    Attributes:
        rows: positions along rows.
        columns: positions along columns.
        words: words of input channels.
        groups: groups of four output channels.
        slots: blocks of weights that a tile can hold.
        packed: whether the words of weights share rows of wide memory. They have four lanes then,
            and reach tiles through the scalar core's fifo, which cuts rows into words.
        beside: weight rows of a block that come on channel A while the others come on B.
    """

    rows: Strip
    columns: Strip
    words: int
    groups: int
    slots: int = SLOTS
    packed: bool = False
    beside: int = 0

    @property
    def lanes(self) -> int:
        """Number of lanes that compute something."""
        return WORD * self.groups * self.rows.positions * self.columns.positions

    @property
    def staged(self) -> int:
        """Weight rows of a block, and steps of a patch."""
        return self.words * self.rows.taps * self.columns.taps

    def blocks(self, in_channels: int) -> int:
        """Blocks of so many input channels."""
        return -(-in_channels // (WORD * self.words))

    def taps(self) -> Iterator[tuple[tuple[int, int], tuple[int, int], int, int]]:
        """Positions, and for each element of their kernels the tap that it is multiplied with."""
        rows, columns = self.rows, self.columns
        for y, x in np.ndindex(rows.positions, columns.positions):
            for ky, kx in np.ndindex(rows.window.kernel, columns.window.kernel):
                yield (y, x), (y * rows.step + ky, x * columns.step + kx), ky, kx

    def parameter_rows(self, in_channels: int, vectors: int) -> int:
        """Rows of wide memory for the parameters, with so many vectors of each block."""
        words = self.blocks(in_channels) * (vectors + self.staged)
        return -(-words // (LANES // FIFO_LANES)) if self.packed else words


@dataclass(frozen=True, slots=True)
class Option:
    """A patch for a layer: what it costs, and how long the layer then takes.

    Attributes:
        patch: the patch.
        rows: rows of wide memory for the parameters.
        cycles: estimated cycles.
        first: those of them before the first step, in which the first block of weights comes.
        held: rows of wide memory in staging.
        paired: whether two slots take turns, or each block has its own, as in published programs.
    """

    patch: Patch
    rows: int
    cycles: float
    first: float
    held: int
    paired: bool


@cache
def depthwise_patches(
    rows: Window,
    columns: Window,
    in_channels: int,
    multiplier: int,
    vectors: int,
    areas: tuple[tuple[int, int], ...],
    *,
    both: bool = False,
) -> tuple[Option, ...]:
    """All patches of layers that are alike."""
    height, width = (max(extents) for extents in zip(*areas, strict=True))
    most, words = GROUPS // multiplier, -(-in_channels // WORD)
    shapes = [
        Patch(Strip(rows, down), Strip(columns, across), count, count * multiplier)
        for across in range(1, min(most, width) + 1)
        for down in range(1, min(most // across, height) + 1)
        for count in range(1, min(most // (across * down), words) + 1)
    ]
    if multiplier == 1:
        shapes.append(Patch(Strip(rows, 1), Strip(columns, 1), 1, 1, packed=True))
    options = []
    for shape in shapes:
        blocks = shape.blocks(in_channels)
        for slots in range(fewest_slots(shape.staged), _MOST_SLOTS + 1):
            if slots <= SLOTS or blocks % slots == 0:
                patch = replace(shape, slots=slots)
                options.append(_option(patch, in_channels, vectors, areas, both=both))
    return tuple(options)


@cache
def dense_patches(
    rows: Window,
    columns: Window,
    in_channels: int,
    channels: int,
    vectors: int,
    areas: tuple[tuple[int, int], ...],
    *,
    both: bool = False,
) -> tuple[Option, ...]:
    """All patches of convolutions that are alike: they have a single block."""
    height, width = (max(extents) for extents in zip(*areas, strict=True))
    groups = -(-channels // WORD)
    most = GROUPS // groups
    shapes = [
        Patch(Strip(rows, down), Strip(columns, across), -(-in_channels // WORD), groups, slots=1)
        for across in range(1, min(most, width) + 1)
        for down in range(1, min(most // across, height) + 1)
    ]
    return tuple(_option(shape, in_channels, vectors, areas, both=both) for shape in shapes)


def delivery_of(
    patch: Patch, in_channels: int, vectors: int, areas: Iterable[tuple[int, int]]
) -> Delivery:
    """How the weights of a patch come, and how long the tile with most patches uses them.

    Args:
        patch: the patch.
        in_channels: input channels.
        vectors: words of vectors of a block.
        areas: rows and columns that tiles own of the result.
    """
    patches = (patch.rows.patches(height) * patch.columns.patches(width) for height, width in areas)
    steps = patch.staged * max(patches)
    blocks = patch.blocks(in_channels)
    row = BEAGLE.timing.fifo_word * FIFO_LANES if patch.packed else BEAGLE.timing.ring_row
    return Delivery(
        steps, patch.staged, vectors, 1, blocks, patch.slots, patch.lanes, last=steps, row=row
    )


def _option(
    patch: Patch,
    in_channels: int,
    vectors: int,
    areas: Iterable[tuple[int, int]],
    *,
    both: bool,
) -> Option:
    """The rows, cycles and staging that a patch takes."""
    delivery = delivery_of(patch, in_channels, vectors, areas)
    patch = replace(patch, beside=delivery.beside if both and not patch.packed else 0)
    return Option(
        patch,
        patch.parameter_rows(in_channels, vectors),
        delivery.cycles(patch.beside) + BEAGLE.timing.phase,
        delivery.first(patch.beside),
        patch.slots * (patch.staged + vectors),
        published_slots(patch.slots, delivery.blocks),
    )
