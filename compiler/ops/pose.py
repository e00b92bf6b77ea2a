"""Post-processing of PoseNet: from heatmaps and offsets to the poses of persons.

Facts: the published decoder ``PosenetDecoderOp`` of libcoral.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, DType
from fitzroy.compiler.ir import Attributes
from fitzroy.compiler.ops.custom import PostProcessing
from fitzroy.compiler.ops.definition import Arrays, Call, Expected, define, demand
from fitzroy.hw_models.numerics import Arithmetic

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]

KEYPOINTS = (
    "nose", "left eye", "right eye", "left ear", "right ear", "left shoulder", "right shoulder",
    "left elbow", "right elbow", "left wrist", "right wrist", "left hip", "right hip", "left knee",
    "right knee", "left ankle", "right ankle",
)  # fmt: skip
"""Names of the keypoints, in order."""

_CHAINS = (
    ("nose", "left eye", "left ear"),
    ("nose", "right eye", "right ear"),
    ("nose", "left shoulder", "left elbow", "left wrist"),
    ("left shoulder", "left hip", "left knee", "left ankle"),
    ("nose", "right shoulder", "right elbow", "right wrist"),
    ("right shoulder", "right hip", "right knee", "right ankle"),
)
"""Limbs; each step is an edge."""

_EDGES = tuple(
    (KEYPOINTS.index(parent), KEYPOINTS.index(child))
    for chain in _CHAINS
    for parent, child in itertools.pairwise(chain)
)
_POINTS, _PAIRS = len(KEYPOINTS), len(_EDGES)

_REFINEMENTS = 5
"""How often a keypoint found from its neighbour follows the short offsets."""

_MASK_REFINEMENTS = 2
"""How often a keypoint found from a pixel follows the long offsets once more."""

_MOST_DETECTIONS = 1 << 12
"""Bound on the rows of the results, which no file has to hold."""


@dataclass(frozen=True)
class PoseAttributes(Attributes):
    """Attributes of the pose decoder.

    Attributes:
        max_detections: most poses.
        score_threshold: least score of a pose, and of the keypoint that it is found by.
        stride: pixels from one element of the heatmaps to the next.
        nms_radius: keypoints that are no further from one of a better pose, in pixels, belong to
            that.
    """

    max_detections: int
    score_threshold: float
    stride: int
    nms_radius: float


@define
class PoseDecoder(PostProcessing):
    """Poses of persons; with long offsets, also a mask for each person.

    Results are float32: keypoints [1,n,17,2] as (y, x) in pixels, their scores [1,n,17], scores of
    poses [1,n], how many poses there are [1], and with long offsets masks [1,n,h,w] of ones and
    zeros; rows after the last pose are zero. Poses are in order of their scores. Among candidates
    of equal score, the first in order of rows, columns and keypoints counts as the best.
    """

    name = "pose_decoder"
    operands = ("heatmaps", "short_offsets", "mid_offsets", "long_offsets?")
    attributes = PoseAttributes
    custom = "PosenetDecoderOp"

    def infer(self, call: Call) -> Sequence[Expected]:
        a = call.attributes(PoseAttributes)
        channels = (_POINTS, 2 * _POINTS, 4 * _PAIRS, 2 * _POINTS)
        types = [value.type for value in call.inputs if value is not None]
        demand(len(types) >= len(channels) - 1, f"{len(types)} operands")
        for type, depth in zip(types, channels, strict=False):
            demand(
                type.dtype is DType.FLOAT32 or (type.dtype is DType.UINT8 and type.is_quantized),
                f"operands are float32 or quantized uint8, not {type}",
            )
            demand(type.rank == 4 and type.shape[0] == 1, f"{type} is no image")
            demand(type.shape[3] == depth, f"{type.shape[3]} channels, not {depth}")
            demand(type.shape[:3] == types[0].shape[:3], "operands differ in height or width")
        demand(min(types[0].shape) > 0, "an empty image")
        demand(0 <= a.max_detections <= _MOST_DETECTIONS, f"{a.max_detections} detections")
        demand(a.stride > 0, f"a stride of {a.stride}")
        n, height, width = a.max_detections, *types[0].shape[1:3]
        shapes: list[tuple[int, ...]] = [(1, n, _POINTS, 2), (1, n, _POINTS), (1, n), (1,)]
        if len(types) == len(channels):
            # The published kernel mixes up height and width of masks.
            demand(height == width, "masks of an image that is no square")
            shapes.append((1, n, height, width))
        return [Expected(shape, DType.FLOAT32) for shape in shapes]

    def evaluate(self, call: Call, arrays: Arrays, arithmetic: Arithmetic) -> Sequence[Array]:
        a = call.attributes(PoseAttributes)
        # Offsets are in pixels; the decoder counts in elements of the heatmaps.
        heat, short, mid, *long = (
            _scaled(array, call, index, 1 / a.stride if index else 1.0)
            for index, array in enumerate(arrays)
            if array is not None
        )
        poses = list(decoded_poses(heat, short, mid, a))
        result = [np.zeros(value.type.shape, np.float32) for value in call.outputs]
        points, scores, totals, *_ = (whole[0] for whole in result)
        for number, pose in enumerate(poses):
            points[number] = pose.points * np.float32(a.stride)
            scores[number], totals[number] = pose.scores, pose.score
        result[3][0] = len(poses)
        if long and poses:
            nearest = _nearest_pose(long[0], points[: len(poses)], a.stride)
            result[4][0, : len(poses)] = nearest == np.arange(len(poses))[:, None, None]
        return result


def _scaled(array: Array, call: Call, index: int, factor: float) -> Floats:
    """Real numbers of an operand [1,h,w,c] times a factor, as [h,w,c]."""
    scale, quantization = np.float32(factor), call.type(index).quantization
    real = array[0].astype(np.float32)
    if quantization is not None:
        real -= np.float32(quantization.zero_point[0])
        scale = np.float32(np.float32(quantization.scale[0]) * scale)
    result: Floats = real * scale
    return result


@dataclass(slots=True)
class _Pose:
    """A pose: keypoints [17,2] as (y, x) in elements of the heatmaps, and scores [17]."""

    points: Floats
    scores: Floats
    score: float = 0.0


def decoded_poses(heat: Floats, short: Floats, mid: Floats, a: PoseAttributes) -> Iterator[_Pose]:
    """Poses, best first.

    Args:
        heat: log-odds of every keypoint [h,w,17].
        short: from an element to a keypoint near it [h,w,2*17], in elements: y, then x.
        mid: from a keypoint to its neighbours [h,w,4*16]: y and x along the edges, then backwards.
        a: thresholds.
    """
    threshold = np.float32(a.score_threshold)
    radius = np.float32(a.nms_radius) / np.float32(a.stride)
    near = np.float32(radius * radius)
    found: list[_Pose] = []
    for point, number in _candidates(heat, short, threshold):
        if len(found) == a.max_detections:
            break
        if any(_squared_distance(point, pose.points[number]) <= near for pose in found):
            continue
        pose = _traced(heat, short, mid, point, number)
        pose.score = _mean_score(pose.scores, np.zeros(_POINTS, bool))
        if pose.score >= threshold:
            found.append(pose)
    ranked = sorted(found, key=lambda pose: -pose.score)
    for place, pose in enumerate(ranked):
        hidden = np.zeros(_POINTS, bool)
        for better in ranked[:place]:
            hidden |= _squared_distance(pose.points, better.points) <= near
        pose.score = _mean_score(pose.scores, hidden)
    # Equal ones stay in the order in which they were found.
    for pose in sorted(found, key=lambda pose: -pose.score):
        if pose.score >= threshold:
            yield pose


def _mean_score(scores: Floats, hidden: npt.NDArray[np.bool_]) -> float:
    """Mean over all keypoints, of which hidden ones count as zero."""
    descending = np.sort(np.where(hidden, np.float32(0), scores))[::-1]
    return float(np.add.accumulate(descending)[-1] / np.float32(_POINTS))


def _squared_distance(a: Floats, b: Floats) -> Floats:
    difference = b - a
    squares = difference * difference
    result: Floats = squares[..., 0] + squares[..., 1]
    return result


def _candidates(heat: Floats, short: Floats, threshold: np.float32) -> Iterator[tuple[Floats, int]]:
    """Keypoints that poses may begin with, best first: a point [2] and which keypoint it is.

    They are the maxima of a heatmap within windows of 3x3.
    """
    with np.errstate(all="ignore"):
        # No number beyond 1 - 1e-6, which no keypoint reaches.
        least = np.float32(-np.log(1 / (np.float64(threshold) + 1e-6) - 1))
    height, width, _ = heat.shape
    padded = np.pad(heat, ((1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    windows = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    place = np.nonzero((heat >= least) & (heat >= np.max(windows, axis=0)))
    for index in np.argsort(-heat[place], kind="stable"):
        y, x, number = (int(axis[index]) for axis in place)
        offset = short[y, x, [number, number + _POINTS]]
        yield _inside(np.array([y, x], np.float32) + offset, heat), number


def _inside(points: Floats, field: Floats) -> Floats:
    """Points, (y, x) in the last axis, moved to the nearest of an image [h,w,...]."""
    last = np.array(field.shape[:2], np.float32) - 1
    result: Floats = np.clip(points, np.float32(0), last)
    return result


def _sampled(field: Floats, points: Floats, channels: Indices) -> Floats:
    """Bilinear samples [n,k] of an image [h,w,c] at points [n,2], of the channels [n,k]."""
    low, high = np.floor(points).astype(np.intp), np.ceil(points).astype(np.intp)
    y, x = (points - low.astype(np.float32)).T[:, :, None]
    one = np.float32(1)

    def row(line: Indices) -> Floats:
        ends = (field[line[:, None], side[:, 1:], channels] for side in (low, high))
        left, right = ends
        result: Floats = (one - x) * left + x * right
        return result

    result: Floats = (one - y) * row(low[:, 0]) + y * row(high[:, 0])
    return result


def _followed(field: Floats, points: Floats, channels: Indices) -> Floats:
    """Points [n,2] moved by the offsets there, of which channels [n,2] are y and x."""
    return _inside(points + _sampled(field, points, channels), field)


def _pairs(first: Indices, distance: int) -> Indices:
    """Channels of y, and of x after them."""
    return np.stack([first, first + distance], axis=-1)


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The keypoints next to one, and the channels that lead there."""

    points: list[int] = field(default_factory=list)
    channels: list[int] = field(default_factory=list)


