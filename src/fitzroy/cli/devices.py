"""``fitzroy devices`` and ``fitzroy doctor``: which Edge TPUs there are, and whether they work."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from fitzroy.base.errors import DeviceError
from fitzroy.cli.help import FirmwareFile, Json, Quiet, Verb
from fitzroy.cli.terminal import Column, Terminal

_STYLES = {"ok": "green", "note": "yellow", "failed": "red"}


def devices(
    rules: Annotated[
        bool,
        typer.Option("--udev-rules", help="Print udev rules that give users access, and stop."),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List the devices that can run compiled models.

    Use the name of a device for --device: "usb:2-1" is the accelerator on port 1 of bus 2, in any
    mode. Accelerators have no serial numbers. One that "needs firmware" gets it on first use.
    Simulators are always available. Modules on PCIe and Dev Boards, which run the same models with
    Google's runtime, are listed below.
    """
    from fitzroy.driver.device.boards import boards
    from fitzroy.driver.device.discovery import SIMULATORS, Found, found
    from fitzroy.driver.device.permissions import udev_rules
    from fitzroy.driver.transports.usb import libusb

    terminal = Terminal(json=json, quiet=quiet)
    if rules:
        if json:
            terminal.document("udev-rules", {"udev_rules": udev_rules()})
        else:
            terminal.raw(udev_rules())
        return
    problem: DeviceError | None = None
    attached: tuple[Found, ...] = ()
    try:
        attached = found(libusb())
    except DeviceError as error:
        problem = error
    rows = (*attached, *SIMULATORS)
    others = boards()
    if json:
        missing = None if problem is None else str(problem)
        listed = [asdict(row) for row in rows]
        boarded = [asdict(board) for board in others]
        document = {"devices": listed, "boards": boarded, "usb_problem": missing}
        terminal.document("devices", document)
        return
    terminal.table(
        [Column("device"), Column("mode"), Column("speed"), Column("firmware"), Column("")],
        [
            [row.name, row.mode, row.speed, "needed" if row.needs_firmware else "", row.text]
            for row in rows
        ],
    )
    for board in others:
        terminal.note(f"{board.text}: {board.hint}")
    if problem is not None:
        terminal.warn(f"no access to USB: {problem}")
    elif not attached:
        terminal.note("no accelerator is attached; see: fitzroy doctor")


def doctor(
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="NAME",
            help="Check one device, as fitzroy devices names it. [dim]default: all[/dim]",
            show_default=False,
        ),
    ] = "",
    firmware: FirmwareFile = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check what an accelerator needs, and run a small program on it.

    Checks libusb, udev rules, devices and the processes that use them, firmware and speed, and Edge
    TPUs on PCIe and on Dev Boards. Says how to fix what is missing, and compares answers of the
    device with the expected ones. A device that another process uses is left alone. Without an
    accelerator, the virtual one is tested. The exit code is 7 if a check fails.
    """
    from fitzroy.driver.runtime.devices import DeviceOptions
    from fitzroy.driver.runtime.doctor import Check, Verdict, examine

    terminal = Terminal(json=json, quiet=quiet)
    checks: list[Check] = []
    with terminal.working("checking"):
        checks.extend(examine(device, DeviceOptions(firmware=firmware)))
    failed = any(check.verdict is Verdict.BAD for check in checks)
    if json:
        listed: list[dict[str, Any]] = [
            asdict(check) | {"verdict": check.verdict.value} for check in checks
        ]
        terminal.document("doctor", {"checks": listed, "failed": failed})
    else:
        for check in checks:
            where = f"{check.device} " if check.device else ""
            text = f"{check.verdict.value:6}  {where}{check.name}: {check.text}"
            terminal.line(text, style=_STYLES[check.verdict.value])
            if check.hint and check.verdict is not Verdict.GOOD:
                terminal.line(check.hint, indent=8, whole=True)
    if failed:
        raise typer.Exit(DeviceError.exit_code)


devices_command = Verb(
    devices, ("fitzroy devices", "fitzroy devices --json", "fitzroy devices --udev-rules")
)
doctor_command = Verb(
    doctor,
    ("fitzroy doctor", "fitzroy doctor --device usb:2-1", "fitzroy doctor --device sim --json"),
)
