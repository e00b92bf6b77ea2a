"""Lines of printed text: where a model finds some, cuttings of them, and what another one reads.

Facts: how PaddleOCR takes regions from a map of probabilities, and characters from those along a
line. Regions are boxes here, which lie within their edges, for a comparison of two maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.pictures import Picture, pages

Floats = npt.NDArray[np.float32]

_TEXT, _SURE = 0.3, 0.5
"""Least probability of a pixel of text, and least mean of a region."""

_LEAST = 3
"""Least sides of a region, in pixels."""

_ENLARGED = 3
"""How many times the pages are enlarged, whose letters are small."""

_MARGIN = 0.4
"""What is shown around a line, in heights of its region, which lies within the letters."""

_MEAN = np.array((0.485, 0.456, 0.406), np.float32)
_DEVIATION = np.array((0.229, 0.224, 0.225), np.float32)


def session(file: Path) -> Any:
    """A model on ONNX Runtime, on one core."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def regions(probabilities: Floats) -> Floats:
    """Boxes [n,6] of the regions of a map of text, as objects of one class.

    Args:
        probabilities: [1,h,w,1] or [1,1,h,w].
    """
    ndimage: Any = import_module("scipy.ndimage")
    image = probabilities.squeeze()
    labels, _ = ndimage.label(image > _TEXT)
    rows = []
    for number, (y, x) in enumerate(ndimage.find_objects(labels), start=1):
        sure = float(image[y, x][labels[y, x] == number].mean())
        if sure >= _SURE and min(y.stop - y.start, x.stop - x.start) >= _LEAST:
            rows.append((x.start, y.start, x.stop, y.stop, sure, 0))
    return np.array(rows, np.float32).reshape(-1, 6)


def lines(
    finder: Path, extent: Sequence[int], count: int, *, held_out: bool, seed: int
) -> list[Floats]:
    """Parts of printed lines [1,h,w,3], -1 to 1; none where no page is installed.

    Args:
        finder: the model that finds lines.
        extent: height and width.
        count: how many.
        held_out: whether of the page for judging.
        seed: of the places.
    """
    random = np.random.default_rng(seed)
    found = [line for page in pages() if page.held_out == held_out for line in _lines(finder, page)]
    return [
        _part(found[number % len(found)], extent, random) for number in range(count if found else 0)
    ]


@cache
def _lines(finder: Path, page: Picture) -> tuple[Floats, ...]:
    """The lines of a page [h,w,3], 0 to 1, that are wide."""
    return tuple(_found(finder, page))


def _found(finder: Path, page: Picture) -> Iterator[Floats]:
    from PIL import Image

    height, width = (-(-_ENLARGED * side // 32) * 32 for side in page.pixels.shape[:2])
    large = Image.fromarray(page.pixels).resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(large, np.float32) / np.float32(255)
    given = ((pixels - _MEAN) / _DEVIATION).transpose(2, 0, 1)[None]
    (found,) = session(finder).run(None, {"x": given})
    for left, top, right, bottom, *_ in regions(found).astype(int):
        around = round(_MARGIN * (bottom - top))
        if right - left >= 3 * (bottom - top):
            yield pixels[max(top - around, 0) : bottom + around, left:right]


def _part(line: Floats, extent: Sequence[int], random: np.random.Generator) -> Floats:
    """A part of a line as high as the line, as a model takes it."""
    from PIL import Image

    height, width = extent
    wide = min(line.shape[1], round(line.shape[0] * width / height))
    left = int(random.integers(0, line.shape[1] - wide + 1))
    part = Image.fromarray(np.rint(line[:, left : left + wide] * 255).astype(np.uint8))
    shown = min(width, round(wide * height / line.shape[0]))
    result = np.zeros((1, height, width, 3), np.float32)
    scaled = part.resize((shown, height), Image.Resampling.BILINEAR)
    result[0, :, :shown] = np.asarray(scaled, np.float32) / 127.5 - 1
    return result


def read(probabilities: Floats) -> list[int]:
    """The characters of a line: the likeliest of every column [w,c], repeated ones once.

    The first stands for none, between characters.
    """
    best = probabilities.argmax(axis=1)
    fresh = np.diff(best, prepend=-1) != 0
    return [int(number) for number in best[fresh & (best > 0)]]


def edits(one: Sequence[int], other: Sequence[int]) -> int:
    """The fewest characters to insert, delete and replace that make one text another."""
    row = list(range(len(other) + 1))
    for number, mine in enumerate(one, start=1):
        before, row[0] = row[0], number
        for place, theirs in enumerate(other, start=1):
            best = min(before + (mine != theirs), row[place] + 1, row[place - 1] + 1)
            before, row[place] = row[place], best
    return row[-1]
