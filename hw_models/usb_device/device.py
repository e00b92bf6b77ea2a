"""A virtual USB accelerator on a port: boot ROM and run time, requests, streams and faults.

The device has one lock. Programs run outside of it, in the thread whose transfer brought the last
byte that they needed, or in an executor; other transfers are served meanwhile. `done` of a
transfer is called outside of the lock, never from within another `done` of the same thread: it
may submit and cancel, but a transfer that it waits for may not end before it returns.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from enum import Enum

from fitzroy.base.clock import SYSTEM_CLOCK, Clock
from fitzroy.base.errors import FitzroyError, SimulationError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import (
    ENDPOINT_HALT,
    INTERRUPT_PACKET,
    SIMULATION_REQUEST,
    CsrRequest,
    DescriptorType,
    DeviceFeature,
    DeviceStatus,
    DfuRequest,
    EndpointStatus,
    Event,
    InterruptPacket,
    LanguagesDescriptor,
    QualifierDescriptor,
    RequestType,
    SetupPacket,
    Speed,
    StandardRequest,
    Tag,
    boot_configuration,
    configuration,
    device_descriptor,
    object_store,
    other_speed_configuration,
    to_bytes,
)
from fitzroy.hw_models.csr.beagle import TopLevelInterrupt
from fitzroy.hw_models.csr.fields import EndpointCredit
from fitzroy.hw_models.edgetpu.machine import Delivery, Fetch, Interrupt, Request
from fitzroy.hw_models.edgetpu.scalar import STEP_BUDGET
from fitzroy.hw_models.usb_device.boot import BootRom
from fitzroy.hw_models.usb_device.core import ChipCore, Program
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind, FaultScript
from fitzroy.hw_models.usb_device.registers import RUN_CONTROLS, Registers
from fitzroy.hw_models.usb_device.stopwatch import Stopwatch
from fitzroy.hw_models.usb_device.streams import CREDIT_BYTES, FIFO_BYTES, Endpoint, Intake, Outlet
from fitzroy.hw_models.usb_device.transfer import Status, Transfer

_PORT = BEAGLE.usb
_EVENT_BYTES = Event.width // 8
_MOST_EVENTS = 16
"""Events that may wait for the host before the chip does: ASSUMED."""

_OUTPUT = _PORT.endpoints["output"].address
_EVENT = _PORT.endpoints["event"].address
_INTERRUPT = _PORT.endpoints["interrupt"].address
_DATA = {
    _PORT.endpoints["out_1"].address: Tag.INSTRUCTIONS,
    _PORT.endpoints["out_2"].address: Tag.INPUT,
    _PORT.endpoints["out_3"].address: Tag.PARAMETERS,
}
"""Endpoints for data to the chip, and what each carries if there are several."""


class Mode(Enum):
    """What the device is; the value is the text for messages."""

    BOOT = "boot ROM"
    RUN = "run time"


class VirtualDevice:
    """A device from the moment it is plugged in.

    Args:
        speed: speed of the connection.
        seed: randomize the order of the chip's engines and what its memories hold at first.
        booted: whether it has its firmware already, as if a host had loaded it before.
        faults: what goes wrong on purpose.
        executor: runs programs; by default they run in the thread that brings their last byte.
        budget: most steps of the scalar core in a program.
        clock: tells when a device is plugged in again.
        ahead: bytes that an endpoint takes beyond what the chip has asked for while the chip
            computes. A chip has room for `FIFO_BYTES`, and is done in milliseconds; hosts whose
            time limits are made for that give up a simulation.
        stopwatch: told of every program that has run to its end, to say what it would have taken.

    Attributes:
        mode: boot ROM or run time.
        registers: the register space of the run time; its values outlast resets of the port.
        firmware: what the last finished download brought; empty if `booted` made it unnecessary.
        fault: why the chip got stuck the last time, kept until it gets stuck again.
        configured: value of the last SET_CONFIGURATION, 0 after a reset.
    """

    def __init__(
        self,
        speed: Speed = Speed.SUPER,
        seed: int | None = None,
        booted: bool = False,
        faults: Iterable[Fault] | None = None,
        *,
        executor: Executor | None = None,
        budget: int = STEP_BUDGET,
        clock: Clock = SYSTEM_CLOCK,
        ahead: int = FIFO_BYTES,
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self._record: Callable[[Program], None] | None = None
        if stopwatch is not None:
            self._record = lambda program: stopwatch.ran(program, self.registers.clock)
        self._clock = clock
        self._ahead = ahead
        self._speed = speed
        self._seed = seed
        self._budget = budget
        self._executor = executor
        self._script = FaultScript(faults or ())
        self._lock = threading.Lock()
        self._local = threading.local()
        self._pumping = False
        self._generation = 1
        self._plugged: float | None = 0.0
        self._ended: list[Transfer] = []
        self._stuck: list[Transfer] = []
        self.firmware = b""
        self.fault: FitzroyError | None = None
        self._core = ChipCore()
        self._working: ChipCore | None = None
        self._enter(Mode.RUN if booted else Mode.BOOT)

    def _enter(self, mode: Mode) -> None:
        """Become a device of a mode, as after power-on."""
        self.mode = mode
        self.configured = 0
        self._detached = False
        self._rom = BootRom()
        self.registers = Registers(self)
        self._renew_core()
        packet = _PORT.super_packet if self._speed is Speed.SUPER else _PORT.high_packet
        self._intakes = {address: Intake(self._end, tag) for address, tag in _DATA.items()}
        self._outlets = {
            _OUTPUT: Outlet(self._end, packet),
            _EVENT: Outlet(self._end, packet),
            _INTERRUPT: Outlet(self._end, INTERRUPT_PACKET),
        }
        self._endpoints: dict[int, Endpoint] = {**self._intakes, **self._outlets}
        self._end_address: int | None = None

    def _renew_core(self) -> None:
        """Give the chip core new memories."""
        # One that computes at present is discarded when it is done.
        if self._core is not self._working:
            self._core.discard()
        self._core = ChipCore(seed=self._seed, budget=self._budget, record=self._record)
        self._core.halted = not self.registers.running

    # --- the port --------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        """Whether the device is plugged in."""
        return self._plugged is not None and self._clock.now() >= self._plugged

    @property
    def generation(self) -> int:
        """Counts up whenever the device appears with other descriptors, or again."""
        return self._generation

    @property
    def speed(self) -> Speed:
        """Speed of the connection."""
        return self._speed

    @property
    def idle(self) -> bool:
        """Whether no program can go on before the host sends, or takes, something."""
        with self._lock:
            return not self._pumping and not self._can_step()

    def descriptors(self) -> tuple[bytes, bytes]:
        """Device and configuration descriptor of what the device is now."""
        if self.mode is Mode.BOOT:
            return to_bytes(device_descriptor(_PORT.boot, self._speed)), boot_configuration(_PORT)
        return (
            to_bytes(device_descriptor(_PORT.runtime, self._speed)),
            configuration(_PORT, self._speed),
        )

    def submit(self, transfer: Transfer) -> None:
        """Start a transfer; it may end before this returns."""
        with self._moving():
            spoils = None
            for fault in self._script.take(transfer):
                if fault.of_transfer:
                    spoils = fault
                else:
                    self._happen(fault)
            if not self.connected:
                self._end(transfer, Status.NO_DEVICE)
            elif transfer.endpoint & 0x7F == 0:
                self._control(transfer, spoils)
            elif transfer.endpoint in self._endpoints and self._streaming:
                self._endpoints[transfer.endpoint].submit(transfer, spoils)
            else:
                # Nothing answers.
                self._end(transfer, Status.ERROR)

    def cancel(self, transfer: Transfer) -> bool:
        """End a transfer that is under way as cancelled; False if it has ended before."""
        with self._moving():
            if transfer in self._stuck:
                self._stuck.remove(transfer)
                self._end(transfer, Status.CANCELLED)
                return True
            return any(endpoint.cancel(transfer) for endpoint in self._endpoints.values())

    def reset(self) -> None:
        """Reset the port; transfers under way are cancelled, and the device may re-enumerate."""
        with self._moving():
            self._reset()

    def unplug(self) -> None:
        """Unplug the device: transfers under way end, and all state is lost."""
        with self._moving():
            self._unplug(None)

    def plug(self) -> None:
        """Plug the device in again; it comes up in boot mode."""
        with self._moving():
            if self._plugged is None:
                self._plugged = 0.0

    def set_temperature(self, celsius: float) -> None:
        """Let the chip have a temperature; thresholds in registers may interrupt."""
        with self._moving():
            self._heat(*self.registers.measure(celsius))

    def overheat(self, interrupt: TopLevelInterrupt) -> None:
        """Let the chip be as hot as a thermal interrupt says, whatever the thresholds are."""
        with self._moving():
            self._heat(interrupt)

    def fail(self, error: str = "csr_parity") -> None:
        """Let the chip get stuck.

        Args:
            error: name of a bit of `hib_error_status`.
        """
        with self._moving():
            self._core.fail(SimulationError("the chip fails on purpose", reason=error), error)

    # --- locking, and whom to tell ---------------------------------------------------------------

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """Do something under the lock; then see what moves on account of it."""
        with self._lock:
            yield
            self._advance()
            ended, self._ended = self._ended, []
            pump = not self._pumping and self._can_step()
            self._pumping |= pump
        self._settle(ended, pump)

    def _end(self, transfer: Transfer, status: Status) -> None:
        transfer.status = status
        self._ended.append(transfer)

    def _settle(self, ended: Iterable[Transfer], pump: bool) -> None:
        """Tell who waits, and run the program.

        Args:
            ended: transfers that have ended.
            pump: whether this thread is the one that runs it.
        """
        local = self._local
        if pump and self._executor is not None:
            self._executor.submit(self._pump)
            pump = False
        if getattr(local, "ended", None) is not None:
            # A `done` of this thread has submitted something: leave the rest to its caller.
            local.ended.extend(ended)
            local.pump |= pump
            return
        local.ended, local.pump = deque(ended), pump
        try:
            self._tell()
        finally:
            local.ended = None

    def _pump(self) -> None:
        """Run the program in a thread of the executor."""
        local = self._local
        local.ended, local.pump = deque(), True
        try:
            self._tell()
        finally:
            local.ended = None

    def _tell(self) -> None:
        local = self._local
        failure: BaseException | None = None
        while local.ended or local.pump:
            if not local.ended:
                ended, local.pump = self._step()
                local.ended.extend(ended)
                continue
            transfer = local.ended.popleft()
            try:
                transfer.done(transfer)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _can_step(self) -> bool:
        return (
            self._core.ready
            and self._outlets[_OUTPUT].waiting <= FIFO_BYTES
            and self._outlets[_EVENT].waiting < _MOST_EVENTS * _EVENT_BYTES
        )

    def _step(self) -> tuple[list[Transfer], bool]:
        """Let the program go on to its next request: what ended, and whether it may go on."""
        with self._lock:
            core = self._core
            work = core.step() if self._can_step() else None
            self._working = core
        request: Request | None = None
        error: FitzroyError | None = None
        if work is not None:
            try:
                request = work()
            except FitzroyError as found:
                error = found
            except BaseException:
                with self._lock:
                    core.fail(SimulationError("the simulator failed"), "")
                    self._pumping, self._working = False, None
                raise
        with self._lock:
            self._working = None
            if core is not self._core:
                # It has lost power meanwhile.
                core.discard()
            elif error is not None:
                core.fail(error, "instruction_queue_invalid")
            elif work is not None and core.error is None:
                self._show(core.after(request))
            self._advance()
            ended, self._ended = self._ended, []
            self._pumping = self._can_step()
            return ended, self._pumping

    # --- what moves ------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Move bytes as far as they go."""
        core, multiple = self._core, self.registers.multiple
        computes = self._pumping or self._can_step()
        for intake in self._intakes.values():
            intake.capacity = self._ahead if computes else FIFO_BYTES
            intake.advance(core, multiple=multiple)
            if not multiple:
                break
        if core.error is not None and core.error is not self.fault:
            self.fault = core.error
            if core.cause:
                self.registers.fatal(core.cause)
        reported = self.registers.reported
        if reported and not self._outlets[_INTERRUPT].waiting:
            packet = InterruptPacket(
                fatal=None in reported,
                top_level=tuple(interrupt in reported for interrupt in TopLevelInterrupt),
            )
            self._send(_INTERRUPT, to_bytes(packet))
            reported.clear()
        for outlet in self._outlets.values():
            outlet.advance()

    def _show(self, request: Delivery | Interrupt | Fetch | None) -> None:
        """Hand to the host what it is to see of a program."""
        output = self._outlets[_OUTPUT]
        # Packets do not end where the next output goes on: hints join such transfers, and the
        # recorded conversations agree with that.
        joins = isinstance(request, Delivery) and request.descriptor.address == self._end_address
        if not joins:
            output.flush()
            self._end_address = None
        match request:
            case Fetch(descriptor):
                self._announce(Tag(descriptor.tag), descriptor.address, descriptor.size)
            case Delivery(descriptor, data):
                self._announce(Tag.OUTPUT, descriptor.address, descriptor.size)
                output.push(data.tobytes(), self.registers.output_chunk)
                self._end_address = descriptor.address + descriptor.size
            case Interrupt(number):
                self._announce(Tag(Tag.INTERRUPT_0 + number), 0, 0)

    def _announce(self, tag: Tag, address: int, length: int) -> None:
        if self.registers.announced >> tag & 1:
            event = Event(address=address, length=length, tag=tag)
            self._send(_EVENT, to_bytes(event))

    def _send(self, endpoint: int, message: bytes) -> None:
        self._outlets[endpoint].push(message)
        self._outlets[endpoint].flush()

    # --- what happens to the device --------------------------------------------------------------

    def _drop_all(self, status: Status) -> None:
        for endpoint in self._endpoints.values():
            endpoint.cancel_all(status)
            endpoint.clear()
            endpoint.halted = False
        for transfer in self._stuck:
            self._end(transfer, status)
        self._stuck.clear()

    def _reset(self) -> None:
        self._drop_all(Status.CANCELLED)
        if self._rom.firmware or self._detached:
            if self.mode is Mode.BOOT:
                self.firmware = self._rom.firmware
            self._enter(Mode.RUN if self.mode is Mode.BOOT else Mode.BOOT)
            self._generation += 1
        else:
            self.configured = 0
            self._rom = BootRom()
            self._renew_core()

    def _unplug(self, back: float | None) -> None:
        self._drop_all(Status.NO_DEVICE)
        if self.connected:
            self._generation += 1
        self._plugged = back
        self.firmware = b""
        self._enter(Mode.BOOT)

    def _heat(self, *interrupts: TopLevelInterrupt) -> None:
        for interrupt in interrupts:
            self.registers.interrupt(interrupt)
            if interrupt is TopLevelInterrupt.THERMAL_SHUTDOWN:
                self._core.fail(SimulationError("thermal shutdown"), "")

    def _happen(self, fault: Fault) -> None:
        """A fault that is not one of a transfer."""
        match fault.kind:
            case FaultKind.UNPLUG:
                self._unplug(None)
            case FaultKind.REPLUG:
                self._unplug(self._clock.now() + fault.seconds)
            case FaultKind.FATAL:
                self._core.fail(SimulationError(f"a fault on purpose: {fault.error}"), fault.error)
            case FaultKind.TEMPERATURE:
                self._heat(*self.registers.measure(fault.celsius))
            case FaultKind.THERMAL_WARNING:
                self._heat(TopLevelInterrupt.THERMAL_WARNING)
            case FaultKind.THERMAL_SHUTDOWN:
                self._heat(TopLevelInterrupt.THERMAL_SHUTDOWN)

    # --- what registers do -----------------------------------------------------------------------

    def power_down(self) -> None:
        """The chip core loses its memories: called by `registers`."""
        self._renew_core()
        self.clear_streams()
        for outlet in self._outlets.values():
            outlet.clear()

    def clear_streams(self) -> None:
        """Bytes in the bridge are dropped, and framing starts anew: called by `registers`."""
        for intake in self._intakes.values():
            intake.clear()

    def credit(self) -> int:
        """Value of `ep_status_credit`: called by `registers`."""
        rooms = [intake.credit // CREDIT_BYTES for intake in self._intakes.values()]
        return EndpointCredit(*rooms).pack()

    # --- control transfers -----------------------------------------------------------------------

    def _control(self, transfer: Transfer, fault: Fault | None) -> None:
        setup = transfer.setup
        kind = None if fault is None else fault.kind
        if setup is None or kind is FaultKind.ERROR:
            self._end(transfer, Status.ERROR)
            return
        if kind is FaultKind.TIMEOUT:
            self._stuck.append(transfer)
            return
        answer = None if kind is FaultKind.STALL else self._answer(setup, transfer.data)
        if answer is None:
            self._end(transfer, Status.STALL)
            return
        if not transfer.inward:
            transfer.sent = len(transfer.data)
            if kind is FaultKind.SHORT and fault is not None:
                transfer.sent = min(transfer.sent, fault.length)
            self._end(transfer, Status.OK)
        elif kind is FaultKind.BABBLE:
            self._end(transfer, Status.OVERFLOW)
        else:
            data = answer[: min(setup.length, transfer.length)]
            transfer.received = data if fault is None else fault.spoiled(data)
            self._end(transfer, Status.OK)

    def _answer(self, setup: SetupPacket, data: bytes) -> bytes | None:
        """Data towards the host, empty for requests with data to the device; None to stall."""
        match setup.request_type:
            case RequestType.VENDOR_IN | RequestType.VENDOR_OUT:
                return self._vendor(setup, data)
            case RequestType.CLASS_IN | RequestType.CLASS_OUT:
                return self._class(setup, data)
        handler = _REQUESTS.get((setup.request_type, setup.request))
        return None if handler is None else handler(self, setup)

    def _vendor(self, setup: SetupPacket, data: bytes) -> bytes | None:
        if (setup.request_type, setup.request) == (RequestType.VENDOR_IN, SIMULATION_REQUEST):
            return bytes([self._pumping or self._can_step()])
        width = _WIDTHS.get(setup.request)
        if width is None or self.mode is not Mode.RUN:
            return None
        address = setup.index << 16 | setup.value
        if setup.request_type == RequestType.VENDOR_IN:
            value = self.registers.read(address, width)
            return None if value is None else value.to_bytes(width // 8, "little")
        if len(data) * 8 != width:
            return None
        if not self.registers.write(address, width, int.from_bytes(data, "little")):
            return None
        if address in RUN_CONTROLS:
            self._core.halted = not self.registers.running
        return b""

    def _class(self, setup: SetupPacket, data: bytes) -> bytes | None:
        if self.mode is Mode.BOOT:
            return self._rom.control(setup, data)
        detach = (RequestType.CLASS_OUT, DfuRequest.DETACH, 0)
        if (setup.request_type, setup.request, setup.index) != detach:
            return None
        self._detached = True
        return b""

    def _get_descriptor(self, setup: SetupPacket) -> bytes | None:
        kind, number = divmod(setup.value, 1 << 8)
        if number:
            return None
        device, config = self.descriptors()
        high = self._speed is Speed.HIGH and self.mode is Mode.RUN
        match kind:
            case DescriptorType.DEVICE:
                return device
            case DescriptorType.CONFIGURATION:
                return config
            case DescriptorType.BOS:
                return object_store(simulated=True)
            case DescriptorType.STRING:
                return to_bytes(LanguagesDescriptor())
            case DescriptorType.DEVICE_QUALIFIER if high:
                return to_bytes(QualifierDescriptor(usb_version=0x210, max_packet=64))
            case DescriptorType.OTHER_SPEED if high:
                return other_speed_configuration(_PORT)
        return None

    def _get_configuration(self, setup: SetupPacket) -> bytes:
        return bytes([self.configured])

    def _set_configuration(self, setup: SetupPacket) -> bytes | None:
        if setup.value not in (0, 1):
            return None
        self._drop_all(Status.CANCELLED)
        self.configured = setup.value
        return b""

    def _device_status(self, setup: SetupPacket) -> bytes:
        return to_bytes(DeviceStatus(self_powered=self.mode is Mode.RUN))

    def _interface_status(self, setup: SetupPacket) -> bytes | None:
        return bytes(DeviceStatus.width // 8) if self._is_interface(setup) else None

    def _endpoint_status(self, setup: SetupPacket) -> bytes | None:
        if setup.index & 0x7F == 0:
            return to_bytes(EndpointStatus())
        endpoint = self._endpoint(setup)
        return None if endpoint is None else to_bytes(EndpointStatus(halted=endpoint.halted))

    def _get_interface(self, setup: SetupPacket) -> bytes | None:
        return bytes(1) if self._is_interface(setup) else None

    def _set_interface(self, setup: SetupPacket) -> bytes | None:
        if not self._is_interface(setup) or setup.value:
            return None
        self._drop_all(Status.CANCELLED)
        return b""

    def _device_feature(self, setup: SetupPacket) -> bytes | None:
        return b"" if setup.value in tuple(DeviceFeature) else None

    def _interface_feature(self, setup: SetupPacket) -> bytes | None:
        return b"" if self._is_interface(setup) and not setup.value else None

    def _endpoint_feature(self, setup: SetupPacket) -> bytes | None:
        if setup.value != ENDPOINT_HALT:
            return None
        if setup.index & 0x7F == 0:
            return b""
        endpoint = self._endpoint(setup)
        if endpoint is None:
            return None
        endpoint.halted = setup.request == StandardRequest.SET_FEATURE
        return b""

    def _accept(self, setup: SetupPacket) -> bytes:
        return b""

    def _is_interface(self, setup: SetupPacket) -> bool:
        return bool(self.configured) and not setup.index & 0xFF

    @property
    def _streaming(self) -> bool:
        """Whether there are endpoints besides that for control."""
        return self.mode is Mode.RUN and bool(self.configured)

    def _endpoint(self, setup: SetupPacket) -> Endpoint | None:
        return self._endpoints.get(setup.index & 0xFF) if self._streaming else None


_WIDTHS: dict[int, int] = {CsrRequest.ACCESS_32: 32, CsrRequest.ACCESS_64: 64}

_D = VirtualDevice
_REQUESTS: dict[tuple[int, int], Callable[[VirtualDevice, SetupPacket], bytes | None]] = {
    (RequestType.STANDARD_IN, StandardRequest.GET_DESCRIPTOR): _D._get_descriptor,
    (RequestType.STANDARD_IN, StandardRequest.GET_CONFIGURATION): _D._get_configuration,
    (RequestType.STANDARD_IN, StandardRequest.GET_STATUS): _D._device_status,
    (RequestType.STANDARD_INTERFACE_IN, StandardRequest.GET_STATUS): _D._interface_status,
    (RequestType.STANDARD_INTERFACE_IN, StandardRequest.GET_INTERFACE): _D._get_interface,
    (RequestType.STANDARD_ENDPOINT_IN, StandardRequest.GET_STATUS): _D._endpoint_status,
    (RequestType.STANDARD_OUT, StandardRequest.SET_ADDRESS): _D._accept,
    (RequestType.STANDARD_OUT, StandardRequest.SET_CONFIGURATION): _D._set_configuration,
    (RequestType.STANDARD_OUT, StandardRequest.SET_ISOCH_DELAY): _D._accept,
    (RequestType.STANDARD_OUT, StandardRequest.SET_SEL): _D._accept,
    (RequestType.STANDARD_OUT, StandardRequest.SET_FEATURE): _D._device_feature,
    (RequestType.STANDARD_OUT, StandardRequest.CLEAR_FEATURE): _D._device_feature,
    (RequestType.STANDARD_INTERFACE_OUT, StandardRequest.SET_INTERFACE): _D._set_interface,
    (RequestType.STANDARD_INTERFACE_OUT, StandardRequest.SET_FEATURE): _D._interface_feature,
    (RequestType.STANDARD_INTERFACE_OUT, StandardRequest.CLEAR_FEATURE): _D._interface_feature,
    (RequestType.STANDARD_ENDPOINT_OUT, StandardRequest.SET_FEATURE): _D._endpoint_feature,
    (RequestType.STANDARD_ENDPOINT_OUT, StandardRequest.CLEAR_FEATURE): _D._endpoint_feature,
}
"""Standard requests that are answered; all others stall."""
