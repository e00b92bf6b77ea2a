"""``fitzroy usbip``: virtual Edge TPUs for hosts on the network."""

from __future__ import annotations

import contextlib
import ipaddress
import json as json_text
import queue
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.files import read_file
from fitzroy.cli.help import Json, Quiet, Seed, Verb, VerbGroup
from fitzroy.cli.terminal import Column, Terminal, plain
from fitzroy.report.documents import headed

if TYPE_CHECKING:
    from fitzroy.hw_models.usb_device.transfer import UsbDevice
    from fitzroy.hw_models.usb_device.usbip.messages import DeviceEntry
    from fitzroy.hw_models.usb_device.usbip.watch import Occurrence

_MOST_DEVICES = 16
_STOPPING = (signal.SIGINT, signal.SIGTERM)


class UsbSpeed(StrEnum):
    """Speeds of a virtual USB port."""

    SUPER = "super"
    HIGH = "high"


_SPEEDS = {3: "high speed", 5: "super speed"}

Port = Annotated[
    int, typer.Option("--port", "-p", metavar="PORT", min=0, max=65535, help="TCP port.")
]


@dataclass(frozen=True)
class Served:
    """The accelerators that are served.

    Attributes:
        devices: how many.
        speed: speed of their ports.
        booted: whether their firmware runs.
        fresh: whether every client gets one that was just plugged in.
        seed: what randomizes them.
        faults: script of what goes wrong.
    """

    devices: Annotated[
        int,
        typer.Option(
            "--devices", metavar="N", min=1, max=_MOST_DEVICES, help="Number of accelerators."
        ),
    ] = 1
    speed: Annotated[UsbSpeed, typer.Option("--speed", help="Speed of their USB ports.")] = (
        UsbSpeed.SUPER
    )
    booted: Annotated[
        bool,
        typer.Option("--booted", help="Start with the firmware running, not in the boot ROM."),
    ] = False
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Give every client a device that was just plugged in, not a used one."
        ),
    ] = False
    seed: Seed = None
    faults: Annotated[
        Path | None,
        typer.Option(
            "--faults",
            metavar="SCRIPT.json",
            help="Faults to inject, and at which transfer; the same on every device.",
            show_default=False,
        ),
    ] = None


def serve(
    served: Served,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="Address to listen on; all of them: 0.0.0.0 or ::."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            "-p",
            metavar="PORT",
            min=0,
            max=65535,
            help="TCP port to listen on; 0 takes a free one and says which.",
        ),
    ] = 3240,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON document per line: what is served, then each event.",
            show_default=False,
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Serve virtual Coral USB Accelerators until Ctrl-C.

    On the Linux host that uses one, as root: load the module with "modprobe
    vhci-hcd", attach with "usbip attach -r HOST -b 1-1", see the number of the virtual port with
    "usbip port", detach with "usbip detach -p NUMBER". The tools are in the package usbip (Debian)
    or linux-tools (Ubuntu). For another TCP port than 3240: "usbip --tcp-port PORT attach ...".

    A device starts in its boot ROM (1a6e:089a), takes the driver's firmware, and comes back as
    18d1:9302, like the real one. It keeps its state when its client leaves.

    USB/IP has no passwords and no encryption: anyone who reaches the port can use the devices. By
    default, only this machine can; see --host. Use a tunnel from another machine: "ssh -L
    3240:127.0.0.1:3240 SERVER", and attach from 127.0.0.1.
    """
    from fitzroy.hw_models.usb_device.usbip.server import Server

    terminal = Terminal(json=json, quiet=quiet)
    renew = _factory(served.speed, served.booted, served.seed, served.faults)
    events: queue.SimpleQueue[Occurrence | None] = queue.SimpleQueue()
    # This thread alone prints, so that a reader who goes away is no concern of the connections.
    server = Server(
        [renew(position) for position in range(served.devices)],
        events.put,
        renew if served.fresh else None,
    )
    with _stopped_by_signals(lambda: events.put(None)), server:
        address, number = server.open(host, port)
        _announce(terminal, address, number, [export.entry()[0] for export in server.exports])
        while (event := events.get()) is not None:
            _tell(terminal, event)
    while not events.empty():
        event = events.get()
        if event is not None:
            _tell(terminal, event)
    terminal.note("stopped")


@contextlib.contextmanager
def _stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call a function at Ctrl-C and at the request to terminate; a second one is not waited for."""
    earlier = {number: signal.getsignal(number) for number in _STOPPING}

    def restore() -> None:
        for number, handler in earlier.items():
            signal.signal(number, handler)

    def handle(*_: object) -> None:
        restore()
        stop()

    for number in _STOPPING:
        signal.signal(number, handle)
    try:
        yield
    finally:
        restore()


