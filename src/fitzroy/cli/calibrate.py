"""``fitzroy calibrate-host``: the constants of one's own host."""

from __future__ import annotations

import json as encoding
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import UsageError
from fitzroy.cli import timing
from fitzroy.cli.compiled import DeviceChoice
from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.help import DeviceName, FirmwareFile, Printed, Verb
from fitzroy.cli.terminal import Column, Terminal, count
from fitzroy.report import units

if TYPE_CHECKING:
    from fitzroy.measurement.calibration import Fit, Sample

_RUNS = 100
_OPERATOR_RUNS = 20
_MOST_ERROR = 10
"""Percent of a measured time."""

_UNITS = {
    "fixed": "ms per inference",
    "link": "MB/s to the chip",
    "large": "us before a transfer of more than 64 KiB",
    "output_byte": "ns per byte of outputs",
    "output_piece": "ns per position in y and x of outputs",
    "compute": "times what operators on the host take a reference processor",
    "element": "ns per element that operators on the host only move",
}


@dataclass(frozen=True)
class Accelerator:
    """What is measured.

    Attributes:
        device: the device.
        clock: its performance level.
        usb: generation of its port.
        firmware: its firmware.
    """

    device: DeviceName = None
    clock: timing.Clock = None
    usb: Annotated[
        int,
        typer.Option("--usb", metavar="2|3", help="USB generation of the accelerator's port."),
    ] = 3
    firmware: FirmwareFile = None

    @property
    def bus(self) -> str:
        """Its bus.

        Raises:
            UsageError: there is no such generation of USB.
        """
        from fitzroy.hw_models.chips.hosts import USB2, USB3

        if self.usb not in (2, 3):
            raise UsageError(f"there is no USB {self.usb}", hint="give 2 or 3")
        return USB2 if self.usb == 2 else USB3


def calibrate_host(
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            metavar="HOST.json",
            help="Write the profile to this file.",
            show_default=False,
        ),
    ],
    accelerator: Accelerator,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", min=1, help="Inferences of every program.")
    ] = _RUNS,
    *,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="NAME|FILE.json",
            help="Measure only operators on this processor, without an accelerator, and take "
            "everything else from this host.",
            show_default=False,
        ),
    ] = None,
    printed: Printed,
) -> None:
    """Measure this host: the time to drive an accelerator, and the speed of its own operators.

    Ten small programs are compiled and run on a device; one does almost nothing, others have large
    inputs, outputs or parameters. Five constants of the timing model are fitted to their median
    times: the minimum time of an inference, the rate of the link, the cost of a large transfer, and
    the costs of bytes and positions of outputs. Each program is then predicted from the others to
    show the accuracy.

    Six operators also run on this processor, on LiteRT if it is installed and on numpy otherwise,
    to predict the time of operators on the host.

    The profile is for FitzRoy's own driver: use it with sim and bench as --host HOST.json --driver
    fitzroy. On a simulated device, the times are those of the simulation and say nothing about the
    host.
    """
    from fitzroy.execution.estimate import CLOCK, HOST, Conditions
    from fitzroy.execution.hosts import FORMAT, SUFFIX, VERSION, find, values
    from fitzroy.hw_models.chips.hosts import FITZROY, LIBEDGETPU
    from fitzroy.measurement import calibration, operators

    terminal = printed.terminal
    bus = accelerator.bus
    if not output.name.endswith(SUFFIX):
        raise UsageError(
            "the name of a profile ends otherwise",
            reason=f"{output.name!r}, not with {SUFFIX}",
            hint="--host tells files from names by it",
        )
    check_output(output, [])
    conditions = Conditions(accelerator.clock or CLOCK, HOST, FITZROY)
    conditions.check()
    found = None
    if like is None:
        base = calibration.usual(bus)
        chosen = DeviceChoice(accelerator.device, None, accelerator.firmware, conditions.clock)
        with chosen.open() as opened, terminal.working("compiling") as say:
            ran_on = opened.description
            programs = calibration.trials(say)
            measured = calibration.measure(opened, programs, runs, progress=say)
            say("fitting")
            source = f"measured on {ran_on}"
            found = calibration.calibrate(programs, measured, base, conditions, source)
        host, driver = found.host, FITZROY
    else:
        if accelerator.device is not None:
            raise UsageError("--like measures no device", hint="leave out --like or --device")
        host, driver = find(like).host, LIBEDGETPU
    with terminal.working("operators") as say:
        computed = operators.measure(min(runs, _OPERATOR_RUNS), progress=say)
    document = {
        "clock": conditions.clock,
        "ran_on": computed.ran_on if found is None else ran_on,
        "runs": runs,
        "format": FORMAT,
        "version": VERSION,
        "driver": driver,
        "constants": values(computed.of(host, computed.ran_on)),
        "samples": [] if found is None else _samples(found.samples, found.fit),
        "operators": _samples(computed.samples, computed.fit),
    }
    write_file(output, (encoding.dumps(document, indent=2) + "\n").encode())
    if printed.json:
        terminal.document("calibrate-host", document | {"written": [os.fspath(output)]})
        return
    _show(terminal, document)
    terminal.note(f"wrote {output}")


def _samples(samples: Sequence[Sample], fit: Fit) -> list[dict[str, Any]]:
    return [
        {"program": sample.name, "microseconds": sample.measured, "error": error, "left_out": alone}
        for sample, error, alone in zip(samples, fit.errors, fit.left_out, strict=True)
    ]


def _show(terminal: Terminal, document: dict[str, Any]) -> None:
    runs = count(document["runs"], "inference")
    programs = count(len(document["samples"]), "program")
    terminal.note(f"{runs} of {programs} on {document['ran_on']}, and of operators")
    terminal.table(
        [Column("constant"), Column("value", right=True), Column("unit")],
        [[name, f"{document['constants'][name]:.3g}", unit] for name, unit in _UNITS.items()],
    )
    columns = [
        Column("program"),
        *(Column(name, right=True) for name in ("measured", "error", "predicted from others")),
    ]
    terminal.table(
        columns,
        [
            [
                item["program"],
                units.time(item["microseconds"]),
                _percent(item["error"]),
                _percent(item["left_out"]),
            ]
            for item in (*document["samples"], *document["operators"])
        ],
    )
    worst = max((abs(item["error"]) for item in document["samples"]), default=0.0)
    if worst > _MOST_ERROR:
        terminal.warn(
            f"the constants miss a program by {worst:.0f} %, of at most {_MOST_ERROR} % that can "
            "be trusted",
            ["give more --runs, on a host that does nothing else"],
        )


def _percent(error: float | None) -> str:
    return "unknown" if error is None else f"{error:+.1f} %"


calibrate_command = Verb(
    calibrate_host,
    (
        "fitzroy calibrate-host --device usb -o here.json",
        "fitzroy calibrate-host --usb 2 --clock high --runs 500 -o pi.json",
        "fitzroy calibrate-host --like raspberry_pi_4_usb3 -o my_pi.json",
    ),
)
