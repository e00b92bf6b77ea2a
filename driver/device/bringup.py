"""Opening and closing the chip: named steps over its registers.

Order, registers and values are those of the published driver; see `OPEN` and `CLOSE`. What it
polls without an end is polled here for a limited time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from fitzroy.base.errors import DeviceError
from fitzroy.driver.device.registers import RegisterFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import INTERRUPT_TAGS, Speed
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.fields import (
    AxiClock,
    ClockGate,
    CoreClock,
    McuClock,
    PowerState,
    RunControl,
    SleepControl,
)

_CREDITS = csr.GCBB_CREDIT0.value(bulk_clear=0xF)


class Clocks(Enum):
    """Performance levels: clocks of the chip core, of its bus, and of the microcontroller."""

    MAX = (CoreClock.MHZ_500, AxiClock.MHZ_250, McuClock.MHZ_500)
    HIGH = (CoreClock.MHZ_250, AxiClock.MHZ_125, McuClock.MHZ_500)
    MEDIUM = (CoreClock.MHZ_125, AxiClock.MHZ_125, McuClock.MHZ_500)
    LOW = (CoreClock.MHZ_62, AxiClock.MHZ_125, McuClock.MHZ_250)


@dataclass(frozen=True, slots=True)
class Setup:
    """How a device is opened.

    Attributes:
        speed: speed of its connection, which decides on the size of output packets.
        clocks: performance level.
        multiple: whether each kind of data has an endpoint of its own; for its firmware only.
        events: mask of tags whose descriptors the device announces.
    """

    speed: Speed = Speed.SUPER
    clocks: Clocks = Clocks.MAX
    multiple: bool = False
    events: int = INTERRUPT_TAGS

    @property
    def output_packet(self) -> int:
        """Bytes of a packet of outputs."""
        fast = self.speed is Speed.SUPER
        return BEAGLE.usb.super_output if fast else BEAGLE.usb.high_output


@dataclass(frozen=True, slots=True)
class Step:
    """A step of bringing the chip up or down.

    Attributes:
        name: what it is about.
        run: does it.
    """

    name: str
    run: Callable[[RegisterFile, Setup], None]


def perform(steps: Sequence[Step], registers: RegisterFile, setup: Setup) -> None:
    """Take steps in order.

    Raises:
        DeviceError: one failed; the error names it.
    """
    for step in steps:
        try:
            step.run(registers, setup)
        except DeviceError as error:
            error.what = f"{error.what} (step: {step.name})"
            raise


# --- steps ---------------------------------------------------------------------------------------


def _physical_layers(registers: RegisterFile, setup: Setup) -> None:
    registers.change(csr.SCU_CTRL_0, pcie_inact_phy_mode=0, usb_inact_phy_mode=0)


def _open_gate(registers: RegisterFile, setup: Setup) -> None:
    value = registers.read(csr.SCU_CTRL_2)
    changed = csr.SCU_CTRL_2.changed(value, gated_gcb=ClockGate.HARDWARE)
    if value == changed:
        opened = csr.SCU_CTRL_2.changed(value, gated_gcb=ClockGate.OFF)
        registers.write(csr.SCU_CTRL_2, opened)


def _sleep(registers: RegisterFile, setup: Setup) -> None:
    value = registers.read(csr.SCU_CTRL_3)
    asleep = csr.SCU_CTRL_3.changed(value, force_sleep=SleepControl.SLEEP)
    if value == asleep:
        return
    registers.write(csr.SCU_CTRL_3, asleep)
    registers.poll(csr.SCU_CTRL_3, "cur_pwr_state", PowerState.SLEEP)
    registers.write(csr.GCBB_CREDIT0, _CREDITS)
    registers.write(csr.GCBB_CREDIT0, 0)


def _wake(registers: RegisterFile, setup: Setup) -> None:
    core, bus, microcontroller = setup.clocks.value
    registers.change(
        csr.SCU_CTRL_3,
        force_sleep=SleepControl.AWAKE,
        gcb_clock=core,
        axi_clock=bus,
        mcu_clock=microcontroller,
    )
    registers.poll(csr.SCU_CTRL_3, "cur_pwr_state", PowerState.ACTIVE)
    registers.poll(csr.SCALAR_CORE_RUN_CONTROL, "command", RunControl.IDLE)


def _idleness(registers: RegisterFile, setup: Setup) -> None:
    registers.write(csr.IDLE_REGISTER, csr.IDLE_REGISTER.value(counter=1))


def _all_tiles(registers: RegisterFile, setup: Setup) -> None:
    registers.write(csr.TILECONFIG0, csr.ALL_TILES)
    selected = csr.TILECONFIG0.field(csr.ALL_TILES, "tile")
    registers.poll(csr.TILECONFIG0, "tile", selected)


def _deep_sleep(registers: RegisterFile, setup: Setup) -> None:
    delays = csr.DEEP_SLEEP.value(to_sleep_delay=0x02, to_wake_delay=0x1E)
    registers.write(csr.DEEP_SLEEP, delays)


def _close_gate(registers: RegisterFile, setup: Setup) -> None:
    registers.change(csr.SCU_CTRL_2, gated_gcb=ClockGate.HARDWARE)


def _fuses(registers: RegisterFile, setup: Setup) -> None:
    registers.read(csr.OMC0_00)


def _events(registers: RegisterFile, setup: Setup) -> None:
    registers.write(csr.DESCR_EP, csr.DESCR_EP.value(tags=setup.events))


def _endpoints(registers: RegisterFile, setup: Setup) -> None:
    registers.write(csr.MULTI_BO_EP, csr.MULTI_BO_EP.value(multiple=setup.multiple))


def _output_packets(registers: RegisterFile, setup: Setup) -> None:
    chunk = csr.OUTFEED_CHUNK_LENGTH.value(length=setup.output_packet // 8)
    registers.write(csr.OUTFEED_CHUNK_LENGTH, chunk)


def _engines(command: RunControl) -> Callable[[RegisterFile, Setup], None]:
    def run(registers: RegisterFile, setup: Setup) -> None:
        for register in (csr.SCALAR_CORE_RUN_CONTROL, *csr.STREAM_RUN_CONTROLS.values()):
            registers.write(register, register.value(command=command))

    return run


def _tile_engines(command: RunControl) -> Callable[[RegisterFile, Setup], None]:
    def run(registers: RegisterFile, setup: Setup) -> None:
        _all_tiles(registers, setup)
        for register in csr.TILE_RUN_CONTROLS.values():
            registers.write(register, register.value(command=command))

    return run


def _fatal_errors(enable: bool) -> Callable[[RegisterFile, Setup], None]:
    def run(registers: RegisterFile, setup: Setup) -> None:
        value = csr.FATAL_ERR_INT_CONTROL.value(enable=enable)
        registers.write(csr.FATAL_ERR_INT_CONTROL, value)

    return run


def _interrupts(enable: bool) -> Callable[[RegisterFile, Setup], None]:
    def run(registers: RegisterFile, setup: Setup) -> None:
        for register in csr.TOP_LEVEL_CONTROLS.values():
            registers.write(register, register.value(enable=enable))

    return run


def _thermal_warning(enable: bool) -> Callable[[RegisterFile, Setup], None]:
    return lambda registers, setup: registers.change(csr.OMC0_D4, thm_warn_en=enable)


def _thermal_shutdown(enable: bool) -> Callable[[RegisterFile, Setup], None]:
    return lambda registers, setup: registers.change(csr.OMC0_D8, sd_en=enable)


def _self_test_unmasked(registers: RegisterFile, setup: Setup) -> None:
    # Status bits are cleared by writing 1; what is pending stays.
    registers.change(csr.RAMBIST_CTRL_1, mbist_int_status=0, mbist_int_mask=0)


def _self_test_masked(registers: RegisterFile, setup: Setup) -> None:
    registers.change(csr.RAMBIST_CTRL_1, mbist_int_mask=0b111)


def _start_failures_unmasked(registers: RegisterFile, setup: Setup) -> None:
    registers.change(
        csr.SCU_CTR_7, pll_lock_failure=False, usb_sel_failure=False, boot_failure_mask=0
    )


def _start_failures_masked(registers: RegisterFile, setup: Setup) -> None:
    registers.change(csr.SCU_CTR_7, boot_failure_mask=0b11)


def _bus_monitors(enable: bool) -> Callable[[RegisterFile, Setup], None]:
    def run(registers: RegisterFile, setup: Setup) -> None:
        for register in (csr.SLV_ABM_EN, csr.MST_ABM_EN):
            registers.write(register, register.value(enable=enable))
        for register in (csr.SLV_ERR_RESP_ISR_MASK, csr.MST_ERR_RESP_ISR_MASK):
            registers.write(register, register.value(unmasked=0b11 * enable))

    return run


OPEN: tuple[Step, ...] = (
    Step("modes of the physical layers", _physical_layers),
    Step("clock gate of the chip core", _open_gate),
    Step("sleep of the chip core", _sleep),
    Step("clocks and waking", _wake),
    Step("detection of idleness", _idleness),
    Step("all tiles", _all_tiles),
    Step("sleep of memories", _deep_sleep),
    Step("clock gating by hardware", _close_gate),
    Step("e-fuse revision", _fuses),
    Step("events", _events),
    Step("endpoint mode", _endpoints),
    Step("size of output packets", _output_packets),
    Step("engines of the scalar core", _engines(RunControl.RUN)),
    Step("engines of the tiles", _tile_engines(RunControl.RUN)),
    Step("fatal errors", _fatal_errors(True)),
    Step("interrupts of the chip", _interrupts(True)),
    Step("thermal warning", _thermal_warning(True)),
    Step("self-test of the memories", _self_test_unmasked),
    Step("failures at start", _start_failures_unmasked),
    Step("bus monitors", _bus_monitors(True)),
    Step("thermal shutdown", _thermal_shutdown(True)),
)
"""Opening, from whatever state the chip is in."""

CLOSE: tuple[Step, ...] = (
    Step("interrupts of the chip", _interrupts(False)),
    Step("thermal warning", _thermal_warning(False)),
    Step("self-test of the memories", _self_test_masked),
    Step("failures at start", _start_failures_masked),
    Step("bus monitors", _bus_monitors(False)),
    Step("thermal shutdown", _thermal_shutdown(False)),
    Step("fatal errors", _fatal_errors(False)),
    Step("engines of the scalar core", _engines(RunControl.HALT)),
    Step("engines of the tiles", _tile_engines(RunControl.HALT)),
    Step("sleep of the chip core", _sleep),
)
"""Closing; the chip forgets its parameters."""