def _announce(terminal: Terminal, address: str, port: int, entries: list[DeviceEntry]) -> None:
    if terminal.json:
        devices = [_described(entry) for entry in entries]
        _line(terminal, {"listening": {"host": address, "port": port}, "devices": devices})
    else:
        _table(terminal, entries)
        terminal.line(f"listening on {address} port {port}")
        sys.stdout.flush()
    if not ipaddress.ip_address(address).is_loopback:
        terminal.warn(
            f"whoever reaches port {port} can use the devices",
            ["USB/IP has no passwords and no encryption; keep it to networks that you trust"],
        )
    option = "" if port == 3240 else f"--tcp-port {port} "
    terminal.note(f"attach one on Linux, as root: usbip {option}attach -r HOST -b 1-1")


def _tell(terminal: Terminal, event: Occurrence) -> None:
    if terminal.json:
        document = {"time": round(time.time(), 3), "event": event.kind.value, "busid": event.busid}
        _line(terminal, document | {"text": event.text} | dict(event.figures))
        return
    terminal.line(f"{time.strftime('%H:%M:%S')} {event.busid or '-'} {event.kind}: {event.text}")
    sys.stdout.flush()


def _line(terminal: Terminal, document: dict[str, Any]) -> None:
    terminal.raw(json_text.dumps(plain(headed("usbip-event", document)), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _described(entry: DeviceEntry) -> dict[str, Any]:
    return {
        "busid": entry.busid,
        "vendor": entry.vendor,
        "product": entry.product,
        "id": f"{entry.vendor:04x}:{entry.product:04x}",
        "speed": _SPEEDS.get(entry.speed, f"speed {entry.speed}"),
    }


def _table(terminal: Terminal, entries: list[DeviceEntry]) -> None:
    described = [_described(entry) for entry in entries]
    columns = (Column("bus id", keep=True), Column("device", keep=True), Column("speed"))
    terminal.table(columns, [[item["busid"], item["id"], item["speed"]] for item in described])


def list_command(
    host: Annotated[
        str, typer.Argument(metavar="HOST", help="Name or address of the server.")
    ] = "127.0.0.1",
    port: Port = 3240,
    json: Json = False,
) -> None:
    """List the devices of a USB/IP server that are not attached.

    Works with any server, FitzRoy's or usbipd. The kernel attaches devices: "usbip attach -r HOST
    -b BUSID", as root.
    """
    from fitzroy.hw_models.usb_device.usbip.client import list_devices

    terminal = Terminal(json=json)
    found = [entry for entry, _ in list_devices(host, port)]
    if json:
        devices = [_described(entry) for entry in found]
        terminal.document("usbip-list", {"host": host, "port": port, "devices": devices})
    elif found:
        _table(terminal, found)
    else:
        terminal.line("no device is free")


def _factory(
    speed: UsbSpeed, booted: bool, seed: int | None, faults: Path | None
) -> Callable[[int], UsbDevice]:
    """What makes the device of a position; every device has its own seed, and all faults."""
    from fitzroy.hw_models.chips.usb import Speed
    from fitzroy.hw_models.usb_device.faults import read_script
    from fitzroy.hw_models.usb_device.usbip.served import served_device

    script = () if faults is None else read_script(read_file(faults), str(faults))
    rate = Speed[speed.name]

    def make(position: int) -> UsbDevice:
        return served_device(rate, None if seed is None else seed + position, booted, script)

    return make


usbip_command = VerbGroup(
    "Serve virtual Edge TPUs over USB/IP, for drivers on any Linux host.\n\n"
    "A host that attaches one sees a Coral USB Accelerator on a port. Its driver, applications and "
    "containers run unchanged; the chip is simulated on this machine.",
    {
        "serve": Verb(
            serve,
            (
                "fitzroy usbip serve",
                "fitzroy usbip serve --devices 2 --speed high --booted",
                "fitzroy usbip serve --port 0 --json --faults faults.json",
            ),
        ),
        "list": Verb(list_command, ("fitzroy usbip list", "fitzroy usbip list 192.168.1.7 --json")),
    },
    (
        "fitzroy usbip serve",
        "fitzroy usbip list",
    ),
)
