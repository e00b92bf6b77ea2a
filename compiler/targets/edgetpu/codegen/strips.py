"""Images that are too large for narrow memory: chains of layers that run strip by strip.

A segment is some consecutive layers whose intermediate images nobody else reads. Every tile cuts
the rows that it owns of the segment's result into strips, and runs all layers of the segment for
one strip after the other. Of each intermediate image it then keeps what a strip needs, halo
included, which it computes by itself even if its neighbours do too: an image whose parts overlap.
Only what the segment reads is exchanged, with windows for all strips. Weights are sent to the
tiles once for every strip.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fitzroy.base.errors import CapacityError
from fitzroy.compiler.targets.edgetpu.codegen.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.codegen.depthwise import Dense, Depthwise
from fitzroy.compiler.targets.edgetpu.codegen.layers import Layer, Step
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.codegen.matrices import Pointwise
from fitzroy.compiler.targets.edgetpu.codegen.memory import Live
from fitzroy.compiler.targets.edgetpu.codegen.placement import (
    COLUMNS,
    LANES,
    ROWS,
    TILES,
    WORD,
    Axis,
    Image,
    Interval,
    Placed,
    hull,
    round_up,
    split,
)
from fitzroy.compiler.targets.edgetpu.codegen.pools import AveragePool, MaxPool
from fitzroy.compiler.targets.edgetpu.codegen.products import Product
from fitzroy.compiler.targets.edgetpu.codegen.sums import Sum
from fitzroy.compiler.targets.edgetpu.requantization import unsigned_zero_point
from fitzroy.hw_models.chips.beagle import BEAGLE

_TAPS: dict[type[Pointwise] | type[Sum] | type[Product], int] = {Pointwise: 1, Sum: 2, Product: 6}
"""Layers that compute elements from those at the same place: steps for a word, estimated."""

_STRIPPED = (Convolution, Depthwise, AveragePool, MaxPool, *_TAPS)
"""Layers that compute any rectangle of an image from windows of others."""

_MOST_LAYERS = 16
"""Longer segments recompute more than they save."""

_ATTEMPTS = 24
_ATTEMPT = 96
"""When addresses cannot be found, part of narrow memory that strips are to leave free the next
time: one of so many."""

_PHASE_CYCLES = 700
"""Estimated cycles of a phase besides its steps: barriers, and the latency of the first weights."""

Intervals = tuple[Interval, ...]
"""Of every tile along an axis."""

Region = tuple[Intervals, Intervals]
"""Rows and columns of an image on every tile; they may overlap, and lie in its padding."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Layers that run strip by strip.

    Attributes:
        first: number of the first layer.
        end: number behind the last one.
        strips: how many strips.
    """

    first: int
    end: int
    strips: int

    def layers(self, legalizer: Legalizer) -> list[Layer]:
        """The layers."""
        return legalizer.layers[self.first : self.end]

    def inner(self, legalizer: Legalizer) -> list[str]:
        """Names of the intermediate images."""
        return [layer.writes for layer in self.layers(legalizer)[:-1]]


# --- geometry ------------------------------------------------------------------------------------


def regions(legalizer: Legalizer, segment: Segment) -> Iterator[dict[str, Region]]:
    """For each strip, what tiles need of the images of a segment.

    Of its result that is what they compute in this strip.
    """
    layers = segment.layers(legalizer)
    result = layers[-1].writes
    _, height, width, _ = legalizer.type(result).shape
    across = split(width, COLUMNS)
    cuts = [
        [(begin + first, begin + last) for first, last in split(end - begin, segment.strips)]
        for begin, end in split(height, ROWS)
    ]
    for rows in zip(*cuts, strict=True):
        needed: dict[str, Region] = {result: (rows, across)}
        for layer in reversed(layers):
            owned = _inside(legalizer, layer.writes, needed[layer.writes])
            for index, name in enumerate(layer.reads):
                down, right = layer.windows(index)
                region = tuple(map(down.needs, owned[0])), tuple(map(right.needs, owned[1]))
                needed[name] = _hulls(needed[name], region) if name in needed else region
        yield needed


def _inside(legalizer: Legalizer, name: str, region: Region) -> Region:
    """What of a region is not padding."""
    _, height, width, _ = legalizer.type(name).shape
    rows, columns = region
    return (
        tuple(_clipped(interval, height) for interval in rows),
        tuple(_clipped(interval, width) for interval in columns),
    )


def _clipped(interval: Interval, extent: int) -> Interval:
    begin, end = max(interval[0], 0), min(interval[1], extent)
    return (begin, end) if begin < end else (0, 0)


def _hulls(one: Region, other: Region) -> Region:
    rows, columns = (
        tuple(hull(pair) for pair in zip(mine, yours, strict=True))
        for mine, yours in zip(one, other, strict=True)
    )
    return rows, columns


def _extents(region: Region) -> tuple[int, int]:
    """Most rows and most columns of a tile."""
    rows, columns = (max(end - begin for begin, end in intervals) for intervals in region)
    return rows, columns


def _nbytes(legalizer: Legalizer, name: str, region: Region) -> int:
    rows, columns = _extents(region)
    return rows * columns * round_up(legalizer.type(name).shape[3], WORD)


def windows(legalizer: Legalizer, segment: Segment) -> dict[str, Region]:
    """What all strips need of the images that a segment reads."""
    inner = segment.inner(legalizer)
    # Together strips need what a single one would.
    (needed,) = regions(legalizer, replace(segment, strips=1))
    return {
        name: needed[name]
        for layer in segment.layers(legalizer)
        for name in layer.reads
        if name not in inner
    }


# --- choice --------------------------------------------------------------------------------------


def capacities(nbytes: int) -> list[int]:
    """Bytes of narrow memory to choose segments for, one after the other until all tensors fit."""
    return [nbytes - nbytes * attempt // _ATTEMPT for attempt in range(_ATTEMPTS)]


def choose(
    legalizer: Legalizer, lives: Sequence[Live], scratch: Sequence[int], capacity: int
) -> list[Segment]:
    """The segments that take the fewest additional cycles of those that make everything fit.

    Args:
        legalizer: the layers.
        lives: all tensors as they are without segments; layer k runs in step k + 1.
        scratch: bytes that inputs, and then each layer, use for themselves.
        capacity: bytes of narrow memory.

    Raises:
        CapacityError: nothing fits.
    """
    layers = legalizer.layers
    taken = [
        own + sum(live.tensor.nbytes for live in lives if live.begin <= step <= live.end)
        for step, own in enumerate(scratch)
    ]
    full = [nbytes > capacity for nbytes in taken]
    if not any(full):
        return []
    search = _Search.of(legalizer, lives, scratch, capacity)
    best: list[tuple[float, list[Segment]] | None] = [(0.0, [])]
    for end in range(1, len(layers) + 1):
        before = best[end - 1]
        options = [] if full[end] or before is None else [before]
        for first in range(end - 1, max(-1, end - _MOST_LAYERS - 1), -1):
            if not isinstance(layers[first], _STRIPPED) or layers[first].makes_vector:
                break
            before = best[first]
            if before is None or not any(full[first + 1 : end + 1]):
                continue
            found = search.cheapest(first, end)
            if found is not None:
                cycles, segment = found
                options.append((before[0] + cycles, [*before[1], segment]))
        best.append(min(options, key=lambda one: one[0], default=None))
    if best[-1] is None:
        step = full.index(True)
        most = max(
            (live.tensor for live in lives if live.begin <= step <= live.end),
            key=lambda tensor: tensor.nbytes,
        )
        raise CapacityError(
            f"tensor {most.name!r} takes {most.nbytes} bytes of every tile",
            reason=f"of {capacity} bytes of narrow memory, and no layers can run in strips instead",
        )
    return best[-1][1]


@dataclass(frozen=True, slots=True)
class _Search:
    """What segments are chosen by.

    Attributes:
        legalizer: the layers.
        lives: as in `choose`.
        scratch: as in `choose`.
        capacity: as in `choose`.
        readers: for each tensor, numbers of the layers that read it; those behind the last layer
            stand for what is sent to the host.
    """

    legalizer: Legalizer
    lives: Sequence[Live]
    scratch: Sequence[int]
    capacity: int
    readers: Mapping[str, Sequence[int]]

    @classmethod
    def of(
        cls,
        legalizer: Legalizer,
        lives: Sequence[Live],
        scratch: Sequence[int],
        capacity: int,
    ) -> _Search:
        readers: dict[str, list[int]] = {}
        for number, layer in enumerate(legalizer.layers):
            for name in layer.reads:
                readers.setdefault(name, []).append(number)
        for name in legalizer.graph.outputs:
            readers.setdefault(legalizer.place(name), []).append(len(legalizer.layers))
        return cls(legalizer, lives, scratch, capacity, readers)

    def cheapest(self, first: int, end: int) -> tuple[float, Segment] | None:
        """A segment of some layers that fits, and its additional cycles."""
        layers = self.legalizer.layers[first:end]
        if not all(
            first <= reader < end
            for layer in layers[:-1]
            for reader in self.readers.get(layer.writes, [end])
        ):
            return None
        height = self.legalizer.type(layers[-1].writes).shape[1]
        low, high = 2, -(-height // ROWS)
        if high < low or not self.fits(Segment(first, end, high)):
            return None
        while low < high:
            middle = (low + high) // 2
            if self.fits(Segment(first, end, middle)):
                high = middle
            else:
                low = middle + 1
        segment = Segment(first, end, high)
        whole = [self.regions_of(Segment(number, number + 1, 1)) for number in range(first, end)]
        return self.cycles(segment, self.regions_of(segment)) - sum(
            self.cycles(Segment(first + place, first + place + 1, 1), one)
            for place, one in enumerate(whole)
        ), segment

    def regions_of(self, segment: Segment) -> list[dict[str, Region]]:
        return list(regions(self.legalizer, segment))

    def fits(self, segment: Segment) -> bool:
        """Whether all that lives during a segment fits, wherever it lies."""
        inner = set(segment.inner(self.legalizer))
        wider = windows(self.legalizer, segment)
        free = self.capacity
        for live in self.lives:
            tensor = live.tensor
            if tensor.name in inner or live.begin > segment.end or live.end <= segment.first:
                continue
            region = wider.get(tensor.name)
            if region is not None and isinstance(tensor, Image):
                region = _hulls(region, (tensor.rows.window, tensor.columns.window))
                free -= _nbytes(self.legalizer, tensor.name, region)
            else:
                free -= tensor.nbytes
        if free < 0:
            return False
        numbers = range(segment.first, segment.end)
        for needed in regions(self.legalizer, segment):
            sizes = {name: _nbytes(self.legalizer, name, needed[name]) for name in inner}
            for number in numbers:
                taken = sum(
                    sizes[name]
                    for name, born in zip(segment.inner(self.legalizer), numbers, strict=False)
                    if born <= number <= max(self.readers[name])
                )
                if taken + self.own(number, needed) > free:
                    return False
        return True

    def own(self, number: int, needed: dict[str, Region]) -> int:
        """Bytes that a layer uses for itself in a strip; less than for all rows, if any."""
        if not self.scratch[number + 1]:
            return 0
        layer = self.legalizer.layers[number]
        return layer.scratch_bytes(
            {
                name: _image(self.legalizer, name, needed[name])
                for name in (*layer.reads, layer.writes)
            }
        )

    def cycles(self, segment: Segment, strips: Sequence[dict[str, Region]]) -> float:
        """Estimated cycles of the tiles that have most to do."""
        cycles = 0.0
        for layer in segment.layers(self.legalizer):
            groups = -(-self.legalizer.type(layer.writes).shape[3] // WORD)
            for needed in strips:
                region = _inside(self.legalizer, layer.writes, needed[layer.writes])
                cycles += _cycles(layer, _extents(region), groups)
        return cycles


def _cycles(layer: Layer, area: tuple[int, int], groups: int) -> float:
    """Estimated cycles of a layer that computes some rows and columns of groups of channels."""
    height, width = area
    if isinstance(layer, Depthwise):
        # Lanes are positions, and all groups of channels or one group after the other.
        dense = isinstance(layer, Dense)
        positions = max(1, LANES // WORD // groups) if dense else LANES // WORD
        tall = min(height, math.isqrt(positions))
        wide = min(width, positions // max(tall, 1))
        patches = -(-height // max(tall, 1)) * -(-width // max(wide, 1))
        taps = ((tall - 1) * layer.rows.stride + layer.rows.kernel) * (
            (wide - 1) * layer.columns.stride + layer.columns.kernel
        )
        words = taps * (-(-layer.in_channels // WORD) if dense else groups)
        return max(patches, BEAGLE.timing.ring_row) * words + _PHASE_CYCLES
    if isinstance(layer, Convolution):
        # A tile takes as long to write a word as to add one up.
        words = sum(item.words for item in layer.weights)
        steps = height * width * max(words, -(-layer.channels // WORD))
        return max(steps, BEAGLE.timing.ring_row * words) + _PHASE_CYCLES
    if isinstance(layer, AveragePool | MaxPool):
        taps = layer.rows.kernel * layer.columns.kernel
    else:
        taps = max(count for kind, count in _TAPS.items() if isinstance(layer, kind))
    return height * width * groups * taps + 2 * _PHASE_CYCLES


def cycles(layer: Layer, result: Placed) -> float:
    """Estimated cycles of a layer that is no depthwise convolution and may run in strips."""
    if isinstance(layer, Depthwise) or not isinstance(layer, _STRIPPED):
        return 0.0
    if not isinstance(result, Image):
        return 0.0
    area = max(result.area(tile) for tile in range(TILES))
    return _cycles(layer, area, result.depth // WORD)


# --- steps ---------------------------------------------------------------------------------------


def steps(
    legalizer: Legalizer, segments: Sequence[Segment], tensors: Mapping[str, Placed]
) -> list[Step]:
    """All layers in the order in which they run, those of segments once for every strip.

    Args:
        legalizer: the layers.
        segments: the segments.
        tensors: places of tensors, without those of intermediate images.
    """
    found: list[Step] = []
    starts = {segment.first: segment for segment in segments}
    number = 0
    while number < len(legalizer.layers):
        segment = starts.get(number)
        if segment is None:
            found.append(Step(legalizer.layers[number], tensors))
            number += 1
            continue
        found += _strips(legalizer, segment, tensors)
        number = segment.end
    return found


def _strips(
    legalizer: Legalizer, segment: Segment, tensors: Mapping[str, Placed]
) -> Iterator[Step]:
    layers = segment.layers(legalizer)
    whole = tensors[layers[-1].writes]
    assert isinstance(whole, Image)
    for strip, needed in enumerate(regions(legalizer, segment), 1):
        local: dict[str, Placed] = {
            name: _image(legalizer, name, needed[name]) for name in segment.inner(legalizer)
        }
        rows, _ = needed[whole.name]
        local[whole.name] = Image(
            whole.name,
            replace(whole.rows, owned=rows),
            whole.columns,
            whole.channels,
            whole.zero_point,
        )
        places = ChainMap(local, dict(tensors))
        for layer in layers[:-1]:
            yield Step(layer, places)
        yield Step(layers[-1], places, whole, complete=strip == segment.strips)


def _image(legalizer: Legalizer, name: str, region: Region) -> Image:
    """An intermediate image of a strip: tiles own all of their windows that is no padding."""
    type = legalizer.type(name)
    _, height, width, channels = type.shape
    rows, columns = _inside(legalizer, name, region)
    return Image(
        name,
        Axis(height, rows, region[0]),
        Axis(width, columns, region[1]),
        channels,
        unsigned_zero_point(type),
    )


def widen(steps: Iterable[Step]) -> None:
    """Give results of segments the slack that their strips have got."""
    for step in steps:
        if step.whole is not None:
            whole, part = step.whole, step.result
            assert isinstance(part, Image)
            rows, columns = whole.rows, whole.columns
            whole.rows = replace(rows, slack=max(rows.slack, part.rows.slack))
            whole.columns = replace(columns, slack=max(columns.slack, part.columns.slack))


def bind(steps: Iterable[Step]) -> None:
    """Let the strips of results lie in their images, which have got addresses."""
    for step in steps:
        if step.whole is not None:
            whole, part = step.whole, step.result
            assert isinstance(part, Image)
            part.rows = replace(whole.rows, owned=part.rows.owned)
            part.columns = whole.columns
            part.base = whole.base
