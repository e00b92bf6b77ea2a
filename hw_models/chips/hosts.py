"""Hosts that were measured, and drivers: what an inference takes outside of the chip."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.base.evidence import Evidence
from fitzroy.hw_models.chips.facts import Fact, Part, Quantity

LARGE_TRANSFER = 64 << 10
"""Bytes above which a transfer to the chip costs a host more than its time on the link.

FITTED: transfers of 49,152 and 52,048 bytes show no such cost, those of 75,360 bytes and more do,
on hosts with four operating systems.
"""


@dataclass(frozen=True)
class Host(Part):
    """A host and its link under libedgetpu: time of an inference outside of the chip.

    A transfer to the chip is prepared by the host, then moves on the link; the next one is prepared
    meanwhile. Outputs are read while they come, and put in order after the last byte.
    """

    bus: Quantity[str] = Quantity("connection to the chip")
    fixed: Quantity[float] = Quantity("time per inference", "ms")
    link: Quantity[float] = Quantity("rate of instructions and inputs on the link", "MB/s")
    stream: Quantity[float] = Quantity("rate of parameters on the link", "MB/s")
    large: Quantity[float] = Quantity(
        "extra time before instructions, an input or parameters of more than 64 KiB", "us"
    )
    prepare: Quantity[float] = Quantity(
        "preparation time per byte of an input or parameters of more than 64 KiB", "ns"
    )
    prepare_instructions: Quantity[float] = Quantity(
        "preparation time per byte of instructions", "ns"
    )
    output_byte: Quantity[float] = Quantity("time per byte of outputs", "ns")
    read: Quantity[int] = Quantity("size of a read for which `output_byte` holds", "byte")
    output_piece: Quantity[float] = Quantity(
        "time to reorder outputs, per position in y and x", "ns"
    )
    doze: Quantity[float] = Quantity("idle time after which the host saves power", "ms")
    wake: Quantity[float] = Quantity("time to wake up from power saving", "ms")
    compute: Quantity[float] = Quantity(
        "time of operators on the host, relative to a reference processor"
    )
    element: Quantity[float] = Quantity(
        "time per element of operators that only move or convert", "ns"
    )


@dataclass(frozen=True)
class Driver(Part):
    """A user-space driver: how it moves data, and what it takes itself."""

    buses: Quantity[tuple[str, ...]] = Quantity("supported buses")
    overhead: Quantity[float] = Quantity(
        "time per inference in addition to that of libedgetpu", "ms"
    )
    in_flight: Quantity[int] = Quantity("number of transfers to the chip in flight at a time")
    idle: Quantity[float] = Quantity(
        "time before instructions, an input or parameters if no other transfer is in flight", "us"
    )
    read: Quantity[int] = Quantity("size of a read of outputs", "byte")
    read_high: Quantity[int] = Quantity("size of a read of outputs over USB 2", "byte")

    def output_byte(self, host: Host) -> float:
        """Nanoseconds per byte of outputs on a host.

        What a read takes beyond its time on the link is taken to be the same for every size.
        """
        size = self.read_high if host.bus == USB2 else self.read
        moving = min(1000 / host.link, host.output_byte)
        return moving + (host.output_byte - moving) * host.read / size


USB2, USB3, PCIE = "USB 2", "USB 3", "PCIe"

LIBEDGETPU, FITZROY = "libedgetpu", "fitzroy"

_LOGS = "USB logs of iwatake2222/EdgeTPU_Analysis"
_SHEET = "fitted to rows of iwatake2222/EdgeTPU_Analysis"
_CTS = "fitted to rows of google-coral/cts"
_CTS_STREAM = "Inception v4 of google-coral/cts, which streams 35.6 MB"
_ENGINE = "basic_engine of google-coral/edgetpu, 2019"

DRIVERS = {
    LIBEDGETPU: Driver(
        Fact((USB2, USB3, PCIE), Evidence.SOURCE, "libedgetpu driver"),
        Fact(0.0, Evidence.DERIVED, "`fixed` of a host includes it"),
        Fact(3, Evidence.SOURCE, "libedgetpu driver/usb"),
        Fact(0.0, Evidence.DERIVED, "the next transfer is always under way"),
        Fact(1024, Evidence.SOURCE, "libedgetpu driver/usb"),
        Fact(256, Evidence.SOURCE, "libedgetpu driver/usb"),
    ),
    FITZROY: Driver(
        Fact((USB2, USB3), Evidence.SOURCE, "driver/transports"),
        Fact(
            0.02,
            Evidence.MEASURED,
            "benchmarks/results/driver.json: on a device that answers "
            "at once; a slow processor takes longer",
        ),
        Fact(3, Evidence.SOURCE, "driver/transports/outgoing.py"),
        Fact(0.0, Evidence.DERIVED, "the next transfer is always under way"),
        Fact(256 << 10, Evidence.SOURCE, "driver/device/streams.py"),
        Fact(256 << 10, Evidence.SOURCE, "driver/device/streams.py"),
    ),
}
"""Drivers by name."""


def _fitted(value: float, source: str) -> Fact[float]:
    return Fact(value, Evidence.FITTED, source)


def _likely(value: float, source: str) -> Fact[float]:
    return Fact(value, Evidence.LIKELY, source)


def _assumed(value: float, source: str) -> Fact[float]:
    return Fact(value, Evidence.ASSUMED, source)


_PREPARE = Fact(
    0.75, Evidence.MEASURED, f"{_LOGS}: 1 MiB in 3.27 ms on an idle link, in 2.49 ms on a busy one"
)
_HIDDEN = _assumed(0.0, "no row of this host tells; `large` has what does not grow with the size")
_CTS_OPERATORS = "CPU times of google-coral/cts: DeepLab v3 and SSD MobileNet v2 without NMS"
_NO_OPERATORS = "no row of this host; between hosts with slower and faster processors"
_JETSON_OPERATORS = (
    Fact(12.0, Evidence.ASSUMED, _NO_OPERATORS),
    Fact(14.0, Evidence.ASSUMED, _NO_OPERATORS),
)
_USB3_LINK = Fact(421.5, Evidence.MEASURED, f"{_LOGS}: 1 MiB in 2.477 to 2.497 ms, queued")
_USB2_LINK = _fitted(36.1, _SHEET)
_PIECE = _assumed(0.0, "no row of this host tells")
_PREPARED = _assumed(0.0, "`prepare` is enough")
_DOZE = _assumed(4.0, f"{_LOGS}: between 2 and 7.4, of one host; no other wakes up slowly")
_AWAKE = _assumed(0.0, "no row of a host that waits")


def _bus(bus: str, source: str) -> Fact[str]:
    return Fact(bus, Evidence.SOURCE, source)


def _read(bus: str) -> Fact[int]:
    usual = DRIVERS[LIBEDGETPU]
    size = usual.read_high if bus == USB2 else usual.read
    return Fact(size, Evidence.SOURCE, "that of libedgetpu, which was measured")


def _jetson(
    bus: str,
    link: Fact[float],
    fixed: float,
    prepare: tuple[Fact[float], Fact[float]],
    output: tuple[float, Fact[float]],
    wake: Fact[float] = _AWAKE,
) -> Host:
    """A Jetson Nano.

    `prepare` is for inputs and parameters, and for instructions; `output` per byte and position.
    """
    return Host(
        bus=_bus(bus, "iwatake2222/EdgeTPU_Analysis"),
        fixed=_fitted(fixed, _SHEET),
        link=link,
        stream=link,
        large=_PREPARED,
        prepare=prepare[0],
        prepare_instructions=prepare[1],
        output_byte=_fitted(output[0], _SHEET),
        read=_read(bus),
        output_piece=output[1],
        doze=_DOZE,
        wake=wake,
        compute=_JETSON_OPERATORS[0],
        element=_JETSON_OPERATORS[1],
    )


def _from_cts(
    bus: str,
    fixed: float,
    link: Fact[float],
    stream: float,
    large: float,
    output_byte: float,
    operators: tuple[float, float],
) -> Host:
    """A host of google-coral/cts; `operators` are `compute` and `element`."""
    return Host(
        bus=_bus(bus, "google-coral/cts"),
        fixed=_fitted(fixed, _CTS),
        link=link,
        stream=_fitted(stream, _CTS_STREAM),
        large=_fitted(large, _CTS),
        prepare=_HIDDEN,
        prepare_instructions=_HIDDEN,
        output_byte=_fitted(output_byte, _CTS),
        read=_read(bus),
        output_piece=_PIECE,
        doze=_DOZE,
        wake=_AWAKE,
        compute=_fitted(operators[0], _CTS_OPERATORS),
        element=_fitted(operators[1], _CTS_OPERATORS),
    )


def _as_piece(time: float) -> Fact[float]:
    return Fact(time, Evidence.DERIVED, "as much beside `output_byte` as at 10 W over USB 3")


def _as_stream(rate: float) -> Fact[float]:
    return Fact(rate, Evidence.DERIVED, "the rate of parameters")


def _from_engine(
    bus: str,
    fixed: float,
    link: Fact[float],
    stream: float,
    output_byte: Fact[float],
    operators: tuple[Fact[float], Fact[float]],
) -> Host:
    """A host of Google's older benchmark, of which few programs are at hand."""
    return Host(
        bus=_bus(bus, "google-coral/edgetpu"),
        fixed=_likely(fixed, f"{_ENGINE}: what MobileNets take beyond chip and link"),
        link=link,
        stream=_fitted(stream, f"{_ENGINE}: Inception v4, which streams 35.6 MB"),
        large=_assumed(0.0, "two rows do not tell it from `fixed`"),
        prepare=_HIDDEN,
        prepare_instructions=_HIDDEN,
        output_byte=output_byte,
        output_piece=_PIECE,
        read=_read(bus),
        doze=_DOZE,
        wake=_AWAKE,
        compute=operators[0],
        element=operators[1],
    )


