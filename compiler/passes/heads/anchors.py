"""Anchors that a model does not hold: those of published schemes, or given as a file.

Facts: MediaPipe's options of SSD anchors, with one size for all; the anchors of EfficientDet; the
default boxes of torchvision's SSD300 and SSDlite, and the anchors of its RetinaNet and FCOS,
confirmed with the packages' own; the anchors in the configurations of YOLOv3, YOLOv4, YOLOv5 and
YOLOv7; the generators
``ssd_anchor_generator`` and ``multiscale_anchor_generator`` of TensorFlow's object detection, with
the settings of its published models, confirmed with the anchors of one; the decoders of YOLOX,
NanoDet, NanoDet-Plus, YuNet, SCRFD and RetinaFace, whose squares are in its configuration; those of
MMDetection for RTMDet, FCOS and GFL.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import FormatError, UnsupportedError, UsageError
from fitzroy.base.files import read_file
from fitzroy.compiler.ops.box_coding import ANCHOR, BOX, CENTRE, SIZE, UNIT, BoxCoding
from fitzroy.formats.json_document import read_json

Floats = npt.NDArray[np.float32]


class Scheme(StrEnum):
    """Published anchors.

    Attributes:
        BLAZE: BlazeFace, BlazePalm and BlazePose of MediaPipe.
        EFFICIENTDET: EfficientDet, with anchors of 4 strides.
        EFFICIENTDET_LITE: the same with anchors of 3 strides, as Lite0 to Lite2 have them.
        SSD300: torchvision's SSD300 with VGG16.
        SSDLITE: torchvision's SSDlite320.
        SSD_MOBILENET: SSD and SSDLite of TensorFlow on MobileNet v1 to v3 or MobileDet.
        SSD_FPN: the same with feature pyramids, as FPNLite.
        YUNET: corners of cells likewise, with keypoints; scores are roots of products.
        SCRFD: corners of cells, whose distances to edges count in cells, with keypoints.
        RETINAFACE: squares of 16 to 512 pixels, two in each cell, with keypoints.
        YOLOX: corners of cells, from 8 pixels on, as YOLOX's exporter leaves them.
        NANODET: middles of cells, whose distances to edges count in cells.
        NANODET_PLUS: corners of cells likewise.
        GFL: corners of cells likewise, on five levels: generalized focal loss.
        RETINANET: torchvision's RetinaNet.
        FCOS: torchvision's FCOS, whose scores are roots of products.
        FCOS_MMDET: FCOS of MMDetection, from the middles of cells; scores are products.
        RTMDET: RTMDet of MMDetection: corners of cells, whose distances to edges count in pixels.
        YOLOV3: YOLOv3, trained on COCO, as its layers give it; the next three likewise.
        YOLOV4: YOLOv4.
        YOLOV5: YOLOv5.
        YOLOV7: YOLOv7.
    """

    BLAZE = "blaze"
    EFFICIENTDET = "efficientdet"
    EFFICIENTDET_LITE = "efficientdet-lite"
    SSD300 = "ssd300"
    SSDLITE = "ssdlite"
    SSD_MOBILENET = "ssd-mobilenet"
    SSD_FPN = "ssd-fpn"
    YUNET = "yunet"
    SCRFD = "scrfd"
    RETINAFACE = "retinaface"
    YOLOX = "yolox"
    NANODET = "nanodet"
    NANODET_PLUS = "nanodet-plus"
    GFL = "gfl"
    RETINANET = "retinanet"
    FCOS = "fcos"
    FCOS_MMDET = "fcos-mmdet"
    RTMDET = "rtmdet"
    YOLOV3 = "yolov3"
    YOLOV4 = "yolov4"
    YOLOV5 = "yolov5"
    YOLOV7 = "yolov7"

    @property
    def has_objectness(self) -> bool:
        """Whether a score is that of a class times that of being any object."""
        return self in (Scheme.YUNET, Scheme.YOLOX, Scheme.FCOS, Scheme.FCOS_MMDET, *YOLOS)

    @property
    def has_distributions(self) -> bool:
        """Whether distances were distributions."""
        return self in (Scheme.NANODET, Scheme.NANODET_PLUS, Scheme.GFL)


@dataclass(frozen=True, slots=True)
class Grid:
    """Boxes of a level: some in each cell of an image.

    Attributes:
        height: rows of cells.
        width: columns of cells.
        boxes: boxes of a cell.
    """

    height: int
    width: int
    boxes: int


@dataclass(frozen=True)
class Anchors:
    """Anchors, and how boxes and scores are encoded that are relative to them.

    Attributes:
        rows: [n,6], in pixels.
        coding: the coding.
        exponent: factor of logarithms of extents.
        y_first: whether boxes have y before x.
        softmax: whether the classes of a box share one probability, and not each has its own.
        background: how many of the first classes stand for no object.
        root: whether a score is the square root of the product of a class's and the objectness.
        sigmoids: how many of the first numbers of a box go through a sigmoid before.
    """

    rows: Floats
    coding: BoxCoding
    exponent: float = 1.0
    y_first: bool = False
    softmax: bool = False
    background: int = 0
    root: bool = False
    sigmoids: int = 0


def anchors_of(chosen: str, size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    """The anchors that an option names.

    Args:
        chosen: a scheme, or the path of a file.
        size: width and height of the image.
        grids: the levels of the model's boxes.

    Raises:
        FormatError: the file is none of anchors.
        UsageError: there is no such scheme or file.
        UnsupportedError: the levels of the model are unknown, and the scheme goes by them, or are
            others than those of the scheme.
    """
    if chosen not in set(Scheme):
        if not os.path.exists(chosen):
            raise UsageError(
                "there is no such scheme or file of anchors",
                where=f"--anchors {chosen}",
                hint=f"schemes are {', '.join(Scheme)}",
            )
        found = parse_anchors(read_file(chosen), chosen)
        if isinstance(found, Anchors):
            return found
        _demand_grids(grids, chosen)
        return found.anchors(size, grids)
    _demand_grids(grids, chosen)
    return _SCHEMES[Scheme(chosen)](size, grids)


def _demand_grids(grids: Sequence[Grid], chosen: str) -> None:
    if not grids:
        raise UnsupportedError(
            "no images of cells are found that boxes come from",
            where=f"anchors {chosen}",
            hint="give the anchors as a file",
        )


# --- schemes -------------------------------------------------------------------------------------


def _cells(size: tuple[int, int], grid: Grid) -> Floats:
    """Centres [h*w,2] of cells, in pixels."""
    y, x = np.mgrid[: grid.height, : grid.width] + 0.5
    pixels = np.array(size) / (grid.width, grid.height)
    found: Floats = (np.stack([x.ravel(), y.ravel()], axis=1) * pixels).astype(np.float32)
    return found


def _rows(centre: Floats, unit: Floats | float, extent: Floats | float) -> Floats:
    """Anchors [n,6]."""
    found = np.empty((len(centre), ANCHOR), np.float32)
    found[:, CENTRE], found[:, UNIT], found[:, SIZE] = centre, unit, extent
    return found


def _blaze(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    """Anchors of one pixel, as many in each cell as the model has boxes there."""
    rows = [_rows(np.repeat(_cells(size, grid), grid.boxes, axis=0), 1, 1) for grid in grids]
    return Anchors(np.concatenate(rows), BoxCoding.CENTRE_SIZES)


_OCTAVES = 3
_ASPECTS = ((1.0, 1.0), (1.4, 0.7), (0.7, 1.4))


def _efficientdet(size: tuple[int, int], grids: Sequence[Grid], strides: float) -> Anchors:
    """Anchors of three sizes and three shapes in each cell."""
    _demand_boxes(grids, [_OCTAVES * len(_ASPECTS)] * len(grids))
    shapes = np.array(
        [
            np.array(aspect) * 2 ** (octave / _OCTAVES)
            for octave in range(_OCTAVES)
            for aspect in _ASPECTS
        ]
    )
    rows = []
    for grid in grids:
        extents = shapes * strides * np.array(size) / (grid.width, grid.height)
        rows.append(_shaped(_cells(size, grid), extents, 1.0))
    return Anchors(np.concatenate(rows), BoxCoding.EXPONENTIAL, 1.0, y_first=True)


_SSD300 = (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05)
_SSD300_STEPS = (8, 16, 32, 64, 100, 300)
_SSD300_RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
_SSDLITE = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
_SSD_CENTRES, _SSD_EXTENTS = 0.1, 0.2
"""Factors of offsets and of logarithms."""


def _ssd300(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    return _ssd(size, grids, _SSD300, _SSD300_RATIOS, _SSD300_STEPS)


def _ssdlite(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    return _ssd(size, grids, _SSDLITE, ((2, 3),) * 6, None)


def _ssd(
    size: tuple[int, int],
    grids: Sequence[Grid],
    scales: Sequence[float],
    ratios: Sequence[Sequence[int]],
    steps: Sequence[int] | None,
) -> Anchors:
    """Default boxes: squares of two sizes, and for each ratio a wide and a high one.

    None is wider or higher than the image.
    """
    _demand_boxes(grids, [2 + 2 * len(found) for found in ratios])
    rows = []
    for level, grid in enumerate(grids):
        scale, between = scales[level], math.sqrt(scales[level] * scales[level + 1])
        shapes = [(scale, scale), (between, between)]
        for ratio in ratios[level]:
            root = math.sqrt(ratio)
            shapes += [(scale * root, scale / root), (scale / root, scale * root)]
        cells = _cells(size, grid)
        if steps is not None:
            # Cells are a step apart, whether or not they fill the image.
            cells = cells / np.array(size) * (grid.width, grid.height) * steps[level]
        rows.append(_shaped(cells.astype(np.float32), np.minimum(shapes, 1.0) * size, _SSD_CENTRES))
    return Anchors(
        np.concatenate(rows), BoxCoding.EXPONENTIAL, _SSD_EXTENTS, softmax=True, background=1
    )


_TENSORFLOW = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
"""Scales of the six levels, and of what follows the last of them."""

_TENSORFLOW_FIRST = ((0.1, 1.0), (0.2, 2.0), (0.2, 0.5))
"""Scales and ratios of width to height of the first level's anchors."""