def _neighbours() -> tuple[_Neighbours, ...]:
    result = tuple(_Neighbours() for _ in KEYPOINTS)
    backwards = tuple((child, parent) for parent, child in _EDGES)
    for edge, (start, end) in enumerate((*_EDGES, *backwards)):
        # Channels of edges backwards come after y and x of all edges along the limbs.
        channel = edge if edge < _PAIRS else edge + _PAIRS
        result[start].points.append(end)
        result[start].channels.append(channel)
    return result


_NEIGHBOURS = _neighbours()


def _traced(heat: Floats, short: Floats, mid: Floats, root: Floats, number: int) -> _Pose:
    """The pose around a keypoint: from keypoint to keypoint, the surest first."""
    pose = _Pose(np.zeros((_POINTS, 2), np.float32), np.zeros(_POINTS, np.float32))
    traced = np.zeros(_POINTS, bool)
    serial = 0
    score = _sampled(heat, root[None], np.array([[number]]))[0, 0]
    waiting = [(-float(score), serial, number, root)]
    while waiting:
        minus_score, _, current, point = heapq.heappop(waiting)
        if traced[current]:
            continue
        traced[current] = True
        pose.points[current], pose.scores[current] = point, -minus_score
        targets = np.array(_NEIGHBOURS[current].points)
        channels = np.array(_NEIGHBOURS[current].channels)[~traced[targets]]
        targets = targets[~traced[targets]]
        points = np.repeat(point[None], len(targets), axis=0)
        points = _followed(mid, points, _pairs(channels, _PAIRS))
        for _ in range(_REFINEMENTS):
            points = _followed(short, points, _pairs(targets, _POINTS))
        scores = _sampled(heat, points, targets[:, None])[:, 0]
        for target, found, value in zip(targets, points, scores, strict=True):
            serial += 1
            heapq.heappush(waiting, (-float(value), serial, int(target), found))
    pose.scores = np.float32(1) / (np.float32(1) + np.exp(-pose.scores))
    return pose


def _nearest_pose(long: Floats, poses: Floats, stride: int) -> Indices:
    """Which pose every element [h,w] belongs to.

    Args:
        long: from an element to the keypoints of its person [h,w,2*17], in elements: y, then x.
        poses: keypoints [n,17,2] in pixels.
        stride: pixels from element to element.
    """
    height, width, _ = long.shape
    grid = np.indices((height, width)).reshape(2, -1).T.astype(np.float32)
    points = np.repeat(grid, _POINTS, axis=0)
    channels = np.tile(_pairs(np.arange(_POINTS), _POINTS), (height * width, 1))
    for _ in range(1 + _MASK_REFINEMENTS):
        points = _followed(long, points, channels)
    pixels = (points * np.float32(stride)).reshape(-1, 1, _POINTS, 2)
    distances = np.add.accumulate(_squared_distance(pixels, poses[None]), axis=-1)[..., -1]
    result: Indices = distances.argmin(axis=1).reshape(height, width)
    return result
