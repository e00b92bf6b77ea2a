"""Time on the simulated chip: options that choose clock and host, and what to say of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.files import text_bytes
from fitzroy.cli.terminal import Column, Terminal
from fitzroy.hw_models.chips.hosts import HOSTS, LIBEDGETPU

if TYPE_CHECKING:
    from fitzroy.execution.estimate import Conditions
    from fitzroy.execution.hosts import Profile
    from fitzroy.report.run import Run

Functional = Annotated[
    bool,
    typer.Option(
        "--functional", help="Compute outputs only, without timing.", rich_help_panel="Timing"
    ),
]
Clock = Annotated[
    str | None,
    typer.Option(
        "--clock",
        metavar="LEVEL",
        help="Performance level: max, high, medium or low. [dim]default: max[/dim]",
        show_default=False,
        rich_help_panel="Timing",
    ),
]
Usb = Annotated[
    int | None,
    typer.Option(
        "--usb",
        metavar="2|3",
        help="USB generation of the host's link. [dim]default: 3[/dim]",
        show_default=False,
        rich_help_panel="Timing",
    ),
]
HostName = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="NAME|FILE.json",
        help="A measured host instead of the first one with that link, or a profile from "
        f"calibrate-host. Known are {', '.join(HOSTS)}.",
        show_default=False,
        rich_help_panel="Timing",
    ),
]
DriverName = Annotated[
    str | None,
    typer.Option(
        "--driver",
        metavar="NAME",
        help="Driver that moves the data: libedgetpu, with which hosts were measured, or fitzroy.",
        show_default=False,
        rich_help_panel="Timing",
    ),
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="T.json",
        help="Write a trace of every engine for ui.perfetto.dev; T.json.gz compresses it.",
        show_default=False,
        rich_help_panel="Reports",
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="R.html",
        help="Write a report with timeline, layers and memories, as one HTML file.",
        show_default=False,
        rich_help_panel="Reports",
    ),
]


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast chip and host are.

    Attributes:
        clock: performance level.
        profile: the host.
        driver: name of the driver.
    """

    clock: str
    profile: Profile
    driver: str

    @classmethod
    def of(
        cls,
        clock: str | None,
        usb: int | None,
        host: str | None,
        driver: str | None = None,
    ) -> Speed:
        """What options ask for.

        Raises:
            UsageError: there is no such clock, host or driver, or two of the options contradict.
            FormatError: a file of a host is no profile.
        """
        from fitzroy.execution.estimate import CLOCK, HOST, Conditions
        from fitzroy.hw_models.chips.beagle import BEAGLE

        if usb is not None and host is not None:
            raise UsageError("--usb and --host both choose a link", hint="give one of them")
        if usb is not None:
            host = next((name for name in BEAGLE.hosts if name.endswith(f"_usb{usb}")), None)
            if host is None:
                raise UsageError(f"no host with USB {usb} was measured", hint="give 2 or 3")
        conditions = Conditions(clock or CLOCK, host or HOST, driver or LIBEDGETPU)
        return cls(conditions.clock, conditions.check(), conditions.driver)

    @property
    def conditions(self) -> Conditions:
        """The same for estimates."""
        from fitzroy.execution.estimate import Conditions

        return Conditions(self.clock, self.profile, self.driver)


@dataclass(frozen=True)
class Assumed:
    """What the timing model assumes.

    Attributes:
        clock: performance level of the chip.
        usb: generation of the host's link.
        host: the host.
        driver: what moves the data.
    """

    clock: Clock = None
    usb: Usb = None
    host: HostName = None
    driver: DriverName = None

    @property
    def speed(self) -> Speed:
        """How fast chip and host are.

        Raises:
            UsageError: as `Speed.of`.
            FormatError: as `Speed.of`.
        """
        return Speed.of(self.clock, self.usb, self.host, self.driver)


def estimated_time(estimate: dict[str, Any]) -> str:
    """The short figures of an inference, as text."""
    bound = ", ".join(f"{what} {share:.0%}" for what, share in estimate["bound"].items())
    return (
        f"{estimate['total_us'] / 1000:.3f} ms on {estimate['host']}: "
        f"{estimate['cycles']:,.0f} cycles, bound by {bound}"
    )


def whole_time(whole: dict[str, Any]) -> str:
    """The parts of an inference of a whole model, as text."""
    parts = ", ".join(f"{part['on']} {part['us'] / 1000:.3f} ms" for part in whole["parts"])
    return f"{whole['total_us'] / 1000:.3f} ms on {whole['host']}: {parts}"


def document(run: Run | None) -> dict[str, Any] | None:
    """Figures of a run, for JSON; None if time was left out."""
    if run is None:
        return None
    from fitzroy.report import summary

    return summary.document(run)


def show(terminal: Terminal, run: Run) -> None:
    """Print the main figures of a run."""
    from fitzroy.report import summary

    terminal.heading("time")
    terminal.fields(summary.fields(run))
    terminal.line()
    titles, rows = summary.longest(run)
    columns = [
        Column(
            title,
            right=number not in summary.TEXTS,
            short=number == 1,
            # What the others tell in part goes where there is no room for all.
            spare=title == "op busy",
        )
        for number, title in enumerate(titles)
    ]
    terminal.table(columns, rows)


def files(run: Run, trace: Path | None, report: Path | None) -> list[tuple[Path, bytes]]:
    """Files that hold trace and report."""
    from fitzroy.report import perfetto
    from fitzroy.report.html import page

    found = []
    if trace is not None:
        found.append((trace, perfetto.encode(perfetto.trace(run), os.fspath(trace))))
    if report is not None:
        found.append((report, text_bytes(page(run))))
    return found
