"""Heads whose boxes and scores are outputs of their own, not decoded by the model.

These are images of peaks (CenterNet), and boxes relative to anchors that the model does not hold
(BlazeFace and its family, EfficientDet, torchvision's SSD). Facts: their papers, and MediaPipe's
options.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import ANCHOR, BOX, CENTRE, SIZE, UNIT, BoxCoding
from fitzroy.compiler.ops.detections import DECODING
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, TransposeAttributes
from fitzroy.compiler.passes.heads.activation import activated
from fitzroy.compiler.passes.heads.anchors import Anchors, Grid, Scheme, anchors_of
from fitzroy.compiler.passes.heads.columns import MOVERS, Columns, Region
from fitzroy.compiler.passes.heads.head import Head, Points
from fitzroy.compiler.passes.heads.pairs import Pair
from fitzroy.compiler.passes.heads.schemes import scheme_of
from fitzroy.compiler.passes.heads.scores import is_rescaled, without_sigmoid
from fitzroy.compiler.passes.heads.segments import is_shared

_BLAZE_OVERLAP = 0.3
"""The overlap at which MediaPipe takes boxes for one object.

Its graphs of faces, palms and poses choose with this one (`min_suppression_threshold`), and average
the boxes of an object with their scores as weights (`algorithm: WEIGHTED`).
"""

_PAIR = 2
"""Numbers of an offset or of an extent."""

_ROWS_RANK = 3


def anchored_head(columns: Columns, pair: Pair, size: tuple[int, int], chosen: str | None) -> Head:
    """The head of boxes that are relative to anchors which the model does not hold.

    Args:
        columns: makes parts of values.
        pair: its boxes and scores.
        size: width and height of the image.
        chosen: the scheme, or a file of anchors; None to go by what boxes look like.

    Raises:
        FormatError: the file is none of anchors.
        UsageError: there is no such scheme or file.
        UnsupportedError: there are no anchors, or others than boxes, or no classes of objects.
    """
    graph = columns.graph
    _, count, wide = graph.type(pair.boxes).shape
    levels = grids(graph, pair.cells or pair.boxes) or []
    chosen = chosen or scheme_of(graph, pair, size, levels)
    if chosen is None:
        raise UnsupportedError(
            f"{pair.boxes!r} has {count} boxes relative to anchors, which the model does not hold",
            where=graph.name,
            hint=f"name them with --anchors: {', '.join(Scheme)}, or a file",
        )
    found = anchors_of(chosen, size, levels)
    _demand_numbers(graph, pair, found, chosen)
    if len(found.rows) != count:
        raise UnsupportedError(
            f"there are {len(found.rows)} anchors ({chosen}) for {count} boxes",
            where=graph.name,
            hint="choose others with --anchors",
        )
    classes = graph.type(pair.scores).shape[2]
    if found.background >= classes:
        raise UnsupportedError(
            f"{found.background} classes stand for no object ({chosen}), and there are {classes}",
            where=graph.name,
            hint="choose other anchors with --anchors",
        )
    scores, logits = _scores(columns, pair.scores, found)
    objectness = None if pair.objectness is None else _scores(columns, pair.objectness, found)[0]
    points = None
    if wide > BOX:
        places = columns.take(pair.boxes, 2, BOX, wide - BOX)
        points = Points(places, 1.0, 0.0, logits=False)
    boxes = activated(columns, columns.take(pair.boxes, 2, 0, BOX), found.sigmoids)
    return Head(
        size, boxes, found.coding, found.exponent, found.rows,
        (1.0, 1.0), scores, objectness, logits, found.background, points, y_first=found.y_first,
        averaged=chosen == Scheme.BLAZE,
        overlap=_BLAZE_OVERLAP if chosen == Scheme.BLAZE else None, root=found.root,
    )  # fmt: skip


def _demand_numbers(graph: Graph, pair: Pair, anchors: Anchors, chosen: str) -> None:
    """Refuse anchors of boxes that have other numbers than those of the model."""
    if chosen not in set(Scheme):
        return
    scheme = Scheme(chosen)
    numbers = {True: "distances to their edges", False: "offsets and extents"}
    wanted = anchors.coding is BoxCoding.DISTANCES
    if scheme.has_distributions != pair.distances:
        what = f"boxes have {numbers[pair.distances]}, those of {chosen} have {numbers[wanted]}"
    elif scheme.has_objectness != (pair.objectness is not None):
        words = {True: "an objectness", False: "no objectness"}
        found = words[pair.objectness is not None]
        what = f"boxes have {found}, those of {chosen} have {words[scheme.has_objectness]}"
    elif (anchors.sigmoids > 0) != pair.in_cells:
        words = {True: "the layers' of YOLOs", False: "others"}
        what = f"boxes are {words[pair.in_cells]}, those of {chosen} are {words[not pair.in_cells]}"
    else:
        return
    raise UnsupportedError(what, where=graph.name, hint="choose others with --anchors")


def _scores(columns: Columns, name: str, anchors: Anchors) -> tuple[str, bool]:
    """Scores, and whether they are logits."""
    graph = columns.graph
    if anchors.softmax:
        if is_shared(columns, Region(name, 2, 0, graph.type(name).shape[2])):
            return name, False
        made = graph.emit("softmax", [name], graph.type(name), SoftmaxAttributes())
        return made, False
    return without_sigmoid(columns, name) or name, True


def grids(graph: Graph, name: str, axis: int = 1) -> list[Grid] | None:
    """The images of cells that rows [1,n,c] come from, in order; None if they are not known.

    Args:
        graph: the graph.
        name: the rows.
        axis: the axis along which they are.
    """
    node = graph.producer(name)
    if node is None:
        return None
    a = node.attributes
    if isinstance(a, ConcatenationAttributes) and a.axis % graph.type(name).rank == axis:
        found = [grids(graph, str(part), axis) for part in node.inputs]
        return None if None in found else [grid for part in found for grid in part or ()]
    if isinstance(a, TransposeAttributes) and graph.type(name).rank == _ROWS_RANK:
        return grids(graph, str(node.inputs[0]), a.perm[axis])
    rows = graph.type(name).shape[axis]
    while node is not None and (node.op in MOVERS or is_rescaled(graph, node)):
        name = str(node.inputs[0])
        node = graph.producer(name)
    shape = graph.type(name).shape
    if len(shape) != 4 or rows % (shape[1] * shape[2]):
        return None
    return [Grid(shape[1], shape[2], rows // (shape[1] * shape[2]))]


# --- peaks ---------------------------------------------------------------------------------------


def peaks_head(columns: Columns, size: tuple[int, int]) -> Head | None:
    """The head of a model that gives images of scores, extents and offsets; None for others.

    Boxes are where scores are peaks. Offsets and extents count in cells, as in CenterNet. Models
    may find peaks themselves: what they make of scores for that is left out.
    """
    graph, outputs = columns.graph, _without_maxima(columns.graph)
    if len(outputs) != 3 or any(graph.type(name).rank != 4 for name in outputs):
        return None
    for channels in (1, 3):
        pairs = [name for name in outputs if graph.type(name).shape[channels] == _PAIR]
        others = [name for name in outputs if name not in pairs]
        if len(pairs) == 2 and len(others) == 1:
            break
    else:
        return None
    images = [
        columns.transposed(name, (0, 2, 3, 1)) if channels == 1 else name
        for name in (*others, *_extents_and_offsets(pairs))
    ]
    images[0] = _before_peaks(graph, images[0])
    cells = graph.type(images[0]).shape[1:3]
    if any(graph.type(name).shape[1:3] != cells for name in images):
        return None
    heat, extents, offsets = (
        columns.reshaped(name, (1, cells[0] * cells[1], graph.type(name).shape[3]))
        for name in images
    )
    scores = without_sigmoid(columns, heat) or heat
    # Offsets and extents have ranges of their own, so the host joins them, in float32.
    boxes = Columns(graph, DECODING).joined([offsets, extents], 2)
    return Head(
        size, boxes, BoxCoding.CENTRE_SIZES, 1.0, _corners(size, cells), (1.0, 1.0), scores,
        None, logits=True, once=True, peaks=cells[1],
    )  # fmt: skip


def _without_maxima(graph: Graph) -> list[str]:
    """The outputs of a model without those that are maxima around the elements of others."""
    stored = {name: _before_transposes(graph, name) for name in graph.outputs}
    return [name for name, image in stored.items() if _around(graph, image) not in stored.values()]


def _before_transposes(graph: Graph, name: str) -> str:
    node = graph.producer(name)
    while node is not None and node.op == "transpose":
        name = str(node.inputs[0])
        node = graph.producer(name)
    return name


def _around(graph: Graph, name: str) -> str | None:
    """The image of which a value is the maxima of 3 x 3 pixels; None if it is something else."""
    node = graph.producer(name)
    a = None if node is None else node.attributes
    if node is None or node.op != "max_pool_2d" or not isinstance(a, PoolAttributes):
        return None
    image = str(node.inputs[0])
    centred = a.kernel == (3, 3) and graph.type(image).shape == graph.type(name).shape
    return image if centred and a.stride == (1, 1) else None


def _before_peaks(graph: Graph, name: str) -> str:
    """The scores that a mask of peaks is applied to; the value itself if there is no such mask."""
    node = graph.producer(name)
    if node is None or node.op != "mul":
        return name
    first, second = map(str, node.inputs)
    for image, mask in ((first, second), (second, first)):
        if _is_mask_of_peaks(graph, mask, image):
            return image
    return name


def _is_mask_of_peaks(graph: Graph, mask: str, image: str) -> bool:
    """Whether a value is one where an image equals the maximum of its neighbourhood, else zero."""
    cast = graph.producer(mask)
    compared = None if cast is None or cast.op != "cast" else graph.producer(str(cast.inputs[0]))
    if compared is None or compared.op not in ("equal", "greater_equal"):
        return False
    names = [str(name) for name in compared.inputs]
    maxima = names[1] if names[0] == image or compared.op == "greater_equal" else names[0]
    return image in names and _around(graph, maxima) == image


def _extents_and_offsets(names: Sequence[str]) -> tuple[str, str]:
    """Two outputs in this order: by their names, or as the paper lists them."""
    first, second = names
    text = first.lower()
    return (second, first) if "off" in text or "reg" in text else (first, second)


def _corners(size: tuple[int, int], cells: Sequence[int]) -> np.ndarray:
    """Anchors [n,6] of cells, from whose first corner offsets count."""
    height, width = cells
    y, x = np.mgrid[:height, :width].reshape(2, -1)
    unit = np.array(size, np.float32) / np.array((width, height), np.float32)
    rows = np.empty((height * width, ANCHOR), np.float32)
    rows[:, CENTRE] = np.stack([x, y], axis=1) * unit
    rows[:, UNIT] = rows[:, SIZE] = unit
    return rows
