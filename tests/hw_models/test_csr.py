from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support import corpus

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.fields import (
    AxiClock,
    ClockGate,
    CoreClock,
    EngineControl,
    HibError,
    McuClock,
    PowerState,
    RunControl,
    SleepControl,
)
from fitzroy.hw_models.csr.register import Access, Register
from fitzroy.hw_models.isa.fields import StreamEngine, TileEngine

TRACES = ["dense_256", "mobilenet_v1_0.25_128_quant", "posenet_481_641"]


@dataclass
class Chip:
    """Registers as a device holds them, with the power state following the sleep control."""

    stored: dict[int, int] = field(
        default_factory=lambda: {r.address: r.reset for r in csr.REGISTERS}
    )

    def read(self, register: Register) -> int:
        return self.stored[register.address]

    def write(self, register: Register, value: int) -> None:
        stored = register.written(self.stored[register.address], value)
        if register is csr.SCU_CTRL_3:
            asleep = register.field(stored, "force_sleep") == SleepControl.SLEEP
            stored = register.changed(
                stored,
                cur_gated_gcb=asleep,
                cur_rst_gcb=asleep,
                cur_gcb_sram_sd=asleep,
                cur_pwr_state=PowerState.SLEEP if asleep else PowerState.ACTIVE,
            )
        self.stored[register.address] = stored


def replay(accesses: list[tuple[str, int, int, int]]) -> None:
    """Check accesses (operation, width, address, value) against the declarations."""
    chip = Chip()
    for operation, width, address, value in accesses:
        register = csr.by_address(address)
        assert register.width == width, register.name
        assert register.fields(value).pack() == value
        if operation == "read":
            assert register.access is not Access.WRITE, register.name
            assert chip.read(register) == value, register.name
        else:
            assert register.access is not Access.READ, register.name
            chip.write(register, value)


def recorded(name: str) -> Path:
    path = corpus().parent / "beagle" / name
    if not path.exists():
        pytest.skip(f"no recorded accesses at {path}")
    return path


@pytest.mark.corpus
def test_recorded_accesses_hit_declared_registers() -> None:
    data: dict[str, Any] = json.loads(recorded("vectors/usb_csr.json").read_text())
    accesses = [
        (a["op"], a["bits"], int(a["offset"], 16), int(a["value"], 16), a["name"])
        for phase in ("open", "close")
        for a in data[phase]
    ]
    assert len(accesses) == 95
    for *_, address, _, name in accesses:
        assert csr.by_name(name) is csr.by_address(address)
    replay([access[:4] for access in accesses])


