"""What a decoder does, found by trying it: the coding of boxes and their anchors.

Exporters write one decoder in many ways. So how it is written does not matter here: it is run on a
few encoded boxes, which give the anchors of each coding, and on random ones, which show whether
it is that coding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import permutations

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import ANCHOR, BOX, CENTRE, SIZE, UNIT, BoxCoding, decoded
from fitzroy.compiler.ops.detections import sigmoid
from fitzroy.compiler.passes.heads.activation import activated_numbers
from fitzroy.compiler.passes.heads.columns import Region, is_layer
from fitzroy.compiler.passes.heads.real_numbers import in_real_numbers
from fitzroy.compiler.reference import evaluate

Floats = npt.NDArray[np.float32]

_SEED = 20
_SIGNS = np.array([-1, -1, 1, -1, 1], np.float32)
"""Signs of the numbers of boxes, so that every number has each in some box."""
_TOLERANCE = 1e-4
"""Largest difference to the model's own decoder, as a part of the largest coordinate."""


@dataclass(frozen=True)
class Probe:
    """The part of a model between encoded and decoded boxes, to be run.

    Attributes:
        graph: the part, in real numbers; its input is the value of the region.
        region: where encoded boxes are, 4 numbers along its axis.
        output: the decoded boxes [1,n,4].
        order: the other axes of the region's value, in the order in which decoded boxes count them.
    """

    graph: Graph
    region: Region
    output: str
    order: tuple[int, ...]

    @classmethod
    def between(cls, graph: Graph, region: Region, output: str) -> Probe | None:
        """The part of a graph; None if it reads other values, too, or no real numbers."""
        if graph.type(region.name).dtype is not DType.FLOAT32 and not (
            graph.type(region.name).is_quantized
        ):
            return None
        nodes, pending, known = [], [output], {region.name}
        while pending:
            name = pending.pop()
            value, node = graph.value(name), graph.producer(name)
            if name in known or value.is_constant:
                continue
            if node is None:
                return None
            known.update(node.outputs)
            nodes.append(node.name)
            pending += [name for name in node.inputs if name is not None]
        if region.name == output:
            return None
        wanted = set(nodes)
        part = graph.part([node for node in graph.nodes() if node.name in wanted])
        part.outputs = [output]
        real = in_real_numbers(part)
        (made,) = real.outputs
        others = tuple(axis for axis in range(real.type(region.name).rank) if axis != region.axis)
        return None if made == region.name else cls(real, region, made, others)._in_order()

    def _in_order(self) -> Probe:
        """The same with axes in the order that rows have afterwards.

        Exporters may move axes behind the decoder: YOLOv5's boxes are counted by cells before, and
        by anchors afterwards. Rows of zeros and of ones, mixed at random, tell where each goes.

        Returns:
            The probe itself if no order is right.
        """
        shape = self.graph.type(self.region.name).shape
        units = tuple(axis for axis in self.order if shape[axis] == 1)
        mixed = np.random.default_rng(_SEED).integers(0, 2, (self.count, 1)).astype(np.float32)
        zero, one = self.constant(0), self.constant(1)
        wanted = np.where(mixed > 0, one, zero)
        rows = np.broadcast_to(mixed, wanted.shape)
        for chosen in permutations(axis for axis in self.order if shape[axis] > 1):
            probe = replace(self, order=(*units, *chosen))
            if np.allclose(probe.run(rows), wanted, equal_nan=True):
                return probe
        return self

    @property
    def count(self) -> int:
        """How many boxes there are."""
        return self.graph.type(self.output).shape[1]

    def run(self, boxes: Floats) -> Floats:
        """What a row [n,c] is decoded to [n,c], for boxes or keypoints."""
        region = self.region
        type = self.graph.type(region.name)
        rows = boxes.reshape(*(type.shape[axis] for axis in self.order), region.size)
        whole = np.zeros(type.shape, np.float32)
        index: list[slice] = [slice(None)] * type.rank
        index[region.axis] = slice(region.begin, region.end)
        whole[tuple(index)] = rows.transpose(np.argsort((*self.order, region.axis)))
        result: Floats = evaluate(self.graph, {region.name: whole})[self.output][0]
        return result

    def constant(self, *numbers: float) -> Floats:
        """What rows are decoded to where all are the same numbers, repeated."""
        width = self.graph.type(self.output).shape[2]
        row = np.resize(np.array(numbers, np.float32), width)
        return self.run(np.tile(row, (self.count, 1)))

    @cached_property
    def random(self) -> Floats:
        """Encoded rows [n,c] of any size."""
        generator = np.random.default_rng(_SEED)
        shape = self.graph.type(self.output).shape[1:]
        return generator.uniform(0.1, 2.5, shape).astype(np.float32)

    @cached_property
    def answers(self) -> Floats:
        """What the random rows are decoded to."""
        return self.run(self.random)


