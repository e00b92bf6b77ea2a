"""A device from wherever it is to a chip that takes programs, and back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress

from fitzroy.base.errors import DeviceError
from fitzroy.driver.device import bringup
from fitzroy.driver.device.bringup import Clocks, Setup, perform
from fitzroy.driver.device.firmware import Dfu, Firmware
from fitzroy.driver.device.limits import Limits, Watch
from fitzroy.driver.device.registers import RegisterFile, control_in, retried
from fitzroy.driver.device.streams import Streams
from fitzroy.driver.transports.transport import (
    AccessError,
    Attached,
    Bus,
    LostError,
    Reservation,
    Transport,
    lost,
)
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import (
    DescriptorType,
    DeviceDescriptor,
    RequestType,
    Speed,
    StandardRequest,
)
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.beagle import TopLevelInterrupt
from fitzroy.hw_models.csr.fields import HibError

BOOT = (BEAGLE.usb.boot.vendor, BEAGLE.usb.boot.product)
"""Vendor and product id of the boot ROM."""

_LOOK_SECONDS = 0.1
"""Time between two looks for a device that is to come back."""


class ChipError(DeviceError):
    """The chip is stuck with a fatal error.

    Attributes:
        errors: names of the bits of `hib_error_status`.
    """

    errors: tuple[str, ...] = ()


class ThermalError(DeviceError):
    """The chip became too hot and has stopped."""


def in_boot_mode(attached: Attached) -> bool:
    """Whether a device has no firmware yet."""
    return (attached.vendor, attached.product) == BOOT


class Connection:
    """A device on a port.

    Args:
        bus: where it is.
        path: bus and ports that lead to it.
        firmware: gives the firmware when the device needs it.
        clocks: performance level.
        limits: how long to wait.

    Attributes:
        path: as given.
        sessions: how often the chip was opened; what it caches is gone each time.
        warnings: thermal warnings so far.
        clocks: as given.
        limits: as given.
    """

    def __init__(
        self,
        bus: Bus,
        path: str,
        *,
        firmware: Callable[[], Firmware],
        clocks: Clocks = Clocks.MAX,
        limits: Limits | None = None,
    ) -> None:
        self.path = path
        self.sessions = 0
        self.warnings = 0
        self.clocks = clocks
        self.limits = limits or Limits()
        self._bus = bus
        self._firmware = firmware
        self._multiple = False
        self._transport: Transport | None = None
        self._registers: RegisterFile | None = None
        self._streams: Streams | None = None
        self._announced = Setup().events
        self._reservation: Reservation | None = None

    # --- what is open ----------------------------------------------------------------------------

    @property
    def opened(self) -> bool:
        """Whether the chip takes programs, as far as is known."""
        return self._streams is not None

    @property
    def streams(self) -> Streams:
        """The endpoints.

        Raises:
            LostError: the device is not open.
        """
        if self._streams is None:
            raise lost(self.path)
        return self._streams

    @property
    def registers(self) -> RegisterFile:
        """The registers.

        Raises:
            LostError: the device is not open.
        """
        if self._registers is None:
            raise lost(self.path)
        return self._registers

    @property
    def attached(self) -> Attached | None:
        """What is open, None if nothing is."""
        return None if self._transport is None else self._transport.attached

    # --- opening ---------------------------------------------------------------------------------

    def open(self, watch: Watch) -> None:
        """Reserve and reset the device, load its firmware if it has none, and open the chip.

        Args:
            watch: ends the attempt.

        Raises:
            DeviceError: it is not there, does not answer, another process has it, or there is no
                firmware for it.
        """
        self._leave()
        try:
            if self._reservation is None:
                self._reservation = self._bus.reserve(self.path)
            self._open(watch)
        except BaseException:
            # Whoever wants a device that does not work here may have it.
            self.drop()
            raise

    def _open(self, watch: Watch) -> None:
        transport = retried(lambda: self._first_look(watch), self.limits.control_tries)
        attached = self._restart(transport, watch)
        if in_boot_mode(attached):
            firmware = self._firmware()
            # Only known images say that they have several endpoints.
            self._multiple = bool(firmware.multiple)
            with closing(self._reopen()) as transport:
                Dfu(transport, self.limits, watch).load(firmware.data)
                attached = self._restart(transport, watch, booted=True)
            if in_boot_mode(attached):
                raise DeviceError(
                    "the device stays in its boot ROM",
                    reason=f"the firmware is {firmware.origin}",
                    where=self.path,
                    hint="unplug the device and plug it in again; check the firmware",
                )
        transport = self._transport = self._reopen()
        transport.claim()
        self._registers = RegisterFile(transport, self.limits)
        streams = Streams(transport, self.limits, self._multiple, self.inspect)
        self._start(transport, streams, watch)

    def restart(self, watch: Watch) -> None:
        """Open the chip anew, without a reset of the port.

        Args:
            watch: ends the attempt.

        Raises:
            DeviceError: the device does not answer.
        """
        streams, transport = self._streams, self._transport
        if streams is None or transport is None:
            raise lost(self.path)
        self._streams = None
        transport.recall()
        retried(lambda: streams.clear_halts(watch), self.limits.control_tries)
        self._start(transport, streams, watch)
        # What the chip still held before it slept must not become part of an answer.
        streams.renew(watch)

    def _start(self, transport: Transport, streams: Streams, watch: Watch) -> None:
        setup = Setup(
            speed=transport.attached.speed or Speed.HIGH,
            clocks=self.clocks,
            multiple=self._multiple,
        )
        perform(bringup.OPEN, self.registers.within(watch), setup)
        self._announced = setup.events
        self._streams = streams
        self.sessions += 1

    def _first_look(self, watch: Watch) -> Transport:
        """Open the device, see that nobody else has it, and that it answers.

        A reset of the port would end what another process does, so the claim comes first.
        """
        watch.check("the first look at the device")
        transport = self._bus.open(self.path)
        try:
            transport.claim()
            control_in(
                transport,
                RequestType.STANDARD_IN,
                StandardRequest.GET_DESCRIPTOR,
                DescriptorType.DEVICE << 8,
                0,
                DeviceDescriptor.width // 8,
                self.limits.control,
            )
        except DeviceError:
            transport.close()
            raise
        return transport

    def _reopen(self) -> Transport:
        """Open the device after a reset: the system may need a moment to give access to it."""
        watch = self.limits.watch(self.limits.access)
        while True:
            try:
                return self._bus.open(self.path)
            except (AccessError, LostError):
                if watch.left <= 0:
                    raise
            self.limits.clock.sleep(min(_LOOK_SECONDS, self.limits.access / 10))
            self._bus.renew()

    def _restart(self, transport: Transport, watch: Watch, *, booted: bool = False) -> Attached:
        """Reset the port, and wait until the device is back, as another one if it was booted."""
        try:
            watch.check("the reset of the port")
            transport.reset()
        finally:
            transport.close()
        self.limits.clock.sleep(self.limits.settle)
        return self._await(self.limits.enumerate, watch, booted=booted)

    def _await(self, seconds: float, request: Watch, *, booted: bool = False) -> Attached:
        """Wait until the device is on its port.

        Args:
            seconds: most time to wait.
            request: ends the wait as well.
            booted: whether to go on waiting while it is in boot mode; in the end it is returned
                as it is.

        Raises:
            LostError: it does not come.
            DeadlineError: the request has no time for it.
            RequestCancelledError: nobody wants it any more.
        """
        watch = self.limits.watch(seconds)
        while True:
            # Without udev, as in containers, an old context of libusb does not see it.
            self._bus.renew()
            here = [one for one in self._bus.attached() if one.path == self.path]
            late = watch.left <= 0
            if here and (late or not (booted and in_boot_mode(here[0]))):
                return here[0]
            if late:
                raise lost(self.path)
            request.check("the wait for the device to come back")
            self.limits.clock.sleep(min(_LOOK_SECONDS, seconds / 10))

    def await_plug(self, watch: Watch) -> None:
        """Wait until a device that was unplugged is back.

        Raises:
            LostError: it is not, within `Limits.replug` and the time that the watch leaves.
            RequestCancelledError: nobody wants it any more.
        """
        self._await(max(0.0, min(self.limits.replug, watch.left)), watch)

    # --- closing ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the chip, and give the device back; a device that fails is given back as well."""
        if self._registers is not None and self._streams is not None:
            with suppress(DeviceError):
                watch = self.limits.watch(self.limits.request)
                perform(bringup.CLOSE, self._registers.within(watch), Setup())
        self.drop()

    def drop(self) -> None:
        """Give the device back as it is."""
        self._leave()
        if self._reservation is not None:
            self._reservation.release()
            self._reservation = None

    def _leave(self) -> None:
        """Close the device, and keep others away from it."""
        if self._transport is not None:
            self._transport.close()
        self._transport = self._registers = self._streams = None

    # --- what the chip says ----------------------------------------------------------------------

    def inspect(self) -> None:
        """See whether something is wrong with the chip.

        Raises:
            ChipError: it is stuck.
            ThermalError: it was too hot.
            TransferError: the device does not answer.
        """
        packet = self.streams.interrupts(self.limits.drain)
        errors = self.registers.read(csr.HIB_ERROR_STATUS)
        if errors:
            raise self._stuck(errors)
        if packet is not None and packet.fatal:
            self.registers.write(csr.FATAL_ERR_INT_STATUS, 0)
        self._inspect_heat()

    def _stuck(self, errors: int) -> ChipError:
        known = (1 << sum(field.width for field in HibError.fields())) - 1
        names = HibError.unpack(errors & known).names()
        first = self.registers.read(csr.HIB_FIRST_ERROR_STATUS)
        error = ChipError(
            "the chip is stuck",
            reason=f"{', '.join(names) or hex(errors)}; hib_first_error_status is {first:#x}",
            where=self.path,
            hint="the program may be at fault: fitzroy sim shows what it does",
        )
        error.errors = names
        return error

    def _inspect_heat(self) -> None:
        heat = self.registers.read(csr.OMC0_DC)
        shutdown, warning = (bool(csr.OMC0_DC.field(heat, name)) for name in ("sd_o", "warn_o"))
        if not shutdown and not warning:
            return
        cleared = csr.OMC0_DC.changed(heat, sd_clear=shutdown, warn_clear=warning)
        self.registers.write(csr.OMC0_DC, cleared)
        for pending, interrupt in (
            (warning, TopLevelInterrupt.THERMAL_WARNING),
            (shutdown, TopLevelInterrupt.THERMAL_SHUTDOWN),
        ):
            if pending:
                self.registers.write(csr.TOP_LEVEL_STATUSES[interrupt], 0)
        self.warnings += warning
        if shutdown:
            raise ThermalError(
                "the chip became too hot and has stopped",
                where=self.path,
                hint="let it cool, and choose lower clocks (max, high, medium, low)",
            )

    def temperature(self) -> float | None:
        """Temperature of the chip in degrees Celsius, None as long as the sensor is off.

        Raises:
            DeviceError: the device does not answer.
        """
        heat = self.registers.read(csr.OMC0_DC)
        if not csr.OMC0_DC.field(heat, "enthmc"):
            return None
        return BEAGLE.thermometer.celsius(int(csr.OMC0_DC.field(heat, "data")))

    def announce(self, tags: int) -> None:
        """Choose whose descriptors become events.

        Args:
            tags: mask of tags.

        Raises:
            DeviceError: the device does not answer.
        """
        if tags != self._announced:
            self.registers.write(csr.DESCR_EP, csr.DESCR_EP.value(tags=tags))
            self._announced = tags
