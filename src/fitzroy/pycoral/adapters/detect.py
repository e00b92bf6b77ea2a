"""Models that find objects and their places in an image."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from fitzroy.base.types import Array
from fitzroy.pycoral.adapters.common import Tensors, input_size, output_tensor
from fitzroy.tflite_runtime.errors import ArgumentError

__all__ = ["BBox", "Object", "get_objects"]


class Detector(Tensors, Protocol):
    """An interpreter whose model may have a signature."""

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]: ...


class BBox(NamedTuple):
    """A rectangle, usually in pixels; right and bottom edge do not belong to it."""

    xmin: float
    ymin: float
    xmax: float
    ymax: float

    @property
    def width(self) -> float:
        """Extent in x."""
        return self.xmax - self.xmin

    @property
    def height(self) -> float:
        """Extent in y."""
        return self.ymax - self.ymin

    @property
    def area(self) -> float:
        """Product of the extents."""
        return self.width * self.height

    @property
    def valid(self) -> bool:
        """Whether no extent is negative."""
        return self.width >= 0 and self.height >= 0

    def scale(self, sx: float, sy: float) -> BBox:
        """The rectangle with coordinates times `sx` and `sy`."""
        return BBox(self.xmin * sx, self.ymin * sy, self.xmax * sx, self.ymax * sy)

    def translate(self, dx: float, dy: float) -> BBox:
        """The rectangle moved by `dx` and `dy`."""
        return BBox(self.xmin + dx, self.ymin + dy, self.xmax + dx, self.ymax + dy)

    def map(self, f: Callable[[float], float]) -> BBox:
        """The rectangle with a function of every coordinate."""
        return BBox(*(f(value) for value in self))

    @staticmethod
    def intersect(a: BBox, b: BBox) -> BBox:
        """What two rectangles have in common; not valid if they do not touch."""
        return BBox(*map(max, a[:2], b[:2]), *map(min, a[2:], b[2:]))

    @staticmethod
    def union(a: BBox, b: BBox) -> BBox:
        """The smallest rectangle around two."""
        return BBox(*map(min, a[:2], b[:2]), *map(max, a[2:], b[2:]))

    @staticmethod
    def iou(a: BBox, b: BBox) -> float:
        """Area that two rectangles have in common, as part of the area of both together."""
        common = BBox.intersect(a, b)
        if not common.valid:
            return 0.0
        return common.area / (a.area + b.area - common.area)


class Object(NamedTuple):
    """An object: its class, its score, and where it is."""

    id: int
    score: float
    bbox: BBox


_SIGNATURE = ("output_3", "output_2", "output_1")
"""Outputs of models with a signature: boxes, classes and scores."""

_POST_PROCESSED, _OTHERWISE = (0, 1, 2), (1, 3, 0)
"""Outputs of other models in the same order: those whose fourth output is the number of objects,
as TFLite's post-processing has them, and the rest."""


def _results(interpreter: Detector) -> tuple[Array, ...]:
    """Boxes [n,4] as (top, left, bottom, right), classes [n] and scores [n]."""
    signatures = interpreter._get_full_signature_list()
    if len(signatures) > 1:
        raise ArgumentError(
            "Only support model with one signature.", reason=f"this has {len(signatures)}"
        )
    named = next((sides["outputs"] for sides in signatures.values()), {})
    if all(name in named for name in _SIGNATURE):
        return tuple(interpreter.tensor(named[name])()[0] for name in _SIGNATURE)
    count = len(interpreter.get_output_details())
    if count < 4:
        raise ArgumentError(
            "a detector has four outputs: boxes, classes, scores and their number",
            reason=f"this has {count}",
            hint="if its outputs are encoded boxes: fitzroy compile MODEL --detections",
        )
    order = _POST_PROCESSED if output_tensor(interpreter, 3).size == 1 else _OTHERWISE
    return tuple(output_tensor(interpreter, number)[0] for number in order)


_ROW = 6


def _listed(interpreter: Detector) -> tuple[Array, ...] | None:
    """The same of a model that lists objects; None if the model does not.

    Such a model has rows [n,6] of left, top, right, bottom in pixels of the input, score and class.
    """
    if len(interpreter.get_output_details()[0]["shape"]) != 2:
        return None
    rows = output_tensor(interpreter, 0)
    if rows.shape[1] != _ROW:
        return None
    rows = rows[rows[:, 4] > 0]
    width, height = input_size(interpreter)
    return rows[:, [1, 0, 3, 2]] / (height, width, height, width), rows[:, 5], rows[:, 4]


def get_objects(
    interpreter: Detector,
    score_threshold: float = -math.inf,
    image_scale: tuple[float, float] = (1.0, 1.0),
) -> list[Object]:
    """The objects of the last inference, in the model's order.

    Args:
        interpreter: the model.
        score_threshold: least score.
        image_scale: by how much the image was multiplied in x and y to fit the input, as
            `set_resized_input` says; places are in pixels of the image before.

    Raises:
        ArgumentError: the model's outputs are not those of a detector.
    """
    boxes, classes, scores = _listed(interpreter) or _results(interpreter)
    factors = [
        extent / scale for extent, scale in zip(input_size(interpreter), image_scale, strict=True)
    ]
    found = []
    for (top, left, bottom, right), number, score in zip(boxes, classes, scores, strict=True):
        if score >= score_threshold:
            box = BBox(float(left), float(top), float(right), float(bottom))
            found.append(Object(int(number), float(score), box.scale(*factors).map(int)))
    return found
