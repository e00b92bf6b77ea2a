"""Objects of any detector: from encoded boxes and scores to a list, with keypoints or masks.

The operator is FitzRoy's own; its runtimes compute it on the host. Which boxes are the same object
is decided as Ultralytics and torchvision do. Where an object is, its best box says, or the mean of
its boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fitzroy.base import budget
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.box_coding import ANCHOR, BOX, CENTRE, UNIT, BoxCoding, decoded
from fitzroy.compiler.ops.custom import PostProcessing
from fitzroy.compiler.ops.definition import Arrays, Call, Expected, define, demand
from fitzroy.compiler.ops.elementwise import reals
from fitzroy.hw_models import numerics
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.hw_models.numerics.suppression import descending, grouped

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]
_Place = Indices | slice
_ALL = slice(None)

ROW = 6
"""Columns of a result: left, top, right, bottom, score, class."""

MOST = 1 << 12
"""Bound on the rows of the results, which no file has to hold."""

DECODING = "decoding/"
"""What names of nodes begin with that decode boxes on the host, in float32."""

_APART = np.float32(7680)
"""Pixels by which classes are moved apart, so that only boxes of one class overlap."""

_CANDIDATES = 30000
"""Most boxes among which the best are looked for."""

_OPERANDS = (
    "boxes", "scores", "anchors", "classes", "objectness", "points", "coefficients", "prototypes",
)  # fmt: skip
BOXES, SCORES, ANCHORS, CLASSES, OBJECTNESS, POINTS, COEFFICIENTS, PROTOTYPES = range(
    len(_OPERANDS)
)


@dataclass(frozen=True)
class DetectionsAttributes(Attributes):
    """Attributes of a list of objects.

    Attributes:
        width: pixels of a row of the model's input.
        height: pixels of a column.
        coding: how boxes are encoded.
        exponent: factor of logarithms of extents, with that coding.
        x_scale: pixels of a unit of x, for boxes without anchors.
        y_scale: pixels of a unit of y likewise.
        logits: whether scores, and objectness, are logits.
        background: how many of the first classes stand for no object.
        score_threshold: objects have a greater score.
        overlap: boxes of a class that overlap a better one by more, as intersection over union, are
            the same object; 1 if the model gives each object once.
        most: rows of the results.
        agnostic: whether boxes of different classes are one object, too.
        class_step: what `classes` count in.
        y_first: whether encoded boxes have y before x.
        point_scale: units of the anchor to a unit of a keypoint.
        point_offset: units from the anchor's centre to a keypoint of zero.
        point_logits: whether keypoints have a third number, which is the logit of their score.
        point_scores: whether keypoints have a third number, which is their score.
        peaks: cells of a row, if boxes are where scores are peaks of images of classes: greater
            than, or equal to, those of the eight cells around. 0 if all boxes count.
        part: how far a part of a number of a box goes, if each is a sum of parts that begin one
            where another ends; 0 if numbers are whole.
        lowest: what the first part begins at.
        root: whether a score is the square root of the product of a class's and objectness.
        average_threshold: boxes of an object that have a greater score are averaged, with their
            keypoints, weighted by their scores; 1 if the best box counts alone. Not less than the
            scores that tell an object: boxes that are hardly any skew its edges.
    """

    width: int
    height: int
    coding: BoxCoding
    exponent: float = 1.0
    x_scale: float = 1.0
    y_scale: float = 1.0
    logits: bool = False
    background: int = 0
    score_threshold: float = 0.25
    overlap: float = 0.45
    most: int = 100
    agnostic: bool = False
    class_step: float = 1.0
    y_first: bool = False
    point_scale: float = 1.0
    point_offset: float = 0.0
    point_logits: bool = False
    point_scores: bool = False
    peaks: int = 0
    part: float = 0.0
    lowest: float = 0.0
    root: bool = False
    average_threshold: float = 1.0

    @property
    def share_threshold(self) -> float:
        """What shares of classes, times those of objectness, are greater than in objects."""
        return self.score_threshold**2 if self.root else self.score_threshold

    @property
    def point(self) -> int:
        """Numbers of a keypoint."""
        return 3 if self.point_logits or self.point_scores else 2


@define
class Detections(PostProcessing):
    """Objects [n,6]: left, top, right, bottom in pixels of the input, score and class.

    Rows are in order of scores, those after the last object zero. Of models that find keypoints,
    the second result is those [n,k,3]: x, y and score. Of models that find masks, the last one is
    those [n,h,w] of ones and zeros, inside of the boxes. Of boxes with several classes, the best
    counts, of equal ones the first. `classes` are the best ones, if `scores` are the best of each
    box only; both may be [1,n] then. Numbers of boxes may be given in parts [1,n,4*p].
    """

    name = "detections"
    operands = (*_OPERANDS[:2], *(f"{name}?" for name in _OPERANDS[2:]))
    attributes = DetectionsAttributes
    custom = "FitzRoyDetections"
    reads_stored = True
    choices: ClassVar[Mapping[str, type[StrEnum]]] = {BoxCoding.__name__: BoxCoding}

    def infer(self, call: Call) -> Sequence[Expected]:
        a = call.attributes(DetectionsAttributes)
        for value in call.inputs:
            if value is not None:
                _demand_real(value.type)
        demand(a.width > 0 and a.height > 0, f"an image of {a.width} x {a.height}")
        demand(0 <= a.most <= MOST, f"{a.most} rows of results, of at most {MOST}")
        demand(a.class_step != 0, "classes in steps of zero")
        demand(0 <= a.overlap <= 1, f"an overlap of {a.overlap}, of 0 to 1")
        demand(
            0 <= a.average_threshold <= 1, f"an average from {a.average_threshold} on, of 0 to 1"
        )
        boxes, scores = call.type(BOXES), call.type(SCORES)
        demand(boxes.rank == 3 and boxes.shape[0] == 1, f"boxes of shape {list(boxes.shape)}")
        numbers = boxes.shape[2]
        whole = numbers == BOX or (a.part > 0 and numbers > 0 and numbers % BOX == 0)
        demand(whole, f"{numbers} numbers of a box")
        count = boxes.shape[1]
        demand(scores.rank in (2, 3) and scores.shape[:2] == (1, count), "other scores than boxes")
        columns = scores.shape[2] if scores.rank > 2 else 1
        demand(0 <= a.background < columns, f"{a.background} classes of the background")
        for index in (CLASSES, OBJECTNESS):
            value = call.optional(index)
            shape = (1, count, 1)[: scores.rank]
            demand(
                value is None or value.type.shape == shape, f"no {list(shape)}: {_OPERANDS[index]}"
            )
        demand(call.optional(CLASSES) is None or columns == 1, "classes of many scores")
        demand(
            a.peaks >= 0 and (not a.peaks or count % a.peaks == 0),
            f"images of {a.peaks} columns for {count} boxes",
        )
        anchors = call.optional(ANCHORS)
        demand((anchors is not None) == a.coding.has_anchors, f"anchors of {a.coding.value}")
        demand(anchors is None or anchors.type.shape == (count, ANCHOR), "other anchors than boxes")
        results = [Expected((a.most, ROW), DType.FLOAT32)]
        return [*results, *_points_of(call, a, count), *_masks_of(call, a, count)]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a = call.attributes(DetectionsAttributes)
        given = _operands(call, arrays)
        results = [np.zeros(out.type.shape, out.type.dtype.numpy) for out in call.outputs]
        found = _found(given, a)
        count = len(found.objects)
        results[0][:count] = found.objects
        points, coefficients, prototypes = given[POINTS], given[COEFFICIENTS], given[PROTOTYPES]
        anchors = given[ANCHORS]
        if points is not None:
            own = None if anchors is None else anchors.real(found.rows)
            each = _points(points.real(found.rows), own, a)
            results[1][:count, :, :2] = _averaged(each[..., :2], found.groups)
            results[1][:count, :, 2] = each[found.groups.firsts, :, 2]
        if coefficients is not None and prototypes is not None:
            best = found.rows[found.groups.firsts]
            results[-1][:count] = _masks(coefficients.steps(best), prototypes, found.objects, a)
        return results


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand. Few boxes are objects: only elements that count become real numbers.

    Attributes:
        stored: its elements as they are stored [n,...].
        quantization: what they stand for, with one scale; None if they are real numbers.
    """

    stored: Array
    quantization: Quantization | None

    def real(self, rows: _Place = _ALL) -> Floats:
        """Some of its elements as real numbers."""
        return self.of(self.stored[rows])

    def of(self, stored: Array) -> Floats:
        """The real numbers that some elements stand for."""
        if self.quantization is None:
            return stored
        return numerics.dequantize(stored, self.quantization)

    def steps(self, rows: _Place = _ALL) -> Floats:
        """Some of its elements as multiples of the scale.

        Sums of products of those of 8 bits are exact in float32, in whichever order.
        """
        stored, quantization = self.stored[rows], self.quantization
        if quantization is None:
            return stored
        return numerics.dequantize(stored, Quantization((1.0,), quantization.zero_point))


