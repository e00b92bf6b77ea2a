"""Which published anchors a head without any goes by, where its structure says so.

Facts: the configurations of effdet, NanoDet, YOLOX, torchvision, MediaPipe and TensorFlow's object
detection, and what YuNet, SCRFD, RetinaFace, RTMDet and FCOS give.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import BOX
from fitzroy.compiler.passes.heads.anchors import Grid, Scheme
from fitzroy.compiler.passes.heads.distances import Distances, distances_of
from fitzroy.compiler.passes.heads.pairs import Pair
from fitzroy.compiler.passes.heads.segments import last_nodes

_OF_DISTRIBUTIONS = {3: Scheme.NANODET, 4: Scheme.NANODET_PLUS, 5: Scheme.GFL}
"""By the number of levels."""

_SSDS: dict[tuple[tuple[int, int], ...], Scheme] = {
    ((38, 4), (19, 6), (10, 6), (5, 6), (3, 4), (1, 4)): Scheme.SSD300,
    ((20, 6), (10, 6), (5, 6), (3, 6), (2, 6), (1, 6)): Scheme.SSDLITE,
}
"""By cells of a row and boxes of a cell, for each level."""

_SSD_PIXELS = {Scheme.SSD300: (300, 300), Scheme.SSDLITE: (320, 320)}

_TENSORFLOWS = {
    (3, 6, 6, 6, 6, 6): (Scheme.SSD_MOBILENET, 16),
    (6, 6, 6, 6, 6): (Scheme.SSD_FPN, 8),
}
"""By boxes of a cell, for each level: TensorFlow's, and the pixels of the first level's cells."""

_RTMDET_LEVELS = 3
_FCOS_LEVELS = 5
_EFFICIENTDET_LEVELS = 5
_EFFICIENTDET_BOXES = 9
_FIRST_STRIDE = 8
_THREE_STRIDES = (64, 88, 112, 200)
"""Channels of the heads of EfficientDet-Lite0, 1, 2 and 3x, whose anchors are of three strides."""


def scheme_of(
    graph: Graph, pair: Pair, size: tuple[int, int], levels: Sequence[Grid]
) -> Scheme | None:
    """The anchors that boxes are relative to; None if nothing says it.

    Args:
        graph: the graph.
        pair: its boxes and scores.
        size: width and height of the image.
        levels: the cells that boxes come from.
    """
    if graph.type(pair.boxes).shape[2] > BOX:
        return _of_points(graph, pair) if pair.apart else Scheme.BLAZE
    if pair.distances:
        return _OF_DISTRIBUTIONS.get(len(levels))
    distances = distances_of(graph, pair.cells or pair.boxes)
    if distances is not None:
        return _of_distances(pair, distances, size, levels)
    if pair.apart or pair.in_cells:
        # Nothing says how these are decoded: several families have such outputs.
        return None
    if pair.objectness is not None:
        return Scheme.YOLOX
    sigmoids = _has_sigmoids(graph, pair)
    found = _SSDS.get(tuple((grid.width, grid.boxes) for grid in levels))
    if found is not None and _SSD_PIXELS[found] == size and not sigmoids:
        return found
    if sigmoids and (found := _of_tensorflow(size, levels)) is not None:
        return found
    return _efficientdet(graph, pair, size, levels)


def _of_points(graph: Graph, pair: Pair) -> Scheme:
    """Face detectors whose keypoints are outputs of their own, by how scores are computed."""
    if pair.objectness is not None:
        return Scheme.YUNET
    return Scheme.SCRFD if _has_sigmoids(graph, pair) else Scheme.RETINAFACE


def _of_distances(
    pair: Pair, found: Distances, size: tuple[int, int], levels: Sequence[Grid]
) -> Scheme | None:
    """Distances that are made positive: in pixels in RTMDet, in cells in torchvision's FCOS.

    FCOS has a score of being in the middle beside those of classes, and rectifiers. Others of its
    kind, which multiply by pixels or have exponentials, are decoded in several ways.
    """
    strides = [_FIRST_STRIDE << level for level in range(len(levels))]
    if [(grid.width, grid.height) for grid in levels] != _cells_of(size, strides):
        return None
    if len(levels) == _RTMDET_LEVELS and pair.objectness is None:
        cells = np.repeat(strides, [grid.width * grid.height for grid in levels])
        return Scheme.RTMDET if np.array_equal(found.units, cells) else None
    central = pair.objectness is not None and found.rectified and bool((found.units == 1).all())
    return Scheme.FCOS if len(levels) == _FCOS_LEVELS and central else None


def _cells_of(size: tuple[int, int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Width and height of the images of cells of so many pixels."""
    width, height = size
    return [(-(-width // stride), -(-height // stride)) for stride in strides]


def _of_tensorflow(size: tuple[int, int], levels: Sequence[Grid]) -> Scheme | None:
    """TensorFlow's SSDs, by the boxes of a cell and by cells that halve from level to level."""
    found = _TENSORFLOWS.get(tuple(grid.boxes for grid in levels))
    if found is None:
        return None
    scheme, stride = found
    strides = [stride << level for level in range(len(levels))]
    cells = _cells_of(size, strides)
    return scheme if [(grid.width, grid.height) for grid in levels] == cells else None


def _has_sigmoids(graph: Graph, pair: Pair) -> bool:
    """Whether every class has a score of its own: in TensorFlow's SSDs, not in torchvision's."""
    return any(node.op == "sigmoid" for node in last_nodes(graph, pair.scores))


def _efficientdet(
    graph: Graph, pair: Pair, size: tuple[int, int], levels: Sequence[Grid]
) -> Scheme | None:
    """EfficientDet's, whose heads end in separable convolutions, which RetinaNet's do not."""
    strides = [_FIRST_STRIDE << level for level in range(_EFFICIENTDET_LEVELS)]
    cells = [(*cells, _EFFICIENTDET_BOXES) for cells in _cells_of(size, strides)]
    if [(grid.width, grid.height, grid.boxes) for grid in levels] != cells:
        return None
    channels = set()
    for node in last_nodes(graph, pair.boxes):
        before = graph.producer(str(node.inputs[0]))
        if before is None or before.op != "depthwise_conv_2d":
            return None
        channels.add(graph.type(before.outputs[0]).shape[3])
    three = channels <= set(_THREE_STRIDES) and not _has_gates(graph)
    return Scheme.EFFICIENTDET_LITE if three else Scheme.EFFICIENTDET


def _has_gates(graph: Graph) -> bool:
    """Whether sigmoids scale features, as in SiLU and in squeeze-and-excitation blocks."""
    return any(
        reader.op == "mul"
        for node in graph.nodes()
        if node.op == "sigmoid"
        for reader in graph.consumers(node.outputs[0])
    )
