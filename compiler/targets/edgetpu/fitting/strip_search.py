"""Which layers run in strips, and in how many?

The search takes what costs the fewest cycles and fits. Segments may end after any layer; dynamic
programming finds the cheapest way to cut the layers. Segments that end with the same layer differ
only in where they begin, so the room that a strip takes is found layer by layer, from the last one
on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from fitzroy.base.progress import along
from fitzroy.compiler.targets.edgetpu.fitting import milestones
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.strips import (
    Needs,
    Segment,
    Sharing,
    hulls,
    part_of_image,
    turns,
)
from fitzroy.compiler.targets.edgetpu.host import pace
from fitzroy.compiler.targets.edgetpu.host.host_layers import Fetch, Keep, Send
from fitzroy.compiler.targets.edgetpu.layers.layer import longest
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.memory.allocation import Live, held
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    ROWS,
    WORD,
    Image,
    Intervals,
    Placed,
    Remote,
    round_up,
)

MOST_LAYERS = 16
"""Longer segments recompute more than they save."""

MANY_LAYERS = 64
"""Layers of a segment where shorter ones do not fit: the alternative is an image that waits with
the host."""

_ATTEMPTS = 24
_ATTEMPT = 96
"""When addresses cannot be found, part of narrow memory that strips are to leave free the next
time: one of so many."""

_ACROSS = (1, 2, 4, 8)
"""Parts of the columns of strips; the more, the more is computed several times."""


# --- choice --------------------------------------------------------------------------------------


_TAKING = 0.4
"""Cycles of a byte of an input from the buffer to the tiles."""

_FEWEST = 2
"""Fewest strips of a segment, if its result has so many rows on a tile. A single strip saves less
memory than two: tiles compute the halos of its intermediate images, which then need not hold what
neighbours further away want."""

MOST_STRIPS = 640
"""Most strips of a segment, parts of columns counted: programs grow with them, and so does the
time to make one. A tensor that needs more has hundreds of MB, and stays with the host."""


def capacities(nbytes: int) -> list[int]:
    """Bytes of narrow memory to choose segments for, one after the other until all tensors fit."""
    return [nbytes - nbytes * attempt // _ATTEMPT for attempt in range(_ATTEMPTS)]


_Choice = tuple[float, list[Segment]] | None
"""Additional cycles of some segments; None if nothing fits."""


def _reached(table: Sequence[_Choice]) -> int:
    """How many layers fit at most, from a table of choices."""
    return max(end for end, one in enumerate(table) if one is not None)


def _some(count: int) -> list[int]:
    """Parts that stand for all: the first are the largest, those in the middle have halos."""
    return sorted({0, min(1, count - 1), count // 2, count - 1})


def _sample(segment: Segment) -> list[tuple[int, int]]:
    """Parts of strips that stand for all."""
    return [(strip, band) for strip in _some(segment.strips) for band in _some(segment.across)]


class NoStrips(Refused):
    """Layers do not fit, and cannot run in strips.

    Args:
        operators: as for all refusals.
        what: what cannot be done.
        reason: why, with both numbers.
        layer: number of the first layer that does not fit.
    """

    def __init__(self, operators: Sequence[str], what: str, *, reason: str, layer: int) -> None:
        super().__init__(operators, what, reason=reason)
        self.layer = layer


@dataclass(slots=True)
class _Part:
    """A part of a strip of all segments with the same end.

    Attributes:
        search: what it belongs to.
        down: rows of images.
        across: their columns.
    """

    search: Search
    down: Needs
    across: Needs
    _taken: list[int] = field(default_factory=list)
    _peaks: list[int] = field(default_factory=list)
    _cycles: list[float] = field(default_factory=list)

    def peak(self, first: int) -> int:
        """Bytes of intermediate images and of what layers use for themselves, at most."""
        self._ask(first)
        return self._peaks[self.down.end - 1 - first]

    def cycles(self, first: int) -> float:
        """Estimated cycles of the tiles that have most to do."""
        self._ask(first)
        return self._cycles[self.down.end - 1 - first]

    def _ask(self, first: int) -> None:
        end, layered = self.down.end, self.search.layered
        while end - len(self._peaks) > first:
            number = end - 1 - len(self._peaks)
            layer = layered.layers[number]
            depth = self.search.depths[number]
            across, extent = self.across.inside(number), layered.type(layer.writes).shape[2]
            area = longest(self.down.inside(number)), layer.columns_of(across, extent)
            # A strip in which no tile has anything to do is one too many.
            own = self.search.own(number, self.down, self.across) if all(area) else _NEVER
            self._taken.append(own)
            if number != end - 1 and not layer.remote:
                made = longest(self.down.made(number)) * longest(self.across.made(number)) * depth
                last = max(self.search.readers.get(layer.writes, [number]))
                for reader in range(number, min(last + 1, end)):
                    self._taken[end - 1 - reader] += made
            self._peaks.append(max(self._taken))
            before = self._cycles[-1] if self._cycles else 0.0
            self._cycles.append(before + layer.cycles(area, depth // WORD))


_NEVER = 1 << 40
"""Bytes that are too many for any memory."""


@dataclass(frozen=True, slots=True)
class Search:
    """What segments are chosen by.

    Attributes:
        layered: the layers.
        lives: all tensors as they are without segments; layer k runs in step k + 1.
        scratch: bytes that the identity matrix, and then each layer, use for themselves.
        readers: for each tensor, numbers of the layers that read it.
        depths: bytes of a pixel of every layer's result.
        later: for each number of layers, estimated cycles in which those after them compute.
        most: layers of a segment at most.
    """

    layered: Layered
    lives: tuple[Live, ...]
    scratch: Sequence[int]
    readers: Mapping[str, Sequence[int]]
    depths: Sequence[int]
    later: Sequence[float]
    most: int = MOST_LAYERS
    _parts: dict[tuple[int, int, int, int, int], _Part] = field(default_factory=dict)
    _needs: dict[tuple[int, int, int, int], Needs] = field(default_factory=dict)
    _around: dict[tuple[int, int], _Around] = field(default_factory=dict)
    _shared: dict[Segment, int] = field(default_factory=dict)

    @classmethod
    def of(cls, schedule: Schedule) -> Search:
        """A search in all layers, from a schedule of them without strips."""
        layered = schedule.layered
        readers: dict[str, list[int]] = {}
        for number, layer in enumerate(layered.layers):
            for name in layer.reads:
                readers.setdefault(name, []).append(number)
        depths = [
            round_up((1, *layered.type(layer.writes).shape)[-1], WORD) for layer in layered.layers
        ]
        computing = [0.0 if step.layer.remote else step.cycles for step in schedule.steps]
        later = [*accumulate(reversed(computing), initial=0.0)][::-1]
        return cls(layered, schedule.lives, schedule.scratch, readers, depths, later)

    def limited(self, most: int) -> Search:
        """The search for segments of so many layers at most.

        It shares what is known of strips and of what lives around them.
        """
        return replace(self, most=most)

    def widened(self, tensors: Mapping[str, Placed]) -> Search | None:
        """The search in images with the windows of others; None if these are no wider.

        What a segment reads has windows for all of its strips, while segments before it run, too.

        Args:
            tensors: tensors of a schedule with segments, by name.
        """
        lives = tuple(replace(live, tensor=_as_wide(live.tensor, tensors)) for live in self.lives)
        if lives == self.lives:
            return None
        return replace(self, lives=lives, _around={}, _shared={})

    def choose(self, capacity: int, *, early: bool) -> list[Segment] | Refused:
        """The segments that take the fewest additional cycles of those that make everything fit.

        Args:
            capacity: bytes of narrow memory.
            early: whether layers may compute while their input arrives.

        Returns:
            What does not fit if nothing helps.
        """
        full = [nbytes > capacity for nbytes in self.taken()]
        if not any(full) and not early:
            return []
        table = self.table(capacity, full, early=early)
        last = table[-1]
        if last is None:
            return self.too_large(full, _reached(table), capacity)
        return last[1]

    def reached(self, capacity: int) -> int:
        """How many layers, from the first one on, fit at most."""
        full = [nbytes > capacity for nbytes in self.taken()]
        return _reached(self.table(capacity, full))

    def table(self, capacity: int, full: Sequence[bool], *, early: bool = False) -> list[_Choice]:
        """For every number of layers, the cheapest segments, and their additional cycles.

        Args:
            capacity: bytes of narrow memory.
            full: whether the identity matrix, and then each layer, needs more without strips.
            early: whether layers may compute while their input arrives.
        """
        layers = self.layered.layers
        best: list[_Choice] = [(0.0, [])]
        for end in along(range(1, len(layers) + 1), "memory", *milestones.STRIPS):
            before = best[end - 1]
            options = [] if full[end] or before is None else [before]
            for first in range(end - 1, max(-1, end - self.most - 1), -1):
                if not self.joins(first, end):
                    break
                before = best[first]
                if before is None:
                    continue
                chosen = list(self.arriving(first, end, capacity)) if early else []
                if any(full[first + 1 : end + 1]):
                    found = self.cheapest(first, end, capacity)
                    chosen += [] if found is None else [found]
                options += [(before[0] + cycles, [*before[1], one]) for cycles, one in chosen]
            best.append(min(options, key=lambda one: one[0], default=None))
        return best

    def joins(self, number: int, end: int) -> bool:
        """Whether a layer may belong to a segment.

        Nobody after the segment reads an image within. None goes to the host and comes back, and no
        two are parts of one output.
        """
        layer = self.layered.layers[number]
        if not layer.strips or layer.makes_vector:
            return False
        later = self.layered.layers[number + 1 : end]
        if isinstance(layer, Keep) and any(
            isinstance(other, Fetch) and other.source == layer.writes for other in later
        ):
            # What comes back in a strip may have rows that later strips send.
            return False
        if isinstance(layer, Send) and any(
            isinstance(other, Send) and other.output == layer.output for other in later
        ):
            # The host's buffer has the parts of an output one after the other.
            return False
        inner = number < end - 1 and not layer.remote
        return not inner or max(self.readers.get(layer.writes, [end])) < end

    def taken(self) -> list[int]:
        """Bytes that the identity matrix, and then each layer, and all tensors take."""
        taken: list[int] = (held(self.lives, len(self.scratch)) + self.scratch).tolist()
        return taken

    def too_large(self, full: Sequence[bool], reached: int, capacity: int) -> Refused:
        """Says what does not fit.

        Args:
            full: as for `table`.
            reached: how many layers fit at most. The next one that could not run in strips either
                is refused, or else the next one.
            capacity: bytes of narrow memory.
        """
        layers = self.layered.layers
        whole = (
            step
            for step in range(reached + 1, len(full))
            if full[step] and not layers[step - 1].strips
        )
        step = next(whole, reached + 1)
        most = max(
            (live.tensor for live in self.lives if live.begin <= step <= live.end),
            key=lambda tensor: tensor.nbytes,
        )
        what, own = f"tensor {most.name!r} takes {most.nbytes}", self.scratch[step]
        if own > most.nbytes:
            what = f"{layers[step - 1].name!r} works on {own}"
        return NoStrips(
            [layers[step - 1].origin],
            f"{what} bytes of every tile",
            reason=f"of {capacity} bytes of narrow memory, and no layers can run in strips instead",
            layer=step - 1,
        )

    def missing(self, number: int, capacity: int) -> dict[int, int]:
        """Bytes that a layer lacks, and those that layers lack that cannot run in strips.

        Args:
            number: number of the layer.
            capacity: bytes of narrow memory.

        Returns:
            The bytes by the number of the layer.
        """
        whole = {
            other: nbytes - capacity
            for other, nbytes in enumerate(self.taken()[1:])
            if nbytes > capacity and not self.layered.layers[other].strips
        }
        return whole | {number: self._needed(number) - capacity}

    def _needed(self, number: int) -> int:
        """Bytes with which a layer can run, in as many strips as there can be."""
        layers, least = self.layered.layers, self.taken()[number + 1]
        for end in range(number + 1, min(number + self.most, len(layers)) + 1):
            if not self.joins(end - 1, end):
                # Vectors, for one, have no rows.
                continue
            strips = self._most_strips(end)
            for first in range(end - 1, max(-1, end - self.most - 1), -1):
                if not self.joins(first, end):
                    break
                if first <= number:
                    peak = self.peak(Segment(first, end, strips))
                    least = min(least, self.around(first, end).nbytes + peak)
        return least

    def _most_strips(self, end: int, across: int = 1) -> int:
        """Strips of rows of a segment with some end, at most."""
        height = self.layered.type(self.layered.layers[end - 1].writes).shape[1]
        return min(-(-height // ROWS), MOST_STRIPS // across)

    def cheapest(self, first: int, end: int, capacity: int) -> tuple[float, Segment] | None:
        """A segment of some layers that fits, and its additional cycles."""
        around = self.around(first, end)
        for over in ("", around.over):
            for across in _ACROSS:
                if across > 1 and not all(layer.bands for layer in self.layered.layers[first:end]):
                    break
                segment = self.fewest(Segment(first, end, _FEWEST, across, over), capacity)
                if segment is not None:
                    return self.additional(segment), segment
            if not around.over:
                break
        return None

    def fewest(self, segment: Segment, capacity: int) -> Segment | None:
        """The segment with as few strips as fit, and with those that it has at least.

        If tiles own a single row of the result, that row is the only strip.
        """
        width = self.layered.type(self.layered.layers[segment.end - 1].writes).shape[2]
        high = self._most_strips(segment.end, segment.across)
        low = min(segment.strips, high)
        around = self.around(segment.first, segment.end)
        room = capacity - (around.least if segment.over else around.nbytes)
        if room < 0 or segment.across > -(-width // COLUMNS):
            return None

        def fits(count: int) -> bool:
            some = replace(segment, strips=count)
            return all(
                self.part(segment.end, count, segment.across, *part).peak(segment.first) <= room
                for part in _sample(some)
            ) and (not segment.over or self.peak(some) + self.shared(some) <= capacity)

        # A strip in the middle shows early what cannot fit.
        middle = self.part(segment.end, high, segment.across, high // 2, segment.across // 2)
        if middle.peak(segment.first) > room:
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

    def arriving(self, first: int, end: int, capacity: int) -> Iterator[tuple[float, Segment]]:
        """Segments that compute while their input arrives, and their additional cycles.

        The input stays in narrow memory, so that no row of it comes twice to a tile.
        """
        receive, *others = self.layered.layers[first:end]
        if not others or not receive.received or any(layer.remote for layer in others):
            return
        room = capacity - self.around(first + 1, end).nbytes
        if self.scratch[first + 1] > room:
            return
        most = self.layered.type(others[-1].writes).shape[1] // ROWS
        for count in self.layered.options.search.strips:
            if count <= most and all(
                self.part(end, count, 1, number, 0).peak(first + 1) <= room
                for number in _some(count)
            ):
                segment = Segment(first, end, count, arriving=True)
                yield self.overlapped(segment) - self.one_by_one(segment), segment

    def additional(self, segment: Segment) -> float:
        """Estimated cycles that a segment takes beyond those of its layers one after the other."""
        whole = replace(segment, strips=1, across=1)
        computing = self.cycles(segment) - self.alone(segment.first, segment.end)
        return computing + self.sending(segment) - self.sending(whole) - self.hidden(segment)

    def alone(self, first: int, end: int) -> float:
        """Estimated cycles of layers one after the other, without strips."""
        return sum(self.part(number + 1, 1, 1, 0, 0).cycles(number) for number in range(first, end))

    def hidden(self, segment: Segment) -> float:
        """Estimated cycles of reading outputs that strips hide, and later layers would not.

        While a strip or a layer computes, the host reads what waits on the chip.
        """
        layers = self.layered.layers
        outputs = [number for number in range(segment.first, segment.end) if layers[number].remote]
        reading = pace.READING * sum(self.leaving(number) for number in outputs)
        if not reading:
            return 0.0
        count = len(segment.parts)
        later = min(self.later[segment.end], pace.HELD)
        strips = (count - 1) * min(self.cycles(segment) / count, pace.HELD)
        return min(reading, strips + later) - min(reading, later)

    def leaving(self, number: int) -> int:
        """Bytes that a layer sends to the host."""
        _, height, width, _ = self.layered.type(self.layered.layers[number].writes).shape
        return height * width * self.depths[number]

    def one_by_one(self, segment: Segment) -> float:
        """Estimated cycles of layers that begin when the input has arrived."""
        first = segment.first
        _, height, width, channels = self.layered.type(self.layered.layers[first].writes).shape
        return (
            self.sending(replace(segment, strips=1))
            + pace.ARRIVAL * height * width * channels
            + self.alone(first + 1, segment.end)
        )

    def overlapped(self, segment: Segment) -> float:
        """Estimated cycles of layers of which a strip begins when its rows have arrived.

        Rows arrive, and strips take their time, evenly: either the first strip is waited for, or
        the last.
        """
        first, count = segment.first, segment.strips
        name = self.layered.layers[first].writes
        _, height, width, channels = self.layered.type(name).shape
        begin, end = (
            self.needs(segment.end, 0, count, number).read(first + 1, name)
            for number in (0, count - 1)
        )
        whole = tuple((top, bottom) for (top, _), (_, bottom) in zip(begin, end, strict=True))
        rows = [sum(min(to, height) - max(at, 0) for at, to in some) for some in (begin, whole)]
        one, every = (pace.ARRIVAL * width * channels * number for number in rows)
        strips = [
            self.part(segment.end, count, 1, number, 0).cycles(first + 1)
            for number in (count // 2, count - 1)
        ]
        # While the last row of the grid still waits, the others have taken their rows.
        taken = _TAKING * width * channels * rows[1] / count
        middle, last = strips
        first_waits, last_waits = one + count * (taken + middle), every + taken / ROWS + last
        return max(first_waits, last_waits) + self.sending(segment)

    def sending(self, segment: Segment) -> float:
        """Estimated cycles until the host has sent the instructions of a segment."""
        return pace.INSTRUCTIONS * len(segment.parts) * (segment.end - segment.first)

    def around(self, first: int, end: int) -> _Around:
        """Tensors that live during a segment, without its intermediate images."""
        if (first, end) not in self._around:
            self._around[first, end] = self._surroundings(first, end)
        return self._around[first, end]

    def _surroundings(self, first: int, end: int) -> _Around:
        layers = self.layered.layers[first:end]
        inner = {layer.writes for layer in layers[:-1] if not layer.remote}
        read = {name for layer in layers for name in layer.reads}
        # Together strips need what a single one would.
        down, across = (self.needs(end, axis, 1, 0) for axis in (0, 1))
        tensors: dict[str, Placed] = {}
        dying: list[Image] = []
        for live in self.lives:
            tensor = live.tensor
            if live.begin > end or live.end <= first or tensor.name in inner:
                continue
            if isinstance(tensor, Image) and tensor.name in read:
                tensor = _wider(
                    tensor, down.read(first, tensor.name), across.read(first, tensor.name)
                )
                readers = [self.layered.layers[number] for number in self.readers[tensor.name]]
                alive = live.begin <= first and live.end <= end
                if alive and all(layer.reading for layer in readers):
                    dying.append(tensor)
            tensors[tensor.name] = tensor
        nbytes = sum(tensor.nbytes for tensor in tensors.values())
        result = tensors.get(layers[-1].writes)
        exact = layers[-1].exact and isinstance(result, Image)
        if not (exact and dying) or isinstance(result, Remote):
            return _Around(tensors, nbytes, nbytes)
        source = max(dying, key=lambda image: image.nbytes)
        assert isinstance(result, Image)
        least = nbytes - min(source.nbytes, result.nbytes)
        return _Around(tensors, nbytes, least, source.name)

    def shared(self, segment: Segment) -> int:
        """Bytes of the tensors that live during a segment whose result lies over what it reads."""
        if segment not in self._shared:
            around = self.around(segment.first, segment.end)
            source = around.tensors[segment.over]
            result = around.tensors[self.layered.layers[segment.end - 1].writes]
            assert isinstance(source, Image)
            assert isinstance(result, Image)
            strips = [
                self.needs(segment.end, 0, segment.strips, strip) for strip in range(segment.strips)
            ]
            both = Sharing(source, result, turns(segment, strips)).nbytes
            self._shared[segment] = around.nbytes - source.nbytes - result.nbytes + both
        return self._shared[segment]

    def needs(self, end: int, axis: int, count: int, number: int) -> Needs:
        """What tiles need of images along an axis in a part of segments with some end."""
        key = end, axis, count, number
        if key not in self._needs:
            self._needs[key] = Needs(self.layered, end, axis, number, count)
        return self._needs[key]

    def part(self, end: int, strips: int, across: int, strip: int, band: int) -> _Part:
        """A part of a strip of segments with some end."""
        key = end, strips, across, strip, band
        if key not in self._parts:
            down, columns = self.needs(end, 0, strips, strip), self.needs(end, 1, across, band)
            self._parts[key] = _Part(self, down, columns)
        return self._parts[key]

    def peak(self, segment: Segment) -> int:
        """Bytes of intermediate images and of what layers use for themselves, at most."""
        return max(
            self.part(segment.end, segment.strips, segment.across, *part).peak(segment.first)
            for part in _sample(segment)
        )

    def own(self, number: int, down: Needs, across: Needs) -> int:
        """Bytes that a layer uses for itself in a strip; less than for all rows, if any."""
        if not self.scratch[number + 1]:
            return 0
        layer = self.layered.layers[number]
        places: dict[str, Placed] = {
            name: part_of_image(
                self.layered, name, (down.read(number, name), across.read(number, name))
            )
            for name in layer.reads
        }
        made = down.made(number), across.made(number)
        places[layer.writes] = part_of_image(self.layered, layer.writes, made)
        return layer.scratch_bytes(places)

    def cycles(self, segment: Segment) -> float:
        """Estimated cycles of the tiles that have most to do."""
        sample = _sample(segment)
        cycles = sum(
            self.part(segment.end, segment.strips, segment.across, *part).cycles(segment.first)
            for part in sample
        )
        return cycles * len(segment.parts) / len(sample)


@dataclass(frozen=True, slots=True)
class _Around:
    """What lives during a segment and is none of its intermediate images.

    Attributes:
        tensors: what lives then, with the windows that the segment needs.
        nbytes: bytes of all of them.
        least: bytes if the result lies within the image that it may lie over.
        over: name of that image, if there is one.
    """

    tensors: Mapping[str, Placed]
    nbytes: int
    least: int
    over: str = ""


def _as_wide(tensor: Placed, others: Mapping[str, Placed]) -> Placed:
    """A tensor with the windows and the slack of another one of its name, if that is larger."""
    other = others.get(tensor.name)
    if not (isinstance(tensor, Image) and isinstance(other, Image)):
        return tensor
    wider = _wider(tensor, other.rows.window, other.columns.window)
    wider = replace(
        wider,
        rows=wider.rows.with_most(other.rows.most),
        columns=wider.columns.with_most(other.columns.most),
    )
    return wider if wider.nbytes > tensor.nbytes else tensor


def _wider(image: Image, rows: Intervals, columns: Intervals) -> Image:
    """An image whose windows hold more."""
    down, across = image.rows, image.columns
    return replace(
        image,
        rows=replace(down, window=hulls(down.window, rows)),
        columns=replace(across, window=hulls(across.window, columns)),
    )