@dataclass(frozen=True)
class Decoder:
    """How boxes are encoded.

    Attributes:
        coding: the coding.
        anchors: [n,6], in the units of the decoded boxes.
        exponent: factor of logarithms.
        corners: whether the model gives corners, and not centres and extents.
        sigmoids: how many of the first numbers go through a sigmoid before.
    """

    coding: BoxCoding
    anchors: Floats
    exponent: float
    corners: bool
    sigmoids: int = 0

    @property
    def kind(self) -> tuple[BoxCoding, float, int]:
        """What all levels of a model have in common."""
        return self.coding, self.exponent, self.sigmoids


def probes(
    graph: Graph, output: str, part_of: Callable[[Graph, str], Region | None]
) -> Iterator[Probe]:
    """Ways from encoded rows to decoded ones [1,n,c] that compute something, the shortest first.

    Args:
        graph: the graph.
        output: the decoded rows.
        part_of: which part of another value a slice is.
    """
    for region in encoded_rows(graph, output, part_of):
        probe = Probe.between(graph, region, output)
        if probe is not None and not np.array_equal(probe.answers, probe.random):
            yield probe


def decoder_of(probe: Probe) -> Decoder | None:
    """How boxes are encoded; None if it is in no known way."""
    with np.errstate(all="ignore"):
        for corners in (False, True):
            for fit in _FITS:
                found = fit(_Corners(probe, corners))
                if found is not None and _agrees(probe, found):
                    return found
    return None


def gives_corners(probe: Probe) -> bool:
    """Whether decoded boxes look like corners: the second two numbers are never the smaller."""
    boxes = probe.answers
    return bool((boxes[:, 2:] >= boxes[:, :2]).all())


def _agrees(probe: Probe, found: Decoder) -> bool:
    """Whether random boxes are decoded as the model does it.

    Numbers below zero tell a coding from one that cuts them off first, as that of FCOS does.
    """
    if not np.isfinite(found.anchors).all():
        return False
    signed = probe.random * _SIGNS[np.indices(probe.random.shape).sum(axis=0) % len(_SIGNS)]
    cases = ((probe.random, probe.answers), (signed, probe.run(signed)))
    return all(_is_decoded(rows, answers, found) for rows, answers in cases)


def _is_decoded(rows: Floats, answers: Floats, found: Decoder) -> bool:
    """Whether a coding makes of encoded boxes [n,4] what the model does."""
    numbers = activated_numbers(rows, found.sigmoids)
    mine = decoded(numbers, found.anchors, found.coding, found.exponent)
    theirs = _as_corners(answers, found.corners)
    scale = max(float(np.abs(theirs).max()), 1e-6)
    return bool(np.isfinite(mine).all() and np.abs(mine - theirs).max() <= _TOLERANCE * scale)


def _as_corners(boxes: Floats, corners: bool) -> Floats:
    return decoded(boxes, None, BoxCoding.CORNERS if corners else BoxCoding.CENTRES, 1.0)


@dataclass(frozen=True)
class _Corners:
    """Decoded boxes by corners, centres and sizes, if the model gives corners, or centres."""

    probe: Probe
    corners: bool

    def of(self, *numbers: float) -> Floats:
        """Corners [n,4] where all boxes are encoded by the same numbers."""
        return _as_corners(self.probe.constant(*numbers), self.corners)

    @cached_property
    def zero(self) -> Floats:
        return self.of(0, 0, 0, 0)

    @cached_property
    def one(self) -> Floats:
        return self.of(1, 1, 1, 1)

    @cached_property
    def moved(self) -> Floats:
        return self.of(1, 1, 0, 0)


def _anchors(centre: Floats, unit: Floats, size: Floats) -> Floats:
    found = np.zeros((len(centre), ANCHOR), np.float32)
    found[:, CENTRE], found[:, UNIT], found[:, SIZE] = centre, unit, size
    return found


def _distances(boxes: _Corners) -> Decoder | None:
    zero, one = boxes.zero, boxes.one
    centre, unit = zero[:, :2], one[:, 2:] - zero[:, 2:]
    found = _anchors(centre, unit, np.zeros_like(unit))
    return Decoder(BoxCoding.DISTANCES, found, 1.0, boxes.corners)


def _centre(corners: Floats) -> Floats:
    return (corners[:, :2] + corners[:, 2:]) / np.float32(2)


