"""How do layers run strip by strip, where images are too large for narrow memory?

A segment is a chain of layers whose intermediate images no other layer reads. Every tile cuts the
rows that it owns of the segment's result into strips, and runs all layers of the segment for one
strip after the other. Of each intermediate image it keeps only what a strip needs, halo included.
It computes the halo itself, even if its neighbours compute it too: the parts of the image overlap.
Only what the segment reads is exchanged, with windows for all strips. Weights are sent to the
tiles once per strip. A segment may begin with an input, which the host then sends strip by strip,
and end with an output, which goes to the host strip by strip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from fitzroy.compiler.targets.edgetpu.layers.halo import relayed
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Places, Step
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    ROWS,
    Changes,
    Image,
    Interval,
    Intervals,
    Placed,
    TiledAxis,
    hull,
    needs_of,
    split,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import unsigned_zero_point

Region = tuple[Intervals, Intervals]
"""Rows and columns of an image on every tile; they may overlap, and lie in its padding."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Layers that run strip by strip.

    Attributes:
        first: number of the first layer.
        end: number past the last one.
        strips: how many strips of rows.
        across: how many parts of their columns, if these are many.
        over: an image that it reads, and that its result may lie over; empty if none.
        arriving: whether the first layer takes an input that stays in narrow memory. Each strip
            then gets the rows that no strip before it needed.
    """

    first: int
    end: int
    strips: int
    across: int = 1
    over: str = ""
    arriving: bool = False

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Numbers of the strips, and of the parts of their columns, in order."""
        return [(strip, band) for strip in range(self.strips) for band in range(self.across)]

    def layers(self, layered: Layered) -> Sequence[Layer]:
        """The layers of the segment, in order."""
        return layered.layers[self.first : self.end]

    def inner(self, layered: Layered) -> list[str]:
        """Names of the intermediate images."""
        own = self.layers(layered)[int(self.arriving) : -1]
        return [layer.writes for layer in own if not layer.remote]

    def results(self, layered: Layered) -> list[str]:
        """Names of its result, and of what goes to the host before."""
        return [
            layer.writes
            for layer in self.layers(layered)
            if layer.remote or layer is layered.layers[self.end - 1]
        ]


# --- geometry ------------------------------------------------------------------------------------


def regions(layered: Layered, segment: Segment) -> Iterator[dict[str, Region]]:
    """For each strip, what tiles need of the images of a segment.

    Of its results that is what they compute in this strip.
    """
    across = [columns(layered, segment, band) for band in range(segment.across)]
    for strip, band in segment.parts:
        down = rows(layered, segment, strip)
        yield {name: (down[name], across[band][name]) for name in down}


def rows(layered: Layered, segment: Segment, strip: int) -> dict[str, Intervals]:
    """Rows of the images of a segment that tiles need in a strip."""
    return Needs(layered, segment.end, 0, strip, segment.strips).images(segment.first)


def columns(layered: Layered, segment: Segment, band: int) -> dict[str, Intervals]:
    """Columns of the images of a segment that tiles need in any strip."""
    return Needs(layered, segment.end, 1, band, segment.across).images(segment.first)


