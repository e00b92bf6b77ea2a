"""Whether there is a chip in a device at all: what is simulated may be silent for minutes.

Only a device that stays silent is asked, and by a request that every device knows. A simulated one
names the request by which it says whether it computes.
"""

from __future__ import annotations

from fitzroy.base.errors import FormatError
from fitzroy.driver.device.limits import Limits
from fitzroy.driver.transports.transport import TransferError, Transport
from fitzroy.hw_models.chips.usb import (
    BosDescriptor,
    DescriptorType,
    RequestType,
    SetupPacket,
    StandardRequest,
    simulation_request,
)

_HEAD_BYTES = BosDescriptor.width // 8
_MOST_BYTES = 1024
"""Most bytes of an object store that are read."""

_UNASKED = -1
_NONE = -2


class Simulation:
    """What a device says of its chip.

    Args:
        transport: the device.
        limits: how long to wait for an answer.
    """

    def __init__(self, transport: Transport, limits: Limits) -> None:
        self._transport = transport
        self._limits = limits
        self._request = _UNASKED

    @property
    def present(self) -> bool:
        """Whether the chip is simulated, as far as the device answers."""
        if self._request == _UNASKED:
            found = self._found()
            self._request = _NONE if found is None else found
        return self._request != _NONE

    def computing(self) -> bool:
        """Whether the chip is simulated and computes at present."""
        if not self.present:
            return False
        setup = SetupPacket(RequestType.VENDOR_IN, self._request, length=1)
        try:
            return self._transport.control(setup, timeout=self._limits.control) == b"\1"
        except TransferError:
            return False

    def _found(self) -> int | None:
        """The request that the device names, None if it names none or does not answer."""
        try:
            total = int.from_bytes(self._store(_HEAD_BYTES)[2:4], "little")
            if not _HEAD_BYTES < total <= _MOST_BYTES:
                return None
            return simulation_request(self._store(total))
        except (TransferError, FormatError):
            return None

    def _store(self, size: int) -> bytes:
        setup = SetupPacket(
            RequestType.STANDARD_IN,
            StandardRequest.GET_DESCRIPTOR,
            value=DescriptorType.BOS << 8,
            length=size,
        )
        return self._transport.control(setup, timeout=self._limits.control)
