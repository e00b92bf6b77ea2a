"""Images that are too large for narrow memory: chains of layers that run strip by strip.

A segment is some consecutive layers whose intermediate images nobody else reads. Every tile cuts
the rows that it owns of the segment's result into strips, and runs all layers of the segment for
one strip after the other. Of each intermediate image it then keeps what a strip needs, halo
included, which it computes by itself even if its neighbours do too: an image whose parts overlap.
Only what the segment reads is exchanged, with windows for all strips. Weights are sent to the
tiles once for every strip. A segment may begin with an input, of which the host then sends what a
strip needs, and end with an output, which goes to the host strip by strip.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fitzroy.base.errors import CapacityError
from fitzroy.compiler.targets.edgetpu.codegen.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.codegen.copies import Assembly
from fitzroy.compiler.targets.edgetpu.codegen.depthwise import Dense, Depthwise
from fitzroy.compiler.targets.edgetpu.codegen.halo import relayed
from fitzroy.compiler.targets.edgetpu.codegen.layers import Layer, Step
from fitzroy.compiler.targets.edgetpu.codegen.legalize import Legalizer
from fitzroy.compiler.targets.edgetpu.codegen.matrices import Pointwise
from fitzroy.compiler.targets.edgetpu.codegen.memory import Live
from fitzroy.compiler.targets.edgetpu.codegen.normalization import Normalization
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
from fitzroy.compiler.targets.edgetpu.codegen.ports import Fetch, Keep, Receive, Send
from fitzroy.compiler.targets.edgetpu.codegen.products import Product
from fitzroy.compiler.targets.edgetpu.codegen.resize import Direct, Separable
from fitzroy.compiler.targets.edgetpu.codegen.sums import Channels, Sum
from fitzroy.compiler.targets.edgetpu.codegen.transposed import TransposedConvolution
from fitzroy.compiler.targets.edgetpu.requantization import unsigned_zero_point
from fitzroy.hw_models.chips.beagle import BEAGLE

_TAPS: dict[type[Layer], int] = {
    Assembly: 1,
    Channels: 1,
    Pointwise: 1,
    Sum: 2,
    Separable: 3,
    Direct: 4,
    Product: 6,
    Normalization: 13,
}
"""Layers that take as long for every word: steps for one, estimated."""

_STRIPPED: tuple[type[Layer], ...] = (
    Convolution,
    TransposedConvolution,
    Depthwise,
    AveragePool,
    MaxPool,
    Fetch,
    Keep,
    Receive,
    Send,
    *_TAPS,
)
"""Layers that compute any rectangle of an image from windows of others."""

_MOST_LAYERS = 16
"""Longer segments recompute more than they save."""

_ATTEMPTS = 24
_ATTEMPT = 96
"""When addresses cannot be found, part of narrow memory that strips are to leave free the next
time: one of so many."""

_MOVED = 80
"""Estimated cycles of a word that a tile gets from the host or sends there."""

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
        strips: how many strips of rows.
        across: how many parts of their columns, if these are many.
    """

    first: int
    end: int
    strips: int
    across: int = 1

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Numbers of the strips, and of the parts of their columns, in order."""
        return [(strip, band) for strip in range(self.strips) for band in range(self.across)]

    def layers(self, legalizer: Legalizer) -> list[Layer]:
        """The layers."""
        return legalizer.layers[self.first : self.end]

    def inner(self, legalizer: Legalizer) -> list[str]:
        """Names of the intermediate images."""
        return [layer.writes for layer in self.layers(legalizer)[:-1] if not layer.remote]

    def results(self, legalizer: Legalizer) -> list[str]:
        """Names of its result, and of what goes to the host before."""
        return [
            layer.writes
            for layer in self.layers(legalizer)
            if layer.remote or layer is legalizer.layers[self.end - 1]
        ]


# --- geometry ------------------------------------------------------------------------------------


def regions(legalizer: Legalizer, segment: Segment) -> Iterator[dict[str, Region]]:
    """For each strip, what tiles need of the images of a segment.

    Of its results that is what they compute in this strip.
    """
    across = [columns(legalizer, segment, band) for band in range(segment.across)]
    for strip, band in segment.parts:
        down = rows(legalizer, segment, strip)
        yield {name: (down[name], across[band][name]) for name in down}


def rows(legalizer: Legalizer, segment: Segment, strip: int) -> dict[str, Intervals]:
    """Rows of the images of a segment that tiles need in a strip."""
    results = {
        name: tuple(
            _part(interval, strip, segment.strips)
            for interval in split(legalizer.type(name).shape[1], ROWS)
        )
        for name in segment.results(legalizer)
    }
    return _needed(legalizer, segment, 0, results)


def columns(legalizer: Legalizer, segment: Segment, band: int) -> dict[str, Intervals]:
    """Columns of the images of a segment that tiles need in any strip."""
    results = {
        name: tuple(
            _part(interval, band, segment.across)
            for interval in split(legalizer.type(name).shape[2], COLUMNS)
        )
        for name in segment.results(legalizer)
    }
    for layer in segment.layers(legalizer):
        if isinstance(layer, Fetch):
            results[layer.writes] = split(legalizer.type(layer.writes).shape[2], COLUMNS)
    return _needed(legalizer, segment, 1, results)


def _needed(
    legalizer: Legalizer, segment: Segment, axis: int, results: Mapping[str, Intervals]
) -> dict[str, Intervals]:
    """What tiles need of images along an axis to compute parts of results."""
    needed = dict(results)
    for layer in reversed(segment.layers(legalizer)):
        extent = legalizer.type(layer.writes).shape[1 + axis]
        owned = [_clipped(interval, extent) for interval in needed[layer.writes]]
        for index, name in enumerate(layer.reads):
            own = tuple(map(layer.windows(index)[axis].needs, owned))
            needed[name] = tuple(map(_hull, needed[name], own)) if name in needed else own
    return needed


def _hull(one: Interval, other: Interval) -> Interval:
    return hull((one, other))


def _part(interval: Interval, number: int, count: int) -> Interval:
    """One of the parts that an interval is split into."""
    begin, end = interval
    first, last = (-(-(end - begin) * bound // count) for bound in (number, number + 1))
    return begin + first, begin + last


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
    down, across = (tuple(map(_hull, *pair)) for pair in zip(one, other, strict=True))
    return down, across


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
    (needed,) = regions(legalizer, replace(segment, strips=1, across=1))
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
    """The segments that make everything fit; see `Search.choose`."""
    return Search.of(legalizer, lives, scratch).choose(capacity)


_ACROSS = (1, 2, 4, 8)
"""Parts of the columns of strips; the more, the more is computed several times."""


def _sample(segment: Segment) -> list[tuple[int, int]]:
    """Parts that stand for all: the first are the largest, those in the middle have halos."""

    def some(count: int) -> list[int]:
        return sorted({0, min(1, count - 1), count // 2, count - 1})

    return [(strip, band) for strip in some(segment.strips) for band in some(segment.across)]


@dataclass(frozen=True, slots=True)
class Search:
    """What segments are chosen by.

    Attributes:
        legalizer: the layers.
        lives: all tensors as they are without segments; layer k runs in step k + 1.
        scratch: bytes that the identity matrix, and then each layer, use for themselves.
        readers: for each tensor, numbers of the layers that read it.
    """

    legalizer: Legalizer
    lives: Sequence[Live]
    scratch: Sequence[int]
    readers: Mapping[str, Sequence[int]]
    _peaks: dict[tuple[Segment, int, int], int] = field(default_factory=dict)
    _costs: dict[Segment, float] = field(default_factory=dict)
    _columns: dict[tuple[int, int, int, int], dict[str, Intervals]] = field(default_factory=dict)

    @classmethod
    def of(cls, legalizer: Legalizer, lives: Sequence[Live], scratch: Sequence[int]) -> Search:
        """A search in all layers."""
        readers: dict[str, list[int]] = {}
        for number, layer in enumerate(legalizer.layers):
            for name in layer.reads:
                readers.setdefault(name, []).append(number)
        return cls(legalizer, lives, scratch, readers)

    def choose(self, capacity: int) -> list[Segment]:
        """The segments that take the fewest additional cycles of those that make everything fit.

        Args:
            capacity: bytes of narrow memory.

        Raises:
            CapacityError: nothing fits.
        """
        layers = self.legalizer.layers
        full = [nbytes > capacity for nbytes in self.taken()]
        if not any(full):
            return []
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
                found = self.cheapest(first, end, capacity)
                if found is not None:
                    cycles, segment = found
                    options.append((before[0] + cycles, [*before[1], segment]))
            best.append(min(options, key=lambda one: one[0], default=None))
        if best[-1] is None:
            raise self.too_large(full.index(True), capacity)
        return best[-1][1]

    def taken(self) -> list[int]:
        """Bytes that the identity matrix, and then each layer, and all tensors take."""
        return [
            own + sum(live.tensor.nbytes for live in self.lives if live.begin <= step <= live.end)
            for step, own in enumerate(self.scratch)
        ]

    def too_large(self, step: int, capacity: int) -> CapacityError:
        """Says what does not fit."""
        most = max(
            (live.tensor for live in self.lives if live.begin <= step <= live.end),
            key=lambda tensor: tensor.nbytes,
        )
        return CapacityError(
            f"tensor {most.name!r} takes {most.nbytes} bytes of every tile",
            reason=f"of {capacity} bytes of narrow memory, and no layers can run in strips instead",
        )

    def cheapest(self, first: int, end: int, capacity: int) -> tuple[float, Segment] | None:
        """A segment of some layers that fits, and its additional cycles."""
        layers = self.legalizer.layers[first:end]
        readers = (
            reader
            for layer in layers[:-1]
            if not layer.remote
            for reader in self.readers.get(layer.writes, [end])
        )
        if not all(first <= reader < end for reader in readers):
            return None
        for across in _ACROSS:
            if across > 1 and any(isinstance(layer, Keep) for layer in layers):
                break
            segment = self.fewest(Segment(first, end, 2, across), capacity)
            if segment is not None:
                return self.cycles(segment) - sum(
                    self.cycles(Segment(number, number + 1, 1)) for number in range(first, end)
                ), segment
        return None

    def fewest(self, segment: Segment, capacity: int) -> Segment | None:
        """The segment with as few strips as fit."""
        _, height, width, _ = self.legalizer.type(
            self.legalizer.layers[segment.end - 1].writes
        ).shape
        low, high = segment.strips, -(-height // ROWS)
        room = capacity - self.outside(segment)

        def fits(count: int) -> bool:
            return self.peak(replace(segment, strips=count)) <= room

        # A strip in the middle shows early what cannot fit.
        middle = replace(segment, strips=high)
        if (
            high < low
            or segment.across > -(-width // COLUMNS)
            or self.peak_of(middle, high // 2, segment.across // 2) > room
        ):
            return None
        count = low
        while count < high and not fits(count):
            low, count = count + 1, min(2 * count, high)
        high = count
        if low > high or not fits(high):
            return None
        while low < high:
            count = (low + high) // 2
            if fits(count):
                high = count
            else:
                low = count + 1
        return replace(segment, strips=high)

    def outside(self, segment: Segment) -> int:
        """Bytes of what lives during a segment and is none of its intermediate images."""
        inner = set(segment.inner(self.legalizer))
        wider = windows(self.legalizer, segment)
        taken = 0
        for live in self.lives:
            tensor = live.tensor
            if tensor.name in inner or live.begin > segment.end or live.end <= segment.first:
                continue
            region = wider.get(tensor.name)
            if region is not None and isinstance(tensor, Image):
                region = _hulls(region, (tensor.rows.window, tensor.columns.window))
                taken += _nbytes(self.legalizer, tensor.name, region)
            else:
                taken += tensor.nbytes
        return taken

    def needed(self, segment: Segment, strip: int, band: int) -> dict[str, Region]:
        """What tiles need of the images of a segment in a part of a strip."""
        key = segment.first, segment.end, segment.across, band
        if key not in self._columns:
            self._columns[key] = columns(self.legalizer, segment, band)
        across = self._columns[key]
        down = rows(self.legalizer, segment, strip)
        return {name: (down[name], across[name]) for name in down}

    def peak(self, segment: Segment) -> int:
        """Bytes of intermediate images and of what layers use for themselves, at most."""
        return max(self.peak_of(segment, *part) for part in _sample(segment))

    def peak_of(self, segment: Segment, strip: int, band: int) -> int:
        """These bytes in a part of a strip."""
        key = segment, strip, band
        if key not in self._peaks:
            needed = self.needed(segment, strip, band)
            inner = set(segment.inner(self.legalizer))
            sizes = {name: _nbytes(self.legalizer, name, needed[name]) for name in inner}
            numbers = range(segment.first, segment.end)
            born = {self.legalizer.layers[number].writes: number for number in numbers}
            self._peaks[key] = max(
                self.own(number, needed)
                + sum(
                    sizes[name] for name in inner if born[name] <= number <= max(self.readers[name])
                )
                for number in numbers
            )
        return self._peaks[key]

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

    def cycles(self, segment: Segment) -> float:
        """Estimated cycles of the tiles that have most to do."""
        if segment not in self._costs:
            cycles, sample = 0.0, _sample(segment)
            for needed in (self.needed(segment, *part) for part in sample):
                for layer in segment.layers(self.legalizer):
                    groups = -(-self.legalizer.type(layer.writes).shape[3] // WORD)
                    region = _inside(self.legalizer, layer.writes, needed[layer.writes])
                    cycles += _cycles(layer, _extents(region), groups)
            self._costs[segment] = cycles * len(segment.parts) / len(sample)
        return self._costs[segment]


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
    if isinstance(layer, Fetch | Keep | Receive | Send):
        return height * width * groups * _MOVED + 2 * _PHASE_CYCLES
    if isinstance(layer, TransposedConvolution):
        return sum(
            _cycles(
                part, (-(-height // part.rows.phases), -(-width // part.columns.phases)), groups
            )
            for part in layer.parts
        )
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
    results = {name: tensors[name] for name in segment.results(legalizer)}
    last = len(segment.parts) - 1
    for number, needed in enumerate(regions(legalizer, segment)):
        local: dict[str, Placed] = {
            name: _image(legalizer, name, needed[name]) for name in segment.inner(legalizer)
        }
        for layer in segment.layers(legalizer):
            image = local.get(layer.writes)
            if isinstance(layer, Fetch) and isinstance(image, Image):
                fetched = Axis.of(image.columns.extent, COLUMNS, [image.columns.window])
                image.columns = relayed(fetched)
        for name, whole in results.items():
            assert isinstance(whole, Image)
            down, across = (
                replace(axis, owned=owned)
                for axis, owned in zip((whole.rows, whole.columns), needed[name], strict=True)
            )
            local[name] = Image(name, down, across, whole.channels, whole.zero_point)
        places = ChainMap(local, dict(tensors))
        for layer in segment.layers(legalizer):
            result = results.get(layer.writes)
            assert result is None or isinstance(result, Image)
            yield Step(layer, places, result, complete=result is None or number == last)


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
            part.columns = replace(whole.columns, owned=part.columns.owned)
            part.base = whole.base