@pytest.mark.corpus
@pytest.mark.parametrize("name", TRACES)
def test_recorded_conversations_hit_declared_registers(name: str) -> None:
    accesses = []
    for line in recorded(f"usb-traces/trace_{name}.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["type"] != "control" or record["setup"]["bmRequestType"] not in ("0x40", "0xc0"):
            continue
        setup = record["setup"]
        address = int(setup["wIndex"], 16) << 16 | int(setup["wValue"], 16)
        value = int.from_bytes(bytes.fromhex(record["head"]), "little")
        operation = "write" if setup["bmRequestType"] == "0x40" else "read"
        assert setup["wLength"] * 8 == (32 if setup["bRequest"] else 64)
        accesses.append((operation, setup["wLength"] * 8, address, value))
    assert len(accesses) >= 95
    replay(accesses)


def test_names_addresses_and_widths_are_consistent() -> None:
    assert len(csr.BY_NAME) == len(csr.BY_ADDRESS) == len(csr.REGISTERS)
    for register in csr.REGISTERS:
        assert register.doc
        assert register.width == (64 if register.address >= 0x40000 else 32)
        assert register.address % (register.width // 8) == 0
        assert register.fields(register.reset).pack() == register.reset
        for name in (*register.read_only, *register.write_one_to_clear):
            assert register.layout.field(name)


def test_unknown_registers_are_usage_errors() -> None:
    assert csr.by_name("scu_ctrl_3") is csr.SCU_CTRL_3
    with pytest.raises(UsageError, match="scu_ctrl_3"):
        csr.by_name("scu_ctrl_4")
    with pytest.raises(UsageError, match="0x40004"):
        csr.by_address(0x40004)


def test_groups_name_every_engine() -> None:
    assert set(csr.TILE_RUN_CONTROLS) == set(TileEngine)
    assert set(csr.STREAM_RUN_CONTROLS) == set(StreamEngine) - {StreamEngine.PIPELINE}
    for register in (*csr.TILE_RUN_CONTROLS.values(), *csr.STREAM_RUN_CONTROLS.values()):
        assert register.value(command=RunControl.RUN) == 1
        assert register.value(command=RunControl.HALT) == 2
        assert register.fields(2) == EngineControl(RunControl.HALT)
    assert [r.address for r in csr.TOP_LEVEL_CONTROLS.values()] == [
        0x4C070, 0x4C080, 0x4C090, 0x4C0A0
    ]  # fmt: skip
    assert [r.address for r in csr.TOP_LEVEL_STATUSES.values()] == [
        0x4C078, 0x4C088, 0x4C098, 0x4C0A8
    ]  # fmt: skip


def test_values_of_the_open_sequence_can_be_said() -> None:
    asleep = csr.SCU_CTRL_3.changed(0x60050004, force_sleep=SleepControl.SLEEP)
    assert asleep == 0x60C50004
    clocks = {"gcb_clock": CoreClock.MHZ_500, "axi_clock": AxiClock.MHZ_250}
    awake = csr.SCU_CTRL_3.changed(
        0x60C5025C, force_sleep=SleepControl.AWAKE, mcu_clock=McuClock.MHZ_500, **clocks
    )
    assert awake == 0x0085025C
    assert csr.SCU_CTRL_3.field(0x60C5025C, "cur_pwr_state") is PowerState.SLEEP
    assert csr.SCU_CTRL_0.changed(
        csr.SCU_CTRL_0.reset, pcie_inact_phy_mode=0, usb_inact_phy_mode=0
    ) == 0x000F0059  # fmt: skip
    assert csr.SCU_CTRL_2.changed(0x00110000, gated_gcb=ClockGate.HARDWARE) == 0x00150000
    assert csr.DEEP_SLEEP.value(to_sleep_delay=2, to_wake_delay=30) == 0x1E02
    assert csr.IDLE_REGISTER.value(counter=1) == 1
    assert csr.ALL_TILES == 0x7F
    assert csr.DESCR_EP.value(tags=csr.DESCR_EP.layout.field("tags").codec.parse("interrupts")) == (
        0xF0
    )
    for size, length in ((BEAGLE.usb.super_output, 0x80), (BEAGLE.usb.high_output, 0x20)):
        assert csr.OUTFEED_CHUNK_LENGTH.value(length=size // 8) == length
    assert csr.OMC0_D4.changed(1, thm_warn_en=True) == 0x80000001


def test_writes_respect_read_only_and_write_one_to_clear_fields() -> None:
    register = csr.RAMBIST_CTRL_1
    pending = register.changed(register.reset, mbist_int_status=0b101)
    assert register.written(pending, register.changed(0, mbist_int_status=0b001)) == (
        register.value(mbist_int_status=0b100)
    )
    assert csr.SCU_CTRL_3.written(0x60C5025C, 0x0085_0000) == 0x0085025C
    assert csr.FATAL_ERR_INT_STATUS.written(1, 0) == 0


def test_changes_keep_reserved_bits() -> None:
    reserved = 1 << 27
    with pytest.raises(FormatError, match="reserved"):
        csr.SCU_CTRL_2.fields(reserved)
    changed = csr.SCU_CTRL_2.changed(reserved, gated_gcb=ClockGate.OFF)
    assert changed == reserved | 2 << 18
    assert csr.SCU_CTRL_2.field(changed, "gated_gcb") is ClockGate.OFF
    with pytest.raises(FormatError, match="gated_gcb"):
        csr.SCU_CTRL_2.changed(0, gated_gbc=ClockGate.OFF)
    with pytest.raises(FormatError, match="gated_gcb"):
        csr.SCU_CTRL_2.value(gated_gbc=ClockGate.OFF)


def test_errors_have_names() -> None:
    assert HibError.unpack(0x2004).names() == ("csr_parity", "length_0_dma")
    assert HibError.unpack(0).names() == ()
