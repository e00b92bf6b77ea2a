"""Options of a detector's head: which objects count, and what the model gives for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from fitzroy.base.errors import UsageError
from fitzroy.base.options import choose, given, option
from fitzroy.compiler.ops.detections import MOST


class HeadForm(StrEnum):
    """What a detector gives for its objects."""

    OBJECTS = "objects"
    SSD = "ssd"
    YOLO = "yolo"


@dataclass(frozen=True)
class HeadOptions:
    """Options of detectors.

    Attributes:
        detections: whether the model is to list objects.
        form: in which form.
        score_threshold: least score of an object.
        overlap: boxes of a class that overlap a better one by more are the same object; None to do
            as the model says, or else 0.45.
        most: most objects; None to give as many as the model does, or else 100.
        anchors: of models whose boxes are relative to anchors that they do not hold: the name of a
            scheme, or of a file.
    """

    panel: ClassVar[str] = "Detectors"

    detections: bool = option(
        False,
        "List the objects that a detector finds. Its head is recognised, boxes and scores get "
        "separate scales, and the rest of the decoding runs on the host.",
    )
    form: HeadForm = option(
        HeadForm.OBJECTS,
        "With --detections, the form of the outputs. [b]objects[/b]: rows of x1, y1, x2, y2 in "
        "pixels, score and class, from an operator that FitzRoy runs; [b]ssd[/b]: the four outputs "
        "of TFLite's own post-processing, which any TFLite runtime runs; [b]yolo[/b]: boxes and "
        "logits before decoding.",
    )
    score_threshold: float = option(0.25, "With --detections: minimum score of an object.")
    overlap: float | None = option(
        None,
        "With --detections: a box that overlaps a better one of its class by more than this "
        "(intersection over union) is the same object. [dim]default: the model's value, or "
        "0.45[/dim]",
    )
    most: int | None = option(
        None,
        "With --detections: maximum number of objects. [dim]default: the model's value, or "
        "100[/dim]",
    )
    anchors: str | None = option(
        None,
        "With --detections: anchors, for models that do not contain theirs: "
        "[b]ssd-mobilenet[/b], [b]ssd-fpn[/b], [b]efficientdet[/b], [b]efficientdet-lite[/b], "
        "[b]ssd300[/b], [b]ssdlite[/b], [b]blaze[/b], [b]yolox[/b], [b]nanodet[/b], "
        "[b]nanodet-plus[/b], [b]gfl[/b], [b]retinanet[/b], [b]fcos[/b], [b]fcos-mmdet[/b], "
        "[b]rtmdet[/b], "
        "[b]yolov3[/b], [b]yolov4[/b], [b]yolov5[/b], [b]yolov7[/b], or a JSON file. "
        "[dim]default: derived from the structure of the head[/dim]",
        metavar="SCHEME|FILE",
    )

    def __post_init__(self) -> None:
        choose(self)

    def check(self) -> None:
        """Refuse values that mean nothing.

        Raises:
            UsageError: which one.
        """
        if not self.detections:
            for name in given(self):
                raise UsageError(f"--{name} is for detectors", hint="add --detections")
        if not 0.0 < self.score_threshold < 1.0:
            raise _wrong("--score-threshold is between 0 and 1", self.score_threshold)
        if self.overlap is not None and not 0.0 < self.overlap <= 1.0:
            raise _wrong("--overlap is more than 0 and at most 1", self.overlap)
        if self.most is not None and not 0 < self.most <= MOST:
            raise _wrong(f"--most is 1 to {MOST}", self.most)


PLAIN_OUTPUTS = HeadOptions()
"""The outputs of a model as they are."""


def _wrong(what: str, given: float) -> UsageError:
    return UsageError(what, reason=f"{given:g} is given")
