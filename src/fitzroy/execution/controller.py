"""Pipelines in time, whose devices are on one controller and share what it moves.

Each segment alone has a course: what an inference takes, and which share of the controller it uses
meanwhile. Where the shares of all segments at work add up to more than there is, those that use it
slow down in proportion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from fitzroy.execution.chain import BETWEEN
from fitzroy.execution.whole import Prediction
from fitzroy.hw_models.edgetpu.timeline import Timeline

Course = tuple[tuple[float, float], ...]
"""Stretches of an inference: microseconds alone, and the share of the controller in them."""


def course(prediction: Prediction) -> Course:
    """An inference of a model on a device of its own."""
    return tuple(
        stretch
        for part in prediction.parts
        for stretch in (((part.time, 0.0),) if part.run is None else course_of(part.run.timeline))
    )


def course_of(timeline: Timeline) -> Course:
    """An inference of a program: bytes on the link, spread over their transfers.

    Without a link nothing is shared.
    """
    link = inf if timeline.link is None else timeline.link
    moving = [
        (item.begin, item.end, min(1.0, item.size / link / (item.end - item.begin)))
        for item in timeline.transfers
        if item.end > item.begin
    ]
    ends = {0.0, timeline.total, *(at for begin, end, _ in moving for at in (begin, end))}
    return tuple(
        (
            end - begin,
            min(1.0, sum(share for start, stop, share in moving if start < end and stop > begin)),
        )
        for begin, end in pairwise(sorted(ends))
    )


@dataclass
class _Stage:
    """A segment at work.

    Attributes:
        courses: its inferences, in order.
        taken: how many it has begun.
        waiting: inferences that wait for it.
        rest: stretches that are left of its inference.
        full: whether it has a result that the next one has no room for.
    """

    courses: Sequence[Course]
    taken: int = 0
    waiting: int = 0
    rest: list[tuple[float, float]] = field(default_factory=list)
    full: bool = False

    def take(self) -> None:
        """Begin the next inference if there is one and nothing else to do."""
        if self.waiting and not self.rest and not self.full:
            self.waiting -= 1
            self.rest = list(self.courses[self.taken])
            self.taken += 1


def finished(stages: Sequence[Sequence[Course]], between: int = BETWEEN) -> list[float]:
    """Microseconds at which each inference leaves a pipeline that is fed without a pause.

    Args:
        stages: the courses of all inferences, for each segment in order.
        between: inferences that may wait between two segments.
    """
    line = [_Stage(courses) for courses in stages]
    line[0].waiting = len(stages[0])
    now, found = 0.0, list[float]()
    while len(found) < len(stages[0]):
        found += [now] * _hand_over(line, between)
        working = [stage for stage in line if stage.rest]
        if not working:
            continue
        load = max(1.0, sum(stage.rest[0][1] for stage in working))
        paces = [load if stage.rest[0][1] else 1.0 for stage in working]
        step = min(stage.rest[0][0] * pace for stage, pace in zip(working, paces, strict=True))
        now += step
        for stage, pace in zip(working, paces, strict=True):
            time, share = stage.rest.pop(0)
            if time * pace > step:
                stage.rest.insert(0, (time - step / pace, share))
            stage.full = not stage.rest
    return found


def _hand_over(line: Sequence[_Stage], between: int) -> int:
    """Move inferences on as far as there is room; returns how many have left the last stage."""
    left = 0
    for stage, later in zip(reversed(line), (None, *reversed(line)), strict=False):
        if stage.full and (later is None or later.waiting < between):
            stage.full = False
            if later is None:
                left += 1
            else:
                later.waiting += 1
                later.take()
        stage.take()
    return left


def interval(stages: Sequence[Course]) -> float:
    """Microseconds between outputs of a pipeline while all of its segments are at work."""
    return steady([[stage] * (6 * _depth(stages)) for stage in stages])


def steady(stages: Sequence[Sequence[Course]]) -> float:
    """Microseconds between outputs, without those while a pipeline fills and empties.

    Args:
        stages: as `finished` takes them, with more than twice the inferences that are under way
            at a time.
    """
    depth = _depth(stages)
    ends = finished(stages)[depth - 1 : -depth]
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def _depth(stages: Sequence[object]) -> int:
    """Inferences that are under way at a time."""
    return len(stages) * (1 + BETWEEN)
