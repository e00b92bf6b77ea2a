"""The registers of beagle that drivers and simulators need, by name, by address and by purpose.

Source: google-coral/libedgetpu, driver/config/beagle/beagle_csr_offsets.h for addresses;
published captures of real devices for reset values and for the order of groups.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from enum import IntEnum

from fitzroy.base.errors import UsageError
from fitzroy.base.evidence import Evidence
from fitzroy.hw_models.csr import fields as layouts
from fitzroy.hw_models.csr.register import Access, Register
from fitzroy.hw_models.isa.fields import StreamEngine, TileEngine

_CAPTURED = Evidence.MEASURED
_SYSTEM = "system control"
_THERMAL = "thermal sensor"
_BIST = "memory self-test"
_BRIDGE = "bus bridge"
_HOST = "host interface"
_USB = "USB interface"
_SCALAR = "scalar core"
_TILE = "tiles"


class TopLevelInterrupt(IntEnum):
    """Interrupts of the chip as a whole; the number is the id in interrupt packets."""

    THERMAL_SHUTDOWN = 0
    PCIE_ERROR = 1
    MBIST = 2
    THERMAL_WARNING = 3


SCU_CTRL_0 = Register(
    "scu_ctrl_0",
    0x1A30C,
    layouts.ScuCtrl0,
    "modes of the physical layers",
    _SYSTEM,
    reset=0x000F0959,
    reset_evidence=_CAPTURED,
)
SCU_CTRL_2 = Register(
    "scu_ctrl_2",
    0x1A314,
    layouts.ScuCtrl2,
    "resets and clock gates",
    _SYSTEM,
    reset=0x00110000,
    reset_evidence=_CAPTURED,
)
SCU_CTRL_3 = Register(
    "scu_ctrl_3",
    0x1A318,
    layouts.ScuCtrl3,
    "power state and clocks",
    _SYSTEM,
    reset=0x60050004,
    reset_evidence=_CAPTURED,
    read_only=tuple(f.name for f in layouts.ScuCtrl3.fields() if f.group == "state"),
    effect="writing `force_sleep` changes the power state; poll `cur_pwr_state`",
)
SCU_CTR_7 = Register(
    "scu_ctr_7",
    0x1A33C,
    layouts.ScuCtr7,
    "failures at start",
    _SYSTEM,
    reset=0x000C003F,
    reset_evidence=_CAPTURED,
    read_only=("boot_failure_raw",),
    write_one_to_clear=("pll_lock_failure", "usb_sel_failure"),
)
OMC0_00 = Register(
    "omc0_00",
    0x1A000,
    layouts.Omc000,
    "e-fuse revision",
    _SYSTEM,
    reset=0x01000000,
    effect="the driver writes 0xffffffff before it reads `ep_status_credit`",
)
OMC0_D4 = Register(
    "omc0_d4",
    0x1A0D4,
    layouts.Omc0D4,
    "thermal warning",
    _THERMAL,
    reset=0x00000001,
    reset_evidence=_CAPTURED,
)
OMC0_D8 = Register(
    "omc0_d8",
    0x1A0D8,
    layouts.Omc0D8,
    "thermal shutdown",
    _THERMAL,
    reset_evidence=_CAPTURED,
)
OMC0_DC = Register(
    "omc0_dc",
    0x1A0DC,
    layouts.Omc0Dc,
    "temperature",
    _THERMAL,
    reset=0x03FF0000,
    reset_evidence=Evidence.SOURCE,
    read_only=("data", "sd_o", "warn_o"),
    effect="writing `sd_clear` or `warn_clear` 1 clears `sd_o` or `warn_o`",
)
RAMBIST_CTRL_1 = Register(
    "rambist_ctrl_1",
    0x1A704,
    layouts.RambistCtrl1,
    "self-test of the memories",
    _BIST,
    reset=0x0070007F,
    reset_evidence=_CAPTURED,
    read_only=("mbist_status",),
    write_one_to_clear=("mbist_int_status",),
)
GCBB_CREDIT0 = Register(
    "gcbb_credit0",
    0x1907C,
    layouts.GcbbCredit0,
    "credits of the bulk endpoints",
    _BRIDGE,
    access=Access.WRITE,
    effect="0xf, then 0 clears the credits",
)

SLV_ABM_EN = Register(
    "slv_abm_en",
    0x1A500,
    layouts.Switch32,
    "monitor of the bus slave",
    _BRIDGE,
    access=Access.WRITE,
    effect="off and on again clears an error",
)
MST_ABM_EN = Register(
    "mst_abm_en",
    0x1A600,
    layouts.Switch32,
    "monitor of the bus master",
    _BRIDGE,
    access=Access.WRITE,
    effect="off and on again clears an error",
)
SLV_ERR_RESP_ISR_MASK = Register(
    "slv_err_resp_isr_mask",
    0x1A558,
    layouts.ErrorMask,
    "errors of the slave that interrupt",
    _BRIDGE,
    access=Access.WRITE,
)
MST_ERR_RESP_ISR_MASK = Register(
    "mst_err_resp_isr_mask",
    0x1A658,
    layouts.ErrorMask,
    "errors of the master that interrupt",
    _BRIDGE,
    access=Access.WRITE,
)
SLV_WR_ERR_RESP = Register(
    "slv_wr_err_resp",
    0x1A540,
    layouts.ErrorResponse,
    "write error of the slave",
    _BRIDGE,
    access=Access.READ,
)
SLV_RD_ERR_RESP = Register(
    "slv_rd_err_resp",
    0x1A544,
    layouts.ErrorResponse,
    "read error of the slave",
    _BRIDGE,
    access=Access.READ,
)
MST_WR_ERR_RESP = Register(
    "mst_wr_err_resp",
    0x1A640,
    layouts.ErrorResponse,
    "write error of the master",
    _BRIDGE,
    access=Access.READ,
)
MST_RD_ERR_RESP = Register(
    "mst_rd_err_resp",
    0x1A644,
    layouts.ErrorResponse,
    "read error of the master",
    _BRIDGE,
    access=Access.READ,
)

IDLE_REGISTER = Register(
    "idleRegister",
    0x4A000,
    layouts.Idle,
    "detection of idleness",
    _HOST,
    reset=0x9000,
    reset_evidence=Evidence.SOURCE,
    access=Access.WRITE,
)
TILECONFIG0 = Register(
    "tileconfig0",
    0x48788,
    layouts.TileConfig,
    "tiles that the next accesses reach",
    _HOST,
    effect="later writes to tiles are not ordered after it: poll until it reads back",
)
DEEP_SLEEP = Register(
    "deepSleep", 0x40020, layouts.DeepSleep, "sleep of memories", _TILE, access=Access.WRITE
)
HIB_ERROR_STATUS = Register(
    "hib_error_status", 0x486F0, layouts.HibError, "errors", _HOST, access=Access.READ
)
HIB_FIRST_ERROR_STATUS = Register(
    "hib_first_error_status",
    0x48700,
    layouts.HibError,
    "the error that came first",
    _HOST,
    access=Access.READ,
)

DESCR_EP = Register(
    "descr_ep",
    0x4C148,
    layouts.DescriptorEvents,
    "descriptors announced as events",
    _USB,
    access=Access.WRITE,
)
MULTI_BO_EP = Register(
    "multi_bo_ep",
    0x4C160,
    layouts.MultiEndpoint,
    "endpoint mode",
    _USB,
    access=Access.WRITE,
)
OUTFEED_CHUNK_LENGTH = Register(
    "outfeed_chunk_length",
    0x4C058,
    layouts.OutfeedChunk,
    "size of output packets",
    _USB,
    access=Access.WRITE,
)
EP_STATUS_CREDIT = Register(
    "ep_status_credit",
    0x4C150,
    layouts.EndpointCredit,
    "room for bulk data; only for software flow control",
    _USB,
    access=Access.READ,
)
FATAL_ERR_INT_CONTROL = Register(
    "fatal_err_int_control",
    0x4C060,
    layouts.InterruptControl,
    "fatal errors as interrupts",
    _USB,
    access=Access.WRITE,
)
FATAL_ERR_INT_STATUS = Register(
    "fatal_err_int_status",
    0x4C068,
    layouts.InterruptStatus,
    "a fatal error is pending",
    _USB,
    access=Access.WRITE,
)

TOP_LEVEL_CONTROLS: dict[TopLevelInterrupt, Register] = {
    interrupt: Register(
        f"top_level_int_{interrupt.value}_control",
        0x4C070 + 0x10 * interrupt.value,
        layouts.InterruptControl,
        f"{interrupt.name.lower().replace('_', ' ')} as interrupt",
        _USB,
        access=Access.WRITE,
    )
    for interrupt in TopLevelInterrupt
}
"""Which interrupts of the chip reach the host."""

TOP_LEVEL_STATUSES: dict[TopLevelInterrupt, Register] = {
    interrupt: Register(
        f"top_level_int_{interrupt.value}_status",
        0x4C078 + 0x10 * interrupt.value,
        layouts.InterruptStatus,
        f"{interrupt.name.lower().replace('_', ' ')} is pending",
        _USB,
        access=Access.WRITE,
    )
    for interrupt in TopLevelInterrupt
}
"""Interrupts of the chip that are pending."""


def _run_control(name: str, address: int, engine: str, unit: str) -> Register:
    return Register(
        f"{name}RunControl",
        address,
        layouts.EngineControl,
        f"run control of {engine}",
        unit,
        access=Access.WRITE,
    )


SCALAR_CORE_RUN_CONTROL = replace(
    _run_control("scalarCore", 0x44018, "the scalar core", _SCALAR),
    access=Access.READ_WRITE,
    reset_evidence=Evidence.SOURCE,
    effect="0 when the chip core has left reset",
)

STREAM_RUN_CONTROLS: dict[StreamEngine, Register] = {
    engine: _run_control(name, address, text, _SCALAR)
    for engine, name, address, text in (
        (StreamEngine.AVDATA_POP, "avDataPop", 0x44158, "the activation pop unit"),
        (StreamEngine.PARAMETER_POP, "parameterPop", 0x44198, "the parameter pop unit"),
        (StreamEngine.INFEED, "infeed", 0x441D8, "the infeed"),
        (StreamEngine.OUTFEED, "outfeed", 0x44218, "the outfeed"),
    )
}
"""Run control of the stream engines, in the order of the driver."""

TILE_RUN_CONTROLS: dict[TileEngine, Register] = {
    engine: _run_control(name, address, text, _TILE)
    for engine, name, address, text in (
        (TileEngine.OP, "op", 0x400C0, "the op engine"),
        (TileEngine.NARROW_TO_WIDE, "narrowToWide", 0x40150, "the narrow-to-wide engine"),
        (TileEngine.WIDE_TO_NARROW, "wideToNarrow", 0x40110, "the wide-to-narrow engine"),
        (TileEngine.MESH_SOUTHWARD, "meshBus0", 0x40250, "mesh bus 0"),
        (TileEngine.MESH_WESTWARD, "meshBus1", 0x40298, "mesh bus 1"),
        (TileEngine.MESH_NORTHWARD, "meshBus2", 0x402E0, "mesh bus 2"),
        (TileEngine.MESH_EASTWARD, "meshBus3", 0x40328, "mesh bus 3"),
        (TileEngine.RING_CONSUME_A, "ringBusConsumer0", 0x40190, "ring bus consumer 0"),
        (TileEngine.RING_CONSUME_B, "ringBusConsumer1", 0x401D0, "ring bus consumer 1"),
        (TileEngine.RING_PRODUCE, "ringBusProducer", 0x40210, "the ring bus producer"),
    )
}
"""Run control of the engines of the tiles that `tileconfig0` selects, in the driver's order."""

