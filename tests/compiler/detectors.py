"""Small detectors of every family, with decoders written as exporters write them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.indexing import TopKAttributes
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.shape import (
    ConcatenationAttributes,
    GatherAttributes,
    ReshapeAttributes,
    SplitAttributes,
    StridedSliceAttributes,
    TransposeAttributes,
)
from fitzroy.compiler.ops.windows import PaddingScheme

Floats = npt.NDArray[np.float32]
Shape = tuple[int, ...]

SIDE = 64
STRIDES = (8, 16)
CLASSES = 3
CELLS = [(SIDE // stride, stride) for stride in STRIDES]
ROWS = sum(side * side for side, _ in CELLS)
BINS = 16


class Maker:
    """Makes a graph, one operator at a time."""

    def __init__(self, seed: int = 1) -> None:
        self.graph = Graph("detector")
        self.random = np.random.default_rng(seed)
        self.image = self.graph.add_input("image", TensorType((1, SIDE, SIDE, 3), DType.FLOAT32))

    def shape(self, name: str) -> Shape:
        return self.graph.type(name).shape

    def emit(self, op: str, names: list[str], shape: Shape, a: Attributes = NO_ATTRIBUTES) -> str:
        return self.graph.emit(op, names, TensorType(shape, DType.FLOAT32), a)

    def constant(self, data: Array) -> str:
        return self.graph.add_constant("constant", np.asarray(data, np.float32))

    def layer(self, x: str, channels: int, stride: int = 1) -> str:
        """A convolution with random filters."""
        _, height, width, depth = self.shape(x)
        kernel = self.random.normal(0, 2 / math.sqrt(depth), (channels, 1, 1, depth))
        bias = self.random.normal(0, 0.5, channels)
        if channels == 4 * BINS:
            # Short distances are likely, as in trained models.
            bias -= np.tile(np.arange(BINS), 4)
        shape = (1, height // stride, width // stride, channels)
        names = [x, self.constant(kernel), self.constant(bias)]
        a = ConvAttributes(stride=(stride, stride), padding=PaddingScheme.VALID)
        return self.emit("conv_2d", names, shape, a)

    def features(self) -> list[str]:
        """Features of every level."""
        return [self.sigmoid(self.layer(self.image, 8, stride)) for stride in STRIDES]

    def sigmoid(self, x: str) -> str:
        return self.emit("sigmoid", [x], self.shape(x))

    def binary(self, op: str, x: str, y: str | float | Array) -> str:
        other = y if isinstance(y, str) else self.constant(np.asarray(y, np.float32))
        shape = np.broadcast_shapes(self.shape(x), self.shape(other))
        return self.emit(op, [x, other], shape, ActivationAttributes())

    def reshape(self, x: str, *shape: int) -> str:
        type = self.graph.type(x).with_shape(shape)
        return self.graph.emit("reshape", [x], type, ReshapeAttributes(shape))

    def transpose(self, x: str, *perm: int) -> str:
        shape = tuple(self.shape(x)[axis] for axis in perm)
        return self.emit("transpose", [x], shape, TransposeAttributes(perm))

    def join(self, names: list[str], axis: int) -> str:
        shape = list(self.shape(names[0]))
        shape[axis] = sum(self.shape(name)[axis] for name in names)
        return self.emit("concatenation", names, tuple(shape), ConcatenationAttributes(axis))

    def split(self, x: str, axis: int, *sizes: int) -> list[str]:
        whole = self.shape(x)
        axis %= len(whole)
        names = tuple(self.graph.fresh(f"{x}.{number}") for number in range(len(sizes)))
        types = [
            TensorType((*whole[:axis], size, *whole[axis + 1 :]), DType.FLOAT32) for size in sizes
        ]
        node = Node(self.graph.fresh("split"), "split", (x,), names, SplitAttributes(axis, sizes))
        self.graph.add_node(node, types)
        return list(names)

    def top(self, x: str, count: int) -> tuple[str, str]:
        """The largest elements of rows [1,n], and their places."""
        names = self.graph.fresh("best"), self.graph.fresh("places")
        types = [TensorType((1, count), kind) for kind in (DType.FLOAT32, DType.INT32)]
        self.graph.add_node(Node(names[0], "top_k", (x,), names, TopKAttributes(count)), types)
        return names

    def slice(self, x: str, axis: int, begin: int, size: int) -> str:
        whole = self.shape(x)
        shape = (*whole[:axis], size, *whole[axis + 1 :])
        first = tuple(begin if other == axis else 0 for other in range(len(whole)))
        a = StridedSliceAttributes(first, shape, (1,) * len(whole))
        return self.emit("strided_slice", [x], shape, a)

    def rows(self, channels: list[int]) -> str:
        """Layers of every level side by side as rows [1,n,c], joined and levels one another."""
        levels = []
        for x in self.features():
            parts = [self.layer(x, count) for count in channels]
            joint = self.join(parts, 3) if len(parts) > 1 else parts[0]
            _, height, width, depth = self.shape(joint)
            levels.append(self.reshape(joint, 1, height * width, depth))
        return self.join(levels, 1)

    def done(self, *outputs: str) -> Graph:
        self.graph.outputs = list(outputs)
        return self.graph


def centres() -> tuple[Floats, Floats]:
    """Middles of cells [n,2] in cells, and strides [n,1]."""
    points, strides = [], []
    for side, stride in CELLS:
        line = np.arange(side) + 0.5
        x, y = np.meshgrid(line, line)
        points.append(np.stack([x, y], axis=-1).reshape(-1, 2))
        strides.append(np.full((side * side, 1), stride))
    return np.concatenate(points).astype(np.float32), np.concatenate(strides).astype(np.float32)


def expectation(m: Maker, x: str) -> str:
    """Distances [1,n,4] of distributions [1,n,64]."""
    count = m.shape(x)[1]
    parts = m.reshape(x, 1, count, 4, BINS)
    sure = m.emit("softmax", [parts], m.shape(parts), SoftmaxAttributes())
    kernel = m.constant(np.arange(BINS).reshape(1, 1, 1, BINS))
    bias = m.constant(np.zeros(1))
    a = ConvAttributes(padding=PaddingScheme.VALID)
    mean = m.emit("conv_2d", [sure, kernel, bias], (1, count, 4, 1), a)
    return m.reshape(mean, 1, count, 4)


def from_distances(m: Maker, distances: str, *, corners: bool = False) -> str:
    """Boxes [1,n,4] in pixels: centres and extents, or corners."""
    points, strides = centres()
    first, second = (m.slice(distances, 2, begin, 2) for begin in (0, 2))
    low = m.binary("sub", m.constant(points), first)
    high = m.binary("add", m.constant(points), second)
    if corners:
        boxes = m.join([low, high], 2)
    else:
        middle = m.binary("mul", m.binary("add", low, high), 0.5)
        boxes = m.join([middle, m.binary("sub", high, low)], 2)
    return m.binary("mul", boxes, strides)


def dfl(seed: int = 1, *, apart: bool = False) -> Graph:
    """YOLOv8 and its like: boxes from distributions, without objectness [1,4+c,n]."""
    m = Maker(seed)
    if apart:
        boxes, scores = m.rows([4 * BINS]), m.rows([CLASSES])
    else:
        boxes, scores = m.split(m.rows([4 * BINS, CLASSES]), 2, 4 * BINS, CLASSES)
    both = m.join([from_distances(m, expectation(m, boxes)), m.sigmoid(scores)], 2)
    return m.done(m.transpose(both, 0, 2, 1))


def plain(seed: int = 1) -> Graph:
    """YOLO26 without its choice: distances without distributions [1,4+c,n]."""
    m = Maker(seed)
    boxes, scores = m.rows([4]), m.rows([CLASSES])
    both = m.join([from_distances(m, boxes), m.sigmoid(scores)], 2)
    return m.done(m.transpose(both, 0, 2, 1))


ANCHORS = np.array([[[6, 9], [12, 7]], [[20, 16], [11, 30]]], np.float32)
"""Widths and heights of two anchors for each level."""


def anchored(
    seed: int = 1, *, classes: int = CLASSES, cells_first: bool = False, apart: bool = False
) -> Graph:
    """YOLOv5: anchors, one layer for each level [1,n,5+c].

    Args:
        seed: of the filters.
        classes: how many there are.
        cells_first: whether boxes are decoded in the order that layers give them, as importers of
            ONNX leave it, and counted by anchors afterwards.
        apart: whether centres, extents and scores each have a sigmoid, as YOLOv5's exporter to
            TensorFlow writes it.
    """
    m, levels = Maker(seed), []
    order = (0, 3, 1, 2, 4)
    for x, (side, stride), anchors in zip(m.features(), CELLS, ANCHORS, strict=True):
        columns = 5 + classes
        parts = m.reshape(m.layer(x, 2 * columns), 1, side, side, 2, columns)
        parts = parts if cells_first else m.transpose(parts, *order)
        xy, wh, rest = m.split(parts if apart else m.sigmoid(parts), 4, 2, 2, 1 + classes)
        if apart:
            xy, wh, rest = map(m.sigmoid, (xy, wh, rest))
        line = np.arange(side)
        grid = np.stack(np.meshgrid(line, line), axis=-1) - 0.5
        grid = grid[None, :, :, None] if cells_first else grid[None, None]
        sizes = anchors[None, None, None] if cells_first else anchors[None, :, None, None]
        xy = m.binary("mul", m.binary("add", m.binary("mul", xy, 2), grid),
                      stride)  # fmt: skip
        double = m.binary("mul", wh, 2)
        wh = m.binary("mul", m.binary("mul", double, double), sizes)
        joint = m.join([xy, wh, rest], 4)
        joint = m.transpose(joint, *order) if cells_first else joint
        levels.append(m.reshape(joint, 1, 2 * side * side, columns))
    return m.done(m.join(levels, 1))


def exponential(seed: int = 1, *, decoding: bool = True) -> Graph:
    """YOLOX: offsets and logarithms, with objectness [1,n,5+c]."""
    m, levels = Maker(seed), []
    for x, (side, _) in zip(m.features(), CELLS, strict=True):
        parts = [m.layer(x, 4), m.sigmoid(m.layer(x, 1)), m.sigmoid(m.layer(x, CLASSES))]
        levels.append(m.reshape(m.join(parts, 3), 1, side * side, 5 + CLASSES))
    rows = m.join(levels, 1)
    if not decoding:
        return m.done(rows)
    points, strides = centres()
    xy = m.binary("mul", m.binary("add", m.slice(rows, 2, 0, 2), points - 0.5), strides)
    extent = m.emit("exp", [m.slice(rows, 2, 2, 2)], (1, ROWS, 2))
    wh = m.binary("mul", extent, strides)
    return m.done(m.join([xy, wh, m.slice(rows, 2, 4, 1 + CLASSES)], 2))


def sigmoid_centres(seed: int = 1, *, apart: bool = False) -> Graph:
    """YOLOv3 and YOLOv4: centres are sigmoids and extents exponentials, relative to anchors.

    Args:
        seed: of the filters.
        apart: whether boxes [1,n,4] and the products of scores and objectness [1,n,c] are outputs
            of their own, and not in rows [1,n,5+c].
    """
    m, levels, scores = Maker(seed), [], []
    for x, (side, stride), anchors in zip(m.features(), CELLS, ANCHORS, strict=True):
        parts = m.reshape(m.layer(x, 2 * (5 + CLASSES)), 1, side, side, 2, 5 + CLASSES)
        xy, wh, sure, kinds = m.split(parts, 4, 2, 2, 1, CLASSES)
        line = np.arange(side)
        grid = np.stack(np.meshgrid(line, line), axis=-1)[None, :, :, None] - 0.05
        xy = m.binary("mul", m.binary("add", m.binary("mul", m.sigmoid(xy), 1.1), grid), stride)
        wh = m.binary("mul", m.emit("exp", [wh], m.shape(wh)), anchors)
        columns = [xy, wh]
        sure, kinds = m.sigmoid(sure), m.sigmoid(kinds)
        if apart:
            scores.append(m.reshape(m.binary("mul", sure, kinds), 1, 2 * side * side, CLASSES))
        else:
            columns += [sure, kinds]
        joint = m.join(columns, 4)
        levels.append(m.reshape(joint, 1, 2 * side * side, m.shape(joint)[4]))
    return m.done(m.join(levels, 1), *([m.join(scores, 1)] if apart else []))


POINTS = 5


def pose(seed: int = 1) -> Graph:
    """YOLOv8-pose: one class, and five keypoints with scores [1,5+15,n]."""
    m = Maker(seed)
    boxes, scores, encoded = m.rows([4]), m.rows([1]), m.rows([3 * POINTS])
    points, strides = centres()
    each = m.reshape(encoded, 1, ROWS, POINTS, 3)
    places = m.binary("mul", m.slice(each, 3, 0, 2), 2)
    places = m.binary("add", places, (points - 0.5)[:, None])
    places = m.binary("mul", places, strides[:, None])
    joint = m.join([places, m.sigmoid(m.slice(each, 3, 2, 1))], 3)
    flat = m.reshape(joint, 1, ROWS, 3 * POINTS)
    both = m.join([from_distances(m, boxes), m.sigmoid(scores), flat], 2)
    return m.done(m.transpose(both, 0, 2, 1))


def numbers_first(seed: int = 1, *, keypoints: bool = False, shares: bool = False) -> Graph:
    """YOLOv8 and YOLOv8-pose as TFLite models: PyTorch's order of axes between layers of TFLite's.

    The numbers of a box come before boxes, so that distributions are moved twice.

    Args:
        seed: of the filters.
        keypoints: whether objects have five keypoints, and one class.
        shares: whether boxes are in parts of the image, and not in pixels.
    """
    m = Maker(seed)
    points, strides = (array.T[None] for array in centres())
    unit = strides / SIDE if shares else strides
    parts = [4 * BINS, 1 if keypoints else CLASSES, *([3 * POINTS] if keypoints else [])]
    levels: list[list[str]] = [[] for _ in parts]
    for x in m.features():
        for found, channels in zip(levels, parts, strict=True):
            layer = m.transpose(m.layer(x, channels), 0, 3, 1, 2)
            found.append(m.reshape(layer, 1, channels, math.prod(m.shape(layer)[2:])))
    boxes, scores, *beside = (m.join(found, 2) for found in levels)
    bins = m.transpose(m.reshape(boxes, 1, 4, BINS, ROWS), 0, 1, 3, 2)
    sure = m.emit("softmax", [bins], m.shape(bins), SoftmaxAttributes())
    operands = [sure, m.constant(np.arange(BINS).reshape(1, 1, 1, BINS)), m.constant(np.zeros(1))]
    a = ConvAttributes(padding=PaddingScheme.VALID)
    distances = m.reshape(m.emit("conv_2d", operands, (1, 4, ROWS, 1), a), 1, 4, ROWS)
    distances = m.binary("mul", distances, unit)
    places = m.constant(points * unit)
    low = m.binary("sub", places, m.slice(distances, 1, 0, 2))
    high = m.binary("add", m.slice(distances, 1, 2, 2), places)
    middle = m.binary("mul", m.binary("add", low, high), 0.5)
    columns = [m.join([middle, m.binary("sub", high, low)], 1), m.sigmoid(scores)]
    if keypoints:
        each = m.reshape(beside[0], 1, POINTS, 3, ROWS)
        moved = m.binary("add", m.binary("mul", m.slice(each, 2, 0, 2), 2), points - 0.5)
        joint = m.join([m.binary("mul", moved, unit), m.sigmoid(m.slice(each, 2, 2, 1))], 2)
        columns.append(m.reshape(joint, 1, 3 * POINTS, ROWS))
    return m.done(m.join(columns, 1))


PROTOTYPES = 4


def masks(seed: int = 1) -> Graph:
    """YOLOv8-seg: weights of four prototypes [1,4+c+4,n], and those [1,4,8,8]."""
    m = Maker(seed)
    boxes, scores, weights = m.rows([4]), m.rows([CLASSES]), m.rows([PROTOTYPES])
    boxes = m.binary("add", boxes, 2)
    both = m.join([from_distances(m, boxes), m.sigmoid(scores), weights], 2)
    pictures = m.layer(m.sigmoid(m.layer(m.image, 8, 4)), PROTOTYPES)
    return m.done(m.transpose(both, 0, 2, 1), m.transpose(pictures, 0, 3, 1, 2))


def chosen(seed: int = 1) -> Graph:
    """YOLOv10: the best four boxes [1,4,6] are chosen by the model, as corners, score and class."""
    m = Maker(seed)
    boxes, scores = m.rows([4 * BINS]), m.rows([CLASSES])
    decoded = from_distances(m, expectation(m, boxes), corners=True)
    both = m.join([decoded, m.sigmoid(scores)], 2)
    boxes, scores = m.split(both, 2, 4, CLASSES)
    best = m.emit("reduce_max", [scores], (1, ROWS), ReductionAttributes((2,), False))
    first = m.top(best, CHOSEN)
    rows = m.reshape(first[1], CHOSEN)
    near = m.emit("gather", [m.reshape(boxes, ROWS, 4), rows], (CHOSEN, 4), GatherAttributes(0))
    columns = [m.reshape(near, 1, CHOSEN, 4), m.reshape(first[0], 1, CHOSEN, 1)]
    kind = m.emit("cast", [first[1]], (1, CHOSEN))
    return m.done(m.join([*columns, m.reshape(kind, 1, CHOSEN, 1)], 2))


CHOSEN = 16


def queries(seed: int = 1, *, ranked: bool = False) -> Graph:
    """RT-DETR: sigmoids of sums that refine an earlier guess, in parts of the image.

    Args:
        seed: of the layers.
        ranked: whether the best pairs of a box and a class are chosen, as rows [1,m,6].
    """
    m = Maker(seed)
    guess = m.sigmoid(m.rows([4]))
    least = 1e-5
    sure = m.emit("maximum", [guess, m.constant(np.array(least))], m.shape(guess))
    rest = m.binary("sub", m.constant(np.array(1.0)), guess)
    unsure = m.emit("maximum", [rest, m.constant(np.array(least))], m.shape(guess))
    logits = m.emit("log", [m.binary("div", sure, unsure)], m.shape(guess))
    boxes = m.sigmoid(m.binary("add", m.rows([4]), logits))
    scores = m.sigmoid(m.rows([CLASSES]))
    if not ranked:
        return m.done(m.join([boxes, scores], 2))
    best, places = m.top(m.reshape(scores, 1, ROWS * CLASSES), ROWS)
    integers = TensorType((1, ROWS), DType.INT32)
    classes = m.graph.add_constant("classes", np.array(CLASSES, np.int32))
    rows = m.graph.emit("div", [places, classes], integers, ActivationAttributes())
    near = m.emit(
        "gather", [m.reshape(boxes, ROWS, 4), m.reshape(rows, ROWS)], (ROWS, 4), GatherAttributes(0)
    )
    kind = m.graph.emit("floor_mod", [places, classes], integers)
    columns = [m.reshape(near, 1, ROWS, 4), m.reshape(best, 1, ROWS, 1)]
    return m.done(m.join([*columns, m.reshape(m.emit("cast", [kind], (1, ROWS)), 1, ROWS, 1)], 2))


def transformer(
    seed: int = 1,
    *,
    form: str = "logits",
    refines: str | None = None,
    columns: int = CLASSES + 1,
    stacked: bool = False,
) -> Graph:
    """DETR and its like: boxes of queries [1,n,4], and what classes have [1,n,c].

    Args:
        seed: of the layers.
        form: `logits`, `softmax`, `objects` for a softmax without its last class, or `joined` for a
            softmax in the same output as boxes.
        refines: what is added to boxes before their sigmoid: `places` of each query, which are
            constant, `guesses` of a layer, or nothing.
        columns: classes, with that for no object if there is one.
        stacked: whether boxes are the last of those of two layers, which are stacked.
    """
    m = Maker(seed)
    encoded, logits = m.rows([4]), m.rows([columns])
    if refines == "places":
        centre, extent = m.split(encoded, 2, 2, 2)
        encoded = m.join([m.binary("add", centre, m.random.normal(0, 1, (ROWS, 2))), extent], 2)
    elif refines == "guesses":
        encoded = m.binary("add", encoded, m.rows([4]))
    boxes, scores = m.sigmoid(encoded), logits
    if stacked:
        layers = [m.reshape(x, 1, 1, ROWS, 4) for x in (m.sigmoid(m.rows([4])), boxes)]
        boxes = m.reshape(m.slice(m.join(layers, 0), 0, 1, 1), 1, ROWS, 4)
    if form != "logits":
        scores = m.emit("softmax", [logits], m.shape(logits), SoftmaxAttributes())
    if form == "objects":
        scores = m.slice(scores, 2, 0, columns - 1)
    return m.done(m.join([boxes, scores], 2)) if form == "joined" else m.done(scores, boxes)


FAMILIES = {
    "dfl": dfl,
    "plain": plain,
    "anchored": anchored,
    "exponential": exponential,
    "sigmoid centres": sigmoid_centres,
    "pose": pose,
    "masks": masks,
    "numbers first": numbers_first,
}
