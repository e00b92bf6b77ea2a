"""What is measured: a record of each example, and figures from all records in order.

| metric | is | headline |
|---|---|---|
| `top1`, `top5` | share of examples whose class is the best, or among the five best | itself |
| `map` | mean average precision of boxes, as COCO defines it | at overlaps of 0.5 to 0.95 |
| `psnr` | peak signal to noise in decibels, against another model | the worst output |
| `agreement` | share of examples whose best class is that of another model | itself |

Models without a vector of scores agree in the share of elements that are equal.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import UsageError
from fitzroy.base.installing import install_extra
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph
from fitzroy.evaluation.data import Box, Data, Example
from fitzroy.execution import arrays
from fitzroy.execution.objects import Found

Record = dict[str, Any]
"""What is kept of an example: plain values, which JSON holds exactly."""

Figures = dict[str, float]
"""Figures by name; the first one is the headline."""


@dataclass(slots=True)
class Outcome:
    """An example and what came of it.

    Attributes:
        example: the example.
        graph: the model.
        outputs: its outputs.
        right: number of the right class, None if it is unknown.
        objects: what it found, None if it is no detector.
        other_graph: the model that it is compared with, if any.
        others: outputs of that.
        other_objects: what that found.
    """

    example: Example
    graph: Graph
    outputs: Sequence[Array]
    right: int | None
    objects: list[Found] | None
    other_graph: Graph | None = None
    others: Sequence[Array] = field(default_factory=list)
    other_objects: list[Found] | None = None


class Metric:
    """Something that is measured.

    Attributes:
        name: what it is called.
        needs_other: whether it compares with another model.
        decimals: digits after the point of its figures, for people.
    """

    needs_other = False
    decimals = 4

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, data: Data) -> None:
        """Refuse data that says nothing of what is measured.

        Raises:
            UsageError: why.
        """

    def record(self, outcome: Outcome) -> Any:
        """What is kept of an example."""
        raise NotImplementedError

    def figures(self, records: Sequence[Any], data: Data) -> Figures:
        """Figures of all examples, from their records in order."""
        raise NotImplementedError


class Top(Metric):
    """Share of examples whose right class is among the best.

    Args:
        name: what it is called.
        count: how many classes are the best.
    """

    def __init__(self, name: str, count: int) -> None:
        super().__init__(name)
        self._count = count

    def check(self, data: Data) -> None:
        """Refuse data without classes."""
        missing = next((item.name for item in data.examples if not item.label), None)
        if missing is not None:
            raise UsageError(
                f"{self.name} needs the class of every example",
                reason=f"{missing!r} has none",
                where=data.path,
                hint="make a folder for each class, or a .csv file with the columns file, label",
            )

    def record(self, outcome: Outcome) -> int:
        """Place of the right class among all, from 0."""
        order = ranked(outcome.outputs)
        if order is None:
            raise UsageError(f"{self.name} needs an output that is a vector of scores")
        right = outcome.right
        return order.index(right) if right in order else len(order)

    def figures(self, records: Sequence[Any], data: Data) -> Figures:
        """The share."""
        return {self.name: sum(rank < self._count for rank in records) / len(records)}


class Agreement(Metric):
    """Share of examples for which two models say the same."""

    needs_other = True

    def record(self, outcome: Outcome) -> Record:
        """Whether the best classes are the same, and how many elements are."""
        best = ranked(outcome.outputs)
        other = ranked(outcome.others)
        same = None if best is None or other is None else best[0] == other[0]
        pairs = [*_pairs(outcome, self.name)]
        equal = sum(int(np.count_nonzero(one == two)) for one, two in pairs)
        return {"same": same, "equal": equal, "elements": sum(one.size for one, _ in pairs)}

    def figures(self, records: Sequence[Any], data: Data) -> Figures:
        """The share of examples, and that of elements."""
        elements = sum(item["equal"] for item in records) / sum(i["elements"] for i in records)
        known = [item["same"] for item in records if item["same"] is not None]
        if not known:
            return {self.name: elements}
        return {self.name: sum(known) / len(known), "equal_elements": elements}


class Psnr(Metric):
    """Peak signal to noise, against another model."""

    needs_other = True
    decimals = 2

    def record(self, outcome: Outcome) -> list[Record]:
        """Of each output, squares of differences, elements, and least and largest value."""
        return [
            {
                "noise": float(np.sum((one - two) ** 2)),
                "elements": one.size,
                "least": float(two.min(initial=math.inf)),
                "largest": float(two.max(initial=-math.inf)),
            }
            for one, two in _pairs(outcome, self.name)
        ]

    def figures(self, records: Sequence[Any], data: Data) -> Figures:
        """Decibels of the worst output; infinite if nothing differs."""
        worst = math.inf
        for output in zip(*records, strict=True):
            noise = math.fsum(item["noise"] for item in output)
            count = sum(item["elements"] for item in output)
            span = max(i["largest"] for i in output) - min(i["least"] for i in output)
            if noise:
                worst = min(worst, 10 * math.log10(span**2 * count / noise) if span else -math.inf)
        return {self.name: worst}


class MeanAveragePrecision(Metric):
    """Mean average precision of boxes: of a data set, or of another model's objects."""

    _SIDE = 1000
    """Width and height that pictures count as, where no data says it."""

    _SURE = 0.25
    """Least score of an object of the other model that is to be found."""

    def check(self, data: Data) -> None:
        """Refuse what cannot be computed."""
        if importlib.util.find_spec("faster_coco_eval") is None:
            raise UsageError(
                f"{self.name} is computed by faster-coco-eval, which is not installed",
                hint=install_extra("evaluate"),
            )

    def record(self, outcome: Outcome) -> Record:
        """Objects, and what is right if the data does not have it."""
        if outcome.objects is None:
            raise UsageError(
                f"{self.name} is for detectors, and the model is none",
                hint="fitzroy compile MODEL --calibrate images/ --detections makes one",
            )
        found = [[item.kind, item.score, *item.box] for item in outcome.objects]
        if outcome.other_graph is None:
            return {"found": found}
        if outcome.other_objects is None:
            raise UsageError(f"{self.name} is for detectors, and the other model is none")
        right = [[i.kind, *i.box] for i in outcome.other_objects if i.score >= self._SURE]
        return {"found": found, "right": right}

    def figures(self, records: Sequence[Any], data: Data) -> Figures:
        """The mean over overlaps of 0.5 to 0.95, and those at 0.5 and 0.75."""
        pictures, boxes, objects = [], [], list[dict[str, Any]]()
        # Classes are the categories in the order of their numbers.
        kinds = dict(enumerate(sorted(data.categories)))
        for number, (record, example) in enumerate(zip(records, data.examples, strict=True)):
            width, height = example.size if example.size[0] else (self._SIDE, self._SIDE)
            pictures.append({"id": number, "width": width, "height": height})
            right = [_box(item, (width, height), kinds) for item in record.get("right", ())]
            boxes += [(number, box) for box in (right or example.boxes)]
            for kind, score, *edges in record["found"]:
                box = _box([kind, *edges], (width, height), kinds)
                objects.append(
                    {
                        "image_id": number,
                        "category_id": box.category,
                        "bbox": list(box.edges),
                        "score": score,
                    }
                )
        return _average_precision(self.name, pictures, boxes, objects)


