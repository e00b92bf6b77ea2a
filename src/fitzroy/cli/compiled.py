"""Models that are compiled for the Edge TPU, and the devices that run them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fitzroy.base.errors import UsageError
from fitzroy.cli.help import (
    DeviceName,
    DeviceNames,
    DeviceSeconds,
    FirmwareFile,
    ProvenCount,
    RecordFile,
)
from fitzroy.cli.timing import Clock
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading

if TYPE_CHECKING:
    from fitzroy.driver.runtime.devices import Device, DeviceOptions
    from fitzroy.execution.pipelined import PipelinedInterpreter


def is_compiled(data: bytes, path: str) -> bool:
    """Whether a TFLite model has Edge TPU operators.

    Raises:
        FormatError: the model is malformed.
    """
    from fitzroy.formats import custom_op, tflite

    return bool(custom_op.extract(tflite.read_model(data, path), path))


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """The device that options ask for; None for what is not given.

    Attributes:
        name: ``--device``.
        record: ``--record``.
        firmware: ``--firmware``.
        clock: ``--clock``.
        timeout: ``--timeout``.
        prove: ``--prove``.
        several: ``--devices``.
    """

    name: DeviceName = None
    record: RecordFile = None
    firmware: FirmwareFile = None
    clock: Clock = None
    timeout: DeviceSeconds = None
    prove: ProvenCount = None
    several: DeviceNames = None

    def refuse(self, path: str) -> None:
        """Refuse a device for a file that has no part for it.

        Raises:
            UsageError: one of the options was given.
        """
        given = {
            "--device": self.name,
            "--record": self.record,
            "--firmware": self.firmware,
            "--clock": self.clock,
            "--timeout": self.timeout,
            "--prove": self.prove,
            "--devices": self.several,
        }
        for option, value in given.items():
            if value is not None:
                raise UsageError(
                    f"{option} is for models that are compiled for the Edge TPU",
                    where=path,
                    hint="compile it first: fitzroy compile MODEL --target edgetpu",
                )

    def segments(self, path: str) -> PipelinedInterpreter:
        """The segments of a model on the devices of ``--devices``.

        Args:
            path: the file of a segment.

        Raises:
            UsageError: options contradict, a segment is missing, or there are too few devices.
            DeviceError: a device cannot be opened.
        """
        from fitzroy.execution.pipelined import PipelinedInterpreter, device_names, segments_of

        for option, value in (
            ("--device", self.name),
            ("--record", self.record),
            ("--prove", self.prove),
        ):
            if value is not None:
                raise UsageError(f"{option} does not go with --devices")
        names = device_names(self.several or "")
        return PipelinedInterpreter(segments_of(path), names, options=self.options())

    def options(self) -> DeviceOptions:
        """How to use the device.

        Raises:
            UsageError: there is no such clock.
        """
        from fitzroy.cli.timing import Speed
        from fitzroy.driver.device.bringup import Clocks
        from fitzroy.driver.runtime.devices import DeviceOptions

        clocks = Clocks[Speed.of(self.clock, None, None).clock.upper()]
        return DeviceOptions(
            firmware=self.firmware, clocks=clocks, record=self.record, timeout=self.timeout
        )

    @property
    def simulated(self) -> bool:
        """Whether the device is not a real one."""
        from fitzroy.driver.runtime.devices import is_accelerator

        if self.several is not None:
            from fitzroy.execution.pipelined import device_names

            return not all(map(is_accelerator, device_names(self.several)))
        return not is_accelerator(self.name or "auto")

    def open(self, how: Reading = PLAINLY) -> Device:
        """The device.

        Args:
            how: how the source of a twin is read.

        Raises:
            UsageError: there is no such name or clock, it cannot be recorded, or no source is read.
            DeviceError: there is no such device, or more than one.
        """
        from fitzroy.execution.devices import open_device

        return open_device(self.name or "auto", self.options(), prove=self.prove or 0, how=how)
