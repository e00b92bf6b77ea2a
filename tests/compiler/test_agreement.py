"""Agreement of detectors: average precision by hand."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from fitzroy.compiler.quantization.agreement import (
    OVERLAPS,
    likely_precision,
    mean_average_precision,
)

Floats = npt.NDArray[np.float32]


def rows(*items: tuple[float, ...]) -> Floats:
    return np.array(items, np.float32).reshape(-1, 6)


EXACT = [rows((0, 0, 10, 10, 0.9, 1), (20, 0, 30, 10, 0.5, 1)), rows((0, 0, 10, 10, 0.9, 2))]


def test_same_objects_agree_wholly() -> None:
    assert mean_average_precision(EXACT, EXACT) == 1.0
    assert len(OVERLAPS) == 10
    assert mean_average_precision([rows()], [rows()]) == 1.0


def test_missing_and_additional_objects() -> None:
    none = [rows(), rows()]
    assert mean_average_precision(none, EXACT) == 0.0
    half = [EXACT[0][:1], EXACT[1]]
    # Of class 1, recalls up to a half: 51 of 101 points.
    assert mean_average_precision(half, EXACT) == pytest.approx((51 / 101 + 1) / 2)
    more = [np.concatenate([EXACT[0], rows((50, 50, 60, 60, 0.95, 1))]), EXACT[1]]
    assert mean_average_precision(more, EXACT) == pytest.approx((2 / 3 + 1) / 2)
    # Classes that are in no exact picture do not count.
    other = [np.concatenate([EXACT[0], rows((0, 0, 9, 9, 0.9, 7))]), EXACT[1]]
    assert mean_average_precision(other, EXACT) == 1.0


def test_overlap_decides() -> None:
    """A box that covers 80 of 100 pixels is the same up to an overlap of 0.8."""
    narrow = [np.array(EXACT[0]), np.array(EXACT[1])]
    for picture in narrow:
        picture[:, 3] = 8
    assert mean_average_precision(narrow, EXACT) == pytest.approx(7 / 10)
    assert mean_average_precision(narrow, EXACT, (0.81,)) == 0.0


def test_an_object_is_found_once() -> None:
    double = [np.concatenate([EXACT[0][:1]] * 2), EXACT[1]]
    found = mean_average_precision(double, [EXACT[0][:1], EXACT[1]])
    assert found == 1.0
    double[0][0, 4] = 0.99
    wrong = [np.concatenate([rows((50, 0, 60, 9, 0.99, 1)), EXACT[0][:1]]), EXACT[1]]
    assert mean_average_precision(wrong, [EXACT[0][:1], EXACT[1]]) == pytest.approx(0.75)


def test_intervals_are_of_the_pictures_that_are_there() -> None:
    """Half of the pictures have their object found: draws of 40 have a share of about a half."""
    exact = [rows((0, 0, 10, 10, 0.9, 1))] * 40
    found = [exact[0], rows()] * 20
    low, high = likely_precision(found, exact)
    assert low < mean_average_precision(found, exact) < high
    # 0.9 of the draws of a binomial distribution with a deviation of 0.079.
    assert high - low == pytest.approx(2 * 1.645 * 0.079, rel=0.2)
    narrow = likely_precision(found, exact, share=0.5)
    assert low < narrow[0] < narrow[1] < high
    assert likely_precision(exact, exact) == (1.0, 1.0)
    assert likely_precision([rows()], [rows()]) == (1.0, 1.0)


def test_draws_without_a_class_leave_it_out() -> None:
    """One of two pictures has the class: draws with neither say nothing."""
    assert likely_precision([rows(), EXACT[1]], [rows(), EXACT[1]]) == (1.0, 1.0)