def _size(corners: Floats) -> Floats:
    return corners[:, 2:] - corners[:, :2]


def _around_anchors(boxes: _Corners) -> tuple[Floats, Floats]:
    """Centres of anchors, and units."""
    centre = _centre(boxes.zero)
    return centre, _centre(boxes.moved) - centre


def _exponential(boxes: _Corners) -> Decoder | None:
    return _of_logarithms(boxes, *_around_anchors(boxes), 0)


def _sigmoid_exponential(boxes: _Corners) -> Decoder | None:
    """Centres are sigmoids, and extents are exponentials: YOLOv3 and YOLOv4."""
    begin, end = (float(x) for x in sigmoid(np.array([0, 1], np.float32)))
    centre, step = _around_anchors(boxes)
    unit = step / np.float32(end - begin)
    return _of_logarithms(boxes, centre - np.float32(begin) * unit, unit, CENTRE.stop)


def _of_logarithms(boxes: _Corners, centre: Floats, unit: Floats, sigmoids: int) -> Decoder | None:
    size = _size(boxes.zero)
    exponent = np.log(_size(boxes.one) / size)
    middle = float(np.median(exponent))
    if not np.isfinite(middle) or np.abs(exponent - middle).max() > 1e-2 * abs(middle):
        return None
    # Factors are written as short decimal numbers.
    anchors = _anchors(centre, unit, size)
    return Decoder(BoxCoding.EXPONENTIAL, anchors, round(middle, 4), boxes.corners, sigmoids)


def _squares(boxes: _Corners) -> Decoder | None:
    found = _anchors(*_around_anchors(boxes), _size(boxes.one))
    return Decoder(BoxCoding.SQUARES, found, 1.0, boxes.corners)


def _centre_sizes(boxes: _Corners) -> Decoder | None:
    found = _anchors(*_around_anchors(boxes), _size(boxes.one))
    return Decoder(BoxCoding.CENTRE_SIZES, found, 1.0, boxes.corners)


_FITS: tuple[Callable[[_Corners], Decoder | None], ...] = (
    _distances,
    _exponential,
    _sigmoid_exponential,
    _squares,
    _centre_sizes,
)


# --- where encoded boxes are ---------------------------------------------------------------------


def encoded_rows(
    graph: Graph, output: str, part_of: Callable[[Graph, str], Region | None]
) -> Iterator[Region]:
    """Values on the way to decoded rows [1,n,c] that alone determine them, the last one first.

    Only those of as many elements are given.

    Args:
        graph: the graph.
        output: the decoded rows.
        part_of: which part of another value a slice is.
    """
    order = {name: i for i, node in enumerate(graph.nodes()) for name in node.outputs}
    size, width = graph.type(output).size, graph.type(output).shape[2]
    front = {_whole(graph, output, (BOX, width))}
    while front:
        latest = max(front, key=lambda region: order.get(region.name, -1))
        node = graph.producer(latest.name)
        if node is None or is_layer(graph, node):
            return
        front.remove(latest)
        part = part_of(graph, latest.name)
        if part is not None:
            _add(front, part)
        else:
            for name in node.inputs:
                if name is not None and not graph.value(name).is_constant:
                    _add(front, _whole(graph, name, (BOX, width)))
        if len(front) == 1:
            (only,) = front
            shape = graph.type(only.name).shape
            if only.size * _others(shape, only.axis) == size:
                yield only


def _others(shape: tuple[int, ...], axis: int) -> int:
    return int(np.prod([extent for other, extent in enumerate(shape) if other != axis]))


def _whole(graph: Graph, name: str, extents: tuple[int, ...]) -> Region:
    """All of a value, along the axis on which the numbers of a box, or of its keypoints, are.

    Args:
        graph: the graph.
        name: the value.
        extents: extents that this axis may have, the likeliest first.
    """
    shape = graph.type(name).shape
    axes = (
        axis for wanted in extents for axis in reversed(range(len(shape))) if shape[axis] == wanted
    )
    axis = next(axes, max(len(shape) - 1, 0))
    return Region(name, axis, 0, shape[axis] if shape else 1)


def _add(front: set[Region], region: Region) -> None:
    """Add a part, joined with those of the same value beside it."""
    for other in [item for item in front if (item.name, item.axis) == (region.name, region.axis)]:
        if other.begin <= region.end and region.begin <= other.end:
            front.remove(other)
            begin = min(other.begin, region.begin)
            end = max(other.end, region.end)
            region = Region(region.name, region.axis, begin, end - begin)
    front.add(region)
