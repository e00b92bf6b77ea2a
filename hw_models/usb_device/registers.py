"""The register space: what a host reads and writes by vendor requests.

Registers that `hw_models.csr` declares have their reset values, read-only fields and effects. All
other addresses of the same blocks hold what is written to them, since the chip has registers that
no declaration names. Widths are those of the blocks; anything else is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.beagle import TopLevelInterrupt
from fitzroy.hw_models.csr.fields import CoreClock, PowerState, RunControl, SleepControl
from fitzroy.hw_models.csr.register import Access, Register

BLOCKS = {32: range(0x10000, 0x20000), 64: range(0x40000, 0x50000)}
"""Addresses by width of an access: system control with bridges, and the chip core."""

_CORE = BLOCKS[64]
_ENGINES = (csr.SCALAR_CORE_RUN_CONTROL, *csr.STREAM_RUN_CONTROLS.values())
_TILE_ENGINES = {register.address: register for register in csr.TILE_RUN_CONTROLS.values()}

RUN_CONTROLS = frozenset(register.address for register in _ENGINES) | _TILE_ENGINES.keys()
"""Addresses of all run controls."""

_THERMAL = {
    TopLevelInterrupt.THERMAL_WARNING: (csr.OMC0_D4, "thm_warn_en", "thm_warn1", "warn_o"),
    TopLevelInterrupt.THERMAL_SHUTDOWN: (csr.OMC0_D8, "sd_en", "thm_warn2", "sd_o"),
}
"""Register, switch, threshold and pending bit of each thermal interrupt."""


class Chip(Protocol):
    """What accesses to registers do outside of them."""

    def power_down(self) -> None:
        """The chip core loses its memories."""
        ...

    def clear_streams(self) -> None:
        """Bytes in the bridge are dropped, and framing starts anew."""
        ...

    def credit(self) -> int:
        """Value of `ep_status_credit`."""
        ...


class Registers:
    """Contents of all registers.

    Args:
        chip: the rest of the device.

    Attributes:
        accesses: accesses so far that were carried out, by name as in ``r32`` and ``w64``.
        reported: interrupts that the host is to be told of; None is a fatal error.
    """

    def __init__(self, chip: Chip) -> None:
        self.accesses: Counter[str] = Counter()
        self.reported: set[TopLevelInterrupt | None] = set()
        self._chip = chip
        self._values: dict[int, int] = {}
        self._tiles: dict[int, list[int]] = {}
        self._reset(csr.REGISTERS)

    # --- accesses --------------------------------------------------------------------------------

    def read(self, address: int, width: int) -> int | None:
        """Read a register; None if the access is refused.

        Args:
            address: byte address.
            width: bits of the access, 32 or 64.
        """
        if not self._legal(address, width):
            return None
        self.accesses[f"r{width}"] += 1
        if address == csr.EP_STATUS_CREDIT.address:
            return self._chip.credit()
        if address in self._tiles:
            return self._tiles[address][self._selected()[0]] if self._selected() else 0
        return self._values.get(address, 0)

    def write(self, address: int, width: int, value: int) -> bool:
        """Write a register; False if the access is refused.

        Args:
            address: byte address.
            width: bits of the access, 32 or 64.
            value: unsigned number of so many bits.
        """
        if not self._legal(address, width):
            return False
        self.accesses[f"w{width}"] += 1
        register = csr.BY_ADDRESS.get(address)
        if register is None:
            self._values[address] = value
        elif address in self._tiles:
            for tile in self._selected():
                self._tiles[address][tile] = value
        elif register.access is not Access.READ:
            before = self._values[address]
            self._values[address] = register.written(before, value)
            effect = _EFFECTS.get(address)
            if effect is not None:
                effect(self, register, before, value)
        return True

    def _legal(self, address: int, width: int) -> bool:
        block = BLOCKS.get(width, ())
        awake = address not in _CORE or self.power is PowerState.ACTIVE
        return address in block and address % (width // 8) == 0 and awake

    def _selected(self) -> range:
        """Tiles that accesses to registers of tiles reach."""
        tile = csr.TILECONFIG0.field(self._values[csr.TILECONFIG0.address], "tile")
        if tile == csr.ALL_TILES:
            return range(BEAGLE.tiles.count)
        return range(tile, min(tile + 1, BEAGLE.tiles.count))

    def _reset(self, registers: tuple[Register, ...]) -> None:
        for register in registers:
            if register.address in _TILE_ENGINES:
                self._tiles[register.address] = [register.reset] * BEAGLE.tiles.count
            else:
                self._values[register.address] = register.reset

    def _change(self, register: Register, **fields: object) -> None:
        self._values[register.address] = register.changed(self._values[register.address], **fields)

    def _enabled(self, register: Register, name: str) -> bool:
        return bool(register.field(self._values[register.address], name))

    # --- state -----------------------------------------------------------------------------------

    @property
    def power(self) -> PowerState:
        """Power state of the chip core."""
        state = csr.SCU_CTRL_3.field(self._values[csr.SCU_CTRL_3.address], "cur_pwr_state")
        return PowerState(state)

    @property
    def clock(self) -> CoreClock:
        """Clock of the chip core."""
        clock = csr.SCU_CTRL_3.field(self._values[csr.SCU_CTRL_3.address], "gcb_clock")
        return CoreClock(clock)

    @property
    def running(self) -> bool:
        """Whether every engine of the scalar core and of all tiles runs, and there is power."""
        controls = [self._values[register.address] for register in _ENGINES]
        for values in self._tiles.values():
            controls += values
        return self.power is PowerState.ACTIVE and all(map(_runs, controls))

    @property
    def multiple(self) -> bool:
        """Whether each kind of data has an endpoint of its own."""
        return self._enabled(csr.MULTI_BO_EP, "multiple")

    @property
    def announced(self) -> int:
        """Mask of the tags whose descriptors become events."""
        tags: int = csr.DESCR_EP.field(self._values[csr.DESCR_EP.address], "tags")
        return tags

    @property
    def output_chunk(self) -> int:
        """Bytes of an output packet; 0 as long as no host has said."""
        value = self._values[csr.OUTFEED_CHUNK_LENGTH.address]
        return 8 * int(csr.OUTFEED_CHUNK_LENGTH.field(value, "length"))

    # --- interrupts ------------------------------------------------------------------------------

    def fatal(self, error: str) -> None:
        """Note an error of the host interface block, and report it.

        Args:
            error: name of a field of `csr.HIB_ERROR_STATUS`.
        """
        if not self._values[csr.HIB_FIRST_ERROR_STATUS.address]:
            self._change(csr.HIB_FIRST_ERROR_STATUS, **{error: True})
        self._change(csr.HIB_ERROR_STATUS, **{error: True})
        self._change(csr.FATAL_ERR_INT_STATUS, pending=True)
        self._report(None)

    def interrupt(self, interrupt: TopLevelInterrupt) -> None:
        """Note an interrupt of the chip as a whole, and report it if the host wants that."""
        if interrupt in _THERMAL:
            register, switch, _, pending = _THERMAL[interrupt]
            self._change(csr.OMC0_DC, **{pending: True})
            if not self._enabled(register, switch):
                return
        self._change(csr.TOP_LEVEL_STATUSES[interrupt], pending=True)
        self._report(interrupt)

    def measure(self, celsius: float) -> tuple[TopLevelInterrupt, ...]:
        """Take a temperature: what its thresholds say. A threshold of 0 is never reached."""
        reading = min(max(BEAGLE.thermometer.reading(celsius), 0), 1023)
        self._change(csr.OMC0_DC, enthmc=True, data=reading)
        reached = []
        for interrupt, (register, _, threshold, _) in _THERMAL.items():
            limit = register.field(self._values[register.address], threshold)
            if limit and reading <= limit:
                reached.append(interrupt)
        return tuple(reached)

    def _report(self, interrupt: TopLevelInterrupt | None) -> None:
        status, control = _reporting(interrupt)
        if self._enabled(status, "pending") and self._enabled(control, "enable"):
            self.reported.add(interrupt)

    # --- effects of writes -----------------------------------------------------------------------

    def _sleep(self, register: Register, before: int, value: int) -> None:
        asleep = register.field(value, "force_sleep") is SleepControl.SLEEP
        was = self.power is PowerState.SLEEP
        self._change(
            register,
            cur_gated_gcb=asleep,
            cur_rst_gcb=asleep,
            cur_gcb_sram_sd=asleep,
            cur_pwr_state=PowerState.SLEEP if asleep else PowerState.ACTIVE,
        )
        if asleep and not was:
            for address in [address for address in self._values if address in _CORE]:
                del self._values[address]
            self._reset(tuple(r for r in csr.REGISTERS if r.address in _CORE))
            # Drivers find no gate at the next opening: ASSUMED that it is sleep that opens it.
            gate = csr.SCU_CTRL_2.field(csr.SCU_CTRL_2.reset, "gated_gcb")
            self._change(csr.SCU_CTRL_2, gated_gcb=gate)
            self.reported.clear()
            self._chip.power_down()

    def _thermal(self, register: Register, before: int, value: int) -> None:
        for clear, pending in (("warn_clear", "warn_o"), ("sd_clear", "sd_o")):
            if register.field(value, clear):
                self._change(register, **{clear: False, pending: False})

    def _clear_credits(self, register: Register, before: int, value: int) -> None:
        if value:
            self._chip.clear_streams()

    def _mode(self, register: Register, before: int, value: int) -> None:
        if register.field(before, "multiple") != register.field(value, "multiple"):
            self._chip.clear_streams()

    def _unmask(self, register: Register, before: int, value: int) -> None:
        if register is csr.FATAL_ERR_INT_CONTROL:
            self._report(None)
        for interrupt, control in csr.TOP_LEVEL_CONTROLS.items():
            if register is control:
                self._report(interrupt)


@lru_cache(maxsize=64)
def _runs(control: int) -> bool:
    """Whether a run control, all of which are alike, says RUN: asked 112 times for every write."""
    return csr.SCALAR_CORE_RUN_CONTROL.field(control, "command") is RunControl.RUN


def _reporting(interrupt: TopLevelInterrupt | None) -> tuple[Register, Register]:
    """Status and control of an interrupt; of fatal errors for None."""
    if interrupt is None:
        return csr.FATAL_ERR_INT_STATUS, csr.FATAL_ERR_INT_CONTROL
    return csr.TOP_LEVEL_STATUSES[interrupt], csr.TOP_LEVEL_CONTROLS[interrupt]


_Effect = Callable[[Registers, Register, int, int], None]

_EFFECTS: dict[int, _Effect] = {
    csr.SCU_CTRL_3.address: Registers._sleep,
    csr.OMC0_DC.address: Registers._thermal,
    csr.GCBB_CREDIT0.address: Registers._clear_credits,
    csr.MULTI_BO_EP.address: Registers._mode,
    csr.FATAL_ERR_INT_CONTROL.address: Registers._unmask,
    **{register.address: Registers._unmask for register in csr.TOP_LEVEL_CONTROLS.values()},
}
"""What a write does besides changing the register: gets it, its value before, and the write."""