def _raspberry_pi_5() -> Host:
    """A host of which nothing but rows of another driver is known."""
    source = "RingCanary/coral-usb-oxidized: dense layers, a replay without libedgetpu"
    link = _assumed(421.5, "that of other USB 3 hosts")
    return Host(
        bus=_bus(USB3, "RingCanary/coral-usb-oxidized"),
        fixed=_likely(0.22, source),
        link=link,
        stream=link,
        large=_HIDDEN,
        prepare=_HIDDEN,
        prepare_instructions=_HIDDEN,
        output_byte=_likely(28, f"{source}; one convolution"),
        output_piece=_PIECE,
        read=_read(USB3),
        doze=_DOZE,
        wake=_AWAKE,
        compute=_assumed(4.0, _NO_OPERATORS),
        element=_assumed(4.0, _NO_OPERATORS),
    )


_SSD = f"{_ENGINE}: SSD MobileNet v2 with NMS, one row for both"
_XEON_OPERATORS = (_likely(9.5, _SSD), _likely(6.2, _SSD))
_PI_3_OPERATORS = (_likely(21.0, _SSD), _likely(22.0, _SSD))
_PI_4_OPERATORS = (_likely(10.2, _SSD), _likely(10.2, _SSD))

HOSTS = {
    "jetson_nano_10w_usb3": _jetson(
        USB3, _USB3_LINK, 0.272, (_PREPARE, _fitted(0.5, _SHEET)), (22.4, _fitted(37.0, _SHEET))
    ),
    "jetson_nano_10w_usb2": _jetson(
        USB2, _USB2_LINK, 0.225, (_HIDDEN, _HIDDEN), (60.0, _as_piece(99.0))
    ),
    "jetson_nano_5w_usb3": _jetson(
        USB3,
        _USB3_LINK,
        0.43,
        (_fitted(1.6, _SHEET), _fitted(4.5, _SHEET)),
        (40.0, _as_piece(66.0)),
        _fitted(3.7, f"{_LOGS}: 50 convolutions take that much longer at 5 W"),
    ),
    "x86_workstation_usb3": _from_cts(USB3, 0.067, _as_stream(421.5), 421.5, 86, 13, (2.93, 1.89)),
    "x86_xeon_e5_usb3": _from_engine(
        USB3, 0.088, _as_stream(419), 419, _likely(10, "as other desktops"), _XEON_OPERATORS
    ),
    "mac_usb3": _from_cts(USB3, 0.285, _as_stream(343), 343, 143, 40, (3.51, 2.68)),
    "windows_desktop": _from_cts(USB3, 0.11, _as_stream(352), 352, 155, 7, (6.19, 3.95)),
    "raspberry_pi_3_usb2": _from_engine(
        USB2,
        0.35,
        _fitted(40, _ENGINE),
        33.6,
        _likely(190, f"{_ENGINE}: SSD, less host operators"),
        _PI_3_OPERATORS,
    ),
    "raspberry_pi_4_usb3": _from_engine(
        USB3,
        0.18,
        _as_stream(251),
        251,
        _likely(23, f"{_ENGINE}: SSD, less host operators"),
        _PI_4_OPERATORS,
    ),
    "raspberry_pi_5_usb3": _raspberry_pi_5(),
    "dev_board_pcie": _from_cts(PCIE, 0.122, _as_stream(350), 350, 0, 13.5, (17.1, 18.0)),
    "dev_board_mini_usb2": _from_cts(USB2, 0.27, _fitted(27.0, _CTS), 25.2, 0, 170, (26.0, 21.8)),
}
"""Hosts by name."""
