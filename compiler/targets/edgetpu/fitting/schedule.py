"""What runs when, and where do tensors lie while it does?

A `Schedule` holds the steps in their order and the layouts of the tensors that each step sees. It
is a value: a stage that decides more about it makes another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from fitzroy.compiler.targets.edgetpu.fitting import strips
from fitzroy.compiler.targets.edgetpu.host.flow import awaiting
from fitzroy.compiler.targets.edgetpu.layers import halo
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer, Places, Step
from fitzroy.compiler.targets.edgetpu.layers.layered import Layered
from fitzroy.compiler.targets.edgetpu.layers.refusal import refusing
from fitzroy.compiler.targets.edgetpu.memory.allocation import Live, Overlap
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import (
    COLUMNS,
    ROWS,
    WORD,
    Changes,
    Division,
    Image,
    Interval,
    Placed,
    Remote,
    TiledAxis,
    Vector,
    Within,
    alike,
    hull,
    needs_of,
    split,
)
from fitzroy.compiler.targets.edgetpu.parameters.requantization import unsigned_zero_point

_IDENTITY_BYTES = 4 * WORD
"""Narrow memory that the identity matrix takes on its way to wide memory."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Layers in the order in which they run, and the layouts of their tensors.

    Attributes:
        layered: the layers.
        tensors: all tensors by name, without intermediate images of segments.
        steps: the steps.
        sharings: segments that may write their results over what they read.
    """

    layered: Layered
    tensors: Mapping[str, Placed]
    steps: tuple[Step, ...]
    sharings: tuple[strips.Sharing, ...] = ()

    @classmethod
    def of(cls, layered: Layered, segments: Sequence[strips.Segment] = ()) -> Schedule:
        """The layers in their order, those of segments strip by strip; tensors without address."""
        tensors = _layouts(layered, segments)
        return cls(
            layered,
            tensors,
            tuple(strips.steps(layered, segments, tensors)),
            tuple(strips.sharings(layered, segments, tensors)),
        )

    def changed(self, changes: Changes) -> Schedule:
        """The schedule of what some tensors become."""
        if not changes:
            return self
        known: dict[int, Mapping[str, Placed]] = {}
        return replace(
            self,
            tensors=_changed(self.tensors, changes, known),
            steps=tuple(_changed_step(step, changes, known) for step in self.steps),
            sharings=tuple(sharing.changed(changes) for sharing in self.sharings),
        )

    def with_layers(self, changes: Mapping[Layer, Layer]) -> Schedule:
        """The schedule of what some layers become."""
        return replace(
            self,
            layered=self.layered.with_layers(changes),
            steps=tuple(
                replace(step, layer=changes.get(step.layer, step.layer)) for step in self.steps
            ),
        )

    def with_order(self, steps: Sequence[Step]) -> Schedule:
        """The schedule with its steps in another order."""
        return replace(self, steps=tuple(steps))

    @cached_property
    def scratch(self) -> tuple[int, ...]:
        """Narrow memory that the identity matrix, and then each step, use for themselves.

        Raises:
            Refused: a layer cannot work with its tensors.
        """
        found = [_IDENTITY_BYTES]
        before: Step | None = None
        for step in self.steps:
            with refusing(step.layer.origin):
                nbytes = step.layer.scratch_bytes(step.tensors)
            if before is not None and awaiting(before, step, self.layered.options):
                # Both may run in the same phase.
                nbytes = max(nbytes, found[-1])
            found.append(nbytes)
            before = step
        return tuple(found)

    @cached_property
    def lives(self) -> tuple[Live, ...]:
        """When tensors are in narrow memory; step 0 is that of the identity matrix.

        Strips of segments that may write over what they read may run in either order, so that what
        lives longer than a strip lives for all of them.
        """
        born, last = dict[Placed, int](), dict[Placed, int]()
        for number, step in enumerate(self.steps, 1):
            result = step.whole or step.result
            born.setdefault(result, number)
            last[result] = number
            for name in step.layer.reads:
                last[step.tensors[name]] = number
        overlaps = dict[Placed, Overlap]()
        for sharing in self.sharings:
            for step in self.steps[sharing.begin - 1 : sharing.end]:
                if step.whole is not None:
                    born[step.whole] = min(born[step.whole], sharing.begin)
                for name in step.layer.reads:
                    tensor = step.tensors[name]
                    if born[tensor] < sharing.begin:
                        last[tensor] = max(last[tensor], sharing.end)
            overlaps[sharing.result] = Overlap(sharing.source, sharing.below, sharing.above)
        return tuple(
            Live(tensor, begin, last[tensor], overlaps.get(tensor))
            for tensor, begin in born.items()
        )

    def free(self) -> list[int]:
        """For each step, bytes at the top of narrow memory that no tensor takes."""
        used = np.zeros(len(self.steps) + 1, np.int64)
        for live in self.lives:
            taken = used[max(live.begin, 0) : live.end + 1]
            np.maximum(taken, live.tensor.base + live.tensor.nbytes, out=taken)
        return [self.layered.options.narrow_bytes - int(top) for top in used[1:]]


def _changed(
    tensors: Mapping[str, Placed], changes: Changes, known: dict[int, Mapping[str, Placed]]
) -> Mapping[str, Placed]:
    """What the tensors of a mapping become; `known` has the mappings of earlier calls, by id."""
    key = id(tensors)
    if key not in known:
        if isinstance(tensors, Places):
            local, shared = (
                _changed(part, changes, known) for part in (tensors.local, tensors.shared)
            )
            known[key] = Places(local, shared)
        else:
            known[key] = {name: changes.get(one, one) for name, one in tensors.items()}
    return known[key]


def _changed_step(step: Step, changes: Changes, known: dict[int, Mapping[str, Placed]]) -> Step:
    whole = step.whole if step.whole is None else changes.get(step.whole, step.whole)
    assert whole is None or isinstance(whole, Image)
    return replace(step, tensors=_changed(step.tensors, changes, known), whole=whole)


def _doubled(
    layered: Layered, readers: Mapping[str, Sequence[tuple[Layer, int]]], stripped: Set[Layer]
) -> set[str]:
    """Names of images whose rectangles have the same size on all tiles, and may overlap.

    All tiles then execute the same instructions, so programs are shorter. Elements in an overlap
    are computed twice. That takes no longer, because the largest rectangle takes as long as before.
    Images that the host sends or receives do not overlap: each element is transferred once.

    Args:
        layered: the layers.
        readers: who reads a tensor, and as which operand.
        stripped: layers that run strip by strip.
    """
    makers = {
        layer
        for layer in layered.layers
        if layer.strips
        and not (layer.makes_vector or layer.remote)
        and not (layer.received or layer.returned)
    }
    return {
        layer.writes
        for layer in makers - stripped
        if layer.writes in readers
        and all(_takes_doubled(one) and one not in stripped for one, _ in readers[layer.writes])
    }


def _takes_doubled(layer: Layer) -> bool:
    """Whether a layer may read images with overlapping rectangles."""
    return layer.doubled or (layer.strips and not (layer.makes_vector or layer.returned))


def _layouts(layered: Layered, segments: Sequence[strips.Segment]) -> dict[str, Placed]:
    """Every tensor with its windows, without address; without intermediate images of segments."""
    readers: dict[str, list[tuple[Layer, int]]] = {}
    for layer in layered.layers:
        for index, name in enumerate(layer.reads):
            readers.setdefault(name, []).append((layer, index))
    inner = {name for segment in segments for name in segment.inner(layered)}
    stripped = {layer for segment in segments for layer in segment.layers(layered)}
    regions = [strips.windows(layered, segment) for segment in segments]
    arriving = {
        layered.layers[segment.first].writes: region[layered.layers[segment.first].writes]
        for segment, region in zip(segments, regions, strict=True)
        if segment.arriving
    }
    doubled, recipes = _doubled(layered, readers, stripped), layered.options.recipes
    found: dict[str, Placed] = {}
    for layer in layered.layers:
        name = layer.writes
        if name in inner:
            continue
        if name in arriving:
            found[name] = strips.part_of_image(layered, name, arriving[name])
        elif layer.makes_vector:
            type = layered.type(name)
            filled = recipes.together and layer.fills_blocks
            found[name] = Vector(name, type.size, unsigned_zero_point(type), filled=filled)
        else:
            read = [region[name] for region in regions if name in region]
            read += [
                _region(layered, reader, index, alike if reader.writes in doubled else split)
                for reader, index in readers.get(name, [])
                if not (reader.makes_vector or reader.gathers or reader in stripped)
            ]
            division: Division = alike if name in doubled else split
            divisions = [division, division]
            windows = recipes.partial_inputs and layer.received
            if windows and all(_by_windows(one) for one, _ in readers.get(name, [])):
                divisions = _asked(layered.type(name).shape, read)
            found[name] = _image(layered, layer, read, divisions)
    return found


def _by_windows(layer: Layer) -> bool:
    """Whether a layer reads only what its windows say of images."""
    return layer.strips and not (layer.makes_vector or layer.gathers)


def _asked(shape: Sequence[int], read: Sequence[strips.Region]) -> list[Division]:
    """How tiles divide what the host is asked for of an input, along rows and columns.

    That is from the first to the last element that any layer reads, or one element if none reads
    any. If the window of a tile, with what lies between it and the tile's own part, goes further,
    tiles divide the whole input: that tile would wait for elements that no other has.

    Args:
        shape: its shape.
        read: what tiles need of it, by reader.
    """
    found: list[Division] = []
    for axis, (extent, parts) in enumerate(zip(shape[1:3], (ROWS, COLUMNS), strict=True)):
        needs = [region[axis] for region in read]
        begin, end = hull(_clipped(chain.from_iterable(needs), extent))
        division = Within((begin, max(end, begin + 1)))
        tiled = TiledAxis.of(extent, parts, needs, division)
        spans = [
            (min(owned[0], window[0]), max(owned[1], window[1]))
            for owned, window in zip(tiled.owned, tiled.window, strict=True)
            if window[0] < window[1]
        ]
        known = hull(_clipped(spans, extent)) == division.interval
        found.append(division if known else split)
    return found


def _clipped(intervals: Iterable[Interval], extent: int) -> list[Interval]:
    """Intervals without what is outside of an axis."""
    return [(max(begin, 0), min(end, extent)) for begin, end in intervals]


def _region(layered: Layered, reader: Layer, index: int, division: Division) -> strips.Region:
    """What tiles need of an image for their parts of the result of a layer.

    Args:
        layered: the layers.
        reader: the layer that reads the image.
        index: as which operand.
        division: how tiles divide its result.
    """
    shape, (rows, columns) = layered.type(reader.writes).shape, reader.windows(index)
    return needs_of(rows, division(shape[1], ROWS)), needs_of(columns, division(shape[2], COLUMNS))


def _image(
    layered: Layered,
    layer: Layer,
    read: Sequence[strips.Region],
    divisions: Sequence[Division],
) -> Image:
    """The image that a layer makes, with windows for what is read of it.

    Args:
        layered: the layers.
        layer: the layer.
        read: what tiles need of it, by reader.
        divisions: how tiles divide its rows, and its columns.
    """
    type = layered.type(layer.writes)
    _, height, width, channels = type.shape if len(type.shape) == 4 else (1, 1, 1, type.size)
    return (Remote if layer.remote else Image)(
        layer.writes,
        halo.relayed(TiledAxis.of(height, ROWS, [rows for rows, _ in read], divisions[0])),
        halo.relayed(TiledAxis.of(width, COLUMNS, [columns for _, columns in read], divisions[1])),
        channels,
        unsigned_zero_point(type),
        compared=layer.writes in layered.compared,
    )
