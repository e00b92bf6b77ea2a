"""Models that are compiled for the Edge TPU, and the devices that run them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fitzroy.base.errors import UsageError

if TYPE_CHECKING:
    from fitzroy.driver.runtime.devices import Device


def is_compiled(data: bytes, path: str) -> bool:
    """Whether a TFLite model has Edge TPU operators.

    Raises:
        FormatError: the model is malformed.
    """
    from fitzroy.formats import custom_op, tflite

    return bool(custom_op.extract(tflite.read_model(data, path), path))


def refuse_device(device: str | None, record: Path | None, path: str) -> None:
    """Refuse a device for a file that has no part for it.

    Raises:
        UsageError: one was named.
    """
    for name, value in (("--device", device), ("--record", record)):
        if value is not None:
            raise UsageError(
                f"{name} is for models that are compiled for the Edge TPU",
                where=path,
                hint="compile it first: fitzroy compile MODEL --target edgetpu",
            )


def named_device(device: str | None, record: Path | None) -> Device:
    """The device that ``--device`` and ``--record`` ask for.

    Raises:
        UsageError: there is no such name, or it cannot be recorded.
        DeviceError: there is no such device, or more than one.
    """
    from fitzroy.driver.runtime.devices import DeviceOptions, open_device

    return open_device(device or "auto", DeviceOptions(record=record))
