"""Devices by name, as models take them: those of the driver, and the twin of the chip.

| name | device |
|---|---|
| ``twin:MODEL`` | the twin, which computes the model that the packages were compiled from |
| all others | see `fitzroy.driver.runtime.devices` |
"""

from __future__ import annotations

from fitzroy.base.errors import UsageError
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.driver.runtime import devices
from fitzroy.driver.runtime.devices import Device, DeviceOptions
from fitzroy.driver.runtime.proof import ProvenDevice
from fitzroy.execution.twin import twin

TWIN = "twin"
ENVIRONMENT = "FITZROY_DEVICE"
"""Environment variable with names of devices for programs that name none."""


def open_device(
    spec: str = "auto",
    options: DeviceOptions | None = None,
    *,
    prove: int = 0,
    how: Reading = PLAINLY,
) -> Device:
    """A device by its name; the first request opens it.

    Args:
        spec: see the table above.
        options: how to use it.
        prove: how many inferences to repeat on the simulated chip, which has to agree.
        how: how the model of a twin is read.

    Raises:
        UsageError: no such name, or options that it does not take.
        DeviceError: there is no such device, or more than one.
        FormatError: the model of a twin is malformed.
        UnsupportedError: it has operators without counterpart.
    """
    if prove:
        return ProvenDevice(open_device(spec, options, how=how), devices.DirectSimulator(), prove)
    check_name(spec)
    kind, _, rest = spec.partition(":")
    if kind != TWIN:
        if how != PLAINLY:
            raise UsageError(
                "inputs of a compiled model have fixed shapes, and are no constants",
                reason=f"shapes and values are for the source of a twin, and the device is {spec}",
                hint="name the source: --device twin:MODEL",
            )
        return devices.open_device(spec, options)
    if not rest:
        raise UsageError(
            "the twin computes the model that a file was compiled from, and needs it",
            hint="name it: --device twin:MODEL.tflite",
        )
    if options is not None and options.record is not None:
        raise UsageError("a twin has no USB to record", hint="use the device sim, or usb")
    return twin(rest, how=how)


def check_name(spec: str) -> None:
    """Refuse a name that is not in the table above.

    Raises:
        UsageError: no such name.
    """
    if spec.partition(":")[0] != TWIN:
        devices.check_name(spec, (f"{TWIN}:MODEL",))
