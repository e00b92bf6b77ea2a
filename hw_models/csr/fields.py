"""Layouts of registers: one record per layout, 32 or 64 bits wide.

Source of positions and names: google-coral/libedgetpu, driver/config. Fields that the driver
neither reads nor writes are declared all the same, so that captured values decode.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fitzroy.base.bits import BitSet, Choice, Flag, Record, Unsigned, bits
from fitzroy.base.evidence import Evidence
from fitzroy.hw_models.chips.usb import ALL_TAGS, INTERRUPT_TAGS, Tag

_SOURCE = Evidence.SOURCE


class RunControl(IntEnum):
    """Commands to an engine."""

    IDLE = 0
    RUN = 1
    HALT = 2
    SINGLE_STEP = 3


class PowerState(IntEnum):
    """Power state of the chip core. Only ACTIVE and SLEEP are ever seen."""

    ACTIVE = 0
    INACTIVE = 1
    SLEEP = 2
    UNUSED = 3


class SleepControl(IntEnum):
    """Who decides whether the chip core sleeps."""

    HARDWARE = 0
    UNUSED = 1
    AWAKE = 2
    SLEEP = 3


class ClockGate(IntEnum):
    """Clock gating of the chip core."""

    DEPRECATED = 0
    HARDWARE = 1
    OFF = 2
    UNUSED = 3


class CoreClock(IntEnum):
    """Clock of the chip core: 500 MHz divided by a power of two."""

    MHZ_500 = 0
    MHZ_250 = 1
    MHZ_125 = 2
    MHZ_62 = 3

    @property
    def mhz(self) -> float:
        """Frequency."""
        return 500 / (1 << self.value)


class AxiClock(IntEnum):
    """Clock of the on-chip bus."""

    MHZ_250 = 0
    MHZ_125 = 1

    @property
    def mhz(self) -> float:
        """Frequency."""
        return 250 / (1 << self.value)


class McuClock(IntEnum):
    """Clock of the 8051 microcontroller that runs the USB firmware."""

    MHZ_500 = 0
    MHZ_250 = 1

    @property
    def mhz(self) -> float:
        """Frequency."""
        return 500 / (1 << self.value)


class MbistEvent(IntEnum):
    """Events of the memory self-test, as bits."""

    FAIL = 0
    TIMEOUT = 1
    FINISH = 2


class BootFailure(IntEnum):
    """Failures at start, as bits."""

    PLL_LOCK = 0
    USB_SELECT = 1


class BusDirection(IntEnum):
    """Directions of a bus, as bits."""

    WRITE = 0
    READ = 1


@dataclass(frozen=True, slots=True)
class ScuCtrl0(Record):
    """Modes of the PCIe and USB physical layers."""

    width = 32

    pllclk_sel: bool = bits(0, Flag(), "clock from the PLL", evidence=_SOURCE)
    single_exit: bool = bits(1, Flag(), "one link leaves sleep alone", evidence=_SOURCE)
    single_link_rstn: bool = bits(2, Flag(), "one link is reset alone", evidence=_SOURCE)
    sleep_chk_idle: bool = bits(3, Flag(), "check for idleness before sleep", evidence=_SOURCE)
    pcie_slp_phy_mode: int = bits(4, Unsigned(2), "PCIe layer in sleep", evidence=_SOURCE)
    usb_slp_phy_mode: int = bits(6, Unsigned(2), "USB layer in sleep", evidence=_SOURCE)
    pcie_inact_phy_mode: int = bits(
        8, Unsigned(3), "PCIe layer when inactive; the driver writes 0", evidence=_SOURCE
    )
    usb_inact_phy_mode: int = bits(
        11, Unsigned(3), "USB layer when inactive; the driver writes 0", evidence=_SOURCE
    )
    mem_mode_dis: int = bits(14, Unsigned(2), "memory modes that are off", evidence=_SOURCE)
    phy_prg: bool = bits(16, Flag(), "layer is programmed", evidence=_SOURCE)
    bt_phy_prg: bool = bits(17, Flag(), "strap: layer is programmed", evidence=_SOURCE)
    bt_vbus_sel: bool = bits(18, Flag(), "strap: VBUS", evidence=_SOURCE)
    bt_bus_pwr: bool = bits(19, Flag(), "strap: powered by the bus", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class ScuCtrl2(Record):
    """Resets and clock gates of the blocks of the chip; GCB is the chip core."""

    width = 32

    rst_pcie: bool = bits(0, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_pcie_axi: bool = bits(1, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_gcb: int = bits(2, Unsigned(2), "reset of the chip core", group="resets", evidence=_SOURCE)
    rst_pcieslv_abm: bool = bits(4, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_pciemst_abm: bool = bits(5, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_omc: bool = bits(6, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_mbist: bool = bits(7, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_usb: bool = bits(8, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_usb_subsys: bool = bits(9, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_full: bool = bits(10, Flag(), "reset of everything", group="resets", evidence=_SOURCE)
    rst_link: bool = bits(11, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_i2c: bool = bits(12, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_scu: bool = bits(13, Flag(), "reset", group="resets", evidence=_SOURCE)
    self_rst_subsys: bool = bits(14, Flag(), "reset", group="resets", evidence=_SOURCE)
    rst_brg: bool = bits(15, Flag(), "reset of the bridge", group="resets", evidence=_SOURCE)
    gated_pcie: bool = bits(16, Flag(), "clock off", group="gates", evidence=_SOURCE)
    gated_phy_cfg: bool = bits(17, Flag(), "clock off", group="gates", evidence=_SOURCE)
    gated_gcb: ClockGate = bits(
        18, Choice(ClockGate, 2), "gating of the chip core", group="gates", evidence=_SOURCE
    )
    gated_pcieslv_abm: bool = bits(20, Flag(), "clock off", group="gates", evidence=_SOURCE)
    gated_pciemst_abm: bool = bits(21, Flag(), "clock off", group="gates", evidence=_SOURCE)
    gated_omc: bool = bits(22, Flag(), "clock off", group="gates", evidence=_SOURCE)
    gated_mbist: bool = bits(23, Flag(), "clock off", group="gates", evidence=_SOURCE)
    gated_usb: bool = bits(24, Flag(), "clock off", group="gates", evidence=_SOURCE)
    gated_usb_subsys: bool = bits(25, Flag(), "clock off", group="gates", evidence=_SOURCE)
    gated_8051: bool = bits(26, Flag(), "clock off", group="gates", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class ScuCtrl3(Record):
    """Power state and clocks. Bits 0 to 11 show the state of the hardware."""

    width = 32

    pcie_state_l1p2: bool = bits(0, Flag(), "PCIe link in L1.2", group="state", evidence=_SOURCE)
    pcie_state_l0s: bool = bits(1, Flag(), "PCIe link in L0s", group="state", evidence=_SOURCE)
    pcie_state_l0: bool = bits(2, Flag(), "PCIe link in L0", group="state", evidence=_SOURCE)
    cur_gated_gcb: bool = bits(
        3, Flag(), "clock of the chip core is off", group="state", evidence=_SOURCE
    )
    cur_rst_gcb: bool = bits(4, Flag(), "chip core is in reset", group="state", evidence=_SOURCE)
    cur_gcb_sram_sd: bool = bits(
        6, Flag(), "memories of the chip core are shut down", group="state", evidence=_SOURCE
    )
    cur_gcb_sram_dslp: bool = bits(
        7, Flag(), "memories of the chip core are in deep sleep", group="state", evidence=_SOURCE
    )
    cur_pwr_state: PowerState = bits(
        8, Choice(PowerState, 2), "power state", group="state", evidence=_SOURCE
    )
    pcie_gen_info: int = bits(
        10, Unsigned(2), "generation of the link", group="state", evidence=_SOURCE
    )
    force_ram_dslp: int = bits(12, Unsigned(2), "memories into deep sleep", evidence=_SOURCE)
    force_ram_sd: int = bits(14, Unsigned(2), "memories off", evidence=_SOURCE)
    sd2wk_dly: int = bits(16, Unsigned(3), "delay from shutdown to wake", evidence=_SOURCE)
    slp_mode_req: bool = bits(19, Flag(), "sleep is requested", evidence=_SOURCE)
    force_inact: int = bits(20, Unsigned(2), "inactive mode", evidence=_SOURCE)
    force_sleep: SleepControl = bits(
        22, Choice(SleepControl, 2), "sleep of the chip core", evidence=_SOURCE
    )
    link_rdy_ovr: bool = bits(25, Flag(), "override: link is ready", evidence=_SOURCE)
    pwr_state_ovr: int = bits(26, Unsigned(2), "override of the power state", evidence=_SOURCE)
    gcb_clock: CoreClock = bits(
        28, Choice(CoreClock, 2), "clock of the chip core", group="clocks", evidence=_SOURCE
    )
    axi_clock: AxiClock = bits(
        30, Choice(AxiClock, 1), "clock of the bus", group="clocks", evidence=_SOURCE
    )
    mcu_clock: McuClock = bits(
        31, Choice(McuClock, 1), "clock of the microcontroller", group="clocks", evidence=_SOURCE
    )


@dataclass(frozen=True, slots=True)
class ScuCtr7(Record):
    """Inactivity threshold and failures at start."""

    width = 32

    inact_thd: int = bits(0, Unsigned(16), "threshold of inactivity", evidence=_SOURCE)
    pll_lock_failure: bool = bits(16, Flag(), "the PLL did not lock", evidence=_SOURCE)
    usb_sel_failure: bool = bits(17, Flag(), "USB strap contradicts the e-fuse", evidence=_SOURCE)
    boot_failure_mask: int = bits(
        18, BitSet(BootFailure, 2), "failures that do not interrupt", evidence=_SOURCE
    )
    boot_failure_raw: int = bits(
        20, BitSet(BootFailure, 2), "failures, not masked", evidence=_SOURCE
    )


@dataclass(frozen=True, slots=True)
class RambistCtrl1(Record):
    """Self-test of the memories."""

    width = 32

    rambist_gcbsel: int = bits(
        0, Unsigned(5, hexadecimal=True), "memories of the chip core to test", evidence=_SOURCE
    )
    rambist_topsel: int = bits(
        5, Unsigned(2, hexadecimal=True), "other memories to test", evidence=_SOURCE
    )
    rambist_tckmode: bool = bits(8, Flag(), "test clock mode", evidence=_SOURCE)
    rambist_req: bool = bits(9, Flag(), "start a test", evidence=_SOURCE)
    tck_invert: bool = bits(10, Flag(), "invert the test clock", evidence=_SOURCE)
    mbist_status: int = bits(12, Unsigned(2), "state of the test", evidence=_SOURCE)
    mbist_int_status: int = bits(
        16, BitSet(MbistEvent, 3), "events that happened", evidence=_SOURCE
    )
    mbist_int_mask: int = bits(
        20, BitSet(MbistEvent, 3), "events that do not interrupt", evidence=_SOURCE
    )


@dataclass(frozen=True, slots=True)
class Omc000(Record):
    """Revision of the e-fuse programming."""

    width = 32

    other: int = bits(
        0,
        Unsigned(24, hexadecimal=True),
        "the driver writes ones everywhere before it reads credits",
        evidence=Evidence.UNKNOWN,
    )
    programming_revision: int = bits(24, Unsigned(8), "e-fuse revision", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class Omc0D4(Record):
    """Thermal warning."""

    width = 32

    method_sel: bool = bits(0, Flag(), "method of measurement", evidence=_SOURCE)
    thm_warn1: int = bits(16, Unsigned(10), "threshold of the warning", evidence=_SOURCE)
    thm_warn_en: bool = bits(31, Flag(), "interrupt on warning", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class Omc0D8(Record):
    """Thermal shutdown, and parts of the temperature sensor."""

    width = 32

    enbg: bool = bits(0, Flag(), "band gap on", evidence=_SOURCE)
    envr: bool = bits(1, Flag(), "voltage reference on", evidence=_SOURCE)
    enad: bool = bits(2, Flag(), "converter on", evidence=_SOURCE)
    thm_warn2: int = bits(16, Unsigned(10), "threshold of the shutdown", evidence=_SOURCE)
    sd_en: bool = bits(31, Flag(), "interrupt on shutdown", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class Omc0Dc(Record):
    """Temperature, and its pending interrupts."""

    width = 32

    enthmc: bool = bits(0, Flag(), "sensor on", evidence=_SOURCE)
    data: int = bits(16, Unsigned(10), "reading of the sensor", evidence=_SOURCE)
    sd_clear: bool = bits(28, Flag(), "1 clears `sd_o`", evidence=_SOURCE)
    warn_clear: bool = bits(29, Flag(), "1 clears `warn_o`", evidence=_SOURCE)
    sd_o: bool = bits(30, Flag(), "shutdown is pending", evidence=_SOURCE)
    warn_o: bool = bits(31, Flag(), "warning is pending", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class GcbbCredit0(Record):
    """Credits of the bridge to the chip core."""

    width = 32

    bulk_clear: int = bits(
        0,
        Unsigned(4, hexadecimal=True),
        "ones, then zeros clear the credits of the bulk endpoints",
        evidence=_SOURCE,
    )


@dataclass(frozen=True, slots=True)
class Switch32(Record):
    """One switch."""

    width = 32

    enable: bool = bits(0, Flag(), "on", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class ErrorResponse(Record):
    """Whether a bus answered with an error."""

    width = 32

    error: bool = bits(0, Flag(), "an error response was seen", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class ErrorMask(Record):
    """Error responses that interrupt."""

    width = 32

    unmasked: int = bits(
        0,
        BitSet(BusDirection, 2),
        "directions that interrupt; which bit is which is not known",
        evidence=Evidence.LIKELY,
    )


@dataclass(frozen=True, slots=True)
class EngineControl(Record):
    """Run control of an engine."""

    width = 64

    command: RunControl = bits(0, Choice(RunControl, 2), "command", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class TileConfig(Record):
    """Tiles that accesses to tile registers reach."""

    width = 64

    tile: int = bits(
        0, Unsigned(7, hexadecimal=True), "number of a tile; 0x7f: all tiles", evidence=_SOURCE
    )


@dataclass(frozen=True, slots=True)
class Idle(Record):
    """Detection of idleness."""

    width = 64

    counter: int = bits(0, Unsigned(31), "quiet cycles before idle", unit="cycle", evidence=_SOURCE)
    disable: bool = bits(31, Flag(), "never idle", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class DeepSleep(Record):
    """Sleep of the memories of a tile."""

    width = 64

    to_sleep_delay: int = bits(0, Unsigned(8), "delay before sleep", evidence=_SOURCE)
    to_wake_delay: int = bits(8, Unsigned(8), "delay to wake", evidence=_SOURCE)
    narrow_mem_deep_sleep: bool = bits(16, Flag(), "narrow memory sleeps", evidence=_SOURCE)
    wide_mem_deep_sleep: bool = bits(17, Flag(), "wide memory sleeps", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class DescriptorEvents(Record):
    """Descriptors that the device announces on the event endpoint."""

    width = 64

    tags: int = bits(
        0,
        BitSet(Tag, 8, {"interrupts": INTERRUPT_TAGS, "all": ALL_TAGS}),
        "bit = tag of the descriptor",
        evidence=Evidence.LIKELY,
    )


@dataclass(frozen=True, slots=True)
class MultiEndpoint(Record):
    """How many endpoints data to the device uses."""

    width = 64

    multiple: bool = bits(0, Flag(), "one endpoint per kind of data", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class OutfeedChunk(Record):
    """Size of the packets of outputs."""

    width = 64

    length: int = bits(0, Unsigned(8), "size of a packet", unit="8 bytes", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class EndpointCredit(Record):
    """Room in the queues of the device, for software flow control."""

    width = 64

    instructions: int = bits(0, Unsigned(21), "room", unit="8 bytes", evidence=_SOURCE)
    input: int = bits(21, Unsigned(21), "room", unit="8 bytes", evidence=_SOURCE)
    parameters: int = bits(42, Unsigned(21), "room", unit="8 bytes", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class InterruptControl(Record):
    """Whether an interrupt is reported to the host."""

    width = 64

    enable: bool = bits(0, Flag(), "report it", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class InterruptStatus(Record):
    """Whether an interrupt is pending."""

    width = 64

    pending: bool = bits(0, Flag(), "the driver clears it by writing 0", evidence=_SOURCE)


@dataclass(frozen=True, slots=True)
class HibError(Record):
    """Errors of the host interface block."""

    width = 64

    inbound_page_fault: bool = bits(0, Flag(), "address not mapped", evidence=_SOURCE)
    extended_page_fault: bool = bits(1, Flag(), "extended address not mapped", evidence=_SOURCE)
    csr_parity: bool = bits(2, Flag(), "parity of a register access", evidence=_SOURCE)
    axi_slave_b: bool = bits(3, Flag(), "error response to a write", evidence=_SOURCE)
    axi_slave_r: bool = bits(4, Flag(), "error response to a read", evidence=_SOURCE)
    instruction_queue_bad_configuration: bool = bits(5, Flag(), "bad queue", evidence=_SOURCE)
    input_queue_bad_configuration: bool = bits(6, Flag(), "bad queue", evidence=_SOURCE)
    parameter_queue_bad_configuration: bool = bits(7, Flag(), "bad queue", evidence=_SOURCE)
    output_queue_bad_configuration: bool = bits(8, Flag(), "bad queue", evidence=_SOURCE)
    instruction_queue_invalid: bool = bits(9, Flag(), "bad descriptor", evidence=_SOURCE)
    input_queue_invalid: bool = bits(10, Flag(), "bad descriptor", evidence=_SOURCE)
    parameter_queue_invalid: bool = bits(11, Flag(), "bad descriptor", evidence=_SOURCE)
    output_queue_invalid: bool = bits(12, Flag(), "bad descriptor", evidence=_SOURCE)
    length_0_dma: bool = bits(13, Flag(), "transfer of no bytes", evidence=_SOURCE)
    virtual_table: bool = bits(14, Flag(), "uncorrectable page table entry", evidence=_SOURCE)

    def names(self) -> tuple[str, ...]:
        """The errors that are set."""
        return tuple(field.name for field in self.fields() if getattr(self, field.name))