_TENSORFLOW_RATIOS = (1.0, 2.0, 0.5, 3.0, 0.3333)
"""Ratios of the other levels' anchors, as written in the configurations of the models."""

_FPN_RATIOS = (1.0, 2.0, 0.5)
_FPN_OCTAVES = 2
_FPN_STRIDES = 4.0
_FPN_LEVELS = 5


def _ssd_mobilenet(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    """Six anchors in a cell, three in one of the first level.

    Scales are in parts of the image's shorter side. The last anchor of a cell is a square between
    the scales of its level and of the next one.
    """
    levels: list[tuple[tuple[float, float], ...]] = [_TENSORFLOW_FIRST]
    for scale, following in pairwise(_TENSORFLOW[1:]):
        between = math.sqrt(scale * following)
        levels.append((*((scale, ratio) for ratio in _TENSORFLOW_RATIOS), (between, 1.0)))
    _demand_boxes(grids, [len(level) for level in levels])
    rows = [
        _shaped(_cells(size, grid), min(size) * _extents(level), _SSD_CENTRES)
        for grid, level in zip(grids, levels, strict=True)
    ]
    return _of_tensorflow(rows)


def _ssd_fpn(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    """Three shapes in two sizes on each level, the smaller first.

    The first cell's anchors are in its middle where cells fill the image, otherwise in its corner.
    """
    shapes = [
        (2 ** (octave / _FPN_OCTAVES), ratio)
        for ratio in _FPN_RATIOS
        for octave in range(_FPN_OCTAVES)
    ]
    _demand_boxes(grids, [len(shapes)] * _FPN_LEVELS)
    rows = []
    for stride, grid in zip(_strides(size, grids), grids, strict=True):
        y, x = np.mgrid[: grid.height, : grid.width]
        offset = [0.0 if extent % stride else 0.5 for extent in size]
        cells = (np.stack([x.ravel(), y.ravel()], axis=1) + offset) * stride
        extents = _FPN_STRIDES * stride * _extents(shapes)
        rows.append(_shaped(cells.astype(np.float32), extents, _SSD_CENTRES))
    return _of_tensorflow(rows)


def _extents(shapes: Sequence[tuple[float, float]]) -> npt.NDArray[np.float64]:
    """Widths and heights [k,2] of scales and ratios of width to height."""
    return np.array([(scale * math.sqrt(r), scale / math.sqrt(r)) for scale, r in shapes])


def _of_tensorflow(rows: Sequence[Floats]) -> Anchors:
    return Anchors(
        np.concatenate(rows), BoxCoding.EXPONENTIAL, _SSD_EXTENTS, y_first=True, background=1
    )


def _shaped(cells: Floats, extents: npt.NDArray[np.float64], unit: float) -> Floats:
    """Anchors of all extents [k,2] in every cell; offsets are in parts of the extent."""
    centre = np.repeat(cells, len(extents), axis=0)
    extent = np.tile(extents, (len(cells), 1)).astype(np.float32)
    return _rows(centre, extent * np.float32(unit), extent)


def _demand_boxes(grids: Sequence[Grid], wanted: Sequence[int]) -> None:
    found = [grid.boxes for grid in grids]
    if found != list(wanted):
        raise UnsupportedError(
            f"the model has {found} boxes in a cell of its levels, the scheme {list(wanted)}",
            where="anchors",
            hint="give the anchors as a file",
        )


_FIRST_STRIDE = 8
"""Pixels of the first level's cells; those of each other are twice the last one's."""


def _strides(size: tuple[int, int], grids: Sequence[Grid]) -> list[int]:
    """Pixels of the cells of each level.

    Args:
        size: width and height of the image.
        grids: its levels.

    Raises:
        UnsupportedError: a level has other cells than such.
    """
    strides = [_FIRST_STRIDE << level for level in range(len(grids))]
    for level, (stride, grid) in enumerate(zip(strides, grids, strict=True)):
        wanted = tuple(-(-extent // stride) for extent in size)
        if (grid.width, grid.height) != wanted:
            raise UnsupportedError(
                f"level {level} has {grid.width} x {grid.height} cells, and cells of {stride} "
                f"pixels are {wanted[0]} x {wanted[1]}",
                where="anchors",
                hint="give the anchors as a file",
            )
    return strides


def _points(size: tuple[int, int], grids: Sequence[Grid], middle: float) -> tuple[Floats, Floats]:
    """Points [n,2] of cells, one for each box there, and extents [n,1] of cells in pixels.

    Args:
        size: width and height of the image.
        grids: its levels.
        middle: where in a cell the point is.
    """
    points, strides = [], []
    for stride, grid in zip(_strides(size, grids), grids, strict=True):
        y, x = np.mgrid[: grid.height, : grid.width] + middle
        cells = np.stack([x.ravel(), y.ravel()], axis=1) * stride
        points.append(np.repeat(cells, grid.boxes, axis=0))
        strides.append(np.full((len(points[-1]), 1), stride))
    return np.concatenate(points).astype(np.float32), np.concatenate(strides).astype(np.float32)


def _yolox(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    _demand_boxes(grids, [1] * len(grids))
    points, strides = _points(size, grids, 0.0)
    return Anchors(_rows(points, strides, strides), BoxCoding.EXPONENTIAL)


def _yunet(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    return replace(_yolox(size, grids), root=True)


def _scrfd(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    points, strides = _points(size, grids, 0.0)
    return Anchors(_rows(points, strides, 0.0), BoxCoding.DISTANCES)


_RETINAFACE = ((16, 32), (64, 128), (256, 512))
"""Pixels of the squares of a cell, for each level."""


def _retinaface(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    """Two squares in the middle of each cell."""
    _demand_boxes(grids, [len(sides) for sides in _RETINAFACE])
    points, _ = _points(size, grids, 0.5)
    sides = [
        np.tile(pair, grid.height * grid.width)
        for pair, grid in zip(_RETINAFACE, grids, strict=True)
    ]
    extents = np.concatenate(sides).astype(np.float32)[:, None]
    rows = _rows(points, extents * np.float32(_SSD_CENTRES), extents)
    return Anchors(rows, BoxCoding.EXPONENTIAL, _SSD_EXTENTS, softmax=True, background=1)


def _nanodet(middle: float) -> Callable[[tuple[int, int], Sequence[Grid]], Anchors]:
    def anchors(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
        _demand_boxes(grids, [1] * len(grids))
        points, strides = _points(size, grids, middle)
        return Anchors(_rows(points, strides, 0.0), BoxCoding.DISTANCES)

    return anchors


_RETINANET = (32, 64, 128, 256, 512)
"""Pixels of the smallest square of each level."""

_RETINANET_RATIOS = (0.5, 1.0, 2.0)
"""Ratios of height to width."""

_FCOS = (8, 16, 32, 64, 128)
"""Pixels of a unit of distances on each level."""


def _corners_of_cells(size: tuple[int, int], grid: Grid) -> Floats:
    """First corners [h*w,2] of cells, in pixels, as torchvision places them.

    A cell has whole pixels, whether or not all of them fill the image.
    """
    y, x = np.mgrid[: grid.height, : grid.width]
    steps = size[0] // grid.width, size[1] // grid.height
    found: Floats = (np.stack([x.ravel(), y.ravel()], axis=1) * steps).astype(np.float32)
    return found


def _retinanet(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    """Three shapes in three sizes on each level, the smallest first; edges are whole pixels."""
    _demand_boxes(grids, [_OCTAVES * len(_RETINANET_RATIOS)] * len(_RETINANET))
    rows = []
    for grid, side in zip(grids, _RETINANET, strict=True):
        sides = [int(side * 2 ** (octave / _OCTAVES)) for octave in range(_OCTAVES)]
        shapes = [(s / math.sqrt(r), s * math.sqrt(r)) for r in _RETINANET_RATIOS for s in sides]
        extents = 2 * np.rint(np.array(shapes) / 2)
        rows.append(_shaped(_corners_of_cells(size, grid), extents, 1.0))
    return Anchors(np.concatenate(rows), BoxCoding.EXPONENTIAL)


def _fcos(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
    _demand_boxes(grids, [1] * len(_FCOS))
    rows = [
        _rows(_corners_of_cells(size, grid), float(unit), 0.0)
        for grid, unit in zip(grids, _FCOS, strict=True)
    ]
    return Anchors(np.concatenate(rows), BoxCoding.DISTANCES, root=True)


def _pixels(middle: float) -> Callable[[tuple[int, int], Sequence[Grid]], Anchors]:
    """Points of cells, whose distances count in pixels."""

    def anchors(size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
        _demand_boxes(grids, [1] * len(grids))
        points, _ = _points(size, grids, middle)
        return Anchors(_rows(points, 1.0, 0.0), BoxCoding.DISTANCES)

    return anchors


@dataclass(frozen=True)
class Yolo:
    """How a YOLO decodes what its layers give.

    Attributes:
        extents: widths and heights in pixels, three of each level, those of the finest cells first.
        squares: whether extents are squares of sigmoids, and not exponentials.
        reach: cells that the sigmoids of centres reach over, by the pixels of a cell.
    """

    extents: tuple[tuple[float, float], ...]
    squares: bool
    reach: Mapping[int, float]

    def anchors(self, size: tuple[int, int], grids: Sequence[Grid]) -> Anchors:
        """The anchors of a model, whose levels come in any order.

        Raises:
            UnsupportedError: it has other levels, or other cells.
        """
        _demand_boxes(grids, [YOLO_BOXES] * (len(self.extents) // YOLO_BOXES))
        strides = [_stride(size, grid) for grid in grids]
        if len(set(strides)) < len(strides) or not set(strides) <= set(self.reach):
            raise UnsupportedError(
                f"levels have cells of {_listed(strides)} pixels, and those that are known have "
                f"{_listed(self.reach)}",
                where="anchors",
                hint="choose others with --anchors",
            )
        rows = []
        for grid, stride in zip(grids, strides, strict=True):
            first = sorted(strides).index(stride) * YOLO_BOXES
            extents = np.array(self.extents[first : first + YOLO_BOXES])
            # A sigmoid of a half is the middle of a cell, whatever it reaches over.
            unit = self.reach[stride] * stride
            centre = _corners_of_cells(size, grid) + np.float32((stride - unit) / 2)
            found = _shaped(centre, extents * (_SQUARE if self.squares else 1), 1.0)
            found[:, UNIT] = unit
            rows.append(found)
        coding = BoxCoding.SQUARES if self.squares else BoxCoding.EXPONENTIAL
        return Anchors(np.concatenate(rows), coding, sigmoids=BOX if self.squares else CENTRE.stop)


def _stride(size: tuple[int, int], grid: Grid) -> int:
    """Pixels of a cell; 0 if cells do not fill the image."""
    stride = size[0] // grid.width
    return stride if (stride * grid.width, stride * grid.height) == size else 0


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


YOLO_BOXES = 3
"""Boxes of a cell in each of them."""

_SQUARE = 4
"""Twice a sigmoid, squared, is so many times its square."""

_OF_YOLOV3 = (
    (10, 13), (16, 30), (33, 23), (30, 61), (62, 45), (59, 119), (116, 90), (156, 198), (373, 326),
)  # fmt: skip
_OF_YOLOV4 = (
    (12, 16), (19, 36), (40, 28), (36, 75), (76, 55), (72, 146), (142, 110), (192, 243), (459, 401),
)  # fmt: skip
_ONE, _TWO = (dict.fromkeys((8, 16, 32, 64), reach) for reach in (1.0, 2.0))
YOLOS = {
    Scheme.YOLOV3: Yolo(_OF_YOLOV3, squares=False, reach=_ONE),
    Scheme.YOLOV4: Yolo(_OF_YOLOV4, squares=False, reach={8: 1.2, 16: 1.1, 32: 1.05}),
    Scheme.YOLOV5: Yolo(_OF_YOLOV3, squares=True, reach=_TWO),
    Scheme.YOLOV7: Yolo(_OF_YOLOV4, squares=True, reach=_TWO),
}
"""The published settings for COCO."""


def _wide(strides: float) -> Callable[[tuple[int, int], Sequence[Grid]], Anchors]:
    return lambda size, grids: _efficientdet(size, grids, strides)


_SCHEMES: dict[Scheme, Callable[[tuple[int, int], Sequence[Grid]], Anchors]] = {
    Scheme.BLAZE: _blaze,
    Scheme.EFFICIENTDET: _wide(4.0),
    Scheme.EFFICIENTDET_LITE: _wide(3.0),
    Scheme.SSD300: _ssd300,
    Scheme.SSDLITE: _ssdlite,
    Scheme.SSD_MOBILENET: _ssd_mobilenet,
    Scheme.SSD_FPN: _ssd_fpn,
    Scheme.YUNET: _yunet,
    Scheme.SCRFD: _scrfd,
    Scheme.RETINAFACE: _retinaface,
    Scheme.YOLOX: _yolox,
    Scheme.NANODET: _nanodet(0.5),
    Scheme.NANODET_PLUS: _nanodet(0.0),
    Scheme.GFL: _nanodet(0.0),
    Scheme.RETINANET: _retinanet,
    Scheme.FCOS: _fcos,
    Scheme.FCOS_MMDET: _pixels(0.5),
    Scheme.RTMDET: _pixels(0.0),
    **{scheme: yolo.anchors for scheme, yolo in YOLOS.items()},
}


# --- files ---------------------------------------------------------------------------------------

_KEYS = {"anchors", "coding", "factors", "y_first", "scores", "background"}
_CODINGS = [coding.value for coding in BoxCoding if coding.has_anchors]
_MOST_BYTES = 1 << 24
_LARGEST = 1e6
"""Largest number in a file of anchors: no image has so many pixels in a row."""


def parse_anchors(data: bytes, path: str) -> Anchors | Yolo:
    """Anchors of a JSON file, or those of a YOLO; errors name its path.

    It is a map of ``anchors``, a list of x and y of the centre, width and height in pixels of the
    model's input; ``coding``, a `BoxCoding`; ``factors``, by which offsets and extents are
    multiplied, by default both by 1; ``y_first``; ``scores``, which are ``sigmoid`` or ``softmax``;
    ``background``, how many of the first classes stand for no object. All but the first may be
    absent. With ``decoder``, one of `YOLOS`, it has only ``anchors`` beside that: widths and
    heights, three of each level, those of the finest cells first.

    Raises:
        FormatError: it is none.
    """
    given = read_json(data, path, "anchors", _MOST_BYTES)
    if isinstance(given, dict) and "decoder" in given:
        return _parsed_yolo(given, path)
    if not isinstance(given, dict) or "anchors" not in given or set(given) - _KEYS:
        raise _wrong(path, f"it is no map of anchors and maybe {', '.join(sorted(_KEYS))}")
    rows = _numbers(path, given["anchors"], "anchors", (-1, BOX))
    factors = _numbers(path, given.get("factors", [1, 1]), "factors", (2,))
    coding, scores = given.get("coding", "exponential"), given.get("scores", "sigmoid")
    if coding not in _CODINGS:
        raise _wrong(path, f"the coding is {coding!r}, not {', '.join(_CODINGS)}")
    if scores not in ("sigmoid", "softmax"):
        raise _wrong(path, f"scores are {scores!r}, not sigmoid or softmax")
    y_first, background = given.get("y_first", False), given.get("background", 0)
    if not isinstance(y_first, bool) or type(background) is not int or background < 0:
        raise _wrong(path, f"y_first is {y_first!r} and background {background!r}")
    centre, extent = rows[:, :2], rows[:, 2:]
    _demand_extents(path, extent)
    exponential = coding == BoxCoding.EXPONENTIAL
    size = extent if exponential else extent * factors[1]
    exponent = float(factors[1]) if exponential else 1.0
    return Anchors(
        _rows(centre, extent * factors[0], size), BoxCoding(coding), exponent, y_first,
        scores == "softmax", background,
    )  # fmt: skip


def _parsed_yolo(given: dict[str, object], path: str) -> Yolo:
    if set(given) != {"anchors", "decoder"}:
        raise _wrong(path, "it is no map of anchors and decoder")
    known = {scheme.value: yolo for scheme, yolo in YOLOS.items()}
    decoder = given["decoder"]
    if not isinstance(decoder, str) or decoder not in known:
        raise _wrong(path, f"the decoder is {decoder!r}, not {', '.join(known)}")
    extents = _numbers(path, given["anchors"], "anchors", (-1, 2))
    if not len(extents) or len(extents) % YOLO_BOXES:
        raise _wrong(path, f"there are {len(extents)} anchors, not {YOLO_BOXES} of each level")
    _demand_extents(path, extents)
    return replace(known[decoder], extents=tuple((float(w), float(h)) for w, h in extents))


def _demand_extents(path: str, extents: Floats) -> None:
    if not (extents > 0).all():
        raise _wrong(path, f"an anchor is {extents.min():g} pixels wide or high")


def _numbers(path: str, given: object, name: str, shape: tuple[int, ...]) -> Floats:
    try:
        with np.errstate(over="ignore"):
            found = np.array(given, np.float32)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(path, f"{name} are no numbers") from None
    fits = found.ndim == len(shape) and all(
        want in (-1, extent) for want, extent in zip(shape, found.shape, strict=True)
    )
    if not fits or not (np.abs(found) <= _LARGEST).all():
        wanted = "x".join("n" if extent < 0 else str(extent) for extent in shape)
        raise _wrong(
            path, f"{name} are {list(found.shape)} numbers, not {wanted} up to {_LARGEST:g}"
        )
    return found


def _wrong(path: str, reason: str) -> FormatError:
    return FormatError(reason, path=path, hint="docs/detections.md says what a file has")