REGISTERS: tuple[Register, ...] = tuple(
    sorted(
        (
            SCU_CTRL_0,
            SCU_CTRL_2,
            SCU_CTRL_3,
            SCU_CTR_7,
            OMC0_00,
            OMC0_D4,
            OMC0_D8,
            OMC0_DC,
            RAMBIST_CTRL_1,
            GCBB_CREDIT0,
            SLV_ABM_EN,
            MST_ABM_EN,
            SLV_ERR_RESP_ISR_MASK,
            MST_ERR_RESP_ISR_MASK,
            SLV_WR_ERR_RESP,
            SLV_RD_ERR_RESP,
            MST_WR_ERR_RESP,
            MST_RD_ERR_RESP,
            IDLE_REGISTER,
            TILECONFIG0,
            DEEP_SLEEP,
            HIB_ERROR_STATUS,
            HIB_FIRST_ERROR_STATUS,
            DESCR_EP,
            MULTI_BO_EP,
            OUTFEED_CHUNK_LENGTH,
            EP_STATUS_CREDIT,
            FATAL_ERR_INT_CONTROL,
            FATAL_ERR_INT_STATUS,
            *TOP_LEVEL_CONTROLS.values(),
            *TOP_LEVEL_STATUSES.values(),
            SCALAR_CORE_RUN_CONTROL,
            *STREAM_RUN_CONTROLS.values(),
            *TILE_RUN_CONTROLS.values(),
        ),
        key=lambda register: register.address,
    )
)
"""All registers in order of their addresses."""

BY_NAME: dict[str, Register] = {register.name: register for register in REGISTERS}
BY_ADDRESS: dict[int, Register] = {register.address: register for register in REGISTERS}

ALL_TILES = TILECONFIG0.value(tile=0x7F)
"""Value of `tileconfig0` that selects all tiles."""


def by_name(name: str) -> Register:
    """The register of a name.

    Raises:
        UsageError: there is none.
    """
    if name not in BY_NAME:
        near = ", ".join(difflib.get_close_matches(name, BY_NAME)) or ", ".join(BY_NAME)
        raise UsageError(f"there is no register {name[:40]!r}", hint=f"known are {near}")
    return BY_NAME[name]


def by_address(address: int) -> Register:
    """The register at an address.

    Raises:
        UsageError: there is none.
    """
    if address not in BY_ADDRESS:
        raise UsageError(f"there is no register at {address:#x}")
    return BY_ADDRESS[address]
