"""Pipelines whose devices share a controller."""

from __future__ import annotations

import pytest
from tests.tflite_runtime.models import compiled_digits

from fitzroy.execution.controller import Course, course, finished, interval
from fitzroy.execution.whole import predict

COMPUTING: Course = ((10.0, 0.0),)
MOVING: Course = ((10.0, 1.0),)
HALF: Course = ((10.0, 0.5),)


@pytest.mark.parametrize(
    ("stages", "wanted"),
    [
        ([COMPUTING] * 3, 10.0),
        ([COMPUTING, ((25.0, 0.0),), ((3.0, 0.0),)], 25.0),
        # One after the other: the controller has nothing to spare.
        ([MOVING] * 3, 30.0),
        ([HALF] * 2, 10.0),
        ([HALF] * 3, 15.0),
        ([((5.0, 0.0), (5.0, 1.0))], 10.0),
    ],
)
def test_the_slowest_segment_or_the_controller_decides(stages: list[Course], wanted: float) -> None:
    assert interval(stages) == pytest.approx(wanted)


def test_segments_that_move_in_turns_do_not_wait() -> None:
    pair = [((5.0, 0.0), (5.0, 1.0)), ((5.0, 1.0), (5.0, 0.0))]
    assert 10.0 <= interval(pair) <= 15.0


def test_a_slow_segment_holds_up_those_before_it() -> None:
    slow: Course = ((20.0, 0.0),)
    assert finished([[COMPUTING] * 4, [slow] * 4]) == [30.0, 50.0, 70.0, 90.0]
    # The fourth result is there at 40, and there is no room for it before 50.
    late = [[*[COMPUTING] * 4, ((45.0, 0.0),)], [slow] * 5]
    assert finished(late, between=1)[-1] == pytest.approx(115.0)
    assert finished(late, between=3)[-1] == pytest.approx(110.0)


def test_a_course_takes_what_the_model_takes() -> None:
    found = predict(compiled_digits(), "digits_edgetpu.tflite")
    stretches = course(found)
    assert sum(time for time, _ in stretches) == pytest.approx(found.total)
    (run,) = found.runs
    assert run.timeline.link is not None
    moved = sum(item.size for item in run.timeline.transfers) / run.timeline.link
    assert sum(time * share for time, share in stretches) == pytest.approx(moved)
