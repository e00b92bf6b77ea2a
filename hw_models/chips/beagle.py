"""The numbers of beagle, the chip of the Coral USB accelerator, Dev Board and PCIe modules."""

from __future__ import annotations

from typing import TypeVar

from fitzroy.base.evidence import Evidence
from fitzroy.hw_models.chips.chip import (
    Chip,
    Clocks,
    Compute,
    Limits,
    Memories,
    Memory,
    ScalarCore,
    Thermometer,
    TileGrid,
    Timing,
)
from fitzroy.hw_models.chips.facts import Fact
from fitzroy.hw_models.chips.hosts import DRIVERS, HOSTS
from fitzroy.hw_models.chips.usb import Endpoint, Identity, TransferType, UsbPort

T = TypeVar("T")

_PROGRAMS = "analysis of 488 public bitstreams"
_RUNS = "whole-program simulation of public models"
_STRUCTURES = "libedgetpu driver/config/beagle/beagle_chip_structures.h"
_DRIVER = "libedgetpu driver/usb"
_TOP_LEVEL = "libedgetpu driver/beagle/beagle_top_level_handler.cc"
_FIRMWARE = "libedgetpu driver/usb/apex_latest_single_ep.bin"
_LOGS = "USB logs of iwatake2222/EdgeTPU_Analysis"
_CAPTURE = "USB captures of RingCanary/coral-usb-oxidized"
_APEX = "conversion of temperatures in the published Apex kernel driver"
_FIT = "timing model fitted to published measurements"


def _confirmed(value: T, source: str) -> Fact[T]:
    return Fact(value, Evidence.CONFIRMED, source)


def _measured(value: T, source: str) -> Fact[T]:
    return Fact(value, Evidence.MEASURED, source)


def _source(value: T, source: str) -> Fact[T]:
    return Fact(value, Evidence.SOURCE, source)


def _fitted(value: T, source: str = _FIT) -> Fact[T]:
    return Fact(value, Evidence.FITTED, source)


def _likely(value: T, source: str) -> Fact[T]:
    return Fact(value, Evidence.LIKELY, source)


def _assumed(value: T, source: str = _FIT) -> Fact[T]:
    return Fact(value, Evidence.ASSUMED, source)


def _identity(vendor: int, product: int, interface: tuple[int, int, int], source: str) -> Identity:
    kind, subclass, protocol = (_measured(number, source) for number in interface)
    return Identity(_measured(vendor, source), _measured(product, source), kind, subclass, protocol)


def _endpoint(address: int, transfer: TransferType, role: str, message: int) -> Endpoint:
    return Endpoint(
        _source(address, _FIRMWARE),
        _source(transfer, _FIRMWARE),
        _source(role, _DRIVER),
        _source(message, _DRIVER),
    )


def _clocks(core: float | Fact[float], axi: float, mcu: float) -> Clocks:
    main = core if isinstance(core, Fact) else _source(core, _TOP_LEVEL)
    return Clocks(main, _source(axi, _TOP_LEVEL), _source(mcu, _TOP_LEVEL))


_EIGHTH = Fact(62.5, Evidence.DERIVED, "500 MHz / 8; the driver says 63 MHz")

