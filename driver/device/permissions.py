"""Who may open the device: rules for udev, and advice where the system says no."""

from __future__ import annotations

import sys
from pathlib import Path

from fitzroy.driver.transports.transport import AccessError, BusyError, TransferError
from fitzroy.hw_models.chips.beagle import BEAGLE

RULES_FILE = "/etc/udev/rules.d/60-fitzroy-edgetpu.rules"
"""Where rules belong."""

GROUP = "plugdev"
"""Group that gets access, besides whoever sits at the machine."""

_MODES = (
    (BEAGLE.usb.boot, "boot ROM, before it has its firmware"),
    (BEAGLE.usb.runtime, "run time"),
)


def udev_rules(group: str = GROUP) -> str:
    """Rules that give a group, and whoever sits at the machine, access to both modes.

    Args:
        group: name of the group.
    """
    lines = [f"# Coral USB Accelerator. Belongs into {RULES_FILE}; then, as root:"]
    lines.append("#   udevadm control --reload-rules && udevadm trigger")
    for mode, text in _MODES:
        lines.append(f"# {text}")
        lines.append(
            'SUBSYSTEM=="usb", '
            f'ATTR{{idVendor}}=="{mode.vendor:04x}", ATTR{{idProduct}}=="{mode.product:04x}", '
            f'MODE="0660", GROUP="{group}", TAG+="uaccess"'
        )
    return "\n".join(lines) + "\n"


_RULE_FOLDERS = ("etc/udev/rules.d", "run/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d")


def installed_rules(root: Path) -> tuple[Path, ...]:
    """Files of rules that name the device, for both of its modes between them.

    Args:
        root: where the folders of udev are.
    """
    wanted = {f"{mode.product:04x}" for mode, _ in _MODES}
    found: list[Path] = []
    missing = set(wanted)
    for file in (
        path for folder in _RULE_FOLDERS for path in sorted((root / folder).glob("*.rules"))
    ):
        try:
            text = file.read_text(errors="replace").lower()
        except OSError:
            continue
        named = {product for product in wanted if f'"{product}"' in text}
        if named:
            found.append(file)
            missing -= named
    return () if missing else tuple(found)


_ADVICE: dict[str, str] = {
    "linux": (
        f"write the output of `fitzroy devices --udev-rules` to {RULES_FILE}, run `udevadm control "
        f"--reload-rules && udevadm trigger` as root, and be in the group {GROUP}; in a container, "
        "pass the devices (docker: --device-cgroup-rule='c 189:* rmw' -v /dev/bus/usb:/dev/bus/usb)"
    ),
    "darwin": "end other programs that use the device; macOS needs no permissions for it",
    "win32": "install the driver WinUSB for both modes of the device, with Zadig or Google's setup",
}


def advice(error: TransferError) -> str:
    """What to do about an error at opening; empty for errors of another kind."""
    if isinstance(error, BusyError):
        return error.hint or "end the process that uses the device"
    if isinstance(error, AccessError):
        return _ADVICE.get(sys.platform, "give this user access to USB devices")
    return ""