def _operands(call: Call, arrays: Arrays) -> list[_Operand | None]:
    """All operands, those that there are, by their numbers."""
    found: list[_Operand | None] = [None] * len(_OPERANDS)
    for index, array in enumerate(arrays):
        if array is None:
            continue
        type = call.type(index)
        whole = type.quantization is not None and type.quantization.is_per_tensor
        held = array if whole else reals(array, type).astype(np.float32, copy=False)
        elements = held if index == ANCHORS else held[0]
        if index in (SCORES, CLASSES, OBJECTNESS):
            elements = elements.reshape(len(elements), -1)
        found[index] = _Operand(elements, type.quantization if whole else None)
    return found


def _demand_real(type: TensorType) -> None:
    demand(
        type.dtype is DType.FLOAT32 or type.is_quantized, f"operands are real numbers, not {type}"
    )


def _points_of(call: Call, a: DetectionsAttributes, count: int) -> list[Expected]:
    """The result for keypoints, if there are any."""
    points = call.optional(POINTS)
    if points is None:
        return []
    shape = points.type.shape
    demand(
        len(shape) == 3 and shape[:2] == (1, count) and shape[2] % a.point == 0,
        f"keypoints of shape {list(shape)}",
    )
    return [Expected((a.most, shape[2] // a.point, 3), DType.FLOAT32)]


def _masks_of(call: Call, a: DetectionsAttributes, count: int) -> list[Expected]:
    """The result for masks, if there are any."""
    values = call.optional(COEFFICIENTS), call.optional(PROTOTYPES)
    coefficients, prototypes = values
    if coefficients is None or prototypes is None:
        demand(values == (None, None), "masks take coefficients and prototypes")
        return []
    shape = prototypes.type.shape
    demand(len(shape) == 4 and shape[0] == 1, f"prototypes of shape {list(shape)}")
    demand(coefficients.type.shape == (1, count, shape[3]), "other coefficients than prototypes")
    budget.demand(a.most * shape[1] * shape[2], "the masks")
    return [Expected((a.most, *shape[1:3]), DType.UINT8)]


def sigmoid(logits: Floats) -> Floats:
    """Logistic function of float32 numbers."""
    with np.errstate(over="ignore"):
        result: Floats = np.float32(1) / (np.float32(1) + np.exp(-logits))
    return result


@dataclass(frozen=True, slots=True)
class _Groups:
    """Boxes that make up objects, one object after another, the best box of each first.

    Attributes:
        members: their numbers [m].
        firsts: where among these each object begins [n].
        weights: their shares in the object [m].
    """

    members: Indices
    firsts: Indices
    weights: Floats

    @classmethod
    def of(cls, groups: Sequence[Indices], scores: Floats) -> _Groups:
        """Groups whose boxes count by their scores [n]."""
        members = np.concatenate([np.empty(0, np.intp), *groups])
        sizes = np.array([len(group) for group in groups], np.intp)
        shares = [_shares(scores[group]) for group in groups]
        weights = np.concatenate([np.empty(0, np.float32), *shares])
        return cls(members, np.cumsum(sizes) - sizes, weights)


def _shares(scores: Floats) -> Floats:
    """Weights whose sum is one; exactly one for one score, so that nothing is rounded."""
    if len(scores) == 1:
        return np.ones(1, np.float32)
    with np.errstate(all="ignore"):
        result: Floats = scores / scores.sum()
    return result


def _averaged(values: Floats, groups: _Groups) -> Floats:
    """Means [n,...] of values [m,...] of the members of groups."""
    weights = groups.weights.reshape(-1, *[1] * (values.ndim - 1))
    with np.errstate(all="ignore"):
        result: Floats = np.add.reduceat(values * weights, groups.firsts, axis=0)
    return result


@dataclass(frozen=True, slots=True)
class _Found:
    """Objects.

    Attributes:
        rows: numbers among all boxes of those that make them up [m].
        groups: which of these make up which.
        objects: their rows [n,6].
    """

    rows: Indices
    groups: _Groups
    objects: Floats


def _found(given: Sequence[_Operand | None], a: DetectionsAttributes) -> _Found:
    """The objects of all boxes."""
    boxes, scores, anchors, classes, objectness = given[: OBJECTNESS + 1]
    assert boxes is not None
    assert scores is not None
    rows, kinds, best = _candidates(scores, objectness, a)
    if classes is not None:
        kinds = np.rint(classes.real(rows)[:, 0] / np.float32(a.class_step)).astype(np.intp)
    encoded = boxes.real(rows)
    if a.part > 0:
        encoded = _whole(encoded, a)
    if a.y_first:
        encoded = encoded[:, [1, 0, 3, 2]]
    own = None if anchors is None else anchors.real(rows)
    corners = decoded(encoded, own, a.coding, a.exponent)
    if not a.coding.has_anchors:
        corners = corners * np.array([a.x_scale, a.y_scale] * 2, np.float32)
    kind = kinds[:, None].astype(np.float32)
    if a.overlap >= 1:
        same = list(descending(best)[: a.most, None])
    else:
        apart = corners if a.agnostic else corners + kind * _APART
        same = grouped(apart, best, a.most, np.float64(a.overlap))
    groups = _Groups.of([_counting(group, best, a) for group in same], best)
    chosen = groups.members[groups.firsts]
    edges = _averaged(corners[groups.members], groups)
    objects = np.concatenate([edges, best[chosen, None], kind[chosen]], axis=1)
    return _Found(rows[groups.members], groups, objects)


def _counting(group: Indices, scores: Floats, a: DetectionsAttributes) -> Indices:
    """The boxes of an object, the best first, that say where it is."""
    if a.average_threshold >= 1:
        return group[:1]
    return group[: max(1, int((scores[group] > np.float32(a.average_threshold)).sum()))]


def _whole(parts: Floats, a: DetectionsAttributes) -> Floats:
    """The numbers of boxes [n,4] that are sums of parts [n,4*p].

    Every part but the first is at least zero, and every one but the last at most what it goes to.
    """
    each = parts.reshape(len(parts), BOX, parts.shape[1] // BOX)
    bound = np.float32(a.part)
    low = np.zeros(each.shape[2], np.float32)
    high = np.full(each.shape[2], bound, np.float32)
    low[0], high[-1] = -np.inf, np.inf
    found: Floats = np.clip(each, low, high).sum(axis=2, dtype=np.float32) + np.float32(a.lowest)
    return found


def _candidates(
    scores: _Operand, objectness: _Operand | None, a: DetectionsAttributes
) -> tuple[Indices, Indices, Floats]:
    """Rows, classes and scores of boxes whose score is high enough.

    Args:
        scores: scores of classes [n,c].
        objectness: scores of being any object [n,1].
        a: what they are.
    """
    if a.peaks:
        scores = _Operand(_at_peaks(scores.real()[:, a.background :], a.peaks), None)
    else:
        scores = replace(scores, stored=scores.stored[:, a.background :])
    # Neither a scale nor a sigmoid changes which score is the best.
    best = _probability(scores.of(scores.stored.max(axis=1)), a)
    if objectness is not None:
        best = best * _probability(objectness.real()[:, 0], a)
    if a.root:
        best = np.sqrt(best)
    rows = np.flatnonzero(best > np.float32(a.score_threshold))
    if len(rows) > _CANDIDATES:
        rows = rows[descending(best[rows])[:_CANDIDATES]]
    return rows, scores.stored[rows].argmax(axis=1), best[rows]


def _at_peaks(numbers: Floats, columns: int) -> Floats:
    """Scores [n,c], of which those that are no peaks of images are less than all others."""
    images = numbers.reshape(-1, columns, numbers.shape[1])
    height, width, _ = images.shape
    padded = np.pad(images, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    around = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    peaks = np.where(images >= np.maximum.reduce(around), images, np.float32(-np.inf))
    found: Floats = peaks.reshape(numbers.shape).astype(np.float32)
    return found


def _probability(scores: Floats, a: DetectionsAttributes) -> Floats:
    return sigmoid(scores) if a.logits else scores


def _points(points: Floats, anchors: Floats | None, a: DetectionsAttributes) -> Floats:
    """Keypoints [n,k,3] as x, y and score, which is 1 if the model says none.

    Args:
        points: encoded keypoints [n,k*2] or [n,k*3].
        anchors: those of the objects [n,6]; None if keypoints are in the units of x and y.
        a: how they are encoded.
    """
    parts = points.reshape(len(points), points.shape[1] // a.point, a.point)
    if anchors is None:
        anchors = np.array([[0, 0, a.x_scale, a.y_scale, 0, 0]], np.float32)
    centre, unit = anchors[:, None, CENTRE], anchors[:, None, UNIT]
    places = centre + (parts[..., :2] * np.float32(a.point_scale) + np.float32(a.point_offset)) * (
        unit
    )
    score = parts[..., 2:] if a.point_scores else np.ones_like(parts[..., :1])
    if a.point_logits:
        score = sigmoid(parts[..., 2:])
    return np.concatenate([places, score], axis=2)


def _masks(
    coefficients: Floats, prototypes: _Operand, objects: Floats, a: DetectionsAttributes
) -> Array:
    """Masks [n,h,w]: where the weighted sum of prototypes [h,w,m] is positive, inside of boxes.

    Args:
        coefficients: weights of prototypes [n,m], as multiples of their scale.
        prototypes: the prototypes.
        objects: the objects [n,6].
        a: the size of the image.
    """
    height, width, _ = prototypes.stored.shape
    result: Array = np.zeros((len(objects), height, width), np.uint8)
    ratio = np.array([width / a.width, height / a.height] * 2, np.float32)
    left, top, right, bottom = ((objects[:, :BOX] * ratio).T)[:, :, None]
    x, y = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)
    rows, columns = (y >= top) & (y < bottom), (x >= left) & (x < right)
    seen = _extent(rows.any(axis=0))
    images = prototypes.steps(seen)
    sides = zip(rows[:, seen], columns, strict=True)
    for mask, weights, inside in zip(result[:, seen], coefficients, sides, strict=True):
        place = _extent(inside[0]), _extent(inside[1])
        mask[place] = images[place] @ weights > 0
    return result


def _extent(inside: npt.NDArray[np.bool_]) -> slice:
    """The places along an axis from the first one inside to the last."""
    found = np.flatnonzero(inside)
    return slice(found[0], found[-1] + 1) if len(found) else slice(0)