def _box(item: Sequence[float], size: tuple[int, int], kinds: Mapping[int, int]) -> Box:
    """An object of a model, as class, top, left, bottom and right in parts of the picture."""
    kind, top, left, bottom, right = item
    (width, height), number = size, int(kind)
    return Box(
        kinds.get(number, number),
        (left * width, top * height, (right - left) * width, (bottom - top) * height),
    )


def _average_precision(
    name: str,
    pictures: Sequence[Mapping[str, int]],
    boxes: Sequence[tuple[int, Box]],
    objects: Sequence[Mapping[str, Any]],
) -> Figures:
    """What COCO's own definition gives."""
    from faster_coco_eval import COCO, COCOeval_faster

    categories = {box.category for _, box in boxes} | {item["category_id"] for item in objects}
    right = {
        "images": [dict(picture) for picture in pictures],
        "categories": [{"id": number, "name": str(number)} for number in sorted(categories)],
        "annotations": [
            {
                "id": number + 1,
                "image_id": picture,
                "category_id": box.category,
                "bbox": list(box.edges),
                "area": box.edges[2] * box.edges[3],
                "iscrowd": int(box.crowd),
            }
            for number, (picture, box) in enumerate(boxes)
        ],
    }
    if not objects or not boxes:
        return {name: 0.0 if boxes else math.nan, "map50": 0.0, "map75": 0.0}
    table = COCO(right)
    judge = COCOeval_faster(table, table.loadRes([dict(item) for item in objects]), "bbox")
    judge.evaluate()
    judge.accumulate()
    judge.summarize()
    stats = judge.stats_as_dict
    return {name: float(stats["AP_all"]), "map50": float(stats["AP_50"]),
            "map75": float(stats["AP_75"])}  # fmt: skip


def ranked(outputs: Iterable[Array]) -> list[int] | None:
    """Classes of the first vector of scores, the best first; None if there is none."""
    for array in outputs:
        if arrays.is_vector(array.shape):
            return arrays.top(array.astype(np.float64), array.size)
    return None


def _pairs(
    outcome: Outcome, name: str
) -> list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Real numbers of the outputs of both models.

    Raises:
        UsageError: the models have other outputs.
    """
    assert outcome.other_graph is not None
    sides = [
        [
            arrays.real_values(array, graph.type(output)).reshape(-1)
            for output, array in zip(graph.outputs, outputs, strict=True)
        ]
        for graph, outputs in (
            (outcome.graph, outcome.outputs),
            (outcome.other_graph, outcome.others),
        )
    ]
    extents = [[array.size for array in side] for side in sides]
    if extents[0] != extents[1]:
        raise UsageError(
            f"{name} compares outputs element by element",
            reason=f"the outputs have {extents[0]} elements, those of the other model {extents[1]}",
        )
    return list(zip(*sides, strict=True))


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Top("top1", 1),
        Top("top5", 5),
        MeanAveragePrecision("map"),
        Psnr("psnr"),
        Agreement("agreement"),
    )
}
"""All metrics by name."""
