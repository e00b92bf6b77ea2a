"""Edge TPUs of this machine that are not on its USB ports: modules on PCIe, and boards with a chip.

They run the same packages. The driver here has no way to modules on PCIe, and none to the chip of a
board that runs its programs itself; docs/boards.md says what to use there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fitzroy.base.errors import UnsupportedError
from fitzroy.hw_models.chips.beagle import BEAGLE

ROOT = Path("/")
"""Where ``dev``, ``proc`` and ``sys`` are."""

PAGE = "docs/boards.md"
"""What says how to deploy there."""

_PCI = ("0x1ac1", "0x089a")
"""Vendor and device of the chip on PCIe: libedgetpu, and the kernel's gasket driver."""

_RULE = 'SUBSYSTEM=="apex", MODE="0660", GROUP="apex"'
"""Rule for udev of Google's instructions."""

_MICRO = {
    ("18d1", "9307"): "in its boot loader",
    ("18d1", "9308"): "with an application",
    ("18d1", "93fe"): "in its boot loader",
    ("18d1", "93ff"): "with an application",
}
"""Identities of a Dev Board Micro on USB: rules for udev of google-coral/coralmicro."""


_ACCELERATORS = {
    (f"{mode.vendor:04x}", f"{mode.product:04x}"): text
    for mode, text in ((BEAGLE.usb.boot, "in its boot ROM"), (BEAGLE.usb.runtime, "running"))
}
"""Identities of a USB Accelerator."""


@dataclass(frozen=True, slots=True)
class Board:
    """An Edge TPU that packages can be deployed to, by other means than this driver.

    Attributes:
        kind: ``pcie``, ``dev-board``, ``dev-board-mini`` or ``dev-board-micro``.
        place: address on PCIe, port of USB, or node; empty for the machine itself.
        text: what it is, for people.
        ready: whether Google's runtime can use it from here.
        hint: what to do.
    """

    kind: str
    place: str
    text: str
    ready: bool
    hint: str


def boards(root: Path | None = None) -> tuple[Board, ...]:
    """All that this machine shows of such boards.

    Args:
        root: where ``dev``, ``proc`` and ``sys`` are, None for those of the system.
    """
    root = ROOT if root is None else root
    return (*_machine(root), *_modules(root), *_micros(root))


def accelerators(root: Path | None = None) -> tuple[str, ...]:
    """USB Accelerators that Linux sees, whether libusb does or not: port, mode and speed.

    Args:
        root: as `boards`.
    """
    root = ROOT if root is None else root
    found = []
    for device in sorted((root / "sys/bus/usb/devices").glob("*")):
        mode = _ACCELERATORS.get((_text(device / "idVendor"), _text(device / "idProduct")))
        if mode is not None:
            speed = _text(device / "speed")
            found.append(f"usb:{device.name}, {mode}" + (f", {speed} Mbit/s" if speed else ""))
    return tuple(found)


def refuse_pcie(name: str) -> UnsupportedError:
    """The error of somebody who wants a module on PCIe."""
    return UnsupportedError(
        f"there is no driver for PCIe here: {name[:80]!r}",
        hint=f"Google's runtime runs the same package on it, see {PAGE}; here: usb, or sim",
    )


def _text(file: Path) -> str:
    """What a file of the kernel says, empty if there is none."""
    try:
        return file.read_bytes()[:256].strip(b"\0 \n").decode("utf-8", "replace")
    except OSError:
        return ""


def _machine(root: Path) -> Iterator[Board]:
    """The board that this program runs on."""
    model = _text(root / "proc/device-tree/model").lower()
    if "phanbell" in model:
        hint = f"its chip is on PCIe: see {PAGE}"
        yield Board("dev-board", "", "this is a Coral Dev Board, or its module", True, hint)
    elif ("mt8167" in model and "coral" in model) or "excelsior" in model:
        hint = f"its chip is on a USB port inside: --device usb, or Google's runtime, see {PAGE}"
        yield Board("dev-board-mini", "", "this is a Coral Dev Board Mini", True, hint)


def _modules(root: Path) -> Iterator[Board]:
    """Modules on PCIe, and nodes of modules that only the host of a container sees."""
    nodes = sorted((root / "dev").glob("apex_[0-9]*"))
    addresses = [
        device.name
        for device in sorted((root / "sys/bus/pci/devices").glob("*"))
        if (_text(device / "vendor"), _text(device / "device")) == _PCI
    ]
    for number in range(max(len(nodes), len(addresses))):
        address = addresses[number] if number < len(addresses) else ""
        node = nodes[number] if number < len(nodes) else None
        yield _module(root, address, node)


def _module(root: Path, address: str, node: Path | None) -> Board:
    text = "Coral Edge TPU on PCIe" + (f" at {address}" if address else "")
    if node is None:
        bound = (root / f"sys/bus/pci/devices/{address}/driver").exists()
        state = "a driver is bound, and there is no node" if bound else "without its driver"
        hint = f"install the kernel's drivers gasket and apex (gasket-dkms), see {PAGE}"
        return Board("pcie", address, f"{text}, {state}", False, hint)
    path = f"/dev/{node.name}"
    if not os.access(node, os.R_OK | os.W_OK):
        hint = f"write {_RULE} to /etc/udev/rules.d/65-apex.rules, and be in the group apex"
        return Board("pcie", address or path, f"{text}, {path}: no access", False, hint)
    hint = f"Google's runtime runs packages on it, see {PAGE}; this driver has no PCIe"
    return Board("pcie", address or path, f"{text}, {path}", True, hint)


def _micros(root: Path) -> Iterator[Board]:
    for device in sorted((root / "sys/bus/usb/devices").glob("*")):
        state = _MICRO.get((_text(device / "idVendor"), _text(device / "idProduct")))
        if state is not None:
            text = f"Coral Dev Board Micro at usb:{device.name}, {state}"
            hint = f"its own programs carry the package, see {PAGE}"
            yield Board("dev-board-micro", device.name, text, True, hint)
