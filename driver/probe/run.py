"""Runs probes on a device, whatever they do to it.

Every program has a deadline. After one that did not answer as predicted, a program of published
forms must pass before the next one runs; a device that fails it is opened anew. So a probe that
hangs costs its time limit, and not the others their answers.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from fitzroy.base.errors import DeviceError, FitzroyError, SimulationError
from fitzroy.base.types import Array
from fitzroy.driver.device.limits import DeadlineError, Limits
from fitzroy.driver.device.recovery import HOPELESS
from fitzroy.driver.probe.probe import Probe
from fitzroy.driver.probe.program import packaged
from fitzroy.driver.probe.suite import suite
from fitzroy.driver.runtime.devices import SIMULATED, Device, DeviceOptions, open_device
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.driver.transports.transport import TransferTimeoutError
from fitzroy.formats.darwinn import PackageFile
from fitzroy.formats.probe_report import MOST_DIFFERENCES, Result, Status
from fitzroy.hw_models.edgetpu.timing.model import simulate

_TRIES = 3
"""How often a device is opened anew before it counts as lost."""

Opened = Callable[[], Device]
"""Opens the device that is probed."""


class DeviceLostError(DeviceError):
    """A device no longer runs the simplest program, also when it was opened anew."""


def is_simulated(spec: str) -> bool:
    """Whether a device of a name computes in this process."""
    return spec.startswith(("sim", "replay"))


def opener(spec: str, options: DeviceOptions, seconds: float) -> Opened:
    """How to open a device for probes: nothing is repeated, and nothing waits for long.

    Args:
        spec: name of the device.
        options: how to use it.
        seconds: time limit of a program.
    """
    limits = replace(SIMULATED if is_simulated(spec) else Limits(), retries=0, silence=seconds)
    return lambda: open_device(spec, replace(options, limits=limits))


@cache
def linked(probe: Probe) -> PackageFile:
    """The package of a probe."""
    return packaged(probe.program)


@cache
def expectation(probe: Probe) -> Mapping[str, Array]:
    """Bytes of every output layer of a probe: by its formula, or as the simulator computes them.

    Raises:
        SimulationError: the program fails on the simulator.
    """
    if probe.expected is not None:
        return probe.expected
    return SimulatedDevice().run(linked(probe), probe.inputs).tensors


def digest(probes: Sequence[Probe]) -> str:
    """SHA-256 of what probes send and expect, which says whether reports are comparable."""
    state = hashlib.sha256()
    for probe in probes:
        state.update(probe.slug.encode() + b"\0" + probe.program.encode() + b"\0")
        for layers in (probe.inputs, probe.expected or {}):
            for name in sorted(layers):
                state.update(name.encode() + b"\0" + layers[name].tobytes())
    return state.hexdigest()


def predicted_seconds(probe: Probe) -> float:
    """Time of an inference by the timing model, 0 if it does not know."""
    run = SimulatedDevice().start(linked(probe), probe.inputs, record=True)
    try:
        run.finish()
        stage = run.stages[-1]
        if stage.recording is None:
            return 0.0
        return simulate(stage.recording, stage.chunk_sizes).total / 1e6
    except SimulationError:
        return 0.0


class Runner:
    """Puts probes to a device, one after the other.

    Args:
        opened: opens the device.
        seconds: time limit of a program.
        repeats: how often every program runs; all answers must be as predicted.
    """

    def __init__(self, opened: Opened, *, seconds: float = 5.0, repeats: int = 3) -> None:
        self._opened = opened
        self._seconds = seconds
        self._repeats = repeats
        self._device: Device | None = None

    def results(self, probes: Sequence[Probe]) -> Iterator[Result]:
        """The answers to probes, in order.

        Raises:
            DeviceError: there is no device, it is gone, or only a person can help it.
        """
        for probe in probes:
            result = self._answered(probe)
            yield result
            if result.status is not Status.PREDICTED:
                self._mend()

    def close(self) -> None:
        """Give the device back."""
        device, self._device = self._device, None
        if device is not None:
            device.close()

    def _answered(self, probe: Probe) -> Result:
        best = np.inf
        result = None
        for _ in range(self._repeats):
            device = self._ready()
            began = time.perf_counter()
            try:
                tensors = device.run(linked(probe), probe.inputs, timeout=self._seconds).tensors
            except HOPELESS:
                raise
            except FitzroyError as error:
                return _failed(probe, error)
            best = min(best, time.perf_counter() - began)
            result = judged(probe, tensors)
            if result.status is not Status.PREDICTED:
                break
        assert result is not None
        return replace(
            result,
            seconds=round(best, 6),
            predicted_seconds=round(predicted_seconds(probe), 6),
        )

    def _ready(self) -> Device:
        if self._device is None:
            self._device = self._opened()
        return self._device

    def _mend(self) -> None:
        """See that the device runs published programs again.

        Raises:
            DeviceLostError: it does not.
        """
        (echo,) = [probe for probe in suite() if probe.slug == "control-echo"]
        for _ in range(_TRIES):
            try:
                answer = self._ready().run(linked(echo), echo.inputs, timeout=self._patience)
                if judged(echo, answer.tensors).status is Status.PREDICTED:
                    return
            except HOPELESS:
                raise
            except FitzroyError:
                # The next attempt opens the device anew.
                pass
            self._drop()
        raise DeviceLostError(
            "the device does not run the simplest program any more",
            reason=f"{_TRIES} attempts to open it and send two rows failed",
            hint="unplug it, plug it in again, and go on with --resume",
        )

    @property
    def _patience(self) -> float:
        """Time for a recovery, which may reset the port and load the firmware."""
        return max(self._seconds, Limits().enumerate + 2 * self._seconds)

    def _drop(self) -> None:
        try:
            self.close()
        except FitzroyError:
            # What cannot be closed any more is opened anew all the same.
            self._device = None


def judged(probe: Probe, outputs: Mapping[str, Array]) -> Result:
    """What outputs say, without times."""
    expected = _joined(expectation(probe), probe)
    observed = _joined(outputs, probe)
    result = Result(
        slug=probe.slug,
        status=Status.PREDICTED,
        forms=(probe.form,) if probe.form else (),
        properties=probe.properties,
        expected=hashlib.sha256(expected).hexdigest(),
        observed=hashlib.sha256(observed).hexdigest(),
        size=len(expected),
    )
    if observed == expected:
        return result
    places = _places(expected, observed)
    known = [
        rule for rule, other in probe.alternatives.items() if _joined(other, probe) == observed
    ]
    return replace(
        result,
        status=Status.DIFFERS,
        differing=len(places),
        differences=tuple(
            (place, expected[place], observed[place] if place < len(observed) else 0)
            for place in places[:MOST_DIFFERENCES]
        ),
        rule=known[0] if known else "",
    )


def _joined(layers: Mapping[str, Array], probe: Probe) -> bytes:
    """Bytes of all outputs in the order in which the probe names them."""
    return b"".join(layers[name].tobytes() for name in expectation(probe))


def _places(expected: bytes, observed: bytes) -> list[int]:
    return [
        place
        for place, byte in enumerate(expected)
        if place >= len(observed) or observed[place] != byte
    ]


def _failed(probe: Probe, error: FitzroyError) -> Result:
    expected = _joined(expectation(probe), probe)
    hangs = isinstance(error, DeadlineError | TransferTimeoutError) or (
        isinstance(error, SimulationError) and error.what == "deadlock"
    )
    return Result(
        slug=probe.slug,
        status=Status.HANGS if hangs else Status.FAILS,
        forms=(probe.form,) if probe.form else (),
        properties=probe.properties,
        expected=hashlib.sha256(expected).hexdigest(),
        size=len(expected),
        # The text of an error may name paths; its kind does not.
        error=type(error).__name__,
    )