@dataclass(slots=True)
class Needs:
    """What tiles need of images along an axis in a strip, or in a part of its columns.

    Layers are asked from the last one of a segment on, so that segments with the same end share
    what they need.

    Attributes:
        layered: the layers.
        end: number past the last one.
        axis: 0 for rows, 1 for columns.
        number: number of the part.
        count: how many parts.
    """

    layered: Layered
    end: int
    axis: int
    number: int
    count: int
    _made: list[Intervals] = field(default_factory=list)
    _inside: list[Intervals] = field(default_factory=list)
    _read: list[dict[str, Intervals]] = field(default_factory=list)
    _last: dict[str, Intervals] = field(default_factory=dict)

    def made(self, number: int) -> Intervals:
        """The intervals that a layer computes, padding included."""
        self._ask(number)
        return self._made[self.end - 1 - number]

    def inside(self, number: int) -> Intervals:
        """What a layer computes that is no padding."""
        self._ask(number)
        return self._inside[self.end - 1 - number]

    def read(self, first: int, name: str) -> Intervals:
        """What layers from the first one on read of an image."""
        self._ask(first)
        for reads in self._read[self.end - 1 - first :: -1]:
            if name in reads:
                return reads[name]
        return _NOTHING

    def images(self, first: int) -> dict[str, Intervals]:
        """What is needed of all images of the segment that begins with a layer."""
        self._ask(first)
        count = self.end - first
        found = {name: one for reads in self._read[:count] for name, one in reads.items()}
        for number in range(first, self.end):
            found[self.layered.layers[number].writes] = self.made(number)
        return found

    def _ask(self, first: int) -> None:
        while self.end - len(self._made) > first:
            self._ask_next()

    def _ask_next(self) -> None:
        number = self.end - 1 - len(self._made)
        layer = self.layered.layers[number]
        extent = self.layered.type(layer.writes).shape[1 + self.axis]
        made = self._owned(number, extent)
        if layer.writes in self._last:
            made = hulls(made, self._last[layer.writes])
        inside = _clipped(made, extent)
        for index, name in enumerate(layer.reads):
            own = needs_of(layer.windows(index)[self.axis], inside)
            before = self._last.get(name)
            self._last[name] = own if before is None else hulls(before, own)
        self._made.append(made)
        self._inside.append(inside)
        self._read.append({name: self._last[name] for name in layer.reads})

    def _owned(self, number: int, extent: int) -> Intervals:
        """What tiles have to compute of a layer's result, whoever reads it."""
        layer = self.layered.layers[number]
        if layer.remote or number == self.end - 1:
            return _part(extent, self.axis, self.number, self.count)
        # Whole rows come back.
        return _part(extent, 1, 0, 1) if self.axis and layer.returned else _NOTHING


_NOTHING: Intervals = ((0, 0),) * max(ROWS, COLUMNS)


@lru_cache(1 << 16)
def hulls(one: Intervals, other: Intervals) -> Intervals:
    """The hull of every two intervals."""
    return tuple(map(hull, zip(one, other, strict=True)))


