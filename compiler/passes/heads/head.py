"""What a detector's outputs mean: where its boxes, scores, keypoints and masks come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fitzroy.compiler.ops.box_coding import BoxCoding

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Points:
    """Keypoints beside boxes.

    Attributes:
        name: encoded keypoints [1,n,k*2] or [1,n,k*3].
        scale: units of the anchor to a unit of a keypoint.
        offset: units from the anchor's centre to a keypoint of zero.
        logits: whether each has a third number, the logit of its score.
        scored: whether each has a third number, its score.
    """

    name: str
    scale: float
    offset: float
    logits: bool
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Masks:
    """Masks beside boxes.

    Attributes:
        coefficients: weights of prototypes [1,n,m].
        prototypes: prototypes [1,h,w,m].
    """

    coefficients: str
    prototypes: str


@dataclass(frozen=True)
class Head:
    """A detector's head, by values of its graph.

    Attributes:
        size: width and height of the image.
        boxes: encoded boxes [1,n,4].
        coding: how they are encoded.
        exponent: factor of logarithms of extents.
        anchors: anchors [n,6] in pixels; None for codings without.
        scale: pixels of a unit of x and y, for codings without anchors.
        scores: scores of classes [1,n,c].
        objectness: scores of being any object [1,n,1]; None if there are none.
        logits: whether scores are logits.
        background: how many of the first classes stand for no object.
        points: keypoints.
        masks: masks.
        once: whether the model gives every object once.
        averaged: whether the model's own software averages the boxes of an object.
        overlap: the overlap at which the model takes boxes for one object; None if it says none.
        agnostic: whether boxes of different classes are one object, too.
        y_first: whether boxes have y before x.
        most: the most objects that the model gives; None if it says none.
        inclusive: whether a score as high as the threshold is an object's.
        peaks: cells of a row, if boxes are where scores are peaks of images; 0 for others.
        root: whether a score is the square root of the product of a class's and the objectness.
    """

    size: tuple[int, int]
    boxes: str
    coding: BoxCoding
    exponent: float
    anchors: Floats | None
    scale: tuple[float, float]
    scores: str
    objectness: str | None
    logits: bool
    background: int = 0
    points: Points | None = None
    masks: Masks | None = None
    once: bool = False
    averaged: bool = False
    overlap: float | None = None
    agnostic: bool = False
    y_first: bool = False
    most: int | None = None
    inclusive: bool = False
    peaks: int = 0
    root: bool = False
