"""Time on the simulated chip: options that choose clock and host, and what to say of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import UsageError
from fitzroy.cli.files import write_file
from fitzroy.cli.terminal import Terminal

if TYPE_CHECKING:
    from fitzroy.report.run import Run

Functional = Annotated[
    bool, typer.Option("--functional", help="Compute outputs only, without timing.")
]
Clock = Annotated[
    str | None,
    typer.Option(
        "--clock",
        metavar="LEVEL",
        help="Performance level: max, high, medium or low. [dim]default: max[/dim]",
        show_default=False,
    ),
]
Usb = Annotated[
    int | None,
    typer.Option(
        "--usb",
        metavar="2|3",
        help="USB generation of the host's link. [dim]default: 3[/dim]",
        show_default=False,
    ),
]
HostName = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="A measured host in place of the first with that link, such as jetson_nano_5w_usb3.",
        show_default=False,
    ),
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="T.json",
        help="Write a trace of every engine for ui.perfetto.dev; T.json.gz compresses it.",
        show_default=False,
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="R.html",
        help="Write a report with timeline, layers and memories, as one HTML file.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast chip and host are.

    Attributes:
        clock: performance level.
        host: name of the host.
    """

    clock: str
    host: str

    @classmethod
    def of(cls, clock: str | None, usb: int | None, host: str | None) -> Speed:
        """What options ask for.

        Raises:
            UsageError: there is no such clock or host, or two of the options contradict.
        """
        from fitzroy.estimate import CLOCK, HOST
        from fitzroy.hw_models.chips.beagle import BEAGLE

        if usb is not None and host is not None:
            raise UsageError("--usb and --host both choose a link", hint="give one of them")
        clock = clock or CLOCK
        if clock not in BEAGLE.clocks:
            raise UsageError(f"there is no clock {clock!r}", reason=_choices(BEAGLE.clocks))
        if usb is not None:
            host = next((name for name in BEAGLE.hosts if name.endswith(f"_usb{usb}")), None)
            if host is None:
                raise UsageError(f"no host with USB {usb} was measured", hint="give 2 or 3")
        host = host or HOST
        if host not in BEAGLE.hosts:
            raise UsageError(f"there is no host {host!r}", reason=_choices(BEAGLE.hosts))
        return cls(clock, host)


def _choices(known: Mapping[str, object]) -> str:
    return f"there are {', '.join(known)}"


def document(run: Run | None) -> dict[str, Any] | None:
    """Figures of a run, for JSON; None if time was left out."""
    if run is None:
        return None
    from fitzroy.report import summary

    return summary.document(run)


def show(terminal: Terminal, run: Run) -> None:
    """Print the main figures of a run."""
    from fitzroy.report.summary import lines

    terminal.heading("time")
    for line in lines(run):
        terminal.line(line)


def write(run: Run, trace: Path | None, report: Path | None) -> list[str]:
    """Write trace and report; returns their names.

    Raises:
        UsageError: a file cannot be written.
    """
    from fitzroy.report import perfetto
    from fitzroy.report.html import page

    written = []
    if trace is not None:
        write_file(trace, perfetto.encode(perfetto.trace(run), os.fspath(trace)))
        written.append(os.fspath(trace))
    if report is not None:
        write_file(report, page(run).encode())
        written.append(os.fspath(report))
    return written
