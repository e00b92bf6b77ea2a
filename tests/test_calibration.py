"""The constants of a host come back from times that they were made with."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from fitzroy.base.errors import UsageError
from fitzroy.base.evidence import Evidence
from fitzroy.base.types import Array
from fitzroy.driver.runtime.devices import Answer, DirectSimulator, Pending
from fitzroy.execution.estimate import Conditions, estimate
from fitzroy.execution.hosts import Profile, made, values
from fitzroy.formats.darwinn import PackageFile, write_package
from fitzroy.hw_models.chips.hosts import Host
from fitzroy.measurement.calibration import (
    CONSTANTS,
    Sample,
    Trial,
    calibrate,
    fit,
    least_changes,
    measure,
    trials,
    usual,
)

TRUE = {"fixed": 0.41, "link": 210.0, "large": 130.0, "output_byte": 9.5, "output_piece": 16.0}


def host(**constants: float) -> Host:
    stream = {"stream": constants["link"]} if "link" in constants else {}
    return made({**values(usual("USB 3")), **constants, **stream}, Evidence.ASSUMED, "a test")


class Clocked(DirectSimulator):
    """A simulated device on a host: an inference takes the time that the host would need.

    Args:
        host: the host.
        noise: share of a time by which it may be longer.
    """

    def __init__(self, host: Host, noise: float = 0.0) -> None:
        super().__init__()
        self.now = 0.0
        self.runs = 0
        self._profile = Profile("true", host)
        self._noise = noise
        self._rng = random.Random(1)
        self._times: dict[int, float] = {}
        self._loaded: set[int] = set()

    def run(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Answer:
        """Let time pass; a program that is run for the first time takes a second more."""
        key = id(package)
        if key not in self._times:
            found = estimate(package, "m", Conditions("max", self._profile, "fitzroy"))
            self._times[key] = found.timeline.total / 1e6
            answer = super().run(package, inputs, timeout=timeout)
            assert answer.tensors
            self.now += 1.0
        self.now += self._times[key] * (1 + self._rng.uniform(0, self._noise))
        self.runs += 1
        return _Nothing()

    def submit(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Pending:
        raise NotImplementedError


class _Nothing:
    """An answer that nobody looks at."""

    tensors: Mapping[str, Array] = {}


@pytest.fixture(scope="module")
def programs() -> list[Trial]:
    return trials()


@pytest.mark.long
def test_constants_are_recovered_on_a_clock(programs: list[Trial]) -> None:
    device = Clocked(host(**TRUE))
    measured = measure(device, programs, 3, clock=lambda: device.now)
    assert device.runs == 4 * len(programs)
    found = calibrate(programs, measured, usual("USB 3"), Conditions(driver="fitzroy"), "a test")
    assert {name: getattr(found.host, name) for name in CONSTANTS} == pytest.approx(TRUE, rel=1e-3)
    assert found.host.stream == found.host.link
    assert max(map(abs, found.fit.errors)) < 0.1
    assert all(error is not None and abs(error) < 0.1 for error in found.fit.left_out)


@pytest.mark.long
def test_constants_are_near_if_times_are_noisy(programs: list[Trial]) -> None:
    device = Clocked(host(**TRUE), noise=0.04)
    measured = measure(device, programs, 9, clock=lambda: device.now)
    found = calibrate(programs, measured, usual("USB 3"), Conditions(driver="fitzroy"), "a test")
    for name, value in TRUE.items():
        assert getattr(found.host, name) == pytest.approx(value, rel=0.2), name
    assert 0 < max(map(abs, found.fit.errors)) < 3


def test_the_same_programs_every_time(programs: list[Trial]) -> None:
    again = trials()
    assert [item.name for item in again] == [item.name for item in programs]
    for one, other in zip(again, programs, strict=True):
        assert write_package(one.package) == write_package(other.package)


def samples(count: int) -> list[Sample]:
    rng = random.Random(count)
    found = []
    for number in range(count):
        terms = {"fixed": 1000.0, "link": rng.uniform(1, 200), "output_byte": rng.uniform(1, 99)}
        took = 300 + 2 * terms["link"] + 7 * terms["output_byte"]
        found.append(Sample(str(number), took, 100 + terms["link"], terms))
    return found


NAMES = ("fixed", "link", "output_byte")
ANY = dict.fromkeys(NAMES, -1e9)


def test_a_linear_model_is_fitted_exactly() -> None:
    found = fit(samples(6), NAMES, ANY)
    assert found.changes == pytest.approx({"fixed": 0.2, "link": 1.0, "output_byte": 7.0})
    assert found.errors == pytest.approx([0.0] * 6, abs=1e-9)
    assert found.left_out == pytest.approx([0.0] * 6, abs=1e-9)


def test_constants_stay_in_range() -> None:
    found = fit(samples(6), NAMES, {**ANY, "link": 1.5})
    assert found.changes["link"] == 1.5
    assert max(map(abs, found.errors)) > 0
    least = least_changes(usual("USB 3"))
    slower = [Sample(s.name, 1e-3, s.modelled, s.terms) for s in samples(6)]
    for name, by in fit(slower, NAMES, least).changes.items():
        assert by >= least[name]


def test_a_sample_alone_tells_nothing_of_itself() -> None:
    found = fit(samples(3), NAMES, ANY)
    assert found.left_out == (None, None, None)


def test_too_little_to_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="2 samples do not tell 3 constants apart"):
        fit(samples(2), NAMES, ANY)
    same = [samples(1)[0]] * 5
    with pytest.raises(UsageError, match="5 samples do not tell 3 constants apart"):
        fit(same, NAMES, ANY)
    with pytest.raises(UsageError, match="6 constants of a host, of at most 5"):
        fit(samples(9), [*CONSTANTS, "stream"], ANY)


def test_times_that_are_none_are_refused(programs: list[Trial]) -> None:
    with pytest.raises(UsageError, match="0 us is no time") as caught:
        calibrate(programs[:1], [0.0], usual("USB 3"), Conditions(driver="fitzroy"), "a test")
    assert caught.value.where == "nothing"
