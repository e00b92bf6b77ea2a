"""A device beside another one, with which it has to agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fitzroy.base.closing import Closing
from fitzroy.base.errors import MismatchError
from fitzroy.base.types import Array
from fitzroy.driver.runtime.devices import Answer, Device, ManyDevice, Pending
from fitzroy.formats.darwinn import PackageFile


class ProvenDevice(Closing):
    """A device whose first answers are compared with those of another one, byte by byte.

    Args:
        first: the device, whose answers are given.
        second: what it is compared with.
        count: how many answers are compared.
    """

    def __init__(self, first: Device, second: Device, count: int) -> None:
        self.description = f"{first.description}, compared with {second.description}"
        self._first = first
        self._second = second
        self._left = count

    def run(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Answer:
        """Execute a package, on both devices as long as there is something to prove.

        Raises:
            MismatchError: their outputs differ.
            DeviceError: one of them fails.
            SimulationError: the simulated program fails.
        """
        answer = self._first.run(package, inputs, timeout=timeout)
        return self.compared(answer, self._second.run(package, inputs)) if self._due() else answer

    def run_images(
        self, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
    ) -> list[Answer]:
        """Execute a package for several images, the first on both devices likewise."""
        due = min(max(self._left, 0), len(inputs))
        self._left -= due
        answers = _images(self._first, package, inputs)
        others = _images(self._second, package, inputs[:due])
        for answer, other in zip(answers, others, strict=False):
            self.compared(answer, other)
        return answers

    def submit(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Pending:
        """Execute a package in the background likewise."""
        first = self._first.submit(package, inputs, timeout=timeout)
        return _Both(self, first, self._second.submit(package, inputs)) if self._due() else first

    def close(self) -> None:
        """Give both back."""
        try:
            self._first.close()
        finally:
            self._second.close()

    def _due(self) -> bool:
        self._left -= 1
        return self._left >= 0

    def compared(self, answer: Answer, other: Answer) -> Answer:
        """An answer that the other device agrees with.

        Raises:
            MismatchError: names the first output that differs.
        """
        for name, found in answer.tensors.items():
            wanted = other.tensors[name]
            if np.array_equal(found, wanted):
                continue
            differ = np.flatnonzero(found != wanted)
            place = int(differ[0])
            raise MismatchError(
                f"the devices differ in {differ.size} of {found.size} bytes of output {name!r}",
                reason=f"byte {place} is {int(found.flat[place])} on the first, "
                f"{int(wanted.flat[place])} on the second",
                where=self.description,
                hint="of a twin: is it the model that the file was compiled from, with the same "
                "weights? of an accelerator: run fitzroy probe, and please report what it says",
            )
        return answer


def _images(
    device: Device, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
) -> list[Answer]:
    """Answers of a device for several images."""
    if isinstance(device, ManyDevice):
        return device.run_images(package, inputs) if inputs else []
    return [device.run(package, image) for image in inputs]


class _Both:
    """Two answers to come.

    Args:
        device: compares them.
        first: one of them.
        second: the other.
    """

    def __init__(self, device: ProvenDevice, first: Pending, second: Pending) -> None:
        self._device = device
        self._first = first
        self._second = second

    def result(self, timeout: float | None = None) -> Answer:
        """The answer, or the error that came instead."""
        return self._device.compared(self._first.result(timeout), self._second.result(timeout))

    def cancel(self) -> bool:
        """Do without it; False if one of them is there already."""
        return all([self._first.cancel(), self._second.cancel()])

    def done(self) -> bool:
        """Whether it is there."""
        return self._first.done() and self._second.done()
