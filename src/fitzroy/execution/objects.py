"""Objects that a detector found, from the outputs of a model."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.detections import DetectionsAttributes


@dataclass(frozen=True, slots=True)
class Found:
    """An object.

    Attributes:
        kind: its class.
        score: its score.
        box: top, left, bottom and right, in parts of the image.
        points: keypoints [k,3] as x and y in parts of the image, and score; None without.
        mask: [h,w] of ones and zeros over the image; None without.
    """

    kind: int
    score: float
    box: tuple[float, float, float, float]
    points: Array | None = None
    mask: Array | None = None

    def document(self, names: dict[int, str] | None) -> dict[str, Any]:
        """The object for JSON."""
        document: dict[str, Any] = {
            "class": self.kind,
            **({"label": names.get(self.kind, "")} if names is not None else {}),
            "score": self.score,
            "box": list(self.box),
        }
        if self.points is not None:
            document["keypoints"] = self.points.tolist()
        if self.mask is not None:
            document["mask_share"] = float(self.mask.mean())
        return document


def objects_of(graph: Graph, results: Sequence[Array]) -> list[Found] | None:
    """What a detector found, None if the model is none.

    Args:
        graph: the model.
        results: its outputs.
    """
    node = listing(graph)
    if node is None:
        return None
    given = dict(zip(graph.outputs, results, strict=True))
    arrays = [given[name] for name in node.outputs]
    if isinstance(node.attributes, DetectionAttributes):
        return _post_processed(node.attributes, arrays)
    assert isinstance(node.attributes, DetectionsAttributes)
    return _listed(node.attributes, arrays)


def best_objects(objects: Sequence[Found], most: int | None) -> list[Found]:
    """The objects with the best scores, of equal ones the first.

    Args:
        objects: the objects.
        most: how many; None for all, in their order.
    """
    if most is None:
        return list(objects)
    return heapq.nlargest(most, objects, key=lambda item: item.score)


def listing(graph: Graph) -> Node | None:
    """The operator whose results are a list of objects, None if the model is no detector."""
    for node in graph.nodes():
        lists = isinstance(node.attributes, DetectionAttributes | DetectionsAttributes)
        if lists and all(name in graph.outputs for name in node.outputs):
            return node
    return None


def _post_processed(a: DetectionAttributes, arrays: Sequence[Array]) -> list[Found]:
    """Objects of TFLite's post-processing."""
    boxes, classes, scores, number = arrays
    rows = a.max_classes_per_detection * int(number[0])
    return [
        Found(int(classes[0, row]), float(scores[0, row]), tuple(boxes[0, row].tolist()))
        for row in range(min(rows, classes.shape[1]))
    ]


def _listed(a: DetectionsAttributes, arrays: Sequence[Array]) -> list[Found]:
    """Objects of the operator ``detections``."""
    rows, *others = arrays
    points = next((array for array in others if array.dtype == np.float32), None)
    masks = next((array for array in others if array.dtype == np.uint8), None)
    extent = np.array([a.width, a.height, 1], np.float32)
    found = []
    for number in np.flatnonzero(rows[:, 4] > 0):
        left, top, right, bottom, score, kind = rows[number].tolist()
        box = top / a.height, left / a.width, bottom / a.height, right / a.width
        found.append(
            Found(
                int(kind),
                score,
                box,
                None if points is None else points[number] / extent,
                None if masks is None else masks[number],
            )
        )
    return found