@lru_cache(1 << 16)
def _part(extent: int, axis: int, number: int, count: int) -> Intervals:
    """One of the parts into which tiles split what they own of an axis."""
    return tuple(
        (
            begin + -(-(end - begin) * number // count),
            begin + -(-(end - begin) * (number + 1) // count),
        )
        for begin, end in split(extent, COLUMNS if axis else ROWS)
    )


@lru_cache(1 << 16)
def _clipped(intervals: Intervals, extent: int) -> Intervals:
    """What of intervals is not padding."""
    inside = [(max(begin, 0), min(end, extent)) for begin, end in intervals]
    return tuple((begin, end) if begin < end else (0, 0) for begin, end in inside)


def windows(layered: Layered, segment: Segment) -> dict[str, Region]:
    """What all strips need of the images that a segment reads."""
    inner = segment.inner(layered)
    # Together strips need what a single one would.
    (needed,) = regions(layered, replace(segment, strips=1, across=1))
    return {
        name: needed[name]
        for layer in segment.layers(layered)
        for name in layer.reads
        if name not in inner
    }


# --- results that lie over what is read ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """Rows of two images in a strip, by row of the grid.

    Attributes:
        written: rows of the result that the strip writes.
        kept: rows of the source that are still read while it does.
        read: rows of the source that the strip reads.
    """

    written: Intervals
    kept: Intervals
    read: Intervals


def turns(segment: Segment, strips: Iterable[Needs]) -> list[Turn]:
    """What strips write of a segment's result, and read of the image that it may lie over.

    Args:
        segment: the segment.
        strips: rows that tiles need in each of its strips.
    """
    last, found = segment.end - 1, list[Turn]()
    for needs in strips:
        read = needs.read(segment.first, segment.over)
        # Further parts of the columns come later.
        kept = read if segment.across > 1 else needs.read(last, segment.over)
        found.append(Turn(needs.inside(last), kept, read))
    return found


@dataclass(frozen=True, slots=True)
class Sharing:
    """A segment that may write its result over the image that it reads.

    From the first strip on, results lie in front of what is still read; from the last strip on,
    after it. Bounds follow from where the images lie, windows and slack included.

    Attributes:
        source: what it reads.
        result: what it writes.
        turns: rows of both, strip by strip.
        begin: its first step.
        end: its last step.
    """

    source: Image
    result: Image
    turns: Sequence[Turn]
    begin: int = 0
    end: int = 0

    @property
    def below(self) -> int:
        """How far after the source the result may begin at most, if the first strip is first."""
        return min(self._distances(self.turns, 1, 0), default=self.source.nbytes)

    @property
    def above(self) -> int:
        """How far after the source the result must begin at least, if the last strip is first."""
        return max(self._distances(self.turns[::-1], 0, 1), default=-self.result.nbytes)

    @property
    def nbytes(self) -> int:
        """Bytes of both images where they lie closest to each other."""
        one, other = self.source.nbytes, self.result.nbytes
        places = (
            min(self.below, max(0, one - other)),
            max(self.above, min(0, one - other)),
        )
        return min(max(one, place + other) - min(0, place) for place in places)

    def changed(self, changes: Changes) -> Sharing:
        """The same of what images become."""
        source = changes.get(self.source, self.source)
        result = changes.get(self.result, self.result)
        assert isinstance(source, Image)
        assert isinstance(result, Image)
        return replace(self, source=source, result=result)

    @property
    def reversed(self) -> bool:
        """Whether the last strip has to be first, as the images lie."""
        behind = self.result.base - self.source.base
        return self.below < behind < self.source.nbytes and behind >= self.above

    def _distances(self, turns: Sequence[Turn], written: int, kept: int) -> Iterator[int]:
        """Bytes from rows that are written to rows that are kept, each from its image's first one.

        Args:
            turns: the strips in the order in which they run.
            written: whether from the first row that is written, 0, or from after the last one, 1.
            kept: whether to the first row that is kept, 0, or to after the last one, 1.
        """
        source, result = self.source, self.result
        read, made = source.rows.window, result.rows.window
        pitches = source.pitch, result.pitch
        for part, rows, others in _conflicts(turns):
            there = (others[kept] - read[part][0]) * pitches[0]
            yield there - (rows[written] - made[part][0]) * pitches[1]


def _conflicts(turns: Sequence[Turn]) -> Iterator[tuple[int, Interval, Interval]]:
    """Rows of the grid with what a strip writes there, and what is still read then or later."""
    later = _NOTHING
    for turn in reversed(turns):
        kept = hulls(later, turn.kept)
        for part, (written, rows) in enumerate(zip(turn.written, kept, strict=False)):
            if written[0] < written[1] and rows[0] < rows[1]:
                yield part, written, rows
        later = hulls(later, turn.read)


def sharings(
    layered: Layered, segments: Sequence[Segment], tensors: Mapping[str, Placed]
) -> list[Sharing]:
    """The segments that may write their results over what they read.

    Args:
        layered: the layers.
        segments: the segments, in order.
        tensors: places of tensors, without those of intermediate images.
    """
    found, position, before = list[Sharing](), 1, 0
    for segment in segments:
        begin = position + segment.first - before
        position = begin + len(segment.parts) * (segment.end - segment.first)
        before = segment.end
        if segment.over:
            source, result = (
                tensors[name] for name in (segment.over, layered.layers[segment.end - 1].writes)
            )
            assert isinstance(source, Image)
            assert isinstance(result, Image)
            needs = (
                Needs(layered, segment.end, 0, strip, segment.strips)
                for strip in range(segment.strips)
            )
            found.append(Sharing(source, result, turns(segment, needs), begin, position - 1))
    return found


# --- steps ---------------------------------------------------------------------------------------


def steps(
    layered: Layered, segments: Sequence[Segment], tensors: Mapping[str, Placed]
) -> list[Step]:
    """All layers in the order in which they run, those of segments once for every strip.

    Args:
        layered: the layers.
        segments: the segments.
        tensors: places of tensors, without those of intermediate images.
    """
    found: list[Step] = []
    starts = {segment.first: segment for segment in segments}
    number = 0
    while number < len(layered.layers):
        segment = starts.get(number)
        if segment is None:
            found.append(Step(layered.layers[number], tensors))
            number += 1
            continue
        found += _strips(layered, segment, tensors)
        number = segment.end
    return found


def _strips(layered: Layered, segment: Segment, tensors: Mapping[str, Placed]) -> Iterator[Step]:
    results = {name: tensors[name] for name in segment.results(layered)}
    layers, last = segment.layers(layered), len(segment.parts) - 1
    returned = {layer.writes for layer in layers if layer.returned}
    if segment.arriving:
        input, *layers = layers
        arrived = _arrivals(layered, segment, tensors)
    for number, needed in enumerate(regions(layered, segment)):
        local: dict[str, Placed] = {}
        for name in segment.inner(layered):
            image = part_of_image(layered, name, needed[name])
            local[name] = _relayed(image) if name in returned else image
        for name, whole in results.items():
            assert isinstance(whole, Image)
            down, across = (
                replace(axis, owned=owned)
                for axis, owned in zip((whole.rows, whole.columns), needed[name], strict=True)
            )
            local[name] = Image(
                name, down, across, whole.channels, whole.zero_point, compared=whole.compared
            )
        if segment.arriving:
            part, whole = arrived[number], tensors[input.writes]
            assert isinstance(whole, Image)
            # The first part brings the padding of the whole input.
            yield Step(input, Places({input.writes: part}, tensors), whole, complete=not number)
        places = Places(local, tensors)
        for layer in layers:
            result = results.get(layer.writes)
            assert result is None or isinstance(result, Image)
            yield Step(layer, places, result, complete=result is None or number == last)


def _arrivals(layered: Layered, segment: Segment, tensors: Mapping[str, Placed]) -> list[Image]:
    """What comes of an input for each strip: rows of it that no strip before has read."""
    whole = tensors[layered.layers[segment.first].writes]
    assert isinstance(whole, Image)
    found, begins = list[Image](), [begin for begin, _ in whole.rows.owned]
    for strip in range(segment.strips):
        read = Needs(layered, segment.end, 0, strip, segment.strips).read(
            segment.first + 1, whole.name
        )
        ends = [
            min(max(begin, end), last)
            for begin, (_, end), (_, last) in zip(begins, read, whole.rows.owned, strict=True)
        ]
        owned = tuple(zip(begins, ends, strict=True))
        found.append(replace(whole, rows=replace(whole.rows, owned=owned)))
        begins = ends
    return found


def _relayed(image: Image) -> Image:
    """An image that comes back in whole rows, of which tiles hand columns on."""
    fetched = TiledAxis.of(image.columns.extent, COLUMNS, [image.columns.window])
    return replace(image, columns=relayed(fetched))


def part_of_image(layered: Layered, name: str, region: Region) -> Image:
    """An intermediate image of a strip: tiles own all of their windows that is no padding."""
    type = layered.type(name)
    _, height, width, channels = type.shape
    rows, columns = region
    return Image(
        name,
        TiledAxis(height, _clipped(rows, height), rows),
        TiledAxis(width, _clipped(columns, width), columns),
        channels,
        unsigned_zero_point(type),
        compared=name in layered.compared,
    )


def ordered(steps: Sequence[Step], sharings: Iterable[Sharing]) -> list[Step]:
    """The steps with strips in the order that images which lie over others want."""
    found = list(steps)
    for sharing in sharings:
        if sharing.reversed:
            own = found[sharing.begin - 1 : sharing.end]
            layers = list(dict.fromkeys(step.layer for step in own))
            parts = [own[at : at + len(layers)] for at in range(0, len(own), len(layers))]
            found[sharing.begin - 1 : sharing.end] = [
                replace(step, complete=step.whole is None or part is parts[0])
                for part in reversed(parts)
                for step in part
            ]
    return found


def widened(steps: Iterable[Step]) -> dict[Placed, Placed]:
    """Results of segments with the slack that their strips have got."""
    found: dict[Placed, Placed] = {}
    for step in steps:
        if step.whole is not None:
            part, whole = step.result, found.get(step.whole, step.whole)
            assert isinstance(part, Image)
            assert isinstance(whole, Image)
            rows, columns = whole.rows, whole.columns
            found[step.whole] = replace(
                whole,
                rows=replace(rows, slack=max(rows.slack, part.rows.slack)),
                columns=replace(columns, slack=max(columns.slack, part.columns.slack)),
            )
    return found


def bound(steps: Iterable[Step]) -> dict[Placed, Placed]:
    """Strips of results where they lie in their images."""
    found: dict[Placed, Placed] = {}
    for step in steps:
        if step.whole is not None:
            whole, part = step.whole, step.result
            assert isinstance(part, Image)
            found[part] = replace(
                part,
                rows=replace(whole.rows, owned=part.rows.owned),
                columns=replace(whole.columns, owned=part.columns.owned),
                base=whole.base,
            )
    return found
