"""Virtual devices that count their transfers, take time for them, and lie."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from tests.driver.simulated_clock import EndlessError, SimulatedClock

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import (
    DfuDescriptor,
    DfuRequest,
    Event,
    RequestType,
    SetupPacket,
    Speed,
    Tag,
    to_bytes,
)
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.usb_device.device import Mode, VirtualDevice
from fitzroy.hw_models.usb_device.faults import Fault, FaultScript
from fitzroy.hw_models.usb_device.transfer import Status, Transfer

TRANSFER_SECONDS = 125e-6
"""What a transfer takes: a microframe."""

SLOW_SECONDS = 0.019
"""What it takes on a device that answers just before the driver gives up: see `LIMITS`."""

MOST_TRANSFERS = 100_000
"""A session that has more of them is taken to have no end; one without faults has about 300."""

CONTROL = 0
OUTPUT, EVENT, INTERRUPT = (
    BEAGLE.usb.endpoints[name].address for name in ("output", "event", "interrupt")
)
ENDPOINTS = (CONTROL, *(endpoint.address for endpoint in BEAGLE.usb.endpoints.values()))

_STATUS_REGISTERS = {
    register.address: register.width // 8
    for register in (
        csr.HIB_ERROR_STATUS,
        csr.HIB_FIRST_ERROR_STATUS,
        csr.SCU_CTRL_3,
        csr.OMC0_DC,
        csr.EP_STATUS_CREDIT,
        csr.SCALAR_CORE_RUN_CONTROL,
        csr.TILECONFIG0,
        csr.FATAL_ERR_INT_STATUS,
    )
}
"""Registers that a host believes, with their bytes."""


class CountedDevice(VirtualDevice):
    """A device whose transfers take time, and are counted.

    Args:
        clock: the time of the session.
        faults: as `VirtualDevice`.
        booted: as `VirtualDevice`.
        speed: as `VirtualDevice`.

    Attributes:
        phase: what the host is doing, as it says itself.
        trace: phase of every transfer so far.
        endpoints: endpoint of every transfer so far.
        hooks: what happens before a transfer, by its number from 1.
    """

    def __init__(
        self,
        clock: SimulatedClock,
        faults: Iterable[Fault] = (),
        *,
        booted: bool = False,
        speed: Speed = Speed.SUPER,
    ) -> None:
        super().__init__(speed, faults=faults, booted=booted, clock=clock)
        self.phase = ""
        self.trace: list[str] = []
        self.endpoints: list[int] = []
        self.hooks: dict[int, Callable[[], None]] = {}
        self._time = clock

    def submit(self, transfer: Transfer) -> None:
        self.trace.append("boot" if self.mode is Mode.BOOT else self.phase)
        self.endpoints.append(transfer.endpoint)
        if len(self.trace) > MOST_TRANSFERS:
            raise EndlessError(f"{MOST_TRANSFERS} transfers")
        self._time.sleep(self.seconds)
        hook = self.hooks.pop(len(self.trace), None)
        if hook is not None:
            hook()
        self.serve(transfer)

    @property
    def seconds(self) -> float:
        """What a transfer takes."""
        return TRANSFER_SECONDS

    def serve(self, transfer: Transfer) -> None:
        """Carry out a transfer that was counted."""
        super().submit(transfer)

    def heal(self) -> None:
        """Do nothing on purpose from now on; somebody plugs in what is unplugged."""
        self._script = FaultScript()
        self.hooks.clear()
        if not self.connected:
            self.replug()

    def replug(self) -> None:
        """Unplug the device and plug it in again."""
        self.unplug()
        self.plug()


class Lie(Enum):
    """What a malicious device does all the time; the value is the row of the table."""

    ANSWERS = "answers of wrong lengths"
    OUTPUTS = "outputs of wrong lengths"
    DRIP = "outputs byte by byte"
    EMPTY = "endless empty packets"
    FLOOD = "endless outputs"
    EVENTS = "endless events"
    GARBAGE = "garbage events"
    INTERRUPTS = "endless interrupts"
    REGISTERS = "random registers"
    STATUS = "lies in status registers"
    DESCRIPTORS = "garbage descriptors"
    DFU = "a boot ROM that lies"
    BOOT = "a boot ROM that stays"
    SLOW = "answers at the last moment"
    SILENT = "an endpoint is silent"
    STALLED = "an endpoint stalls"
    BROKEN = "an endpoint fails"


Reaction = bytes | Status | Callable[[bytes], bytes] | None
"""Bytes, or a status, at once; a change of the true answer; None for the truth. CANCELLED stands
for no answer until the host cancels."""


class HostileDevice(CountedDevice):
    """A device that lies from some transfer on, until it is healed.

    Nothing that it does looks like a whole output of a program: no host can tell outputs that are
    made up from those that were computed.

    Args:
        clock: as `CountedDevice`.
        faults: as `CountedDevice`.
        lies: what it does, None for the truth, and the number of the first transfer that it lies
            about.
        seed: of whatever is random.
        options: further ones of `CountedDevice`.
    """

    def __init__(
        self,
        clock: SimulatedClock,
        faults: Iterable[Fault] = (),
        lies: tuple[Lie | None, int] = (None, 1),
        seed: str = "",
        **options: Any,
    ) -> None:
        self._rng = random.Random(seed)
        self._lie, self._first = lies
        self._chosen = self._rng.choice(ENDPOINTS)
        self._style = self._rng.randrange(4)
        self._held: list[Transfer] = []
        self._drops = b""
        self._event = to_bytes(Event(tag=self._rng.choice(list(Tag))))
        self._told: dict[int, bytes] = {}
        self._garbled: dict[Mode, tuple[bytes, bytes]] = {}
        super().__init__(clock, faults, **options)

    @property
    def lying(self) -> bool:
        """Whether it lies at present."""
        return self._lie is not None and len(self.trace) >= self._first

    @property
    def seconds(self) -> float:
        return SLOW_SECONDS if self.lying and self._lie is Lie.SLOW else super().seconds

    def heal(self) -> None:
        # Systems read descriptors once: when a device appears.
        if self._lie is Lie.DESCRIPTORS:
            self.replug()
        self._lie = None
        super().heal()

    # --- lies ------------------------------------------------------------------------------------

    def serve(self, transfer: Transfer) -> None:
        match self._reaction(transfer) if self.lying else None:
            case None:
                pass
            case Status.CANCELLED:
                self._held.append(transfer)
                return
            case Status() as status:
                transfer.end(status)
                return
            case bytes(data):
                _give(transfer, data)
                transfer.end(transfer.status or Status.OK)
                return
            case change:
                self._change_later(transfer, change)
        super().serve(transfer)

    def cancel(self, transfer: Transfer) -> bool:
        if transfer in self._held:
            self._held.remove(transfer)
            transfer.end(Status.CANCELLED)
            return True
        return super().cancel(transfer)

    def reset(self) -> None:
        super().reset()
        if self.lying and self._lie is Lie.BOOT and self.mode is Mode.RUN:
            self._enter(Mode.BOOT)
            self._generation += 1

    def descriptors(self) -> tuple[bytes, bytes]:
        true = super().descriptors()
        if not self.lying or self._lie is not Lie.DESCRIPTORS:
            return true
        if self.mode not in self._garbled:
            device, configuration = true
            if self._style == 0:
                device = self._garbage(device)
            else:
                configuration = self._garbage(configuration)
            self._garbled[self.mode] = device, configuration
        return self._garbled[self.mode]

    def _change_later(self, transfer: Transfer, change: Callable[[bytes], bytes]) -> None:
        done = transfer.done

        def changed(ended: Transfer) -> None:
            if ended.status is Status.OK:
                _give(ended, change(ended.received))
            done(ended)

        transfer.done = changed

    def _reaction(self, transfer: Transfer) -> Reaction:
        here, setup = transfer.endpoint, transfer.setup
        match self._lie:
            case Lie.SILENT | Lie.STALLED | Lie.BROKEN if here & 0xFF == self._chosen:
                return _REFUSALS[self._lie]
            case Lie.ANSWERS if setup is not None and transfer.inward:
                return self._resized
            case Lie.OUTPUTS if here == OUTPUT:
                return self._longer_or_shorter
            case Lie.DRIP if here == OUTPUT:
                return self._drip()
            case Lie.EMPTY if here in (OUTPUT, EVENT, INTERRUPT):
                return b""
            case Lie.FLOOD if here == OUTPUT:
                return bytes(transfer.length)
            case Lie.EVENTS if here == EVENT:
                return self._same_event()
            case Lie.GARBAGE if here == EVENT:
                return self._resized if self._style else self._noise
            case Lie.INTERRUPTS if here == INTERRUPT:
                return self._rng.randbytes(4) if self._style else bytes(4)
            case Lie.REGISTERS | Lie.STATUS if setup is not None:
                return self._register(setup)
            case Lie.DFU if setup is not None and setup.request_type == RequestType.CLASS_IN:
                return self._dfu(setup)
        return None

    def _noise(self, data: bytes) -> bytes:
        return self._rng.randbytes(len(data))

    def _resized(self, data: bytes) -> bytes:
        if self._rng.random() < 0.5:
            return data[: self._rng.randrange(len(data) + 1)]
        return data + self._rng.randbytes(self._rng.randrange(1, 600))

    def _longer_or_shorter(self, data: bytes) -> bytes:
        count = self._rng.randrange(1, 255)
        return data + self._rng.randbytes(count) if self._style % 2 else data[:-count]

    def _drip(self) -> Reaction:
        if self._drops:
            drop, self._drops = self._drops[:1], self._drops[1:]
            return drop

        def first(data: bytes) -> bytes:
            self._drops = data[1:]
            return data[:1]

        return first

    def _same_event(self) -> Reaction:
        """One event for ever: one that is made up, or the first true one."""
        if self._style:
            return self._event

        def remember(data: bytes) -> bytes:
            self._event, self._style = data, 1
            return data

        return remember

    def _register(self, setup: SetupPacket) -> Reaction:
        if setup.request_type != RequestType.VENDOR_IN:
            return None
        if self._lie is Lie.REGISTERS:
            return self._rng.randbytes(setup.length)
        address = setup.index << 16 | setup.value
        if address not in _STATUS_REGISTERS or self._rng.random() < 0.2:
            return None
        size = _STATUS_REGISTERS[address]
        values = (bytes(size), b"\xff" * size, self._rng.randbytes(size))
        return self._told.setdefault(address, self._rng.choice(values))

    def _dfu(self, setup: SetupPacket) -> Reaction:
        if setup.request == DfuRequest.UPLOAD and self._style:
            return self._rng.randbytes(self._rng.randrange(setup.length + 1))
        if setup.request == DfuRequest.GET_STATUS and self._style != 1:
            return self._rng.choice((self._rng.randbytes(6), bytes(6), bytes([0, 0, 0, 0, 2, 0])))
        return None

    def _garbage(self, data: bytes) -> bytes:
        """A descriptor that is random, cut, too long, or says what is not so."""
        rng = self._rng
        at = rng.randrange(len(data))
        match rng.randrange(6):
            case 0:
                return rng.randbytes(rng.randrange(300))
            case 1:
                return data[:at]
            case 2:
                return data + rng.randbytes(rng.randrange(1, 600))
            case 3:
                return (
                    data[:at]
                    + bytes([rng.choice((0, 1, 255, rng.randrange(256)))])
                    + data[at + 1 :]
                )
            case 4:
                # Counts: of bytes, and of interfaces or configurations.
                return data[:2] + rng.randbytes(3) + data[5:]
        size = rng.choice((0, 1, 7, 0xFFFF))
        return data[: -DfuDescriptor.width // 8] + to_bytes(DfuDescriptor(transfer_size=size))


def _give(transfer: Transfer, data: bytes) -> None:
    """Let data arrive; the host controller takes no more than was asked for."""
    transfer.received = data[: transfer.length]
    if len(data) > transfer.length:
        transfer.status = Status.OVERFLOW


_REFUSALS = {
    Lie.SILENT: Status.CANCELLED,
    Lie.STALLED: Status.STALL,
    Lie.BROKEN: Status.ERROR,
}