BEAGLE = Chip(
    name="beagle",
    tiles=TileGrid(rows=_source(4, _STRUCTURES), columns=_source(4, _STRUCTURES)),
    compute=Compute(
        lanes=_confirmed(64, _RUNS),
        multipliers=_confirmed(4, f"{_RUNS}; timing agrees within 1 %"),
        nlu_segments=_confirmed(8, _PROGRAMS),
    ),
    memories=Memories(
        narrow=Memory(
            _source(49_152, f"{_STRUCTURES}: 196,608 bytes; highest use seen 196,596"),
            _confirmed(4, _RUNS),
        ),
        wide=Memory(
            _likely(2_080, f"{_PROGRAMS}: highest row used is 2,079"), _confirmed(256, _RUNS)
        ),
        scaling=Memory(_confirmed(128, _RUNS), _confirmed(8, _RUNS)),
        scalar=Memory(_confirmed(4_096, _RUNS), _confirmed(4, _RUNS)),
        parameter_buffer=Memory(
            _confirmed(2_048, f"{_PROGRAMS}: 4,023 of 4,023 addresses modulo it"),
            _confirmed(64, _PROGRAMS),
        ),
        activation_buffer=Memory(
            _confirmed(32_768, f"{_PROGRAMS}: 1,343 of 1,343 addresses modulo it"),
            _confirmed(8, _PROGRAMS),
        ),
        instruction=Memory(
            _likely(16_384, f"{_PROGRAMS}: the largest chunk has 2 bundles more"),
            _confirmed(16, _PROGRAMS),
        ),
    ),
    scalar=ScalarCore(
        registers=_confirmed(32, _RUNS),
        predicates=_confirmed(8, _RUNS),
        fifo_words=_confirmed(128, f"{_PROGRAMS}: 1,095 of 1,095 fifos"),
    ),
    limits=Limits(
        loop_iterations=_confirmed(16_384, "width of the field"),
        chunk_bundles=_likely(16_386, f"{_PROGRAMS}: largest START.size is 2,097,152 bits"),
        parameter_alignment=_confirmed(64, "parameter blobs made again from 89 sources"),
        host_output_unit=_confirmed(8, f"{_PROGRAMS}: 311 of 311 output totals"),
        address_alignment=_source(8, f"{_STRUCTURES}: minimum_alignment_bytes"),
        ring_channels=_confirmed(2, _RUNS),
    ),
    clocks={
        "max": _clocks(500, 250, 500),
        "high": _clocks(250, 125, 500),
        "medium": _clocks(125, 125, 500),
        "low": _clocks(_EIGHTH, 125, 250),
    },
    thermometer=Thermometer(
        zero=_source(662, _APEX), offset=_source(0.55, _APEX), step=_source(0.25, _APEX)
    ),
    timing=Timing(
        op_step=_confirmed(
            1, "7 x 7 convolution: 802.8 of 816 us per layer are steps (iwatake2222)"
        ),
        resize_step=_assumed(1, "estimate: that of a tensor operation; never measured"),
        ring_row=_fitted(8, f"{_FIT}: 7.3 to 8.6"),
        mesh_word=_fitted(2, f"{_FIT}: 1.75 to 2.4"),
        mesh_fill_word=_likely(1, "padding series of iwatake2222/EdgeTPU_Analysis"),
        parameter_unit=_fitted(16, f"{_FIT}: layer of 836.1 us streamed, 816.4 us resident"),
        activation_unit=_assumed(2, "as fast as parameters; never the limit in measurements"),
        fifo_word=_assumed(2, f"{_FIT}: 1 to 3"),
        conversion_word=_assumed(1, "no measurement depends on it"),
        scalar_bundle=_likely(1.09, "0.1199 ms for 53,998 bundles (iwatake2222)"),
        chunk_latency=_fitted(150, f"{_FIT}: 100 to 150; MobileNet v2 asks for the upper end"),
        phase=_assumed(200, f"{_FIT}: 50 to 300"),
        first_output=_measured(17, f"{_LOGS}: 15 to 22 in 14 inferences"),
        completion=_measured(14, f"{_LOGS}: 8 to 20; the middle"),
        parameters_loaded=_measured(57, f"{_LOGS}: 26 to 89; the middle"),
        host_fifo=Fact(
            32_768, Evidence.DERIVED, f"{_LOGS}: 30 to 40 KB ahead of a streaming layer"
        ),
        long_chunk=_likely(
            224 << 10, f"{_LOGS}: not after 213,840 bytes; programs of 231,456 take as long"
        ),
        long_chunk_pause=_measured(530, f"{_LOGS}: 389 to 674 until the next header"),
        csr_access=_measured(121, f"{_LOGS}: median of 103 to 143"),
        open=_measured(8.7, _LOGS),
        close=_measured(6.3, _LOGS),
        dfu_block=_measured(0.48, _LOGS),
    ),
    hosts=HOSTS,
    drivers=DRIVERS,
    usb=UsbPort(
        boot=_identity(0x1A6E, 0x089A, (0xFE, 0x01, 0x02), _CAPTURE),
        runtime=_identity(0x18D1, 0x9302, (0xFF, 0xFF, 0xFF), f"{_CAPTURE}; {_FIRMWARE}"),
        endpoints={
            "out_1": _endpoint(
                0x01,
                TransferType.BULK,
                "all data to the device; only instructions with multiple endpoints",
                1 << 20,
            ),
            "out_2": _endpoint(0x02, TransferType.BULK, "inputs, multiple endpoints", 1 << 20),
            "out_3": _endpoint(0x03, TransferType.BULK, "parameters, multiple endpoints", 1 << 20),
            "output": _endpoint(0x81, TransferType.BULK, "outputs", 1_024),
            "event": _endpoint(0x82, TransferType.BULK, "events", 16),
            "interrupt": _endpoint(
                0x83, TransferType.INTERRUPT, "fatal errors and interrupts of the chip", 4
            ),
        },
        dfu_block=_measured(256, _CAPTURE),
        super_packet=_source(1_024, _FIRMWARE),
        super_burst=_source(16, _FIRMWARE),
        high_packet=_source(512, _FIRMWARE),
        super_output=_source(1_024, _DRIVER),
        high_output=_source(256, _DRIVER),
        super_power=_source(12, _FIRMWARE),
        high_power=_source(49, _FIRMWARE),
        most_out=_source(1 << 20, _DRIVER),
        out_in_flight=_source(3, _DRIVER),
        output_reads=_source(32, _DRIVER),
        control_timeout=_source(6_000, _DRIVER),
        reset_settle=_source(1_000, _DRIVER),
        open_attempts=_source(25, _DRIVER),
    ),
)
"""The chip."""
